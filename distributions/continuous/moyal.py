"""The Moyal distribution."""

import math

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import ndtri
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
)


def _moyal_quantile(q, loc, scale):
    lower = -ndtri(0.5 * jnp.where(q < 0.5, q, 0.5))
    upper = math.sqrt(2) * lax.erf_inv(1 - jnp.where(q < 0.5, 0.5, q))
    return loc - 2 * scale * jnp.log(jnp.where(q < 0.5, lower, upper))


def _moyal_log_survival(x, loc, scale):
    root = 0.5 * ratio(loc - x, scale)
    far = root < -10
    # From exp(5) on the error function is 1, with a slope of 0.
    inner = jnp.log(lax.erf(math.sqrt(0.5) * jnp.exp(jnp.where(far | (root > 5), 5, root))))
    return jnp.where(far, LOG_TWO - LOG_SQRT_TWO_PI + root, inner)


def _moyal_log_cdf(x, loc, scale):
    root = 0.5 * ratio(loc - x, scale)
    overflows = root > 0.5 * math.log(float(jnp.finfo(root.dtype).max))
    inner = LOG_TWO + log_ndtr(-jnp.exp(jnp.where(overflows, 0, root)))
    return jnp.where(overflows, -jnp.inf, inner)


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
    log_cdf=_moyal_log_cdf,
    log_survival=_moyal_log_survival,
    quantile=_moyal_quantile,
    has_steep_ends=True,
    standard=LOCATION_SCALE,
)
class Moyal(Family):
    r"""Moyal distribution of the energy loss of a particle: an approximation to Landau's.

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
