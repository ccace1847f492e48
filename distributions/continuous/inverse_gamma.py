"""The inverse gamma distribution."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.gamma_functions import gamma_entropy
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.loader_kernels import log_gamma_kernel
from distributions.numerics.special import clip_positive, log, log_unless_tiny, ratio, steep_log


def _inverse_gamma_log_prob(x, a, scale):
    log_x = jnp.log(x)
    return log_gamma_kernel(a, ratio(scale, x), log(scale) - log_x) - log_x


def _log_tails(x, a, scale):
    """The log probabilities above and below `x`; `scale / x` may underflow."""
    z = ratio(scale, x)
    return log_gammainc(a, z, None, log_unless_tiny(z, steep_log(scale) - steep_log(x)))


def _excess(a, least):
    """`a - least`, and 1 where that is not positive, for finite derivatives."""
    return jnp.where(a > least, a - least, 1)


INVERSE_GAMMA = ScalarFamily(
    make=lambda of_log, of_inverse: InverseGamma(-of_log - 1, -of_inverse),  # pyright: ignore[reportCallIssue]
    value=jnp.exp,
    weight=lambda x: x,
    basis=lambda x: (jnp.ones_like(x), -1 / x),
    place=lambda of_log, of_inverse: (
        jnp.log(jnp.maximum(-of_inverse, 0)) - jnp.log(jnp.maximum(-of_log - 1, 0.1)),
        jnp.ones_like(of_log),
    ),
)


@family(
    support=positive,
    log_prob=_inverse_gamma_log_prob,
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale / clip_positive(gamma(key, a, shape, dtype))
    ),
    mean=lambda a, scale: jnp.where(a > 1, scale / _excess(a, 1), jnp.inf),
    variance=lambda a, scale: jnp.where(
        a > 2, jnp.square(scale / _excess(a, 1)) / _excess(a, 2), jnp.inf
    ),
    mode=lambda a, scale: scale / (a + 1),
    entropy=lambda a, scale: gamma_entropy(a, -1.0) + jnp.log(scale),
    log_cdf=lambda *args: _log_tails(*args)[1],
    log_survival=lambda *args: _log_tails(*args)[0],
    standard=SCALE,
    conjugate=INVERSE_GAMMA,
)
class InverseGamma(Family):
    r"""Inverse gamma distribution: the inverse of a gamma variable with rate `scale`.

    `p(x) = scale^a x^(-a - 1) exp(-scale / x) / Gamma(a)` with `a = concentration`, for `x > 0`.

    Args:
        concentration: The shape, positive.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.InverseGamma(2.0, 1.0).log_prob(1.0)), 4)
    -1.0

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
