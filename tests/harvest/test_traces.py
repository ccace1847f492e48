"""The cost of harvesting grows with the program, not with the depth of its nesting."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, nest, plant, reap
from ppl.harvest.interpreter import Interpreter
from ppl.harvest.liveness import Liveness
from ppl.harvest.survey import Survey

from .checks import TAG, assert_same, equations
from .constructs import put

X = jnp.float32(1.0)
Wrap = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]

WRAPS: dict[str, Wrap] = {
    "jit": lambda f: jax.jit(lambda x: f(x + 1)),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c + 1), None), x, None, length=1)[0],
    "cond": lambda f: lambda x: lax.cond(x > 0, lambda x: f(x + 1), lambda x: put(x, "clobber"), x),
    "while": lambda f: lambda x: lax.fori_loop(0, jnp.int32(1), lambda i, c: f(c + 1), x),
    "vmap": lambda f: lambda x: jax.vmap(lambda x: f(x + 1))(x[None])[0],
    "jit-twice": lambda f: jax.jit(lambda x: f(f(x + 1))),
}


def deep(wraps: list[Wrap], depth: int) -> Callable[[Any], Any]:
    f = lambda x: put(x, "clobber")  # noqa: E731
    for i in range(depth):
        f = wraps[i % len(wraps)](f)
    return f


def spying(original: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def spy(*args: Any, **kwargs: Any) -> Any:
        asked.append(original.__qualname__)
        return original(*args, **kwargs)

    return spy


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the interpreter, the survey and the liveness analysis are asked."""
    asked: list[str] = []
    for owner, name in (
        (Interpreter, "_equation"),
        (Survey, "survey_equation"),
        (Liveness, "_find_live"),
    ):
        monkeypatch.setattr(owner, name, spying(getattr(owner, name), asked))
    return asked


@pytest.mark.parametrize(
    "wraps", [*([w] for w in WRAPS), ["jit", "scan", "cond", "while"]], ids="-".join
)
@pytest.mark.parametrize("plants", [{}, {"y": 1.0}], ids=["reap", "plant"])
def test_work_grows_linearly_with_depth(calls: list[str], wraps: list[str], plants: Any) -> None:
    counts = []
    for depth in (4, 8, 12):
        calls.clear()
        f = harvest(deep([WRAPS[w] for w in wraps], depth), tag=TAG)
        reaps = jax.make_jaxpr(lambda x, f=f: f(plants if wraps != ["vmap"] else {}, x))(X)
        assert reaps.out_avals
        counts.append({name: calls.count(name) for name in set(calls)})
    for name in counts[0]:
        growth = [counts[1][name] - counts[0][name], counts[2][name] - counts[1][name]]
        assert growth[1] <= growth[0], counts


def test_nest_keeps_one_what_is_called_twice(calls: list[str]) -> None:
    counts = []
    for depth in (4, 8, 12):
        calls.clear()
        f = nest(deep([WRAPS["jit-twice"]], depth), scope="a")
        jax.make_jaxpr(reap(f, tag=TAG))(X)
        counts.append(len(calls))
    assert counts[2] - counts[1] <= counts[1] - counts[0], counts


@pytest.mark.parametrize(
    "wraps", [*([w] for w in WRAPS if w != "vmap"), ["jit", "scan", "cond", "while"]], ids="-".join
)
def test_a_program_keeps_its_size(wraps: list[str]) -> None:
    """Nothing is evaluated twice: the harvested program holds each call, loop and branch once."""
    f = deep([WRAPS[w] for w in wraps], 8)
    assert constructs_of(reap(f, tag=TAG), X) == constructs_of(f, X)
    assert constructs_of(plant(f, tag=TAG), {"y": 1.0}, X) == constructs_of(f, X)


def constructs_of(f: Callable[..., Any], *args: Any) -> list[str]:
    """The constructs of a program in order, without what `jax.numpy` jits for itself."""
    own = [e for e in equations(f, *args) if not e.params.get("name", "").startswith("_")]
    return [e.primitive.name for e in own if e.primitive.name in WRAPS]


def test_a_function_is_traced_once() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(x)
        return put(x)

    harvested = jax.jit(harvest(f, tag=TAG))
    for value in (1.0, 2.0, 3.0):
        assert_same(harvested({}, jnp.float32(value)), (value, {"y": value}))
    assert len(traces) == 1


def test_an_inner_jit_is_traced_once_for_all_its_calls() -> None:
    traces = []

    @jax.jit
    def inner(x: Any) -> Any:
        traces.append(x)
        return put(x, "append")

    reaps = reap(lambda x: inner(inner(inner(x))), tag=TAG)(X)
    assert_same(reaps, {"y": jnp.ones(3, jnp.float32)})
    assert len(traces) == 1


def test_one_jitted_function_in_two_scopes() -> None:
    """The cache of jit must not remember a scope, a plant or a tag."""
    inner = jax.jit(lambda x: 2 * put(x))
    f = lambda x: nest(inner, scope="a")(x) + nest(inner, scope="b")(x + 1) + inner(x + 2)  # noqa: E731
    assert_same(reap(f, tag=TAG)(X), {"a": {"y": 1.0}, "b": {"y": 2.0}, "y": 3.0})
    assert_same(harvest(f, tag=TAG)({"b": {"y": 5.0}}, X), (18.0, {"a": {"y": 1.0}, "y": 3.0}))
    assert_same(harvest(f, tag=TAG)({"y": 5.0}, X), (16.0, {"a": {"y": 1.0}, "b": {"y": 2.0}}))
    assert_same(inner(X), 2.0)


def test_no_tracer_leaks() -> None:
    f = lambda x: deep(list(WRAPS.values())[:4], 4)(x)  # noqa: E731
    with jax.checking_leaks():
        assert_same(jax.jit(harvest(f, tag=TAG))({}, X)[1], {"y": 5.0})
