"""Conditional sequential Monte Carlo: a sweep that moves a path and keeps its distribution."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.particles.backward_sampling import draw_index
from inference.particles.particle_filter import effective_size, trace_indices
from inference.particles.resampling import multinomial
from inference.particles.state_space import StateSpace, finish_all, log_densities_ahead, take

_REFERENCE = 0  # index of the path that the sweep starts from


class PathMove(NamedTuple):
    """Path after a sweep of conditional sequential Monte Carlo.

    Attributes:
        start: Values before the first step.
        path: Values of all steps, ``(T, ...)``.
        is_new: Whether a step has values other than the reference's, ``(T,)``.
        least_ess: Smallest effective sample size, a scalar.
    """

    start: Any
    path: Any
    is_new: jax.Array
    least_ess: jax.Array


def conditional_smc(
    key: jax.Array, space: StateSpace, num_particles: int, start: Any, path: Any
) -> PathMove:
    """One sweep of conditional sequential Monte Carlo with ancestor sampling.

    A path that has the smoothing distribution has it after the sweep, for any number of particles
    from 2 on. One particle keeps the values of the path, the reference. All others are resampled
    before every step, independently with the weights, among which the reference's is. The ancestor
    of the reference is drawn with the weights times the density of the rest of the reference.

    Args:
        key: Random key.
        space: The state space.
        num_particles: Number of particles, with the reference.
        start: Values of the reference before the first step.
        path: Values of the reference in all steps, ``(T, ...)``.

    References:
        Andrieu, Doucet and Holenstein (2010), Particle Markov chain Monte Carlo methods, Journal of
        the Royal Statistical Society B 72; Lindsten, Jordan and Schön (2014), Particle Gibbs with
        ancestor sampling, Journal of Machine Learning Research 15.
    """
    for_start, for_steps, for_end = random.split(key, 3)
    state, _, weight = space.score_start(start)
    drawn = jax.vmap(space.start)(random.split(for_start, num_particles))
    states, starts, weights = _put_reference(drawn, (state, start, weight))
    log_weights = _normalize(weights)

    def step(carry: tuple[Any, jax.Array], t: jax.Array) -> tuple[Any, Any]:
        states, log_weights = carry
        keys = random.split(random.fold_in(for_steps, t), 3)
        ancestors = multinomial(keys[0], log_weights)
        ahead = log_densities_ahead(space, states, path, t, num_particles)
        ancestors = ancestors.at[_REFERENCE].set(_draw_ancestor(keys[1], log_weights + ahead))
        parents = take(states, ancestors)
        own = random.split(keys[2], num_particles)
        moved = jax.vmap(space.move, (0, 0, None))(own, parents, t)
        kept = jax.tree.map(lambda x: x[t], path)
        state, _, weight = space.score(take(parents, jnp.int32(_REFERENCE)), kept, t)
        states, values, weights = _put_reference(moved, (state, kept, weight))
        log_weights = _normalize(weights)
        return (states, log_weights), (ancestors, values, effective_size(log_weights))

    steps = jnp.arange(space.num_steps, dtype=jnp.int32)
    carry, (ancestors, values, sizes) = lax.scan(step, (states, log_weights), steps)
    states, log_weights = carry
    log_weights = _normalize(log_weights + finish_all(space, states, num_particles))
    lineage, first = trace_indices(ancestors, draw_index(for_end, log_weights))
    least = jnp.minimum(jnp.min(sizes), effective_size(log_weights))
    is_new = lineage != _REFERENCE
    return PathMove(take(starts, first), jax.vmap(take)(values, lineage), is_new, least)


def _put_reference(particles: Any, reference: Any) -> Any:
    """States, values and weights of particles, with those of the reference among them."""
    return jax.tree.map(lambda x, y: x.at[_REFERENCE].set(y), particles, reference)


def _normalize(log_weights: jax.Array) -> jax.Array:
    """Log weights that sum to 1; where none is positive, the reference has all weight."""
    log_weights = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
    total = jax.scipy.special.logsumexp(log_weights)
    alone = jnp.full_like(log_weights, -jnp.inf).at[_REFERENCE].set(0)
    return jnp.where(jnp.isfinite(total), log_weights - total, alone)


def _draw_ancestor(key: jax.Array, log_weights: jax.Array) -> jax.Array:
    """Ancestor of the reference: it stays the reference where no particle has a weight."""
    return jnp.where(jnp.any(log_weights > -jnp.inf), draw_index(key, log_weights), _REFERENCE)
