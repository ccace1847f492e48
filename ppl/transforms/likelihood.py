"""Likelihood: log probabilities of observed data, element by element, of all or some elements."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import random
from jax.tree_util import Partial

from ppl.common import distribution_protocol
from ppl.common.arguments import Arguments
from ppl.common.missing_data import Ignored, Imputed, is_imputed
from ppl.common.row_order import check_row_orders
from ppl.common.scaled_distribution import factors_at
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.joint_scores import joint_score_of, name_of_score, name_scores, score_by_step
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, apply_at_site, trace_model
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest.interpreter import Operands
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.program import Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import join_scopes
from ppl.primitives.site_kinds import FACTOR, LATENT, OBSERVED, RANDOM, kind_of
from ppl.transforms.density import LogProbs
from ppl.transforms.label import labels_of
from ppl.transforms.prior_weights import check_no_parameters
from ppl.transforms.scored_entries import ScoredEntries, find_scored
from ppl.transforms.unscaled import unscaled


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Selected(distribution_protocol.DistributionWrapper):
    """A distribution whose log probability counts where `counts` holds, and is 0 elsewhere."""

    base: Any
    counts: Any

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of the elements that count."""
        return jnp.where(self.counts, distribution_protocol.log_prob(self.base, value), 0)


@dataclasses.dataclass(frozen=True)
class Select(RewriteSites):
    """Action of `select`: wraps the distributions of sites that have a planted mask."""

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site with the log probabilities of the elements that count."""
        if plant is not None:
            (counts,) = plant

            def make(d):
                return Selected(d, counts)

            site = score_by_step(site)
            site, operands = replace_distribution(site, operands, make, (counts,))
        return site, operands


def select(model: Model, counts: Mapping[str, Any]) -> Model:
    """Count only some observations of a model: the log probabilities of all others are 0.

    Values of observations do not change, and so neither do the sites that depend on them, as in an
    autoregression.

    Args:
        model: A function of a random key, with observed sites.
        counts: Boolean arrays, each of the shape of the log probabilities, which may be traced. A
            key is the name of an observed site, or of groups of observed entries that a
            marginalized model scores together, scopes joined by dots.

    Returns:
        A model of the same arguments: a pytree whose leaves include `counts`.
    """
    return Partial(_run_selected, as_pytree(model), dict(counts))


def _run_selected(
    model: Model, counts: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    run = ModelRun(model, trace_model(model, key, args, kwargs), Select())
    paths = {}
    for path, found in run.sites.items():
        marginal = joint_score_of(found.site)
        if kind_of(found.site) == OBSERVED and (marginal is None or marginal.is_host):
            name = path if marginal is None else name_of_score(path, marginal)
            paths[join_scopes(name)] = path
    return run.output({paths[name]: (jnp.asarray(x),) for name, x in counts.items()})


class ValueWithGaps(NamedTuple):
    """The value of a site, with the masks of its entries that `ignore` and `impute` miss."""

    value: Any
    ignored: list[jax.Array]
    imputed: list[jax.Array]


@dataclasses.dataclass(frozen=True)
class RecordGaps(SiteAction):
    """Action that records values with their gaps; a cond must have equal gaps in all branches."""

    tags: ClassVar = (RANDOM,)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, or the sown value if there is no plant, and its record."""
        values = operands.values if plant is None else plant
        masks = apply_at_site(site, operands, values, _masks_of)
        return values, ValueWithGaps(jax.tree.unflatten(site.tree, values), *masks)


def _masks_of(_: Any, d: Any) -> tuple[list[jax.Array], list[jax.Array]]:
    return _flags(d, Ignored), _flags(d, Imputed)


UNMARGINALIZED = (
    "take the model as it was before ppl.marginalize, for a result with draws of what was taken "
    "out: dataclasses.replace(result, draws={**result.draws, **ppl.recover(marginalized, "
    "result.draws)(key, *args)})."
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Likelihood:
    """Log probabilities of the sites of a model at values of the latent ones.

    It is a pytree whose leaves are the data.

    Attributes:
        model: The model, as a pytree.
        data: The data among the arguments of the model.
        arguments: The static arguments of the model.
        scored: What each array of log probabilities belongs to.
        latent: Names of the latent sites.
        labels: Labels of the axes of the values of sites that have any, by name.
        is_scaled: Whether a factor of `scale` multiplies a log probability.
        has_imputed: Whether `impute` observes a latent site in part.
        captured: Fingerprint of the numbers in the model's program; new numbers recompile.
    """

    model: Model
    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})
    scored: tuple[ScoredEntries, ...] = dataclasses.field(metadata={"static": True})
    latent: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    labels: tuple[tuple[str, Any], ...] = dataclasses.field(metadata={"static": True})
    is_scaled: bool = dataclasses.field(metadata={"static": True})
    has_imputed: bool = dataclasses.field(metadata={"static": True})
    captured: tuple[Hashable, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(
        cls, model: Model, args: tuple[Any, ...], kwargs: Any, *, needs: str = "observed"
    ) -> "Likelihood":
        """The likelihood of a model called with some arguments.

        Args:
            model: The model, conditioned on data.
            args: Its arguments.
            kwargs: Its keyword arguments.
            needs: What the model must have: ``"observed"``, a site that is observed as a whole;
                ``"likelihood"``, such a site, a factor or a site observed in part; or
                ``"nothing"``.

        Raises:
            ValueError: If the model does not have what it needs, or has a `param` or a `state`.
        """
        check_row_orders(model, args, kwargs)
        arguments, data = Arguments.split(args, kwargs)
        model = as_pytree(model)

        def look(program: Program) -> tuple[Any, ...]:
            run = ModelRun(model, program, LogProbs())
            check_no_parameters(run)
            latent = {
                path: jax.tree.unflatten(found.site.tree, found.collapse().avals)
                for path, found in run.latent().items()
            }
            planted = {path: tuple(jax.tree.leaves(value)) for path, value in latent.items()}
            records = jax.eval_shape(run.records, planted)
            scored = find_scored(run.sites, {path: x.shape for path, x in records.items()})
            sites = [found.site for found in run.sites.values()]
            has_more = any(kind_of(site) == FACTOR or is_imputed(site) for site in sites)
            if needs != "nothing":
                _check_apart(run.name, scored)
            is_observed = any(x.kind == OBSERVED for x in scored)
            has = {"observed": is_observed, "likelihood": is_observed or has_more, "nothing": True}
            if not has[needs]:
                if any(kind_of(site) == FACTOR for site in sites):
                    raise ValueError(
                        f"{run.name} has no observed site, only factors, which do not say what is "
                        "data. Write the data as sites, and give them by ppl.condition. A Stan "
                        "program of ppl.from_stan has none: compute log_lik among its generated "
                        "quantities, and give ArviZ its draws as log_likelihood."
                    )
                raise ValueError(
                    f"{run.name} has no observed site, so there is no likelihood. Give the model "
                    "conditioned on the data: ppl.condition(model, {site: data}). A site with "
                    "missing entries by ppl.impute is a latent one: use ppl.ignore in its place."
                )
            each = (site for found in run.sites.values() for site in found.sites)
            has_factors = any(map(factors_at, each))
            labels = tuple((join_scopes(path), x) for path, x in labels_of(run.sites).items())
            names = tuple(map(join_scopes, latent))
            return scored, names, labels, has_factors, any(map(is_imputed, sites))

        found, numbers = trace_and_fingerprint(look, model, arguments, data)
        scored, latent, labels, is_scaled, has_imputed = found
        return cls(model, data, arguments, scored, latent, labels, is_scaled, has_imputed, numbers)

    @property
    def observed_scores(self) -> tuple[ScoredEntries, ...]:
        """The log probabilities of observed data."""
        return tuple(x for x in self.scored if x.kind == OBSERVED)

    @property
    def shapes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Shape of the log probabilities of each observed site, or group of observed entries."""
        return tuple((x.name, x.shape) for x in self.observed_scores)

    @property
    def priors(self) -> tuple[str, ...]:
        """The names of the log probabilities that belong only to latent sites."""
        return tuple(x.name for x in self.scored if x.kind == LATENT)

    def log_probs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Log probabilities of all random sites and factors at values of the latent sites.

        A key is the name of a site, or of groups of entries that are scored together. The log
        probabilities are terms of the log density, with the factors of `scale`.
        """
        return self._score(values, is_scaled=True)

    def log_predictive(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Log probabilities as in `log_probs`, without the factors of `scale`.

        A factor changes how much an observation counts in the posterior, but not its distribution.
        """
        return self._score(values, is_scaled=False)

    def _score(self, values: Mapping[str, Any], *, is_scaled: bool) -> dict[str, Any]:
        args, kwargs = self.arguments.join(self.data)
        program = trace_model(self.model, None, args, kwargs)
        run = ModelRun(self.model, program, LogProbs())
        if not is_scaled:
            run = ModelRun(self.model, unscaled(program, run.sites), LogProbs())
        records = run.records(run.fit(values, "log_probs", complete=True))
        found = name_scores(run.sites, records)
        return {join_scopes(path): record for path, record in found.items()}

    def any_values(self) -> dict[str, Any]:
        """Zeros as values of the latent sites, for results that do not depend on the values."""
        args, kwargs = self.arguments.join(self.data)
        run = ModelRun(self.model, trace_model(self.model, None, args, kwargs), LogProbs())
        zeros = {
            path: jax.tree.unflatten(
                found.site.tree, [jnp.zeros(a.shape, a.dtype) for a in found.collapse().avals]
            )
            for path, found in run.latent().items()
        }
        return nest_by_path(zeros)

    def missing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Boolean arrays by observed site: which elements are left out by `ppl.ignore`."""
        found = self._sites(values)
        shapes = {site: n for x in self.observed_scores for site, n in x.site_shapes.items()}
        return {site: _missing(found[site], shape) for site, shape in shapes.items()}

    def observed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The data by observed site, 0 where they are left out by `ppl.ignore`."""
        found = self._sites(values)
        sites = [site for x in self.observed_scores for site in x.sites]
        data = {name: found[name].value for name in sites}
        for name in data:
            for flags in found[name].ignored:
                data[name] = jnp.where(flags, 0, data[name])
        return data

    def imputed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Boolean arrays by latent site that `ppl.impute` observes in part: missing entries."""
        sites = self._sites(values)
        return {name: site.imputed[0] for name, site in sites.items() if site.imputed}

    def _sites(self, values: Mapping[str, Any]) -> dict[str, "ValueWithGaps"]:
        args, kwargs = self.arguments.join(self.data)
        program = trace_model(self.model, random.key(0), args, kwargs)
        run = ModelRun(self.model, program, RecordGaps())
        latent = [(p, x) for p, x in paths_in(values, run.sites) if join_scopes(p) in self.latent]
        records = run.run(run.fit(nest_by_path(dict(latent)), "log_probs", complete=True))[1]
        return {join_scopes(path): site for path, site in records.items()}


def _check_apart(where: str, scored: Sequence[ScoredEntries]) -> None:
    """Check that no log probability belongs both to observed and to latent sites or factors."""
    for entries in scored:
        kinds = dict((kind, name) for name, kind in entries.kinds)
        if OBSERVED in kinds and entries.kind is None:
            latent = f"the latent site {kinds[LATENT]!r}" if LATENT in kinds else "a factor"
            raise ValueError(
                f"{where} is marginalized, and its site {kinds[OBSERVED]!r} is scored together "
                f"with {latent}, as both depend on what was taken out, so that the data have no "
                f"log probability of their own; {UNMARGINALIZED}"
            )


def _missing(site: "ValueWithGaps", shape: tuple[int, ...]) -> jax.Array:
    missing = jnp.zeros(shape, bool)
    for flags in site.ignored:
        missing = missing | flags.all(tuple(range(len(shape), flags.ndim)))
    return missing


def _flags(d: Any, kind: type[Ignored] | type[Imputed]) -> list[jax.Array]:
    """Masks of missing entries, one for each wrapper of class `kind` around a distribution."""
    found = []
    while isinstance(d, distribution_protocol.DistributionWrapper):
        if isinstance(d, kind):
            found.append(jnp.asarray(d.missing))
        d = d.base  # pyright: ignore[reportAttributeAccessIssue]
    return found
