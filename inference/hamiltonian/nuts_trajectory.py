"""Trajectories that double until they turn, one leaf at a time, in memory logarithmic in length.

A trajectory is a state that one leapfrog step after the other moves on: each completes a leaf of
the subtree that is growing, and the leaf that completes the subtree also joins it to the trajectory
and begins the next one. So chains that are mapped over need not wait for each other: each is in its
own subtree of its own trajectory.

A subtree of ``2**depth`` leaves grows leaf by leaf. Leaf `n` leaves a checkpoint in row
``popcount(n)``. When the odd leaf `n` comes, it completes the balanced subtrees whose first leaves
are `n` with its trailing ones cleared one after the other; the checkpoint of each of these, and of
the middle where its two halves meet, is still there, in the rows just below ``popcount(n)``.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A conceptual
    introduction to Hamiltonian Monte Carlo, appendix A; Phan, Pradhan and Jankowiak (2019),
    Composable effects for flexible and accelerated probabilistic programming in NumPyro; Dance,
    Glaser, Orbanz and Adams (2025), Efficiently vectorized MCMC on modern accelerators.
"""

import functools
from collections.abc import Hashable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.lockstep import cond_any_chain, max_over_chains, select_leaves
from inference.common.matrices import Matrix
from inference.common.threefry import random_words, uniform, unit_of
from inference.hamiltonian.leapfrog import (
    DIVERGENCE_THRESHOLD,
    Edge,
    Origin,
    Point,
    drift,
    energy_change,
    kick,
)

_MAX_ENERGY_CHANGE = (
    1e30  # of energy, that weights are computed with: no difference of two is no number
)
_DOUBLINGS = 1 << 30  # the first counter of words for doublings, beyond those of all leaves


class Proposal(NamedTuple):
    """A leaf that may become the next state; the energy is relative to the first leaf's."""

    position: jax.Array
    log_density: jax.Array
    gradient: jax.Array
    energy_change: jax.Array


class Tally(NamedTuple):
    """What has been counted along a trajectory, and what has ended it."""

    sum_acceptance: jax.Array
    num_steps: jax.Array
    is_turning: jax.Array
    is_divergent: jax.Array

    @property
    def has_ended(self) -> jax.Array:
        """Whether the trajectory must not go on."""
        return self.is_turning | self.is_divergent


class Subtree(NamedTuple):
    """The leaves so far: their number, the chosen one, ``log sum exp(-energy)``, sum of momenta.

    `uniform` is the next leaf's: carried, it is computed once and not in each place that uses it.
    """

    size: jax.Array
    uniform: jax.Array
    proposal: Proposal
    log_weight: jax.Array
    momentum_sum: jax.Array
    checkpoints: jax.Array


class NUTSTrajectory(NamedTuple):
    """A trajectory that has been doubled `depth` times, and the subtree that grows from it.

    Attributes:
        position: Where the density is to be evaluated next.
        step_size: Negative while the subtree grows backwards in time.
        end: The last leaf, from which the subtree goes on.
        far: The trajectory's other end.
        words: A random one for each doubling: its lowest bit says whether the doubling goes back in
            time, its highest ones, as a uniform number, whether the proposal is chosen.
        near_momentum: Momentum at the leaf from which the subtree has set out.
        max_depth: How often it may be doubled; at most as often as there are checkpoints.
        is_done: Whether it has turned, diverged, or been doubled as often as it may.
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
    """The trajectory that is nothing but `point`; what `checkpoints` hold does not matter."""
    zero, count, no = jnp.zeros_like(point.log_density), jnp.int32(0), jnp.zeros((), bool)
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
    axis_name: Hashable = None,
) -> NUTSTrajectory:
    """One more leaf, given the density at ``trajectory.position``."""
    grown = add_leaf(factor, trajectory, log_density, gradient, axis_name)
    is_complete = grown.tally.has_ended | (grown.subtree.size == 1 << grown.depth)
    grown = cond_any_chain(is_complete, join_subtree, grown, axis_name)
    draw = uniform(grown.seed, (1 << grown.depth) + grown.subtree.size, log_density.dtype)
    return grown._replace(
        position=drift(factor, grown.step_size, grown.end),
        subtree=grown.subtree._replace(uniform=draw),
    )


def add_leaf(
    factor: Matrix,
    old: NUTSTrajectory,
    log_density: jax.Array,
    gradient: jax.Array,
    axis_name: Hashable = None,
) -> NUTSTrajectory:
    """`old` with another leaf in its subtree, of which one is chosen by ``exp(-energy)``."""
    tree, tally, index = old.subtree, old.tally, old.subtree.size
    leaf = kick(factor, old.step_size, old.end, old.position, log_density, gradient)
    change = energy_change(old.origin, leaf)
    log_weight, odds = _add_weight(tree.log_weight, -jnp.minimum(change, _MAX_ENERGY_CHANGE))
    is_chosen = tree.uniform * (odds.old + odds.new) < odds.new
    proposal = Proposal(leaf.position, leaf.log_density, leaf.gradient, change)

    momentum_sum = tree.momentum_sum + leaf.momentum
    checkpoint = jnp.stack([leaf.momentum, tree.momentum_sum, old.end.momentum])
    checkpoints = tree.checkpoints.at[lax.population_count(index)].set(
        checkpoint, mode="promise_in_bounds"
    )
    turns = turns_within(checkpoints, index, leaf.momentum, momentum_sum, axis_name)
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
    """Two weights over the larger one of them."""

    old: jax.Array
    new: jax.Array


def _add_weight(old: jax.Array, new: jax.Array) -> tuple[jax.Array, Odds]:
    """``log(exp(old) + exp(new))`` for a finite `new`, and the odds, by one exponential."""
    excess = new - old
    less = jnp.exp(-jnp.abs(excess))
    odds = Odds(jnp.where(excess > 0, less, 1), jnp.where(excess > 0, 1, less))
    return jnp.maximum(old, new) + jnp.log1p(less), odds


def turns_within(
    checkpoints: jax.Array,
    index: jax.Array,
    momentum: jax.Array,
    momentum_sum: jax.Array,
    axis_name: Hashable = None,
) -> jax.Array:
    """Whether any of the balanced subtrees that leaf `index` completes turns."""
    row = lax.population_count(index)
    num_complete = lax.population_count(index ^ (index + 1)) - 1
    num_checks = max_over_chains(num_complete, axis_name)

    def check(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        number, turning = carry
        first, sum_before_first, _ = checkpoints.at[row - number].get(mode="promise_in_bounds")
        middle, sum_before_middle, before_middle = checkpoints.at[row - number + 1].get(
            mode="promise_in_bounds"
        )
        turns = is_turning(
            first,
            before_middle,
            middle,
            momentum,
            sum_before_middle - sum_before_first,
            momentum_sum - sum_before_middle,
        )
        return number + 1, turning | (turns & (number <= num_complete))

    start = jnp.int32(1), jnp.zeros((), bool)
    return lax.while_loop(lambda carry: carry[0] <= num_checks, check, start)[1]


def is_turning(
    outer_a: jax.Array,
    inner_a: jax.Array,
    inner_b: jax.Array,
    outer_b: jax.Array,
    sum_a: jax.Array,
    sum_b: jax.Array,
) -> jax.Array:
    r"""Whether two neighbouring stretches of a trajectory, `a` and `b`, make a U-turn together.

    A stretch with end momenta :math:`w_1, w_2` and momentum sum :math:`\rho` turns where
    :math:`w_1 \cdot \rho \le 0` or :math:`w_2 \cdot \rho \le 0`. Beside the whole, each of the two
    with the first leaf of the other is looked at, or a period of the dynamics could pass unseen
    between them.

    Args:
        outer_a: Momentum at the end of `a` that is far from `b`.
        inner_a: Momentum at the end of `a` next to `b`.
        inner_b: Momentum at the end of `b` next to `a`.
        outer_b: Momentum at the end of `b` that is far from `a`.
        sum_a: Sum of the momenta of `a`.
        sum_b: Sum of the momenta of `b`.
    """
    whole, with_first, with_last = sum_a + sum_b, sum_a + inner_b, inner_a + sum_b
    products = [
        *(whole * outer_a, whole * outer_b),
        *(with_first * outer_a, with_first * inner_b),
        *(with_last * inner_a, with_last * outer_b),
    ]
    return functools.reduce(jnp.logical_or, [jnp.sum(product) <= 0 for product in products])


def _goes_back(word: jax.Array) -> jax.Array:
    """Whether the doubling of a random word goes back in time."""
    return (word & 1) == 1


def join_subtree(old: NUTSTrajectory) -> NUTSTrajectory:
    """`old` joined with its complete subtree, and about to grow the next one.

    Where something has ended the subtree, the trajectory is done and keeps the proposal that it
    has; what else it holds does not matter any more.

    The subtree's proposal is taken with the probability of its weight against the trajectory's, if
    that is less than 1 (biased progressive sampling).
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
    flips = _goes_back(old.words[depth]) != (old.step_size < 0)  # clamped after the last
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
