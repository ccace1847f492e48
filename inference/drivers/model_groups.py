"""Groups of ArviZ's container that need the model: densities, predictions, data, names of axes."""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import ppl
from inference.common.leaf_names import named_leaves
from inference.drivers.discrete_target import Path, nest_by_path
from ppl.common.arguments import Arguments
from ppl.common.distribution_protocol import DistributionWrapper
from ppl.common.missing_data import Ignored, Imputed
from ppl.core.model_pytree import as_pytree, innermost
from ppl.harvest._site_names import join_scopes
from ppl.harvest._values import convert_foreign_arrays
from ppl.transforms.unobserve import unobserve

Groups = dict[str, dict[str, Any]]
_CHUNK_ELEMENTS = 2**22  # log probabilities computed at once
_NUM_PRIOR = 1000  # draws from the prior


class ModelGroups(NamedTuple):
    """Groups that a model adds to draws, and names of axes.

    Attributes:
        groups: Arrays by name, by group.
        axes: Names of the leading axes of sites, by name: the name of a `vmap` axis, "time" for a
            scan, None for any other.
    """

    groups: Groups
    axes: dict[str, tuple[str | None, ...]]


class _Site(NamedTuple):
    """A site in a run of a conditioned model, with which of its entries are missing, if any are."""

    kind: str
    value: Any
    missing: Any


def model_groups(
    draws: Mapping[str, Any],
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    key: jax.Array | None,
) -> ModelGroups:
    """Groups of a conditioned model: log probabilities and data, and with a key predictions.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        model: The model that the draws come from, with its data.
        args: Its arguments.
        kwargs: Its keyword arguments.
        key: Random key of the predictions; without one there are none.

    Raises:
        ValueError: if the draws are of another model.
    """
    sites = _run(model, args, kwargs)
    latent = _latent_draws(draws, sites)
    is_data = {path for path, site in sites.items() if _has_data(site)}
    log_prior, log_likelihood = _log_probs(latent, sites, model, args, kwargs)
    groups: Groups = {
        "log_prior": log_prior,
        "log_likelihood": log_likelihood,
        "observed_data": _flat({path: _data_of(sites[path]) for path in is_data}, sites),
        "constant_data": _constants(model, args, kwargs),
    }
    if key is not None:
        prior_key, key = jax.random.split(key)
        drawn = ppl.predict(unobserve(model), _NUM_PRIOR)(prior_key, *args, **kwargs)
        drawn = jax.tree.map(lambda x: x[None], drawn)
        groups["prior"] = _pick(drawn, [p for p in sites if p not in is_data])
        groups["prior_predictive"] = _pick(drawn, [p for p in sites if p in is_data])
    if key is not None and is_data:
        given = nest_by_path({path: x for path, x in latent.items() if path not in is_data})
        drawn = ppl.predict(unobserve(model), given)(key, *args, **kwargs)
        groups["posterior_predictive"] = _pick(drawn, [p for p in sites if p in is_data])
    return ModelGroups({k: x for k, x in groups.items() if x}, _axes(model, args, kwargs))


def _run(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[Path, _Site]:
    """The sites of one run of a model by path, in the order of the program."""
    kinds: dict[Path, str] = {}

    def run(model: Any, args: Any, kwargs: Any) -> dict[Path, Any]:
        sites = ppl.trace(model)(jax.random.key(0), *args, **kwargs).sites
        found = {path: site for path, site in _flatten(sites) if site.kind != "factor"}
        kinds.update({path: site.kind for path, site in found.items()})
        return {p: (site.value, _missing(site.distribution)) for p, site in found.items()}

    values = _call(run, model, args, kwargs)  # in a jit, as data may be NaN where they are missing
    return {path: _Site(kind, *values[path]) for path, kind in kinds.items()}


def _flatten(sites: Any, scope: Path = ()) -> Iterator[tuple[Path, ppl.SiteTrace]]:
    for name, site in sites.items():
        path = (*scope, name)
        yield from ((path, site),) if isinstance(site, ppl.SiteTrace) else _flatten(site, path)


def _missing(d: Any) -> Any:
    """Mask of the missing entries of a site observed in part, else None."""
    while isinstance(d, DistributionWrapper):
        if isinstance(d, Imputed | Ignored):
            return d.missing
        d = d.base
    return None


def _has_data(site: _Site) -> bool:
    return site.kind == "observed" or (site.kind == "latent" and site.missing is not None)


def _data_of(site: _Site) -> Any:
    """Data of a site, NaN where they are missing."""
    if site.missing is None:
        return site.value
    value = np.asarray(site.value)
    dtype = value.dtype if np.issubdtype(value.dtype, np.inexact) else np.float64
    return np.where(site.missing, np.asarray(np.nan, dtype), value)


def _call(function: Callable[..., Any], model: Any, args: Any, kwargs: Any, *more: Any) -> Any:
    """`function(model, args, kwargs, *more)` in a jit, whose arguments are all arrays."""
    arguments, data = Arguments.split(args, kwargs)

    def call(model: Any, data: Any, more: Any) -> Any:
        return function(model, *arguments.join(data), *more)

    return jax.jit(call)(as_pytree(model), data, more)


def _latent_draws(draws: Mapping[str, Any], sites: Mapping[Path, _Site]) -> dict[Path, Any]:
    """Draws of the latent sites by path."""
    latent = {path: _at(draws, path) for path, site in sites.items() if site.kind == "latent"}
    lacking = [join_scopes(path) for path, x in latent.items() if x is None]
    if lacking:
        have = ", ".join(name for name, _ in named_leaves(draws))
        raise ValueError(
            f"to_arviz: the model has the latent site {lacking[0]!r}, of which there are no draws, "
            f"but of {have}. Give the model that was sampled, with its data: "
            "result.to_arviz(posterior, *args)."
        )
    known = {name for p, site in sites.items() for name, _ in named_leaves(_nest(p, site.value))}
    for name, _ in named_leaves(draws):
        if name not in known:
            raise ValueError(
                f"to_arviz: the model has no site {name!r}, of which there are draws. Give the "
                "model that was sampled, with its data: result.to_arviz(posterior, *args)."
            )
    return latent


def _nest(path: Path, value: Any) -> dict[str, Any]:
    return nest_by_path({path: value})


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _pick(values: Any, paths: Any) -> dict[str, Any]:
    """Arrays of some sites, by name."""
    found = {path: _at(values, path) for path in paths}
    return dict(named_leaves(nest_by_path({p: x for p, x in found.items() if x is not None})))


def _flat(values: Mapping[Path, Any], order: Mapping[Path, Any]) -> dict[str, Any]:
    return dict(named_leaves(nest_by_path({p: values[p] for p in order if p in values})))


def _log_probs(
    latent: Mapping[Path, Any],
    sites: Mapping[Path, _Site],
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Log probabilities of the draws: of latent values, and of data and factors, by site.

    A site observed in part is in both, with zeros where an entry is missing or is data.
    """
    leaves = jax.tree.leaves(dict(latent))
    batch = np.shape(leaves[0])[:2] if leaves else (1, 1)
    flat = jax.tree.map(lambda x: jnp.reshape(x, (math.prod(batch), *np.shape(x)[2:])), latent)

    def one(model: Any, args: Any, kwargs: Any, values: Any) -> Any:
        return ppl.log_probs(model)(nest_by_path(values), *args, **kwargs)

    def every(model: Any, args: Any, kwargs: Any, flat: Any, num_at_once: int | None) -> Any:
        return lax.map(functools.partial(one, model, args, kwargs), flat, batch_size=num_at_once)

    first = jax.tree.map(lambda x: x[0], flat)
    sizes = jax.eval_shape(functools.partial(one, model, args, kwargs), first)
    size = sum(math.prod(x.shape) for x in jax.tree.leaves(sizes))
    if 0 in {math.prod(np.shape(x)[1:]) for x in jax.tree.leaves(flat)}:
        chunk = None  # JAX cannot make batches of arrays without elements
    else:
        chunk = max(1, min(_CHUNK_ELEMENTS // max(size, 1), math.prod(batch)))
    every_draw = functools.partial(every, num_at_once=chunk)
    found = _call(every_draw, model, args, kwargs, flat)
    arrays = {name: np.reshape(x, (*batch, *x.shape[1:])) for name, x in named_leaves(found)}
    prior, likelihood = {}, {}
    by_name = {join_scopes(path): site for path, site in sites.items()}
    for name, x in arrays.items():
        site = by_name.get(name)
        if site is None or site.kind == "observed":
            likelihood[name] = x
        elif site.missing is None:
            prior[name] = x
        else:
            is_missing = np.asarray(site.missing)
            is_missing = is_missing.all(tuple(range(x.ndim - 2, is_missing.ndim)))
            prior[name], likelihood[name] = np.where(is_missing, x, 0), np.where(is_missing, 0, x)
    return prior, likelihood


def _constants(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a model that are arrays of numbers, by the names of its parameters."""
    function = innermost(model)
    try:
        bound = inspect.signature(function).bind(None, *args, **kwargs).arguments
    except (TypeError, ValueError):  # no signature
        bound = {"key": None, **{f"arg_{i}": x for i, x in enumerate(args)}, **kwargs}
    given = dict(list(bound.items())[1:])
    leaves = named_leaves(convert_foreign_arrays(given))
    return {name: x for name, x in leaves if _is_array_of_numbers(x)}


def _is_array_of_numbers(x: Any) -> bool:
    if not isinstance(x, jax.Array | np.ndarray):
        return False
    return jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool


def _axes(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, tuple[str | None, ...]]:
    """Names of the leading axes of each array of each site.

    A name that belongs to axes of several sizes gets the name of the site in front.
    """
    try:
        nodes = ppl.graph(model)(*args, **kwargs).nodes
    except NotImplementedError:  # a mutable array: the axes go without names
        return {}
    named = {"scan": "time", "vmap": None, "shards": None}
    sizes: dict[str, set[int]] = {}
    plates = {name: [(p.name or named[p.kind], p.size) for p in x.plates] for name, x in
              nodes.items()}  # fmt: skip
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
        for leaf, _ in named_leaves({site: nodes[site].value}):
            axes[leaf] = tuple(names)
    return axes
