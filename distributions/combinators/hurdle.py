"""Hurdle distributions: zeros by a gate alone, and otherwise positive counts or numbers."""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.combinators.gated import Gated
from distributions.common.arrays import as_host_array, float_dtype, promote, select
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint, with_atoms
from distributions.core.distribution import Distribution, Shape
from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import (
    complement_of_exp,
    log1mexp,
    open_uniform,
)

_MAX_ROUNDS = 1 << 20  # Rounds of draws until all are positive; positive draws may be rare.


@pytree_dataclass(eq=False, repr=False)
class Hurdle(Gated):
    r"""Hurdle model: zeros by a gate alone, and otherwise positive counts or positive numbers.

    `p(0) = probs` and `p(k) = (1 - probs) f(k) / (1 - f(0))` for `k = 1, 2, ...`, where `f` is the
    mass of `distribution`. Draws are quantiles of uniform numbers; counts without a quantile are
    drawn until they are positive.

    For a continuous distribution, `p(0) = probs` is a probability, and `p(x) = (1 - probs) f(x)`
    for `x > 0` is a density. Such values can be observed, but no sampler over unconstrained space
    can move between 0 and the others.

    Args:
        distribution: A distribution of nonnegative integers, or of positive numbers.
        logits: The log odds of 0.
        probs: The probability of 0, 0 and 1 included; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.Hurdle(dist.Poisson(2.0), probs=0.5).log_prob(1)), 4)
    -1.8546
    >>> rain = dist.Hurdle(dist.Gamma(2.0, 1.0), probs=0.5)
    >>> print(rain.log_prob(jnp.array([0.0, 1.0])).round(4))
    [-0.6931 -1.6931]

    References:
        J. Mullahy, "Specification and testing of some modified count data models", Journal of
        Econometrics 33 (1986), 341-365.
    """

    distribution: Distribution
    _: KW_ONLY
    logits: ArrayLike | None = None
    probs: ArrayLike | None = None

    _whats = "nonnegative integers or positive numbers"

    @staticmethod
    def _takes(support: Constraint) -> bool:
        low = as_host_array(getattr(support, "low", -1))
        return low is None or not np.any(low < 0)

    @property
    def _is_count(self) -> bool:
        return self.distribution.support.is_discrete

    @property
    def support(self) -> Constraint:
        """The support of the distribution, with 0 added."""
        return super().support if self._is_count else with_atoms(self.distribution.support, 0.0)

    @property
    def is_reparameterized(self) -> bool:
        """Always false: a draw jumps where the gate opens."""
        return False

    def _log_positive(self) -> ArrayLike:
        """The log probability that a count is positive; 0 for counts that never are."""
        if not self._is_count:
            return 0.0
        log_zero = self.distribution.log_prob(0)
        return select(log_zero < 0, log1mexp(select(log_zero < 0, log_zero, -1)), 0)

    def _log_prob(self, value: ArrayLike) -> Array:
        given = value
        if not self._is_count:  # The density at 0 may be infinite.
            x, point = promote(value, self.distribution.support.feasible())
            given = select(x == 0, point, x)
        parts = self.distribution.log_prob(given), self._log_positive(), value
        log_gate, log_count, log_prob, log_positive, x = self._align_with_gate(*parts)
        positive = log_count + log_prob - log_positive
        positive = select(log_prob == -jnp.inf, -jnp.inf, positive)
        return select(x == 0, log_gate, positive)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        parts = self.distribution.log_survival(value), self._log_positive(), value
        _, log_count, log_survival, log_positive, x = self._align_with_gate(*parts)
        log_share = log_survival - log_positive
        log_share = log_share - lax.stop_gradient(jnp.maximum(log_share, 0))  # With its slopes.
        above = select(x < 0, 0, log_count + log_share)
        if name.startswith("log_"):
            return above if name == "log_survival" else log1mexp(above)
        # The chance of a count itself has a slope where it is 0; its logarithm has none.
        _, count, share = self._chances(jnp.exp(log_share))
        survival = select(x < 0, 1, count * share)
        if name == "survival":
            return survival
        return select(
            jnp.broadcast_to(count > 0, above.shape), complement_of_exp(above), 1 - survival
        )

    def _quantile(self, q: Array) -> Array:
        if self._is_count:
            return super()._quantile(q)
        q = jnp.broadcast_to(q, np.broadcast_shapes(q.shape, self.batch_shape))
        log_gate, log_count, q = self._align_with_gate(q)
        excess = q - jnp.exp(log_gate)
        rest = jnp.exp(log_count)
        above = excess > 0
        inner = select(above, excess / select(above, rest, 1), 0.5)
        positive = self.distribution.quantile(jnp.minimum(inner, 1))
        return select((q >= 0) & (q <= 1), select(above, positive, 0), jnp.nan)

    def _sample(self, key: Array, shape: Shape) -> Array:
        if not self._is_count:
            gate_key, key = random.split(key)
            draws = self.distribution._sample(key, shape)
            return select(self._gate._sample(gate_key, shape) == 1, 0, draws)
        dtype = float_dtype(*jax.tree.leaves(self))
        try:
            return self._quantile(open_uniform(key, shape, dtype)).astype(self.dtype)
        except NotImplementedError:
            return self._rejection(key, shape)

    def _rejection(self, key: Array, shape: Shape) -> Array:
        gate_key, key = random.split(key)
        zero = self._gate._sample(gate_key, shape) == 1

        def propose(key: Array) -> tuple[Array, Array]:
            found = self.distribution._sample(key, shape)
            return found, zero | (found > 0)

        return select(
            zero, 0, draw_first_accepted(propose, key, shape, self.dtype, -1, _MAX_ROUNDS)
        )

    def _scale_moments(self) -> tuple[Array, ...]:
        """The factor of the counts' moments, their mean and their variance."""
        d = self.distribution
        _, count, log_positive, *moments = self._chances(
            self._log_positive(), d.mean(), d.variance()
        )
        return count * jnp.exp(-log_positive), *moments

    def _moment(self, name: str) -> Array:
        if name == "mode" or (name == "entropy" and self._is_count):
            self._lacks(name)
        moments = {"mean": self._mean, "variance": self._variance, "entropy": self._entropy}
        return self._broadcast_to_batch(moments[name]())

    def _mean(self) -> Array:
        """The mean of the positive counts, times the probability of a positive count."""
        factor, mean, _ = self._scale_moments()
        return factor * mean

    def _variance(self) -> Array:
        """The variance, from the second moment of the counts."""
        factor, mean, variance = self._scale_moments()
        return factor * (variance + (1 - factor) * jnp.square(mean))

    def _entropy(self) -> Array:
        """The entropy of the gate plus the entropy of positive numbers times their probability."""
        parts = self._chances(self._gate.entropy(), self.distribution.entropy())
        _, count, of_gate, entropy = parts
        return of_gate + count * entropy
