"""Columns of a summary: a table of all columns, and functions that print their numbers.

A new column is a line of `SummaryRow` with its `Column`, an array of
`inference.results.summary_data.SummaryData`, and its computation in `inference.results.summary`.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

_MAX_RHAT = 1000  # beyond it, rounding says how large it is


def print_to_scale(values: np.ndarray, decimals: int | None) -> list[str]:
    """Numbers with the given decimals, so many that standard deviations have three digits."""
    texts = [f"{x:.3g}" if decimals is None else f"{x:.{decimals}f}" for x in values]
    return [text.lstrip("-") if float(text) == 0 else text for text in texts]


def print_two_digits(values: np.ndarray, _: int | None) -> list[str]:
    """Numbers with as many decimals as give each of them two significant digits."""
    return print_to_scale(values, decimals_of(values, values, digits=2))


def print_whole(values: np.ndarray, _: int | None) -> list[str]:
    """Numbers without decimals."""
    return [f"{x:.0f}" for x in values]


def print_rhat(values: np.ndarray, _: int | None = None) -> list[str]:
    """Numbers with three decimals; beyond a thousand, as of chains that stand still, the bound."""
    return [f">{_MAX_RHAT}" if x > _MAX_RHAT else f"{x:.3f}" for x in values]


def decimals_of(scales: np.ndarray, sizes: np.ndarray, digits: int = 3) -> int | None:
    """Decimals that give every scale some significant digits; None if they take too much room."""
    scales = np.where(np.isfinite(scales) & (scales > 0), scales, np.abs(sizes))
    scales = scales[np.isfinite(scales) & (scales > 0)]
    if not scales.size:
        return 2
    needed = digits - 1 - int(np.floor(np.log10(scales.min())))
    largest = np.abs(sizes[np.isfinite(sizes)]).max(initial=scales.max())
    return None if needed > 6 or largest >= 1e7 else max(needed, 0)


class Column(NamedTuple):
    """A column of the table.

    Attributes:
        heading: Text printed above the column, and its name in a data frame.
        print: Function from values and the decimals of standard deviations to texts.
        is_diagnostic: Whether it is a diagnostic of chains, which independent draws do not have.
        level: Level of the quantile in the column, None for a column without quantiles. A summary
            may print quantiles at other levels.
    """

    heading: str
    print: Callable[[np.ndarray, int | None], list[str]] = print_to_scale
    is_diagnostic: bool = False
    level: float | None = None


def quantile_column(level: float) -> Column:
    """Column of a quantile."""
    return Column(f"{100 * level:g}%", level=level)


class SummaryRow(NamedTuple):
    """Posterior summary of one scalar, or of a site as arrays of its shape."""

    mean: Annotated[Any, Column("mean")]
    sd: Annotated[Any, Column("sd")]
    q5: Annotated[Any, quantile_column(0.05)]
    q50: Annotated[Any, quantile_column(0.5)]
    q95: Annotated[Any, quantile_column(0.95)]
    mcse_mean: Annotated[Any, Column("MCSE", print_two_digits, is_diagnostic=True)]
    ess_bulk: Annotated[Any, Column("ESS bulk", print_whole, is_diagnostic=True)]
    ess_tail: Annotated[Any, Column("ESS tail", print_whole, is_diagnostic=True)]
    rhat: Annotated[Any, Column("R-hat", print_rhat, is_diagnostic=True)]


_HINTS = get_type_hints(SummaryRow, include_extras=True)
COLUMNS: dict[str, Column] = {name: _HINTS[name].__metadata__[0] for name in SummaryRow._fields}
LEVELS = {name: x.level for name, x in COLUMNS.items() if x.level is not None}
# Columns that are no quantiles.
MOMENTS = {n: x for n, x in COLUMNS.items() if x.level is None and not x.is_diagnostic}
DIAGNOSTICS = {n: x for n, x in COLUMNS.items() if x.is_diagnostic}
