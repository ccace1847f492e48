r"""Ladder of inverse temperatures, with equal rejection rates between neighbors.

References:
    Syed, Bouchard-Côté, Deligiannidis and Doucet (2022), Non-reversible parallel tempering: a
    scalable highly parallel MCMC scheme, JRSS B 84.
"""

import jax
import jax.numpy as jnp

_POWER = 3  # near 0, the rejection rate grows fast with the inverse temperature
_MIN_REJECTION = 1e-3  # of a pair, so that inverse temperatures stay apart


def first_ladder(num_temperatures: int, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Inverse temperatures before warm-up, from 0 (the reference) to 1 (the target)."""
    return jnp.linspace(0, 1, num_temperatures, dtype=dtype) ** _POWER


def spread_evenly(ladder: jax.Array, rejection_rates: jax.Array) -> jax.Array:
    """Ladder whose neighbors have equal rejection rates, by the rates of a ladder so far.

    The cumulative sum of the rates estimates the communication barrier from the reference to each
    inverse temperature, whatever the ladder. It is inverted at equal distances, with straight lines
    between the cube roots of inverse temperatures.

    Args:
        ladder: Inverse temperatures, ``(temperature,)``.
        rejection_rates: Mean rejection rates of pairs of neighbors, ``(temperature - 1,)``.
    """
    rates = jnp.maximum(rejection_rates, _MIN_REJECTION)
    barrier = jnp.concatenate([jnp.zeros_like(rates[:1]), jnp.cumsum(rates)])
    wanted = jnp.linspace(0, barrier[-1], ladder.size, dtype=ladder.dtype)
    roots = jnp.interp(wanted, barrier, ladder ** (1 / _POWER))
    return (roots**_POWER).at[0].set(0).at[-1].set(1)


def swap_rates(ladder: jax.Array, log_likelihoods: jax.Array) -> jax.Array:
    """Probabilities with which neighbors accept to swap their positions, ``(temperature - 1,)``.

    Args:
        ladder: Inverse temperatures, ``(temperature,)``.
        log_likelihoods: Log densities of the target relative to the reference at the positions.
    """
    change = jnp.diff(ladder) * (log_likelihoods[:-1] - log_likelihoods[1:])
    return jnp.where(jnp.isnan(change), 0, jnp.exp(jnp.minimum(change, 0)))


def swapped_order(is_swapped: jax.Array) -> jax.Array:
    """Place from which each temperature takes its position, ``(temperature,)``.

    Args:
        is_swapped: Whether each pair of neighbors swaps; pairs that do have no place in common.
    """
    steps = is_swapped.astype(jnp.int32)
    zero = jnp.zeros(1, jnp.int32)
    upward = jnp.concatenate([steps, zero])
    downward = jnp.concatenate([zero, steps])
    return jnp.arange(upward.size, dtype=jnp.int32) + upward - downward
