"""Log densities written out, each summed over all elements: the terms of densities by hand.

Terms of parameters alone are added up before they are broadcast against the values.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def times(term: Any, size: int) -> Any:
    """The sum of `term` broadcast to `size` elements."""
    return jnp.sum(term) * (size / jnp.size(term))


def normal(x: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    return -0.5 * jnp.sum(z * z) - times(jnp.log(scale), z.size) - z.size * HALF_LOG_TWO_PI


def half_normal(x: Any, scale: Any) -> Any:
    return normal(x, 0.0, scale) + jnp.size(x) * math.log(2)


def log_normal(x: Any, loc: Any, scale: Any) -> Any:
    log_x = jnp.log(x)
    return normal(log_x, loc, scale) - jnp.sum(log_x)


def half_cauchy(x: Any, scale: float) -> Any:
    z = x / scale
    return -jnp.sum(jnp.log1p(z * z)) - jnp.size(x) * math.log(math.pi * scale / 2)


def student_t(x: Any, df: Any, loc: Any, scale: Any) -> Any:
    z = (x - loc) / scale
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * jnp.log(df * math.pi)
    kernel = -(df + 1) / 2 * jnp.sum(jnp.log1p(z * z / df))
    return kernel + times(constant - jnp.log(scale), z.size)


def exponential(x: Any, rate: float) -> Any:
    return jnp.size(x) * math.log(rate) - rate * jnp.sum(x)


def gamma(x: Any, concentration: Any, rate: Any) -> Any:
    constant = concentration * jnp.log(rate) - gammaln(concentration)
    return jnp.sum((concentration - 1) * jnp.log(x) - rate * x) + times(constant, jnp.size(x))


def beta(x: Any, a: Any, b: Any) -> Any:
    constant = gammaln(a + b) - gammaln(a) - gammaln(b)
    kernel = jnp.sum((a - 1) * jnp.log(x) + (b - 1) * jnp.log1p(-x))
    return kernel + times(constant, jnp.size(x))


def dirichlet(x: Any, concentration: float) -> Any:
    """The log density of the symmetric Dirichlet distribution, for each row."""
    rows, size = x.size // x.shape[-1], x.shape[-1]
    constant = math.lgamma(size * concentration) - size * math.lgamma(concentration)
    return (concentration - 1) * jnp.sum(jnp.log(x)) + rows * constant


def multivariate_normal(x: Any, loc: Any, covariance: Any) -> Any:
    """The log density of one vector, or of each row."""
    factor = jnp.linalg.cholesky(covariance)
    z = solve_triangular(factor, (x - loc).T, lower=True)
    rows = x.size // x.shape[-1]
    log_det = rows * jnp.sum(jnp.log(jnp.diagonal(factor)))
    return -0.5 * jnp.sum(z * z) - log_det - x.size * HALF_LOG_TWO_PI


def bernoulli(y: Any, logits: Any) -> Any:
    return jnp.sum(y * logits - jax.nn.softplus(logits))


def binomial(y: Any, count: Any, probs: Any) -> Any:
    choose = gammaln(count + 1.0) - gammaln(y + 1.0) - gammaln(count - y + 1.0)
    return jnp.sum(choose + y * jnp.log(probs) + (count - y) * jnp.log1p(-probs))


def poisson(y: Any, log_rate: Any) -> Any:
    return jnp.sum(y * log_rate - jnp.exp(log_rate) - gammaln(y + 1.0))


def categorical(y: Any, log_probs: Any) -> Any:
    """The log mass of `y`; `log_probs` has a normalized row for each element of `y`."""
    return jnp.sum(jnp.take_along_axis(log_probs, y[:, None], axis=1))
