"""Mass matrices, dense or of low rank, learnt on the host at the end of each window of warm-up.

A few times in a warm-up a matrix is decomposed. On the host this needs no compilation, and leaves
the loop of a chain without calls of LAPACK, which would keep XLA from making one kernel of it, and
without matrices to carry, which it would copy in every iteration.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.common.matrices import LowRankMatrix, Matrix, factorize
from inference.warmup.adaptation import Adaptation
from inference.warmup.dual_averaging import dual_averaging_restart

_RIDGE = 0.1  # of the variances, where there are as many dimensions as draws
_NUM_PASSES = 4
_MAX_PAIRED_DRAWS = 32  # draws, all pairs of which tell what a matrix gains
_DEPENDENT = 1e-6  # the sine of an angle between directions that are one


@np.errstate(all="ignore")  # what is not finite is found in the result
def fisher_matrix(draws: np.ndarray, gradients: np.ndarray, default: np.ndarray) -> np.ndarray:
    r"""The inverse mass matrix that brings draws and gradients to the same covariance.

    .. math:: \Sigma\, \mathrm{cov}(\nabla \log p)\, \Sigma = \mathrm{cov}(x)

    It minimises the Fisher divergence between the density and a normal one of this covariance;
    where the density is normal, it is the covariance itself as soon as there are more draws than
    dimensions. Both covariances have a part of their diagonals added, the more of it the fewer
    draws there are, which shrinks the matrix towards that of
    :func:`inference.warmup.adaptation.fisher_diagonal`.

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
    spread, force = _covariance(draws), _covariance(gradients)
    scale, is_known = _scale(np.diag(spread), np.diag(force), default)
    num_draws, size = draws.shape
    squares = scale[:, None] * scale
    spread, force = spread / squares, force * squares
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
    r"""The same in the directions in which draws or gradients vary most, and else a diagonal.

    Draws are scaled as by the diagonal alone. In the space of the `rank` leading principal
    components of each, draws and gradients, which holds the directions that are stretched most and
    least, the matrix is :func:`fisher_matrix`. Outside it is a multiple of 1, by the same
    criterion; those eigenvectors are kept whose eigenvalues are furthest from that.

    Args:
        draws: Of one chain, ``(draw, size)``.
        gradients: Of the log density there.
        default: A diagonal, ``(size,)``, for coordinates that have not moved.
        rank: Directions to keep, at most `size`.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, as with infinities, or
            nothing has moved.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3, on projections.
    """
    draws, gradients = _deviations(draws), _deviations(gradients)
    scale, _ = _scale(np.mean(draws**2, 0), np.mean(gradients**2, 0), default)
    draws, gradients = draws / scale, gradients * scale
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


def _rest(draws: np.ndarray, gradients: np.ndarray, basis: np.ndarray) -> float:
    """The variance of deviations in all directions outside of a basis; NaN where there is none."""
    outside = []
    for x in (draws, gradients):
        total, inside = np.sum(x**2), np.sum((x @ basis.T) ** 2)
        outside.append(total - inside if total - inside > _DEPENDENT * total else np.nan)
    return float(np.sqrt(outside[0] / outside[1]))


def _scale(
    spread: np.ndarray, force: np.ndarray, default: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations by the diagonal alone, of variances, and whether they are known."""
    ratio = np.sqrt(spread / force)
    is_known = (ratio > 0) & np.isfinite(ratio)
    return np.sqrt(np.where(is_known, ratio, default)), is_known


def _deviations(draws: np.ndarray) -> np.ndarray:
    """From the mean; exactly 0 where draws do not differ."""
    draws = draws - draws[0]
    return draws - np.mean(draws, 0)


def _covariance(draws: np.ndarray) -> np.ndarray:
    deviations = _deviations(draws)
    return deviations.T @ deviations / max(1, len(draws) - 1)


def _principal_directions(deviations: np.ndarray, rank: int) -> np.ndarray:
    """About the `rank` leading right singular vectors, ``(rank, size)``, by subspace iteration.

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


def renew_matrices(state: Adaptation, windows: Sequence[np.ndarray | None]) -> Adaptation:
    """Adaptations of several chains, with new matrices where a window has ended.

    There the averaging of the step size begins anew, from its average. A matrix stays as it is
    where draws or gradients are not finite.

    Args:
        state: With the chains in front.
        windows: For each chain draws and gradients, ``(draw, 2, size)``, or `None`. What several
            chains have in common is decomposed once.
    """
    chains_of: dict[int, list[int]] = {}
    for chain, window in enumerate(windows):
        if window is not None:
            chains_of.setdefault(id(window), []).append(chain)
    state = jax.tree.map(np.asarray, state)
    if len(chains_of) == 1 and all(window is not None for window in windows):
        return _renew_matrix(
            state, windows[0]
        )  # without a copy: matrices may be most of all there is
    whole = jax.tree.map(np.array, state)
    for chains in chains_of.values():
        before = jax.tree.map(lambda x, chains=chains: x[chains], state)
        after = _renew_matrix(before, windows[chains[0]])
        for old, new in zip(jax.tree.leaves(whole), jax.tree.leaves(after), strict=True):
            old[chains] = new
    return whole


def _renew_matrix(state: Any, window: Any) -> Adaptation:
    """Adaptations of several chains that have one window."""
    old = state.inverse_mass_matrix, state.inverse_mass_factor
    window = np.asarray(window, np.float64)
    matrix, factor = (jax.tree.map(lambda x: x[0], x) for x in old)
    learnt = _learn_matrix(matrix, factor, window)
    gains = estimate_gains(window[:, 1], old[1], learnt[1]).astype(state.step_size.dtype)
    averaging = dual_averaging_restart(state.dual_averaging, gains)
    matrix, factor = jax.tree.map(
        lambda new, x: np.broadcast_to(np.asarray(new, x.dtype), x.shape), learnt, old
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
    r"""How much longer the logarithms of steps may be with a new factor than with `old` ones.

    The error of the energy is of the order of :math:`\epsilon^4 \sum \omega^4` for a normal density
    of frequencies :math:`\omega`, whose squares are the eigenvalues of the covariance of whitened
    gradients. The sum of squares of these is estimated without bias by products of pairs of draws.

    Args:
        gradients: Of the log density, ``(draw, size)``.
        old: The factors that steps were taken with, with the chains in front.
        new: The factor that is to come.

    Returns:
        ``(chain,)``; 0 where nothing is known.

    References:
        Beskos, Pillai, Roberts, Sanz-Serna and Stuart (2013), Optimal tuning of the hybrid Monte
        Carlo algorithm, section 3.
    """
    num_rows = min(len(gradients), _MAX_PAIRED_DRAWS)
    rows = np.arange(num_rows) * (len(gradients) - 1) // max(1, num_rows - 1)  # evenly spaced
    some = _deviations(gradients)[rows]
    if all(np.array_equal(x, np.broadcast_to(x[:1], x.shape)) for x in jax.tree.leaves(old)):
        before = [_sum_of_squares(some, jax.tree.map(lambda x: x[0], old))]  # as of many chains
    else:
        num_chains = len(jax.tree.leaves(old)[0])
        parts = (jax.tree.map(lambda x, i=i: x[i], old) for i in range(num_chains))
        before = [_sum_of_squares(some, part) for part in parts]
    gains = 0.25 * np.log(np.array(before) / _sum_of_squares(some, new))
    return np.where(np.isfinite(gains), gains, 0.0)


def _sum_of_squares(gradients: np.ndarray, factor: Matrix) -> float:
    """The sum of squares of the products of all pairs of whitened gradients."""
    if isinstance(factor, LowRankMatrix):
        scaled = gradients * factor.scale
        whitened = scaled + ((scaled @ factor.vectors.T) * (factor.values - 1)) @ factor.vectors
    else:
        whitened = gradients @ factor
    products = whitened @ whitened.T
    return float(np.vdot(products, products) - np.sum(np.diag(products) ** 2))


def _learn_matrix(old: Matrix, factor: Matrix, window: np.ndarray) -> tuple[Matrix, Matrix]:
    """The matrix that follows one of its kind, and its factor.

    It stays as it is where it would not be finite.
    """
    try:
        new = _check_finite(_matrix(old, window), np.finfo(jax.tree.leaves(old)[0].dtype).max)
        return new, factorize(new, np)
    except np.linalg.LinAlgError:
        return old, factor


def _matrix(old: Matrix, window: np.ndarray) -> Matrix:
    """The matrix that draws and gradients, ``(draw, 2, size)``, tell."""
    draws, gradients = window[:, 0], window[:, 1]
    if not isinstance(old, LowRankMatrix):
        return fisher_matrix(draws, gradients, np.diag(old))
    doubles = jax.tree.map(lambda x: x.astype(np.float64), old)  # the root may be large
    return fisher_low_rank(draws, gradients, doubles.diagonal(), len(old.values))


def _check_finite(matrix: Matrix, largest: float) -> Matrix:
    """`matrix`.

    Raises:
        numpy.linalg.LinAlgError: if it has infinite entries, or such that a float cannot hold.
    """
    if not all(np.all(np.abs(x) <= largest) for x in jax.tree.leaves(matrix)):
        raise np.linalg.LinAlgError
    return matrix
