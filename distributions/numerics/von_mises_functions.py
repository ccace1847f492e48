"""_TURN, _BELOW_ONE, _below_one."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, random
from jax.scipy.special import i0e, i1e

from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import open_uniform

FULL_TURN = 2 * math.pi


# Coefficients of c**-(k + 1) in 1 - I1(c) / I0(c) for large c.
_BELOW_ONE = (1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)


def below_one(c):
    """`1 - I1(c) / I0(c)`; from where on terms of the series are lost, by that."""
    far = c > float(jnp.finfo(c.dtype).eps) ** -0.2
    y, total = 1 / jnp.where(far, c, 1), 0.0
    for coefficient in reversed(_BELOW_ONE):
        total = (coefficient + total) * y
    return jnp.where(far, total, 1 - i1e(c) / i0e(c))


@jax.custom_jvp
def log_i0e(c: Array) -> Array:
    """`log(exp(-c) I0(c))`, with its derivative also where that is lost beside 1, for `c >= 0`."""
    return jnp.log(i0e(c))


@log_i0e.defjvp
def _log_i0e_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return log_i0e(*primals), -below_one(*primals) * tangents[0]


def wrap(angle: Array) -> Array:
    """The angle from `-pi` to `pi`."""
    return jnp.clip(angle - FULL_TURN * jnp.round(angle / FULL_TURN), -math.pi, math.pi)


def von_mises_draw(key: Array, shape: tuple[int, ...], dtype: Any, loc: Any, c: Any) -> Array:
    """By rejection, until all are accepted, from a Cauchy law of the tangent of half the angle.

    With `y` the squared sine of half the angle, target over envelope is proportional to
    `(g + (1 - g) y) exp(-2 c y)` for the square `g` of the scale of the Cauchy law: greatest at
    `1 / (4 c)` where `g = 1 / (1 + 4 c)`.
    """
    loc, c = (jnp.broadcast_to(jnp.asarray(p), shape) for p in (loc, c))
    log_ratio = lambda y: jnp.log1p(4 * (c * y)) - 2 * (c * y)  # noqa: E731
    log_most = log_ratio(jnp.minimum(0.25 / c, 1))

    def propose(key):
        first, second = random.split(key)
        t = 0.5 * random.cauchy(first, shape, dtype) / jnp.sqrt(0.25 + c)
        new = jnp.arctan(t)
        log_u = jnp.log(open_uniform(second, shape, dtype))
        return new, log_u < log_ratio(jnp.square(jnp.sin(new))) - log_most

    return wrap(loc + 2 * draw_first_accepted(propose, key, shape, dtype))
