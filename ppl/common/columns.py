"""Columns: tables of pandas and xarray as arguments of a model, a pytree of arrays by name."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import leaf_values


class Names:
    """Names of the entries along a dimension, hashed once: they may be many.

    Attributes:
        entries: The names.
    """

    __slots__ = ("_hash", "entries")

    def __init__(self, entries: tuple[Any, ...]):
        self.entries = entries
        self._hash = hash(entries)

    def __hash__(self) -> int:
        """The hash of the names."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Whether `other` has the same names in the same order."""
        if self is other:
            return True
        is_near = isinstance(other, Names) and self._hash == other._hash
        return is_near and self.entries == other.entries  # pyright: ignore[reportAttributeAccessIssue]

    def __repr__(self) -> str:
        """The names, shortened."""
        return leaf_values.short_repr(list(self.entries))


@dataclasses.dataclass(frozen=True)
class Words:
    """Words of an error, of which any two are equal: they depend on data, as counts of gaps do.

    Attributes:
        text: The words.
    """

    text: str = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Doubt:
    """Doubt whether the numbers in a column mean the entries that a model takes them for.

    Attributes:
        words: The words of the error where a model reads the column.
        may_be_codes: Whether names that are given with the model settle what numbers mean.
    """

    words: str
    may_be_codes: bool = False


@dataclasses.dataclass(frozen=True)
class Header:
    """Static part of columns.

    Attributes:
        names: The names of all columns, in order.
        categories: The names of the categories of each column of codes, in the order of the codes.
        indices: The names of rows, by the name of their dimension.
        unusable: Columns that hold no numbers: the name, the kind of error, and its words.
        one_a_row: Columns of codes with another category in each row, not in the order of rows.
        settled: Columns of codes whose names are those of the model.
        doubts: Columns that a model may not read before they are settled, and why.
    """

    names: tuple[Any, ...]
    categories: tuple[tuple[Any, Names], ...] = ()
    indices: tuple[tuple[Any, Names], ...] = ()
    unusable: tuple[tuple[Any, type[Exception], Words], ...] = ()
    one_a_row: tuple[Any, ...] = ()
    settled: tuple[Any, ...] = ()
    doubts: tuple[tuple[Any, Doubt], ...] = ()

    @property
    def usable(self) -> tuple[Any, ...]:
        """The names of the columns that are arrays."""
        unusable = [name for name, *_ in self.unusable]
        return tuple(name for name in self.names if name not in unusable)


@jax.tree_util.register_pytree_with_keys_class
class Columns:
    """Columns of a table by name: what a model sees of a data frame that is its argument.

    A `pandas.DataFrame` or `xarray.Dataset` among the arguments of a model becomes columns by
    itself; `Columns.of` makes them for a function of your own, as under `jax.jit`. The arrays are
    data; the names are part of the structure, so that new names recompile.

    | column | in the model |
    |---|---|
    | numbers, booleans | an array |
    | text | codes from 0, of the categories in sorted order |
    | categories of pandas | codes from 0, in their own order |
    | dates, durations, other objects, numbers or text with gaps | an error, if the model reads it |

    `data["rain"]` and `data.rain` are the array of a column, `data[["rain", "sun"]]` a matrix of
    several, `data.columns` the names, `data.categories["field"]` the names of the categories of a
    column, and `len(data)` the number of rows. `data.rows(index)` are some rows, without names of
    rows.

    Example:
        >>> import pandas
        >>> data = Columns.of(pandas.DataFrame({"field": ["b", "a", "b"], "rain": [1.0, 2.0, 3.0]}))
        >>> data["field"].tolist(), data.categories["field"], len(data)
        ([1, 0, 1], ('a', 'b'), 3)
    """

    arrays: dict[Any, Any]
    header: Header

    def __init__(self, arrays: Mapping[Any, Any], header: Header):
        self.arrays = dict(arrays)
        self.header = header

    @classmethod
    def of(cls, table: Any) -> "Columns":
        """Columns of a table.

        Args:
            table: A `pandas.DataFrame` or an `xarray.Dataset`.

        Raises:
            TypeError: If it is neither.
        """
        found = columns_of(table)
        if found is None:
            raise TypeError(
                "Columns.of takes a pandas.DataFrame or an xarray.Dataset, got "
                f"{leaf_values.short_repr(table)}"
            )
        return found

    @property
    def columns(self) -> tuple[Any, ...]:
        """The names of all columns, in order."""
        return self.header.names

    @property
    def categories(self) -> dict[Any, tuple[Any, ...]]:
        """The names of the categories of each column of codes, in the order of the codes."""
        return _Categories(self)

    def rows(self, index: Any) -> "Columns":
        """Some rows of all columns, without the names that an index has for rows.

        Args:
            index: Numbers of rows, a mask or a slice.

        Raises:
            TypeError: If the columns have no one number of rows.
        """
        len(self)
        index = np.asarray(index) if isinstance(index, list) else index
        header = dataclasses.replace(self.header, indices=())
        return Columns({name: x[index] for name, x in self.arrays.items()}, header)

    def __getitem__(self, name: Any) -> Any:
        """The array of a column; of a list of names, the matrix of these columns, as floats."""
        if isinstance(name, list):
            return jnp.stack([self._as_floats(x) for x in name], -1)
        is_array = hasattr(name, "__array__") and not isinstance(name, np.generic)
        if isinstance(name, slice) or is_array:
            raise TypeError(
                "columns are looked up by name; some rows of all of them are data.rows(index)"
            )
        if name in self.arrays:
            self._check_names(name)
            return self.arrays[name]
        raise self._explain_missing(name)

    def __getattr__(self, name: str) -> Any:
        """The array of a column."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self.header.names:
            return self[name]
        raise AttributeError(str(self._explain_missing(name)))

    def __contains__(self, name: Any) -> bool:
        """Whether there is a column of this name."""
        return name in self.header.names

    def __iter__(self) -> Iterator[Any]:
        """The names of the columns."""
        return iter(self.header.names)

    def __len__(self) -> int:
        """The number of rows."""
        sizes = {np.shape(x)[:1] for x in self.arrays.values()}
        if len(sizes) == 1 and (size := sizes.pop()):
            return size[0]
        raise TypeError(
            "no one number of rows: "
            + ", ".join(f"{name!r} has the shape {np.shape(x)}" for name, x in self.arrays.items())
        )

    def __repr__(self) -> str:
        """The names of the columns, with dtype, shape and categories if they are arrays."""
        shown = {name: "no array" for name, *_ in self.header.unusable}
        for name, x in self.arrays.items():
            shown[name] = f"{getattr(x, 'dtype', '')}{list(np.shape(x))}"
        for name, names in self.header.categories:
            shown[name] = f"{shown[name]} of {names}"
        return f"Columns({', '.join(f'{x!r}: {shown[x]}' for x in self.header.names)})"

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Header]:
        """The arrays with the names of their columns, and the header."""
        keys = map(jax.tree_util.DictKey, self.header.usable)
        return [(key, self.arrays[key.key]) for key in keys], self.header

    def tree_flatten(self) -> tuple[list[Any], Header]:
        """The arrays and the header."""
        return [self.arrays[name] for name in self.header.usable], self.header

    @classmethod
    def tree_unflatten(cls, header: Header, arrays: Any) -> "Columns":
        """Columns of arrays and a header."""
        return cls(zip(header.usable, arrays, strict=True), header)  # pyright: ignore

    def _check_names(self, name: Any) -> None:
        """Raise a ValueError for numbers that may mean other entries than in a fit or a label."""
        doubts = dict(self.header.doubts)
        if name in doubts and name not in self.header.settled:
            raise ValueError(doubts[name].words)

    def _as_floats(self, name: Any) -> jax.Array:
        if name in dict(self.header.categories):
            raise TypeError(
                f"column {name!r} holds categories, whose codes are no quantity, for a matrix of "
                "columns"
            )
        array = jnp.asarray(self[name])
        return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float)

    def _explain_missing(self, name: Any) -> Exception:
        for unusable, kind, words in self.header.unusable:
            if unusable == name:
                return kind(f"column {name!r}: {words.text}")
        names = ", ".join(map(repr, self.header.names))
        remedy = f"Use one of: {names}." if names else "There are no columns."
        if name in dict(self.header.indices):
            remedy = "It is the name of the index: give table.reset_index()."
        return ValueError(f"there is no column {name!r}. {remedy}")


class _Categories(dict):
    """Names of categories by column; why there are none is told for other columns."""

    def __init__(self, columns: Columns):
        super().__init__({name: x.entries for name, x in columns.header.categories})
        self._columns = columns

    def __missing__(self, name: Any) -> NoReturn:
        """Raise a ValueError for a column that has no categories."""
        columns = self._columns
        columns[name]  # tells why it cannot be read, if so
        raise ValueError(
            f"column {name!r} holds numbers, and only text and categories of pandas have names of "
            "categories: give x.astype(str), or pandas.Categorical(x)."
        )


def add_doubts(columns: Columns, doubts: Mapping[Any, Doubt]) -> Columns:
    """Columns some of which a model may read only if they are settled.

    Args:
        columns: The columns.
        doubts: Doubts by column. One that there was before stays.
    """
    if not doubts:
        return columns
    doubts = {**doubts, **dict(columns.header.doubts)}
    header = dataclasses.replace(columns.header, doubts=tuple(doubts.items()))
    return Columns(columns.arrays, header)


@dataclasses.dataclass(frozen=True)
class Column:
    """An array with the names of its categories, or the error that it is none.

    Attributes:
        array: The numbers or codes.
        categories: The names of the categories, if the numbers are codes.
        error: The kind of error, and its words.
    """

    array: Any = None
    categories: Names | None = None
    error: tuple[type[Exception], str] | None = None

    @property
    def is_one_a_row(self) -> bool:
        """Whether there are as many categories as rows, in another order."""
        if self.categories is None or len(self.categories.entries) != len(self.array):
            return False
        return not np.array_equal(self.array, np.arange(len(self.array)))


def is_of(library: str, value: Any) -> bool:
    """Whether a value is of a class of a library, which is then imported already."""
    return any(cls.__module__.partition(".")[0] == library for cls in type(value).__mro__)


def columns_of(table: Any) -> Columns | None:
    """Columns of a table of pandas or xarray, None of anything else."""
    if is_of("pandas", table) and hasattr(table, "columns") and hasattr(table, "iloc"):
        names = list(table.columns)
        columns = {
            name: convert_column(table.iloc[:, i]) if names.count(name) == 1 else _TWICE
            for i, name in enumerate(names)
        }
        indices = {table.index.name: table.index}
        return _collect(columns, indices)
    if is_of("xarray", table) and hasattr(table, "data_vars"):
        columns = {name: convert_column(x) for name, x in table.variables.items()}
        return _collect(columns, {x: i for x, i in table.indexes.items() if x in table.sizes})
    return None


_TWICE = Column(error=(ValueError, "two columns have this name; rename one of them"))


def names_of_rows(columns: Columns) -> tuple[tuple[Any, Names], ...]:
    """Names of rows by dimension; none of those whose number is no size of the arrays.

    An array of which someone has taken rows has fewer.
    """
    sizes = {size for x in columns.arrays.values() for size in np.shape(x)}
    indices = columns.header.indices
    return tuple(x for x in indices if not columns.arrays or len(x[1].entries) in sizes)


def _collect(columns: Mapping[Any, Column], indices: Mapping[Any, Any]) -> Columns:
    named = {dim: names_of_index(index) for dim, index in indices.items() if dim is not None}
    header = Header(
        tuple(columns),
        tuple((name, x.categories) for name, x in columns.items() if x.categories is not None),
        tuple((dim, names) for dim, names in named.items() if names is not None),
        tuple(
            (n, x.error[0], Words(x.error[1])) for n, x in columns.items() if x.error is not None
        ),
        tuple(name for name, x in columns.items() if x.is_one_a_row),
    )
    return Columns({name: columns[name].array for name in header.usable}, header)


def names_of_index(index: Any) -> Names | None:
    """Names of rows by an index of pandas; None if it has several levels, gaps or repetitions."""
    if index.nlevels > 1 or not index.is_unique or index.hasnans:
        return None
    return Names(entry_names(index))


def entry_names(given: Any) -> tuple[Any, ...]:
    """Names of entries: text and numbers as they are, anything else as text.

    Raises:
        ValueError: If they are not a list.
    """
    array = np.asarray(given)
    if array.ndim != 1:
        raise ValueError(f"a list of names, got an array of shape {array.shape}")
    if array.dtype.kind == "M":
        days = array.astype("datetime64[D]")
        is_of_days = np.all((days == array) | np.isnat(array))
        array = days if is_of_days else array.astype("datetime64[us]")  # "ns" would be integers
    entries = array.tolist()
    return tuple(x if x is None or isinstance(x, str | int | float) else str(x) for x in entries)


def numbers_of(column: Any) -> Any:
    """A column of nullable numbers of pandas as an array, gaps as NaN; anything else as it is."""
    dtype = getattr(getattr(column, "dtype", None), "numpy_dtype", None)
    if dtype is None or not is_of("pandas", column):
        return column
    if column.isna().any():
        return column.to_numpy(dtype=float, na_value=np.nan)
    return column.to_numpy(dtype=dtype)


def convert_column(given: Any) -> Column:
    """A `pandas.Series`, or a variable of xarray, as numbers or as codes of categories."""
    import pandas

    series = given if is_of("pandas", given) else pandas.Series(np.ravel(given.values))
    dtype = series.dtype
    num_gaps = int(series.isna().sum())
    is_number = pandas.api.types.is_numeric_dtype(dtype)  # booleans are numbers for pandas
    is_categorical = isinstance(dtype, pandas.CategoricalDtype)
    kind = "" if is_number else pandas.api.types.infer_dtype(series, skipna=True)
    if not (is_number or is_categorical or kind in ("string", "empty")):
        return Column(error=_refuse_objects(kind, series))
    if num_gaps:
        filled = "0.0" if is_number else "'unknown'"
        series_of_text = ".astype(object)" * is_categorical
        return Column(
            error=(
                ValueError,
                f"{num_gaps} of its {len(series)} entries are gaps (NaN or None), and an array of "
                "a model has none. Leave these rows out, by dropna; or fill them, by "
                f"x{series_of_text}.fillna({filled}); or make what is missing a site with a "
                "distribution, observed in part: ppl.condition(model, {site: ppl.impute(x)}).",
            )
        )
    if is_number:
        array = np.asarray(numbers_of(series))
        categories = None
    else:
        coded: Any = series.array if is_categorical else pandas.Categorical(series)
        array = np.asarray(coded.codes, np.int32)
        categories = Names(entry_names(coded.categories))
    try:
        leaf_values.check_range(array)
    except ValueError as error:
        return Column(error=(ValueError, f"got {error}"))
    return Column(array.reshape(np.shape(given)), categories)


def _refuse_objects(kind: str, series: Any) -> tuple[type[Exception], str]:
    """The error for a column of dates, durations or other objects."""
    if kind.startswith(("datetime", "date")):
        remedy = "give the time since one of them, (x - x.min()) / pandas.Timedelta('1D')"
        return TypeError, f"expected numbers, got dates; {remedy}."
    if kind.startswith("timedelta"):
        return TypeError, (
            "expected numbers, got durations; give them in a unit, x / pandas.Timedelta('1D')."
        )
    known = series.dropna()
    example = leaf_values.short_repr(known.iloc[0])
    return TypeError, (
        f"expected numbers, text or categories, got objects such as {example} "
        f"({type(known.iloc[0]).__name__}); make numbers of them by pandas.to_numeric(x), or text "
        "by x.astype(str)."
    )
