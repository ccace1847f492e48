"""Formulas shared by NegativeBinomial and GammaPoisson: Poisson counts with a gamma rate.

Parameters are `r` (failures) with `logits` or `probs` of a success, or `mean` with `concentration`;
those that are not given are None.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from distributions.common.arrays import select
from distributions.numerics.count_tails import Tails, binomial_tails
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.loader_log_pmf import (
    column,
    entropy_of_counts,
    limit_of_spread,
    log_negative_binomial,
    poisson_draw,
)
from distributions.numerics.special import complement_of_exp, ratio, safe_log, safe_log1m, times_log


def negative_binomial_log_prob(
    y: Array, r: Any, logits: Any, probs: Any, mean: Any, concentration: Any
) -> Array:
    """`log(Gamma(y + r) / (Gamma(y + 1) Gamma(r)) p^y (1 - p)^r)`."""
    if mean is not None:
        log_odds = jnp.log(mean) - jnp.log(concentration)
        return log_negative_binomial(y.astype(mean.dtype), concentration, log_odds)
    if probs is None:
        return log_negative_binomial(y.astype(logits.dtype), jnp.asarray(r), logits)
    return _log_prob_by_probs(y.astype(probs.dtype), jnp.asarray(r), probs)


def _log_prob_by_probs(k, r, probs):
    """The log mass for `probs` from 0 to 1: at 0 only a count of 0 is possible, at 1 none."""
    inner = (probs > 0) & (probs < 1)
    possible = (probs < 1) & ((k == 0) | (probs > 0))
    p = select(inner, probs, 0.5)
    mass = log_negative_binomial(k, r, jnp.log(p) - jnp.log1p(-p))
    none = r * safe_log1m(select(probs < 1, probs, 0))
    return select(possible, select(k > 0, mass, none), -jnp.inf)


def negative_binomial_size(r: Any, logits: Any, probs: Any, mean: Any, concentration: Any) -> Any:
    """The number of failures `r`, which is the concentration of the gamma rate."""
    return r if mean is None else concentration


def negative_binomial_mean(r: Any, logits: Any, probs: Any, mean: Any, concentration: Any) -> Any:
    """`r p / (1 - p)`, or `mean` if it is given."""
    if mean is not None:
        return mean
    return r * (jnp.exp(logits) if probs is None else probs / (1 - probs))


def negative_binomial_sample(
    key: Array, shape: tuple[int, ...], dtype: Any, *parameters: Any
) -> Array:
    """Poisson draws with gamma rates of concentration `r` and the mean of the counts."""
    r = negative_binomial_size(*parameters)
    gamma_key, poisson_key = random.split(key)
    rate = gamma(gamma_key, r, shape, dtype) * (negative_binomial_mean(*parameters) / r)
    return poisson_draw(poisson_key, rate, shape)


def negative_binomial_tails(
    x: Array, r: Any, logits: Any, probs: Any, mean: Any, concentration: Any
) -> Tails:
    """`P(X <= x)` and `P(X > x)`, by the incomplete beta function `I_(1 - p)(r, x + 1)`."""
    if mean is not None:
        r = concentration
        logits = jnp.log(mean) - jnp.log(concentration)
    return binomial_tails(jnp.asarray(r), x + 1, logits, probs)


def _integral(r, mean):
    """`int_0^inf (1 - E exp(-k t)) (exp(-t) - exp(-r t)) / ((1 - exp(-t)) t) dt`.

    Trapezoidal rule over `log t`, with an error below 1e-12.
    """
    r = r[..., None]
    mean = mean[..., None]
    info = jnp.finfo(r.dtype)
    low = math.log(info.eps) - jnp.log1p(ratio(mean, r)) - jnp.log1p(r)
    low = lax.stop_gradient(jnp.maximum(low, math.log(info.tiny) + 1))
    high = lax.stop_gradient(math.log(40) - jnp.log(jnp.minimum(r, 1)))
    nodes = np.linspace(0, 1, 241).reshape((1,) * (r.ndim - 1) + (-1,)).astype(r.dtype)
    t = jnp.exp(low + (high - low) * nodes)
    some = complement_of_exp(-r * jnp.log1p(ratio(mean, r) * -jnp.expm1(-t)))
    gap = select(r < 1, 1 - r, r - 1)
    rest = jnp.exp(-jnp.minimum(r, 1) * t) * jnp.expm1(-gap * t) / jnp.expm1(-t)
    return jnp.mean(some * select(r < 1, -rest, rest), -1) * (241 / 240 * (high - low)[..., 0])


def negative_binomial_entropy(*parameters: Any) -> Array:
    """The entropy of negative binomial counts.

    | failures `r` | method                                                                  |
    | ------------ | ----------------------------------------------------------------------- |
    | few          | `r` times the entropy of a geometric variable, less an integral, by     |
    |              | Binet's formula for log-gammas                                          |
    | many         | `entropy_of_counts`                                                     |

    References:
        C. Knessl, "Integral representations and asymptotic expansions for Shannon and Renyi
        entropies", Applied Mathematics Letters 11 (1998), 69-74.
    """
    r, mean = jnp.broadcast_arrays(
        negative_binomial_size(*parameters), negative_binomial_mean(*parameters)
    )
    is_few = r < limit_of_spread(r.dtype)
    few = select(is_few, r, 1)
    many = select(is_few, limit_of_spread(r.dtype), r)
    log_failure = jnp.log1p(ratio(few, select(mean > 0, mean, 1)))
    geometric = few * jnp.log1p(ratio(mean, few)) + times_log(mean, log_failure)
    log_odds = column(safe_log(mean) - jnp.log(many))

    def score(k):
        return log_negative_binomial(k, column(many), log_odds)

    sd = jnp.sqrt(mean) * jnp.sqrt(1 + mean / many)
    total = entropy_of_counts(score, mean, sd, 1 + 2 * (mean / many))
    return select(is_few, geometric - _integral(few, mean), total)
