"""Laplace's approximation: the normal distribution at a mode, from the full Hessian."""

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
_MAX_POLISHING_STEPS = 2  # of Newton's method
_CLOSE = 0.1  # nats, largest Newton decrement at a mode
_ROUNDING = 10  # rounding of an eigenvalue for each coordinate, in machine epsilons


class Curvature(NamedTuple):
    """The log density, gradient and Hessian at a flat position."""

    log_density: jax.Array
    gradient: jax.Array
    hessian: jax.Array


class HessianNormal(NamedTuple):
    """A normal distribution and the log integral of the density it approximates, in float64.

    Attributes:
        loc: The mean, ``(size,)``.
        scale_tril: The Cholesky factor of the covariance, ``(size, size)``.
        log_integral: The logarithm of the integral of the exponential of the log density's
            second-order expansion.
    """

    loc: np.ndarray
    scale_tril: np.ndarray
    log_integral: float

    @property
    def guide(self) -> FullRank:
        """The family, full-rank normal distributions."""
        return FullRank()

    def parameters(self, dtype: np.dtype) -> LocFactor:
        """The member of the family."""
        diagonal = np.diag(self.scale_tril)
        factor = np.tril(self.scale_tril / diagonal[:, None], -1)
        return LocFactor(*(jnp.asarray(x, dtype) for x in (self.loc, np.log(diagonal), factor)))


class NotAPeakError(Exception):
    """The position is not a peak: in some direction the density does not fall.

    Attributes:
        index: The coordinates with the largest share in that direction.
        how: A verb phrase for messages, such as "rises" or "is flat".
    """

    def __init__(self, index: np.ndarray, how: str) -> None:
        super().__init__(how)
        self.index = index
        self.how = how


def curvature(position: jax.Array, target: Target, layout: Layout) -> Curvature:
    """Log density, gradient and Hessian, column by column as derivatives of the gradient."""

    def log_density(flat: jax.Array) -> jax.Array:
        return target.log_density(layout.unravel(flat)).astype(layout.dtype)

    value_and_grad = jax.value_and_grad(log_density)

    def column(x):
        return jax.jvp(jax.grad(log_density), (position,), (x,))[1]

    hessian = lax.map(column, jnp.eye(layout.size, dtype=layout.dtype), batch_size=_COLUMNS_AT_ONCE)
    return Curvature(*value_and_grad(position), hessian)


def normal_at(position: np.ndarray, target: Target, layout: Layout) -> HessianNormal:
    """The normal distribution at the mode near `position`, after a few steps of Newton's method.

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
    """The Cholesky factor of the inverse of the negative Hessian.

    Raises:
        NotAPeakError: if the Hessian is not negative definite.
    """
    if not np.all(np.isfinite(hessian)):
        raise NotAPeakError(np.flatnonzero(~np.isfinite(hessian).all(0)), "has no finite curvature")
    precision = -0.5 * (hessian + hessian.T)
    diagonal = np.abs(np.diag(precision))
    scale = np.where(diagonal > 0, diagonal, 1.0) ** -0.5  # to a unit diagonal
    values, vectors = np.linalg.eigh(scale[:, None] * precision * scale)
    check_peak(values, vectors, _ROUNDING * eps * len(scale))
    covariance = (vectors / values) @ vectors.T
    return scale[:, None] * np.linalg.cholesky(covariance)


def check_peak(values: np.ndarray, vectors: np.ndarray, rounding: float) -> None:
    """Checks that the least eigenvalue of the negative Hessian is positive, beyond its rounding.

    Args:
        values: Eigenvalues, ascending.
        vectors: Eigenvectors as columns.
        rounding: Bound on the rounding error of an eigenvalue.

    Raises:
        NotAPeakError: if it is not.
    """
    if values[0] <= rounding:
        share = np.abs(vectors[:, 0])
        index = np.flatnonzero(share > 0.5 * share.max())
        raise NotAPeakError(index, "rises" if values[0] < -rounding else "is flat")
