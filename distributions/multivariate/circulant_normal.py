"""The multivariate normal distribution with a circulant covariance, by Fourier transforms."""

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.linear_algebra import last_axis, square_sum
from distributions.constraints import independent, real, real_vector
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _requires(loc, covariance_row):
    symmetric = np.allclose(covariance_row[..., 1:], covariance_row[..., :0:-1], 1e-5)
    if symmetric and (np.fft.rfft(covariance_row).real > 0).all():
        return None
    return (
        "covariance_row must be symmetric around the circle, with positive discrete Fourier "
        f"coefficients; got {covariance_row}"
    )


def _spectrum(covariance_row):
    """The eigenvalues of the covariance at the frequencies of a real transform."""
    return jnp.fft.rfft(covariance_row).real


def _filter_waves(x, gains):
    """`x` with the waves of each frequency scaled."""
    waves = jnp.fft.rfft(x)
    return jnp.fft.irfft(waves * gains.astype(waves.dtype), x.shape[-1])


def _half_log_det(covariance_row):
    return 0.5 * jnp.sum(jnp.log(jnp.fft.fft(covariance_row).real), -1)


def _color(z, loc, covariance_row):
    return loc + _filter_waves(z, jnp.sqrt(_spectrum(covariance_row)))


def _whiten(x, loc, covariance_row):
    return _filter_waves(x - loc, 1 / jnp.sqrt(_spectrum(covariance_row)))


def _log_prob(x, loc, covariance_row):
    n = x.shape[-1]
    z = _whiten(x, loc, covariance_row)
    return -0.5 * square_sum(z) - _half_log_det(covariance_row) - n * LOG_SQRT_TWO_PI


def _sample(key, shape, dtype, loc, covariance_row):
    return _color(random.normal(key, shape, dtype), loc, covariance_row)


@family(
    support=real_vector,
    event_shape=last_axis,
    requires=_requires,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda loc, covariance_row: loc,
    variance=lambda loc, covariance_row: covariance_row[..., :1],
    mode=lambda loc, covariance_row: loc,
    entropy=lambda loc, covariance_row: (
        _half_log_det(covariance_row) + covariance_row.shape[-1] * (0.5 + LOG_SQRT_TWO_PI)
    ),
    standard=Factor(_color, _whiten),
)
class CirculantNormal(Family):
    r"""Multivariate normal distribution whose covariance depends on the distance along a circle.

    `p(x) = exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 pi S))` with
    `S_ij = covariance_row_((j - i) mod n)`, for real vectors `x`. Fast Fourier transforms
    compute it in `O(n log n)` operations.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        covariance_row: The first row of the covariance matrix, of shape `(..., n)`: symmetric
            around the circle, with positive discrete Fourier coefficients.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.CirculantNormal(0.0, jnp.array([1.0, 0.5, 0.5]))
    >>> round(float(normal.log_prob(jnp.zeros(3))), 4)
    -2.4102

    References:
        Gray, *Toeplitz and Circulant Matrices: A Review* (2006), chapter 3.
    """

    loc: ArrayLike = parameter(real, event_ndims=1)
    covariance_row: ArrayLike = parameter(independent(real, 1))
