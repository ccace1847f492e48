"""Families of vectors on the whole space and on the simplex."""

import functools
from typing import Any

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    Case,
)
from tests.distributions.cases.vector_oracles import Batch, Density, Each, Gaussian, log_det


def dirichlet(concentration: Any) -> Each:
    frozen, a = st.dirichlet(concentration), concentration

    def laws(draws: np.ndarray) -> Any:
        return ((draws[:, i], st.beta(a[i], a.sum() - a[i])) for i in range(len(a)))

    return Each(frozen, frozen.mean(), frozen.var(), laws=laws)


def student_t(df: Any, loc: Any, scale: Any) -> Each:
    frozen = st.multivariate_t(loc, scale, df)
    scale = np.asarray(scale)

    def laws(draws: np.ndarray) -> Any:
        for way in (*np.eye(3), np.array([1.0, -2.0, 0.5])):
            yield draws @ way, st.t(df, loc @ way, np.sqrt(way @ scale @ way))

    return Each(frozen, loc, np.diagonal(scale) * df / (df - 2), laws=laws)


class Sticks:
    """By the change of variables from the independent fractions that are broken off."""

    def __init__(self, concentration: Any, num_breaks: int):
        self.law, self.num_breaks = st.beta(1, concentration), num_breaks

    def weights(self, fractions: np.ndarray) -> np.ndarray:
        left = np.cumprod(np.append(1, 1 - fractions))
        return np.append(fractions, 1) * left

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        return Each(Density(self._one)).logpdf(values)

    def _one(self, value: np.ndarray) -> float:
        fractions = value[:-1] / np.cumsum(value[::-1])[::-1][:-1]
        jacobian = log_det(lambda f: self.weights(f)[:-1], fractions)
        return self.law.logpdf(fractions).sum() - jacobian

    def mean(self) -> Any:
        return self.weights(np.full(self.num_breaks, self.law.mean()))

    def var(self) -> Any:
        second, rest = self.law.moment(2), 1 - 2 * self.law.mean() + self.law.moment(2)
        squares = np.append(np.full(self.num_breaks, second), 1)
        return squares * rest ** np.arange(self.num_breaks + 1) - self.mean() ** 2

    def marginals(self, draws: np.ndarray) -> Any:
        left = np.cumsum(draws[:, ::-1], 1)[:, ::-1]
        return ((draws[:, k] / left[:, k], self.law) for k in range(self.num_breaks))


def gaussian(loc: Any, covariance: Any) -> Gaussian:
    return Gaussian(loc, covariance)


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
OFF_SIMPLEX = ([0.5, 0.5, 0.5], [1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [np.nan, 0.5, 0.5])
FACTOR = np.array([[1.0, 0.5], [-2.0, 0.25], [0.0, 1.5]])

CASES = [
    Case(
        name="Dirichlet",
        make=dist.Dirichlet,
        signature="concentration",
        parameters={"concentration": np.array([0.5, 2.0, 3.5])},
        oracle=dirichlet,
        inside=SIMPLEX,
        outside=OFF_SIMPLEX,
    ),
    Case(
        name="StickBreakingWeights",
        make=functools.partial(dist.StickBreakingWeights, num_breaks=2),
        signature="concentration, num_breaks",
        parameters={"concentration": np.array([0.75, 2.5])},
        oracle=lambda concentration: Batch(*(Sticks(a, 2) for a in concentration)),
        inside=np.stack([SIMPLEX, SIMPLEX[::-1]], 1),
        outside=OFF_SIMPLEX,
    ),
    Case(
        name="MultivariateNormal, covariance",
        make=dist.MultivariateNormal,
        signature="loc, *, covariance=None, precision=None, scale_tril=None, scale_diag=None, "
        "cov_factor=None, cov_diag=None",
        parameters={"loc": np.array([0.0, 0.5, 1.0]), "covariance": MATRIX},
        oracle=gaussian,
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="MultivariateNormal, precision",
        make=dist.MultivariateNormal,
        parameters={"loc": np.zeros(3), "precision": MATRIX},
        oracle=lambda loc, precision: gaussian(loc, np.linalg.inv(precision)),
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="MultivariateNormal, scale_tril",
        make=dist.MultivariateNormal,
        parameters={"loc": np.zeros(3), "scale_tril": np.tril(MATRIX)},
        oracle=lambda loc, scale_tril: gaussian(loc, scale_tril @ scale_tril.T),
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="MultivariateNormal, scale_diag",
        make=dist.MultivariateNormal,
        parameters={"loc": 0.5, "scale_diag": np.array([[1.0, 0.5, 2.0], [3.0, 0.25, 1.0]])},
        oracle=lambda loc, scale_diag: Batch(*(gaussian(loc, np.diag(s**2)) for s in scale_diag)),
        inside=np.stack([VECTORS, 0.25 * VECTORS], 1),
        outside=(),
    ),
    Case(
        name="MultivariateNormal, low rank",
        make=dist.MultivariateNormal,
        parameters={"loc": np.ones(3), "cov_factor": FACTOR, "cov_diag": np.array([0.5, 2.0, 1.0])},
        oracle=lambda loc, cov_factor, cov_diag: gaussian(
            loc, cov_factor @ cov_factor.T + np.diag(cov_diag)
        ),
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="MultivariateStudentT",
        make=dist.MultivariateStudentT,
        signature="df, loc, *, scale=None, precision=None, scale_tril=None",
        parameters={"df": 4.5, "loc": np.array([0.0, 0.5, 1.0]), "scale": MATRIX},
        oracle=student_t,
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="MultivariateStudentT, scale_tril",
        make=dist.MultivariateStudentT,
        parameters={"df": np.array([3.0, 1e6]), "loc": np.zeros(3), "scale_tril": np.tril(MATRIX)},
        oracle=lambda df, loc, scale_tril: Batch(
            *(student_t(nu, loc, scale_tril @ scale_tril.T) for nu in df)
        ),
        inside=np.stack([VECTORS, VECTORS], 1),
        outside=(),
        # Log-gammas of 1e6 cancel in scipy.
        excluded={"entropy": "the oracle cancels"},
    ),
]

KL = {
    "Dirichlet": (
        dist.Dirichlet(np.array([[0.5, 2.0, 3.5], [1.0, 1.0, 9.0]])),
        dist.Dirichlet(np.ones(3)),
    ),
    "MultivariateNormal": (
        dist.MultivariateNormal(0.0, precision=np.stack([MATRIX, np.eye(3)])),
        dist.MultivariateNormal(np.array([0.0, 0.5, 1.0]), covariance=MATRIX),
    ),
    "MultivariateNormal, other ways": (
        dist.MultivariateNormal(0.5, cov_factor=FACTOR, cov_diag=np.ones(3)),
        dist.MultivariateNormal(0.0, scale_diag=np.array([1.0, 2.0, 0.5])),
    ),
}
