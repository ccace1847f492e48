"""Families of unit vectors: SphericalUniform, PowerSpherical, ProjectedNormal."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions._arrays import align, select
from distributions._gamma_draw import gamma
from distributions._linalg import per_event, square_sum
from distributions._pytree import static
from distributions._sphere import dot, log_area, log_sum, tangent_normal, variance_around
from distributions.constraints import nonnegative, real_vector, unit_vector
from distributions.family import Family, family
from distributions.gamma_functions import digamma_step, log_beta, log_beta_half
from distributions.noncentral_chi_square import log_poisson_mass, poisson_terms
from distributions.row import parameter
from distributions.special import LOG_PI, LOG_SQRT_TWO_PI, LOG_TWO, gauss_legendre


def _at_least_two(dimension):
    if isinstance(dimension, int) and dimension > 1:
        return None
    return f"dimension must be an integer, 2 or more; got {dimension!r}"


def _uniform_sample(key, shape, dtype, dimension):
    z = random.normal(key, shape, dtype)
    return z / jnp.sqrt(square_sum(z))[..., None]


@family(
    support=unit_vector,
    event_shape=lambda dimension: (dimension,),
    requires=_at_least_two,
    log_prob=lambda x, dimension: 0 * x[..., 0] - log_area(dimension),
    sample=_uniform_sample,
    mean=lambda dimension: 0.0,
    variance=lambda dimension: 1 / dimension,
    mode=lambda dimension: np.eye(dimension)[0],
    entropy=log_area,
)
class SphericalUniform(Family):
    r"""Uniform distribution over vectors of length 1.

    `p(x) = Gamma(n / 2) / (2 pi^(n / 2))`, a density with respect to the area of the sphere.

    Args:
        dimension: The number of entries `n`, at least 2.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.SphericalUniform(3).log_prob(jnp.array([1.0, 0.0, 0.0]))), 4)
    -2.531

    References:
        Mardia and Jupp, *Directional Statistics* (2000), section 9.3.1.
    """

    dimension: int = static()


def _power_shapes(n, concentration):
    """Those of the beta distribution of `(1 + t) / 2`."""
    b = jnp.full_like(concentration, 0.5 * (n - 1))
    return b + concentration, b


def _power_log_normaliser(n, concentration):
    a, b = _power_shapes(n, concentration)
    return (n - 1) * LOG_TWO + 0.5 * (n - 1) * LOG_PI + log_beta(a, b) - lax.lgamma(b)


def _power_log_prob(x, direction, concentration):
    """The power of `(1 + t) / 2 = 1 - |x - direction|^2 / 4 = |x + direction|^2 / 4`."""
    far = jnp.maximum(square_sum(x + direction) / 4, jnp.finfo(x.dtype).tiny)
    near = jnp.minimum(square_sum(x - direction) / 4, 0.5)
    log_power = jnp.where(far > 0.5, jnp.log1p(-near), jnp.log(far))
    return concentration * log_power - _power_log_normaliser(x.shape[-1], concentration)


def _power_sample(key, shape, dtype, direction, concentration):
    """`(1 + t) / 2 = g / (g + |z|^2 / 2)` with a gamma variable and a normal tangent vector."""
    key, gamma_key = random.split(key)
    tangent = tangent_normal(key, shape, dtype, direction)
    a, _ = _power_shapes(shape[-1], jnp.asarray(concentration))
    g = gamma(gamma_key, a, shape[:-1], dtype)
    h = 0.5 * square_sum(tangent)
    along, across = (g - h) / (g + h), jnp.sqrt(2 * g) / (g + h)
    return along[..., None] * direction + across[..., None] * tangent


def _power_variance(direction, concentration):
    a, b = _power_shapes(direction.shape[-1], concentration)
    variance = 4 * (a / (a + b)) * (b / (a + b)) / (a + b + 1)
    return variance_around(direction, (a + b) * variance, variance)


def _power_entropy(direction, concentration):
    n = direction.shape[-1]
    a, b = _power_shapes(n, concentration)
    return _power_log_normaliser(n, concentration) + concentration * digamma_step(a, b)


@family(
    support=unit_vector,
    log_prob=_power_log_prob,
    sample=_power_sample,
    mean=lambda direction, concentration: (
        per_event(concentration / (concentration + (direction.shape[-1] - 1))) * direction
    ),
    variance=_power_variance,
    mode=lambda direction, concentration: direction,
    entropy=_power_entropy,
)
class PowerSpherical(Family):
    r"""Power spherical distribution over unit vectors: like von Mises-Fisher, with simple draws.

    `p(x) = ((1 + mean_direction^T x) / 2)^k Gamma(a + b) / (2^(2 b) pi^b Gamma(a))` with
    `k = concentration`, `b = (n - 1) / 2` and `a = b + k`, for `x` of length 1; a density with
    respect to the area of the sphere. Its draws are differentiable.

    Args:
        mean_direction: A vector of length 1, of shape `(..., n)`.
        concentration: Nonnegative; 0 is the uniform distribution.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> north = jnp.array([0.0, 0.0, 1.0])
    >>> round(float(dist.PowerSpherical(north, 2.0).log_prob(north)), 4)
    -1.4324

    References:
        De Cao and Aziz, "The power spherical distribution" (2020), equations 7 to 9.
    """

    mean_direction: ArrayLike = parameter(unit_vector)
    concentration: ArrayLike = parameter(nonnegative)


def _log_radial_integral(t, n):
    """`log integral_0^inf r^(n - 1) exp(-(r - t)^2 / 2) dr`, by quadrature around the peak.

    Over `r` less the peak, as that is lost beside a large `t`.
    """
    m, at = n - 1, lax.stop_gradient(t)
    longer = 0.5 * jnp.abs(at) + jnp.hypot(0.5 * at, math.sqrt(m))
    peak, rest = jnp.where(at > 0, longer, m / longer), jnp.where(at > 0, m / longer, longer)
    rest += at - t  # The peak less `t`, of which it does not depend.
    low, high = -jnp.minimum(peak, 8.8), jnp.minimum(8.8, (41 + math.sqrt(74 * m)) * peak / m)
    nodes, weights = gauss_legendre(t)
    s = low[..., None] + (high - low)[..., None] * nodes
    log_terms = m * jnp.log(peak[..., None] + s) - s * (rest[..., None] + 0.5 * s)
    return log_sum(log_terms + jnp.log(weights)) + jnp.log(high - low) - 0.5 * jnp.square(rest)


def _projected_log_prob(x, concentration):
    t, n = dot(concentration, x), x.shape[-1]
    off = square_sum(concentration - t[..., None] * x)
    return _log_radial_integral(t, n) - 0.5 * off - n * LOG_SQRT_TWO_PI


def _projected_sample(key, shape, dtype, concentration):
    z = concentration + random.normal(key, shape, dtype)
    return z / jnp.sqrt(square_sum(z))[..., None]


def _projected_mode(concentration):
    """Along the mean; of the uniform distribution, the first axis."""
    size = jnp.sqrt(square_sum(concentration))[..., None]
    first = align(jnp.eye(1, concentration.shape[-1], dtype=size.dtype)[0], 1, size.ndim - 1)
    return select(size > 0, concentration / select(size > 0, size, 1), first)


def _projected_moments(concentration):
    """The mean over `concentration`, and those of `t^2` and `1 - t^2` for its cosine `t`.

    Given a Poisson variable `j`, `t^2` has the beta distribution with `j + 1/2` and `(n - 1) / 2`.
    """
    n, m = concentration.shape[-1], 0.5 * square_sum(concentration)
    centre, offset, log_step = poisson_terms(m)
    j = centre + offset
    weights = jnp.exp(log_poisson_mass(centre, offset, m[..., None]) + log_step[..., None])
    cosine = jnp.exp(log_beta_half(j + 0.5 * (n + 1)) - 0.5 * LOG_PI)
    mean = jnp.sum(weights * cosine, -1) / math.sqrt(2)
    square = jnp.sum(weights * (j + 0.5) / (j + 0.5 * n), -1)
    return mean, square, jnp.sum(weights * 0.5 * (n - 1) / (j + 0.5 * n), -1)


def _projected_mean(concentration):
    return _projected_moments(concentration)[0][..., None] * concentration


def _projected_variance(concentration):
    mean, square, rest = _projected_moments(concentration)
    along = square - jnp.square(mean) * square_sum(concentration)
    return variance_around(_projected_mode(concentration), rest, along)


@family(
    support=unit_vector,
    log_prob=_projected_log_prob,
    sample=_projected_sample,
    mean=_projected_mean,
    variance=_projected_variance,
    mode=_projected_mode,
)
class ProjectedNormal(Family):
    r"""Distribution of the direction of a normal vector with unit covariance.

    `p(x) = (2 pi)^(-n / 2) integral_0^inf r^(n - 1) exp(-|r x - concentration|^2 / 2) dr` for `x`
    of length 1, a density with respect to the area of the sphere.

    Args:
        concentration: The mean of the normal vector, of shape `(..., n)`: its direction is the
            mode, and the longer it is, the more concentrated is the distribution.

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
