"""Dense mass matrices: learnt by chains, and renewed on the host at the end of each window.

A few times in a warm-up a matrix is decomposed. On the host this needs no compilation, and leaves
the loop of a chain without calls of LAPACK, which would keep XLA from making one kernel of it.
"""

import math
from typing import Any

import jax
import numpy as np

from inference.adaptation import Adaptation, Spread
from inference.dual_averaging import DualAveraging

_RIDGE = 0.1  # of the variances, where there are as many dimensions as draws


@np.errstate(all="ignore")  # what is not finite is found in the result
def fisher_matrix(spread: Spread, default: np.ndarray) -> np.ndarray:
    r"""The inverse mass matrix that brings draws and gradients to the same covariance.

    .. math:: \Sigma\, \mathrm{cov}(\nabla \log p)\, \Sigma = \mathrm{cov}(x)

    It minimises the Fisher divergence between the density and a normal one of this covariance;
    where the density is normal, it is the covariance itself as soon as there are more draws than
    dimensions. Both covariances have a part of their diagonals added, the more of it the fewer
    draws there are, which shrinks the matrix towards that of
    :func:`inference.adaptation.fisher_diagonal`.

    Args:
        spread: Of one chain.
        default: A diagonal, ``(size,)``, for coordinates that have not moved.

    Returns:
        A symmetric matrix, ``(size, size)``, in double precision.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, as with infinities.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    count = max(float(spread.positions.count), 2.0)
    draws, gradients = (np.asarray(w.deviations, np.float64) / (count - 1) for w in spread)
    ratio = np.sqrt(np.diag(draws) / np.diag(gradients))
    is_known = (ratio > 0) & np.isfinite(ratio)
    scale = np.sqrt(np.where(is_known, ratio, default))
    share = _RIDGE * (len(default) / count) ** 3
    ridge = np.diag(share * np.where(is_known, np.diag(draws) / scale**2, 1.0))
    lower = np.linalg.cholesky(gradients * np.outer(scale, scale) + ridge)
    values, vectors = np.linalg.eigh(lower.T @ (draws / np.outer(scale, scale) + ridge) @ lower)
    half = scale[:, None] * np.linalg.solve(lower.T, vectors * np.maximum(values, 0) ** 0.25)
    return half @ half.T


def renewed(which: np.ndarray, state: Adaptation) -> Adaptation:
    """Adaptations of several chains, with new matrices for those that are `which`.

    There the averaging of the step size begins anew, from its average. A matrix stays as it is
    where draws or gradients are not finite.
    """
    state = jax.tree.map(np.array, state)
    for chain in np.flatnonzero(which):
        here = jax.tree.map(lambda x, chain=chain: x[chain], state)
        old = here.inverse_mass_matrix
        try:
            matrix = fisher_matrix(here.memory, np.diag(old))
            factor = np.linalg.cholesky(matrix)
            if np.linalg.norm(matrix) > np.finfo(old.dtype).max or np.isnan(matrix).any():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            matrix, factor = old, here.inverse_mass_factor
        center = here.dual_averaging.log_average
        zero = np.zeros_like(center)
        averaging = DualAveraging(center, center, zero, zero, center + math.log(10.0))
        memory = jax.tree.map(np.zeros_like, here.memory)
        new: Any = (np.exp(center), matrix, factor, averaging, memory)
        for whole, part in zip(jax.tree.leaves(state), jax.tree.leaves(new), strict=True):
            whole[chain] = part
    return state
