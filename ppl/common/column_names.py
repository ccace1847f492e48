"""Names of categories and of rows in the arguments of a model: who codes a column, and by what."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common.columns import (
    Columns,
    Doubt,
    Names,
    add_doubts,
    is_of,
    names_of_index,
    names_of_rows,
)
from ppl.harvest.jax_core import is_traced
from ppl.harvest.leaf_values import short_repr

Coords = Mapping[Any, tuple[Any, ...]]


def _is_columns(value: Any) -> bool:
    return isinstance(value, Columns)


def _map_columns(function: Callable[[Columns], Columns], arguments: Any) -> Any:
    return jax.tree.map(
        lambda x: function(x) if _is_columns(x) else x, arguments, is_leaf=_is_columns
    )


def code_by_names(arguments: Any, coords: Coords, used: Collection[str] = ()) -> Any:
    """Arguments whose columns are coded by the names of the dimension that is called as they are.

    Args:
        arguments: Arguments of a model, a pytree.
        coords: Names of entries by dimension.
        used: Dimensions that take their names from the arguments, which settle no doubts.

    Raises:
        ValueError: If a category is none of the names, or the column is coded by others.
    """

    def code(columns: Columns) -> Columns:
        arrays = columns.arrays
        header = columns.header
        categories = dict(header.categories)
        settled = set(header.settled)
        for name, own in header.categories:
            if name not in coords:
                continue
            if own.entries != coords[name]:
                is_settled = name in settled
                arrays = {**arrays, name: _code(arrays[name], name, own, coords[name], is_settled)}
                categories[name] = Names(tuple(coords[name]))
            if not (name in used and name in dict(header.doubts)):
                settled.add(name)
        settled |= {x for x, y in header.doubts if y.may_be_codes and x in coords and x not in used}
        header = dataclasses.replace(
            header,
            categories=tuple(categories.items()),
            settled=tuple(name for name in header.names if name in settled),
        )
        return Columns(arrays, header)

    return _map_columns(code, arguments)


def _code(codes: Any, name: Any, own: Names, wanted: tuple[Any, ...], is_settled: bool) -> Any:
    """Codes of a column by other names.

    Raises:
        ValueError: If there is no name for a category, or the codes are settled.
    """
    if is_settled:
        raise ValueError(
            f"column {name!r} is coded by the names {own}, and a label inside gives {name!r} the "
            f"names {short_repr(list(wanted))}. Name the entries of a dimension once."
        )
    code_of = {x: i for i, x in enumerate(wanted)}
    unknown = [x for x in own.entries if x not in code_of]
    if unknown:
        raise ValueError(
            f"column {name!r} has the category {unknown[0]!r}, which is none of the names of "
            f"{name!r} in the model, {short_repr(list(wanted))}. Leave these rows out; a category "
            "of pandas that no row has goes by x.cat.remove_unused_categories(). ppl.predict draws "
            "new groups if it has all names by ppl.label, and draws without the sites of "
            f"{name!r}."
        )
    places = jnp.asarray([code_of[x] for x in own.entries], np.int32)
    return places[jnp.asarray(codes)] if places.size else codes


def doubt_other_orders(arguments: Any, coords: Coords, of_data: Collection[str] = ()) -> Any:
    """Arguments that refuse codes of a column whose names a dimension has in another order.

    Only text counts: numbers are often alike by chance.

    Args:
        arguments: Arguments of a model, a pytree.
        coords: Names of entries by dimension.
        of_data: Dimensions of data. With as many entries as a table has rows, they name the rows.
    """
    place_of = {dim: {x: i for i, x in enumerate(names)} for dim, names in coords.items()}

    def explain(name: Any, own: Names, array: Any) -> str:
        if not all(isinstance(x, str) for x in own.entries):
            return ""
        for dim, places in place_of.items():
            if dim in of_data and np.shape(array)[:1] == (len(places),):
                continue
            found = [places.get(x) for x in own.entries]
            if None not in found and found != list(range(len(found))):
                return (
                    f"column {name!r} is coded by its own categories, {own}, and the entries of "
                    f"dimension {dim!r} have these names in another order or at other places, "
                    f"{short_repr(list(coords[dim]))}: a code may mean "
                    "another entry. Say with the model how the column is coded, ppl.label(model, "
                    f"coords={{{name!r}: names}}): by the names of {dim!r}, if it is an index into "
                    "them."
                )
        return ""

    def doubt(columns: Columns) -> Columns:
        coded = columns.header.categories
        words = {name: explain(name, own, columns.arrays[name]) for name, own in coded}
        return add_doubts(columns, {name: Doubt(x) for name, x in words.items() if x})

    return _map_columns(doubt, arguments)


def doubt_all_categories(arguments: Any, fitted: Coords | None) -> Any:
    """Arguments that refuse codes of a column until a label or a fit has said what they mean.

    Args:
        arguments: Arguments of a model, a pytree.
        fitted: Names of entries by dimension in a fit, None of draws alone.
    """
    remedy = "the names with the model, ppl.label(model, dims, coords={{{0!r}: names}})"
    if fitted is None:
        why = "draws alone do not say which entry of a site belongs to which. Give the fit of a "
        why += f"labeled model, ppl.predict(model, result), or {remedy}."
    else:
        why = f"the fit has names of {', '.join(map(repr, fitted)) or 'no dimension'}, not of "
        why += "{0!r}, so that it does not say which entry of a site belongs to which. Label the "
        why += f"model before the fit, or give {remedy}, in the order that the fit had."

    def doubt(columns: Columns) -> Columns:
        doubts = {
            name: Doubt(f"column {name!r} holds the categories {own}, and {why.format(name)}")
            for name, own in columns.header.categories
        }
        return add_doubts(columns, doubts)

    return _map_columns(doubt, arguments)


def doubt_numbers(arguments: Any, fitted: Coords) -> Any:
    """Arguments that refuse integers in a column that stands for the names of a fit.

    They are codes of these names only in their range. Codes of text, and those that are names of
    other entries, too, are codes only if the model says so.
    """

    def doubt_column(name: Any, array: Any) -> Doubt | None:
        names = fitted.get(name)
        if names is None or is_traced(array) or np.asarray(array).dtype.kind not in "iu":
            return None
        found = np.unique(array)
        is_in_range = not found.size or bool(found[0] >= 0 and found[-1] < len(names))
        is_text = any(isinstance(x, str) for x in names)
        if is_in_range and not is_text and not _are_other_names(found.tolist(), names):
            return None
        remedy = "Give " + ("text" if is_text else "categories, pandas.Categorical(x)")
        remedy += ", as in the data of the fit"
        if is_in_range:
            remedy += "; or, if these are codes, say so with the model, ppl.label(model, coords="
            remedy += f"{{{name!r}: names}})"
        remedy += "; or, if they are a quantity, give x.astype(float)"
        words = f"column {name!r} holds the integers {short_repr(found.tolist())}, and the entries "
        words += f"of dimension {name!r} are called {short_repr(list(names))} in the fit. {remedy}."
        return Doubt(words, may_be_codes=is_in_range)

    def doubt(columns: Columns) -> Columns:
        coded = dict(columns.header.categories)
        found = {x: doubt_column(x, y) for x, y in columns.arrays.items() if x not in coded}
        return add_doubts(columns, {name: x for name, x in found.items() if x is not None})

    return _map_columns(doubt, arguments)


def _are_other_names(codes: list[int], names: tuple[Any, ...]) -> bool:
    """Whether integers are names, too, and not all of the entries that they are the codes of."""
    return set(codes) <= set(names) and any(names[x] != x for x in codes)


def doubt_other_categories(arguments: Any, first: Any) -> Any:
    """Arguments of a batch, which refuse columns with other categories than in the first ones.

    A model may read such a column only if a label in it says how the column is coded.

    Args:
        arguments: Arguments of a batch, a pytree.
        first: Arguments that a fit began with, a pytree.
    """
    leaves = jax.tree_util.tree_leaves_with_path(first, is_leaf=_is_columns)
    expected = {path: dict(x.header.categories) for path, x in leaves if _is_columns(x)}

    def explain(name: Any, own: Names | None, of_first: Names | None) -> str:
        return (
            f"column {name!r} of a batch holds {_describe_kind(own)}, but "
            f"{_describe_kind(of_first)} in the data that the fit began with, so its numbers would "
            "mean other entries. Give the same categories in each batch, "
            "pandas.Categorical(x, categories=[all of them]), or the names with the model, "
            f"ppl.label(model, dims, coords={{{name!r}: names}})."
        )

    def doubt(path: Any, given: Any) -> Any:
        if not _is_columns(given) or path not in expected:
            return given
        own = dict(given.header.categories)
        of_first = expected[path]
        names = [x for x in given.header.usable if own.get(x) != of_first.get(x)]
        doubts = {x: Doubt(explain(x, own.get(x), of_first.get(x))) for x in names}
        return add_doubts(given, doubts)

    return jax.tree_util.tree_map_with_path(doubt, arguments, is_leaf=_is_columns)


def _describe_kind(categories: Names | None) -> str:
    return "numbers" if categories is None else f"the categories {categories}"


def names_in_arguments(
    arguments: tuple[Any, ...], dims: Collection[str], coords: Coords, origin: str
) -> dict[Any, tuple[Any, ...]]:
    """Names of entries by dimension, with those that columns or indices of the arguments have.

    Args:
        arguments: Positional and keyword arguments of a model.
        dims: The dimensions whose names are looked up.
        coords: Names that are given, which columns may have in another order.
        origin: Where they are from, for errors.

    Raises:
        ValueError: If two of them differ, or categories may be meant for names of rows.
    """
    found = {dim: (tuple(names), origin) for dim, names in coords.items()}
    for dim, names, where in _names_in(arguments, dims, coords):
        other, first = found.setdefault(dim, (names.entries, where))
        if other != names.entries:
            raise ValueError(
                f"label: the names of dimension {dim!r} are {short_repr(list(other))} by {first}, "
                f"and {names} by {where}. Sort the rows alike, give the columns one dtype of "
                "categories, or rename a dimension, a column or an index."
            )
    return {dim: coords.get(dim, names) for dim, (names, _) in found.items()}


def _names_in(
    arguments: tuple[Any, ...], dims: Collection[str], coords: Coords
) -> Iterator[tuple[str, Names, str]]:
    """Dimension, names and their place, of indices, and of columns if no names are given."""
    for path, columns in jax.tree_util.tree_leaves_with_path(arguments, is_leaf=_is_columns):
        if not _is_columns(columns):
            continue
        where = f"argument {jax.tree_util.keystr(path[1:], simple=True, separator='.')}"
        for dim, names in names_of_rows(columns):
            if dim in dims:
                yield dim, names, f"the index of {where}"
        for dim, names in columns.header.categories:
            is_settled = dim in columns.header.settled
            is_of_rows = dim in dict(names_of_rows(columns)) and not is_settled  # coded by them
            if dim not in dims or dim in coords or is_of_rows:
                continue
            is_doubted = dim in dict(columns.header.doubts)  # told where the model reads it
            if dim in columns.header.one_a_row and not (is_settled or is_doubted):
                raise ValueError(
                    f"label: column {dim!r} of {where} has another name in each row, so that the "
                    f"names of {dim!r} may be in the order of rows, or sorted as its codes are. "
                    f"For rows, give table.set_index({dim!r}); for codes, coords={{{dim!r}: "
                    f"sorted(table[{dim!r}])}}."
                )
            yield dim, names, f"column {dim!r} of {where}"


def names_of_data(data: Any) -> tuple[tuple[str | None, ...], tuple[tuple[str, Names], ...]]:
    """Names of the axes of data, and of the entries along them, as their index or dims say.

    An index without a name, with repetitions or with several levels names nothing, nor do the
    dimensions that xarray calls dim_0, dim_1 and so on.
    """
    if is_of("pandas", data) and hasattr(data, "iloc") and not hasattr(data, "columns"):
        indices = [(data.index.name, data.index)]
    elif is_of("xarray", data) and hasattr(data, "indexes"):
        indices = [(dim, data.indexes.get(dim)) for dim in data.dims]
    else:
        return (), ()
    dims = []
    coords = []
    for dim, index in indices:
        names = None if index is None else names_of_index(index)
        is_name = isinstance(dim, str) and not re.fullmatch(r"dim_\d+", dim)
        has_name = is_name and (names is not None or is_of("xarray", data))
        dims.append(dim if has_name else None)
        if has_name and names is not None:
            coords.append((dim, names))
    return (tuple(dims), tuple(coords)) if any(dims) else ((), ())
