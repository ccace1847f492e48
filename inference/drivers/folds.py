"""Fits without some observations: one compiled program for all fits, as the gaps are data."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.tree_util import Partial

import ppl
from inference.chains.sampling import sample
from inference.checkpoints.job_folder import JobFolder
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.pointwise import log_likelihoods
from inference.comparison.units import Groups, Units
from inference.drivers.init_from_result import positions_of
from inference.drivers.job_checkpoints import run_jobs
from inference.drivers.jobs import Jobs
from inference.initialization.initial_positions import Init
from inference.kernels.hamiltonian.nuts import NUTS
from inference.models.same_model import in_coordinates_of
from inference.results.diagnostics import rhat
from inference.results.mcmc_result import MCMCResult
from inference.results.psis_loo import log_sum_exp, log_weights_of
from inference.results.result import Result
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Shown, show_progress
from ppl.transforms.likelihood import UNMARGINALIZED, Likelihood, select
from ppl.transforms.scored_entries import ScoredEntries

_LARGE_RHAT = 1.05  # of the log predictive density in a fit without some observations
_NUM_STEPS = 400  # iterations of warm-up where the first fit has no mass matrix
_RATE = 0.8
_FEW = 10  # draws that carry a predictive density
_UNMARGINALIZED = f"take inference.loo of {UNMARGINALIZED.removeprefix('take ')}"


class Observed(NamedTuple):
    """Likelihood of a model, and its observations.

    Attributes:
        likelihood: The likelihood.
        units: The observations.
        digests: A checksum of each observation.
        chains: Log probabilities of steps of a chain, each given all steps before.
    """

    likelihood: Likelihood
    units: Units
    digests: np.ndarray
    chains: tuple[ScoredEntries, ...]


def words_on_chains(observed: Observed) -> tuple[str, ...]:
    """Problems of observations that are steps of a chain, one at most."""
    if not observed.chains:
        return ()
    sites = ", ".join(name for x in observed.chains for name in x.sites)
    remedies = [_UNMARGINALIZED]
    if all(x.rows is not None and not _misorder(x) for x in observed.chains):
        remedies.insert(0, 'take cross_validate(folds="future")')
    if not any(splits_chain(x, "row") for x in observed.chains):
        remedies.insert(0, 'take whole series, unit="row"')
    return (
        f"the model is marginalized, and the terms of {sites} are of each step of a chain given "
        "those before it, not given all others: this leaves out no observation, but the term of "
        f"one. T{', or '.join(remedies)[1:]}",
    )


def check_exchangeable(where: str, observed: Observed) -> None:
    """Checks that a fit without some units leaves out these observations.

    Raises:
        ValueError: if units are steps of a chain, as later ones are scored given them.
    """
    for problem in words_on_chains(observed):
        raise ValueError(f"{where}: {problem}")


def observe(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    site: Any,
    unit: str,
    draws: Any = None,
    *,
    is_future: bool = False,
) -> Observed:
    """Likelihood of a model and its units, for folds by time if `is_future`.

    Raises:
        ValueError: if nothing is observed, a name or kind of unit is unknown, the model has no log
            probabilities of such units, or `draws` lack a latent site.
    """
    likelihood = put_on_common_devices(Likelihood.of(model, args, kwargs))
    if draws is not None:
        check_draws(likelihood, draws)
    missing, data = compile_once(_look, likelihood, splits_results=True)(likelihood)
    chosen = choose_scores(likelihood, [site] if isinstance(site, str) else site)
    for entries in chosen:
        _check_alone(entries)
        if unit in ("element", "row"):
            _check_unit(entries, unit, is_future)
    is_missing = {}
    groups = {}
    for entries in likelihood.observed_scores:
        is_missing[entries.name] = _missing_scores(entries, missing)
        if entries.groups is not None:
            groups[entries.name] = _groups_of(entries)
    names = None if site is None else [entries.name for entries in chosen]
    labels = dict(likelihood.labels)
    units = Units.of(likelihood.shapes, is_missing, names, unit, groups=groups, labels=labels)
    chains = tuple(x for x in chosen if splits_chain(x, unit))
    return Observed(likelihood, units, units.digest(data, missing), chains)


def splits_chain(entries: ScoredEntries, unit: str) -> bool:
    """Whether units hold some steps of a chain, and not others."""
    if entries.time is None or entries.shape[entries.time] == 1:
        return False
    if unit != "row" or entries.rows is None:
        return True
    return bool(np.any(np.diff(entries.rows, axis=entries.time)))


def check_times(likelihood: Likelihood, site: Any) -> None:
    """Checks that the steps of chains in a marginalized model are the rows of the data, in order.

    Raises:
        ValueError: if not, as a row is scored given later ones.
    """
    for entries in choose_scores(likelihood, [site] if isinstance(site, str) else site):
        if order := _misorder(entries):
            raise ValueError(
                f'folds="future": the model is marginalized, and the steps of its chain are not '
                f"the rows of {', '.join(entries.sites)} in order, but run {order}, so that rows "
                f"are scored given later ones. Put time on axis 0, or {_UNMARGINALIZED}"
            )


def _misorder(entries: ScoredEntries) -> str:
    """The order of the steps of a chain that are not the rows in order; else empty."""
    if entries.time is None or entries.rows is None:
        return ""
    steps = np.moveaxis(entries.rows, entries.time, -1)
    if not entries.is_reversed and np.all(steps == np.arange(steps.shape[-1])):
        return ""
    return "from the last to the first" if entries.is_reversed else "on another axis"


def check_draws(likelihood: Likelihood, draws: Any) -> None:
    """Checks that there are draws of all latent sites.

    Raises:
        ValueError: if not.
    """
    drawn = [name for name, _ in named_leaves(draws)]
    for latent in likelihood.latent:
        if not any(name == latent or name.startswith(f"{latent}.") for name in drawn):
            raise ValueError(
                f"result has no draws of {latent!r}, which the likelihood needs; run mcmc without "
                "keep, or keep all latent sites"
            )


def choose_scores(likelihood: Likelihood, sites: Sequence[str] | None) -> list[ScoredEntries]:
    """The log probabilities of some observed sites, or of all.

    Raises:
        ValueError: if a site is not observed, or is scored together with another that is not meant.
    """
    if sites is None:
        return list(likelihood.observed_scores)
    chosen: dict[str, ScoredEntries] = {}
    known = [name for x in likelihood.observed_scores for name in x.sites]
    for name in sites:
        if name in likelihood.latent:
            raise ValueError(
                f"site: {name!r} is a latent site of the model. Condition on it; if ppl.impute "
                "observes it in part, use ppl.ignore in its place, so that its known entries are "
                "observations"
            )
        if name not in known:
            raise ValueError(
                f"site: the model has no observed site {name!r}; it has {', '.join(known)}"
            )
        entries = next(x for x in likelihood.observed_scores if name in x.sites)
        others = [other for other in entries.sites if other not in sites]
        if others:
            raise ValueError(
                f"site: in this marginalized model {name!r} is scored together with "
                f"{', '.join(map(repr, others))}; choose all of {', '.join(entries.sites)}"
            )
        chosen[entries.name] = entries
    return list(chosen.values())


def _check_alone(entries: ScoredEntries) -> None:
    """Checks that observations are not scored together with the known entries of other sites."""
    if not entries.imputed:
        return
    sites = ", ".join(entries.sites)
    imputed = ", ".join(entries.imputed)
    raise ValueError(
        f"site: the model is marginalized, and {sites} and the known entries of {imputed}, which "
        f"ppl.impute observes in part, have one log probability together, {entries.name!r} of "
        f"ppl.log_probs, as these are joint events or a chain; {sites} has none of its own. Leave "
        f"{imputed} among the sites to sample, or {_UNMARGINALIZED}"
    )


def _check_unit(entries: ScoredEntries, unit: str, is_future: bool) -> None:
    """Checks that each log probability belongs to one element, or to one row."""
    if entries.groups is None or (unit == "row" and entries.rows is not None):
        return
    num = int(np.prod(entries.shape, dtype=int))
    sites = ", ".join(entries.sites)
    gone = ", ".join(entries.taken_out)
    with_folds = " with a number of folds" * is_future
    kinds = {"group": "whole groups"} | ({} if entries.rows is None else {"row": "rows"})
    whole = {kind: words for kind, words in kinds.items() if not splits_chain(entries, kind)}
    remedies = [f'{words}, unit="{kind}"{with_folds}' for kind, words in whole.items()]
    if entries.time is not None and entries.rows is not None and not _misorder(entries):
        remedies.append('what comes later, by cross_validate(folds="future")')
    leave = f"Leave out {', or '.join(remedies)}. " if remedies and num > 1 else ""
    which = "rows" if unit == "row" else "observations"
    asked = 'folds="future"' if is_future else f"unit={unit!r}"
    raise ValueError(
        f"{asked}: the model is marginalized, and all entries of {sites} that depend on the "
        f"same elements of {gone} have one log probability together, {entries.name!r} of "
        f"ppl.log_probs, {num} in all; single {which} have none. {leave}For each observation, "
        f"{_UNMARGINALIZED}"
    )


def _missing_scores(entries: ScoredEntries, missing: Mapping[str, Any]) -> np.ndarray:
    """Flags of the log probabilities whose entries are all left out."""
    if entries.groups is None:
        return np.asarray(missing[entries.name])
    counts = np.zeros(int(np.prod(entries.shape, dtype=int)), int)
    for site in entries.sites:
        numbers = entries.numbers_of_entries(site)
        if numbers is None or np.any(numbers < 0):
            return np.zeros(entries.shape, bool)
        np.add.at(counts, numbers[~np.asarray(missing[site])], 1)
    return (counts == 0).reshape(entries.shape)


def _groups_of(entries: ScoredEntries) -> Groups:
    lengths = [shape[0] if shape else 1 for shape in entries.site_shapes.values()]
    numbers = {site: entries.numbers_of_entries(site) for site in entries.sites}
    return Groups(numbers, entries.rows, max(lengths))


def _look(likelihood: Likelihood) -> tuple[Any, Any]:
    """Flags of missing data, and the data."""
    values = likelihood.any_values()
    return likelihood.missing(values), likelihood.observed(values)


def check_result(where: str, result: Any) -> None:
    """Checks that the first argument is a result with draws.

    Raises:
        TypeError: if it is not.
    """
    if not isinstance(result, Result):
        given = "the model" if callable(result) else repr(type(result).__name__)
        raise TypeError(
            f"result must be a result with draws, as of mcmc, and comes first: "
            f"inference.{where}(result, posterior, *args); got {given}"
        )


def check_whole(draws: Any, num_draws: int) -> None:
    """Checks that chains have all draws, which they have not after an interrupt.

    Raises:
        KeyboardInterrupt: if they have not.
    """
    if any(np.shape(x)[1] < num_draws for x in jax.tree.leaves(draws)):
        raise KeyboardInterrupt


class Refit(NamedTuple):
    """A fit without some units.

    Attributes:
        number: Number of the fit, folded into the key.
        held_out: Numbers of the units that are left out.
        scored: Numbers of the units that are predicted.
        is_joint: Whether they are predicted jointly, in one term.
    """

    number: int
    held_out: np.ndarray
    scored: np.ndarray
    is_joint: bool = False


class Refits:
    """Fits of a model without some of its observations, each begun at a fit to all."""

    def __init__(
        self,
        key: jax.Array,
        observed: Observed,
        result: Result,
        model: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        num_warmup: int,
        num_draws: int,
        num_chains: int,
    ) -> None:
        self.key = key
        self.likelihood = observed.likelihood
        self.units = observed.units
        self.numbers: dict[str, Any] = {"num_draws": num_draws, "num_chains": num_chains}
        counts = self.units.counts(np.zeros(0, int))
        target = ppl.unconstrain(select(model, counts), *args, **kwargs)
        self.target = in_coordinates_of(result, put_on_common_devices(target))
        self.kernel, self.numbers["num_warmup"] = NUTS(), num_warmup
        matrix = getattr(result, "inverse_mass_matrix", None)
        if isinstance(result, MCMCResult) and (
            result.facts.transport or "step_size" not in result.stats
        ):
            matrix = None
        if isinstance(result, MCMCResult) and matrix is not None:
            step_size = float(np.mean(np.asarray(result.stats["step_size"])[:, -1]))
            matrix = jax.tree.map(lambda x: np.asarray(x)[0], matrix)
            self.kernel = NUTS(step_size=step_size, inverse_mass_matrix=matrix)
        else:
            self.numbers["num_warmup"] = max(num_warmup, _NUM_STEPS)
        self.starts = Init("flat", self._choose_starts(result, num_chains))

    def _choose_starts(self, result: Result, num_chains: int) -> np.ndarray:
        """Positions ``(chain, size)``: draws of the fit to all data, far apart in the run."""
        flat = jax.tree.map(lambda x: np.reshape(x, (-1, *np.shape(x)[2:])), result.draws)
        log_weights = log_weights_of(result)
        num_draws = len(jax.tree.leaves(flat)[0])
        weights = np.full(num_draws, 1 / num_draws)
        if log_weights is not None:
            weights = np.exp(np.ravel(log_weights) - log_sum_exp(np.ravel(log_weights)))
        levels = (np.arange(num_chains) + 0.5) / num_chains
        chosen = np.minimum(np.searchsorted(np.cumsum(weights), levels), num_draws - 1)
        layout = Layout.of(self.target.position_shapes)
        values = jax.tree.map(lambda x: x[chosen], flat)
        return positions_of(values, self.target, layout).astype(layout.dtype)

    def terms(
        self,
        jobs: Jobs,
        folder: JobFolder | None,
        names: Sequence[str],
        fits: Sequence[Refit],
        progress: Shown,
    ) -> tuple[list[np.ndarray], tuple[str, ...]]:
        """Terms of each fit, and problems in words.

        Args:
            jobs: Where fits are made.
            folder: Folder of finished fits, or `None`.
            names: Name of each fit, for errors.
            fits: The fits.
            progress: Whether to show a bar.
        """
        with show_progress(progress, len(fits), "fit") as report:
            found = []
            made = run_jobs(
                jobs, folder, _score, names, lambda i: (self, fits[i]), one_at_a_time=True
            )
            for scores in made:
                found.append(scores)
                report(len(found))
        return [terms for terms, _ in found], _first_of(
            [x for _, problems in found for x in problems]
        )

    def score(self, fit: Refit) -> tuple[np.ndarray, list[str]]:
        """Log predictive densities by a fit, ``(unit,)`` or ``(1,)``, and its problems."""
        problems: list[str] = []
        scored = fit.scored
        found = self._log_likelihoods(fit, problems)
        if fit.is_joint:
            found = found.sum(-1, keepdims=True)
        total = log_sum_exp(found, 0)
        squares = log_sum_exp(2 * found, 0)
        with np.errstate(invalid="ignore"):
            num_effective = np.exp(2 * total - squares)
        worst = int(np.argmin(num_effective))
        if num_effective[worst] < _FEW:
            problems.append(
                f"{self.units.names[int(scored[worst])]} is far from what is predicted without "
                f"it: {num_effective[worst]:.1f} draws carry its density, and its term is rough, "
                "mostly too low."
            )
        return total - np.log(len(found)), problems

    def _log_likelihoods(self, fit: Refit, problems: list[str]) -> np.ndarray:
        """Log likelihoods of the units that a fit predicts, ``(draw, unit)``."""
        selecting = self.target.model
        assert isinstance(selecting, Partial)
        counts = jax.tree.map(jax.numpy.asarray, self.units.counts(fit.held_out))
        model = Partial(selecting.func, selecting.args[0], counts)
        samples = sample(
            jax.random.fold_in(self.key, fit.number),
            dataclasses.replace(self.target, model=model),
            self.kernel,
            target_acceptance_rate=_RATE,
            init=self.starts,
            **self.numbers,
        )
        check_whole(samples.draws, self.numbers["num_draws"])
        found = self.units.gather(log_likelihoods(self.likelihood, samples.draws))[..., fit.scored]
        problems += self._problems(found, samples.stats, fit.held_out)
        return found.reshape(-1, len(fit.scored)).astype(np.float64)

    def _problems(
        self, found: np.ndarray, stats: Mapping[str, Any], held_out: np.ndarray
    ) -> Iterator[str]:
        """Problems of the chains of a fit."""
        which = self.units.names[int(held_out[0])] if held_out.size else "nothing"
        which += f" and {held_out.size - 1} more" * (held_out.size > 1)
        worst = np.max(np.nan_to_num(rhat(found.sum(-1)), nan=1.0))
        if worst > _LARGE_RHAT:
            yield (
                f"without {which}, chains disagree (R-hat {worst:.2f} of the predictive density): "
                "ask for more num_warmup and num_draws."
            )
        divergences = int(np.sum(stats["is_divergent"]))
        if divergences > found[..., 0].size // 100:
            yield f"without {which}, {divergences} transitions diverged."


def _score(refits: Refits, fit: Refit) -> tuple[np.ndarray, list[str]]:
    with settings(None):
        return refits.score(fit)


def _first_of(problems: Sequence[str]) -> tuple[str, ...]:
    """The first problem, and the number of further ones."""
    more = len(problems) - 1
    rest = (f"{more} more such problems in other fits.",) * (more > 0)
    return (*problems[:1], *rest)
