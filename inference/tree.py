"""Trajectories that double until they turn, held in memory logarithmic in their length.

A subtree of ``2**depth`` leaves grows leaf by leaf. Leaf `n` leaves a checkpoint in row
``popcount(n)``. When the odd leaf `n` comes, it completes the balanced subtrees whose first leaves
are `n` with its trailing ones cleared one after the other; the checkpoint of each of these, and of
the middle where its two halves meet, is still there, in the rows just below ``popcount(n)``.

Every value that is the same for all chains (depth, leaf, row) depends on no chain, so that it stays
a scalar under ``jax.vmap`` when the loops' conditions do: see `any_chain`.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15; Betancourt (2017), A conceptual
    introduction to Hamiltonian Monte Carlo, appendix A; Phan, Pradhan and Jankowiak (2019),
    Composable effects for flexible and accelerated probabilistic programming in NumPyro.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.hamiltonian import DIVERGENCE_THRESHOLD, Dynamics, Point, energy_change, leapfrog
from inference.randomness import uniform


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
    def is_going(self) -> jax.Array:
        """Whether nothing has ended the trajectory."""
        return ~(self.is_turning | self.is_divergent)


class Walk(NamedTuple):
    """What stays the same along one trajectory."""

    dynamics: Dynamics
    start: Point
    seed: jax.Array
    any_chain: Callable[[jax.Array], jax.Array]


class Subtree(NamedTuple):
    """The leaves so far: the last one, the chosen one, ``log sum exp(-energy)``, sum of momenta.

    `uniform` is the next leaf's: carried, it is computed once and not in each place that uses it.
    The first leaf is chosen whatever it is.
    """

    index: jax.Array
    uniform: jax.Array
    any_going: jax.Array
    end: Point
    proposal: Proposal
    log_weight: jax.Array
    momentum_sum: jax.Array
    checkpoints: jax.Array
    tally: Tally


def select(which: jax.Array, a: Any, b: Any) -> Any:
    """`a` where `which` holds, else `b`, leaf by leaf."""
    return jax.tree.map(lambda x, y: jnp.where(which, x, y), a, b)


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

    def turns(total: jax.Array, first: jax.Array, last: jax.Array) -> jax.Array:
        return (jnp.sum(total * first) <= 0) | (jnp.sum(total * last) <= 0)

    return (
        turns(sum_a + sum_b, outer_a, outer_b)
        | turns(sum_a + inner_b, outer_a, inner_b)
        | turns(inner_a + sum_b, inner_a, outer_b)
    )


def grow(walk: Walk, edge: Point, depth: jax.Array, max_depth: int, tally: Tally) -> Subtree:
    """``2**depth`` leaves on from `edge`, or fewer where they turn or diverge.

    One leaf is chosen, with probability proportional to ``exp(-energy)``.
    """
    zero = jnp.zeros_like(edge.log_density)
    tree = Subtree(
        jnp.int32(0),
        zero + 0.5,
        walk.any_chain(tally.is_going),
        edge,
        Proposal(edge.position, edge.log_density, edge.gradient, zero),
        zero - jnp.inf,
        jnp.zeros_like(edge.momentum),
        jnp.zeros((max_depth + 1, 3, *edge.momentum.shape), edge.momentum.dtype),
        tally,
    )
    return lax.while_loop(
        lambda tree: (tree.index < 1 << depth) & tree.any_going,
        lambda tree: _add_leaf(walk, tree, depth),
        tree,
    )


def _add_leaf(walk: Walk, tree: Subtree, depth: jax.Array) -> Subtree:
    # A chain that has ended waits for the others: it stays where it is and is counted no more.
    # The rest of its subtree is worthless, and needs no such care.
    is_going, index = tree.tally.is_going, tree.index
    end = leapfrog(walk.dynamics, tree.end)
    end = end._replace(position=jnp.where(is_going, end.position, tree.end.position))
    change = energy_change(walk.start, end)

    log_weight = jnp.logaddexp(tree.log_weight, -change)
    is_chosen = tree.uniform < jnp.exp(-change - log_weight)
    leaf = Proposal(end.position, end.log_density, end.gradient, change)

    momentum_sum = tree.momentum_sum + end.momentum
    checkpoint = jnp.stack([end.momentum, tree.momentum_sum, tree.end.momentum])
    checkpoints = tree.checkpoints.at[lax.population_count(index)].set(
        checkpoint, mode="promise_in_bounds"
    )
    turns = _turns_within(checkpoints, index, end.momentum, momentum_sum)
    tally = Tally(
        tree.tally.sum_acceptance + jnp.where(is_going, jnp.exp(-jnp.maximum(change, 0)), 0),
        tree.tally.num_steps + is_going.astype(jnp.int32),
        tree.tally.is_turning | (is_going & turns),
        tree.tally.is_divergent | (is_going & (change > DIVERGENCE_THRESHOLD)),
    )
    return Subtree(
        index + 1,
        uniform(walk.seed, (1 << depth) + index + 1, change.dtype),
        walk.any_chain(tally.is_going),
        end,
        select(is_chosen, leaf, tree.proposal),
        log_weight,
        momentum_sum,
        checkpoints,
        tally,
    )


def _turns_within(
    checkpoints: jax.Array, index: jax.Array, momentum: jax.Array, momentum_sum: jax.Array
) -> jax.Array:
    """Whether any of the balanced subtrees that leaf `index` completes turns."""
    row = lax.population_count(index)
    num_complete = lax.population_count(index ^ (index + 1)) - 1

    def check(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        row, turning = carry
        first, sum_before_first, _ = checkpoints.at[row].get(mode="promise_in_bounds")
        middle, sum_before_middle, before_middle = checkpoints.at[row + 1].get(
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
        return row - 1, turning | turns

    first_row = row - num_complete
    return lax.while_loop(
        lambda carry: carry[0] >= first_row, check, (row - 1, jnp.zeros((), bool))
    )[1]
