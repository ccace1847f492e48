"""The Bernoulli distribution by the probit of its probability."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import boolean, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.bernoulli_functions import bernoulli_entropy
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import safe_log, safe_log1m


def _probit_log_probs(probits, probs):
    if probs is None:
        return log_ndtr(jnp.asarray(-probits)), log_ndtr(jnp.asarray(probits))
    return safe_log1m(probs), safe_log(probs)


def _probit_probability(probits, probs):
    return ndtr(probits) if probs is None else probs


def _probit_log_prob(y, probits, probs):
    if probs is None:
        return log_ndtr(select(y == 1, probits, -probits))
    return select(y == 1, safe_log(probs), safe_log1m(probs))


@family(
    support=boolean,
    one_of=("probits", "probs"),
    log_prob=_probit_log_prob,
    sample=lambda key, shape, dtype, probits, probs: random.bernoulli(
        key, _probit_probability(probits, probs), shape
    ),
    mean=_probit_probability,
    variance=lambda probits, probs: (
        ndtr(probits) * ndtr(-probits) if probs is None else probs * (1 - probs)
    ),
    mode=lambda probits, probs: probits > 0 if probs is None else probs > 0.5,
    entropy=lambda *parameters: bernoulli_entropy(*_probit_log_probs(*parameters)),
    cdf=lambda x, probits, probs: ndtr(-probits) if probs is None else 1 - probs,
    survival=lambda x, *parameters: _probit_probability(*parameters),
    log_cdf=lambda x, *parameters: _probit_log_probs(*parameters)[0],
    log_survival=lambda x, *parameters: _probit_log_probs(*parameters)[1],
)
class ProbitBernoulli(Family):
    r"""Bernoulli distribution, parameterized by the probit of its probability.

    `p(1) = probs = Phi(probits)`, the standard normal distribution function.

    Args:
        probits: The quantile of the standard normal distribution at `probs`.
        probs: The probability of 1; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.ProbitBernoulli(probits=1.0).log_prob(1)), 4)
    -0.1728

    References:
        McCullagh and Nelder, *Generalized Linear Models*, 2nd ed. (1989), section 4.3.
    """

    _: KW_ONLY
    probits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
