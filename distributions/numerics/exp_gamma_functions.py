"""_log, _exp_gamma_log_prob, _exp_gamma_entropy."""

import math

import jax.numpy as jnp

from distributions.numerics.gamma_functions import gamma_entropy
from distributions.numerics.loader_kernels import log_gamma_kernel


def log_or_given(value, log_value):
    return jnp.log(value) if log_value is None else jnp.asarray(log_value)


def exp_gamma_log_prob(y, a):
    y = jnp.minimum(y, 1.1 * math.log(jnp.finfo(y.dtype).max))  # Its exponential is infinite.
    return log_gamma_kernel(a, jnp.exp(y), y)


def exp_gamma_entropy(a):
    return gamma_entropy(a, 0.0)
