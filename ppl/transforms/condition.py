"""condition: fix sites of a model to data."""

import dataclasses
import functools
import html
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from ppl.common import distribution_protocol, foreign_arrays
from ppl.common.column_names import names_of_data
from ppl.common.missing_data import (
    DataNames,
    Gaps,
    Ignored,
    Imputed,
    Missing,
    as_data_of,
    check_no_nan,
    check_whole,
    is_imputed,
)
from ppl.common.peer_names import explaining_calls
from ppl.common.row_order import RowOrders
from ppl.common.text_table import html_table
from ppl.core.inside_sums import (
    commutes,
    entries_within,
    is_planned_by_rule,
    move_inside,
    names_within,
)
from ppl.core.joint_scores import joint_scores_of
from ppl.core.model_pytree import Model, as_pytree, name_of
from ppl.core.model_run import (
    ModelRun,
    apply_at_site,
    trace_model,
)
from ppl.core.site_rewriting import RewriteSites, replace_distribution
from ppl.harvest.interpreter import Operands
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe
from ppl.primitives.site_kinds import OBSERVED
from ppl.transforms.label import Label, label_by_data


@dataclasses.dataclass(frozen=True)
class Observe(RewriteSites):
    """Action of `condition`: planted data replace the value, and the site becomes observed."""

    missing: Mapping[Path, Gaps | None] = dataclasses.field(default_factory=dict)
    completes: bool = False  # whether a plant may fill the gaps of a site observed in part

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if no plant replaces all of it; predicate and distribution always."""
        return not planted or self.missing.get(site.path) is not None, True, True

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The planted value as data, or the site as it is if there is no plant."""
        if plant is None:
            return site, operands
        if site.path in self.missing:
            data, missing = plant
            return _observe_partially(site, operands, data, missing, self.missing[site.path])
        if is_imputed(site):
            plant = self._complete_values(site, operands, plant)
        operands = dataclasses.replace(operands, values=plant)
        return dataclasses.replace(site, note=OBSERVED), operands

    def _complete_values(self, site: Site, operands: Operands, plant: Any) -> Sequence[Any]:
        """The planted values of a site observed in part, with the known entries kept."""
        if not self.completes:
            raise ValueError(
                f"condition: site {describe(site.path)} is observed in part already. Give all of "
                "its data at once."
            )
        return [
            apply_at_site(
                site, operands, plant, lambda x, d: distribution_protocol.merge_known(d, x)
            )
        ]


def _observe_partially(
    site: Site, operands: Operands, data: jax.Array, missing: jax.Array, gaps: Gaps | None
) -> tuple[Site, Operands]:
    """A site observed in part: missing entries are latent (`impute`) or left out (`ignore`)."""
    (drawn,) = operands.values

    def make(d):
        if gaps is None:
            return _wrap_ignored(site, d, missing)
        return _wrap_imputed(site, d, data, missing, gaps)

    if gaps is None:
        if joint_scores_of(site):
            raise ValueError(
                f"condition: site {describe(site.path)} depends on sites that were summed out, and "
                "a transformation of that model stands between, so that no entry can be left out. "
                "Ignore them before that: ppl.marginalize(ppl.condition(model, data), sites)."
            )
        site = dataclasses.replace(site, note=OBSERVED)
        nothing = jnp.nan if jnp.issubdtype(data.dtype, jnp.floating) else 0
        value = jnp.where(missing, jnp.asarray(nothing, data.dtype), data)
    else:
        value = jnp.where(missing, drawn, data)
    site, operands = replace_distribution(site, operands, make, (data, missing))
    return site, dataclasses.replace(operands, values=(value,))


def _wrap_ignored(site: Site, d: Any, missing: jax.Array) -> Any:
    """`Ignored` around the innermost distribution, within the wrappers of transformations."""
    if isinstance(d, distribution_protocol.DistributionWrapper):
        return dataclasses.replace(d, base=_wrap_ignored(site, d.base, missing))  # pyright: ignore
    check_whole(f"condition: site {describe(site.path)}", d, missing)
    return Ignored(d, missing)


def _wrap_imputed(site: Site, d: Any, data: jax.Array, missing: jax.Array, gaps: Gaps) -> Imputed:
    if getattr(d, "moves", False):
        raise ValueError(
            f"condition: site {describe(site.path)} is reparameterized, and what is observed in "
            "part has no other coordinates than its own. Leave it out of reparam, or give a rule "
            "to reparam after condition: it passes over such sites."
        )
    return Imputed(d, data, missing, gaps)


def _explain_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Advice for a call with data by keyword."""
    given = {name: x for name, x in kwargs.items() if name not in ("model", "data")}
    if not given:
        return ""
    entries = ", ".join(f'"{name}": {name}' for name in given)
    return f"the data are a dict: ppl.condition(model, {{{entries}}})."


@explaining_calls(_explain_call)
def condition(model: Model, data: Mapping[str, Any]) -> Model:
    """Condition a model on data: sites are fixed, and their likelihood is part of its density.

    Args:
        model: A function of a random key.
        data: The values of sites by name, nested as the scopes are. A site under `vmap` or in a
            scan has the axes of `vmap` and of the loop in front. Give data with gaps as
            `ppl.impute(data)`, to infer the missing entries, or as `ppl.ignore(data)`, to integrate
            them out. A conditioned model under `vmap` observes its data once for each key. A series
            of pandas whose index has a name, and an array of xarray, label the axes of their site
            (see `label`).

    Returns:
        A model of the same arguments with these sites observed. It is a pytree whose leaves are the
        data, so that new data of the same shapes do not recompile.

    Raises:
        ValueError: If data that are not traced contain NaN. When the result is called or
            transformed, if a name is unknown, a site is observed already, or a value has another
            shape than its site.
        TypeError: If `data` is not a dict. When the result is called or transformed, if a value has
            another kind of dtype than its site.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ...     return ppl.sample(key, dist.Normal(mu, 0.1), name="y")
        >>> posterior = ppl.condition(model, {"y": 2.0})
        >>> posterior(jax.random.key(0)).item()
        2.0
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"condition: expected a dict of values by site, got {reprlib.repr(data)}.")
    model = _label_by_data(model, data)
    row_orders = RowOrders.of(data)
    data = foreign_arrays.convert_values(data)
    check_no_nan(
        "condition",
        "data",
        data,
        "If they are missing, give ppl.impute(data) to infer them, as latent values, or "
        "ppl.ignore(data) to integrate them out, where nothing else depends on them.",
    )
    return _condition(model, data, (), row_orders)


def _label_by_data(model: Model, data: Mapping[str, Any]) -> Model:
    """The model with the names that data have, an index of pandas or dimensions of xarray.

    A dimension that has other numbers of entries in other data stays without a name.
    """

    def is_missing(x):
        return isinstance(x, Missing)

    found: dict[str, DataNames] = {}
    sizes: dict[str, set[int]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(dict(data), is_leaf=is_missing):
        names = leaf.names if isinstance(leaf, Missing) else names_of_data(leaf)
        found[jax.tree_util.keystr(path, simple=True, separator=".")] = names
        for dim, entries in names[1]:
            sizes.setdefault(dim, set()).add(len(entries.entries))
    several = [dim for dim, lengths in sizes.items() if len(lengths) > 1]
    for name, (dims, coords) in found.items():
        own = tuple(None if dim in several else dim for dim in dims)
        if any(own):
            entries = {dim: x.entries for dim, x in coords if dim in own}
            model = label_by_data(model, {name: own}, entries)
    return model


def _condition(
    model: Model, data: Mapping[str, Any], taken_out: Sequence[str], row_orders: RowOrders
) -> Model:
    """A conditioned model; the sites `taken_out` are marginalized afterwards and get no data."""
    leaves = jax.tree.leaves(data, is_leaf=lambda x: isinstance(x, Missing))
    is_ignored = any(isinstance(x, Missing) and x.gaps is None for x in leaves)
    if is_ignored or is_planned_by_rule(model):
        inside = _condition_inside(model, data, taken_out, row_orders)
        if inside is not None:
            return inside
    run = _RunInside(tuple(taken_out)) if taken_out else _run_conditioned
    return Conditioned.of(row_orders, run, as_pytree(model), data)


def _condition_inside(
    model: Model, data: Mapping[str, Any], taken_out: Sequence[str], row_orders: RowOrders
) -> Model | None:
    """The model conditioned first and marginalized after; None if `model` is not marginalized.

    In this order the sums and integrals know the data and their gaps, and a rule that chooses the
    sites to take out sees the data.
    """

    def apply(model: Model, sums: Any, scope: Path) -> Model:
        gone = (*names_within(taken_out, scope), *dict(getattr(sums, "strategies", ())))
        return _condition(model, entries_within(data, scope), gone, row_orders)

    def is_entry(x):
        return not isinstance(x, Mapping)

    paths = jax.tree_util.tree_leaves_with_path(data, is_leaf=is_entry)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    return move_inside(model, names, apply, plans=True)


class Conditioned(Partial):
    """Conditioned model; it prints shapes and dtypes of its data, in a notebook as a table.

    Attributes:
        row_orders: The indices of its data.
    """

    row_orders: RowOrders = RowOrders()

    @classmethod
    def of(cls, row_orders: RowOrders, function: Any, *args: Any, **kwargs: Any) -> "Conditioned":
        """A function with arguments, and the indices of the data among them."""
        model = cls(function, *args, **kwargs)
        model.row_orders = row_orders
        return model

    def __repr__(self) -> str:
        """The name of the model, and shapes and dtypes of the data."""
        data = ", ".join(f"{name}: {shown}" for name, shown in self._data())
        return f"{name_of(self)} conditioned on {{{data}}}"

    def _repr_html_(self) -> str:
        """The name of the model, and a table of the data, for notebooks."""
        name = html.escape(name_of(self))
        return f"<p>{name} conditioned on</p>{html_table([('site', 'data'), *self._data()])}"

    def _data(self) -> list[tuple[str, str]]:
        """Names of the sites with data, of all conditions, each with a description of its data."""
        inner, data = self.args
        while isinstance(getattr(inner, "func", None), Label):
            inner = inner.args[0]

        def is_whole(x):
            return isinstance(x, Missing)

        leaves = jax.tree_util.tree_leaves_with_path(data, is_leaf=is_whole)
        found = [(jax.tree_util.keystr(p, simple=True, separator="."), _show(x)) for p, x in leaves]
        return [*(inner._data() if isinstance(inner, Conditioned) else ()), *found]


def _show(data: Any) -> str:
    """Type and shape of data, and their gaps."""
    if isinstance(data, Missing):
        gaps = "some ignored" if data.gaps is None else f"{data.gaps.num_missing} imputed"
        return f"{_show(data.data)}, {gaps}"
    shape = getattr(data, "shape", None)
    dtype = getattr(data, "dtype", None)
    return reprlib.repr(data) if dtype is None or shape is None else f"{dtype}{list(shape)}"


jax.tree_util.register_pytree_node(
    Conditioned,
    lambda model: ((model.args, model.keywords), (model.row_orders, model.func)),
    lambda static, children: Conditioned.of(*static, *children[0], **children[1]),
)


def condition_and_complete(model: Model, values: Mapping[str, Any]) -> Model:
    """Condition on values, which may also fill the gaps of sites observed in part."""
    return Partial(_run_completed, as_pytree(model), values)


@functools.partial(commutes, by_name=True)
def _run_conditioned(
    model: Model, data: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    return _run_observed(model, data, key, args, kwargs, completes=False)


@functools.partial(commutes, by_name=True)
@dataclasses.dataclass(frozen=True)
class _RunInside:
    """Run of a conditioned model whose sites `taken_out` are marginalized, and so get no data."""

    taken_out: tuple[str, ...]

    def __call__(
        self, model: Model, data: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
    ) -> Any:
        return _run_observed(
            model, data, key, args, kwargs, completes=False, taken_out=self.taken_out
        )


def _run_completed(
    model: Model, data: Mapping[str, Any], key: Any, *args: Any, **kwargs: Any
) -> Any:
    return _run_observed(model, data, key, args, kwargs, completes=True)


def _run_observed(
    model: Model,
    data: Mapping[str, Any],
    key: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    completes: bool,
    taken_out: Sequence[str] = (),
) -> Any:
    program = trace_model(model, key, args, kwargs)
    run = ModelRun(model, program, Observe())
    entries = run.entries(data, "condition", taken_out=taken_out)
    for path, x in entries.items():
        if isinstance(x, Missing):
            where = f"condition: site {describe(path)}"
            entries[path] = as_data_of(where, x, run.sites[path].avals)
    partial = {path: x for path, x in entries.items() if isinstance(x, Missing)}
    whole = {path: x.data if path in partial else x for path, x in entries.items()}
    plants: dict[Path, Any] = run.fit_entries(whole, "condition")
    for path, x in partial.items():
        (data_here,) = plants[path]
        plants[path] = data_here, x.missing
    gaps = {path: x.gaps for path, x in partial.items()}
    return ModelRun(model, program, Observe(gaps, completes)).output(plants)
