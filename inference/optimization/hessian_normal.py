"""The normal distribution that fits a log density at a mode."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.target import Target
from inference.guides.normal import FullRank, LocFactor
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.compiled_program import compile_once

_COLUMNS_AT_ONCE = 32  # columns of the Hessian
_MAX_POLISHING_STEPS, _CLOSE = 2, 0.1
_ROUNDING = 10


class Curvature(NamedTuple):
    """A log density at a flat position, with its gradient and Hessian."""

    log_density: jax.Array
    gradient: jax.Array
    hessian: jax.Array


class HessianNormal(NamedTuple):
    """A normal distribution: mean, Cholesky factor of the covariance, log of what it integrates to.

    All in float64. `log_integral` is that of the exponential of the log density's expansion to
    second order.
    """

    loc: np.ndarray
    scale_tril: np.ndarray
    log_integral: float

    @property
    def guide(self) -> FullRank:
        """The family."""
        return FullRank()

    def parameters(self, dtype: np.dtype) -> LocFactor:
        """As those of a full rank guide."""
        diagonal = np.diag(self.scale_tril)
        factor = np.tril(self.scale_tril / diagonal[:, None], -1)
        return LocFactor(*(jnp.asarray(x, dtype) for x in (self.loc, np.log(diagonal), factor)))


class NotAPeakError(Exception):
    """There is a direction in which the density does not fall; tells the coordinates and how."""

    def __init__(self, index: np.ndarray, how: str) -> None:
        super().__init__(how)
        self.index, self.how = index, how


def curvature(position: jax.Array, target: Target, layout: Layout) -> Curvature:
    """Value, gradient and Hessian, columns of which are derivatives of the gradient."""

    def log_density(flat: jax.Array) -> jax.Array:
        return target.log_density(layout.unravel(flat)).astype(layout.dtype)

    value_and_grad = jax.value_and_grad(log_density)
    column = lambda x: jax.jvp(jax.grad(log_density), (position,), (x,))[1]  # noqa: E731
    hessian = lax.map(column, jnp.eye(layout.size, dtype=layout.dtype), batch_size=_COLUMNS_AT_ONCE)
    return Curvature(*value_and_grad(position), hessian)


def normal_at(position: np.ndarray, target: Target, layout: Layout) -> HessianNormal:
    """The normal distribution at a mode close to `position`, which Newton's method finds.

    Raises:
        NotAPeakError: if the Hessian is not negative definite.
    """
    eps = float(jnp.finfo(layout.dtype).eps)
    for _ in range(_MAX_POLISHING_STEPS + 1):
        arguments = position.astype(layout.dtype), target, layout
        found = jax.device_get(compile_once(curvature, *arguments)(*arguments))
        value, gradient, hessian = (np.asarray(x, np.float64) for x in found)
        with one_blas_thread():
            scale_tril = _scale_tril(hessian, eps)
        step = scale_tril @ (scale_tril.T @ gradient)
        decrement = 0.5 * step @ gradient
        if not eps**1.25 < decrement < _CLOSE:
            break
        position = position + step
    log_det = np.sum(np.log(np.diag(scale_tril)))
    log_integral = value + log_det + 0.5 * layout.size * np.log(2 * np.pi)
    return HessianNormal(arguments[0].astype(np.float64), scale_tril, float(log_integral))


def _scale_tril(hessian: np.ndarray, eps: float) -> np.ndarray:
    """The Cholesky factor of the inverse of the negative Hessian."""
    if not np.all(np.isfinite(hessian)):
        raise NotAPeakError(np.flatnonzero(~np.isfinite(hessian).all(0)), "has no finite curvature")
    precision = -0.5 * (hessian + hessian.T)
    diagonal = np.abs(np.diag(precision))
    scale = np.where(diagonal > 0, diagonal, 1.0) ** -0.5  # for coordinates of any scale
    values, vectors = np.linalg.eigh(scale[:, None] * precision * scale)
    least = _ROUNDING * eps * len(scale)
    if values[0] <= least:
        share = np.abs(vectors[:, 0])
        index = np.flatnonzero(share > 0.5 * share.max())
        raise NotAPeakError(index, "rises" if values[0] < -least else "is flat")
    covariance = (vectors / values) @ vectors.T
    return scale[:, None] * np.linalg.cholesky(covariance)
