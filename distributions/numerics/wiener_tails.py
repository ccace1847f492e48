"""The probability that a Wiener diffusion leaves an interval at a given end, after a given time.

The unit of length is the distance of the two ends. The diffusion starts at the distance `w` from
the end, and `u = 1 - w` from the other one; its drift has the size `m`. Of the passages to the end,
the share later than `t` is

`exp(-m^2 t / 2) / c sum_k k pi sin(k pi w) exp(-k^2 pi^2 t / 2) / (m^2 / 2 + k^2 pi^2 / 2)`

with `c = sinh(u m) / sinh(m)`.

At early times this series needs more terms, and cancels. The share is then an integral of the
Laplace transform `sinh(u z) / sinh(z)`, `z = sqrt(2 s + m^2)`, along a line of constant real part
of `z`:

| line                                            | integral                    |
| ----------------------------------------------- | --------------------------- |
| between the poles at the imaginary axis and `m` | share of later passages     |
| beyond the pole at `m`                          | share of earlier passages   |

On a line through the saddle point, the trapezoidal rule with few points is precise.

References:
    Blurton, Kesselmeier and Gondan, "Fast and accurate calculations for cumulative first-passage
    time distributions in Wiener diffusion models", Journal of Mathematical Psychology 56 (2012),
    470-475.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.numerics.special import LOG_PI, LOG_TWO, expm1_ratio, log1mexp

_SWITCH = 0.4  # Time from which on the series is shorter.
_REACH = 9  # Half length of the line, in widths of its peak.
_INTERVALS = 112  # Of the trapezoidal rule.
_CLEARANCE = 0.5  # Least distance of the line from a pole, in widths of its peak.
_CERTAIN = 14  # Standard deviations: no passage is that early.


def _share(u: Array, m: Array) -> Array:
    """`sinh(u m) / sinh(m) exp(w m) / u`."""
    return expm1_ratio(-2 * m * u) / expm1_ratio(-2 * m)


def _log_series(t: Array, w: Array, u: Array, m: Array) -> Array:
    """The logarithm of the series, divided by `2 pi`."""
    x = math.pi * jnp.where(w < u, w, u)
    cosine = jnp.where(w < u, 1, -1) * jnp.cos(x)
    before = jnp.zeros_like(t)
    ratio = jnp.ones_like(t)
    total = jnp.zeros_like(t)
    first = m * m + math.pi**2
    for k in range(2, 8):
        before, ratio = ratio, 2 * cosine * ratio - before  # sin(k pi w) / sin(pi w)
        decay = jnp.exp(-0.5 * (k * k - 1) * math.pi**2 * t)
        total = total + k * ratio * decay * (first / (m * m + (k * math.pi) ** 2))
    return jnp.log1p(total) + jnp.log(jnp.sin(x)) - jnp.log(first) - 0.5 * math.pi**2 * t


def _line(p: Array, drift: Array) -> tuple[Array, Array]:
    """The real part of the line, and whether it is below the drift's pole.

    The line is as near to the saddle point `p` as the poles allow; the unit is the width of its
    peak.
    """
    below = (drift - p > _CLEARANCE) & (drift > 2 * _CLEARANCE)
    under = jnp.clip(p, _CLEARANCE, jnp.maximum(drift - _CLEARANCE, _CLEARANCE))
    return jnp.where(below, under, jnp.maximum(p, drift + _CLEARANCE)), below


def _log_integral(t: Array, w: Array, u: Array, m: Array) -> tuple[Array, Array]:
    """The log share of later or of earlier passages, and whether of later ones, at early times."""
    root = jnp.sqrt(t)
    drift = m * root
    p = jnp.minimum(w / root, drift + _CERTAIN)
    x, is_later = _line(lax.stop_gradient(p), lax.stop_gradient(drift))
    y = np.linspace(0, _REACH, _INTERVALS + 1).reshape((1,) * t.ndim + (-1,)).astype(t.dtype)
    y = jnp.broadcast_to(y, (*t.shape, _INTERVALS + 1))

    def wide(real, imaginary=0):
        return lax.complex(jnp.broadcast_to(real[..., None], y.shape), imaginary * y)

    z = wide(x, 1)
    poles = 1 / (z - wide(drift)) + 1 / (z + wide(drift))
    z = z / wide(root)
    other = jnp.expm1(-2 * wide(u) * z) / jnp.expm1(-2 * z)
    phase = (x - p)[..., None] * y
    factor = jnp.exp(-0.5 * y * y) / (u * _share(u, m))[..., None]
    wave = factor * (lax.complex(jnp.cos(phase), jnp.sin(phase)) * poles * other).real
    wave = jnp.where(is_later[..., None], -wave, wave)
    total = jnp.mean(0.5 * (wave[..., 1:] + wave[..., :-1]), -1) * (_REACH / math.pi)
    peak = 0.5 * jnp.square(x - p) - 0.5 * jnp.square(drift - p)
    return jnp.minimum(peak + jnp.log(total), 0), is_later


@jax.jit
def log_later(t: Array, w: Array, u: Array, v: Array) -> Array:
    """`log P(the process leaves at distance w, after t)`, in units of the distance of the ends.

    `u` is `1 - w`, and `v` the drift toward that end.
    """
    t, w, u, v = jnp.broadcast_arrays(t, w, u, v)
    backward = v < 0
    m = jnp.where(backward, -v, v)  # whose slope at 0 is that of one side
    is_early = t < _SWITCH
    s = jnp.where(is_early, t, _SWITCH)
    r = jnp.where(is_early, _SWITCH, t)
    share, is_later = _log_integral(s, w, u, m)
    share = jnp.where(is_later, share, log1mexp(share))
    root = jnp.sqrt(s)
    early = jnp.where(w / root - m * root < _CERTAIN, share, 0)
    log_c = jnp.log(u * _share(u, m)) - m * w
    late = LOG_TWO + LOG_PI - 0.5 * m * m * r - log_c + _log_series(r, w, u, m)
    chance = 2 * jnp.where(backward, v, 0) * w + jnp.log(u * _share(u, m))
    return jnp.minimum(chance + jnp.where(is_early, early, late), 0)
