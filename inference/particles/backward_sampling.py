"""Smoothing by backward sampling: paths drawn from the last step to the first."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.particles.particle_filter import FilterRun
from inference.particles.resampling import multinomial
from inference.particles.state_space import StateSpace, log_densities_ahead, take


def sample_backward(key: jax.Array, space: StateSpace, run: FilterRun) -> tuple[Any, Any]:
    """One path from the smoothing distribution of a filter; map over keys for more.

    From the last step to the first, a particle is drawn with its filter weight times the density of
    the path drawn so far, as it goes on from the state of that particle. The path goes on for as
    many steps as the state space remembers. Paths meet less often than those of ancestors do.

    Args:
        key: Random key.
        space: The state space.
        run: Run of its filter that kept values and states.

    Returns:
        Values before the first step, and of all steps, ``(T, ...)``.

    References:
        Godsill, Doucet and West (2004), Monte Carlo smoothing for nonlinear time series, Journal of
        the American Statistical Association 99.
    """
    num_steps = space.num_steps
    keys = random.split(key, num_steps + 1)
    last = draw_index(keys[-1], run.log_weights)
    path = jax.tree.map(lambda x: jnp.zeros((num_steps, *x.shape[2:]), x.dtype), run.values)
    path = jax.tree.map(lambda x, y: x.at[-1].set(y[-1, last]), path, run.values)

    def back(path: Any, step: tuple[jax.Array, jax.Array, Any]) -> tuple[Any, jax.Array]:
        t, key, (states, log_weights) = step
        ahead = log_densities_ahead(space, states, path, t, log_weights.size)
        index = draw_index(key, log_weights + ahead)
        before = jnp.where(t > 0, t - 1, num_steps)  # beyond the end, where it is dropped
        values = jax.tree.map(lambda x: x[t - 1, index], run.values)
        return jax.tree.map(lambda x, y: x.at[before].set(y, mode="drop"), path, values), index

    steps = jnp.arange(num_steps, dtype=jnp.int32)
    earlier = run.earlier_states, run.earlier_log_weights
    path, indices = lax.scan(back, path, (steps, keys[:-1], earlier), reverse=True)
    return take(run.start, indices[0]), path


def draw_index(key: jax.Array, log_weights: jax.Array) -> jax.Array:
    """Index of a particle, drawn with its weight."""
    return multinomial(key, log_weights, 1)[0]
