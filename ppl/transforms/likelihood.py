"""Likelihood: log probabilities of observed data, element by element, and some of them left out."""

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.tree_util import Partial

from ppl.common import distribution_protocol
from ppl.common.arguments import Arguments
from ppl.common.missing_data import Ignored, Imputed, is_imputed
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.marginal_sites import group_of, marginals_of
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, trace_model
from ppl.core.replaced_distribution import replace_distribution
from ppl.harvest._harvest import sow_again
from ppl.harvest._interpreter import Operands
from ppl.harvest._names import nest_by_path, paths_in
from ppl.harvest._program import Program
from ppl.harvest._site_names import join_scopes
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path, Sites
from ppl.harvest.pytrees import register_dataclass
from ppl.primitives.site_kinds import FACTOR, LATENT, OBSERVED, kind_of
from ppl.transforms.density import LogProbs
from ppl.transforms.trace import inspection


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
class Select(SiteAction):
    """Action of `select`: wraps the distributions of sites that have a planted mask."""

    records = False

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """All operands."""
        return True, True, True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Sow the value again, with the log probabilities of the elements that count."""
        if plant is not None:
            (counts,) = plant
            make = lambda d: Selected(d, counts)  # noqa: E731
            site, operands = replace_distribution(site, operands, make, (counts,))
        return sow_again(site, operands), None


def select(model: Model, counts: Mapping[str, Any]) -> Model:
    """Count some observations of a model only: the log probabilities of all others are 0.

    The values stay, so that sites which depend on them, as in an autoregression, stay as they are.

    Args:
        model: A function of a random key, with observed sites.
        counts: Boolean arrays by name of observed site, scopes joined by dots, each of the shape of
            the site's log probabilities; they may be traced.

    Returns:
        A model of the same arguments: a pytree whose leaves include `counts`.
    """
    return Partial(_run_selected, as_pytree(model), dict(counts))


def _run_selected(
    model: Model, counts: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    run = ModelRun(model, trace_model(model, key, args, kwargs), Select())
    paths = {join_scopes(path): path for path in _observed(run)}
    return run.output({paths[name]: (jnp.asarray(x),) for name, x in counts.items()})


def _observed(run: ModelRun) -> list[Path]:
    return [path for path, found in run.sites.items() if kind_of(found.site) == OBSERVED]


UNMARGINALIZED = (
    "take the model as it was before ppl.marginalize, for a result with draws of what was taken "
    "out: dataclasses.replace(result, draws={**result.draws, **ppl.recover(marginalized, "
    "result.draws)(key, *args)})."
)


@dataclasses.dataclass(frozen=True)
class JointScores:
    """Sites of a marginalized model that are scored together.

    Attributes:
        elsewhere: Names of sites that are scored at another site, and have the log probability 0.
        mixed: Names of observed sites that are scored together with a latent site or a factor, each
            with words for that.
        summed: Names of observed sites whose log probability is that of a sum or an integral.
    """

    elsewhere: tuple[str, ...] = ()
    mixed: tuple[tuple[str, str], ...] = ()
    summed: tuple[str, ...] = ()

    @classmethod
    def of(cls, sites: Sites) -> "JointScores":
        """The sites of a model that are scored together."""
        together: dict[Any, list[Path]] = {}
        elsewhere, mixed, summed = [], {}, []
        for path, found in sites.items():
            for marginal in marginals_of(found.site):
                group = group_of(marginal.summation, marginal.path)
                together.setdefault((path[:-1], marginal.summation, group), []).append(path)
                elsewhere += [] if marginal.is_host else [join_scopes(path)]
                if kind_of(found.site) == OBSERVED:
                    mixed |= {join_scopes(path): "a factor"} if marginal.has_factor else {}
                    summed += [] if marginal.is_alone else [join_scopes(path)]
        for paths in together.values():
            by_kind = {kind_of(sites[path].site): join_scopes(path) for path in paths}
            if LATENT in by_kind and OBSERVED in by_kind:
                mixed[by_kind[OBSERVED]] = f"the latent site {by_kind[LATENT]!r}"
        return cls(tuple(elsewhere), tuple(mixed.items()), tuple(summed))

    def check_apart(self, where: str) -> None:
        """Check that the log probabilities of observed sites are those of data alone.

        Raises:
            ValueError: If they are joint ones of data and latent sites or factors.
        """
        for name, other in self.mixed:
            raise ValueError(
                f"{where} is marginalized, and its site {name!r} is scored together with {other}, "
                "as both depend on what was taken out, so that the data have no log probability of "
                f"their own; {UNMARGINALIZED}"
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
        shapes: Name of each observed site, scopes joined by dots, with the shape of its log
            probabilities: `vmap` axes, loops and the distribution's batch. Those that are scored at
            another site are left out.
        latent: Names of the latent sites.
        joint: Which sites are scored together, in a marginalized model.
        captured: Fingerprint of the numbers in the model's program; new numbers recompile.
    """

    model: Model
    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = dataclasses.field(metadata={"static": True})
    latent: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    joint: JointScores = dataclasses.field(metadata={"static": True})
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
                ``"likelihood"``, one of these, a factor or a site observed in part; or
                ``"nothing"``.

        Raises:
            ValueError: If the model lacks what it must have.
        """
        arguments, data = Arguments.split(args, kwargs)
        model = as_pytree(model)

        def look(program: Program) -> tuple[Any, ...]:
            run = ModelRun(model, program, LogProbs())
            latent = {
                path: jax.tree.unflatten(found.site.tree, found.collapse().avals)
                for path, found in run.latent().items()
            }
            planted = {path: tuple(jax.tree.leaves(value)) for path, value in latent.items()}
            records = jax.eval_shape(run.records, planted)
            joint = JointScores.of(run.sites)
            shapes = tuple((join_scopes(path), records[path].shape) for path in _observed(run))
            shapes = tuple(pair for pair in shapes if pair[0] not in joint.elsewhere)
            sites = [found.site for found in run.sites.values()]
            has_more = any(kind_of(site) == FACTOR or is_imputed(site) for site in sites)
            if needs != "nothing":
                joint.check_apart(run.name)
            has = {"observed": shapes, "likelihood": shapes or has_more, "nothing": True}
            if not has[needs]:
                raise ValueError(
                    f"{run.name} has no observed site, so there is no likelihood. Give the model "
                    "conditioned on the data: ppl.condition(model, {site: data}). A site with "
                    "missing entries by ppl.impute is a latent one: use ppl.ignore in its place."
                )
            return shapes, tuple(map(join_scopes, latent)), joint

        (shapes, latent, joint), numbers = trace_and_fingerprint(look, model, arguments, data)
        return cls(model, data, arguments, shapes, latent, joint, numbers)

    def log_probs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Log probabilities of all random sites and factors at values of the latent sites."""
        args, kwargs = self.arguments.join(self.data)
        run = ModelRun(self.model, trace_model(self.model, None, args, kwargs), LogProbs())
        kinds = LATENT, OBSERVED, FACTOR
        kept = [path for path, found in run.sites.items() if kind_of(found.site) in kinds]
        records = run.records(run.fit(values, "log_probs", complete=True))
        return {join_scopes(path): records[path] for path in kept}

    def missing(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Boolean arrays by observed site: which elements are left out by `ppl.ignore`."""
        found = self._sites(values)
        return {name: _missing(found[name].distribution, shape) for name, shape in self.shapes}

    def observed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The data by observed site, 0 where they are left out by `ppl.ignore`."""
        found = self._sites(values)
        data = {name: found[name].value for name, _ in self.shapes}
        for name in data:
            for flags in _flags(found[name].distribution, Ignored):
                data[name] = jnp.where(flags, 0, data[name])
        return data

    def imputed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Boolean arrays by latent site that `ppl.impute` observes in part: missing entries."""
        sites = self._sites(values)
        found = {name: _flags(site.distribution, Imputed) for name, site in sites.items()}
        return {name: flags[0] for name, flags in found.items() if flags}

    def _sites(self, values: Mapping[str, Any]) -> dict[str, Any]:
        args, kwargs = self.arguments.join(self.data)
        run = inspection(self.model, trace_model(self.model, random.key(0), args, kwargs))
        latent = [(p, x) for p, x in paths_in(values, run.sites) if join_scopes(p) in self.latent]
        records = run.run(run.fit(nest_by_path(dict(latent)), "log_probs", complete=True))[1]
        return {join_scopes(path): site for path, site in records.items()}


def _missing(d: Any, shape: tuple[int, ...]) -> jax.Array:
    missing = jnp.zeros(shape, bool)
    for flags in _flags(d, Ignored):
        missing = missing | flags.all(tuple(range(len(shape), flags.ndim)))
    return missing


def _flags(d: Any, kind: type[Ignored] | type[Imputed]) -> list[jax.Array]:
    """Masks of the missing entries of the wrappers of a kind around a distribution."""
    found = []
    while isinstance(d, distribution_protocol.DistributionWrapper):
        if isinstance(d, kind):
            found.append(jnp.asarray(d.missing))
        d = d.base  # pyright: ignore[reportAttributeAccessIssue]
    return found
