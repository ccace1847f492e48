"""label: names of the dimensions of sites, and of the entries along them."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial

from ppl.analysis.summed_sites import find_with_summed
from ppl.common.column_names import code_by_names, doubt_other_orders, names_in_arguments
from ppl.common.columns import entry_names
from ppl.common.foreign_arrays import convert_arguments
from ppl.core.inside_sums import commutes, move_inside, names_within
from ppl.core.model_pytree import Model, as_pytree
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.site_rewriting import RewriteSites
from ppl.harvest.interpreter import Operands
from ppl.harvest.jax_core import is_traced
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.names import suggest_names
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Found, Path, describe, join_scopes, show
from ppl.primitives.site_kinds import FACTOR, OBSERVED, kind_of

# Name of a dimension, and names of the entries along it if they have any.
Dimension = tuple[str, tuple[Any, ...] | None]


class NamesOfData(tuple):
    """Names of entries that data have, which no other names may replace; hashed once."""

    @functools.cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        """The hash of the names."""
        return self._hash


@dataclasses.dataclass(frozen=True)
class WriteLabels(RewriteSites):
    """Action of `label`: notes at sites what their dimensions are called.

    Attributes:
        labels: A dimension, or None, for each axis of the value of a site, by path.
    """

    labels: Mapping[Path, tuple[Dimension | None, ...]] = dataclasses.field(default_factory=dict)

    def rewrite(self, site: Site, operands: Operands, plant: Any) -> tuple[Site, Operands]:
        """The site with its labels."""
        found = self.labels.get(site.path)
        return (site if found is None else dataclasses.replace(site, labels=found)), operands


@functools.partial(commutes, by_name=True)
@dataclasses.dataclass(frozen=True)
class Label:
    """The function of a labeled model.

    Attributes:
        dims: Names of dimensions by site; None for an axis without one.
        coords: Names of entries by dimension.
        is_of_data: Whether they are those of data, which must agree with all others.
    """

    dims: tuple[tuple[str, tuple[str | None, ...]], ...]
    coords: tuple[tuple[str, tuple[Any, ...]], ...]
    is_of_data: bool = False

    def __call__(self, model: Model, key: Any, *args: Any, **kwargs: Any) -> Any:
        """The model with labels at its sites, and columns of the arguments coded by them."""
        args, kwargs = convert_arguments(args, kwargs)
        used = {dim for _, dims in self.dims for dim in dims if dim is not None}
        origin = "the data" if self.is_of_data else "coords"
        coords = names_in_arguments((args, kwargs), used, dict(self.coords), origin)
        if not self.is_of_data:
            from_arguments = used - set(dict(self.coords))
            args, kwargs = code_by_names((args, kwargs), coords, from_arguments)
        args, kwargs = self._doubt_other_orders(model, key, (args, kwargs), coords)
        program = trace_model(model, key, args, kwargs)
        run = ModelRun(model, program, WriteLabels())
        here = {join_scopes(p) for p, x in run.sites.items() if x.site.tag != FACTOR}
        absent, rest = self.split([name for name, _ in self.dims if name not in here])
        if absent is not None and not self.is_of_data:  # else condition refuses the site
            before = absent.label_taken_out(model, run, find_with_summed(program.jaxpr))
            return rest(before, key, *args, **kwargs)
        labels = self._find(run.sites, coords)
        return program.unflatten(ModelRun(model, program, WriteLabels(labels)).run({})[0])

    def _doubt_other_orders(
        self, model: Model, key: Any, arguments: Any, coords: Mapping[str, tuple[Any, ...]]
    ) -> Any:
        """Arguments that refuse codes that may be meant for entries of a site in another order.

        Codes of a table are not meant for entries of an observed site that a label names. Names of
        data may be those of a latent site, too, unless they are names of rows.
        """
        given = {dim for _, dims in self.dims for dim in dims}
        names = {dim: x for dim, x in coords.items() if dim in given}
        if self.is_of_data:
            return doubt_other_orders(arguments, names, names.keys())
        doubted = doubt_other_orders(arguments, names)
        if jax.tree.structure(doubted) == jax.tree.structure(arguments):
            return doubted
        args, kwargs = arguments
        sites = ModelRun(model, trace_model(model, key, args, kwargs), WriteLabels()).sites
        observed = {join_scopes(p) for p, x in sites.items() if kind_of(x.site) == OBSERVED}
        looked_up = {dim for name, dims in self.dims if name not in observed for dim in dims}
        return doubt_other_orders(arguments, {d: x for d, x in names.items() if d in looked_up})

    def split(self, names: Collection[str]) -> tuple["Label | None", "Label"]:
        """Labels of the named sites, None if there are none of them, and of all others."""
        mine = tuple(x for x in self.dims if x[0] in names)
        others = tuple(x for x in self.dims if x[0] not in names)
        inside = dataclasses.replace(self, dims=mine) if mine else None
        return inside, dataclasses.replace(self, dims=others)

    def within(self, scope: Path) -> "Label":
        """Labels of the sites in a scope, by their names relative to it."""
        dims = ((inner, dims) for name, dims in self.dims for inner in names_within([name], scope))
        return dataclasses.replace(self, dims=tuple(dims))

    def label_taken_out(
        self, model: Model, run: ModelRun, with_summed: Mapping[Path, Any]
    ) -> Model:
        """The model with labels at sites that `marginalize` has taken out of it.

        Args:
            model: The marginalized model.
            run: A run of it.
            with_summed: Its sites by path, including sites that were taken out.

        Raises:
            ValueError: If a site is unknown or hidden, or was taken out within a function.
        """
        names = [name for name, _ in self.dims]
        before = move_inside(model, names, lambda f, _, scope: Partial(self.within(scope), f))
        known = set() if before is None else set(map(join_scopes, with_summed))
        unknown = [name for name in names if name not in known]
        if before is None or unknown:
            others = suggest_names(list(run.sites), (unknown[0],), what="sites")
            clause = run.explain_gone(unknown[0])
            raise ValueError(f"label: dims: there is no site {unknown[0]!r}{clause}. {others}")
        return before

    def _find(
        self, sites: Mapping[Path, Found], coords: Mapping[str, tuple[Any, ...]]
    ) -> dict[Path, tuple[Dimension | None, ...]]:
        """Labels by path.

        Raises:
            ValueError: If a site has another number of axes or of entries, or names of data differ
                from others.
        """
        named = {p: x for p, x in sites.items() if x.site.tag != FACTOR}
        dims_of = dict(self.dims)
        given = {p: dims_of[n] for p in named if (n := join_scopes(p)) in dims_of}
        coords = self._add_names_of_sites(named, coords)
        found = {}
        for path, site in named.items():
            avals = site.collapse().avals
            if len(avals) != 1:
                if path in given and not self.is_of_data:
                    raise ValueError(
                        f"label: dims: site {describe(path)} has {len(avals)} arrays, and a name "
                        "of a dimension is for one. Label a deterministic site of each array."
                    )
                continue
            shape = avals[0].shape
            known = _written(site.site, len(shape))
            if self.is_of_data and len(given.get(path, ())) > len(shape):
                continue  # condition refuses the data
            dims = _complete(path, given.get(path, ()), known, site)
            if self.is_of_data:
                _check_dims(path, dims, _complete(path, (), known, site))
            axes = [  # condition refuses data of another size
                (
                    dim,
                    old,
                    None if self.is_of_data and len(coords.get(dim or "", ())) != size else size,
                )
                for dim, old, size in zip(dims, known, shape, strict=True)
            ]
            for dim, old, size in axes:
                if size is not None:
                    self._check_data(path, dim, old, coords)
                    _check_size(path, dim, size, coords)
            if any(dims):
                found[path] = tuple(
                    _dimension(dim, old, {} if size is None else coords) for dim, old, size in axes
                )
        return found

    def _add_names_of_sites(
        self, sites: Mapping[Path, Found], coords: Mapping[str, tuple[Any, ...]]
    ) -> dict[str, tuple[Any, ...]]:
        """Names of entries by dimension, with those that data of a site have."""
        found = dict(coords)
        used = {dim for _, dims in self.dims for dim in dims if dim is not None}
        labels: Any = (x for site in sites.values() for x in site.site.labels if x is not None)
        for dim, names in labels:
            if dim in used and isinstance(names, NamesOfData):
                found.setdefault(dim, names)
        return found

    def _check_data(
        self, path: Path, dim: str | None, old: Dimension | None, coords: Mapping[Any, Any]
    ) -> None:
        """Check that names of data are those that are known otherwise.

        Raises:
            ValueError: If they differ.
        """
        if dim not in coords or old is None or old[0] != dim or old[1] in (None, coords[dim]):
            return
        if self.is_of_data or isinstance(old[1], NamesOfData):
            of_model, of_data = old[1], coords[dim]
            if not self.is_of_data:
                of_model, of_data = of_data, of_model
            raise ValueError(
                f"label: the entries of dimension {dim!r} of site {describe(path)} are called "
                f"{short_repr(list(of_model))} by the model, and {short_repr(list(of_data))} in "
                "data. Sort the data as the names of the model are, or rename a dimension."
            )


def _complete(
    path: Path,
    dims: tuple[str | None, ...],
    known: tuple[Dimension | None, ...],
    found: Found,
) -> tuple[str | None, ...]:
    """Names of all axes: those given, else those known before, else the `axis_name` of a `vmap`.

    Raises:
        ValueError: If there are more names than axes.
    """
    if len(dims) > len(known):
        (aval,) = found.collapse().avals
        raise ValueError(
            f"label: dims: site {describe(path)} has the shape {aval.shape}, so it takes "
            f"{len(known)} names of dimensions at most, got {dims}"
        )
    own = list(dims) + [None] * (len(known) - len(dims))
    for i, old in enumerate(known):
        if own[i] is None and old is not None and old[0] not in own:
            own[i] = old[0]
    if not found.depth:  # else axes of loops stand between those of vmap
        for i, axis in enumerate(reversed(found.site.axes)):
            is_new = axis.name is not None and str(axis.name) not in own
            own[i] = str(axis.name) if own[i] is None and is_new else own[i]
    return tuple(own)


def _dimension(
    dim: str | None, old: Dimension | None, coords: Mapping[Any, Any]
) -> Dimension | None:
    """The label of an axis: its dimension, with new names of the entries or those before."""
    before = old and old[1]
    names = coords.get(dim, before)
    return None if dim is None else (dim, before if before == names else names)


def _check_dims(path: Path, dims: tuple[str | None, ...], known: tuple[str | None, ...]) -> None:
    """Check that data have the dimensions that their site has.

    Raises:
        ValueError: If they are called otherwise.
    """
    for dim, old in zip(dims, known, strict=True):
        if None not in (dim, old) and dim != old:
            raise ValueError(
                f"label: an axis of site {describe(path)} is called {old!r}, and {dim!r} in its "
                f"data. Rename one of them: the index of a series by data.rename_axis({old!r})."
            )


def _check_size(path: Path, dim: str | None, size: int, coords: Mapping[Any, Any]) -> None:
    if dim in coords and len(coords[dim]) != size:
        raise ValueError(
            f"label: coords: site {describe(path)} has {size} entries along {dim!r}, got "
            f"{len(coords[dim])} names: {short_repr(list(coords[dim]))}. Give a name for each "
            "entry, in the order of the data; a dimension of another size needs another name; a "
            "part of the rows of a table is data.rows(index), which has no names of rows."
        )


def _written(site: Site, num_axes: int) -> tuple[Dimension | None, ...]:
    """Labels of a site for each of its axes; those in front of the labeled ones have none."""
    labels: Any = site.labels[len(site.labels) - min(num_axes, len(site.labels)) :]
    return (None,) * (num_axes - len(labels)) + labels


def labels_of(sites: Mapping[Path, Found]) -> dict[Path, tuple[Dimension | None, ...]]:
    """Labels of sites that have any, by path, as plain tuples that files can hold."""
    shapes = {path: found.collapse().avals for path, found in sites.items() if found.site.labels}
    labels = {p: _written(sites[p].site, len(x[0].shape)) for p, x in shapes.items() if len(x) == 1}
    return {path: tuple(map(_as_plain, x)) for path, x in labels.items()}


def _as_plain(label: Dimension | None) -> Dimension | None:
    if label is None or not isinstance(label[1], NamesOfData):
        return label
    return label[0], tuple(label[1])


def show_labeled(leaves: Sequence[Any], labels: Sequence[Dimension | None]) -> str:
    """Arrays or abstract values by dtype and shape, as `float32[3]` or `float32[team: 3]`.

    Args:
        leaves: The arrays of a site.
        labels: Labels of its axes, if it has any; then there is one array.
    """
    if not labels:
        return show(leaves)
    (leaf,) = leaves
    sizes = zip(labels, leaf.shape, strict=True)
    axes = (str(size) if dim is None else f"{dim[0]}: {size}" for dim, size in sizes)
    return f"{leaf.dtype}[{', '.join(axes)}]"


def label(
    model: Model,
    dims: Mapping[str, str | Sequence[str | None]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
) -> Model:
    """Name the dimensions of sites, and the entries along them.

    Results, their summaries, pictures and ArviZ's container then say `attack[England]` where they
    said `attack[0]`. Numbers stay as they are, and so do names of sites. Nothing needs labels, and
    any model can have them, before or after `condition` and other transformations.

    Args:
        model: A function of a random key.
        dims: Names of the dimensions by site, a name within a scope joined by dots. There is a name
            for each axis of the value, those of `vmap` and of loops in front; None, or no name for
            the last axes, leaves an axis without one. A `vmap` with an `axis_name` has named its
            axis already.
        coords: Names of the entries by dimension: strings, numbers or dates, as a list, an array or
            an index of pandas. A dimension that no site has is passed over. Without names here,
            those of the arguments count: an index or a coordinate that is called as the dimension,
            or the categories of a column; and those of data (see `condition`). A column of the
            arguments that is called as a dimension is coded by the names here.

    Returns:
        A model with labels.

    Raises:
        TypeError: If `dims` or `coords` is not a dict, or a name of a dimension is not a string.
        ValueError: If two entries of a dimension or two dimensions of a site have one name, or an
            entry has none. When the result is called or transformed, if there is no such site, its
            number of axes or of entries along a dimension is another one, names of data or of
            arguments are in another order, or a column has a category without a name.

    Example:
        >>> import jax, jax.numpy as jnp, inference, ppl, distributions as dist
        >>> def league(key):
        ...     attack = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="attack")
        ...     return ppl.sample(key, dist.Normal(attack, 0.5), name="points")
        >>> teams = ["England", "France", "Italy"]
        >>> named = ppl.label(league, {"attack": "team", "points": "team"}, {"team": teams})
        >>> posterior = ppl.condition(named, {"points": jnp.array([1.0, 0.5, -1.0])})
        >>> fit = inference.svi(jax.random.key(0), posterior, num_steps=100)
        >>> fit.summary().names
        ('attack[England]', 'attack[France]', 'attack[Italy]')
    """
    parsed = tuple((name, _parse_dims(name, x)) for name, x in _items("dims", dims))
    names = tuple((dim, _parse_coords(dim, x)) for dim, x in _items("coords", coords))
    return Partial(Label(parsed, names), as_pytree(model))


_FORMS = {
    "dims": "a dict of names of dimensions by site, as {'attack': ('team',)}",
    "coords": "a dict of names of entries by dimension, as {'team': ['England', 'France']}",
}


def _items(what: str, given: Any) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise TypeError(f"label: {what} must be {_FORMS[what]}, got {short_repr(given)}")
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"label: {what} must be {_FORMS[what]}, got the key {key!r}")
    return list(given.items())


def _parse_dims(name: str, given: Any) -> tuple[str | None, ...]:
    dims = (given,) if isinstance(given, str) else given
    if not isinstance(dims, Sequence) or not all(x is None or isinstance(x, str) for x in dims):
        scope = f" A site in a scope is called '{name}.site'." * isinstance(given, Mapping)
        raise TypeError(
            f"label: dims: site {name!r} takes a name of a dimension for each axis, as ('team',), "
            f"or None for an axis without one, got {short_repr(given)}.{scope}"
        )
    if "" in dims:
        raise ValueError(
            f"label: dims: site {name!r} has a dimension without a name, got {dims}. None leaves "
            "an axis without one."
        )
    twice = [x for i, x in enumerate(dims) if x is not None and x in dims[:i]]
    if twice:
        raise ValueError(
            f"label: dims: site {name!r} has two dimensions called {twice[0]!r}, got {dims}. Give "
            f"one of them a name of its own, as '{twice[0]}_2', with the same names in coords."
        )
    return tuple(dims)


def _parse_coords(dim: str, given: Any) -> tuple[Any, ...]:
    is_ordered = not isinstance(given, str | bytes | Mapping | Set)
    if not is_ordered or is_traced(given) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"label: coords: {dim!r} takes a list with a name for each entry, as ['England', "
            f"'France'], got {short_repr(given)}"
        )
    entries = _as_list(dim, given)
    nameless = [i for i, x in enumerate(entries) if x is None or x != x or x == ""]  # NaN != NaN
    if nameless:
        raise ValueError(
            f"label: coords: entry {nameless[0]} of {dim!r} has no name, but "
            f"{entries[nameless[0]]!r}. Give a name for each entry, or leave {dim!r} out of coords "
            "to have numbers."
        )
    names = tuple(x if isinstance(x, str | int | float) else str(x) for x in entries)
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if (other := first.setdefault(str(name), i)) != i:
            raise ValueError(
                f"label: coords: entries {other} and {i} of {dim!r} are both called {name}, and "
                "names tell entries apart. Add to them, as with a number; or if each entry stands "
                "for many rows of data, give each name once, as numpy.unique does."
            )
    return names


def _as_list(dim: str, given: Any) -> list[Any]:
    """Names as objects of Python."""
    try:
        array = np.asarray(given if hasattr(given, "__array__") else list(given))
    except ValueError as error:  # lists of several lengths
        raise ValueError(f"label: coords: {dim!r} takes a list of names: {error}") from error
    if array.ndim != 1:
        raise ValueError(
            f"label: coords: {dim!r} takes a list of names, got an array of shape {array.shape}"
        )
    return list(entry_names(array))


def label_by_data(
    model: Model, dims: Mapping[str, tuple[str | None, ...]], coords: Mapping[str, tuple[Any, ...]]
) -> Model:
    """The model with the names that data of its sites have.

    Args:
        model: A function of a random key.
        dims: Names of the dimensions of the data by site, a name within a scope joined by dots.
        coords: Names of their entries by dimension.
    """
    names = tuple((dim, NamesOfData(x)) for dim, x in coords.items())
    return Partial(Label(tuple(dims.items()), names, is_of_data=True), as_pytree(model))
