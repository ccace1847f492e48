"""Ratios of Bessel functions, angles and draws of von Mises distributions."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, random
from jax.scipy.special import i0e, i1e

from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import open_uniform

FULL_TURN = 2 * math.pi  # Radians.


# Coefficients of c**-(k + 1) in 1 - I1(c) / I0(c) for large c.
_BELOW_ONE = (1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)


def below_one(c: Array) -> Array:
    """`1 - I1(c) / I0(c)`; for large `c` by its asymptotic series, precise to a rounding there."""
    far = c > float(jnp.finfo(c.dtype).eps) ** -0.2
    y = 1 / jnp.where(far, c, 1)
    total = 0.0
    for coefficient in reversed(_BELOW_ONE):
        total = (coefficient + total) * y
    return jnp.where(far, total, 1 - i1e(c) / i0e(c))


@jax.custom_jvp
def log_i0e(c: Array) -> Array:
    """`log(exp(-c) I0(c))` for `c >= 0`, with a derivative that is precise for large `c`."""
    return jnp.log(i0e(c))


@log_i0e.defjvp
def _log_i0e_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return log_i0e(*primals), -below_one(*primals) * tangents[0]


def wrap(angle: Array) -> Array:
    """The angle in radians from `-pi` to `pi`, modulo a full turn."""
    return jnp.clip(angle - FULL_TURN * jnp.round(angle / FULL_TURN), -math.pi, math.pi)


def von_mises_draw(key: Array, shape: tuple[int, ...], dtype: Any, loc: Any, c: Any) -> Array:
    """Draws of a von Mises variable, by rejection from a Cauchy law of the half-angle's tangent.

    Let `y` be the squared sine of half the angle, and `g` the squared scale of the Cauchy law.
    Target over envelope is proportional to `(g + (1 - g) y) exp(-2 c y)`; for `g = 1 / (1 + 4 c)`
    it is greatest at `y = 1 / (4 c)`.
    """
    loc, c = (jnp.broadcast_to(jnp.asarray(p), shape) for p in (loc, c))

    def log_ratio(y):
        return jnp.log1p(4 * (c * y)) - 2 * (c * y)

    log_most = log_ratio(jnp.minimum(0.25 / c, 1))

    def propose(key):
        first, second = random.split(key)
        t = 0.5 * random.cauchy(first, shape, dtype) / jnp.sqrt(0.25 + c)
        new = jnp.arctan(t)
        log_u = jnp.log(open_uniform(second, shape, dtype))
        return new, log_u < log_ratio(jnp.square(jnp.sin(new))) - log_most

    return wrap(loc + 2 * draw_first_accepted(propose, key, shape, dtype))
