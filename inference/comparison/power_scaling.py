r"""Sensitivity of a posterior to power scaling of the prior and the likelihood.

References:
    Kallioinen, Paananen, Bürkner and Vehtari (2023), Detecting and diagnosing prior and likelihood
    sensitivity with power-scaling, Statistics and Computing 34.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inference.common.leaf_names import element_names
from inference.results.noted_table import Table
from inference.results.psis import largest_pareto_k, psis_on_host
from inference.results.psis_loo import log_sum_exp
from inference.results.rank_scores import argsort

LARGE = 0.05  # sensitivity; from here on a component matters
_STEP = 0.01  # relative change of the power
_MAX_ROWS = 40  # rows of a printed table
_BLOCK = 1 << 20  # numbers of the draws of the scalars that are worked on at once


@dataclasses.dataclass(frozen=True, repr=False)
class PowerScaling(Table):
    """Sensitivities of the posterior of each scalar to prior and likelihood. Prints as a table.

    A sensitivity is the cumulative Jensen-Shannon distance that the posterior moves, for each
    doubling of the power of a component. Above 0.05 the component matters.

    Attributes:
        names: Names of the scalars, such as ``"theta[0]"``.
        prior: Sensitivity to the priors of all sites in `sites` together, ``(scalar,)``.
        likelihood: Sensitivity to the likelihood, ``(scalar,)``.
        by_site: Sensitivity to the prior of each site by its name, ``(scalar,)`` each.
        sites: Sites whose priors are scaled.
        diagnosis: ``"prior-data conflict"``, ``"strong prior or weak likelihood"`` or ``""``,
            for each scalar.
        problems: What is doubtful, in words.
    """

    names: tuple[str, ...]
    prior: np.ndarray
    likelihood: np.ndarray
    by_site: Mapping[str, np.ndarray]
    sites: tuple[str, ...]
    diagnosis: tuple[str, ...]
    problems: tuple[str, ...]

    def _rows(self) -> list[list[str]]:
        has_sites = len(self.sites) > 1
        head = ["", "prior", "likelihood", *(["most by"] * has_sites), "diagnosis"]
        rows = [head]
        for i in self._shown():
            cells = [f"{self.prior[i]:.3f}", f"{self.likelihood[i]:.3f}"]
            if has_sites:
                cells.append(max(self.sites, key=lambda name, i=i: self.by_site[name][i]))
            rows.append([self.names[i], *cells, self.diagnosis[i] or "-"])
        return rows

    def _shown(self) -> list[int]:
        """Scalars to print: all, or only the scalars most sensitive to the prior."""
        order = range(len(self.names))
        if len(self.names) > _MAX_ROWS:
            order = sorted(np.argsort(-self.prior, kind="stable")[:_MAX_ROWS].tolist())
        return list(order)

    def _notes(self) -> list[str]:
        notes = [f"Power scaling of the priors of {', '.join(self.sites)}, and of the likelihood."]
        if len(self.names) > _MAX_ROWS:
            notes.append(
                f"{_MAX_ROWS} of {len(self.names)} scalars, the most sensitive, are shown."
            )
        return notes + ([f"! {problem}" for problem in self.problems] or ["No problem found."])


def power_scaling(
    draws: Mapping[str, np.ndarray],
    log_priors: Mapping[str, np.ndarray],
    log_likelihood: np.ndarray,
    log_weights: np.ndarray | None = None,
    *,
    is_smoothed: bool = False,
    labels: Mapping[str, Sequence[Any]] | None = None,
) -> PowerScaling:
    """Sensitivities of scalars.

    Args:
        draws: Draws by name of site, ``(chain, draw, *shape)``.
        log_priors: Log prior of each site that is scaled, ``(chain, draw)``.
        log_likelihood: Log likelihood of all data, ``(chain, draw)``.
        log_weights: Log weights of the draws, or `None`.
        is_smoothed: Whether the weights are smoothed already.
        labels: For each axis of a site None, or the name of its dimension with the names of its
            entries.
    """
    names = []
    columns = []
    for name, x in draws.items():
        num_draws = x.shape[0] * x.shape[1]
        columns.append(np.reshape(x, (num_draws, -1)))
        names += element_names(name, x.shape[2:], (labels or {}).get(name, ()))
    flat = np.concatenate(columns, 1)
    base = np.zeros(len(flat)) if log_weights is None else np.ravel(log_weights)

    components = list(log_priors.values())
    if len(components) != 1:  # one prior alone is all priors together
        components.append(sum(components[1:], components[0]))
    components = [np.ravel(x).astype(np.float64) for x in (*components, log_likelihood)]
    found, worst_k = sensitivities(flat, components, base, is_smoothed)
    *_, prior, likelihood = found
    by_site = dict(zip(log_priors, found, strict=False))
    diagnosis = tuple(_diagnose(*pair) for pair in zip(prior, likelihood, strict=True))
    scaling = PowerScaling(
        tuple(names),
        prior,
        likelihood,
        by_site,
        tuple(log_priors),
        diagnosis,
        (),
    )
    return dataclasses.replace(scaling, problems=tuple(_problems(scaling, worst_k, len(flat))))


def sensitivities(
    draws: np.ndarray,
    log_components: Sequence[np.ndarray],
    log_weights: np.ndarray,
    is_smoothed: bool,
) -> tuple[np.ndarray, float]:
    r"""Sensitivities of columns of draws to the powers of components, and the worst Pareto k.

    Draws are weighted by :math:`p^{\alpha - 1}`, for powers :math:`\alpha = 1.01` and its inverse:

    .. math:: D = \frac{\mathrm{CJS}(1.01) + \mathrm{CJS}(1 / 1.01)}{2\log_2 1.01}

    Args:
        draws: ``(draw, scalar)``.
        log_components: Log density of each component at each draw, ``(draw,)``.
        log_weights: Log weights of the draws before, ``(draw,)``.
        is_smoothed: Whether `log_weights` are already smoothed. If not, weights are smoothed both
            before and after the change of power, so that smoothing does not count as a change.

    Returns:
        ``(component, scalar)``, and the largest Pareto k of all weights.

    References:
        Kallioinen et al. (2023), section 2.4.
    """

    def weights(change: np.ndarray | float) -> tuple[np.ndarray, float]:
        smoothed, k = psis_on_host(log_weights + change)
        kept = log_weights + change if is_smoothed else smoothed
        return np.exp(kept - log_sum_exp(kept)), float(k)

    power = 1 + _STEP
    before, _ = weights(0.0)
    changes = [(alpha - 1) * x for x in log_components for alpha in (power, 1 / power)]
    after, ks = zip(*map(weights, changes), strict=True)
    distances = _distances(draws, before, after).reshape(len(log_components), 2, -1)
    return distances.sum(1) / (2 * np.log2(power)), max(ks)


def _distances(draws: np.ndarray, before: np.ndarray, after: Sequence[np.ndarray]) -> np.ndarray:
    """Cumulative Jensen-Shannon distances of columns from the first to each other set of weights.

    Columns are sorted once for all weights.

    Returns:
        ``(weights, scalar)``.
    """
    found = np.empty((len(after), draws.shape[1]))
    size = max(1, _BLOCK // max(1, len(draws)))
    for start in range(0, draws.shape[1], size):
        part = slice(start, start + size)
        rows = np.asarray(draws[:, part].T, np.float64, order="C")
        order = np.stack([argsort(row) for row in rows])
        bins = np.diff(np.take_along_axis(rows, order, 1), axis=1)
        p = np.cumsum(before[order], 1)[:, :-1]
        for i, weights in enumerate(after):
            q = np.cumsum(weights[order], 1)[:, :-1]
            found[i, part] = np.maximum(cjs_distance(bins, p, q), cjs_distance(bins, 1 - p, 1 - q))
    return found


def cjs_distance(bins: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    r"""Cumulative Jensen-Shannon distance of distribution functions, a number in [0, 1].

    With :math:`m = (p + q) / 2` and integrals over :math:`x`, it is the root of

    .. math:: \frac{\int p\log_2\frac{p}{m} + q\log_2\frac{q}{m}}{\int p + q}

    The linear terms of the two directions of the divergence cancel.

    Args:
        bins: Widths of the steps along the last axis.
        p: Distribution function in each step.
        q: Another one.

    References:
        Nguyen and Vreeken (2015), Non-parametric Jensen-Shannon divergence; Kallioinen et al.
        (2023), equation 8.
    """
    p = np.clip(p, 0, 1)
    q = np.clip(q, 0, 1)
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / middle), 0)
        terms += np.where(q > 0, q * np.log(q / middle), 0)
        ratio = np.vecdot(bins, terms) / (2 * np.log(2) * np.vecdot(bins, middle))
    return np.sqrt(np.clip(np.nan_to_num(ratio), 0, 1))


def _diagnose(prior: float, likelihood: float) -> str:
    if not prior >= LARGE:
        return ""
    return "prior-data conflict" if likelihood >= LARGE else "strong prior or weak likelihood"


def _problems(found: PowerScaling, worst_k: float, num_draws: int) -> list[str]:
    problems = []
    for what, advice in (
        (
            "prior-data conflict",
            "prior and likelihood pull in different directions, and the posterior is between "
            "them: check the prior, the data and their units",
        ),
        (
            "strong prior or weak likelihood",
            "the prior decides, and the data say little: fine where the prior is meant to inform",
        ),
    ):
        names = [n for n, d in zip(found.names, found.diagnosis, strict=True) if d == what]
        if names:
            more = f" and {len(names) - 5} more" * (len(names) > 5)
            problems.append(f"{', '.join(names[:5])}{more}: {what}; {advice}.")
    if worst_k > largest_pareto_k(num_draws):
        problems.append(
            f"Pareto k of the weights is {worst_k:.2f}: the sensitivities are not reliable; take "
            "more draws."
        )
    return problems
