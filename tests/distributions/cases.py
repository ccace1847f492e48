"""The table of families: parameters, scipy's oracle, values inside and outside of the support."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist

SCALAR = np.array([0.25, 0.5, 1.0, 1.75, 3.0])
UNIT = np.array([0.0625, 0.25, 0.5, 0.875, 0.9375])
COUNTS = np.array([0, 1, 2, 3, 5])
INFINITE = (np.inf, -np.inf, np.nan)


@dataclasses.dataclass(frozen=True)
class Case:
    """A distribution, made from `parameters`, and what is true of it.

    `oracle` gives scipy's distribution for the parameters (in float64), `inside` has the shape
    `(5, *batch_shape, *event_shape)`, and `outside` are events that have no density.
    """

    name: str
    make: Callable[..., dist.Distribution]
    parameters: dict[str, Any]
    oracle: Callable[..., Any]
    inside: np.ndarray
    outside: tuple[Any, ...]
    moments: bool = True
    tolerance32: float = 1e-5

    def build(self, dtype: Any = np.float32) -> dist.Distribution:
        return self.make(**self.given(dtype))

    def given(self, dtype: Any) -> dict[str, Any]:
        """The parameters in a dtype; integers stay what they are."""
        return {name: cast(value, dtype) for name, value in self.parameters.items()}

    def truth(self, dtype: Any) -> Any:
        """The oracle at the parameters as they are rounded in a dtype."""
        return self.oracle(**{k: np.asarray(v, float) for k, v in self.given(dtype).items()})

    def values(self, dtype: Any) -> Any:
        return cast(self.inside, dtype)


def cast(value: Any, dtype: Any) -> Any:
    array = np.asarray(value)
    return jnp.asarray(array, dtype if np.issubdtype(array.dtype, np.floating) else int)


def log_probs(oracle: Any, values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, float)
    return oracle.logpdf(values) if hasattr(oracle, "logpdf") else oracle.logpmf(values)


class Each:
    """The oracle of a multivariate family, evaluated event by event."""

    def __init__(self, frozen: Any, mean: Any, var: Any, event_ndims: int = 1):
        self.frozen, self._mean, self._var, self.event_ndims = frozen, mean, var, event_ndims

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        flat = values.reshape(-1, *values.shape[values.ndim - self.event_ndims :])
        return np.array([self.frozen.logpdf(v) for v in flat]).reshape(values.shape[:-1])

    def mean(self) -> Any:
        return self._mean

    def var(self) -> Any:
        return self._var


class Weighted:
    """A mixture of scipy's distributions along the last axis, or the categories themselves."""

    def __init__(self, weights: np.ndarray, components: Any = None):
        self.weights, self.components = weights, components

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        index = values.astype(int)
        table = np.broadcast_to(self.weights, (*index.shape, self.weights.shape[-1]))
        chosen = np.take_along_axis(table, index[..., None], -1)[..., 0]
        with np.errstate(divide="ignore"):
            return np.log(chosen)

    def mean(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1])).sum(-1)

    def var(self) -> Any:
        return (self.weights * np.arange(self.weights.shape[-1]) ** 2).sum(-1) - self.mean() ** 2


class Mixed(Weighted):
    """A mixture of scipy's distributions along the last axis."""

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        each = log_probs(self.components, values[..., None])
        return sp.logsumexp(each + np.log(self.weights), axis=-1)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        return (self.weights * self.components.cdf(np.asarray(values)[..., None])).sum(-1)

    def mean(self) -> Any:
        return (self.weights * self.components.mean()).sum(-1)

    def var(self) -> Any:
        second = self.components.var() + self.components.mean() ** 2
        return (self.weights * second).sum(-1) - self.mean() ** 2


def normal_mixture(logits: Any, loc: Any, scale: Any) -> dist.Distribution:
    return dist.MixtureSameFamily(dist.Categorical(logits=logits), dist.Normal(loc, scale))


def gamma_mixture(probs: Any, a: Any) -> dist.Distribution:
    return dist.MixtureSameFamily(dist.Categorical(probs=probs), dist.Gamma(a, 1.0))


def truncated(loc: Any, scale: Any, low: Any, high: Any) -> Any:
    return st.truncnorm((low - loc) / scale, (high - loc) / scale, loc, scale)


def beta(concentration1: Any, concentration0: Any) -> Any:
    return st.beta(concentration1, concentration0)


def dirichlet(concentration: Any) -> Each:
    frozen = st.dirichlet(concentration)
    return Each(frozen, frozen.mean(), frozen.var())


def gaussian(loc: Any, covariance: Any) -> Each:
    return Each(st.multivariate_normal(loc, covariance), loc, np.diagonal(covariance))


BATCH = np.array([0.5, 2.0])
PAIRS = np.stack([SCALAR, SCALAR[::-1] + 0.5], 1)
MATRIX = np.array([[2.0, 0.5, 0.25], [0.5, 1.0, -0.25], [0.25, -0.25, 1.5]])
VECTORS = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [0.25, 3.0, -2.0], [4, 4, 4], [-1, 0, 1]])
SIMPLEX = np.array(
    [
        [0.25, 0.25, 0.5],
        [0.5, 0.375, 0.125],
        [0.0625, 0.0625, 0.875],
        [0.25, 0.5, 0.25],
        [0.75, 0.125, 0.125],
    ]
)
D = dist

CASES = [
    Case("Normal", D.Normal, {"loc": 0.5, "scale": BATCH}, st.norm, PAIRS - 2, ()),
    Case("HalfNormal", D.HalfNormal, {"scale": BATCH}, st.halfnorm, PAIRS, (-1.0, *INFINITE)),
    Case("Cauchy", D.Cauchy, {"loc": 0.5, "scale": 2.0}, st.cauchy, SCALAR - 2, (), False),
    Case(
        "HalfCauchy",
        D.HalfCauchy,
        {"loc": BATCH - 0.5, "scale": 2.0},
        st.halfcauchy,
        PAIRS + 1.5,
        (-1.0, *INFINITE),
    ),
    Case("StudentT", D.StudentT, {"df": 3.5, "loc": 0.5, "scale": 2.0}, st.t, SCALAR - 2, ()),
    Case(
        "StudentT, many degrees",
        D.StudentT,
        {"df": 1e4, "loc": 0.5, "scale": BATCH},
        st.t,
        PAIRS - 1,
        (),
    ),
    Case("Laplace", D.Laplace, {"loc": 0.5, "scale": BATCH}, st.laplace, PAIRS - 1, ()),
    Case(
        "Exponential",
        D.Exponential,
        {"rate": BATCH},
        lambda rate: st.expon(0, 1 / rate),
        PAIRS,
        (-1.0, *INFINITE),
    ),
    Case(
        "Gamma",
        D.Gamma,
        {"concentration": BATCH, "rate": 2.0},
        lambda concentration, rate: st.gamma(concentration, scale=1 / rate),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "InverseGamma",
        D.InverseGamma,
        {"concentration": 2.5, "scale": BATCH},
        lambda concentration, scale: st.invgamma(concentration, scale=scale),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "Beta",
        D.Beta,
        {"concentration1": 0.5, "concentration0": 2.5},
        beta,
        UNIT,
        (-1.0, 0.0, 1.0, 2.0, *INFINITE),
    ),
    Case(
        "Beta, concentrated",
        D.Beta,
        {"concentration1": 2000.0, "concentration0": np.array([1000.0, 2.0])},
        beta,
        np.array(
            [
                [0.65625, 0.998],
                [0.6640625, 0.999],
                [0.671875, 0.9995],
                [0.6875, 0.99951171875],
                [0.65, 0.99],
            ]
        ),
        (-1.0, 2.0),
        tolerance32=2e-4,  # x is rounded: d log p / dx is of order 1e3
    ),
    Case(
        "Uniform",
        D.Uniform,
        {"low": -1.0, "high": BATCH},
        lambda low, high: st.uniform(low, high - low),
        np.stack([UNIT, UNIT], 1) - 0.5,
        (-2.0, 3.0, *INFINITE),
    ),
    Case(
        "LogNormal",
        D.LogNormal,
        {"loc": 0.5, "scale": 0.75},
        lambda loc, scale: st.lognorm(scale, scale=np.exp(loc)),
        SCALAR,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "Bernoulli, logits",
        D.Bernoulli,
        {"logits": np.array([0.5, -3.0])},
        lambda logits: st.bernoulli(sp.expit(logits)),
        np.array([[0, 1]] * 3 + [[1, 0]] * 2),
        (-1, 2, 0.5, *INFINITE),
    ),
    Case(
        "Bernoulli, probs",
        D.Bernoulli,
        {"probs": np.array([0.25, 0.0])},
        lambda probs: st.bernoulli(probs),
        np.array([[0, 0]] * 4 + [[1, 0]]),
        (-1, 2, 0.5, *INFINITE),
    ),
    Case(
        "Binomial, logits",
        D.Binomial,
        {"total_count": np.array([7, 20]), "logits": 0.5},
        lambda total_count, logits: st.binom(total_count, sp.expit(logits)),
        np.stack([COUNTS, 3 * COUNTS], 1),
        (-1, 21, 1.5, *INFINITE),
    ),
    Case(
        "Binomial, probs",
        D.Binomial,
        {"total_count": 200, "probs": np.array([0.375, 0.0])},
        lambda total_count, probs: st.binom(total_count, probs),
        np.stack([70 + COUNTS, 0 * COUNTS], 1),
        (-1, 201, 1.5, *INFINITE),
    ),
    Case(
        "Poisson, rate",
        D.Poisson,
        {"rate": np.array([2.5, 0.0])},
        lambda rate: st.poisson(rate),
        np.stack([COUNTS, 0 * COUNTS], 1),
        (-1, 1.5, *INFINITE),
    ),
    Case(
        "Poisson, log rate",
        D.Poisson,
        {"log_rate": np.array([0.5, 3.5])},
        lambda log_rate: st.poisson(np.exp(log_rate)),
        np.stack([COUNTS, 30 + COUNTS], 1),
        (-1, 1.5, *INFINITE),
    ),
    Case(
        "Categorical, logits",
        D.Categorical,
        {"logits": np.array([[0.5, -1.0, 2.0], [1.0, -np.inf, 0.0]])},
        lambda logits: Weighted(sp.softmax(logits, -1)),
        np.array([[0, 0], [1, 2], [2, 2], [0, 2], [1, 0]]),
        (-1, 3, 0.5, *INFINITE),
    ),
    Case(
        "Categorical, probs",
        D.Categorical,
        {"probs": np.array([0.25, 0.5, 0.25, 0.0])},
        lambda probs: Weighted(probs),
        np.array([0, 1, 2, 1, 0]),
        (-1, 4, 0.5, *INFINITE),
    ),
    Case(
        "Dirichlet",
        D.Dirichlet,
        {"concentration": np.array([0.5, 2.0, 3.5])},
        dirichlet,
        SIMPLEX,
        ([0.5, 0.5, 0.5], [1.0, 0.0, 0.0], [1.5, -0.5, 0.0], [np.nan, 0.5, 0.5]),
    ),
    Case(
        "MultivariateNormal, covariance",
        D.MultivariateNormal,
        {"loc": np.array([0.0, 0.5, 1.0]), "covariance": MATRIX},
        gaussian,
        VECTORS,
        (),
    ),
    Case(
        "MultivariateNormal, precision",
        D.MultivariateNormal,
        {"loc": np.zeros(3), "precision": MATRIX},
        lambda loc, precision: gaussian(loc, np.linalg.inv(precision)),
        VECTORS,
        (),
    ),
    Case(
        "MultivariateNormal, scale_tril",
        D.MultivariateNormal,
        {"loc": np.zeros(3), "scale_tril": np.tril(MATRIX)},
        lambda loc, scale_tril: gaussian(loc, scale_tril @ scale_tril.T),
        VECTORS,
        (),
    ),
    Case(
        "TruncatedNormal",
        D.TruncatedNormal,
        {"loc": 0.5, "scale": BATCH, "low": 0.0, "high": 4.0},
        truncated,
        PAIRS,
        (-1.0, 5.0, *INFINITE),
    ),
    Case(
        "TruncatedNormal, below",
        D.TruncatedNormal,
        {"loc": 0.5, "scale": 2.0, "low": -np.inf, "high": np.array([0.0, 9.0])},
        truncated,
        np.stack([-SCALAR, SCALAR], 1),
        (10.0, *INFINITE),
    ),
    Case(
        "TruncatedNormal, tail",
        D.TruncatedNormal,
        {"loc": 0.0, "scale": 1.0, "low": np.array([4.0, -8.0]), "high": np.array([np.inf, -6.0])},
        truncated,
        np.stack([SCALAR + 4, -6 - SCALAR / 2], 1),
        (-5.0, *INFINITE),
    ),
    Case(
        "MixtureSameFamily",
        normal_mixture,
        {"logits": np.array([0.5, -0.5]), "loc": np.array([-1.0, 2.0]), "scale": BATCH},
        lambda logits, loc, scale: Mixed(sp.softmax(logits), st.norm(loc, scale)),
        SCALAR - 1,
        (),
    ),
    Case(
        "MixtureSameFamily, gammas",
        gamma_mixture,
        {"probs": np.array([0.25, 0.75]), "a": np.array([[0.5, 4.0], [1.0, 9.0]])},
        lambda probs, a: Mixed(probs, st.gamma(a)),
        PAIRS,
        (-1.0, *INFINITE),
    ),
]
