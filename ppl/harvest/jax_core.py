"""Undocumented JAX: all that harvest uses beyond the documented API.

All functions were tried on JAX 0.10.2 and 0.12.0.1. Nothing from `jax._src` is imported. Most of
what is undocumented is the meaning of equation parameters; `jax_tables` has the tables of rules.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from ppl.harvest.jaxprs import Jaxpr, jaxprs_in, raw

_MAX_CLOSURES = 100  # around the rule of a function


def _debug_effect() -> type:
    """Class of the effect of `jax.debug.callback`, which has no public name."""
    (effect,) = jax.make_jaxpr(lambda x: jax.debug.callback(lambda _: None, x))(0.0).effects
    return type(effect)


class _PersistentEffect(_debug_effect()):
    """Effect that keeps an equation alive and unique through every transformation of JAX.

    A sow without an effect is dropped by the partial evaluation of jit, scan, cond and checkpoint
    when its value is unused, and doubled by checkpoint when it is used. JAX allows the effect of
    `jax.debug.callback` in every construct, by `isinstance`, and drops or doubles it in none.
    """

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Effect")


class SowEffect(_PersistentEffect):
    """Effect of a sow."""


class PerformEffect(_PersistentEffect):
    """Effect of an operation for `handle`. Harvest ignores it, as it is not a sow."""


# `jax.export` finds the class of a serialized effect by a search in this list.
mlir.lowerable_effects.add_type(SowEffect)


def make_primitive(
    name: str,
    *,
    impl: Callable[..., list],
    abstract_eval: Callable[..., list],
    jvp: Callable[..., tuple[Sequence, Sequence]],
    batch: Callable[..., tuple[Sequence, Sequence[int]]],
    transpose: Callable[..., Sequence] | None = None,
    effect: Any = None,
    batch_always: bool = False,
    batch_by_name: bool = False,
    batch_by_size: bool = False,
) -> jex.Primitive:
    """Primitive with several results and one rule for each transformation.

    `effect` is its effect, or a function of the parameters that gives a set of effects.
    With `batch_always`, `batch(size, args, dims)` is called for every `vmap` around, also for one
    that maps no operand. With `batch_by_name`, `batch(name, args, dims)` is given the `axis_name`
    of a `vmap` that maps an operand, None if it has none; with `batch_by_size`,
    `batch(size, args, dims)` is given the size of that `vmap`. JAX then looks only in
    `fancy_primitive_batchers`, not in `primitive_batchers`; both tables are public.
    """
    primitive = jex.Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(impl)
    if callable(effect):
        primitive.def_effectful_abstract_eval(lambda *a, **k: (abstract_eval(*a, **k), effect(**k)))
    elif effect is not None:
        primitive.def_effectful_abstract_eval(lambda *a, **k: (abstract_eval(*a, **k), {effect}))
    else:
        primitive.def_abstract_eval(abstract_eval)
    ad.primitive_jvps[primitive] = jvp
    if transpose is not None:
        ad.primitive_transposes[primitive] = transpose
    if batch_always:
        batching.fancy_primitive_batchers[primitive] = lambda axis, *a, **k: batch(
            axis.size, *a, **k
        )
    elif batch_by_name or batch_by_size:

        def batch_mapped(axis: Any, args: Any, dims: Any, **params: Any) -> Any:
            if all(dim is None for dim in dims):
                outs = primitive.bind(*args, **params)
                return outs, [None] * len(outs)
            name = axis.name if isinstance(axis.name, str) else None
            return batch(axis.size if batch_by_size else name, args, dims, **params)

        batching.fancy_primitive_batchers[primitive] = batch_mapped
    else:
        batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, mlir.lower_fun(impl, multiple_results=True))
    return primitive


def abstract_array(
    shape: tuple[int, ...], dtype: Any, weak_type: bool = False, operands: Sequence[Any] = ()
) -> Any:
    """Abstract array for an `abstract_eval` rule; it varies over shards as `operands` do."""
    make = jax.core.ShapedArray  # pyright: ignore[reportAttributeAccessIssue]
    for operand in operands:
        if varying_axes(operand):
            spec = PartitionSpec(*[None] * len(shape))
            sharding = jax.NamedSharding(operand.sharding.mesh, spec)
            varying = operand.manual_axis_type
            return make(shape, dtype, weak_type, sharding=sharding, manual_axis_type=varying)
    return make(shape, dtype, weak_type)


def batched_aval(aval: Any, size: int, operands: Sequence[Any] = ()) -> Any:
    """Abstract array with a batch axis in front; it varies over shards as `operands` do."""
    weak = getattr(aval, "weak_type", False)
    return abstract_array((size, *aval.shape), aval.dtype, weak, operands)


# (array, axis or None, size) -> the array with the batch axis in front.
batched_in_front = batching.bdim_at_front


def is_zero_tangent(tangent: Any) -> bool:
    """Whether a tangent in a jvp rule is a symbolic zero."""
    return isinstance(tangent, ad.Zero)


def is_linear_operand(operand: Any) -> bool:
    """Whether a transpose rule must give the cotangent of an operand, and has no value of it."""
    return ad.is_undefined_primal(operand)


# Cotangent of a result as an array, for a transpose rule.
instantiate_zeros = ad.instantiate_zeros


def zero_tangent(primal: Any) -> Any:
    """Symbolic zero as the tangent of a value, for a jvp rule."""
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def bind(eqn: jex.JaxprEqn, args: Sequence[Any]) -> list[Any]:
    """Evaluate one equation as it stands, as `jax.core.eval_jaxpr` does with all of them."""
    with eqn.ctx.manager:
        out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(eqn.params))
    return list(out) if eqn.primitive.multiple_results else [out]


def evaluate(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Results of a jaxpr, evaluated equation by equation."""
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


def has_sow(program: Jaxpr | jex.JaxprEqn) -> bool:
    """Whether a jaxpr or equation lists the effect of a sow, at any depth."""
    return _has(program, SowEffect)


def has_effect(program: Jaxpr | jex.JaxprEqn) -> bool:
    """Whether a jaxpr or equation performs an effect, or sows a value, at any depth."""
    return _has(program, _PersistentEffect)


def _has(program: Jaxpr | jex.JaxprEqn, kind: type) -> bool:
    return any(isinstance(effect, kind) for effect in program.effects)


def only_sows(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr has no effects but sows and the output of `jax.debug`."""
    return all(type(effect) in (SowEffect, _PersistentEffect.__base__) for effect in jaxpr.effects)


def acts(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation has an effect besides its results.

    JAX also counts the name of a mesh axis as an effect, whose class has no public name.
    """
    return any(type(effect).__name__ != "NamedAxisEffect" for effect in eqn.effects)


def is_opaque(eqn: jex.JaxprEqn) -> bool:
    """Whether JAX expands an equation only when it compiles, and shows no jaxpr until then."""
    return "_prim" in eqn.params


def subjaxprs(eqn: jex.JaxprEqn) -> list[Jaxpr]:
    """Jaxprs among the parameters of an equation, one level down, with their constants."""
    if is_opaque(eqn):
        return [_expand_primitive(eqn)] if has_sow(eqn) else []
    return [jaxpr for value in eqn.params.values() for jaxpr in jaxprs_in(value)]


def can_batch(eqn: jex.JaxprEqn) -> bool:
    """Whether JAX has a batching rule for a primitive, in the table of all batching rules."""
    return eqn.primitive in batching.fancy_primitive_batchers


def scan_sizes(eqn: jex.JaxprEqn) -> tuple[int, int]:
    """Numbers of constants and of carried values of a scan (`ft_in` replaced them in 0.12)."""
    if "num_consts" in eqn.params:
        return eqn.params["num_consts"], eqn.params["num_carry"]
    num_consts, num_carry = (len(t) for t in eqn.params["ft_in"].unpack()[:2])
    return num_consts, num_carry


def scan_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """Options of `jax.lax.scan` to make the same loop again."""
    return {k: eqn.params[k] for k in ("length", "reverse", "unroll")}


def jit_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """Options of `jax.jit` to make the same call again, apart from options by operand."""
    return {k: eqn.params[k] for k in ("keep_unused", "inline")}


def jit_donated(eqn: jex.JaxprEqn) -> Sequence[bool]:
    """Mask of the operands that a jit call donates, which matters if the program runs eagerly."""
    return eqn.params["donated_invars"]


def jit_shardings(eqn: jex.JaxprEqn) -> tuple[list[Any], list[Any]]:
    """Shardings of operands and results that a jit call fixes; None where it fixes none."""

    def fixed(shardings: Sequence[Any]) -> list[Any]:
        return [s if isinstance(s, jax.sharding.Sharding) else None for s in shardings]

    return fixed(eqn.params["in_shardings"]), fixed(eqn.params["out_shardings"])


def checkpoint_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """Options of `jax.checkpoint` to make the same call again."""
    return {k: eqn.params[k] for k in ("policy", "prevent_cse")}


def shards(eqn: jex.JaxprEqn) -> dict[Any, int]:
    """Mesh axes that a shard_map makes manual, with their sizes, in the order of the mesh."""
    manual = eqn.params["newly_manual_axes"]
    return {axis: n for axis, n in eqn.params["mesh"].shape.items() if axis in manual}


def shard_specs(eqn: jex.JaxprEqn) -> tuple[Sequence[Any], Sequence[Any]]:
    """Partition specs of the operands and of the results of a shard_map."""
    return eqn.params["in_specs"], eqn.params["out_specs"]


def axes_in(spec: PartitionSpec) -> set[Any]:
    """Mesh axes over which a spec splits an operand."""
    parts = (part if isinstance(part, tuple) else (part,) for part in spec)
    return {axis for part in parts for axis in part if axis is not None}


def find_varied_axes(eqn: jex.JaxprEqn, axes: Sequence[Any]) -> list[Any]:
    """Mesh axes over which results may differ even if operands do not."""
    if not axes:
        return []
    if eqn.primitive.name == "axis_index":
        named = eqn.params["axis_name"]
        return [axis for axis in axes if axis in (named if isinstance(named, tuple) else (named,))]
    tells = "axis_name" in eqn.params or "axes" in eqn.params or is_opaque(eqn) or subjaxprs(eqn)
    return list(axes) if tells else []


def dtype_of(atom: Any) -> Any:
    """Dtype of a variable or a literal, which JAX's annotations do not promise."""
    return atom.aval.dtype


def shape_of(atom: Any) -> tuple[int, ...]:
    """Shape of a variable or a literal, which JAX's annotations do not promise."""
    return atom.aval.shape


def is_same_kind_of_key(unwrapped: jex.JaxprEqn, wrapped: jex.JaxprEqn) -> bool:
    """Whether an unwrapped key is wrapped again with the same implementation."""
    return dtype_of(unwrapped.invars[0]) == dtype_of(wrapped.outvars[0])


def draws_by_batch(eqn: jex.JaxprEqn) -> bool:
    """Whether keys may draw other numbers under `vmap` than one by one: all but Threefry keys."""
    names = [str(getattr(v.aval, "dtype", "")) for v in eqn.invars]
    return any(name.startswith("key<") and name != "key<fry>" for name in names)


def splits_alike(eqn: jex.JaxprEqn) -> bool:
    """Whether the first keys of a split are the same for every number of keys.

    For Threefry in JAX's default form they are: `split(key, 2)[0] == split(key, 3)[0]`.
    """
    is_threefry = str(dtype_of(eqn.invars[0])) == "key<fry>"
    by_position = getattr(eqn.ctx, "threefry_partitionable", False)
    return is_threefry and by_position and len(eqn.params["shape"]) == 1


def shard_options(eqn: jex.JaxprEqn) -> dict[str, Any]:
    """Options of `jax.shard_map` to make the same call again."""
    params = eqn.params
    options = {"mesh": params["mesh"], "check_vma": params["check_vma"]}
    return options | {"axis_names": params["newly_manual_axes"]}


def reshard_operand(value: jax.Array, eqn: jex.JaxprEqn, spec: PartitionSpec) -> jax.Array:
    """Operand of a shard_map, with its sharding in its type if the mesh has explicit axes."""
    mesh = eqn.params["mesh"]
    explicit = jax.sharding.AxisType.Explicit in mesh.axis_types
    return jax.reshard(value, jax.NamedSharding(mesh, spec)) if explicit else value


def varying_axes(aval: Any) -> frozenset[Any]:
    """Manual mesh axes over which a value differs between shards, if JAX keeps track."""
    return aval.manual_axis_type.varying if hasattr(aval, "manual_axis_type") else frozenset()


def custom_body(eqn: jex.JaxprEqn) -> tuple[Jaxpr, Sequence[int]]:
    """Code of a function with a custom derivative, and the positions of the operands it reads."""
    everything = range(len(eqn.invars))
    if "call_jaxpr" in eqn.params:
        return eqn.params["call_jaxpr"], everything
    if "const_lengths" in eqn.params:  # custom_linear_solve
        lengths = eqn.params["const_lengths"]
        before = sum(lengths[:2])
        after = sum(lengths)
        operands = (*range(before, before + lengths.solve), *everything[after:])
        return eqn.params["jaxprs"].solve, operands
    return _expand_primitive(eqn), everything


_expansions: weakref.WeakKeyDictionary[Any, Jaxpr] = weakref.WeakKeyDictionary()


def _expand_primitive(eqn: jex.JaxprEqn) -> Jaxpr:
    """Code of a primitive that JAX expands before it compiles (custom_root in 0.12)."""
    primitive = eqn.params["_prim"]
    if primitive not in _expansions:

        def expand(*leaves: Any) -> Any:
            return primitive.expand(*jax.tree.unflatten(primitive.in_tree, leaves))

        _expansions[primitive] = jax.make_jaxpr(expand)(*(v.aval for v in eqn.invars))
    return _expansions[primitive]


def is_read_by_method(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation was made by `array.at[index].get`, which has a mode of its own.

    For one index, JAX makes the same equation for every mode that keeps it in range.
    """
    traceback = eqn.source_info.traceback
    return traceback is not None and any(
        frame.function_name.rpartition(".")[2] == "get"
        and frame.file_name.endswith("array_methods.py")
        for frame in traceback.frames
    )


def is_traced(x: Any) -> bool:
    """Whether a value is a tracer, not known yet."""
    return isinstance(x, jax.core.Tracer)  # pyright: ignore[reportAttributeAccessIssue]


def is_concrete(x: Any) -> bool:
    """Whether the numbers of a value are known now, be it differentiated or not."""
    return not is_traced(x) or x.to_concrete_value() is not None


def rule_of_custom_jvp(eqn: jex.JaxprEqn) -> Callable[..., Any] | None:
    """The rule of a function with `jax.custom_jvp`, None if it is not the rule as it was written.

    Each time that JAX traces the function, it keeps the rule, or the function that traces it, in
    the closure of a new function. The rule itself has one transformation, of its arguments.
    """
    found: Any = eqn.params.get("jvp_jaxpr_fun")
    for _ in range(_MAX_CLOSURES):
        if transforms := getattr(found, "transforms", ()):
            return found.f if len(transforms) == 1 else None
        cells = getattr(getattr(found, "f", found), "__closure__", None) or ()
        inner = [cell.cell_contents for cell in cells]
        inner = [x for x in inner if hasattr(x, "transforms") or callable(x)]
        if len(inner) != 1:
            return None
        (found,) = inner
    return None


def is_ref(aval: Any) -> bool:
    """Whether an abstract value is a mutable array, whose class has no public name."""
    return hasattr(aval, "inner_aval")
