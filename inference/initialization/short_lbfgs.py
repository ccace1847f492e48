"""Short L-BFGS climb toward a mode, for starting points; safe where the density is extreme."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.lockstep import select_leaves

_MAX_ITERATIONS = 100
_MEMORY = 10
_MAX_TRIES = 40  # evaluations of a line search
_LEAST_RISE = 1e-4  # gain of a step over the one that the slope predicts


class _Pairs(NamedTuple):
    r"""Correction pairs, the newest last: step :math:`s`, and fall :math:`z` of the gradient.

    Steps and falls are divided by their largest numbers, so that no square overflows; `ratio` is
    the quotient of the two largest numbers. A row without a pair has the weight 0.

    Attributes:
        step, fall: ``(memory, size)``.
        ratio: :math:`|s| / |z|`, by the largest numbers, ``(memory,)``.
        weight: :math:`1 / s^\top z` in these units, ``(memory,)``.
    """

    step: jax.Array
    fall: jax.Array
    ratio: jax.Array
    weight: jax.Array


class _ShortClimb(NamedTuple):
    position: jax.Array
    value: jax.Array
    gradient: jax.Array
    pairs: _Pairs
    iteration: jax.Array
    is_done: jax.Array


class _LineSearch(NamedTuple):
    stride: jax.Array
    best: jax.Array
    gain: jax.Array
    has_risen: jax.Array
    num_tries: jax.Array
    is_done: jax.Array


def climb_briefly(
    log_density: Callable[[jax.Array], jax.Array],
    position: jax.Array,
    min_gain: jax.typing.ArrayLike = 1.0,
) -> jax.Array:
    """L-BFGS climb that stops at the first iteration with a gain of less than `min_gain`.

    The end lies among the bulk of the posterior draws rather than at the mode; the two may be far
    apart. There are at most 100 iterations.

    The log density may be as extreme as its dtype can hold: norms are scaled, and a step is taken
    only if the log density there is higher, and finite with its gradient. A line search halves a
    step that is too long, and doubles a step as long as the log density rises.

    Args:
        log_density: Function of a flat position.
        position: Starting point, ``(size,)``.
        min_gain: Gain in nats.

    Returns:
        Highest point found, ``(size,)``.

    References:
        Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization.
    """
    least = jnp.asarray(min_gain, position.dtype)

    def may_climb(old: _ShortClimb) -> jax.Array:
        return ~old.is_done & (old.iteration < _MAX_ITERATIONS)

    def step(old: _ShortClimb) -> _ShortClimb:
        direction = _direction(old.pairs, old.gradient)
        found = _search_line(log_density, old, direction)
        position = old.position + found.best * direction
        value, gradient = jax.value_and_grad(log_density)(position)
        is_higher = (value > old.value) & jnp.all(jnp.isfinite(gradient))
        is_higher &= jnp.isfinite(value)
        pairs = _add_pair(old.pairs, position - old.position, old.gradient - gradient)
        new = _ShortClimb(
            position, value, gradient, pairs, old.iteration + 1, value - old.value < least
        )
        # What is remembered of the curvature may mislead: without it, the gradient leads up.
        no_pairs = jax.tree.map(jnp.zeros_like, old.pairs)
        is_done = ~jnp.any(old.pairs.weight > 0)
        stay = old._replace(pairs=no_pairs, iteration=old.iteration + 1, is_done=is_done)
        return select_leaves(is_higher, new, stay)

    value, gradient = jax.value_and_grad(log_density)(position)
    is_finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    empty = jnp.zeros((_MEMORY, position.size), position.dtype)
    pairs = _Pairs(empty, empty, empty[:, 0], empty[:, 0])
    start = _ShortClimb(position, value, gradient, pairs, jnp.int32(0), ~is_finite)
    return lax.while_loop(may_climb, step, start).position


def _in_units(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Vector in units of its largest number, and that number; zeros with 1."""
    largest = jnp.max(jnp.abs(vector), initial=0)
    largest = jnp.where(largest > 0, largest, 1)
    return vector / largest, largest


def _add_pair(pairs: _Pairs, step: jax.Array, fall: jax.Array) -> _Pairs:
    """Pairs with one more; one along which the log density is not concave is left out."""
    (step, size), (fall, height) = _in_units(step), _in_units(fall)
    product = jnp.sum(step * fall)
    ratio = size / height
    rounding = jnp.finfo(step.dtype).eps * jnp.sqrt(jnp.sum(step**2) * jnp.sum(fall**2))
    is_concave = (product > rounding) & (ratio > 0) & jnp.isfinite(ratio)
    new = _Pairs(step, fall, ratio, 1 / jnp.where(is_concave, product, 1))
    after = jax.tree.map(lambda old, x: jnp.concatenate([old[1:], x[None]]), pairs, new)
    return select_leaves(is_concave, after, pairs)


def _direction(pairs: _Pairs, gradient: jax.Array) -> jax.Array:
    """L-BFGS's inverse Hessian times the gradient; without pairs, the gradient with a length of 1.

    References:
        Nocedal and Wright (2006), Numerical Optimization, algorithm 7.4.
    """
    unit, height = _in_units(gradient)

    def back(rest: jax.Array, pair: _Pairs) -> tuple[jax.Array, jax.Array]:
        part = pair.weight * jnp.sum(pair.step * rest)
        return rest - part * pair.fall, part

    def forth(ahead: jax.Array, both: tuple[_Pairs, jax.Array]) -> tuple[jax.Array, None]:
        pair, part = both
        along = pair.weight * jnp.sum(pair.fall * ahead)
        return ahead + (pair.ratio / scale * part - along) * pair.step, None

    rest, parts = lax.scan(back, unit, pairs, reverse=True)
    last = jax.tree.map(lambda x: x[-1], pairs)
    has_pairs = last.weight > 0
    # In units of the newest pair's ratio, for numbers of all sizes.
    scale = jnp.where(has_pairs, last.ratio, 1)
    product = last.weight * jnp.sum(last.fall**2)
    ahead = rest / jnp.where(has_pairs & (product > 0), product, 1)
    ahead, _ = lax.scan(forth, ahead, (pairs, parts))
    length = jnp.sqrt(jnp.sum(unit**2))
    return jnp.where(has_pairs, ahead * scale * height, unit / jnp.where(length > 0, length, 1))


def _search_line(
    log_density: Callable[[jax.Array], jax.Array], at: _ShortClimb, direction: jax.Array
) -> _LineSearch:
    """Stride along a direction, halved until it gains, or doubled as long as that gains more."""
    unit, height = _in_units(at.gradient)
    slope = jnp.sum(unit * direction) * height

    def attempt(old: _LineSearch) -> _LineSearch:
        gain = log_density(at.position + old.stride * direction) - at.value
        is_better = jnp.isfinite(gain) & (gain > old.gain)
        is_better &= gain >= _LEAST_RISE * old.stride * slope
        is_first = old.num_tries == 0
        grows = is_better & (is_first | old.has_risen)
        return _LineSearch(
            stride=jnp.where(grows, 2, 0.5).astype(old.stride.dtype) * old.stride,
            best=jnp.where(is_better, old.stride, old.best),
            gain=jnp.where(is_better, gain, old.gain),
            has_risen=grows,
            num_tries=old.num_tries + 1,
            is_done=(old.has_risen & ~grows) | (is_better & ~grows),
        )

    zero = jnp.zeros_like(at.value)
    one = jnp.ones_like(at.value)
    no = jnp.zeros((), bool)
    start = _LineSearch(one, zero, zero, no, jnp.int32(0), no)

    def may_try(old):
        return ~old.is_done & (old.num_tries < _MAX_TRIES)

    return lax.while_loop(may_try, attempt, start)
