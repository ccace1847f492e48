"""Sums over the edges of a graph, and its parts, for the families CAR and ICAR."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.common.arrays import align
from distributions.common.linear_algebra import per_event


def sum_over_edges(x: Array, adjacency: Array, sign: ArrayLike) -> Array:
    """`sum_ij A_ij (x_i - sign x_j)^2 / 2`, by differences: a quadratic form would cancel."""
    sign = per_event(jnp.asarray(sign), 2)
    differences = x[..., :, None] - sign * x[..., None, :]
    differences = jnp.where(adjacency == 0, 0.0, differences)  # An infinite square would be NaN.
    return 0.5 * jnp.sum(adjacency * jnp.square(differences), (-2, -1))


def label_parts(adjacency: Any) -> Any:
    """The part of each vertex, as the number of its first one; a NumPy array for one.

    Every vertex bears a number, at first its own. It takes the smallest of its own and its
    neighbors', and then the number that the vertex of that number bears, until none changes. A
    part then bears the number of its first vertex.
    """
    xp: Any = np if isinstance(adjacency, np.ndarray) else jnp
    n = adjacency.shape[-1]
    first = xp.broadcast_to(xp.arange(n), adjacency.shape[:-1])

    def spread(labels):
        near = xp.where(adjacency != 0, labels[..., None, :], n).min(-1, initial=n)
        labels = xp.minimum(labels, near)
        return xp.take_along_axis(labels, labels, -1)

    if xp is np:
        labels = first
        new = spread(first)
        while (new != labels).any():
            labels = new
            new = spread(new)
    else:

        def going(state):
            return (state[0] != state[1]).any()

        _, new = lax.while_loop(going, lambda s: (s[1], spread(s[1])), (first, spread(first)))
    return new


def count_parts(labels: Array) -> Array:
    """The number of parts, given the part of each vertex."""
    return jnp.sum(labels == align(jnp.arange(labels.shape[-1]), 0, labels.ndim), -1)
