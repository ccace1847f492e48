"""Filtered evidence: the log integral of a chain of jointly normal states up to each step.

The scores of a step depend on its state `x`, on the state `z` before it, and on the border `b`,
which all steps share. About a point their sum is

    h + g (x, z, b) + (x, z, b) H (x, z, b) / 2.

An information filter carries the precision and the slope of the last state and the border: it adds
the square of a step and integrates over the state before. So its numbers do not contain scores of
later steps. The pivots of the Cholesky factor of all steps would contain them.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockVector, cholesky, solve_lower

_LOG_TWO_PI = math.log(2 * math.pi)
_SINGULAR = 100.0  # rounding errors within which a pivot of a precision matrix is 0


def log_evidence_of_steps(
    layout: BlockLayout, log_density: Callable[[BlockVector], jax.Array], point: BlockVector
) -> jax.Array:
    """The rise of the log integral of all steps up to t, for each step t.

    The rise is 0 as long as the integral does not exist, as with a border without a prior.

    Args:
        layout: The layout of the states, whose blocks are steps, and what leads to them.
        log_density: The sum of the scores of each block, in the order of the chain; shape (n, t).
        point: The point about which the scores are expanded.

    Returns:
        Numbers of shape (n, t), for the steps.
    """
    height, slope, precision = _squares(layout, log_density, point)
    size = layout.size_of_block
    padding = layout.padding[::-1] if layout.is_reversed else layout.padding
    padding = jnp.asarray(padding, slope.dtype)[None]
    one = padding[..., None] * jnp.eye(size, dtype=slope.dtype)[None, None]
    precision = precision.at[:, :, :size, :size].add(one)  # Padding is standard normal.
    height = height - jnp.sum(padding, -1) * _LOG_TWO_PI / 2
    evidence = jax.vmap(lambda *square: _filter(size, *square))(height, slope, precision)
    return jnp.diff(evidence[:, bool(layout.leading) :], axis=1, prepend=0)


def _squares(
    layout: BlockLayout, log_density: Callable[[BlockVector], jax.Array], point: BlockVector
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Height, slope and negative Hessian of the score of each step.

    Coordinates are the state of the step, the state before and the border. Even and odd steps are
    differentiated separately, as a score depends on one step of each kind.
    """
    t = layout.num_blocks
    d = layout.size_of_block
    m = layout.size_of_border
    zeros = jax.tree.map(jnp.zeros_like, point)
    is_odd = jnp.arange(t) % 2

    def along(i: Any) -> BlockVector:
        moved = (is_odd[:, None] == i // d) & (jnp.arange(d) == i % d)[None]
        inner = jnp.where(i < 2 * d, moved, False).astype(point.inner.dtype)
        border = (jnp.arange(m) == i - 2 * d).astype(point.border.dtype)
        return BlockVector(jnp.broadcast_to(inner, zeros.inner.shape), border)

    def derivatives(i: Any, j: Any) -> tuple[jax.Array, jax.Array]:
        def first(x):
            return jax.jvp(log_density, (x,), (along(i),))[1]

        return jax.jvp(first, (point,), (along(j),))

    count = jnp.arange(2 * d + m)
    slopes, hessian = jax.vmap(jax.vmap(derivatives, (None, 0)), (0, None))(count, count)
    swapped = jnp.concatenate([count[d : 2 * d], count[:d], count[2 * d :]])
    is_odd = jnp.flip(is_odd) if layout.is_reversed else is_odd
    slope = jnp.where(is_odd[None, None], slopes[swapped, 0], slopes[:, 0])  # (2 d + m, n, t)
    hessian = jnp.where(is_odd[None, None, None], hessian[swapped][:, swapped], hessian)
    return log_density(point), jnp.moveaxis(slope, 0, -1), -jnp.moveaxis(hessian, (0, 1), (-2, -1))


def _filter(size: int, height: jax.Array, slope: jax.Array, precision: jax.Array) -> jax.Array:
    """The log integral of all steps up to each; the state before the first is standard normal."""

    def diagonal(x):
        return jnp.diagonal(x, axis1=-2, axis2=-1)

    num_border = slope.shape[-1] - 2 * size
    before = slice(size, 2 * size)
    kept = jnp.array([*range(size), *range(2 * size, 2 * size + num_border)], int)

    def step(state: Any, square: Any) -> tuple[Any, Any]:
        (carried, rest, total), (height, slope, precision) = state, square
        precision = precision.at[size:, size:].add(carried)
        slope = slope.at[size:].add(rest)
        factor = cholesky(precision[before, before])
        columns = jnp.concatenate([precision[before][:, kept], slope[before, None]], 1)
        solved = solve_lower(factor, columns)
        side = solved[:, :-1]
        half = solved[:, -1]
        carried = precision[kept][:, kept] - side.T @ side
        rest = slope[kept] - side.T @ half
        total += height + half @ half / 2 - jnp.sum(jnp.log(jnp.diag(factor)))
        total += size * _LOG_TWO_PI / 2
        return (carried, rest, total), (carried, rest, total)

    first = jnp.diag(jnp.array([1.0] * size + [0.0] * num_border, slope.dtype))
    start = (
        first,
        jnp.zeros_like(slope[0, size:]),
        jnp.asarray(-size * _LOG_TWO_PI / 2, slope.dtype),
    )
    with jax.default_matmul_precision("highest"):
        _, (precisions, slopes, totals) = lax.scan(step, start, (height, slope, precision))
    pivots = diagonal(cholesky(lax.stop_gradient(precisions))) ** 2
    exists = jnp.all(pivots > _SINGULAR * jnp.finfo(slope.dtype).eps * diagonal(precisions), -1)
    eye = jnp.eye(precisions.shape[-1], dtype=slope.dtype)
    factors = cholesky(jnp.where(exists[:, None, None], precisions, eye[None]))
    half = solve_lower(factors, slopes[..., None])[..., 0]
    log_det = jnp.sum(jnp.log(diagonal(factors)), -1)
    found = totals + jnp.sum(half**2, -1) / 2 - log_det + eye.shape[0] * _LOG_TWO_PI / 2
    return jnp.where(exists, found, 0)
