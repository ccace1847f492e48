"""What only a planted value needed is not evaluated; everything else that has an effect is."""

# ruff: noqa: E501

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, nest, plant, reap, sow

from .checks import OTHER, TAG, assert_same, floats, primitives
from .constructs import put

X = jnp.float32(1.0)
XS = jnp.array([1.0, 2.0])


def carried(x: Any) -> Any:
    """The sine is computed in the carry of a scan, beside the state that is used."""

    def step(state: Any, v: Any) -> Any:
        c, s = state
        return (put(s, "clobber") + c, jnp.sin(s + v)), None

    return lax.scan(step, (x, x), XS)[0][0]


def scanned_in(x: Any) -> Any:
    """The sine is computed before the scan, over what it scans."""
    return lax.scan(lambda c, v: (c + put(v, "append"), None), x, jnp.sin(x + XS))[0]


def scan_constant(x: Any) -> Any:
    """The sine is computed before the scan, once for all iterations."""
    s = jnp.sin(x)
    return lax.scan(lambda c, v: (put(s + v, "append"), None), x, XS)[0]


def carried_in_while(x: Any) -> Any:
    def step(state: Any) -> Any:
        i, c, s = state
        return i + 1, c + put(s, "clobber"), jnp.sin(s)

    return lax.while_loop(lambda s: s[0] < 2, step, (0, x, x))[1]


DEAD: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "straight": (lambda x: put(jnp.sin(x)), X),
    "chain": (lambda x: put(jnp.sin(jnp.sin(x) + jnp.sin(2 * x))), X),
    "predicate": (lambda x: put(x, "cond_clobber", pred=jnp.sin(x) > 0), X),
    "jit": (jax.jit(lambda x: put(jnp.sin(x))), X),
    "before-jit": (lambda x: jax.jit(put)(jnp.sin(x)), X),
    "after-jit": (lambda x: put(jax.jit(lambda x: (put(jnp.sin(x), name="z"), x))(x)[0] * jnp.sin(x)), X),
    "jit-in-jit": (jax.jit(jax.jit(lambda x: put(jnp.sin(x)))), X),
    "before-jit-in-jit": (jax.jit(lambda x: jax.jit(put)(jnp.sin(x))), X),
    "cond": (lambda x: lax.cond(x > 0, lambda x: put(jnp.sin(x)), lambda x: put(x), x), X),
    "before-cond": (lambda x: lax.cond(x > 0, put, lambda x: 2 * put(x), jnp.sin(x)), X),
    "scan": (lambda x: lax.scan(lambda c, v: (put(jnp.sin(c + v), "append"), None), x, XS)[0], X),
    "scan-clobber": (lambda x: lax.scan(lambda c, v: (put(jnp.sin(c + v), "clobber"), None), x, XS)[0], X),
    "scan-carry": (carried, X),
    "before-scan": (lambda x: lax.scan(lambda c, v: (put(c + v, "append"), None), jnp.sin(x), XS)[0], X),
    "scan-xs": (scanned_in, X),
    "scan-constant": (scan_constant, X),
    "scan-in-scan": (lambda x: lax.scan(lambda c, a: lax.scan(lambda c, b: (put(jnp.sin(c + a), "append"), None), c, XS), x, XS)[0], X),
    "while": (lambda x: lax.fori_loop(0, jnp.int32(2), lambda i, c: put(jnp.sin(c), "clobber"), x), X),
    "while-carry": (carried_in_while, X),
    "vmap": (jax.vmap(lambda x: put(jnp.sin(x))), XS),
    "vmap-of-scan": (jax.vmap(carried), XS),
    "nest": (nest(lambda x: put(jnp.sin(x)), scope="a"), X),
}  # fmt: skip


def plants_for(f: Callable[[Any], Any], x: Any) -> Any:
    """Ones for all that is sown."""
    return jax.tree.map(lambda a: jnp.ones(a.shape, a.dtype), jax.eval_shape(reap(f, tag=TAG), x))


@pytest.mark.parametrize(("f", "x"), DEAD.values(), ids=DEAD)
def test_what_a_plant_makes_dead_is_not_evaluated(f: Callable[[Any], Any], x: Any) -> None:
    plants = plants_for(f, x)
    assert "sin" in primitives(harvest(f, tag=TAG), {}, x)
    assert "sin" not in primitives(plant(f, tag=TAG), plants, x)


def test_what_a_plant_makes_dead_may_even_fail() -> None:
    """A callback without effects is not called, and NaN does not spread."""
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    f = lambda x: 2 * put(jax.pure_callback(lambda x: 1 / 0, scalar, x))  # noqa: E731
    assert_same(plant(f, tag=TAG)({"y": 3.0}, X), 6.0)


def test_what_another_use_needs_is_evaluated() -> None:
    def f(x: Any) -> Any:
        s = jnp.sin(x)
        put(s)
        return put(2 * s, name="z"), s

    (z, s), reaps = harvest(f, tag=TAG)({"y": 5.0, "z": 7.0}, X)
    assert (float(z), reaps) == (7.0, {})
    assert_same(s, jnp.sin(X))
    assert_same(harvest(f, tag=TAG)({"y": 5.0}, X)[1], {"z": 2 * jnp.sin(X)})


SEEN: list[float] = []


def record(value: Any) -> None:
    SEEN.append(float(value))


def noisy(x: Any) -> Any:
    """Prints what only a planted value needs."""
    s = 2 * x
    jax.debug.callback(record, s)
    return put(s, "clobber")


@pytest.mark.parametrize(
    ("f", "seen"),
    [
        (noisy, [2.0]),
        (jax.jit(noisy), [2.0]),
        (lambda x: lax.cond(x > 0, noisy, lambda x: put(x, "clobber"), x), [2.0]),
        (lambda x: lax.scan(lambda c, _: (noisy(c), None), x, None, length=2)[0], [2.0, 6.0]),
        (lambda x: lax.fori_loop(0, jnp.int32(2), lambda i, c: noisy(c), x), [2.0, 6.0]),
        (nest(noisy, scope="a"), [2.0]),
    ],
    ids=["straight", "jit", "cond", "scan", "while", "nest"],
)
def test_other_effects_are_kept(f: Callable[[Any], Any], seen: list[float]) -> None:
    """Each callback runs once for each time that it stands in the program, planted or not."""
    SEEN.clear()
    plants = jax.tree.map(lambda v: 3 * v, plants_for(f, X))
    jax.block_until_ready(plant(f, tag=TAG)(plants, X))
    jax.effects_barrier()
    assert seen == SEEN
    SEEN.clear()
    jax.block_until_ready(harvest(f, tag=TAG)({}, X)[0])
    jax.effects_barrier()
    assert [2.0, 4.0][: len(seen)] == SEEN


def test_sows_of_other_tags_are_effects() -> None:
    """A dead value that another tag has sown can still be reaped."""

    def f(x: Any) -> Any:
        return put(sow(jnp.sin(x), tag=OTHER, name="z"))

    planted = lambda x: plant(f, tag=TAG)({"y": 5.0}, x)  # noqa: E731
    assert_same(reap(planted, tag=OTHER)(X), {"z": jnp.sin(X)})


def test_an_unplanted_scan_keeps_its_outputs() -> None:
    f = lambda x: lax.scan(lambda c, v: (c + 1, put(c + v, "append")), x, XS)  # noqa: E731
    assert_same(harvest(f, tag=TAG)({"y": floats(5, 6)}, X), ((3.0, floats(5, 6)), {}))


def test_reap_leaves_out_what_only_the_result_needs():
    def f(x: Any) -> Any:
        y = sow(jnp.cos(x), tag=TAG, name="y")
        return jnp.sin(sow(jnp.exp(y), tag=OTHER, name="z"))

    evaluated = primitives(reap(f, tag=TAG), X)
    assert "cos" in evaluated
    assert "sin" not in evaluated
    assert_same(reap(reap(f, tag=TAG), tag=OTHER)(X), {"z": jnp.exp(jnp.cos(X))})
    assert "exp" in evaluated  # of a sow with another tag, which others may look at
    assert "exp" not in primitives(reap(f, tag=TAG, exclusive=True), X)
    assert_same(reap(f, tag=TAG)(X), {"y": jnp.cos(X)})
