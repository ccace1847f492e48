"""What harvest makes of a function: names, arguments and results, the calls and loops in it."""

import enum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ppl.harvest import call_and_reap, harvest, nest, plant, reap, sow

from .checks import OTHER, TAG, assert_same, equations, floats, primitives
from .constructs import put


class Color(enum.Enum):
    RED = 1


TAGS = [1, 2.5, ("a", 1), Color.RED, None, frozenset({1}), int]


@pytest.mark.parametrize("label", TAGS, ids=repr)
def test_any_hashable_is_a_tag_a_name_and_a_scope(label: Any) -> None:
    f = lambda x: sow(x, tag=label, name=label)  # noqa: E731
    assert_same(call_and_reap(f, tag=label)(1.0), (1.0, {label: 1.0}))
    assert_same(harvest(f, tag=label)({label: 2.0}, 1.0), (2.0, {}))
    assert_same(reap(f, tag=OTHER)(1.0), {})


def test_the_same_name_under_two_tags() -> None:
    f = lambda x: sow(sow(x, tag=TAG, name="y") + 1, tag=OTHER, name="y")  # noqa: E731
    assert_same(reap(call_and_reap(f, tag=TAG), tag=OTHER)(1.0), {"y": 2.0})
    assert_same(
        harvest(harvest(f, tag=TAG), tag=OTHER)({}, {"y": 5.0}, 1.0), ((6.0, {}), {"y": 6.0})
    )
    assert_same(harvest(f, tag=TAG, exclusive=True)({}, 1.0), (2.0, {"y": 1.0}))


NAMES = ["a", "b", ("s", "a"), ("s", "c")]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, NAMES),
        ({"allowlist": ["a"]}, ["a", ("s", "a")]),
        ({"allowlist": ["s"]}, [("s", "a"), ("s", "c")]),
        ({"allowlist": ("c", "b")}, ["b", ("s", "c")]),
        ({"allowlist": []}, []),
        ({"blocklist": ["a"]}, ["b", ("s", "c")]),
        ({"blocklist": ("s",)}, ["a", "b"]),
        ({"allowlist": ["s"], "blocklist": ["c"]}, [("s", "a")]),
        ({"blocklist": ["nobody"]}, NAMES),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)
def test_allowlist_and_blocklist(options: dict[str, Any], expected: list[Any]) -> None:
    def f(x: Any) -> Any:
        a, b = put(x, name="a"), put(x, name="b")
        inner = nest(lambda x: (put(x, name="a"), put(x, name="c")), scope="s")
        return a, b, *jax.jit(inner)(x)

    scoped = {n[1]: 1.0 for n in expected if isinstance(n, tuple)}
    reaps = {n: 1.0 for n in expected if isinstance(n, str)} | ({"s": scoped} if scoped else {})
    assert_same(reap(f, tag=TAG, **options)(1.0), reaps)
    plants = {"a": 2.0, "b": 2.0, "s": {"a": 2.0, "c": 2.0}}
    outs = tuple(2.0 if n in expected else 1.0 for n in NAMES)
    assert_same(harvest(f, tag=TAG, **options)(plants, 1.0), (outs, {}))


def test_static_arguments() -> None:
    """What is no array is passed on as it is, and may decide what is traced."""

    def f(
        x: Any,
        how: str,
        shape: tuple[int, int],
        apply: Any,
        nothing: None,
        *,
        name: str,
        flip: bool,
    ) -> Any:
        x = apply(x) if how == "apply" else x
        x = put(jnp.full(shape, x), name=name)
        return (-x if flip else x), nothing

    expected = np.full((2, 3), 4, np.float32)
    harvested = harvest(f, tag=TAG)
    out = harvested({}, jnp.float32(3), "apply", (2, 3), lambda x: x + 1, None, name="n", flip=True)
    assert_same(out, ((-expected, None), {"n": expected}))


def test_outputs_that_are_no_arrays() -> None:
    f = lambda x: {"a": put(x), "b": "text", "c": None, "d": 7, "e": Color.RED, "f": len}  # noqa: E731
    out, reaps = call_and_reap(f, tag=TAG)(jnp.float32(1))
    assert_same((out.pop("a"), reaps), (1.0, {"y": 1.0}))
    assert out == {"b": "text", "c": None, "d": 7, "e": Color.RED, "f": len}


def test_python_control_flow_on_python_numbers() -> None:
    f = lambda x, n: sum(put(x + i, "append") for i in range(n)) if n > 1 else put(x)  # noqa: E731
    assert_same(reap(f, tag=TAG)(1.0, 3), {"y": floats(1, 2, 3)})
    assert_same(reap(f, tag=TAG)(1.0, 1), {"y": 1.0})


def test_numpy_arguments_are_arrays() -> None:
    f = lambda x: put(x) + 1  # noqa: E731
    assert_same(call_and_reap(f, tag=TAG)(floats(1, 2)), (floats(2, 3), {"y": floats(1, 2)}))
    assert_same(call_and_reap(f, tag=TAG)(np.float32(1)), (2.0, {"y": 1.0}))


def test_an_argument_that_comes_back_is_an_array() -> None:
    out = harvest(lambda x, y: (x, put(y)), tag=TAG)({}, floats(1, 2), np.float32(3))[0]
    assert all(isinstance(leaf, jax.Array) for leaf in out)


def test_closed_over_tracers() -> None:
    """Harvest inside of other transformations, over values that they trace."""

    def outer(x: Any) -> Any:
        f = lambda y: lax.scan(lambda c, v: (put(c * x + v, "append"), None), y, floats(1, 2))[0]  # noqa: E731
        out, reaps = call_and_reap(f, tag=TAG)(2.0)
        return out + reaps["y"].sum() + plant(f, tag=TAG)({"y": jnp.stack([x, 3 * x])}, 2.0)

    # With c1 = 2 x + 1, c2 = x c1 + 2: c2 + c1 + c2 + 3 x, and its derivative.
    value = lambda x: 2 * (x * (2 * x + 1) + 2) + 2 * x + 1 + 3 * x  # noqa: E731
    slope = lambda x: 8 * x + 7  # noqa: E731
    assert_same(jax.jit(outer)(1.0), value(1.0))
    assert_same(jax.grad(outer)(2.0), slope(2.0))
    assert_same(jax.vmap(outer)(floats(1, 2)), floats(value(1), value(2)))
    assert_same(jax.vmap(jax.grad(outer))(floats(1, 2)), floats(slope(1), slope(2)))


def test_the_call_of_jit_is_kept() -> None:
    """A jitted function stays one call, under its name, planted or reaped."""

    @jax.jit
    def inner(x: Any) -> Any:
        return 2 * put(x)

    for plants in ({}, {"y": 1.0}):
        names = [
            e.params["name"]
            for e in equations(harvest(inner, tag=TAG), plants, 1.0)
            if e.primitive.name == "jit"
        ]
        assert names == ["inner"]


def test_the_options_of_loops_are_kept() -> None:
    step = lambda c, v: (put(c + v, "append"), None)  # noqa: E731
    f = lambda x: lax.scan(step, x, floats(1, 2, 3, 4), reverse=True, unroll=2)  # noqa: E731
    (scan,) = [e for e in equations(harvest(f, tag=TAG), {}, 1.0) if e.primitive.name == "scan"]
    assert [scan.params[k] for k in ("reverse", "unroll", "length")] == [True, 2, 4]


def test_a_sharding_of_an_inner_jit_is_kept() -> None:
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    inner = jax.jit(lambda x: 2 * put(x), in_shardings=sharding, out_shardings=sharding)
    harvested = harvest(inner, tag=TAG)
    assert_same(harvested({}, jnp.float32(1)), (2.0, {"y": 1.0}))
    assert_same(harvested({"y": 5.0}, jnp.float32(1)), (10.0, {}))
    (call,) = [e for e in equations(harvested, {}, jnp.float32(1)) if e.primitive.name == "jit"]
    assert sharding in call.params["in_shardings"]
    assert sharding in call.params["out_shardings"]


def test_reaps_come_in_program_order() -> None:
    def f(x: Any) -> Any:
        put(x, name="z")
        jax.jit(lambda x: [put(x, name=n) for n in ("m", "b")])(x)
        lax.scan(
            lambda c, v: (put(c, "clobber", name="k"), put(v, "append", name="j")), x, floats(1)
        )
        lax.cond(
            x > 0,
            lambda: (put(x, name="q"), put(x, name="c")),
            lambda: (put(-x, name="q"), put(-x, name="c")),
        )
        return put(x, name="a")

    assert list(reap(f, tag=TAG)(jnp.float32(1))) == ["z", "m", "b", "k", "j", "q", "c", "a"]
    assert "sow" not in primitives(reap(f, tag=TAG), jnp.float32(1))


def test_a_jit_donates_nothing_that_is_reaped_or_planted() -> None:
    row = jnp.array([1.0, 2.0])
    take = jax.jit(lambda x: put(x + 1) * 2, donate_argnums=0)
    (eqn,) = [e for e in equations(harvest(take, tag=TAG), {}, row) if e.primitive.name == "jit"]
    assert eqn.params["donated_invars"] == (True,)
    given = row + 0
    reaps = reap(take, tag=TAG)(given)
    assert given.is_deleted()
    assert_same(reaps, {"y": row + 1})

    def sown_before(x: Any) -> Any:
        return take(put(x + 0, name="z"))

    assert_same(reap(sown_before, tag=TAG)(row), {"z": row, "y": row + 1})
    z = row + 0
    assert_same(harvest(sown_before, tag=TAG)({"z": z}, row), (2 * (row + 1), {"y": row + 1}))
    assert not z.is_deleted()
