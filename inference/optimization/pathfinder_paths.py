"""Pathfinder: paths of L-BFGS to modes, and the normal distribution with the best ELBO on each."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.target import Target
from inference.common.threefry import normal, threefry
from inference.guides.low_rank_normal import LowRankNormalParameters, log_prob_of_noise
from inference.optimization.inverse_hessian import Pairs, add_pair, init_pairs, normal_from
from inference.optimization.lbfgs import (
    Ascent,
    Climber,
    climb_end,
    climb_init,
    climb_step,
    find_strides,
    may_climb,
    min_rise,
)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Effort:
    """The effort spent on each iterate of a path.

    Attributes:
        history: Maximum number of L-BFGS's last steps in a covariance.
        num_elbo_draws: Number of draws of a normal distribution for an estimate of its ELBO.
    """

    history: int
    num_elbo_draws: int

    def rank(self, size: int) -> int:
        """The rank of the low-rank part of the covariance, for `size` coordinates."""
        return min(size, 2 * self.history)


class BestNormal(NamedTuple):
    """The normal distribution with the highest ELBO on a path.

    Attributes:
        elbo: Its ELBO; minus infinity if no iterate has a finite ELBO.
        parameters: Its mean and covariance.
        step: The iteration of its iterate.
    """

    elbo: jax.Array
    parameters: LowRankNormalParameters
    step: jax.Array


class PathfinderPath(NamedTuple):
    """The state of a path between iterations: the ascent, its pairs, and the best distribution."""

    climber: Climber
    pairs: Pairs
    best: BestNormal


class PathfinderEnds(NamedTuple):
    """The results of several paths, ``(path, ...)``."""

    best: BestNormal
    ascent: Ascent


def follow_paths(
    positions: jax.Array,
    seeds: jax.Array,
    target: Target,
    layout: Layout,
    effort: Effort,
    max_steps: jax.Array,
    tolerance: jax.Array,
) -> PathfinderEnds:
    """Paths from `positions`, ``(path, size)``, each with the noise of its seed, ``(path, 2)``."""

    def log_density(flat: jax.Array) -> jax.Array:
        return target.log_density(layout.unravel(flat)).astype(layout.dtype)

    def one(position: jax.Array, seed: jax.Array) -> PathfinderEnds:
        path = follow_path(log_density, position, seed, effort, max_steps, tolerance)
        return PathfinderEnds(
            path.best, _check_mode(log_density, climb_end(path.climber, tolerance))
        )

    if len(positions) == 1:
        return jax.tree.map(lambda x: x[None], one(positions[0], seeds[0]))
    return jax.vmap(one)(positions, seeds)


def _check_mode(log_density: Callable[[jax.Array], jax.Array], end: Ascent) -> Ascent:
    """The end of a path, not converged if a stride of one steep coordinate leads higher."""
    strides = find_strides(end.position, end.gradient)
    beyond = lax.map(lambda move: log_density(end.position.at[move[0]].add(move[1])), strides)
    rises = jnp.where(jnp.isfinite(beyond), beyond - end.log_density, -jnp.inf)
    is_mode = jnp.max(rises) <= min_rise(end.log_density)
    return end._replace(has_converged=end.has_converged & is_mode)


def follow_path(
    log_density: Callable[[jax.Array], jax.Array],
    position: jax.Array,
    seed: jax.Array,
    effort: Effort,
    max_steps: jax.Array,
    tolerance: jax.Array,
) -> PathfinderPath:
    """Single-path Pathfinder: the path from `position` to its end.

    All estimates of the ELBO share their noise (common random numbers), so that differences of
    estimates have less noise than the estimates.

    References:
        Zhang et al. (2022), Pathfinder, algorithm 1.
    """
    size = position.size
    num_draws = effort.num_elbo_draws
    words = jnp.stack(threefry(seed, jnp.uint32(0)))
    noise = normal(words, num_draws * size, position.dtype).reshape(num_draws, size)

    def step(now: PathfinderPath) -> PathfinderPath:
        old = now.climber.at
        climber = climb_step(log_density, now.climber, tolerance)
        at = climber.at
        number = climber.at.step
        pairs = add_pair(now.pairs, at.position - old.position, old.gradient - at.gradient)
        found = normal_from(pairs, at.position, at.gradient)
        estimate = elbo(log_density, found, noise)
        has_moved = jnp.any(at.position != old.position)
        is_better = has_moved & (estimate > now.best.elbo)  # False if the estimate is NaN
        return PathfinderPath(
            climber, pairs, select_leaves(is_better, BestNormal(estimate, found, number), now.best)
        )

    climber = climb_init(log_density, position)
    pairs = init_pairs(position, effort.history)
    start = normal_from(pairs, position, jnp.zeros_like(position))
    nothing = BestNormal(jnp.full((), -jnp.inf, position.dtype), start, jnp.int32(0))

    def may_go_on(now):
        return may_climb(now.climber, max_steps)

    return lax.while_loop(may_go_on, step, PathfinderPath(climber, pairs, nothing))


def elbo(log_density: Any, parameters: LowRankNormalParameters, noise: jax.Array) -> jax.Array:
    """The ELBO of a normal distribution, estimated from draws with `noise`, ``(draw, size)``."""

    def one(noise: jax.Array) -> jax.Array:
        return log_density(parameters.place(noise)) - log_prob_of_noise(parameters, noise)

    return jnp.mean(jax.vmap(one)(noise))
