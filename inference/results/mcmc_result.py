"""Result of Markov chain Monte Carlo."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from inference.common.matrices import kind_of
from inference.results.problems import describe_checks, find_problems
from inference.results.psis import largest_pareto_k
from inference.results.result import Result
from inference.results.summary import Summary, summarize

ARVIZ_NAMES = {
    "is_divergent": "diverging",
    "num_steps": "n_steps",
    "depth": "tree_depth",
    "is_truncated": "reached_max_treedepth",
    "log_density": "lp",
}
_MORE = "Draw more: give a larger num_draws or more seconds."


@dataclasses.dataclass(frozen=True)
class MCMCResult(Result):
    """Draws of several chains and the statistics of the sampler that made them. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(chain, draw, *shape)``; a scope is a dict in the dict.
        stats: Statistics of each transition, ``(chain, draw)``, by name: the kernel's info, and
            `log_density` (on unconstrained space) if its state has one. NUTS and HMC have
            `is_divergent`, `energy`, `acceptance_rate`, `num_steps` and `step_size` among them.
        inverse_mass_matrix: Inverse mass matrix after warm-up, in the order of the leaves of
            unconstrained space, by kind:

            - diagonal: ``(chain, size)``;
            - dense: ``(chain, size, size)``;
            - low-rank: a :class:`LowRankMatrix` with the chains in front;
            - `None` for a kernel without one.
        settings: Pairs of name and value that choose the advice of the summary; none of them where
            they are unknown, as in older files. They are part of the tree structure, but results of
            different settings have equal structures, so that ``jax.tree.map`` may join them:

            - `num_warmup`;
            - `target_acceptance_rate`, `None` if nothing was adapted to it;
            - `init`, its name or `None`;
            - `num_coordinates`, of unconstrained space;
            - `noncentering`, whether ``ppl.auto_reparam`` would change sites: ``"possible"``,
              ``"impossible"``, or ``"done"`` if it would not and some are reparameterized already;
              `None` if it was not looked for, as nothing diverged, and E-BFMI and ESS are high;
            - `nan`, words for a point near the draws where the log density is NaN, if one was found
              after divergences;
            - `approximate`, given if ``ppl.Laplace`` has taken sites out of the model: their names,
              Pareto k of the weights of `ppl.recover`, and the number of draws it is from;
            - `ended`, words on why the run ended, and `is_unmet`, whether that was before what
              `until` asks for held; given with `until` and after an interrupt;
            - `is_ensemble`, given if chains adapted together;
            - with it `num_chains`, and `num_superchains`, groups of consecutive chains that share a
              start, or `None`; with groups, R-hat in the summary is :func:`nested_rhat`.
        chains: States of the chains at the end and settings of the run, from which
            :func:`inference.resume` goes on; `None` where they are elsewhere or unknown. They are
            no part of the pytree: ``jax.tree.map`` leaves them out.
    """

    draws: dict[str, Any]
    stats: dict[str, Any]
    inverse_mass_matrix: Any
    settings: tuple[tuple[str, Any], ...] = dataclasses.field(default=(), metadata={"static": True})
    chains: dict[str, Any] | None = dataclasses.field(default=None, kw_only=True, compare=False)

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        given = dict(self.settings)
        num_chains = len(jax.tree.leaves((self.stats, self.draws))[0])
        is_whole = given.pop("num_chains", None) == num_chains  # no chain was taken out
        superchains = given.pop("num_superchains", None)
        superchains = superchains if is_whole else None
        ended, is_unmet = given.pop("ended", ""), given.pop("is_unmet", False)
        summary = summarize(self.draws, self.sites, intervals, superchains)
        if superchains is not None:
            about = f"{num_chains} chains x {summary.num_draws} draws"
            about += f"; R-hat nested, of {superchains} superchains that share a start each"
            summary = dataclasses.replace(summary, about=about)
        if ended and not is_unmet:
            about = summary.about or f"{num_chains} chains x {summary.num_draws} draws"
            summary = dataclasses.replace(summary, about=f"{about}; {ended}")
        matrix = self.inverse_mass_matrix
        kind = None if matrix is None else kind_of(jax.tree.map(lambda x: x[0], matrix))
        settings = {"mass_matrix": kind, "num_superchains": superchains, **given}
        problems = find_problems(self.draws, self.stats, summary, settings)
        problems = (*_approximation_problems(given.get("approximate")), *problems)
        if is_unmet:
            problems = (f"the run ended early: {ended}. {_MORE}", *problems)
        verdict = describe_checks(self.stats, summary, settings)
        return dataclasses.replace(summary, problems=problems, verdict=verdict)

    def __repr__(self) -> str:
        num_chains, num_draws = np.shape(jax.tree.leaves((self.stats, self.draws))[0])[:2]
        return f"MCMCResult({num_chains} chains x {num_draws} draws: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {ARVIZ_NAMES.get(name, name): x for name, x in self.stats.items()}


def _approximation_problems(found: tuple[Sequence[str], float, int] | None) -> Iterator[str]:
    """A warning where Laplace's approximation of sites that were taken out is poor."""
    if found is None or found[1] <= (limit := largest_pareto_k(found[2])):
        return
    names, pareto_k, _ = found
    sites, these = ("sites", "these sites") if len(names) > 1 else ("site", "this site")
    yield (
        f"ppl.Laplace is a poor approximation for {sites} {', '.join(map(repr, names))}: Pareto k "
        f"{pareto_k:.2f} exceeds {limit:.2f}. The draws are those of an approximate posterior, too "
        f"far off for the weights of ppl.recover to correct them. Sample {these} instead."
    )


class _Settings:
    """Settings and sites as a part of the tree structure, equal to those of all other results."""

    def __init__(self, result: MCMCResult) -> None:
        self.settings, self.sites = result.settings, result.sites

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Settings)

    def __hash__(self) -> int:
        return 0


_LEAVES = "draws", "stats", "inverse_mass_matrix"


def _flatten(result: MCMCResult) -> tuple[tuple[Any, ...], _Settings]:
    return tuple(getattr(result, name) for name in _LEAVES), _Settings(result)


def _flatten_with_keys(result: MCMCResult) -> tuple[tuple[Any, ...], _Settings]:
    children, settings = _flatten(result)
    return tuple(zip(map(GetAttrKey, _LEAVES), children, strict=True)), settings


def _unflatten(settings: _Settings, children: Any) -> MCMCResult:
    draws, stats, inverse_mass_matrix = children
    return MCMCResult(draws, stats, inverse_mass_matrix, settings.settings, sites=settings.sites)


register_pytree_with_keys(MCMCResult, _flatten_with_keys, _unflatten, _flatten)
