"""Arguments and values as people hold them, with arrays and tables of other libraries, as arrays.

Every call of a model and every value for a site comes through here.
"""

import reprlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from ppl.common.columns import Columns, columns_of, convert_column, is_of, numbers_of
from ppl.harvest import leaf_values
from ppl.harvest.pytrees import has_explicit_axes, with_automatic_axes

_KNOWN = jax.Array | np.ndarray | np.generic
_PASSED = jax.Array | int  # arguments that need no look


def convert_arguments(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a model: arrays of other libraries as NumPy arrays, tables as `Columns`.

    Raises:
        TypeError: If an array holds anything but numbers, or has masked entries.
        ValueError: If numbers are out of the range of JAX, a column has gaps, or a table no rows.
    """
    given = (args, dict(kwargs))
    leaves = jax.tree.leaves(given)
    if all(isinstance(x, _PASSED) for x in leaves) and not any(map(has_explicit_axes, leaves)):
        return given
    return jax.tree_util.tree_map_with_path(_convert_argument, given)


def convert_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of sites by name, with arrays of other libraries as NumPy arrays.

    Raises:
        TypeError: If an array holds anything but numbers.
    """
    return jax.tree_util.tree_map_with_path(_convert_value, dict(values))


def _convert_argument(path: Any, leaf: Any) -> Any:
    if isinstance(leaf, _PASSED):
        return with_automatic_axes(leaf)
    name = f"argument {jax.tree_util.keystr(path[1:], simple=True, separator='.')}"
    columns = columns_of(leaf)
    if columns is not None:
        _check_rows(name, leaf, columns)
        return columns
    _check_argument(name, leaf)
    if _has_column(leaf):
        leaf = _take_column(name, leaf)
    leaf = _as_numpy(name, leaf)
    if isinstance(leaf, np.ndarray | np.generic | float):
        try:
            leaf_values.check_range(leaf)
        except ValueError as error:
            raise ValueError(f"{name}: got {error}") from error
    return leaf


def _check_rows(name: str, table: Any, columns: Columns) -> None:
    """Raise a ValueError for a table without rows, of which nothing can be learned."""
    sizes = (len(table),) if is_of("pandas", table) else tuple(table.sizes.values())
    if len(columns.columns) and 0 in sizes:
        raise ValueError(
            f"{name}: a {type(table).__name__} without rows, with the columns "
            f"{leaf_values.short_repr(list(columns.columns))}. A selection or a join may have left "
            "none."
        )


def _convert_value(path: Any, leaf: Any) -> Any:
    name = f"values of {jax.tree_util.keystr(path, simple=True, separator='.')!r}"
    return _as_numpy(name, with_automatic_axes(leaf))


def _as_numpy(name: str, leaf: Any) -> Any:
    """An array of NumPy for one of another library; a masked array without gaps loses its mask.

    Raises:
        TypeError: If it holds anything but numbers.
    """
    if isinstance(leaf, np.ma.MaskedArray) and not np.ma.count_masked(leaf):
        leaf = leaf.data
    if hasattr(leaf, "__array__") and not isinstance(leaf, _KNOWN):
        leaf = np.asarray(numbers_of(leaf))
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in _REMEDIES:
        kind, remedy = _REMEDIES[leaf.dtype.kind]
        shown = reprlib.repr(leaf.tolist())
        raise TypeError(f"{name}: expected numbers, got an array of {kind}, {shown}. {remedy}")
    return leaf


_CODES = "Give categories as integers: names, codes = numpy.unique(x, return_inverse=True)."
_REMEDIES = {
    "U": ("text", _CODES),
    "S": ("bytes", _CODES),
    "T": ("text", _CODES),
    "O": ("objects", f"If they are numbers, give numpy.asarray(x, float), None as NaN. {_CODES}"),
    "M": ("dates", "Give the time since one of them: (x - x[0]) / numpy.timedelta64(1, 'D')."),
    "m": ("durations", "Give them in a unit: x / numpy.timedelta64(1, 'D')."),
}


def _has_column(leaf: Any) -> bool:
    """Whether a leaf is a column of pandas, or an array of xarray."""
    is_column = is_of("pandas", leaf) and hasattr(leaf, "iloc")
    return is_column or (is_of("xarray", leaf) and hasattr(leaf, "dims"))


def _take_column(name: str, leaf: Any) -> np.ndarray:
    """The numbers of a column that is an argument of its own.

    Raises:
        TypeError: If it holds anything but numbers: codes alone would be without their names.
        ValueError: If it has gaps.
    """
    column = convert_column(leaf)
    what = f"{name}, {type(leaf).__name__}"
    what += f" {leaf.name!r}" * (getattr(leaf, "name", None) is not None)
    if column.error is not None:
        kind, words = column.error
        raise kind(f"{what}: {words}" + " NaN as a number is x.to_numpy()." * (kind is ValueError))
    if column.categories is not None:
        raise TypeError(
            f"{what}: expected numbers, got the categories {column.categories}. Codes of a column "
            "alone would be without their names: give the table that it is of, which the model "
            "looks up, data['name'] and data.categories['name']."
        )
    return column.array


def _check_argument(name: str, leaf: Any) -> None:
    """Raise a TypeError for an argument that is a table of named columns, or has masked entries."""
    columns = getattr(leaf, "columns", None)
    if columns is not None and hasattr(leaf, "__array__") and not callable(columns):
        names = [str(x) for x in columns]
        raise TypeError(
            f"{name}: expected numbers, got a {type(leaf).__name__} with the columns "
            f"{reprlib.repr(names)}. A model takes arrays, to which the names of columns are lost: "
            "give a DataFrame of pandas, table.to_pandas(), which keeps them, or a matrix, "
            "table.to_numpy()."
        )
    if isinstance(leaf, np.ma.MaskedArray) and (masked := np.ma.count_masked(leaf)):
        raise TypeError(
            f"{name}: {masked} of its {leaf.size} entries are masked, and an array of JAX has "
            "no mask: what lies below it would count as a number. Leave these rows out; or make "
            "what is missing a site with a distribution, observed in part: "
            "ppl.condition(model, {site: ppl.impute(data)}); or give numbers of your own, "
            "data.filled(number)."
        )
