"""A harvested function compiles to no more than the same function written by hand."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, reap

from .checks import TAG
from .constructs import put

X = jnp.linspace(0.1, 1.0, 8)
VS = jnp.arange(5.0)
ZEROS = jnp.zeros(8)
Function = Callable[..., Any]


def jitted_twice(x: Any) -> Any:
    inner = jax.jit(lambda x: put(jnp.sin(x), "append") * 2)
    return inner(inner(x))


def jitted_twice_by_hand(_: Any, x: Any) -> Any:
    inner = jax.jit(lambda x: (jnp.sin(x) * 2, jnp.sin(x)))
    x, first = inner(x)
    x, second = inner(x)
    return x, jnp.stack([first, second])


def scan(x: Any) -> Any:
    return lax.scan(lambda c, v: (put(jnp.sin(c) + v, "append") * 2, None), x, VS)[0]


def scan_by_hand(_: Any, x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        y = jnp.sin(c) + v
        return y * 2, y

    return lax.scan(step, x, VS)


def scan_planted(plants: Any, x: Any) -> Any:
    """No step reads the state, so that the first one need not be known."""
    return lax.scan(lambda c, y: (y * 2, None), jnp.zeros_like(x), plants["y"])[0], None


def bound(x: Any, static: bool) -> Any:
    """How often to loop: five times, or as often as only the argument tells."""
    return 5 if static else x.sum().astype(int)


def carried(mode: str, static: bool) -> Function:
    def step(i: Any, c: Any) -> Any:
        y = jnp.sin(c) + i
        return put(y, mode, pred=y[0] < 1) * 2

    return lambda x: lax.fori_loop(0, bound(x, static), step, x)


def carried_by_hand(mode: str, static: bool) -> Function:
    def step(i: Any, state: Any) -> Any:
        c, last = state
        y = jnp.sin(c) + i
        return y * 2, jnp.where(y[0] < 1, y, last) if mode == "cond_clobber" else y

    return lambda _, x: lax.fori_loop(0, bound(x, static), step, (x, ZEROS))


def cond(x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda x: put(jnp.sin(x)) * 2, lambda x: put(jnp.cos(x)) + 1, x)


def cond_by_hand(_: Any, x: Any) -> Any:
    above, below = (lambda y: (y * 2, y)), (lambda y: (y + 1, y))
    return lax.cond(x[0] > 0, lambda x: above(jnp.sin(x)), lambda x: below(jnp.cos(x)), x)


def cond_planted(plants: Any, x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: y * 2, lambda y: y + 1, plants["y"]), None


def gradient_by_hand(_: Any, x: Any) -> Any:
    def f(x: Any) -> Any:
        out, y = scan_by_hand(None, x)
        return out.sum(), y

    return jax.grad(f, has_aux=True)(x)


PAIRS: dict[str, tuple[Function, Function, bool]] = {
    "jit": (jitted_twice, jitted_twice_by_hand, False),
    "scan": (scan, scan_by_hand, False),
    "scan-planted": (scan, scan_planted, True),
    **{
        f"{'fori' if static else 'while'}-{mode}": (
            carried(mode, static),
            carried_by_hand(mode, static),
            False,
        )
        for static in (True, False)
        for mode in ("clobber", "cond_clobber")
    },
    "cond": (cond, cond_by_hand, False),
    "cond-planted": (cond, cond_planted, True),
    "grad-of-scan": (jax.grad(lambda x: scan(x).sum()), gradient_by_hand, False),
}


def num_operations(f: Function, *args: Any) -> int:
    """HLO operations of the compiled program, but for those that only pass values on."""
    text = jax.jit(f).lower(*args).compile().as_text()
    names = re.findall(r"^\s+(?:ROOT )?\S+ = (?:\(.*?\) |\S+ )([a-z][\w-]*)\(", text, re.MULTILINE)
    assert names
    return sum(name not in ("parameter", "tuple", "get-tuple-element") for name in names)


@pytest.mark.parametrize(("f", "by_hand", "planted"), PAIRS.values(), ids=PAIRS)
def test_no_more_operations_than_by_hand(f: Function, by_hand: Function, planted: bool) -> None:
    plants = reap(f, tag=TAG)(X) if planted else {}
    assert num_operations(harvest(f, tag=TAG), plants, X) <= num_operations(by_hand, plants, X)
