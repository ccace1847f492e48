"""Log densities of distributions in NumPy alone, and draws: not at the very edge of a support."""

import dataclasses
from typing import Any

import numpy as np
from scipy import special

HALF_LOG_2_PI = 0.5 * np.log(2 * np.pi)


def outside(inside: Any, value: Any) -> Any:
    """The log density, -inf where a value is outside of the support."""
    return np.where(inside, value, -np.inf)


class Family:
    """A distribution with `log_prob(value)`, `draw(rng)` and its `support`."""

    support = "real"


@dataclasses.dataclass
class Normal(Family):
    loc: Any
    scale: Any

    def log_prob(self, x):
        z = (x - self.loc) / self.scale
        return -0.5 * z**2 - np.log(self.scale) - HALF_LOG_2_PI

    def draw(self, rng):
        return rng.normal(self.loc, self.scale)


@dataclasses.dataclass
class StudentT(Family):
    df: Any
    loc: Any
    scale: Any

    def log_prob(self, x):
        z, n = (x - self.loc) / self.scale, self.df
        constant = special.gammaln((n + 1) / 2) - special.gammaln(n / 2)
        constant -= 0.5 * np.log(n * np.pi) + np.log(self.scale)
        return constant - (n + 1) / 2 * np.log1p(z**2 / n)

    def draw(self, rng):
        shape = np.broadcast_shapes(np.shape(self.loc), np.shape(self.scale))
        return self.loc + self.scale * rng.standard_t(self.df, shape)


@dataclasses.dataclass
class HalfNormal(Family):
    scale: Any
    support = "positive"

    def log_prob(self, x):
        return outside(x >= 0, np.log(2.0) + Normal(0.0, self.scale).log_prob(x))

    def draw(self, rng):
        return np.maximum(np.abs(rng.normal(0.0, self.scale)), 0.01)


@dataclasses.dataclass
class Gamma(Family):
    concentration: Any
    rate: Any
    support = "positive"

    def log_prob(self, x):
        a, b = self.concentration, self.rate
        value = special.xlogy(a, b) - special.gammaln(a) + special.xlogy(a - 1, x) - b * x
        return outside(x >= 0, value)

    def draw(self, rng):
        return np.maximum(rng.gamma(self.concentration, 1 / np.asarray(self.rate)), 0.01)


class Exponential(Gamma):
    def __init__(self, rate):
        super().__init__(1.0, rate)

    def draw(self, rng):
        return np.maximum(rng.exponential(1 / np.asarray(self.rate)), 0.01)


@dataclasses.dataclass
class Beta(Family):
    a: Any
    b: Any
    support = "unit"

    def log_prob(self, x):
        kernel = special.xlogy(self.a - 1, x) + special.xlog1py(self.b - 1, -x)
        return outside((x >= 0) & (x <= 1), kernel - special.betaln(self.a, self.b))

    def draw(self, rng):
        return np.clip(rng.beta(self.a, self.b), 0.01, 0.99)


@dataclasses.dataclass
class Poisson(Family):
    rate: Any
    support = "count"

    def log_prob(self, x):
        value = special.xlogy(x, self.rate) - self.rate - special.gammaln(x + 1)
        return outside(x >= 0, value)

    def draw(self, rng):
        return rng.poisson(self.rate)


class Bernoulli(Family):
    support = "count"

    def __init__(self, *, logits):
        self.logits = np.asarray(logits)

    def log_prob(self, x):
        sign = np.where(np.asarray(x) == 1, 1.0, -1.0)
        return outside((x == 0) | (x == 1), -np.log1p(np.exp(-sign * self.logits)))

    def draw(self, rng):
        return rng.binomial(1, special.expit(self.logits))


class Categorical(Family):
    support = "count"

    def __init__(self, *, logits):
        self.log_probs = logits - special.logsumexp(logits, axis=-1, keepdims=True)

    def log_prob(self, x):
        x = np.asarray(x)[..., None]
        return np.take_along_axis(self.log_probs, x, -1)[..., 0]

    def draw(self, rng):
        cumulative = np.cumsum(np.exp(self.log_probs), -1)
        drawn = rng.random(cumulative.shape[:-1])[..., None] > cumulative[..., :-1]
        return np.sum(drawn, -1)


class Binomial(Family):
    support = "count"

    def __init__(self, total, *, probs):
        self.total, self.probs = np.asarray(total), probs

    def log_prob(self, x):
        n, p = self.total, self.probs
        inside = (x >= 0) & (x <= n)
        k = np.where(inside, x, 0)
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return outside(inside, ways + special.xlogy(k, p) + special.xlog1py(n - k, -p))

    def draw(self, rng):
        return rng.binomial(self.total, self.probs)


@dataclasses.dataclass
class DiscreteUniform(Family):
    low: Any
    high: Any
    support = "count"

    def log_prob(self, x):
        inside = (x >= self.low) & (x <= self.high)
        return outside(inside, -np.log(self.high - self.low + 1.0))

    def draw(self, rng):
        return rng.integers(self.low, np.asarray(self.high) + 1)


class MultivariateNormal(Family):
    event_ndim = 1

    def __init__(self, loc, *, scale_tril):
        self.loc, self.tril = loc, scale_tril

    def log_prob(self, x):
        z = np.linalg.solve(self.tril, x - self.loc)
        log_det = np.sum(np.log(np.diagonal(self.tril)))
        return -0.5 * np.sum(z**2) - log_det - z.size * HALF_LOG_2_PI

    def draw(self, rng):
        return self.loc + self.tril @ rng.normal(size=np.shape(self.loc))


@dataclasses.dataclass
class Dirichlet(Family):
    concentration: Any
    support = "simplex"
    event_ndim = 1

    def log_prob(self, x):
        a = self.concentration
        constant = special.gammaln(np.sum(a)) - np.sum(special.gammaln(a))
        return constant + np.sum(special.xlogy(a - 1, x))

    def draw(self, rng):
        drawn = np.maximum(rng.dirichlet(self.concentration), 0.01)
        return drawn / np.sum(drawn)


ALL = {x.__name__: x for x in (*Family.__subclasses__(), Exponential)}
