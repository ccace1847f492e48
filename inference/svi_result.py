"""What variational inference returns."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.descent import BLOCK, SVIState
from inference.guides import Guide
from inference.names import named_leaves
from inference.pareto import largest_pareto_k
from inference.summary import Summary, describe

_LEAST_STEPS, _SHARE = 100, 10
_MOVES, _NATS = 4.0, 0.1


class Trace(NamedTuple):
    """The ELBO during an optimisation, averaged over blocks of steps.

    Attributes:
        step: The last step of each block, ``(block,)``.
        elbo: Mean of the ELBO over the block's steps.
        standard_error: Its standard error; where the ELBO rises within a block, that is in it.
    """

    step: np.ndarray
    elbo: np.ndarray
    standard_error: np.ndarray


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SVIResult:
    """A guide fitted to a posterior, and draws of it. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(1, draw, *shape)``; a scope is a dict in the dict.
        log_density: Log density of the model at the draws, on unconstrained space, ``(1, draw)``.
        log_weights: The same less the guide's log density, ``(1, draw)``: their mean is the ELBO.
        elbo: The ELBO of `parameters`, from the draws.
        elbo_standard_error: Its standard error.
        pareto_k: Shape of the tail of the importance weights: up to 0.7 the guide covers the
            posterior; see :func:`inference.psis`. NaN for a guide without a density.
        elbos: Estimate of the ELBO at each step of this run, ``(step,)``.
        guide: The family.
        parameters: The member of it that was found: the average of the later steps' parameters.
        state: To go on from: ``svi(..., state=result.state)``. It has the last parameters.
        failure: Why the run stopped early, in words; empty if it did not.
    """

    draws: dict[str, Any]
    log_density: Any
    log_weights: Any
    elbo: Any
    elbo_standard_error: Any
    pareto_k: Any
    elbos: Any
    guide: Guide
    parameters: Any
    state: SVIState
    failure: str = dataclasses.field(default="", metadata={"static": True})

    def trace(self, block: int = BLOCK) -> Trace:
        """The ELBO during the run, averaged over blocks of so many steps, and its standard error.

        Steps that do not fill a block are left out.
        """
        num_blocks = len(self.elbos) // block
        blocks = np.asarray(self.elbos[: num_blocks * block], np.float64).reshape(-1, block)
        first = int(self.state.step) - len(self.elbos)
        steps = first + block * np.arange(1, num_blocks + 1)
        errors = blocks.std(1, ddof=1) / np.sqrt(block) if block > 1 else np.nan * blocks[:, 0]
        return Trace(steps, blocks.mean(1), errors)

    def summary(self) -> Summary:
        """Means and quantiles of every scalar under the guide, and whether to trust them."""
        about = (
            f"{self.log_density.size} draws of {self.guide} after {int(self.state.step)} steps; "
            f"ELBO {self.elbo:.2f} (standard error {self.elbo_standard_error:.2g}), Pareto k "
            f"{self.pareto_k:.2f}"
        )
        verdict = "No problem found: Pareto k is low, and the ELBO has stopped rising."
        summary = describe(self.draws)
        problems = tuple(self._problems(summary))
        return dataclasses.replace(summary, problems=problems, about=about, verdict=verdict)

    def _problems(self, summary: Summary) -> Iterator[str]:
        if self.failure:
            yield self.failure
        yield from _moving(np.asarray(self.elbos, np.float64))
        if not self.guide.has_density:
            yield (
                f"{self.guide} is a point: the draws are copies of it, and say nothing of the "
                "posterior's spread. Fit MeanField() or FullRank(), or use mcmc."
            )
        else:
            yield from _tail(float(self.pareto_k), self.log_weights.size)
        unknown = np.flatnonzero(~np.isfinite(summary.mean))
        if unknown.size:
            yield (
                f"{unknown.size} of {len(summary)} scalars, {summary.names[unknown[0]]} first, "
                "have draws that are not finite: look for overflow in the transformation of these "
                "sites."
            )

    def __repr__(self) -> str:
        sites = ", ".join(f"{name} {np.shape(x)[2:]}" for name, x in named_leaves(self.draws))
        return f"SVIResult({self.guide}, {np.shape(self.log_density)[1]} draws: {sites})"


def _moving(elbos: np.ndarray) -> Iterator[str]:
    """Whether the last tenth of the steps has another ELBO than the tenth before."""
    if len(elbos) < _LEAST_STEPS:
        yield (
            f"{len(elbos)} steps are too few to see whether the ELBO still moves. Go on: "
            "svi(..., state=result.state)."
        )
        return
    size = len(elbos) // _SHARE
    before, after = elbos[-2 * size : -size], elbos[-size:]
    change = after.mean() - before.mean()
    error = np.sqrt((before.var(ddof=1) + after.var(ddof=1)) / size)
    if abs(change) > max(_MOVES * error, _NATS):
        yield (
            f"the ELBO still moves: in the last {size} steps it was {abs(change):.2g} "
            f"{'higher' if change > 0 else 'lower'} than in those before (standard error "
            f"{error:.2g}). Go on, svi(..., state=result.state), "
            f"{'or' if change > 0 else 'with a smaller learning rate, or'} start elsewhere."
        )


def _tail(pareto_k: float, num_draws: int) -> Iterator[str]:
    """What the tail of the weights of so many draws says."""
    largest = largest_pareto_k(num_draws)
    if np.isnan(pareto_k):
        yield f"{num_draws} draws are too few for Pareto k: ask for num_draws=1000."
    elif pareto_k > largest:
        yield (
            f"Pareto k is {pareto_k:.2f}, above {largest:.2g}: the guide misses much of the "
            "posterior, so that means and spreads may be far off, and importance weights cannot "
            "mend it. Use a richer guide, as FullRank(), reparameterise the model, as by "
            "ppl.reparam(model, ppl.auto_reparam), or use mcmc."
        )
