"""Skewed families on the real line."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case
from tests.distributions.cases.oracles import Density


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
        name="SkewNormal",
        make=dist.SkewNormal,
        signature="*, loc, scale, skewness",
        parameters={"loc": 0.5, "scale": 2.0, "skewness": np.array([-4.0, 1.5])},
        oracle=lambda loc, scale, skewness: st.skewnorm(skewness, loc, scale),
        inside=PAIRS - 2,
        outside=(),
    ),
    Case(
        name="AsymmetricLaplace",
        make=dist.AsymmetricLaplace,
        signature="*, loc, scale, asymmetry",
        parameters={"loc": 0.75, "scale": 2.0, "asymmetry": BATCH},
        oracle=lambda loc, scale, asymmetry: st.laplace_asymmetric(asymmetry, loc, scale),
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="ExponentiallyModifiedGaussian",
        make=dist.ExponentiallyModifiedGaussian,
        signature="loc, scale, rate",
        parameters={"loc": 0.5, "scale": 2.0, "rate": BATCH},
        oracle=lambda loc, scale, rate: st.exponnorm(1 / (rate * scale), loc, scale),
        inside=PAIRS - 2,
        outside=(),
    ),
    Case(
        name="TwoPieceNormal",
        make=dist.TwoPieceNormal,
        signature="loc, scale, skewness",
        parameters={"loc": 0.75, "scale": 2.0, "skewness": 1.5},
        oracle=two_piece,
        inside=SCALAR - 1.25,
        outside=(),
    ),
    Case(
        name="TwoPieceStudentT",
        make=dist.TwoPieceStudentT,
        signature="df, loc, scale, skewness",
        parameters={"df": 6.5, "loc": 0.75, "scale": 2.0, "skewness": 1.5},
        oracle=two_piece_student_t,
        inside=SCALAR - 1.25,
        outside=(),
    ),
    Case(
        name="SkewStudentT",
        make=dist.SkewStudentT,
        signature="a, b, loc, scale",
        parameters={
            "a": np.array([1.5, 12.0]),
            "b": np.array([4.0, 2.5]),
            "loc": 0.5,
            "scale": 2.0,
        },
        oracle=lambda a, b, loc, scale: st.jf_skew_t(a, b, loc, scale),
        inside=PAIRS - 2,
        outside=(),
    ),
    Case(
        name="NormalInverseGaussian",
        make=dist.NormalInverseGaussian,
        signature="loc, scale, tailweight, skewness",
        parameters={"loc": 0.5, "scale": 2.0, "tailweight": 0.75, "skewness": -0.5},
        oracle=normal_inverse_gaussian,
        inside=SCALAR * np.array([1, -10, 4, 0.5, -1]),
        outside=(),
    ),
]
