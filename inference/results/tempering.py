"""Evidence of runs with parallel tempering, and what a summary says of them."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from inference.results.evidence import Evidence

MIN_ROUND_TRIPS = 10  # of a chain
_LOW_SWAP_RATE = 0.3  # of a pair of neighbors; 0.5 with twice as many temperatures as the barrier


def tempering_evidence(stats: Mapping[str, Any]) -> Evidence | None:
    """Mean of the estimates of the chains by stepping stones; `None` without parallel tempering.

    The standard error is by the spread of the chains, and NaN for one.

    References:
        Xie, Lewis, Fan, Kuo and Chen (2011), Improving marginal likelihood estimation for Bayesian
        phylogenetic model selection, Systematic Biology 60.
    """
    if not _is_tempered(stats):
        return None
    values = np.asarray(stats["log_evidence"], np.float64)[:, -1]
    error = values.std(ddof=1) / math.sqrt(values.size) if values.size > 1 else math.nan
    return Evidence(
        log_evidence=float(values.mean()),
        standard_error=float(error),
        pareto_k=math.nan,
        overlap=math.nan,
        problems=tuple(tempering_problems(stats)),
        about=(
            "Stepping stones of parallel tempering, in both directions, relative to its reference; "
            f"the standard error is by the spread of {values.size} chains."
        ),
    )


def describe_tempering(stats: Mapping[str, np.ndarray]) -> list[str]:
    """Clauses on the log evidence, swaps and round trips; none without parallel tempering."""
    found = tempering_evidence(stats)
    if found is None:
        return []
    error = "" if math.isnan(found.standard_error) else f" (SE {found.standard_error:.2g})"
    num_round_trips = int(np.sum(stats["num_round_trips"][:, -1]))
    return [
        f"log evidence {found.log_evidence:.2f}{error}",
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


def _is_tempered(stats: Mapping[str, np.ndarray]) -> bool:
    return "num_round_trips" in stats and "log_evidence" in stats
