"""What is sown and planted is a pytree as JAX documents them, registered classes, None and all."""

# ruff: noqa: E501

import collections
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, plant, reap, sow, vjp_and_reap

from .checks import TAG, assert_same, floats


class Special:
    """A class that JAX does not know: a leaf, and no array."""

    def __init__(self, x: Any, y: Any, unit: str = "m"):
        self.x, self.y, self.unit = x, y, unit


class RegisteredSpecial(Special):
    """One that is registered, with children and auxiliary data."""


jax.tree_util.register_pytree_node(
    RegisteredSpecial, lambda v: ((v.x, v.y), v.unit), lambda unit, xy: RegisteredSpecial(*xy, unit)
)


class Point(NamedTuple):
    x: Any
    y: Any


def put(value: Any, mode: Any = "strict") -> Any:
    return sow(value, tag=TAG, name="y", mode=mode)


X = jnp.float32(1.0)
CONTAINERS: dict[str, Any] = {
    "list": (1.0, [2.0, 3.0]),
    "dict": (1.0, {"b": 2.0, "a": 3.0}),
    "leaf": 1.0,
    "none": None,
    "array": jnp.zeros(2),
    "namedtuple": Point(1.0, 2.0),
    "ordered-dict": collections.OrderedDict([("z", 1.0), ("a", 2.0)]),
    "default-dict": collections.defaultdict(float, {"a": 1.0}),
    "registered": RegisteredSpecial(1.0, (2.0, None)),
    "partial": jax.tree_util.Partial(jnp.add, 1.0),
    "nested": {"a": [Point(None, RegisteredSpecial(1.0, {}, "s"))], "b": ()},
}

each_container = pytest.mark.parametrize("value", CONTAINERS.values(), ids=CONTAINERS)


@each_container
def test_a_container_is_sown_and_planted(value: Any) -> None:
    """It comes back as what it was: class, order and auxiliary data are in the structure."""
    f = lambda x: jax.tree.map(lambda y: y + x, put(value))  # noqa: E731
    plus = lambda n: jax.tree.map(lambda y: jnp.float32(y) + n, value)  # noqa: E731
    assert_same(harvest(f, tag=TAG)({}, X), (plus(1), {"y": plus(0)}))
    assert_same(harvest(f, tag=TAG)({"y": plus(2)}, X), (plus(3), {}))
    assert_same(jax.jit(harvest(f, tag=TAG))({"y": plus(2)}, X), (plus(3), {}))


@each_container
def test_a_container_is_stacked_leaf_by_leaf(value: Any) -> None:
    step = lambda c, _: (c + 1, put(jax.tree.map(lambda y: y + c, value), "append"))  # noqa: E731
    f = lambda x: lax.scan(step, x, None, length=2)[1]  # noqa: E731
    stacked = jax.tree.map(lambda y: jnp.stack([y + X, y + X + 1]), value)
    assert_same(harvest(f, tag=TAG)({}, X), (stacked, {"y": stacked}))
    planted = jax.tree.map(lambda y: 2 * y, stacked)
    assert_same(harvest(f, tag=TAG)({"y": planted}, X), (planted, {}))


def test_the_plants_and_the_reaps_are_pytrees() -> None:
    """So is the pullback's second result: all three go through transformations of JAX."""
    f = lambda x: jax.tree.map(jnp.square, put(RegisteredSpecial(x, Point(2 * x, None))))  # noqa: E731
    reaps = jax.tree.map(lambda y: 10 * y, reap(f, tag=TAG)(X))
    assert_same(reaps, {"y": RegisteredSpecial(10.0, Point(20.0, None))})
    total = lambda plants: jnp.stack(jax.tree.leaves(plant(f, tag=TAG)(plants, X))).sum()  # noqa: E731
    assert_same(jax.grad(total)(reaps), jax.tree.map(lambda y: 2 * y, reaps))
    out, _, pullback = vjp_and_reap(f, tag=TAG)(X)
    ones = jax.tree.map(jnp.ones_like, out)
    assert_same(pullback(ones), ((10.0,), {"y": RegisteredSpecial(2.0, Point(4.0, None))}))


def test_a_class_that_is_not_registered() -> None:
    with pytest.raises(TypeError, match=r"sow 'y': expected a pytree of arrays.*Special.*register"):
        put(Special(1.0, 2.0))
    with pytest.raises(ValueError, match=r"plant 'y': expected the structure.*RegisteredSpecial"):
        plant(lambda: put(RegisteredSpecial(X, X)), tag=TAG)({"y": Special(1.0, 2.0)})


DEEP = {"a": [Point(X, None), X], "b": RegisteredSpecial(X, floats(1, 2))}
MISFITS: dict[str, tuple[Any, type[Exception], str]] = {
    "not-none": ({**DEEP, "a": [Point(X, X), X]}, ValueError, r"differ at \['a'\]\[0\]\.y: expected None, got \*"),
    "other-length": ({**DEEP, "a": [Point(X, None)]}, ValueError, r"differ at \['a'\]: expected \[.*, \*\], got \[.*\]"),
    "tuple-for-namedtuple": ({**DEEP, "a": [(X, None), X]}, ValueError, r"differ at \['a'\]\[0\]: expected .*Point.*got \(\*, None\)"),
    "other-auxiliary-data": ({**DEEP, "b": RegisteredSpecial(X, floats(1, 2), "ft")}, ValueError, r"differ at \['b'\]: expected .*\[m\].*got .*\[ft\]"),
    "other-keys": ({"a": DEEP["a"], "c": X}, ValueError, r"expected the structure .*'b'.*got .*'c'"),
    "shape-of-a-leaf": ({**DEEP, "b": RegisteredSpecial(X, floats(1, 2, 3))}, ValueError, r"expected float32\[2\], got float32\[3\] at \['b'\]"),
    "no-array": ({**DEEP, "a": [Point("one", None), X]}, TypeError, r"expected float32\[\], got 'one' at \['a'\]\[0\]\.x"),
    "dtype-of-a-leaf": ({**DEEP, "a": [Point(jnp.int32(1), None), X]}, TypeError, r"expected float32\[\], got int32\[\] at \['a'\]\[0\]\.x"),
}  # fmt: skip


@pytest.mark.parametrize(("value", "kind", "message"), MISFITS.values(), ids=MISFITS)
def test_an_error_says_where_a_plant_does_not_fit(
    value: Any, kind: type[Exception], message: str
) -> None:
    """Two structures are compared by equality, auxiliary data too; the first difference is told."""
    planted = plant(lambda: put(DEEP), tag=TAG)
    assert_same(planted({"y": DEEP}), DEEP)
    for transformed in (lambda: planted({"y": value}), jax.jit(lambda: planted({"y": value}))):
        with pytest.raises(kind, match=f"(?s)plant 'y': .*{message}"):
            transformed()
