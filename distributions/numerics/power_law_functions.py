"""_where_finite, _pareto_variance."""

import jax.numpy as jnp


def where_finite(a, least, formula):
    """`formula(a)` where `a > least`, else infinity."""
    finite = a > least
    return jnp.where(finite, formula(jnp.where(finite, a, least + 1)), jnp.inf)


def pareto_variance(a, scale):
    return jnp.square(scale) * where_finite(a, 2, lambda a: a / jnp.square(a - 1) / (a - 2))
