"""Bells with other tails."""

import math

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case
from tests.distributions.cases.oracles import Density, Transformed

SIGNATURES = {
    "SoftLaplace": "loc, scale",
    "Moyal": "loc, scale",
    "GeneralizedNormal": "loc, scale, power",
    "DoublesidedMaxwell": "loc, scale",
    "JohnsonSU": "skewness, tailweight, loc, scale",
    "SinhArcsinh": "loc, scale, skewness=0.0, tailweight=1.0",
}


def maxwell(loc, scale):
    """Half the density of a Maxwell variable on either side."""
    half = st.maxwell(scale=scale)
    density = lambda x: half.logpdf(np.abs(np.asarray(x) - loc)) - math.log(2)  # noqa: E731
    return Density(density, -np.inf, np.inf, loc)


def sinh_arcsinh(loc, scale, skewness, tailweight):
    unit = 2 * scale / np.sinh(tailweight * np.arcsinh(2))
    y = lambda x: np.arcsinh((x - loc) / unit) / tailweight - skewness  # noqa: E731
    return Transformed(
        st.norm(0, 1),
        lambda z: loc + unit * np.sinh(tailweight * (np.arcsinh(z) + skewness)),
        lambda x: np.sinh(y(x)),
        lambda x: np.log(np.cosh(y(x)) / tailweight / np.sqrt((x - loc) ** 2 + unit**2)),
    )


CASES = [
    Case(
        "SoftLaplace",
        dist.SoftLaplace,
        {"loc": 0.5, "scale": BATCH},
        st.hypsecant,
        PAIRS - 1,
        (),
    ),
    Case("Moyal", dist.Moyal, {"loc": 0.5, "scale": BATCH}, st.moyal, PAIRS - 1, ()),
    Case(
        "GeneralizedNormal",
        dist.GeneralizedNormal,
        {"loc": 0.75, "scale": 2.0, "power": np.array([0.75, 3.5])},
        lambda loc, scale, power: st.gennorm(power, loc, scale),
        PAIRS - 1.5,
        (),
    ),
    Case(
        "DoublesidedMaxwell",
        dist.DoublesidedMaxwell,
        {"loc": 0.75, "scale": 2.0},
        maxwell,
        SCALAR - 1.5,
        (),
    ),
    Case(
        "JohnsonSU",
        dist.JohnsonSU,
        {"skewness": np.array([-2.0, 0.5]), "tailweight": 1.5, "loc": 0.5, "scale": 2.0},
        lambda skewness, tailweight, loc, scale: st.johnsonsu(skewness, tailweight, loc, scale),
        PAIRS - 1,
        (),
    ),
    Case(
        "SinhArcsinh",
        dist.SinhArcsinh,
        {"loc": 0.5, "scale": 2.0, "skewness": 0.25, "tailweight": 1.25},
        sinh_arcsinh,
        SCALAR - 1,
        (),
    ),
]
