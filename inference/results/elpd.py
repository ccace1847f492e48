"""Estimates of the expected log predictive density (ELPD), with their problems in words."""

import dataclasses
from typing import Any

import numpy as np

from inference.results.noted_table import Table

SMALL = 100  # observations; below, standard errors are uncertain


@dataclasses.dataclass(frozen=True, repr=False)
class ElpdEstimate(Table):
    r"""Expected log predictive density of a model by cross-validation. It prints as a table.

    Attributes:
        elpd: Sum of the log predictive densities of all units that were left out.
        se: Standard error of `elpd`, from the spread of its terms: :math:`\sqrt{n \mathrm{var}}`,
            with :math:`n - 1` in the variance; NaN for one term.
        p: Effective number of parameters: how much better the units are predicted if they are not
            left out. NaN where it is not known.
        pareto_k: Shape of the tail of the weights of each unit, ``(unit,)``; NaN where the term
            is exact, by a fit without the unit. `None` if all terms are exact.
        pointwise: Terms of `elpd`, ``(unit,)``.
        names: Name of each unit, such as ``"y[3]"``.
        is_exact: Whether each term is by a fit without the unit, ``(unit,)``.
        problems: What is doubtful, in words.
        about: The method and the draws, in words.
        largest_k: Largest Pareto k of a reliable term.
        digests: Checksum of the data of each unit, ``(unit,)``, by which :func:`compare` knows
            other data; `None` if unknown.
    """

    elpd: float
    se: float
    p: float
    pareto_k: Any
    pointwise: Any
    names: tuple[str, ...]
    is_exact: Any
    problems: tuple[str, ...]
    about: str
    largest_k: float = 0.7
    digests: Any = None

    @property
    def is_bad(self) -> np.ndarray:
        """Whether the term of each unit is unreliable, ``(unit,)``."""
        if self.pareto_k is None:
            return np.zeros(len(self.names), bool)
        return ~np.asarray(self.is_exact) & ~(np.asarray(self.pareto_k) <= self.largest_k)

    def _rows(self) -> list[list[str]]:
        se = f"{self.se:.1f}" if np.isfinite(self.se) else "-"
        rows = [["", "estimate", "SE"], ["elpd", f"{self.elpd:.1f}", se]]
        return rows + [["p", f"{self.p:.1f}", ""]] * bool(np.isfinite(self.p))

    def _notes(self) -> list[str]:
        notes = [self.about]
        if self.pareto_k is not None and not self.is_bad.any():
            verdict = "All" if self.problems else "No problem found: all"
            notes.append(f"{verdict} Pareto k are at most {self.largest_k:.2g}.")
        return notes + [f"! {problem}" for problem in self.problems]


def make_estimate(
    terms: np.ndarray,
    names: tuple[str, ...],
    about: str,
    *,
    p: float = np.nan,
    pareto_k: np.ndarray | None = None,
    is_exact: np.ndarray | None = None,
    largest_k: float = 0.7,
    problems: tuple[str, ...] = (),
    digests: np.ndarray | None = None,
) -> ElpdEstimate:
    """Estimate from its terms, with the words that follow from them."""
    is_exact = np.full(len(terms), pareto_k is None) if is_exact is None else is_exact
    estimate = ElpdEstimate(
        elpd=float(np.sum(terms)),
        se=float(standard_error(terms)),
        p=float(p),
        pareto_k=pareto_k,
        pointwise=terms,
        names=names,
        is_exact=is_exact,
        problems=(),
        about=about,
        largest_k=largest_k,
        digests=digests,
    )
    return dataclasses.replace(estimate, problems=(*_problems(estimate), *problems))


def standard_error(terms: np.ndarray) -> np.ndarray:
    """Standard error of sums over the last axis; NaN for one term.

    The variance divides by n - 1, as in the R package loo and in ArviZ 1.
    """
    num_terms = terms.shape[-1]
    with np.errstate(invalid="ignore"):
        spread = np.sum((terms - terms.mean(-1, keepdims=True)) ** 2, -1)
        return np.sqrt(num_terms * np.divide(spread, num_terms - 1))


def _problems(estimate: ElpdEstimate) -> tuple[str, ...]:
    found = []
    bad = np.flatnonzero(estimate.is_bad)
    if bad.size:
        k = np.asarray(estimate.pareto_k)[bad]
        refit = np.floor(100 * estimate.largest_k) / 100  # not above the bound
        worst = int(np.argmax(np.where(np.isnan(k), np.inf, k)))
        if np.isnan(k).all():
            found.append("too few draws for Pareto k: ask for 1000 at least.")
        else:
            count = f"{bad.size} of {len(estimate.names)} Pareto k"
            found.append(
                f"{count} above {estimate.largest_k:.2g}, {k[worst]:.2f} for "
                f"{estimate.names[bad[worst]]}: without such an observation the posterior is far "
                "from that of all data, and its term is unreliable, mostly too high. Ask for exact "
                f"terms, loo(..., refit={refit:g}), or look at these observations: the model may "
                "be wrong for them."
            )
    if not np.isfinite(estimate.elpd):
        where = estimate.names[int(np.argmin(np.isfinite(estimate.pointwise)))]
        found.append(
            f"the log predictive density of {where} is {estimate.elpd}: it is outside of the "
            "support, or its log likelihood is NaN."
        )
    return tuple(found)
