"""Density, distribution function and entropy of the logarithm of a gamma variable."""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import select
from distributions.numerics.gamma_functions import gamma_entropy
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.loader_kernels import log_gamma_kernel


def log_or_given(value: Any, log_value: Any) -> Array:
    """`log_value` if it is given, else `log(value)`."""
    return jnp.log(value) if log_value is None else jnp.asarray(log_value)


def exp_gamma_log_prob(y: Array, a: Array) -> Array:
    """`a y - exp(y) - log Gamma(a)`, the log density of the log of a gamma variable of rate 1."""
    is_far = y >= math.log(jnp.finfo(y.dtype).max)  # Its exponential is infinite.
    y = select(is_far, 0, y)
    return select(is_far, -jnp.inf, log_gamma_kernel(a, jnp.exp(y), y))


def exp_gamma_log_tails(y: Array, a: Array) -> tuple[Array, Array]:
    """The log probabilities of the log of a gamma variable of rate 1 below and above `y`."""
    most = 0.99 * math.log(jnp.finfo(y.dtype).max)
    return log_gammainc(a, jnp.exp(jnp.minimum(y, most)), None, y)


def exp_gamma_entropy(a: Array) -> Array:
    """`log Gamma(a) + a - a digamma(a)`, the entropy of the log of a gamma variable."""
    return gamma_entropy(a, 0.0)
