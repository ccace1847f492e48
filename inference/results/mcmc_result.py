"""Result of Markov chain Monte Carlo."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from inference.common.matrices import kind_of
from inference.common.warm_up import WarmUp
from inference.results.particles import describe_particles
from inference.results.problems import describe_checks, find_problems
from inference.results.psis import largest_pareto_k
from inference.results.result import Result
from inference.results.run_facts import RunFacts
from inference.results.summary import Summary, summarize
from inference.results.tempering import describe_tempering
from inference.results.updatable import Updatable

ARVIZ_NAMES = {
    "is_divergent": "diverging",
    "num_steps": "n_steps",
    "depth": "tree_depth",
    "is_truncated": "reached_max_treedepth",
    "log_density": "lp",
}
_MORE = "Draw more: give a larger num_draws or more seconds."


@dataclasses.dataclass(frozen=True)
class MCMCResult(Updatable, Result):
    """Draws of several chains and the statistics of the sampler that made them. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(chain, draw, *shape)``; a scope is a dict in the dict.
        stats: Statistics of each transition, ``(chain, draw)``, by name: the kernel's info, and
            `log_density` (on unconstrained space, in the coordinates of `centering`) if its state
            has one. The statistics of NUTS and
            HMC include `is_divergent`, `energy`, `acceptance_rate`, `num_steps` and `step_size`.
        inverse_mass_matrix: Inverse mass matrix after warm-up, in the order of the leaves of
            unconstrained space in the coordinates of `centering`, or of the standard coordinates of
            a run with `transport`; by kind:

            - diagonal: ``(chain, size)``;
            - dense: ``(chain, size, size)``;
            - low-rank: a :class:`LowRankMatrix` with the chains in front;
            - `None` for a kernel without one.
        facts: Facts of the run that choose the advice of the summary. They are part of the tree
            structure. Yet the structures of two results are equal even if their facts differ, so
            that ``jax.tree.map`` may join the results.
        chains: States of the chains at the end and settings of the run, from which
            :func:`inference.resume` goes on; `None` where they are elsewhere or unknown. The pytree
            does not contain them: ``jax.tree.map`` leaves them out.
        centering: Weights that warm-up learned, or with ``transport=True`` the fit, by site, see
            ``ppl.LearnedCentering``: one for each element, ``(chain, *shape)``, from 0
            (non-centered) to 1 (the coordinates of the model). Empty where nothing was learned.
        warmup: What warm-up did, by chain and window, see :class:`WarmUp`: step sizes, gradients,
            divergences and mass matrices. `None` without a warm-up, for kernels that it does not
            adapt, and for ensemble kernels, which adapt by rules of their own. On an accelerator,
            also `None` where chains have so many coordinates together that a log would cost time.
            The pytree has it as a part of its structure, as it has no axis of draws.
    """

    draws: dict[str, Any]
    stats: dict[str, Any]
    inverse_mass_matrix: Any
    facts: RunFacts = dataclasses.field(default=RunFacts(), metadata={"static": True})
    chains: dict[str, Any] | None = dataclasses.field(default=None, kw_only=True, compare=False)
    centering: dict[str, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    warmup: WarmUp | None = dataclasses.field(default=None, kw_only=True, compare=False)

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        num_chains = len(jax.tree.leaves((self.stats, self.draws))[0])
        is_whole = self.facts.num_chains == num_chains  # no chain was taken out
        superchains = self.facts.num_superchains if is_whole else None
        ended = self.facts.ended
        summary = summarize(self.draws, self.sites, intervals, superchains)
        if superchains is not None:
            about = f"{num_chains} chains x {summary.num_draws} draws"
            about += f"; R-hat nested, of {superchains} superchains that share a start each"
            summary = dataclasses.replace(summary, about=about)
        further = [f"transported by {self.facts.transport}"] * bool(self.facts.transport)
        further += describe_tempering(self.stats)
        further += describe_particles(self.stats)
        if "estimate_variance" in self.stats:
            variance = float(np.mean(self.stats["estimate_variance"]))
            further.append(f"posterior perturbed, log likelihoods of variance {variance:.2g}")
        further += [ended] * bool(ended and not self.facts.is_unmet)
        if further:
            about = summary.about or f"{num_chains} chains x {summary.num_draws} draws"
            summary = dataclasses.replace(summary, about="; ".join([about, *further]))
        matrix = self.inverse_mass_matrix
        kind = None if matrix is None else kind_of(jax.tree.map(lambda x: x[0], matrix))
        warmup = self.warmup
        if warmup is not None and warmup.mass_matrix == "block":
            kind = "block"
        facts = dataclasses.replace(self.facts, mass_matrix=kind, num_superchains=superchains)
        if warmup is not None and len(warmup.step_size) != num_chains:
            warmup = None  # some chains were taken out, and their numbers are unknown
        problems = find_problems(self.draws, self.stats, summary, facts, warmup)
        problems = (*_approximation_problems(facts), *problems)
        if facts.is_unmet:
            problems = (f"the run ended early: {ended}. {_MORE}", *problems)
        verdict = describe_checks(self.stats, summary, facts) + _words_on_modes(facts)
        return dataclasses.replace(summary, problems=problems, verdict=verdict)

    def _facts_of_run(self) -> Iterator[tuple[str, str]]:
        facts = self.facts
        if facts.kernel is not None:
            yield "kernel", facts.kernel
        if facts.num_warmup is not None:
            yield "warm-up", f"{facts.num_warmup} iterations"
        if self.warmup is not None:
            yield "mass matrix", self.warmup.mass_matrix.replace("_", "-")
        if facts.target_acceptance_rate is not None:
            yield "target acceptance rate", f"{facts.target_acceptance_rate:g}"
        if facts.init is not None:
            yield "start", facts.init
        if "is_divergent" in self.stats:
            yield "divergences", str(int(np.sum(self.stats["is_divergent"])))
        if self.chains is not None:
            key = self.chains["settings"]["key"]
            words = " ".join(map(str, np.ravel(key["words"])))
            yield "key", f"{key['impl'] or 'of the old type'}, words {words}"
        if facts.seconds is not None:
            yield "time", f"{facts.seconds:.1f} s, with compilation"
        if facts.device is not None:
            yield "device", facts.device

    def __repr__(self) -> str:
        num_chains, num_draws = np.shape(jax.tree.leaves((self.stats, self.draws))[0])[:2]
        return f"MCMCResult({num_chains} chains x {num_draws} draws: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {ARVIZ_NAMES.get(name, name): x for name, x in self.stats.items()}


def _approximation_problems(facts: RunFacts) -> Iterator[str]:
    """Warnings where Laplace's approximation of sites is poor, or is about one of several modes."""
    if facts.approximate is None:
        return
    names, pareto_k, num_draws = facts.approximate
    limit = largest_pareto_k(num_draws)
    is_one = len(names) == 1
    sites, these = ("site", "this site") if is_one else ("sites", "these sites")
    named = f"{sites} {', '.join(map(repr, names))}"
    if (facts.num_inner_modes or 0) > 1:
        yield (
            f"{named} {'has' if is_one else 'have'} more modes than one given the rest, and "
            "ppl.Laplace is about one of them: the draws, and those of ppl.recover with their "
            f"weights, lack the others, and Pareto k does not tell. Sample {these} instead, by "
            "mcmc or smc."
        )
    if pareto_k > limit:
        yield (
            f"ppl.Laplace is a poor approximation for {named}: Pareto k {pareto_k:.2f} exceeds "
            f"{limit:.2f}. The draws are those of an approximate posterior, too far off for the "
            f"weights of ppl.recover to correct them. Sample {these} instead."
        )


def _words_on_modes(facts: RunFacts) -> str:
    """Words on modes of approximate sites, where no problem was found."""
    if facts.approximate is None:
        return ""
    names = ", ".join(facts.approximate[0])
    if facts.num_inner_modes == 1:
        return f" One mode of {names} given the rest was found."
    return f" {names} may have other modes given the rest: no search has ended."


class _Static:
    """Facts, sites and warm-up as a part of the tree structure; equal for any two results.

    Weights on the host are a part of it, too: they have no axis of draws that a map could thin.
    Within a program, and of a program's result, they are leaves.
    """

    def __init__(self, result: MCMCResult, centering: dict[str, Any] | None) -> None:
        self.facts = result.facts
        self.sites = result.sites
        self.centering = centering
        self.warmup = result.warmup

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static)

    def __hash__(self) -> int:
        return 0


_LEAVES = "draws", "stats", "inverse_mass_matrix", "centering"


def _flatten(result: MCMCResult) -> tuple[tuple[Any, ...], _Static]:
    children = [getattr(result, name) for name in _LEAVES]
    on_host = all(isinstance(x, np.ndarray) for x in jax.tree.leaves(result.centering))
    static = _Static(result, result.centering if on_host else None)
    return (*children[:-1], None if on_host else children[-1]), static


def _flatten_with_keys(result: MCMCResult) -> tuple[tuple[Any, ...], _Static]:
    children, static = _flatten(result)
    return tuple(zip(map(GetAttrKey, _LEAVES), children, strict=True)), static


def _unflatten(static: _Static, children: Any) -> MCMCResult:
    given = dict(zip(_LEAVES, children, strict=True))
    if static.centering is not None:
        given["centering"] = static.centering
    return MCMCResult(**given, facts=static.facts, sites=static.sites, warmup=static.warmup)


register_pytree_with_keys(MCMCResult, _flatten_with_keys, _unflatten, _flatten)
