"""Base classes of distributions that wrap another one, and checks of their bounds."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.combinators.tfp import as_distribution
from distributions.common.arrays import as_host_array, promote, stack
from distributions.constraints import Constraint, extended_real
from distributions.constraints.base import bounds as bounds
from distributions.core.distribution import Distribution, Shape
from distributions.core.parameter_checks import check_parameter
from distributions.core.row import Parameter


class DerivedDistribution(Distribution):
    """A distribution made of `distribution`, with its support, shapes and dtype by default."""

    distribution: Distribution

    def __post_init__(self) -> None:
        """Wraps a distribution of TensorFlow Probability, and checks the parts."""
        inner = as_distribution(type(self).__name__, "distribution", self.distribution)
        object.__setattr__(self, "distribution", inner)
        self._check()

    def _check(self) -> None:
        """Raises ValueError for parts that do not fit."""

    def _fail(self, message: str) -> NoReturn:
        raise ValueError(f"{type(self).__name__}: {message}")

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        return self.distribution.support

    @property
    def is_reparameterized(self) -> bool:
        """Whether draws are differentiable functions of the parameters."""
        return self.distribution.is_reparameterized and not self.support.is_discrete

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent distributions that the parameters hold."""
        return self.distribution.batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution."""
        return self.distribution.event_shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        return self.distribution.dtype


def check_numbers(wrapper: DerivedDistribution) -> None:
    """Raises ValueError unless draws of the wrapped distribution are numbers without atoms."""
    d = wrapper.distribution
    if d.event_shape:
        wrapper._fail(f"distribution must be of numbers; got draws of shape {d.event_shape}")
    if d.support.has_atoms:
        wrapper._fail(f"distribution must not have atoms; got {d!r}")


class DistributionWithBounds(DerivedDistribution):
    """A distribution of numbers that is cut, censored or rounded at two bounds."""

    low: ArrayLike
    high: ArrayLike

    def _check(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, stack(getattr(self, name)))
        check_numbers(self)
        check_bounds(self, self.low, self.high, equal=self._may_be_equal)

    @property
    def _may_be_equal(self) -> bool:
        """Whether the bounds may be one number."""
        return self.distribution.support.is_discrete

    def _check_whole(self) -> None:
        """Raises ValueError unless the bounds are integers or infinite."""
        for name in ("low", "high"):
            bound = as_host_array(getattr(self, name))
            if bound is not None and not np.all(np.isinf(bound) | (bound == np.round(bound))):
                self._fail(f"{name} must be an integer, as the draws are; got {bound}")

    @property
    def batch_shape(self) -> Shape:
        """The batch shape of the distribution, broadcast with the bounds."""
        shapes = np.shape(self.low), np.shape(self.high)
        return np.broadcast_shapes(self.distribution.batch_shape, *shapes)


def check_bounds(wrapper: DerivedDistribution, low: Any, high: Any, *, equal: bool) -> None:
    """Raises ValueError for bounds that are not numbers, in a wrong order, or do not broadcast."""
    name = type(wrapper).__name__
    for which, bound, none in (("low", low, "-inf"), ("high", high, "inf")):
        if bound is None:
            wrapper._fail(
                f"{which} must be a number; got None. Leave it out for none, or give {none}"
            )
        check_parameter(name, Parameter(which, extended_real, 0), bound)
    try:
        np.broadcast_shapes(wrapper.distribution.batch_shape, np.shape(low), np.shape(high))
    except ValueError:
        shapes = f"low {np.shape(low)}, high {np.shape(high)}"
        batch = wrapper.distribution.batch_shape
        wrapper._fail(f"the bounds do not broadcast with batch_shape {batch}: {shapes}")
    a = as_host_array(low)
    b = as_host_array(high)
    if a is None or b is None:
        return
    if not np.all(a <= b if equal else a < b):
        wrapper._fail(f"low must be {'at most' if equal else 'less than'} high; got {a} and {b}")


def extreme(function: str, x: Any, y: Any) -> Any:
    """`minimum` or `maximum` of two bounds, on the host where both are known."""
    a = as_host_array(x)
    b = as_host_array(y)
    if a is not None and b is not None:
        result = getattr(np, function)(a, b)
        return result.item() if result.ndim == 0 else result
    return getattr(jnp, function)(*promote(x, y))


def fields(distribution: Distribution) -> tuple[str, ...]:
    """The names of the parts of a distribution."""
    return tuple(f.name for f in dataclasses.fields(distribution))  # pyright: ignore[reportArgumentType]


def as_batch(x: Array, batch_shape: Shape, event_ndims: int = 0) -> Array:
    """`x` broadcast over the batch, its last `event_ndims` axes kept."""
    event = x.shape[x.ndim - event_ndims :]
    return jnp.broadcast_to(x, np.broadcast_shapes(x.shape, batch_shape + event))
