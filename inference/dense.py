"""Dense mass matrices, learnt on the host at the end of each window of warm-up.

A few times in a warm-up a matrix is decomposed. On the host this needs no compilation, and leaves
the loop of a chain without calls of LAPACK, which would keep XLA from making one kernel of it, and
without matrices to carry, which it would copy in every iteration.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.adaptation import Adaptation
from inference.dual_averaging import dual_averaging_restart

_RIDGE = 0.1  # of the variances, where there are as many dimensions as draws


@np.errstate(all="ignore")  # what is not finite is found in the result
def fisher_matrix(draws: np.ndarray, gradients: np.ndarray, default: np.ndarray) -> np.ndarray:
    r"""The inverse mass matrix that brings draws and gradients to the same covariance.

    .. math:: \Sigma\, \mathrm{cov}(\nabla \log p)\, \Sigma = \mathrm{cov}(x)

    It minimises the Fisher divergence between the density and a normal one of this covariance;
    where the density is normal, it is the covariance itself as soon as there are more draws than
    dimensions. Both covariances have a part of their diagonals added, the more of it the fewer
    draws there are, which shrinks the matrix towards that of
    :func:`inference.adaptation.fisher_diagonal`.

    Args:
        draws: Of one chain, ``(draw, size)``.
        gradients: Of the log density there.
        default: A diagonal, ``(size,)``, for coordinates that have not moved.

    Returns:
        A symmetric matrix, ``(size, size)``, in double precision.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, as with infinities.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    ratio = np.std(draws, 0) / np.std(gradients, 0)
    is_known = (ratio > 0) & np.isfinite(ratio)
    scale = np.sqrt(np.where(is_known, ratio, default))
    share = _RIDGE * (len(default) / len(draws)) ** 3
    spread = _covariance(draws / scale)
    ridge = np.diag(share * np.where(is_known, np.diag(spread), 1.0))
    lower = np.linalg.cholesky(_covariance(gradients * scale) + ridge)
    values, vectors = np.linalg.eigh(lower.T @ (spread + ridge) @ lower)
    half = scale[:, None] * np.linalg.solve(lower.T, vectors * np.maximum(values, 0) ** 0.25)
    return half @ half.T


def _covariance(draws: np.ndarray) -> np.ndarray:
    deviations = draws - np.mean(draws, 0)
    return deviations.T @ deviations / max(1, len(draws) - 1)


def renewed(state: Adaptation, windows: Sequence[np.ndarray | None]) -> Adaptation:
    """Adaptations of several chains, with new matrices where a window has ended.

    There the averaging of the step size begins anew, from its average. A matrix stays as it is
    where draws or gradients are not finite.

    Args:
        state: With the chains in front.
        windows: For each chain draws and gradients, ``(draw, 2, size)``, or `None`.
    """
    state = jax.tree.map(np.array, state)
    for chain, window in enumerate(windows):
        if window is None:
            continue
        here = jax.tree.map(lambda x, chain=chain: x[chain], state)
        old, seen = here.inverse_mass_matrix, window.astype(np.float64).swapaxes(0, 1)
        try:
            matrix = fisher_matrix(seen[0], seen[1], np.diag(old))
            factor = np.linalg.cholesky(matrix)
            if np.linalg.norm(matrix) > np.finfo(old.dtype).max or np.isnan(matrix).any():
                raise np.linalg.LinAlgError
        except np.linalg.LinAlgError:
            matrix, factor = old, here.inverse_mass_factor
        averaging = dual_averaging_restart(here.dual_averaging)
        step_size = np.exp(averaging.log_step_size)
        new: Any = (step_size, matrix, factor, averaging, here.window + 1)
        for whole, part in zip(jax.tree.leaves(state), jax.tree.leaves(new), strict=True):
            whole[chain] = part
    return state
