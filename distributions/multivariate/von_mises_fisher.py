"""The von Mises-Fisher distribution over unit vectors."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import align
from distributions.common.linear_algebra import per_event, square_sum
from distributions.constraints import nonnegative, unit_vector
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_sampler import beta
from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import LOG_TWO
from distributions.numerics.sphere import log_area, log_sum, tangent_normal, variance_around

# The cosine t of the angle between a draw of von Mises-Fisher and its direction has a density
# proportional to (1 - t^2)^((n - 3) / 2) exp(concentration (t - 1)). With t = tanh(u) it is smooth
# on the whole line and falls exponentially, so the trapezoidal rule is exact to rounding.
_NODES = 512  # of the trapezoidal rule


def _cosines(n, concentration):
    """`1 - tanh(u)` at nodes `u` along a new last axis, and the log weights of the integral."""
    concentration = jnp.asarray(concentration)
    m = n - 1
    peak = 0.5 * jnp.arcsinh(2 * lax.stop_gradient(concentration) / m)[..., None]
    reach = math.sqrt(80 / m) + 38 / m
    steps = jnp.linspace(-reach, reach, _NODES, dtype=concentration.dtype)
    u = peak + align(steps, 0, peak.ndim)
    log_sech = LOG_TWO - jnp.abs(u) - jnp.log1p(jnp.exp(-2 * jnp.abs(u)))
    below_one = 2 / (1 + jnp.exp(2 * u))
    log_weights = m * log_sech - concentration[..., None] * below_one
    return below_one, log_weights + (math.log(2 * reach / (_NODES - 1)) + log_area(m))


def _fisher_log_normalizer(n, concentration):
    """The log normalizer of `exp(concentration (t - 1))`."""
    return log_sum(_cosines(n, concentration)[1])


def _fisher_moments(n, concentration):
    """The expectations of `1 - t` and `1 - t^2`, and the variance of `t`."""
    below_one, log_weights = _cosines(n, concentration)
    weights = jnp.exp(log_weights - log_sum(log_weights)[..., None])
    mean = jnp.sum(weights * below_one, -1)
    centered = below_one - mean[..., None]
    variance = jnp.sum(weights * jnp.square(centered), -1)
    return mean, jnp.sum(weights * below_one * (2 - below_one), -1), variance


def _fisher_log_prob(x, direction, concentration):
    normalizer = _fisher_log_normalizer(x.shape[-1], concentration)
    return -0.5 * concentration * square_sum(x - direction) - normalizer


def _fisher_below_one(key, shape, dtype, n, concentration):
    """Draws of `1 - t` by rejection, repeated until the last one is accepted (Wood 1994)."""
    m = n - 1
    b = m / (2 * concentration + jnp.hypot(2 * concentration, jnp.full_like(concentration, m)))
    b = jnp.broadcast_to(jnp.asarray(b, dtype), shape)

    def propose(key):
        beta_key, uniform_key = random.split(key)
        z = beta(beta_key, 0.5 * m, 0.5 * m, shape, dtype)
        d = 2 * b * z / (1 - (1 - b) * z)
        log_ratio = jnp.log((2 * b + (1 - b) * d) * (1 + b) / (4 * b))
        score = concentration * (2 * b / (1 + b) - d) + m * log_ratio
        return d, score >= jnp.log(1 - random.uniform(uniform_key, shape, dtype))

    return draw_first_accepted(propose, key, shape, dtype)


def _fisher_sample(key, shape, dtype, direction, concentration):
    key, tangent_key = random.split(key)
    below_one = _fisher_below_one(key, shape[:-1], dtype, shape[-1], concentration)
    tangent = tangent_normal(tangent_key, shape, dtype, direction)
    sine = jnp.sqrt(below_one * (2 - below_one))
    return (1 - below_one)[..., None] * direction + (sine / jnp.sqrt(square_sum(tangent)))[
        ..., None
    ] * tangent


def _fisher_entropy(direction, concentration):
    n = direction.shape[-1]
    below_one, _, _ = _fisher_moments(n, concentration)
    return _fisher_log_normalizer(n, concentration) + concentration * below_one


def _fisher_variance(direction, concentration):
    _, cosine, variance = _fisher_moments(direction.shape[-1], concentration)
    return variance_around(direction, cosine, variance)


@family(
    support=unit_vector,
    log_prob=_fisher_log_prob,
    sample=_fisher_sample,
    mean=lambda direction, concentration: (
        per_event(1 - _fisher_moments(direction.shape[-1], concentration)[0]) * direction
    ),
    variance=_fisher_variance,
    mode=lambda direction, concentration: direction,
    entropy=_fisher_entropy,
    is_reparameterized=False,
)
class VonMisesFisher(Family):
    r"""Von Mises-Fisher distribution over unit vectors: a normal one, restricted to the sphere.

    `p(x) = exp(k mean_direction^T x) k^(n / 2 - 1) / ((2 pi)^(n / 2) I_(n / 2 - 1)(k))` with
    `k = concentration` and the modified Bessel function `I`, for `x` of length 1; a density with
    respect to the area of the sphere. The normalizer is an integral over the angle, in any number
    of dimensions.

    Args:
        mean_direction: The mode, a vector of length 1, of shape `(..., n)`.
        concentration: The concentration around the mode, nonnegative; 0 is uniform.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> north = jnp.array([0.0, 0.0, 1.0])
    >>> round(float(dist.VonMisesFisher(north, 2.0).log_prob(north)), 4)
    -1.1262

    References:
        Mardia and Jupp, *Directional Statistics* (2000), section 9.3.2.
        Wood, "Simulation of the von Mises Fisher distribution", Communications in Statistics:
        Simulation and Computation 23 (1994).
    """

    mean_direction: ArrayLike = parameter(unit_vector)
    concentration: ArrayLike = parameter(nonnegative)
