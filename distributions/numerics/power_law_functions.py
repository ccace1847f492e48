"""Moments of power laws, infinite for small exponents."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array


def where_finite(a: Array, least: float, formula: Callable[[Array], Array]) -> Array:
    """`formula(a)` where `a > least`, else infinity."""
    finite = a > least
    return jnp.where(finite, formula(jnp.where(finite, a, least + 1)), jnp.inf)


def pareto_variance(a: Array, scale: Array) -> Array:
    """`scale^2 a / ((a - 1)^2 (a - 2))`, infinite up to `a = 2`."""
    return jnp.square(scale) * where_finite(a, 2, lambda a: a / jnp.square(a - 1) / (a - 2))
