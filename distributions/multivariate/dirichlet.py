"""The Dirichlet distribution."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.point import log_of
from distributions.common.unit_vectors import unit_vector
from distributions.constraints import independent, open_simplex, positive
from distributions.core.exponential_family import SimplexFamily
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import dirichlet_entropy, log_multivariate_beta
from distributions.numerics.gamma_sampler import log_gamma


def _dirichlet_sample(key, shape, dtype, a):
    draw = jax.nn.softmax(log_gamma(key, a, shape, dtype), -1)
    return jnp.maximum(draw, jnp.finfo(dtype).tiny)


def _dirichlet_mean(a):
    return a / jnp.sum(a, -1, keepdims=True)


def _dirichlet_variance(a):
    total = jnp.sum(a, -1, keepdims=True)
    return (a / total) * ((total - a) / total) / (total + 1)


def _dirichlet_mode(a):
    """The mode; the largest entry takes all where none exceeds 1."""
    above = jnp.maximum(a - 1, 0)
    total = jnp.sum(above, -1, keepdims=True)
    corner = unit_vector(jnp.argmax(a, -1), a.shape[-1], a.dtype)
    return select(total > 0, above / select(total > 0, total, 1), corner)


DIRICHLET = SimplexFamily(make=lambda of_log: Dirichlet(of_log + 1))  # pyright: ignore[reportCallIssue]


@family(
    support=open_simplex,
    reads_points=True,
    log_prob=lambda x, a: jnp.sum((a - 1) * log_of(x), -1) - log_multivariate_beta(a),
    sample=_dirichlet_sample,
    mean=_dirichlet_mean,
    variance=_dirichlet_variance,
    mode=_dirichlet_mode,
    entropy=dirichlet_entropy,
    conjugate=DIRICHLET,
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
