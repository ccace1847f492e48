"""Result of importance sampling: draws with weights, and the evidence."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from inference.results.pathfinder_result import resample_systematically
from inference.results.psis import largest_pareto_k
from inference.results.result import Result
from inference.results.summary import Summary, describe
from ppl.harvest.pytrees import register_dataclass

_LOW_ESS = 100  # draws; below, a warning


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ImportanceResult(Result):
    r"""Draws with importance weights. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(1, draw, *shape)``; a scope is a dict in the dict.
        log_weights: Log weights before smoothing, ``(1, draw)``.
        weights: Smoothed weights, normalized to sum to 1, ``(1, draw)``.
        log_evidence: Logarithm of the mean of the smoothed weights.
        log_evidence_standard_error: Standard error of `log_evidence`: the relative standard error
            of the mean weight.
        ess: Effective sample size of the weights, :math:`1 / \sum w_s^2`.
        pareto_k: Shape of the tail of the weights; see :func:`inference.psis`.
        nan: Words on why the first log weight that is NaN is so; `None` if none is, or if no reason
            is known.
    """

    draws: dict[str, Any]
    log_weights: Any
    weights: Any
    log_evidence: Any
    log_evidence_standard_error: Any
    ess: Any
    pareto_k: Any
    nan: str | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})

    def resample(self, key: jax.Array, num_draws: int) -> dict[str, Any]:
        """Draws without weights, ``(draw, *shape)``, by systematic resampling, in random order.

        A draw appears ``num_draws`` times its weight, rounded up or down.

        ``mcmc(..., init=result.resample(key, 4))`` starts four chains there.

        Raises:
            ValueError: if the weights have no finite sum.
        """
        chosen = self._choose(key, num_draws)
        return jax.tree.map(lambda x: np.asarray(x)[0][chosen], self.draws)

    def _choose(self, key: jax.Array, num_draws: int) -> np.ndarray:
        """Indices of draws by their weights."""
        if not np.isfinite(self.log_evidence):
            raise ValueError(f"there is nothing to draw from: {next(self._problems())}")
        weights = np.asarray(self.weights[0], np.float64)
        return resample_systematically(key, weights, num_draws)

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        num_draws = self.weights.size
        about = (
            f"{num_draws} draws with weights, worth {self.ess:.0f} without; log evidence "
            f"{self.log_evidence:.2f} (standard error {self.log_evidence_standard_error:.2g}), "
            f"Pareto k {self.pareto_k:.2f}"
        )
        verdict = f"No problem found: Pareto k is low, and ESS at least {_LOW_ESS}."
        summary = describe(self.draws, self.weights[0], self.sites, intervals)
        problems = tuple(self._problems())
        return dataclasses.replace(summary, problems=problems, about=about, verdict=verdict)

    def _problems(self) -> Iterator[str]:
        num_draws = self.weights.size
        pareto_k = float(self.pareto_k)
        if not np.isfinite(self.log_evidence):
            yield self._without_sum()
            return
        largest = largest_pareto_k(num_draws)
        if np.isnan(pareto_k):
            yield f"{num_draws} draws are too few for Pareto k: ask for 1000 at least."
        elif pareto_k > largest:
            yield (
                f"Pareto k is {pareto_k:.2f}, above {largest:.2g}: a few draws carry most of the "
                "weight, and neither means nor the evidence nor its standard error can be trusted. "
                "Draw from a guide that is closer to the posterior, guide=svi(...), or use mcmc."
            )
        if self.ess < _LOW_ESS:
            yield (
                f"the weights are worth {self.ess:.0f} draws only: raise num_draws, or draw from "
                "a guide, guide=svi(...)."
            )

    def _without_sum(self) -> str:
        """The problem of weights whose sum is not finite."""
        what = f"the log weights have no finite sum, but {self.log_evidence}"
        if self.nan is None:
            return (
                f"{what}: look for values outside of their support, and for NaN in the log density."
            )
        num_nan = int(np.sum(np.isnan(self.log_weights)))
        return f"{what}, as {num_nan} of {self.weights.size} are NaN. At the first one, {self.nan}."

    def _equally_weighted(self) -> "ImportanceResult":
        """Result of as many draws, resampled by their weights; the result itself if these agree.

        Raises:
            ValueError: if the weights have no finite sum.
        """
        if np.ptp(self.weights) == 0:
            return self
        chosen = self._choose(jax.random.key(0), self.weights.size)
        equal = np.full_like(self.weights, 1 / self.weights.size)
        draws = jax.tree.map(lambda x: np.asarray(x)[:, chosen], self.draws)
        log_weights = np.full_like(self.log_weights, self.log_evidence)
        return dataclasses.replace(self, draws=draws, log_weights=log_weights, weights=equal)

    def _notes(self) -> dict[str, Any]:
        note = f"systematic, by importance weights that are worth {self.ess:.0f} draws"
        return {"resampling": note}

    def __repr__(self) -> str:
        return f"ImportanceResult({np.shape(self.weights)[1]} draws: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {"log_weights": self.log_weights, "weights": self.weights}
