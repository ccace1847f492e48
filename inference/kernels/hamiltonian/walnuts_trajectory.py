"""WALNUTS trajectories: NUTS trajectories of leaps, each with a step size of its own.

A *leap* leads from one leaf of the trajectory to the next, over the step size `h`. It is tried in
one step of `h`, in two of `h / 2`, in four of `h / 4`, until the energy along it varies by no more
than a tolerance. It is *reversible* if all coarser tries back from its end fail, so that the same
number of halvings would be chosen on the way back. A leap that is not reversible ends the
trajectory, and its end does not become a leaf: detailed balance holds, as it does where NUTS drops
a subtree.

A try is given up at the first step after which the energy has varied too much. So it costs few
gradients where a step is far too large. The gradients of all tries are counted.

References:
    Bou-Rabee, Carpenter, Kleppe and Liu (2025), The within-orbit adaptive leapfrog no-U-turn
    sampler, arXiv 2506.18746, the deterministic variant.
"""

from collections.abc import Hashable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.lockstep import cond_or_select, select_leaves
from inference.common.matrices import Matrix
from inference.kernels.hamiltonian.leapfrog import Edge, Point, drift, energy_change, kick
from inference.kernels.hamiltonian.nuts_trajectory import NUTSTrajectory, grow_trajectory


class Leap(NamedTuple):
    """Leap in progress: a try forwards, or a coarser try back from its end.

    Attributes:
        halvings: Halvings of the step size in this try.
        index: Number of steps of the try so far.
        edge: The last point of the try.
        low, high: The least and the largest energy along the try, relative to the trajectory's
            start.
        leaf: The end of the leap once it has been reached; before that, the last point.
        change: The energy of the leaf, relative to the trajectory's start.
        is_check: Whether the try goes back from the leaf, to check that the leap is reversible.
    """

    halvings: jax.Array
    index: jax.Array
    edge: Edge
    low: jax.Array
    high: jax.Array
    leaf: Point
    change: jax.Array
    is_check: jax.Array


class Verdict(NamedTuple):
    """Consequences of one more step of a try; flags.

    Attributes:
        joins: The leap is complete and reversible: its leaf joins the trajectory.
        is_irreversible: A coarser try back succeeds, so that the leap ends the trajectory.
        is_lost: The finest try fails, so that the leap ends the trajectory.
        is_check: The next step belongs to a try back from the leaf.
        begins: The next step is the first one of a try.
    """

    joins: jax.Array
    is_irreversible: jax.Array
    is_lost: jax.Array
    is_check: jax.Array
    begins: jax.Array


class Leaps(NamedTuple):
    """Counts over all leaps of a trajectory, and flags of the events that end it.

    Attributes:
        num_gradients: Gradients of all tries.
        num_leaps: Leaps that have been tried.
        sum_acceptance: Sum over the leaps of ``min(1, exp(-energy))``, with the energy after the
            try in a single step, relative to the trajectory's start.
        halvings: The largest number of halvings of a try.
        is_irreversible: Whether a leap was not reversible.
        is_lost: Whether a leap could not be followed at the finest step.
    """

    num_gradients: jax.Array
    num_leaps: jax.Array
    sum_acceptance: jax.Array
    halvings: jax.Array
    is_irreversible: jax.Array
    is_lost: jax.Array


class WALNUTSTrajectory(NamedTuple):
    """Trajectory of WALNUTS.

    Attributes:
        position: Flat vector, the position at which the density is to be evaluated next.
        nuts: The trajectory of the leaves.
        end_change: The energy at the end from which it grows, relative to the start.
        far_change: The energy at the other end, relative to the start.
        leap: The leap in progress.
        leaps: Counts and events so far.
        is_done: Whether the trajectory is complete.
    """

    position: jax.Array
    nuts: NUTSTrajectory
    end_change: jax.Array
    far_change: jax.Array
    leap: Leap
    leaps: Leaps
    is_done: jax.Array


def begin_leaps(nuts: NUTSTrajectory, point: Point) -> WALNUTSTrajectory:
    """The WALNUTS trajectory of the single leaf `point`, from its NUTS trajectory."""
    zero = jnp.zeros_like(point.log_density)
    count = jnp.int32(0)
    no = jnp.zeros((), bool)
    leap = Leap(count, count, nuts.end, zero, zero, point, zero, no)
    leaps = Leaps(count, count, zero, count, no, no)
    return WALNUTSTrajectory(nuts.position, nuts, zero, zero, leap, leaps, nuts.is_done)


def judge(leap: Leap, error: jax.Array, tolerance: jax.Array, max_halvings: int) -> Verdict:
    """The verdict on a try after one more step; `error` is the range of the energy along the try.

    | Try     | Fails                                 | Ends within the tolerance                 |
    |---------|---------------------------------------|-------------------------------------------|
    | forward | a finer one follows; lost if finest   | joins if coarsest, else checks follow     |
    | check   | a coarser one follows; joins if       | irreversible                              |
    |         | coarsest                              |                                           |
    """
    fails = ~(error <= tolerance)
    passes = ~fails & (leap.index + 1 == 1 << leap.halvings)
    joins = jnp.where(leap.is_check, fails, passes) & (leap.halvings == 0)
    return Verdict(
        joins,
        is_irreversible=leap.is_check & passes,
        is_lost=~leap.is_check & fails & (leap.halvings == max_halvings),
        is_check=~joins & (leap.is_check | passes),
        begins=fails | passes,
    )


def advance_leap(
    factor: Matrix,
    trajectory: WALNUTSTrajectory,
    log_density: jax.Array,
    gradient: jax.Array,
    tolerance: jax.Array,
    max_halvings: int,
    axis_name: Hashable,
) -> WALNUTSTrajectory:
    """Trajectory after one more step of its leap, given the gradient at its `position`."""
    old = trajectory.leap
    step_size = _step_size(trajectory.nuts.step_size, old)
    here = kick(factor, step_size, old.edge, trajectory.position, log_density, gradient)
    change = energy_change(trajectory.nuts.origin, here)
    low = jnp.minimum(old.low, change)
    high = jnp.maximum(old.high, change)
    verdict = judge(old, high - low, tolerance, max_halvings)

    # While a try goes forwards, its last point stands for the leaf.
    leaf = select_leaves(old.is_check, old.leaf, here)
    leaf_change = jnp.where(old.is_check, old.change, change)

    def join(nuts: NUTSTrajectory) -> NUTSTrajectory:
        return grow_trajectory(nuts, leaf, leaf_change, axis_name)

    nuts = cond_or_select(verdict.joins, join, trajectory.nuts, axis_name)
    turns_around = (nuts.step_size < 0) != (trajectory.nuts.step_size < 0)
    last = jnp.where(verdict.joins, leaf_change, trajectory.end_change)
    end_change = jnp.where(turns_around, trajectory.far_change, last)
    far_change = jnp.where(turns_around, last, trajectory.far_change)

    # A check begins at the leaf, a try forwards at the end of the trajectory.
    start = select_leaves(verdict.is_check, _edge(leaf), nuts.end)
    start_change = jnp.where(verdict.is_check, leaf_change, end_change)
    halvings = old.halvings + jnp.where(verdict.is_check, -1, 1)
    halvings = jnp.where(verdict.joins, 0, halvings)
    leap = Leap(
        jnp.where(verdict.begins, halvings, old.halvings),
        jnp.where(verdict.begins, 0, old.index + 1),
        select_leaves(verdict.begins, start, _edge(here)),
        jnp.where(verdict.begins, start_change, low),
        jnp.where(verdict.begins, start_change, high),
        leaf,
        leaf_change,
        verdict.is_check,
    )
    return WALNUTSTrajectory(
        drift(factor, _step_size(nuts.step_size, leap), leap.edge),
        nuts,
        end_change,
        far_change,
        leap,
        _count(trajectory.leaps, old, change, verdict),
        nuts.is_done | verdict.is_irreversible | verdict.is_lost,
    )


def _count(leaps: Leaps, leap: Leap, change: jax.Array, verdict: Verdict) -> Leaps:
    """The counts after one more step, whose end has the energy `change`."""
    is_first = (leap.halvings == 0) & ~leap.is_check  # a try of a single step
    return Leaps(
        leaps.num_gradients + 1,
        leaps.num_leaps + is_first.astype(jnp.int32),
        leaps.sum_acceptance + jnp.where(is_first, jnp.exp(-jnp.maximum(change, 0)), 0),
        jnp.maximum(leaps.halvings, leap.halvings),
        verdict.is_irreversible,
        verdict.is_lost,
    )


def _step_size(step_size: jax.Array, leap: Leap) -> jax.Array:
    """The step size of a try, with the opposite sign if the try goes back."""
    part = 1 / (1 << leap.halvings).astype(step_size.dtype)
    return jnp.where(leap.is_check, -step_size, step_size) * part


def _edge(point: Point) -> Edge:
    return Edge(point.position, point.momentum, point.force)
