"""Softplus function, with derivatives that are precise and need no exponential of its value."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


@jax.custom_jvp
def softplus(x: Array) -> Array:
    """`log(1 + exp(x))`.

    The second derivative of `jax.nn.softplus` takes two exponentials of its value more, and cancels
    for large x.
    """
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@softplus.defjvp
def _softplus_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,) = primals
    return softplus(x), _sigmoid(x) * tangents[0]


@jax.custom_jvp
def _sigmoid(x: Array) -> Array:
    e = jnp.exp(-jnp.abs(x))
    return jnp.where(x < 0, e, 1) / (1 + e)


@_sigmoid.defjvp
def _sigmoid_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,) = primals
    here = _sigmoid(x)
    return here, here * _sigmoid(-x) * tangents[0]
