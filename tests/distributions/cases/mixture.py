"""Mixtures."""

from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    BATCH,
    INFINITE,
    PAIRS,
    SCALAR,
    Case,
    log_probs,
)


class Mixed:
    """A mixture of scipy's distributions along the last axis."""

    def __init__(self, weights: np.ndarray, components: Any):
        self.weights, self.components = weights, components

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        each = log_probs(self.components, values[..., None])
        return sp.logsumexp(each + np.log(self.weights), axis=-1)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        return (self.weights * self.components.cdf(np.asarray(values)[..., None])).sum(-1)

    def mean(self) -> Any:
        return (self.weights * self.components.mean()).sum(-1)

    def var(self) -> Any:
        second = self.components.var() + self.components.mean() ** 2
        return (self.weights * second).sum(-1) - self.mean() ** 2


def normal_mixture(logits: Any, loc: Any, scale: Any) -> dist.Distribution:
    return dist.MixtureSameFamily(dist.Categorical(logits=logits), dist.Normal(loc, scale))


def gamma_mixture(probs: Any, a: Any) -> dist.Distribution:
    return dist.MixtureSameFamily(dist.Categorical(probs=probs), dist.Gamma(a, 1.0))


CASES = [
    Case(
        name="MixtureSameFamily",
        make=normal_mixture,
        signature="mixture_distribution, components_distribution",
        parameters={"logits": np.array([0.5, -0.5]), "loc": np.array([-1.0, 2.0]), "scale": BATCH},
        oracle=lambda logits, loc, scale: Mixed(sp.softmax(logits), st.norm(loc, scale)),
        inside=SCALAR - 1,
        outside=(),
        excluded={"mode": "no closed form", "entropy": "no closed form"},
    ),
    Case(
        name="MixtureSameFamily, gammas",
        make=gamma_mixture,
        parameters={"probs": np.array([0.25, 0.75]), "a": np.array([[0.5, 4.0], [1.0, 9.0]])},
        oracle=lambda probs, a: Mixed(probs, st.gamma(a)),
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
        excluded={"mode": "no closed form", "entropy": "no closed form"},
    ),
]
