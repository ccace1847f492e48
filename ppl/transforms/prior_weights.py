"""Importance sampling from the prior: draws of a model, weighted by the likelihood."""

import dataclasses
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common.arguments import Arguments
from ppl.common.missing_data import is_imputed
from ppl.common.row_order import check_row_orders
from ppl.common.scaled_distribution import factors_at
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.joint_scores import joint_score_of
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.program import Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Found, Path, Sites, describe
from ppl.primitives.site_kinds import DETERMINISTIC, LATENT, OBSERVED, kind_of
from ppl.transforms.density import Scores, total
from ppl.transforms.label import labels_of
from ppl.transforms.simulate import Record, simulate
from ppl.transforms.unscaled import unscaled


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PriorWeights:
    """Importance sampler with the prior as proposal, so that weights are likelihoods.

    It needs neither gradients nor a map from unconstrained space, so latent sites may be discrete.
    Like `ppl.Unconstrained`, it is a pytree whose leaves are the data.

    Attributes:
        model: The model, as a pytree.
        data: The data among the arguments of the model.
        arguments: The static arguments of the model.
        latent: The paths of the latent sites.
        order: The paths of the latent and deterministic sites in the order of the model, and
            whether each is deterministic.
        labels: Labels of the axes of the values of sites that have any, by path.
        captured: Fingerprint of the numbers in the model's program; new numbers recompile.
    """

    model: Model
    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})
    latent: tuple[Path, ...] = dataclasses.field(metadata={"static": True})
    order: tuple[tuple[Path, bool], ...] = dataclasses.field(metadata={"static": True})
    labels: tuple[tuple[Path, Any], ...] = dataclasses.field(metadata={"static": True})
    captured: tuple[Hashable, ...] = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, model: Model, args: tuple[Any, ...], kwargs: Any) -> "PriorWeights":
        """The prior weights of a model called with some arguments.

        Raises:
            ValueError: If the model has no latent site, or a `param`.
            NotImplementedError: If a site is observed in part, or is scored together with data by
                a sum or an integral.
        """
        check_row_orders(model, args, kwargs)
        arguments, data = Arguments.split(args, kwargs)
        model = as_pytree(model)

        def look(program: Program) -> tuple[Any, ...]:
            latent = weighted_paths(ModelRun(model, program, Scores()))
            sites = ModelRun(model, program, Record()).sites
            return latent, order_of(sites), tuple(labels_of(sites).items())

        found, numbers = trace_and_fingerprint(look, model, arguments, data)
        latent, order, labels = found
        return cls(model, data, arguments, latent, order, labels, numbers)

    def weighted(self, key: jax.Array) -> tuple[dict[str, Any], jax.Array]:
        """Values drawn from the prior, and their log weight: log density of data and factors.

        Draws do not know of `scale`, so the factor of a latent site, less one, counts too.
        """
        args, kwargs = self.arguments.join(self.data)
        values = simulate(self.model)(key, *args, **kwargs)
        program = trace_model(self.model, None, args, kwargs)
        run = ModelRun(self.model, program, Scores())
        paths = dict.fromkeys(self.latent)
        latent = {path: x for path, x in paths_in(values, paths) if path in paths}
        scores = run.records(run.fit_entries(latent, "weighted"))
        weights = {path: jnp.sum(x) for path, x in scores.items() if path not in latent}
        if any(factors_at(site) for path in latent for site in run.sites[path].sites):
            bare = ModelRun(self.model, unscaled(program, run.sites), Scores())
            own = bare.records(bare.fit_entries(latent, "weighted"))
            weights |= {path: scores[path] - own[path] for path in latent}
        observed = [path for path, found in run.sites.items() if kind_of(found.site) == OBSERVED]
        drawn = {path: x for path, x in paths_in(values, {**run.sites}) if path not in observed}
        return nest_by_path(drawn), total(weights)


def order_of(sites: Sites) -> tuple[tuple[Path, bool], ...]:
    """Paths of latent and deterministic sites in order, and whether each is deterministic."""
    kinds = ((path, kind_of(found.site)) for path, found in sites.items())
    return tuple((p, kind == DETERMINISTIC) for p, kind in kinds if kind in (LATENT, DETERMINISTIC))


class ParameterError(ValueError):
    """Error for a model with a `param` or a `state`, where only random variables are of use."""


def check_no_parameters(run: ModelRun) -> None:
    """Checks that a model has neither a `param` nor a `state`.

    Raises:
        ParameterError: If it has.
    """
    if parameters := run.parameters():
        raise ParameterError(
            f"{run.name} has the parameter {describe(parameters[0])}, made by ppl.param: it has no "
            "density, and inference.svi alone finds parameters of models. Draw it with ppl.sample, "
            "from dist.Flat if nothing is known of it, make it an argument, or put the values of a "
            "fit in its place: ppl.with_params(model, result.model_parameters)."
        )
    if states := run.states():
        raise ParameterError(
            f"{run.name} has the state {describe(states[0])}, made by ppl.state, which "
            "inference.svi alone carries from step to step. Put the state of a fit in its place: "
            "ppl.with_params(model, result.model_parameters, result.model_state)."
        )


def latent_sites(run: ModelRun) -> dict[Path, Found]:
    """The latent sites of a model; an error if it has no latent site, or has a `param`."""
    check_no_parameters(run)
    latent = run.latent()
    if not latent:
        raise ValueError(
            f"{run.name} has no latent site: there is nothing to infer. Parameters alone, made by "
            "ppl.param, are found as sites: draw each from dist.Flat(support), and call "
            "inference.optimize."
        )
    return latent


def weighted_paths(run: ModelRun) -> tuple[Path, ...]:
    """Paths of the latent sites of a model whose prior draws have weights.

    Raises:
        ValueError: If the model has no latent site, or a `param`.
        NotImplementedError: If a site is observed in part, or is scored together with data.
    """
    latent = latent_sites(run)
    for path, found in latent.items():
        if any(map(is_imputed, found.sites)):
            raise NotImplementedError(
                f"site {describe(path)} is observed in part, so draws from the prior have no "
                "weights. Draw from a guide that is fitted to the posterior."
            )
        _check_apart_from_data(path, found, run)
    return tuple(latent)


def _check_apart_from_data(path: Path, found: Found, run: ModelRun) -> None:
    """Check that no data are scored by the sum or integral that scores a latent site."""
    marginal = joint_score_of(found.site)
    if marginal is None or marginal.scores is None:
        return
    outer = path[: len(path) - len(marginal.path)]
    paths = [outer + p for p, _ in marginal.scores.spreads]
    data = [p for p in paths if p in run.sites and kind_of(run.sites[p].site) != LATENT]
    if data:
        raise NotImplementedError(
            f"sites {describe(path)} and {describe(data[0])} are scored together, by one sum or "
            "integral, so draws from the prior have no weights of their own. Weigh draws of the "
            "model before ppl.marginalize, or draw from a guide that is fitted to the posterior."
        )
