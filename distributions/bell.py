"""Bells of other shapes: SoftLaplace, Moyal, GeneralizedNormal, DoublesidedMaxwell."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from distributions._gamma_draw import log_gamma
from distributions.constraints import positive, real
from distributions.family import Family, family
from distributions.incomplete import log_gammainc
from distributions.normal_functions import log_ndtr
from distributions.row import parameter
from distributions.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    ratio,
    safe_log,
)


def _log_arctan_exp(z):
    """`log(2 / pi arctan(exp(z)))`."""
    far = z < -18
    inner = jnp.log(jnp.arctan(jnp.exp(jnp.where(far, 0, z))))
    return LOG_TWO - LOG_PI + jnp.where(far, z, inner)


def _log_tan_half(q):
    """`log tan(pi q / 2)`."""
    size = jnp.log(jnp.tan(0.5 * math.pi * jnp.where(q < 0.5, q, 1 - q)))
    return jnp.where(q < 0.5, size, -size)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        LOG_TWO
        - LOG_PI
        - jnp.log(scale)
        - jnp.logaddexp(bounded_ratio(x - loc, scale), bounded_ratio(loc - x, scale))
    ),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(0.5 * math.pi * scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_TWO + LOG_PI + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _log_arctan_exp(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: _log_arctan_exp(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * _log_tan_half(q),
)
class SoftLaplace(Family):
    r"""Hyperbolic secant distribution: smooth at its mode, with the tails of a Laplace.

    `p(x) = 2 / (pi scale (exp(z) + exp(-z)))` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mean.
        scale: The scale, positive; the standard deviation is `scale pi / 2`.

    >>> import distributions as dist
    >>> round(float(dist.SoftLaplace(0.0, 1.0).log_prob(0.0)), 4)
    -1.1447

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23,
        section 11.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _moyal_quantile(q, loc, scale):
    lower = -ndtri(0.5 * jnp.where(q < 0.5, q, 0.5))
    upper = math.sqrt(2) * lax.erf_inv(1 - jnp.where(q < 0.5, 0.5, q))
    return loc - 2 * scale * jnp.log(jnp.where(q < 0.5, lower, upper))


def _moyal_log_survival(x, loc, scale):
    root = 0.5 * ratio(loc - x, scale)
    far = root < -10
    inner = jnp.log(lax.erf(math.sqrt(0.5) * jnp.exp(jnp.where(far, 0, root))))
    return jnp.where(far, LOG_TWO - LOG_SQRT_TWO_PI + root, inner)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        -0.5 * (bounded_ratio(x - loc, scale) + jnp.exp(bounded_ratio(loc - x, scale)))
        - jnp.log(scale)
        - LOG_SQRT_TWO_PI
    ),
    mean=lambda loc, scale: loc + scale * (EULER_GAMMA + LOG_TWO),
    variance=lambda loc, scale: 0.5 * jnp.square(math.pi * scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 0.5 * (1 + EULER_GAMMA + LOG_TWO) + LOG_SQRT_TWO_PI + jnp.log(scale),
    log_cdf=lambda x, loc, scale: LOG_TWO + log_ndtr(-jnp.exp(0.5 * ratio(loc - x, scale))),
    log_survival=_moyal_log_survival,
    quantile=_moyal_quantile,
)
class Moyal(Family):
    r"""Moyal distribution, of the energy loss of a particle: an approximation to Landau's.

    `p(x) = exp(-(z + exp(-z)) / 2) / (scale sqrt(2 pi))` for real `x`, with
    `z = (x - loc) / scale`.

    Args:
        loc: The mode.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Moyal(0.0, 1.0).log_prob(0.0)), 4)
    -1.4189

    References:
        Moyal, "Theory of ionization fluctuations", Philosophical Magazine 46 (1955), 263-280.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _power(x, loc, scale, power):
    """`|z|^power`."""
    size = jnp.abs(x - loc)
    log_size = jnp.log(jnp.where(size == 0, 1, size)) - jnp.log(scale)
    return jnp.where(size == 0, 0, jnp.exp(power * log_size))


def _generalized_normal_log_survival(x, loc, scale, power):
    u = _power(x, loc, scale, power)
    inner, outer = log_gammainc(1 / power, jnp.where(u > 0, u, 1))
    tail = jnp.where(x > loc, outer, jnp.log1p(jnp.exp(inner))) - LOG_TWO
    return jnp.where(u > 0, tail, -LOG_TWO)


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


def _maxwell_log_survival(x, loc, scale):
    z = ratio(x - loc, scale)
    size = jnp.abs(z)
    log_density = -0.5 * jnp.square(z) - LOG_SQRT_TWO_PI
    upper = jnp.logaddexp(log_ndtr(-size), safe_log(size) + log_density)
    return jnp.where(z > 0, upper, jnp.log1p(-jnp.exp(upper)))


def _maxwell_sample(key, shape, dtype, loc, scale):
    first, second = random.split(key)
    size = jnp.sqrt(jnp.sum(jnp.square(random.normal(first, (3, *shape), dtype)), axis=0))
    return loc + scale * size * random.rademacher(second, shape, dtype)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        2 * safe_log(bounded_ratio(jnp.abs(x - loc), scale))
        - 0.5 * jnp.square(bounded_ratio(x - loc, scale))
        - jnp.log(scale)
        - LOG_SQRT_TWO_PI
    ),
    sample=_maxwell_sample,
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: 3 * jnp.square(scale),
    mode=lambda loc, scale: loc + math.sqrt(2) * scale,
    entropy=lambda loc, scale: LOG_SQRT_TWO_PI + EULER_GAMMA + LOG_TWO - 0.5 + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _maxwell_log_survival(-x, -loc, scale),
    log_survival=_maxwell_log_survival,
)
class DoublesidedMaxwell(Family):
    r"""Maxwell distribution with a random sign.

    `p(x) = z^2 exp(-z^2 / 2) / (scale sqrt(2 pi))` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mean, around which there is no mass; the modes are at `loc +- sqrt(2) scale`.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.DoublesidedMaxwell(0.0, 1.0).log_prob(1.0)), 4)
    -1.4189

    References:
        Bal, Karunakara and Joshi, "On double sided Maxwell distribution" (2009).
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
