"""Censored distributions: draws beyond a bound are recorded as the bound."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.truncated import Truncated
from distributions.combinators.wrapper import DistributionWithBounds, as_batch
from distributions.common.arrays import convert, promote, select
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, with_atoms
from distributions.core.distribution import Distribution, Shape
from distributions.core.distribution_functions import ENDS


@pytree_dataclass(eq=False, repr=False)
class Censored(DistributionWithBounds):
    r"""A distribution of numbers whose draws beyond a bound are recorded as the bound.

    A draw is `min(max(x, low), high)` with `x` from `distribution`: the bounds have the
    probabilities `P0(X <= low)` and `P0(X >= high)`, and between them `p(x) = p0(x)`. The density
    scores data; gradients do not sample it, as the mass at the bounds has no derivative.

    Args:
        distribution: Any distribution of numbers that has a `cdf`, continuous or discrete.
        low: The lower bound, or `-inf`.
        high: The upper bound, or `inf`; greater than `low`.

    >>> import distributions as dist
    >>> lifetime = dist.Censored(dist.Exponential(0.5), high=3.0)
    >>> print(lifetime.log_prob([1.0, 3.0]).round(4))
    [-1.1931 -1.5   ]

    References:
        Klein and Moeschberger, *Survival Analysis*, 2nd ed. (2003), section 3.5.
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf

    def _check(self) -> None:
        super()._check()
        if self.distribution.support.is_discrete:
            self._check_whole()

    @property
    def support(self) -> Constraint:
        """The part of the distribution's support between the bounds, with the bounds.

        For continuous numbers there is no map from unconstrained space: the bounds have
        probabilities of their own.
        """
        support = Truncated(self.distribution, self.low, self.high).support
        return support if support.is_discrete else with_atoms(support, self.low, self.high)

    def _log_prob(self, value: ArrayLike) -> Array:
        d = self.distribution
        discrete = self.distribution.support.is_discrete
        x, low, high = promote(value, self.low, self.high)
        inside = (x > low) & (x < high)
        between = d.log_prob(select(inside, x, convert(d.support.feasible(), x.dtype)))
        at_least = d.log_survival(jnp.ceil(high) - 1 if discrete else high)
        log_prob, at_most, at_least = promote(between, d.log_cdf(low), at_least)
        at_bound = select(x == low, at_most, select(x == high, at_least, -jnp.inf))
        shape = np.broadcast_shapes(inside.shape, log_prob.shape, at_bound.shape)
        return select(jnp.broadcast_to(inside, shape), log_prob, at_bound)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        value, low, high = promote(value, self.low, self.high)
        before, after = ENDS[name]
        inner = getattr(self.distribution, name)(value)
        result = select(value < low, before, select(value >= high, after, inner))
        return as_batch(result, self.batch_shape)

    def _quantile(self, q: Array) -> Array:
        x, low, high = promote(self.distribution.quantile(q), self.low, self.high)
        return as_batch(jnp.clip(x, low, high), self.batch_shape).astype(self.dtype)

    def _sample(self, key: Array, shape: Shape) -> Array:
        draw, low, high = promote(self.distribution._sample(key, shape), self.low, self.high)
        return jnp.clip(draw, low, high).astype(self.dtype)
