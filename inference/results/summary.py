"""Summaries of draws: a table of means, quantiles and diagnostics."""

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from inference.common.leaf_names import element_names, named_leaves
from inference.results.diagnostics import diagnose

_MAX_ROWS, _WIDTH = 60, 88  # rows of a printed table; columns of its notes
_LEVELS = (0.05, 0.5, 0.95)
_HEADINGS = ("mean", "sd", "5%", "50%", "95%", "MCSE", "ESS bulk", "ESS tail", "R-hat")


class SummaryRow(NamedTuple):
    """Posterior summary of one scalar: a row of the table."""

    mean: float
    sd: float
    q5: float
    q50: float
    q95: float
    mcse_mean: float
    ess_bulk: float
    ess_tail: float
    rhat: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """Posterior summaries by scalar, and the problems that sampling had.

    Prints as a table. ``summary["theta[0]"]`` is one row, ``summary.rhat`` one column.

    Attributes:
        names: Name of each scalar, such as ``"theta[0]"`` or ``"scope.mu"``.
        mean, sd, q5, q50, q95: Posterior mean, standard deviation, and quantiles at 5, 50 and 95 %.
        mcse_mean: Monte Carlo standard error of the mean.
        ess_bulk, ess_tail, rhat: See :mod:`inference.results.diagnostics`.
        problems: Warnings, each with a remedy; empty if there are none.
        num_chains, num_draws: Number of chains, and of draws in each.
        columns: Columns to print.
        about: Line about how the draws were made; by default the number of chains and draws.
        verdict: Line to print if there are no problems.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    q5: np.ndarray
    q50: np.ndarray
    q95: np.ndarray
    mcse_mean: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    rhat: np.ndarray
    problems: tuple[str, ...]
    num_chains: int
    num_draws: int
    columns: tuple[str, ...] = SummaryRow._fields
    about: str = ""
    verdict: str = "No problem found."

    def __getitem__(self, name: str) -> SummaryRow:
        try:
            index = self.names.index(name)
        except ValueError:
            some = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            raise KeyError(f"no scalar is named {name!r}; there are {some}") from None
        return self._row(index)

    def _row(self, index: int) -> SummaryRow:
        return SummaryRow(*(float(getattr(self, field)[index]) for field in SummaryRow._fields))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        return self.table(_MAX_ROWS)

    __repr__ = __str__

    def table(self, most_rows: int | None = None) -> str:
        """Table as text, with at most `most_rows` rows, and the problems below it."""
        shown = self.names if most_rows is None else self.names[:most_rows]
        which = [SummaryRow._fields.index(column) for column in self.columns]
        pick = lambda texts: [texts[i] for i in which]  # noqa: E731
        cells = [["", *pick(_HEADINGS)]]
        cells += [[name, *pick(_cells(self._row(i)))] for i, name in enumerate(shown)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *map(str.rjust, rest, widths[1:])])
            for name, *rest in cells
        ]
        if len(shown) < len(self.names):
            hidden = len(self.names) - len(shown)
            lines.append(f"... and {hidden} more; summary.table() shows all {len(self.names)}")
        found = [f"! {problem}" for problem in self.problems] or [self.verdict]
        about = (
            self.about
            or f"{_count_noun('chain', self.num_chains)} x {_count_noun('draw', self.num_draws)}"
        )
        notes = [textwrap.fill(text, _WIDTH, subsequent_indent="  ") for text in (about, *found)]
        return "\n".join([*lines, "", *notes])


def summarize(draws: dict[str, Any]) -> Summary:
    """Summary of the draws of chains, with diagnostics; no problem is looked for.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
    """
    names, values = _scalars(draws)
    rhat, ess_bulk, ess_tail, mcse_mean = diagnose(values)
    return dataclasses.replace(
        _summarize_independent(names, values, None),
        mcse_mean=mcse_mean,
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        rhat=rhat,
    )


def describe(draws: dict[str, Any], weights: np.ndarray | None = None) -> Summary:
    """Summary of independent draws, without diagnostics of chains.

    Args:
        draws: Draws by site, ``(1, draw, *shape)``.
        weights: Importance weights of the draws, ``(draw,)``, which sum to 1; by default all equal.
    """
    names, values = _scalars(draws)
    columns = tuple(
        name for name in SummaryRow._fields if not name.startswith(("ess", "rhat", "mcse"))
    )
    return dataclasses.replace(_summarize_independent(names, values, weights), columns=columns)


def _scalars(draws: dict[str, Any]) -> tuple[tuple[str, ...], np.ndarray]:
    """Names and draws, ``(chain, draw, scalar)``, of all scalars.

    A complex number counts as two scalars, its real and imaginary part.
    """
    names, columns = [], []
    for name, leaf in named_leaves(draws):
        x, parts = np.asarray(leaf), {name: leaf}
        if np.iscomplexobj(x):
            parts = {f"{name}.real": np.real(x), f"{name}.imag": np.imag(x)}
        for part, values in parts.items():
            names += element_names(part, x.shape[2:])
            columns.append(np.reshape(values, (*x.shape[:2], -1)).astype(np.float64))
    return tuple(names), np.concatenate(columns, 2)


def _summarize_independent(
    names: tuple[str, ...], values: np.ndarray, weights: np.ndarray | None
) -> Summary:
    """Means, standard deviations and quantiles; diagnostics of chains are NaN."""
    num_chains, num_draws, num_scalars = values.shape
    unknown = np.full(num_scalars, np.nan)
    with np.errstate(invalid="ignore"):  # draws that are not finite are a problem of their own
        if weights is None:
            q5, q50, q95 = np.quantile(values, _LEVELS, axis=(0, 1))
            sd = values.std((0, 1), ddof=int(num_chains * num_draws > 1))
            mean = values.mean((0, 1))
        else:
            mean = weights @ values[0]
            sd = np.sqrt(weights @ (values[0] - mean) ** 2)
            q5, q50, q95 = _weighted_quantiles(values[0], weights)
    return Summary(
        names=names,
        mean=mean,
        sd=sd,
        q5=q5,
        q50=q50,
        q95=q95,
        mcse_mean=unknown,
        ess_bulk=unknown,
        ess_tail=unknown,
        rhat=unknown,
        problems=(),
        num_chains=num_chains,
        num_draws=num_draws,
    )


def _weighted_quantiles(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted quantiles at 5, 50 and 95 %, ``(level, scalar)``.

    Each is the smallest value at which the cumulative weight reaches the level.
    """
    order = np.argsort(values, axis=0)
    total = np.cumsum(weights[order], axis=0)
    places = (total[None] < np.array(_LEVELS)[:, None, None]).sum(1)
    places = np.minimum(places, len(values) - 1)
    return np.take_along_axis(np.take_along_axis(values, order, 0), places, 0)


def _count_noun(noun: str, number: int) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _cells(row: SummaryRow) -> list[str]:
    """Cells of a row as text.

    - Values on the scale of the standard deviation: three significant digits of that.
    - Standard error: two significant digits, trailing zeros included.
    """
    scale = row.sd if np.isfinite(row.sd) and row.sd > 0 else abs(row.mean)
    digits = 2 if not np.isfinite(scale) or scale == 0 else 2 - int(np.floor(np.log10(scale)))
    largest = np.nanmax(np.abs([row.mean, row.sd, row.q5, row.q95, 0.0]))
    plain = digits <= 6 and largest < 1e7
    values = [f"{x:.{max(digits, 0)}f}" if plain else f"{x:.3e}" for x in row[:5]]
    ess = [f"{x:.0f}" for x in (row.ess_bulk, row.ess_tail)]
    error = f"{row.mcse_mean:#.2g}" if 0 < row.mcse_mean < 99.5 else f"{row.mcse_mean:.3g}"
    return [*values, error.rstrip("."), *ess, f"{row.rhat:.3f}"]
