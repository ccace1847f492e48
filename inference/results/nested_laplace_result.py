"""Result of nested Laplace: draws with weights, and whether these are of the exact posterior."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from inference.results.importance_result import ImportanceResult
from inference.results.mcmc_result import MCMCResult
from inference.results.psis import largest_pareto_k
from inference.results.summary import Summary
from ppl.harvest.pytrees import register_dataclass

_ENOUGH = 100  # effective draws or points; below, a warning
_WORTH = 0.1  # of the points; below, they do not fit the density
_MAX_SE = 0.5  # nats; a larger standard error is itself uncertain


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class NestedLaplaceResult(ImportanceResult):
    """Draws with weights from the posterior of a latent Gaussian model. A pytree.

    Attributes:
        draws, log_weights, weights: See :class:`inference.ImportanceResult`.
        ess: Effective sample size of the weights, times the efficiency of `chains`, if there are
            any.
        log_evidence: Log marginal likelihood of the data by the weights.
        log_evidence_standard_error: Its standard error, as if the points were independent. They are
            spread evenly, so that the error is mostly smaller. With `chains`, that of bridge
            sampling and of the weights.
        pareto_k: Shape of the tail of the weights of the exact posterior; minus infinity where
            the field is normal given the data and the weights of the points are all equal.
        points_ess: Effective number of draws by the weights of Laplace's approximation; with
            `chains`, the smallest bulk ESS of a coordinate.
        integrated: Names of the sites that were integrated out.
        is_exact: Whether they are normal given the others and the data.
        is_corrected: Whether `weights` are those of the exact posterior. If not, they are those of
            the points alone, of Laplace's approximation.
        num_modes: Number of modes of the other sites that were found; 0 if none was. Modes of
            `integrated` given the others do not count.
        num_inner_modes: Number of modes of `integrated` given the others, near the mode of these: 1
            where `is_exact`, else 2 if climbs have found another, and 0 if none have ended.
        num_lost: Number of points without a density, or where no mode was found.
        chains: Chains of NUTS that have drawn the other sites, if these have more than 12
            coordinates; else `None`.
    """

    points_ess: Any
    integrated: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    is_exact: bool = dataclasses.field(metadata={"static": True})
    is_corrected: bool = dataclasses.field(metadata={"static": True})
    num_modes: int = dataclasses.field(metadata={"static": True})
    num_inner_modes: int = dataclasses.field(metadata={"static": True})
    num_lost: int = dataclasses.field(metadata={"static": True})
    chains: MCMCResult | None = dataclasses.field(default=None, kw_only=True)

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        summary = super()._summarize(intervals)
        is_approximate = not (self.is_corrected or self.is_exact)
        fields = self.integrated
        kind = "Laplace's approximation" if is_approximate else "the exact posterior"
        error = self.log_evidence_standard_error
        error = "by Laplace's approximation" if is_approximate else f"standard error {error:.2g}"
        about = (
            f"{self.weights.size} draws with weights of {kind}, worth {self.ess:.0f} without; log "
            f"evidence {self.log_evidence:.2f} ({error}), Pareto k {self.pareto_k:.2f}"
        )
        others = ", ".join(x for x, is_fixed, _ in self.sites if not is_fixed and x not in fields)
        inner = "" if self.is_exact or not self.num_inner_modes else ", ".join(fields)
        also = f" and one of {inner} given these" if inner else ""
        verdict = (
            f"No problem found: one mode of {others}{also} was found, Pareto k is low, and ESS is "
            "high enough."
        )
        if self.chains is not None:
            of_chains = self.chains.summary()
            num_chains = len(jax.tree.leaves(self.chains.draws)[0])
            about += f"; {others} by {num_chains} chains of NUTS"
            checks = of_chains.verdict.removeprefix("No problem found: ").removesuffix(".")
            verdict = (
                f"No problem found: chains over {others}: {checks}; "
                + f"one mode of {inner} given these was found; " * bool(inner)
                + "Pareto k is low, and ESS is high enough."
            )
        if not self.num_inner_modes:
            verdict += f" {', '.join(fields)} may have others given these: no search has ended."
        return dataclasses.replace(summary, about=about, verdict=verdict)

    def _problems(self) -> Iterator[str]:
        largest = largest_pareto_k(self.weights.size)
        if not np.isfinite(self.log_evidence):
            yield self._without_sum()
            return
        if self.num_modes == 0:
            yield (
                "no mode of the other sites was found, so the points may miss much of the "
                f"posterior. {', '.join(self.integrated)} were integrated out: name other sites, "
                "sites=[...], give the others proper priors, or use mcmc."
            )
        if self.num_modes > 1:
            yield (
                f"the other sites have {self.num_modes} modes, and the points are spread about the "
                "highest: draws and evidence are of this mode alone. Use smc, or "
                "mcmc(kernel=inference.ParallelTempering())."
            )
        if self.num_inner_modes > 1:
            yield (
                f"{', '.join(self.integrated)} have more modes than one given the other sites, and "
                "draws come from about one of them: draws, weights and evidence lack the others, "
                "and Pareto k does not tell. Use mcmc, or smc."
            )
        if self.chains is not None:
            yield from self._problems_of_chains(self.chains)
        if self.num_lost:
            yield (
                f"{self.num_lost} of {self.weights.size} points count for nothing: there the "
                "density is 0, Newton's method finds no mode of "
                f"{', '.join(self.integrated)}, or neither prior nor data tell of a part of it, as "
                "of the level of an intrinsic field. The posterior may be cut off. Give each a "
                "proper prior, or compare with mcmc."
            )
        if self.chains is None and self.points_ess < _WORTH * self.weights.size:
            yield (
                f"{self.weights.size} points are worth {self.points_ess:.0f}: the posterior of the "
                "sites that were not integrated out is far from normal on unconstrained space, or "
                "has several modes. Raise num_draws, or use mcmc."
            )
        if self.is_exact and not self.is_corrected:
            yield (
                f"Pareto k is {self.pareto_k:.2f}, above {largest:.2g}: a few points carry most of "
                "the weight. Raise num_draws, or use mcmc."
            )
        elif not self.is_corrected:
            yield (
                f"Pareto k of the weights of the exact posterior is {self.pareto_k:.2f}, above "
                f"{largest:.2g}, so the draws are of Laplace's approximation, and nothing says how "
                "far it is off. It is good where each element has many observations, and poor for "
                "binary data with few of them: compare with mcmc. Fewer sites may fall into more "
                f"independent parts, with proposals of their own: {', '.join(self.integrated)} "
                "were integrated out, name some of them by sites=[...]."
            )
        elif self.ess < _ENOUGH:
            yield f"the weights are worth {self.ess:.0f} draws only: raise num_draws."

    def _problems_of_chains(self, chains: MCMCResult) -> Iterator[str]:
        for problem in chains.summary().problems:
            yield f"NUTS over the sites that were not integrated out: {problem}"
        if not self.log_evidence_standard_error <= _MAX_SE:
            yield (
                f"the standard error {self.log_evidence_standard_error:.2g} of the log evidence is "
                "large, and larger errors are themselves uncertain. Raise num_draws."
            )

    def __repr__(self) -> str:
        return f"NestedLaplaceResult({np.shape(self.weights)[1]} draws: {self._sites()})"
