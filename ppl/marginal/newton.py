"""Newton's method for the mode of a log density that is laid out in blocks."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from ppl.harvest.leaf_values import vary_alike
from ppl.marginal.block_matrices import (
    BlockFactor,
    BlockMatrix,
    BlockVector,
    inner_product,
)
from ppl.marginal.split_density import Expansion, Given, SplitDensity
from ppl.marginal.tree_matrices import TreeFactor, TreeMatrix

_FIRST_DAMPING = 1e-2  # relative to the diagonal of the precision
_LEAST_DAMPING = 1e-4  # a smaller damping becomes 0
_GROWTH = 10.0  # of the damping from trial to trial
_LONG = 2.0  # a first step of a log rate by more leads downhill
_SLACK = 32  # rounding errors by which a step may seem to lead downhill


class _State(NamedTuple):
    """A step of the search; heights, dampings and gains have a number for each independent block.

    Attributes:
        x: The best point so far.
        here: The expansion there.
        factor: The factor of the damped precision.
        half: The solution of `factor half = slope`.
        damping: The multiple of the diagonal that is added to the precision.
        is_short: Whether the next step is shortened.
        expected: By how much the next step is expected to lead uphill.
        gain: An estimate of how much higher the mode is; infinity if unknown.
        count: The number of trials; -1 before the density at the start is known.
    """

    x: BlockVector
    here: Expansion
    factor: BlockFactor
    half: BlockVector
    damping: jax.Array
    is_short: jax.Array
    expected: jax.Array
    gain: jax.Array
    count: jax.Array


class Mode(NamedTuple):
    """The end of a search.

    Attributes:
        x: The mode, an implicit function of what is given.
        here: The expansion there, a function of what is given.
        factor: The factor of the precision there, a constant.
        gain: An estimate of how much higher the density is elsewhere, for each independent block;
            infinity if no mode was found.
    """

    x: BlockVector
    here: Expansion
    factor: BlockFactor
    gain: jax.Array


def find_mode(
    density: SplitDensity, given: Given, start: BlockVector, tolerance: float, max_steps: int
) -> Mode:
    """The mode of a log density, by Newton's method.

    If a step is not uphill, a shorter one is tried; at once, if it is the first, long, and of
    single elements. If that is not, either, or if the precision is not positive definite, the step
    is tried again with a multiple of the diagonal added to the precision (Levenberg, 1944;
    Marquardt, 1963).

    Each trial evaluates the density once and factors once. The last factor is that of the precision
    at the mode.

    Args:
        density: The log density.
        given: All that it depends on besides.
        start: The point at which the search begins.
        tolerance: The search ends if the mode is estimated to be at most so many nats higher.
        max_steps: The largest number of trials.
    """
    fixed = lax.stop_gradient(given)
    end = _search(density, fixed, lax.stop_gradient(start), tolerance, max_steps)
    here = end.here._replace(height=jnp.reshape(end.here.height, density.heights.shape))
    x, here = _follow(density, end.x, here, end.factor, given)
    return Mode(x, here, end.factor, end.gain)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _follow(
    density: SplitDensity, mode: BlockVector, here: Expansion, factor: BlockFactor, given: Given
) -> tuple[BlockVector, Expansion]:
    """The mode and the expansion there, as functions of what is given: the gradient is 0 there."""
    return mode, here


@_follow.defjvp
def _follow_jvp(density: SplitDensity, primals: Any, tangents: Any) -> Any:
    *_, factor, given = primals
    x, here = _follow(density, *primals)
    slope = jax.jvp(lambda given: density.slope(given, x), (given,), (tangents[-1],))[1]
    flat, unflatten = ravel_pytree(slope)  # JAX transposes no solution that has an empty part

    def multiply(x: jax.Array) -> jax.Array:
        return ravel_pytree(here.matrix.multiply(unflatten(x)))[0]

    def solve(_: Any, x: jax.Array) -> jax.Array:
        return ravel_pytree(factor.solve_transposed(factor.solve(unflatten(x))))[0]

    step = unflatten(lax.custom_linear_solve(multiply, flat, solve, symmetric=True))
    change = jax.jvp(density.expand, (given, x), (tangents[-1], step))[1]
    return (x, here), (step, change)


def _search(
    density: SplitDensity, given: Given, start: BlockVector, tolerance: float, max_steps: int
) -> _State:
    eps = float(jnp.finfo(density.dtype).eps)

    def expand(x: BlockVector) -> Expansion:
        """An expansion, with the heights of the blocks as a vector."""
        here = density.expand(given, x)
        return here._replace(height=jnp.reshape(here.height, (-1,)))

    def rounding_of(height: jax.Array) -> jax.Array:
        """A bound of the rounding errors of a log density, a sum of scores of all elements."""
        num_each = max(density.layout.num_elements / height.size, 1.0)
        return eps * jnp.maximum(num_each, jnp.abs(height))

    def decrement(half: BlockVector, num: int) -> jax.Array:
        """By how much a Newton step is expected to lead uphill."""
        gain = jnp.reshape(inner_product(half, half) / 2, (-1,))
        return gain if len(gain) == num else jnp.sum(gain)[None]

    def is_unfinished(state: _State) -> jax.Array:
        return jnp.any(state.gain > tolerance) & (state.count < max_steps)

    def try_step(state: _State) -> _State:
        step = state.factor.solve_transposed(state.half)
        step = _choose(state.is_short, _shorten(step), step)
        x = jax.tree.map(jnp.add, state.x, step)
        there = expand(x)
        # Blocks accept it if their log density does not fall.
        is_start = state.count < 0
        rounding = rounding_of(state.here.height)
        is_better = is_start | (there.height >= state.here.height - _SLACK * rounding)
        x = _choose(is_better, x, state.x)
        here = _choose(is_better, there, state.here)
        # A rejected Newton step is shortened, then damped; damping falls after an accepted step.
        is_newton = (state.damping == 0) & ~state.is_short
        is_short = ~is_better & is_newton & jnp.isfinite(state.expected)
        less = state.damping / _GROWTH
        less = jnp.where(less < _LEAST_DAMPING, 0.0, less)
        more = jnp.maximum(state.damping * _GROWTH, _FIRST_DAMPING)
        damping = jnp.where(is_better | is_short, less, more)
        factor, half = _damp(here.matrix, damping).factor_and_solve(here.slope)
        expected = decrement(half, len(damping))
        is_long = _is_long(factor.solve_transposed(half), len(damping))
        is_short |= is_start & is_long & jnp.isfinite(expected)
        # After a step that rounding errors may hide, the next one tells nothing more.
        is_hidden = is_better & is_newton & (state.expected <= rounding) & ~is_start
        is_over = is_hidden | (is_start & ~jnp.isfinite(here.height))
        gain = jnp.where(is_better & (damping == 0) & jnp.isfinite(expected), expected, jnp.inf)
        gain = jnp.where(is_over, 0.0, gain)
        count = state.count + 1
        return _alike(_State(x, here, factor, half, damping, is_short, expected, gain, count))

    state = _before(density, given, start)
    return lax.while_loop(is_unfinished, try_step, state)


def _before(density: SplitDensity, given: Given, start: BlockVector) -> _State:
    """A state whose step, of size 0, leads to the start."""
    heights = density.heights
    nothing = jax.tree.map(jnp.zeros_like, start)
    none = jnp.zeros(heights.size, heights.dtype)
    factor = _any_factor(given.base)
    here = Expansion(none, nothing, given.base)
    unknown = none + jnp.inf
    count = jnp.full((), -1)
    return _alike(_State(start, here, factor, nothing, none, none > 0, unknown, unknown, count))


def _alike(state: _State) -> _State:
    """A state whose arrays vary over the same axes of a mesh in each round of a loop."""
    if not jax.sharding.get_abstract_mesh().manual_axes:
        return state
    leaves, tree = jax.tree.flatten(state)
    return jax.tree.unflatten(tree, vary_alike(leaves))


def _any_factor(matrix: Any) -> Any:
    """A factor with the shapes of the factor of a matrix."""
    parts = {x.name: getattr(matrix, x.name) for x in dataclasses.fields(matrix)}
    ones = {name: jnp.ones_like(x) for name, x in parts.items() if isinstance(x, jax.Array)}
    if not isinstance(matrix, TreeMatrix):
        return BlockFactor(**ones)
    return TreeFactor(**{**parts, **ones, "border": _any_factor(matrix.border)})


def _choose(is_first: jax.Array, first: Any, second: Any) -> Any:
    """A vector or an expansion by block: from the first where `is_first`, else from the second."""

    def inner(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(jnp.expand_dims(is_first, range(1, x.ndim)), x, y)

    def border(x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(is_first[0], x, y)

    if isinstance(first, Expansion):
        parts = zip(first, second, strict=True)
        return Expansion(*(_choose(is_first, x, y) for x, y in parts))
    if isinstance(first, TreeMatrix):  # one block, as there is a border
        return jax.tree.map(border, first, second)
    if isinstance(first, BlockVector | BlockMatrix):
        names = [field.name for field in dataclasses.fields(first)]
        pick = {name: border if name == "border" else inner for name in names}
        both = {name: (getattr(first, name), getattr(second, name)) for name in names}
        return type(first)(**{name: pick[name](*pair) for name, pair in both.items()})
    return jnp.where(is_first, first, second)


def _shorten(step: BlockVector) -> BlockVector:
    """A step with the size s of each block replaced by log(1 + s).

    From a count's log rate 0, a Newton step of m - 1 leads to its mean m: the mode is at log m. The
    same bound holds for functions whose third derivative is at most the second (Sun and Tran-Dinh,
    2019).
    """

    def shorten(x: jax.Array) -> jax.Array:
        size = jnp.max(jnp.abs(x), range(1, x.ndim), keepdims=True, initial=0.0)
        return x * jnp.where(size > 0, jnp.log1p(size) / size, 1.0)

    return BlockVector(shorten(step.inner), shorten(step.border[None])[0])


def _is_long(step: BlockVector, num: int) -> jax.Array:
    """Whether the step of a block that is a single element is long; of any block for one number."""
    if step.border.size or step.inner.shape[1:] != (1, 1):
        return jnp.zeros(num, bool)
    is_long = jnp.abs(jnp.ravel(step.inner)) > _LONG
    return is_long if len(is_long) == num else jnp.any(is_long)[None]


def _damp(matrix: Any, damping: jax.Array) -> Any:
    """A matrix with a multiple of the absolute values of its diagonal added; of 1 where it is 0."""

    def damped(x: jax.Array, damping: jax.Array) -> jax.Array:
        scale = jnp.abs(jnp.diagonal(x, axis1=-2, axis2=-1))
        more = damping[..., None] * jnp.where(scale > 0, scale, 1.0)
        return x + more[..., None] * jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)

    if isinstance(matrix, jax.Array):
        return damped(matrix, damping[0])
    return dataclasses.replace(
        matrix,
        diagonal=damped(matrix.diagonal, damping[:, None]),
        border=_damp(matrix.border, damping),
    )
