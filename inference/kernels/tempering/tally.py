r"""Tally of swaps: rejection rates, the log evidence by stepping stones, round trips.

With log likelihoods :math:`\ell` relative to the reference, a step of the ladder from
:math:`\beta` to :math:`\beta' > \beta` adds to the log evidence

.. math::
    \log \mathrm{E}_\beta\, e^{(\beta' - \beta) \ell}
    = \log \mathrm{P}_\beta(\ell > -\infty)
    - \log \mathrm{E}_{\beta'}\, e^{-(\beta' - \beta) \ell}

The probability is 1 but at the reference: colder temperatures never are where the likelihood is 0,
so the expectation at :math:`\beta'` misses what the reference has there. The estimate is the mean
of both sides, whose biases have opposite signs.

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


class WeightSum(NamedTuple):
    """Sums of weights, which are kept relative to the largest of them.

    The logarithm of a sum may be so large that it would not change by one more weight.

    Attributes:
        largest: Logarithms of the largest weights so far.
        relative: Sums of weights over the largest.
    """

    largest: jax.Array
    relative: jax.Array


class SwapTally(NamedTuple):
    """Sums over iterations on one ladder.

    Attributes:
        count: Number of iterations.
        rejections: Sums of the rejection rates of pairs of neighbors, ``(temperature - 1,)``.
        num_possible: Numbers of positions with a likelihood above 0, at each temperature but the
            target's.
        upward: Sums of weights from each temperature to the next colder one.
        downward: The same, to the next hotter one.
        num_round_trips: Trips of replicas from the target to the reference and back.
    """

    count: jax.Array
    rejections: jax.Array
    num_possible: jax.Array
    upward: WeightSum
    downward: WeightSum
    num_round_trips: jax.Array


def empty_tally(num_temperatures: int, dtype: jax.typing.DTypeLike) -> SwapTally:
    """Tally before the first iteration."""
    zeros = jnp.zeros(num_temperatures - 1, dtype)
    empty = WeightSum(zeros - jnp.inf, zeros)
    return SwapTally(jnp.zeros((), dtype), zeros, zeros, empty, empty, jnp.int32(0))


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
    is_possible = log_likelihoods > -jnp.inf
    finite = jnp.where(is_possible, log_likelihoods, 0)  # no product of 0 and infinity
    upward = jnp.where(is_possible[:-1], steps * finite[:-1], -jnp.inf)
    downward = jnp.where(is_possible[1:], -steps * finite[1:], -jnp.inf)
    return SwapTally(
        tally.count + 1,
        tally.rejections + 1 - swap_rates,
        tally.num_possible + is_possible[:-1].astype(tally.num_possible.dtype),
        _add_weight(tally.upward, upward),
        _add_weight(tally.downward, downward),
        tally.num_round_trips + num_round_trips,
    )


def rejection_rates(tally: SwapTally) -> jax.Array:
    """Mean rejection rates of pairs of neighbors."""
    return tally.rejections / jnp.maximum(tally.count, 1)


def log_evidence_of(tally: SwapTally) -> jax.Array:
    """Estimate of the log evidence, the mean of stepping stones in both directions."""
    upward = jnp.sum(_log_mean(tally.upward, tally.count))
    possible = jnp.log(tally.num_possible / tally.count)
    downward = jnp.sum(possible - _log_mean(tally.downward, tally.count))
    return (upward + downward) / 2


def _add_weight(total: WeightSum, log_weight: jax.Array) -> WeightSum:
    """Sums with one more weight each, which may be 0."""
    largest = jnp.maximum(total.largest, log_weight)
    base = jnp.where(largest > -jnp.inf, largest, 0)
    relative = total.relative * jnp.exp(total.largest - base) + jnp.exp(log_weight - base)
    return WeightSum(largest, relative)


def _log_mean(total: WeightSum, count: jax.Array) -> jax.Array:
    """Logarithms of mean weights."""
    return total.largest + jnp.log(total.relative / count)


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
