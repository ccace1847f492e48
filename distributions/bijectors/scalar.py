"""Bijectors of single numbers: onto the line, half lines and intervals."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector
from distributions.common.arrays import as_host_array, promote
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass


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
    """`y = exp(x)`, onto the positive numbers; never rounded down to 0.

    >>> from distributions import bijectors
    >>> round(float(bijectors.Exp().forward(0.0)), 4)
    1.0
    """

    def forward(self, x: ArrayLike) -> Array:
        """`exp(x)`."""
        (x,) = promote(x)
        info = jnp.finfo(x.dtype)
        # The bound is on x, so that XLA still cancels log(exp(x)); its exp is just above tiny.
        least = math.log(info.tiny) * (1 - float(info.eps))
        return jnp.exp(jnp.where(x < least, least, x))

    def point(self, x: ArrayLike) -> Point:
        """`exp(x)`, with its logarithm."""
        (x,) = promote(x)
        return Point(self.forward(x), log=x)

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
    """`y = high - exp(-x)`, onto the numbers below `high`; increasing, like all maps here."""

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


def _log_distance(x: Array, end: Any, width: Any) -> Array:
    """`log(end + width / (1 + exp(-x)))`, for an end that may be 0."""
    log_part = jax.nn.log_sigmoid(x)
    if np.all(width == 1):
        return log_part
    with np.errstate(divide="ignore"):
        log_end, log_width = (jnp.asarray(np.log(b), x.dtype) for b in (end, width))
    return jnp.logaddexp(log_end, log_width + log_part)


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

    def point(self, x: ArrayLike) -> Point:
        """The point of the interval; with logarithms if the bounds are known to lie in [0, 1]."""
        value = self.forward(x)
        low = as_host_array(self.low)
        high = as_host_array(self.high)
        if low is None or high is None or not (np.all(low >= 0) and np.all(high <= 1)):
            return Point(value)
        (x,) = promote(x, dtype=value.dtype)
        log = _log_distance(x, low, high - low)
        log_complement = _log_distance(-x, 1 - high, high - low)
        least = jnp.finfo(value.dtype).tiny
        return Point(value, log, jnp.maximum(jnp.exp(log_complement), least), log_complement)

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
    """Map onto an interval whose bounds may be infinite, element by element.

    | finite bounds | map        |
    | ------------- | ---------- |
    | both          | `Sigmoid`  |
    | `low`         | `Lower`    |
    | `high`        | `Upper`    |
    | none          | `Identity` |

    The bounds may be traced.
    """

    low: ArrayLike
    high: ArrayLike

    def _pick(self, method: str, value: ArrayLike) -> Array:
        value, low, high = promote(value, self.low, self.high)
        below = jnp.isfinite(low)
        above = jnp.isfinite(high)
        a = jnp.where(below, low, jnp.where(above, high - 1, 0))
        b = jnp.where(above, high, a + 1)
        cases = (
            (below & above, Sigmoid(a, b)),
            (below & ~above, Lower(a)),
            (above & ~below, Upper(b)),
        )
        # A map gets a harmless point where its case does not apply, or its gradient would be NaN.
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
