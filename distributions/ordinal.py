"""Ordered levels (OrderedLogistic, OrderedProbit, StoppingRatioLogistic), orders (PlackettLuce)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions._arrays import select
from distributions.categories import category_entropy, category_moments, take
from distributions.constraints import (
    independent,
    integer_interval,
    ordered,
    permutation,
    positive,
    real,
    real_vector,
)
from distributions.family import Family, family
from distributions.normal_functions import log_ndtr
from distributions.row import parameter
from distributions.special import log1mexp
from distributions.special_counts import column

_FAR = -40.0  # From where on Mills' ratio is given by two terms of its series.
_SHORT = 16  # The length of rows whose entries are found by comparisons.


def _levels(cutpoints, loc):
    return integer_interval(0, np.shape(cutpoints)[-1])


def _pick(table: Array, index: Array) -> Array:
    """`table[..., index]` along the last axis.

    Of a short table by comparisons, which are fused with what follows: gathers are not, nor are
    the scatters that their derivatives are.
    """
    if table.shape[-1] > _SHORT:
        return take(table, index)
    entry = table[..., 0]
    for i in range(1, table.shape[-1]):
        entry = select(index >= i, table[..., i], entry)
    return entry


def _between(y: Array, cutpoints: Array, loc: Array, low: Any, high: Any) -> tuple[Array, Array]:
    """The cutpoints below and above a level; where there is none, `low` and `high`.

    Those of a short row by comparisons, as `_pick`, each spread over the levels once: then the
    derivative by it is a single sum.
    """
    index, last = y.astype(int), cutpoints.shape[-1]
    shape = np.broadcast_shapes(index.shape, loc.shape, cutpoints.shape[:-1])
    below, above = jnp.full(shape, low, loc.dtype), jnp.full(shape, high, loc.dtype)
    if last > _SHORT:
        under, over = (take(cutpoints, jnp.clip(index - k, 0, last - 1)) for k in (1, 0))
        return select(index > 0, under, below), select(index < last, over, above)
    for k in range(last):
        cutpoint = jnp.broadcast_to(cutpoints[..., k], shape)
        below, above = select(index == k + 1, cutpoint, below), select(index == k, cutpoint, above)
    return below, above


def _above(x: Array, cutpoints: Array, loc: Array) -> Array:
    """How far the cutpoint above a level is from `loc`."""
    return _between(x, cutpoints, loc, 0, 0)[1] - loc


def _factors(u: Array, v: Array, gap: Array) -> tuple[Array, ...]:
    """Parts of `F(v) - F(u) = F(v) F(-u) (1 - exp(gap))` for the logistic function `F`.

    Where `F(v) F(-u)` is `exp(-a) / ((1 + e) (1 + f))`: `a`, `e`, `f`, and the last factor.
    """
    e, f = (jnp.exp(select(x > 0, -x, x)) for x in (u, v))
    return select(u > 0, u, 0) + select(v > 0, 0, -v), e, f, -jnp.expm1(gap)


@jax.custom_jvp
def _log_logistic(below: Array, above: Array, loc: Array) -> Array:
    """`log(F(above - loc) - F(below - loc))` for the logistic function `F`.

    No probability is subtracted from another: levels that have nearly all of it lose no digit.
    """
    gap = select(below < above, below - above, -1)
    a, e, f, rest = _factors(below - loc, above - loc, gap)
    odds_against = (e + f + e * f + jnp.exp(gap)) / rest
    return select(below < above, -a - jnp.log1p(odds_against), -jnp.inf)


@_log_logistic.defjvp
def _log_logistic_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivative of `log F` is `F` at the opposite point; that of the last factor, minus odds.

    Cutpoints that do not ascend are drawn apart: there it is as if one were 1 below the other.
    """
    below, above, loc = primals
    u, v, gap = below - loc, above - loc, select(below < above, below - above, -1)
    _, e, f, rest = _factors(u, v, gap)
    up, down = select(u > 0, 1, e) / (1 + e), select(v > 0, f, 1) / (1 + f)
    odds = jnp.exp(gap) / rest
    dot = -(up + odds) * tangents[0] + (down + odds) * tangents[1] + (up - down) * tangents[2]
    return _log_logistic(*primals), dot


def _ordered_logistic_log_prob(y, cutpoints, loc):
    far = jnp.finfo(loc.dtype).max / 4
    return _log_logistic(*_between(y, cutpoints, loc, -far, far), loc)


def _all_log_probs(log_prob, cutpoints, loc):
    """Of every level, along a new last axis."""
    shape = np.broadcast_shapes(np.shape(cutpoints)[:-1], np.shape(loc))
    cutpoints = jnp.broadcast_to(cutpoints, (*shape, np.shape(cutpoints)[-1]))
    levels = range(cutpoints.shape[-1] + 1)
    one = lambda k: log_prob(jnp.full(shape, k), cutpoints, jnp.broadcast_to(loc, shape))  # noqa: E731
    return jnp.stack([one(k) for k in levels], axis=-1)


def _ordinal_rows(log_prob):
    """What all families of ordered levels take from the probabilities of the levels."""
    every = lambda *p: _all_log_probs(log_prob, *p)  # noqa: E731
    return {
        "support": _levels,
        "log_prob": log_prob,
        "sample": lambda key, shape, dtype, *p: random.categorical(key, every(*p), shape=shape),
        "mean": lambda *p: category_moments(jnp.exp(every(*p)))[0],
        "variance": lambda *p: category_moments(jnp.exp(every(*p)))[1],
        "mode": lambda *p: jnp.argmax(every(*p), axis=-1),
        "entropy": lambda *p: category_entropy(every(*p)),
    }


@family(
    **_ordinal_rows(_ordered_logistic_log_prob),
    log_cdf=lambda x, *p: -jax.nn.softplus(-_above(x, *p)),
    log_survival=lambda x, *p: -jax.nn.softplus(_above(x, *p)),
)
class OrderedLogistic(Family):
    r"""Distribution over ordered levels: of the cutpoints below a logistic variable, how many.

    `P(y <= k) = 1 / (1 + exp(loc - cutpoints[k]))` for the levels `k = 0, 1, ..., n`.

    Args:
        cutpoints: `n` increasing numbers, of shape `(..., n)`.
        loc: The location of the logistic variable.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.OrderedLogistic(jnp.array([-1.0, 1.0]), 0.0).log_prob(jnp.arange(3)).round(4))
    [-1.3133 -0.7719 -1.3133]

    References:
        P. McCullagh, "Regression models for ordinal data", Journal of the Royal Statistical Society
        B 42 (1980), 109-142.
    """

    cutpoints: ArrayLike = parameter(ordered)
    loc: ArrayLike = parameter(real)


def _log_tail_ratio(x, width):
    """`log(Phi(x - width) / Phi(x))` far out in a tail, where the squares in it would cancel."""
    x = jnp.minimum(x, _FAR)
    inverse, other = 1 / x, 1 / (x - width)
    series = lambda v: v * v * (1 - 2.5 * v * v)  # noqa: E731
    return width * (x - 0.5 * width) - jnp.log1p(-width * inverse) + series(inverse) - series(other)


def _ordered_probit_log_prob(y, cutpoints, loc):
    """In the tail in which the level lies: the probabilities are differences of small ones."""
    ends = _between(y, cutpoints, loc, 0, 0)
    below, above = (x - loc for x in ends)
    has_below, has_above = y > 0, y < cutpoints.shape[-1]
    flip = has_below & (~has_above | (below + above > 0))
    upper, lower = select(flip, -below, above), select(flip, -above, below)
    total = log_ndtr(upper)
    both = has_below & has_above & (total > -jnp.inf)
    change = _log_tail_ratio(upper, select(both, ends[1] - ends[0], 1))
    change = select(upper < _FAR, change, log_ndtr(select(both, lower, upper - 1)) - total)
    part = log1mexp(select(both, change, -1))
    return total + select(both, part, 0)


@family(
    **_ordinal_rows(_ordered_probit_log_prob),
    cdf=lambda x, *p: ndtr(_above(x, *p)),
    survival=lambda x, *p: ndtr(-_above(x, *p)),
    log_cdf=lambda x, *p: log_ndtr(_above(x, *p)),
    log_survival=lambda x, *p: log_ndtr(-_above(x, *p)),
)
class OrderedProbit(Family):
    r"""Distribution over ordered levels: of the cutpoints below a normal variable, how many.

    `P(y <= k) = Phi(cutpoints[k] - loc)` for the levels `k = 0, 1, ..., n`, with the standard
    normal distribution function `Phi`.

    Args:
        cutpoints: `n` increasing numbers, of shape `(..., n)`.
        loc: The mean of the normal variable, whose variance is 1.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.OrderedProbit(jnp.array([-1.0, 1.0]), 0.0).log_prob(1)), 4)
    -0.3817

    References:
        P. McCullagh, "Regression models for ordinal data", Journal of the Royal Statistical Society
        B 42 (1980), 109-142.
    """

    cutpoints: ArrayLike = parameter(ordered)
    loc: ArrayLike = parameter(real)


def _passed(y: Array, cutpoints: Array, loc: Array) -> Array:
    """The log probability of not stopping at any level up to `y`."""
    go_on = -jax.nn.softplus(cutpoints - column(loc))
    return _pick(jnp.cumsum(go_on, axis=-1), y)


def _stopping_ratio_log_prob(y, cutpoints, loc):
    index, last = y.astype(int), cutpoints.shape[-1]
    before = _passed(jnp.maximum(index - 1, 0), cutpoints, loc)
    stop = -jax.nn.softplus(loc - _pick(cutpoints, jnp.minimum(index, last - 1)))
    return select(index > 0, before, 0) + select(index < last, stop, 0)


@family(
    **_ordinal_rows(_stopping_ratio_log_prob),
    log_survival=lambda x, *p: _passed(x.astype(int), *p),
)
class StoppingRatioLogistic(Family):
    r"""Distribution over levels that are gone through in order, with a chance to stop at each.

    `P(y = k | y >= k) = 1 / (1 + exp(loc - cutpoints[k]))` for `k = 0, 1, ..., n - 1`; at the level
    `n`, all that is left.

    Args:
        cutpoints: `n` numbers, of shape `(..., n)`, in any order.
        loc: The location.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> levels = dist.StoppingRatioLogistic(jnp.zeros(2), 0.0)
    >>> print(levels.log_prob(jnp.arange(3)).round(4))
    [-0.6931 -1.3863 -1.3863]

    References:
        G. Tutz, *Regression for Categorical Data* (2012), section 9.2.
    """

    cutpoints: ArrayLike = parameter(real_vector)
    loc: ArrayLike = parameter(real)


def _plackett_luce_log_prob(y, scores):
    log_scores = jnp.log(scores)
    shape = np.broadcast_shapes(y.shape, log_scores.shape)
    chosen = jnp.take_along_axis(
        jnp.broadcast_to(log_scores, shape), jnp.broadcast_to(y.astype(int), shape), axis=-1
    )
    return jnp.sum(chosen - lax.cumlogsumexp(chosen, len(shape) - 1, reverse=True), axis=-1)


def _plackett_luce_sample(key, shape, dtype, scores):
    return jnp.argsort(-(jnp.log(scores) + random.gumbel(key, shape, dtype)), axis=-1)


@family(
    support=permutation,
    log_prob=_plackett_luce_log_prob,
    sample=_plackett_luce_sample,
    mode=lambda scores: jnp.argsort(-scores, axis=-1),
)
class PlackettLuce(Family):
    r"""Distribution over the orders of `n` things, drawn one after the other by their scores.

    `p(y) = prod_i scores[y[i]] / sum_{j >= i} scores[y[j]]` for orders `y` of `0, 1, ..., n - 1`.

    Args:
        scores: Positive weights, of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> order = dist.PlackettLuce(jnp.array([1.0, 3.0]))
    >>> print(order.log_prob(jnp.array([[0, 1], [1, 0], [1, 1]])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        R. L. Plackett, "The analysis of permutations", Applied Statistics 24 (1975), 193-202.
    """

    scores: ArrayLike = parameter(independent(positive, 1))
