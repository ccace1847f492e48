"""Groups of ArviZ's container that need the model: densities, predictions, data, names of axes."""

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.leaf_names import named_leaves
from inference.common.pointwise import log_likelihoods, log_probs
from inference.models.predictions import OF_PRIOR, Predictions, at_path, recover_taken_out
from inference.models.same_model import check_model
from inference.runtime.devices import put_on_common_devices
from inference.runtime.jax_settings import settings
from ppl.common.arguments import Arguments
from ppl.common.column_names import code_by_names
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.missing_data import missing_entries
from ppl.core.model_pytree import arguments_by_name, as_pytree, labels_of_data
from ppl.core.model_run import trace_model
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path, join_scopes
from ppl.primitives.sample import check_key
from ppl.transforms.likelihood import Likelihood
from ppl.transforms.prior_weights import check_no_parameters
from ppl.transforms.scored_entries import ScoredEntries
from ppl.transforms.trace import inspection

Groups = dict[str, dict[str, Any]]
Labels = dict[str, tuple[Any, ...]]


class ModelGroups(NamedTuple):
    """Groups that a model adds to draws, and names of axes.

    Attributes:
        groups: Arrays by name, by group.
        axes: Names of the leading axes of sites, by name: the name of a `vmap` axis, "time" for a
            scan, None for other axes.
        masks: Which entries of log probabilities exist, by name, by group, for sites with missing
            data.
        is_known: Which entries of data are known, by name, for the same sites.
        labels: Labels of sites that have any, by name; see :func:`ppl.label`. Those of arrays of
            `constant_data` have the place of the array, by `place_of`, as name.
    """

    groups: Groups
    axes: dict[str, tuple[str | None, ...]]
    masks: dict[str, dict[str, np.ndarray]]
    is_known: dict[str, np.ndarray]
    labels: Labels


class _Site(NamedTuple):
    """A site in a run of a conditioned model, with a mask of its missing entries, if any.

    Of the value of a site without data, only shapes and dtypes are known.
    """

    kind: str
    value: Any
    missing: Any


def model_groups(
    result: Any,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    key: jax.Array | None,
    wanted: Collection[str],
    num_prior_draws: int,
    where: str = "to_arviz",
) -> ModelGroups:
    """Groups of a conditioned model: log probabilities and data, and with a key predictions.

    Args:
        result: The result, with draws by site, ``(chain, draw, *shape)``.
        model: The model that the draws come from, with its data.
        args: Its arguments.
        kwargs: Its keyword arguments.
        key: Random key of the predictions; without a key there are no predictions.
        wanted: Names of the groups; other groups are not computed.
        num_prior_draws: Number of draws from the prior.
        where: Name of the method that errors name.

    Raises:
        TypeError: if `key` is not a random key.
        ValueError: if the draws are of another model, or of other data, or if the model has a
            parameter or a state that the fit has a value of.
    """
    if key is not None:
        check_key(where, key)
    draws = result.draws
    sites = _run(model, args, kwargs, is_fitted=True)
    latent = _latent_draws(where, draws, sites)
    check_model(where, result, {*map(join_scopes, latent)}, model, args, kwargs)
    is_data = {path for path, site in sites.items() if _has_data(site)}
    graph = _graph(model, args, kwargs)
    axes, labels = _axes(graph)
    groups: Groups = {
        "observed_data": _flat({path: _data_of(sites[path]) for path in is_data}, sites),
        "constant_data": _constants(model, args, kwargs, labels),
    }
    masks: dict[str, dict[str, np.ndarray]] = {}
    if {"log_likelihood", "log_prior"} & {*wanted}:
        log_probabilities, masks = _log_probs(draws, sites, model, args, kwargs)
        groups = log_probabilities | groups
    if key is not None:
        prior_key, data_key = jax.random.split(key)
        is_latent = frozenset(latent) - is_data
        own = frozenset(sites) - is_data
        predictions = Predictions(model, args, kwargs, is_latent, own, frozenset(is_data))
        if is_data and "posterior_predictive" in wanted:
            try:
                drawn = predictions.of_data(data_key, latent)
            except ValueError as error:
                error.add_note("groups= without 'posterior_predictive' has all other groups.")
                raise
            groups["posterior_predictive"] = _pick(drawn, [p for p in sites if p in is_data])
        if {*OF_PRIOR} & {*wanted}:
            drawn = {}
            try:
                drawn = predictions.of_prior(prior_key, num_prior_draws, wanted)
            except NotImplementedError as error:
                warnings.warn(_without_prior(where, error), UserWarning, stacklevel=2)
            groups["prior"] = _pick(drawn, [p for p in sites if p not in is_data])
            groups["prior_predictive"] = _pick(drawn, [p for p in sites if p in is_data])
    known = {p: _is_known(sites[p]) for p in is_data if sites[p].missing is not None}
    if key is not None and "posterior" in wanted:
        groups["posterior"] = recover_taken_out(
            jax.random.fold_in(key, 2), graph, latent, model, args, kwargs
        )
    groups = {name: group for name, group in groups.items() if group and name in wanted}
    return ModelGroups(groups, axes, masks, _flat(known, sites), labels | _of_constants(model))


def _without_prior(where: str, error: NotImplementedError) -> str:
    """Words for draws of the prior that are left out; a page has no groups and no call to name."""
    if where == "report":
        return f"Predictions by the prior are left out, as the prior cannot be drawn: {error}."
    return (
        f"{where}: the groups prior and prior_predictive are left out, as the prior cannot be "
        f"drawn: {error}. All other groups are there; groups= names those to have"
    )


def prior_groups(
    key: jax.Array, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], num_draws: int
) -> ModelGroups:
    """Groups of a model that need no draws of a posterior: draws from the prior, and data.

    Raises:
        NotImplementedError: if the prior is improper.
    """
    sites = _run(model, args, kwargs, is_fitted=False)
    is_data = frozenset(path for path, site in sites.items() if _has_data(site))
    own = frozenset(sites) - is_data
    drawn = Predictions(model, args, kwargs, own, own, is_data).of_prior(key, num_draws, OF_PRIOR)
    axes, labels = _axes(_graph(model, args, kwargs))
    groups = {
        "prior": _pick(drawn, [path for path in sites if path not in is_data]),
        "prior_predictive": _pick(drawn, [path for path in sites if path in is_data]),
        "observed_data": _flat({path: _data_of(sites[path]) for path in is_data}, sites),
        "constant_data": _constants(model, args, kwargs, labels),
    }
    groups = {name: x for name, x in groups.items() if x}
    return ModelGroups(groups, axes, {}, {}, labels | _of_constants(model))


def _run(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_fitted: bool
) -> dict[Path, _Site]:
    """The sites of one run of a model by path, in the order of the program.

    Raises:
        ValueError: if the model of a fit has a parameter or a state, made by `ppl.param` or
            `ppl.state`, and so not the value of the fit.
    """
    shapes: dict[Path, _Site] = {}

    def run(model: Any, args: Any, kwargs: Any) -> dict[Path, Any]:
        inspected = inspection(model, trace_model(model, jax.random.key(0), args, kwargs))
        inspected.check()
        if is_fitted:
            check_no_parameters(inspected)
        _, found = inspected.run({})
        found = {
            path: _Site(site.kind, site.value, missing_entries(site.distribution))
            for path, site in found.items()
            if site.kind != "factor"
        }

        def shape(x):
            return jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x))

        for path, site in found.items():
            shapes[path] = _Site(site.kind, *jax.tree.map(shape, site[1:]))
        return {path: site[1:] for path, site in found.items() if _has_data(site)}

    # In a jit, as data may be NaN where they are missing, and unneeded draws cost nothing.
    data = _call(run, model, args, kwargs)
    return {path: _Site(site.kind, *data.get(path, site[1:])) for path, site in shapes.items()}


def _has_data(site: _Site) -> bool:
    return site.kind == "observed" or (site.kind == "latent" and site.missing is not None)


def _is_known(site: _Site) -> np.ndarray:
    return np.broadcast_to(~np.asarray(site.missing), np.shape(site.value))


def _data_of(site: _Site) -> Any:
    """Data of a site, NaN where they are missing."""
    if site.missing is None:
        return site.value
    value = np.asarray(site.value)
    dtype = value.dtype if np.issubdtype(value.dtype, np.inexact) else np.float64
    return np.where(_is_known(site), value, np.asarray(np.nan, dtype))


def _call(function: Callable[..., Any], model: Any, args: Any, kwargs: Any, *more: Any) -> Any:
    """`function(model, args, kwargs, *more)` in a jit, whose arguments are all arrays."""
    arguments, data = Arguments.split(args, kwargs)
    # Only leaves, as JAX keeps thousands of tree structures, with models in them.
    leaves, structure = jax.tree.flatten((as_pytree(model), data, more))

    def call(leaves: list[Any]) -> Any:
        model, data, more = jax.tree.unflatten(structure, leaves)
        return function(model, *arguments.join(data), *more)

    return jax.jit(call)(leaves)


def _latent_draws(
    where: str, draws: Mapping[str, Any], sites: Mapping[Path, _Site]
) -> dict[Path, Any]:
    """Draws of the latent sites by path."""
    path = "path, " if where == "report" else ""
    call = f"result.{where}({path}posterior, *args)"
    latent = {path: at_path(draws, path) for path, site in sites.items() if site.kind == "latent"}
    lacking = [join_scopes(path) for path, x in latent.items() if x is None]
    if lacking:
        have = ", ".join(name for name, _ in named_leaves(draws))
        raise ValueError(
            f"{where}: the model has the latent site {lacking[0]!r}, of which there are no draws, "
            f"but of {have}. Give the model that was sampled, with its data: "
            f"{call}."
        )
    nested = nest_by_path({path: site.value for path, site in sites.items()})
    known = {name for name, _ in named_leaves(nested)}
    for name, _ in named_leaves(draws):
        if name not in known:
            raise ValueError(
                f"{where}: the model has no site {name!r}, of which there are draws. Give the "
                f"model that was sampled, with its data: {call}."
            )
    return latent


def _pick(values: Any, paths: Any) -> dict[str, Any]:
    """Arrays of some sites, by name."""
    found = {path: at_path(values, path) for path in paths}
    return dict(named_leaves(nest_by_path({p: x for p, x in found.items() if x is not None})))


def _flat(values: Mapping[Path, Any], order: Mapping[Path, Any]) -> dict[str, Any]:
    return dict(named_leaves(nest_by_path({p: values[p] for p in order if p in values})))


def _log_probs(
    draws: Mapping[str, Any],
    sites: Mapping[Path, _Site],
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[Groups, dict[str, dict[str, np.ndarray]]]:
    """Log probabilities of the draws by group and site, and which of their entries there are.

    A site observed in part is in both groups: its missing entries are latent values, and the
    others are data. Factors are in neither: they are not observations. Entries that a
    marginalized model scores together stand under the name of their groups, but for data that are
    scored together with a latent site, which are in neither.
    """
    with settings(None):
        likelihood = Likelihood.of(model, args, kwargs, needs="nothing")
        likelihood = put_on_common_devices(likelihood)
        arrays = log_probs(likelihood, draws)
        if likelihood.is_scaled:  # the density of data is their own, however much they count
            arrays |= log_likelihoods(likelihood, draws)
    groups: Groups = {"log_prior": {}, "log_likelihood": {}}
    masks: dict[str, dict[str, np.ndarray]] = {"log_prior": {}, "log_likelihood": {}}
    by_name = {join_scopes(path): site for path, site in sites.items()}
    for entries in likelihood.scored:
        if entries.kind not in ("observed", "latent"):  # a factor has no observations to leave out
            continue
        name = entries.name
        x = arrays[name]
        site = by_name.get(name)
        is_data = entries.kind == "observed"
        if site is None or site.missing is None:
            group = "log_likelihood" if is_data else "log_prior"
            groups[group][name] = x
            if (has_entries := _has_entries(entries)) is not None:
                masks[group][name] = has_entries
            continue
        missing = np.asarray(site.missing)
        missing = np.asarray(missing.all(tuple(range(x.ndim - 2, missing.ndim))))
        for group, mask in (("log_likelihood", ~missing), ("log_prior", missing)):
            if mask.any() and (group == "log_likelihood" or not is_data):
                groups[group][name], masks[group][name] = x, mask
    return groups, masks


def _has_entries(scored: ScoredEntries) -> np.ndarray | None:
    """Mask of the log probabilities that belong to an entry; None if all do, or it is not known."""
    found = np.zeros(math.prod(scored.shape), bool)
    for name in scored.site_shapes:
        numbers = scored.numbers_of_entries(name)
        if scored.groups is None or numbers is None or np.any(numbers < 0):
            return None
        found[np.ravel(numbers)] = True
    return None if found.all() else found.reshape(scored.shape)


def _constants(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], labels: Labels
) -> dict[str, Any]:
    """Arguments of a model, also bound ones, that are arrays of numbers, by name.

    Columns are coded by the names of the entries of the dimension that is called as they are.
    """
    try:
        given = arguments_by_name(model, args, kwargs)
    except (TypeError, ValueError):  # no signature
        given = {**{f"arg_{i}": x for i, x in enumerate(args)}, **kwargs}
    arguments = _code(convert_arguments((), given)[1], labels)
    leaves = named_leaves(arguments)
    return {name: x for name, x in leaves if _is_array_of_numbers(x)}


def place_of(group: str, name: str) -> str:
    """Key of the axes of an array: arguments of a model may be called as its sites are."""
    return f"{group}: {name}" if group == "constant_data" else name


def _of_constants(model: Any) -> Labels:
    """Labels of data that a model holds, by place."""
    return {place_of("constant_data", name): x for name, x in labels_of_data(model).items()}


def _code(arguments: Any, labels: Labels) -> Any:
    """Arguments with columns coded by labels of sites, where these agree and have all names."""
    found: dict[str, set[tuple[Any, ...]]] = {}
    for dim, names in (x for axes in labels.values() for x in axes if x is not None):
        if names is not None:
            found.setdefault(dim, set()).add(names)
    for dim, several in found.items():
        if len(several) == 1:
            try:
                arguments = code_by_names(arguments, {dim: next(iter(several))})
            except ValueError:  # a category without a name, in a table that the label has not seen
                continue
    return arguments


def _is_array_of_numbers(x: Any) -> bool:
    if not isinstance(x, jax.Array | np.ndarray):
        return False
    return jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool


def _graph(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The graph of a model, None if it has a mutable array."""
    try:
        return ppl.graph(model)(*args, **kwargs)
    except NotImplementedError:
        return None


def _axes(graph: Any) -> tuple[dict[str, tuple[str | None, ...]], Labels]:
    """Names of the leading axes of each array of each site, and labels of sites.

    A name that belongs to axes of several sizes gets the name of the site in front. Without a graph
    there are no names.
    """
    if graph is None:
        return {}, {}
    named = {"scan": "time", "vmap": None, "shards": None}
    sizes: dict[str, set[int]] = {}
    plates = {
        site: [(p.name or named[p.kind], p.size) for p in node.plates or _series(graph, site)]
        for site, node in graph.nodes.items()
    }
    for pairs in plates.values():
        for axis, size in pairs:
            if axis is not None:
                sizes.setdefault(axis, set()).add(size)
    axes: dict[str, tuple[str | None, ...]] = {}
    for site, pairs in plates.items():
        names: list[str | None] = []
        for axis, _ in pairs:
            if axis is not None and len(sizes[axis]) > 1:
                axis = f"{site}_{axis}"
            names.append(f"{axis}_{names.count(axis)}" if axis in names and axis else axis)
        for leaf, _ in named_leaves({site: graph.nodes[site].value}):
            axes[leaf] = tuple(names)
    return axes, {name: node.labels for name, node in graph.nodes.items() if node.labels}


def _series(graph: Any, site: str) -> tuple[Any, ...]:
    """The scan whose stacked results a deterministic site outside of it holds, if any.

    It depends on sites of one scan, and has as many entries along axis 0 as that has steps.
    """
    node = graph.nodes[site]
    around = {p for x in graph.parents(site) for p in graph.nodes[x].plates[:1] if p.kind == "scan"}
    if node.kind != "deterministic" or len(around) != 1:
        return ()
    sizes = {leaf.shape[:1] for leaf in jax.tree.leaves(node.value)}
    return tuple(around) if sizes == {(next(iter(around)).size,)} else ()
