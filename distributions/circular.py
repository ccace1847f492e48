"""Families of angles: VonMises."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax, random
from jax.scipy.special import i0e, i1e
from jax.typing import ArrayLike

from distributions._derive import implicit
from distributions._rejection import first_accepted
from distributions.constraints import interval, positive, real
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import gauss_legendre, open_uniform

_TURN = 2 * math.pi


# Coefficients of c**-(k + 1) in 1 - I1(c) / I0(c) for large c.
_BELOW_ONE = (1 / 2, 1 / 8, 1 / 8, 25 / 128, 13 / 32, 1073 / 1024)


def _below_one(c):
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
    return log_i0e(*primals), -_below_one(*primals) * tangents[0]


def _log_density(angle, c):
    """Of the angle from the mode; `cos x - 1` without cancellation."""
    sine = jnp.sin(0.5 * angle)
    return -2 * (c * sine * sine) - log_i0e(c) - math.log(_TURN)


def _mass(angle, c):
    """The integral of the density, continued periodically, from 0 to the angle."""
    angle, c = jnp.broadcast_arrays(angle, c)
    turns = jnp.round(angle / _TURN)
    rest = angle - _TURN * turns
    widest = 2 * jnp.arcsin(jnp.minimum(jnp.sqrt(20 / c), 1))
    width = jnp.minimum(jnp.abs(rest), lax.stop_gradient(widest))
    nodes, weights = gauss_legendre(c)
    density = jnp.exp(_log_density(width[..., None] * nodes, c[..., None]))
    return turns + jnp.sign(rest) * width * jnp.sum(weights * density, axis=-1)


def wrap(angle: Array) -> Array:
    """The angle from `-pi` to `pi`."""
    return jnp.clip(angle - _TURN * jnp.round(angle / _TURN), -math.pi, math.pi)


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

    return wrap(loc + 2 * first_accepted(propose, key, shape, dtype))


def _log_prob(x, loc, c):
    return _log_density(x - loc, c)


@family(
    support=interval(-math.pi, math.pi),
    log_prob=_log_prob,
    sample=implicit(von_mises_draw, lambda x, loc, c: _mass(x - loc, c), _log_prob),
    mean=lambda loc, c: wrap(loc),
    variance=lambda loc, c: _below_one(c),
    mode=lambda loc, c: wrap(loc),
    entropy=lambda loc, c: math.log(_TURN) + log_i0e(c) + c * _below_one(c),
    cdf=lambda x, loc, c: _mass(x - loc, c) + _mass(loc + math.pi, c),
    survival=lambda x, loc, c: _mass(math.pi - loc, c) - _mass(x - loc, c),
)
class VonMises(Family):
    r"""Von Mises distribution of angles from `-pi` to `pi`.

    `p(x) = exp(c cos(x - loc)) / (2 pi I0(c))` with `c = concentration`. The mean and the variance
    are those of the circle: the direction `loc`, and `1 - I1(c) / I0(c)`.

    Args:
        loc: The mode, an angle; any multiple of `2 pi` may be added.
        concentration: How narrow it is, positive.

    >>> import distributions as dist
    >>> round(float(dist.VonMises(0.0, 1.0).log_prob(0.0)), 4)
    -1.0738

    References:
        Best and Fisher, "Efficient simulation of the von Mises distribution", Applied Statistics 28
        (1979), 152-157.
    """

    loc: ArrayLike = parameter(real)
    concentration: ArrayLike = parameter(positive)
