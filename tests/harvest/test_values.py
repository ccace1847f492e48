"""What can be sown and planted: pytrees, keys, arrays of all dtypes, Python scalars."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ppl.harvest import call_and_reap, harvest, plant, reap, sow_cond

from .checks import TAG, assert_same, stack
from .constructs import put


class Point(NamedTuple):
    x: Any
    y: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Ball:
    center: Any
    name: str = dataclasses.field(metadata={"static": True})


VALUES: dict[str, Callable[[Any], Any]] = {
    "dict": lambda x: {"a": x, "b": 2 * x},
    "tuple": lambda x: (x, [2 * x, x + 1]),
    "none-leaves": lambda x: {"a": None, "b": x},
    "none": lambda x: None,
    "empty": lambda x: (),
    "namedtuple": lambda x: Point(x, {"z": 2 * x}),
    "dataclass": lambda x: Ball(x, "red"),
    "two-dtypes": lambda x: (x, x > 1, jnp.int32(x)),
    "shapes": lambda x: (jnp.stack([x, x]), jnp.full((2, 1), x)),
}

each_value = pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)


def known(value: Callable[[Any], Any], x: float) -> Any:
    return value(jnp.float32(x))


@each_value
def test_a_pytree_in_straight_line_and_jit(value: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        return put(value(x)), jax.jit(lambda x: put(value(x), name="z"))(x)

    v, w = known(value, 1.0), known(value, 3.0)
    assert_same(harvest(f, tag=TAG)({}, jnp.float32(1)), ((v, v), {"y": v, "z": v}))
    assert_same(harvest(f, tag=TAG)({"z": w}, jnp.float32(1)), ((v, w), {"y": v}))
    assert_same(harvest(f, tag=TAG)({"y": w}, jnp.float32(1)), ((w, v), {"z": v}))


@pytest.mark.slow_rows("two-dtypes")
@each_value
def test_a_pytree_in_loops_and_branches(value: Callable[[Any], Any]) -> None:
    """Each kind of state that harvest threads through a construct, in one program."""

    def f(x: Any) -> Any:
        step = lambda c, v: (c + v, put(value(c + v), "append", name="all"))  # noqa: E731
        x, alls = lax.scan(step, x, jnp.array([1.0, 2.0]))
        last = lambda c, v: (c + v, put(value(c + v), "clobber", name="last"))  # noqa: E731
        x, _ = lax.scan(last, x, jnp.array([1.0, 2.0]))

        def body(i: Any, c: Any) -> Any:
            put(value(c), "cond_clobber", pred=i < 1, name="first")
            return c + 1

        x = lax.fori_loop(0, jnp.int32(2), body, x)
        branch = lax.cond(
            x > 0, lambda: put(value(x), name="cond"), lambda: put(value(x), name="cond")
        )
        return alls, branch

    v = {x: known(value, float(x)) for x in (1.0, 3.0, 6.0, 8.0)}
    reaps = {"all": stack([v[1.0], v[3.0]]), "last": v[6.0], "first": v[6.0], "cond": v[8.0]}
    assert_same(harvest(f, tag=TAG)({}, jnp.float32(0)), ((reaps["all"], v[8.0]), reaps))
    assert_same(harvest(f, tag=TAG)(reaps, jnp.float32(0)), ((reaps["all"], v[8.0]), {}))


@each_value
def test_a_pytree_under_vmap(value: Callable[[Any], Any]) -> None:
    f = jax.vmap(lambda x: (x, put(value(x)))[1])
    expected = jax.vmap(value)(jnp.array([1.0, 2.0]))
    assert_same(harvest(f, tag=TAG)({}, jnp.array([1.0, 2.0])), (expected, {"y": expected}))
    assert_same(harvest(f, tag=TAG)({"y": expected}, jnp.array([5.0, 6.0])), (expected, {}))


def keys(mode: str) -> Callable[[Any], Any]:
    """Carries a key that is split again and again."""

    def step(key: Any, i: Any) -> Any:
        return put(jax.random.fold_in(key, i), mode, pred=i < 2), None

    return lambda key: lax.scan(step, key, jnp.arange(3))[0]


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey], ids=["typed", "legacy"])
def test_random_keys(make: Callable[[int], Any]) -> None:
    key = make(7)
    chain = [jax.random.fold_in(key, 0)]
    for i in (1, 2):
        chain.append(jax.random.fold_in(chain[-1], i))
    zero = jax.tree.map(jnp.zeros_like, key)
    for f, argument, expected in [
        (keys("append"), key, jnp.stack(chain)),
        (keys("clobber"), key, chain[2]),
        (keys("cond_clobber"), key, chain[1]),
        (lambda k: sow_cond(k, False, tag=TAG, name="y"), key, zero),
        (lambda k: lax.fori_loop(0, jnp.int32(0), lambda i, k: put(k, "clobber"), k), key, zero),
        (lambda k: lax.cond(True, lambda k: put(k), lambda k: put(k), k), key, key),
        (jax.vmap(lambda k: put(k)), jnp.stack(chain), jnp.stack(chain)),
    ]:
        assert_same(reap(f, tag=TAG)(argument), {"y": expected})
        assert_same(plant(f, tag=TAG)({"y": expected}, argument).shape, jnp.shape(f(argument)))


def test_a_planted_key_is_drawn_from() -> None:
    f = lambda key: jax.random.normal(put(key))  # noqa: E731
    other = jax.random.key(1)
    assert_same(plant(f, tag=TAG)({"y": other}, jax.random.key(0)), jax.random.normal(other))


@pytest.mark.parametrize(
    "dtype", [bool, jnp.int8, jnp.uint32, jnp.int32, jnp.bfloat16, jnp.float16, jnp.complex64]
)
def test_dtypes_are_kept(dtype: Any) -> None:
    x = jnp.ones((), dtype)
    step = lambda c, _: (put(c, "clobber"), put(c, "append", name="z"))  # noqa: E731
    f = lambda x: lax.scan(step, x, None, length=2)  # noqa: E731
    ones = jnp.ones((2,), dtype)
    assert_same(harvest(f, tag=TAG)({}, x), ((x, ones), {"y": x, "z": ones}))
    zero, zeros = jnp.zeros_like(x), jnp.zeros_like(ones)
    assert_same(harvest(f, tag=TAG)({"y": zero, "z": zeros}, x), ((zero, zeros), {}))


def test_double_precision() -> None:
    third = np.float64(1) / 3
    with jax.enable_x64(True):
        f = lambda x: put(x / 3) + jax.jit(lambda x: put(x / 3, name="z"))(x)  # noqa: E731
        out, reaps = call_and_reap(f, tag=TAG)(jnp.float64(1))
        assert_same((out, reaps), (third + third, {"y": third, "z": third}))
        assert_same(plant(f, tag=TAG)({"y": 0.1, "z": 0.2}, jnp.float64(1)), np.float64(0.1) + 0.2)
        with pytest.raises(TypeError, match=r"plant 'y': expected float64\[\], got float32\[\]"):
            plant(f, tag=TAG)({"y": jnp.float32(0)}, jnp.float64(1))


@pytest.mark.parametrize("value", [1.0, 1, True, 1j], ids=str)
def test_weak_types_are_kept(value: Any) -> None:
    """A sown Python scalar does not widen what it meets, reaped or planted."""
    weak = jnp.asarray(value).weak_type
    half = lambda v: (v * jnp.ones((), jnp.float16)).dtype  # noqa: E731
    f = lambda x: put(value, "clobber")  # noqa: E731
    loop = lambda x: lax.fori_loop(0, 2, lambda i, c: put(c, "clobber"), jnp.asarray(value))  # noqa: E731
    for g in (f, loop, jax.jit(f), lambda x: lax.cond(x > 0, f, f, x)):
        out, reaps = call_and_reap(g, tag=TAG)(jnp.float32(1))
        planted = plant(g, tag=TAG)({"y": jnp.asarray(value).astype(out.dtype)}, jnp.float32(1))
        assert (out.weak_type, reaps["y"].weak_type, planted.weak_type) == (weak, weak, weak)
    if isinstance(value, float):
        assert half(call_and_reap(f, tag=TAG)(0.0)[1]["y"]) == jnp.float16


@pytest.mark.parametrize(
    ("site", "scalar", "expected"),
    [
        (jnp.float32(1), 2, jnp.float32(2)),
        (jnp.float32(1), 2.5, jnp.float32(2.5)),
        (jnp.bfloat16(1), 2.5, jnp.bfloat16(2.5)),
        (jnp.float16(1), 2, jnp.float16(2)),
        (jnp.int32(1), 2, jnp.int32(2)),
        (jnp.int8(1), -3, jnp.int8(-3)),
        (jnp.uint8(1), 200, jnp.uint8(200)),
        (jnp.uint32(1), 4294967295, jnp.uint32(4294967295)),
        (jnp.bool_(True), False, jnp.bool_(False)),
        (jnp.complex64(1), 2.5, jnp.complex64(2.5)),
        (jnp.complex64(1), 2j, jnp.complex64(2j)),
    ],
    ids=lambda v: f"{v.dtype}" if isinstance(v, jax.Array) else str(v),
)
def test_a_python_scalar_takes_the_dtype_of_the_site(site: Any, scalar: Any, expected: Any) -> None:
    """Law 7."""
    assert_same(plant(put, tag=TAG)({"y": scalar}, site), expected)
    assert_same(jax.jit(lambda x: plant(put, tag=TAG)({"y": scalar}, x))(site), expected)


@pytest.mark.parametrize(
    ("site", "scalar", "expected"),
    [
        (jnp.float16(1), 2.5, jnp.float16(2.5)),
        (jnp.float32(1), 2, jnp.float32(2)),
        (jnp.bool_(True), False, jnp.bool_(False)),
    ],
    ids=["float", "int", "bool"],
)
def test_a_python_scalar_as_an_argument_of_jit(site: Any, scalar: Any, expected: Any) -> None:
    """Law 7 holds jitted or not: a weakly typed tracer is what jit makes of a Python scalar."""
    assert_same(jax.jit(plant(put, tag=TAG))({"y": scalar}, site), expected)


@pytest.mark.parametrize(
    ("site", "planted"),
    [
        (jnp.int32(1), 1.5),
        (jnp.int32(1), 1j),
        (jnp.float32(1), 1j),
        (jnp.float32(1), True),
        (jnp.bool_(True), 1),
        (jnp.float32(1), jnp.int32(1)),
        (jnp.float32(1), jnp.float16(1)),
        (jnp.int32(1), jnp.uint32(1)),
        (jnp.uint8(1), 300),
        (jnp.uint8(1), -1),
        (jnp.int32(1), 2**40),
        (jax.random.key(0), 1),
        (jnp.float32(1), jax.random.key(0)),
        (jnp.float32(1), "one"),
        (jnp.float32(1), object()),
    ],
    ids=lambda v: f"{v.dtype}" if isinstance(v, jax.Array) else repr(v).split(" at")[0],
)
def test_a_plant_of_another_dtype(site: Any, planted: Any) -> None:
    """Law 7: no value is rounded, wrapped or reinterpreted in silence."""
    name = str(site.dtype)
    with pytest.raises((TypeError, ValueError), match=rf"plant 'y': expected {name}.*got "):
        plant(put, tag=TAG)({"y": planted}, site)
