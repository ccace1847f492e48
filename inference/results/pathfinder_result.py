"""Result of Pathfinder, with the resampling of its draws."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import numpy as np

from inference.common.threefry import seed_of
from inference.results.guide_result import (
    GuideResult,
    describe_outside,
    describe_tail,
    describe_unknown_means,
)
from inference.results.psis import psis_on_host
from inference.results.summary import Summary
from ppl.harvest.pytrees import register_dataclass

_LOW_ESS = 100  # draws; below, a warning
_REMEDY = "Raise history or num_paths, fit a guide to all of the posterior by svi, as FullRank()"


@register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class PathfinderResult(GuideResult):
    """Normal distributions on the paths to modes, and draws of them. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(1, draw, *shape)``, resampled by importance where
            there are several paths; a scope is a dict in the dict.
        log_density, log_weights, elbo, elbo_standard_error, pareto_k: See
            :class:`inference.GuideResult`. `elbo`, `elbo_standard_error` and `pareto_k` are
            computed from all draws of the guide, before resampling.
        guide: Family: a normal distribution, or a mixture of one normal distribution for each path.
        parameters: Parameters of the fitted member of the family.
        ess: Effective sample size of the smoothed weights of all draws of the guide.
        elbos: ELBO of the best distribution on each path, estimated on the path, ``(path,)``;
            minus infinity for a path without a distribution.
        best_steps: Iteration of the best distribution on each path, ``(path,)``.
        num_steps: Iterations of each path, ``(path,)``.
        has_ended: Whether each path came to a mode, ``(path,)``.
        max_steps: Maximum number of iterations of a path.
    """

    ess: Any
    elbos: Any
    best_steps: Any
    num_steps: Any
    has_ended: Any
    max_steps: Any
    _verdict: ClassVar[str] = "No problem found: Pareto k is low, and every path came to a mode."

    @property
    def is_resampled(self) -> bool:
        """Whether the draws are resampled, and so have equal weights."""
        return np.size(self.elbos) > 1

    @property
    def weights(self) -> np.ndarray:
        """Weights of the draws, ``(1, draw)``, which sum to 1."""
        log_weights = np.asarray(self.log_weights)
        return normalize_weights(np.zeros_like(log_weights) if self.is_resampled else log_weights)

    def _about(self) -> str:
        num_paths = np.size(self.elbos)
        num_draws = self.log_density.size
        how = f", resampled from {num_draws * num_paths}," if self.is_resampled else ""
        return (
            f"{num_draws} draws{how} of {num_paths} path{'s' * (num_paths > 1)}, whose best ELBO "
            f"is {np.max(self.elbos):.2f}; importance weights worth {self.ess:.0f} draws, Pareto k "
            f"{self.pareto_k:.2f}"
        )

    def _problems(self, summary: Summary) -> Iterator[str]:
        num_paths = self.elbos.size
        num_lost = int(np.sum(~np.isfinite(self.elbos)))
        if num_lost:
            yield (
                f"{num_lost} of {num_paths} paths are left out, as they had nowhere to go, or met "
                "no normal distribution with a finite ELBO. Start elsewhere, by init."
            )
        yield from self._short_of_modes()
        num_weighted = self.log_weights.size * num_paths
        yield from describe_tail(float(self.pareto_k), num_weighted, _REMEDY, self.noncentering)
        if self.ess < _LOW_ESS:
            effect = "are copies of a few" if self.is_resampled else "are far from the posterior"
            yield (
                f"the weights of all draws are worth {self.ess:.0f} draws only, so that those "
                f"returned {effect}: raise num_draws and num_paths, or use mcmc, started here by "
                "init=result."
            )
        yield from describe_outside(self.log_density)
        yield from describe_unknown_means(summary)

    def _short_of_modes(self) -> Iterator[str]:
        """Warnings for paths that ended short of a mode: cut off, or halted by rounding."""
        is_short = ~self.has_ended & np.isfinite(self.elbos)
        is_cut = self.num_steps >= self.max_steps
        num_cut = int(np.sum(is_short & is_cut))
        num_idle = int(np.sum(is_short & ~is_cut))
        if num_cut:
            yield (
                f"{num_cut} of {self.elbos.size} paths were still climbing when they ended, after "
                f"{int(self.max_steps)} steps: the mass may lie further up. Raise max_steps."
            )
        if num_idle:
            yield (
                f"{num_idle} of {self.elbos.size} paths came to a halt short of a mode, where no "
                "step gained more than rounding: the mass may lie further up. Use float64, or "
                "start elsewhere, by init, as where the density has no kinks."
            )


def normalize_weights(log_weights: np.ndarray) -> np.ndarray:
    """Smoothed weights that sum to 1, ``(1, draw)``.

    They are equal if the largest log weight is not finite.
    """
    smoothed = np.nan_to_num(psis_on_host(log_weights[0]).log_weights, nan=-np.inf)
    highest = np.max(smoothed)
    if not np.isfinite(highest):
        return np.full(log_weights.shape, 1 / log_weights.size)
    weights = np.exp(smoothed - highest)[None]
    return weights / np.sum(weights)


def resample_systematically(key: jax.Array, weights: np.ndarray, num_draws: int) -> np.ndarray:
    """Indices of draws by systematic resampling, in random order.

    Draw `s` appears ``num_draws * weights[s]`` times, rounded up or down.

    References:
        Kitagawa (1996), Monte Carlo filter and smoother for non-Gaussian nonlinear state space
        models, appendix, on systematic resampling.
    """
    rng = np.random.default_rng(np.asarray(seed_of(key)))
    levels = (np.arange(num_draws) + rng.uniform()) / num_draws
    below = np.cumsum(weights)
    return rng.permutation(np.searchsorted(below[:-1] / below[-1], levels, side="right"))
