"""Waste-free moves: short chains from resampled particles, all of whose states are particles.

References:
    Dau and Chopin (2022), Waste-free sequential Monte Carlo, Journal of the Royal Statistical
    Society B 84, algorithm 3; Buchholz, Chopin and Jacob (2021), Adaptive tuning of Hamiltonian
    Monte Carlo within sequential Monte Carlo, Bayesian Analysis 16.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.tree_util import Partial

from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.matrices import Matrix, factorize
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.sequential.paths import Path, log_density_on_path
from ppl.harvest.pytrees import register_dataclass

_AXIS = "chain"  # of jax.vmap over chains
_FIRST_TRIAL = 1 << 20  # counter of the seeds of the first trial of a step size


class Particles(NamedTuple):
    """Particles, chain by chain.

    Attributes:
        positions: Flat positions, ``(particle, size)``.
        reference: Log densities of the reference, ``(particle,)``.
        terms: Log terms of the path, ``(particle, term)``.
    """

    positions: Any
    reference: Any
    terms: Any


class MoveInfo(NamedTuple):
    """Statistics of the moves at one place of a path; all scalars.

    Attributes:
        step_size: Step size of the kernel; NaN for one without.
        acceptance_rate: Mean acceptance rate of all moves; NaN for kernels without.
        num_divergent: Number of moves that diverged.
    """

    step_size: Any
    acceptance_rate: Any
    num_divergent: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Mover:
    """Moves of particles.

    Attributes:
        kernel: Kernel, without a log density.
        path: The path.
        layout: Layout of a position.
        chain_length: States of a chain, the first of which is a resampled particle.
        chunk: Number of positions at which terms are evaluated at once.
    """

    kernel: Any
    path: Path
    layout: Layout = dataclasses.field(metadata={"static": True})
    chain_length: int = dataclasses.field(metadata={"static": True})
    chunk: int = dataclasses.field(metadata={"static": True})

    @property
    def target_rate(self) -> Any:
        """Acceptance rate that the step size is tuned to; `None` for kernels without a step."""
        if isinstance(self.kernel, HamiltonianKernel):
            return self.kernel.default_acceptance_rate
        if hasattr(self.kernel, "step_size"):
            return getattr(self.kernel, "target_acceptance_rate", None)
        return None

    def kernel_at(self, powers: jax.Array, scale: Matrix, step_size: jax.Array) -> Any:
        """Kernel with the density at a place of the path, and scales of the particles there.

        The scale is the factor of a covariance for a Hamiltonian kernel, else the covariance.
        """
        density = Partial(_log_density, self.path, powers)
        given: dict[str, Any] = {"log_density": density}
        if isinstance(self.kernel, HamiltonianKernel):
            given |= {"inverse_mass_factor": scale, "inverse_mass_matrix": None}
            given |= {"step_size": step_size, "axis_name": _AXIS}
        elif isinstance(self.kernel, GradientFreeKernel):
            given["covariance"] = scale
            if self.target_rate is not None:
                given["step_size"] = step_size
        return dataclasses.replace(self.kernel, **given)

    def split(self, positions: jax.Array) -> Particles:
        """Particles at flat positions, ``(particle, size)``."""
        found = lax.map(
            lambda x: self.path.split(self.layout.unravel(x)), positions, batch_size=self.chunk
        )
        reference, terms = (x.astype(self.layout.dtype) for x in found)
        return Particles(positions, reference, terms)


def _log_density(path: Path, powers: jax.Array, position: Any) -> jax.Array:
    return log_density_on_path(path, powers, position)


def split_particles(mover: Mover, positions: jax.Array) -> Particles:
    """Particles at flat positions, ``(particle, size)``."""
    return mover.split(positions)


def draw_reference(mover: Mover, target: Target, seed: jax.Array, numbers: jax.Array) -> Particles:
    """Particles that are independent draws from the prior of a target.

    Args:
        mover: The moves to come.
        target: The target.
        seed: Two words of uint32.
        numbers: Numbers of the draws, ``(particle,)``.
    """

    def draw(words: jax.Array) -> jax.Array:
        key = random.wrap_key_data(words, impl="threefry2x32")
        return mover.layout.ravel(target.prior(key))

    words = jnp.stack(threefry(seed, numbers), -1)
    return mover.split(lax.map(draw, words, batch_size=mover.chunk))


def move_particles(
    mover: Mover,
    seed: jax.Array,
    starts: jax.Array,
    powers: jax.Array,
    covariance: Matrix,
    step_size: jax.Array,
    num_trials: jax.Array,
) -> tuple[Particles, MoveInfo]:
    """Particles after the moves at a place of the path.

    Trials come first: a transition of all chains from their starts, which is dropped, with a step
    size that doubles or halves until the mean acceptance rate crosses its target, and then halves
    the interval.

    Args:
        mover: The moves.
        seed: Two words of uint32.
        starts: Flat positions, ``(chain, size)``.
        powers: Powers of the terms.
        covariance: Covariance of particles at this place, a matrix or a diagonal.
        step_size: First step size to try.
        num_trials: Number of trials.
    """
    layout = mover.layout
    num_chains = len(starts)
    positions = jax.vmap(layout.unravel)(starts)
    target_rate = mover.target_rate
    is_hamiltonian = isinstance(mover.kernel, HamiltonianKernel)
    scale = factorize(covariance) if is_hamiltonian else covariance

    def begin(position: Any) -> Any:
        return mover.kernel_at(powers, scale, step_size).init(position)

    first = jax.tree.map(jnp.asarray, jax.vmap(begin, axis_name=_AXIS)(positions))

    def transition(i: Any, states: Any, step_size: jax.Array) -> tuple[Any, Any]:
        counter = jnp.where(i < num_trials, _FIRST_TRIAL + i, i - num_trials)
        of_all = jnp.stack(threefry(seed, counter))
        words = jnp.stack(threefry(of_all, jnp.arange(num_chains)), -1)

        def step(words: jax.Array, state: Any) -> tuple[Any, Any]:
            key = random.wrap_key_data(words, impl="threefry2x32")
            kernel = mover.kernel_at(powers, scale, step_size)
            if target_rate is not None and hasattr(state, "step_size"):
                state = state._replace(step_size=step_size)
            return jax.tree.map(jnp.asarray, kernel.step(key, state))

        return jax.vmap(step, axis_name=_AXIS)(words, states)

    def advance(i: Any, carry: Any) -> Any:
        states, step_size, bracket, rows, total, num_divergent = carry
        is_trial = i < num_trials
        states = select_leaves(i <= num_trials, first, states)
        states, info = transition(i, states, step_size)
        rate = jnp.mean(getattr(info, "acceptance_rate", jnp.full(1, jnp.nan, layout.dtype)))
        rate = rate.astype(layout.dtype)
        if target_rate is not None:
            found = _narrow(bracket, step_size, rate >= target_rate)
            step_size, bracket = select_leaves(is_trial, found, (step_size, bracket))
        divergent = jnp.sum(getattr(info, "is_divergent", jnp.zeros(1, bool))).astype(jnp.int32)
        flat = jax.vmap(layout.ravel)(states.position)
        place = jnp.maximum(i - num_trials + 1, 1)
        rows = lax.dynamic_update_index_in_dim(rows, flat, place, 0)
        return (
            states,
            step_size,
            bracket,
            rows,
            total + jnp.where(is_trial, 0, rate),
            num_divergent + jnp.where(is_trial, 0, divergent),
        )

    zero = jnp.zeros((), layout.dtype)
    rows = jnp.broadcast_to(starts, (mover.chain_length, *starts.shape))
    bracket = zero, zero + jnp.inf
    carry = first, step_size, bracket, rows, zero, jnp.int32(0)
    num_moves = mover.chain_length - 1
    carry = lax.fori_loop(0, num_trials + num_moves, advance, carry)
    _, step_size, _, rows, total, num_divergent = carry
    flat = rows.swapaxes(0, 1).reshape(-1, layout.size)
    if target_rate is None:
        step_size = zero + jnp.nan
    return mover.split(flat), MoveInfo(step_size, total / num_moves, num_divergent)


def _narrow(
    bracket: tuple[jax.Array, jax.Array], step_size: jax.Array, is_accepted: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Step size to try next, and the interval of its logarithm, after a trial."""
    low = jnp.where(is_accepted, step_size, bracket[0])
    high = jnp.where(is_accepted, bracket[1], step_size)
    is_closed = (low > 0) & jnp.isfinite(high)
    further = step_size * jnp.where(is_accepted, 2, 0.5).astype(step_size.dtype)
    inside = jnp.sqrt(low) * jnp.sqrt(jnp.where(is_closed, high, 1))
    return jnp.where(is_closed, inside, further), (low, high)
