"""Names of categories and of rows in the arguments of a model: who codes a column, and by what."""

import dataclasses
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common.columns import Columns, Names, is_of, names_of_index, names_of_rows
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
        used: Dimensions that take their names from the arguments, which settle nothing where a
            model may read only settled columns.

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
            if not (name in used and header.needs_names):
                settled.add(name)
        header = dataclasses.replace(
            header,
            categories=tuple(categories.items()),
            settled=tuple(name for name in categories if name in settled),
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
            "of pandas that no row has goes by x.cat.remove_unused_categories()."
        )
    places = jnp.asarray([code_of[x] for x in own.entries], np.int32)
    return places[jnp.asarray(codes)] if places.size else codes


def require_names(arguments: Any) -> Any:
    """Arguments that refuse codes of a column until a label or a fit has said what they mean."""

    def require(columns: Columns) -> Columns:
        return Columns(columns.arrays, dataclasses.replace(columns.header, needs_names=True))

    return _map_columns(require, arguments)


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
            if dim in columns.header.one_a_row and not is_settled:
                raise ValueError(
                    f"label: column {dim!r} of {where} has another name in each row, so that the "
                    f"names of {dim!r} may be in the order of rows, or sorted as its codes are. "
                    f"For rows, give table.set_index({dim!r}); for codes, coords={{{dim!r}: "
                    f"data.categories[{dim!r}]}}."
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
