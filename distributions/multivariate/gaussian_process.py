"""A Gaussian process at finitely many points."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, random
from jax.typing import ArrayLike

from distributions.common.arrays import align
from distributions.common.linear_algebra import (
    diagonal,
    last_axis,
    log_diagonal,
    multiply,
    per_event,
    solve,
    square_sum,
)
from distributions.common.triangular_factors import cholesky
from distributions.constraints import (
    nonnegative,
    real,
    real_vector,
    symmetric,
)
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _factor(kernel, mean_fn, noise):
    unit = jnp.eye(kernel.shape[-1], dtype=kernel.dtype)
    covariance = kernel + align(unit, 2, kernel.ndim - 2) * per_event(noise, 2)
    return cholesky(covariance)


def _process_log_prob(x, kernel, mean_fn, noise):
    tril = _factor(kernel, mean_fn, noise)
    square = square_sum(solve(tril, x - mean_fn))
    return -0.5 * square - log_diagonal(tril) - x.shape[-1] * LOG_SQRT_TWO_PI


def _process_sample(key, shape, dtype, kernel, mean_fn, noise):
    z = random.normal(key, shape, dtype)
    return mean_fn + multiply(_factor(kernel, mean_fn, noise), z)


def _process_entropy(kernel, mean_fn, noise):
    n = kernel.shape[-1]
    return log_diagonal(_factor(kernel, mean_fn, noise)) + n * (0.5 + LOG_SQRT_TWO_PI)


@family(
    support=real_vector,
    event_shape=lambda kernel, mean_fn, noise: last_axis(kernel, mean_fn),
    log_prob=_process_log_prob,
    sample=_process_sample,
    mean=lambda kernel, mean_fn, noise: mean_fn,
    variance=lambda kernel, mean_fn, noise: diagonal(kernel) + per_event(noise),
    mode=lambda kernel, mean_fn, noise: mean_fn,
    entropy=_process_entropy,
    standard=Factor(
        lambda z, *parameters: parameters[1] + multiply(_factor(*parameters), z),
        lambda x, *parameters: solve(_factor(*parameters), x - parameters[1]),
    ),
)
class GaussianProcess(Family):
    r"""Values of a Gaussian process at finitely many points.

    Multivariate normal with mean `m_i = mean_fn(index_points_i)` and covariance
    `K_ij = kernel(index_points_i, index_points_j)`, with `observation_noise_variance` added
    to the diagonal.

    Functions are evaluated once, when the distribution is made; the distribution holds the matrix
    and the vector.

    Args:
        kernel: The covariance of two points, a function; or the matrix, of shape `(..., n, n)`.
        index_points: The points, along the first axis; not needed beside a matrix.
        mean_fn: The mean at a point, a function; or the vector of means, or one number.
        observation_noise_variance: The variance of independent noise at each point, nonnegative.
            Without noise, a smooth kernel at near points has no Cholesky factor in finite
            precision: about 1e-6 of its diagonal helps.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> kernel = lambda x, y: jnp.exp(-0.5 * (x - y) ** 2)
    >>> process = dist.GaussianProcess(kernel, jnp.arange(3.0), 0.0, 0.1)
    >>> round(float(process.log_prob(jnp.zeros(3))), 4)
    -2.5023

    References:
        Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), chapter 2.
    """

    kernel: ArrayLike | Callable[[Any, Any], Array] = parameter(symmetric)
    index_points: dataclasses.InitVar[Any] = None
    mean_fn: ArrayLike | Callable[[Any], Array] = parameter(real, event_ndims=1, default=0.0)
    observation_noise_variance: ArrayLike = parameter(nonnegative, default=0.0)

    def __post_init__(self, index_points: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Evaluates the functions at the points."""
        kernel = self.kernel
        mean_fn = self.mean_fn
        points = index_points
        if points is None and (callable(kernel) or callable(mean_fn)):
            raise ValueError("GaussianProcess: a function needs index_points; got None")
        if callable(kernel):
            rows = jax.vmap(jax.vmap(kernel, (None, 0)), (0, None))
            object.__setattr__(self, "kernel", rows(points, points))
        if callable(mean_fn):
            object.__setattr__(self, "mean_fn", jax.vmap(mean_fn)(points))
        super().__post_init__()
