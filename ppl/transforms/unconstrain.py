"""unconstrain: the log density of a model over unconstrained space."""

import dataclasses
import itertools
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.analysis.missing_entries import disagreement, find_missing
from ppl.analysis.summed_sites import find_approximate
from ppl.common import distribution_protocol
from ppl.common.arguments import Arguments
from ppl.common.missing_data import Gaps, gaps_of
from ppl.common.row_order import check_row_orders
from ppl.common.scaled_distribution import factors_at
from ppl.core.captured_constants import find_mesh, trace_and_fingerprint
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, apply_at_site, log_prob, trace_model
from ppl.core.site_cache import cached_at_site
from ppl.harvest import leaf_values
from ppl.harvest.interpreter import Operands
from ppl.harvest.jax_core import is_traced
from ppl.harvest.names import nest_by_path, paths_in, suggest_names
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Program
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, describe, join_scopes, show
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import DETERMINISTIC, FACTOR, RANDOM
from ppl.transforms.condition import condition_and_complete
from ppl.transforms.density import Scores, total
from ppl.transforms.label import labels_of
from ppl.transforms.prior_weights import latent_sites, order_of, weighted_paths
from ppl.transforms.reparam import is_learned, learnable_sites, weighted_base, with_weight
from ppl.transforms.reparam_strategies import Frame, WeightedPosition, frame_of
from ppl.transforms.simulate import simulate
from ppl.transforms.trace import inspection
from ppl.transforms.unscaled import unscaled


def _remedy(path: Path) -> str:
    return f"Sum it out, ppl.marginalize(model, [{join_scopes(path)!r}]), or condition on it."


def _position(site: Site, value: Any, d: Any) -> Any:
    """The unconstrained position of the value of a latent site, NaN outside of its support."""
    try:
        return distribution_protocol.nan_outside_support(
            d, value, distribution_protocol.inverse(d, value)
        )
    except NotImplementedError as error:
        raise ValueError(
            f"site {describe(site.path)}: {distribution_protocol.name_of(d)} has no map from "
            "unconstrained space "
            f"({error}) {_remedy(site.path)}"
        ) from error


def _frame(site: Site, value: Any, d: Any) -> Frame:
    """The frame of a site with learned centering; without weights in a branch, of its position."""
    if (base := weighted_base(d)) is not None:
        return frame_of(base, value)
    position = _position(site, value, d)
    return Frame(position, jnp.zeros_like(position), jnp.ones_like(position))


@dataclasses.dataclass(frozen=True)
class Constrain(SiteAction):
    """Action of `log_density`: maps positions to values, records log densities of positions."""

    tags: ClassVar = (RANDOM, FACTOR)
    batched: ClassVar[bool] = False
    adds: ClassVar[bool] = True
    at_once: ClassVar[bool] = True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The value at the planted position, or the sown one, and its log density."""
        if plant is None:
            log_density = log_prob(site, operands, operands.values, summed=True)
            return operands.values, log_density
        if isinstance(plant, WeightedPosition):
            site = dataclasses.replace(site, tree=jax.tree.structure(plant))
        value, log_density = cached_at_site(_constrain, site, plant, operands.extras, summed=True)
        return plant if value is None else jax.tree.leaves(value), log_density


@dataclasses.dataclass(frozen=True)
class ConstrainApart(Constrain):
    """Action of `log_densities`: sites of one loop keep terms of their own, one for each step."""

    adds: ClassVar[bool] = False


def _constrain(position: Any, d: Any) -> tuple[Any, jax.Array]:
    """Value and log density of a position; value None if it is the position itself.

    None shows that the value does not depend on the distribution.
    """
    if isinstance(position, WeightedPosition):
        return distribution_protocol.constrain(with_weight(d, position.weight), position.position)
    value, log_density = distribution_protocol.constrain(d, position)
    return None if value is position else value, log_density


def _value(position: Any, d: Any) -> Any:
    """The value at a position."""
    if isinstance(position, WeightedPosition):
        return distribution_protocol.forward(with_weight(d, position.weight), position.position)
    return distribution_protocol.forward(d, position)


@dataclasses.dataclass(frozen=True)
class RecordValues(SiteAction):
    """Action of `constrain`: maps positions to values, records them and deterministic values."""

    tags: ClassVar = (RANDOM, DETERMINISTIC)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The value at the planted position, or the sown one, recorded unless it is data."""
        if plant is None:
            is_recorded = site.tag == DETERMINISTIC
            value = jax.tree.unflatten(site.tree, operands.values) if is_recorded else None
            return operands.values, value
        if isinstance(plant, WeightedPosition):
            site = dataclasses.replace(site, tree=jax.tree.structure(plant))
        value = apply_at_site(site, operands, plant, _value)
        return jax.tree.leaves(value), value


@dataclasses.dataclass(frozen=True)
class RecordPositions(SiteAction):
    """Action of `unconstrain`: maps planted values to positions, and records these.

    Of a site whose centering is learned, it records the frame that its weights belong to.
    """

    learned: frozenset[Path]
    tags: ClassVar = (RANDOM,)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value and its position, or the sown value without a record."""
        if plant is None:
            return operands.values, None
        record = _frame if site.path in self.learned else _position
        return plant, apply_at_site(site, operands, plant, lambda x, d: record(site, x, d))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Unconstrained:
    """A model over unconstrained space, made by `unconstrain`.

    It is a pytree whose leaves are the data, so it can be an argument of a jitted function, and new
    data of the same shapes never recompile. A position is a dict of unconstrained arrays by latent
    site, nested as the scopes are.

    Attributes:
        model: The model, as a pytree.
        data: The data among the arguments of the model.
        arguments: The static arguments of the model.
        shapes: Path and shape of the position of each latent site.
        missing: Positions of the missing entries in the flat value of each site observed in part.
        captured: Fingerprint of the numbers in the model's program; new numbers recompile.
        values: Path and shape of the value of each site observed in part.
        mesh: The mesh of a `shard_map` in the model, or None; an abstract mesh stands for the mesh
            of the context.
        order: Paths of the latent and deterministic sites in the order of the model, each with
            whether it is deterministic.
        approximate: Paths of the sites that `Laplace` has taken out of the model.
        centering: Weights of each site whose centering is learned, one for each element: 0 at first
            for sites with `LearnedCentering`, 1 for those of :meth:`with_learned_centering`.
        labels: Path of each site with labels, and a dimension or None for each axis of its value;
            see `label`.
    """

    model: Model
    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})
    shapes: tuple[tuple[Path, Any], ...] = dataclasses.field(metadata={"static": True})
    missing: PathDict
    captured: tuple[Hashable, ...] = dataclasses.field(default=(), metadata={"static": True})
    values: tuple[tuple[Path, tuple[int, ...]], ...] = dataclasses.field(
        default=(), metadata={"static": True}
    )
    mesh: Any = dataclasses.field(default=None, metadata={"static": True})
    order: tuple[tuple[Path, bool], ...] = dataclasses.field(default=(), metadata={"static": True})
    approximate: tuple[Path, ...] = dataclasses.field(default=(), metadata={"static": True})
    centering: PathDict = dataclasses.field(default_factory=PathDict)
    labels: tuple[tuple[Path, Any], ...] = dataclasses.field(default=(), metadata={"static": True})

    @property
    def position_shapes(self) -> dict[str, Any]:
        """The shapes and dtypes of a position, as `jax.ShapeDtypeStruct`."""
        return nest_by_path(dict(self.shapes))

    def log_density(self, position: Mapping[str, Any]) -> jax.Array:
        """The log density of a position: of its values, plus the log determinant of the Jacobian.

        Raises:
            ValueError: If a name is missing or unknown, or a shape does not fit.
        """
        return total(self._run(Constrain()).records(self._plants(position)))

    def log_densities(self, position: Mapping[str, Any]) -> dict[Path, jax.Array]:
        """Terms of the log density by path: of each site with its log determinant, of factors.

        Raises:
            ValueError: If a name is missing or unknown, or a shape does not fit.
        """
        records = self._run(ConstrainApart()).records(self._plants(position))
        return {path: jnp.sum(x) for path, x in records.items()}

    def constrain(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all latent and deterministic sites at a position."""
        return nest_by_path(self._run(RecordValues()).records(self._plants(position)))

    def prior_and_likelihood(self, position: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
        """The log prior and the log likelihood of a position, without log determinants.

        The log prior is the log density of the latent sites, each given the sites before it. The
        log likelihood is the log density of data and factors given the latent sites. A site
        observed in part belongs to the prior as a whole.
        """
        run = self._run(Scores())
        latent = _entries(self.constrain(position), self.shapes)
        records = run.records(run.fit_entries(latent, "prior_and_likelihood"))
        scores = {path: jnp.sum(x) for path, x in records.items()}
        prior = {path: x for path, x in scores.items() if path in latent}
        return total(prior), total({path: x for path, x in scores.items() if path not in latent})

    def split_log_density(self, position: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
        """The log density of the draws of `prior` at a position, and the rest of the log density.

        The rest is the log likelihood of data and factors. As draws do not know of `scale`, it also
        has the factor of a latent site, less one.

        Raises:
            NotImplementedError: If a site is observed in part, or is scored together with data.
        """
        run = self._run(Constrain())
        latent = weighted_paths(run)
        whole = self.log_densities(position)
        prior = {path: whole[path] for path in latent}
        rest = {path: x for path, x in whole.items() if path not in prior}
        if any(factors_at(site) for path in latent for site in run.sites[path].sites):
            args, kwargs = self.arguments.join(self.data)
            program = trace_model(self.model, None, args, kwargs)
            bare_run = ModelRun(self.model, unscaled(program, run.sites), ConstrainApart())
            terms = bare_run.records(self._plants(position))
            bare = {path: jnp.sum(terms[path]) for path in latent}
            rest |= {path: prior[path] - bare[path] for path in latent}
            prior = {path: bare[path] for path in latent}
        return total(prior), total(rest)

    def unconstrain(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The position of values; not finite for a value outside of its support."""
        run = self._run(RecordPositions(frozenset(self.centering)))
        records = run.records(run.fit(values, "unconstrain", complete=True))
        records |= {path: records[path].position(c) for path, c in self.centering.items()}
        latent = {path: records[path].ravel()[at] for path, at in self.missing.items()}
        return nest_by_path(records | latent)

    def with_centering(self, weights: Mapping[str, Any]) -> "Unconstrained":
        """The density in other coordinates: weights of centering by site.

        Raises:
            ValueError: If a site has no weights, or weights are of another shape or out of range.
        """
        known = self.centering
        given = dict(paths_in(weights, known))
        for path, x in given.items():
            if path not in known:
                others = suggest_names(known, path, what="sites with learned centering")
                raise ValueError(f"with_centering: {describe(path)} is none. {others}")
            if np.shape(x) not in ((), known[path].shape):
                raise ValueError(
                    f"with_centering: site {describe(path)} has the shape {known[path].shape}, and "
                    f"the weights {np.shape(x)}."
                )
            if not (is_traced(x) or np.all((np.asarray(x) >= 0) & (np.asarray(x) <= 1))):
                raise ValueError(
                    f"with_centering: weights of site {describe(path)} lie between 0 (non-centered)"
                    f" and 1 (centered), got {leaf_values.short_repr(x)}."
                )
        full = {
            path: jnp.broadcast_to(jnp.asarray(x, known[path].dtype), known[path].shape)
            for path, x in given.items()
        }
        return dataclasses.replace(self, centering=PathDict(known | full))

    def with_learned_centering(self) -> "Unconstrained":
        """The density with weights of centering for all sites that can have them.

        These are the sites to which `auto_reparam` would give `LearnedCentering`, if they depend on
        other latent sites. Their weights are 1, so that positions stay as they are.
        """
        leaves, structure = jax.tree.flatten(self)
        found: list[frozenset[Path]] = []

        def look(key: jax.Array, leaves: list[Any]) -> None:
            target = jax.tree.unflatten(structure, leaves)
            args, kwargs = target.arguments.join(target.data)
            program = trace_model(target.model, key, args, kwargs)
            found.append(learnable_sites(target.model, program))

        jax.eval_shape(look, jax.eval_shape(lambda: jax.random.key(0)), leaves)
        ones = {p: jnp.ones(x.shape, x.dtype) for p, x in self.shapes if p in found[0]}
        return dataclasses.replace(self, centering=PathDict(ones | self.centering))

    @property
    def weights(self) -> dict[str, Any]:
        """The weights of centering, nested as the scopes are."""
        return nest_by_path(self.centering)

    def recenter(self, position: Mapping[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
        """A position in the coordinates of other weights of centering."""
        to = self.with_centering(weights).centering
        frames, _, _ = self.frames_and_slopes(position)
        moved = {path: frames[path].position(weight) for path, weight in to.items()}
        return nest_by_path(_entries(position, self.shapes) | moved)

    def frames_and_slopes(
        self, position: Mapping[str, Any]
    ) -> tuple[PathDict, PathDict, jax.Array]:
        """Frames and slopes, from which weights of centering are learned.

        Returns:
            Frames by path, the coordinates of the position at any weight; derivatives of the log
            density by the coordinates at the target's own weights; and whether the log density and
            its whole gradient are finite.
        """
        run = self._run(RecordPositions(frozenset(self.centering)))
        values = _entries(self.constrain(position), self.shapes)
        records = run.records(run.fit_entries(values, "frames"))
        log_density, gradient = jax.value_and_grad(self.log_density)(position)
        slopes = _entries(gradient, self.shapes)
        is_finite = [jnp.isfinite(x).all() for x in jax.tree.leaves((log_density, gradient))]
        return (
            PathDict({path: records[path] for path in self.centering}),
            PathDict({path: slopes[path] for path in self.centering}),
            jnp.stack(is_finite).all(),
        )

    def initial(self, key: jax.Array, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """An initial position, uniform on (-2, 2) as in Stan, but with `values` at their sites.

        Raises:
            ValueError: If values are given for a site that is not latent, or in another shape.
        """
        check_key("initial", key)
        if values:
            return self._complete_position(key, values)
        leaves, tree = jax.tree.flatten(self.position_shapes)
        ends = list(itertools.accumulate(x.size for x in leaves))
        # One call for all sites: every call of a sampler costs its compilation.
        flat = jax.random.uniform(key, ends[-1:], leaves[0].dtype, -2.0, 2.0)
        parts = [flat[end - x.size : end] for x, end in zip(leaves, ends, strict=True)]
        draws = [p.reshape(x.shape).astype(x.dtype) for p, x in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(tree, draws)

    def prior(self, key: jax.Array) -> dict[str, Any]:
        """A position drawn from the prior."""
        args, kwargs = self.arguments.join(self.data)
        values = simulate(self.model)(key, *args, **kwargs)
        return self.unconstrain(nest_by_path(_entries(values, self.shapes)))

    def sites(self, position: Mapping[str, Any]) -> dict[str, Any]:
        """Value, distribution and log probability of every site at a position, by name."""
        args, kwargs = self.arguments.join(self.data)
        run = inspection(self.model, trace_model(self.model, None, args, kwargs))
        values = _entries(self.constrain(position), self.shapes)
        return nest_by_path(run.records(run.fit_entries(values, "sites")))

    def _complete_position(self, key: jax.Array, values: Mapping[str, Any]) -> dict[str, Any]:
        """A position with given values at some sites, and uniform at the others."""
        given = self._run(RecordPositions(frozenset(self.centering))).entries(values, "initial")
        if not given:
            names = ", ".join(repr(join_scopes(path)) for path, _ in paths_in(values, ()))
            raise ValueError(
                f"initial: values came for {names} alone, which are deterministic: they follow "
                f"from other sites. {suggest_names(dict(self.shapes), what='latent sites')}"
            )
        if given.keys() < dict(self.shapes).keys():
            args, kwargs = self.arguments.join(self.data)
            rest = unconstrain(
                condition_and_complete(self.model, nest_by_path(given)), *args, **kwargs
            )
            given |= _entries(rest.constrain(rest.initial(key)), rest.shapes)
        return self.unconstrain(nest_by_path(given))

    def _run(self, action: SiteAction) -> ModelRun:
        args, kwargs = self.arguments.join(self.data)
        return ModelRun(self.model, trace_model(self.model, None, args, kwargs), action)

    def _plants(self, position: Mapping[str, Any]) -> Mapping[Path, Sequence[Any]]:
        shapes = dict(self.shapes)
        entries = dict(paths_in(position, shapes))
        for path in [*entries, *shapes]:
            if path not in shapes or path not in entries:
                what = "is missing" if path in shapes else "is no latent site"
                others = suggest_names(shapes, what="latent sites")
                raise ValueError(f"position: {describe(path)} {what}. {others}")
        plants = {path: _fit(path, entries[path], shape) for path, shape in shapes.items()}
        weighted = {p: WeightedPosition(plants[p][0], c) for p, c in self.centering.items()}
        spread = {path: self._spread(path, *plants[path]) for path in self.missing}
        return {**plants, **weighted, **spread}

    def _spread(self, path: Path, entries: jax.Array) -> list[jax.Array]:
        """An array with the given entries at missing places, and NaN elsewhere."""
        shape = dict(self.values)[path]
        flat = jnp.full(math.prod(shape), jnp.nan, entries.dtype)
        return [flat.at[self.missing[path]].set(entries, mode="drop").reshape(shape)]


def _entries(values: Mapping[str, Any], shapes: Iterable[tuple[Path, Any]]) -> dict[Path, Any]:
    """The values by path of the latent sites, given by the paths in `shapes`."""
    latent = dict(shapes)
    return {path: x for path, x in paths_in(values, latent) if path in latent}


def _fit(path: Path, position: Any, shape: Any) -> list[Any]:
    where = f"position: site {describe(path)}"
    expected = jax.tree.leaves(shape)
    if jax.tree.structure(position) != jax.tree.structure(shape):
        raise ValueError(f"{where}: expected {show(expected)}, got {position!r}.")
    try:
        leaves = [leaf_values.as_array(x) for x in jax.tree.leaves(position)]
    except TypeError as error:
        raise TypeError(f"{where}: expected {show(expected)}, got {position!r}.") from error
    numbers = (jnp.integer, jnp.floating)
    if not all(any(jnp.issubdtype(x.dtype, kind) for kind in numbers) for x in leaves):
        raise TypeError(f"{where}: expected {show(expected)} (unconstrained), got {show(leaves)}.")
    if [x.shape for x in leaves] != [x.shape for x in expected]:
        raise ValueError(f"{where}: expected {show(expected)} (unconstrained), got {show(leaves)}.")
    return leaves


def unconstrain(model: Model, *args: Any, **kwargs: Any) -> Unconstrained:
    """The log density of a model over unconstrained space, for samplers and optimizers.

    log_density(position) = log_density(model)(values, *args) + log |d values / d position|,
    where values = constrain(position), site by site through the bijector of its distribution.

    Args:
        model: A function of a random key.
        *args: The arguments of the model without its key. Arrays and floats are data; integers and
            other objects are static.
        **kwargs: Keyword arguments of the model.

    Returns:
        An object with `log_density(position)`, `prior_and_likelihood(position)`,
        `split_log_density(position)`, `constrain(position)`, `unconstrain(values)`,
        `initial(key)`, `prior(key)` and `sites(position)`.

    Raises:
        ValueError: If a latent site is discrete, a name is used twice, there is no latent site, the
            model has a `param`, or uses its key elsewhere than in `sample`.

    Example:
        >>> import ppl, distributions as dist
        >>> def model(key):
        ...     return ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        >>> target = ppl.unconstrain(model)
        >>> target.constrain({"scale": 0.0})["scale"].item()
        1.0
        >>> round(target.log_density({"scale": 0.0}).item(), 4)
        -0.7258
    """
    model = as_pytree(model)
    check_row_orders(model, args, kwargs)
    arguments, data = Arguments.split(args, kwargs)
    target = Unconstrained(model, data, arguments, (), PathDict())

    def look(program: Program) -> dict[str, Any]:
        all_sites = ModelRun(target.model, program, RecordValues())
        sites = all_sites.latent()
        learned = frozenset(p for p, found in sites.items() if any(map(is_learned, found.sites)))
        run = ModelRun(target.model, program, RecordPositions(learned))
        shapes = _shapes(run)
        shapes = {path: x.z if path in learned else x for path, x in shapes.items()}
        gaps = {path: found for path, x in run.latent().items() if (found := _gaps(path, x))}
        values = {path: shapes[path].shape for path in gaps}
        for path, found in gaps.items():
            size = found.num_missing_in(shapes[path].shape)
            shapes[path] = jax.ShapeDtypeStruct((size,), shapes[path].dtype)
        found = {"shapes": tuple(shapes.items()), "values": tuple(values.items())}
        found |= {"mesh": find_mesh(program.jaxpr), "order": order_of(all_sites.sites)}
        found |= {"centering": PathDict({p: x for p, x in shapes.items() if p in learned})}
        found |= {"labels": tuple(labels_of(all_sites.sites).items())}
        return found | {"approximate": find_approximate(program.jaxpr)}

    found, numbers = trace_and_fingerprint(look, target.model, arguments, data)
    found["centering"] = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), found["centering"])
    target = dataclasses.replace(target, **found, captured=numbers)
    if not target.values:
        return target
    args, kwargs = arguments.join(data)
    sizes = {path: dict(target.shapes)[path].size for path, _ in target.values}
    missing = find_missing(trace_model(target.model, None, args, kwargs), sizes)
    return dataclasses.replace(target, missing=PathDict(missing))


def _shapes(run: ModelRun) -> dict[Path, Any]:
    """The shapes of the positions of all latent sites."""
    latent = {
        path: jax.tree.unflatten(found.site.tree, found.collapse().avals)
        for path, found in latent_sites(run).items()
    }
    for path, value in latent.items():
        if not all(jnp.issubdtype(x.dtype, np.floating) for x in jax.tree.leaves(value)):
            raise ValueError(
                f"site {describe(path)}: its values are discrete "
                f"({show(jax.tree.leaves(value))}), so there "
                f"is no map from unconstrained space. Sum it out, ppl.marginalize(model, "
                f"[{join_scopes(path)!r}]), draw it, inference.mcmc(..., "
                "kernel=inference.Gibbs.auto()), or condition on it."
            )
    values = {path: tuple(jax.tree.leaves(value)) for path, value in latent.items()}
    return jax.eval_shape(run.records, values)


def _gaps(path: Path, found: Found) -> Gaps | None:
    """The gaps of a site observed in part, or None.

    Raises:
        ValueError: If their number differs between the branches of a cond.
    """
    gaps = {gaps_of(site) for site in found.sites}
    if len(gaps) > 1:
        raise ValueError(disagreement(path))
    return gaps.pop()
