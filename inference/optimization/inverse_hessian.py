r"""Inverse Hessians from the steps and gradients of a path: a diagonal and a low rank.

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
    """What a path has told of the curvature of a log density.

    Attributes:
        variance: The diagonal that the inverse Hessian begins with, ``(size,)``.
        steps: The last steps, the newest last, ``(history, size)``; zeros before there are as many.
        falls: By how much the gradient has fallen along each.
    """

    variance: jax.Array
    steps: jax.Array
    falls: jax.Array


def init_pairs(position: jax.Array, history: int) -> Pairs:
    """Nothing is known: the diagonal is 1."""
    zeros = jnp.zeros((history, position.size), position.dtype)
    return Pairs(jnp.ones_like(position), zeros, zeros)


def add_pair(pairs: Pairs, step: jax.Array, fall: jax.Array) -> Pairs:
    r"""With one more step :math:`s`, along which the gradient has fallen by :math:`z`.

    The diagonal :math:`\alpha` becomes

    .. math:: \alpha_i' = \Big(\frac{a}{b\alpha_i} + \frac{z_i^2}{b}
        - \frac{a s_i^2}{b c \alpha_i^2}\Big)^{-1}, \quad a = z^\top \alpha z,
        \ b = z^\top s, \ c = s^\top \alpha^{-1} s.

    Steps along which the density is not concave are left out.

    References:
        Zhang et al. (2022), algorithm 3; Gilbert and Lemarechal (1989), equation 4.9.
    """
    variance = pairs.variance
    a, b, c = jnp.sum(fall**2 * variance), jnp.sum(fall * step), jnp.sum(step**2 / variance)
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
    r"""The normal distribution whose log density has the gradient there and the pairs' curvature.

    Its covariance is the inverse Hessian :math:`\Sigma` of L-BFGS, its mean the end of a step of
    Newton, :math:`\theta + \Sigma \nabla\log p(\theta)`. With :math:`D^2` the diagonal,
    :math:`D^{-1} \Sigma D^{-1}` differs from the identity only in the span of :math:`D^{-1} s` and
    :math:`D z`. There the updates are made one by one; the compact form would invert a matrix of
    them.

    References:
        Zhang et al. (2022), equations 6 to 8 and algorithm 4; Nocedal and Wright (2006), Numerical
        Optimization, equation 6.17.
    """
    history, scale = len(pairs.steps), jnp.sqrt(pairs.variance)
    scaled = jnp.concatenate([pairs.steps / scale[None], pairs.falls * scale[None]])
    basis, coordinates = jnp.linalg.qr(scaled.T)
    steps, falls = coordinates.T[:history], coordinates.T[history:]

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
