"""The von Mises distribution of an angle."""

import math

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from distributions.constraints import interval, positive, real
from distributions.core.derived_formulas import differentiate_implicitly
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.numerics.special import gauss_legendre
from distributions.numerics.von_mises_functions import (
    FULL_TURN,
    below_one,
    log_i0e,
    von_mises_draw,
    wrap,
)


def _log_density(angle, c):
    """The log density at an angle from the mode, with `cos x - 1` free of cancellation."""
    sine = jnp.sin(0.5 * angle)
    return -2 * (c * sine * sine) - log_i0e(c) - math.log(FULL_TURN)


def _mass(angle, c):
    """The integral of the density, continued periodically, from 0 to the angle."""
    angle, c = jnp.broadcast_arrays(angle, c)
    turns = jnp.round(angle / FULL_TURN)
    rest = angle - FULL_TURN * turns
    widest = 2 * jnp.arcsin(jnp.minimum(jnp.sqrt(20 / c), 1))
    widest = lax.stop_gradient(widest)
    # No clip, whose derivative at a bound is half of it.
    width = jnp.where(jnp.abs(rest) > widest, jnp.sign(rest) * widest, rest)
    nodes, weights = gauss_legendre(c)
    density = jnp.exp(_log_density(width[..., None] * nodes, c[..., None]))
    return turns + width * jnp.sum(weights * density, axis=-1)


def _log_prob(x, loc, c):
    return _log_density(x - loc, c)


VON_MISES = ScalarFamily(
    make=lambda of_cos, of_sin: VonMises(jnp.arctan2(of_sin, of_cos), jnp.hypot(of_sin, of_cos)),  # pyright: ignore[reportCallIssue]
    value=wrap,
    weight=jnp.ones_like,
    basis=lambda x: (-jnp.sin(x), jnp.cos(x)),
    place=lambda of_cos, of_sin: (jnp.arctan2(of_sin, of_cos), jnp.ones_like(of_cos)),
)


@family(
    support=interval(-math.pi, math.pi),
    log_prob=_log_prob,
    sample=differentiate_implicitly(von_mises_draw, lambda x, loc, c: _mass(x - loc, c), _log_prob),
    mean=lambda loc, c: wrap(loc),
    variance=lambda loc, c: below_one(c),
    mode=lambda loc, c: wrap(loc),
    entropy=lambda loc, c: math.log(FULL_TURN) + log_i0e(c) + c * below_one(c),
    cdf=lambda x, loc, c: _mass(x - loc, c) + _mass(loc + math.pi, c),
    survival=lambda x, loc, c: _mass(math.pi - loc, c) - _mass(x - loc, c),
    conjugate=VON_MISES,
)
class VonMises(Family):
    r"""Von Mises distribution of angles from `-pi` to `pi`.

    `p(x) = exp(c cos(x - loc)) / (2 pi I0(c))` with `c = concentration`. The mean and the variance
    are circular: the direction `loc`, and `1 - I1(c) / I0(c)`.

    Args:
        loc: The mode, an angle; any multiple of `2 pi` may be added.
        concentration: The concentration around the mode, positive.

    >>> import distributions as dist
    >>> round(float(dist.VonMises(0.0, 1.0).log_prob(0.0)), 4)
    -1.0738

    References:
        Best and Fisher, "Efficient simulation of the von Mises distribution", Applied Statistics 28
        (1979), 152-157.
    """

    loc: ArrayLike = parameter(real)
    concentration: ArrayLike = parameter(positive)
