"""Particle filter of a state space: adaptive resampling, the evidence, genealogies and paths."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import logsumexp

from inference.common.threefry import neighbors
from inference.particles.resampling import Scheme, systematic
from inference.particles.state_space import StateSpace, finish_all, take

Move = Callable[[jax.Array, Any, jax.Array], tuple[Any, Any, jax.Array]]


class FilterRun(NamedTuple):
    """Run of a particle filter with `N` particles over `T` steps.

    Log weights are normalized: their exponentials sum to 1.

    Attributes:
        log_evidence: Scalar, the log of an unbiased estimate of the density of what is observed.
        increments: Terms of the log evidence, ``(T + 1,)``: before the first step, then by step.
        ess: Effective sample sizes of the weights there, ``(T + 1,)``.
        states: States after the last step, ``(N, ...)``.
        log_weights: Log weights after the last step, ``(N,)``.
        roots: Index, before the first step, of the ancestor of each particle, ``(N,)``.
        ancestors: Index, before each step, of the parent of each particle, ``(T, N)``.
        start: Values before the first step, ``(N, ...)``.
        values: Values of each step, ``(T, N, ...)``; `None` if they were not kept.
        earlier_states: States before each step and its resampling, ``(T, N, ...)``; `None` if they
            were not kept.
        earlier_log_weights: Log weights of these, ``(T, N)``.
    """

    log_evidence: jax.Array
    increments: jax.Array
    ess: jax.Array
    states: Any
    log_weights: jax.Array
    roots: jax.Array
    ancestors: jax.Array
    start: Any
    values: Any
    earlier_states: Any
    earlier_log_weights: jax.Array


def particle_filter(
    key: jax.Array,
    space: StateSpace,
    num_particles: int,
    *,
    scheme: Scheme = systematic,
    threshold: float = 0.5,
    move: Move | None = None,
    keeps_values: bool = True,
    keeps_states: bool = False,
) -> FilterRun:
    """Particle filter: particles move, are weighted by what is observed, and are resampled.

    Where all weights of a step are zero, the evidence is zero, and particles go on with equal
    weights. A weight that is NaN makes the evidence NaN.

    Args:
        key: Random key.
        space: The state space.
        num_particles: Number of particles.
        scheme: Resampling scheme.
        threshold: Particles are resampled before a step where the effective sample size is below
            this share of their number; above 1 for every step, 0 for none.
        move: Function that moves a particle instead of ``space.move``, with a weight that makes up
            for it.
        keeps_values: Whether values of all steps are kept.
        keeps_states: Whether states of all steps are kept, for :func:`sample_backward`.

    References:
        Gordon, Salmond and Smith (1993), Novel approach to nonlinear/non-Gaussian Bayesian state
        estimation; Liu and Chen (1995), Blind deconvolution via sequential imputations, on adaptive
        resampling.
    """
    move = space.move if move is None else move
    for_start, for_steps = random.split(key)
    states, start, weights = jax.vmap(space.start)(random.split(for_start, num_particles))
    equal = equal_weights(num_particles, weights.dtype)
    log_weights, first = reweight(equal, weights)
    first_size = effective_size(log_weights)
    everyone = jnp.arange(num_particles, dtype=jnp.int32)

    def step(carry: tuple[Any, jax.Array, jax.Array], t: jax.Array) -> tuple[Any, Any]:
        states, log_weights, roots = earlier = carry
        for_resampling, for_moves = random.split(random.fold_in(for_steps, t))
        is_poor = effective_size(log_weights) < threshold * num_particles

        def resample(_: None) -> tuple[jax.Array, Any]:
            chosen = scheme(for_resampling, log_weights)
            return chosen, (take(states, chosen), equal, roots[chosen])

        ancestors, carry = lax.cond(is_poor, resample, lambda _: (everyone, earlier), None)
        states, log_weights, roots = carry
        keys = neighbors(for_moves, num_particles)
        states, values, weights = jax.vmap(move, (0, 0, None))(keys, states, t)
        log_weights, increment = reweight(log_weights, weights)
        kept = (
            increment,
            effective_size(log_weights),
            ancestors,
            values if keeps_values else None,
            earlier[:2] if keeps_states else (None, earlier[1]),
        )
        return (states, log_weights, roots), kept

    steps = jnp.arange(space.num_steps, dtype=jnp.int32)
    carry, kept = lax.scan(step, (states, log_weights, everyone), steps)
    states, log_weights, roots = carry
    increments, sizes, ancestors, values, (earlier_states, earlier_log_weights) = kept
    log_weights, final = reweight(log_weights, finish_all(space, states, num_particles))
    increments = jnp.concatenate([first[None], increments]).at[-1].add(final)
    sizes = jnp.concatenate([first_size[None], sizes]).at[-1].set(effective_size(log_weights))
    return FilterRun(
        jnp.sum(increments),
        increments,
        sizes,
        states,
        log_weights,
        roots,
        ancestors,
        start,
        values,
        earlier_states,
        earlier_log_weights,
    )


def equal_weights(num_particles: int, dtype: Any) -> jax.Array:
    """Log weights that are equal and sum to 1."""
    return jnp.full(num_particles, -jnp.log(jnp.asarray(num_particles, dtype)))


def reweight(log_weights: jax.Array, factors: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Normalized log weights times factors, normalized again; the log of their sum before that."""
    products = log_weights + factors
    total = logsumexp(products)
    equal = equal_weights(products.size, products.dtype)
    return jnp.where(jnp.isfinite(total), products - total, equal), total


def effective_size(log_weights: jax.Array) -> jax.Array:
    """Effective sample size of normalized log weights (Kong, Liu and Wong, 1994)."""
    return 1 / jnp.sum(jnp.exp(2 * log_weights))


def log_evidence_variance(run: FilterRun) -> jax.Array:
    r"""Estimate of the variance of the log evidence of a run, from its genealogy.

    It is :math:`\sum_r (S_r - 1/N)^2` with the weight :math:`S_r` of the descendants of particle
    :math:`r`. With schemes of less variance than the multinomial one it is too large on average.
    It needs many roots: it is near 1 where all particles descend from one, whatever the variance.

    References:
        Chan and Lai (2013), A general theory of particle filters in hidden Markov models and some
        applications, Annals of Statistics 41; Lee and Whiteley (2018), Variance estimation in the
        particle filter, Biometrika 105.
    """
    size = run.log_weights.size
    weights = jnp.zeros_like(run.log_weights).at[run.roots].add(jnp.exp(run.log_weights))
    return jnp.sum((weights - 1 / size) ** 2)


def trace_paths(run: FilterRun, indices: jax.Array) -> tuple[Any, Any]:
    """Values before the first step, and of all steps, of the ancestors of some particles.

    Args:
        run: Run of a filter that kept values.
        indices: Index of one particle after the last step, or of several, ``(n,)``.

    Returns:
        Values ``(n, ...)`` and ``(T, n, ...)``; without the axis `n` for one index.
    """
    lineage, first = trace_indices(run.ancestors, indices)
    path = jax.vmap(take)(run.values, lineage)
    return take(run.start, first), path


def trace_indices(ancestors: jax.Array, indices: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Indices after each step, ``(T, ...)``, and before the first, of ancestors of particles."""

    def back(index: jax.Array, parents: jax.Array) -> tuple[jax.Array, jax.Array]:
        return parents[index], index

    first, lineage = lax.scan(back, jnp.asarray(indices, jnp.int32), ancestors, reverse=True)
    return lineage, first
