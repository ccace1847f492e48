"""Fisher mass matrices, dense or of low rank, learned on the host at the end of warm-up windows.

They minimize the Fisher divergence between the density and a normal one. A warm-up decomposes a
matrix a few times only. Done on the host, this has three advantages:

- it needs no compilation;
- the compiled loop of a chain calls no LAPACK, and so can become a single XLA kernel;
- the loop carries no further matrices, which XLA would copy in every iteration.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.common.matrices import Blocks, LowRankMatrix, Matrix, factorize
from inference.warmup.adaptation import Adaptation
from inference.warmup.dual_averaging import dual_averaging_restart

_RIDGE = 0.1  # ridge relative to the variances, for as many dimensions as draws
_NUM_PASSES = 4  # passes of subspace iteration
_MAX_PAIRED_DRAWS = 32  # draws; all their pairs estimate the gain of a matrix
_DEPENDENT = 1e-6  # relative size below which a singular value or a sum of squares counts as zero


@np.errstate(all="ignore")  # NaN and infinity are detected in the result
def fisher_matrix(draws: np.ndarray, gradients: np.ndarray, default: np.ndarray) -> np.ndarray:
    r"""Dense inverse mass matrix that brings draws and gradients to the same covariance.

    .. math:: \Sigma\, \mathrm{cov}(\nabla \log p)\, \Sigma = \mathrm{cov}(x)

    It minimizes the Fisher divergence between the density and a normal one of this covariance. For
    a normal density and more draws than dimensions, it is the covariance itself. A ridge on the
    diagonals of both covariances, larger for fewer draws, shrinks the matrix toward
    :func:`inference.warmup.adaptation.fisher_diagonal`.

    Args:
        draws: Draws of one chain, ``(draw, size)``.
        gradients: Gradients of the log density at the draws, ``(draw, size)``.
        default: Diagonal for coordinates that have not moved, ``(size,)``.

    Returns:
        A symmetric matrix, ``(size, size)``, in double precision.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, e.g. not finite.

    References:
        Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    spread = _covariance(draws)
    force = _covariance(gradients)
    scale, is_known = _scale(np.diag(spread), np.diag(force), default)
    num_draws, size = draws.shape
    squares = scale[:, None] * scale
    spread = spread / squares
    force = force * squares
    ridge = _RIDGE * (size / num_draws) ** 3 * np.where(is_known, np.diag(spread), 1.0)
    lower = np.linalg.cholesky(force + np.diag(ridge))
    values, vectors = np.linalg.eigh(lower.T @ (spread + np.diag(ridge)) @ lower)
    roots = vectors * np.maximum(values, 0) ** 0.25
    half = scale[:, None] * np.linalg.solve(lower.T, roots)
    return half @ half.T


@np.errstate(all="ignore")
def fisher_low_rank(
    draws: np.ndarray, gradients: np.ndarray, default: np.ndarray, rank: int
) -> LowRankMatrix:
    r"""Low-rank inverse mass matrix that brings draws and gradients to similar covariances.

    It is :func:`fisher_matrix` in the directions in which draws or gradients vary most, and a
    diagonal otherwise:

    1. Draws and gradients are scaled by the Fisher diagonal.
    2. The `rank` leading principal components of draws and of gradients span a subspace. It holds
       the directions that are stretched most and least.
    3. Inside the subspace, the matrix is :func:`fisher_matrix`. Outside, it is a multiple of the
       identity, by the same criterion.
    4. The `rank` eigenvectors with eigenvalues furthest from this multiple, on the log scale, are
       kept.

    Args:
        draws: Draws of one chain, ``(draw, size)``.
        gradients: Gradients of the log density at the draws, ``(draw, size)``.
        default: Diagonal for coordinates that have not moved, ``(size,)``.
        rank: Number of directions to keep, at most `size`.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, e.g. not finite, or if
            no coordinate has moved.

    References:
        Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3, on projections.
    """
    draws = _deviations(draws)
    gradients = _deviations(gradients)
    scale, _ = _scale(np.mean(draws**2, 0), np.mean(gradients**2, 0), default)
    draws = draws / scale
    gradients = gradients * scale
    leading = np.concatenate([_principal_directions(x, rank) for x in (draws, gradients)])
    _, spread, basis = np.linalg.svd(leading, full_matrices=False)
    basis = basis[spread > _DEPENDENT * np.max(spread, initial=0.0)]
    if rank and not len(basis):
        raise np.linalg.LinAlgError  # nothing has moved
    inner = fisher_matrix(draws @ basis.T, gradients @ basis.T, np.ones(len(basis)))
    values, vectors = np.linalg.eigh(inner)
    if not np.all(values > 0):
        raise np.linalg.LinAlgError
    rest = _rest(draws, gradients, basis)
    rest = rest if np.isfinite(rest) else np.median(values)
    kept = np.argsort(-np.abs(np.log(values / rest)))[:rank]
    matrix = LowRankMatrix(np.sqrt(rest) * scale, np.zeros((rank, len(scale))), np.ones(rank))
    matrix.vectors[: len(kept)] = (basis.T @ vectors[:, kept]).T
    matrix.values[: len(kept)] = values[kept] / rest
    return matrix


@np.errstate(all="ignore")
def fisher_blocks(
    draws: np.ndarray, gradients: np.ndarray, default: np.ndarray, blocks: Blocks
) -> np.ndarray:
    """Inverse mass matrix that is :func:`fisher_matrix` in each block, and diagonal elsewhere.

    Args:
        draws: Draws of one chain, ``(draw, size)``.
        gradients: Gradients of the log density at the draws, ``(draw, size)``.
        default: Diagonal for coordinates that have not moved, ``(size,)``.
        blocks: Coordinates of each block.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, e.g. not finite.
    """
    spread = np.mean(_deviations(draws) ** 2, 0)
    force = np.mean(_deviations(gradients) ** 2, 0)
    scale, _ = _scale(spread, force, default)
    matrix = np.diag(scale**2)
    for block in blocks:
        matrix[np.ix_(block, block)] = fisher_matrix(
            np.take(draws, block, axis=1), np.take(gradients, block, axis=1), default[block]
        )
    return matrix


def _rest(draws: np.ndarray, gradients: np.ndarray, basis: np.ndarray) -> float:
    """Inverse mass outside the span of a basis, one number; NaN where nothing varies there."""
    outside = []
    for x in (draws, gradients):
        total = np.sum(x**2)
        inside = np.sum((x @ basis.T) ** 2)
        outside.append(total - inside if total - inside > _DEPENDENT * total else np.nan)
    return float(np.sqrt(outside[0] / outside[1]))


def _scale(
    spread: np.ndarray, force: np.ndarray, default: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Square roots of the Fisher diagonal, ``(size,)``, and flags of coordinates that have moved.

    Args:
        spread: Variances of the draws.
        force: Variances of the gradients.
        default: Diagonal for coordinates that have not moved.
    """
    ratio = np.sqrt(spread / force)
    is_known = (ratio > 0) & np.isfinite(ratio)
    return np.sqrt(np.where(is_known, ratio, default)), is_known


def _deviations(draws: np.ndarray) -> np.ndarray:
    """Deviations from the mean; exactly 0 where all draws are equal."""
    draws = draws - draws[0]
    return draws - np.mean(draws, 0)


def _covariance(draws: np.ndarray) -> np.ndarray:
    deviations = _deviations(draws)
    return deviations.T @ deviations / max(1, len(draws) - 1)


def _principal_directions(deviations: np.ndarray, rank: int) -> np.ndarray:
    """Leading right singular vectors, ``(rank, size)``, by randomized subspace iteration.

    References:
        Halko, Martinsson and Tropp (2011), Finding structure with randomness, algorithm 4.4.
    """
    num_draws, size = deviations.shape
    start = np.random.default_rng(0).normal(size=(size, min(2 * rank, num_draws, size)))
    basis = np.linalg.qr(start)[0]
    for _ in range(_NUM_PASSES):
        basis = np.linalg.qr(deviations.T @ (deviations @ basis))[0]
    _, _, vectors = np.linalg.svd(deviations @ basis, full_matrices=False)
    return vectors[:rank] @ basis.T


def renew_matrices(
    state: Adaptation, windows: Sequence[np.ndarray | None], blocks: Blocks | None = None
) -> Adaptation:
    """States of several chains, with new mass matrices for the chains whose window has ended.

    The dual averaging of these chains restarts from its average. A matrix is kept if the new one
    would not be finite and positive definite, e.g. because draws or gradients are not finite.

    Args:
        state: States with the chains in front.
        windows: Draws and gradients of each chain, ``(draw, 2, size)``; `None` for a chain whose
            window has not ended. A window shared by several chains is decomposed once.
        blocks: Blocks of a dense matrix, outside of which it is diagonal; `None` for one block.
    """
    chains_of: dict[int, list[int]] = {}
    for chain, window in enumerate(windows):
        if window is not None:
            chains_of.setdefault(id(window), []).append(chain)
    state = jax.tree.map(np.asarray, state)
    if len(chains_of) == 1 and all(window is not None for window in windows):
        # Without a copy, as matrices may take most of the memory.
        return _renew_matrix(state, windows[0], blocks)
    whole = jax.tree.map(np.array, state)
    for chains in chains_of.values():
        before = jax.tree.map(lambda x, chains=chains: x[chains], state)
        after = _renew_matrix(before, windows[chains[0]], blocks)
        for old, new in zip(jax.tree.leaves(whole), jax.tree.leaves(after), strict=True):
            old[chains] = new
    return whole


def _renew_matrix(state: Any, window: Any, blocks: Blocks | None) -> Adaptation:
    """States of several chains with a new mass matrix, learned from one shared window."""
    old = state.inverse_mass_matrix, state.inverse_mass_factor
    window = np.asarray(window, np.float64)
    matrix, factor = (jax.tree.map(lambda x: x[0], x) for x in old)
    learned = _learn_matrix(matrix, factor, window, blocks)
    gains = estimate_gains(window[:, 1], old[1], learned[1]).astype(state.step_size.dtype)
    averaging = dual_averaging_restart(state.dual_averaging, gains)
    matrix, factor = jax.tree.map(
        lambda new, x: np.broadcast_to(np.asarray(new, x.dtype), x.shape), learned, old
    )
    return state._replace(
        step_size=np.exp(averaging.log_step_size),
        inverse_mass_matrix=matrix,
        inverse_mass_factor=factor,
        dual_averaging=averaging,
        window=state.window + 1,
    )


@np.errstate(all="ignore")
def estimate_gains(gradients: np.ndarray, old: Matrix, new: Matrix) -> np.ndarray:
    r"""Gains in log step size that keep the energy error under a new mass matrix.

    For a normal density of frequencies :math:`\omega`, the energy error of a step :math:`\epsilon`
    is of the order of :math:`\epsilon^4 \sum \omega^4`. The squares :math:`\omega^2` are the
    eigenvalues of the covariance of whitened gradients. Squared inner products of pairs of these
    gradients estimate the sum of the squared eigenvalues without bias.

    Args:
        gradients: Gradients of the log density, ``(draw, size)``.
        old: Factors of the inverse mass matrices so far, with the chains in front.
        new: Factor of the new inverse mass matrix.

    Returns:
        Numbers to add to the log step sizes, ``(chain,)``; 0 where the estimate is not finite.

    References:
        Beskos, Pillai, Roberts, Sanz-Serna and Stuart (2013), Optimal tuning of the hybrid Monte
        Carlo algorithm, section 3.
    """
    num_rows = min(len(gradients), _MAX_PAIRED_DRAWS)
    rows = np.arange(num_rows) * (len(gradients) - 1) // max(1, num_rows - 1)  # evenly spaced
    some = _deviations(gradients)[rows]
    # Pooled chains share one factor: it is used once.
    if all(np.array_equal(x, np.broadcast_to(x[:1], x.shape)) for x in jax.tree.leaves(old)):
        before = [_sum_of_squares(some, jax.tree.map(lambda x: x[0], old))]
    else:
        num_chains = len(jax.tree.leaves(old)[0])
        parts = (jax.tree.map(lambda x, i=i: x[i], old) for i in range(num_chains))
        before = [_sum_of_squares(some, part) for part in parts]
    gains = 0.25 * np.log(np.array(before) / _sum_of_squares(some, new))
    return np.where(np.isfinite(gains), gains, 0.0)


def _sum_of_squares(gradients: np.ndarray, factor: Matrix) -> float:
    """Sum of the squared inner products of all pairs of whitened gradients."""
    if isinstance(factor, LowRankMatrix):
        scaled = gradients * factor.scale
        whitened = scaled + ((scaled @ factor.vectors.T) * (factor.values - 1)) @ factor.vectors
    else:
        whitened = gradients @ factor
    products = whitened @ whitened.T
    return float(np.vdot(products, products) - np.sum(np.diag(products) ** 2))


def _learn_matrix(
    old: Matrix, factor: Matrix, window: np.ndarray, blocks: Blocks | None
) -> tuple[Matrix, Matrix]:
    """New matrix of the kind of `old`, and its factor; `old` and its factor if it is not finite."""
    try:
        new = _check_finite(
            _matrix(old, window, blocks), np.finfo(jax.tree.leaves(old)[0].dtype).max
        )
        return new, factorize(new, np)
    except np.linalg.LinAlgError:
        return old, factor


def _matrix(old: Matrix, window: np.ndarray, blocks: Blocks | None) -> Matrix:
    """Fisher matrix of the kind of `old`, from draws and gradients ``(draw, 2, size)``."""
    draws = window[:, 0]
    gradients = window[:, 1]
    if blocks is not None:
        return fisher_blocks(draws, gradients, np.diag(old), blocks)
    if not isinstance(old, LowRankMatrix):
        return fisher_matrix(draws, gradients, np.diag(old))
    doubles = jax.tree.map(lambda x: x.astype(np.float64), old)  # squares in float32 might overflow
    return fisher_low_rank(draws, gradients, doubles.diagonal(), len(old.values))


def _check_finite(matrix: Matrix, largest: float) -> Matrix:
    """Matrix unchanged, once its entries are found to be finite in the dtype.

    Raises:
        numpy.linalg.LinAlgError: if an entry is NaN, infinite or above `largest`.
    """
    if not all(np.all(np.abs(x) <= largest) for x in jax.tree.leaves(matrix)):
        raise np.linalg.LinAlgError
    return matrix
