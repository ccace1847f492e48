"""Masks: entries of a batch of distributions that do not count."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.wrapper import DerivedDistribution, as_batch
from distributions.common.arrays import select, stack, summarize
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.core.distribution import Distribution, Shape


@pytree_dataclass(eq=False, repr=False)
class Masked(DerivedDistribution):
    r"""A distribution whose density counts only where a mask holds.

    `log p(x) = log p0(x)` where `mask` holds, and 0 elsewhere, for any `x`, even NaN. Draws are
    draws of `distribution`. The rest of a model sees a value unchanged, even if it does not count
    and lies outside of the support.

    Args:
        distribution: Any distribution.
        mask: Booleans that broadcast with its batch shape.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> seen = dist.Masked(dist.Normal(0.0, 1.0), jnp.array([True, False]))
    >>> [round(float(x), 4) for x in seen.log_prob(jnp.array([0.0, jnp.nan]))]
    [-0.9189, 0.0]

    References:
        Dillon et al., "TensorFlow Distributions" (2017).
    """

    is_closed: ClassVar[bool] = True
    ignores_values: ClassVar[bool] = True

    distribution: Distribution
    mask: ArrayLike

    def _check(self) -> None:
        object.__setattr__(self, "mask", stack(self.mask))
        if not jnp.issubdtype(jnp.result_type(self.mask), jnp.bool_):
            self._fail(f"mask must hold booleans; got {summarize(self.mask)}")
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = f"{np.shape(self.mask)} and {self.distribution.batch_shape}"
            self._fail(f"mask and the batch of the distribution do not broadcast: {shapes}")

    @property
    def batch_shape(self) -> Shape:
        """The batch shape of the distribution, broadcast with the mask."""
        return np.broadcast_shapes(self.distribution.batch_shape, np.shape(self.mask))

    def _log_prob(self, value: ArrayLike) -> Array:
        value = jnp.asarray(value)
        event_ndims = len(self.event_shape)
        batch = np.broadcast_shapes(value.shape[: value.ndim - event_ndims], self.batch_shape)
        mask = jnp.broadcast_to(jnp.asarray(self.mask), batch)
        value = jnp.broadcast_to(value, batch + self.event_shape)
        point = self.support.feasible(self.event_shape)
        safe = select(jnp.expand_dims(mask, tuple(range(-event_ndims, 0))), value, point)
        return select(mask, self.distribution.log_prob(safe), 0)

    @property
    def _reads_points(self) -> bool:
        return self.distribution._reads_points

    def _log_prob_at(self, point: Point) -> Array:
        log_prob = self.distribution._log_prob_at(point)
        return select(jnp.broadcast_to(self.mask, log_prob.shape), log_prob, 0)

    def _sample(self, key: Array, shape: Shape) -> Array:
        return self.distribution._sample(key, shape)

    def _moment(self, name: str) -> Array:
        if name == "entropy":
            self._lacks(name)
        moment = self.distribution._moment(name)
        shape = self.batch_shape + self.event_shape
        return jnp.broadcast_to(moment, shape)

    def _cumulative(self, name: str, value: ArrayLike) -> Any:
        return as_batch(getattr(self.distribution, name)(value), self.batch_shape)
