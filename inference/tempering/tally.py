r"""Tally of swaps: rejection rates, the log evidence by stepping stones, round trips.

With log likelihoods :math:`\ell` relative to the reference, a step of the ladder from
:math:`\beta` to :math:`\beta'` adds to the log evidence

.. math::
    \log \mathrm{E}_\beta\, e^{(\beta' - \beta) \ell}
    = -\log \mathrm{E}_{\beta'}\, e^{-(\beta' - \beta) \ell}

The estimate is the mean of both sides, whose biases have opposite signs.

References:
    Xie, Lewis, Fan, Kuo and Chen (2011), Improving marginal likelihood estimation for Bayesian
    phylogenetic model selection, Systematic Biology 60; Syed, Bouchard-Côté, Deligiannidis and
    Doucet (2022), on round trips and the barrier.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

_AT_TARGET = 1  # last end of the ladder where a replica has been
_FROM_TARGET = 2  # at the reference, and at the target before


class SwapTally(NamedTuple):
    """Sums over iterations on one ladder.

    Attributes:
        count: Number of iterations.
        rejections: Sums of the rejection rates of pairs of neighbors, ``(temperature - 1,)``.
        upward: Logarithms of the sums of weights from each temperature to the next colder one.
        downward: The same, to the next hotter one.
        num_round_trips: Trips of replicas from the target to the reference and back.
    """

    count: jax.Array
    rejections: jax.Array
    upward: jax.Array
    downward: jax.Array
    num_round_trips: jax.Array


def empty_tally(num_temperatures: int, dtype: jax.typing.DTypeLike) -> SwapTally:
    """Tally before the first iteration."""
    zeros = jnp.zeros(num_temperatures - 1, dtype)
    return SwapTally(jnp.zeros((), dtype), zeros, zeros - jnp.inf, zeros - jnp.inf, jnp.int32(0))


def observe(
    tally: SwapTally,
    ladder: jax.Array,
    log_likelihoods: jax.Array,
    swap_rates: jax.Array,
    num_round_trips: jax.Array,
) -> SwapTally:
    """Tally with one more iteration.

    Args:
        tally: Tally so far.
        ladder: Inverse temperatures.
        log_likelihoods: Log likelihoods at the temperatures.
        swap_rates: Acceptance rates of pairs of neighbors.
        num_round_trips: Round trips that end here.
    """
    steps = jnp.diff(ladder)
    return SwapTally(
        tally.count + 1,
        tally.rejections + 1 - swap_rates,
        jnp.logaddexp(tally.upward, steps * log_likelihoods[:-1]),
        jnp.logaddexp(tally.downward, -steps * log_likelihoods[1:]),
        tally.num_round_trips + num_round_trips,
    )


def rejection_rates(tally: SwapTally) -> jax.Array:
    """Mean rejection rates of pairs of neighbors."""
    return tally.rejections / jnp.maximum(tally.count, 1)


def log_evidence_of(tally: SwapTally) -> jax.Array:
    """Estimate of the log evidence, the mean of stepping stones in both directions."""
    log_count = jnp.log(tally.count)
    upward = jnp.sum(tally.upward - log_count)
    downward = -jnp.sum(tally.downward - log_count)
    return (upward + downward) / 2


def follow_replicas(legs: jax.Array, replicas: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Legs of the round trips of replicas, and the number of trips that end here.

    Args:
        legs: Leg of each replica.
        replicas: Replica at each temperature.
    """
    hottest = replicas[0]
    coldest = replicas[-1]
    is_end = legs[coldest] == _FROM_TARGET
    leaves = legs[hottest] == _AT_TARGET
    legs = legs.at[hottest].set(jnp.where(leaves, _FROM_TARGET, legs[hottest]))
    return legs.at[coldest].set(_AT_TARGET), is_end.astype(jnp.int32)
