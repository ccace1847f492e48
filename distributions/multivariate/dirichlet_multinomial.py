"""The Dirichlet-multinomial distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import (
    independent,
    multinomial,
    nonnegative_integer,
    positive,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.beta_mixture_entropy import (
    dirichlet_multinomial_entropy,
)
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.loader_log_pmf import (
    column,
    log_negative_binomial,
    multinomial_draw,
)


def _dirichlet_multinomial_log_prob(y, n, a):
    """The log mass: negative binomial masses of the counts, over the mass of their sum."""
    k = y.astype(a.dtype)
    n = n.astype(a.dtype)
    total = jnp.sum(a, axis=-1)
    log_odds = jnp.log(jnp.maximum(n, 1)) - jnp.log(total)
    parts = jnp.sum(log_negative_binomial(k, a, column(log_odds)), axis=-1)
    return parts - log_negative_binomial(n, total, log_odds)


def _dirichlet_multinomial_sample(key, shape, dtype, n, a):
    gamma_key, key = random.split(key)
    logs = log_gamma(gamma_key, a, shape, dtype)
    return multinomial_draw(key, n, jax.nn.softmax(logs), shape)


def _dirichlet_multinomial_variance(n, a):
    n = column(n.astype(a.dtype))
    total = jnp.sum(a, axis=-1, keepdims=True)
    p = a / total
    return n * p * (1 - p) * ((total + n) / (total + 1))


@family(
    support=lambda total_count, concentration: multinomial(total_count),
    log_prob=_dirichlet_multinomial_log_prob,
    sample=_dirichlet_multinomial_sample,
    mean=lambda n, a: column(n.astype(a.dtype)) * (a / jnp.sum(a, axis=-1, keepdims=True)),
    variance=_dirichlet_multinomial_variance,
    entropy=lambda n, a: dirichlet_multinomial_entropy(n.astype(a.dtype), a),
)
class DirichletMultinomial(Family):
    r"""Multinomial distribution whose probabilities have a Dirichlet distribution.

    `p(k) = n! Gamma(A) / Gamma(n + A) prod_i Gamma(k[i] + a[i]) / (k[i]! Gamma(a[i]))` for counts
    `k` that sum to `n = total_count`, with `a = concentration` and `A` its sum.

    Args:
        total_count: The number of trials, a nonnegative integer.
        concentration: The parameters of the Dirichlet distribution, positive, of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.DirichletMultinomial(total_count=2, concentration=jnp.ones(2))
    >>> print(draw.log_prob(jnp.array([1, 1])).round(4))
    -1.0986

    References:
        Johnson, Kotz and Balakrishnan, *Discrete Multivariate Distributions* (1997), section 35.13.
    """

    _: KW_ONLY
    total_count: ArrayLike = parameter(nonnegative_integer)
    concentration: ArrayLike = parameter(independent(positive, 1))
