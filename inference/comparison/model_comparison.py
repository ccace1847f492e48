"""Comparison of models by the predictive density of units that were left out."""

import dataclasses
import reprlib
from collections.abc import Mapping
from typing import Any, overload

import numpy as np

from inference.comparison.evidence_comparison import EvidenceComparison, compare_evidence
from inference.results.elpd import SMALL, ElpdEstimate, standard_error
from inference.results.evidence import Evidence
from inference.results.mcmc_result import MCMCResult
from inference.results.noted_table import Table
from inference.results.particle_filter_result import ParticleFilterResult
from inference.results.smc_result import SMCResult

_CLEAR = 2.0  # standard errors of a difference that means something
_LARGE = 4.0  # nats of a difference of ELPD


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(Table):
    """Models in the order of their ELPD, the best first. It prints as a table.

    Attributes:
        names: Names of the models.
        elpd: ELPD of each model, ``(model,)``.
        se: Standard error of each, ``(model,)``.
        difference: ELPD minus the ELPD of the best model, ``(model,)``.
        difference_se: Standard error of the difference, from the differences of each unit.
        p: Effective number of parameters, ``(model,)``.
        weight: Stacking weights: the mixture of the predictive distributions that predicts best.
        problems: What is doubtful, in words.
    """

    names: tuple[str, ...]
    elpd: np.ndarray
    se: np.ndarray
    difference: np.ndarray
    difference_se: np.ndarray
    p: np.ndarray
    weight: np.ndarray
    problems: tuple[str, ...]

    def _rows(self) -> list[list[str]]:
        head = ["", "elpd", "SE", "difference", "SE of difference", "p", "weight"]
        columns = self.elpd, self.se, self.difference, self.difference_se, self.p
        rows = zip(*columns, self.weight, strict=True)
        texts = [[*(f"{x:.1f}" for x in row[:-1]), f"{row[-1]:.2f}"] for row in rows]
        return [head, *([name, *text] for name, text in zip(self.names, texts, strict=True))]

    def _notes(self) -> list[str]:
        return [f"! {problem}" for problem in self.problems] or ["No problem found."]


@overload
def compare(estimates: Mapping[str, Evidence]) -> EvidenceComparison: ...


@overload
def compare(estimates: Mapping[str, ElpdEstimate]) -> Comparison: ...


def compare(estimates: Mapping[str, Any]) -> Comparison | EvidenceComparison:
    r"""Compares models by their ELPD, observation by observation, or by their evidence.

    Of results of :func:`evidence` it gives log Bayes factors and the probabilities of the models;
    what follows is for the ELPD.

    The standard error of a difference is :math:`\sqrt{n \mathrm{var}(d_i)}` over the differences
    :math:`d_i` of the units, with :math:`n - 1` in the variance. Stacking weights :math:`w` on the
    simplex maximize :math:`\sum_i\log\sum_k w_k p_k(y_i \mid y_{-i})`.

    Args:
        estimates: Results of :func:`loo` or :func:`cross_validate` by name of model, all for the
            same observations; or results of :func:`evidence`, all for the same data, which is
            checked.

    Raises:
        TypeError: if `estimates` is not a dict of such results.
        ValueError: if there are fewer than two estimates, or if they are of different observations.

    Example:
        >>> from inference.results.elpd import make_estimate
        >>> names = tuple(f"y[{i}]" for i in range(200))
        >>> a, b = np.full(200, -1.0), np.full(200, -1.2)
        >>> found = compare({m: make_estimate(x, names, "") for m, x in {"a": a, "b": b}.items()})
        >>> found.names, found.difference.round(1).tolist(), found.weight.round(2).tolist()
        (('a', 'b'), [0.0, -40.0], [1.0, 0.0])

    References:
        Vehtari, Gelman and Gabry (2017), Statistics and Computing 27, section 5; Yao, Vehtari,
        Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions,
        Bayesian Analysis 13; Sivula, Magnusson, Matamoros and Vehtari (2020), Uncertainty in
        Bayesian leave-one-out cross-validation based model comparison.
    """
    _check(estimates)
    if all(isinstance(x, Evidence) for x in estimates.values()):
        return compare_evidence(estimates)
    order = sorted(estimates, key=lambda name: -estimates[name].elpd)
    found = [estimates[name] for name in order]
    terms = np.stack([np.asarray(x.pointwise, np.float64) for x in found])
    differences = terms - terms[0]
    num_units = terms.shape[1]
    comparison = Comparison(
        names=tuple(order),
        elpd=np.array([x.elpd for x in found]),
        se=np.array([x.se for x in found]),
        difference=differences.sum(1),
        difference_se=standard_error(differences),
        p=np.array([x.p for x in found]),
        weight=stacking_weights(terms),
        problems=(),
    )
    problems = _problems(comparison, found, num_units)
    return dataclasses.replace(comparison, problems=problems)


def stacking_weights(terms: np.ndarray) -> np.ndarray:
    """Weights on the simplex of the best mixture of predictive densities.

    Args:
        terms: Log predictive densities, ``(model, unit)``.

    References:
        Yao et al. (2018), equation 3.
    """
    from scipy.optimize import minimize

    with np.errstate(invalid="ignore"):
        density = np.exp(terms - terms.max(0))
    num_models = len(density)
    if num_models == 1 or not np.isfinite(density).all():
        return np.full(num_models, 1.0 if num_models == 1 else np.nan)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        mixed = np.maximum(weights @ density, 1e-300)
        return -float(np.mean(np.log(mixed))), -np.mean(density / mixed, axis=1)

    start = np.full(num_models, 1 / num_models)
    sums_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones_like(w)}
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * num_models,
        constraints=[sums_to_one],
        options={"ftol": 1e-12, "maxiter": 1000},
    )
    weights = np.clip(found.x, 0, None)
    return weights / weights.sum()


def _check(estimates: Any) -> None:
    kinds = ElpdEstimate, Evidence
    if not isinstance(estimates, Mapping) or not any(
        all(isinstance(x, kind) for x in estimates.values()) for kind in kinds
    ):
        results = [*estimates.values()] if isinstance(estimates, Mapping) else [None]
        advice = ""
        if all(isinstance(x, MCMCResult | SMCResult | ParticleFilterResult) for x in results):
            advice = ". These are fits: give {name: inference.evidence(result, model, *args), ...}"
            is_filter = any(isinstance(x, ParticleFilterResult) for x in results)
            advice += ", or the same by inference.loo" * (not is_filter)
        raise TypeError(
            "estimates must be a dict of results of loo or cross_validate by name of model, as "
            'compare({"pooled": a, "by county": b}), or a dict of results of evidence, got '
            f"{reprlib.repr(estimates)}{advice}"
        )
    if len(estimates) < 2:
        raise ValueError(f"estimates must hold two models at least, got {len(estimates)}")
    if all(isinstance(x, Evidence) for x in estimates.values()):
        return
    sizes = {name: len(x.names) for name, x in estimates.items()}
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise ValueError(
            f"the models must predict the same observations, but their numbers differ: {found}"
        )
    first = {name: next((n for n in x.names if "[group" in n), "") for name, x in estimates.items()}
    if len(set(map(bool, first.values()))) > 1:
        grouped = next(name for name in first if first[name])
        single = next(name for name in first if not first[name])
        raise ValueError(
            "the models must predict the same observations, but the terms of "
            f"{grouped} are of groups of entries, as {first[grouped]}, and those of {single} are "
            f'not, as {estimates[single].names[0]}. Leave out the same in both, as by unit="row".'
        )


def _problems(comparison: Comparison, found: list[ElpdEstimate], num_units: int) -> tuple[str, ...]:
    problems = []
    for name, estimate in zip(comparison.names, found, strict=True):
        problems += [f"{name}: {problem}" for problem in estimate.problems]
    for name, other in zip(comparison.names[1:], found[1:], strict=True):
        problems += _compare_data(comparison.names[0], found[0], name, other)
    best, *others = comparison.names
    for i, name in enumerate(others, 1):
        difference = -comparison.difference[i]
        error = comparison.difference_se[i]
        if difference < _LARGE:
            problems.append(
                f"{best} and {name} differ by {difference:.1f} only, less than {_LARGE:g}: they "
                "predict equally well, and the standard error is too small then."
            )
        elif difference < _CLEAR * error:
            problems.append(
                f"the difference of {best} and {name}, {difference:.1f}, is small beside its "
                f"standard error, {error:.1f}: which one predicts better is open."
            )
    if num_units < SMALL:
        problems.append(
            f"{num_units} observations are less than {SMALL}: standard errors of differences may "
            "be far too small."
        )
    return tuple(problems)


def _compare_data(one: str, a: ElpdEstimate, other: str, b: ElpdEstimate) -> list[str]:
    """Words on estimates of two models that are not for the same observations."""
    if a.digests is not None and b.digests is not None:
        places = np.flatnonzero(np.asarray(a.digests) != np.asarray(b.digests))
        if not places.size:
            return []
        if b.names[places[0]].startswith("fold "):
            return [
                f"the folds of {one} and {other} hold other data: {places.size} of {len(a.names)} "
                f"differ, {b.names[places[0]]} of {other} first. Give both models the same data "
                "and the same folds, as an array of one number for each observation."
            ]
        return [
            f"{one} and {other} were fitted to other data: {places.size} of {len(a.names)} "
            f"observations differ, {b.names[places[0]]} of {other} first. Their log predictive "
            "densities cannot be compared: give both models the same data, in the same order and "
            "units (the density of a transformed observation needs its Jacobian)."
        ]
    if a.names != b.names:
        return [
            f"the observations have other names in {one} and {other}: make sure that they are the "
            "same, in the same order."
        ]
    return []
