r"""L-BFGS's inverse Hessian, a diagonal and a low rank, and the normal distribution from it.

References:
    Zhang, Carpenter, Gelman and Vehtari (2022), Pathfinder: parallel quasi-Newton variational
    inference, JMLR 23; Gilbert and Lemarechal (1989), Some numerical experiments with
    variable-storage quasi-Newton algorithms.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.lockstep import select_leaves
from inference.common.matrices import LowRankMatrix, pull, push
from inference.guides.low_rank_normal import LowRankNormalParameters


class Pairs(NamedTuple):
    """The correction pairs of L-BFGS and the diagonal of its initial inverse Hessian.

    Attributes:
        variance: The diagonal of the initial inverse Hessian, ``(size,)``.
        steps: The last steps, the newest last, ``(history, size)``; unused rows are zero.
        falls: The fall of the gradient along each step, ``(history, size)``.
    """

    variance: jax.Array
    steps: jax.Array
    falls: jax.Array


def init_pairs(position: jax.Array, history: int) -> Pairs:
    """Pairs before the first step: no steps, and a diagonal of ones."""
    zeros = jnp.zeros((history, position.size), position.dtype)
    return Pairs(jnp.ones_like(position), zeros, zeros)


def add_pair(pairs: Pairs, step: jax.Array, fall: jax.Array) -> Pairs:
    r"""The pairs after one more step :math:`s`, along which the gradient fell by :math:`z`.

    The diagonal :math:`\alpha` becomes

    .. math:: \alpha_i' = \Big(\frac{a}{b\alpha_i} + \frac{z_i^2}{b}
        - \frac{a s_i^2}{b c \alpha_i^2}\Big)^{-1}, \quad a = z^\top \alpha z,
        \ b = z^\top s, \ c = s^\top \alpha^{-1} s.

    Steps along which the log density is not concave are left out.

    References:
        Zhang et al. (2022), algorithm 3; Gilbert and Lemarechal (1989), equation 4.9.
    """
    variance = pairs.variance
    a = jnp.sum(fall**2 * variance)
    b = jnp.sum(fall * step)
    c = jnp.sum(step**2 / variance)
    inverse = a / (b * variance) + fall**2 / b - a * (step / variance) ** 2 / (b * c)
    is_known = (inverse > 0) & jnp.isfinite(inverse) & jnp.isfinite(1 / inverse)
    after = Pairs(
        jnp.where(is_known, 1 / inverse, variance),
        jnp.concatenate([pairs.steps[1:], step[None]]),
        jnp.concatenate([pairs.falls[1:], fall[None]]),
    )
    size = jnp.sqrt(jnp.sum(step**2)) * jnp.sqrt(jnp.sum(fall**2))
    return select_leaves(b > jnp.finfo(b.dtype).eps * size, after, pairs)


def normal_from(pairs: Pairs, position: jax.Array, gradient: jax.Array) -> LowRankNormalParameters:
    r"""Pathfinder's normal distribution at `position`, from L-BFGS's inverse Hessian.

    Its covariance is the inverse Hessian :math:`\Sigma`. Its mean is the end of a quasi-Newton
    step, :math:`\theta + \Sigma \nabla\log p(\theta)`, so its log density has the given gradient at
    `position`. Let :math:`D^2` be the diagonal of the initial inverse Hessian. Then
    :math:`D^{-1} \Sigma D^{-1}` differs from the identity only in the span of the vectors
    :math:`D^{-1} s` and :math:`D z` of all pairs. In this span the BFGS updates are made one by
    one; the compact form would invert a matrix of products :math:`s^\top z`.

    References:
        Zhang et al. (2022), equations 6 to 8 and algorithm 4; Nocedal and Wright (2006), Numerical
        Optimization, equation 6.17.
    """
    history = len(pairs.steps)
    scale = jnp.sqrt(pairs.variance)
    scaled = jnp.concatenate([pairs.steps / scale[None], pairs.falls * scale[None]])
    basis, _ = jnp.linalg.qr(scaled.T)
    # The product, not the triangle of the QR: by the product, `eigh` waits for the basis. Calls of
    # LAPACK for many paths hang if two run at once, as `qr` and `eigh` may in jaxlib 0.10 and 0.11.
    coordinates = scaled @ basis
    steps = coordinates[:history]
    falls = coordinates[history:]

    def update(inner: jax.Array, pair: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        step, fall = pair
        product = jnp.sum(step * fall)
        weight = jnp.where(product > 0, 1 / product, 0)
        along = inner @ fall
        ahead = jnp.outer(step, along - 0.5 * (1 + weight * jnp.sum(fall * along)) * step)
        return inner - weight * (ahead + ahead.T), None

    identity = jnp.eye(basis.shape[1], dtype=scale.dtype)
    inner, _ = lax.scan(update, identity, (steps, falls))
    values, vectors = jnp.linalg.eigh(inner)
    least = jnp.finfo(values.dtype).eps * values[-1]
    values = jnp.sqrt(jnp.maximum(values, least))
    factor = LowRankMatrix(scale, (basis @ vectors).T, values)
    return LowRankNormalParameters(position + push(factor, pull(factor, gradient)), factor)
