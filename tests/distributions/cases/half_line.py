"""Families on a half line."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import (
    BATCH,
    INFINITE,
    PAIRS,
    SCALAR,
    Case,
)

CASES = [
    Case(
        name="HalfNormal",
        make=dist.HalfNormal,
        signature="scale",
        parameters={"scale": BATCH},
        oracle=st.halfnorm,
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="HalfCauchy",
        make=dist.HalfCauchy,
        signature="loc, scale",
        parameters={"loc": BATCH - 0.5, "scale": 2.0},
        oracle=st.halfcauchy,
        inside=PAIRS + 1.5,
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="Exponential",
        make=dist.Exponential,
        signature="rate",
        parameters={"rate": BATCH},
        oracle=lambda rate: st.expon(0, 1 / rate),
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="Gamma",
        make=dist.Gamma,
        signature="concentration, rate",
        parameters={"concentration": BATCH, "rate": 2.0},
        oracle=lambda concentration, rate: st.gamma(concentration, scale=1 / rate),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
    ),
    Case(
        name="InverseGamma",
        make=dist.InverseGamma,
        signature="concentration, scale",
        parameters={"concentration": 2.5, "scale": BATCH},
        oracle=lambda concentration, scale: st.invgamma(concentration, scale=scale),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
    ),
    Case(
        name="LogNormal",
        make=dist.LogNormal,
        signature="loc, scale",
        parameters={"loc": 0.5, "scale": 0.75},
        oracle=lambda loc, scale: st.lognorm(scale, scale=np.exp(loc)),
        inside=SCALAR,
        outside=(-1.0, 0.0, *INFINITE),
    ),
]

KL = {
    "Exponential": (dist.Exponential(2.0), dist.Exponential(0.75)),
    "Gamma": (dist.Gamma(2.5, 2.0), dist.Gamma(1.5, 0.75)),
    "HalfNormal": (dist.HalfNormal(2.0), dist.HalfNormal(0.75)),
    "InverseGamma": (dist.InverseGamma(2.5, 2.0), dist.InverseGamma(1.5, 0.75)),
    "LogNormal": (dist.LogNormal(0.5, 2.0), dist.LogNormal(-1.0, 0.75)),
}
