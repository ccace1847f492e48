"""NUTS trajectories, grown iteratively leaf by leaf, in memory logarithmic in their length.

A trajectory is a state machine. Each leapfrog step adds a leaf to the subtree that is growing. The
last leaf of the subtree also joins the subtree to the trajectory and begins the next subtree. So
chains that ``jax.vmap`` maps over need not wait for each other: each is in its own subtree of its
own trajectory.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A conceptual
    introduction to Hamiltonian Monte Carlo, appendix A; Phan, Pradhan and Jankowiak (2019),
    Composable effects for flexible and accelerated probabilistic programming in NumPyro; Dance,
    Glaser, Orbanz and Adams (2025), Efficiently vectorized MCMC on modern accelerators.
"""

from collections.abc import Hashable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.lockstep import cond_or_select, select_leaves
from inference.common.matrices import Matrix
from inference.common.threefry import random_words, uniform, unit_of
from inference.kernels.hamiltonian.leapfrog import (
    DIVERGENCE_THRESHOLD,
    Edge,
    Origin,
    Point,
    drift,
    energy_change,
    kick,
)
from inference.kernels.hamiltonian.u_turns import (
    is_turning,
    select_checkpoint,
    turns_within_at_once,
    turns_within_by_loop,
    write_checkpoint,
)

# nats; limit of an energy error in a weight, so that no difference of two log weights is NaN.
_MAX_ENERGY_CHANGE = 1e30
_DOUBLINGS = 1 << 30  # first counter of the random words of doublings, beyond those of all leaves


class Proposal(NamedTuple):
    """Leaf that may become the next state, with its energy relative to the trajectory's start."""

    position: jax.Array
    log_density: jax.Array
    gradient: jax.Array
    energy_change: jax.Array


class Tally(NamedTuple):
    """Counts along a trajectory, and flags of the events that end it."""

    sum_acceptance: jax.Array
    num_steps: jax.Array
    is_turning: jax.Array
    is_divergent: jax.Array

    @property
    def has_ended(self) -> jax.Array:
        """Whether the trajectory has made a U-turn or diverged."""
        return self.is_turning | self.is_divergent


class Subtree(NamedTuple):
    """Subtree that is still growing.

    Attributes:
        size: Number of leaves.
        uniform: Uniform number that decides whether the next leaf is chosen. It is carried here so
            that it is computed once, not in each use.
        proposal: The leaf chosen so far.
        log_weight: ``log sum exp(-energy)`` over the leaves.
        momentum_sum: Sum of the momenta of the leaves.
        checkpoints: Momenta and momentum sums, ``(max_depth, 3, size)``, see
            :mod:`inference.kernels.hamiltonian.u_turns`.
    """

    size: jax.Array
    uniform: jax.Array
    proposal: Proposal
    log_weight: jax.Array
    momentum_sum: jax.Array
    checkpoints: jax.Array


class NUTSTrajectory(NamedTuple):
    """Trajectory of NUTS that has been doubled `depth` times, and the subtree that grows from it.

    Attributes:
        position: Flat vector, the position at which the density is to be evaluated next.
        step_size: Step size, negative while the subtree grows backwards in time.
        origin: Start of the trajectory, the reference of energies.
        seed: Two words of uint32, the seed of the uniform numbers of leaves.
        words: Random words, one for each doubling. The lowest bit decides whether the doubling goes
            backwards in time. The highest bits, as a uniform number, decide whether the subtree's
            proposal is chosen.
        end: The last leaf, from which the subtree grows.
        far: The other end of the trajectory.
        near_momentum: Momentum at the leaf of the trajectory where the subtree begins.
        proposal: The leaf chosen so far from the leaves without the subtree.
        log_weight: ``log sum exp(-energy)`` over the leaves without the subtree.
        momentum_sum: Sum of the momenta of the leaves without the subtree.
        depth: Number of doublings that have joined the trajectory.
        max_depth: Maximum number of doublings, at most the number of checkpoints.
        subtree: The subtree that is growing.
        tally: Counts and events so far.
        is_done: Whether the trajectory has turned, diverged, or been doubled `max_depth` times.
    """

    position: jax.Array
    step_size: jax.Array
    origin: Origin
    seed: jax.Array
    words: jax.Array
    end: Edge
    far: Edge
    near_momentum: jax.Array
    proposal: Proposal
    log_weight: jax.Array
    momentum_sum: jax.Array
    depth: jax.Array
    max_depth: jax.Array
    subtree: Subtree
    tally: Tally
    is_done: jax.Array


def begin_trajectory(
    factor: Matrix,
    step_size: jax.Array,
    point: Point,
    seed: jax.Array,
    checkpoints: jax.Array,
    max_depth: jax.Array,
) -> NUTSTrajectory:
    """The trajectory of the single leaf `point`; the contents of `checkpoints` do not matter."""
    zero = jnp.zeros_like(point.log_density)
    count = jnp.int32(0)
    no = jnp.zeros((), bool)
    edge = Edge(point.position, point.momentum, point.force)
    proposal = Proposal(point.position, point.log_density, point.gradient, zero)
    of_doublings = random_words(seed, _DOUBLINGS, len(checkpoints))
    step_size = jnp.where(_goes_back(of_doublings[0]), -step_size, step_size)
    momentum_sum = jnp.zeros_like(point.momentum)
    subtree = Subtree(
        count,
        uniform(seed, count + 1, zero.dtype),
        proposal,
        zero - jnp.inf,
        momentum_sum,
        checkpoints,
    )
    return NUTSTrajectory(
        drift(factor, step_size, edge),
        step_size,
        Origin(point.momentum, point.log_density),
        seed,
        of_doublings,
        edge,
        edge,
        point.momentum,
        proposal,
        zero,
        point.momentum,
        count,
        jnp.asarray(max_depth, jnp.int32),
        subtree,
        Tally(zero, count, no, no),
        no,
    )


def advance_trajectory(
    factor: Matrix,
    trajectory: NUTSTrajectory,
    log_density: jax.Array,
    gradient: jax.Array,
    axis_name: Hashable,
) -> NUTSTrajectory:
    """Trajectory with one more leaf, given log density and gradient at its `position`."""
    old = trajectory
    leaf = kick(factor, old.step_size, old.end, old.position, log_density, gradient)
    grown = grow_trajectory(old, leaf, energy_change(old.origin, leaf), axis_name)
    return grown._replace(position=drift(factor, grown.step_size, grown.end))


def grow_trajectory(
    trajectory: NUTSTrajectory, leaf: Point, change: jax.Array, axis_name: Hashable
) -> NUTSTrajectory:
    """Trajectory with `leaf` added; `position` is left for the caller to set.

    Args:
        trajectory: The trajectory so far.
        leaf: Point at which its last step has ended.
        change: Energy of the leaf relative to the trajectory's start.
        axis_name: Name of the ``jax.vmap`` axis over chains, or `None`.
    """
    grown = add_leaf(trajectory, leaf, change, axis_name)
    is_complete = grown.tally.has_ended | (grown.subtree.size == 1 << grown.depth)
    grown = cond_or_select(is_complete, join_subtree, grown, axis_name)
    draw = uniform(grown.seed, (1 << grown.depth) + grown.subtree.size, change.dtype)
    return grown._replace(subtree=grown.subtree._replace(uniform=draw))


def add_leaf(
    old: NUTSTrajectory, leaf: Point, change: jax.Array, axis_name: Hashable
) -> NUTSTrajectory:
    """Trajectory with another leaf in its subtree.

    The new leaf becomes the subtree's proposal with a probability equal to its share of the weights
    ``exp(-energy)`` (multinomial sampling).
    """
    tree = old.subtree
    tally = old.tally
    index = old.subtree.size
    log_weight, odds = _add_weight(tree.log_weight, -jnp.minimum(change, _MAX_ENERGY_CHANGE))
    is_chosen = tree.uniform * (odds.old + odds.new) < odds.new
    proposal = Proposal(leaf.position, leaf.log_density, leaf.gradient, change)

    momentum_sum = tree.momentum_sum + leaf.momentum
    checkpoint = jnp.stack([leaf.momentum, tree.momentum_sum, old.end.momentum])
    write = write_checkpoint
    turns_within = turns_within_by_loop
    if axis_name is not None:
        write = select_checkpoint
        turns_within = turns_within_at_once
    checkpoints = write(tree.checkpoints, index, checkpoint)
    turns = turns_within(checkpoints, index, leaf.momentum, momentum_sum)
    return old._replace(
        end=Edge(leaf.position, leaf.momentum, leaf.force),
        subtree=Subtree(
            index + 1,
            tree.uniform,
            select_leaves(is_chosen, proposal, tree.proposal),
            log_weight,
            momentum_sum,
            checkpoints,
        ),
        tally=Tally(
            tally.sum_acceptance + jnp.exp(-jnp.maximum(change, 0)),
            tally.num_steps + 1,
            turns,
            change > DIVERGENCE_THRESHOLD,
        ),
    )


class Odds(NamedTuple):
    """Two weights, divided by the larger one."""

    old: jax.Array
    new: jax.Array


def _add_weight(old: jax.Array, new: jax.Array) -> tuple[jax.Array, Odds]:
    """``log(exp(old) + exp(new))`` for a finite `new`, and the odds, with one exponential."""
    excess = new - old
    less = jnp.exp(-jnp.abs(excess))
    odds = Odds(jnp.where(excess > 0, less, 1), jnp.where(excess > 0, 1, less))
    return jnp.maximum(old, new) + jnp.log1p(less), odds


def _goes_back(word: jax.Array) -> jax.Array:
    """Whether the doubling decided by a random word goes backwards in time."""
    return (word & 1) == 1


def join_subtree(old: NUTSTrajectory) -> NUTSTrajectory:
    """Trajectory joined with its complete subtree, ready to grow the next one.

    The subtree's proposal is chosen with probability ``min(1, subtree weight / trajectory weight)``
    (biased progressive sampling).

    A subtree that has turned or diverged is not joined: the trajectory is done and keeps its
    proposal. The other fields of the trajectory then do not matter.
    """
    tree = old.subtree
    joins = ~old.tally.has_ended
    choice = unit_of(old.words[old.depth]).astype(old.log_weight.dtype)
    log_weight, odds = _add_weight(old.log_weight, tree.log_weight)
    is_chosen = joins & (choice * odds.old < odds.new)
    first = tree.checkpoints[0, 0]
    turns = is_turning(
        old.far.momentum,
        old.near_momentum,
        first,
        old.end.momentum,
        old.momentum_sum,
        tree.momentum_sum,
    )
    tally = old.tally._replace(is_turning=old.tally.is_turning | (joins & turns))
    depth = old.depth + joins.astype(jnp.int32)
    flips = _goes_back(old.words[depth]) != (old.step_size < 0)  # JAX clamps the index
    end = select_leaves(flips, old.far, old.end)
    return old._replace(
        step_size=jnp.where(flips, -old.step_size, old.step_size),
        end=end,
        far=select_leaves(flips, old.end, old.far),
        near_momentum=end.momentum,
        proposal=select_leaves(is_chosen, tree.proposal, old.proposal),
        log_weight=log_weight,
        momentum_sum=old.momentum_sum + tree.momentum_sum,
        depth=depth,
        subtree=tree._replace(
            size=jnp.zeros_like(tree.size),
            log_weight=jnp.full_like(tree.log_weight, -jnp.inf),
            momentum_sum=jnp.zeros_like(tree.momentum_sum),
        ),
        tally=tally,
        is_done=tally.has_ended | (depth == old.max_depth),
    )
