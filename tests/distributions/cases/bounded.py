"""Families on an interval."""

from typing import Any

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    BATCH,
    INFINITE,
    PAIRS,
    SCALAR,
    UNIT,
    Case,
)


def truncated(loc: Any, scale: Any, low: Any, high: Any) -> Any:
    return st.truncnorm((low - loc) / scale, (high - loc) / scale, loc, scale)


def beta(concentration1: Any, concentration0: Any) -> Any:
    return st.beta(concentration1, concentration0)


INFINITE_BOUND = {"entropy": "scipy's is NaN where a bound is infinite"}

CASES = [
    Case(
        name="Beta",
        make=dist.Beta,
        signature="concentration1, concentration0",
        parameters={"concentration1": 0.5, "concentration0": 2.5},
        oracle=beta,
        inside=UNIT,
        outside=(-1.0, 0.0, 1.0, 2.0, *INFINITE),
    ),
    Case(
        name="Beta, concentrated",
        make=dist.Beta,
        parameters={"concentration1": 2000.0, "concentration0": np.array([1000.0, 2.0])},
        oracle=beta,
        inside=np.array(
            [
                [0.65625, 0.998],
                [0.6640625, 0.999],
                [0.671875, 0.9995],
                [0.6875, 0.99951171875],
                [0.65, 0.99],
            ]
        ),
        outside=(-1.0, 2.0),
        tolerance32=2e-4,  # x is rounded: d log p / dx is of order 1e3
    ),
    Case(
        name="Uniform",
        make=dist.Uniform,
        signature="low=0.0, high=1.0",
        parameters={"low": -1.0, "high": BATCH},
        oracle=lambda low, high: st.uniform(low, high - low),
        inside=np.stack([UNIT, UNIT], 1) - 0.5,
        outside=(-2.0, 3.0, *INFINITE),
    ),
    Case(
        name="TruncatedNormal",
        make=dist.TruncatedNormal,
        signature="loc=0.0, scale=1.0, low=-inf, high=inf",
        parameters={"loc": 0.5, "scale": BATCH, "low": 0.0, "high": 4.0},
        oracle=truncated,
        inside=PAIRS,
        outside=(-1.0, 5.0, *INFINITE),
    ),
    Case(
        name="TruncatedNormal, below",
        make=dist.TruncatedNormal,
        parameters={"loc": 0.5, "scale": 2.0, "low": -np.inf, "high": np.array([0.0, 9.0])},
        oracle=truncated,
        inside=np.stack([-SCALAR, SCALAR], 1),
        outside=(10.0, *INFINITE),
        excluded=INFINITE_BOUND,
    ),
    Case(
        name="TruncatedNormal, tail",
        make=dist.TruncatedNormal,
        parameters={
            "loc": 0.0,
            "scale": 1.0,
            "low": np.array([4.0, -8.0]),
            "high": np.array([np.inf, -6.0]),
        },
        oracle=truncated,
        inside=np.stack([SCALAR + 4, -6 - SCALAR / 2], 1),
        outside=(-5.0, *INFINITE),
        excluded=INFINITE_BOUND,
    ),
]

KL = {
    "Beta": (dist.Beta(2.5, 2.0), dist.Beta(1.5, 0.75)),
    "Uniform": (dist.Uniform(0.25, 0.5), dist.Uniform(-1.0, 0.75)),
}
