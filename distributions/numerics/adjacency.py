"""Sums over the edges of a graph, for the conditional autoregressive families CAR and ICAR."""

import math

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.common.linear_algebra import (
    per_event,
)


def sum_over_edges(x: Array, adjacency: Array, sign: ArrayLike) -> Array:
    """`sum_ij A_ij (x_i - sign x_j)^2 / 2`, by differences: a quadratic form would cancel."""
    sign = per_event(jnp.asarray(sign), 2)
    most = math.sqrt(jnp.finfo(x.dtype).max)  # An infinite square times 0 would be NaN.
    differences = jnp.clip(x[..., :, None] - sign * x[..., None, :], -most, most)
    return 0.5 * jnp.sum(adjacency * jnp.square(differences), (-2, -1))
