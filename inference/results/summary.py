"""Summaries of draws: a table of means, quantiles and diagnostics, and the problems found."""

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from inference.common.leaf_names import element_names, named_leaves
from inference.results.diagnostics import MIN_DRAWS, ebfmi, ess_bulk, ess_tail, mcse_mean, rhat

# Thresholds of warnings.
LOW_EBFMI, HIGH_RHAT, LOW_ESS_PER_CHAIN = 0.3, 1.01, 100
LOW_ACCEPTANCE, LOW_STEP_SIZE = 0.1, 0.2  # mean rate; step size over the median chain's
_MAX_ROWS, _WIDTH = 60, 88  # rows of a printed table; columns of its notes
# A posterior seems to be improper if the largest draw exceeds _FAR and the smallest is less than
# _NEAR of it, both in absolute value.
_FAR, _NEAR = 1e17, 0.01
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


def summarize(draws: dict[str, Any], stats: dict[str, np.ndarray]) -> Summary:
    """Summary of the draws of chains, with diagnostics and warnings.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        stats: Statistics of the kernel, ``(chain, draw)``, by name; warnings use those that exist.
    """
    names, values = _scalars(draws)
    summary = dataclasses.replace(
        _summarize_independent(names, values, None),
        mcse_mean=mcse_mean(values),
        ess_bulk=ess_bulk(values),
        ess_tail=ess_tail(values),
        rhat=rhat(values),
    )
    problems = (
        *_range_problems(draws, stats, summary),
        *_transition_problems(stats),
        *_chain_problems(stats),
        *_mixing_problems(summary),
    )
    return dataclasses.replace(summary, problems=problems, verdict=_verdict(stats))


def _verdict(stats: dict[str, np.ndarray]) -> str:
    """Line that lists the checks made, all without a finding.

    Some checks need statistics that not every kernel has.
    """
    checks = {
        "is_divergent": "no divergence",
        "energy": f"E-BFMI at least {LOW_EBFMI}",
    }
    found = [check for name, check in checks.items() if name in stats]
    found += [f"R-hat at most {HIGH_RHAT}", f"ESS at least {LOW_ESS_PER_CHAIN} per chain"]
    return f"No problem found: {', '.join(found)}."


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


def _range_problems(
    draws: dict[str, Any], stats: dict[str, np.ndarray], summary: Summary
) -> Iterator[str]:
    """Warnings for sites whose draws reach very far, as under an improper posterior.

    Units may be large, so another sign of trouble is needed: a divergence, a truncated trajectory,
    low ESS or high R-hat.
    """
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)
    is_slow = (ess < LOW_ESS_PER_CHAIN * summary.num_chains) | (summary.rhat > HIGH_RHAT)
    is_wrong = np.any(stats.get("is_divergent", 0)) or np.any(stats.get("is_truncated", 0))
    if not (is_wrong or is_slow.any()):
        return
    for name, leaf in named_leaves(draws):
        if not np.issubdtype(leaf.dtype, np.floating):
            continue
        sizes = np.abs(leaf[np.isfinite(leaf)].astype(np.float64))
        farthest = float(np.max(sizes, initial=0.0))
        # A site that is large in its unit alone does not vary by as much.
        if farthest > _FAR and float(np.min(sizes)) < _NEAR * farthest:
            yield (
                f"draws of {name} reach {farthest:.0e}: the posterior seems to be improper, with a "
                "density that does not fall off in some direction. Give the sites behind it proper "
                "priors."
            )


def _transition_problems(stats: dict[str, np.ndarray]) -> Iterator[str]:
    num_divergent = int(np.sum(stats.get("is_divergent", 0)))
    if num_divergent:
        yield (
            f"{num_divergent} of {stats['is_divergent'].size} transitions diverged: the posterior "
            "curves more sharply somewhere than the step size can follow, and the draws are biased "
            "away from there. Reparameterise hierarchical sites, as by ppl.reparam(model, "
            "ppl.auto_reparam), raise target_acceptance_rate to 0.95 or more, or narrow priors "
            "that allow extremes."
        )
    num_truncated = int(np.sum(stats.get("is_truncated", 0)))
    if num_truncated:
        yield (
            f"{num_truncated} of {stats['is_truncated'].size} trajectories were cut short by "
            "max_depth, so that chains move slowly. Try mass_matrix='dense', bring parameters to "
            "similar scales, or allow NUTS(max_depth=12)."
        )


def _chain_problems(stats: dict[str, np.ndarray]) -> Iterator[str]:
    adapts = "step_size" in stats
    if "acceptance_rate" in stats:
        stuck = np.flatnonzero(np.mean(stats["acceptance_rate"], 1) < LOW_ACCEPTANCE)
        if stuck.size:
            yield (
                f"{_list_numbers('chain', stuck)} hardly moved: fewer than {LOW_ACCEPTANCE:.0%} of "
                f"proposals were accepted. {'Raise num_warmup' if adapts else 'Propose less far'}, "
                "or start elsewhere: init='prior', 'optimum' or values that you know."
            )
    if adapts:
        yield from _step_size_problems(np.median(stats["step_size"], 1))
    if "energy" in stats:
        yield from _energy_problems(stats["energy"])


def _step_size_problems(step_size: np.ndarray) -> Iterator[str]:
    slow = np.flatnonzero(step_size < LOW_STEP_SIZE * np.median(step_size))
    if slow.size:
        yield (
            f"{_list_numbers('chain', slow)} took steps "
            f"{np.median(step_size) / step_size.min():.0f} times smaller than the others, as in a "
            "narrow place, or one crossed late in warm-up. "
            "Raise num_warmup, start elsewhere (init='prior', 'optimum' or values that you know), "
            "or look for several modes."
        )


def _energy_problems(energy: np.ndarray) -> Iterator[str]:
    low = np.flatnonzero(ebfmi(energy) < LOW_EBFMI)
    if low.size:
        yield (
            f"E-BFMI is below {LOW_EBFMI} in {_list_numbers('chain', low)}: the energy mixes "
            "slowly, as with heavy tails or a funnel. Reparameterise, as by ppl.reparam(model, "
            "ppl.auto_reparam) or with lighter tails on an unconstrained scale, and draw more."
        )


def _mixing_problems(summary: Summary) -> Iterator[str]:
    if summary.num_chains == 1:
        yield "R-hat needs two chains at least: run num_chains=4 to see whether they agree."
    if summary.num_draws < MIN_DRAWS:
        yield (
            f"R-hat and ESS need {MIN_DRAWS} draws of each chain at least, got "
            f"{summary.num_draws}: nothing can be said of how the chains mix. Raise num_draws."
        )
    high = np.flatnonzero(summary.rhat > HIGH_RHAT)
    if high.size:
        worst = summary.names[int(np.nanargmax(summary.rhat))]
        yield (
            f"R-hat exceeds {HIGH_RHAT} for {high.size} of {len(summary)} scalars, most for "
            f"{worst} ({np.nanmax(summary.rhat):.2f}): the chains do not agree, so neither means "
            "nor intervals can be trusted. Raise num_warmup and num_draws; if that does not help, "
            "look for several modes or parameters that the data cannot tell apart."
        )
    ess = np.fmin(summary.ess_bulk, summary.ess_tail)
    enough = LOW_ESS_PER_CHAIN * summary.num_chains
    if np.any(ess < enough):
        worst = summary.names[int(np.nanargmin(ess))]
        yield (
            f"ESS is below {enough} ({LOW_ESS_PER_CHAIN} per chain) for {np.sum(ess < enough)} of "
            f"{len(summary)} scalars, least for {worst} ({np.nanmin(ess):.0f}): quantiles and "
            "R-hat are unreliable. Raise num_draws, or reparameterise so that chains move faster."
        )
    unknown = np.flatnonzero(~np.isfinite(summary.mean))
    if unknown.size:
        yield (
            f"{unknown.size} of {len(summary)} scalars, {summary.names[unknown[0]]} first, have "
            "draws that are not finite: look for overflow in the transformation of these sites."
        )


def _count_noun(noun: str, number: int) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _list_numbers(noun: str, numbers: np.ndarray) -> str:
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


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
