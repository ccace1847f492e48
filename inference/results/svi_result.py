"""Result of stochastic variational inference."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Self

import jax
import numpy as np

from inference.common.serialization import Absent
from inference.guides.checks import check_guide
from inference.guides.flows import InverseAutoregressive, MaskedAutoregressive, NeuralSpline
from inference.guides.guide import Guide
from inference.guides.normal import FullRank, PointMass
from inference.guides.structured import Structured
from inference.models.guide_function import GuideFunction
from inference.results.guide_result import (
    GuideResult,
    describe_outside,
    describe_tail,
    describe_unknown_means,
)
from inference.results.psis import largest_pareto_k
from inference.results.summary import Summary
from inference.variational.elbo import ELBO, Objective
from inference.variational.svi_step import BLOCK, SVIState
from ppl.harvest.pytrees import register_dataclass

# The ELBO still moves if its means over the last two spans of 1 / _SHARE of the steps differ by
# more than _MOVES standard errors and _NATS nats. Fewer than _MIN_STEPS steps cannot tell.
_MIN_STEPS = 100
_SHARE = 10
_MOVES = 4.0
_NATS = 0.1
_MANY = 500  # coordinates, beyond which a full-rank covariance is too large to suggest
_MAX_DIVERGENCE = 0.5  # nats for each scalar
# An ELBO jumps if it is so many interquartile ranges off the median. Exponential tails reach 13 in
# a million steps.
_JUMP = 30.0
# Smaller jumps do no harm; they occur while a fit without noise settles.
_MIN_JUMP_NATS = 10.0


class ELBOTrace(NamedTuple):
    """ELBO during an optimization, averaged over blocks of steps.

    Attributes:
        step: Last step of each block, ``(block,)``.
        elbo: Mean of the ELBO over the steps of each block, ``(block,)``.
        standard_error: Standard error of that mean; a rise of the ELBO within the block adds to it.
    """

    step: np.ndarray
    elbo: np.ndarray
    standard_error: np.ndarray


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class SVIResult(GuideResult):
    """A guide fitted to a posterior, and draws of it. A pytree.

    The parameters are averaged over the later steps.

    Attributes:
        draws, log_density, log_weights, elbo, elbo_standard_error, pareto_k, guide, parameters: See
            :class:`inference.GuideResult`.
        elbos: Estimate of the ELBO, or of another objective, at each step of this run,
            ``(step,)``.
        state: State to go on from by ``svi(..., state=result.state)``. Its parameters are the
            parameters after the last step, not the average.
        failure: Reason for an early stop, in words; empty if there was none.
        objective: Objective that was maximized.
        doubts: Further warnings, in words.
        model_parameters: Values of the parameters of the model, made by `ppl.param`, by name; None
            if the model has no parameters.
        centering: Weights of centering that were learned with the guide, by site, see
            ``ppl.LearnedCentering``: one for each element, ``(1, *shape)``. They say in which
            coordinates `log_density`, `guide` and `parameters` are. Empty if none were learned.
        guide_parameters: Values of the parameters of a guide that is a function, made by
            `ppl.param`, by name and on their supports; None for other guides. `parameters` are the
            same numbers on unconstrained space.
        model_state, guide_state: Last values of the state of the model and of the guide, made by
            `ppl.state`, by name; None if there is none.
        batching: Data from which the result was computed, if steps saw batches: "all" for all data,
            "first" for the first batch; "" if every step saw all data.
    """

    elbos: Any
    state: SVIState
    failure: str = dataclasses.field(default="", metadata={"static": True})
    objective: Objective = dataclasses.field(default=ELBO(), metadata={"static": True})
    doubts: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})
    model_parameters: Any = None
    centering: dict[str, Any] = dataclasses.field(default_factory=dict)
    batching: str = dataclasses.field(default="", metadata={"static": True})
    guide_parameters: Any = None
    model_state: Any = None
    guide_state: Any = None
    _verdict: ClassVar[str] = "No problem found: Pareto k is low, and the ELBO has stopped rising."

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, guide: Guide | Callable[..., Any] | None = None
    ) -> Self:
        """Reads a result from a file that :meth:`save` has written.

        Draws, weights and summary are unchanged, and :func:`inference.svi` can go on from its
        state.

        Args:
            path: The file.
            guide: The guide of the fit, if it was a function or of a class of your own: a file
                keeps no code. With `guide` the result works as it did before it was saved. Without
                `guide` it has the parameters, the draws and the name of the guide.

        Raises:
            TypeError: if `guide` is not a guide.
            ValueError: if `path` holds something else, is damaged, or was written by a newer
                version of the library, if it keeps the guide itself, or if the result is of a guide
                with another name.
        """
        result = super().load(path)
        if guide is None:
            return result
        check_guide(guide)
        if not isinstance(result.guide, Absent):
            raise ValueError(
                f"{os.fspath(path)!r} keeps its guide, {result.guide}: load it without guide="
            )
        is_function = not hasattr(guide, "sample")
        given = GuideFunction.loaded(guide, result.guide_state) if is_function else guide  # pyright: ignore[reportArgumentType]
        saved = str(result.guide)
        name = str(given)
        if saved != name and " at 0x" not in saved + name:
            raise ValueError(f"{os.fspath(path)!r} is of the guide {saved}, got guide={name}")
        return dataclasses.replace(result, guide=given)

    def trace(self, block: int = BLOCK) -> ELBOTrace:
        """ELBO during the run, averaged over blocks of `block` steps, with standard errors.

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

    def _facts_of_run(self) -> Iterator[tuple[str, str]]:
        yield "guide", str(self.guide)
        yield "steps", str(int(self.state.step))
        yield "objective", getattr(self.objective, "name", "objective")

    def _curves(self) -> Iterator[tuple[str, Any, Any, str, str]]:
        block = max(min(BLOCK, len(self.elbos) // 20), 1)
        trace = self.trace(block)
        if len(trace.step) > 1:
            name = getattr(self.objective, "name", "objective")
            yield f"{name}, averaged over {block} steps", trace.step, trace.elbo, "step", name

    @property
    def _size(self) -> int:
        """Number of scalars in a draw."""
        return sum(int(np.prod(np.shape(x)[2:])) for x in jax.tree.leaves(self.draws))

    @property
    def _slower(self) -> str:
        """Start of a sentence with advice against the noise of batches; empty without batches."""
        if not self.batching:
            return ""
        num_steps = max(int(self.state.step), _MIN_STEPS)
        return (
            "Batches are noise, which a constant learning rate never averages out: let it fall, as "
            f"by optimizer=optax.adam(optax.cosine_decay_schedule(1e-2, {num_steps}))"
        )

    def _problems(self, summary: Summary) -> Iterator[str]:
        if self.failure:
            yield self.failure
        elbos = np.asarray(self.elbos, np.float64)
        name = getattr(self.objective, "name", "objective")  # a file keeps no user's objective
        if elbos.size:
            yield from _is_moving(elbos, name, self._slower)
            yield from _is_jumping(elbos, name, self._slower)
        yield from self.doubts
        if not self.guide.has_density:
            what = "is a point" if isinstance(self.guide, PointMass) else "has points"
            yield (
                f"{self.guide} {what}: the draws are copies of it, and say nothing of the "
                "posterior's spread there. Fit MeanField() or FullRank(), or use mcmc."
            )
        elif self.batching == "first":
            yield (
                "draws, ELBO and Pareto k are of the first batch alone, and say little of the fit: "
                "give svi all data or a part held out, as svi(key, model, *args, batches=loader), "
                "or make a result by svi(key, model, *args, state=result.state, num_steps=0)."
            )
        else:
            richer = _suggest_richer_guide(self.guide, self._size)
            if self._slower:
                richer = f"{self._slower}. If k stays, {richer[0].lower()}{richer[1:]}"
            size = self.log_weights.size
            yield from describe_tail(float(self.pareto_k), size, richer, self.noncentering)
            yield from self._describe_width()
        yield from describe_outside(self.log_density)
        yield from describe_unknown_means(summary)

    def _describe_width(self) -> Iterator[str]:
        """Warning if the guide is much wider than the posterior, which Pareto k cannot see.

        Reliable weights give an estimate of the log evidence. The log evidence minus the ELBO is
        the divergence KL(q || p) of the guide from the posterior. For a guide with twice the
        standard deviations of the posterior, the divergence is 0.8 for each coordinate.
        """
        weights = np.asarray(self.log_weights, np.float64).ravel()
        if not (self.pareto_k <= largest_pareto_k(weights.size) and np.isfinite(weights).all()):
            return
        evidence = np.logaddexp.reduce(weights) - np.log(weights.size)
        divergence = evidence - np.mean(weights)
        if divergence > _MAX_DIVERGENCE * max(self._size, 1):
            yield (
                f"the guide is {divergence:.2g} nats from the posterior, by its own weights: ELBO "
                f"{np.mean(weights):.2f}, evidence {evidence:.2f}. It is far wider than the "
                "posterior, so that spreads are too large. Go on, svi(..., state=result.state), "
                "with a larger learning rate, or start from inference.laplace, init=result."
            )


def _suggest_richer_guide(guide: Guide, size: int) -> str:
    """Suggestion of a guide for `size` scalars for which `guide` was too simple."""
    if isinstance(guide, NeuralSpline | InverseAutoregressive | MaskedAutoregressive):
        return "Use a flow with more layers and steps"
    if isinstance(guide, FullRank | Structured):
        return "Use a flow, as guide=NeuralSpline()"
    if size > _MANY:
        return "Use a richer guide, as LowRank(10) or Structured()"
    return "Use a richer guide, as FullRank() or NeuralSpline()"


def _is_moving(elbos: np.ndarray, name: str, slower: str) -> Iterator[str]:
    """Warning if the ELBO still moves, or if there are too few steps to tell.

    It moves if its mean over the last tenth of the steps differs from that over the tenth before.
    """
    if len(elbos) < _MIN_STEPS:
        yield (
            f"{len(elbos)} steps are too few to see whether the {name} still moves. Go on: "
            "svi(..., state=result.state)."
        )
        return
    size = len(elbos) // _SHARE
    before = elbos[-2 * size : -size]
    after = elbos[-size:]
    change = after.mean() - before.mean()
    error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / size)
    if abs(change) > max(_MOVES * error, _NATS):
        yield (
            f"the {name} still moves: in the last {size} steps it was {abs(change):.2g} "
            f"{'higher' if change > 0 else 'lower'} than in those before (standard error "
            f"{error:.2g}). Go on, svi(..., state=result.state), "
            f"{'or' if change > 0 else 'with a smaller learning rate, or'} start elsewhere, as by "
            f"init=inference.pathfinder(...).{f' {slower}.' if slower else ''}"
        )


def _is_jumping(elbos: np.ndarray, name: str, slower: str) -> Iterator[str]:
    """Warning if single steps jump further out than exponential tails reach.

    Only the last half of the steps counts.
    """
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
            "optax.adam(1e-2)), or reparameterize the model."
            f"{f' {slower}.' if slower else ''}"
        )
