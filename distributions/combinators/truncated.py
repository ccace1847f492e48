"""Distributions of numbers, restricted to an interval."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.interval_mass import log_mass
from distributions.combinators.wrapper import DistributionWithBounds, as_batch, bounds, extreme
from distributions.common.arrays import as_host_array, convert, float_dtype, promote, select
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, integer_interval, interval
from distributions.core.distribution import Distribution, Shape
from distributions.core.exponential_family import (
    ExponentialFamily,
    restrict_family,
)
from distributions.numerics.special import open_uniform


def _ceil(bound: Any) -> Any:
    """The least integer that is not below a bound; an integer is unchanged."""
    if jnp.issubdtype(jnp.result_type(bound), jnp.integer):
        return bound
    value = as_host_array(bound)
    return jnp.ceil(bound) if value is None else np.ceil(value)


@pytree_dataclass(eq=False, repr=False)
class Truncated(DistributionWithBounds):
    r"""Truncated distribution: a distribution of numbers, given that they lie between two bounds.

    `p(x) = p0(x) / P0(low <= X <= high)` for `low <= x <= high`, where `p0` and `P0` are the
    density (or mass function) and the probability of `distribution`. The probability of an interval
    above the median is computed from upper tails, so that it is accurate far out. Draws are
    quantiles of uniform numbers; they have derivatives if the distribution is continuous.

    Args:
        distribution: Distribution of numbers with a `cdf`, continuous or discrete, without atoms.
        low: Lower bound, or `-inf`. It belongs to the interval.
        high: Upper bound, or `inf`; greater than `low`, or equal for a discrete distribution. It
            belongs to the interval.

    >>> import distributions as dist
    >>> truncated = dist.Truncated(dist.Normal(0.0, 1.0), low=0.0)
    >>> round(float(truncated.log_prob(1.0)), 4)
    -0.7258
    >>> round(float(truncated.quantile(0.5)), 4)
    0.6745

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), section
        12.2.
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf

    @property
    def support(self) -> Constraint:
        """The part of the distribution's support between the bounds."""
        low, high = bounds(self.distribution.support)
        low = extreme("maximum", low, self.low)
        high = extreme("minimum", high, self.high)
        if self.distribution.support.is_discrete:
            return integer_interval(_ceil(low), high)
        return interval(low, high)

    @property
    def exponential_family(self) -> ExponentialFamily | None:
        """Densities of the distribution's family between bounds, where these are known numbers."""
        base = self.distribution.exponential_family
        return restrict_family(base, *bounds(self.support), Truncated)

    def _log_mass(self, low: Any, high: Any) -> Array:
        """`log P(low <= X <= high)` of the distribution before truncation."""
        dtype = float_dtype(low, high, *jax.tree.leaves(self.distribution))
        low, high = promote(low, high, dtype=dtype)
        below = jnp.ceil(low) - 1 if self.support.is_discrete else low
        return log_mass(self.distribution, below, high)

    def _log_prob(self, value: ArrayLike) -> Array:
        value = jnp.asarray(value)
        d = self.distribution
        support = self.support
        inside = support.check(value)
        safe = select(inside, value, convert(support.feasible(), value.dtype))
        log_prob, log_total = promote(d.log_prob(safe), self._log_mass(self.low, self.high))
        has_mass = log_total > -jnp.inf  # A mass that underflows leaves no density.
        density = log_prob - select(has_mass, log_total, 0)
        return select(jnp.broadcast_to(inside & has_mass, density.shape), density, -jnp.inf)

    @property
    def _reads_points(self) -> bool:
        return self.distribution._reads_points

    def _log_prob_at(self, point: Point) -> Array:
        log_prob = self.distribution._log_prob_at(point.without_inner())
        log_prob, log_total = promote(log_prob, self._log_mass(self.low, self.high))
        has_mass = log_total > -jnp.inf
        density = log_prob - select(has_mass, log_total, 0)
        return select(jnp.broadcast_to(has_mass, density.shape), density, -jnp.inf)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        value, low, high = promote(value, self.low, self.high)
        at = select(value > high, high, select(value < low, low, value))
        if name.endswith("cdf"):
            part = self._log_mass(low, at)
            before = -jnp.inf
        else:
            part = log_mass(self.distribution, at, high)
            before = 0.0
        part, total = promote(part, self._log_mass(low, high))
        log = part - select(total > -jnp.inf, total, 0)  # A mass that underflows leaves none.
        log = select(value < low, before, select(log > 0, 0, log))
        return as_batch(log if name.startswith("log_") else jnp.exp(log), self.batch_shape)

    def _exceeds(self, q: Array, value: Array) -> Array:
        """Whether `cdf(value) >= q`, by log probabilities before truncation, which may be tiny."""
        d = self.distribution
        q, value, low, high = promote(q, value, self.low, self.high)
        below = jnp.ceil(low) - 1 if self.support.is_discrete else low
        parts = d.log_cdf(below), d.log_survival(high), log_mass(d, below, high)
        q, before, after, log_total = promote(q, *parts)
        at_most = jnp.logaddexp(before, jnp.log(q) + log_total)
        beyond = jnp.logaddexp(after, jnp.log1p(-q) + log_total)
        lower = d.log_cdf(value) >= at_most, d.log_survival(value) <= beyond
        return jnp.where(at_most < beyond, *lower)

    def _sample(self, key: Array, shape: Shape) -> Array:
        dtype = float_dtype(*jax.tree.leaves(self))
        return self._quantile(open_uniform(key, shape, dtype)).astype(self.dtype)
