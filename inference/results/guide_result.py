"""Base of the results of drivers that fit a guide, with warnings that they share."""

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from inference.common.serialization import Absent
from inference.guides.guide import Guide
from inference.results.problems import REPARAM, UNDO
from inference.results.psis import largest_pareto_k
from inference.results.result import Result
from inference.results.summary import Summary, describe


@dataclasses.dataclass(frozen=True)
class GuideResult(Result, abc.ABC):
    """A guide fitted to a posterior, and draws of it.

    Attributes:
        draws: Values of the latent sites, ``(1, draw, *shape)``; a scope is a dict in the dict.
        log_density: Log density of the model at the draws, on unconstrained space, ``(1, draw)``.
        log_weights: Log importance weights of the draws, ``(1, draw)``: `log_density` minus the
            log density of the guide. Their mean is the ELBO.
        elbo: ELBO of `parameters`, estimated from the draws.
        elbo_standard_error: Standard error of `elbo`.
        pareto_k: Shape of the tail of the importance weights; see :func:`inference.psis`. Up to
            0.7 the guide covers the posterior. NaN for a guide without a density.
        guide: Family of distributions.
        parameters: Parameters of the fitted member of the family.
        noncentering: Whether ``ppl.auto_reparam`` would change sites, as :class:`MCMCResult` has
            it; `None` if it was not looked for, as Pareto k is low.
    """

    draws: dict[str, Any]
    log_density: Any
    log_weights: Any
    elbo: Any
    elbo_standard_error: Any
    pareto_k: Any
    guide: Guide
    parameters: Any
    noncentering: str | None = dataclasses.field(
        default=None, kw_only=True, metadata={"static": True}
    )
    _verdict: ClassVar[str]

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        summary = describe(self.draws, sites=self.sites, intervals=intervals)
        problems = tuple(self._problems(summary))
        return dataclasses.replace(
            summary, problems=problems, about=self._about(), verdict=self._verdict
        )

    @abc.abstractmethod
    def _about(self) -> str:
        """Line about how the draws were made."""

    @abc.abstractmethod
    def _problems(self, summary: Summary) -> Iterator[str]:
        """Warnings about the fit."""

    def guide_function(self) -> Callable[..., Any]:
        """Fitted guide as a model of the latent sites, for a guide that is a function.

        Raises:
            TypeError: if the guide is not a function, or was not given when loading from a file.

        Example:
            >>> import jax, ppl, distributions as dist
            >>> from inference import svi
            >>> def model(key):
            ...     return ppl.sample(key, dist.Normal(3.0, 1.0), name="x")
            >>> def guide(key):
            ...     return ppl.sample(key, dist.Normal(ppl.param(0.0, name="loc"), 1.0), name="x")
            >>> result = svi(jax.random.key(0), model, guide=guide, num_steps=2000)
            >>> fitted, key = result.guide_function(), jax.random.key(1)
            >>> bool(abs(fitted(key) - guide(key) - 3.0) < 0.1)
            True
        """
        at: Any = getattr(self.guide, "at", None)
        if at is None and isinstance(self.guide, Absent):
            raise TypeError(
                f"the guide {self.guide} is of a file, which keeps no functions: give it when "
                "loading, SVIResult.load(path, guide=guide)"
            )
        if at is None:
            raise TypeError(f"the guide is no function, but {self.guide}: draw by its `sample`")
        return at(self.parameters)

    def __repr__(self) -> str:
        num_draws = np.shape(self.log_density)[1]
        return f"{type(self).__name__}({self.guide}, {num_draws} draws: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {"lp": self.log_density, "log_weights": self.log_weights}


def standard_error(log_weights: np.ndarray) -> np.ndarray:
    """Standard error of the ELBO, which is the mean of the log weights.

    It is NaN for one draw, or if a log weight is minus infinity.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.std(log_weights, dtype=np.float64) / np.sqrt(log_weights.size - 1)


def describe_tail(
    pareto_k: float,
    num_draws: int,
    remedy: str = "Use a richer guide, as FullRank()",
    noncentering: str | None = None,
) -> Iterator[str]:
    """Warning if Pareto k of `num_draws` weights is unknown or too large.

    Args:
        pareto_k: Estimated shape of the tail.
        num_draws: Number of weights.
        remedy: First thing to try, as a sentence without its end.
        noncentering: Whether ``ppl.auto_reparam`` would change sites; see :class:`RunFacts`.
    """
    largest = largest_pareto_k(num_draws)
    if np.isnan(pareto_k):
        yield f"{num_draws} draws are too few for Pareto k: ask for num_draws=1000."
    elif pareto_k > largest:
        may_reparam = noncentering in (None, "possible")
        reparam = f"reparameterize the model, as by {REPARAM}, " if may_reparam else ""
        undo = f" {UNDO}" if noncentering == "done" else ""
        yield (
            f"Pareto k is {pareto_k:.2f}, above {largest:.2g}: the guide misses much of the "
            "posterior, so that means and spreads may be far off, and importance weights cannot "
            f"mend it. {remedy}, {reparam}or use mcmc.{undo}"
        )


def describe_outside(log_density: np.ndarray) -> Iterator[str]:
    """Warning if draws of a guide have posterior density 0."""
    num_outside = int(np.sum(np.isneginf(log_density)))
    if num_outside:
        yield (
            f"{num_outside} of {np.size(log_density)} draws are where the posterior has no "
            "density, and the ELBO is minus infinity: give sites the supports that they have, as "
            "by dist.TruncatedNormal, or use mcmc."
        )


def describe_unknown_means(summary: Summary) -> Iterator[str]:
    """Warning if scalars have draws that are not finite."""
    unknown = np.flatnonzero(~np.isfinite(summary.mean))
    if unknown.size:
        yield (
            f"{unknown.size} of {len(summary)} scalars, {summary.names[unknown[0]]} first, "
            "have draws that are not finite: look for overflow in the transformation of these "
            "sites."
        )
