"""The generalized extreme value distribution, precise around a shape of 0."""

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import promote
from distributions.constraints import open_interval, positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.extreme_value_functions import (
    from_reduced_variate,
    reduced_variate,
    support_end,
)
from distributions.numerics.special import (
    EULER_GAMMA,
    ZETA,
    complement_of_exp,
    expm1_ratio,
    log1mexp_exp,
    safe_exp,
)


def _gev_support(*parameters):
    loc, scale, c = promote(*parameters)
    end = support_end(loc, scale, c)
    return open_interval(jnp.where(c > 0, end, -jnp.inf), jnp.where(c < 0, end, jnp.inf))


def _log_gamma_ratio(c):
    """`log Gamma(1 - c) / c`."""
    small = jnp.abs(c) < 0.05
    v = jnp.where(small, c, 0)
    w = jnp.where(small, 0.5, c)
    series = EULER_GAMMA + sum(zeta / k * v ** (k - 1) for k, zeta in enumerate(ZETA, 2))
    return jnp.where(small, series, lax.lgamma(1 - w) / w)


def _gev_mean(loc, scale, c):
    d = jnp.where(c < 1, c, 0)
    log_gamma = _log_gamma_ratio(d)
    return jnp.where(c < 1, loc + scale * log_gamma * expm1_ratio(d * log_gamma), jnp.inf)


def _gev_variance(loc, scale, c):
    d = jnp.where(c < 0.5, c, 0)
    small = jnp.abs(d) < 0.05
    v = jnp.where(small, d, 0)
    w = jnp.where(small, 0.4, d)
    series = sum(zeta * (2**k - 2) / k * v ** (k - 2) for k, zeta in enumerate(ZETA, 2))
    plain = 2 * (_log_gamma_ratio(2 * w) - _log_gamma_ratio(w)) / w
    excess = jnp.where(small, series, plain)
    finite = jnp.exp(2 * d * _log_gamma_ratio(d)) * excess * expm1_ratio(d * d * excess)
    return jnp.where(c < 0.5, jnp.square(scale) * finite, jnp.inf)


def _gev_mode(loc, scale, c):
    return jnp.where(
        c > -1,
        from_reduced_variate(-jnp.log1p(jnp.where(c > -1, c, 0)), loc, scale, c),
        support_end(loc, scale, c),
    )


def _gev_log_prob(x, loc, scale, c):
    w = reduced_variate(x, loc, scale, c)
    # Beyond 800 the exponential is 0. The bound keeps an infinite derivative of `w` out of it.
    return -(1 + c) * w - jnp.exp(-jnp.where(w > 800, 800, w)) - jnp.log(scale)


@family(
    support=_gev_support,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=_gev_log_prob,
    sample=lambda key, shape, dtype, *parameters: from_reduced_variate(
        random.gumbel(key, shape, dtype), *parameters
    ),
    mean=_gev_mean,
    variance=_gev_variance,
    mode=_gev_mode,
    entropy=lambda loc, scale, c: jnp.log(scale) + EULER_GAMMA * (1 + c) + 1,
    log_cdf=lambda x, *parameters: -safe_exp(-reduced_variate(x, *parameters)),
    survival=lambda x, *parameters: complement_of_exp(-safe_exp(-reduced_variate(x, *parameters))),
    log_survival=lambda x, *parameters: log1mexp_exp(reduced_variate(x, *parameters)),
    quantile=lambda q, *parameters: from_reduced_variate(-jnp.log(-jnp.log(q)), *parameters),
    standard=LOCATION_SCALE,
)
class GeneralizedExtremeValue(Family):
    r"""Generalized extreme value distribution: Frechet, Gumbel and reversed Weibull in one.

    `p(x) = t^(c + 1) exp(-t) / scale` where `1 + c z > 0`, with `t = (1 + c z)^(-1 / c)` (`exp(-z)`
    where `c` is 0), `z = (x - loc) / scale` and `c = concentration`. Note that the sign of `c` is
    the opposite of SciPy's.

    Args:
        loc: The location.
        scale: The scale, positive.
        concentration: The shape: of either sign, or 0.

    >>> import distributions as dist
    >>> round(float(dist.GeneralizedExtremeValue(0.0, 1.0, 0.5).log_prob(0.0)), 4)
    -1.0

    References:
        Coles, *An Introduction to Statistical Modeling of Extreme Values* (2001), equation 3.2.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    concentration: ArrayLike = parameter(real)
