"""Normal families with structure: processes, graphs, sums of zero."""

import functools
from typing import Any

import numpy as np
import scipy.linalg as sla

import distributions as dist
from tests.distributions.cases.base import BATCH, Case
from tests.distributions.cases.multivariate import MATRIX, VECTORS
from tests.distributions.cases.vector_oracles import Batch, Gaussian

STEPS = np.tril(np.ones((3, 3)))
GRAPH = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])  # A cycle.
ROW = np.array([[2.0, 0.5, -0.25, 0.5], [1.0, -0.25, 0.5, -0.25]])  # Of a circulant.
FOUR = np.concatenate([VECTORS, VECTORS[::-1, :1]], 1)


def walk(scale: Any, first: Any = None, loc: Any = 0.0) -> Gaussian:
    scales = np.array([scale if first is None else first, scale, scale])
    return Gaussian(loc, (STEPS * scales**2) @ STEPS.T)


def walk_from(scale: Any, loc: Any) -> dist.Distribution:
    return dist.GaussianRandomWalk(scale, 3, dist.Normal(loc, 2.0))


def autoregression(loc: Any, coefficient: Any, scale: Any) -> Gaussian:
    lags = abs(np.subtract.outer(np.arange(3), np.arange(3)))
    return Gaussian(loc, scale**2 / (1 - coefficient**2) * coefficient**lags)


def car(loc: Any, correlation: Any, conditional_precision: Any, adj_matrix: Any) -> Gaussian:
    degrees = np.diag(adj_matrix.sum(0))
    return Gaussian(
        loc, np.linalg.inv(conditional_precision * (degrees - correlation * adj_matrix))
    )


def centering(n: int) -> np.ndarray:
    return np.eye(n) - 1 / n


CASES = [
    Case(
        name="GaussianRandomWalk",
        make=functools.partial(dist.GaussianRandomWalk, num_steps=3),
        signature="scale, num_steps, init=None",
        parameters={"scale": BATCH},
        oracle=lambda scale: Batch(*map(walk, scale)),
        inside=np.stack([VECTORS, VECTORS], 1),
        outside=(),
    ),
    Case(
        name="GaussianRandomWalk, init",
        make=walk_from,
        parameters={"scale": 0.5, "loc": BATCH},
        oracle=lambda scale, loc: Batch(*(walk(scale, 2.0, m) for m in loc)),
        inside=np.stack([VECTORS, VECTORS], 1),
        outside=(),
    ),
    Case(
        name="AutoRegressive",
        make=functools.partial(dist.AutoRegressive, num_steps=3),
        signature="loc, coefficient, scale, num_steps",
        parameters={"loc": 0.5, "coefficient": np.array([0.75, -0.5]), "scale": BATCH},
        oracle=lambda loc, coefficient, scale: Batch(
            *(autoregression(loc, c, s) for c, s in zip(coefficient, scale, strict=True))
        ),
        inside=np.stack([VECTORS, VECTORS], 1),
        outside=(),
    ),
    Case(
        name="GaussianProcess",
        make=dist.GaussianProcess,
        signature="kernel, index_points=None, mean_fn=0.0, observation_noise_variance=0.0",
        parameters={"kernel": MATRIX, "mean_fn": np.ones(3), "observation_noise_variance": BATCH},
        oracle=lambda kernel, mean_fn, observation_noise_variance: Batch(
            *(Gaussian(mean_fn, kernel + s * np.eye(3)) for s in observation_noise_variance)
        ),
        inside=np.stack([VECTORS, VECTORS], 1),
        outside=(),
    ),
    Case(
        name="CirculantNormal",
        make=dist.CirculantNormal,
        signature="loc, covariance_row",
        parameters={"loc": np.array([0.0, 1.0, 2.0, 3.0]), "covariance_row": ROW},
        oracle=lambda loc, covariance_row: Batch(
            *(Gaussian(loc, sla.circulant(row)) for row in covariance_row)
        ),
        inside=np.stack([FOUR, FOUR], 1),
        outside=(),
    ),
    Case(
        name="CirculantNormal, odd",
        make=dist.CirculantNormal,
        parameters={"loc": 0.5, "covariance_row": np.array([2.0, 0.5, 0.5])},
        oracle=lambda loc, covariance_row: Gaussian(loc, sla.circulant(covariance_row)),
        inside=VECTORS,
        outside=(),
    ),
    Case(
        name="CAR",
        make=dist.CAR,
        signature="loc, *, correlation, conditional_precision, adj_matrix",
        parameters={
            "loc": np.array([0.0, 1.0, 2.0, 3.0]),
            "correlation": np.array([0.875, -0.5]),
            "conditional_precision": 2.0,
            "adj_matrix": GRAPH,
        },
        oracle=lambda loc, correlation, conditional_precision, adj_matrix: Batch(
            *(car(loc, c, conditional_precision, adj_matrix) for c in correlation)
        ),
        inside=np.stack([FOUR, FOUR], 1),
        outside=(),
    ),
    Case(
        name="ZeroSumNormal",
        make=functools.partial(dist.ZeroSumNormal, shape=(3,)),
        signature="scale, *, shape",
        parameters={"scale": BATCH},
        oracle=lambda scale: Batch(*(Gaussian(0.0, s**2 * centering(3)) for s in scale)),
        inside=np.stack([VECTORS @ centering(3), 0 * VECTORS], 1),
        outside=([1.0, 0.0, 0.0], [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]),
    ),
    Case(
        name="ZeroSumNormal, two axes",
        make=functools.partial(dist.ZeroSumNormal, shape=(2, 3)),
        parameters={"scale": 1.5},
        oracle=lambda scale: Gaussian(0.0, scale**2 * np.kron(centering(2), centering(3)), (2, 3)),
        inside=np.stack([VECTORS, -VECTORS], 1) @ centering(3),
        outside=(np.ones((2, 3)), np.array([[1.0, -1.0, 0.0], [1.0, -1.0, 0.0]])),
    ),
]
