"""Interval censoring: only an interval around a draw is known."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.interval_mass import broadcast_both, log_mass
from distributions.combinators.wrapper import (
    DerivedDistribution,
    check_numbers,
)
from distributions.common.arrays import convert, float_dtype, select
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape


@pytree_dataclass
class _Bounds(Constraint):
    """Pairs `(lower, upper)` of numbers with `lower <= upper`; either may be infinite."""

    base: Constraint

    event_ndims = 1
    has_atoms = True
    description = "a pair (lower, upper) with lower at most upper, not both infinite alike"

    @property
    def bijector(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise NotImplementedError("the bounds of what is not seen are data.")

    def check(self, value: Any) -> Any:
        lower = value[..., 0]
        upper = value[..., 1]
        return (lower <= upper) & (lower < np.inf) & (upper > -np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        point = self.base.feasible()
        return (jnp if isinstance(point, Array) else np).stack([point, point], -1)


@pytree_dataclass(eq=False, repr=False)
class IntervalCensored(DerivedDistribution):
    r"""Interval-censored draws of a distribution of numbers: only an interval is known.

    A value is a pair `(lower, upper)` of bounds, and `X` is a draw of `distribution`:

    | bounds          | observation                | `p(value)`                |
    | --------------- | -------------------------- | ------------------------- |
    | `lower < upper` | an interval that holds `X` | `P0(lower <= X <= upper)` |
    | `lower = -inf`  | `X` censored on the left   | `P0(X <= upper)`          |
    | `upper = inf`   | `X` censored on the right  | `P0(X >= lower)`          |
    | `lower = upper` | `X` itself                 | `p0(lower)`               |

    The mass of an interval is computed in the tail in which it lies. Draws are pairs of equal
    bounds: the law says nothing of how bounds arise.

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
        """The shape of two bounds, `(2,)`."""
        return (2,)

    @property
    def dtype(self) -> np.dtype:
        """The floating dtype of the parameters, as bounds may be infinite."""
        return float_dtype(*jax.tree.leaves(self.distribution))

    def _log_prob(self, value: ArrayLike) -> Array:
        d = self.distribution
        value = jnp.asarray(value, float_dtype(value))
        inside = self.support.check(value)
        lower = value[..., 0]
        upper = value[..., 1]
        if d.support.is_discrete:
            log_prob = log_mass(d, jnp.ceil(select(inside, lower, -jnp.inf)) - 1, upper)
        else:
            is_seen = inside & (lower == upper)
            wide = inside & ~is_seen
            ends = select(wide, lower, -jnp.inf), select(wide, upper, jnp.inf)
            point = convert(d.support.feasible(), value.dtype)
            is_seen, density = broadcast_both(is_seen, d.log_prob(select(is_seen, lower, point)))
            log_prob = select(is_seen, density, log_mass(d, *ends))
        return select(broadcast_both(inside, log_prob)[0], log_prob, -jnp.inf)

    def _sample(self, key: Array, shape: Shape) -> Array:
        draw = self.distribution._sample(key, shape[:-1]).astype(self.dtype)
        return jnp.stack([draw, draw], -1)
