"""The uniform distribution on the sphere."""

import jax.numpy as jnp
import numpy as np
from jax import random

from distributions.common.linear_algebra import square_sum
from distributions.common.pytree import static
from distributions.constraints import unit_vector
from distributions.core.family import Family, family
from distributions.numerics.sphere import log_area


def _check_dimension(dimension):
    if isinstance(dimension, int) and dimension > 1:
        return None
    return f"dimension must be an integer, 2 or more; got {dimension!r}"


def _uniform_sample(key, shape, dtype, dimension):
    z = random.normal(key, shape, dtype)
    return z / jnp.sqrt(square_sum(z))[..., None]


@family(
    support=unit_vector,
    event_shape=lambda dimension: (dimension,),
    requires=_check_dimension,
    log_prob=lambda x, dimension: 0 * x[..., 0] - log_area(dimension),
    sample=_uniform_sample,
    mean=lambda dimension: 0.0,
    variance=lambda dimension: 1 / dimension,
    mode=lambda dimension: np.eye(dimension)[0],
    entropy=log_area,
)
class SphericalUniform(Family):
    r"""Uniform distribution over vectors of length 1.

    `p(x) = Gamma(n / 2) / (2 pi^(n / 2))`, a density with respect to the area of the sphere.

    Args:
        dimension: The number of entries `n`, at least 2.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.SphericalUniform(3).log_prob(jnp.array([1.0, 0.0, 0.0]))), 4)
    -2.531

    References:
        Mardia and Jupp, *Directional Statistics* (2000), section 9.3.1.
    """

    dimension: int = static()
