"""The distribution of the logarithm of a gamma variable."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.scipy.special import digamma, polygamma
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.exp_gamma_functions import (
    exp_gamma_entropy,
    exp_gamma_log_prob,
    exp_gamma_log_tails,
    log_or_given,
)
from distributions.numerics.gamma_sampler import log_gamma


@family(
    support=real,
    has_finite_slopes=True,
    one_of=("rate", "log_rate"),
    log_prob=lambda x, a, *rate: exp_gamma_log_prob(x + log_or_given(*rate), a),
    sample=lambda key, shape, dtype, a, *rate: (
        log_gamma(key, a, shape, dtype) - log_or_given(*rate)
    ),
    mean=lambda a, *rate: digamma(a) - log_or_given(*rate),
    variance=lambda a, *rate: polygamma(1, a) + 0 * log_or_given(*rate),
    mode=lambda a, *rate: jnp.log(a) - log_or_given(*rate),
    entropy=lambda a, *rate: exp_gamma_entropy(a) + 0 * log_or_given(*rate),
    log_cdf=lambda x, a, *rate: exp_gamma_log_tails(x + log_or_given(*rate), a)[0],
    log_survival=lambda x, a, *rate: exp_gamma_log_tails(x + log_or_given(*rate), a)[1],
    standard=Factor(
        lambda z, a, *rate: z - log_or_given(*rate),
        lambda x, a, *rate: x + log_or_given(*rate),
        lambda d: {"rate": jnp.ones(d.batch_shape, d.dtype), "log_rate": None},
    ),
)
class ExpGamma(Family):
    r"""Exp-gamma distribution: the logarithm of a gamma variable.

    `p(x) = exp(a y - exp(y)) / Gamma(a)` for real `x`, with `y = x + log_rate` and
    `a = concentration`.

    Args:
        concentration: The shape of the gamma variable, positive.
        rate: The rate of the gamma variable, positive.
        log_rate: The logarithm of the rate; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.ExpGamma(1.0, 1.0).log_prob(0.0)), 4)
    -1.0

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike | None = parameter(positive, default=None)
    _: KW_ONLY
    log_rate: ArrayLike | None = parameter(real, default=None)
