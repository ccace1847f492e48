"""Bijectors made of others, and the affine map."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector, Shape
from distributions.common.arrays import as_host_array, promote
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.numerics.special import ratio


@pytree_dataclass
class Affine(Bijector):
    """`y = shift + scale x` with a scale that is not 0.

    >>> from distributions import bijectors
    >>> print(bijectors.Affine(1.0, 2.0).forward(3.0))
    7.0
    """

    shift: ArrayLike
    scale: ArrayLike

    def __post_init__(self) -> None:
        """Checks the scale, where it is known."""
        scale = as_host_array(self.scale)
        if scale is not None and not np.all(np.abs(scale) > 0):
            raise ValueError(f"Affine: scale must not be 0; got {self.scale}")

    def forward(self, x: ArrayLike) -> Array:
        """`shift + scale x`."""
        x, shift, scale = promote(x, self.shift, self.scale)
        return shift + scale * x

    def inverse(self, y: ArrayLike) -> Array:
        """`(y - shift) / scale`."""
        y, shift, scale = promote(y, self.shift, self.scale)
        return ratio(y - shift, scale)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`log |scale|`."""
        x, scale = promote(x, self.scale)
        return jnp.log(jnp.abs(scale)) + jnp.zeros_like(x)


@pytree_dataclass
class Softplus(Bijector):
    """`y = log(1 + exp(x))`, onto the positive numbers; never rounded down to 0."""

    def forward(self, x: ArrayLike) -> Array:
        """`log(1 + exp(x))`."""
        (x,) = promote(x)
        return jnp.maximum(jax.nn.softplus(x), jnp.finfo(x.dtype).tiny)

    def inverse(self, y: ArrayLike) -> Array:
        """`log(exp(y) - 1)`."""
        (y,) = promote(y)
        return y + jnp.log(-jnp.expm1(-y))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`-log(1 + exp(-x))`."""
        (x,) = promote(x)
        return -jax.nn.softplus(-x)


@pytree_dataclass
class Invert(Bijector):
    """The inverse of a bijector."""

    bijector: Bijector

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of axes of one event, equal on both sides."""
        return self.bijector.event_ndims

    def forward(self, x: ArrayLike) -> Array:
        """The bijector's inverse."""
        return self.bijector.inverse(x)

    def inverse(self, y: ArrayLike) -> Array:
        """The bijector's forward map."""
        return self.bijector.forward(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The negative log determinant of the bijector at `inverse(x)`."""
        return -self.bijector.forward_log_det_jacobian(self.bijector.inverse(x))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)` for `x` of the given shape."""
        return self.bijector.inverse_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)` for `y` of the given shape."""
        return self.bijector.forward_event_shape(shape)


@pytree_dataclass
class Chain(Bijector):
    """`y = first(second(...(x)))`: the last bijector is applied first, as in a formula.

    >>> from distributions import bijectors
    >>> chain = bijectors.Chain((bijectors.Exp(), bijectors.Affine(0.0, 2.0)))
    >>> round(float(chain.forward(1.0)), 4)
    7.3891
    """

    bijectors: tuple[Bijector, ...]

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The greatest number of event axes of the bijectors."""
        return max((b.event_ndims for b in self.bijectors), default=0)

    def forward(self, x: ArrayLike) -> Array:
        """The composed value; the last bijector is applied first."""
        for bijector in reversed(self.bijectors):
            x = bijector.forward(x)
        return jnp.asarray(x)

    def point(self, x: ArrayLike) -> Point:
        """The composed value, with the point from which the outermost map took it."""
        if not self.bijectors:
            return Point(jnp.asarray(x))
        outer, *rest = self.bijectors
        inner = rest[0].point(x) if len(rest) == 1 else Chain(tuple(rest)).point(x)
        return Point(outer.forward(inner.value), inner=inner)

    def inverse(self, y: ArrayLike) -> Array:
        """The composed inverse; the first bijector is inverted first."""
        for bijector in self.bijectors:
            y = bijector.inverse(y)
        return jnp.asarray(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The sum of the log determinants, each at the value that its bijector gets."""
        total: ArrayLike = 0.0
        for bijector in reversed(self.bijectors):
            axes = tuple(range(bijector.event_ndims - self.event_ndims, 0))
            total = total + jnp.sum(bijector.forward_log_det_jacobian(x), axis=axes)
            x = bijector.forward(x)
        return jnp.asarray(total)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)` for `x` of the given shape."""
        for bijector in reversed(self.bijectors):
            shape = bijector.forward_event_shape(shape)
        return tuple(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)` for `y` of the given shape."""
        for bijector in self.bijectors:
            shape = bijector.inverse_event_shape(shape)
        return tuple(shape)
