"""The first passage of a Wiener process with drift between two boundaries (drift-diffusion)."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import jax.numpy as jnp
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import promote
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, nonnegative, open_interval, positive, real
from distributions.core.distribution import Shape
from distributions.core.family import Family, family, parameter
from distributions.numerics.rejection_sampler import MAX_ROUNDS
from distributions.numerics.special import (
    LOG_PI,
    LOG_SQRT_TWO_PI,
    bounded_ratio,
    clip_positive,
    expm1_ratio,
    log1mexp,
)
from distributions.numerics.wiener_tails import log_later


@pytree_dataclass
class _Beyond(Constraint):
    """The finite numbers farther from 0 than a bound."""

    bound: ArrayLike

    @property
    def description(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return f"finite, and above {self.bound} or below its negative"

    @property
    def bijector(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise NotImplementedError("the passage times at the two boundaries are not connected.")

    def check(self, value: Any) -> Any:
        bound = self.bound
        if isinstance(value, Array):
            value, bound = promote(value, bound)
        return (abs(value) > bound) & (abs(value) < math.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        return 2 * self.bound + 1


# Time in units of `alpha^2`: the series of images is shorter below it, the series of sines above.
_SWITCH = 0.4


def _log_images(rate, w, u):
    """`log P(the other boundary was not met | a passage at 1 / rate)`, over `w`.

    Images are taken in pairs that nearly cancel where `w` or `u = 1 - w` is small.
    """
    near = jnp.ones_like(rate)
    far = jnp.zeros_like(rate)
    for k in range(1, 5):
        s = 2 * k * w * rate
        closer = jnp.exp(-2 * k * (k - w) * rate)
        farther = jnp.exp(-2 * k * (k + w) * rate)
        pair = closer + farther - 8 * k * k * rate * closer * expm1_ratio(-2 * s)
        near = near + pair
    for k in range(4):
        c = 2 * k + 1
        gap = 2 * c * u * rate
        pair = 2 * c * c * rate * expm1_ratio(-gap) - 1 - jnp.exp(-gap)
        far = far + jnp.exp(-2 * k * (k + w) * rate) * pair
    is_near = w < 0.5
    log_far = jnp.log(jnp.where(is_near, 1, far * u)) - jnp.log(w)
    return jnp.where(is_near, jnp.log(jnp.where(is_near, near, 1)), log_far)


def _log_sines(t, w, u):
    """The logarithm of the series of sines, over its first exponential `exp(-pi^2 t / 2)`."""
    x = math.pi * jnp.where(w < u, w, u)  # the slope of a minimum is 0 where both are equal
    cosine = jnp.where(w < u, 1, -1) * jnp.cos(x)
    before = jnp.zeros_like(t)
    ratio = jnp.ones_like(t)
    total = jnp.zeros_like(t)
    for k in range(2, 8):
        before, ratio = ratio, 2 * cosine * ratio - before  # sin(k pi w) / sin(pi w)
        total = total + k * ratio * jnp.exp(-0.5 * (k * k - 1) * math.pi**2 * t)
    return jnp.log1p(total) + jnp.log(jnp.sin(x))


def _log_passage(t, root, w, u, v):
    """The log density of the first passage, at a boundary at distance `w`, with drift `v` to it.

    The other boundary is at the distance `u = 1 - w`. `root` is `1 / sqrt(t)`.
    """
    small = t < _SWITCH
    s = jnp.where(small, root, 1)
    r = jnp.where(small, _SWITCH, t)
    one_sided = jnp.log(w) - LOG_SQRT_TWO_PI + 3 * jnp.log(s)
    exponent = -0.5 * jnp.square(w * s - v / s)
    images = (
        one_sided
        + exponent
        + _log_images(jnp.minimum(s * s, 1e-3 * float(jnp.finfo(s.dtype).max)), w, u)
    )
    drift = v * w - 0.5 * jnp.square(v) * r
    sines = LOG_PI - 0.5 * math.pi**2 * r + drift + _log_sines(r, w, u)
    return jnp.where(small, images, sines)


def _passage(y, alpha, tau, beta, delta):
    """The time, the distances of its boundary and the other, and the drift, for `alpha` 1."""
    upper = y > 0
    t = clip_positive(bounded_ratio(bounded_ratio(jnp.abs(y) - tau, alpha), alpha))
    w = jnp.where(upper, 1 - beta, beta)
    u = jnp.where(upper, beta, 1 - beta)
    return t, w, u, alpha * jnp.where(upper, delta, -delta)


def _log_prob(y, alpha, tau, beta, delta):
    t, *others = _passage(y, alpha, tau, beta, delta)
    root = bounded_ratio(alpha, jnp.sqrt(jnp.abs(y) - tau))
    return _log_passage(t, root, *others) - 2 * jnp.log(alpha)


def _log_tails(y, *parameters):
    """The log probabilities below and above: beyond `y` lie later passages at its boundary."""
    upper = y > 0
    later = log_later(*_passage(y, *parameters))
    rest = log1mexp(later)
    return jnp.where(upper, rest, later), jnp.where(upper, later, rest)


def _symmetric_proposal(key, drift):
    """A passage time at the distance 1, and whether it is accepted: -1 was not met before.

    The proposal is the one-sided passage in the direction of the drift, an inverse Gaussian
    variable (Michael, Schucany and Haas 1976).
    """
    key, root_key, accept_key = random.split(key, 3)
    m = jnp.abs(drift)
    shape = drift.shape
    dtype = drift.dtype
    nu = jnp.square(random.normal(key, shape, dtype))
    first = 2 / (2 * m + nu + jnp.sqrt(nu * (nu + 4 * m)))
    is_first = random.uniform(root_key, shape, dtype) * (1 + m * first) < 1
    t = jnp.where(is_first, first, 1 / jnp.where(is_first, 1, m * m * first))
    half = jnp.full_like(t, 0.5)
    both = _log_passage(t / 4, 2 / jnp.sqrt(t), half, half, 0 * t)
    one = -jnp.log(2 * half) - LOG_SQRT_TWO_PI - 1.5 * jnp.log(t / 4) - 0.5 / t + jnp.log(half)
    return t, jnp.log(random.uniform(accept_key, shape, dtype)) < both - one


def _sample(key, shape, dtype, alpha, tau, beta, delta):
    """Draws by exits from the widest symmetric interval around the point, up to a boundary.

    The time and the side of such an exit are independent.
    """
    upper = jnp.broadcast_to(jnp.asarray(beta > 0.5), shape)
    distance = jnp.broadcast_to(jnp.minimum(beta, 1 - beta), shape)
    drift = jnp.broadcast_to(jnp.asarray(alpha * delta), shape)

    def step(state):
        number, key, distance, upper, time, done = state
        key, time_key, side_key = random.split(key, 3)
        t, ok = _symmetric_proposal(time_key, distance * drift)
        to_it = jnp.where(upper, drift, -drift)
        chance = 1 / (1 + jnp.exp(-2 * distance * to_it))
        hit = random.uniform(side_key, shape, dtype) < chance
        moved = ok & ~done
        time = jnp.where(moved, time + t * jnp.square(distance), time)
        crosses = 2 * distance > 0.5
        away = moved & ~hit
        upper = jnp.where(away & crosses, ~upper, upper)
        distance = jnp.where(away, jnp.where(crosses, 1 - 2 * distance, 2 * distance), distance)
        return number + 1, key, distance, upper, time, done | (moved & hit)

    def goes_on(state):
        return (state[0] < MAX_ROUNDS) & ~state[-1].all()

    start = jnp.int32(0), key, distance, upper, jnp.zeros(shape, dtype), jnp.zeros(shape, bool)
    *_, upper, time, done = lax.while_loop(goes_on, step, start)
    size = tau + clip_positive(jnp.square(alpha) * jnp.where(done, time, jnp.nan))
    least = jnp.nextafter(jnp.broadcast_to(jnp.asarray(tau, dtype), shape), jnp.inf)
    return jnp.where(upper, 1, -1) * jnp.maximum(size, least)


@family(
    support=lambda alpha, tau, beta, delta: _Beyond(tau),
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    log_cdf=lambda y, *parameters: _log_tails(y, *parameters)[0],
    log_survival=lambda y, *parameters: _log_tails(y, *parameters)[1],
    is_reparameterized=False,
)
class Wiener(Family):
    r"""First passage time of a Wiener process with drift, and the boundary at which it leaves.

    A process that starts at `alpha beta` and has drift `delta` leaves the interval from 0 to
    `alpha` after the time `t`; a value is `tau + t` where it leaves at `alpha`, and `-(tau + t)`
    where it leaves at 0. For `y > tau`

    `p(y) = exp(delta alpha w - delta^2 t / 2) pi / alpha^2
    sum_k k exp(-(k pi / alpha)^2 t / 2) sin(k pi w)` with `t = y - tau` and `w = 1 - beta`,

    and for `y < -tau` the density is this one at `-y`, with `w = beta` and the drift `-delta`.
    Early times are scored by the series of images instead. Stan's density is the one for `y > tau`.

    Args:
        alpha: The distance of the boundaries, positive.
        tau: The non-decision time, nonnegative: it passes outside of the process.
        beta: The start as a share of `alpha`, between 0 and 1; 1/2 is unbiased.
        delta: The drift.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> d = dist.Wiener(alpha=1.5, tau=0.25, beta=0.5, delta=1.0)
    >>> [round(float(x), 4) for x in d.log_prob(jnp.array([0.75, -0.75, 0.125]))]
    [-0.2633, -1.7633, -inf]

    References:
        Navarro and Fuss, "Fast and accurate calculations for first-passage times in Wiener
        diffusion models", Journal of Mathematical Psychology 53 (2009), 222-230.
    """

    alpha: ArrayLike = parameter(positive)
    tau: ArrayLike = parameter(nonnegative)
    beta: ArrayLike = parameter(open_interval(0.0, 1.0))
    delta: ArrayLike = parameter(real)
