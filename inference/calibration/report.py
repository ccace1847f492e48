"""Report of simulation-based calibration: ranks, p-values, words and a picture."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from inference.calibration.ecdf_band import band, counts_below, num_cells, p_value
from inference.common.peer_names import OF_TABLES, ExplainsAttributes
from inference.common.saved import Saved


@dataclasses.dataclass(frozen=True)
class CalibrationReport(ExplainsAttributes, Saved):
    """Whether the ranks of true values among draws are uniform, for each quantity.

    Attributes:
        names: Names of the quantities.
        ranks: Normalized ranks in (0, 1), ``(simulation, quantity)``: near 0 the truth is below
            nearly all draws, near 1 above.
        level: Probability, at most, that a report on a correct fit has any quantity fail.
        num_divergent: Number of fits with a divergent transition, or `None` where unknown.
        num_unconverged: Number of fits with an R-hat above 1.05, or an effective sample size below
            40, of a quantity, or with draws of NaN. All fits are in the ranks.
    """

    _instead: ClassVar[dict[str, str]] = OF_TABLES
    names: tuple[str, ...]
    ranks: np.ndarray
    level: float = 0.01
    num_divergent: int | None = None
    num_unconverged: int = 0

    @functools.cached_property
    def p_values(self) -> dict[str, float]:
        """Exact p-value of uniform ranks by quantity, each on its own."""
        return {name: p_value(x) for name, x in zip(self.names, self.ranks.T, strict=True)}

    @functools.cached_property
    def adjusted(self) -> dict[str, float]:
        """P-values adjusted for the number of quantities by Holm's method."""
        raw = np.array(list(self.p_values.values()))
        order = np.argsort(raw)
        grown = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
        found = np.empty_like(raw)
        found[order] = np.minimum(grown, 1.0)
        return dict(zip(self.names, found.tolist(), strict=True))

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the quantities whose ranks are not uniform."""
        return tuple(name for name, p in self.adjusted.items() if p < self.level)

    @property
    def is_calibrated(self) -> bool:
        """Whether no quantity fails."""
        return not self.failures

    def describe(self, name: str) -> str:
        """Deviation of a quantity's ranks in words; "uniform" if there is none.

        | Ranks            | Draws                       |
        |------------------|-----------------------------|
        | mostly high      | are too low                 |
        | mostly low       | are too high                |
        | at both ends     | are too narrow              |
        | in the middle    | are too wide                |
        """
        if self.adjusted[name] >= self.level:
            return "uniform"
        ranks = self.ranks[:, self.names.index(name)]
        shift = (np.mean(ranks) - 0.5) * np.sqrt(12 * len(ranks))
        spread = (np.mean((ranks - 0.5) ** 2) - 1 / 12) * np.sqrt(180 * len(ranks))
        if max(abs(shift), abs(spread)) < 3:
            return "not uniform"
        if abs(shift) > abs(spread):
            return "draws too low" if shift > 0 else "draws too high"
        return "draws too narrow" if spread > 0 else "draws too wide"

    def __str__(self) -> str:
        width = max(8, *map(len, self.names))
        lines = [f"{'':{width}}  {'p-value':>9}  {'adjusted':>9}  ranks"]
        for name in self.names:
            p = self.p_values[name]
            adjusted = self.adjusted[name]
            lines.append(f"{name:{width}}  {p:9.2g}  {adjusted:9.2g}  {self.describe(name)}")
        return "\n".join([*lines, "", f"{len(self.ranks)} simulations", *self._words()])

    __repr__ = __str__

    def _words(self) -> list[str]:
        words = []
        for number, what in (
            (self.num_divergent, "had divergent transitions"),
            (self.num_unconverged, "had not converged"),
        ):
            if number:
                noun = "fit" if number == 1 else "fits"
                words.append(f"! {number} {noun} {what}; the ranks include them.")
        failed = self.failures
        num = len(self.names)
        if failed:
            told = ", ".join(failed[:5]) + (" ..." if len(failed) > 5 else "")
            words.append(
                f"! Ranks of {len(failed)} of {num} quantities are not uniform ({told}): the fit "
                "does not draw from the posterior of the model that simulates."
            )
        else:
            words.append(
                f"No deviation from uniform ranks (at most {self.level:.3g} false alarms in a "
                "report)."
            )
        return words

    def plot(self, names: Any = None) -> Any:
        """Differences of the ranks' distribution functions to the uniform one, with their bands.

        A line leaves its band if and only if the quantity's p-value, times the number of
        quantities, is below `level`.

        Args:
            names: Name or names of quantities; by default all.

        Returns:
            A figure of Matplotlib.

        Raises:
            ImportError: if Matplotlib is not installed.
            ValueError: if a name is unknown.
        """
        try:
            from matplotlib import pyplot as plt
        except ImportError as error:
            raise ImportError("plot needs Matplotlib: pip install matplotlib") from error
        shown = self.names if names is None else (names,) if isinstance(names, str) else names
        if unknown := [name for name in shown if name not in self.names]:
            raise ValueError(f"names: {unknown} are no quantities; there are {list(self.names)}")
        columns = min(4, len(shown))
        rows = -(-len(shown) // columns)
        figure, axes = plt.subplots(
            rows, columns, figsize=(3 * columns, 2.3 * rows), sharex=True, sharey=True,
            squeeze=False, layout="constrained",
        )  # fmt: skip
        size = len(self.ranks)
        cells = num_cells(len(self.ranks))
        points = np.arange(cells + 1) / cells
        ends = [band(size, self.level / len(self.names))[i] for i in (0, 1)]
        low, high = (np.r_[0, x, size] / size - points for x in ends)
        for axis in axes.flat[len(shown) :]:
            axis.set_axis_off()
        for axis, name in zip(axes.flat, shown, strict=False):
            counts = counts_below(self.ranks[:, self.names.index(name)], cells)
            axis.fill_between(points, low, high, color="0.85", linewidth=0)
            color = "C3" if name in self.failures else "C0"
            axis.plot(points, np.r_[0, counts, size] / size - points, color=color)
            axis.axhline(0, color="0.5", linewidth=0.8)
            axis.set_title(name, fontsize="medium")
        figure.supxlabel("normalized rank", fontsize="medium")
        figure.supylabel("ECDF - uniform", fontsize="medium")
        return figure
