"""Everything that harvest must know of JAX beyond its documented API.

Each function says why it is here. All were tried on JAX 0.10.2 and 0.12.0.1. Nothing from
`jax._src` is imported; what is undocumented is the meaning of equation parameters and of two
registration tables.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir

Jaxpr = Any  # `ClosedJaxpr` or `Jaxpr`: the two are one class from JAX 0.12 on.


def _debug_effect() -> type:
    """The class of the effect of `jax.debug.callback`, which has no public name."""
    (effect,) = jax.make_jaxpr(lambda x: jax.debug.callback(lambda _: None, x))(0.0).effects
    return type(effect)


class SowEffect(_debug_effect()):
    """Keeps a sow alive and unique through every transformation of JAX.

    A sow without an effect is dropped by the partial evaluation of jit, scan, cond and checkpoint
    when its value is unused, and doubled by checkpoint when it is used. JAX allows the effect of
    `jax.debug.callback` in every construct, by `isinstance`, and drops or doubles it in none.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(SowEffect)

    def __str__(self) -> str:
        return "Sow"


def make_primitive(
    name: str,
    *,
    impl: Callable[..., list],
    abstract_eval: Callable[..., list],
    jvp: Callable[..., tuple[Sequence, Sequence]],
    batch: Callable[..., tuple[Sequence, Sequence[int]]],
    transpose: Callable[..., Sequence] | None = None,
    effectful: bool = False,
) -> jex.Primitive:
    """A primitive with several results and one rule for each transformation."""
    primitive = jex.Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(impl)
    if effectful:
        primitive.def_effectful_abstract_eval(
            lambda *a, **k: (abstract_eval(*a, **k), {SowEffect()})
        )
    else:
        primitive.def_abstract_eval(abstract_eval)
    ad.primitive_jvps[primitive] = jvp
    if transpose is not None:
        ad.primitive_transposes[primitive] = transpose
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=True))
    return primitive


def abstract_array(shape: tuple[int, ...], dtype: Any) -> Any:
    """What an `abstract_eval` rule returns for an array."""
    return jax.core.ShapedArray(shape, dtype)  # pyright: ignore[reportAttributeAccessIssue]


def is_zero_tangent(tangent: Any) -> bool:
    """Whether a jvp rule got a symbolic zero."""
    return isinstance(tangent, ad.Zero)


def bind(eqn: jex.JaxprEqn, args: Sequence[Any]) -> list[Any]:
    """Evaluate one equation as it stands, as `jax.core.eval_jaxpr` does with all of them."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def evaluate(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a closed jaxpr, equation by equation."""
    return jax.core.eval_jaxpr(*raw(jaxpr), *args)  # pyright: ignore[reportAttributeAccessIssue]


def as_aval(value: Any, aval: Any) -> jax.Array:
    """`value` with exactly the dtype and weak type of `aval` (no public cast gives a weak type)."""
    value = value if isinstance(value, jax.Array) else jnp.asarray(value, aval.dtype)
    have = jax.typeof(value)
    weak = getattr(aval, "weak_type", False)
    if have.dtype == aval.dtype and getattr(have, "weak_type", False) == weak:
        return value
    return lax.convert_element_type_p.bind(
        value, new_dtype=aval.dtype, weak_type=weak, sharding=None
    )


def host_scalar(value: Any, aval: Any) -> Any:
    """A literal as a NumPy scalar, or as a Python number if its type is weak."""
    value = np.asarray(value, aval.dtype)[()]
    return value.item() if aval.weak_type else value


def raw(jaxpr: Jaxpr) -> tuple[Any, list[Any]]:
    """The equations' holder and the constants, of an open or a closed jaxpr."""
    return getattr(jaxpr, "jaxpr", jaxpr), list(getattr(jaxpr, "consts", ()))


def has_sow(program: Jaxpr | jex.JaxprEqn) -> bool:
    """Whether a sow stands anywhere inside of a jaxpr or equation, by the effects it has."""
    return any(isinstance(effect, SowEffect) for effect in program.effects)


def _is_jaxpr(value: Any) -> bool:
    return isinstance(value, jex.Jaxpr | jex.ClosedJaxpr)


def subjaxprs(eqn: jex.JaxprEqn) -> list[Jaxpr]:
    """The jaxprs among the parameters of an equation, one level down, with their constants."""
    return [jaxpr for value in eqn.params.values() for jaxpr in _jaxprs_in(value)]


def _jaxprs_in(value: Any) -> list[Jaxpr]:
    return [
        item for item in (value if isinstance(value, tuple | list) else (value,)) if _is_jaxpr(item)
    ]


def map_equations(jaxpr: Jaxpr, fn: Callable[[jex.JaxprEqn], jex.JaxprEqn]) -> Jaxpr:
    """`jaxpr` with `fn` applied to each of its own equations."""
    if raw(jaxpr)[0] is not jaxpr:
        return jaxpr.replace(jaxpr=map_equations(jaxpr.jaxpr, fn))
    return jaxpr.replace(eqns=[fn(eqn) for eqn in jaxpr.eqns])


def map_jaxprs(params: dict[str, Any], fn: Callable[[Jaxpr], Jaxpr]) -> dict[str, Any]:
    """The parameters of an equation with `fn` applied to each jaxpr among them."""
    one = {k: fn(v) for k, v in params.items() if _is_jaxpr(v)}
    several = {
        k: tuple(map(fn, v))
        for k, v in params.items()
        if isinstance(v, tuple) and v and all(map(_is_jaxpr, v))
    }
    return params | one | several


def scan_sizes(eqn: jex.JaxprEqn) -> tuple[int, int]:
    """The numbers of constants and of carried values of a scan (`ft_in` replaced them in 0.12)."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    num_consts, num_carry = (len(t) for t in eqn.params["ft_in"].unpack()[:2])
    return num_consts, num_carry


def scan_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """What `jax.lax.scan` must be given to make the same loop again."""
    return {k: eqn.params[k] for k in ("length", "reverse", "unroll")}


def jit_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """What `jax.jit` must be given to make the same call again, apart from shardings.

    Donation is left out: an inner jit never donates, for its operands belong to the outer program.
    """
    return {k: eqn.params[k] for k in ("keep_unused", "inline")}


def jit_shardings(eqn: jex.JaxprEqn) -> tuple[list[Any], list[Any]]:
    """The shardings of operands and results that a jit call fixes, None where it fixes none."""

    def fixed(shardings: Sequence[Any]) -> list[Any]:
        return [s if isinstance(s, jax.sharding.Sharding) else None for s in shardings]

    return fixed(eqn.params["in_shardings"]), fixed(eqn.params["out_shardings"])


def before_batching(primitive: jex.Primitive, rewrite: Callable[[dict, Sequence], dict]) -> None:
    """Let `rewrite(params, dims)` see each equation with sows in it before `vmap` batches it.

    After batching nothing tells a `vmap` of a loop from a loop of a `vmap`, or the branches of a
    cond from what stands around it. The table of batching rules is public, its entries for the
    constructs of JAX are not documented. Equations without a sow are not touched.
    """
    table = batching.fancy_primitive_batchers
    batch_as_before = table[primitive]

    def batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        if any(has_sow(jaxpr) for value in params.values() for jaxpr in _jaxprs_in(value)):
            params = rewrite(params, dims)
        return batch_as_before(axis_data, args, dims, **params)

    table[primitive] = batch
