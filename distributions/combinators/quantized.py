"""Quantized distributions: draws are rounded up to integers."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.interval_mass import broadcast_both, log_mass
from distributions.combinators.wrapper import (
    DistributionWithBounds,
    as_batch,
    bounds,
    extreme,
)
from distributions.common.arrays import as_host_array, convert, float_dtype, promote, select
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, integer_interval
from distributions.core.distribution import Distribution, Shape
from distributions.core.distribution_functions import ENDS


def _whole(function: str, bound: Any) -> Any:
    """`floor` or `ceil` of a bound, on the host where it is known."""
    value = as_host_array(bound)
    return getattr(jnp, function)(bound) if value is None else getattr(np, function)(value)


@pytree_dataclass(eq=False, repr=False)
class Quantized(DistributionWithBounds):
    r"""A distribution of numbers whose draws are rounded up to an integer.

    A draw is `min(max(ceil(x), low), high)` with `x` from `distribution`, so that
    `p(k) = P0(k - 1 < X <= k)` between the bounds, `p(low) = P0(X <= low)` and
    `p(high) = P0(X > high - 1)`. To round to the nearest integer, shift the distribution by a half.

    Args:
        distribution: Any distribution of numbers that has a `cdf`, continuous or discrete.
        low: The least integer, or `-inf`.
        high: The greatest integer, or `inf`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> months = dist.Quantized(dist.Exponential(0.5), high=3)
    >>> [round(float(x), 4) for x in months.log_prob(jnp.array([1, 2, 3]))]
    [-0.9328, -1.4328, -1.0]

    References:
        Dillon et al., "TensorFlow Distributions" (2017), section 5.
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    low: ArrayLike = -np.inf
    high: ArrayLike = np.inf

    def _check(self) -> None:
        super()._check()
        self._check_whole()

    @property
    def _may_be_equal(self) -> bool:
        return False

    @property
    def support(self) -> Constraint:
        """The integers between the bounds to which draws are rounded."""
        d = self.distribution
        low, high = bounds(d.support)
        least = _whole("ceil", low) if d.support.is_discrete else _whole("floor", low) + 1
        least = extreme("minimum", extreme("maximum", least, self.low), self.high)
        most = extreme("minimum", _whole("ceil", high), self.high)
        return integer_interval(least, extreme("maximum", most, self.low))

    @property
    def dtype(self) -> np.dtype:
        """JAX's default integer."""
        return jnp.result_type(int)

    def _log_prob(self, value: ArrayLike) -> Array:
        dtype = float_dtype(*jax.tree.leaves(self))
        inside = jnp.asarray(self.support.check(value))
        x, low, high = promote(value, self.low, self.high, dtype=dtype)
        x = select(inside, x, convert(self.support.feasible(), dtype))
        below = select(x <= low, -jnp.inf, x - 1)
        at_most = select(x >= high, jnp.inf, x)
        inside, log_prob = broadcast_both(inside, log_mass(self.distribution, below, at_most))
        return select(inside, log_prob, -jnp.inf)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        dtype = float_dtype(*jax.tree.leaves(self))
        value, low, high = promote(value, self.low, self.high, dtype=dtype)
        before, after = ENDS[name]
        inner = getattr(self.distribution, name)(jnp.floor(value))
        result = select(value < low, before, select(value >= high, after, inner))
        return as_batch(result, self.batch_shape)

    def _sample(self, key: Array, shape: Shape) -> Array:
        draw = jnp.ceil(self.distribution._sample(key, shape))
        draw, low, high = promote(draw, self.low, self.high)
        return jnp.clip(draw, low, high).astype(self.dtype)
