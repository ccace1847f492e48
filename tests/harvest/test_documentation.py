"""The worked examples of the documentation of sow and harvest that this package starts from."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

from ppl.harvest import call_and_reap, harvest, nest, plant, reap, sow, sow_cond

from .checks import assert_same, floats


def f(x: Any) -> Any:
    y = sow(x + 1.0, tag="intermediate", name="y")
    return y + 1.0


@pytest.mark.parametrize(
    ("plants", "x", "expected"),
    [
        ({"y": 0.0}, 1.0, (1.0, {})),
        ({"y": 0.0}, 5.0, (1.0, {})),
        ({}, 1.0, (3.0, {"y": 2.0})),
        ({}, 5.0, (7.0, {"y": 6.0})),
    ],
    ids=["inject-1", "inject-5", "collect-1", "collect-5"],
)
def test_harvest(plants: Any, x: float, expected: Any) -> None:
    assert_same(harvest(f, tag="intermediate")(plants, x), expected)


@pytest.mark.parametrize("x", [1.0, 5.0])
def test_plant_and_reap(x: float) -> None:
    assert_same(plant(f, tag="intermediate")({"y": 0.0}, x), 1.0)
    assert_same(reap(f, tag="intermediate")(x), {"y": x + 1})
    assert_same(call_and_reap(f, tag="intermediate")(x), (x + 2, {"y": x + 1}))


def test_sow_is_the_identity_outside_of_a_transformation() -> None:
    assert_same(sow(2.0, tag="intermediate", name="y"), 2.0)
    assert_same(sow_cond(2.0, False, tag="intermediate", name="y"), 2.0)
    assert_same(f(1.0), 3.0)


def test_harvesting_twice_finds_nothing() -> None:
    again = harvest(harvest(f, tag="intermediate"), tag="intermediate")
    assert_same(again({}, {}, 1.0), ((3.0, {"y": 2.0}), {}))


def test_a_tag_is_a_namespace() -> None:
    """A transformation interacts with one set of intermediate values at a time."""
    g = lambda x: sow(f(x), tag="summary", name="y")  # noqa: E731
    assert_same(harvest(g, tag="summary")({}, 1.0), (3.0, {"y": 3.0}))
    assert_same(harvest(g, tag="intermediate")({}, 1.0), (3.0, {"y": 2.0}))
    assert_same(plant(g, tag="summary")({"y": 0.0}, 1.0), 0.0)


def sown_again(mode: Any) -> Any:
    """A name that comes three times."""

    def g(x: Any) -> Any:
        put = lambda x: sow(x + 1.0, tag="intermediate", name="y", mode=mode)  # noqa: E731
        return put(put(put(x)))

    return g


def test_the_mode_strict() -> None:
    with pytest.raises(ValueError, match=r"sow 'y'.*already been reaped"):
        reap(sown_again("strict"), tag="intermediate")(1.0)


def test_the_mode_append() -> None:
    """All sows of the same name are appended into a growing array."""
    assert_same(reap(sown_again("append"), tag="intermediate")(1.0), {"y": floats(2, 3, 4)})


def test_the_mode_clobber() -> None:
    """Only the final sown value is returned."""
    assert_same(reap(sown_again("clobber"), tag="intermediate")(1.0), {"y": 4.0})


def test_sow_cond_falls_back_on_zeros() -> None:
    g = lambda x, pred: sow_cond(x, pred, tag="t", name="y")  # noqa: E731
    assert_same(reap(g, tag="t")(2.0, False), {"y": 0.0})
    assert_same(reap(g, tag="t")(2.0, True), {"y": 2.0})


def test_a_key_is_tied_in() -> None:
    g = lambda x, key: sow(x + 1.0, tag="t", name="y", key=key)  # noqa: E731
    assert_same(call_and_reap(g, tag="t")(1.0, jax.random.key(0)), (2.0, {"y": 2.0}))
    lowered = jax.jit(g).lower(1.0, jax.random.key(0)).as_text()
    assert "optimization_barrier" in lowered


def test_a_pmap_is_planted() -> None:
    """Partially working in that documentation: each shard takes the value that is its own."""
    g = jax.pmap(f)
    x, y = jnp.array([1.0, 5.0]), jnp.array([0.0, 2.0])
    assert_same(harvest(g, tag="intermediate")({}, x), (floats(3, 7), {"y": floats(2, 6)}))
    assert_same(harvest(g, tag="intermediate")({"y": y}, x), (floats(1, 3), {}))


def test_nest_makes_a_scope() -> None:
    assert_same(reap(nest(f, scope="foo"), tag="intermediate")(1.0), {"foo": {"y": 2.0}})
    assert_same(plant(nest(f, scope="foo"), tag="intermediate")({"foo": {"y": 5.0}}, 1.0), 6.0)


def test_sow_cond_sees_an_iteration_that_is_not_the_last() -> None:
    def loop(x: Any) -> Any:
        body = lambda i, x: sow_cond(x + i, i < 3, tag="t", name="early")  # noqa: E731
        return jax.lax.fori_loop(0, 10, body, x)

    assert_same(reap(loop, tag="t")(0), {"early": 3})


def test_derivatives_are_defined() -> None:
    """Undefined in that documentation; here the gradient stops at a plant and passes a reap."""
    out, reaps = jax.jvp(call_and_reap(f, tag="intermediate"), (1.0,), (1.0,))
    assert_same((out, reaps), ((3.0, {"y": 2.0}), (1.0, {"y": 1.0})))
    gradient = jax.grad(plant(f, tag="intermediate"), argnums=(0, 1))
    assert_same(gradient({"y": 0.0}, 1.0), ({"y": 1.0}, 0.0))
