"""Protocol of state spaces: steps of one particle, which filters and smoothers take."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import lax


class StateSpace(Protocol):
    """State space as functions of one particle; a pytree, so that what it holds may be traced.

    A particle is a state, which is carried from step to step, and the values of the latent sites of
    its steps. Values are pytrees; all log weights and log densities are scalars.

    Attributes:
        num_steps: Number of steps, static.
        memory: Number `L` of steps after which the state no longer depends on an earlier state,
            given the values of these steps; static. `None` if it always may.
    """

    @property
    def num_steps(self) -> int:
        """Number of steps."""
        ...

    @property
    def memory(self) -> int | None:
        """Number of steps that the state remembers, given their values."""
        ...

    def start(self, key: jax.Array) -> tuple[Any, Any, jax.Array]:
        """State before step 0, values drawn there, log density of what is observed there."""
        ...

    def move(self, key: jax.Array, state: Any, t: jax.Array) -> tuple[Any, Any, jax.Array]:
        """State after step `t`, values drawn in it, log density of what is observed in it."""
        ...

    def score_start(self, values: Any) -> tuple[Any, jax.Array, jax.Array]:
        """State before step 0 for given values; log densities of these and of what is observed."""
        ...

    def score(self, state: Any, values: Any, t: jax.Array) -> tuple[Any, jax.Array, jax.Array]:
        """State after step `t` for given values; log densities of these and of what is observed."""
        ...

    def finish(self, state: Any) -> jax.Array:
        """Log density of what is observed after the last step."""
        ...


def log_density_ahead(space: StateSpace, state: Any, path: Any, t: jax.Array) -> jax.Array:
    """Log density of the values of a path from step `t` on, and of what is observed there.

    Terms that do not depend on the state are left out: those of steps beyond the memory of the
    state space.

    Args:
        space: The state space.
        state: State of one particle before step `t`.
        path: Values of all steps, ``(step, ...)``; those before `t` are not read.
        t: Number of a step, or the number of steps, after the last one.
    """
    num_steps = space.num_steps
    end = num_steps if space.memory is None else jnp.minimum(t + space.memory, num_steps)

    def replay(u: jax.Array, carry: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        state, total = carry
        values = jax.tree.map(lambda x: x[u], path)
        state, *terms = space.score(state, values, u)
        return state, total + sum(terms)

    zero = jnp.zeros((), jax.eval_shape(space.finish, state).dtype)
    state, total = lax.fori_loop(t, end, replay, (state, zero))
    last = space.finish(state)
    return total + jnp.where(end == num_steps, last, jnp.zeros_like(last))


def log_densities_ahead(
    space: StateSpace, states: Any, path: Any, t: jax.Array, num_particles: int
) -> jax.Array:
    """Log densities ahead of the states of all particles, which may carry nothing."""
    ahead = jax.vmap(log_density_ahead, (None, 0, None, None), axis_size=num_particles)
    return ahead(space, states, path, t)


def finish_all(space: StateSpace, states: Any, num_particles: int) -> jax.Array:
    """Log densities of what is observed after the last step, for the states of all particles."""
    return jax.vmap(space.finish, axis_size=num_particles)(states)


def take(particles: Any, indices: jax.Array) -> Any:
    """Particles at indices."""
    return jax.tree.map(lambda x: x[indices], particles)
