"""`key=` ties: in the jaxpr and when lowered, what is sown waits for the key, at no cost."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import call_and_reap, harvest, plant, sow, sow_cond, vjp_and_reap

from .calls import over_shards, with_jvp
from .checks import TAG, assert_same, primitives
from .test_compiled import num_operations

X = jnp.float32(3.0)
XS = jnp.array([3.0, 4.0])
KEYS = {"typed": jax.random.key(7), "legacy": jax.random.PRNGKey(7), "array": jnp.uint32([1, 2])}
KEY = KEYS["legacy"]
Function = Callable[..., Any]

each_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def tied(x: Any, key: Any, mode: Any = "strict") -> Any:
    return sow(x + 1, tag=TAG, name="y", mode=mode, key=key)


def barriers(f: Function, *args: Any) -> list[str]:
    """The types of the operands of each barrier in the lowered program."""
    text = jax.jit(f).lower(*args).as_text()
    return re.findall(r"optimization_barrier .* : (.*)", text)


PROGRAMS: dict[str, Function] = {
    "straight": tied,
    "jit": jax.jit(tied),
    "scan": lambda x, key: lax.scan(lambda c, _: (tied(c, key, "append"), None), x, None, length=2)[
        0
    ],
    "scan-of-keys": lambda x, key: lax.scan(
        lambda c, k: (tied(c, k, "append"), None), x, jnp.stack([key, key])
    )[0],
    "while": lambda x, key: lax.while_loop(lambda c: c < 5, lambda c: tied(c, key, "clobber"), x),
    "checkpoint": jax.checkpoint(tied),
    "custom_jvp": lambda x, key: with_jvp(lambda x: tied(x, key))(x),
    "cond_clobber": lambda x, key: sow_cond(x + 1, x > 0, tag=TAG, name="y", key=key),
    "several-leaves": lambda x, key: sow(x + 1, tag=TAG, name="y", key={"a": key, "b": None}),
}
SCALAR = ["tensor<f32>, tensor<2xui32>"]

each_program = pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)


@pytest.mark.slow_rows("scan-of-keys-typed")
@each_key
@each_program
def test_the_lowered_program_has_the_barrier(f: Function, key: Any) -> None:
    """Reaped or not, with the value and the key as operands; planted, neither is needed."""
    assert barriers(f, X, key) == SCALAR
    assert barriers(call_and_reap(f, tag=TAG), X, key) == SCALAR
    reaps = call_and_reap(f, tag=TAG)(X, key)[1]
    assert barriers(plant(f, tag=TAG), reaps, X, key) == []


UNKEYED = {name: f for name, f in PROGRAMS.items() if name != "scan-of-keys"}
each_unkeyed = pytest.mark.parametrize("f", UNKEYED.values(), ids=UNKEYED)


@each_unkeyed
def test_the_value_is_what_it_is_without_a_key(f: Function) -> None:
    for transformed in (f, call_and_reap(f, tag=TAG)):
        assert_same(transformed(X, KEY), transformed(X, None))


@each_key
@pytest.mark.parametrize(
    ("in_axes", "types"),
    [
        ((0, 0), "tensor<2xf32>, tensor<2x2xui32>"),
        ((0, None), "tensor<2xf32>, tensor<2xui32>"),
        ((None, 0), "tensor<f32>, tensor<2x2xui32>"),
    ],
    ids=["both", "value", "key"],
)
def test_under_vmap(key: Any, in_axes: Any, types: str) -> None:
    """Inside or outside of harvest; a value that is not mapped stays one value."""
    x = X if in_axes[0] is None else XS
    keys = key if in_axes[1] is None else jnp.stack([key, key])
    for f in (
        jax.vmap(call_and_reap(tied, tag=TAG), in_axes),
        call_and_reap(jax.vmap(tied, in_axes), tag=TAG),
    ):
        assert barriers(f, x, keys) == [types]
        out = jnp.broadcast_to(x + 1, (2,))
        assert_same(f(x, keys)[0], out)


@each_key
def test_under_grad(key: Any) -> None:
    """The primal is tied, and no tangent or cotangent: `sow` is linear with derivative 1."""
    grad = jax.grad(lambda x, key: tied(x, key) ** 2)
    assert barriers(grad, X, key) == SCALAR
    assert barriers(call_and_reap(grad, tag=TAG), X, key) == SCALAR
    assert_same(call_and_reap(grad, tag=TAG)(X, key), (8.0, {"y": 4.0}))
    assert_same(jax.hessian(lambda x: tied(x, key) ** 2)(X), 2.0)
    assert_same(jax.linear_transpose(lambda x: tied(x, key) - 1, X)(X), (3.0,))
    assert_same(vjp_and_reap(lambda x: tied(x, key) ** 2, tag=TAG)(X)[2](1.0)[1], {"y": 8.0})


def test_a_key_has_no_derivative() -> None:
    assert_same(jax.grad(tied, argnums=(0, 1))(X, X), (1.0, 0.0))
    assert_same(jax.jvp(tied, (X, X), (X, X)), (4.0, 3.0))


def test_in_a_shard_map() -> None:
    f = over_shards(lambda x: tied(x, lax.axis_index("i")))
    assert_same(harvest(f, tag=TAG)({}, XS), (XS + 1, {"y": (XS + 1)[:, None]}))
    assert barriers(f, XS) == ["tensor<1xf32>, tensor<i32>"]


def test_a_jaxpr_in_which_the_value_needs_the_key() -> None:
    for f in (tied, call_and_reap(tied, tag=TAG)):
        assert primitives(f, X, KEY).count("tie") == 1
        jaxpr = jax.make_jaxpr(f)(X, KEY).jaxpr
        (tie,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "tie"]
        assert jaxpr.invars[1] in tie.invars
    assert "tie" not in primitives(tied, X, None)


@each_key
@each_unkeyed
def test_no_operation_is_added_to_the_compiled_program(f: Function, key: Any) -> None:
    """The barrier is gone, too, once XLA has put the operations in their order."""
    harvested = call_and_reap(f, tag=TAG)
    without = num_operations(lambda x, key: harvested(x, None), X, key)
    assert num_operations(harvested, X, key) <= without
