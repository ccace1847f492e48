"""Gamma draws by the method of Marsaglia and Tsang, and beta and t draws made of them.

All draws share one loop, which runs until the last is accepted. JAX's own sampler draws one after
the other on the CPU, and takes twice as long to trace and to compile. Derivatives are JAX's.

References:
    Marsaglia and Tsang, "A simple method for generating gamma variables", ACM Transactions on
    Mathematical Software 26 (2000), 363-372; Figurnov, Mohamed and Mnih, "Implicit
    reparameterization gradients" (2018), equation 2, on the derivatives.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax, random

from distributions.common.arrays import select
from distributions.numerics.rejection_sampler import draw_first_accepted

_ALWAYS_ACCEPTED = 1e6  # Scale of a proposal, about the concentration.


def gamma(key: Array, a: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Gamma draws with concentration `a` and rate 1; 0 for `a = 0`, NaN for negative or NaN `a`."""
    a, scale, root, log_boost = _parts(key, a, shape, dtype)
    draw = scale * root * root * root * jnp.exp(log_boost)
    return _moving_draw(a, draw).astype(dtype)


def log_gamma(key: Array, a: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Logarithms of gamma draws, also where the draws would underflow."""
    a, scale, root, log_boost = _parts(key, a, shape, dtype)
    log_draw = jnp.log(scale) + 3 * jnp.log(root) + log_boost
    return _moving_log_draw(a, log_draw).astype(dtype)


def beta(key: Array, a: Array, b: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Beta draws, within (0, 1)."""
    both = jnp.stack([jnp.broadcast_to(x, shape) for x in (a, b)])
    log_first, log_second = log_gamma(key, both, both.shape, dtype)
    info = jnp.finfo(dtype)
    return lax.clamp(info.tiny, lax.logistic(log_first - log_second), 1 - info.epsneg)


def student_t(key: Array, df: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draws of a standard t variable."""
    normal_key, gamma_key = random.split(key)
    half = 0.5 * df
    ratio = half / gamma(gamma_key, half, shape, dtype)
    return random.normal(normal_key, shape, dtype) * jnp.sqrt(ratio)


def _parts(key: Array, a: Array, shape: tuple[int, ...], dtype: Any) -> tuple[Array, ...]:
    """The concentration; `scale`, `root`, `log_boost` of a draw `scale root^3 exp(log_boost)`."""
    dtype = dtype if jnp.finfo(dtype).bits >= 32 else jnp.float32
    a = jnp.broadcast_to(jnp.asarray(a, dtype), shape)
    fixed = lax.stop_gradient(a)
    is_valid = fixed >= 0
    is_large = fixed >= 1
    valid = select(is_valid, fixed, 1)
    scale = select(is_large, valid, valid + 1) - 1 / 3
    spread = lax.rsqrt(9 * scale)
    root_key, boost_key = random.split(key)

    def propose(key: Array) -> tuple[Array, Array]:
        """Proposal `1 + shift` for the cube root of `draw / scale`, and whether it is accepted."""
        normal_key, uniform_key = random.split(key)
        shift = spread * random.normal(normal_key, shape, dtype)
        is_inside = shift > -1
        s = select(is_inside, shift, 0)
        # 0 for large scales, where the terms cancel; the error is 1e-8 times the fourth power of
        # the normal variable.
        log_ratio = 3 * scale * (jnp.log1p(s) - s + 0.5 * s * s - s * s * s / 3)
        log_ratio = select(scale < _ALWAYS_ACCEPTED, log_ratio, 0)
        chance = random.uniform(uniform_key, shape, dtype)
        return 1 + shift, is_inside & (jnp.log1p(-chance) <= log_ratio)

    root = draw_first_accepted(propose, root_key, shape, dtype)
    # For a < 1, a draw of concentration a + 1 times U^(1 / a).
    log_boost = jnp.log1p(-random.uniform(boost_key, shape, dtype)) / select(is_large, 1, valid)
    return a, select(is_valid, scale, jnp.nan), root, select(is_large, 0, log_boost)


# The derivative of a gamma draw by its concentration.
_move: Callable[[Array, Array], Array] = lax.random_gamma_grad  # pyright: ignore[reportAssignmentType]


def _log_move(a: Array, log_draw: Array) -> Array:
    """The derivative of a log draw; where the draw underflows, `F(x; a) = x^a / Gamma(a + 1)`."""
    is_tiny = log_draw < jnp.log(jnp.finfo(log_draw.dtype).tiny)
    draw = jnp.exp(select(is_tiny, 0, log_draw))
    return select(is_tiny, (lax.digamma(a + 1) - log_draw) / a, _move(a, draw) / draw)


def _moving(move: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """The identity on the draw, as a function of the concentration with the derivative `move`."""

    @jax.custom_jvp
    def moving(a: Array, draw: Array) -> Array:
        return draw

    @moving.defjvp
    def moving_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return primals[1], move(*primals) * tangents[0]

    return moving


_moving_draw = _moving(lambda a, draw: select(draw > 0, _move(a, draw), 0))
_moving_log_draw = _moving(_log_move)
