"""The double-sided Maxwell distribution."""

import math

import jax.numpy as jnp
from jax import random
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    EULER_GAMMA,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    ratio,
    safe_log,
)


def _maxwell_log_survival(x, loc, scale):
    z = ratio(x - loc, scale)
    near = jnp.abs(z) < 0.5
    center = jnp.where(near, z, 0)
    density = jnp.exp(-0.5 * jnp.square(center) - LOG_SQRT_TWO_PI)
    middle = jnp.log(ndtr(-center) + center * density)
    overflows = jnp.abs(z) > 0.5 * float(jnp.finfo(z.dtype).max) ** 0.5
    size = jnp.where(near | overflows, 1, jnp.abs(z))
    log_density = -0.5 * jnp.square(size) - LOG_SQRT_TWO_PI
    upper = jnp.logaddexp(log_ndtr(-size), jnp.log(size) + log_density)
    upper = jnp.where(overflows, -jnp.inf, upper)
    return jnp.where(near, middle, jnp.where(z > 0, upper, jnp.log1p(-jnp.exp(upper))))


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
    standard=LOCATION_SCALE,
)
class DoublesidedMaxwell(Family):
    r"""Double-sided Maxwell distribution: a Maxwell variable with a random sign.

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
