"""Comparison of models by their evidence: Bayes factors and probabilities of models."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from inference.results.evidence import Evidence
from inference.results.noted_table import Table

_CLEAR = 2.0  # standard errors of a difference that means something


@dataclasses.dataclass(frozen=True, repr=False)
class EvidenceComparison(Table):
    """Models in the order of their evidence, the highest first. It prints as a table.

    Attributes:
        names: Names of the models.
        log_evidence: Log evidence of each model, ``(model,)``.
        se: Standard error of each, ``(model,)``.
        log_bayes_factor: Log evidence minus the highest one, ``(model,)``: the log Bayes factor of
            each model against the best.
        log_bayes_factor_se: Standard error of the difference, ``(model,)``.
        probability: Posterior probability of each model, if all are equally probable a priori.
        problems: What is doubtful, in words.
    """

    names: tuple[str, ...]
    log_evidence: np.ndarray
    se: np.ndarray
    log_bayes_factor: np.ndarray
    log_bayes_factor_se: np.ndarray
    probability: np.ndarray
    problems: tuple[str, ...]

    def _rows(self) -> list[list[str]]:
        head = ["", "log evidence", "SE", "log Bayes factor", "SE of factor", "probability"]
        columns = self.log_evidence, self.se, self.log_bayes_factor, self.log_bayes_factor_se
        rows = [
            [name, f"{a:.2f}", f"{b:.2g}", f"{c:.2f}", f"{d:.2g}", f"{p:.2g}"]
            for name, a, b, c, d, p in zip(self.names, *columns, self.probability, strict=True)
        ]
        return [head, *rows]

    def _notes(self) -> list[str]:
        return [f"! {problem}" for problem in self.problems] or ["No problem found."]


def compare_evidence(estimates: Mapping[str, Evidence]) -> EvidenceComparison:
    """Models compared by estimates of their evidence, by name; words where data differ."""
    order = sorted(estimates, key=lambda name: -estimates[name].log_evidence)
    found = [estimates[name] for name in order]
    values = np.array([x.log_evidence for x in found])
    errors = np.array([x.standard_error for x in found])
    differences = values - values[0]
    spread = np.where(np.arange(len(found)) > 0, np.hypot(errors, errors[0]), 0.0)
    weights = np.exp(differences)
    problems = [
        f"{name}: {problem}"
        for name, estimate in zip(order, found, strict=True)
        for problem in estimate.problems
    ]
    for name, estimate in zip(order[1:], found[1:], strict=True):
        problems += _compare_data(order[0], found[0], name, estimate)
    for name, difference, error in zip(order[1:], -differences[1:], spread[1:], strict=True):
        if difference < _CLEAR * error:
            problems.append(
                f"the log Bayes factor of {order[0]} and {name}, {difference:.2g}, is small beside "
                f"its Monte Carlo error, {error:.2g}: which one has the higher evidence is open. "
                "Draw more."
            )
    return EvidenceComparison(
        names=tuple(order),
        log_evidence=values,
        se=errors,
        log_bayes_factor=differences,
        log_bayes_factor_se=spread,
        probability=weights / weights.sum(),
        problems=tuple(problems),
    )


def _compare_data(one: str, a: Evidence, other: str, b: Evidence) -> Iterator[str]:
    """Words on two models that are not conditioned on the same numbers."""
    if a.digest is None or b.digest is None or a.digest == b.digest:
        return
    counts = "other numbers"
    if a.num_observed != b.num_observed:
        counts = f"{a.num_observed} and {b.num_observed} numbers"
    yield (
        f"{one} and {other} are conditioned on {counts}: densities of different data cannot be "
        "compared. Give both models all data in the same units (the density of a transformed "
        "observation needs its Jacobian), and parameters that are known as arguments: conditioned "
        "on, they count as data."
    )
