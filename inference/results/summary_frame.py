"""Summaries as data frames of pandas, and back."""

import itertools
import math
import re
from typing import Any

import numpy as np

from inference.results.summary_columns import DIAGNOSTICS, LEVELS, MOMENTS
from inference.results.summary_data import SummaryData

_ENTRY = re.compile(r"(.*)\[(\d+(?:,\d+)*)\]")
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
    split = [_ENTRY.fullmatch(name) for name in names]
    bases = [m[1] if m else name for name, m in zip(names, split, strict=True)]
    found = []
    start = 0
    for base, group in itertools.groupby(bases):
        stop = start + len(list(group))
        entries = [tuple(map(int, m[2].split(","))) if m else () for m in split[start:stop]]
        shape = tuple(max(axis) + 1 for axis in zip(*entries, strict=False))
        whole = attrs.get("shapes", {}).get(base, shape)
        is_known = whole is not None and tuple(whole) == shape and len(entries) == math.prod(shape)
        is_whole = is_known and entries == [*np.ndindex(shape)]
        is_deterministic = base in attrs.get("deterministic", ())
        found.append((base, start, stop, is_deterministic, shape if is_whole else None))
        start = stop
    return found
