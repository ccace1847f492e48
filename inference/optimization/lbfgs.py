"""L-BFGS with a Wolfe line search: the ascent to a mode of a log density."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.lockstep import select_leaves

_MEMORY = 20  # correction pairs
_MAX_TRIES = 30  # evaluations of a line search
_MAX_IDLE_ITERATIONS = 4  # iterations in a row with no gain above rounding
_ROUNDING = 4  # units in the last place
_SLACK = 30  # multiple of the tolerance that is accepted if iterations no longer gain
# Coordinates; strides relative to a coordinate's size; rise of the log density, in nats.
_MAX_STEEP_COORDINATES = 8
_STRIDES = 8.0 ** np.arange(-4, 4)
_RISE = 1e-3


class Ascent(NamedTuple):
    """A point on the way to a mode.

    Attributes:
        position: The point, ``(size,)``.
        log_density: The log density there.
        gradient: Its gradient, ``(size,)``.
        decrement: The Newton decrement, half of `gradient` @ `inverse Hessian` @ `gradient`. It
            estimates how much higher the mode is, with the curvature of the last iterations.
        step: Number of iterations before this point.
        has_converged: Whether the decrement is within the tolerance.
    """

    position: jax.Array
    log_density: jax.Array
    gradient: jax.Array
    decrement: jax.Array
    step: jax.Array
    has_converged: jax.Array


class Climber(NamedTuple):
    """The state of an ascent between iterations.

    Attributes:
        at: The current point.
        memory: State of optax's L-BFGS: the last steps and changes of the gradient.
        num_idle: Number of iterations in a row with no gain above rounding.
    """

    at: Ascent
    memory: Any
    num_idle: jax.Array


def ascend(
    log_density: Callable[[jax.Array], jax.Array],
    position: jax.Array,
    max_steps: jax.Array,
    tolerance: jax.Array,
) -> Ascent:
    """The end of an ascent by L-BFGS from `position`, with a line search by the Wolfe conditions.

    The ascent ends at the first of these:

    * the Newton decrement is at most `tolerance` times the larger of 1 and the log density's size;
    * `max_steps` iterations are done;
    * several iterations in a row gain no more than rounding.

    It never moves to a point where the log density or its gradient is not finite.

    References:
        Nocedal and Wright (2006), Numerical Optimization, algorithms 3.5, 3.6 and 7.5; Boyd and
        Vandenberghe (2004), Convex Optimization, section 9.5.1, on the decrement; Hager and Zhang
        (2006), Algorithm 851: CG_DESCENT, on line searches close to rounding.
    """

    def may_go_on(now):
        return may_climb(now, max_steps)

    def step(now):
        return climb_step(log_density, now, tolerance)

    return climb_end(lax.while_loop(may_go_on, step, climb_init(log_density, position)), tolerance)


def climb_init(log_density: Callable[[jax.Array], jax.Array], position: jax.Array) -> Climber:
    """The state of an ascent before its first iteration."""
    rule, _ = _optimizer()
    value, gradient = jax.value_and_grad(log_density)(position)
    infinite = jnp.full_like(value, jnp.inf)
    start = Ascent(position, value, gradient, infinite, jnp.int32(0), jnp.bool_(False))
    return Climber(start, rule.init(position), jnp.int32(0))


def may_climb(now: Climber, max_steps: jax.Array) -> jax.Array:
    """Whether an ascent has not ended."""
    is_left = (now.at.step < max_steps) & ~now.at.has_converged
    return is_left & (now.num_idle < _MAX_IDLE_ITERATIONS) & jnp.isfinite(now.at.log_density)


def climb_end(now: Climber, tolerance: jax.Array) -> Ascent:
    """The last point of an ascent that has ended."""
    # No iteration gains more than rounding: a decrement this small counts as converged.
    is_close = _is_within(now.at.decrement, -now.at.log_density, _SLACK * tolerance)
    has_converged = now.at.has_converged | ((now.num_idle >= _MAX_IDLE_ITERATIONS) & is_close)
    return now.at._replace(has_converged=has_converged)


def find_strides(position: jax.Array, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Trial moves of single coordinates: the steepest coordinates, and signed strides uphill.

    Strides are relative to the size of a coordinate, from short to long.
    """
    sizes = jnp.maximum(jnp.abs(position), 1)
    _, steep = lax.top_k(jnp.abs(gradient) * sizes, min(_MAX_STEEP_COORDINATES, position.size))
    far = (jnp.sign(gradient) * sizes)[steep]
    strides = jnp.outer(jnp.asarray(_STRIDES, position.dtype), far)
    return jnp.tile(steep, len(_STRIDES)), strides.ravel()


def min_rise(log_density: Any) -> Any:
    """The least rise of the log density, in nats, by which a trial move refutes a mode."""
    return _RISE * jnp.maximum(1, _RISE * jnp.abs(log_density))


def climb_step(
    log_density: Callable[[jax.Array], jax.Array], now: Climber, tolerance: jax.Array
) -> Climber:
    """One iteration; if the line search finds no better point, the ascent stays where it is."""

    def loss(position):
        return -log_density(position)

    rule, search = _optimizer()
    at = now.at
    value = -now.at.log_density
    downhill, memory = _update_direction(rule, -at.gradient, now.memory, at.position)
    has_seen = memory.count > 1  # at least two gradients, so a curvature is known
    decrement = -0.5 * jnp.sum(downhill * at.gradient)
    decrement = jnp.where(has_seen | jnp.isinf(at.decrement), decrement, at.decrement)
    is_within = has_seen & _is_within(decrement, value, tolerance)
    is_reached = is_within | jnp.all(at.gradient == 0)
    position, new_value, gradient = _search_line(search, loss, at, downhill)
    slack = _ROUNDING * jnp.finfo(value.dtype).eps * jnp.maximum(1, jnp.abs(value))
    is_finite = jnp.isfinite(new_value) & jnp.all(jnp.isfinite(gradient))
    is_better = is_finite & (new_value <= value + slack) & ~is_reached
    there = at._replace(position=position, log_density=-new_value, gradient=-gradient)
    after = select_leaves(is_better, there, at)._replace(
        decrement=decrement,
        step=at.step + (~is_reached).astype(jnp.int32),
        has_converged=is_reached,
    )
    has_gained = is_better & (value - new_value > slack)
    # After a failed line search the curvature is forgotten.
    memory = select_leaves(is_better, memory, rule.init(at.position))
    return Climber(after, memory, jnp.where(has_gained, 0, now.num_idle + 1))


def _is_within(decrement: jax.Array, value: jax.Array, tolerance: jax.Array) -> jax.Array:
    return (decrement >= 0) & (decrement <= tolerance * jnp.maximum(1, jnp.abs(value)))


def _optimizer() -> tuple[Any, Any]:
    """Optax's L-BFGS and its zoom line search."""
    import optax

    search = optax.scale_by_zoom_linesearch(_MAX_TRIES, initial_guess_strategy="one")
    return optax.scale_by_lbfgs(_MEMORY), search


def _update_direction(rule: Any, gradient: jax.Array, memory: Any, position: jax.Array) -> Any:
    """The direction for `gradient`, and the memory with this gradient added."""
    # Optax multiplies step counts by floats; a user may have forbidden such promotions.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        direction, memory_after = rule.update(gradient, memory, position)
    return direction, jax.tree.map(lambda old, x: x.astype(old.dtype), memory, memory_after)


def _search_line(
    search: Any, loss: Callable[[jax.Array], jax.Array], at: Ascent, downhill: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The end of a line search against `downhill`, with value and gradient of the loss there."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        move, found = search.update(
            -downhill,
            search.init(at.position),
            at.position,
            value=-at.log_density,
            grad=-at.gradient,
            value_fn=loss,
        )
    return at.position + move, found.value, found.grad
