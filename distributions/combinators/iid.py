"""Independent copies of a distribution as one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.wrapper import DerivedDistribution
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import Constraint, independent
from distributions.core.distribution import Distribution, Shape, as_shape


@pytree_dataclass(eq=False, repr=False)
class IID(DerivedDistribution):
    """Independent copies of a distribution as one event; `iid` makes it."""

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    sample_shape: Shape = static()

    def _check(self) -> None:
        sizes = self.sample_shape
        if not all(isinstance(n, int | np.integer) and n >= 0 for n in sizes):
            self._fail(f"sample_shape must hold nonnegative integers; got {sizes!r}")

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        num = len(self.sample_shape)
        support = self.distribution.support
        return independent(
            jax.tree.map(lambda b: _widen_bound(b, num, support.event_ndims), support), num
        )

    @property
    def event_shape(self) -> Shape:
        """`sample_shape` in front of the shape of one copy."""
        return self.sample_shape + self.distribution.event_shape

    def _copies_first(self, value: Array) -> Array:
        """The value with the axes of the copies moved in front of the batch axes."""
        num = len(self.sample_shape)
        inner = len(self.distribution.event_shape)
        axes = range(value.ndim - inner - num, value.ndim - inner)
        return jnp.moveaxis(value, tuple(axes), tuple(range(num)))

    def _copies_last(self, value: Array, event_ndims: int) -> Array:
        """The inverse of `_copies_first`, for values with `event_ndims` axes of their own."""
        num = len(self.sample_shape)
        end = tuple(range(value.ndim - event_ndims - num, value.ndim - event_ndims))
        return jnp.moveaxis(value, tuple(range(num)), end)

    def _log_prob(self, value: ArrayLike) -> Array:
        log_prob = self.distribution.log_prob(self._every_copy(jnp.asarray(value)))
        return jnp.sum(log_prob, axis=tuple(range(len(self.sample_shape))))

    @property
    def _reads_points(self) -> bool:
        return self.distribution._reads_points

    def _log_prob_at(self, point: Point) -> Array:
        log_prob = self.distribution._log_prob_at(point.map(self._every_copy))
        return jnp.sum(log_prob, axis=tuple(range(len(self.sample_shape))))

    def _every_copy(self, value: Array) -> Array:
        missing = len(self.batch_shape) + len(self.event_shape) - value.ndim
        return self._copies_first(jnp.expand_dims(value, tuple(range(max(missing, 0)))))

    def _sample(self, key: Array, shape: Shape) -> Array:
        inner = len(self.distribution.event_shape)
        num = len(self.sample_shape)
        front = shape[: len(shape) - num - inner]
        draws = self.distribution._sample(
            key, (*self.sample_shape, *front, *self.distribution.event_shape)
        )
        return self._copies_last(draws, inner)

    def _moment(self, name: str) -> Array:
        moment = self.distribution._moment(name)
        if name == "entropy":
            return moment * np.prod(self.sample_shape, dtype=moment.dtype)
        inner = len(self.distribution.event_shape)
        shape = (*self.sample_shape, *moment.shape)
        moment = jnp.broadcast_to(
            jnp.expand_dims(moment, tuple(range(len(self.sample_shape)))), shape
        )
        return self._copies_last(moment, inner)


def _widen_bound(bound: Any, num: int, event_ndims: int) -> Any:
    """A bound with axes for the copies between batch axes and event axes."""
    ndim = np.ndim(bound)
    if ndim <= event_ndims:
        return bound
    return jnp.expand_dims(bound, tuple(range(ndim - event_ndims, ndim - event_ndims + num)))


def iid(distribution: Any, sample_shape: int | Sequence[int]) -> IID:
    r"""Independent copies of a distribution, as one event: an exchangeable sample.

    `p(x) = prod_i p0(x_i)`, where `i` runs over `sample_shape`. Each distribution of a batch has a
    sample of its own.

    Args:
        distribution: Any distribution.
        sample_shape: The number of copies, or their shape.

    Returns:
        A distribution of event shape `sample_shape + distribution.event_shape`.

    Raises:
        ValueError: The shape does not hold nonnegative integers.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normals = dist.iid(dist.Normal(0.0, 1.0), 3)
    >>> normals.event_shape, round(float(normals.log_prob(jnp.zeros(3))), 3)
    ((3,), -2.757)

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), section 1.2 (exchangeability).
    """
    return IID(distribution, as_shape("iid", sample_shape))
