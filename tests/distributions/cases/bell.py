"""Bells with other tails."""

import itertools
import math

import numpy as np
import scipy.stats as st
from scipy.integrate import quad
from scipy.special import ndtr

import distributions as dist
from tests.distributions.cases.base import BATCH, PAIRS, SCALAR, Case
from tests.distributions.cases.oracles import EXACT, Density, Transformed

ROOT = math.sqrt(2 * math.pi)


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


class Horseshoe(Density):
    """By quadrature over the logarithm of the Cauchy variable."""

    def __init__(self, scale):
        super().__init__(np.vectorize(self._log_density), -np.inf, np.inf, -scale, 0.0, scale)
        self.scale = scale

    def _expect_of_scales(self, f, *places):
        cuts = sorted([-60.0, 0.0, 90.0, *(math.log(abs(x / self.scale)) for x in places if x)])
        integrand = lambda s: f(self.scale * math.exp(s)) / math.cosh(s) / math.pi  # noqa: E731
        return sum(quad(integrand, *ends, **EXACT)[0] for ends in itertools.pairwise(cuts))

    def _log_density(self, x):
        return math.log(
            self._expect_of_scales(lambda s: math.exp(-0.5 * (x / s) ** 2) / s / ROOT, x)
        )

    def _mass(self, low, high):
        finite = [x for x in (low, high) if math.isfinite(x)]
        return self._expect_of_scales(lambda s: ndtr(high / s) - ndtr(low / s), *finite)


CASES = [
    Case(
        name="SoftLaplace",
        make=dist.SoftLaplace,
        signature="loc, scale",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.hypsecant,
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="Moyal",
        make=dist.Moyal,
        signature="loc, scale",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=st.moyal,
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="GeneralizedNormal",
        make=dist.GeneralizedNormal,
        signature="loc, scale, power",
        parameters={"loc": 0.75, "scale": 2.0, "power": np.array([0.75, 3.5])},
        oracle=lambda loc, scale, power: st.gennorm(power, loc, scale),
        inside=PAIRS - 1.5,
        outside=(),
    ),
    Case(
        name="DoublesidedMaxwell",
        make=dist.DoublesidedMaxwell,
        signature="loc, scale",
        parameters={"loc": 0.75, "scale": 2.0},
        oracle=maxwell,
        inside=SCALAR - 1.5,
        outside=(),
    ),
    Case(
        name="JohnsonSU",
        make=dist.JohnsonSU,
        signature="skewness, tailweight, loc, scale",
        parameters={"skewness": np.array([-2.0, 0.5]), "tailweight": 1.5, "loc": 0.5, "scale": 2.0},
        oracle=lambda skewness, tailweight, loc, scale: st.johnsonsu(
            skewness, tailweight, loc, scale
        ),
        inside=PAIRS - 1,
        outside=(),
    ),
    Case(
        name="SinhArcsinh",
        make=dist.SinhArcsinh,
        signature="loc, scale, skewness=0.0, tailweight=1.0",
        parameters={"loc": 0.5, "scale": 2.0, "skewness": 0.25, "tailweight": 1.25},
        oracle=sinh_arcsinh,
        inside=SCALAR - 1,
        outside=(),
    ),
    Case(
        name="Horseshoe",
        make=dist.Horseshoe,
        signature="scale",
        parameters={"scale": 1.5},
        oracle=Horseshoe,
        inside=SCALAR * np.array([0.01, -1, 1, -4, 40]),
        outside=(),
        moments=False,
        excluded={"integral": "the density is infinite at 0"},
    ),
]
