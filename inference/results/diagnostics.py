r"""Convergence diagnostics of draws, in NumPy and float64, for all parameters at once.

Every function takes draws of shape ``(chain, draw, *shape)`` and returns an array of shape
``shape``. The result is NaN if a draw is NaN or a chain has fewer than 4 draws.

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16.
"""

import inspect
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import wraps
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from inference.common.argument_checks import as_real, check_fraction
from inference.results import autocovariance
from inference.results.rank_scores import Array, rank_normalize_halves, split_halves

_TAILS = 0.05, 0.95  # levels of the two quantiles whose smaller ESS is the ESS of the tails
_FEW_LAGS = 512  # lags of long chains, after which autocorrelations mostly are noise
MIN_DRAWS = 4  # draws of a chain; with fewer, a diagnostic is NaN
_BLOCK = 1 << 20  # float64 numbers in the draws of one batch of parameters, to stay in the cache


def _map_parameters(statistic: Callable[..., Array]) -> Callable[..., Array]:
    """Function of ``(chain, draw, *shape)`` from a statistic of ``(parameter, chain, draw)``."""

    @wraps(statistic)
    def wrapped(draws: ArrayLike, *probs: float, **named: float) -> Array:
        bound = inspect.signature(statistic).bind(draws, *probs, **named)
        args = [check_fraction("prob", x) for x in bound.args[1:]]
        array = as_numbers("draws", draws)
        if array.ndim < 2:
            raise ValueError(f"draws must have shape (chain, draw, *shape), got {array.shape}")
        return by_block(lambda block: statistic(block, *args)[None], array, 1)[0]

    return wrapped


def diagnose(
    draws: NDArray[Any], levels: Sequence[float] = ()
) -> tuple[Array, Array, Array, Array, Array]:
    """`rhat`, `ess_bulk`, `ess_tail`, `mcse_mean` and quantiles, from one sort of the draws.

    Args:
        draws: ``(chain, draw, *shape)``.
        levels: Levels of the quantiles over all chains.

    Returns:
        Four arrays of shape ``shape``, and the quantiles, ``(level, *shape)``.
    """

    def statistics(block: Array) -> Array:
        halves = split_halves(block)
        ranks, found = rank_normalize_halves(block, (*_TAILS, *levels))
        return np.stack(
            [
                _rhat_of_scores(*ranks),
                _ess(ranks[0]),
                _ess_tail(block, found[:2]),
                _mcse_mean(block, halves),
                *found[2:],
            ]
        )

    found = by_block(statistics, draws, 4 + len(levels))
    return found[0], found[1], found[2], found[3], found[4:]


def rhat_and_ess_bulk(draws: NDArray[Any]) -> tuple[Array, Array]:
    """`rhat` and `ess_bulk` of draws ``(chain, draw, *shape)``, from one sort of the draws."""

    def statistics(block: Array) -> Array:
        ranks, _ = rank_normalize_halves(block)
        return np.stack([_rhat_of_scores(*ranks), _ess(ranks[0])])

    found = by_block(statistics, draws, 2)
    return found[0], found[1]


def by_block(
    statistics: Callable[[Array], Array],
    draws: NDArray[Any],
    number: int,
    least: int = MIN_DRAWS,
) -> Array:
    """Statistics ``(number, *shape)`` of draws ``(chain, draw, *shape)``, on all cores.

    Each core computes one block of parameters at a time. A statistic is NaN if a draw is NaN or a
    chain has fewer than `least` draws.
    """
    num_chains, num_draws, *shape = draws.shape
    flat = np.moveaxis(draws.reshape(num_chains, num_draws, math.prod(shape)), -1, 0)
    result = np.full((number, len(flat)), np.nan)
    size = max(1, _BLOCK // max(1, num_chains * num_draws))

    def fill(start: int) -> None:
        block = np.asarray(flat[start : start + size], np.float64, order="C")
        is_valid = ~np.isnan(block).any((1, 2))
        if is_valid.any():
            with np.errstate(divide="ignore", invalid="ignore"):
                result[:, start : start + size][:, is_valid] = statistics(block[is_valid])

    starts = range(0, len(flat) if num_draws >= least and num_chains else 0, size)
    if len(starts) > 1:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, starts))  # a list, so that errors are raised
    else:
        list(map(fill, starts))
    return result.reshape(number, *shape)


def as_numbers(name: str, given: ArrayLike) -> NDArray[Any]:
    """Array of real numbers or booleans."""
    array = np.array(None)
    with suppress(ValueError):  # rows of several lengths
        array = np.asarray(given)
    if array.dtype != bool and as_real(array[:0] if array.ndim else array) is None:
        raise TypeError(f"{name} must hold real numbers, got {given!r}")
    return array


@_map_parameters
def rhat(draws: Array) -> Array:
    r"""Rank-normalized split :math:`\hat R`: the larger of the bulk and the folded statistic.

    It is close to 1 if chains agree, above 1.01 if they have not mixed, and NaN for a single chain.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.

    Example:
        >>> float(rhat(np.random.default_rng(0).normal(size=(4, 1000))).round(2))
        1.0

    References:
        Vehtari et al. (2021), equation 4 and section 4.2.
    """
    return _rhat_of_scores(*rank_normalize_halves(draws)[0])


@_map_parameters
def ess_bulk(draws: Array) -> Array:
    """Effective sample size of the bulk: ESS of the mean of rank-normalized draws.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
        >>> bool(ess_bulk(draws) > 3500), bool(ess_bulk(np.repeat(draws, 10, 1)) < 5000)
        (True, True)

    References:
        Vehtari et al. (2021), section 4.3.
    """
    return _ess(rank_normalize_halves(draws)[0][0])


@_map_parameters
def ess_tail(draws: Array) -> Array:
    """Effective sample size of the tails: the smaller ESS of the 5 % and 95 % quantiles.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.

    References:
        Vehtari et al. (2021), section 4.3.
    """
    return _ess_tail(draws, np.quantile(draws, _TAILS, axis=(1, 2)))


@_map_parameters
def ess_mean(draws: Array) -> Array:
    """Effective sample size of the mean of split chains.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.
    """
    return _ess(split_halves(draws))


@_map_parameters
def mcse_mean(draws: Array) -> Array:
    r"""Monte Carlo standard error of the mean, :math:`\mathrm{sd} / \sqrt{\mathrm{ESS}}`.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.
    """
    return _mcse_mean(draws, split_halves(draws))


@_map_parameters
def mcse_sd(draws: Array) -> Array:
    """Monte Carlo standard error of the standard deviation, by the delta method.

    Args:
        draws: ``(chain, draw, *shape)``.

    Returns:
        ``shape``.
    """
    squares = (draws - draws.mean((1, 2), keepdims=True)) ** 2
    variance = squares.mean((1, 2))
    error = ((squares**2).mean((1, 2)) - variance**2) / _ess(split_halves(squares))
    return np.sqrt(error / variance / 4)


@_map_parameters
def mcse_quantile(draws: Array, prob: float) -> Array:
    """Monte Carlo standard error of the quantile `prob`, half the width of its 68 % interval.

    Args:
        draws: ``(chain, draw, *shape)``.
        prob: In (0, 1).

    Returns:
        ``shape``.

    Raises:
        TypeError: if `prob` is not a number.
        ValueError: if `prob` is not in (0, 1).

    References:
        Vehtari et al. (2021), section 4.4.
    """
    ess = _ess_quantile(draws, prob)[:, None]
    ordered = np.sort(draws.reshape(len(draws), -1), axis=1)
    size = ordered.shape[1]
    one_sd = np.array([0.1586553, 0.8413447])
    place = scipy.special.betaincinv(ess * prob + 1, ess * (1 - prob) + 1, one_sd) * size - 1
    low = np.fmax(np.floor(place[:, :1]), 0).astype(int)
    high = np.fmin(np.ceil(place[:, 1:]), size - 1).astype(int)
    interval = np.take_along_axis(ordered, np.hstack([low, high]), 1)
    return (interval[:, 1] - interval[:, 0]) / 2


def ebfmi(energy: ArrayLike) -> Array:
    r"""Energy Bayesian fraction of missing information (E-BFMI) of each chain.

    It is the mean of :math:`(E_t - E_{t-1})^2` divided by the variance of :math:`E_t`. Below 0.3,
    fresh momenta move the energy too little to explore its distribution, as with heavy tails.

    Args:
        energy: ``(chain, draw)``, the Hamiltonian at each draw.

    Returns:
        ``(chain,)``.

    Example:
        >>> ebfmi([[0.0, 1.0, 0.0, 1.0]])
        array([3.])

    References:
        Betancourt (2016), Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
        Carlo.
    """
    energy = np.asarray(as_numbers("energy", energy), np.float64)
    if energy.ndim != 2:
        raise ValueError(f"energy must have shape (chain, draw), got {energy.shape}")
    if energy.shape[1] < 2:
        return np.full(len(energy), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1, ddof=1)


def _rhat_of_scores(scores: Array, folded: Array) -> Array:
    """The larger R-hat of two kinds of scores of half chains; NaN for a single chain."""
    if scores.shape[1] <= 2:
        return np.full(len(scores), np.nan)
    return np.fmax(_rhat(scores), _rhat(folded))


def _rhat(chains: Array) -> Array:
    num_draws = chains.shape[2]
    between = num_draws * chains.mean(2).var(1, ddof=1)
    within = chains.var(2, ddof=1).mean(1)
    return np.sqrt((between / within + num_draws - 1) / num_draws)


def _mcse_mean(draws: Array, halves: Array) -> Array:
    return np.std(draws, axis=(1, 2), ddof=1) / np.sqrt(_ess(halves))


def _ess_tail(draws: Array, quantiles: Array) -> Array:
    return np.minimum(*(_ess_below(draws, quantile) for quantile in quantiles))


def _ess_quantile(draws: Array, prob: float) -> Array:
    return _ess_below(draws, np.quantile(draws, prob, axis=(1, 2)))


def _ess_below(draws: Array, bounds: Array) -> Array:
    """Effective sample size of whether draws are at most a bound, ``(parameter,)``."""
    return _ess(split_halves((draws <= bounds[:, None, None]).astype(np.float64)))


def _ess(chains: Array) -> Array:
    """Effective sample size by Geyer's initial monotone sequence of autocorrelations.

    The sequence mostly ends at a short lag. So for long chains, autocovariances at all lags are
    computed only for the parameters whose sequence does not.
    """
    num_draws = chains.shape[2]
    if num_draws < autocovariance.MANY:
        return _ess_by_lags(chains, autocovariance.mean_autocovariance(chains))[0]
    ess, has_ended = _ess_by_lags(chains, autocovariance.first_autocovariances(chains, _FEW_LAGS))
    if not has_ended.all():
        rest = chains[~has_ended]
        ess[~has_ended] = _ess_by_lags(rest, autocovariance.mean_autocovariance(rest))[0]
    return ess


def _ess_by_lags(chains: Array, covariance: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Effective sample size from autocovariances, and whether the sequence ended among them."""
    num_parameters, num_chains, num_draws = chains.shape
    size = num_chains * num_draws
    within = covariance[:, :1] * num_draws / (num_draws - 1)
    total = covariance[:, :1] + chains.mean(2).var(1, ddof=int(num_chains > 1))[:, None]
    correlation = 1 - (within - covariance) / total
    correlation[:, 0] = 1

    num_pairs = min(max(0, (num_draws - 3) // 2) + 1, covariance.shape[1] // 2)
    pairs = correlation[:, : 2 * num_pairs].reshape(num_parameters, num_pairs, 2)
    sums = pairs.sum(2)
    stops = ~(sums > 0)
    has_ended = stops[:, :-1].any(1)
    stops[:, -1] = True
    end = np.argmax(stops, 1)[:, None]
    positive = np.minimum.accumulate(sums, 1)
    before = np.where(np.arange(num_pairs) < end, positive, 0).sum(1)
    even = np.take_along_axis(pairs[:, :, 0], end, 1)[:, 0]
    is_kept = (even > 0) | (np.take_along_axis(sums, end, 1)[:, 0] >= 0)
    tau = np.maximum(2 * before - 1 + np.where(is_kept, even, 0), 1 / np.log10(size))

    is_constant = np.ptp(chains, axis=(1, 2)) == 0
    is_undefined = np.isnan(correlation[:, 1])
    ess = np.where(is_constant, size, np.where(is_undefined, np.nan, size / tau))
    return ess, has_ended | is_constant | is_undefined
