"""Small programs that sow once or twice in each construct of JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import nest, sow, sow_cond

from .checks import TAG

Function = Callable[[Any], Any]
ROW = jnp.array([1.0, 2.0, 3.0])


def put(value: Any, mode: str = "strict", *, pred: Any = None, name: Any = "y") -> Any:
    """Sow in any of the four modes."""
    if mode == "cond_clobber":
        return sow_cond(value, pred, tag=TAG, name=name)
    return sow(value, tag=TAG, name=name, mode=mode)


def once(mode: str, *, above: float = 0.0) -> Function:
    return lambda x: 2 * put(x + 1, mode, pred=x > above)


def twice(mode: str, *, above: float = 5.0) -> Function:
    def f(x: Any) -> Any:
        first = put(x, mode, pred=x > 0)
        return first + put(2 * first, mode, pred=x > above)

    return f


def scan(
    mode: str,
    *,
    below: float = 3.0,
    around: Callable[[Function], Function] = lambda f: f,
    **options: Any,
) -> Function:
    """Carry `c + v` for v = 1, 2, 3, sown; twice of it is scanned out."""

    def step(c: Any, v: Any) -> Any:
        c = around(lambda c: put(c, mode, pred=v < below))(c + v)
        return c, 2 * c

    return lambda x: lax.scan(step, x, jnp.array([1.0, 2.0, 3.0]), **options)


def doubling(mode: str, length: int) -> Function:
    def step(c: Any, _: None) -> Any:
        return put(2 * c, mode, pred=c < 4), None

    return lambda x: lax.scan(step, x, None, length=length)[0]


def fori(mode: str, *, dynamic: bool, upper: int = 3, below: int = 2) -> Function:
    """`c + i` for i = 0, 1, ... sown; a while loop if the bound is dynamic."""

    def f(x: Any) -> Any:
        bound = jnp.int32(upper) if dynamic else upper
        body = lambda i, c: put(c + jnp.float32(i), mode, pred=i < below)  # noqa: E731
        return lax.fori_loop(jnp.int32(0) if dynamic else 0, bound, body, x)

    return f


def while_below(limit: float, mode: str, *, below: float = 3.0) -> Function:
    return lambda x: lax.while_loop(
        lambda c: c < limit, lambda c: put(c + 1, mode, pred=c < below) * 2, x
    )


def branch(mode: str, *, above: float = 0.0) -> Function:
    """`2 (x + 1)` above, `4 x` below, one summand of them sown."""
    return lambda x: lax.cond(
        x > above,
        lambda x: 2 * put(x + 1, mode, pred=x > 2),
        lambda x: 4 * put(x, mode, pred=x > 2),
        x,
    )


def switch(mode: str, index: int) -> Function:
    branches = [lambda x, i=i: put(x + i, mode, pred=x > 1) * i for i in (1.0, 2.0, 3.0)]
    return lambda x: lax.switch(index, branches, x)


def over_columns(mode: str) -> Function:
    """`vmap` over axis 1 of a matrix."""
    row = lambda column: 2 * put(column + 1, mode, pred=column.sum() > 6)  # noqa: E731
    return jax.vmap(row, in_axes=1, out_axes=-1)


def sums(f: Function) -> Function:
    return lambda x: jax.tree.map(jnp.sum, f(x))


def nested_scan(mode: str) -> Function:
    def outer(c: Any, a: Any) -> Any:
        return lax.scan(lambda c, b: (put(c + a * b, mode, pred=b < 3), None), c, ROW)

    return lambda x: lax.scan(outer, x, jnp.array([1.0, 10.0]))[0]


def append_twice_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = put(c + v, "append")
        return put(2 * c, "append"), None

    return lax.scan(step, x, jnp.array([1.0, 2.0]))[0]


def two_scans(mode: str) -> Function:
    return lambda x: scan(mode)(scan(mode)(x)[0])[0]


def mixed_in_scan(x: Any) -> Any:
    """Two clobber modes side by side: no state of one may leak into the other."""

    def step(c: Any, v: Any) -> Any:
        c = put(c + v, "clobber", name="a")
        c = put(c + 1, "cond_clobber", pred=v < 3, name="b")
        return c, put(2 * c, "append", name="c")

    return lax.scan(step, x, jnp.array([1.0, 2.0, 3.0]))


def mixed_reversed_in_scan(x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = put(c + v, "cond_clobber", pred=v < 3, name="a")
        return put(c + 1, "clobber", name="b"), None

    return lax.scan(step, x, jnp.array([1.0, 2.0, 3.0]))[0]


def scan_of_vmap(mode: str) -> Function:
    """x: (2,). Carries `c + v`, sown element by element."""

    def step(c: Any, v: Any) -> Any:
        return jax.vmap(lambda e: put(e + v, mode, pred=e > 1))(c), None

    return lambda x: lax.scan(step, x, jnp.array([1.0, 2.0, 3.0]))[0]


def in_while(body: Function, times: int = 2) -> Function:
    def step(state: Any) -> Any:
        i, c = state
        return i + 1, body(c)

    return lambda x: lax.while_loop(lambda s: s[0] < times, step, (jnp.int32(0), x))[1]


def scopes(f: Function) -> Function:
    return lambda x: nest(f, scope="a")(x) + nest(f, scope="b")(2 * x)


def constant(x: Any) -> Any:
    return x + put(10.0)


def unused(mode: str) -> Function:
    def f(x: Any) -> Any:
        put(x + 1, mode, pred=x > 0)
        return 2 * x

    return f


def several(x: Any) -> Any:
    z = put(x + 1, name="z")
    a = put(2 * z, name="a")
    return a - z


def jitted_without_result(x: Any) -> Any:
    def sows(x: Any) -> None:
        put(x + 1)

    jax.jit(sows)(x)
    return 2 * x


def closing_over(x: Any) -> Any:
    return jax.jit(lambda: 2 * put(x + 1))()
