"""Bijectors onto vectors: the simplex and ordered vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector, Shape
from distributions.common.arrays import as_float
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.numerics.cumulative_sum import cumulative_sum


@pytree_dataclass
class StickBreaking(Bijector):
    """Stick breaking, from `n - 1` real numbers onto the simplex of `n`.

    `y_k` is the fraction `z_k = logistic(x_k - log(n - k))` of the remaining stick; the whole stick
    has length 1. Zero goes to the uniform point.

    >>> from distributions import bijectors
    >>> print(bijectors.StickBreaking().forward(jnp.zeros(3)).round(4))
    [0.25 0.25 0.25 0.25]
    """

    event_ndims = 1

    def _offset(self, x: Array) -> Array:
        """`log(n - k)`, for `k = 1 .. n - 1`."""
        offset = jnp.log(jnp.arange(x.shape[-1], 0, -1, dtype=x.dtype))
        return offset.reshape((1,) * (x.ndim - 1) + offset.shape)

    def _log_sticks(self, x: ArrayLike) -> tuple[Array, Array, Array]:
        """`log z_k`, `log(1 - z_k)`, and the log of the length left before each break."""
        x = as_float(x)
        logit = x - self._offset(x)
        log_z = -jax.nn.softplus(-logit)
        log_rest = -jax.nn.softplus(logit)
        left = cumulative_sum(log_rest)
        none = jnp.zeros((*left.shape[:-1], 1), left.dtype)
        return log_z, log_rest, jnp.concatenate([none, left], axis=-1)

    def forward(self, x: ArrayLike) -> Array:
        """The point of the simplex; entries that underflow are the smallest normal number."""
        return self.point(x).value

    def point(self, x: ArrayLike) -> Point:
        """The point of the simplex, with the logarithms of its entries."""
        log_z, _, log_left = self._log_sticks(x)
        log_last = jnp.zeros_like(log_left[..., :1])
        log_y = log_left + jnp.concatenate([log_z, log_last], axis=-1)
        return Point(jnp.maximum(jnp.exp(log_y), jnp.finfo(log_y.dtype).tiny), log=log_y)

    def inverse(self, y: ArrayLike) -> Array:
        """`x_k = log y_k - log(y_{k+1} + ... + y_n) + log(n - k)`."""
        y = as_float(y)
        rest = cumulative_sum(y, reverse=True)
        x = jnp.log(y[..., :-1]) - jnp.log(rest[..., 1:])
        return x + self._offset(x)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`sum_k log z_k + log(1 - z_k) + log left_k`, of the map to the first `n - 1` entries."""
        log_z, log_rest, log_left = self._log_sticks(x)
        return jnp.sum(log_z + log_rest + log_left[..., :-1], axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The last axis grows by one."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The last axis shrinks by one."""
        return (*shape[:-1], shape[-1] - 1)


@pytree_dataclass
class Ordered(Bijector):
    """Cumulative sum onto increasing vectors: `y_1 = x_1`, `y_k = y_{k-1} + exp(x_k)`.

    >>> from distributions import bijectors
    >>> print(bijectors.Ordered().forward(jnp.zeros(3)).round(4))
    [0. 1. 2.]
    """

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """The first entry and exponentiated steps, summed up."""
        x = as_float(x)
        return cumulative_sum(jnp.concatenate([x[..., :1], jnp.exp(x[..., 1:])], axis=-1))

    def inverse(self, y: ArrayLike) -> Array:
        """The first entry and the logs of the steps."""
        y = as_float(y)
        return jnp.concatenate([y[..., :1], jnp.log(jnp.diff(y, axis=-1))], axis=-1)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`x_2 + ... + x_n`."""
        return jnp.sum(as_float(x)[..., 1:], axis=-1)


@pytree_dataclass
class PositiveOrdered(Bijector):
    """Cumulative sum onto increasing positive vectors: `y_k = y_{k-1} + exp(x_k)`, `y_0 = 0`.

    >>> from distributions import bijectors
    >>> print(bijectors.PositiveOrdered().forward(jnp.zeros(3)).round(4))
    [1. 2. 3.]
    """

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """Exponentiated steps, summed up."""
        return cumulative_sum(jnp.exp(as_float(x)))

    def inverse(self, y: ArrayLike) -> Array:
        """The logs of the steps."""
        y = as_float(y)
        return jnp.log(jnp.concatenate([y[..., :1], jnp.diff(y, axis=-1)], axis=-1))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`x_1 + ... + x_n`."""
        return jnp.sum(as_float(x), axis=-1)
