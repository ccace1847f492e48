"""predict: prior and posterior predictive distributions."""

import dataclasses
import functools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.common.arguments import Arguments
from ppl.common.column_names import code_by_names, doubt_all_categories, doubt_numbers
from ppl.common.cut_off_draws import warn_of_cut_off
from ppl.common.draw_chunks import choose_chunk_size, has_chunks, join_chunks, map_chunks
from ppl.common.foreign_arrays import convert_arguments, convert_values
from ppl.common.row_order import check_row_orders
from ppl.core.captured_constants import trace_and_fingerprint
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, SiteAction, apply_at_site, trace_model
from ppl.harvest import leaf_values
from ppl.harvest.interpreter import Operands
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.plants import PathDict
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, describe
from ppl.primitives.sample import check_key
from ppl.primitives.site_kinds import DETERMINISTIC, LATENT, OBSERVED, RANDOM, kind_of
from ppl.transforms.check_indices import check_indices
from ppl.transforms.draw_checks import check_apart, check_given, draw_at_site, is_near_support
from ppl.transforms.with_params import with_params

_CHUNK_ELEMENTS = 2**24  # numbers predicted in one chunk by default: 64 MiB of float32

# XLA compiles draws for the CPU in a third of the time at this level. The programs give the same
# bits and are as fast, as most of their time goes to the generator of random numbers.
_QUICK = {"xla_backend_optimization_level": 1}

_CHECKED = (np.integer, np.floating)  # kinds of numbers whose range is checked

Leaves = Mapping[Path, tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Complete(SiteAction):
    """Action of `predict`: plants draws, and records the values of sites neither given nor data.

    The record of a given draw is whether the draw lies in the support. The record of a new draw is
    its value and the number of its integers that are cut off.
    """

    tags: ClassVar = (RANDOM, DETERMINISTIC)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution, if the site is latent."""
        return not planted, False, kind_of(site) == LATENT

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value and its check; else the sown value and its record, None for data."""
        if plant is not None:
            return plant, apply_at_site(site, operands, plant, is_near_support)
        is_data = kind_of(site) == OBSERVED
        return operands.values, None if is_data else draw_at_site(site, operands)


@dataclasses.dataclass(frozen=True, eq=False)
class Predict:
    """Predictive distribution, made by `predict`; a call draws from it, all at once or streamed.

    Attributes:
        model: The model, as a pytree.
        draws: Values of latent sites by name, or the number of draws from the prior.
        chunk_size: How many draws are made at once, or None for the default.
        only: Paths of the sites to predict, or None for all.
        is_checked: Whether given draws must lie in the supports of their sites.
        names: Names of the entries of dimensions in a fit, by which columns of the arguments are
            coded; None of draws alone.
        needs_names: Whether columns of categories need names of the fit or of the model.
        fitted: Values of the parameters and of the state of the fit, each None if it has none.
        latent_dims: Dimensions of latent sites in the fit, whose entries integers may stand for.
    """

    model: Model
    draws: Any
    chunk_size: int | None
    only: frozenset[Path] | None = None
    is_checked: bool = True
    names: tuple[tuple[str, tuple[Any, ...]], ...] | None = None
    needs_names: bool = True
    fitted: tuple[Any, Any] = (None, None)
    latent_dims: frozenset[str] = frozenset()

    def __call__(self, key: jax.Array, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Values of all sites neither given nor observed, with the axes of the draws in front."""
        model, plan, data, draws, drawn = self._plan(key, args, kwargs)
        values, flags, ends = predict_draws(plan, model, data, key, draws)
        if self.is_checked:
            check_given("predict", draws, flags, len(plan.batch))
        _warn_of_cut_off(drawn, ends, values)
        return values

    def stream(self, key: jax.Array, *args: Any, **kwargs: Any) -> Iterator[dict[str, Any]]:
        """Predictions in chunks on the host: dicts of NumPy arrays, axes of draws flattened to one.

        Only one chunk is in memory at a time; the draws may be a memory-mapped file.
        """
        model, plan, data, draws, drawn = self._plan(key, args, kwargs)
        for start, num, (values, *checks) in _chunks(plan, model, data, key, draws):
            some = jax.tree.map(lambda x, i=start, n=num: plan.flat(x)[i : i + n], draws)
            found = jax.tree.map(lambda x, n=num: np.asarray(x)[:n], (values, *checks))
            check_given("predict", some, found[1], 1, start)
            _warn_of_cut_off(drawn, found[2], found[0])
            yield found[0]

    def _plan(
        self, key: jax.Array, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Model, "PredictionPlan", list[Any], Leaves, list[Path]]:
        """The model with the numbers of the fit, the plan, the data, the draws, and what is drawn.

        What is drawn are the paths of the latent sites that no draws are given of.
        """
        check_key("predict", key)
        fitted = {} if self.names is None else dict(self.names)
        check_row_orders(self.model, args, kwargs)
        args, kwargs = code_by_names(convert_arguments(args, kwargs), fitted)
        if self.needs_names and not isinstance(self.draws, int):
            of_latent = {dim: x for dim, x in fitted.items() if dim in self.latent_dims}
            args, kwargs = doubt_numbers((args, kwargs), of_latent)
            is_fit = self.names is not None
            args, kwargs = doubt_all_categories((args, kwargs), fitted if is_fit else None)
        if self.needs_names:  # else the arguments are those of the fit
            check_indices(self.model, args, kwargs)
        arguments, data = Arguments.split(args, kwargs)
        model, run = self._run(args, kwargs)
        run.check_kinds()
        if isinstance(self.draws, int):
            batch = (self.draws,)
            draws = {}
        else:
            check_fitted("predict", run)
            batch, draws = check_draws("predict", run, self.draws)
            check_apart(run.sites, frozenset(draws))
        given = frozenset(draws)
        to_come = [f for p, f in run.sites.items() if p not in given]
        to_come = [f for f in to_come if kind_of(f.site) != OBSERVED]
        left = [p for p in run.latent() if p not in given]
        if self.only is not None:
            left = [p for p in left if p in self.only]
        if not to_come:
            remedy = "Leave those that are to be predicted out of the draws."
            if any(kind_of(found.site) == OBSERVED for found in run.sites.values()):
                remedy = "Give the model as it was before condition."
                remedy = getattr(getattr(self.model, "func", None), "without_data", remedy)
            raise ValueError(
                f"predict: {run.name} has no site but those that are given or observed. {remedy}"
            )
        size = sum(math.prod(a.shape) for f in to_come for a in f.collapse().avals)
        most = _CHUNK_ELEMENTS // max(size, 1)
        chunk = choose_chunk_size(self.chunk_size, math.prod(batch), most)
        _, numbers = trace_and_fingerprint(lambda _: None, model, arguments, data)
        shapes = [a.shape for f in run.sites.values() for a in f.collapse().avals]
        is_empty = any(0 in x for x in shapes)
        plan = PredictionPlan(arguments, batch, chunk, is_empty, numbers, self.only)
        return model, plan, data, draws, left

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Model, ModelRun]:
        """The model with those parameters and states of the fit that it has, and its run."""
        run = ModelRun(self.model, trace_model(self.model, None, args, kwargs), Complete())
        values, state = self.fitted
        values = values if run.parameters() else None
        state = state if run.states() else None
        if values is None and state is None:
            return self.model, run
        model = as_pytree(with_params(self.model, values, state))
        return model, ModelRun(model, trace_model(model, None, args, kwargs), Complete())


@dataclasses.dataclass(frozen=True)
class PredictionPlan:
    """Static part of a prediction.

    Attributes:
        arguments: The static arguments of the model.
        batch: The shape of the axes of the draws.
        chunk_size: How many draws are made at once.
        has_empty: Whether the value of some site has no elements.
        captured: Fingerprint of the numbers in the model's program; new numbers recompile.
        only: Paths of the sites to predict, or None for all.
    """

    arguments: Arguments
    batch: tuple[int, ...]
    chunk_size: int
    has_empty: bool
    captured: tuple[Hashable, ...]
    only: frozenset[Path] | None = None

    @property
    def num_draws(self) -> int:
        """The number of draws over all axes."""
        return math.prod(self.batch)

    @property
    def batch_size(self) -> int | None:
        """The number of draws made at once in a traced program; None where arrays are empty."""
        return None if self.has_empty else min(self.chunk_size, self.num_draws)

    def flat(self, x: Any) -> Any:
        """Draws with their axes flattened to one."""
        return x.reshape(self.num_draws, *x.shape[len(self.batch) :])

    def one(self, model: Model, data: list[Any], key: Any, index: Any, draw: Leaves) -> Any:
        """The prediction of one draw, from the key with the index of the draw folded in.

        Returns:
            The values by name; by path, whether each draw lies in the support, and how many
            integers are cut off at an end of their dtype.
        """
        args, kwargs = self.arguments.join(data)
        key = jax.random.fold_in(key, index)
        run = ModelRun(model, trace_model(model, key, args, kwargs), Complete())
        records = run.run(draw, live_outs=False)[1]
        flags = {p: x for p, x in records.items() if p in draw and x is not True}
        drawn = {p: x for p, x in records.items() if p not in draw}
        if self.only is not None:
            drawn = {p: x for p, x in drawn.items() if p in self.only}
        values = nest_by_path({p: value for p, (value, _) in drawn.items()})
        return (
            values,
            PathDict(flags),
            PathDict({p: x for p, (_, x) in drawn.items() if x is not None}),
        )


def predict_draws(plan: PredictionPlan, model: Model, data: Any, key: Any, draws: Any) -> Any:
    """Predictions of all draws, with the axes of the draws in front.

    Predictions are computed chunk by chunk, by one program for any number of draws. Within a traced
    program they are computed all at once.
    """
    if not has_chunks((model, data, key, draws)):
        return _predict_all(plan, model, data, key, draws)
    found = join_chunks(_chunks(plan, model, data, key, draws), plan.batch)
    return jax.tree.map(jnp.asarray, found)


def _chunks(plan: PredictionPlan, model: Model, data: Any, key: Any, draws: Any) -> Iterator[Any]:
    flat = jax.tree.map(lambda x: plan.flat(np.asarray(x)), draws)
    some = dataclasses.replace(plan, batch=(plan.chunk_size,))
    program = _predict_on_cpu if jax.default_backend() == "cpu" else _predict_on_device
    function = functools.partial(program, some, model, data, key)
    return map_chunks(function, flat, plan.num_draws, plan.chunk_size)


@functools.partial(jax.jit, static_argnums=0)
def _predict_all(plan: PredictionPlan, model: Model, data: Any, key: Any, draws: Any) -> Any:
    def one(of):
        return plan.one(model, data, key, *of)

    flat = jax.tree.map(plan.flat, draws)
    values = lax.map(one, (jnp.arange(plan.num_draws), flat), batch_size=plan.batch_size)
    return jax.tree.map(lambda x: x.reshape(*plan.batch, *x.shape[1:]), values)


def _predict_some(
    plan: PredictionPlan, model: Model, data: Any, key: Any, index: Any, draws: Any
) -> Any:
    one = functools.partial(plan.one, model, data, key)
    return jax.vmap(one)(index, draws)


_predict_on_cpu = jax.jit(_predict_some, static_argnums=0, compiler_options=_QUICK)
_predict_on_device = jax.jit(_predict_some, static_argnums=0)


def _warn_of_cut_off(
    drawn: Sequence[Path], ends: Mapping[Path, Any], values: Mapping[str, Any]
) -> None:
    by_path = dict(paths_in(values, drawn))
    for path in drawn:
        warn_of_cut_off("predict", path, ends.get(path), by_path[path])


def check_fitted(where: str, run: ModelRun) -> None:
    """Check that a model that is to run at draws of a fit has all other numbers of the fit, too.

    Raises:
        ValueError: If it has a `param` or a `state` left, whose number would be the initial one.
    """
    left = [("parameter", "param", path) for path in run.parameters()]
    left += [("state", "state", path) for path in run.states()]
    for what, function, path in left[:1]:
        fit = "Give the fit itself, ppl.predict(model, result), or a" if where == "predict" else "A"
        raise ValueError(
            f"{where}: {run.name} has the {what} {describe(path)}, made by ppl.{function}, whose "
            f"value in the fit is not among the draws. {fit} model with it: "
            "ppl.with_params(model, result.model_parameters, result.model_state)."
        )


def check_draws(
    where: str, run: ModelRun, draws: Mapping[str, Any]
) -> tuple[tuple[int, ...], Leaves]:
    """The axes of the draws, checked to be equal for all sites, and the leaves by latent site."""
    kinds = (LATENT, DETERMINISTIC)
    entries = run.entries(draws, where, kinds=kinds, complete=where == "recover")
    sites = {p: f for p, f in run.sites.items() if kind_of(f.site) == LATENT and p in entries}
    batches = {p: _batch(where, p, entries[p], found) for p, found in sites.items()}
    if where == "recover" and not run.latent():
        return (), {}  # All latent sites are taken out: there is one draw of all of them.
    if not batches:
        raise ValueError(
            f"{where}: {run.name} has none of the draws as a latent site."
            + " Give the number of draws for a prior prediction: predict(model, 1000)."
            * (where == "predict")
        )
    first = next(iter(batches))
    for path, batch in batches.items():
        if batch != batches[first]:
            raise ValueError(
                f"{where}: the draws of site {describe(path)} have the axes {batch} in front, "
                f"those of {describe(first)} {batches[first]}. All must have the same, as (chain, "
                "draw)."
            )
    if not math.prod(batches[first]):
        raise ValueError(
            f"{where}: the draws of site {describe(first)} have the axes {batches[first]} in "
            "front, so there are none. Give at least one."
        )
    return batches[first], {p: tuple(jax.tree.leaves(entries[p])) for p in sites}


def _batch(where: str, path: Path, draws: Any, found: Found) -> tuple[int, ...]:
    """The axes of the draws of one site, in front of its own shape."""
    leaves, tree = jax.tree.flatten(draws)
    shapes = [a.shape for a in found.collapse().avals]
    if tree == found.site.tree:
        ends = [
            np.shape(x)[max(0, np.ndim(x) - len(s)) :] for x, s in zip(leaves, shapes, strict=True)
        ]
        fronts = {np.shape(x)[: np.ndim(x) - len(s)] for x, s in zip(leaves, shapes, strict=True)}
        if ends == shapes and len(fronts) == 1:
            _check_not_cut(where, path, leaves, found)
            return fronts.pop()
    got = [np.shape(x) for x in leaves]
    remedy = ""
    if isinstance(draws, list):
        got = "a list"
        remedy = " Use jnp.asarray."
    raise ValueError(
        f"{where}: site {describe(path)} has the shape {shapes}, so its draws must have axes in "
        f"front of that, as (chain, draw, ...); got {got}.{remedy}"
    )


def _check_not_cut(where: str, path: Path, leaves: Sequence[Any], found: Found) -> None:
    """Check that draws are numbers, fit the dtype of their site, and are in its range."""
    for x, aval in zip(leaves, found.collapse().avals, strict=True):
        if isinstance(x, str | bytes):  # JAX takes it for the name of a dtype
            raise TypeError(
                f"{where}: site {describe(path)}: its draws must be numbers, got {short_repr(x)}."
            )
        have = jnp.result_type(x)
        kinds = (np.complexfloating, np.inexact)
        if any(jnp.issubdtype(have, k) and not jnp.issubdtype(aval.dtype, k) for k in kinds):
            raise TypeError(
                f"{where}: site {describe(path)} has the dtype {aval.dtype}, its draws have "
                f"{have}. Cast them with .astype({str(aval.dtype)!r}) if that is what is meant."
            )
        if any(jnp.issubdtype(have, k) and jnp.issubdtype(aval.dtype, k) for k in _CHECKED):
            try:
                leaf_values.check_range(x, aval.dtype)
            except ValueError as error:
                raise ValueError(f"{where}: site {describe(path)}: {error}") from error


def predict(
    model: Model, draws: Mapping[str, Any] | int | Any, *, chunk_size: int | None = None
) -> Predict:
    """Predictive distribution of a model: all other sites drawn anew for each given draw.

    Given the model as it was before `condition`, this is

    - the posterior predictive distribution, if `draws` come from a posterior;
    - the prior predictive distribution, if `draws` is a number. A `param` and a `state` then have
      their initial values.

    Each prediction is a function of the key and of the index of its draw, so the size of the chunks
    does not change it. There are two exceptions: XLA rounds matrix products and factorizations
    differently in a batch, and with keys of "rbg" JAX draws other numbers for a batch of keys.
    Within another `jax.jit` the last digits may differ, as XLA rounds differently there.

    Args:
        model: A function of a random key.
        draws: Values of latent sites by name, nested as the scopes are, with the same axes in
            front, as in the result of a sampler: (chain, draw, ...). Latent sites that have no
            value here are drawn anew; deterministic sites are computed anew. Or the result of a
            fit, whose labels say how columns of categories are coded, and whose parameters and
            state the model gets, as by `with_params`. Or an integer: the number of draws of all
            sites.
        chunk_size: How many draws are made at once. By default 64, or 4096 if there are more than
            16384 draws, but at most as many as have 2^24 numbers. The program of a chunk is
            compiled once for any number of draws.

    Returns:
        A function `(key, *args, **kwargs) -> dict` of the values of all sites that are neither
        given nor observed. Its method `stream(key, *args, **kwargs)` yields them in chunks.

    Raises:
        ValueError: When called, if a name is unknown, the axes of the draws do not agree, there
            are no draws, a draw that is not traced lies outside of the support of its site, a site
            to be drawn and a known site both depend on a site that `marginalize` has taken out, or
            draws are given without the values of the fit for a `param` or a `state`.
        TypeError: If `draws` is neither a fit, a dict nor a number, or a fit whose draws have
            importance weights. When called, if draws of integers are floats.

    Example:
        >>> import jax, jax.numpy as jnp, ppl, distributions as dist
        >>> def model(key, x):
        ...     slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        ...     return ppl.sample(key, dist.Normal(slope * x, 0.1), name="y")
        >>> draws = {"slope": jnp.ones((4, 100))}
        >>> ppl.predict(model, draws)(jax.random.key(0), jnp.arange(3.0))["y"].shape
        (4, 100, 3)
    """
    _check_weights(draws)
    names = _names_of_fit(draws)
    dims = _latent_dims_of_fit(draws)
    fitted = (getattr(draws, "model_parameters", None), getattr(draws, "model_state", None))
    draws = getattr(draws, "draws", draws)
    if isinstance(draws, bool) or not isinstance(draws, Mapping | int | np.integer):
        raise TypeError(
            f"predict: expected a fit, a dict of draws or their number, got {short_repr(draws)}."
        )
    draws = convert_values(draws) if isinstance(draws, Mapping) else int(draws)
    if isinstance(draws, int) and draws < 1:
        raise ValueError(f"predict: the number of draws must be at least 1, got {draws}.")
    is_count = isinstance(chunk_size, int | np.integer) and not isinstance(chunk_size, bool)
    if chunk_size is not None and not (is_count and chunk_size >= 1):
        raise ValueError(
            f"predict: chunk_size must be an integer of at least 1, got {chunk_size!r}."
        )
    model = as_pytree(model)
    return Predict(model, draws, chunk_size, names=names, fitted=fitted, latent_dims=dims)


def _check_weights(fit: Any) -> None:
    """Raise a TypeError for a fit whose draws have importance weights."""
    if hasattr(fit, "resample"):
        raise TypeError(
            "predict: these draws have importance weights, which predictions of all draws would "
            "not heed. Give draws chosen by their weights: result.resample(key, num_draws)."
        )


def _names_of_fit(fit: Any) -> tuple[tuple[str, tuple[Any, ...]], ...] | None:
    """Names of entries by dimension that the sites of a fit have, if they all agree.

    Draws alone have none.
    """
    if not hasattr(fit, "sites"):
        return None
    found: dict[str, set[tuple[Any, ...]]] = {}
    for _, _, *labels in fit.sites:
        for dim, names in (x for x in (labels or [()])[0] if x is not None):
            if names is not None:
                found.setdefault(dim, set()).add(tuple(names))
    return tuple((dim, next(iter(x))) for dim, x in found.items() if len(x) == 1)


def _latent_dims_of_fit(fit: Any) -> frozenset[str]:
    """Dimensions of the latent sites of a fit."""
    sites = getattr(fit, "sites", ())
    labels = (x for _, is_deterministic, *found in sites if not is_deterministic for x in found)
    return frozenset(x[0] for axes in labels for x in axes if x is not None)
