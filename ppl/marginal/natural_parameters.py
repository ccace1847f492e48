"""Natural parameters of a full conditional in an exponential family, from slopes of its density."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest.leaf_values import vary_alike

_NUM_ROUNDS = 6  # moves to the bulk: in single precision, slopes far from it lose a parameter
_OFFSET = 0.8  # of the two points from the center, in spreads


def fit_natural(
    family: Any, log_density: Callable[[jax.Array], jax.Array], shape: tuple[int, ...], dtype: Any
) -> Any:
    """The natural parameters of a density, element by element.

    Args:
        family: The exponential family.
        log_density: The log density of a value, summed over its elements.
        shape: The shape of the value.
        dtype: Its dtype.
    """
    offsets = _OFFSET * alternate(shape, 2).astype(dtype)
    gradient = jax.vmap(jax.grad(log_density))

    def measure(place: Any) -> Any:
        x = points_at(family, place, offsets)
        return family.fit(x, jax.vmap(family.slope)(x, gradient(x)))

    start = family.start(shape, dtype)
    if jax.sharding.get_abstract_mesh().manual_axes:  # Else gradients are summed over the shards.
        leaves, tree = jax.tree.flatten(start)
        height = log_density(family.value_at(start.center))
        start = jax.tree.unflatten(tree, vary_alike([*leaves, height])[:-1])
    return measure_in_bulk(family, measure, lambda natural: natural, start)


def measure_in_bulk(
    family: Any,
    measure: Callable[[Any], Any],
    fit: Callable[[Any], Any],
    start: Any,
) -> Any:
    """Measurements of a density at the place of its bulk.

    Args:
        family: The exponential family.
        measure: What is measured at a place.
        fit: The natural parameters from that.
        start: The first place.
    """

    def zeros(x):
        return vary_alike([jnp.zeros(x.shape, x.dtype), start.center])[0]

    nothing = jax.tree.map(zeros, jax.eval_shape(measure, start))

    def move(carry: Any, _: None) -> Any:
        place, _ = carry
        found = measure(place)
        return (lax.stop_gradient(family.find_place(fit(found), place)), found), None

    return lax.scan(move, (start, nothing), length=_NUM_ROUNDS)[0][1]


def points_at(family: Any, place: Any, offsets: Any) -> jax.Array:
    """Values at offsets from the center of a place, in spreads."""
    center, spread = (jnp.broadcast_to(x, offsets.shape) for x in place)
    return family.value_at(center + spread * offsets)


def alternate(shape: tuple[int, ...], num: int) -> np.ndarray:
    """The signs -1, 1, ... along the first axis, of size `num`, and along the last."""
    steps = np.arange(num).reshape(num, *[1] * len(shape))
    last = np.arange(shape[-1]) if shape else 0
    return np.broadcast_to(2.0 * ((steps + last) % 2) - 1, (num, *shape))
