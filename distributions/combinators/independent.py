"""Independent distributions of a batch as one distribution of arrays."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.wrapper import DerivedDistribution
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import Constraint, independent
from distributions.core.distribution import Distribution, Shape


@pytree_dataclass(eq=False, repr=False)
class Independent(DerivedDistribution):
    r"""The last axes of the batch as axes of the event.

    `p(x) = prod_i p_i(x_i)`, where `i` runs over the last `reinterpreted_batch_ndims` axes of the
    batch of `distribution`.

    Args:
        distribution: Any distribution.
        reinterpreted_batch_ndims: The number of its batch axes that become axes of the event.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normals = dist.Independent(dist.Normal(jnp.zeros((2, 3)), 1.0), 1)
    >>> print(normals.batch_shape, normals.event_shape)
    (2,) (3,)
    >>> print(normals.log_prob(jnp.zeros((2, 3))).shape)
    (2,)

    References:
        Dillon et al., "TensorFlow Distributions" (2017), section 3.3 (batches and events).
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    reinterpreted_batch_ndims: int = static()

    def _check(self) -> None:
        most = len(self.distribution.batch_shape)
        ndims = self.reinterpreted_batch_ndims
        if not isinstance(ndims, int | np.integer) or not 0 <= ndims <= most:
            self._fail(
                f"reinterpreted_batch_ndims must be an integer from 0 to {most}, as batch_shape is "
                f"{self.distribution.batch_shape}; got {ndims!r}"
            )

    @property
    def _axes(self) -> tuple[int, ...]:
        return tuple(range(-self.reinterpreted_batch_ndims, 0))

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        return independent(self.distribution.support, self.reinterpreted_batch_ndims)

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, (self.reinterpreted_batch_ndims,)

    @property
    def batch_shape(self) -> Shape:
        """The axes of the batch that remain."""
        shape = self.distribution.batch_shape
        return shape[: len(shape) - self.reinterpreted_batch_ndims]

    @property
    def event_shape(self) -> Shape:
        """The batch axes that became event axes, in front of the distribution's event axes."""
        shape = self.distribution.batch_shape
        return shape[len(shape) - self.reinterpreted_batch_ndims :] + self.distribution.event_shape

    def _log_prob(self, value: ArrayLike) -> Array:
        return jnp.sum(self.distribution._log_prob(value), axis=self._axes)

    @property
    def _reads_points(self) -> bool:
        return self.distribution._reads_points

    def _log_prob_at(self, point: Point) -> Array:
        return jnp.sum(self.distribution._log_prob_at(point), axis=self._axes)

    def _sample(self, key: Array, shape: Shape) -> Array:
        return self.distribution._sample(key, shape)

    def _moment(self, name: str) -> Array:
        moment = self.distribution._moment(name)
        return jnp.sum(moment, axis=self._axes) if name == "entropy" else moment
