"""The Bernoulli distribution."""

from dataclasses import KW_ONLY

from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import boolean, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.bernoulli_functions import (
    bernoulli_entropy,
    bernoulli_log_probs,
    bernoulli_probability,
)
from distributions.numerics.softplus import softplus
from distributions.numerics.special import safe_log, safe_log1m


def _bernoulli_log_prob(y, logits, probs):
    if probs is None:
        return y.astype(logits.dtype) * logits - softplus(logits)
    return select(y == 1, safe_log(probs), safe_log1m(probs))


def _bernoulli_variance(logits, probs):
    return lax.logistic(logits) * lax.logistic(-logits) if probs is None else probs * (1 - probs)


@family(
    support=boolean,
    one_of=("logits", "probs"),
    log_prob=_bernoulli_log_prob,
    sample=lambda key, shape, dtype, logits, probs: random.bernoulli(
        key, bernoulli_probability(logits, probs), shape
    ),
    mean=bernoulli_probability,
    variance=_bernoulli_variance,
    mode=lambda logits, probs: logits > 0 if probs is None else probs > 0.5,
    entropy=lambda *parameters: bernoulli_entropy(*bernoulli_log_probs(*parameters)),
    cdf=lambda x, logits, probs: lax.logistic(-logits) if probs is None else 1 - probs,
    survival=lambda x, *parameters: bernoulli_probability(*parameters),
    log_cdf=lambda x, *parameters: bernoulli_log_probs(*parameters)[0],
    log_survival=lambda x, *parameters: bernoulli_log_probs(*parameters)[1],
)
class Bernoulli(Family):
    r"""Bernoulli distribution: 1 with probability `probs`, otherwise 0.

    `p(1) = probs = 1 / (1 + exp(-logits))`.

    Args:
        logits: The log odds of 1.
        probs: The probability of 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Bernoulli(logits=0.0).log_prob(jnp.array([0, 1, 2])).round(4))
    [-0.6931 -0.6931    -inf]

    References:
        McCullagh and Nelder, *Generalized Linear Models*, 2nd ed. (1989), chapter 4.
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
