"""Log densities written by hand, and the check of a model against one."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.random import key

import ppl

from .checks import assert_close

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def normal(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale) - HALF_LOG_TWO_PI


def laplace(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -jnp.abs(x - loc) / scale - jnp.log(2 * scale)


def log_normal(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return normal(jnp.log(x), loc, scale) - jnp.log(x)


def cauchy(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -jnp.log(math.pi * scale * (1 + ((x - loc) / scale) ** 2))


# A model, its density by hand, and points: an argument and values, one for each path through it.
Row = tuple[Callable[..., Any], Callable[..., Any], Sequence[tuple[Any, Any]]]


def check_density_gradient_and_draws(model: Any, by_hand: Any, points: Any) -> None:
    """Also at draws of the model itself, with one of its sites given to it as data."""
    # A while loop has no reverse mode.
    derivative = jax.jacfwd if "while" in model.__name__ else jax.grad

    @jax.jit
    def both(argument, values):
        draws = ppl.simulate(model)(key(0), argument)
        *latent, last = draws
        posterior = ppl.condition(model, {last: draws[last]})
        density = ppl.log_density(model)
        return [
            (derivative(f, (0, 1))(values, argument), f(values, argument), at_draws)
            for f, at_draws in (
                (density, ppl.log_density(posterior)({n: draws[n] for n in latent}, argument)),
                (by_hand, by_hand(draws, argument)),
            )
        ]

    for argument, values in points:
        ours, expected = both(*jax.tree.map(jnp.asarray, (argument, values)))
        assert_close(ours, expected)
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(ours))
