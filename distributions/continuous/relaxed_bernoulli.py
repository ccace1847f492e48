"""The relaxed Bernoulli (binary concrete) distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.point import log_complement_of, log_of, logit_of
from distributions.constraints import open_interval, positive, real
from distributions.core.family import Family, family, parameter
from distributions.numerics.special import safe_log, safe_log1m


def _log_odds(logits, probs):
    return safe_log(probs) - safe_log1m(probs) if logits is None else logits


def _relaxed_bernoulli_log_prob(x, temperature, *parameters):
    z = temperature * logit_of(x) - _log_odds(*parameters)
    log_density = jnp.log(temperature) - jax.nn.softplus(z) - jax.nn.softplus(-z)
    return log_density - log_of(x) - log_complement_of(x)


def _inside(x):
    """Draws, brought back into the interval where they were rounded to an end."""
    info = jnp.finfo(x.dtype)
    return jnp.clip(x, info.tiny, 1 - info.epsneg)


def _relaxed_bernoulli_sample(key, shape, dtype, temperature, *parameters):
    noise = random.logistic(key, shape, dtype)
    return _inside(lax.logistic((_log_odds(*parameters) + noise) / temperature))


@family(
    support=open_interval(0.0, 1.0),
    has_steep_ends=True,
    one_of=("logits", "probs"),
    log_prob=_relaxed_bernoulli_log_prob,
    reads_points=True,
    sample=_relaxed_bernoulli_sample,
    log_cdf=lambda x, t, *p: -jax.nn.softplus(_log_odds(*p) - t * logit_of(x)),
    log_survival=lambda x, t, *p: -jax.nn.softplus(t * logit_of(x) - _log_odds(*p)),
    quantile=lambda q, t, *p: lax.logistic((_log_odds(*p) + logit_of(q)) / t),
)
class RelaxedBernoulli(Family):
    r"""Relaxed Bernoulli (binary concrete) distribution: Bernoulli as `temperature` goes to 0.

    `x = 1 / (1 + exp(-z))` where `z temperature - logits` has the standard logistic distribution,
    for `0 < x < 1`. Draws are differentiable in the parameters.

    Args:
        temperature: The temperature, positive: the higher, the fewer draws lie near 0 and 1.
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
    _: KW_ONLY
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(open_interval(0.0, 1.0), default=None)
