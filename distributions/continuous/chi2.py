"""The chi-square distribution: a gamma distribution by its degrees of freedom."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.continuous.gamma import GAMMA, Gamma
from distributions.core.derived_formulas import reparameterize_formulas
from distributions.core.family import Family, family, parameter


@family(
    support=positive,
    reads_points=True,
    **reparameterize_formulas(Gamma, lambda df: (0.5 * df, jnp.full_like(df, 0.5))),
    conjugate=GAMMA,
)
class Chi2(Family):
    r"""Chi-square distribution: the sum of the squares of `df` standard normal variables.

    `p(x) = x^(df / 2 - 1) exp(-x / 2) / (2^(df / 2) Gamma(df / 2))` for `x > 0`.

    Args:
        df: Degrees of freedom, positive; the mean.

    >>> import distributions as dist
    >>> round(float(dist.Chi2(2.0).log_prob(2.0)), 4)
    -1.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 18.
    """

    df: ArrayLike = parameter(positive)
