"""The ordered probit distribution, precise in both tails."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import ordered, real
from distributions.core.family import Family, family, parameter
from distributions.discrete.ordinal_functions import (
    adjacent_cutpoints,
    distance_to_cutpoint_above,
    ordinal_rows,
)
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import log1mexp

_FAR = -40.0  # standard deviations; below, two terms of its series give Mills' ratio


def _log_tail_ratio(x, width):
    """`log(Phi(x - width) / Phi(x))` far out in a tail, without the squares that would cancel."""
    x = jnp.minimum(x, _FAR)
    inverse = 1 / x
    other = 1 / (x - width)

    def series(v):
        return v * v * (1 - 2.5 * v * v)

    return width * (x - 0.5 * width) - jnp.log1p(-width * inverse) + series(inverse) - series(other)


def _ordered_probit_log_prob(y, cutpoints, loc):
    """The log mass, as a difference of small probabilities: in the tail in which the level lies."""
    ends = adjacent_cutpoints(y, cutpoints, loc, 0, 0)
    below, above = (x - loc for x in ends)
    has_below = y > 0
    has_above = y < cutpoints.shape[-1]
    flip = has_below & (~has_above | (below + above > 0))
    upper = select(flip, -below, above)
    lower = select(flip, -above, below)
    total = log_ndtr(upper)
    both = has_below & has_above & (total > -jnp.inf)
    change = _log_tail_ratio(upper, select(both, ends[1] - ends[0], 1))
    change = select(upper < _FAR, change, log_ndtr(select(both, lower, upper - 1)) - total)
    part = log1mexp(select(both, change, -1))
    return total + select(both, part, 0)


@family(
    **ordinal_rows(_ordered_probit_log_prob),
    cdf=lambda x, *p: ndtr(distance_to_cutpoint_above(x, *p)),
    survival=lambda x, *p: ndtr(-distance_to_cutpoint_above(x, *p)),
    log_cdf=lambda x, *p: log_ndtr(distance_to_cutpoint_above(x, *p)),
    log_survival=lambda x, *p: log_ndtr(-distance_to_cutpoint_above(x, *p)),
)
class OrderedProbit(Family):
    r"""Ordered probit distribution: the number of cutpoints below a normal variable.

    `P(y <= k) = Phi(cutpoints[k] - loc)` for the levels `k = 0, 1, ..., n`, with the standard
    normal distribution function `Phi`.

    Args:
        cutpoints: `n` increasing numbers, of shape `(..., n)`.
        loc: The mean of the normal variable, whose variance is 1.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.OrderedProbit(cutpoints=jnp.array([-1.0, 1.0]), loc=0.0).log_prob(1)), 4)
    -0.3817

    References:
        P. McCullagh, "Regression models for ordinal data", Journal of the Royal Statistical Society
        B 42 (1980), 109-142.
    """

    _: KW_ONLY
    cutpoints: ArrayLike = parameter(ordered)
    loc: ArrayLike = parameter(real)
