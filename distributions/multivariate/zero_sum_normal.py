"""The normal distribution on the plane of arrays that sum to zero."""

import math
from dataclasses import KW_ONLY

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.linear_algebra import per_event, square_sum
from distributions.common.pytree import static
from distributions.constraints import positive, zero_sum
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI, scale_by_reciprocal


def _freedom(shape):
    return math.prod(n - 1 for n in shape)


def _log_prob(x, scale, shape):
    square = square_sum(scale_by_reciprocal(x, per_event(scale, len(shape))), len(shape))
    return -0.5 * square - _freedom(shape) * (jnp.log(scale) + LOG_SQRT_TWO_PI)


def _sample(key, shape, dtype, scale, event_shape):
    z = random.normal(key, shape, dtype)
    for axis in range(-len(event_shape), 0):
        z = z - jnp.mean(z, axis, keepdims=True)
    return per_event(scale, len(event_shape)) * z


def _requires(scale, shape):
    if isinstance(shape, tuple) and shape and all(isinstance(n, int) and n > 1 for n in shape):
        return None
    return f"shape must be a tuple of integers, each 2 or more; got {shape!r}"


@family(
    support=lambda scale, shape: zero_sum(len(shape)),
    event_shape=lambda scale, shape: shape,
    requires=_requires,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda scale, shape: 0.0,
    variance=lambda scale, shape: per_event(
        jnp.square(scale) * math.prod(1 - 1 / n for n in shape), len(shape)
    ),
    mode=lambda scale, shape: 0.0,
    entropy=lambda scale, shape: _freedom(shape) * (0.5 + LOG_SQRT_TWO_PI + jnp.log(scale)),
    standard=Factor(
        lambda z, scale, shape: per_event(scale, len(shape)) * z,
        lambda x, scale, shape: x / per_event(scale, len(shape)),
        lambda d: {"scale": jnp.ones(np.shape(d.scale), d.dtype)},
    ),
)
class ZeroSumNormal(Family):
    r"""Zero-sum normal distribution over arrays that sum to zero along each axis.

    `p(x) = exp(-|x|^2 / (2 scale^2)) / (sqrt(2 pi) scale)^m` with `m = prod_k (n_k - 1)` for a
    shape of `n_1, n_2, ...`: independent normal entries less their means, a density with respect to
    area in the plane of such arrays.

    Args:
        scale: The standard deviation along any direction in the plane, positive.
        shape: The shape of an array; it sums to zero along all of its axes.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.ZeroSumNormal(1.0, shape=(3,)).log_prob(jnp.array([1.0, 0.0, -1.0]))), 4)
    -2.8379

    References:
        Seyboldt, Carroll and Wiecki, "ZeroSumNormal", PyMC documentation (2022).
    """

    scale: ArrayLike = parameter(positive)
    _: KW_ONLY
    shape: tuple[int, ...] = static()
