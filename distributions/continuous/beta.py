"""The beta distribution, and its mode."""

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.common.point import complement_of, log_complement_of, log_of, value_of
from distributions.constraints import open_interval, positive
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.numerics.beta_functions import beta_entropy, beta_variance
from distributions.numerics.gamma_sampler import beta
from distributions.numerics.incomplete_gamma_beta import log_betainc
from distributions.numerics.loader_kernels import log_beta_kernel


def beta_mode(a: Array, b: Array) -> Array:
    """The mode of a beta distribution: an end, unless both parameters exceed 1."""
    left = jnp.maximum(a - 1, 0)
    right = jnp.maximum(b - 1, 0)
    total = left + right
    inner = left / jnp.where(total > 0, total, 1)
    return jnp.where((a < 1) & (b < 1) & (b < a), 1, inner)


def _beta_arguments(x, a, b):
    shift = a * complement_of(x) - b * value_of(x)
    return a, b, log_of(x), log_complement_of(x), shift


def _beta_log_prob(x, a, b):
    _, _, log_x, log_y, _ = arguments = _beta_arguments(x, a, b)
    return log_beta_kernel(*arguments) - log_x - log_y


def _beta_place(of_log, of_log1m):
    a, b = (jnp.maximum(x + 1, 0.1) for x in (of_log, of_log1m))
    return jnp.log(a) - jnp.log(b), jnp.ones_like(a)


BETA = ScalarFamily(
    make=lambda of_log, of_log1m: Beta(of_log + 1, of_log1m + 1),  # pyright: ignore[reportCallIssue]
    value=jax.nn.sigmoid,
    weight=lambda x: x * (1 - x),
    basis=lambda x: (1 - x, -x),
    place=_beta_place,
)


@family(
    support=open_interval(0.0, 1.0),
    log_prob=_beta_log_prob,
    reads_points=True,
    sample=lambda key, shape, dtype, a, b: beta(key, a, b, shape, dtype),
    mean=lambda a, b: a / (a + b),
    variance=beta_variance,
    mode=beta_mode,
    entropy=beta_entropy,
    log_cdf=lambda x, a, b: log_betainc(*_beta_arguments(x, a, b))[0],
    log_survival=lambda x, a, b: log_betainc(*_beta_arguments(x, a, b))[1],
    conjugate=BETA,
)
class Beta(Family):
    r"""Beta distribution with mean `a / (a + b)`.

    `p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b)` for `0 < x < 1`, with `a = concentration1` and
    `b = concentration0`.

    Args:
        concentration1: The exponent of `x`, plus 1; positive.
        concentration0: The exponent of `1 - x`, plus 1; positive.

    >>> import distributions as dist
    >>> round(float(dist.Beta(2.0, 2.0).log_prob(0.5)), 4)
    0.4055

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)
