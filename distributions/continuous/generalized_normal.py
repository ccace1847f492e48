"""The generalized normal (exponential power) distribution."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.special import LOG_TWO, ratio, safe_exp


def _distance(x, loc):
    return jnp.where(x < loc, loc - x, x - loc)


def _power(x, loc, scale, power):
    """`|z|^power`."""
    size = _distance(x, loc)
    log_size = jnp.log(jnp.where(size == 0, 1, size)) - jnp.log(scale)
    at_center = jnp.where(power == 2, jnp.square((x - loc) / scale), 0)  # It alone has a curvature.
    return jnp.where(size == 0, at_center, safe_exp(power * log_size))


def _generalized_normal_log_survival(x, loc, scale, power):
    u = _power(x, loc, scale, power)
    near = u < 1e-3
    # The series of the incomplete gamma function, whose factor `|z|` has a slope at the center.
    v = jnp.where(near, u, 0)
    series = sum((-v) ** k / (math.factorial(k) * (1 + k * power)) for k in range(6))
    density = jnp.exp(-lax.lgamma(1 + 1 / power))
    inner = density * series * ratio(jnp.where(near, _distance(x, loc), 0), scale)
    outer = log_gammainc(1 / power, jnp.where(near, 1, u))[1]
    outer = jnp.where(near, jnp.log1p(-inner), outer)
    return jnp.where(x < loc, jnp.log1p(-0.5 * jnp.exp(outer)), outer - LOG_TWO)


def _generalized_normal_sample(key, shape, dtype, loc, scale, power):
    first, second = random.split(key)
    log_size = log_gamma(first, 1 / power, shape, dtype) / power
    return loc + scale * jnp.exp(log_size) * random.rademacher(second, shape, dtype)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale, power: (
        -_power(x, loc, scale, power) - jnp.log(scale) - LOG_TWO - lax.lgamma(1 + 1 / power)
    ),
    sample=_generalized_normal_sample,
    mean=lambda loc, scale, power: loc,
    variance=lambda loc, scale, power: (
        jnp.square(scale) * jnp.exp(lax.lgamma(3 / power) - lax.lgamma(1 / power))
    ),
    mode=lambda loc, scale, power: loc,
    entropy=lambda loc, scale, power: (
        1 / power + LOG_TWO + jnp.log(scale) + lax.lgamma(1 + 1 / power)
    ),
    log_cdf=lambda x, loc, *p: _generalized_normal_log_survival(-x, -loc, *p),
    log_survival=_generalized_normal_log_survival,
    standard=LOCATION_SCALE,
)
class GeneralizedNormal(Family):
    r"""Generalized normal (exponential power) distribution: Laplace and normal among them.

    `p(x) = power exp(-|x - loc|^power / scale^power) / (2 scale Gamma(1 / power))` for real `x`.

    Args:
        loc: The mean.
        scale: The scale, positive.
        power: The shape, positive: 1 is a Laplace, 2 a normal distribution.

    >>> import distributions as dist
    >>> round(float(dist.GeneralizedNormal(0.0, 1.0, 1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Nadarajah, "A generalized normal distribution", Journal of Applied Statistics 32 (2005).
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    power: ArrayLike = parameter(positive)
