"""Callbacks beside sows are left alone: each runs once for each time that the program comes by."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import io_callback

from ppl.harvest import call_and_reap, harvest

from .checks import TAG, assert_same, primitives
from .constructs import put

X = jnp.float32(1.0)
FLOAT = jax.ShapeDtypeStruct((), jnp.float32)
SEEN: list[float] = []
Function = Callable[[Any], Any]


def seen(x: Any) -> Any:
    SEEN.append(float(x))
    return x


def debug(x: Any) -> Any:
    jax.debug.callback(seen, x)
    return x


CALLBACKS: dict[str, tuple[str, Function]] = {
    "pure": ("pure_callback", lambda x: jax.pure_callback(seen, FLOAT, x)),
    "io": ("io_callback", lambda x: io_callback(seen, FLOAT, x)),
    "io-ordered": ("io_callback", lambda x: io_callback(seen, FLOAT, x, ordered=True)),
    "debug": ("debug_callback", debug),
    "debug-ordered": (
        "debug_callback",
        lambda x: (jax.debug.callback(seen, x, ordered=True), x)[1],
    ),
}


def around(callback: Function) -> Function:
    """A callback before a sow and one after it."""
    return lambda x: callback(put(callback(2 * x), "clobber") + 1)


def scanned(f: Function) -> Function:
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


def branched(f: Function) -> Function:
    return lambda x: lax.cond(x > 0, f, lambda x: put(x, "clobber"), x)


ONCE = [2.0, 3.0], [2.0, 11.0]
TWICE = [2.0, 3.0, 6.0, 7.0], [2.0, 11.0, 11.0, 22.0]

# With what the callbacks see, as it is and with 10 planted.
CONSTRUCTS: dict[str, tuple[Callable[[Function], Function], list[float], list[float]]] = {
    "straight": (lambda f: f, *ONCE),
    "jit": (jax.jit, *ONCE),
    "scan": (scanned, *TWICE),
    "cond": (branched, *ONCE),
    "cond-in-scan": (lambda f: scanned(branched(f)), *TWICE),
    "while": (
        lambda f: lambda x: lax.while_loop(lambda c: c < 7, f, x),
        [2.0, 3.0, 6.0, 7.0],
        [2.0, 11.0],
    ),
    "jit-in-scan": (lambda f: scanned(jax.jit(f)), *TWICE),
}

each_callback = pytest.mark.parametrize(("name", "callback"), CALLBACKS.values(), ids=CALLBACKS)
each_construct = pytest.mark.parametrize(
    ("wrap", "calls", "planted"), CONSTRUCTS.values(), ids=CONSTRUCTS
)


def calls_of(f: Callable[..., Any], *args: Any) -> tuple[Any, list[float]]:
    """The result of a function, and what its callbacks saw meanwhile, in whatever order."""
    SEEN.clear()
    out = jax.block_until_ready(f(*args))
    jax.effects_barrier()
    return out, sorted(SEEN)


Wrap = Callable[[Function], Function]


@pytest.mark.slow_rows(
    "scan-pure",
    "scan-debug",
    "cond-in-scan-pure",
    "cond-in-scan-io",
    "cond-in-scan-io-ordered",
    "cond-in-scan-debug",
    "cond-in-scan-debug-ordered",
    "while-pure",
    "while-io",
    "while-io-ordered",
    "while-debug",
    "while-debug-ordered",
    "jit-in-scan-pure",
    "jit-in-scan-io",
    "jit-in-scan-io-ordered",
    "jit-in-scan-debug",
    "jit-in-scan-debug-ordered",
)
@each_callback
@each_construct
def test_each_callback_runs_once(
    name: str, callback: Function, wrap: Wrap, calls: list[float], planted: list[float]
) -> None:
    """Reaping changes neither the result nor what is called, jitted or not."""
    f = wrap(around(callback))
    out, sown = calls[-1], calls[-2]
    assert calls_of(jax.jit(f), X) == (out, calls)
    for harvested in (call_and_reap(f, tag=TAG), jax.jit(call_and_reap(f, tag=TAG))):
        result, called = calls_of(harvested, X)
        assert_same(result, (out, {"y": sown}))
        assert called == calls
    assert primitives(harvested, X).count(name) == primitives(f, X).count(name)


@each_callback
@each_construct
def test_a_callback_before_a_plant(
    name: str, callback: Function, wrap: Wrap, calls: list[float], planted: list[float]
) -> None:
    """One with an effect stays; a pure one whose result nothing needs is not called."""
    harvested = jax.jit(harvest(wrap(around(callback)), tag=TAG))
    out, called = calls_of(harvested, {"y": 10.0}, X)
    assert_same(out, (11.0, {}))
    if name == "pure_callback":
        assert set(called) == {11.0}  # XLA calls one that is the same in all iterations once
    else:
        assert called == planted


@pytest.mark.parametrize("name", ["io-ordered", "debug-ordered"])
def test_ordered_callbacks_keep_their_order(name: str) -> None:
    f = scanned(around(CALLBACKS[name][1]))
    SEEN.clear()
    jax.block_until_ready(jax.jit(call_and_reap(f, tag=TAG))(X))
    jax.effects_barrier()
    assert SEEN == [2.0, 3.0, 6.0, 7.0]


def test_what_a_callback_returns_is_sown() -> None:
    f = lambda x: put(jax.pure_callback(lambda x: x + 1, FLOAT, x))  # noqa: E731
    assert_same(jax.jit(call_and_reap(f, tag=TAG))(X), (2.0, {"y": 2.0}))
    mapped = lambda x: put(jax.pure_callback(lambda x: x + 1, FLOAT, x, vmap_method="sequential"))  # noqa: E731
    assert_same(
        call_and_reap(jax.vmap(mapped), tag=TAG)(jnp.array([1.0, 2.0]))[1],
        {"y": jnp.array([2.0, 3.0])},
    )
