"""Counts, or positive numbers, with other zeros than their own: ZeroInflated and Hurdle."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions._arrays import align, as_array, float_dtype, known, promote, select, stack
from distributions._pytree import pytree_dataclass
from distributions._rejection import first_accepted
from distributions.categories import Bernoulli, bernoulli_log_probs, bernoulli_probability
from distributions.constraints import Constraint, with_atoms
from distributions.distribution import Distribution, Shape
from distributions.special import log1mexp, open_uniform

_MOST_ROUNDS = 1 << 20  # Of draws until one is positive, which may be rare.


class _Gated(Distribution):
    """Either 0, by a gate, or a draw of a distribution of numbers, called a count."""

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    logits: ArrayLike | None
    probs: ArrayLike | None
    _whats = "integers"

    @staticmethod
    def _takes(support: Constraint) -> bool:
        return support.is_discrete

    def __post_init__(self) -> None:
        """Checks the gate, and that the distribution is one of numbers that it takes."""
        for name in ("logits", "probs"):
            vars(self)[name] = stack(vars(self)[name])
        d = self.distribution
        if not isinstance(d, Distribution) or d.event_shape or not self._takes(d.support):
            self._fail(f"distribution must be one of {self._whats}; got {d!r}")
        try:
            gate = self._gate
        except ValueError as error:
            self._fail(str(error).removeprefix("Bernoulli: "))
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = f"{gate.batch_shape} of the gate and {d.batch_shape} of the distribution"
            self._fail(f"the batch shapes {shapes} do not broadcast")

    def _fail(self, message: str) -> NoReturn:
        raise ValueError(f"{type(self).__name__}: {message}")

    @property
    def _gate(self) -> Bernoulli:
        return Bernoulli(self.logits, self.probs)

    @property
    def support(self) -> Constraint:
        """The integers from those of the distribution to 0."""
        support = self.distribution.support
        low = getattr(support, "low", None)
        if low is None or (isinstance(low, int) and low <= 0):
            return support
        least = jnp.minimum(low, 0) if known(low) is None else np.minimum(low, 0)
        return dataclasses.replace(support, low=least)  # pyright: ignore[reportArgumentType, reportCallIssue]

    @property
    def batch_shape(self) -> Shape:
        """The shapes of the gate and of the distribution, broadcast."""
        return np.broadcast_shapes(self._gate.batch_shape, self.distribution.batch_shape)

    @property
    def event_shape(self) -> Shape:
        """A draw is a number."""
        return ()

    @property
    def dtype(self) -> np.dtype:
        """That of the counts."""
        return self.distribution.dtype

    def _aligned(self, *arrays: ArrayLike) -> tuple[Array, ...]:
        """The log probabilities of 0 by the gate and of a count, and arrays of the same rank."""
        dtype = float_dtype(*jax.tree.leaves(self))
        log_count, log_gate = bernoulli_log_probs(*self._odds(dtype))
        return promote(log_gate, log_count, *arrays, dtype=dtype)

    def _odds(self, dtype: Any) -> tuple[Array | None, Array | None]:
        """The parameters of the gate as arrays."""
        given = self.logits, self.probs
        return tuple(None if x is None else as_array(x, dtype) for x in given)  # pyright: ignore

    def _moments(self) -> tuple[Array, ...]:
        """The log probability of a count, and the mean and the variance of counts."""
        d = self.distribution
        return self._aligned(d.mean(), d.variance())[1:]

    def _spread(self, x: Array) -> Array:
        return jnp.broadcast_to(x, self.batch_shape)


@jax.custom_jvp
def _log_open(gate: Array, log_part: Array) -> Array:
    """`log(gate + (1 - gate) exp(log_part))`, also for a gate of 0."""
    part, excess = _excess(log_part)
    return select(gate > 0, part + jnp.log1p(gate * excess), log_part)


def _excess(log_part: Array) -> tuple[Array, Array]:
    """`log_part`, no lower than what can be inverted, and `exp(-log_part) - 1`."""
    part = jnp.maximum(log_part, 3 - math.log(float(jnp.finfo(log_part.dtype).max)))
    return part, jnp.expm1(-part)


@_log_open.defjvp
def _log_open_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    gate, log_part = primals
    excess = _excess(log_part)[1]
    dot = (1 - gate) * tangents[1] + excess * tangents[0]
    return _log_open(*primals), dot / (1 + gate * excess)


@pytree_dataclass(eq=False, repr=False)
class ZeroInflated(_Gated):
    r"""Mixture of 0 and a distribution of counts.

    `p(0) = probs + (1 - probs) f(0)` and `p(k) = (1 - probs) f(k)` for other `k`, where `f` is the
    mass of `distribution`.

    Args:
        distribution: Any distribution of integers.
        logits: The log odds of a 0 by the gate.
        probs: The probability of it, 0 and 1 included; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.ZeroInflated(dist.Poisson(2.0), probs=0.5).log_prob(0)), 4)
    -0.5662

    References:
        D. Lambert, "Zero-inflated Poisson regression, with an application to defects in
        manufacturing", Technometrics 34 (1992), 1-14.
    """

    distribution: Distribution
    logits: ArrayLike | None = None
    probs: ArrayLike | None = None

    def _mixed(self, log_rest: Array, log_part: Array, is_zero: Array) -> Array:
        """The log probability of an event to which 0 belongs or not.

        Given are those by the counts: of an event without 0, and of one with it.
        """
        probability = bernoulli_probability(*self._odds(log_part.dtype))
        parts = self._aligned(log_rest, log_part, probability)
        log_gate, log_count, log_rest, log_part, gate = parts
        rest = select(log_rest == -jnp.inf, -jnp.inf, log_count + log_rest)
        shape = np.broadcast_shapes(gate.shape, log_part.shape)
        opened = _log_open(*(jnp.broadcast_to(x, shape) for x in (gate, log_part)))
        if self.probs is None:  # Of odds below the smallest probability.
            opened = jnp.maximum(opened, log_gate)
        return select(is_zero, opened, rest)

    def _log_prob(self, value: ArrayLike) -> Array:
        log_prob, x = promote(self.distribution.log_prob(value), value)
        is_zero = align(x, 0, len(self.batch_shape)) == 0
        return self._mixed(log_prob, log_prob, is_zero)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        log_gate, log_count, x = self._aligned(value)
        part = getattr(self.distribution, name)(value)
        holds_zero = x >= 0 if name.endswith("cdf") else x < 0
        if name.startswith("log_"):
            return self._mixed(part, part, holds_zero)
        log_gate, log_count, part = self._aligned(part)
        return jnp.exp(log_count) * part + select(holds_zero, jnp.exp(log_gate), 0)

    def _sample(self, key: Array, shape: Shape) -> Array:
        gate_key, key = random.split(key)
        draws = self.distribution._sample(key, shape)
        return select(self._gate._sample(gate_key, shape) == 1, 0, draws)

    def _moment(self, name: str) -> Array:
        if name == "entropy":
            self._lacks(name)
        return {"mean": self._mean, "variance": self._variance, "mode": self._mode}[name]()

    def _mean(self) -> Array:
        """Mean of the counts, times the probability of one."""
        log_count, mean, _ = self._moments()
        return self._spread(jnp.exp(log_count) * mean)

    def _variance(self) -> Array:
        """Mean of the variances, and variance of the means, by whether it is a count."""
        log_count, mean, variance = self._moments()
        between = -jnp.expm1(log_count) * jnp.square(mean)
        return self._spread(jnp.exp(log_count) * (variance + between))

    def _mode(self) -> Array:
        """Zero or the mode of the counts."""
        mode = jnp.broadcast_to(self.distribution.mode(), self.batch_shape)
        return select(self.log_prob(mode) > self.log_prob(0), mode, 0)


@pytree_dataclass(eq=False, repr=False)
class Hurdle(_Gated):
    r"""Zeros by a gate alone, and otherwise positive counts or positive numbers.

    `p(0) = probs` and `p(k) = (1 - probs) f(k) / (1 - f(0))` for `k = 1, 2, ...`, where `f` is the
    mass of `distribution`. Draws are those of the quantile; where the counts have none, they are
    drawn until they are positive.

    Of a continuous distribution, `p(0) = probs` is a probability and `p(x) = (1 - probs) f(x)` for
    `x > 0` a density: such values can be observed, but no sampler over unconstrained space can
    move between 0 and the others.

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
    logits: ArrayLike | None = None
    probs: ArrayLike | None = None

    _whats = "nonnegative integers or positive numbers"

    @staticmethod
    def _takes(support: Constraint) -> bool:
        low = known(getattr(support, "low", -1))
        return low is None or not np.any(low < 0)

    @property
    def _is_count(self) -> bool:
        return self.distribution.support.is_discrete

    @property
    def support(self) -> Constraint:
        """The support of the distribution, and 0."""
        return super().support if self._is_count else with_atoms(self.distribution.support, 0.0)

    @property
    def is_reparameterized(self) -> bool:
        """A draw jumps where the gate opens."""
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
        log_gate, log_count, log_prob, log_positive, x = self._aligned(*parts)
        positive = log_count + log_prob - log_positive
        positive = select(log_prob == -jnp.inf, -jnp.inf, positive)
        return select(x == 0, log_gate, positive)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        parts = self.distribution.log_survival(value), self._log_positive(), value
        _, log_count, log_survival, log_positive, x = self._aligned(*parts)
        above = select(x < 0, 0, jnp.minimum(log_count + log_survival - log_positive, 0))
        return {
            "survival": jnp.exp,
            "log_survival": lambda x: x,
            "cdf": lambda x: -jnp.expm1(x),
            "log_cdf": log1mexp,
        }[name](above)

    def _quantile(self, q: Array) -> Array:
        if self._is_count:
            return super()._quantile(q)
        q = jnp.broadcast_to(q, np.broadcast_shapes(q.shape, self.batch_shape))
        log_gate, log_count, q = self._aligned(q)
        excess, rest = q - jnp.exp(log_gate), jnp.exp(log_count)
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

        return select(zero, 0, first_accepted(propose, key, shape, self.dtype, -1, _MOST_ROUNDS))

    def _scaled(self) -> tuple[Array, ...]:
        """The factor of the counts' moments, and those."""
        d = self.distribution
        parts = self._aligned(self._log_positive(), d.mean(), d.variance())
        _, log_count, log_positive, mean, variance = parts
        return jnp.exp(log_count - log_positive), mean, variance

    def _moment(self, name: str) -> Array:
        if name == "mode" or (name == "entropy" and self._is_count):
            self._lacks(name)
        moments = {"mean": self._mean, "variance": self._variance, "entropy": self._entropy}
        return self._spread(moments[name]())

    def _mean(self) -> Array:
        """Mean of the positive counts, times the probability of one."""
        factor, mean, _ = self._scaled()
        return factor * mean

    def _variance(self) -> Array:
        """Variance, from the second moment of the counts."""
        factor, mean, variance = self._scaled()
        return factor * (variance + (1 - factor) * jnp.square(mean))

    def _entropy(self) -> Array:
        """Entropy of the gate and of the positive numbers."""
        parts = self._aligned(self._gate.entropy(), self.distribution.entropy())
        _, log_count, gate, entropy = parts
        return gate + jnp.exp(log_count) * entropy
