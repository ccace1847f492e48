"""Lengths of normal vectors."""

import functools
import itertools
import math

import mpmath
import numpy as np
import scipy.integrate
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case
from tests.distributions.cases.oracles import Transformed


def half_t(df, loc, scale):
    """Of the square root of a variable of the F distribution."""
    return Transformed(
        st.f(1, df),
        lambda z: loc + scale * np.sqrt(z),
        lambda x: ((x - loc) / scale) ** 2,
        lambda x: np.log(2 * (x - loc) / scale**2),
    )


@functools.cache
def _noncentral(x, df, noncentrality):
    """The log density, by mpmath's Bessel function."""
    with mpmath.workdps(50):
        x, k, m = map(mpmath.mpf, (x, df, noncentrality))
        bessel = mpmath.log(mpmath.besseli(k / 2 - 1, mpmath.sqrt(m * x)))
        return float(bessel - mpmath.log(2) - (x + m) / 2 + (k / 4 - 0.5) * mpmath.log(x / m))


class NoncentralChi2:
    """scipy's, with another density: its own is precise to 1e-9."""

    def __init__(self, df, noncentrality):
        self.law, self.parameters = st.ncx2(df, noncentrality), (df, noncentrality)
        self.cdf, self.sf, self.ppf = self.law.cdf, self.law.sf, self.law.ppf
        self.mean, self.var = self.law.mean, self.law.var

    def logpdf(self, x):
        return np.vectorize(_noncentral)(x, *self.parameters)

    def entropy(self):
        """By quadrature over the square root."""

        def one(k, m):
            def share(r):
                log_p = _noncentral(r * r, k, m)
                return -2 * r * math.exp(log_p) * log_p

            ends = [max(math.sqrt(k + m) + d, 1e-12) for d in (-12, -2, 2, 12)]
            pieces = itertools.pairwise(ends)
            return sum(scipy.integrate.quad(share, *ends, epsabs=1e-12)[0] for ends in pieces)

        return np.vectorize(one)(*self.parameters)


OUTSIDE = (-1.0, 0.0, *INFINITE)

CASES = [
    Case(
        name="Chi2",
        make=dist.Chi2,
        signature="df",
        parameters={"df": np.array([1.5, 6.0])},
        oracle=st.chi2,
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="Chi",
        make=dist.Chi,
        signature="df",
        parameters={"df": np.array([0.75, 40.0])},
        oracle=st.chi,
        inside=PAIRS + np.array([0, 3]),
        outside=OUTSIDE,
    ),
    Case(
        name="InverseChi2",
        make=dist.InverseChi2,
        signature="df, scale",
        parameters={"df": 6.5, "scale": BATCH},
        oracle=lambda df, scale: st.invgamma(df / 2, scale=df * scale**2 / 2),
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="Rayleigh",
        make=dist.Rayleigh,
        signature="scale",
        parameters={"scale": BATCH},
        oracle=lambda scale: st.rayleigh(0, scale),
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="HalfStudentT",
        make=dist.HalfStudentT,
        signature="df, *, loc, scale",
        parameters={"df": 4.5, "loc": 0.5, "scale": 2.0},
        oracle=half_t,
        inside=SCALAR + 0.5,
        outside=(0.25, *INFINITE),
    ),
    Case(
        name="NoncentralChi2",
        make=dist.NoncentralChi2,
        signature="df, noncentrality",
        parameters={"df": np.array([1.5, 6.0]), "noncentrality": np.array([0.5, 300.0])},
        oracle=NoncentralChi2,
        inside=PAIRS * np.array([1, 120]),
        outside=OUTSIDE,
    ),
    Case(
        name="Rice",
        make=dist.Rice,
        signature="nu, scale",
        parameters={"nu": np.array([0.5, 30.0]), "scale": 2.0},
        oracle=lambda nu, scale: st.rice(nu / scale, scale=scale),
        inside=PAIRS * np.array([1, 10]),
        outside=OUTSIDE,
    ),
]
