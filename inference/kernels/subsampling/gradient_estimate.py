"""Gradients of batches, control variates, and the noise of both."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.common.argument_checks import check_count, check_positive_scalar
from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix, Matrix, check_mass_matrix, pull, push
from inference.common.threefry import normal, seed_of, threefry
from inference.kernels.subsampling.kernel import SubsamplingKernel

DEFAULT_INFLATION = 0.05  # of variances by a step size that is chosen
_MAX_STEPS = 100  # of a transition, unless a number is given
_MEMORY = 100  # transitions in the running mean of the noise
_TIME = 2.0  # units of a standard deviation that a transition covers


class GradientEstimate(NamedTuple):
    """Unbiased estimate of the gradient of a log density, from a batch.

    Attributes:
        force: The gradient on whitened coordinates, ``(size,)``.
        noise: Unbiased estimate of the variance of the noise of the gradient along each coordinate
            of a position, in units of the variance of the coordinate, ``(size,)``.
    """

    force: jax.Array
    noise: jax.Array


class StochasticGradientState(NamedTuple):
    """State of a chain of :class:`SGLD` or :class:`SGHMC`.

    Attributes:
        position: Pytree of floating-point arrays.
        momentum: Whitened momentum, ``(size,)``; `None` for :class:`SGLD`.
        center_gradient: Gradient of the log likelihood of all rows at the center, ``(size,)``;
            `None` without control variates.
        noise: Running mean of the `noise` of estimates, over about the last 100 transitions,
            ``(size,)``.
        num_transitions: Number of transitions so far, 100 at most, int32.
    """

    position: Any
    momentum: jax.Array | None
    center_gradient: jax.Array | None
    noise: jax.Array
    num_transitions: jax.Array


class StochasticGradientInfo(NamedTuple):
    """Statistics of a transition of :class:`SGLD` or :class:`SGHMC`; all scalars.

    Attributes:
        gradient_noise: Variance of the noise of gradients along the coordinate where it is largest,
            in units of the variance that the covariance of the kernel has for the coordinate; the
            running mean over about the last 100 transitions.
        variance_inflation: Fraction by which the variance of draws of this coordinate would be too
            large, on a normal density with the covariance of the kernel and with this noise;
            variances of the others would be too large by less.
        step_size: Step size.
        is_divergent: Whether a step led to a position or a gradient that is not finite. The chain
            then stays where it was.
    """

    gradient_noise: jax.Array
    variance_inflation: jax.Array
    step_size: jax.Array
    is_divergent: jax.Array


@dataclasses.dataclass(frozen=True)
class StochasticGradientKernel(SubsamplingKernel):
    """Kernel that follows gradients of batches, without a test of acceptance."""

    _without_center: ClassVar[str] = ", or leave control variates out, control_variates=False"

    step_size: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    num_steps: int | jax.Array | None = dataclasses.field(default=None, kw_only=True)
    control_variates: bool = dataclasses.field(
        default=True, kw_only=True, metadata={"static": True}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        if self.batch_size % 2:
            raise ValueError(
                f"batch_size of {name} must be even, as its halves tell of the noise of a batch, "
                f"got {self.batch_size}"
            )
        if not isinstance(self.control_variates, bool):
            raise TypeError(
                f"control_variates of {name} must be True or False, got {self.control_variates!r}"
            )
        if isinstance(self.num_steps, bool | int | float | str):
            check_count(f"num_steps of {name}", self.num_steps, least=1)

    @property
    def rows_at_once(self) -> int:
        """Half of the batch: the halves tell of the noise."""
        return self.batch_size // 2

    def init(self, position: Any) -> StochasticGradientState:
        """The state of a chain at `position`; one pass over all data with control variates.

        Raises:
            TypeError: if a setting or a density is not real, or the position has leaves that are
                not floating-point arrays.
            ValueError: if a setting is out of range or missing.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.check(layout)
        gradient = None
        if self.control_variates:
            center = self.flat_center(layout)
            gradient = jax.grad(self.likelihood_of(layout))(center, self.data)
        momentum = self._first_momentum(layout)
        noise = jnp.zeros(layout.size, layout.dtype)
        return StochasticGradientState(position, momentum, gradient, noise, jnp.int32(0))

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once it and the other settings are found valid.

        Raises:
            TypeError: if a setting is not real.
            ValueError: if a setting is out of range or missing.
        """
        self.check_fields(layout)
        if self.step_size is None:
            raise ValueError(
                f"{type(self).__name__} has no step_size; give it one, or pass the kernel to "
                "inference.mcmc together with a model, which chooses it"
            )
        return check_positive_scalar("step_size", self.step_size, layout.dtype)

    def _first_momentum(self, layout: Layout) -> jax.Array | None:
        return None

    def estimate(
        self,
        layout: Layout,
        factor: Matrix,
        center_gradient: jax.Array | None,
        position: jax.Array,
        key: jax.Array,
    ) -> GradientEstimate:
        """Estimate of the gradient at a flat position, from a batch that `key` draws.

        With control variates it is the gradient of the prior, that of all rows at the center, and
        the change of the gradient of the batch since the center, times the rows a row stands for.
        """
        number = self.num_rows
        gradient_of = jax.grad(self.likelihood_of(layout))
        half = self.rows_at_once
        center = self.flat_center(layout) if self.control_variates else None

        def gradient_of_half(indices: jax.Array) -> jax.Array:
            rows = jax.tree.map(lambda x: jnp.asarray(x)[indices], self.data)
            gradient = gradient_of(position, rows)
            if center is not None:
                gradient = gradient - gradient_of(center, rows)
            return gradient * (number / half)

        indices = random.randint(key, (2, half), 0, number, jnp.int32)
        first, second = jax.vmap(gradient_of_half)(indices)
        gradient = jax.grad(self.prior_of(layout))(position) + (first + second) / 2
        if center_gradient is not None:
            gradient = gradient + center_gradient
        # Half the gap between halves of the batch has the covariance of the noise of their mean.
        gap = push(factor, pull(factor, (first - second) / 2))
        return GradientEstimate(pull(factor, gradient), gap**2 / self._variances(layout))

    def step(
        self, key: jax.Array, state: StochasticGradientState
    ) -> tuple[StochasticGradientState, StochasticGradientInfo]:
        """One transition, of `num_steps` steps: the next state, and statistics."""
        layout = Layout.of(state.position)
        step_size = self.check(layout)
        factor = self.factor_of(layout)
        number = default_num_steps(step_size) if self.num_steps is None else self.num_steps
        number = jnp.asarray(number, jnp.int32)
        seed = seed_of(key)

        def move(i: Any, carry: Any) -> Any:
            position, momentum, noise, has_diverged = carry
            words = jnp.stack(threefry(seed, i))
            rows_key = random.wrap_key_data(words, impl="threefry2x32")

            def force_at(place: jax.Array) -> GradientEstimate:
                return self.estimate(layout, factor, state.center_gradient, place, rows_key)

            z = normal(words, layout.size, layout.dtype)
            moved, pushed, found = self._move(factor, step_size, position, momentum, force_at, z)
            ends = (moved,) if pushed is None else (moved, pushed)
            is_finite = jnp.all(jnp.isfinite(jnp.stack(ends)))
            moved = jnp.where(is_finite, moved, position)
            if pushed is not None:
                pushed = jnp.where(is_finite, pushed, 0)
            noise = noise + jnp.where(jnp.isfinite(found.noise), found.noise, 0)
            return moved, pushed, noise, has_diverged | ~is_finite

        none = jnp.zeros(layout.size, layout.dtype)
        start = layout.ravel(state.position), state.momentum, none, jnp.zeros((), bool)
        position, momentum, noise, has_diverged = lax.fori_loop(0, number, move, start)
        num_transitions = jnp.minimum(state.num_transitions + 1, _MEMORY)
        change = noise / number.astype(layout.dtype) - state.noise
        noise = state.noise + change / num_transitions.astype(layout.dtype)
        new = StochasticGradientState(
            layout.unravel(position), momentum, state.center_gradient, noise, num_transitions
        )
        largest = jnp.max(noise)
        inflation = self.inflation(step_size, largest)
        return new, StochasticGradientInfo(largest, inflation, step_size, has_diverged)

    def _variances(self, layout: Layout) -> jax.Array:
        """Diagonal of the covariance, ``(size,)``."""
        if self.covariance is None:
            return jnp.ones(layout.size, layout.dtype)
        matrix = check_mass_matrix(self.covariance, layout, "covariance")
        if isinstance(matrix, LowRankMatrix):
            return matrix.diagonal()
        return matrix if matrix.ndim == 1 else jnp.diagonal(matrix)

    def _move(
        self,
        factor: Matrix,
        step_size: jax.Array,
        position: jax.Array,
        momentum: Any,
        force_at: Any,
        z: jax.Array,
    ) -> tuple[jax.Array, Any, GradientEstimate]:
        """Position and momentum after one step, and the estimate that it has followed."""
        raise NotImplementedError

    def inflation(self, step_size: Any, noise: Any) -> Any:
        """Fraction by which variances of draws of a normal density are too large."""
        raise NotImplementedError

    def step_size_for(self, noise: float, inflation: float = DEFAULT_INFLATION) -> float:
        """Step size at which variances are too large by `inflation`, or a little less."""
        raise NotImplementedError


def default_num_steps(step_size: Any) -> Any:
    """Steps after which a draw is nearly independent of the one before, 100 at most."""
    return jnp.clip(jnp.ceil(_TIME / step_size), 1, _MAX_STEPS)
