"""Distribution functions of counts, as sums of the masses beyond a count."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.special import log1mexp

Ratio = Callable[..., Array]


def _series(ratio: Ratio, k: Array, step: Array, arguments: tuple[Array, ...], order: int) -> Any:
    """The sum `1 + r(k) + r(k) r(k + step) + ...`, and derivatives in the first `order` arguments.

    The sum ends when further terms are below rounding.
    """
    k, step, *at = jnp.broadcast_arrays(k, step, *arguments)
    ones = jnp.ones_like(k)

    def slope(i, k):
        units = tuple(ones * float(i == j) for j in range(len(at)))
        return jax.jvp(lambda *at: ratio(k, step, *at), tuple(at), units)[1]

    def advance(loop):
        k, term, total, slopes, sums = loop
        r = ratio(k, step, *at)
        slopes = tuple(s * r + term * slope(i, k) for i, s in enumerate(slopes))
        term = term * r
        sums = tuple(total + s for total, s in zip(sums, slopes, strict=True))
        return k + step, term, total + term, slopes, sums

    def goes_on(loop):
        return jnp.any(loop[1] > jnp.finfo(loop[1].dtype).eps * loop[2])

    none = tuple(0 * ones for _ in range(order))
    _, _, total, _, sums = lax.while_loop(goes_on, advance, (k, ones, ones, none, none))
    return total, sums


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_series(ratio: Ratio, k: Array, step: Array, arguments: tuple[Array, ...]) -> Array:
    return jnp.log(_series(ratio, k, step, arguments, 0)[0])


@_log_series.defjvp
def _log_series_jvp(ratio: Ratio, primals: Any, tangents: Any) -> tuple[Array, Array]:
    k, step, arguments = primals
    total, sums = _series(ratio, k, step, arguments, len(arguments))
    dot = sum(s * t for s, t in zip(sums, tangents[2], strict=True))
    return jnp.log(total), dot / total


def log_tails(
    log_prob: Callable[[Array], Array],
    ratio: Ratio,
    x: Array,
    is_below: Array,
    arguments: tuple[Array, ...],
) -> tuple[Array, Array]:
    """The logarithms of the probabilities up to `x` and above it.

    The masses are summed away from `x`, downwards where `is_below`. `ratio(k, step, *arguments)` is
    the mass of `k + step` over the mass of `k`, and 0 at the end of the support.
    """
    step = select(is_below, -1, jnp.ones_like(x))
    first = select(is_below, x, x + 1)
    series = _log_series(ratio, lax.stop_gradient(first), step, arguments)
    tail = jnp.minimum(log_prob(first) + series, 0)
    rest = log1mexp(tail)
    return select(is_below, tail, rest), select(is_below, rest, tail)
