r"""PSIS-LOO: leave-one-out predictive densities by Pareto smoothed importance sampling.

References:
    Vehtari, Gelman and Gabry (2017), Practical Bayesian model evaluation using leave-one-out
    cross-validation and WAIC, Statistics and Computing 27.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from inference.common.leaf_names import named_leaves
from inference.results.diagnostics import ess_mean, rhat
from inference.results.elpd import ElpdEstimate, make_estimate
from inference.results.nested_rhat import HIGH_RHAT, rhat_limit
from inference.results.problems import MANY_CHAINS
from inference.results.psis import largest_pareto_k, psis_on_host


class PointwiseLOO(NamedTuple):
    """Terms of PSIS-LOO, ``(unit,)`` each.

    Attributes:
        elpd: Log predictive density of each unit, by the posterior without the unit.
        pareto_k: Shape of the tail of the weights of each unit.
        lpd: Log predictive density of each unit, by the posterior of all data.
    """

    elpd: np.ndarray
    pareto_k: np.ndarray
    lpd: np.ndarray


def psis_loo(
    log_likelihood: np.ndarray,
    log_weights: np.ndarray | None = None,
    relative_efficiency: np.ndarray | float | None = None,
    log_scores: np.ndarray | None = None,
) -> PointwiseLOO:
    r"""Leave-one-out log predictive densities of units.

    .. math:: \log p(y_i \mid y_{-i}) \approx \log\frac{\sum_s w_{is}\, p(y_i \mid z_s)}
       {\sum_s w_{is}}

    The weights :math:`w_{is}` are the smoothed :math:`w_s / p(y_i \mid z_s)`, or
    :math:`w_s / p(y_i \mid z_s)^{f_i}` if an observation counts :math:`f_i` times in the posterior.

    Args:
        log_likelihood: ``(chain, draw, unit)``.
        log_weights: Log weights :math:`\log w_s` of the draws, ``(chain, draw)``, or `None`.
        relative_efficiency: ESS of the draws divided by their number, for each unit or for all; by
            default from the likelihood of each unit, or 1 for draws with weights.
        log_scores: Terms of the units in the log density of the posterior, ``(chain, draw, unit)``;
            by default their log likelihoods.

    References:
        Vehtari et al. (2017), equation 10 and section 2.
    """
    log_scores = log_likelihood if log_scores is None else log_scores
    num_draws = log_likelihood[..., 0].size
    num_units = log_likelihood.shape[-1]
    if relative_efficiency is None:
        relative_efficiency = 1.0 if log_weights is not None else efficiency_of(log_scores)
    efficiency = np.broadcast_to(relative_efficiency, num_units)
    flat = log_likelihood.reshape(num_draws, num_units)
    terms = log_scores.reshape(num_draws, num_units)
    base = np.zeros(num_draws) if log_weights is None else np.ravel(log_weights).astype(np.float64)
    base = base - log_sum_exp(base)
    elpd, pareto_k, lpd = (np.empty(num_units) for _ in range(3))
    for i in range(num_units):
        column = flat[:, i].astype(np.float64)
        with np.errstate(invalid="ignore"):
            ratios = base - terms[:, i].astype(np.float64)
            smoothed, pareto_k[i] = psis_on_host(ratios, 0.0, float(efficiency[i]))
            elpd[i] = log_sum_exp(smoothed + column) - log_sum_exp(smoothed)
        lpd[i] = log_sum_exp(base + column)
    return PointwiseLOO(elpd, pareto_k, lpd)


def make_loo(
    found: PointwiseLOO,
    names: tuple[str, ...],
    draws: Any,
    *,
    more: str = "",
    is_exact: np.ndarray | None = None,
    problems: tuple[str, ...] = (),
    digests: np.ndarray | None = None,
) -> ElpdEstimate:
    """Estimate by PSIS-LOO, in words and numbers.

    Args:
        found: Terms of the units; Pareto k is NaN where they are exact.
        names: Name of each unit.
        draws: Draws by site, ``(chain, draw, *shape)``.
        more: Words on terms that are exact.
        is_exact: Whether the term of each unit is exact; by default none is.
        problems: Further problems.
        digests: Checksum of the data of each unit.
    """
    num_chains, num_draws = np.shape(next(x for _, x in named_leaves(draws)))[:2]
    about = f"leave-one-out, {len(names)} observations: PSIS from {describe_draws(draws)}"
    return make_estimate(
        found.elpd,
        names,
        f"{about}{more}.",
        p=float(np.sum(found.lpd) - np.sum(found.elpd)),
        pareto_k=found.pareto_k,
        is_exact=np.zeros(len(names), bool) if is_exact is None else is_exact,
        largest_k=largest_pareto_k(num_chains * num_draws),
        problems=problems,
        digests=digests,
    )


def words_on_draws(
    result: Any, log_likelihood: np.ndarray, names: Sequence[str]
) -> tuple[str, ...]:
    """A problem of chains that disagree, in the draws and in the log likelihood of a unit.

    Where only labels switch, the log likelihoods agree.
    """
    facts = getattr(result, "facts", None)
    if facts is None or facts.num_superchains is not None:
        return ()
    num_chains, num_draws, _ = log_likelihood.shape
    limit = rhat_limit(num_chains, num_draws) if num_chains >= MANY_CHAINS else HIGH_RHAT
    found = rhat(log_likelihood)
    high = found > limit
    if not (high.any() and np.any(result.summary().rhat > limit)):
        return ()
    worst = int(np.nanargmax(found))
    return (
        f"R-hat exceeds {limit:.3g} for the log likelihood of {high.sum()} of {len(names)} "
        f"observations, most for {names[worst]} ({found[worst]:.2f}): the chains do not agree, so "
        "that the draws are doubtful, and so is this estimate. See result.summary().",
    )


def describe_draws(draws: Any) -> str:
    """Number of chains and draws in words."""
    num_chains, num_draws = np.shape(next(x for _, x in named_leaves(draws)))[:2]
    return f"{num_chains} chain{'s' * (num_chains != 1)} x {num_draws} draws"


def log_weights_of(result: Any) -> np.ndarray | None:
    """Log weights of the draws of a result, ``(chain, draw)``; `None` if all are equal."""
    if (weights := getattr(result, "weights", None)) is not None:
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(weights, np.float64))
    log_weights = getattr(result, "log_weights", None)
    has_density = getattr(getattr(result, "guide", None), "has_density", False)
    return np.asarray(log_weights, np.float64) if has_density else None


def efficiency_of(log_likelihood: np.ndarray) -> np.ndarray:
    """Relative efficiency of the mean likelihood of each unit, ``(unit,)``; 1 where unknown."""
    highest = log_likelihood.max((0, 1))
    likelihood = np.exp(log_likelihood - highest)
    num_draws = likelihood[..., 0].size
    efficiency = ess_mean(likelihood) / num_draws
    return np.where(np.isfinite(efficiency) & (efficiency > 0), efficiency, 1.0)


def log_sum_exp(x: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Logarithm of the sum of exponentials, along an axis or over all elements."""
    highest = np.max(x, axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(x - highest), axis=axis, keepdims=True)) + highest
    return total.squeeze(axis) if axis is not None else total.reshape(())
