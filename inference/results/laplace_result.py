"""Result of Laplace's approximation."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

from inference.results.guide_result import (
    GuideResult,
    describe_outside,
    describe_tail,
    describe_unknown_means,
)
from inference.results.optimize_result import OptimizeResult
from inference.results.summary import Summary
from ppl.harvest.pytrees import register_dataclass

_REMEDY = "Fit a guide to all of the posterior by svi, as FullRank()"


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class LaplaceResult(GuideResult):
    """A normal distribution at the mode on unconstrained space, and draws of it. A pytree.

    Attributes:
        draws, log_density, log_weights, elbo, elbo_standard_error, pareto_k, guide, parameters: See
            :class:`inference.GuideResult`.
        log_evidence: Laplace's approximation of the log marginal likelihood of the data.
        mode: Result of the search for the mode.
    """

    log_evidence: Any
    mode: OptimizeResult
    _verdict: ClassVar[str] = (
        "No problem found: Pareto k is low, and the climb to the mode has converged."
    )

    def _about(self) -> str:
        return (
            f"{self.log_density.size} draws of a normal distribution at the mode; log evidence "
            f"{self.log_evidence:.2f}, ELBO {self.elbo:.2f} (standard error "
            f"{self.elbo_standard_error:.2g}), Pareto k {self.pareto_k:.2f}"
        )

    def _problems(self, summary: Summary) -> Iterator[str]:
        yield from self.mode.problems
        yield from describe_tail(
            float(self.pareto_k), self.log_weights.size, _REMEDY, self.noncentering
        )
        yield from describe_outside(self.log_density)
        yield from describe_unknown_means(summary)
