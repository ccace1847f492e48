"""The base class of bijectors, and `Independent`, a bijector on each entry of an event."""

from __future__ import annotations

import abc

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass, static

Shape = tuple[int, ...]


class Bijector(abc.ABC):
    """A differentiable one-to-one map `y = forward(x)` from unconstrained `x`."""

    event_ndims: int = 0

    @abc.abstractmethod
    def forward(self, x: ArrayLike) -> Array:
        """The constrained value of `x`."""

    def point(self, x: ArrayLike) -> Point:
        """`forward(x)`, with the logarithms that are known more precisely than from the value."""
        return Point(self.forward(x))

    @abc.abstractmethod
    def inverse(self, y: ArrayLike) -> Array:
        """The unconstrained value of `y`."""

    @abc.abstractmethod
    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`log |det dy/dx|`, one number per event of `x`."""

    def inverse_log_det_jacobian(self, y: ArrayLike) -> Array:
        """`log |det dx/dy|`, one number per event of `y`."""
        return -self.forward_log_det_jacobian(self.inverse(y))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)` for `x` of the given shape."""
        return tuple(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)` for `y` of the given shape."""
        return tuple(shape)


@pytree_dataclass
class Independent(Bijector):
    """A bijector with `ndims` more axes to an event: log determinants are summed over them."""

    bijector: Bijector
    ndims: int = static()

    @property
    def event_ndims(self) -> int:
        """The number of axes of one unconstrained event."""
        return self.bijector.event_ndims + self.ndims

    def forward(self, x: ArrayLike) -> Array:
        """The constrained value of `x`."""
        return self.bijector.forward(x)

    def point(self, x: ArrayLike) -> Point:
        """The constrained value of `x`, with its logarithms."""
        return self.bijector.point(x)

    def inverse(self, y: ArrayLike) -> Array:
        """The unconstrained value of `y`."""
        return self.bijector.inverse(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The log determinants of the entries, summed over the event's axes."""
        return jnp.sum(self.bijector.forward_log_det_jacobian(x), axis=tuple(range(-self.ndims, 0)))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)` for `x` of the given shape."""
        return self.bijector.forward_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)` for `y` of the given shape."""
        return self.bijector.inverse_event_shape(shape)
