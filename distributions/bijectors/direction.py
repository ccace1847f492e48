"""Bijectors onto unit vectors and onto arrays whose entries sum to zero."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector, Shape
from distributions.common.arrays import as_float
from distributions.common.pytree import pytree_dataclass, static


@pytree_dataclass
class UnitVector(Bijector):
    """Normalization `y = x / |x|`, from `n` real numbers onto the vectors of length 1.

    No smooth one-to-one map leads from flat space onto a sphere. This map has one dimension too
    many, the length of `x`. `inverse` returns the `x` of length 1: `forward(inverse(y))` is `y`,
    but `inverse(forward(x))` is not `x`. The zero vector goes to the first axis.

    The log determinant is `log 2 - |x|^2 / 2 - (n / 2) log 2 - log Gamma(n / 2)`. It includes a
    density for the length of `x`, chosen so that a standard normal `x` gives a uniform `y`.
    Densities of `y` are with respect to the area of the sphere.

    >>> from distributions import bijectors
    >>> print(bijectors.UnitVector().forward(jnp.array([0.0, 4.0])))
    [0. 1.]

    References:
        Marsaglia, "Choosing a point from the surface of a sphere", Annals of Mathematical
        Statistics 43 (1972).
        Stan Development Team, *Stan Reference Manual*, "Unit vectors".
    """

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """`x / |x|`, without under- or overflow of the squares."""
        x = as_float(x)
        largest = lax.stop_gradient(jnp.max(jnp.abs(x), -1, keepdims=True))
        is_zero = largest == 0
        first = jnp.zeros_like(x).at[..., 0].set(1)
        # The result is the same for any unit of length: constant, it costs derivatives nothing.
        # Beyond a quarter of the largest number, its reciprocal would be flushed to 0.
        unit = jnp.minimum(jnp.where(is_zero, 1, largest), jnp.finfo(x.dtype).max / 4)
        scaled = jnp.where(is_zero, first, x / unit)
        return scaled / jnp.sqrt(jnp.sum(jnp.square(scaled), -1, keepdims=True))

    def inverse(self, y: ArrayLike) -> Array:
        """`y` itself."""
        return as_float(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The log ratio of the standard normal density of `x` to the uniform density of `y`."""
        x = as_float(x)
        half = 0.5 * x.shape[-1]
        constant = (1 - half) * math.log(2) - math.lgamma(half)
        return constant - 0.5 * jnp.sum(jnp.square(x), -1)


@pytree_dataclass
class ZeroSum(Bijector):
    """Isometry onto arrays that sum to zero along each of the last `ndims` axes.

    Each of these axes is longer by one than in `x`. The map preserves lengths: the log determinant
    is 0, for densities with respect to area in the plane of such arrays. No entry is singled out.

    >>> from distributions import bijectors
    >>> print(bijectors.ZeroSum().forward(jnp.array([1.0])).round(4))
    [ 0.7071 -0.7071]

    References:
        Egozcue et al., "Isometric logratio transformations for compositional data analysis",
        Mathematical Geology 35 (2003).
    """

    ndims: int = static(default=1)

    @property
    def event_ndims(self) -> int:
        """The number of axes that sum to zero."""
        return self.ndims

    def forward(self, x: ArrayLike) -> Array:
        """The entries and one more, shifted so that they sum to zero; axis by axis."""
        y = as_float(x)
        for axis in range(-self.ndims, 0):
            n = y.shape[axis] + 1
            total = jnp.sum(y, axis, keepdims=True)
            shift = total / (n + math.sqrt(n))
            y = jnp.concatenate([y, shift - total / math.sqrt(n)], axis) - shift
        return y

    def inverse(self, y: ArrayLike) -> Array:
        """The entries but the last, shifted back."""
        x = as_float(y)
        for axis in range(-self.ndims, 0):
            n = x.shape[axis]
            last = jnp.take(x, jnp.array([n - 1]), axis)
            x = jnp.take(x, jnp.arange(n - 1), axis) - last / (math.sqrt(n) + 1)
        return x

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """Zero."""
        return jnp.sum(jnp.zeros_like(as_float(x)), tuple(range(-self.ndims, 0)))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The last `ndims` axes grow by one."""
        split = len(shape) - self.ndims
        return (*shape[:split], *(n + 1 for n in shape[split:]))

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The last `ndims` axes shrink by one."""
        split = len(shape) - self.ndims
        return (*shape[:split], *(n - 1 for n in shape[split:]))
