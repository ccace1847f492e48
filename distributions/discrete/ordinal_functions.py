"""Helpers of ordered levels: look-up in short tables, cutpoints, formulas of the families."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, random

from distributions.common.arrays import select
from distributions.constraints import (
    integer_interval,
)
from distributions.numerics.categorical_functions import category_entropy, category_moments, take

_SHORT = 16  # entries: rows up to this length are searched by comparisons


def _levels(cutpoints, loc):
    return integer_interval(0, np.shape(cutpoints)[-1])


def pick_entry(table: Array, index: Array) -> Array:
    """`table[..., index]` along the last axis.

    A short table is searched by comparisons, which XLA fuses with the code around them. It does
    not fuse gathers, nor the scatters in their derivatives.
    """
    if table.shape[-1] > _SHORT:
        return take(table, index)
    entry = table[..., 0]
    for i in range(1, table.shape[-1]):
        entry = select(index >= i, table[..., i], entry)
    return entry


def adjacent_cutpoints(
    y: Array, cutpoints: Array, loc: Array, low: Any, high: Any
) -> tuple[Array, Array]:
    """The cutpoints below and above a level, or `low` and `high` where there is none.

    A short row is searched by comparisons, as in :func:`pick_entry`. Each cutpoint is spread over
    the levels once, so that its derivative is a single sum.
    """
    index = y.astype(int)
    last = cutpoints.shape[-1]
    shape = np.broadcast_shapes(index.shape, loc.shape, cutpoints.shape[:-1])
    below = jnp.full(shape, low, loc.dtype)
    above = jnp.full(shape, high, loc.dtype)
    if last > _SHORT:
        under, over = (take(cutpoints, jnp.clip(index - k, 0, last - 1)) for k in (1, 0))
        return select(index > 0, under, below), select(index < last, over, above)
    for k in range(last):
        cutpoint = jnp.broadcast_to(cutpoints[..., k], shape)
        below = select(index == k + 1, cutpoint, below)
        above = select(index == k, cutpoint, above)
    return below, above


def distance_to_cutpoint_above(x: Array, cutpoints: Array, loc: Array) -> Array:
    """The cutpoint above a level, less `loc`."""
    return adjacent_cutpoints(x, cutpoints, loc, 0, 0)[1] - loc


def _all_log_probs(log_prob, cutpoints, loc):
    """The log probabilities of all levels, along a new last axis."""
    shape = np.broadcast_shapes(np.shape(cutpoints)[:-1], np.shape(loc))
    cutpoints = jnp.broadcast_to(cutpoints, (*shape, np.shape(cutpoints)[-1]))
    levels = range(cutpoints.shape[-1] + 1)

    def one(k):
        return log_prob(jnp.full(shape, k), cutpoints, jnp.broadcast_to(loc, shape))

    return jnp.stack([one(k) for k in levels], axis=-1)


def ordinal_rows(log_prob: Callable[..., Array]) -> dict[str, Any]:
    """The formulas of a family of ordered levels that follow from its log probabilities."""

    def every(*p):
        return _all_log_probs(log_prob, *p)

    return {
        "support": _levels,
        "log_prob": log_prob,
        "sample": lambda key, shape, dtype, *p: random.categorical(key, every(*p), shape=shape),
        "mean": lambda *p: category_moments(jnp.exp(every(*p)))[0],
        "variance": lambda *p: category_moments(jnp.exp(every(*p)))[1],
        "mode": lambda *p: jnp.argmax(every(*p), axis=-1),
        "entropy": lambda *p: category_entropy(every(*p)),
    }
