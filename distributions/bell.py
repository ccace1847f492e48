"""Bells with other tails: SoftLaplace, Moyal, GeneralizedNormal, JohnsonSU, SinhArcsinh, Maxwell."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from distributions._derive import transformed
from distributions.constraints import positive, real
from distributions.family import Family, family, parameter
from distributions.incomplete import log_gammainc
from distributions.real_line import Normal
from distributions.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    argmax,
    log_ndtr,
    normal_expectation,
    safe_log,
)


def _log_arctan_exp(z):
    """`log(2 / pi arctan(exp(z)))`."""
    far = z < -18
    inner = jnp.log(jnp.arctan(jnp.exp(jnp.where(far, 0, z))))
    return LOG_TWO - LOG_PI + jnp.where(far, z, inner)


def _log_tan_half(q):
    """`log tan(pi q / 2)`."""
    size = jnp.log(jnp.tan(0.5 * math.pi * jnp.minimum(q, 1 - q)))
    return jnp.where(q > 0.5, -size, size)


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        LOG_TWO - LOG_PI - jnp.log(scale) - jnp.logaddexp((x - loc) / scale, (loc - x) / scale)
    ),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(0.5 * math.pi * scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_TWO + LOG_PI + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _log_arctan_exp((x - loc) / scale),
    log_survival=lambda x, loc, scale: _log_arctan_exp((loc - x) / scale),
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
    lower = -ndtri(0.5 * jnp.minimum(q, 0.5))
    upper = math.sqrt(2) * lax.erf_inv(1 - jnp.maximum(q, 0.5))
    return loc - 2 * scale * jnp.log(jnp.where(q < 0.5, lower, upper))


def _moyal_log_survival(x, loc, scale):
    root = 0.5 * (loc - x) / scale
    far = root < -10
    inner = jnp.log(lax.erf(math.sqrt(0.5) * jnp.exp(jnp.where(far, 0, root))))
    return jnp.where(far, LOG_TWO - LOG_SQRT_TWO_PI + root, inner)


@family(
    support=real,
    tfp="Moyal",
    log_prob=lambda x, loc, scale: (
        -0.5 * ((x - loc) / scale + jnp.exp((loc - x) / scale)) - jnp.log(scale) - LOG_SQRT_TWO_PI
    ),
    mean=lambda loc, scale: loc + scale * (EULER_GAMMA + LOG_TWO),
    variance=lambda loc, scale: 0.5 * jnp.square(math.pi * scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 0.5 * (1 + EULER_GAMMA + LOG_TWO) + LOG_SQRT_TWO_PI + jnp.log(scale),
    log_cdf=lambda x, loc, scale: LOG_TWO + log_ndtr(-jnp.exp(0.5 * (loc - x) / scale)),
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
    size = jnp.abs(x - loc) / scale
    return jnp.where(size > 0, jnp.exp(power * jnp.log(jnp.where(size > 0, size, 1))), 0)


def _generalized_normal_log_survival(x, loc, scale, power):
    u = _power(x, loc, scale, power)
    inner, outer = log_gammainc(1 / power, jnp.where(u > 0, u, 1))
    tail = jnp.where(x > loc, outer, jnp.log1p(jnp.exp(inner))) - LOG_TWO
    return jnp.where(u > 0, tail, -LOG_TWO)


def _generalized_normal_sample(key, shape, dtype, loc, scale, power):
    first, second = random.split(key)
    log_size = random.loggamma(first, 1 / power, shape, dtype) / power
    return loc + scale * jnp.exp(log_size) * random.rademacher(second, shape, dtype)


@family(
    support=real,
    tfp="GeneralizedNormal",
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
    z = (x - loc) / scale
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
    tfp="DoublesidedMaxwell",
    log_prob=lambda x, loc, scale: (
        2 * safe_log(jnp.abs(x - loc) / scale)
        - 0.5 * jnp.square((x - loc) / scale)
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


def _johnson_variance(skewness, tailweight, loc, scale):
    w = 1 / jnp.square(tailweight)
    spread = jnp.exp(w) * jnp.cosh(2 * skewness / tailweight) + 1
    return 0.5 * jnp.square(scale) * jnp.expm1(w) * spread


def _johnson_log_det(x, skewness, tailweight, loc, scale):
    z = (x - loc) / scale
    return jnp.log(tailweight) - jnp.log(scale) - jnp.log(jnp.hypot(1, z))


def _log_cosh(y):
    return jnp.logaddexp(y, -y) - LOG_TWO


def _johnson_mode(skewness, tailweight, loc, scale):
    skewness, tailweight = jnp.broadcast_arrays(skewness, tailweight)
    centre = -skewness / tailweight

    def score(y):
        return -0.5 * jnp.square(tailweight[..., None] * (y - centre[..., None])) - _log_cosh(y)

    y = argmax(score, jnp.minimum(centre, 0), jnp.maximum(centre, 0))
    return loc + scale * jnp.sinh(y)


@family(
    support=real,
    tfp="JohnsonSU",
    **transformed(
        Normal,
        forward=lambda z, skewness, tailweight, loc, scale: (
            loc + scale * jnp.sinh((z - skewness) / tailweight)
        ),
        inverse=lambda x, skewness, tailweight, loc, scale: (
            skewness + tailweight * jnp.arcsinh((x - loc) / scale)
        ),
        log_det=_johnson_log_det,
        to_base=lambda skewness, tailweight, loc, scale: (0 * loc, jnp.ones_like(scale)),
        mean=lambda skewness, tailweight, loc, scale: (
            loc - scale * jnp.exp(0.5 / jnp.square(tailweight)) * jnp.sinh(skewness / tailweight)
        ),
        variance=_johnson_variance,
        mode=_johnson_mode,
        entropy=lambda skewness, tailweight, loc, scale: (
            0.5
            + LOG_SQRT_TWO_PI
            + jnp.log(scale / tailweight)
            + normal_expectation(_log_cosh, -skewness / tailweight, 1 / tailweight)
        ),
    ),
)
class JohnsonSU(Family):
    r"""Johnson's SU distribution: of a scaled hyperbolic sine of a normal variable.

    `p(x) = tailweight exp(-(skewness + tailweight asinh(z))^2 / 2) / (scale sqrt(2 pi (1 + z^2)))`
    for real `x`, with `z = (x - loc) / scale`.

    Args:
        skewness: The mean of the normal variable, with the sign changed.
        tailweight: The larger, the lighter the tails; positive.
        loc: The location.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.JohnsonSU(0.0, 1.0, 0.0, 1.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Johnson, "Systems of frequency curves generated by methods of translation", Biometrika 36
        (1949), 149-176.
    """

    skewness: ArrayLike = parameter(real)
    tailweight: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _sinh_arcsinh(z, skewness, tailweight):
    """`sinh(tailweight (asinh z + skewness))`, scaled to keep 2 where it is without skewness."""
    y = tailweight * (jnp.arcsinh(z) + skewness)
    return 2 * jnp.sinh(y) / jnp.sinh(tailweight * math.asinh(2))


def _sinh_arcsinh_inverse(x, loc, scale, skewness, tailweight):
    unit = (x - loc) / scale * (0.5 * jnp.sinh(tailweight * math.asinh(2)))
    return jnp.sinh(jnp.arcsinh(unit) / tailweight - skewness)


def _sinh_arcsinh_log_det(x, loc, scale, skewness, tailweight):
    factor = 0.5 * jnp.sinh(tailweight * math.asinh(2))
    unit = (x - loc) / scale * factor
    y = jnp.arcsinh(unit) / tailweight - skewness
    ratio = jnp.log(factor) - jnp.log(scale) - jnp.log(tailweight)
    return _log_cosh(y) - jnp.log(jnp.hypot(1, unit)) + ratio


def _sinh_arcsinh_expectation(f, skewness, tailweight):
    """Of a function of the standardised variable and of its logarithmic derivative."""
    a, b = skewness[..., None], tailweight[..., None]
    return normal_expectation(
        lambda z: f(_sinh_arcsinh(z, a, b), z), 0 * skewness, 1 + 0 * skewness
    )


def _sinh_arcsinh_mean(skewness, tailweight):
    skewness, tailweight = jnp.broadcast_arrays(skewness, tailweight)
    return _sinh_arcsinh_expectation(lambda x, z: x, skewness, tailweight)


def _sinh_arcsinh_variance(skewness, tailweight):
    skewness, tailweight = jnp.broadcast_arrays(skewness, tailweight)
    mean = _sinh_arcsinh_mean(skewness, tailweight)[..., None]
    return _sinh_arcsinh_expectation(lambda x, z: jnp.square(x - mean), skewness, tailweight)


def _sinh_arcsinh_entropy(loc, scale, skewness, tailweight):
    a, b = jnp.broadcast_arrays(skewness, tailweight)

    def log_slope(z):
        y = b[..., None] * (jnp.arcsinh(z) + a[..., None])
        return _log_cosh(y) - jnp.log(jnp.hypot(1, z))

    mean = normal_expectation(log_slope, 0 * a, 1 + 0 * a)
    factor = jnp.log(scale) + jnp.log(b) - jnp.log(0.5 * jnp.sinh(b * math.asinh(2)))
    return 0.5 + LOG_SQRT_TWO_PI + factor + mean


def _sinh_arcsinh_mode(loc, scale, skewness, tailweight):
    a, b = jnp.broadcast_arrays(skewness, tailweight)

    def score(y):
        z = jnp.sinh(y / b[..., None] - a[..., None])
        return -0.5 * jnp.square(z) + jnp.log(jnp.hypot(1, z)) - _log_cosh(y)

    end = b * (jnp.abs(a) + 3)
    y = argmax(score, -end, end)
    return loc + scale * 2 * jnp.sinh(y) / jnp.sinh(b * math.asinh(2))


@family(
    support=real,
    tfp="SinhArcsinh",
    **transformed(
        Normal,
        forward=lambda z, loc, scale, *shape: loc + scale * _sinh_arcsinh(z, *shape),
        inverse=_sinh_arcsinh_inverse,
        log_det=_sinh_arcsinh_log_det,
        to_base=lambda loc, scale, *shape: (0 * loc, jnp.ones_like(scale)),
        mean=lambda loc, scale, *shape: loc + scale * _sinh_arcsinh_mean(*shape),
        variance=lambda loc, scale, *shape: jnp.square(scale) * _sinh_arcsinh_variance(*shape),
        mode=_sinh_arcsinh_mode,
        entropy=_sinh_arcsinh_entropy,
    ),
)
class SinhArcsinh(Family):
    r"""Sinh-arcsinh distribution: of a normal variable with skewness and other tails.

    `p(x) = phi(z) dz / dx` for real `x`, with `phi` the standard normal density and
    `x = loc + 2 scale sinh(tailweight (asinh(z) + skewness)) / sinh(tailweight asinh(2))`. Moments
    and entropy are by quadrature.

    Args:
        loc: The location; the median where `skewness` is 0.
        scale: The scale, positive.
        skewness: Of either sign; 0 is symmetric.
        tailweight: The larger, the heavier the tails; positive, 1 for a normal distribution.

    >>> import distributions as dist
    >>> round(float(dist.SinhArcsinh(0.0, 1.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Jones and Pewsey, "Sinh-arcsinh distributions", Biometrika 96 (2009), 761-780.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(real, default=0.0)
    tailweight: ArrayLike = parameter(positive, default=1.0)
