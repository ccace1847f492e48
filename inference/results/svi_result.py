"""What variational inference returns."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from inference.guides.flows import InverseAutoregressive, MaskedAutoregressive, NeuralSpline
from inference.guides.guide import Guide
from inference.guides.normal import FullRank, PointMass
from inference.guides.structured import Structured
from inference.results.guide_result import (
    GuideResult,
    describe_outside,
    describe_tail,
    describe_unknown_means,
)
from inference.results.summary import Summary
from inference.variational.elbo import ELBO, Objective
from inference.variational.svi_step import BLOCK, SVIState
from ppl.harvest.pytrees import register_dataclass

_MIN_STEPS, _SHARE = 100, 10
_MOVES, _NATS = 4.0, 0.1
_MANY = 500  # numbers, of which a full rank guide has a triangle
_JUMP = 30.0  # interquartile ranges: exponential tails reach 13 in a million steps
_MIN_JUMP_NATS = (
    10.0  # nats: less does no harm, as while a fit that has no noise in the end settles
)


class ELBOTrace(NamedTuple):
    """The ELBO during an optimisation, averaged over blocks of steps.

    Attributes:
        step: The last step of each block, ``(block,)``.
        elbo: Mean of the ELBO over the block's steps.
        standard_error: Its standard error; where the ELBO rises within a block, that is in it.
    """

    step: np.ndarray
    elbo: np.ndarray
    standard_error: np.ndarray


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class SVIResult(GuideResult):
    """A guide fitted to a posterior, and draws of it. A pytree.

    The parameters are the average of the later steps' ones.

    Attributes:
        draws, log_density, log_weights, elbo, elbo_standard_error, pareto_k, guide, parameters: See
            :class:`inference.GuideResult`.
        elbos: Estimate of the ELBO, or what else the objective is, at each step of this run,
            ``(step,)``.
        state: To go on from: ``svi(..., state=result.state)``. It has the last parameters.
        failure: Why the run stopped early, in words; empty if it did not.
        objective: What was made large.
        doubts: What was found doubtful besides, in words.
    """

    elbos: Any
    state: SVIState
    failure: str = dataclasses.field(default="", metadata={"static": True})
    objective: Objective = dataclasses.field(default=ELBO(), metadata={"static": True})
    doubts: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    _verdict: ClassVar[str] = "No problem found: Pareto k is low, and the ELBO has stopped rising."

    def trace(self, block: int = BLOCK) -> ELBOTrace:
        """The ELBO during the run, averaged over blocks of so many steps, and its standard error.

        Steps that do not fill a block are left out.
        """
        num_blocks = len(self.elbos) // block
        blocks = np.asarray(self.elbos[: num_blocks * block], np.float64).reshape(-1, block)
        first = int(self.state.step) - len(self.elbos)
        steps = first + block * np.arange(1, num_blocks + 1)
        errors = blocks.std(1, ddof=1) / np.sqrt(block) if block > 1 else np.nan * blocks[:, 0]
        return ELBOTrace(steps, blocks.mean(1), errors)

    def _about(self) -> str:
        return (
            f"{self.log_density.size} draws of {self.guide} after {int(self.state.step)} steps; "
            f"ELBO {self.elbo:.2f} (standard error {self.elbo_standard_error:.2g}), Pareto k "
            f"{self.pareto_k:.2f}"
        )

    @property
    def _size(self) -> int:
        """The numbers of a draw."""
        return sum(int(np.prod(np.shape(x)[2:])) for x in jax.tree.leaves(self.draws))

    def _problems(self, summary: Summary) -> Iterator[str]:
        if self.failure:
            yield self.failure
        elbos = np.asarray(self.elbos, np.float64)
        yield from _is_moving(elbos, self.objective.name)
        yield from _is_jumping(elbos, self.objective.name)
        yield from self.doubts
        if not self.guide.has_density:
            what = "is a point" if isinstance(self.guide, PointMass) else "has points"
            yield (
                f"{self.guide} {what}: the draws are copies of it, and say nothing of the "
                "posterior's spread there. Fit MeanField() or FullRank(), or use mcmc."
            )
        else:
            yield from describe_tail(
                float(self.pareto_k),
                self.log_weights.size,
                _suggest_richer_guide(self.guide, self._size),
            )
        yield from describe_outside(self.log_density)
        yield from describe_unknown_means(summary)


def _suggest_richer_guide(guide: Guide, size: int) -> str:
    """What to fit where `guide` was too simple for so many numbers."""
    if isinstance(guide, NeuralSpline | InverseAutoregressive | MaskedAutoregressive):
        return "Use a flow with more layers and steps"
    if isinstance(guide, FullRank | Structured):
        return "Use a flow, as guide=NeuralSpline()"
    if size > _MANY:
        return "Use a richer guide, as LowRank(10) or Structured()"
    return "Use a richer guide, as FullRank() or NeuralSpline()"


def _is_moving(elbos: np.ndarray, name: str) -> Iterator[str]:
    """Whether the last tenth of the steps has another ELBO than the tenth before."""
    if len(elbos) < _MIN_STEPS:
        yield (
            f"{len(elbos)} steps are too few to see whether the {name} still moves. Go on: "
            "svi(..., state=result.state)."
        )
        return
    size = len(elbos) // _SHARE
    before, after = elbos[-2 * size : -size], elbos[-size:]
    change = after.mean() - before.mean()
    error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / size)
    if abs(change) > max(_MOVES * error, _NATS):
        yield (
            f"the {name} still moves: in the last {size} steps it was {abs(change):.2g} "
            f"{'higher' if change > 0 else 'lower'} than in those before (standard error "
            f"{error:.2g}). Go on, svi(..., state=result.state), "
            f"{'or' if change > 0 else 'with a smaller learning rate, or'} start elsewhere, as by "
            "init=inference.pathfinder(...)."
        )


def _is_jumping(elbos: np.ndarray, name: str) -> Iterator[str]:
    """Whether single steps of the last half lie further out than exponential tails ever reach."""
    late = elbos[len(elbos) // 2 :]
    if len(elbos) < _MIN_STEPS:
        return
    low, middle, high = np.quantile(late, (0.25, 0.5, 0.75))
    off = np.abs(late - middle)
    num_jumps = np.sum(off > max(_JUMP * (high - low), _MIN_JUMP_NATS))
    if num_jumps:
        yield (
            f"the {name} jumps: at {num_jumps} of the last {len(late)} steps it was more than "
            f"{_JUMP:.0f} times its interquartile range ({high - low:.2g}) off the median, at most "
            f"{off.max():.2g}. Gradients jump with it, and throw the parameters about: give "
            "num_particles=10, clip gradients by optax.chain(optax.clip_by_global_norm(10.0), "
            "optax.adam(1e-2)), or reparameterise the model."
        )
