"""Hamiltonian kernel that adapts its own step size and mass matrix, for each replica apart."""

import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.layout import Layout
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.gradient_free.scale import (
    Scale,
    average_step_size,
    init_scale,
    learning_stop,
)
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import State
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
)
from inference.warmup.target_rate import (
    estimate_gain,
    failure_share,
    is_failure,
    raise_target,
)


class AdaptiveState(NamedTuple):
    """State of a chain of :class:`AdaptiveHamiltonian`.

    Attributes:
        position: Pytree of floating-point arrays.
        log_density: Scalar, the log density at `position`.
        gradient: Gradient of the log density.
        step_size: Step of the integrator.
        scale: Covariance of positions, whose factor is that of the inverse mass matrix.
        averaging: State of dual averaging of the step size.
        num_failures: Number of transitions whose acceptance rate was far below the target, in the
            second half of the iterations that learn (see :mod:`inference.warmup.target_rate`).
    """

    position: Any
    log_density: jax.Array
    gradient: Any
    step_size: jax.Array
    scale: Scale
    averaging: DualAveraging
    num_failures: jax.Array


@dataclasses.dataclass(frozen=True)
class AdaptiveHamiltonian:
    """Hamiltonian kernel with a method `adapt`, as kernels without gradients have it.

    Attributes:
        kernel: The kernel; its step size and inverse mass matrix are those before warm-up.
        log_density: Function of a position that returns a scalar.
        target_acceptance_rate: Rate that warm-up adapts the step size to.
        axis_name: Name of the axis of ``jax.vmap`` over replicas.
    """

    kernel: HamiltonianKernel
    log_density: Callable[[Any], jax.Array] | None = None
    target_acceptance_rate: Any = None
    axis_name: Hashable = None

    def init(self, position: Any) -> AdaptiveState:
        """The state of a chain at `position`."""
        layout = Layout.of(position)
        step_size = self.kernel.check(layout)
        return AdaptiveState(
            *self._at(step_size, None).init(position),
            step_size,
            init_scale(self.kernel.inverse_mass_matrix, layout),
            dual_averaging_restart(dual_averaging_init(step_size)),
            jnp.zeros((), step_size.dtype),
        )

    def step(self, key: jax.Array, state: AdaptiveState) -> tuple[AdaptiveState, Any]:
        """One transition: the next state, and the statistics of the trajectory."""
        kernel = self._at(state.step_size, state.scale.factor)
        moved, info = kernel.step(key, State(*state[:3]))
        return state._replace(**moved._asdict()), info

    def refresh(self, state: AdaptiveState) -> AdaptiveState:
        """The state at the same position, for a log density that has changed since."""
        kernel = self._at(state.step_size, state.scale.factor)
        return state._replace(**kernel.refresh(State(*state[:3]))._asdict())

    def adapt(
        self, state: AdaptiveState, info: Any, iteration: jax.Array, num_warmup: jax.Array
    ) -> AdaptiveState:
        """The state with step size and mass matrix adapted."""
        layout = Layout.of(state.position)
        target = self.target_acceptance_rate
        target = self.kernel.default_acceptance_rate if target is None else target
        stop = learning_stop(num_warmup)
        start = stop // 2
        is_counted = (iteration >= start) & (iteration < stop)
        is_counted = is_counted & is_failure(info.acceptance_rate, target)
        is_counted = is_counted & self.kernel.raises_target
        failures = state.num_failures + is_counted.astype(state.num_failures.dtype)
        share = failure_share(failures, (stop - start).astype(failures.dtype))
        averaging, step_size = average_step_size(
            state.averaging,
            info.acceptance_rate,
            jnp.where(iteration < stop, target, raise_target(target, share)),
            iteration,
            num_warmup,
            gain=jnp.where(iteration + 1 == stop, estimate_gain(share), 0.0),
        )
        learner = GradientFreeKernel(self.log_density, covariance=self.kernel.inverse_mass_matrix)
        scale = learner.adapt_scale(state, layout, iteration, num_warmup)
        return state._replace(
            step_size=step_size, scale=scale, averaging=averaging, num_failures=failures
        )

    def _at(self, step_size: jax.Array, factor: Any) -> HamiltonianKernel:
        return dataclasses.replace(
            self.kernel,
            log_density=self.log_density,
            step_size=step_size,
            inverse_mass_factor=factor,
            axis_name=self.axis_name,
        )
