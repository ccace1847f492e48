"""Data of a summary: its columns as arrays, its sites, and the lines below the table."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from inference.results.summary_columns import (
    DIAGNOSTICS,
    LEVELS,
    MOMENTS,
    Column,
    SummaryRow,
    quantile_column,
)


class SummarySite(NamedTuple):
    """A site and the range of its scalars, from `start` to before `stop`.

    Attributes:
        name: Name of the site, scopes joined by dots.
        start, stop: Bounds of the range among the scalars of all sites.
        is_deterministic: Whether the site is a deterministic function of other sites.
        shape: Shape of the site; None if the summary has only a part of the site.
    """

    name: str
    start: int
    stop: int
    is_deterministic: bool
    shape: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class SummaryData:
    """The fields of a :class:`inference.Summary`, which describes them."""

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
    sites: tuple[SummarySite, ...] = ()
    is_constant: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))
    levels: tuple[float, ...] = tuple(LEVELS.values())
    quantiles: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 0)))

    def printed_columns(self) -> Iterator[tuple[Column, np.ndarray]]:
        """The columns to print, with their values; quantiles at `levels` are among them."""
        for name, column in MOMENTS.items():
            yield column, getattr(self, name)
        for level, values in zip(self.levels, self.quantiles, strict=True):
            yield quantile_column(level), values
        for name, column in DIAGNOSTICS.items():
            if name in self.columns:
                yield column, getattr(self, name)
