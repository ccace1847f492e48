"""The Dagum distribution of incomes."""

import jax.numpy as jnp
from jax.nn import log_sigmoid, softplus
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions.common.point import log_of
from distributions.constraints import positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.gamma_functions import log_beta
from distributions.numerics.power_law_functions import where_finite
from distributions.numerics.special import EULER_GAMMA, log1mexp


def _dagum_moment(p, a, order):
    return where_finite(a, order, lambda a: p * jnp.exp(log_beta(p + order / a, 1 - order / a)))


def _dagum_entropy(p, a, scale):
    mean_logit = digamma(p) + EULER_GAMMA
    total = digamma(p + 1) + EULER_GAMMA
    return (1 / a - p) * mean_logit + (p + 1) * total - jnp.log(p * a / scale)


def _dagum_log_cdf(x, p, a, scale):
    return p * log_sigmoid(a * (log_of(x) - jnp.log(scale)))


def _dagum_quantile(q, p, a, scale):
    t = -jnp.log(q) / p
    return scale * jnp.exp(-(t + log1mexp(-t)) / a)  # exp(t) - 1 may overflow


def _dagum_mode(p, a, scale):
    inner = a * p > 1
    ratio = jnp.where(inner, a * p - 1, 1) / (a + 1)
    return jnp.where(inner, scale * jnp.power(ratio, 1 / a), 0)


@family(
    support=positive,
    has_steep_ends=True,
    reads_points=True,
    log_prob=lambda x, p, a, scale: (
        _dagum_log_cdf(x, p, a, scale)
        - softplus(a * (log_of(x) - jnp.log(scale)))
        + jnp.log(p)
        + jnp.log(a)
        - log_of(x)
    ),
    mean=lambda p, a, scale: scale * _dagum_moment(p, a, 1),
    variance=lambda p, a, scale: (
        jnp.square(scale)
        * where_finite(a, 2, lambda a: _dagum_moment(p, a, 2) - jnp.square(_dagum_moment(p, a, 1)))
    ),
    mode=_dagum_mode,
    entropy=_dagum_entropy,
    log_cdf=_dagum_log_cdf,
    quantile=_dagum_quantile,
    standard=SCALE,
)
class Dagum(Family):
    r"""Dagum distribution of incomes: its `cdf` is a power of a log-logistic one.

    `p(x) = (a p / x) y^(a p) / (1 + y^a)^(p + 1)` for `x > 0`, with `y = x / scale`,
    `p = concentration` and `a = sharpness`.

    Args:
        concentration: The power, positive.
        sharpness: The exponent of the tail, positive: moments exist below it.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Dagum(1.0, 2.0, 1.0).log_prob(1.0)), 4)
    -0.6931

    References:
        Kleiber and Kotz, *Statistical Size Distributions in Economics and Actuarial Sciences*
        (2003), section 6.3.
    """

    concentration: ArrayLike = parameter(positive)
    sharpness: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
