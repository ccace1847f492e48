"""Distributions that are made of others."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, COUNTS, INFINITE, PAIRS, SCALAR, Case


class Given:
    """A law of scipy's, given that a draw lies above `low` and up to `high`."""

    def __init__(self, base, low, high):
        self.base, self.low, self.high = base, low, high
        self.mass = base.cdf(high) - base.cdf(low)

    def logpmf(self, x):
        return self.base.logpmf(x) - np.log(self.mass)

    def cdf(self, x):
        x = np.clip(np.floor(x), self.low, self.high)
        return (self.base.cdf(x) - self.base.cdf(self.low)) / self.mass

    def sf(self, x):
        return 1 - self.cdf(x)

    def ppf(self, q):
        values = np.arange(self.low + 1, self.high + 1)
        reached = [self.cdf(value) >= np.asarray(q) - 1e-15 for value in values]
        return values[np.argmax(reached, 0)]


class Decreasing:
    """`1 + scale x` for a negative scale, with `x` of the exponential law."""

    def __init__(self, scale):
        self.scale, self.base = scale, st.expon(0, -scale)

    def logpdf(self, y):
        return self.base.logpdf(1 - y)

    def cdf(self, y):
        return self.base.sf(1 - y)

    def sf(self, y):
        return self.base.cdf(1 - y)

    def ppf(self, q):
        return 1 - self.base.isf(q)

    def mean(self):
        return 1 + self.scale

    def var(self):
        return self.scale**2

    def entropy(self):
        return self.base.entropy()


class Product:
    """Independent laws of scipy's along the last axis."""

    def __init__(self, each):
        self.each = each

    def logpdf(self, x):
        return self.each.logpdf(x).sum(-1)

    def cdf(self, x):
        return self.each.cdf(x)  # of each entry

    def mean(self):
        return self.each.mean()

    def var(self):
        return self.each.var()

    def entropy(self):
        return np.sum(self.each.entropy(), -1)


class Gate:
    """0 with a probability, and otherwise a positive law of scipy's."""

    def __init__(self, zero, base):
        self.zero, self.base = zero, base

    def logpdf(self, x):
        with np.errstate(divide="ignore"):
            positive = np.log1p(-self.zero) + self.base.logpdf(x)
            return np.where(x == 0, np.log(self.zero), positive)

    def cdf(self, x):
        return np.where(x < 0, 0, self.zero + (1 - self.zero) * self.base.cdf(x))

    def sf(self, x):
        return np.where(x < 0, 1, (1 - self.zero) * self.base.sf(x))

    def ppf(self, q):
        return self.base.ppf((q - self.zero) / (1 - self.zero))

    def mean(self):
        return (1 - self.zero) * self.base.mean()

    def var(self):
        return (1 - self.zero) * (self.base.var() + self.zero * self.base.mean() ** 2)

    def entropy(self):
        return st.bernoulli(self.zero).entropy() + (1 - self.zero) * self.base.entropy()

    def marginals(self, draws):
        for i in range(len(self.zero)):
            yield (draws[:, i] == 0).astype(int), st.bernoulli(self.zero[i])
            yield draws[draws[:, i] > 0, i], st.gamma(self.base.args[0][i], scale=0.5)


class Rounded:
    """A law of scipy's, rounded up, with all beyond `low` and `high` there."""

    def __init__(self, base, low, high):
        self.base, self.low, self.high = base, low, high

    def logpmf(self, k):
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(k) - self.cdf(k - 1))

    def cdf(self, x):
        return np.where(x < self.low, 0, np.where(x < self.high, self.base.cdf(np.floor(x)), 1))

    def sf(self, x):
        return 1 - self.cdf(x)

    def ppf(self, q):
        return np.clip(np.ceil(self.base.ppf(q)), self.low, self.high)


class Either:
    """A mixture of two laws of scipy's."""

    def __init__(self, weight, first, second):
        self.weights, self.parts = (weight, 1 - weight), (first, second)

    def _average(self, values):
        return sum(w * v for w, v in zip(self.weights, values, strict=True))

    def logpdf(self, x):
        return np.log(self._average([np.exp(p.logpdf(x)) for p in self.parts]))

    def cdf(self, x):
        return self._average([p.cdf(x) for p in self.parts])

    def sf(self, x):
        return self._average([p.sf(x) for p in self.parts])

    def mean(self):
        return self._average([p.mean() for p in self.parts])

    def var(self):
        return self._average([p.var() + p.mean() ** 2 for p in self.parts]) - self.mean() ** 2


def mixture(weight, loc, df):
    weights = dist.Categorical(probs=[weight, 1 - weight])
    return dist.Mixture(weights, [dist.Normal(loc, 1.0), dist.StudentT(df, 0.0, 2.0)])


def triangle(x, width):
    return np.log(2) + jnp.log1p(-x / width) - jnp.log(width)


def sample_triangle(key, shape, width):
    return width * (1 - jnp.sqrt(jax.random.uniform(key, shape, width.dtype)))


ROWS = np.stack([PAIRS - 1, PAIRS, PAIRS + 0.5], 2)  # of shape (5, 2, 3)
POINTLESS = {"mode": "no closed form in general", "entropy": "no closed form in general"}

KL = {
    "Independent": (
        dist.Independent(dist.Normal(np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.5]]), 1.0), 1),
        dist.Independent(dist.Normal(np.zeros(3), 2.0), 1),
    ),
    "iid": (dist.iid(dist.Normal(BATCH, 1.0), (2, 3)), dist.iid(dist.Normal(0.0, 1.5), (2, 3))),
}

CASES = [
    Case(
        name="Truncated, Normal",
        make=lambda loc, scale: dist.Truncated(dist.Normal(loc, scale), 0.0, 4.0),
        signature="distribution, low=-inf, high=inf",
        parameters={"loc": 0.5, "scale": BATCH},
        oracle=lambda loc, scale: st.truncnorm(-loc / scale, (4 - loc) / scale, loc, scale),
        inside=PAIRS,
        outside=(-1.0, 5.0, *INFINITE),
        moments=False,
        excluded=POINTLESS,
    ),
    Case(
        name="Truncated, upper tail",
        make=lambda loc, low: dist.Truncated(dist.Normal(loc, 2.0), low),
        parameters={"loc": 0.5, "low": np.array([12.5, 20.5])},
        oracle=lambda loc, low: st.truncnorm((low - loc) / 2, np.inf, loc, 2.0),
        inside=PAIRS + np.array([12.5, 20.5]),
        outside=(-1.0, 5.0, *INFINITE),
        moments=False,
        excluded=POINTLESS,
    ),
    Case(
        name="Truncated, Poisson",
        make=lambda rate: dist.Truncated(dist.Poisson(rate), 1, 9),
        parameters={"rate": BATCH},
        oracle=lambda rate: Given(st.poisson(rate), 0, 9),
        inside=np.stack([COUNTS, COUNTS]).T + 1,
        outside=(0, -1, 10, 1.5, *INFINITE),
        moments=False,
        excluded=POINTLESS,
    ),
    Case(
        name="Independent",
        make=lambda loc: dist.Independent(dist.Normal(loc, 2.0), 1),
        signature="distribution, reinterpreted_batch_ndims",
        parameters={"loc": np.array([[0.0, 0.5, 1.0], [2.0, -1.0, 0.25]])},
        oracle=lambda loc: Product(st.norm(loc, 2.0)),
        inside=ROWS,
        outside=(),
    ),
    Case(
        name="iid",
        make=lambda rate: dist.iid(dist.Exponential(rate), 3),
        signature="distribution, sample_shape",
        parameters={"rate": BATCH},
        oracle=lambda rate: Product(st.expon(0, 1 / np.stack([rate] * 3, -1))),
        inside=np.abs(ROWS),
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="TransformedDistribution, Exp",
        make=lambda loc: dist.TransformedDistribution(dist.Normal(loc, 0.75), dist.bijectors.Exp()),
        signature="distribution, transform",
        parameters={"loc": BATCH},
        oracle=lambda loc: st.lognorm(0.75, scale=np.exp(loc)),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
        moments=False,
        excluded=POINTLESS,
    ),
    Case(
        name="TransformedDistribution, decreasing",
        make=lambda scale: dist.TransformedDistribution(
            dist.Exponential(1.0), dist.bijectors.Affine(1.0, scale)
        ),
        parameters={"scale": np.array([-0.5, -2.0])},
        oracle=lambda scale: Decreasing(scale),
        inside=1 - PAIRS,
        outside=(1.5, *INFINITE),
    ),
    Case(
        name="Mixture",
        make=mixture,
        signature="mixture_distribution, components",
        parameters={"weight": 0.25, "loc": BATCH, "df": 4.5},
        oracle=lambda weight, loc, df: Either(weight, st.norm(loc, 1.0), st.t(df, 0.0, 2.0)),
        inside=PAIRS - 1,
        outside=(),
        excluded=POINTLESS,
    ),
    Case(
        name="Hurdle, of positive numbers",
        make=lambda probs, concentration: dist.Hurdle(dist.Gamma(concentration, 2.0), probs=probs),
        parameters={"probs": np.array([1 / 64, 1 / 40]), "concentration": np.array([0.75, 6.0])},
        oracle=lambda probs, concentration: Gate(probs, st.gamma(concentration, scale=0.5)),
        inside=np.stack([np.append(0, SCALAR[1:]), SCALAR], 1),
        outside=(-1.0, *INFINITE),
        excluded={"mode": "a probability and densities", "integral": "no map onto the support"},
    ),
    Case(
        name="Quantized",
        make=lambda loc, scale: dist.Quantized(dist.Normal(loc, scale), -4, 6),
        signature="distribution, low=-inf, high=inf",
        parameters={"loc": 1.5, "scale": np.array([1.5, 4.0])},
        oracle=lambda loc, scale: Rounded(st.norm(loc, scale), -4, 6),
        inside=np.stack([COUNTS, 2 * COUNTS - 4], 1),
        outside=(-5, 7, 1.5, *INFINITE),
        moments=False,
        excluded=POINTLESS,
    ),
    Case(
        name="Custom",
        make=lambda width: dist.Custom(
            triangle,
            (width,),
            support=dist.constraints.interval(0.0, 0.5),
            sampler=sample_triangle,
        ),
        signature="log_density, parameters=(), support=Real(), event_shape=(), sampler=None",
        parameters={"width": 0.5},
        oracle=lambda width: st.triang(0.0, 0.0, width),
        inside=SCALAR / 8,
        outside=(-0.5, 0.75, *INFINITE),
        moments=False,
        excluded={k: "not known" for k in ("mode", "entropy", "cdf", "quantile")},
    ),
]
