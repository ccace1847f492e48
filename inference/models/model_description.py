"""Model in words: its graph, the distribution of each site, and what its observations are."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from inference.common.target import Target
from inference.runtime.compiled_program import compile_once
from inference.runtime.jax_settings import settings
from ppl.common.arguments import Arguments
from ppl.common.distribution_protocol import DistributionWrapper
from ppl.core.model_pytree import as_pytree, innermost
from ppl.harvest.names import nest_by_path
from ppl.harvest.survey import Path, join_scopes
from ppl.primitives.site_kinds import LATENT, OBSERVED
from ppl.transforms.likelihood import Likelihood
from ppl.transforms.trace import flatten_sites

_MAX_SITES = 30  # latent sites that are changed one by one
_NUM_CHECKED = 64  # draws at which a parameter is compared with the values of sites
_NEAR = 0.1  # standard deviation of moves around a position on unconstrained space
_WIDTH = 100  # characters of a distribution with its parameters


class SiteDescription(NamedTuple):
    """Random site of a model, in words.

    Attributes:
        name: Name of the site.
        kind: "latent" or "observed".
        distribution: Its distribution: numbers of parameters that are constant, and names of the
            sites that the others depend on, as ``Normal(loc=mu, scale=2)``.
    """

    name: str
    kind: str
    distribution: str


class ModelDescription(NamedTuple):
    """Model in words and as a picture.

    Attributes:
        name: Name of its function.
        table: Table of its graph as HTML; empty if the graph is not known.
        svg: The graph as an SVG element; empty if it cannot be drawn.
        sites: Its random sites.
    """

    name: str
    table: str
    svg: str
    sites: list[SiteDescription]


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """Parameter of a distribution, a leaf of its pytree, at some draws.

    Attributes:
        low, high: Its extreme elements.
        sources: Names of the latent sites that it depends on.
        is_value: Whether it is the value of its only source, maybe repeated.
        is_clear: Whether it is constant if it has no sources.
    """

    low: Any
    high: Any
    sources: tuple[str, ...]
    is_value: bool
    is_clear: bool


def describe_model(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    draws: Mapping[str, Any],
) -> ModelDescription:
    """Description of a model by its graph, and by its distributions at some of the draws.

    Args:
        model: The model that the draws come from, with its data.
        args: Its arguments.
        kwargs: Its keyword arguments.
        draws: Draws by site, ``(chain, draw, *shape)``.
    """
    function = innermost(model)
    name = getattr(function, "__name__", type(function).__name__)
    try:
        graph = ppl.graph(model)(*args, **kwargs)
    except NotImplementedError:  # a mutable array
        return ModelDescription(name, "", "", [])
    shown = graph._repr_mimebundle_()["text/html"]
    start = shown.index("<table")
    try:
        found = _distributions(model, args, kwargs, draws)
    except (NotImplementedError, TypeError, ValueError):  # a site that cannot be conditioned on
        found = {}
    sites = []
    latent = {site for site, node in graph.nodes.items() if node.kind == LATENT}
    for site, node in graph.nodes.items():
        parents = graph.parents(site)
        if node.kind in (LATENT, OBSERVED):
            before = {x: {x, *graph.ancestors(x)} for x in parents}
            needed = [
                {x} if graph.nodes[x].kind == LATENT else before[x] & latent
                for x in parents
                if graph.nodes[x].kind != OBSERVED
            ]
            is_told = site in found and _is_told(found[site], needed)
            text = _words(found[site], before) if is_told else ""
            if not 0 < len(text) <= _WIDTH:
                text = node.family + (f"(f({', '.join(parents)}))" if parents else "")
            sites.append(SiteDescription(site, node.kind, text))
    return ModelDescription(name, shown[start:], shown[:start], sites)


def points_near(target: Target, position: Any) -> dict[str, Any]:
    """Values of sites at a position and around it, as draws of a chain, the position first."""
    rng = np.random.default_rng(0)

    def move(x):
        moves = rng.normal(scale=_NEAR, size=(_NUM_CHECKED, *np.shape(x)))
        moves[0] = 0
        return (np.asarray(x) + moves).astype(np.asarray(x).dtype)

    positions = jax.tree.map(move, position)
    with settings(None):
        values = compile_once(_constrain, target, positions)(target, positions)
    return jax.tree.map(lambda x: np.asarray(x)[None], values)


def _constrain(target: Target, positions: Any) -> dict[str, Any]:
    return jax.vmap(target.constrain)(positions)


def why_not_single(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, str]:
    """Why log probabilities of data are not the terms of one observation each, by name.

    The log probability of a site that is not in it is that of one observation.
    """
    with settings(None):
        likelihood = Likelihood.of(model, args, kwargs, needs="nothing")
    reasons = {}
    for x in likelihood.scored:
        if x.kind == LATENT:
            reasons[x.name] = f"{x.name!r} is observed in part, by ppl.impute: use ppl.ignore"
        elif x.groups is not None:
            reasons[x.name] = f"{x.name!r} is scored in groups, as the model is marginalized"
        elif likelihood.is_scaled:
            reasons[x.name] = "log probabilities have weights, by ppl.scale"
    return reasons


def _distributions(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], draws: Mapping[str, Any]
) -> dict[str, Any]:
    """Distribution of each site by name, with a `_Parameter` for each leaf.

    The latent sites are set to one draw, then each in turn to another draw: a parameter that does
    not change does not depend on the site. Of many latent sites, all are changed at once. More
    draws tell whether a parameter is always the value of a site, and whether it is constant.
    """
    paths = _latent_paths(model, args, kwargs)
    first = [np.asarray(_at(draws, path))[0, 0] for path in paths]
    more = [_some_draws(np.asarray(_at(draws, path))) for path in paths]
    other = [_other_draw(np.asarray(_at(draws, path))) for path in paths]
    if any(np.array_equal(x, y) for x, y in zip(first, other, strict=True)):
        return {}  # a site that has not moved cannot tell what depends on it
    chosen = np.eye(len(paths), dtype=bool)
    if len(paths) > _MAX_SITES:
        chosen = np.ones((1, len(paths)), bool)
    arguments, data = Arguments.split(args, dict(kwargs))
    leaves, structure = jax.tree.flatten((as_pytree(model), data, first, other, chosen, more))
    structures: dict[str, Any] = {}

    def compare(leaves: list[Any]) -> Any:
        model, data, first, other, chosen, more = jax.tree.unflatten(structure, leaves)
        args, kwargs = arguments.join(data)

        def parameters(values: list[Any]) -> dict[str, list[Any]]:
            given = ppl.condition(model, nest_by_path(dict(zip(paths, values, strict=True))))
            sites = ppl.trace(given)(jax.random.key(0), *args, **kwargs).sites
            found = {}
            for path, site in flatten_sites(sites):
                if site.distribution is not None:
                    found[join_scopes(path)], structures[join_scopes(path)] = jax.tree.flatten(
                        site.distribution
                    )
            return found

        def change(which: jax.Array) -> Any:
            values = [jnp.where(which[i], other[i], first[i]) for i in range(len(paths))]
            return jax.tree.map(_differ, base, parameters(values))

        def check(values: list[Any]) -> Any:
            found = parameters(values)
            equal = [jax.tree.map(lambda x, at=at: _is_same(x, at), found) for at in values]
            return jax.tree.map(_differ, base, found), equal

        base = parameters(first)
        changed = jax.lax.map(change, chosen) if paths else None
        moved, equal = jax.lax.map(check, more) if paths else (None, [])
        return jax.tree.map(_extremes, base), changed, moved, equal

    extremes, changed, moved, equal = jax.jit(compare)(leaves)
    names = [join_scopes(path) for path in paths]
    described = {}
    for site, pairs in extremes.items():
        found = []
        for i, (low, high) in enumerate(pairs):
            moves = np.asarray(changed[site][i]) if paths else np.zeros(0, bool)
            sources = tuple(name for name, x in zip(names, moves @ chosen, strict=True) if x)
            is_value = False
            if len(sources) == 1:
                is_value = bool(np.all(equal[names.index(sources[0])][site][i]))
            is_clear = not paths or bool(sources) or not np.any(moved[site][i])
            found.append(_Parameter(np.asarray(low), np.asarray(high), sources, is_value, is_clear))
        described[site] = jax.tree.unflatten(structures[site], found)
    return described


def _latent_paths(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Path]:
    found: list[Path] = []

    def run() -> None:
        sites = ppl.trace(model)(jax.random.key(0), *args, **kwargs).sites
        found.extend(path for path, site in flatten_sites(sites) if site.kind == LATENT)

    jax.eval_shape(run)
    return found


def _other_draw(x: np.ndarray) -> np.ndarray:
    """The last draw, or the last one that differs from the first draw, if any does."""
    if not np.array_equal(x[-1, -1], x[0, 0]):
        return x[-1, -1]
    flat = x.reshape(-1, *x.shape[2:])
    differ = np.any((flat != flat[0]).reshape(len(flat), -1), axis=1)
    return flat[np.flatnonzero(differ)[-1]] if differ.any() else flat[0]


def _some_draws(x: np.ndarray) -> np.ndarray:
    """Draws of all chains, evenly spaced from the first to the last one."""
    flat = x.reshape(-1, *x.shape[2:])
    return flat[np.linspace(0, len(flat) - 1, min(len(flat), _NUM_CHECKED)).astype(int)]


def _at(draws: Any, path: Path) -> Any:
    for name in path:
        draws = draws[name]
    return draws


def _differ(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.any((x != y) & ~((x != x) & (y != y)))  # a NaN has not changed if it is one again


def _is_same(x: jax.Array, value: jax.Array) -> jax.Array:
    if jnp.shape(value) not in ((), jnp.shape(x)):
        return jnp.zeros((), bool)
    return jnp.all(x == value)


def _extremes(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    if not jnp.size(x) or not jnp.issubdtype(jnp.result_type(x), jnp.number):
        return jnp.full((), jnp.nan), jnp.full((), jnp.nan)
    return jnp.min(x), jnp.max(x)


def _is_told(d: Any, needed: Collection[Collection[str]]) -> bool:
    """Whether parameters have a source among each of some sites, if there are any of these."""
    parameters = [x for x in jax.tree.leaves(d) if isinstance(x, _Parameter)]
    sources = {source for x in parameters for source in x.sources}
    return all(x.is_clear for x in parameters) and all(
        not sites or not sources.isdisjoint(sites) for sites in needed
    )


def _words(d: Any, before: Mapping[str, Collection[str]]) -> str:
    """Text of a distribution; `before` has the ancestors of each parent of its site."""
    while isinstance(d, DistributionWrapper):
        d = d.base
    if isinstance(d, _Parameter):
        return _words_of_parameter(d, before)
    if isinstance(d, tuple | list) and any(isinstance(x, _Parameter) for x in d):
        return f"({', '.join(_words(x, before) for x in d)})"
    if not dataclasses.is_dataclass(d):
        return type(d).__name__ if hasattr(d, "log_prob") else str(d)
    parts = []
    for field in dataclasses.fields(d):
        value = getattr(d, field.name)
        if value is None or not field.repr:
            continue
        text = _words(value, before)
        parts.append(text if hasattr(value, "log_prob") else f"{field.name}={text}")
    return f"{type(d).__name__}({', '.join(parts)})"


def _words_of_parameter(x: _Parameter, before: Mapping[str, Collection[str]]) -> str:
    if x.is_value:
        return x.sources[0]
    if x.sources:
        own = [site for site in before if site in x.sources]
        if len(own) < len(x.sources):  # some are behind deterministic sites
            own = [site for site in before if {*x.sources} & {*before[site]}]
        return f"f({', '.join(own)})"
    low, high = f"{x.low:.4g}", f"{x.high:.4g}"
    return low if low == high else f"{low} to {high}"
