"""The power spherical distribution over unit vectors."""

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.linear_algebra import per_event, square_sum
from distributions.constraints import nonnegative, unit_vector
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import digamma_step, log_beta
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.special import LOG_PI, LOG_TWO
from distributions.numerics.sphere import tangent_normal, variance_around


def _power_shapes(n, concentration):
    """The shapes of the beta distribution of `(1 + t) / 2`."""
    b = jnp.full_like(concentration, 0.5 * (n - 1))
    return b + concentration, b


def _power_log_normalizer(n, concentration):
    a, b = _power_shapes(n, concentration)
    return (n - 1) * LOG_TWO + 0.5 * (n - 1) * LOG_PI + log_beta(a, b) - lax.lgamma(b)


def _power_log_prob(x, direction, concentration):
    """The log density, by `(1 + t) / 2 = 1 - |x - direction|^2 / 4 = |x + direction|^2 / 4`."""
    far = jnp.maximum(square_sum(x + direction) / 4, jnp.finfo(x.dtype).tiny)
    near = jnp.minimum(square_sum(x - direction) / 4, 0.5)
    log_power = jnp.where(far > 0.5, jnp.log1p(-near), jnp.log(far))
    return concentration * log_power - _power_log_normalizer(x.shape[-1], concentration)


def _power_sample(key, shape, dtype, direction, concentration):
    """Draws: `(1 + t) / 2 = g / (g + |z|^2 / 2)`, `g` gamma and `z` a normal tangent vector."""
    key, gamma_key = random.split(key)
    tangent = tangent_normal(key, shape, dtype, direction)
    a, _ = _power_shapes(shape[-1], jnp.asarray(concentration))
    g = gamma(gamma_key, a, shape[:-1], dtype)
    h = 0.5 * square_sum(tangent)
    along = (g - h) / (g + h)
    across = jnp.sqrt(2 * g) / (g + h)
    return along[..., None] * direction + across[..., None] * tangent


def _power_variance(direction, concentration):
    a, b = _power_shapes(direction.shape[-1], concentration)
    variance = 4 * (a / (a + b)) * (b / (a + b)) / (a + b + 1)
    return variance_around(direction, (a + b) * variance, variance)


def _power_entropy(direction, concentration):
    n = direction.shape[-1]
    a, b = _power_shapes(n, concentration)
    return _power_log_normalizer(n, concentration) + concentration * digamma_step(a, b)


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
        mean_direction: The mode, a vector of length 1, of shape `(..., n)`.
        concentration: The concentration around the mode, nonnegative; 0 is uniform.

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
