"""NUTS: the no-U-turn sampler."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_count
from inference.common.matrices import Matrix
from inference.kernels.hamiltonian import nuts_trajectory
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import Point, energy
from inference.kernels.hamiltonian.nuts_trajectory import NUTSTrajectory, Proposal
from ppl.harvest.pytrees import register_dataclass

_BRIEF_DEPTH = 5  # doublings
_MAX_DEPTH = 24  # doublings


class NUTSInfo(NamedTuple):
    """Statistics of a transition of :class:`NUTS`; all scalars.

    Attributes:
        acceptance_rate: Mean of ``min(1, exp(-energy error))`` over the leaves after the start.
        is_divergent: Whether the energy error passed 1000 or was not finite.
        energy: The Hamiltonian at the new state.
        num_steps: Leapfrog steps taken, each with one gradient.
        depth: Doublings that joined the trajectory.
        is_truncated: Whether `max_depth` ended the trajectory before it turned.
    """

    acceptance_rate: jax.Array
    is_divergent: jax.Array
    energy: jax.Array
    num_steps: jax.Array
    depth: jax.Array
    is_truncated: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class NUTS(HamiltonianKernel):
    """No-U-turn sampler (NUTS): Hamiltonian Monte Carlo whose trajectories end at a U-turn.

    A trajectory is doubled, forwards or backwards in time, until one of these holds:

    - the trajectory or a balanced subtree of it makes a U-turn, by the generalized criterion in
      the metric of the mass matrix;
    - the trajectory diverges;
    - it has been doubled `max_depth` times.

    The next state is drawn from the leaves by their weights ``exp(-energy)``, with a bias toward
    the last doubling.

    Attributes:
        max_depth: Maximum number of doublings, from 1 to 24; a trajectory has at most
            ``2**max_depth - 1`` steps.

    Example:
        >>> kernel = NUTS(lambda x: -0.5 * jnp.sum(x**2), step_size=0.5)
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, bool(info.is_divergent)
        ((3,), False)

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, JMLR 15, 1593-1623; Betancourt (2017),
        A conceptual introduction to Hamiltonian Monte Carlo, appendix A (multinomial sampling,
        biased progressive sampling and the generalized criterion).
    """

    max_depth: int = dataclasses.field(default=10, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        max_depth = check_count("max_depth", self.max_depth, least=1, most=_MAX_DEPTH)
        object.__setattr__(self, "max_depth", max_depth)

    def begin(
        self,
        factor: Matrix,
        step_size: jax.Array,
        point: Point,
        seed: jax.Array,
        last: NUTSTrajectory | None = None,
        is_brief: jax.typing.ArrayLike = False,
    ) -> NUTSTrajectory:
        """The trajectory of the single leaf `point`; doubled five times at most if brief."""
        shape = (self.max_depth, 3, *point.momentum.shape)
        checkpoints = jnp.zeros(shape, point.momentum.dtype)
        if last is not None:
            checkpoints = last.subtree.checkpoints
        max_depth = jnp.where(is_brief, min(_BRIEF_DEPTH, self.max_depth), self.max_depth)
        return nuts_trajectory.begin_trajectory(
            factor, step_size, point, seed, checkpoints, max_depth
        )

    def advance(
        self,
        factor: Matrix,
        trajectory: NUTSTrajectory,
        log_density: jax.Array,
        gradient: jax.Array,
    ) -> NUTSTrajectory:
        """One more leaf, given log density and gradient at ``trajectory.position``."""
        return nuts_trajectory.advance_trajectory(
            factor, trajectory, log_density, gradient, self.axis_name
        )

    def end(self, trajectory: NUTSTrajectory) -> tuple[Proposal, NUTSInfo]:
        """The next state and the statistics of a complete trajectory."""
        origin = trajectory.origin
        proposal = trajectory.proposal
        tally = trajectory.tally
        return proposal, NUTSInfo(
            acceptance_rate=tally.sum_acceptance / tally.num_steps.astype(proposal.position.dtype),
            is_divergent=tally.is_divergent,
            energy=energy(origin) + proposal.energy_change,
            num_steps=tally.num_steps,
            depth=trajectory.depth,
            is_truncated=~tally.has_ended,
        )
