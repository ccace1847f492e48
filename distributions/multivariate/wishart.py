"""The Wishart distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.linear_algebra import (
    gram,
    inverse,
    per_event,
)
from distributions.common.triangular_factors import cholesky
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.core.exponential_family import MatrixFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.wishart_functions import (
    PARAMETERS,
    color,
    matrix,
    outer_diagonal,
    size,
    unit_scale,
    whiten,
    wishart_cholesky_sample,
    wishart_entropy,
    wishart_score,
)

WISHART = MatrixFamily(
    make=lambda of_log, of_value: Wishart(
        2 * of_log + of_value.shape[-1] + 1,  # pyright: ignore[reportCallIssue]
        scale=inverse(of_value),
    )
)


def _wishart_variance(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    return per_event(df, 2) * (jnp.square(s) + outer_diagonal(s))


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: wishart_score(cholesky(x), *parameters),
    sample=lambda *arguments: gram(wishart_cholesky_sample(*arguments)),
    mean=lambda df, scale, scale_tril: per_event(df, 2) * matrix(scale, scale_tril),
    variance=_wishart_variance,
    mode=lambda df, scale, scale_tril: (
        per_event(jnp.maximum(df - size(scale, scale_tril) - 1, 0), 2) * matrix(scale, scale_tril)
    ),
    entropy=wishart_entropy,
    standard=Factor(color, whiten, unit_scale),
    conjugate=WISHART,
    **PARAMETERS,
)
class Wishart(Family):
    r"""Wishart distribution over positive definite matrices, with mean `df scale`.

    `p(X) = |X|^((df - n - 1) / 2) exp(-tr(S^-1 X) / 2) / (2^(df n / 2) |S|^(df / 2)
    Gamma_n(df / 2))` with `S = scale`, for positive definite `X` of `n` by `n`: a density in the
    entries of the lower triangle.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S`, positive definite, of shape `(..., n, n)`.
        scale_tril: The Cholesky factor of `S`; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.Wishart(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -3.531

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    _: KW_ONLY
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
