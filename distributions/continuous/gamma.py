"""The gamma distribution by shape and rate."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.point import log_of, value_of
from distributions.constraints import positive
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import RATE
from distributions.numerics.gamma_functions import gamma_entropy
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.loader_kernels import log_gamma_kernel
from distributions.numerics.special import clip_positive, log, log_unless_tiny, steep_log


def _gamma_log_prob(x, a, rate):
    log_x = log_of(x)
    return log_gamma_kernel(a, rate * value_of(x), log(rate) + log_x) - log_x


def _log_tails(x, a, rate):
    """The log probabilities below and above `x`; `rate x` may underflow."""
    z = rate * x
    return log_gammainc(a, z, None, log_unless_tiny(z, steep_log(rate) + steep_log(x)))


GAMMA = ScalarFamily(
    make=lambda of_log, of_value: Gamma(of_log + 1, -of_value),  # pyright: ignore[reportCallIssue]
    value=jnp.exp,
    weight=lambda x: x,
    basis=lambda x: (jnp.ones_like(x), x),
    place=lambda of_log, of_value: (
        jnp.log(jnp.maximum(of_log + 1, 0.1)) - jnp.log(jnp.maximum(-of_value, 0)),
        jnp.ones_like(of_log),
    ),
)


@family(
    support=positive,
    log_prob=_gamma_log_prob,
    reads_points=True,
    sample=lambda key, shape, dtype, a, rate: clip_positive(gamma(key, a, shape, dtype) / rate),
    mean=lambda a, rate: a / rate,
    variance=lambda a, rate: a / jnp.square(rate),
    mode=lambda a, rate: jnp.maximum(a - 1, 0) / rate,
    entropy=lambda a, rate: gamma_entropy(a) - jnp.log(rate),
    log_cdf=lambda *args: _log_tails(*args)[0],
    log_survival=lambda *args: _log_tails(*args)[1],
    standard=RATE,
    conjugate=GAMMA,
)
class Gamma(Family):
    r"""Gamma distribution with mean `concentration / rate`.

    `p(x) = rate^a x^(a - 1) exp(-rate x) / Gamma(a)` with `a = concentration`, for `x > 0`.

    Args:
        concentration: The shape, positive.
        rate: The inverse of the scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Gamma(2.0, 1.0).log_prob(1.0)), 4)
    -1.0

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive)
