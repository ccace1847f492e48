"""Categories relaxed to numbers from 0 to 1: RelaxedBernoulli, RelaxedOneHotCategorical."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.categories import _log_probs
from distributions.constraints import (
    open_interval,
    open_simplex,
    positive,
    real,
    real_vector,
)
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import safe_log, safe_log1m
from distributions.special_counts import column


def _logit(x):
    return jnp.log(x) - jnp.log1p(-x)


def _log_odds(logits, probs):
    return safe_log(probs) - safe_log1m(probs) if logits is None else logits


def _relaxed_bernoulli_log_prob(x, temperature, *parameters):
    z = temperature * _logit(x) - _log_odds(*parameters)
    log_density = jnp.log(temperature) - jax.nn.softplus(z) - jax.nn.softplus(-z)
    return log_density - jnp.log(x) - jnp.log1p(-x)


def _inside(x):
    """Draws that are rounded to an end of the interval, brought back."""
    info = jnp.finfo(x.dtype)
    return jnp.clip(x, info.tiny, 1 - info.epsneg)


def _relaxed_bernoulli_sample(key, shape, dtype, temperature, *parameters):
    noise = random.logistic(key, shape, dtype)
    return _inside(lax.logistic((_log_odds(*parameters) + noise) / temperature))


@family(
    support=open_interval(0.0, 1.0),
    one_of=("logits", "probs"),
    log_prob=_relaxed_bernoulli_log_prob,
    sample=_relaxed_bernoulli_sample,
    cdf=lambda x, t, *p: lax.logistic(t * _logit(x) - _log_odds(*p)),
    survival=lambda x, t, *p: lax.logistic(_log_odds(*p) - t * _logit(x)),
    log_cdf=lambda x, t, *p: -jax.nn.softplus(_log_odds(*p) - t * _logit(x)),
    log_survival=lambda x, t, *p: -jax.nn.softplus(t * _logit(x) - _log_odds(*p)),
    quantile=lambda q, t, *p: lax.logistic((_log_odds(*p) + _logit(q)) / t),
)
class RelaxedBernoulli(Family):
    r"""Logistic function of a logistic variable: a Bernoulli variable as `temperature` goes to 0.

    `x = 1 / (1 + exp(-z))` where `z temperature - logits` has the standard logistic distribution,
    for `0 < x < 1`. Draws are differentiable in the parameters.

    Args:
        temperature: Positive; the higher it is, the less do draws gather at 0 and 1.
        logits: The log odds of 1.
        probs: The probability of 1; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.RelaxedBernoulli(0.5, logits=0.0).log_prob(0.5)), 4)
    -0.6931

    References:
        C. J. Maddison, A. Mnih and Y. W. Teh, "The concrete distribution: a continuous relaxation
        of discrete random variables", ICLR (2017), appendix B.
    """

    temperature: ArrayLike = parameter(positive)
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(open_interval(0.0, 1.0), default=None)


def _relaxed_one_hot_log_prob(x, temperature, *parameters):
    log_x, n = jnp.log(x), x.shape[-1]
    z = _log_probs(*parameters) - column(temperature) * log_x
    constant = lax.lgamma(jnp.asarray(n, x.dtype)) + (n - 1) * jnp.log(temperature)
    return constant + jnp.sum(z - log_x, axis=-1) - n * jax.nn.logsumexp(z, axis=-1)


def _relaxed_one_hot_sample(key, shape, dtype, temperature, *parameters):
    noisy = _log_probs(*parameters) + random.gumbel(key, shape, dtype)
    draws = jax.nn.softmax(noisy / column(temperature))
    return jnp.maximum(draws, jnp.finfo(dtype).tiny)


@family(
    support=open_simplex,
    one_of=("logits", "probs"),
    log_prob=_relaxed_one_hot_log_prob,
    sample=_relaxed_one_hot_sample,
)
class RelaxedOneHotCategorical(Family):
    r"""Softmax of Gumbel variables: a one-hot category as `temperature` goes to 0.

    `p(x) = Gamma(n) t^(n - 1) (sum_i w_i x_i^-t)^-n prod_i w_i x_i^(-t - 1)` on the open simplex,
    with `t = temperature` and weights `w = probs` or `exp(logits)`. Draws are differentiable in the
    parameters.

    Args:
        temperature: Positive; the higher it is, the less do draws gather at the corners.
        logits: Log weights of shape `(..., n)`, finite, normalised or not.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> relaxed = dist.RelaxedOneHotCategorical(0.5, probs=jnp.array([0.5, 0.5]))
    >>> print(relaxed.log_prob(jnp.array([0.5, 0.5])).round(4))
    -0.6931

    References:
        C. J. Maddison, A. Mnih and Y. W. Teh, "The concrete distribution: a continuous relaxation
        of discrete random variables", ICLR (2017), equation 10.
    """

    temperature: ArrayLike = parameter(positive)
    logits: ArrayLike | None = parameter(real_vector, default=None)
    probs: ArrayLike | None = parameter(open_simplex, default=None)
