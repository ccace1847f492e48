"""Distributions whose event consists of independent parts, by the protocol alone."""

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np

from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class Independent:
    """A distribution whose last batch axes belong to one event, of independent parts.

    Its name is what the protocol knows such distributions by.

    Attributes:
        distribution: The distribution of the parts.
        num_axes: How many axes of its batch belong to the event.
    """

    distribution: Any
    num_axes: int = dataclasses.field(metadata={"static": True})

    is_closed: ClassVar[bool] = True

    @property
    def ignores_values(self) -> bool:
        """Whether a mask leaves parts out of the log density."""
        return self.distribution.ignores_values

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch."""
        shape = self.distribution.batch_shape
        return shape[: len(shape) - self.num_axes]

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        shape = self.distribution.batch_shape
        return (*shape[len(shape) - self.num_axes :], *self.distribution.event_shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the value."""
        return self.distribution.dtype

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Draws of shape `sample_shape + batch_shape + event_shape`."""
        return self.distribution.sample(key, sample_shape)

    def log_prob(self, value: Any) -> jax.Array:
        """The log density of each event, -inf outside of the support."""
        return self._add(self.distribution.log_prob(value))

    def at_position(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """The value at an unconstrained position, and its log density."""
        value, log_prob = self.distribution.at_position(position)
        return value, self._add(log_prob)

    @property
    def support(self) -> "IndependentSupport":
        """The events whose parts lie in their support."""
        return IndependentSupport(self.distribution.support, self.num_axes)

    @property
    def bijector(self) -> "IndependentBijector":
        """The map from unconstrained space, part by part."""
        return IndependentBijector(self.distribution.bijector, self.num_axes)

    def _add(self, x: jax.Array) -> jax.Array:
        return x.sum(tuple(range(-self.num_axes, 0)))


@dataclasses.dataclass(frozen=True)
class IndependentSupport:
    """Support of independent parts.

    Attributes:
        part: The support of a part.
        num_axes: How many axes of parts an event has.
    """

    part: Any
    num_axes: int

    @property
    def is_unrestricted(self) -> bool:
        """Whether all real numbers belong to it."""
        return self.part.is_unrestricted

    @property
    def is_discrete(self) -> bool:
        """Whether it consists of integers."""
        return self.part.is_discrete

    @property
    def event_ndims(self) -> int:
        """The number of axes of an event."""
        return self.part.event_ndims + self.num_axes

    @property
    def description(self) -> str:
        """Words for errors and tables."""
        return self.part.description

    def check(self, value: Any) -> jax.Array:
        """Whether each event belongs to it."""
        return self.part.check(value).all(tuple(range(-self.num_axes, 0)))

    def feasible(self, shape: tuple[int, ...] = ()) -> jax.Array:
        """A point of it for each entry of the batch; `shape` is the shape of an event."""
        return self.part.feasible(shape[self.num_axes :])


@dataclasses.dataclass(frozen=True)
class IndependentBijector:
    """Map from unconstrained space onto the support of independent parts.

    Attributes:
        part: The map of a part.
        num_axes: How many axes of parts an event has.
    """

    part: Any
    num_axes: int

    def forward(self, position: Any) -> Any:
        """The value at a position."""
        return self.part.forward(position)

    def inverse(self, value: Any) -> Any:
        """The position of a value."""
        return self.part.inverse(value)

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """The log determinant of the Jacobian at each position."""
        log_det = self.part.forward_log_det_jacobian(position)
        return log_det.sum(tuple(range(-self.num_axes, 0)))
