"""HMC: Hamiltonian Monte Carlo with trajectories of a fixed number of leapfrog steps."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_count, check_scalar
from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.matrices import Matrix
from inference.common.threefry import uniform
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import (
    DIVERGENCE_THRESHOLD,
    Point,
    drift,
    energy,
    energy_change,
    kick,
)
from ppl.harvest.pytrees import register_dataclass


class HMCInfo(NamedTuple):
    """Statistics of a transition of :class:`HMC`; all scalars.

    Attributes:
        acceptance_rate: Probability with which the end of the trajectory was accepted.
        is_accepted: Whether the end was accepted.
        is_divergent: Whether the energy error at the end passed 1000 or was not finite.
        energy: The Hamiltonian at the new state.
        num_steps: Leapfrog steps taken, each with one gradient.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    is_divergent: jax.Array
    energy: jax.Array
    num_steps: jax.Array


class HMCTrajectory(NamedTuple):
    """Trajectory of HMC in progress, so far from `first` to `last`.

    Attributes:
        position: Flat vector, the position at which the density is to be evaluated next.
        step_size: Step size of the transition, with jitter.
        accept: Uniform number on (0, 1), compared with the acceptance rate at the end.
        first: Point at the start.
        last: Point after `num_steps` steps.
        num_steps: Leapfrog steps taken.
        is_done: Whether all steps have been taken.
    """

    position: jax.Array
    step_size: jax.Array
    accept: jax.Array
    first: Point
    last: Point
    num_steps: jax.Array
    is_done: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class HMC(HamiltonianKernel):
    """Hamiltonian Monte Carlo (HMC): `num_steps` leapfrog steps, then a Metropolis decision.

    Attributes:
        num_steps: Leapfrog steps per transition, at least 1.
        step_size_jitter: Scalar in [0, 1). A transition's step size is
            ``step_size * (1 + step_size_jitter * u)``, with `u` uniform on (-1, 1). So the length
            of trajectories varies, ``num_steps`` times the step size. With 0 it does not, and may
            be near a period of the density: means then mix well, and standard deviations hardly.

    Example:
        >>> kernel = HMC(lambda x: -0.5 * jnp.sum(x**2), step_size=0.5, num_steps=3)
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_steps)
        ((3,), 3)

    References:
        Neal (2011), MCMC using Hamiltonian dynamics, section 5.3.
    """

    num_steps: int = dataclasses.field(default=10, kw_only=True, metadata={"static": True})
    step_size_jitter: jax.typing.ArrayLike = dataclasses.field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "num_steps", check_count("num_steps", self.num_steps, least=1))

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once step size and jitter are found valid.

        Raises:
            TypeError: if the step size or the jitter is not a real number.
            ValueError: if the step size is not positive and finite, or the jitter not in [0, 1).
        """
        what = "a number in [0, 1)"
        jitter = self.step_size_jitter
        check_scalar("step_size_jitter", jitter, layout.dtype, what, lambda x: 0 <= x < 1)
        return super().check(layout)

    def begin(
        self,
        factor: Matrix,
        step_size: jax.Array,
        point: Point,
        seed: jax.Array,
        last: Any = None,
        is_brief: jax.typing.ArrayLike = False,
    ) -> HMCTrajectory:
        """The trajectory that starts at `point`; always of `num_steps` steps, never brief."""
        accept, jitter = uniform(seed, jnp.arange(2), point.position.dtype)
        scale = 1 + jnp.asarray(self.step_size_jitter, step_size.dtype) * (2 * jitter - 1)
        step_size = scale * step_size
        position = drift(factor, step_size, point)
        no = jnp.zeros((), bool)
        return HMCTrajectory(position, step_size, accept, point, point, jnp.int32(0), no)

    def advance(
        self, factor: Matrix, trajectory: Any, log_density: jax.Array, gradient: jax.Array
    ) -> HMCTrajectory:
        """One more leapfrog step, given log density and gradient at ``trajectory.position``."""
        old = trajectory
        num_steps = trajectory.num_steps + 1
        last = kick(factor, old.step_size, old.last, old.position, log_density, gradient)
        return old._replace(
            position=drift(factor, old.step_size, last),
            last=last,
            num_steps=num_steps,
            is_done=num_steps == self.num_steps,
        )

    def end(self, trajectory: Any) -> tuple[Point, HMCInfo]:
        """The next state and the statistics of a complete trajectory."""
        change = energy_change(trajectory.first, trajectory.last)
        acceptance_rate = jnp.exp(-jnp.maximum(change, 0))
        is_accepted = trajectory.accept < acceptance_rate
        return select_leaves(is_accepted, trajectory.last, trajectory.first), HMCInfo(
            acceptance_rate=acceptance_rate,
            is_accepted=is_accepted,
            is_divergent=change > DIVERGENCE_THRESHOLD,
            energy=energy(trajectory.first) + jnp.where(is_accepted, change, 0),
            num_steps=trajectory.num_steps,
        )
