"""Every kind of value goes through every construct in every mode: not only floats are sown."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest

from .calls import over_shards
from .checks import TAG, assert_same
from .constructs import put

Function = Callable[[Any], Any]
X = jnp.float32(1.0)

KINDS: dict[str, Function] = {
    "integer": lambda x: x.astype(jnp.int32),
    "boolean": lambda x: x > 1,
    "complex": lambda x: lax.complex(x, 2 * x),
    "bfloat16": lambda x: x.astype(jnp.bfloat16),
    "typed-key": lambda x: jax.random.key(x.astype(int)),
    "zero-size": lambda x: jnp.full((0, 3), x),
    "none": lambda x: None,
    "several": lambda x: (x, None, {"i": x.astype(int), "k": jax.random.key(x.astype(int))}),
}
MODES = ("strict", "append", "clobber", "cond_clobber")


def constructs(kind: Function, mode: str) -> dict[str, Function]:
    """Programs of 1.0 that sow `kind` of it and of larger numbers, where `x < 3`."""

    def sown(x: Any, name: str) -> Any:
        return put(kind(x), mode, pred=x < 3, name=name)

    custom = jax.custom_jvp(lambda x: sown(x, "custom_jvp"))
    custom.defjvp(lambda p, t: (custom(*p), jax.jvp(kind, p, t)[1]))
    rows = lambda x: jnp.stack([x, x + 1])  # noqa: E731

    def shard(x: Any) -> Any:
        return jax.tree.map(lambda y: y[None], sown(x[0], "shard_map"))

    def step(c: Any, _: Any) -> Any:
        return c + 1, sown(c, "scan")

    programs: dict[str, Function] = {
        "straight": lambda x: sown(x, "straight"),
        "jit": jax.jit(lambda x: sown(x, "jit")),
        "cond": lambda x: lax.cond(x > 0, lambda: sown(x, "cond"), lambda: sown(x + 1, "cond")),
        "vmap": lambda x: jax.vmap(lambda x: sown(x, "vmap"))(rows(x)),
        "checkpoint": jax.checkpoint(lambda x: sown(x, "checkpoint")),
        "custom_jvp": custom,
        "shard_map": lambda x: over_shards(shard)(rows(x)),
        "scan": lambda x: lax.scan(step, x, None, length=3)[1],
        "while": lambda x: lax.while_loop(
            lambda c: c[0] < 4, lambda c: (c[0] + 1, sown(c[0], "while")), (x, kind(x))
        )[1],
    }
    barred = {"strict": {"scan", "while"}, "append": {"while"}}.get(mode, set())
    return {name: f for name, f in programs.items() if name not in barred}


def known(kind: Function, mode: str, name: str) -> Any:
    """What is reaped: from 1.0, from 1.0 and 2.0 side by side, or from 1.0, 2.0 and 3.0."""
    if name in ("vmap", "shard_map"):
        return jax.vmap(kind)(jnp.array([1.0, 2.0]))
    if name in ("scan", "while"):
        last = kind(jnp.float32(3.0 if mode == "clobber" else 2.0))
        return jax.vmap(kind)(jnp.array([1.0, 2.0, 3.0])) if mode == "append" else last
    return kind(X)


@functools.cache
def results(kind: str, mode: str) -> Any:
    """By construct: the function, reaped, planted with what was reaped; compiled at once."""

    def everything(x: Any) -> Any:
        return {name: three(f, x) for name, f in constructs(KINDS[kind], mode).items()}

    def three(f: Function, x: Any) -> Any:
        harvested = harvest(f, tag=TAG)
        looked = harvested({}, x)
        return f(x), looked, harvested(looked[1], x)

    return jax.jit(everything)(X)


@pytest.mark.quick_rows(
    "none-strict",
    "none-append",
    "none-cond_clobber",
    "none-clobber",
    "zero-size-append",
    "complex-strict",
    "zero-size-cond_clobber",
    "boolean-strict",
    "zero-size-strict",
    "boolean-append",
    "integer-strict",
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_value(kind: str, mode: str) -> None:
    """It is reaped as it is; planted again, it gives the same where one value stands for one."""
    for name, (out, looked, (planted, rest)) in results(kind, mode).items():
        reaps = known(KINDS[kind], mode, name)
        assert_same(looked, (out, {name: reaps}))
        assert rest == {}
        if name == "scan" and "clobber" in mode:
            assert_same(planted, jax.tree.map(lambda y: jnp.stack([y] * 3), reaps))
        elif name == "while":
            assert_same(planted, reaps)
        else:
            assert_same(planted, out)


@pytest.mark.slow_rows("complex")
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_never_sown_is_zeros(kind: str) -> None:
    zeros = jax.tree.map(jnp.zeros_like, KINDS[kind](X))
    for name in ("straight", "jit", "scan", "while", "cond", "checkpoint", "custom_jvp"):
        f = constructs(KINDS[kind], "cond_clobber")[name]
        x = jnp.float32(3.0)
        assert_same(harvest(f, tag=TAG)({}, x)[1], {name: zeros})


@pytest.mark.slow_rows(
    "complex-cond_clobber", "several-append", "several-clobber", "several-cond_clobber"
)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["integer", "complex", "several"])
def test_a_kind_of_value_beside_a_derivative(kind: str, mode: str) -> None:
    """Derivatives pass by what has none; it is recorded all the same, as a primal."""
    programs = constructs(KINDS[kind], mode)

    def f(x: Any) -> Any:
        for sows in programs.values():
            sows(x)
        return x * x

    def both(x: Any) -> Any:
        harvested = harvest(f, tag=TAG)
        out, reaps = jax.jvp(lambda x: harvested({}, x), (x,), (x,))[0]
        return out, reaps, harvest(lambda x: jax.jvp(f, (x,), (x,)), tag=TAG)({}, x)

    out, reaps, (tangents, inside) = jax.jit(both)(X)
    expected = {name: known(KINDS[kind], mode, name) for name in programs}
    assert_same((out, reaps, tangents, inside), (1.0, expected, (1.0, 2.0), expected))
