"""Guards on what `ppl.harvest.jax_core` relies on beyond the documented API of JAX.

A failure here says what has changed in JAX, before anything built on it fails in a less readable way.
"""

# ruff: noqa: E501

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core as jex
from jax.interpreters import ad, batching
from jax.sharding import PartitionSpec

from ppl.harvest import jax_core, jaxprs, leaf_values, reap
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.sowing import sow_p
from ppl.harvest.vmapped_cond import vmapped_cond_p

from .calls import over_shards, root, solved, with_vjp
from .checks import TAG, assert_same, equations
from .constructs import put

X = jnp.float32(1.0)
XS = jnp.array([1.0, 2.0])


def the(primitive: str, f: Callable[..., Any], *args: Any) -> jex.JaxprEqn:
    """The one equation with this primitive."""
    (eqn,) = [e for e in equations(f, *args) if e.primitive.name == primitive]
    return eqn


def unused(x: Any) -> Any:
    """A sow whose value nothing needs: only its effect keeps it."""
    put(x, "append")
    return 2 * x


@jax.custom_jvp
def with_jvp(x: Any) -> Any:
    return unused(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), 2 * tangents[0]))

KEPT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "jit": (jax.jit(unused), X),
    "vmap": (jax.vmap(unused), XS),
    "scan": (lambda x: lax.scan(lambda c, _: (unused(c), None), x, None, length=2)[0], X),
    "while": (lambda x: lax.while_loop(lambda c: c < 3, unused, x), X),
    "cond": (lambda x: lax.cond(x > 0, unused, lambda x: x, x), X),
    "checkpoint": (jax.checkpoint(unused), X),
    "custom_jvp": (with_jvp, X),
    "grad": (jax.grad(unused), X),
    "grad-of-jit": (jax.grad(jax.jit(unused)), X),
    "grad-of-scan": (jax.grad(lambda x: lax.scan(lambda c, _: (unused(c), None), x, None, length=2)[0]), X),
    "grad-of-cond": (jax.grad(lambda x: lax.cond(x > 0, unused, lambda x: x, x)), X),
    "grad-of-checkpoint": (jax.grad(jax.checkpoint(unused)), X),
    "linearize": (lambda x: jax.linearize(jax.jit(unused), x)[0], X),
}  # fmt: skip


@pytest.mark.parametrize(("f", "x"), KEPT.values(), ids=KEPT)
def test_the_effect_keeps_an_unused_sow_exactly_once(f: Callable[[Any], Any], x: Any) -> None:
    """The effect of `jax.debug.callback` is allowed in every construct, for subclasses too."""
    assert [e.primitive.name for e in equations(f, x)].count("sow") == 1
    assert jax_core.has_sow(jax.make_jaxpr(f)(x))
    jax.block_until_ready(jax.jit(f)(x))


def test_the_effect_is_a_subclass_of_the_one_of_debug_callback() -> None:
    (effect,) = jax.make_jaxpr(lambda x: jax.debug.callback(lambda _: None, x))(0.0).effects
    assert isinstance(jax_core.SowEffect(), type(effect))
    assert isinstance(jax_core.SowEffect(), jex.Effect)
    assert jax_core.SowEffect() == jax_core.SowEffect()
    assert hash(jax_core.SowEffect()) == hash(jax_core.SowEffect())
    assert str(jax_core.SowEffect()) == "Sow"
    assert not jax_core.has_sow(
        jax.make_jaxpr(lambda x: jax.debug.callback(lambda _: None, x))(0.0)
    )


def test_a_program_with_sows_runs_without_harvest() -> None:
    for f, x in KEPT.values():
        assert jnp.shape(f(x)) == jnp.shape(x)


SCAN = lambda x: lax.scan(lambda c, v: (c + put(v, "append"), c), x, XS, reverse=True, unroll=2)  # noqa: E731


def test_the_parameters_of_scan() -> None:
    eqn = the(
        "scan", lambda x, y: lax.scan(lambda c, v: ((c[0] + v, c[1] * y), c), (x, x), XS), X, X
    )
    assert jax_core.scan_sizes(eqn) == (1, 2)
    assert jax_core.scan_options(the("scan", SCAN, X)) == {
        "length": 2,
        "reverse": True,
        "unroll": 2,
    }
    assert isinstance(eqn.params["jaxpr"], jex.ClosedJaxpr | jex.Jaxpr)


def test_the_parameters_of_while() -> None:
    f = lambda x, y, z: lax.while_loop(lambda c: c < y, lambda c: c + y * z, x)  # noqa: E731
    params = the("while", f, X, X, X).params
    assert (params["cond_nconsts"], params["body_nconsts"]) == (1, 2)
    assert len(params["cond_jaxpr"].out_avals) == 1
    assert len(params["body_jaxpr"].in_avals) == 3


def test_the_parameters_of_a_batched_while() -> None:
    """A mapped predicate leaves a condition with one element for each element of the batch."""
    f = jax.vmap(lambda x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, x))
    assert the("while", f, XS).params["cond_jaxpr"].out_avals[0].shape == (2,)


def test_the_parameters_of_cond() -> None:
    """The branch for False comes first, and the index is the first operand."""
    eqn = the("cond", lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), X)
    names = [[e.primitive.name for e in jaxprs.raw(b)[0].eqns] for b in eqn.params["branches"]]
    assert names == [["cos"], ["sin"]]
    assert eqn.invars[0].aval.dtype == jnp.int32


def test_the_parameters_of_jit() -> None:
    eqn = the("jit", jax.jit(lambda x: x + 1, keep_unused=True), X)
    assert jax_core.jit_options(eqn)["keep_unused"] is True
    assert jax_core.jit_shardings(eqn) == ([None], [None])
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    fixed = jax.jit(lambda x: x + 1, in_shardings=sharding, out_shardings=sharding)
    assert jax_core.jit_shardings(the("jit", fixed, X)) == ([sharding], [sharding])


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "jit": (jax.jit(unused), X),
    "scan": (SCAN, X),
    "while": (lambda x: lax.while_loop(lambda c: c < 3, unused, x), X),
    "cond": (lambda x: lax.cond(x > 0, unused, unused, x), X),
    "remat2": (jax.checkpoint(unused), X),
    "custom_jvp_call": (with_jvp, X),
    "custom_vjp_call": (with_vjp(unused), X),
    "custom_linear_solve": (solved, X),
    "shard_map": (over_shards(unused), XS),
}


@pytest.mark.parametrize("primitive", PROGRAMS)
def test_the_names_of_the_primitives(primitive: str) -> None:
    """The table of rules goes by name; a renamed primitive would not be opened."""
    f, x = PROGRAMS[primitive]
    eqn = the(primitive, f, x)
    assert primitive in CONSTRUCTS
    assert jax_core.has_sow(eqn)
    assert "sow" in [
        e.primitive.name for j in jax_core.subjaxprs(eqn) for e in jaxprs.raw(j)[0].eqns
    ]


def test_every_rule_has_a_test_of_its_primitive() -> None:
    """But for harvest's own, and those of calls that only some versions of JAX make."""
    others = {"call_hi_primitive", "closed_call", "eval_jaxpr", vmapped_cond_p.name}
    assert set(CONSTRUCTS) - set(PROGRAMS) == others


def test_the_parameters_of_a_checkpoint() -> None:
    policy = jax.checkpoint_policies.everything_saveable
    eqn = the("remat2", jax.checkpoint(unused, policy=policy, prevent_cse=False), X)
    assert jax_core.checkpoint_options(eqn) == {"policy": policy, "prevent_cse": False}


def test_the_parameters_of_a_shard_map() -> None:
    eqn = the("shard_map", over_shards(unused), XS)
    assert jax_core.shards(eqn) == {"i": 2}
    assert jax_core.shard_specs(eqn) == ((PartitionSpec("i"),), (PartitionSpec("i"),))
    assert jax_core.shard_options(eqn)["check_vma"] is True
    (sown,) = [
        v for e in equations(over_shards(unused), XS) if e.primitive is sow_p for v in e.outvars
    ]
    assert jax_core.varying_axes(sown.aval) == {"i"}
    assert jax_core.varying_axes(jax.typeof(X)) == frozenset()


def test_the_code_of_a_root() -> None:
    """`custom_root` is a custom_jvp in JAX 0.10, and a primitive of a kind of its own in 0.12."""
    (eqn,) = [e for e in jax.make_jaxpr(root)(X).eqns if jax_core.has_sow(e)]
    body, operands = jax_core.custom_body(eqn)
    assert eqn.primitive.name in ("custom_jvp_call", "call_hi_primitive")
    assert jax_core.has_sow(body)
    assert len(operands) == len(body.in_avals)


TABLES = "ppl.harvest.jax_tables"


def test_tangents_are_solved_for_without_sows() -> None:
    assert ad.primitive_jvps[jex.primitives.linear_solve_p].__module__ == TABLES
    names = [e.primitive.name for e in equations(lambda x: jax.jvp(solved, (x,), (x,)), X)]
    assert (names.count("sow"), names.count("custom_linear_solve")) == (1, 3)


def test_scan_is_batched_by_an_entry_of_a_public_table() -> None:
    """A scan with a sow passes through our entry, which counts the axes inside of it."""
    assert batching.fancy_primitive_batchers[jex.primitives.scan_p].__module__ == TABLES
    step = lambda c, v: (put(c + v, "append"), None)  # noqa: E731
    mapped = the("sow", jax.vmap(lambda x: lax.scan(step, x, XS)[0]), XS).params["site"]
    assert (mapped.loops, [a.size for a in mapped.axes]) == ((0,), [2])
    inside = lambda x: lax.scan(lambda c, v: (jax.vmap(lambda e: step(e, v)[0])(c), None), x, XS)[0]  # noqa: E731
    scanned = the("sow", inside, XS).params["site"]
    assert (scanned.loops, [a.size for a in scanned.axes]) == ((), [2])


def test_a_scan_without_a_sow_is_batched_as_by_jax() -> None:
    f = lambda x: lax.scan(lambda c, v: (c + v, c), x, XS)  # noqa: E731
    assert_same(jax.vmap(f)(XS), (np.float32([4, 5]), np.float32([[1, 2], [2, 3]])))


@pytest.mark.parametrize("weak", [True, False], ids=["weak", "strong"])
@pytest.mark.parametrize(
    "value", [1.0, np.float32(1), jnp.float32(1), jnp.int32(1), jnp.asarray(1.0)], ids=repr
)
def test_a_cast_to_an_abstract_value(value: Any, weak: bool) -> None:
    aval = jax.ShapeDtypeStruct((), jnp.float32, weak_type=weak)
    for cast in (
        lambda v: jax_core.as_aval(v, aval),
        jax.jit(lambda v: jax_core.as_aval(v, aval)),
    ):
        out = cast(value)
        assert_same(out, 1.0)
        assert out.weak_type == weak


def test_an_equation_is_bound_as_jax_does() -> None:
    f = lambda x: (jnp.sin(x), jax.jit(jnp.cos)(x), lax.cond(x > 0, jnp.tan, jnp.exp, x))  # noqa: E731
    jaxpr = jax.make_jaxpr(f)(X)
    env: dict[int, Any] = {id(v): X for v in jaxpr.jaxpr.invars}
    for eqn in jaxpr.jaxpr.eqns:
        args = [v.val if isinstance(v, jex.Literal) else env[id(v)] for v in eqn.invars]
        env |= {id(v): out for v, out in zip(eqn.outvars, jax_core.bind(eqn, args), strict=True)}
    assert_same(tuple(env[id(v)] for v in jaxpr.jaxpr.outvars), f(X))


def test_a_changed_jaxpr_is_run() -> None:
    """Equations and inner jaxprs can be replaced, and the result is a jaxpr like any other."""
    add_to_mul = lambda eqn: eqn.replace(primitive=lax.mul_p) if eqn.primitive is lax.add_p else eqn  # noqa: E731
    jaxpr = jax.make_jaxpr(lambda x: jax.jit(lambda x: x + x)(3 * x))(X)

    def inside(eqn: Any) -> Any:
        params = jaxprs.map_jaxprs(eqn.params, lambda j: jaxprs.map_equations(j, add_to_mul))
        return eqn.replace(params=params)

    changed = jaxprs.map_equations(jaxpr, inside)
    assert_same(jax.core.eval_jaxpr(changed.jaxpr, changed.consts, X), [9.0])
    assert_same(jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, X), [6.0])


def test_the_sow_primitive_under_each_transformation() -> None:
    """Linear with derivative 1, and gone after compilation."""
    f = lambda x: put((x, 2 * x))  # noqa: E731
    assert_same(jax.jvp(f, (X,), (X,)), ((1.0, 2.0), (1.0, 2.0)))
    assert_same(jax.vjp(f, X)[1]((X, X)), (3.0,))
    assert_same(jax.linear_transpose(f, X)((X, X)), (3.0,))
    assert_same(jax.hessian(lambda x: put(x) ** 3)(X), 6.0)
    assert "sow" not in jax.jit(lambda x: put(x)).lower(X).as_text()
    assert sow_p.multiple_results


def test_a_sow_in_an_exported_and_in_a_compiled_function() -> None:
    f = jax.jit(lambda x: put(x) + 1)
    assert_same(f.lower(X).compile()(X), 2.0)
    assert_same(jax.eval_shape(reap(f, tag=TAG), X)["y"].shape, ())


def test_nodes_of_a_structure_are_known_without_its_leaves():
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Pair:
        x: Any
        name: Any = dataclasses.field(metadata={"static": True})

    nodes = list(leaf_values.nodes(jax.tree.structure({"a": Pair(1.0, "b"), "c": 2.0})))
    assert nodes == [(dict, ["a", "c"]), (Pair, ("b",))]


def test_mutable_arrays_are_told_from_others():
    refs = []
    jax.make_jaxpr(lambda x: refs.append(jax.new_ref(x)))(X)
    assert jax_core.is_ref(jax.typeof(refs[0]))
    assert not jax_core.is_ref(jax.typeof(X))
