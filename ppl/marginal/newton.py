"""Newton's method for the mode of a log density that is laid out in blocks."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockMatrix, BlockVector, inner_product, vary_like
from ppl.marginal.completed_square import precision_of

_FIRST_DAMPING = 1e-2  # relative to the diagonal of the precision
_LEAST_DAMPING = 1e-4  # a smaller damping becomes 0
_GROWTH = 10.0  # of the damping from trial to trial
_SLACK = 32  # rounding errors by which a step may seem to lead downhill

LogDensity = Callable[[BlockVector], jax.Array]


class _State(NamedTuple):
    """A step of the search; all but `x` and `count` have a number for each independent block.

    Attributes:
        x: The best point so far.
        height: The log density there.
        damping: The multiple of the diagonal that is added to the precision.
        gain: An estimate by the last step of how much higher the mode is.
        count: The number of trials.
    """

    x: BlockVector
    height: jax.Array
    damping: jax.Array
    gain: jax.Array
    count: jax.Array


def find_mode(
    layout: BlockLayout,
    log_density: LogDensity,
    start: BlockVector,
    tolerance: float,
    max_steps: int,
) -> BlockVector:
    """The mode of a log density, by Newton's method.

    If a step is not uphill, or if the precision is not positive definite, the step is tried again
    with a multiple of the diagonal added to the precision (Levenberg, 1944; Marquardt, 1963). The
    mode is differentiated as an implicit function.

    Args:
        layout: The layout of the variables.
        log_density: Function to a number, or to a number for each element of independent plates.
        start: The point at which the search begins.
        tolerance: The search ends if the mode is estimated to be at most so many nats higher.
        max_steps: The largest number of trials.
    """
    gradient = jax.grad(lambda x: jnp.sum(log_density(x)))
    search = functools.partial(_search, layout, log_density, gradient, tolerance, max_steps)

    def solve_linear(multiply: Callable[[BlockVector], BlockVector], x: BlockVector) -> Any:
        matrix = precision_of(layout, vary_like(x, multiply), x.inner.dtype)
        factor = matrix.factor()  # independent of `x`, as JAX transposes the solution in `x`
        return jax.tree.map(jnp.negative, factor.solve_transposed(factor.solve(x)))

    return lax.custom_root(gradient, start, lambda _, x: search(x), solve_linear)


def _search(
    layout: BlockLayout,
    log_density: LogDensity,
    gradient: Callable[[BlockVector], BlockVector],
    tolerance: float,
    max_steps: int,
    start: BlockVector,
) -> BlockVector:
    dtype = start.inner.dtype
    eps = float(jnp.finfo(dtype).eps)

    def heights(x: BlockVector) -> jax.Array:
        """Log densities of the blocks, as a vector."""
        return jnp.reshape(log_density(x), (-1,))

    def error_of(height: jax.Array) -> jax.Array:
        """A bound of the rounding errors of a log density, a sum of scores of all elements."""
        return eps * jnp.maximum(max(layout.num_elements / height.size, 1.0), jnp.abs(height))

    def is_unfinished(state: _State) -> jax.Array:
        tolerated = jnp.maximum(tolerance, error_of(state.height))
        return jnp.any(state.gain > tolerated) & (state.count < max_steps)

    def try_step(state: _State) -> _State:
        # A damped Newton step.
        slope, multiply = jax.linearize(gradient, state.x)
        matrix = _damp(precision_of(layout, vary_like(state.x, multiply), dtype), state.damping)
        factor, half = matrix.factor_and_solve(slope)
        step = factor.solve_transposed(half)
        x = jax.tree.map(jnp.add, state.x, step)
        height = heights(x)
        # Blocks accept it if their log density does not fall.
        is_better = height >= state.height - _SLACK * error_of(state.height)
        gain = inner_product(slope, step) / 2
        gain = gain if len(height) > 1 else jnp.sum(gain)
        # Damping falls after an accepted step, and rises after a rejected one.
        is_newton = is_better & (state.damping == 0)
        less = state.damping / _GROWTH
        more = state.damping * _GROWTH
        less = jnp.where(less < _LEAST_DAMPING, 0.0, less)
        return _State(
            BlockVector(
                jnp.where(is_better[:, None, None], x.inner, state.x.inner),
                jnp.where(is_better[0], x.border, state.x.border),
            ),
            jnp.where(is_better, height, state.height),
            jnp.where(is_better, less, jnp.maximum(more, _FIRST_DAMPING)),
            jnp.where(is_newton, gain, jnp.where(jnp.isfinite(state.height), jnp.inf, 0.0)),
            state.count + 1,
        )

    height = heights(start)
    # Start without damping, and with an unknown gain so that a step is made.
    none = jnp.zeros_like(height)
    unknown = jnp.full_like(height, jnp.inf)
    count = jnp.sum(jnp.zeros_like(height, int))
    state = _State(start, height, none, unknown, count)
    return lax.while_loop(is_unfinished, try_step, state).x


def _damp(matrix: BlockMatrix, damping: jax.Array) -> BlockMatrix:
    """A matrix with a multiple of the absolute values of its diagonal added; of 1 where it is 0."""

    def damped(x: jax.Array, damping: jax.Array) -> jax.Array:
        scale = jnp.abs(jnp.diagonal(x, axis1=-2, axis2=-1))
        more = damping[..., None] * jnp.where(scale > 0, scale, 1.0)
        return x + more[..., None] * jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)

    return dataclasses.replace(
        matrix,
        diagonal=damped(matrix.diagonal, damping[:, None]),
        border=damped(matrix.border, damping[0]),
    )
