"""The scaled inverse chi-square distribution: an inverse gamma distribution, for variances."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.continuous.inverse_gamma import INVERSE_GAMMA, InverseGamma
from distributions.core.derived_formulas import reparameterize_formulas
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.loader_kernels import log_gamma_kernel


def _inverse_chi_square_log_prob(x, df, scale):
    log_x = jnp.log(x)
    root = jnp.sqrt(x)
    log_y = jnp.log(0.5 * df) + 2 * jnp.log(scale) - log_x
    return log_gamma_kernel(0.5 * df, 0.5 * df * jnp.square(scale / root), log_y) - log_x


@family(
    support=positive,
    **reparameterize_formulas(
        InverseGamma, lambda df, scale: (0.5 * df, 0.5 * df * jnp.square(scale))
    )
    | {"log_prob": _inverse_chi_square_log_prob},
    standard=Factor(
        lambda z, df, scale: jnp.square(scale) * z,
        lambda x, df, scale: x / jnp.square(scale),
        lambda d: {"scale": jnp.ones(np.shape(d.scale), d.dtype)},
    ),
    conjugate=INVERSE_GAMMA,
)
class InverseChi2(Family):
    r"""Scaled inverse chi-square distribution: `df scale^2 / y` for a chi-square variable `y`.

    `p(x) = (h scale^2)^h x^(-h - 1) exp(-h scale^2 / x) / Gamma(h)` with `h = df / 2`, for `x > 0`.

    Args:
        df: Degrees of freedom, positive.
        scale: The scale, positive: a standard deviation where `x` is a variance.

    >>> import distributions as dist
    >>> round(float(dist.InverseChi2(4.0, 1.0).log_prob(1.0)), 4)
    -0.6137

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
