"""Adapters of distributions and bijectors of TensorFlow Probability (TFP)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.bijectors import Bijector
from distributions.combinators.tfp_precision import (
    default_bijector,
    in_default_precision,
    with_all_batch_axes,
)
from distributions.common.arrays import float_dtype, select
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape
from distributions.core.distribution_functions import ENDS


def as_distribution(owner: str, name: str, distribution: Any) -> Distribution:
    """A `Distribution` unchanged; a distribution of TFP as `FromTFP`.

    Raises:
        ValueError: `distribution` is neither; the message names the parameter `name` of `owner`.
    """
    if isinstance(distribution, Distribution):
        distribution._check_alignment()
        return distribution
    if hasattr(distribution, "experimental_default_event_space_bijector"):
        return FromTFP(with_all_batch_axes(in_default_precision(distribution)))
    raise ValueError(f"{owner}: {name} must be a Distribution; got {distribution!r}")


@pytree_dataclass
class _Map(Bijector):
    """A bijector of TFP."""

    base: Any

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.forward_min_event_ndims

    def forward(self, x: ArrayLike) -> Array:
        return self.base.forward(x)

    def inverse(self, y: ArrayLike) -> Array:
        return self.base.inverse(y)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        ndims = self.base.forward_min_event_ndims
        log_det = jnp.asarray(self.base.forward_log_det_jacobian(x, ndims))
        return jnp.broadcast_to(log_det, np.shape(x)[: np.ndim(x) - ndims])

    def forward_event_shape(self, shape: Shape) -> Shape:
        return tuple(self.base.forward_event_shape(shape))

    def inverse_event_shape(self, shape: Shape) -> Shape:
        return tuple(self.base.inverse_event_shape(shape))


def as_bijector(bijector: Any) -> Bijector:
    """A `Bijector` unchanged; a bijector of TFP wrapped as one."""
    return bijector if isinstance(bijector, Bijector) else _Map(in_default_precision(bijector))


@pytree_dataclass
class _Support(Constraint):
    """The support of a distribution of TFP: the image of its default bijector.

    A discrete distribution has no such bijector: its support is the integers of positive mass.
    """

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
        found = default_bijector(self.distribution)
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
    """A distribution of TFP in the form of a `Distribution`; the methods of `base` do the work."""

    base: Any

    @property
    def support(self) -> Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The image of the default bijector, or the integers of positive mass."""
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
        value = jnp.asarray(value, self.dtype)
        event_ndims = len(self.event_shape)
        inside = self.support.check(value)
        within = jnp.expand_dims(inside, tuple(range(-event_ndims, 0)))
        safe = select(within, value, self.support.feasible(self.event_shape))
        log_prob = self.base.log_prob(safe)
        return select(jnp.broadcast_to(inside, log_prob.shape), log_prob, -jnp.inf)

    def _sample(self, key: Array, shape: Shape) -> Array:
        from tensorflow_probability.substrates import jax as tfp

        batch = shape[: len(shape) - len(self.event_shape)]
        return tfp.distributions.BatchBroadcast(self.base, batch).sample(seed=key)

    def _moment(self, name: str) -> Array:
        return getattr(self.base, name)()

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        method = getattr(self.base, name.replace("survival", "survival_function"))
        value = jnp.asarray(value, float_dtype(value, jnp.zeros((), self.dtype)))
        value = jnp.floor(value) if self.support.is_discrete else value
        inside = self.support.check(value)
        point = self.support.feasible()
        result = method(select(inside, value, point).astype(self.dtype))
        before, after = ENDS[name]
        beyond = select(
            value < point, before, select(value > point, after, jnp.full_like(value, jnp.nan))
        )
        return select(jnp.broadcast_to(inside, result.shape), result, beyond)

    def __repr__(self) -> str:
        return f"FromTFP({self.base.name})"
