"""The distribution of the logarithm of an inverse gamma variable."""

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
    one_of=("scale", "log_scale"),
    log_prob=lambda x, a, *scale: exp_gamma_log_prob(log_or_given(*scale) - x, a),
    sample=lambda key, shape, dtype, a, *scale: (
        log_or_given(*scale) - log_gamma(key, a, shape, dtype)
    ),
    mean=lambda a, *scale: log_or_given(*scale) - digamma(a),
    variance=lambda a, *scale: polygamma(1, a) + 0 * log_or_given(*scale),
    mode=lambda a, *scale: log_or_given(*scale) - jnp.log(a),
    entropy=lambda a, *scale: exp_gamma_entropy(a) + 0 * log_or_given(*scale),
    log_cdf=lambda x, a, *scale: exp_gamma_log_tails(log_or_given(*scale) - x, a)[1],
    log_survival=lambda x, a, *scale: exp_gamma_log_tails(log_or_given(*scale) - x, a)[0],
    standard=Factor(
        lambda z, a, *scale: z + log_or_given(*scale),
        lambda x, a, *scale: x - log_or_given(*scale),
        lambda d: {"scale": jnp.ones(d.batch_shape, d.dtype), "log_scale": None},
    ),
)
class ExpInverseGamma(Family):
    r"""Exp-inverse-gamma distribution: the logarithm of an inverse gamma variable.

    `p(x) = exp(a y - exp(y)) / Gamma(a)` for real `x`, with `y = log_scale - x` and
    `a = concentration`.

    Args:
        concentration: The shape of the inverse gamma variable, positive.
        scale: The scale of the inverse gamma variable, positive.
        log_scale: The logarithm of the scale; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.ExpInverseGamma(1.0, 1.0).log_prob(0.0)), 4)
    -1.0

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive, default=None)
    _: KW_ONLY
    log_scale: ArrayLike | None = parameter(real, default=None)
