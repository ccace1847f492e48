"""Families of counts and categories."""

from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    COUNTS,
    INFINITE,
    Case,
)


class Weighted:
    """A mixture of scipy's distributions along the last axis, or the categories themselves."""

    def __init__(self, weights: np.ndarray, components: Any = None):
        self.weights, self.components = weights, components

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        index = values.astype(int)
        table = np.broadcast_to(self.weights, (*index.shape, self.weights.shape[-1]))
        chosen = np.take_along_axis(table, index[..., None], -1)[..., 0]
        with np.errstate(divide="ignore"):
            return np.log(chosen)

    def mean(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1])).sum(-1)

    def var(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1]) ** 2).sum(-1) - self.mean() ** 2


SIGNATURES = {
    "Bernoulli": "logits=None, probs=None",
    "Binomial": "total_count, logits=None, probs=None",
    "Poisson": "rate=None, log_rate=None",
    "Categorical": "logits=None, probs=None",
}

CASES = [
    Case(
        "Bernoulli, logits",
        dist.Bernoulli,
        {"logits": np.array([0.5, -3.0])},
        lambda logits: st.bernoulli(sp.expit(logits)),
        np.array([[0, 1]] * 3 + [[1, 0]] * 2),
        (-1, 2, 0.5, *INFINITE),
    ),
    Case(
        "Bernoulli, probs",
        dist.Bernoulli,
        {"probs": np.array([0.25, 0.0])},
        lambda probs: st.bernoulli(probs),
        np.array([[0, 0]] * 4 + [[1, 0]]),
        (-1, 2, 0.5, *INFINITE),
    ),
    Case(
        "Binomial, logits",
        dist.Binomial,
        {"total_count": np.array([7, 20]), "logits": 0.5},
        lambda total_count, logits: st.binom(total_count, sp.expit(logits)),
        np.stack([COUNTS, 3 * COUNTS], 1),
        (-1, 21, 1.5, *INFINITE),
    ),
    Case(
        "Binomial, probs",
        dist.Binomial,
        {"total_count": 200, "probs": np.array([0.375, 0.0])},
        lambda total_count, probs: st.binom(total_count, probs),
        np.stack([70 + COUNTS, 0 * COUNTS], 1),
        (-1, 201, 1.5, *INFINITE),
    ),
    Case(
        "Poisson, rate",
        dist.Poisson,
        {"rate": np.array([2.5, 0.0])},
        lambda rate: st.poisson(rate),
        np.stack([COUNTS, 0 * COUNTS], 1),
        (-1, 1.5, *INFINITE),
    ),
    Case(
        "Poisson, log rate",
        dist.Poisson,
        {"log_rate": np.array([0.5, 3.5])},
        lambda log_rate: st.poisson(np.exp(log_rate)),
        np.stack([COUNTS, 30 + COUNTS], 1),
        (-1, 1.5, *INFINITE),
    ),
    Case(
        "Categorical, logits",
        dist.Categorical,
        {"logits": np.array([[0.5, -1.0, 2.0], [1.0, -np.inf, 0.0]])},
        lambda logits: Weighted(sp.softmax(logits, -1)),
        np.array([[0, 0], [1, 2], [2, 2], [0, 2], [1, 0]]),
        (-1, 3, 0.5, *INFINITE),
    ),
    Case(
        "Categorical, probs",
        dist.Categorical,
        {"probs": np.array([0.25, 0.5, 0.25, 0.0])},
        lambda probs: Weighted(probs),
        np.array([0, 1, 2, 1, 0]),
        (-1, 4, 0.5, *INFINITE),
    ),
]
