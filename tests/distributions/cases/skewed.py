"""Skewed families on the real line."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case
from tests.distributions.cases.oracles import Density

SIGNATURES = {
    "SkewNormal": "loc, scale, skewness",
    "AsymmetricLaplace": "loc, scale, asymmetry",
    "ExponentiallyModifiedGaussian": "loc, scale, rate",
    "TwoPieceNormal": "loc, scale, skewness",
    "TwoPieceStudentT": "df, loc, scale, skewness",
    "SkewStudentT": "a, b, loc, scale",
    "NormalInverseGaussian": "loc, scale, tailweight, skewness",
}


def two_piece(loc, scale, skewness):
    def logpdf(x):
        z = (np.asarray(x) - loc) / scale
        pdf = st.norm.logpdf(np.where(z < 0, z * skewness, z / skewness))
        return pdf + np.log(2 * skewness / (1 + skewness**2) / scale)

    return Density(logpdf, -np.inf, np.inf, loc)


def two_piece_student_t(df, loc, scale, skewness):
    def logpdf(x):
        z = (np.asarray(x) - loc) / scale
        pdf = st.t.logpdf(np.where(z < 0, z * skewness, z / skewness), df)
        return pdf + np.log(2 * skewness / (1 + skewness**2) / scale)

    return Density(logpdf, -np.inf, np.inf, loc - 20, loc, loc + 20)


def normal_inverse_gaussian(loc, scale, tailweight, skewness):
    law = st.norminvgauss(tailweight * scale, skewness * scale, loc, scale)
    density = Density(law.logpdf, -np.inf, np.inf, *(law.mean() + law.std() * np.arange(-6, 7, 3)))
    density.mean, density.var = law.mean, law.var
    return density


CASES = [
    Case(
        "SkewNormal",
        dist.SkewNormal,
        {"loc": 0.5, "scale": 2.0, "skewness": np.array([-4.0, 1.5])},
        lambda loc, scale, skewness: st.skewnorm(skewness, loc, scale),
        PAIRS - 2,
        (),
    ),
    Case(
        "AsymmetricLaplace",
        dist.AsymmetricLaplace,
        {"loc": 0.75, "scale": 2.0, "asymmetry": BATCH},
        lambda loc, scale, asymmetry: st.laplace_asymmetric(asymmetry, loc, scale),
        PAIRS - 1,
        (),
    ),
    Case(
        "ExponentiallyModifiedGaussian",
        dist.ExponentiallyModifiedGaussian,
        {"loc": 0.5, "scale": 2.0, "rate": BATCH},
        lambda loc, scale, rate: st.exponnorm(1 / (rate * scale), loc, scale),
        PAIRS - 2,
        (),
    ),
    Case(
        "TwoPieceNormal",
        dist.TwoPieceNormal,
        {"loc": 0.75, "scale": 2.0, "skewness": 1.5},
        two_piece,
        SCALAR - 1.25,
        (),
    ),
    Case(
        "TwoPieceStudentT",
        dist.TwoPieceStudentT,
        {"df": 6.5, "loc": 0.75, "scale": 2.0, "skewness": 1.5},
        two_piece_student_t,
        SCALAR - 1.25,
        (),
    ),
    Case(
        "SkewStudentT",
        dist.SkewStudentT,
        {"a": np.array([1.5, 12.0]), "b": np.array([4.0, 2.5]), "loc": 0.5, "scale": 2.0},
        lambda a, b, loc, scale: st.jf_skew_t(a, b, loc, scale),
        PAIRS - 2,
        (),
    ),
    Case(
        "NormalInverseGaussian",
        dist.NormalInverseGaussian,
        {"loc": 0.5, "scale": 2.0, "tailweight": 0.75, "skewness": -0.5},
        normal_inverse_gaussian,
        SCALAR * np.array([1, -10, 4, 0.5, -1]),
        (),
    ),
]
