"""log_evidence, and what a summary says of runs with parallel tempering."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from inference.common.argument_checks import short_repr

MIN_ROUND_TRIPS = 10  # of a chain
_LOW_SWAP_RATE = 0.3  # of a pair of neighbors; 0.5 with twice as many temperatures as the barrier


class LogEvidence(NamedTuple):
    """Log evidence of a model, the log marginal likelihood of its data.

    Attributes:
        value: Mean of the estimates of the chains.
        mcse: Monte Carlo standard error by their spread; NaN for one chain.
    """

    value: float
    mcse: float


def log_evidence(result: Any) -> LogEvidence:
    r"""Log evidence :math:`\log \int p(y \mid \theta)\, p(\theta)\, d\theta` of a model.

    It is relative to the reference, if :class:`ParallelTempering` has one that is not the prior.
    Differences of log evidences are log Bayes factors. They depend on the priors, however little
    these matter for the draws.

    Args:
        result: Result of :func:`mcmc` with :class:`ParallelTempering`.

    Raises:
        ValueError: if the result is of a run without parallel tempering.

    Example:
        >>> import jax.numpy as jnp, ppl, distributions as dist, inference, jax
        >>> def model(key):
        ...     p = ppl.sample(key, dist.Beta(1.0, 1.0), name="p")
        ...     return ppl.sample(key, dist.Binomial(10, probs=p), name="y")
        >>> posterior = ppl.condition(model, {"y": jnp.array(7)})
        >>> kernel = inference.ParallelTempering(kernel=inference.Slice(), num_temperatures=4)
        >>> result = inference.mcmc(jax.random.key(0), posterior, kernel=kernel)
        >>> found = log_evidence(result)
        >>> abs(found.value + math.log(11)) < 0.1  # each number of 0 to 10 is equally probable
        True

    References:
        Xie, Lewis, Fan, Kuo and Chen (2011), Improving marginal likelihood estimation for Bayesian
        phylogenetic model selection, Systematic Biology 60.
    """
    stats = getattr(result, "stats", None)
    if not isinstance(stats, Mapping) or "log_evidence" not in stats:
        raise ValueError(
            "log_evidence needs the result of inference.mcmc(..., "
            "kernel=inference.ParallelTempering()), which has the log evidence among its stats; "
            f"got {short_repr(result)}"
        )
    return _estimate(stats)


def describe_tempering(stats: Mapping[str, np.ndarray]) -> list[str]:
    """Clauses on the log evidence, swaps and round trips; none without parallel tempering."""
    if not _is_tempered(stats):
        return []
    found = _estimate(stats)
    error = "" if math.isnan(found.mcse) else f" (MCSE {found.mcse:.2g})"
    num_round_trips = int(np.sum(stats["num_round_trips"][:, -1]))
    return [
        f"log evidence {found.value:.2f}{error}",
        f"{num_round_trips} round trips of replicas",
        f"communication barrier {np.mean(stats['barrier'][:, -1]):.2g}",
        f"swap rates {np.mean(stats['swap_rate']):.2f} on average, "
        f"{np.min(stats['lowest_swap_rate'][:, -1]):.2f} at the least",
    ]


def tempering_problems(stats: Mapping[str, np.ndarray]) -> Iterator[str]:
    """A warning where replicas hardly travel between reference and target."""
    if not _is_tempered(stats):
        return
    numbers = np.asarray(stats["num_round_trips"])[:, -1]
    if numbers.min() >= MIN_ROUND_TRIPS:
        return
    remedy = "Draw more."
    if np.min(stats["lowest_swap_rate"][:, -1]) < _LOW_SWAP_RATE:
        wanted = math.ceil(2 * float(np.max(stats["barrier"][:, -1]))) + 1
        remedy = f"Take ParallelTempering(num_temperatures={wanted}) or more, or draw more."
    yield (
        f"the replicas of a chain made only {int(numbers.min())} round trips between the posterior "
        "and the prior: modes may be missing, or have wrong weights, and the log evidence is "
        f"rough. {remedy}"
    )


def _estimate(stats: Mapping[str, Any]) -> LogEvidence:
    values = np.asarray(stats["log_evidence"], np.float64)[:, -1]
    error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
    return LogEvidence(float(values.mean()), float(error))


def _is_tempered(stats: Mapping[str, np.ndarray]) -> bool:
    return "num_round_trips" in stats and "log_evidence" in stats
