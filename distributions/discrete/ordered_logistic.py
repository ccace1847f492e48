"""The ordered logistic distribution, without differences of probabilities."""

from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import (
    ordered,
    real,
)
from distributions.core.family import Family, family, parameter
from distributions.discrete.ordinal_functions import (
    adjacent_cutpoints,
    distance_to_cutpoint_above,
    ordinal_rows,
)


def _factors(u: Array, v: Array, gap: Array) -> tuple[Array, ...]:
    """`a`, `e`, `f` and `1 - exp(gap)`, the parts of a difference of the logistic function `F`.

    `F(v) - F(u) = F(v) F(-u) (1 - exp(gap))` and `F(v) F(-u) = exp(-a) / ((1 + e) (1 + f))`.
    """
    e, f = (jnp.exp(select(x > 0, -x, x)) for x in (u, v))
    return select(u > 0, u, 0) + select(v > 0, 0, -v), e, f, -jnp.expm1(gap)


@jax.custom_jvp
def _log_logistic(below: Array, above: Array, loc: Array) -> Array:
    """`log(F(above - loc) - F(below - loc))` for the logistic function `F`.

    No probability is subtracted from another: levels with probability near 1 lose no digit.
    """
    gap = select(below < above, below - above, -1)
    a, e, f, rest = _factors(below - loc, above - loc, gap)
    odds_against = (e + f + e * f + jnp.exp(gap)) / rest
    return select(below < above, -a - jnp.log1p(odds_against), -jnp.inf)


@_log_logistic.defjvp
def _log_logistic_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivatives: `F` at the opposite point for `log F`, and odds for the last factor.

    The derivative at cutpoints that do not ascend is the one for a gap of 1 between them: it draws
    them apart.
    """
    below, above, loc = primals
    u = below - loc
    v = above - loc
    gap = select(below < above, below - above, -1)
    _, e, f, rest = _factors(u, v, gap)
    up = select(u > 0, 1, e) / (1 + e)
    down = select(v > 0, f, 1) / (1 + f)
    odds = jnp.exp(gap) / rest
    dot = -(up + odds) * tangents[0] + (down + odds) * tangents[1] + (up - down) * tangents[2]
    return _log_logistic(*primals), dot


def _ordered_logistic_log_prob(y, cutpoints, loc):
    far = jnp.finfo(loc.dtype).max / 4
    return _log_logistic(*adjacent_cutpoints(y, cutpoints, loc, -far, far), loc)


@family(
    **ordinal_rows(_ordered_logistic_log_prob),
    log_cdf=lambda x, *p: -jax.nn.softplus(-distance_to_cutpoint_above(x, *p)),
    log_survival=lambda x, *p: -jax.nn.softplus(distance_to_cutpoint_above(x, *p)),
)
class OrderedLogistic(Family):
    r"""Ordered logistic distribution: the number of cutpoints below a logistic variable.

    `P(y <= k) = 1 / (1 + exp(loc - cutpoints[k]))` for the levels `k = 0, 1, ..., n`.

    Args:
        cutpoints: `n` increasing numbers, of shape `(..., n)`.
        loc: The location of the logistic variable.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> d = dist.OrderedLogistic(cutpoints=jnp.array([-1.0, 1.0]), loc=0.0)
    >>> print(d.log_prob(jnp.arange(3)).round(4))
    [-1.3133 -0.7719 -1.3133]

    References:
        P. McCullagh, "Regression models for ordinal data", Journal of the Royal Statistical Society
        B 42 (1980), 109-142.
    """

    _: KW_ONLY
    cutpoints: ArrayLike = parameter(ordered)
    loc: ArrayLike = parameter(real)
