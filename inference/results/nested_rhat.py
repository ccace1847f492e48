"""Nested R-hat: convergence of many short chains, in groups that share a start."""

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike

from inference.common.argument_checks import check_count
from inference.results.diagnostics import as_numbers, by_block
from inference.results.rank_scores import Array, rank_normalize

HIGH_RHAT = 1.01
_TAU = 2.0  # autocorrelation time of draws that short chains may have
_MAX_FALSE = 1e-4  # probability that independent draws exceed the limit by their noise


def nested_rhat(draws: ArrayLike, num_superchains: int) -> Array:
    r"""Rank-normalized nested :math:`\hat R`, for many short chains in groups that share a start.

    A superchain is a group of consecutive chains that began at one point, and went on with random
    numbers of their own. With its mean :math:`\bar f_k`, the variance :math:`\tilde B_k` between
    the means of its chains and the mean variance :math:`\tilde W_k` within them,

    .. math::
        \hat R = \sqrt{1 + \frac{\mathrm{Var}_k\,\bar f_k}
                               {\mathrm{mean}_k(\tilde B_k + \tilde W_k)}}.

    Like :func:`rhat`, nested R-hat is close to 1 if chains have forgotten their starts, and is the
    larger of the bulk and the folded statistic. For independent draws, :math:`\hat R^2 - 1` is
    about 1 over the number of draws of a superchain. The summary of a run of superchains warns
    above a limit that allows for this; for long chains the limit is 1.01. :func:`rhat` compares
    single chains, so each chain must be long enough for a good estimate. Nested R-hat compares
    superchains, so chains of a few draws are enough if a superchain has many of them.

    The chains of a superchain must share their start. If each chain has its own start, use
    :func:`rhat`: the mean over the chains of a group then averages over starts, so that the
    variance between groups does not show whether chains remember their starts.

    Args:
        draws: ``(chain, draw, *shape)``.
        num_superchains: Number of superchains, at least 2; it divides the number of chains.

    Returns:
        ``shape``; NaN if a draw is NaN.

    Raises:
        TypeError: if `num_superchains` is not an integer.
        ValueError: if it is less than 2, or does not divide the number of chains, or superchains
            are of a single draw.

    Example:
        >>> draws = np.random.default_rng(0).normal(size=(1024, 5))
        >>> stuck = draws + np.repeat(np.arange(16.0), 64)[:, None]
        >>> bool(nested_rhat(draws, 16) < 1.01), bool(nested_rhat(stuck, 16) > 2)
        (True, True)

    References:
        Margossian, Hoffman, Sountsov, Riou-Durand, Vehtari and Gelman (2024), Nested R-hat:
        assessing the convergence of Markov chain Monte Carlo when running many short chains,
        Bayesian Analysis, definition 2.1.
    """
    array = as_numbers("draws", draws)
    number = check_count("num_superchains", num_superchains, least=2)
    if array.ndim < 2:
        raise ValueError(f"draws must have shape (chain, draw, *shape), got {array.shape}")
    if len(array) % number:
        raise ValueError(
            f"num_superchains must divide the number of chains, {len(array)}, got {number}"
        )
    if len(array) == number and array.shape[1] == 1:
        raise ValueError(
            "nested_rhat needs two chains of a superchain or two draws of a chain at least, to "
            f"know a variance within superchains, got {number} superchains of one chain with one "
            "draw; reduce num_superchains, or draw more"
        )

    def statistic(block: Array) -> Array:
        return np.fmax(*(_nested_rhat(scores, number) for scores in rank_normalize(block)))[None]

    return by_block(statistic, array, 1, least=1)[0]


def nested_rhat_limit(num_superchains: int, num_chains: int, num_draws: int) -> float:
    r"""Limit of nested R-hat above which chains have not forgotten their starts.

    Let a superchain have :math:`m` chains of :math:`n` independent draws with variance 1. Means of
    superchains have the variance :math:`1 / (mn)`, and the variance within superchains is
    :math:`1 + 1/n`, for :math:`m, n > 1`. The ratio of the two variances, times
    :math:`mn (1 + 1/n)`, nearly follows an F distribution. The limit is

    .. math:: \sqrt{1.01^2 + \frac{q}{mn (1 + 1/n)}},

    with the quantile :math:`q` that independent draws exceed once in 10,000 times. For long
    chains, it is 1.01.
    """
    size = num_chains // num_superchains
    within = (num_draws > 1) + (size > 1) / num_draws
    degrees = num_superchains - 1, num_superchains * (size * num_draws - 1)
    quantile = float(scipy.special.fdtri(*degrees, 1 - _MAX_FALSE))
    return math.sqrt(HIGH_RHAT**2 + quantile / (size * num_draws * within))


def rhat_limit(num_chains: int, num_draws: int) -> float:
    r"""Limit of R-hat for many short chains that each have a start of their own.

    Let :math:`2m` half chains of :math:`n / 2` draws have the autocorrelation time :math:`\tau`.
    Then :math:`\hat R^2` is nearly :math:`1 + (\tau F - 1) \cdot 2 / n`, where :math:`F` follows an
    F distribution. The limit is

    .. math:: \sqrt{1.01^2 + (2 q - 1) \cdot 2 / n},

    with the quantile :math:`q` that :math:`F` exceeds once in 10,000 times, and with
    :math:`\tau = 2`, as if every second draw repeated the draw before. For long chains, the limit
    is 1.01.
    """
    half = max(num_draws // 2, 2)
    degrees = 2 * num_chains - 1, 2 * num_chains * (half - 1)
    quantile = float(scipy.special.fdtri(*degrees, 1 - _MAX_FALSE))
    return math.sqrt(HIGH_RHAT**2 + (_TAU * quantile - 1) / half)


def _nested_rhat(chains: Array, num_superchains: int) -> Array:
    num_parameters, num_chains, num_draws = chains.shape
    size = num_chains // num_superchains
    means = chains.mean(2).reshape(num_parameters, num_superchains, size)
    within = np.zeros(num_parameters)
    if num_draws > 1:
        within += chains.var(2, ddof=1).mean(1)
    if size > 1:
        within += means.var(2, ddof=1).mean(1)
    return np.sqrt(1 + means.mean(2).var(1, ddof=1) / within)
