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

SIGNATURES = {
    "HalfNormal": "scale",
    "HalfCauchy": "loc, scale",
    "Exponential": "rate",
    "Gamma": "concentration, rate",
    "InverseGamma": "concentration, scale",
    "LogNormal": "loc, scale",
}

CASES = [
    Case("HalfNormal", dist.HalfNormal, {"scale": BATCH}, st.halfnorm, PAIRS, (-1.0, *INFINITE)),
    Case(
        "HalfCauchy",
        dist.HalfCauchy,
        {"loc": BATCH - 0.5, "scale": 2.0},
        st.halfcauchy,
        PAIRS + 1.5,
        (-1.0, *INFINITE),
    ),
    Case(
        "Exponential",
        dist.Exponential,
        {"rate": BATCH},
        lambda rate: st.expon(0, 1 / rate),
        PAIRS,
        (-1.0, *INFINITE),
    ),
    Case(
        "Gamma",
        dist.Gamma,
        {"concentration": BATCH, "rate": 2.0},
        lambda concentration, rate: st.gamma(concentration, scale=1 / rate),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "InverseGamma",
        dist.InverseGamma,
        {"concentration": 2.5, "scale": BATCH},
        lambda concentration, scale: st.invgamma(concentration, scale=scale),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "LogNormal",
        dist.LogNormal,
        {"loc": 0.5, "scale": 0.75},
        lambda loc, scale: st.lognorm(scale, scale=np.exp(loc)),
        SCALAR,
        (-1.0, 0.0, *INFINITE),
    ),
]

KL = {
    "Exponential": (dist.Exponential(2.0), dist.Exponential(0.75)),
    "Gamma": (dist.Gamma(2.5, 2.0), dist.Gamma(1.5, 0.75)),
    "HalfNormal": (dist.HalfNormal(2.0), dist.HalfNormal(0.75)),
    "InverseGamma": (dist.InverseGamma(2.5, 2.0), dist.InverseGamma(1.5, 0.75)),
    "LogNormal": (dist.LogNormal(0.5, 2.0), dist.LogNormal(-1.0, 0.75)),
}
