"""Hamiltonian Monte Carlo with trajectories of a fixed number of steps."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.hamiltonian import DIVERGENCE_THRESHOLD, State, energy, energy_change, leapfrog
from inference.kernel import HamiltonianKernel, start
from inference.randomness import uniform
from inference.tree import select


class HMCInfo(NamedTuple):
    """What happened in a transition of :class:`HMC`; all scalars.

    Attributes:
        acceptance_rate: Probability with which the end of the trajectory was accepted.
        is_accepted: Whether it was.
        is_divergent: Whether the energy error at the end passed 1000 or was not finite.
        energy: The Hamiltonian at the new state.
        num_steps: Leapfrog steps, that is gradients, taken.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    is_divergent: jax.Array
    energy: jax.Array
    num_steps: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HMC(HamiltonianKernel):
    """Hamiltonian Monte Carlo: a trajectory of `num_steps` leapfrog steps, then accept or reject.

    Attributes:
        num_steps: Leapfrog steps a transition.
        step_size_jitter: Scalar in [0, 1). A transition's step is
            ``step_size * (1 + step_size_jitter * u)``, with `u` uniform on (-1, 1), which breaks
            the periods that trajectories of one length can lock into.

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
    step_size_jitter: jax.typing.ArrayLike = dataclasses.field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.num_steps, int) or self.num_steps < 1:
            raise ValueError(f"num_steps must be a positive integer, got {self.num_steps!r}")

    def step(self, key: jax.Array, state: State) -> tuple[State, HMCInfo]:
        """One transition from `state`."""
        layout, dynamics, point, seed = start(self, key, state)
        accept, jitter = uniform(seed, jnp.arange(2), layout.dtype)
        scale = 1 + jnp.asarray(self.step_size_jitter, layout.dtype) * (2 * jitter - 1)
        dynamics = dynamics._replace(step_size=scale * dynamics.step_size)
        end = lax.fori_loop(0, self.num_steps, lambda _, point: leapfrog(dynamics, point), point)
        change = energy_change(point, end)
        acceptance_rate = jnp.exp(-jnp.maximum(change, 0))
        is_accepted = accept < acceptance_rate
        info = HMCInfo(
            acceptance_rate=acceptance_rate,
            is_accepted=is_accepted,
            is_divergent=change > DIVERGENCE_THRESHOLD,
            energy=energy(point) + jnp.where(is_accepted, change, 0),
            num_steps=jnp.int32(self.num_steps),
        )
        proposal = State(
            layout.unravel(end.position),
            end.log_density.astype(state.log_density.dtype),
            layout.unravel(end.gradient),
        )
        return select(is_accepted, proposal, state), info
