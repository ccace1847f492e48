"""The inverse Wishart distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.linear_algebra import (
    gram,
    per_event,
)
from distributions.common.triangular_factors import cholesky
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.core.exponential_family import MatrixFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.inverse_wishart_functions import (
    inverse_cholesky_sample,
    inverse_entropy,
    inverse_score,
)
from distributions.numerics.wishart_functions import (
    PARAMETERS,
    color,
    matrix,
    outer_diagonal,
    size,
    unit_scale,
    whiten,
)

INVERSE_WISHART = MatrixFamily(
    make=lambda of_log, of_value: InverseWishart(
        2 * of_log - of_value.shape[-1] - 1,  # pyright: ignore[reportCallIssue]
        scale=of_value,
    ),
    is_inverse=True,
)


def _inverse_mean(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    return select(excess > 0, s / select(excess > 0, excess, 1), jnp.nan)


def _inverse_variance(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    a = select(excess > 2, excess, 3)
    finite = ((a + 2) * jnp.square(s) + a * outer_diagonal(s)) / ((a + 1) * jnp.square(a) * (a - 2))
    return select(excess > 2, finite, select(excess > 0, jnp.inf, jnp.full_like(excess, jnp.nan)))


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: inverse_score(cholesky(x), *parameters),
    sample=lambda *arguments: gram(inverse_cholesky_sample(*arguments)),
    mean=_inverse_mean,
    variance=_inverse_variance,
    mode=lambda df, scale, scale_tril: (
        matrix(scale, scale_tril) / per_event(df + size(scale, scale_tril) + 1, 2)
    ),
    entropy=inverse_entropy,
    standard=Factor(color, whiten, unit_scale),
    conjugate=INVERSE_WISHART,
    **PARAMETERS,
)
class InverseWishart(Family):
    r"""Inverse Wishart distribution over matrices, with mean `scale / (df - n - 1)`.

    `p(X) = |S|^(df / 2) |X|^(-(df + n + 1) / 2) exp(-tr(S X^-1) / 2) / (2^(df n / 2)
    Gamma_n(df / 2))` with `S = scale`, for positive definite `X` of `n` by `n`: a density in the
    entries of the lower triangle. The inverse of `X` is `Wishart` with `df` and `S^-1`.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S`, positive definite, of shape `(..., n, n)`.
        scale_tril: The Cholesky factor of `S`; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.InverseWishart(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -3.531

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    _: KW_ONLY
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
