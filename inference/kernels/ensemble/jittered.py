"""Jittered kernels: trajectories of one random length for all chains, then a Metropolis decision.

The transition and the adaptation that :class:`ChEES` and :class:`AdjustedMCLMC` have in common; the
two differ in their dynamics.
"""

import abc
import dataclasses
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.argument_checks import check_positive_scalar, check_rate, check_scalar
from inference.common.layout import Layout
from inference.common.threefry import normal, seed_of, uniform
from inference.kernels.ensemble.kernel import GradientKernel, check_num_chains, layout_of
from inference.kernels.ensemble.tuning import (
    Tuning,
    adapt_tuning,
    chees_gradient,
    halton,
    init_tuning,
)
from inference.kernels.hamiltonian.leapfrog import DIVERGENCE_THRESHOLD

Density = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


class EnsembleState(NamedTuple):
    """State of all chains of a jittered kernel.

    Attributes:
        position: Pytree with the chains in front.
        log_density: ``(chain,)``.
        gradient: Gradients of the log density, flat, ``(chain, size)``.
        iteration: Number of transitions so far, the place in the Halton sequence.
        length_gradient: Derivative of the ChEES criterion at the last transition, for warm-up.
        tuning: Step size, trajectory length and mass matrix, shared by all chains.
    """

    position: Any
    log_density: jax.Array
    gradient: jax.Array
    iteration: jax.Array
    length_gradient: jax.Array
    tuning: Tuning


class JitteredInfo(NamedTuple):
    """Statistics of a transition of :class:`ChEES` or :class:`AdjustedMCLMC`.

    Attributes:
        acceptance_rate: Probability of accepting the end of the trajectory, ``(chain,)``.
        is_accepted: Whether the end was accepted, ``(chain,)``.
        is_divergent: Whether the energy error passed 1000 or was not finite, ``(chain,)``.
        num_steps: Leapfrog steps taken, an equal number by all chains.
        step_size: Step size, equal for all chains.
    """

    acceptance_rate: jax.Array
    is_accepted: jax.Array
    is_divergent: jax.Array
    num_steps: jax.Array
    step_size: jax.Array


class Proposal(NamedTuple):
    """Ends of the trajectories of all chains.

    Attributes:
        position, log_density, gradient: The point, and the density there.
        velocity: Velocity in units of standard deviations, ``(chain, size)``.
        energy_change: Energy error, ``(chain,)``.
    """

    position: jax.Array
    log_density: jax.Array
    gradient: jax.Array
    velocity: jax.Array
    energy_change: jax.Array


@dataclasses.dataclass(frozen=True)
class JitteredKernel(GradientKernel, abc.ABC):
    """Kernel whose trajectories have one random number of leapfrog steps for all chains.

    Attributes:
        log_density: Function of the position of one chain, or `None` if a driver is to supply it.
        step_size: Step size before warm-up, in units of standard deviations.
        trajectory_length: Trajectory length before warm-up, or `None` for the kernel's own choice.
            The length of a transition is this times the next number of a Halton sequence in (0, 1).
        inverse_mass_matrix: Variances of the coordinates before warm-up, ``(size,)``, in the order
            of ``jax.tree.leaves`` of a position; `None` for ones, which the first iteration
            replaces. Given ones count for five iterations of warm-up.
        target_acceptance_rate: Harmonic mean of acceptance rates over chains to adapt to.
        max_num_steps: Maximum number of leapfrog steps of a trajectory.
    """

    step_size: jax.typing.ArrayLike = 0.1
    trajectory_length: jax.typing.ArrayLike | None = None
    inverse_mass_matrix: jax.typing.ArrayLike | None = None
    target_acceptance_rate: jax.typing.ArrayLike = dataclasses.field(default=0.651, kw_only=True)
    max_num_steps: jax.typing.ArrayLike = dataclasses.field(default=1000, kw_only=True)

    def init(self, position: Any) -> EnsembleState:
        """The state of all chains at `position`, a pytree with the chains in front.

        Raises:
            TypeError: if a setting is not a real number, or the position has other leaves than
                floating-point arrays.
            ValueError: if a setting is out of range, or there are too few chains or coordinates.
        """
        layout = layout_of(position)
        check_num_chains(self, position, 2)
        position = jax.tree.map(jnp.asarray, position)
        density = self.density_of(layout)
        log_density, gradient = density(jax.vmap(layout.ravel)(position))
        zero = jnp.zeros((), layout.dtype)
        tuning = self._tuning(layout)
        return EnsembleState(position, log_density, gradient, jnp.int32(0), zero, tuning)

    def step(self, key: jax.Array, state: EnsembleState) -> tuple[EnsembleState, JitteredInfo]:
        """One transition of all chains."""
        layout = layout_of(state.position)
        tuning = state.tuning
        density = self.density_of(layout)
        positions = jax.vmap(layout.ravel)(state.position)
        seed, (num_chains, size) = seed_of(key), positions.shape
        noise = normal(seed, num_chains * size, layout.dtype).reshape(num_chains, size)
        unit = uniform(seed, jnp.arange(num_chains), layout.dtype)
        jitter = halton(state.iteration + 1, layout.dtype)
        num_steps = jnp.ceil(jitter * tuning.trajectory_length / tuning.step_size)
        num_steps = jnp.clip(num_steps, 1, self.max_num_steps).astype(jnp.int32)
        scale = jnp.sqrt(tuning.variance)[None]
        start = positions, state.log_density.astype(layout.dtype), state.gradient
        end = self._move(density, *start, noise, scale, tuning.step_size, num_steps)

        change = jnp.where(jnp.isfinite(end.energy_change), end.energy_change, jnp.inf)
        rate = jnp.exp(-jnp.maximum(change, 0))
        is_accepted = unit < rate
        new, log_density, gradient = (
            jnp.where(jnp.expand_dims(is_accepted, tuple(range(1, a.ndim))), a, b)
            for a, b in zip(end[:3], start, strict=True)
        )
        time = num_steps.astype(layout.dtype) * tuning.step_size
        criterion = chees_gradient(
            positions / scale, end.position / scale, end.velocity, rate, time
        )
        return EnsembleState(
            position=jax.vmap(layout.unravel)(new),
            log_density=log_density.astype(state.log_density.dtype),
            gradient=gradient,
            iteration=state.iteration + 1,
            length_gradient=criterion,
            tuning=tuning,
        ), JitteredInfo(
            rate, is_accepted, change > DIVERGENCE_THRESHOLD, num_steps, tuning.step_size
        )

    def adapt(
        self, state: EnsembleState, info: JitteredInfo, iteration: jax.Array, num_warmup: jax.Array
    ) -> EnsembleState:
        """The state with step size, trajectory length and mass matrix adapted."""
        tuning = adapt_tuning(
            state.tuning,
            jax.vmap(layout_of(state.position).ravel)(state.position),
            info.acceptance_rate,
            state.length_gradient,
            iteration,
            num_warmup,
            self.target_acceptance_rate,
            self.max_num_steps,
            self.inverse_mass_matrix is not None,
        )
        return state._replace(tuning=tuning)

    def check(self, layout: Layout) -> None:
        """Checks all settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range, or there are too few coordinates.
        """
        self._tuning(layout)

    def _move(
        self,
        density: Density,
        position: jax.Array,
        log_density: jax.Array,
        gradient: jax.Array,
        noise: jax.Array,
        scale: jax.Array,
        step_size: jax.Array,
        num_steps: jax.Array,
    ) -> Proposal:
        """Ends of trajectories of `num_steps` leapfrog steps of all chains, in one loop.

        Inner half kicks are joined to whole ones.

        Args:
            density: Log densities and gradients at positions ``(chain, size)``.
            position: The start, ``(chain, size)``.
            log_density: Log densities there.
            gradient: Their gradients.
            noise: Standard normal numbers for momenta, ``(chain, size)``.
            scale: Standard deviations of coordinates, ``(1, size)``.
            step_size: In units of these.
            num_steps: Number of steps, at least 1.
        """
        reach = step_size * scale
        start = self.momentum(noise)

        def kick(momentum: Any, gradient: jax.Array, part: jax.Array) -> Any:
            return self.kick(momentum, part * reach * gradient)

        def leap(i: Any, carry: Any) -> Any:
            position, _, _, momentum = carry
            position = position + reach * self.velocity(momentum)
            log_density, gradient = density(position)
            part = jnp.where(i == num_steps - 1, 0.5, 1.0).astype(position.dtype)
            return position, log_density, gradient, kick(momentum, gradient, part)

        kicked = kick(start, gradient, jnp.full((), 0.5, position.dtype))
        empty = jnp.zeros(position.shape[:1], position.dtype)
        carry = position, empty, jnp.zeros_like(position), kicked
        looped = lax.fori_loop(0, num_steps, leap, carry)
        end, log_density_end, gradient_end, momentum = looped
        change = log_density - log_density_end + self.kinetic_change(start, momentum)
        return Proposal(end, log_density_end, gradient_end, self.velocity(momentum), change)

    @abc.abstractmethod
    def momentum(self, noise: jax.Array) -> Any:
        """Momenta in whitened units, a pytree, from standard normal numbers ``(chain, size)``."""

    @abc.abstractmethod
    def kick(self, momentum: Any, impulse: jax.Array) -> Any:
        """Momenta after an impulse, the gradient times a step or half a step, ``(chain, size)``."""

    @abc.abstractmethod
    def velocity(self, momentum: Any) -> jax.Array:
        """Velocities in whitened units, ``(chain, size)``."""

    @abc.abstractmethod
    def kinetic_change(self, start: Any, end: Any) -> jax.Array:
        """Changes of the kinetic energy from momenta `start` to `end`, ``(chain,)``."""

    @abc.abstractmethod
    def initial_length(self, layout: Layout) -> float:
        """Trajectory length before warm-up, if none is given."""

    def _tuning(self, layout: Layout) -> Tuning:
        given = self.trajectory_length
        length = self.initial_length(layout) if given is None else given
        check_rate("target_acceptance_rate", self.target_acceptance_rate, layout.dtype)
        at_least_one = "a number of at least 1", lambda x: x >= 1
        check_scalar("max_num_steps", self.max_num_steps, layout.dtype, *at_least_one)
        variance = jnp.ones(layout.size, layout.dtype)
        if self.inverse_mass_matrix is not None:
            variance = jnp.asarray(self.inverse_mass_matrix, layout.dtype)
            if variance.shape != (layout.size,):
                raise ValueError(
                    f"inverse_mass_matrix must be a vector of {layout.size} variances, one for "
                    f"each coordinate, got shape {variance.shape}"
                )
            with suppress(jax.errors.TracerArrayConversionError):
                wrong = ~((np.asarray(variance) > 0) & np.isfinite(variance))
                if wrong.any():
                    raise ValueError(
                        "inverse_mass_matrix must have positive, finite variances, got "
                        f"{np.asarray(variance)[wrong][0]} at place {np.argmax(wrong)}"
                    )
        return init_tuning(
            check_positive_scalar("step_size", self.step_size, layout.dtype),
            check_positive_scalar("trajectory_length", length, layout.dtype),
            variance,
        )
