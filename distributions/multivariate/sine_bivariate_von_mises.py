"""The sine model of two dependent von Mises angles."""

import math
from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.constraints import independent, interval, positive, real
from distributions.core.family import Family, family, parameter
from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import hypot, open_uniform, ratio
from distributions.numerics.sphere import log_sum
from distributions.numerics.von_mises_functions import log_i0e, von_mises_draw, wrap

_TURN = 2 * math.pi
_NODES = (np.arange(512) + 0.5) / 512 * _TURN - math.pi


def _correlation(c1, c2, correlation, weighted):
    return jnp.sqrt(c1) * jnp.sqrt(c2) * weighted if correlation is None else correlation


def _log_marginal(sine, half_square, c1, c2, r):
    """The log marginal of the first angle less its value at 0, without the normalizer.

    The arguments are the sine of the angle and the squared sine of its half. The Bessel function in
    the marginal is exponentially scaled.
    """
    length = hypot(c2, r * sine)
    rise = r * sine * ratio(r * sine, length + c2)
    return rise - 2 * c1 * half_square + log_i0e(length)


def _log_marginal_of_angle(angle, *parameters):
    return _log_marginal(jnp.sin(angle), jnp.square(jnp.sin(0.5 * angle)), *parameters)


def _grid(c1, c2, r):
    """Angles on a new last axis, denser around 0, with their log weights and log marginals."""
    c1, c2, r = (p[..., None] for p in jnp.broadcast_arrays(c1, c2, r))
    s = lax.stop_gradient(jnp.power(1 + c1 + jnp.abs(r), -0.25))
    half = 0.5 * jnp.asarray(_NODES, c1.dtype).reshape((1,) * (c1.ndim - 1) + (-1,))
    sine = s * jnp.sin(half)
    cosine = jnp.cos(half)
    norm = jnp.square(cosine) + jnp.square(sine)
    log_marginal = _log_marginal(2 * sine * cosine / norm, jnp.square(sine) / norm, c1, c2, r)
    log_weight = jnp.log(s / norm * (_TURN / len(_NODES)))
    return 2 * jnp.arctan2(sine, cosine), log_weight, log_marginal


def _log_normalizer(c1: Array, c2: Array, r: Array) -> Array:
    """The log normalizer less `c1 + c2`: exact in the second angle, quadrature over the first."""
    _, log_weight, log_marginal = _grid(c1, c2, r)
    return log_sum(log_weight + log_marginal) + math.log(_TURN)


def _log_prob(x, loc1, loc2, c1, c2, correlation, weighted):
    r = _correlation(c1, c2, correlation, weighted)
    a = x[..., 0] - loc1
    b = x[..., 1] - loc2
    fall = c1 * jnp.square(jnp.sin(0.5 * a)) + c2 * jnp.square(jnp.sin(0.5 * b))
    return r * jnp.sin(a) * jnp.sin(b) - 2 * fall - _log_normalizer(c1, c2, r)


def _entropy(loc1, loc2, c1, c2, correlation, weighted):
    """The entropy, by the derivative of the normalizer along the natural parameters."""
    natural = jnp.broadcast_arrays(c1, c2, _correlation(c1, c2, correlation, weighted))
    value, slope = jax.jvp(_log_normalizer, tuple(natural), tuple(natural))
    return value - slope


def _mean(loc1, loc2, *_):
    return jnp.stack(jnp.broadcast_arrays(wrap(loc1), wrap(loc2)), -1)


def _variance(loc1, loc2, c1, c2, correlation, weighted):
    """The circular variances: minus the derivatives of the normalizer in the concentrations."""
    natural = jnp.broadcast_arrays(c1, c2, _correlation(c1, c2, correlation, weighted))
    ones = jnp.ones_like(natural[0])
    zeros = jnp.zeros_like(natural[0])

    def slope(*unit):
        return jax.jvp(_log_normalizer, tuple(natural), unit)[1]

    return -jnp.stack([slope(ones, zeros, zeros), slope(zeros, ones, zeros)], -1)


def _angles_at_mode(c1, c2, r):
    """One of the two modes where the correlation is large, or else 0."""
    size = jnp.maximum(jnp.square(r), c1 * c2)
    ratio = (c1 / size) * ((jnp.square(c2) + size) / (size + jnp.square(c1))) * c1
    first = jnp.arccos(jnp.sqrt(jnp.minimum(ratio, 1)))
    first = jnp.where(jnp.square(r) > c1 * c2, first, 0)
    return first, jnp.arctan2(r * jnp.sin(first), c2 + 0 * first)


def _mode(loc1, loc2, c1, c2, correlation, weighted):
    angles = _angles_at_mode(c1, c2, _correlation(c1, c2, correlation, weighted))
    pair = wrap(loc1 + angles[0]), wrap(loc2 + angles[1])
    return jnp.stack(jnp.broadcast_arrays(*pair), -1)


def _first_angle(key, shape, dtype, c1, c2, r):
    """Draws of the first angle, by rejection from wrapped Cauchy laws around the two peaks."""
    c1, c2, r = jnp.broadcast_arrays(c1, c2, r)
    grid, _, log_marginal = _grid(c1, c2, r)
    best = jnp.argmax(log_marginal, axis=-1)[..., None]
    peak = jnp.abs(jnp.take_along_axis(grid, best, axis=-1))

    def first(x):
        return jax.jvp(lambda x: _log_marginal_of_angle(x, c1, c2, r), (x,), (jnp.ones_like(x),))[1]

    bend = -jax.jvp(first, (peak[..., 0],), (jnp.ones_like(c1),))[1]
    s = 1 / jnp.sqrt(1 + 4 * jnp.maximum(bend, 0.3 * jnp.sqrt(c1)))

    def log_envelope(angle, peak, s):
        sines = (jnp.square(jnp.sin(0.5 * (angle + sign * peak))) for sign in (1, -1))
        return jnp.log(sum(s / (s * s + (1 - s * s) * y) for y in sines))

    ratio = log_marginal - log_envelope(grid, peak, s[..., None])
    log_most = jnp.max(ratio, axis=-1) + 2e-3  # with a margin for the maximum between points
    parts = peak[..., 0], s, log_most, c1, c2, r
    peak, s, log_most, c1, c2, r = (jnp.broadcast_to(p, shape) for p in parts)

    def propose(key):
        side_key, cauchy_key, accept_key = random.split(key, 3)
        center = jnp.where(random.bernoulli(side_key, 0.5, shape), peak, -peak)
        new = wrap(center + 2 * jnp.arctan(s * random.cauchy(cauchy_key, shape, dtype)))
        log_ratio = _log_marginal_of_angle(new, c1, c2, r) - log_envelope(new, peak, s)
        log_u = jnp.log(open_uniform(accept_key, shape, dtype))
        return new, log_u < log_ratio - log_most

    return draw_first_accepted(propose, key, shape, dtype)


def _sample(key, shape, dtype, loc1, loc2, c1, c2, correlation, weighted):
    """Draws: the first angle, and then the second, which is von Mises given the first."""
    first_key, second_key = random.split(key)
    r = _correlation(c1, c2, correlation, weighted)
    a = _first_angle(first_key, shape[:-1], dtype, c1, c2, r)
    slope = r * jnp.sin(a)
    center = jnp.arctan2(slope, c2 + 0 * slope)
    length = jnp.hypot(slope, c2)
    b = von_mises_draw(second_key, shape[:-1], dtype, center, length)
    return jnp.stack([wrap(loc1 + a), wrap(loc2 + b)], -1)


@family(
    support=independent(interval(-math.pi, math.pi), 1),
    event_shape=lambda *parameters: (2,),
    one_of=("correlation", "weighted_correlation"),
    log_prob=_log_prob,
    sample=_sample,
    mean=_mean,
    variance=_variance,
    mode=_mode,
    entropy=_entropy,
    is_reparameterized=False,
)
class SineBivariateVonMises(Family):
    r"""Bivariate von Mises distribution (sine model) of two dependent angles from `-pi` to `pi`.

    `p(x, y)` is proportional to `exp(k cos a + m cos b + r sin a sin b)` with `a = x - phi_loc`,
    `b = y - psi_loc`, `k = phi_concentration`, `m = psi_concentration` and `r = correlation`. It
    has one mode up to `r^2 = k m`, and two beyond. Mean and variance are circular, for each angle:
    the direction of the mean of `(cos x, sin x)`, and 1 less the length of that mean.

    Args:
        phi_loc: The center of the first angle.
        psi_loc: The center of the second angle.
        phi_concentration: The concentration of the first angle, positive.
        psi_concentration: The concentration of the second angle, positive.
        correlation: The dependence `r`, of any size and sign.
        weighted_correlation: `r` over `sqrt(k m)`; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> angles = dist.SineBivariateVonMises(0.0, 0.0, 2.0, 3.0, correlation=1.0)
    >>> round(float(angles.log_prob(jnp.array([0.5, 0.5]))), 4)
    -1.5147

    References:
        Singh, Hnizdo and Demchuk, "Probabilistic model for two dependent circular variables",
        Biometrika 89 (2002), 719-723.
    """

    phi_loc: ArrayLike = parameter(real)
    psi_loc: ArrayLike = parameter(real)
    phi_concentration: ArrayLike = parameter(positive)
    psi_concentration: ArrayLike = parameter(positive)
    correlation: ArrayLike | None = parameter(real, default=None)
    _: KW_ONLY
    weighted_correlation: ArrayLike | None = parameter(real, default=None)
