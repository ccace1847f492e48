"""Result of sequential Monte Carlo: particles of a posterior, and its evidence."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from inference.results.diagnostics import MIN_DRAWS, rhat_and_ess_bulk
from inference.results.evidence import Evidence
from inference.results.label_switching import (
    as_many_entries,
    find_assignments,
    find_switching,
    names_in_words,
    remedy_of_switching,
)
from inference.results.result import Result
from inference.results.summary import Summary, describe, summarize
from inference.results.summary_columns import COLUMNS
from inference.results.updatable import Updatable
from ppl.harvest.pytrees import register_dataclass

_MIN_ESS = 100
_MAX_SE = 0.5  # nats; a larger standard error is itself uncertain
_MIN_POSSIBLE = 100  # particles with a likelihood above 0
_MIN_DECISIVE = 8.0  # effective number of chains in an error; of normal parts, a third of all
_FEW_CHAINS = 16  # with fewer, effective numbers tell nothing
_MIN_ANCESTORS = 10
_MAX_RHAT = 1.1  # of chains that forget where they started
_MIN_RATE = 0.1  # acceptance
_MANY = 100  # temperatures
_MAX_DIVERGENT = 0.01  # share of moves


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SMCResult(Updatable, Result):
    """Particles of a posterior with equal weights, by sequential Monte Carlo. A pytree.

    Attributes:
        draws: Values of the latent sites at the particles, ``(1, particle, *shape)``; a scope is a
            dict in the dict. The states of one chain of the last move stand side by side.
        stats: Statistics of each particle, ``(1, particle)``: `log_density` on unconstrained space,
            in the coordinates of `centering`, and `log_likelihood`.
        log_evidence: Estimate of the log evidence; NaN for data that come after a result of
            :func:`mcmc`.
        standard_error: Its standard error, from the spread of families of chains.
        steps: Steps from the start to the posterior, ``(step,)`` each: `place` on the path from 0
            to 1, `temperature` of the last term, `ess` of the weights, `log_increment` of the
            evidence, `num_possible` particles with a likelihood above 0, `num_undefined` ones where
            it is NaN or infinite, `num_ancestors` among the first particles, `num_distinct`
            particles that were resampled, `num_decisive` chains (in the first step, draws of the
            prior) from which the error of the increment comes, and of the moves `step_size`,
            `acceptance_rate` and `num_divergent`.
        num_chains: Number of chains of the last move, all of the same length.
        digest: Checksum of the observed numbers, see :class:`Evidence`; `None` if it is not known.
        num_observed: How many numbers are observed; `None` if it is not known.
        note: How well the draws of an earlier result carried new rows or another model, in words.
        centering: Weights of centering by site, ``(1, *shape)``, from an earlier result of
            :func:`mcmc`, which has learned them; empty if there are none.
        nan: Words on why the log likelihood is NaN or infinite at a draw of the prior; `None` if
            it is so at none, or if no reason is known.
    """

    draws: dict[str, Any]
    stats: dict[str, Any]
    log_evidence: Any
    standard_error: Any
    steps: dict[str, Any]
    num_chains: int = dataclasses.field(metadata={"static": True})
    digest: int | None = dataclasses.field(default=None, metadata={"static": True})
    num_observed: int | None = dataclasses.field(default=None, metadata={"static": True})
    note: str = dataclasses.field(default="", metadata={"static": True})
    centering: dict[str, Any] = dataclasses.field(default_factory=dict)
    nan: str | None = dataclasses.field(default=None, metadata={"static": True})

    def _summarize(self, intervals: float | Sequence[float]) -> Summary:
        num_particles = np.shape(self.stats["log_density"])[1]
        length = num_particles // self.num_chains
        chains = self.chains()
        if length >= MIN_DRAWS:
            summary = summarize(chains, self.sites, intervals)
            columns = tuple(name for name in COLUMNS if name != "rhat")
            summary = dataclasses.replace(summary, columns=columns)
        else:
            summary = describe(self.draws, sites=self.sites, intervals=intervals)
        num_steps = len(self.steps["temperature"])
        about = (
            f"{num_particles} particles, {self.num_chains} chains of {length} states, after "
            f"{num_steps} step{'s' * (num_steps != 1)}"
        )
        if not math.isnan(self.log_evidence):
            error = float(self.standard_error)
            about += f"; log evidence {float(self.log_evidence):.2f} (standard error {error:.2g})"
        about += f"; {self.note}" * bool(self.note)
        error = f" standard error of the log evidence at most {_MAX_SE},"
        error *= not math.isnan(self.log_evidence)
        ess = f" ESS at least {_MIN_ESS}," * (length >= MIN_DRAWS)
        verdict = f"No problem found:{ess}{error} moves accepted at all steps."
        problems = tuple(self._problems(summary))
        return dataclasses.replace(summary, problems=problems, about=about, verdict=verdict)

    def chains(self) -> dict[str, Any]:
        """Draws with the chains of the last move in front, ``(chain, state, *shape)``."""

        def split(x: Any) -> np.ndarray:
            return np.reshape(x, (self.num_chains, -1, *np.shape(x)[2:]))

        return jax.tree.map(split, self.draws)

    def _problems(self, summary: Summary) -> Iterator[str]:
        rhat = np.asarray(summary.rhat)
        ess = np.array(summary.ess_bulk)
        switched, words = self._switching(summary)
        yield from words
        for site in summary.sites:
            if site.name in switched:
                ess[site.start : site.stop] = np.nan  # it is of nothing
        if not np.isnan(ess).all() and (least := float(np.nanmin(ess))) < _MIN_ESS:
            name = summary.names[int(np.nanargmin(ess))]
            yield (
                f"the particles are worth {least:.0f} independent draws for {name} only: raise "
                "num_particles, or take a kernel that moves further, as NUTS()."
            )
        yield from self.problems_of_steps(rhat)

    def _switching(self, summary: Summary) -> tuple[set[str], list[str]]:
        """Sites whose labels switch between the chains of the last move, and words on them."""
        if not np.any(np.asarray(summary.rhat) > _MAX_RHAT):
            return set(), []
        chains = self.chains()
        switched = find_switching(chains, summary, _MAX_RHAT)
        if not switched:
            return set(), []
        assigned = find_assignments(chains, summary, _MAX_RHAT, switched)
        others = as_many_entries(summary, switched, assigned)
        words = (
            f"the chains of the last move do not agree for {names_in_words(switched)}, and the "
            "mean of an entry is of no component." + remedy_of_switching(switched, assigned, others)
        )
        return {*switched, *assigned}, [words]

    def problems_of_steps(self, rhat: np.ndarray) -> Iterator[str]:
        """Problems of the steps, which concern the evidence, too.

        Args:
            rhat: R-hat of the chains of the last move, for each scalar.
        """
        steps = {name: np.asarray(x) for name, x in self.steps.items()}
        error = float(self.standard_error)
        if not (error <= _MAX_SE or math.isnan(self.log_evidence)):
            yield (
                f"the standard error of the log evidence, {error:.2g}, is large, and itself "
                "uncertain: raise num_particles."
            )
        num_particles = np.shape(self.stats["log_density"])[1]
        fewest = int(np.min(steps["num_possible"]))
        if fewest < min(_MIN_POSSIBLE, num_particles):
            yield (
                f"the likelihood is above 0 at {fewest} particles of a step only, from which all "
                "others come: raise num_particles, or narrow the priors."
            )
        decisive = steps["num_decisive"]
        if self.num_chains < _FEW_CHAINS:
            enough = _FEW_CHAINS * num_particles // self.num_chains
            yield (
                f"{self.num_chains} chains are too few to show whether some of them decide the log "
                "evidence, as where few draws of the prior hit a narrow mode: raise num_particles "
                f"to {enough} or more."
            )
        elif len(decisive) and decisive.min() < min(
            _MIN_DECISIVE, 1 + self.num_chains / _FEW_CHAINS
        ):
            at = int(np.argmin(decisive))
            number = max(1, round(float(decisive[at])))
            what = f"of the {self.num_chains} chains" if at else "of the first draws"
            yield (
                f"at temperature {steps['temperature'][at]:.2g}, some {number} {what} decide the "
                "log evidence: few particles have found a part of the posterior that outweighs the "
                "rest, as a narrow mode. Its weight, and the standard error of the log evidence, "
                "are uncertain. Raise num_particles."
            )
        undefined = int(np.max(steps["num_undefined"]))
        if undefined:
            why = f" At one of the first, {self.nan}." if self.nan else ""
            yield (
                f"the log likelihood is NaN or infinite at {undefined} particles of a step, which "
                f"count as impossible: the evidence is wrong if they are not.{why} Look for "
                "parameters outside of their domain at draws of the prior, and in a path of your "
                "own for models of density 0 where a later one has some, or set jax_enable_x64."
            )
        mixes = np.isnan(rhat).all() or float(np.nanmax(rhat)) <= _MAX_RHAT
        ancestors = int(steps["num_ancestors"][-1])
        if ancestors < _MIN_ANCESTORS and not mixes:
            yield (
                f"all particles descend from {ancestors} of the first, and the chains of the last "
                f"move have not forgotten where they started (R-hat {float(np.nanmax(rhat)):.2f}): "
                "modes may be missing or have wrong weights. Raise num_particles."
            )
        rates = steps["acceptance_rate"]
        known = rates[~np.isnan(rates)]
        if known.size and known.min() < _MIN_RATE:
            at = int(np.nanargmin(rates))
            yield (
                f"moves were hardly accepted at temperature {steps['temperature'][at]:.2g}, at a "
                f"rate of {known.min():.2g}: particles stay copies of each other. Take another "
                "kernel, as NUTS(), or reparameterize the model."
            )
        num_moves = num_particles - self.num_chains
        share = int(steps["num_divergent"][-1]) / max(num_moves, 1)
        if share > _MAX_DIVERGENT:
            yield (
                f"{share:.1%} of the moves at the posterior diverged: parts of it may not be "
                "reached. Reparameterize the model (ppl.reparam)."
            )
        if len(rates) > _MANY:
            yield (
                f"{len(rates)} steps were needed from the start to the posterior, each with an "
                "error of its own: priors that are less vague need fewer."
            )

    def __repr__(self) -> str:
        return f"SMCResult({np.shape(self.stats['log_density'])[1]} particles: {self._sites()})"

    def _statistics(self) -> dict[str, Any]:
        return {"lp": self.stats["log_density"], "log_likelihood": self.stats["log_likelihood"]}


def smc_evidence(result: SMCResult) -> Evidence:
    """Estimate that sequential Monte Carlo has made, with its problems."""
    num_particles = np.shape(result.stats["log_density"])[1]
    rhat = np.full(1, np.nan)
    if num_particles // result.num_chains >= MIN_DRAWS:
        leaves = jax.tree.leaves(result.chains())
        flat = [np.reshape(x, (*np.shape(x)[:2], -1)) for x in leaves]
        rhat = np.concatenate([rhat_and_ess_bulk(x)[0] for x in flat])
    num_steps = len(result.steps["temperature"])
    return Evidence(
        log_evidence=float(result.log_evidence),
        standard_error=float(result.standard_error),
        pareto_k=math.nan,
        overlap=math.nan,
        problems=tuple(result.problems_of_steps(rhat)),
        about=(
            f"Sequential Monte Carlo: {num_steps} step{'s' * (num_steps != 1)} of {num_particles} "
            "particles; the standard error is by the spread of families of chains."
        ),
        digest=result.digest,
        num_observed=result.num_observed,
    )
