"""Where the axes of vmap go: in front, outermost first, whatever stands in between."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ppl.harvest import call_and_reap, harvest, reap, sow

from .checks import OTHER, TAG, assert_same, floats
from .constructs import put


@pytest.mark.parametrize("in_axes", [0, 1, 2, -1, -2, -3])
@pytest.mark.parametrize("out_axes", [0, -1])
def test_the_batch_axis_is_in_front(in_axes: int, out_axes: int) -> None:
    x = jnp.arange(24.0).reshape(2, 3, 4)
    front = np.moveaxis(np.asarray(x), in_axes, 0) + 1
    f = jax.vmap(lambda x: put(x + 1), in_axes=in_axes, out_axes=out_axes)
    back = np.moveaxis(front, 0, out_axes)
    assert_same(harvest(f, tag=TAG)({}, x), (back, {"y": front}))
    assert_same(harvest(f, tag=TAG)({"y": front}, 0 * x), (back, {}))


def test_the_axes_of_nested_vmaps_are_outermost_first() -> None:
    x = jnp.arange(24.0).reshape(2, 3, 4)
    f = jax.vmap(jax.vmap(lambda x: put(x.sum()), in_axes=1), in_axes=2)
    assert_same(reap(f, tag=TAG)(x), {"y": np.asarray(x).sum(0).T})


def test_vmap_over_one_of_two_arguments_each() -> None:
    """Two vmaps that each map another operand: both axes are in front, the outer one first."""
    f = lambda a, b: put(a + 10 * b)  # noqa: E731
    f = jax.vmap(jax.vmap(f, in_axes=(0, None)), in_axes=(None, 0))
    expected = floats([1, 2, 3]) + 10 * floats([1], [2])
    assert_same(
        reap(f, tag=TAG)(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 2.0])), {"y": expected}
    )


def test_the_axis_of_a_scan_is_in_front_of_that_of_a_vmap_within() -> None:
    """And behind that of a vmap around it."""
    step = lambda c, x: (c, jax.vmap(lambda v: put(v * x, "append"))(floats(1, 2, 3)).sum())  # noqa: E731
    f, xs = lambda xs: lax.scan(step, 0.0, xs), jnp.arange(8.0).reshape(4, 2)
    each = np.asarray(xs)[..., None] * np.array([1.0, 2.0, 3.0])
    assert_same(reap(f, tag=TAG)(xs[1]), {"y": each[1].astype(np.float32)})
    assert_same(reap(jax.vmap(f), tag=TAG)(xs), {"y": each.astype(np.float32)})


def test_inside_and_outside_of_vmap() -> None:
    """What is sown once for all elements stands for each of them."""

    def f(x: Any, mode: str) -> Any:
        inside = jax.vmap(lambda e: put(e, mode))
        return put(x[0] + 5, mode) + inside(x)

    x = jnp.array([1.0, 2.0])
    assert_same(reap(lambda x: f(x, "append"), tag=TAG)(x), {"y": floats([6, 1], [6, 2])})
    assert_same(reap(lambda x: f(x, "clobber"), tag=TAG)(x), {"y": floats(1, 2)})


def test_inside_and_outside_of_vmap_in_a_branch() -> None:
    """The same where a cond holds both."""

    def f(x: Any, mode: str) -> Any:
        branch = lambda x: jax.vmap(lambda e: put(e, mode))(x) + put(x[0] + 5, mode)  # noqa: E731
        return lax.cond(x[0] > 0, branch, branch, x)

    x = jnp.array([1.0, 2.0])
    assert_same(reap(lambda x: f(x, "append"), tag=TAG)(x), {"y": floats([1, 6], [2, 6])})
    assert_same(reap(lambda x: f(x, "clobber"), tag=TAG)(x), {"y": floats(6, 6)})


def test_clobbers_inside_and_after_a_loop_under_vmap() -> None:
    """One name, clobbered in a loop and again after it, has the same shape in both places."""
    x = jnp.array([1.0, 2.0])
    once = lambda x: put(x + 1, "clobber")  # noqa: E731
    fori = lambda x: lax.fori_loop(0, jnp.int32(1), lambda i, c: once(c), x)  # noqa: E731
    loops: list[Callable[[Any], Any]] = [
        lambda x: lax.scan(lambda c, _: (once(c), None), x, None, length=2)[0],
        lambda x: lax.fori_loop(0, jnp.int32(2), lambda i, c: once(c), x),
        lambda x: lax.scan(lambda c, _: (fori(c), None), x, None, length=2)[0],
    ]
    for loop in loops:
        assert_same(
            reap(jax.vmap(lambda x, loop=loop: once(loop(x))), tag=TAG)(x), {"y": floats(4, 5)}
        )
        assert_same(
            reap(jax.vmap(lambda x, loop=loop: loop(once(x))), tag=TAG)(x), {"y": floats(4, 5)}
        )
    mapped = jax.vmap(once)
    loop = lambda x: lax.scan(lambda c, _: (mapped(c), None), x, None, length=2)[0]  # noqa: E731
    assert_same(reap(lambda x: mapped(loop(x)), tag=TAG)(x), {"y": floats(4, 5)})


def test_another_tag_in_a_loop_that_vmap_stops_by_element() -> None:
    """A loop cannot be rebuilt around one tag for the other: harvest says so, and what to do."""

    def f(x: Any) -> Any:
        def body(c: Any) -> Any:
            return sow(put(c + 1, "clobber"), tag=OTHER, name="z", mode="clobber")

        return lax.while_loop(lambda c: c < 10, body, x)

    x = jnp.array([5.0, 20.0, 8.5])
    with pytest.raises(ValueError, match=r"'z': it would stay in a while loop.*vmap\(reap\(f\)\)"):
        call_and_reap(jax.vmap(f), tag=TAG)(x)
    expected = ((floats(10, 20, 10.5), {"y": floats(10, 0, 10.5)}), {"z": floats(10, 0, 10.5)})
    mapped = jax.vmap(call_and_reap(call_and_reap(f, tag=TAG), tag=OTHER))
    assert_same(mapped(x), expected)


def test_axes_inside_and_outside_of_a_loop_are_told_apart() -> None:
    """A vmap in the body, as large as the vmap around the loop, over what does not vary."""

    def f(x: Any) -> Any:
        shared = lambda c: c + jax.vmap(lambda v: put(v, "clobber"))(floats(1, 2, 3)).sum()  # noqa: E731
        return lax.while_loop(lambda c: c < 10, shared, x)

    x = jnp.array([5.0, 20.0, 8.5])
    reaps = reap(jax.vmap(f), tag=TAG)(x)["y"]
    assert_same(jnp.broadcast_to(reaps, (3, 3))[0], floats(1, 2, 3))
    assert_same(jnp.broadcast_to(reaps, (3, 3))[2], floats(1, 2, 3))
