"""Families of vectors: Dirichlet and MultivariateNormal."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike

from distributions.constraints import (
    independent,
    lower_cholesky,
    open_simplex,
    positive,
    positive_definite,
    real,
    real_vector,
)
from distributions.family import Family, family, parameter
from distributions.special import LOG_SQRT_TWO_PI


def _dirichlet_log_prob(x, a):
    log_normaliser = lax.lgamma(jnp.sum(a, -1)) - jnp.sum(lax.lgamma(a), -1)
    return jnp.sum((a - 1) * jnp.log(x), -1) + log_normaliser


def _dirichlet_sample(key, shape, dtype, a):
    draw = random.dirichlet(key, a, shape[:-1], dtype)
    return jnp.maximum(draw, jnp.finfo(dtype).tiny)


@family(
    support=open_simplex,
    tfp="Dirichlet",
    log_prob=_dirichlet_log_prob,
    sample=_dirichlet_sample,
)
class Dirichlet(Family):
    r"""Dirichlet distribution over vectors that sum to 1.

    `p(x) = prod_i x_i^(a_i - 1) Gamma(sum_i a_i) / prod_i Gamma(a_i)` with `a = concentration`, for
    `x` on the open simplex.

    Args:
        concentration: Positive numbers of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.Dirichlet(jnp.ones(3)).log_prob(jnp.array([0.2, 0.3, 0.5]))), 4)
    0.6931

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(independent(positive, 1))


def _solve(tril: Array, x: Array, *, transpose: bool = False) -> Array:
    """The solution `y` of `tril y = x` or `tril^T y = x`; one factor serves all of `x`."""
    trans = 1 if transpose else 0
    n = x.shape[-1]
    if all(size == 1 for size in tril.shape[:-2]):
        columns = solve_triangular(tril.reshape(n, n), x.reshape(-1, n).T, lower=True, trans=trans)
        return columns.T.reshape(x.shape)
    batch = jnp.broadcast_shapes(tril.shape[:-2], x.shape[:-1])
    tril, x = jnp.broadcast_to(tril, (*batch, n, n)), jnp.broadcast_to(x, (*batch, n))
    return solve_triangular(tril, x[..., None], lower=True, trans=trans)[..., 0]


def _multiply(matrix: Array, x: Array) -> Array:
    return jnp.einsum("...ij,...j->...i", matrix, x, precision=lax.Precision.HIGHEST)


def _log_diagonal(tril: Array) -> Array:
    return jnp.sum(jnp.log(jnp.diagonal(tril, axis1=-2, axis2=-1)), -1)


def _multivariate_normal_log_prob(x, loc, covariance, precision, scale_tril):
    if precision is None:
        tril = jnp.linalg.cholesky(covariance) if scale_tril is None else scale_tril
        z, log_det = _solve(tril, x - loc), -_log_diagonal(tril)
    else:
        tril = jnp.linalg.cholesky(precision)
        z, log_det = _multiply(tril.mT, x - loc), _log_diagonal(tril)
    return -0.5 * jnp.sum(jnp.square(z), -1) + log_det - x.shape[-1] * LOG_SQRT_TWO_PI


def _multivariate_normal_sample(key, shape, dtype, loc, covariance, precision, scale_tril):
    z = random.normal(key, shape, dtype)
    if precision is not None:
        return loc + _solve(jnp.linalg.cholesky(precision), z, transpose=True)
    return loc + _multiply(jnp.linalg.cholesky(covariance) if scale_tril is None else scale_tril, z)


def _multivariate_normal_variance(loc, covariance, precision, scale_tril) -> Any:
    if precision is not None:
        covariance = jnp.linalg.inv(precision)
    if scale_tril is not None:
        return jnp.sum(jnp.square(scale_tril), -1)
    return jnp.diagonal(covariance, axis1=-2, axis2=-1)


@family(
    support=real_vector,
    tfp="MultivariateNormalTriL",
    one_of=("covariance", "precision", "scale_tril"),
    log_prob=_multivariate_normal_log_prob,
    sample=_multivariate_normal_sample,
    mean=lambda loc, covariance, precision, scale_tril: loc,
    variance=_multivariate_normal_variance,
)
class MultivariateNormal(Family):
    r"""Multivariate normal distribution with mean `loc`.

    `p(x) = exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 pi S))` for real vectors `x`. The
    covariance matrix `S` is given as it is, by its inverse, or by its Cholesky factor `L` with
    `S = L L^T`.

    A covariance or precision matrix is factored whenever a density or a draw is computed, which
    takes `O(n^3)` operations; give `scale_tril` where the matrix does not change.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        covariance: Positive definite, of shape `(..., n, n)`.
        precision: The inverse of the covariance matrix; its own factor is used, and nothing is
            inverted.
        scale_tril: Lower-triangular with a positive diagonal; exactly one of the three is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.MultivariateNormal(0.0, covariance=jnp.eye(2))
    >>> round(float(normal.log_prob(jnp.zeros(2))), 4)
    -1.8379

    References:
        Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), appendix A.2.
    """

    loc: ArrayLike = parameter(real, event_ndims=1)
    covariance: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    precision: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None, kw_only=True)
