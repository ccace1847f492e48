"""The inverse Gaussian (Wald) distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.core.derived_formulas import differentiate_implicitly
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LocationScale
from distributions.numerics.normal_functions import log_mills, log_ndtr
from distributions.numerics.quadrature import exponential_expectation
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    bounded_ratio,
    clip_positive,
    log1mexp,
    ratio,
)


def _inverse_gaussian_log_prob(x, loc, c):
    square = bounded_ratio(x - loc, loc) * bounded_ratio(bounded_ratio(x - loc, x), loc)
    return 0.5 * jnp.log(c) - 1.5 * jnp.log(x) - 0.5 * c * square - LOG_SQRT_TWO_PI


def _inverse_gaussian_log_tails(x, loc, c):
    """The logarithms of `Phi(a) + exp(2 c / loc) Phi(-b)` and of 1 less it.

    The exponential may overflow, so the second term is Mills' ratio at `b` times the normal density
    at `a`, which is the same.
    """
    # Of factors with finite derivatives: slopes of 0 stay 0 where the derivative of `a` overflows.
    root = jnp.sqrt(x)
    factor = ratio(jnp.sqrt(c), loc)
    a = factor * ratio(x - loc, root)
    b = factor * ratio(x + loc, root)
    log_mills_of_a = log_mills(jnp.maximum(a, 0))
    log_mills_of_b = log_mills(b)
    half_square = 0.5 * jnp.square(a)
    log_second = log_mills_of_b - half_square
    below = jnp.minimum(jnp.logaddexp(log_ndtr(a), log_second), 0)
    near = log_ndtr(-a)
    first = jnp.where(a > 0, log_mills_of_a - half_square, near)
    gap = jnp.where(a > 0, log_mills_of_b - log_mills_of_a, log_second - near)
    # Far out Mills' ratios are those of `1 / a` and `1 / b`.
    far = a > float(jnp.finfo(a.dtype).eps) ** -0.25
    between = jnp.log1p(-2 * ratio(jnp.where(far, loc, 0), x + loc))
    return below, first + log1mexp(jnp.where(far, between, jnp.minimum(gap, 0)))


def _inverse_gaussian_sample(key, shape, dtype, loc, c):
    first, second = random.split(key)
    t = 0.5 * jnp.square(random.normal(first, shape, dtype)) * (loc / c)
    r = 1 + t + jnp.sqrt(t * (2 + t))
    is_low = random.uniform(second, shape, dtype) * (1 + 1 / r) < 1
    return clip_positive(loc * jnp.where(is_low, 1 / r, r))


inverse_gaussian_sample = differentiate_implicitly(
    _inverse_gaussian_sample,
    lambda x, *p: jnp.exp(_inverse_gaussian_log_tails(x, *p)[0]),
    _inverse_gaussian_log_prob,
)


def _inverse_gaussian_mode(loc, c):
    r = 1.5 * loc / c
    return loc / (jnp.sqrt(1 + r * r) + r)


def _inverse_gaussian_entropy(loc, c):
    mean_log = jnp.log(loc) - exponential_expectation(lambda e, s: 1 / (2 * s + e), c / loc)
    return 0.5 - 0.5 * jnp.log(c) + LOG_SQRT_TWO_PI + 1.5 * mean_log


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=_inverse_gaussian_log_prob,
    sample=inverse_gaussian_sample,
    mean=lambda loc, c: loc,
    variance=lambda loc, c: jnp.square(loc) * (loc / c),
    mode=_inverse_gaussian_mode,
    entropy=_inverse_gaussian_entropy,
    log_cdf=lambda x, loc, c: _inverse_gaussian_log_tails(x, loc, c)[0],
    log_survival=lambda x, loc, c: _inverse_gaussian_log_tails(x, loc, c)[1],
    standard=LocationScale(scales=("loc", "concentration")),
)
class InverseGaussian(Family):
    r"""Inverse Gaussian (Wald) distribution: the time a Brownian motion takes to reach a level.

    `p(x) = sqrt(c / (2 pi x^3)) exp(-c (x - loc)^2 / (2 loc^2 x))` for `x > 0`, with
    `c = concentration`.

    Args:
        loc: The mean, positive.
        concentration: The shape, positive.

    >>> import distributions as dist
    >>> round(float(dist.InverseGaussian(1.0, 1.0).log_prob(1.0)), 4)
    -0.9189

    References:
        Michael, Schucany and Haas, "Generating random variates using transformations with multiple
        roots", The American Statistician 30 (1976), 88-90.
    """

    loc: ArrayLike = parameter(positive)
    concentration: ArrayLike = parameter(positive)
