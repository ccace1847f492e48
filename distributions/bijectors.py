"""Smooth maps from unconstrained space onto the supports of distributions.

Every bijector is a pytree whose leaves are its bounds. `event_ndims` is the number of trailing axes of the
unconstrained value that one event takes; `forward_log_det_jacobian` has one number per event.

Reference:
    Stan Development Team, *Stan Reference Manual*, chapter "Constraint transforms".
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from distributions._arrays import promote
from distributions._pytree import pytree_dataclass, static

Shape = tuple[int, ...]


class Bijector(abc.ABC):
    """A differentiable one-to-one map `y = forward(x)` from unconstrained `x`."""

    event_ndims: ClassVar[int] = 0

    @abc.abstractmethod
    def forward(self, x: ArrayLike) -> Array:
        """The constrained value of `x`."""

    @abc.abstractmethod
    def inverse(self, y: ArrayLike) -> Array:
        """The unconstrained value of `y`."""

    @abc.abstractmethod
    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`log |det dy/dx|`, one number per event of `x`."""

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)` for `x` of the given shape."""
        return tuple(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)` for `y` of the given shape."""
        return tuple(shape)


@pytree_dataclass
class Identity(Bijector):
    """`y = x`, onto the real line."""

    def forward(self, x: ArrayLike) -> Array:
        """The value itself."""
        return jnp.asarray(x)

    def inverse(self, y: ArrayLike) -> Array:
        """The value itself."""
        return jnp.asarray(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """Zero."""
        return jnp.zeros_like(jnp.asarray(x))


@pytree_dataclass
class Exp(Bijector):
    """`y = exp(x)`, onto the positive numbers.

    >>> Exp().forward(0.0)
    Array(1., dtype=float32, weak_type=True)
    """

    def forward(self, x: ArrayLike) -> Array:
        """`exp(x)`."""
        return jnp.exp(x)

    def inverse(self, y: ArrayLike) -> Array:
        """`log(y)`."""
        return jnp.log(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`x`."""
        return jnp.asarray(x)


def _step(bound: ArrayLike, dtype: jnp.dtype) -> Array:
    """At least the distance from `bound` to the next number of `dtype`, on either side."""
    info = jnp.finfo(dtype)
    return lax.stop_gradient(jnp.maximum(jnp.abs(bound) * info.eps, info.tiny))


@pytree_dataclass
class Lower(Bijector):
    """`y = low + exp(x)`, onto the numbers above `low`; never rounded down to `low` itself."""

    low: ArrayLike

    def forward(self, x: ArrayLike) -> Array:
        """`low + exp(x)`."""
        x, low = promote(x, self.low)
        return jnp.maximum(low + jnp.exp(x), low + _step(low, x.dtype))

    def inverse(self, y: ArrayLike) -> Array:
        """`log(y - low)`."""
        y, low = promote(y, self.low)
        return jnp.log(y - low)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`x`."""
        return jnp.asarray(x)


@pytree_dataclass
class Upper(Bijector):
    """`y = high - exp(-x)`, onto the numbers below `high`; increasing, as all maps of this module."""

    high: ArrayLike

    def forward(self, x: ArrayLike) -> Array:
        """`high - exp(-x)`."""
        x, high = promote(x, self.high)
        return jnp.minimum(high - jnp.exp(-x), high - _step(high, x.dtype))

    def inverse(self, y: ArrayLike) -> Array:
        """`-log(high - y)`."""
        y, high = promote(y, self.high)
        return -jnp.log(high - y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`-x`."""
        return -jnp.asarray(x)


@pytree_dataclass
class Sigmoid(Bijector):
    """`y = low + (high - low) / (1 + exp(-x))`, onto the interval between two finite bounds.

    The value is computed from the nearer bound, so that it is precise next to both.
    """

    low: ArrayLike = 0.0
    high: ArrayLike = 1.0

    def forward(self, x: ArrayLike) -> Array:
        """The point of the interval whose logit is `x`."""
        x, low, high = promote(x, self.low, self.high)
        width = high - low
        y = jnp.where(x < 0, low + width * lax.logistic(x), high - width * lax.logistic(-x))
        return jnp.clip(y, low + _step(low, x.dtype), high - _step(high, x.dtype))

    def inverse(self, y: ArrayLike) -> Array:
        """`log(y - low) - log(high - y)`."""
        y, low, high = promote(y, self.low, self.high)
        return jnp.log(y - low) - jnp.log(high - y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`log(high - low) - softplus(x) - softplus(-x)`."""
        x, low, high = promote(x, self.low, self.high)
        return jnp.log(high - low) - jax.nn.softplus(x) - jax.nn.softplus(-x)


@pytree_dataclass
class Bounded(Bijector):
    """Onto the interval between two bounds of which each may be infinite, element by element.

    Where both are finite it is `Sigmoid`, where one is it is `Lower` or `Upper`, where none is `Identity`.
    It serves bounds whose values are not known when the program is traced.
    """

    low: ArrayLike
    high: ArrayLike

    def _pick(self, method: str, value: ArrayLike) -> Array:
        value, low, high = promote(value, self.low, self.high)
        below, above = jnp.isfinite(low), jnp.isfinite(high)
        a = jnp.where(below, low, jnp.where(above, high - 1, 0))
        b = jnp.where(above, high, a + 1)
        cases = ((below & above, Sigmoid(a, b)), (below & ~above, Lower(a)), (above & ~below, Upper(b)))
        # Where a case does not apply its map sees a harmless point, or its gradient would be NaN.
        harmless = 0.0 if method != "inverse" else (a + b) / 2
        result = getattr(Identity(), method)(value)
        for applies, bijector in cases:
            other = getattr(bijector, method)(jnp.where(applies, value, harmless))
            result = jnp.where(applies, other, result)
        return result

    def forward(self, x: ArrayLike) -> Array:
        """The constrained value of `x`."""
        return self._pick("forward", x)

    def inverse(self, y: ArrayLike) -> Array:
        """The unconstrained value of `y`."""
        return self._pick("inverse", y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`log dy/dx`."""
        return self._pick("forward_log_det_jacobian", x)


@pytree_dataclass
class Independent(Bijector):
    """A bijector whose trailing `ndims` batch axes belong to the event: log determinants are summed."""

    bijector: Bijector
    ndims: int = static()

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Axes of one unconstrained event."""
        return self.bijector.event_ndims + self.ndims

    def forward(self, x: ArrayLike) -> Array:
        """The constrained value of `x`."""
        return self.bijector.forward(x)

    def inverse(self, y: ArrayLike) -> Array:
        """The unconstrained value of `y`."""
        return self.bijector.inverse(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The sum over the event's axes."""
        return jnp.sum(self.bijector.forward_log_det_jacobian(x), axis=tuple(range(-self.ndims, 0)))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """The shape of `forward(x)`."""
        return self.bijector.forward_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """The shape of `inverse(y)`."""
        return self.bijector.inverse_event_shape(shape)


@pytree_dataclass
class StickBreaking(Bijector):
    """From `n - 1` real numbers onto the simplex of `n`; zero goes to the uniform point.

    `z_k = logistic(x_k - log(n - k))` is the fraction that `y_k` breaks off what is left of a stick of length 1.

    >>> StickBreaking().forward(jnp.zeros(3))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    event_ndims: ClassVar[int] = 1

    def _offset(self, x: Array) -> Array:
        """`log(n - k)`, for `k = 1 .. n - 1`."""
        offset = jnp.log(jnp.arange(x.shape[-1], 0, -1, dtype=x.dtype))
        return offset.reshape((1,) * (x.ndim - 1) + offset.shape)

    def _log_sticks(self, x: ArrayLike) -> tuple[Array, Array, Array]:
        """`log z_k`, `log (1 - z_k)`, and the log of what is left before each break."""
        (x,) = promote(x)
        logit = x - self._offset(x)
        log_z, log_rest = -jax.nn.softplus(-logit), -jax.nn.softplus(logit)
        left = jnp.cumsum(log_rest, axis=-1)
        return log_z, log_rest, jnp.concatenate([jnp.zeros_like(left[..., :1]), left], axis=-1)

    def forward(self, x: ArrayLike) -> Array:
        """The point of the simplex; entries that underflow are the smallest normal number."""
        log_z, _, log_left = self._log_sticks(x)
        log_last = jnp.zeros_like(log_left[..., :1])
        y = jnp.exp(log_left + jnp.concatenate([log_z, log_last], axis=-1))
        return jnp.maximum(y, jnp.finfo(y.dtype).tiny)

    def inverse(self, y: ArrayLike) -> Array:
        """`x_k = log y_k - log(y_{k+1} + ... + y_n) + log(n - k)`."""
        (y,) = promote(y)
        rest = jnp.flip(jnp.cumsum(jnp.flip(y, -1), axis=-1), -1)
        x = jnp.log(y[..., :-1]) - jnp.log(rest[..., 1:])
        return x + self._offset(x)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """Of the map to the first `n - 1` entries: `sum_k log z_k + log(1 - z_k) + log left_k`."""
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
    """Onto increasing vectors: `y_1 = x_1`, `y_k = y_{k-1} + exp(x_k)`.

    >>> Ordered().forward(jnp.zeros(3))
    Array([0., 1., 2.], dtype=float32)
    """

    event_ndims: ClassVar[int] = 1

    def forward(self, x: ArrayLike) -> Array:
        """The first entry and exponentiated steps, summed up."""
        (x,) = promote(x)
        return jnp.cumsum(jnp.concatenate([x[..., :1], jnp.exp(x[..., 1:])], axis=-1), axis=-1)

    def inverse(self, y: ArrayLike) -> Array:
        """The first entry and the logs of the steps."""
        (y,) = promote(y)
        return jnp.concatenate([y[..., :1], jnp.log(jnp.diff(y, axis=-1))], axis=-1)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`x_2 + ... + x_n`."""
        return jnp.sum(promote(x)[0][..., 1:], axis=-1)


@pytree_dataclass
class CholeskyFactor(Bijector):
    """From `n (n + 1) / 2` numbers onto lower-triangular matrices with a positive diagonal.

    The entries fill the triangle row by row; those of the diagonal are exponentiated.
    """

    event_ndims: ClassVar[int] = 1

    def forward(self, x: ArrayLike) -> Array:
        """The matrix."""
        (x,) = promote(x)
        n = self.forward_event_shape(x.shape)[-1]
        rows, columns = jnp.tril_indices(n)
        filled = jnp.where(_expand(rows == columns, x), jnp.exp(_diagonal_only(x, rows == columns)), x)
        return jnp.zeros((*x.shape[:-1], n, n), x.dtype).at[..., rows, columns].set(filled)

    def inverse(self, y: ArrayLike) -> Array:
        """The triangle, row by row, with the logs of the diagonal."""
        (y,) = promote(y)
        rows, columns = jnp.tril_indices(y.shape[-1])
        x, diagonal = y[..., rows, columns], _expand(rows == columns, y[..., 0])
        return jnp.where(diagonal, jnp.log(jnp.where(diagonal, x, 1)), x)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The sum of the entries that go to the diagonal."""
        (x,) = promote(x)
        n = self.forward_event_shape(x.shape)[-1]
        rows, columns = jnp.tril_indices(n)
        return jnp.sum(_diagonal_only(x, rows == columns), axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n + 1) / 2)` to `(..., n, n)`."""
        n = (math.isqrt(8 * shape[-1] + 1) - 1) // 2
        if n * (n + 1) // 2 != shape[-1]:
            raise ValueError(f"a triangle has n (n + 1) / 2 entries for some n; the last axis has {shape[-1]}")
        return (*shape[:-1], n, n)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n + 1) / 2)`."""
        return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)


def _expand(mask: Array, like: Array) -> Array:
    return mask.reshape((1,) * (like.ndim - 1) + mask.shape)


def _diagonal_only(x: Array, diagonal: Array) -> Array:
    return jnp.where(_expand(diagonal, x), x, 0)


@pytree_dataclass
class PositiveDefinite(Bijector):
    """From `n (n + 1) / 2` numbers onto positive definite matrices, by their Cholesky factor."""

    event_ndims: ClassVar[int] = 1

    def forward(self, x: ArrayLike) -> Array:
        """`L L^T`, with `L` from `CholeskyFactor`."""
        tril = CholeskyFactor().forward(x)
        return jnp.einsum("...ik,...jk->...ij", tril, tril, precision=lax.Precision.HIGHEST)

    def inverse(self, y: ArrayLike) -> Array:
        """The entries of the Cholesky factor of `y`."""
        return CholeskyFactor().inverse(jnp.linalg.cholesky(promote(y)[0]))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """Of the map to the lower triangle: `n log 2 + sum_i (n - i + 2) log L_ii`, `i = 1 .. n`."""
        (x,) = promote(x)
        n = self.forward_event_shape(x.shape)[-1]
        diagonal = x[..., jnp.cumsum(jnp.arange(1, n + 1)) - 1]
        powers = jnp.arange(n + 1, 1, -1, dtype=x.dtype)
        return n * math.log(2) + jnp.sum(diagonal * _expand(powers, diagonal), axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n + 1) / 2)` to `(..., n, n)`."""
        return CholeskyFactor().forward_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n + 1) / 2)`."""
        return CholeskyFactor().inverse_event_shape(shape)
