"""Gradients with respect to what is sown: what Flux documents of its tracker, as transformations.

Its worked examples, with their results: pullbacks, intermediate values, custom gradients, nested
differentiation, values that are detached.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ppl.harvest import call_and_reap, plant, reap, sow, vjp_and_reap

from .checks import TAG, assert_same, floats
from .constructs import put

W, X = floats([1, 2], [3, 4]), floats(5, 6)


def pull(f: Any, *args: Any) -> Any:
    return vjp_and_reap(f, tag=TAG)(*args)


def test_a_gradient_and_a_pullback() -> None:
    """gradient((a, b) -> a*b, 2, 3) is (3, 2); the pullback gives it for a sensitivity of 1."""
    out, reaps, back = pull(lambda a, b: a * b, 2.0, 3.0)
    assert_same((out, reaps, back(1.0)), (6.0, {}, ((3.0, 2.0), {})))
    assert_same(jax.grad(lambda a, b: a * b, (0, 1))(2.0, 3.0), (3.0, 2.0))


def test_a_pullback_of_a_vector() -> None:
    """It can be called with any sensitivities, as often as one likes."""
    out, _, back = pull(lambda a, b: put(a * b), floats(1, 2, 3), floats(4, 5, 6))
    assert_same(out, floats(4, 10, 18))
    for ct in (floats(1, 1, 1), floats(0, 2, 0)):
        assert_same(back(ct), ((ct * floats(4, 5, 6), ct * floats(1, 2, 3)), {"y": ct}))


def affine(w: Any, x: Any) -> Any:
    """All three arrays of the example are tracked: sown."""
    return put(put(w, name="W") @ put(x, name="x"), name="y")


def test_the_gradients_of_tracked_arrays() -> None:
    """y = W*x is [17, 39]; the sensitivities [1, -1] reach W and x, and y itself."""
    out, reaps, back = pull(affine, W, X)
    assert_same((out, reaps), (floats(17, 39), {"W": W, "x": X, "y": floats(17, 39)}))
    of_w, of_x, of_y = floats([5, 6], [-5, -6]), floats(-2, -2), floats(1, -1)
    assert_same(back(of_y), ((of_w, of_x), {"W": of_w, "x": of_x, "y": of_y}))


def test_it_is_the_gradient_with_respect_to_a_plant() -> None:
    """The cotangent of an intermediate value is what `plant` gives by ordinary reverse mode."""
    f = lambda x: jnp.sum(put(x * x) ** 2 * x)  # noqa: E731
    reaps = reap(f, tag=TAG)(X)
    by_plant = jax.grad(lambda plants: plant(f, tag=TAG)(plants, X))(reaps)
    assert_same(pull(f, X)[2](1.0)[1], by_plant)
    assert_same(by_plant, {"y": 2 * X**3})


@jax.custom_vjp
def minus(a: Any, b: Any) -> Any:
    return put(a - b)


def minus_backward(_: Any, ct: Any) -> Any:
    return ct, -ct


minus.defvjp(lambda a, b: (minus(a, b), None), minus_backward)


def test_a_custom_gradient() -> None:
    """minus([1,2,3], [3,2,1]) has the gradients 1 and -1, also where its code sows."""
    out, reaps, back = pull(minus, floats(1, 2, 3), floats(3, 2, 1))
    ones = floats(1, 1, 1)
    assert_same((out, reaps), (floats(-2, 0, 2), {"y": floats(-2, 0, 2)}))
    assert_same(back(ones), ((ones, -ones), {"y": ones}))


def test_a_custom_gradient_survives() -> None:
    """A rule that is not the derivative shows whose is used: the rule's, in every order."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return put(x * x)

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (100 * ct,))
    assert_same(jax.grad(lambda x: call_and_reap(f, tag=TAG)(x)[0])(3.0), 100.0)
    assert_same(call_and_reap(jax.grad(f), tag=TAG)(3.0), (100.0, {"y": 9.0}))
    assert_same(pull(f, 3.0)[2](1.0), ((100.0,), {"y": 1.0}))
    assert_same(
        pull(lambda x: f(put(2 * x, name="x")), 3.0)[2](1.0), ((200.0,), {"y": 1.0, "x": 100.0})
    )


def test_nested_differentiation() -> None:
    """A pullback is a function like any other: harvested again, and differentiated in any mode."""
    f = lambda x: put(x * x) * x  # noqa: E731
    slope = lambda x: pull(f, x)[2](1.0)[0][0]  # noqa: E731
    of_y = lambda x: pull(f, x)[2](1.0)[1]["y"]  # noqa: E731
    assert_same((slope(2.0), of_y(2.0)), (12.0, 2.0))
    assert_same((jax.grad(slope)(2.0), jax.jvp(slope, (2.0,), (1.0,))[1]), (12.0, 12.0))
    assert_same(jax.grad(of_y)(2.0), 1.0)
    assert_same(jax.grad(jax.grad(slope))(2.0), 6.0)
    assert_same(call_and_reap(jax.grad(jax.grad(f)), tag=TAG)(2.0), (12.0, {"y": 4.0}))
    assert_same(pull(slope, 2.0)[:2], (12.0, {}))


def test_pullbacks_under_jit_and_vmap() -> None:
    both = lambda x: pull(lambda x: put(x * x) * x, x)[2](jnp.float32(1.0))  # noqa: E731
    xs = floats(1, 2)
    assert_same(jax.jit(both)(2.0), ((12.0,), {"y": 2.0}))
    assert_same(jax.vmap(both)(xs), ((3 * xs * xs,), {"y": xs}))


def test_every_iteration_has_its_own_gradient() -> None:
    """c = 2 c, thrice; the result doubles twice more behind the first of them."""
    f = lambda x: lax.scan(lambda c, _: (put(2 * c, "append"), None), x, None, length=3)[0]  # noqa: E731
    out, reaps, back = pull(f, 1.0)
    assert_same((out, reaps), (8.0, {"y": floats(2, 4, 8)}))
    assert_same(back(1.0), ((8.0,), {"y": floats(4, 2, 1)}))


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_detached_value(where: str) -> None:
    """data(W): `stop_gradient` before a sow or behind it cuts the gradient there."""

    def f(x: Any) -> Any:
        if where == "before":
            return put(lax.stop_gradient(x * x)) * x
        return lax.stop_gradient(put(x * x)) * x

    assert_same(jax.grad(f)(3.0), 9.0)
    assert_same(call_and_reap(jax.grad(f), tag=TAG)(3.0), (9.0, {"y": 9.0}))
    of_y = 3.0 if where == "before" else 0.0
    assert_same(pull(f, 3.0)[2](1.0), ((9.0,), {"y": of_y}))


def test_a_gradient_stops_at_a_plant() -> None:
    f = lambda x: put(x * x) * x  # noqa: E731
    assert_same(jax.grad(plant(f, tag=TAG), (0, 1))({"y": 5.0}, 3.0), ({"y": 3.0}, 5.0))


def test_what_has_no_gradient() -> None:
    """Integers and what the result does not depend on."""
    f = lambda x: (sow(jnp.int32(7), tag=TAG, name="i"), put(x + 1), 2 * x)[2]  # noqa: E731
    _, reaps, back = pull(f, 3.0)
    assert_same(reaps, {"i": 7, "y": 4.0})
    (of_x,), of_reaps = back(1.0)
    assert_same((of_x, of_reaps.pop("y")), (2.0, 0.0))
    assert of_reaps["i"].dtype == jax.dtypes.float0
    assert np.shape(of_reaps["i"]) == ()


def test_names_and_scopes_as_in_harvest() -> None:
    f = lambda x: put(x * x) + put(3 * x, name="z") * x  # noqa: E731
    of_z = vjp_and_reap(f, tag=TAG, allowlist=["z"])(2.0)
    assert_same((of_z[1], of_z[2](1.0)), ({"z": 6.0}, ((16.0,), {"z": 2.0})))
