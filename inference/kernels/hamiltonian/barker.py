"""Barker proposals: noise whose signs follow the gradient."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.matrices import Matrix, pull, push
from inference.common.threefry import uniform
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import Point
from ppl.harvest.pytrees import register_dataclass


class BarkerInfo(NamedTuple):
    """Statistics of a transition of :class:`Barker`; all scalars.

    Attributes:
        acceptance_rate: Probability with which the proposal was accepted.
        is_accepted: Whether it was accepted.
        num_steps: Gradients evaluated, always 1.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    num_steps: jax.Array


class BarkerTrajectory(NamedTuple):
    """Transition in progress: a proposal that is to be evaluated, or has been.

    Attributes:
        position: Flat vector, the proposal.
        displacement: Its distance from the start, in units of the mass matrix.
        accept: Uniform number on (0, 1), compared with the acceptance rate.
        first: The start.
        last: The proposal, once it is evaluated.
        is_done: Whether it is.
    """

    position: jax.Array
    displacement: jax.Array
    accept: jax.Array
    first: Point
    last: Point
    is_done: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Barker(HamiltonianKernel):
    r"""Barker proposals: normal noise in each coordinate, with a sign that follows the gradient.

    The noise :math:`z_i` of a coordinate keeps its sign with the probability
    :math:`1 / (1 + e^{-z_i g_i})`, where :math:`g` is the gradient. However steep the density is, a
    proposal is no farther away than the noise. So a step size that is too large for parts of the
    density, or a start in the tails, does less harm than it does to :class:`MALA`. A transition
    costs one gradient.

    Example:
        >>> kernel = Barker(lambda x: -0.5 * jnp.sum(x**2), step_size=0.9)
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_steps)
        ((3,), 1)

    References:
        Livingstone and Zanella (2022), The Barker proposal: combining robustness and efficiency in
        gradient-based MCMC, algorithm 2 and section 6, on the acceptance rate of 0.4.
    """

    default_acceptance_rate: ClassVar[float] = 0.4
    raises_target: ClassVar[bool] = False

    def begin(
        self,
        factor: Matrix,
        step_size: jax.Array,
        point: Point,
        seed: jax.Array,
        last: Any = None,
        is_brief: jax.typing.ArrayLike = False,
    ) -> BarkerTrajectory:
        """The proposal from `point`; never brief."""
        units = uniform(seed, jnp.arange(point.position.size + 1), point.force.dtype)
        noise = step_size * point.momentum
        is_kept = units[1:] < jax.nn.sigmoid(noise * point.force)
        displacement = jnp.where(is_kept, noise, -noise)
        position = point.position + push(factor, displacement)
        return BarkerTrajectory(
            position, displacement, units[0], point, point, is_done=jnp.zeros((), bool)
        )

    def advance(
        self, factor: Matrix, trajectory: Any, log_density: jax.Array, gradient: jax.Array
    ) -> BarkerTrajectory:
        """The transition with its proposal evaluated."""
        force = pull(factor, gradient)
        last = Point(trajectory.position, trajectory.first.momentum, force, log_density, gradient)
        return trajectory._replace(last=last, is_done=jnp.ones((), bool))

    def end(self, trajectory: Any) -> tuple[Point, BarkerInfo]:
        """The next state and the statistics of the transition."""
        first = trajectory.first
        last = trajectory.last
        ratio = log_proposal_ratio(trajectory.displacement, first.force, last.force)
        rate = metropolis_rate(last.log_density, first.log_density, ratio)
        is_accepted = trajectory.accept < rate
        chosen = select_leaves(is_accepted, last, first)
        return chosen, BarkerInfo(rate, is_accepted, jnp.int32(1))


def log_proposal_ratio(displacement: jax.Array, before: jax.Array, after: jax.Array) -> jax.Array:
    """Log ratio of the proposal densities, of the way back to the way there.

    Args:
        displacement: Distance of the proposal from the start, ``(size,)``.
        before: Gradient at the start.
        after: Gradient at the proposal.
    """
    there = jax.nn.softplus(-displacement * before)
    back = jax.nn.softplus(displacement * after)
    return jnp.sum(there - back)
