"""Gated distributions, the base of `ZeroInflated` and `Hurdle`: 0 by a gate, or a draw."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import as_array, as_host_array, float_dtype, promote, stack
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape
from distributions.discrete.bernoulli import Bernoulli
from distributions.numerics.bernoulli_functions import bernoulli_log_probs
from distributions.numerics.binomial_functions import success_and_failure_probs


class Gated(Distribution):
    """A draw is 0 by a Bernoulli gate, or a draw of a distribution of numbers, called a count."""

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    logits: ArrayLike | None
    probs: ArrayLike | None
    _whats = "integers"

    @staticmethod
    def _takes(support: Constraint) -> bool:
        return support.is_discrete

    def __post_init__(self) -> None:
        """Checks the gate, the kind of the distribution, and the shapes."""
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
        return Bernoulli(logits=self.logits, probs=self.probs)

    @property
    def support(self) -> Constraint:
        """The support of the distribution, extended to 0."""
        support = self.distribution.support
        low = getattr(support, "low", None)
        if low is None or (isinstance(low, int) and low <= 0):
            return support
        least = jnp.minimum(low, 0) if as_host_array(low) is None else np.minimum(low, 0)
        return dataclasses.replace(support, low=least)  # pyright: ignore[reportArgumentType, reportCallIssue]

    @property
    def batch_shape(self) -> Shape:
        """The batch shapes of the gate and of the distribution, broadcast."""
        return np.broadcast_shapes(self._gate.batch_shape, self.distribution.batch_shape)

    @property
    def event_shape(self) -> Shape:
        """The shape of a number, `()`."""
        return ()

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the counts."""
        return self.distribution.dtype

    def _align_with_gate(self, *arrays: ArrayLike) -> tuple[Array, ...]:
        """The log probabilities of 0 by the gate and of a count, and the arrays, of one rank."""
        dtype = float_dtype(*jax.tree.leaves(self))
        log_count, log_gate = bernoulli_log_probs(*self._odds(dtype))
        return promote(log_gate, log_count, *arrays, dtype=dtype)

    def _odds(self, dtype: Any) -> tuple[Array | None, Array | None]:
        """The parameters of the gate as arrays."""
        given = self.logits, self.probs
        return tuple(None if x is None else as_array(x, dtype) for x in given)  # pyright: ignore

    def _chances(self, *arrays: ArrayLike) -> tuple[Array, ...]:
        """The probabilities of 0 by the gate and of a count, and the arrays, of one rank.

        Unlike exponentials of logarithms, probabilities of 0 have slopes.
        """
        dtype = float_dtype(*jax.tree.leaves(self))
        return promote(*success_and_failure_probs(*self._odds(dtype)), *arrays, dtype=dtype)

    def _moments(self) -> tuple[Array, ...]:
        """The probabilities of 0 and of a count, and the mean and the variance of counts."""
        d = self.distribution
        return self._chances(d.mean(), d.variance())

    def _broadcast_to_batch(self, x: Array) -> Array:
        return jnp.broadcast_to(x, self.batch_shape)
