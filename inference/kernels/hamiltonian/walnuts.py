"""WALNUTS: the no-U-turn sampler with a step size of its own for each leap."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_count, check_scalar
from inference.common.layout import Layout
from inference.common.matrices import Matrix
from inference.kernels.hamiltonian import walnuts_trajectory
from inference.kernels.hamiltonian.leapfrog import Point
from inference.kernels.hamiltonian.nuts import NUTS
from inference.kernels.hamiltonian.nuts_trajectory import Proposal
from inference.kernels.hamiltonian.walnuts_trajectory import WALNUTSTrajectory
from ppl.harvest.pytrees import register_dataclass

_MAX_HALVINGS = 20


class WALNUTSInfo(NamedTuple):
    """Statistics of a transition of :class:`WALNUTS`; all scalars.

    Attributes:
        acceptance_rate: Mean of ``min(1, exp(-energy error))`` over the leaps, each tried in a
            single step. Warm-up adapts the step size by it.
        is_divergent: Whether a leap could not be followed at the finest step, or the energy error
            at a leaf passed 1000.
        energy: The Hamiltonian at the new state.
        num_steps: Leapfrog steps of all tries, each with one gradient.
        depth: Doublings that joined the trajectory.
        is_truncated: Whether `max_depth` ended the trajectory before it turned.
        is_irreversible: Whether a leap that is not reversible ended the trajectory.
        halvings: The largest number of halvings of the step size that was tried.
    """

    acceptance_rate: jax.Array
    is_divergent: jax.Array
    energy: jax.Array
    num_steps: jax.Array
    depth: jax.Array
    is_truncated: jax.Array
    is_irreversible: jax.Array
    halvings: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class WALNUTS(NUTS):
    """No-U-turn sampler whose steps become finer where the density curves more (WALNUTS).

    It is for densities such as funnels, whose curvature varies so much that no single step size
    suits everywhere: there the draws of :class:`NUTS` are biased, and its divergences say so. A
    leap that NUTS makes in one step is tried here in 1, 2, 4 ... steps, until the energy along it
    varies by no more than `tolerance`. A leap that would be made in fewer steps on the way back
    ends the trajectory, and the leap's end does not join it.

    Where the curvature varies little, nearly all leaps take one step, as with NUTS; a low tolerance
    then costs more gradients for as many effective draws. The gradients of all tries are counted in
    `num_steps`, also of tries that failed.

    Attributes:
        tolerance: Positive scalar, in nats, or infinity: the largest variation of the energy along
            a leap. With infinity, the draws are the draws of NUTS.
        max_halvings: Maximum number of halvings of the step size, from 0 to 20. A leap that cannot
            be followed by the finest steps ends the trajectory, and is reported as a divergence.
        max_depth: Maximum number of doublings, from 1 to 24; a trajectory has at most
            ``2**max_depth - 1`` leaps.

    Example:
        >>> def funnel(x):
        ...     return -0.5 * x[0] ** 2 / 9 - 0.5 * x[1] ** 2 * jnp.exp(-x[0]) - 0.5 * x[0]
        >>> kernel = WALNUTS(funnel, step_size=1.0)
        >>> state = kernel.init(jnp.array([-6.0, 0.0]))  # in the neck, of the scale 0.05
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> int(info.halvings) > 2, bool(info.is_divergent)
        (True, False)

    References:
        Bou-Rabee, Carpenter, Kleppe and Liu (2025), The within-orbit adaptive leapfrog no-U-turn
        sampler, arXiv 2506.18746.
    """

    tolerance: jax.typing.ArrayLike = dataclasses.field(default=2.0, kw_only=True)
    max_halvings: int = dataclasses.field(default=10, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        most = check_count("max_halvings", self.max_halvings, least=0, most=_MAX_HALVINGS)
        object.__setattr__(self, "max_halvings", most)

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once step size and tolerance are found valid.

        Raises:
            TypeError: if the step size or the tolerance is not a real number.
            ValueError: if one of them is not positive, or the step size not finite.
        """
        what = "a positive number, or infinity"
        check_scalar("tolerance", self.tolerance, layout.dtype, what, lambda x: x > 0)
        return super().check(layout)

    def begin(
        self,
        factor: Matrix,
        step_size: jax.Array,
        point: Point,
        seed: jax.Array,
        last: WALNUTSTrajectory | None = None,
        is_brief: jax.typing.ArrayLike = False,
    ) -> WALNUTSTrajectory:
        """The trajectory of the single leaf `point`; doubled five times at most if brief."""
        nuts = super().begin(
            factor, step_size, point, seed, None if last is None else last.nuts, is_brief
        )
        return walnuts_trajectory.begin_leaps(nuts, point)

    def advance(
        self,
        factor: Matrix,
        trajectory: WALNUTSTrajectory,
        log_density: jax.Array,
        gradient: jax.Array,
    ) -> WALNUTSTrajectory:
        """One more step of the leap, from log density and gradient at ``trajectory.position``."""
        return walnuts_trajectory.advance_leap(
            factor,
            trajectory,
            log_density,
            gradient,
            jnp.asarray(self.tolerance, log_density.dtype),
            self.max_halvings,
            self.axis_name,
        )

    def end(self, trajectory: WALNUTSTrajectory) -> tuple[Proposal, WALNUTSInfo]:
        """The next state and the statistics of a complete trajectory."""
        leaps = trajectory.leaps
        proposal, info = super().end(trajectory.nuts)
        events = leaps.is_irreversible | leaps.is_lost
        return proposal, WALNUTSInfo(
            acceptance_rate=leaps.sum_acceptance / leaps.num_leaps.astype(proposal.position.dtype),
            is_divergent=info.is_divergent | leaps.is_lost,
            energy=info.energy,
            num_steps=leaps.num_gradients,
            depth=info.depth,
            is_truncated=info.is_truncated & ~events,
            is_irreversible=leaps.is_irreversible,
            halvings=leaps.halvings,
        )
