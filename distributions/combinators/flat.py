"""The improper prior that is constant on a support."""

from __future__ import annotations

from typing import ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import align, float_dtype
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import Constraint
from distributions.constraints.base import check_bounds
from distributions.core.distribution import Distribution, Shape


@pytree_dataclass(eq=False, repr=False)
class Flat(Distribution):
    r"""Improper prior that is constant on a support.

    `p(x) = 1` for `x` in the support, a measure whose total may be infinite. It can be scored but
    not drawn from.

    Args:
        support: The set of values; a constraint whose bounds broadcast with `shape`.
        shape: The shape of a value, batch and event; the last `support.event_ndims` axes are the
            event.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> flat = dist.Flat(dist.constraints.interval(0.0, 1.0))
    >>> print(flat.log_prob(jnp.array([0.5, 2.0])))
    [  0. -inf]

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), section 2.8.
    """

    is_closed: ClassVar[bool] = True

    support: Constraint
    shape: Shape = static(default=())

    def __post_init__(self) -> None:
        """Checks that the support is one and that its bounds and events fit the shape."""
        if not isinstance(self.support, Constraint):
            raise ValueError(f"Flat: support must be a constraint; got {self.support!r}")
        check_bounds("Flat", self.support)
        shape = (
            (self.shape,)
            if isinstance(self.shape, int | np.integer)
            else tuple(map(int, self.shape))
        )
        object.__setattr__(self, "shape", shape)
        if len(shape) < self.support.event_ndims:
            least = self.support.event_ndims
            raise ValueError(f"Flat: shape must have at least {least} axes; got {shape}")
        try:
            _ = self._full_shape
        except ValueError:
            message = (
                f"the bounds of the support, {self._bound_shapes}, do not broadcast with {shape}"
            )
            raise ValueError(f"Flat: {message}") from None

    @property
    def _bound_shapes(self) -> tuple[Shape, ...]:
        return tuple(np.shape(bound) for bound in jax.tree.leaves(self.support))

    @property
    def _full_shape(self) -> Shape:
        return np.broadcast_shapes(self.shape, *self._bound_shapes)

    def _event_ranks(self) -> tuple[int, Shape]:
        event_ndims = self.support.event_ndims
        return len(self.shape) - event_ndims, (event_ndims,)

    @property
    def batch_shape(self) -> Shape:
        """The axes of a value in front of the event axes."""
        return self._full_shape[: len(self._full_shape) - self.support.event_ndims]

    @property
    def event_shape(self) -> Shape:
        """The last `support.event_ndims` axes of a value."""
        return self._full_shape[len(self._full_shape) - self.support.event_ndims :]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the bounds, or JAX's default integer for a discrete support."""
        return (
            jnp.result_type(int)
            if self.support.is_discrete
            else float_dtype(*jax.tree.leaves(self.support))
        )

    def _log_prob(self, value: ArrayLike) -> Array:
        event_ndims = self.support.event_ndims
        batch_ndims = max(np.ndim(value) - event_ndims, len(self.batch_shape))
        inside = self.support.check(align(jnp.asarray(value), event_ndims, batch_ndims))
        bounds = jax.tree.leaves(self.support)
        dtype = float_dtype(*bounds) if self.support.is_discrete else float_dtype(value, *bounds)
        log_prob = jnp.where(inside, jnp.asarray(0, dtype), jnp.asarray(-jnp.inf, dtype))
        return jnp.broadcast_to(log_prob, jnp.broadcast_shapes(log_prob.shape, self.batch_shape))

    def _sample(self, key: Array, shape: Shape) -> NoReturn:
        raise NotImplementedError(
            "Flat is improper: it has no total probability and cannot be drawn from; "
            "give the value, or a proper prior"
        )

    def _moment(self, name: str) -> NoReturn:
        raise NotImplementedError(f"Flat is improper: it has no {name}")
