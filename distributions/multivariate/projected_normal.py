"""The projected normal distribution over unit vectors."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import square_sum
from distributions.constraints import real_vector, unit_vector
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import log_beta_half
from distributions.numerics.poisson_mixture import log_poisson_mixture, poisson_terms
from distributions.numerics.special import LOG_PI, LOG_SQRT_TWO_PI, gauss_legendre
from distributions.numerics.sphere import dot, log_sum, normalize


def _log_radial_integral(t, n):
    """`log integral_0^inf r^(n - 1) exp(-(r - t)^2 / 2) dr`, by quadrature around the peak.

    The variable of integration is `r` less the peak: in `r`, it would be lost beside a large `t`.
    """
    m = n - 1
    at = lax.stop_gradient(t)
    longer = 0.5 * jnp.abs(at) + jnp.hypot(0.5 * at, math.sqrt(m))
    peak = jnp.where(at > 0, longer, m / longer)
    rest = jnp.where(at > 0, m / longer, longer)
    rest += at - t  # peak - t; derivatives in t hold the peak constant
    low = -jnp.minimum(peak, 8.8)
    high = jnp.minimum(8.8, (41 + math.sqrt(74 * m)) * peak / m)
    nodes, weights = gauss_legendre(t)
    s = low[..., None] + (high - low)[..., None] * nodes
    log_terms = m * jnp.log(peak[..., None] + s) - s * (rest[..., None] + 0.5 * s)
    return log_sum(log_terms + jnp.log(weights)) + jnp.log(high - low) - 0.5 * jnp.square(rest)


def _projected_log_prob(x, concentration):
    t = dot(concentration, x)
    n = x.shape[-1]
    off = square_sum(concentration - t[..., None] * x)
    return _log_radial_integral(t, n) - 0.5 * off - n * LOG_SQRT_TWO_PI


def _projected_sample(key, shape, dtype, concentration):
    return normalize(concentration + random.normal(key, shape, dtype))


def _projected_mode(concentration):
    """The direction of the mean; for the uniform distribution, the first axis."""
    size = jnp.sqrt(square_sum(concentration))[..., None]
    first = align(jnp.eye(1, concentration.shape[-1], dtype=size.dtype)[0], 1, size.ndim - 1)
    return select(size > 0, concentration / select(size > 0, size, 1), first)


def _projected_moments(concentration):
    """The mean over `concentration`, and `1 / (n + 2 j)` and `1 / (n + 2 j + 2)` on average.

    Given a Poisson variable `j`, the squared cosine of the angle to `concentration` has the beta
    distribution with `j + 1/2` and `(n - 1) / 2`.
    """
    n = concentration.shape[-1]
    m = 0.5 * square_sum(concentration)
    center, offset, log_step = poisson_terms(m)
    j = center + offset
    m = m[..., None]

    def mean_of(log_values):
        return jnp.exp(log_poisson_mixture(center, offset, m, log_values, 1.0) + log_step)

    mean = mean_of(log_beta_half(j + 0.5 * (n + 1)) - 0.5 * LOG_PI) / math.sqrt(2)
    return mean, mean_of(-jnp.log(n + 2 * j)), mean_of(-jnp.log(n + 2 * j + 2))


def _projected_mean(concentration):
    return _projected_moments(concentration)[0][..., None] * concentration


def _projected_variance(concentration):
    """By the identity `E[j f(j)] = m E[f(j + 1)]` of Poisson variables of mean `m`."""
    mean, across, next_across = _projected_moments(concentration)
    along = next_across - jnp.square(mean)
    variance = across[..., None] + along[..., None] * jnp.square(concentration)
    return jnp.maximum(variance, 0)  # Rounding, where it is far below that of 1.


@family(
    support=unit_vector,
    log_prob=_projected_log_prob,
    sample=_projected_sample,
    mean=_projected_mean,
    variance=_projected_variance,
    mode=_projected_mode,
)
class ProjectedNormal(Family):
    r"""Projected normal distribution: the direction of a normal vector with unit covariance.

    `p(x) = (2 pi)^(-n / 2) integral_0^inf r^(n - 1) exp(-|r x - concentration|^2 / 2) dr` for `x`
    of length 1, a density with respect to the area of the sphere.

    Args:
        concentration: The mean of the normal vector, of shape `(..., n)`. Its direction is the
            mode, and its length the concentration around the mode.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.ProjectedNormal(jnp.zeros(3))
    >>> round(float(normal.log_prob(jnp.array([1.0, 0.0, 0.0]))), 4)
    -2.531

    References:
        Mardia and Jupp, *Directional Statistics* (2000), section 9.3.3.
        Hernandez-Stumpfhauser, Breidt and van der Woerd, "The general projected normal
        distribution of arbitrary dimension", Bayesian Analysis 12 (2017).
    """

    concentration: ArrayLike = parameter(real_vector)
