"""Zero-inflated counts."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions.combinators.gated import Gated
from distributions.common.arrays import align, promote, select
from distributions.common.pytree import pytree_dataclass
from distributions.core.distribution import Distribution, Shape
from distributions.numerics.bernoulli_functions import bernoulli_probability


@jax.custom_jvp
def _log_open(gate: Array, log_part: Array) -> Array:
    """`log(gate + (1 - gate) exp(log_part))`, also for a gate of 0."""
    part, excess = _excess(log_part)
    return select(gate > 0, part + jnp.log1p(gate * excess), log_part)


def _excess(log_part: Array) -> tuple[Array, Array]:
    """`log_part`, clipped so that `exp(-log_part)` is finite, and `exp(-log_part) - 1`."""
    part = jnp.maximum(log_part, 3 - math.log(float(jnp.finfo(log_part.dtype).max)))
    return part, jnp.expm1(-part)


@_log_open.defjvp
def _log_open_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    gate, log_part = primals
    excess = _excess(log_part)[1]
    dot = (1 - gate) * tangents[1] + excess * tangents[0]
    return _log_open(*primals), dot / (1 + gate * excess)


@pytree_dataclass(eq=False, repr=False)
class ZeroInflated(Gated):
    r"""Mixture of 0 and a distribution of counts.

    `p(0) = probs + (1 - probs) f(0)` and `p(k) = (1 - probs) f(k)` for other `k`, where `f` is the
    mass of `distribution`.

    Args:
        distribution: Any distribution of integers.
        logits: The log odds of a 0 by the gate.
        probs: The probability of a 0 by the gate, 0 and 1 included; exactly one of the two is
            given.

    >>> import distributions as dist
    >>> round(float(dist.ZeroInflated(dist.Poisson(2.0), probs=0.5).log_prob(0)), 4)
    -0.5662

    References:
        D. Lambert, "Zero-inflated Poisson regression, with an application to defects in
        manufacturing", Technometrics 34 (1992), 1-14.
    """

    distribution: Distribution
    _: KW_ONLY
    logits: ArrayLike | None = None
    probs: ArrayLike | None = None

    def _mix(self, log_rest: Array, log_part: Array, is_zero: Array) -> Array:
        """The log probability of an event, by whether 0 belongs to it.

        `log_rest` and `log_part` are its log probabilities under the counts: without 0, and with 0.
        """
        probability = bernoulli_probability(*self._odds(log_part.dtype))
        parts = self._align_with_gate(log_rest, log_part, probability)
        log_gate, log_count, log_rest, log_part, gate = parts
        rest = select(log_rest == -jnp.inf, -jnp.inf, log_count + log_rest)
        shape = np.broadcast_shapes(gate.shape, log_part.shape)
        opened = _log_open(*(jnp.broadcast_to(x, shape) for x in (gate, log_part)))
        if self.probs is None:  # For odds whose probability underflows.
            opened = jnp.maximum(opened, log_gate)
        return select(is_zero, opened, rest)

    def _log_prob(self, value: ArrayLike) -> Array:
        log_prob, x = promote(self.distribution.log_prob(value), value)
        is_zero = align(x, 0, len(self.batch_shape)) == 0
        return self._mix(log_prob, log_prob, is_zero)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        part = getattr(self.distribution, name)(value)
        gate, count, part, x = self._chances(part, value)
        holds_zero = x >= 0 if name.endswith("cdf") else x < 0
        if name.startswith("log_"):
            return self._mix(part, part, holds_zero)
        return count * part + select(holds_zero, gate, 0)

    def _sample(self, key: Array, shape: Shape) -> Array:
        gate_key, key = random.split(key)
        draws = self.distribution._sample(key, shape)
        return select(self._gate._sample(gate_key, shape) == 1, 0, draws)

    def _moment(self, name: str) -> Array:
        if name == "entropy":
            self._lacks(name)
        return {"mean": self._mean, "variance": self._variance, "mode": self._mode}[name]()

    def _mean(self) -> Array:
        """The mean of the counts, times the probability of a count."""
        _, count, mean, _ = self._moments()
        return self._broadcast_to_batch(count * mean)

    def _variance(self) -> Array:
        """The law of total variance: the mean of the variances plus the variance of the means."""
        gate, count, mean, variance = self._moments()
        return self._broadcast_to_batch(count * (variance + gate * jnp.square(mean)))

    def _mode(self) -> Array:
        """The mode of the counts, or 0 if it is more probable."""
        mode = jnp.broadcast_to(self.distribution.mode(), self.batch_shape)
        return select(self.log_prob(mode) > self.log_prob(0), mode, 0)
