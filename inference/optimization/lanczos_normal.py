"""Laplace's approximation in many coordinates: a low rank of the Hessian by Lanczos's method."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix
from inference.common.target import Target
from inference.guides.low_rank_normal import LowRankNormalGuide, LowRankNormalParameters
from inference.optimization.hessian_normal import NotAPeakError, check_peak
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.compiled_program import compile_once

_COLUMNS_AT_ONCE = 32  # elements of the Hessian's diagonal
_ROUNDING = 10  # rounding of the largest eigenvalue, in machine epsilons
_TOLERANCE = 1e-3  # relative error of eigenvalues
# Scalings; change of log scales at which they end; least share of the diagonal in a scaling.
_MAX_SCALINGS = 10
_MIN_CHANGE = 1e-3
_MIN_SHARE = 1e-3


class LanczosNormal(NamedTuple):
    r"""A normal distribution whose precision matrix is a diagonal plus a low rank, in float64.

    .. math:: D^{-1} (\rho I + V^\top (\Lambda - \rho I) V) D^{-1}

    Attributes:
        loc: The mean, ``(size,)``.
        scale: The diagonal of `D`, ``(size,)``.
        vectors: `V`, orthonormal rows, ``(rank, size)``.
        values: The diagonal of :math:`\Lambda`, ``(rank,)``.
        rest: :math:`\rho`.
        log_integral: The logarithm of the integral of the exponential of the log density's
            second-order expansion.
    """

    loc: np.ndarray
    scale: np.ndarray
    vectors: np.ndarray
    values: np.ndarray
    rest: float
    log_integral: float

    @property
    def guide(self) -> LowRankNormalGuide:
        """The family, low-rank normal distributions."""
        return LowRankNormalGuide(len(self.values))

    def parameters(self, dtype: np.dtype) -> LowRankNormalParameters:
        """The member of the family."""
        rest = np.sqrt(self.rest)
        parts = self.scale / rest, self.vectors, rest / np.sqrt(self.values)
        factor = LowRankMatrix(*(jnp.asarray(x, dtype) for x in parts))
        return LowRankNormalParameters(jnp.asarray(self.loc, dtype), factor)


def low_rank_normal_at(
    position: np.ndarray, target: Target, layout: Layout, rank: int
) -> LanczosNormal:
    r"""The normal distribution at a mode, from a diagonal and a low rank of the Hessian.

    1. Scale the negative Hessian to a diagonal of ones.
    2. Find `rank` eigenvalues by the Lanczos method, half of them at each end of the spectrum.
    3. Replace the other eigenvalues by their mean, which follows from the trace.
    4. Scale anew, by the part of the diagonal outside the eigenvectors found, and return to 2 until
       the scaling no longer changes.

    The result is exact if the eigenvalues of step 3 are equal. It takes one product of the Hessian
    with a vector for each coordinate, for the diagonal, and some hundred products for each scaling.
    No matrix is stored.

    Raises:
        NotAPeakError: if the Hessian is not negative definite.

    References:
        Golub and Van Loan (2013), Matrix Computations, section 10.1, on the Lanczos method.
    """
    at = position.astype(layout.dtype)
    arguments = at, target, layout
    found = jax.device_get(compile_once(_value_and_diagonal, *arguments)(*arguments))
    value, diagonal = (-np.asarray(x, np.float64) for x in found)
    flat = np.flatnonzero(~np.isfinite(diagonal))
    if flat.size:
        raise NotAPeakError(flat, "has no finite curvature")
    if np.min(diagonal) <= 0:
        how = "is flat" if np.min(diagonal) == 0 else "rises"
        raise NotAPeakError(np.flatnonzero(diagonal == np.min(diagonal)), how)

    def product(vector: np.ndarray) -> np.ndarray:
        arguments = at, vector.astype(layout.dtype), target, layout
        return -np.asarray(compile_once(_hessian_product, *arguments)(*arguments), np.float64)

    within = diagonal  # diagonal of the precision without the directions found
    for _ in range(_MAX_SCALINGS):
        scale = within**-0.5
        values, vectors = _extreme_eigenpairs(product, scale, rank)
        check_peak(values, vectors, _ROUNDING * float(jnp.finfo(layout.dtype).eps) * values[-1])
        trace = np.sum(diagonal * scale**2)
        rest = (trace - np.sum(values)) / (layout.size - rank)
        kept = vectors**2 @ (values - rest) / scale**2
        before = within
        within = np.maximum(diagonal - kept, _MIN_SHARE * diagonal)
        if np.ptp(np.log(within / before)) < _MIN_CHANGE:
            break
    log_det = np.sum(np.log(values)) - 2 * np.sum(np.log(scale))
    log_det += (layout.size - rank) * np.log(rest)
    log_integral = -value + 0.5 * (layout.size * np.log(2 * np.pi) - log_det)
    loc = at.astype(np.float64)
    return LanczosNormal(loc, scale, vectors.T, values, float(rest), float(log_integral))


def _extreme_eigenpairs(
    product: Callable[[np.ndarray], np.ndarray], scale: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """The extreme eigenvalues of a scaled matrix, ascending, and eigenvectors as columns."""
    import scipy.sparse.linalg

    linalg: Any = scipy.sparse.linalg
    size = len(scale)

    def scaled(vector):
        return scale * product(scale * np.ravel(vector))

    operator = linalg.LinearOperator((size, size), matvec=scaled, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=size)
    with one_blas_thread():
        return linalg.eigsh(operator, k=rank, which="BE", v0=start, tol=_TOLERANCE)


def _value_and_diagonal(
    position: jax.Array, target: Target, layout: Layout
) -> tuple[jax.Array, jax.Array]:
    """The log density and the diagonal of its Hessian."""
    log_density = _flat_log_density(target, layout)

    def element(i: jax.Array) -> jax.Array:
        direction = (jnp.arange(layout.size) == i).astype(layout.dtype)
        return jax.jvp(jax.grad(log_density), (position,), (direction,))[1][i]

    diagonal = lax.map(element, jnp.arange(layout.size), batch_size=_COLUMNS_AT_ONCE)
    return log_density(position), diagonal


def _hessian_product(
    position: jax.Array, vector: jax.Array, target: Target, layout: Layout
) -> jax.Array:
    return jax.jvp(jax.grad(_flat_log_density(target, layout)), (position,), (vector,))[1]


def _flat_log_density(target: Target, layout: Layout) -> Callable[[jax.Array], jax.Array]:
    return lambda flat: target.log_density(layout.unravel(flat)).astype(layout.dtype)
