"""Result of a particle filter: draws of paths, draws step by step, and the evidence."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from inference.results.evidence import Evidence
from inference.results.result import Result
from inference.results.summary import Summary, describe
from ppl.harvest.pytrees import register_dataclass

_MAX_SE = 1.0  # nats; a larger standard error is itself uncertain
_MIN_ESS = 10
_EQUAL = 0.99  # share of the particles; with weights that are all equal, any number is enough
_MIN_ANCESTORS = 20


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ParticleFilterResult(Result):
    r"""Draws of paths by a particle filter, and the evidence. A pytree.

    Entries of `increments`, `ess` and `num_ancestors` are for the time before the first step, and
    then for each step of the scan.

    Attributes:
        draws: Values of the latent sites given all data, ``(1, draw, *shape)``, with equal weights;
            a scope is a dict in the dict. A draw is a whole path.
        filtered: Values of the latent sites of the scan, each step given the data up to it,
            ``(1, draw, *shape)``. Steps are drawn apart: a row is not a path.
        log_evidence: Logarithm of an unbiased estimate of the likelihood, of all data together. The
            logarithm itself is too low on average, by half of its variance.
        standard_error: Standard error of `log_evidence`, from the genealogy of the particles (Chan
            and Lai, 2013); as particles are resampled systematically, it is rather too large. It
            needs some number of `num_ancestors` before the first step.
        increments: Terms of `log_evidence`, ``(steps + 1,)``: the log predictive density of the
            data of each step given the data before.
        ess: Effective sample sizes of the weights, ``(steps + 1,)``.
        num_ancestors: Number of different ancestors of the last particles, ``(steps + 1,)``.
        log_density: Log density of the last path of `draws` with all data, a scalar, by which
            :func:`evidence` knows the model and its arguments.
        num_particles: Number of particles.
        smoothing: How paths were drawn: "backward" or "ancestors".
        exact: Names of the sites that particles carried exactly, as moments or probabilities.
        why_not_exact: Reason why there are none, if they were asked for; else empty.
        optimal: Names of the sites that were drawn given the carry and the data of their step.
        why_not_optimal: Reasons why the others of a step were not, if that was asked for.
        digest: Checksum of the observed numbers, see :class:`Evidence`; `None` if it is not known.
        num_observed: How many numbers are observed; `None` if it is not known.
    """

    draws: dict[str, Any]
    filtered: dict[str, Any]
    log_evidence: Any
    standard_error: Any
    increments: Any
    ess: Any
    num_ancestors: Any
    log_density: Any
    num_particles: int = dataclasses.field(metadata={"static": True})
    smoothing: str = dataclasses.field(metadata={"static": True})
    exact: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    why_not_exact: str = dataclasses.field(default="", metadata={"static": True})
    optimal: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    why_not_optimal: str = dataclasses.field(default="", metadata={"static": True})
    digest: int | None = dataclasses.field(default=None, metadata={"static": True})
    num_observed: int | None = dataclasses.field(default=None, metadata={"static": True})

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        drawn = "backward" if self.smoothing == "backward" else "as histories of particles"
        about = (
            f"{self._num_draws} paths drawn {drawn}, {self.num_particles} particles, "
            f"{len(self.ess) - 1} steps; log evidence {float(self.log_evidence):.2f} (standard "
            f"error {float(self.standard_error):.2g}), least ESS {np.min(self.ess):.0f}"
        )
        if self.exact:
            about += f"; carried exactly: {', '.join(self.exact)}"
        if self.why_not_exact:
            about += f"; nothing carried exactly: {self.why_not_exact}"
        if self.optimal:
            about += f"; drawn given the data of their step: {', '.join(self.optimal)}"
        if self.why_not_optimal:
            about += f"; others by the model ({self.why_not_optimal})"
        number = self.num_particles
        weights = f"ESS at least {_MIN_ESS}" if number > _MIN_ESS else "weights nearly equal"
        ancestors = (
            f"from {_MIN_ANCESTORS} ancestors at least"
            if number > _MIN_ANCESTORS
            else f"all {number} first particles have descendants"
        )
        verdict = (
            f"No problem found: {weights} in each step, standard error of the log evidence at most "
            f"{_MAX_SE:g}, {ancestors}."
        )
        summary = describe(self.draws, sites=self.sites, intervals=intervals)
        problems = (*self.problems_of_evidence(), *self._problems_of_paths())
        return dataclasses.replace(summary, problems=problems, about=about, verdict=verdict)

    @property
    def _num_draws(self) -> int:
        return np.shape(jax.tree.leaves(self.draws)[0])[1]

    def problems_of_evidence(self) -> Iterator[str]:
        """Problems of the weights and of the standard error, which concern the evidence."""
        ess = np.asarray(self.ess)
        first = int(self.num_ancestors[0])
        least = float(np.min(ess))
        if least < min(_MIN_ESS, _EQUAL * self.num_particles):
            at = int(np.argmin(ess))
            where = "before the first step" if at == 0 else f"in step {at - 1}"
            yield (
                f"{where} the weights of {self.num_particles} particles are worth {least:.1f}: "
                "few of them explain its data. Raise num_particles, or give a proposal that looks "
                "at the data."
            )
        if first < min(_MIN_ANCESTORS, self.num_particles):
            yield (
                f"all last particles come from {first} of the {self.num_particles} first ones, "
                "which is too few for the standard error of the log evidence. Raise num_particles, "
                "or take the spread of log_evidence over other keys."
            )
        elif not float(self.standard_error) <= _MAX_SE:
            yield (
                f"the standard error of the log evidence, {float(self.standard_error):.2g}, is "
                "large: raise num_particles, or give a proposal that looks at the data."
            )

    def _problems_of_paths(self) -> Iterator[str]:
        counts = np.asarray(self.num_ancestors)
        fewest = int(np.min(counts))
        if self.smoothing != "ancestors" or fewest >= min(_MIN_ANCESTORS, self.num_particles):
            return
        yield (
            f"paths share their beginnings: {fewest} values at the fewest stand for all draws of "
            "an early step. Where parameters are drawn before the scan, particles keep those of a "
            "few first particles: give parameters, by ppl.condition. Where the carry holds sums, "
            "carry what the next step needs only, so that paths can be drawn backward."
            + " Without exact=True they can."
            * bool(self.exact)
        )

    def __repr__(self) -> str:
        return f"ParticleFilterResult({self.num_particles} particles: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {}


def filter_evidence(result: ParticleFilterResult) -> Evidence:
    """Estimate that a particle filter has made, with its problems."""
    num_steps = len(result.ess) - 1
    return Evidence(
        log_evidence=float(result.log_evidence),
        standard_error=float(result.standard_error),
        pareto_k=math.nan,
        overlap=math.nan,
        problems=tuple(result.problems_of_evidence()),
        about=(
            f"Particle filter: {result.num_particles} particles, {num_steps} "
            f"step{'s' * (num_steps != 1)}; the standard error is by their ancestors."
        ),
        digest=result.digest,
        num_observed=result.num_observed,
    )
