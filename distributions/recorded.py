"""What is recorded of a draw: the interval in which it lies, or an integer."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions._arrays import convert, float_dtype, known, promote, select
from distributions._cumulative import ENDS
from distributions._pytree import pytree_dataclass
from distributions._wrapper import Bounded, Wrapper, as_batch, bounds, check_numbers, extreme
from distributions.constraints import Constraint, integer_interval
from distributions.distribution import Distribution, Shape
from distributions.truncated import log_mass


@pytree_dataclass
class _Bounds(Constraint):
    """Pairs of numbers, the second one not less; either may be infinite."""

    base: Constraint

    event_ndims = 1
    has_atoms = True
    description = "a pair (lower, upper) with lower at most upper, not both infinite alike"

    @property
    def bijector(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise NotImplementedError("the bounds of what is not seen are data.")

    def check(self, value: Any) -> Any:
        lower, upper = value[..., 0], value[..., 1]
        return (lower <= upper) & (lower < np.inf) & (upper > -np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        point = self.base.feasible()
        return (jnp if isinstance(point, Array) else np).stack([point, point], -1)


@pytree_dataclass(eq=False, repr=False)
class IntervalCensored(Wrapper):
    r"""A distribution of numbers of which only an interval is seen, in which the draw lies.

    A value is a pair `(lower, upper)`, and `p(value) = P0(lower <= X <= upper)`, with `X` from
    `distribution`; the mass is taken from the tail in which the interval lies. A lower bound of
    `-inf` is a draw censored on the left, an upper one of `inf` on the right. Where both bounds
    are equal the draw itself is seen, and `p(value) = p0(lower)`; so are draws, as what decides on
    the bounds is no part of the law.

    Args:
        distribution: Any distribution of numbers that has a `cdf`, continuous or discrete.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> seen = dist.IntervalCensored(dist.Exponential(0.5))
    >>> print(seen.log_prob(jnp.array([[1.0, 3.0], [3.0, jnp.inf], [1.0, 1.0]])).round(4))
    [-0.9587 -1.5    -1.1931]

    References:
        Klein and Moeschberger, *Survival Analysis*, 2nd ed. (2003), section 3.5.
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution

    def _check(self) -> None:
        check_numbers(self)

    @property
    def support(self) -> Constraint:
        """Pairs of bounds."""
        return _Bounds(self.distribution.support)

    @property
    def event_shape(self) -> Shape:
        """Two bounds."""
        return (2,)

    @property
    def dtype(self) -> np.dtype:
        """A floating one, as bounds may be infinite."""
        return float_dtype(*jax.tree.leaves(self.distribution))

    def _log_prob(self, value: ArrayLike) -> Array:
        d, value = self.distribution, jnp.asarray(value, float_dtype(value))
        inside, lower, upper = self.support.check(value), value[..., 0], value[..., 1]
        if d.support.is_discrete:
            log_prob = log_mass(d, jnp.ceil(select(inside, lower, -jnp.inf)) - 1, upper)
        else:
            is_seen = inside & (lower == upper)
            wide = inside & ~is_seen
            ends = select(wide, lower, -jnp.inf), select(wide, upper, jnp.inf)
            point = convert(d.support.feasible(), value.dtype)
            is_seen, density = _spread(is_seen, d.log_prob(select(is_seen, lower, point)))
            log_prob = select(is_seen, density, log_mass(d, *ends))
        return select(_spread(inside, log_prob)[0], log_prob, -jnp.inf)

    def _sample(self, key: Array, shape: Shape) -> Array:
        draw = self.distribution._sample(key, shape[:-1]).astype(self.dtype)
        return jnp.stack([draw, draw], -1)


def _spread(condition: Array, x: Array) -> tuple[Array, Array]:
    shape = np.broadcast_shapes(condition.shape, x.shape)
    return jnp.broadcast_to(condition, shape), jnp.broadcast_to(x, shape)


def _whole(function: str, bound: Any) -> Any:
    """`floor` or `ceil` of a bound, on the host where it is known."""
    value = known(bound)
    return getattr(jnp, function)(bound) if value is None else getattr(np, function)(value)


@pytree_dataclass(eq=False, repr=False)
class Quantized(Bounded):
    r"""A distribution of numbers whose draws are rounded up to an integer.

    A draw is `min(max(ceil(x), low), high)` with `x` from `distribution`, so that
    `p(k) = P0(k - 1 < X <= k)` between the bounds, `p(low) = P0(X <= low)` and
    `p(high) = P0(X > high - 1)`. Of a distribution that is shifted by a half, draws are rounded to
    the nearest integer.

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
        below, at_most = select(x <= low, -jnp.inf, x - 1), select(x >= high, jnp.inf, x)
        inside, log_prob = _spread(inside, log_mass(self.distribution, below, at_most))
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
