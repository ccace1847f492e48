"""Summaries as data frames of pandas, and back."""

import itertools
import math
import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from inference.results.summary_columns import DIAGNOSTICS, LEVELS, MOMENTS
from inference.results.summary_data import SummaryData

_ENTRY = re.compile(r"(.+?)\[(.*)\]")
_PLACE = re.compile(r"\d+(?:,\d+)*")
_LEVEL = re.compile(r"(\d+(?:\.\d+)?(?:e-\d+)?)%")
# Fields that are not columns, with the values that replace them if the frame does not have them.
_KEPT = {
    "about": "A table whose chains and draws are not known.",
    "verdict": "Its problems are not known.",
    "num_chains": 0,
    "num_draws": 0,
}


def to_frame(summary: SummaryData) -> Any:
    """Table as a ``pandas.DataFrame``, with everything but the columns in its `attrs`.

    Raises:
        ImportError: if pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install pandas") from error
    columns = {column.heading: values for column, values in summary.printed_columns()}
    frame = pandas.DataFrame(columns, index=list(summary.names))
    frame.attrs = {name: getattr(summary, name) for name in (*_KEPT, "problems")}
    frame.attrs["deterministic"] = [x.name for x in summary.sites if x.is_deterministic]
    frame.attrs["shapes"] = {x.name: x.shape for x in summary.sites}
    frame.attrs["scalars"] = list(summary.names)
    frame.attrs["constant"] = list(itertools.compress(summary.names, summary.is_constant))
    frame.attrs["columns"] = list(columns)
    return frame


def from_frame(frame: Any) -> dict[str, Any]:
    """Fields of the summary that a frame shows; NaN for columns that the frame lacks.

    Raises:
        TypeError: if `frame` is not a data frame.
        ValueError: if it has no columns of means and standard deviations, or one of another kind.
    """
    if not (hasattr(frame, "columns") and hasattr(frame, "index")):
        raise TypeError(
            f"from_pandas takes a data frame, as summary.to_pandas() gives it, got {type(frame)}"
        )
    headings = [str(heading) for heading in frame.columns]
    fields = {name: column.heading for name, column in (MOMENTS | DIAGNOSTICS).items()}
    diagnostics = [column.heading for column in DIAGNOSTICS.values()]
    others = {*headings} - {*fields.values()} - {h for h in headings if _LEVEL.fullmatch(h)}
    if others or not {"mean", "sd"} <= {*headings}:
        raise ValueError(
            "from_pandas: expected the columns 'mean' and 'sd', quantiles such as '5%', and any of "
            f"{', '.join(diagnostics)}, got {', '.join(headings)}. The "
            "names of the scalars are the index: read a file with index_col=0"
        )
    values = {h: frame.iloc[:, i].to_numpy(float) for i, h in enumerate(headings)}
    quantiles = {float(m[1]) / 100: values[h] for h in headings if (m := _LEVEL.fullmatch(h))}
    names = tuple(map(str, frame.index))
    attrs = dict(frame.attrs)
    unknown = np.full(len(names), np.nan)
    found: dict[str, Any] = {f: values.get(heading, unknown) for f, heading in fields.items()}
    for field, level in LEVELS.items():
        found[field] = quantiles.get(level, unknown)
    shown = {*(f for f, heading in fields.items() if heading in headings), *LEVELS}
    if not {*diagnostics} & {*attrs.get("columns", ())} <= {*headings}:
        attrs.pop("verdict", None)  # It tells of diagnostics that are not there.
    constants = attrs.get("constant", np.array(names)[found["sd"] == 0].tolist())
    return {
        **found,
        "names": names,
        "sites": _sites(names, attrs),
        "is_constant": np.isin(names, constants),
        "levels": tuple(sorted(quantiles)),
        "quantiles": np.array([quantiles[x] for x in sorted(quantiles)]).reshape(-1, len(names)),
        "columns": shown,
        **{name: attrs.get(name, default) for name, default in _KEPT.items()},
        "problems": tuple(attrs.get("problems", ())),
    }


def _sites(names: tuple[str, ...], attrs: dict[str, Any]) -> list[Any]:
    """Fields of the sites that scalars belong to; the shape is None if scalars are missing."""
    shapes = attrs.get("shapes", {})
    noted = {base: entries for base, entries in _by_site(attrs.get("scalars", ()))}
    found = []
    start = 0
    for base, entries in _by_site(names):
        stop = start + len(entries)
        shape = _shape_of(entries) if base not in noted else shapes.get(base)
        is_part = base in noted and noted[base] != entries
        is_deterministic = base in attrs.get("deterministic", ())
        found.append((base, start, stop, is_deterministic, None if is_part else shape))
        start = stop
    return found


def _by_site(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Name of each site, and its entries as the names of its scalars have them."""
    split = [(m[1], m[2]) if (m := _ENTRY.fullmatch(name)) else (name, "") for name in names]
    for base, group in itertools.groupby(split, operator.itemgetter(0)):
        yield base, [entry for _, entry in group]


def _shape_of(entries: list[str]) -> tuple[int, ...] | None:
    """Shape of a site by the numbers of its entries; None if some are missing, or have names."""
    if not all(map(_PLACE.fullmatch, filter(None, entries))):
        return None
    places = [tuple(map(int, entry.split(","))) if entry else () for entry in entries]
    shape = tuple(max(axis) + 1 for axis in zip(*places, strict=False))
    return shape if math.prod(shape) == len(places) and places == [*np.ndindex(shape)] else None
