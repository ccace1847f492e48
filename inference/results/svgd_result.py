"""Result of Stein variational gradient descent."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from inference.results.guide_result import describe_unknown_means
from inference.results.result import Result
from inference.results.summary import Summary, describe
from inference.variational.svgd_step import SVGDState
from ppl.harvest.pytrees import register_dataclass

# The discrepancy still falls if its mean over the last 1 / _SHARE of the steps is less than _CHANGE
# of the mean over as many steps before. Fewer than _MIN_STEPS steps cannot tell.
_SHARE = 10
_CHANGE = 0.95
_MIN_STEPS = 100
_FEW = 20  # particles for each coordinate; with fewer, variances are 30 % too small


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SVGDResult(Result):
    """Particles that represent a posterior. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(1, particle, *shape)``; a scope is a dict in the dict.
        log_density: Log density of the model at the particles, on unconstrained space,
            ``(1, particle)``.
        discrepancies: The kernelized Stein discrepancy before each step of this run, ``(step,)``.
        state: State to go on from by ``svgd(..., state=result.state)``.
        failure: Reason for an early stop, in words; empty if there was none.
    """

    draws: dict[str, Any]
    log_density: Any
    discrepancies: Any
    state: SVGDState
    failure: str = dataclasses.field(default="", metadata={"static": True})

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        last = self.discrepancies[-1] if len(self.discrepancies) else np.nan
        about = (
            f"{self.log_density.size} particles after {int(self.state.step)} steps; kernelized "
            f"Stein discrepancy {last:.2g}"
        )
        verdict = "No problem found: the discrepancy has stopped falling."
        summary = describe(self.draws, sites=self.sites, intervals=intervals)
        problems = tuple(self._problems(summary))
        return dataclasses.replace(summary, problems=problems, about=about, verdict=verdict)

    def _problems(self, summary: Summary) -> Iterator[str]:
        if self.failure:
            yield self.failure
        yield from _is_falling(np.asarray(self.discrepancies, np.float64))
        num_particles, size = np.shape(self.state.particles)
        if num_particles <= _FEW * size:
            yield (
                f"{num_particles} particles are few for {size} coordinates: their variances "
                "are too small, at rest. Raise num_particles, or use mcmc."
            )
        yield from describe_unknown_means(summary)

    def __repr__(self) -> str:
        return f"SVGDResult({np.shape(self.log_density)[1]} particles: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {"lp": self.log_density}


def _is_falling(discrepancies: np.ndarray) -> Iterator[str]:
    """Warning if the discrepancy still falls, or if there are too few steps to tell.

    It falls if its mean over the last tenth of the steps is below that over the tenth before.
    """
    if len(discrepancies) < _MIN_STEPS:
        yield (
            f"{len(discrepancies)} steps are too few to see whether the particles still move. Go "
            "on: svgd(..., state=result.state)."
        )
        return
    size = len(discrepancies) // _SHARE
    before = discrepancies[-2 * size : -size].mean()
    after = discrepancies[-size:].mean()
    eps = np.finfo(np.float32).eps
    if after < _CHANGE * before and after > eps * discrepancies[0]:
        yield (
            f"the particles still move: the discrepancy fell from {before:.2g} to {after:.2g} in "
            f"the last {size} steps. Go on, svgd(..., state=result.state), or with larger steps."
        )
