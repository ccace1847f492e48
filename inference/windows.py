"""Mass matrices, dense or of low rank, learnt on the host at the end of each window of warm-up.

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
from inference.metric import LowRankMatrix, Matrix, factorize

_RIDGE = 0.1  # of the variances, where there are as many dimensions as draws
_NUM_PASSES = 4
_MOST_PAIRED = 32  # draws, all pairs of which tell what a matrix gains
_DEPENDENT = 1e-6  # the sine of an angle between directions that are one


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
        draws: Of one chain, or of several with their axis in front, ``(..., draw, size)``.
        gradients: Of the log density there.
        default: A diagonal, ``(..., size)``, for coordinates that have not moved.

    Returns:
        Symmetric matrices, ``(..., size, size)``, in double precision.

    Raises:
        numpy.linalg.LinAlgError: if a covariance is not positive definite, as with infinities.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    scale, is_known = _scale(draws, gradients, default)
    num_draws, size = draws.shape[-2:]
    spread = _covariance(draws / scale[..., None, :])
    variances = np.where(is_known, np.diagonal(spread, 0, -2, -1), 1.0)
    ridge = _RIDGE * (size / num_draws) ** 3 * variances[..., None] * np.eye(size)
    lower = np.linalg.cholesky(_covariance(gradients * scale[..., None, :]) + ridge)
    upper = np.swapaxes(lower, -2, -1)
    values, vectors = np.linalg.eigh(upper @ (spread + ridge) @ lower)
    roots = vectors * np.maximum(values, 0)[..., None, :] ** 0.25
    half = scale[..., None] * np.linalg.solve(upper, roots)
    return half @ np.swapaxes(half, -2, -1)


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
        numpy.linalg.LinAlgError: if a covariance is not positive definite, as with infinities.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3, on projections.
    """
    scale, _ = _scale(draws, gradients, default)
    draws, gradients = draws / scale, gradients * scale
    leading = np.concatenate([_principal(x - np.mean(x, 0), rank) for x in (draws, gradients)])
    _, spread, basis = np.linalg.svd(leading, full_matrices=False)
    basis = basis[spread > _DEPENDENT * spread[0]]
    inner = fisher_matrix(draws @ basis.T, gradients @ basis.T, np.ones(len(basis)))
    values, vectors = np.linalg.eigh(inner)
    if not values[0] > 0:
        raise np.linalg.LinAlgError
    rest = _rest(draws, gradients, basis)
    rest = rest if np.isfinite(rest) else np.median(values)
    kept = np.argsort(-np.abs(np.log(values / rest)))[:rank]
    matrix = LowRankMatrix(np.sqrt(rest) * scale, np.zeros((rank, len(scale))), np.ones(rank))
    matrix.vectors[: len(kept)] = (basis.T @ vectors[:, kept]).T
    matrix.values[: len(kept)] = values[kept] / rest
    return matrix


def _rest(draws: np.ndarray, gradients: np.ndarray, basis: np.ndarray) -> float:
    """The variance in all directions outside of a basis; NaN where there is none."""
    outside = []
    for x in (draws - np.mean(draws, 0), gradients - np.mean(gradients, 0)):
        total, inside = np.sum(x**2), np.sum((x @ basis.T) ** 2)
        outside.append(total - inside if total - inside > _DEPENDENT * total else np.nan)
    return float(np.sqrt(outside[0] / outside[1]))


def _scale(
    draws: np.ndarray, gradients: np.ndarray, default: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviations by the diagonal alone, and whether they are known."""
    ratio = np.std(draws, -2) / np.std(gradients, -2)
    is_known = (ratio > 0) & np.isfinite(ratio)
    return np.sqrt(np.where(is_known, ratio, default)), is_known


def _covariance(draws: np.ndarray) -> np.ndarray:
    deviations = draws - np.mean(draws, -2, keepdims=True)
    return np.swapaxes(deviations, -2, -1) @ deviations / max(1, draws.shape[-2] - 1)


def _principal(deviations: np.ndarray, rank: int) -> np.ndarray:
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


def renewed(state: Adaptation, windows: Sequence[np.ndarray | None]) -> Adaptation:
    """Adaptations of several chains, with new matrices where a window has ended.

    There the averaging of the step size begins anew, from its average. A matrix stays as it is
    where draws or gradients are not finite.

    Args:
        state: With the chains in front.
        windows: For each chain draws and gradients, ``(draw, 2, size)``, or `None`. What several
            chains have in common is decomposed once.
    """
    by_length: dict[int, dict[int, np.ndarray]] = {}
    for chain, window in enumerate(windows):
        if window is not None:
            by_length.setdefault(len(window), {})[chain] = window
    is_whole = all(window is not None for window in windows)
    old: Any = state.inverse_mass_matrix, state.inverse_mass_factor
    # Of many chains, matrices are most of all that there is: they are written once.
    matrix, factor = jax.tree.map(np.empty_like if is_whole else np.array, old)
    rest = jax.tree.map(
        np.array, state._replace(inverse_mass_matrix=None, inverse_mass_factor=None)
    )
    for group in by_length.values():
        chains, own = np.array([*group]), [*group.values()]
        ids = [*map(id, own)]
        _, first, same = np.unique(ids, return_index=True, return_inverse=True)
        learnt = np.stack([own[i] for i in first]).astype(np.float64)
        before: Any = [jax.tree.map(lambda x, i=chains[first]: np.asarray(x)[i], x) for x in old]
        new = _learnt(before[0], before[1], learnt)
        gains = np.zeros(len(chains), rest.step_size.dtype)
        for i in range(len(first)):
            these, learnt_here = chains[same == i], jax.tree.map(lambda x, i=i: x[i], new)
            before_here = jax.tree.map(lambda x, i=these: np.asarray(x)[i], old[1])
            gains[same == i] = gains_of(learnt[i, :, 1], before_here, learnt_here[1])
            _write((matrix, factor), these, learnt_here)
        here = jax.tree.map(lambda x, chains=chains: x[chains], rest)
        averaging = dual_averaging_restart(here.dual_averaging, gains)
        step_size = np.exp(averaging.log_step_size)
        after = here._replace(step_size=step_size, dual_averaging=averaging, window=here.window + 1)
        _write(rest, chains, after)
    return rest._replace(inverse_mass_matrix=matrix, inverse_mass_factor=factor)


@np.errstate(all="ignore")
def gains_of(gradients: np.ndarray, old: Matrix, new: Matrix) -> np.ndarray:
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
    rows = np.linspace(0, len(gradients) - 1, min(len(gradients), _MOST_PAIRED)).astype(int)
    some = gradients[rows] - np.mean(gradients, 0)
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
    return float(np.sum(products**2) - np.sum(np.diag(products) ** 2))


def _write(whole: Any, chains: np.ndarray, part: Any) -> None:
    """Puts `part` in the place of what `whole` has for some chains."""
    for old, new in zip(jax.tree.leaves(whole), jax.tree.leaves(part), strict=True):
        old[chains] = np.asarray(new, old.dtype)


def _learnt(old: Matrix, factor: Matrix, windows: np.ndarray) -> tuple[Matrix, Matrix]:
    """The matrices of some chains that follow those of their kind, and their factors.

    Matrices stay as they are where they would not be finite.
    """
    try:
        new = _finite(_matrices(old, windows), np.finfo(jax.tree.leaves(old)[0].dtype).max)
        return new, factorize(new, np)
    except np.linalg.LinAlgError:
        if len(windows) == 1:
            return old, factor
    one = lambda x, i: jax.tree.map(lambda x: x[i : i + 1], x)  # noqa: E731
    parts = [_learnt(one(old, i), one(factor, i), windows[[i]]) for i in range(len(windows))]
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _matrices(old: Matrix, windows: np.ndarray) -> Matrix:
    """The matrices that draws and gradients, ``(chain, draw, 2, size)``, tell."""
    draws, gradients = windows[:, :, 0], windows[:, :, 1]
    if not isinstance(old, LowRankMatrix):
        return fisher_matrix(draws, gradients, np.diagonal(old, 0, -2, -1))
    rank, matrices = old.values.shape[-1], []
    for i, window in enumerate(zip(draws, gradients, strict=True)):
        doubles = jax.tree.map(lambda x, i=i: x[i].astype(np.float64), old)  # the root may be large
        default = doubles.diagonal()
        matrices.append(fisher_low_rank(*window, default, rank))
    return jax.tree.map(lambda *x: np.stack(x), *matrices)


def _finite(matrix: Matrix, largest: float) -> Matrix:
    """`matrix`.

    Raises:
        numpy.linalg.LinAlgError: if it has infinite entries, or such that a float cannot hold.
    """
    if not all(np.all(np.abs(x) <= largest) for x in jax.tree.leaves(matrix)):
        raise np.linalg.LinAlgError
    return matrix
