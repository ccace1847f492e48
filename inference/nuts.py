"""The no-U-turn sampler."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.hamiltonian import Point, State, energy
from inference.kernel import HamiltonianKernel, start
from inference.randomness import uniform
from inference.tree import Proposal, Tally, Walk, grow, is_turning, select

_DOUBLINGS = 1 << 30  # the counters of uniforms for doublings, beyond those of all leaves


class NUTSInfo(NamedTuple):
    """What happened in a transition of :class:`NUTS`; all scalars.

    Attributes:
        acceptance_rate: Mean over the leaves of ``min(1, exp(-energy error))``.
        is_divergent: Whether the energy error passed 1000 or was not finite.
        energy: The Hamiltonian at the new state.
        num_steps: Leapfrog steps, that is gradients, taken.
        depth: Doublings that joined the trajectory.
        is_truncated: Whether `max_depth` ended the trajectory before it turned.
    """

    acceptance_rate: jax.Array
    is_divergent: jax.Array
    energy: jax.Array
    num_steps: jax.Array
    depth: jax.Array
    is_truncated: jax.Array


class Trajectory(NamedTuple):
    """A trajectory that has been doubled `depth` times."""

    depth: jax.Array
    any_going: jax.Array
    left: Point
    right: Point
    proposal: Proposal
    log_weight: jax.Array
    momentum_sum: jax.Array
    num_joined: jax.Array
    tally: Tally


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class NUTS(HamiltonianKernel):
    """The no-U-turn sampler: Hamiltonian Monte Carlo whose trajectories end when they turn back.

    Doubles the trajectory forwards or backwards in time until it, or a balanced subtree of it,
    turns (generalised criterion, in the metric of the mass matrix), diverges, or has been doubled
    `max_depth` times. The next state is drawn from the leaves by their weights ``exp(-energy)``,
    with a bias towards the last doubling.

    Attributes:
        max_depth: Most doublings; a trajectory has at most ``2**max_depth - 1`` steps.

    Example:
        >>> kernel = NUTS(lambda x: -0.5 * jnp.sum(x**2), step_size=0.5)
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, bool(info.is_divergent)
        ((3,), False)

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15, 1593-1623; Betancourt (2017),
        A conceptual introduction to Hamiltonian Monte Carlo, appendix A (multinomial sampling,
        biased progressive sampling and the generalised criterion).
    """

    max_depth: int = dataclasses.field(default=10, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.max_depth, int) or not 1 <= self.max_depth <= 24:
            raise ValueError(f"max_depth must be an integer from 1 to 24, got {self.max_depth!r}")

    def step(self, key: jax.Array, state: State) -> tuple[State, NUTSInfo]:
        """One transition from `state`."""
        layout, dynamics, point, seed = start(self, key, state)
        walk = Walk(dynamics, point, seed, self._any_chain)
        counters = _DOUBLINGS + jnp.arange(2 * self.max_depth)
        draws = uniform(seed, counters, layout.dtype).reshape(-1, 2)
        end = lax.while_loop(
            lambda trajectory: (trajectory.depth < self.max_depth) & trajectory.any_going,
            lambda trajectory: _double(walk, trajectory, draws),
            _trajectory(point),
        )
        proposal, tally = end.proposal, end.tally
        info = NUTSInfo(
            acceptance_rate=tally.sum_acceptance / tally.num_steps.astype(layout.dtype),
            is_divergent=tally.is_divergent,
            energy=energy(point) + proposal.energy_change,
            num_steps=tally.num_steps,
            depth=end.num_joined,
            is_truncated=tally.is_going,
        )
        return State(
            layout.unravel(proposal.position),
            proposal.log_density.astype(state.log_density.dtype),
            layout.unravel(proposal.gradient),
        ), info

    def _any_chain(self, flag: jax.Array) -> jax.Array:
        if self.axis_name is None:
            return flag
        return lax.pmax(flag.astype(jnp.int32), self.axis_name) > 0


def _trajectory(point: Point) -> Trajectory:
    zero, count, no = jnp.zeros_like(point.log_density), jnp.int32(0), jnp.zeros((), bool)
    return Trajectory(
        count,
        ~no,
        point,
        point,
        Proposal(point.position, point.log_density, point.gradient, zero),
        zero,
        point.momentum,
        count,
        Tally(zero, count, no, no),
    )


def _double(walk: Walk, old: Trajectory, draws: jax.Array) -> Trajectory:
    """`old` and as many leaves again on one side, unless these turn or diverge among themselves."""
    side, choice = draws[old.depth]
    to_right = side < 0.5
    near, far = select(to_right, (old.right, old.left), (old.left, old.right))
    step_size = walk.dynamics.step_size
    step_size = jnp.where(to_right, step_size, -step_size)
    outwards = walk._replace(dynamics=walk.dynamics._replace(step_size=step_size))
    new = grow(outwards, near, old.depth, len(draws), old.tally)

    joins = old.tally.is_going & new.tally.is_going
    is_chosen = joins & (choice < jnp.exp(new.log_weight - old.log_weight))
    first_new = new.checkpoints[0, 0]
    turns = is_turning(
        far.momentum,
        near.momentum,
        first_new,
        new.end.momentum,
        old.momentum_sum,
        new.momentum_sum,
    )
    tally = new.tally._replace(is_turning=new.tally.is_turning | (joins & turns))
    return Trajectory(
        old.depth + 1,
        walk.any_chain(tally.is_going),
        select(joins & ~to_right, new.end, old.left),
        select(joins & to_right, new.end, old.right),
        select(is_chosen, new.proposal, old.proposal),
        jnp.logaddexp(old.log_weight, new.log_weight),
        old.momentum_sum + new.momentum_sum,
        old.num_joined + joins.astype(jnp.int32),
        tally,
    )
