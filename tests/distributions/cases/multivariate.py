"""Families of vectors and matrices."""

from typing import Any

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    Case,
)


class Each:
    """The oracle of a multivariate family, evaluated event by event."""

    def __init__(self, frozen: Any, mean: Any, var: Any, event_ndims: int = 1):
        self.frozen, self._mean, self._var, self.event_ndims = frozen, mean, var, event_ndims

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        flat = values.reshape(-1, *values.shape[values.ndim - self.event_ndims :])
        return np.array([self.frozen.logpdf(v) for v in flat]).reshape(values.shape[:-1])

    def mean(self) -> Any:
        return self._mean

    def var(self) -> Any:
        return self._var


def dirichlet(concentration: Any) -> Each:
    frozen = st.dirichlet(concentration)
    return Each(frozen, frozen.mean(), frozen.var())


def gaussian(loc: Any, covariance: Any) -> Each:
    return Each(st.multivariate_normal(loc, covariance), loc, np.diagonal(covariance))


MATRIX = np.array([[2.0, 0.5, 0.25], [0.5, 1.0, -0.25], [0.25, -0.25, 1.5]])
VECTORS = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [0.25, 3.0, -2.0], [4, 4, 4], [-1, 0, 1]])
SIMPLEX = np.array(
    [
        [0.25, 0.25, 0.5],
        [0.5, 0.375, 0.125],
        [0.0625, 0.0625, 0.875],
        [0.25, 0.5, 0.25],
        [0.75, 0.125, 0.125],
    ]
)


SIGNATURES = {
    "Dirichlet": "concentration",
    "MultivariateNormal": "loc, *, covariance=None, precision=None, scale_tril=None",
}

CASES = [
    Case(
        "Dirichlet",
        dist.Dirichlet,
        {"concentration": np.array([0.5, 2.0, 3.5])},
        dirichlet,
        SIMPLEX,
        ([0.5, 0.5, 0.5], [1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [np.nan, 0.5, 0.5]),
    ),
    Case(
        "MultivariateNormal, covariance",
        dist.MultivariateNormal,
        {"loc": np.array([0.0, 0.5, 1.0]), "covariance": MATRIX},
        gaussian,
        VECTORS,
        (),
    ),
    Case(
        "MultivariateNormal, precision",
        dist.MultivariateNormal,
        {"loc": np.zeros(3), "precision": MATRIX},
        lambda loc, precision: gaussian(loc, np.linalg.inv(precision)),
        VECTORS,
        (),
    ),
    Case(
        "MultivariateNormal, scale_tril",
        dist.MultivariateNormal,
        {"loc": np.zeros(3), "scale_tril": np.tril(MATRIX)},
        lambda loc, scale_tril: gaussian(loc, scale_tril @ scale_tril.T),
        VECTORS,
        (),
    ),
]
