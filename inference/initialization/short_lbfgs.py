"""Short L-BFGS climb towards a mode, for starting points."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

_MAX_ITERATIONS, _MIN_GAIN_NATS = 100, 1.0


class _ShortClimb(NamedTuple):
    position: jax.Array
    optimizer: Any
    iteration: jax.Array
    gain: jax.Array


def climb_briefly(log_density: Callable[[jax.Array], jax.Array], position: jax.Array) -> jax.Array:
    """L-BFGS climb that stops at the first iteration with a gain of less than 1 nat.

    The end lies among the bulk of the posterior draws rather than at the mode; the two may be far
    apart. There are at most 100 iterations.

    Args:
        log_density: Function of a flat position.
        position: Starting point, ``(size,)``.

    Returns:
        Highest point found, ``(size,)``.

    References:
        Liu and Nocedal (1989), On the limited memory BFGS method for large scale optimization.
    """
    import optax

    search = optax.scale_by_backtracking_linesearch(max_backtracking_steps=15, store_grad=True)
    optimizer = optax.lbfgs(linesearch=search)
    dtype, wide = position.dtype, jnp.result_type(float)  # optax differentiates in the wide dtype
    loss = lambda position: -log_density(position.astype(dtype)).astype(wide)  # noqa: E731
    position = position.astype(wide)
    loss_and_grad = optax.value_and_grad_from_state(loss)

    def may_climb(old: _ShortClimb) -> jax.Array:
        return (old.iteration < _MAX_ITERATIONS) & (old.gain >= _MIN_GAIN_NATS)

    def step(old: _ShortClimb) -> _ShortClimb:
        value, grad = loss_and_grad(old.position, state=old.optimizer)
        updates, optimizer_state = optimizer.update(
            grad, old.optimizer, old.position, value=value, grad=grad, value_fn=loss
        )
        gain = jnp.asarray(value) - jnp.asarray(optax.tree.get(optimizer_state, "value"))
        higher = optax.apply_updates(old.position, updates)
        position = jnp.where(gain > 0, jnp.asarray(higher), old.position)
        return _ShortClimb(position, optimizer_state, old.iteration + 1, gain)

    infinite = jnp.full((), jnp.inf, wide)
    start = _ShortClimb(position, optimizer.init(position), jnp.int32(0), infinite)
    return lax.while_loop(may_climb, step, start).position.astype(dtype)
