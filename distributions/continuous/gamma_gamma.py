"""The gamma-gamma (scaled beta prime) distribution."""

import jax.numpy as jnp
from jax import random
from jax.nn import log_sigmoid
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LocationScale
from distributions.numerics.beta_functions import beta_entropy
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.incomplete_gamma_beta import log_betainc
from distributions.numerics.loader_kernels import log_beta_kernel
from distributions.numerics.power_law_functions import where_finite
from distributions.numerics.special import clip_positive


def _odds(x, scale):
    """The logarithms of `z / (1 + z)` and `1 / (1 + z)` for `z = x / scale`."""
    log_z = jnp.log(x) - jnp.log(scale)
    return log_sigmoid(log_z), log_sigmoid(-log_z)


def _gamma_gamma_sample(key, shape, dtype, a, b, scale):
    first, second = random.split(key)
    upper = log_gamma(first, a, shape, dtype)
    lower = log_gamma(second, b, shape, dtype)
    return clip_positive(scale * jnp.exp(upper - lower))


def _gamma_gamma_log_prob(x, a, b, scale):
    log_y, log_rest = _odds(x, scale)
    shift = a * (scale / (x + scale)) - b * (x / (x + scale))
    return log_beta_kernel(a, b, log_y, log_rest, shift) - jnp.log(x)


def _gamma_gamma_entropy(a, b, scale):
    return jnp.log(scale) + beta_entropy(a, b, 1.0, -1.0)


@family(
    support=positive,
    log_prob=_gamma_gamma_log_prob,
    sample=_gamma_gamma_sample,
    mean=lambda a, b, scale: scale * a * where_finite(b, 1, lambda b: 1 / (b - 1)),
    variance=lambda a, b, scale: (
        jnp.square(scale)
        * a
        * where_finite(b, 2, lambda b: (a + b - 1) / jnp.square(b - 1) / (b - 2))
    ),
    mode=lambda a, b, scale: scale * jnp.maximum(a - 1, 0) / (b + 1),
    entropy=_gamma_gamma_entropy,
    log_cdf=lambda x, a, b, scale: log_betainc(a, b, *_odds(x, scale))[0],
    log_survival=lambda x, a, b, scale: log_betainc(a, b, *_odds(x, scale))[1],
    standard=LocationScale(scales=("mixing_rate",)),
)
class GammaGamma(Family):
    r"""Gamma distribution whose rate has a gamma distribution: a scaled beta prime distribution.

    `p(x) = z^(a - 1) (1 + z)^(-a - b) / (c B(a, b))` for `x > 0`, with `z = x / c`,
    `a = concentration`, `b = mixing_concentration` and `c = mixing_rate`.

    Args:
        concentration: The shape of the variable, positive.
        mixing_concentration: The shape of the rate, positive: moments exist below it.
        mixing_rate: The rate parameter of the rate's own distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.GammaGamma(1.0, 1.0, 1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Fader and Hardie, "The Gamma-Gamma model of monetary value" (2013).
    """

    concentration: ArrayLike = parameter(positive)
    mixing_concentration: ArrayLike = parameter(positive)
    mixing_rate: ArrayLike = parameter(positive)
