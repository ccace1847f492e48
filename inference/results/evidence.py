"""Evidence of a model, with its standard error and its problems in words."""

import dataclasses
import math

from inference.results.noted_table import Table

_MAX_SE = 0.5  # nats; a larger standard error is itself uncertain
_MAX_RHAT = 1.05
_MAX_ROUNDING = 0.01  # nats; of the log density
_MAX_LOST = 0.01  # share of draws without a position


@dataclasses.dataclass(frozen=True, repr=False)
class Evidence(Table):
    r"""Log evidence of a model, the log marginal likelihood of its data. It prints as a table.

    Differences of log evidences are log Bayes factors.

    Attributes:
        log_evidence: Estimate of :math:`\log \int p(y \mid \theta)\, p(\theta)\, d\theta`.
        standard_error: Its standard error.
        pareto_k: Pareto k of the ratios of posterior and normal density at the draws of the normal
            distribution: above 0.7, importance sampling from it would be unreliable. Bridge
            sampling bears more, as its terms are bounded. NaN for parallel tempering and particles.
        overlap: Overlap of the posterior and the normal distribution, from 0 to 1; NaN for
            parallel tempering and particles.
        problems: What is doubtful, in words.
        about: The method and the draws, in words.
        digest: Checksum of the observed numbers in ascending order, by which :func:`compare` knows
            whether models have the same data; `None` if it is not known.
        num_observed: How many numbers are observed; `None` if it is not known.
    """

    log_evidence: float
    standard_error: float
    pareto_k: float
    overlap: float
    problems: tuple[str, ...]
    about: str
    digest: int | None = None
    num_observed: int | None = None

    def _rows(self) -> list[list[str]]:
        error = self.standard_error
        digits = 2 if not error > 0 else max(2, 1 - math.floor(math.log10(error)))
        digits = min(digits, 6)
        shown = "-" if math.isnan(error) else f"{error:.2g}"
        return [
            ["", "estimate", "SE"],
            ["log evidence", f"{self.log_evidence:.{digits}f}", shown],
        ]

    def _notes(self) -> list[str]:
        words = [f"! {problem}" for problem in self.problems] or ["No problem found."]
        return [self.about, *words]


def evidence_problems(
    se: float, overlap: float, pareto_k: float, rhat: float, lost: float, rounding: float
) -> tuple[str, ...]:
    """Warnings of an estimate by bridge sampling.

    Args:
        se: Standard error.
        overlap: Overlap of the posterior and the normal distribution.
        pareto_k: Pareto k of the density ratios.
        rhat: Largest R-hat of the coordinates and of the log density ratio; NaN for a single chain.
        lost: Share of draws at the edge of a support, where they have no position.
        rounding: Rounding of the log density to its dtype, in nats.
    """
    problems = []
    if not se <= _MAX_SE:
        problems.append(
            f"the standard error {se:.2g} is large, and larger errors are themselves uncertain: "
            "the posterior is far from normal on unconstrained space. It overlaps with its normal "
            f"approximation by {overlap:.2g} only (Pareto k {pareto_k:.2g}). Draw more, or "
            "take inference.evidence(result) of a run with kernel=inference.ParallelTempering()."
        )
    if math.isnan(rhat):
        problems.append(
            "the draws are of a single chain: nothing shows whether it has found the whole "
            "posterior. Run several, and look at result.summary()."
        )
    elif rhat > _MAX_RHAT:
        problems.append(
            f"the chains disagree: R-hat on unconstrained space is {rhat:.2f} at the most. The "
            "estimate holds for the part of the posterior that the chains have found, in the "
            "proportions in which they did. Look at result.summary(), and draw more."
        )
    if rounding > max(_MAX_ROUNDING, se):
        problems.append(
            f"log densities are rounded to {rounding:.2g}, which the standard error does not "
            "count. Set jax_enable_x64 for sums of so many terms."
        )
    if lost > _MAX_LOST:
        problems.append(
            f"{lost:.0%} of the draws are at the edge of a support by rounding, and have no finite "
            "position on unconstrained space. Set jax_enable_x64."
        )
    return tuple(problems)


def problems_of_order(num_ordered: int | None) -> tuple[str, ...]:
    """Words on the modes that are left out where draws have their components in one order."""
    if num_ordered is None:
        return ()
    return (
        f"relabel has put {num_ordered} components in one order: the estimate is of one mode of "
        f"{math.factorial(num_ordered)}. If the posterior is symmetric in the components, add the "
        f"logarithm of {num_ordered} factorial, {math.lgamma(num_ordered + 1):.4f}.",
    )
