"""Summaries of draws: means, quantiles and diagnostics of every scalar."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import short_repr
from inference.common.leaf_names import element_names, named_leaves, part_names
from inference.common.target import NamedSite, labels_by_name
from inference.results import summary_frame, summary_table
from inference.results.diagnostics import MIN_DRAWS, diagnose
from inference.results.nested_rhat import nested_rhat
from inference.results.summary_columns import COLUMNS, DIAGNOSTICS, LEVELS, SummaryRow
from inference.results.summary_data import SummaryData, SummarySite

_ROUNDING = 8  # units of rounding by which draws of one number may differ, as of a Cholesky factor


@dataclasses.dataclass(frozen=True)
class Summary(SummaryData):
    """Posterior summaries by scalar, and the problems that sampling had.

    Prints as a table; a notebook shows it as a table too. ``summary["theta[0]"]`` is one row,
    ``summary.rhat`` one column, and ``summary["theta"]`` one site, whose ``mean`` and other columns
    have the shape of the site. Latent sites stand before deterministic sites, and short sites
    before long sites; otherwise sites stand in the order of the model. Only the first and last
    entries of a long site are printed. Constant entries, as the upper triangle of a Cholesky
    factor, are left out.

    Attributes:
        names: Name of each scalar, such as ``"theta[0]"`` or ``"scope.mu"``.
        mean, sd, q5, q50, q95: Posterior mean, standard deviation, and quantiles at 5, 50 and 95 %.
        mcse_mean: Monte Carlo standard error of the mean.
        ess_bulk, ess_tail, rhat: See :mod:`inference.results.diagnostics`; NaN for constants.
        problems: Warnings, each with a remedy; empty if there are none.
        num_chains, num_draws: Number of chains, and of draws in each.
        columns: Columns to print.
        about: Line about how the draws were made; by default the number of chains and draws.
        verdict: Line to print if there are no problems.
        sites: The sites, each with the range of its scalars.
        is_constant: Whether each scalar is the same in all draws, up to rounding.
        levels: Levels of the quantiles to print.
        quantiles: The quantiles at `levels`, ``(level, scalar)``.
    """

    def __getitem__(self, name: str) -> SummaryRow:
        columns = (getattr(self, field) for field in SummaryRow._fields)
        if name in self.names:
            index = self.names.index(name)
            return SummaryRow(*(float(column[index]) for column in columns))
        for site in self.sites:
            if site.name == name and site.shape is not None:
                part = slice(site.start, site.stop)
                return SummaryRow(*(column[part].reshape(site.shape) for column in columns))
        some = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
        raise KeyError(f"no site or scalar is named {name!r}; there are {some}")

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        return summary_table.as_text(self, cut=True)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return summary_table.as_html(self)

    def table(self) -> str:
        """Table as text with every scalar but constant ones, and the problems below it."""
        return summary_table.as_text(self, cut=False)

    def to_pandas(self) -> Any:
        """Table as a ``pandas.DataFrame``: a row for each scalar, a column as it is printed.

        Everything but the columns, such as the problems, is in its `attrs`.

        Raises:
            ImportError: if pandas is not installed.
        """
        return summary_frame.to_frame(self)

    @classmethod
    def from_pandas(cls, frame: Any) -> "Summary":
        """The summary of a frame that :meth:`to_pandas` gave, or of a part of it.

        Sites and their shapes are read off the names of the rows. Everything else, such as the
        problems, is in ``frame.attrs``. Files of some formats, as CSV, do not keep `attrs`; the
        summary then says that these facts are unknown. Columns that the frame lacks are NaN.

        Args:
            frame: A ``pandas.DataFrame``.

        Raises:
            TypeError: if `frame` is not a data frame.
            ValueError: if it lacks columns of a summary, or has other columns.
        """
        found = summary_frame.from_frame(frame)
        columns = tuple(name for name in SummaryRow._fields if name in found["columns"])
        sites = tuple(SummarySite(*site) for site in found["sites"])
        return cls(**(found | {"columns": columns, "sites": sites}))

    def select(
        self, names: str | Sequence[str] | None = None, *, deterministic: bool = True
    ) -> "Summary":
        """The summary of some sites only; it keeps all problems of the run.

        Args:
            names: Names of sites, scopes, scalars or rows, such as ``"theta"``, ``"scope"``,
                ``"theta[0]"``, and ``"u[3]"`` for the row of a matrix; by default all.
            deterministic: Whether to include deterministic sites, if no names are given.

        Raises:
            ValueError: if no site, scope, scalar or row has one of the names.
        """
        chosen = None if names is None else [names] if isinstance(names, str) else list(names)
        if chosen == []:
            raise ValueError("names: expected names of sites, got none")
        for name in chosen or ():
            is_scalar = any(_is_within(scalar, name) for scalar in self.names)
            if not (is_scalar or any(_has_name(site, name) for site in self.sites)):
                known = ", ".join(site.name for site in self.sites)
                raise ValueError(f"names: no site is called {name!r}; there are {known}")
        sites = []
        kept = []
        for site in self.sites:
            places = range(site.start, site.stop)
            if chosen is not None and not any(_has_name(site, name) for name in chosen):
                places = [i for i in places if any(_is_within(self.names[i], x) for x in chosen)]
            if not places or (site.is_deterministic and not deterministic and chosen is None):
                continue
            shape = site.shape if len(places) == site.stop - site.start else None
            site = site._replace(start=len(kept), stop=len(kept) + len(places), shape=shape)
            sites.append(site)
            kept += places
        fields = (*SummaryRow._fields, "is_constant")
        return dataclasses.replace(
            self,
            names=tuple(self.names[i] for i in kept),
            sites=tuple(sites),
            quantiles=self.quantiles[:, kept],
            **{field: getattr(self, field)[kept] for field in fields},
        )


def _is_within(scalar: str, name: str) -> bool:
    """Whether a scalar has the given name, or is in the row of this name: `u[3,1]` in `u[3]`."""
    return scalar == name or (name.endswith("]") and scalar.startswith(f"{name[:-1]},"))


def _has_name(site: SummarySite, name: str) -> bool:
    return site.name == name or site.name.startswith(f"{name}.")


def interval_levels(intervals: float | Sequence[float]) -> tuple[float, ...]:
    """Levels of the ends of central intervals of some probabilities, and of the median.

    Raises:
        ValueError: if a probability is not between 0 and 1.

    Example:
        >>> interval_levels((0.5, 0.9))
        (0.05, 0.25, 0.5, 0.75, 0.95)
    """
    probs = np.atleast_1d(np.asarray(intervals))
    if (
        probs.ndim != 1
        or not probs.size
        or not np.issubdtype(probs.dtype, np.number)
        or not all(0 < p < 1 for p in probs)
    ):
        raise ValueError(
            "intervals must be a probability between 0 and 1, such as 0.9, or several, got "
            f"{short_repr(intervals)}"
        )
    ends = {0.5, *(round((1 + sign * float(p)) / 2, 12) for p in probs for sign in (-1, 1))}
    return tuple(sorted(ends))


def summarize(
    draws: dict[str, Any],
    sites: Sequence[NamedSite] = (),
    intervals: float | Sequence[float] = 0.9,
    num_superchains: int | None = None,
) -> Summary:
    """Summary of the draws of chains, with diagnostics; no problem is looked for.

    Args:
        draws: Draws by site, ``(chain, draw, *shape)``.
        sites: The sites in the order of the model, with their labels.
        intervals: Probabilities of the central intervals to print.
        num_superchains: Number of groups of consecutive chains that share a start; if it is given,
            R-hat is :func:`nested_rhat`.
    """
    parts, values, eps = _scalars(draws, sites)
    wanted = _wanted_levels(intervals)
    rhat, ess_bulk, ess_tail, mcse_mean, found = diagnose(values, wanted)
    if values.shape[1] < MIN_DRAWS:
        found = _quantiles(values, wanted)
    if num_superchains is not None:
        rhat = nested_rhat(values, num_superchains)
    summary = _summarize_independent(parts, values, eps, None, intervals, found)
    known = np.where(summary.is_constant, np.nan, 1.0)  # of a constant, R-hat and ESS say nothing
    return dataclasses.replace(
        summary,
        mcse_mean=mcse_mean,
        ess_bulk=ess_bulk * known,
        ess_tail=ess_tail * known,
        rhat=rhat * known,
    )


def describe(
    draws: dict[str, Any],
    weights: np.ndarray | None = None,
    sites: Sequence[NamedSite] = (),
    intervals: float | Sequence[float] = 0.9,
) -> Summary:
    """Summary of independent draws, without diagnostics of chains.

    Args:
        draws: Draws by site, ``(1, draw, *shape)``.
        weights: Importance weights of the draws, ``(draw,)``, which sum to 1; by default all equal.
        sites: The sites in the order of the model, with their labels.
        intervals: Probabilities of the central intervals to print.
    """
    columns = tuple(name for name in COLUMNS if name not in DIAGNOSTICS)
    parts, values, eps = _scalars(draws, sites)
    summary = _summarize_independent(parts, values, eps, weights, intervals)
    return dataclasses.replace(summary, columns=columns)


# Name of a site, of its scalars, whether it is deterministic, and its shape.
_Part = tuple[str, list[str], bool, tuple[int, ...]]


def _scalars(
    draws: dict[str, Any], sites: Sequence[NamedSite]
) -> tuple[list[_Part], np.ndarray, np.ndarray]:
    """Sites in the order of the model with the names of their scalars, and the draws of all.

    The draws are ``(chain, draw, scalar)``. A complex number counts as two scalars, its real and
    imaginary part. The last array is the unit of rounding of each scalar's dtype.
    """
    parts = []
    columns = []
    units = []
    order = {name: (flag, i) for i, (name, flag, *_) in enumerate(sites)}
    labels = labels_by_name(sites)

    def place(leaf):
        return order.get(leaf[0], (False, len(order)))

    for name, leaf in sorted(named_leaves(draws), key=place):
        x = np.asarray(leaf)
        pieces = (np.real(x), np.imag(x)) if np.iscomplexobj(x) else (x,)
        for piece, values in zip(part_names(name, x.dtype), pieces, strict=True):
            scalars = element_names(piece, x.shape[2:], labels.get(name, ()))
            shape = x.shape[2:]
            parts.append((piece, scalars, order.get(name, (False,))[0], shape))
            size = len(parts[-1][1])
            columns.append(np.asarray(np.reshape(values, (*x.shape[:2], size)), np.float64))
            is_float = jnp.issubdtype(x.dtype, jnp.inexact)
            units += [float(jnp.finfo(x.dtype).eps) if is_float else 0.0] * size
    if not columns:
        raise ValueError("the draws have no sites, so there is nothing to summarize")
    return parts, np.concatenate(columns, 2), np.array(units)


def _summarize_independent(
    parts: list[_Part],
    values: np.ndarray,
    eps: np.ndarray,
    weights: np.ndarray | None,
    intervals: float | Sequence[float],
    found: np.ndarray | None = None,
) -> Summary:
    """Means, standard deviations and quantiles; diagnostics of chains are NaN.

    The quantiles at `_wanted_levels`, ``(level, scalar)``, may be given.
    """
    num_chains, num_draws, num_scalars = values.shape
    levels = interval_levels(intervals)
    wanted = _wanted_levels(intervals)
    with np.errstate(invalid="ignore"):  # draws that are not finite are a problem of their own
        if weights is None:
            found = _quantiles(values, wanted) if found is None else found
            sd = values.std((0, 1), ddof=int(num_chains * num_draws > 1))
            mean = values.mean((0, 1))
        else:
            mean = weights @ values[0]
            sd = np.sqrt(weights @ (values[0] - mean) ** 2)
            found = _weighted_quantiles(values[0], weights, wanted)
        is_constant = np.isfinite(mean) & (found[-1] - found[0] <= _ROUNDING * eps * np.abs(mean))
    quantiles = dict(zip(wanted, found, strict=True))
    ends = np.cumsum([0, *(len(names) for _, names, *_ in parts)])
    columns: dict[str, Any] = {
        "mean": mean,
        "sd": sd,
        **{name: quantiles[level] for name, level in LEVELS.items()},
        **dict.fromkeys(DIAGNOSTICS, np.full(num_scalars, np.nan)),
    }
    return Summary(
        names=tuple(name for _, names, *_ in parts for name in names),
        **columns,
        problems=(),
        num_chains=num_chains,
        num_draws=num_draws,
        sites=tuple(
            SummarySite(name, int(start), int(stop), is_deterministic, shape)
            for (name, _, is_deterministic, shape), start, stop in zip(
                parts, ends[:-1], ends[1:], strict=True
            )
        ),
        is_constant=is_constant,
        levels=levels,
        quantiles=np.stack([quantiles[level] for level in levels]),
    )


def _wanted_levels(intervals: float | Sequence[float]) -> list[float]:
    """Levels of all quantiles that a summary needs, with 0 and 1 for the extreme draws."""
    return sorted({0.0, *interval_levels(intervals), *LEVELS.values(), 1.0})


def _quantiles(values: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles over chains and draws, ``(level, scalar)``."""
    with np.errstate(invalid="ignore"):
        return np.quantile(values, levels, axis=(0, 1))


def _weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, levels: Sequence[float]
) -> np.ndarray:
    """Weighted quantiles, ``(level, scalar)``.

    Each is the smallest value at which the cumulative weight reaches the level.
    """
    order = np.argsort(values, axis=0)
    total = np.cumsum(weights[order], axis=0)
    places = (total[None] < np.array(levels)[:, None, None]).sum(1)
    places = np.minimum(places, len(values) - 1)
    return np.take_along_axis(np.take_along_axis(values, order, 0), places, 0)
