"""TensorFlow Probability's own distributions as distributions of ours."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions._pytree import pytree_dataclass
from distributions.bijectors import Bijector
from distributions.constraints import Constraint
from distributions.distribution import Distribution, Shape


def as_distribution(owner: str, name: str, distribution: Any) -> Distribution:
    """`distribution`, one of TensorFlow Probability's in the form of ours.

    Raises:
        ValueError: It is neither; `owner` and `name` say whose part it was to be.
    """
    if isinstance(distribution, Distribution):
        return distribution
    if hasattr(distribution, "experimental_default_event_space_bijector"):
        return FromTFP(distribution)
    raise ValueError(f"{owner}: {name} must be a Distribution; got {distribution!r}")


@pytree_dataclass
class _Map(Bijector):
    """One of TensorFlow Probability's bijectors."""

    base: Any

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.forward_min_event_ndims

    def forward(self, x: ArrayLike) -> Array:
        return self.base.forward(x)

    def inverse(self, y: ArrayLike) -> Array:
        return self.base.inverse(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        return self.base.forward_log_det_jacobian(x, self.base.forward_min_event_ndims)

    def forward_event_shape(self, shape: Shape) -> Shape:
        return tuple(self.base.forward_event_shape(shape))

    def inverse_event_shape(self, shape: Shape) -> Shape:
        return tuple(self.base.inverse_event_shape(shape))


def as_bijector(bijector: Any) -> Bijector:
    """`bijector`, one of TensorFlow Probability's in the form of ours."""
    return bijector if isinstance(bijector, Bijector) else _Map(bijector)


@pytree_dataclass
class _Support(Constraint):
    """The values to which the default bijector of a distribution maps back."""

    distribution: Any
    description = "in the support"

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.distribution.event_shape)

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.distribution.experimental_default_event_space_bijector() is None

    @property
    def bijector(self) -> Bijector:  # pyright: ignore[reportIncompatibleVariableOverride]
        found = self.distribution.experimental_default_event_space_bijector()
        if found is None:
            raise NotImplementedError(f"{self.distribution.name} is discrete")
        return _Map(found)

    def check(self, value: Any) -> Any:
        value = jnp.asarray(value)
        first = value.ndim - self.event_ndims
        if self.is_discrete:
            whole = jnp.isfinite(value) & (value == jnp.floor(value))
            is_whole = whole.all(tuple(range(first, value.ndim)))
            return is_whole & jnp.isfinite(self.distribution.log_prob(value))
        position = self.bijector.inverse(value)
        return jnp.isfinite(position).all(tuple(range(first, position.ndim)))

    def feasible(self, shape: Shape = ()) -> Any:
        if self.is_discrete:
            return jnp.zeros(shape, self.distribution.dtype)
        position = jnp.zeros(self.bijector.inverse_event_shape(shape), self.distribution.dtype)
        return self.bijector.forward(position)


@pytree_dataclass(eq=False, repr=False)
class FromTFP(Distribution):
    """A distribution of TensorFlow Probability, whose methods do the work."""

    base: Any

    @property
    def support(self) -> Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The set of values to which the default bijector maps back."""
        return _Support(self.base)

    @property
    def is_reparameterized(self) -> bool:
        """Whether draws are differentiable functions of the parameters."""
        return "FULLY" in str(self.base.reparameterization_type)

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent distributions."""
        return tuple(self.base.batch_shape)

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution."""
        return tuple(self.base.event_shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        return np.dtype(self.base.dtype)

    def _log_prob(self, value: ArrayLike) -> Array:
        return self.base.log_prob(jnp.asarray(value, self.dtype))

    def _sample(self, key: Array, shape: Shape) -> Array:
        own = self.batch_shape + self.event_shape
        return self.base.sample(shape[: len(shape) - len(own)], seed=key)

    def _moment(self, name: str) -> Array:
        return getattr(self.base, name)()

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        theirs = name.replace("survival", "survival_function")
        return getattr(self.base, theirs)(jnp.asarray(value, self.dtype))

    def __repr__(self) -> str:
        return f"FromTFP({self.base.name})"
