"""A distribution from a user's own log density."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import convert, float_dtype, select, stack
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints import Constraint, independent, real
from distributions.constraints.base import check_bounds
from distributions.core.distribution import Distribution, Shape


@pytree_dataclass(eq=False, repr=False)
class Custom(Distribution):
    r"""A distribution whose log density is a user's function.

    `log p(x) = log_density(x, *parameters)` for `x` in the support. Elsewhere the density is 0: the
    function is given a point of the support, and its value is not used.

    Args:
        log_density: A function of an array of values, of shape `(..., *event_shape)`, and of the
            parameters. It returns one number per event, by JAX operations that broadcast.
        parameters: A tuple of arrays, which are the leaves of the distribution. If `jax.vmap` is to
            return it, they need the same number of axes: which are of the batch is not known.
        support: The set of values; by default `constraints.real`. A constraint on numbers applies
            to every entry of an event.
        event_shape: The shape of one draw.
        sampler: A function of a key, a full shape and the parameters; without it, the distribution
            can be scored only.

    Raises:
        ValueError: `log_density` does not return one number per event, or the support holds arrays
            with more axes than `event_shape`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> def triangle(x, width):
    ...     return jnp.log(1 - x / width) - jnp.log(width / 2)
    >>> d = dist.Custom(triangle, (2.0,), support=dist.constraints.interval(0.0, 2.0))
    >>> print(d.log_prob(jnp.array([0.0, 1.0, 3.0])).round(4))
    [ 0.     -0.6931    -inf]

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), section 10.1 (densities known up to
        a constant).
    """

    log_density: Callable[..., Array] = static()
    parameters: tuple[Any, ...] = ()
    support: Constraint = real
    event_shape: Shape = static(default=())  # pyright: ignore[reportIncompatibleMethodOverride]
    sampler: Callable[..., Array] | None = static(default=None)

    def __post_init__(self) -> None:
        """Checks the parts, and the shapes of the density of one event and of a batch."""
        for name in ("log_density", "sampler"):
            function = getattr(self, name)
            if not callable(function) and (name, function) != ("sampler", None):
                raise TypeError(f"Custom: {name} must be a function; got {function!r}")
        if not isinstance(self.support, Constraint):
            raise ValueError(f"Custom: support must be a constraint; got {self.support!r}")
        check_bounds("Custom", self.support)
        if not isinstance(self.parameters, tuple | list):
            raise TypeError(f"Custom: parameters must be a tuple; got {self.parameters!r}")
        fill = object.__setattr__
        fill(self, "parameters", jax.tree.map(stack, tuple(self.parameters), is_leaf=_is_list))
        fill(self, "event_shape", tuple(self.event_shape))
        fill(self, "support", self._support_of_events())
        found = self._density_of(())
        if not hasattr(found, "shape"):
            raise ValueError(f"Custom: log_density must give an array; got {found!r}")
        self._check_batches((7, *found.shape))
        try:
            self.batch_shape  # noqa: B018
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Custom: the bounds of the support must broadcast with values of event_shape "
                f"{self.event_shape} and with their densities; {error}"
            ) from error

    def _support_of_events(self) -> Constraint:
        """The support with as many axes as an event."""
        num_missing = len(self.event_shape) - self.support.event_ndims
        if num_missing < 0:
            raise ValueError(
                f"Custom: event_shape must have at least {self.support.event_ndims} axes, as "
                f"values of the support ({self.support.description}) have; got {self.event_shape}. "
                "dataclasses.replace keeps the support: give it as well"
            )
        return independent(self.support, num_missing) if num_missing else self.support

    def _check_batches(self, batch: Shape) -> None:
        """Raises ValueError unless the density of a batch of events is a batch of numbers."""
        told = (
            "Custom: log_density must give one number per event; for values of shape "
            f"{(*batch, *self.event_shape)} with event_shape {self.event_shape}"
        )
        try:
            shape = self._density_of(batch).shape
        except (TypeError, ValueError) as error:
            raise ValueError(f"{told} it raised an error: {error}") from error
        if shape != batch:
            raise ValueError(f"{told} it gave shape {shape}")

    def _density_of(self, batch: Shape) -> Any:
        """Shape and dtype of the density of a batch of events."""
        events = jax.ShapeDtypeStruct((*batch, *self.event_shape), self.dtype)
        return jax.eval_shape(self.log_density, events, *self.parameters)

    def _event_ranks(self) -> tuple[None, Shape]:
        return None, (0, 0)  # `log_density` alone knows which axes are of the batch

    @property
    def batch_shape(self) -> Shape:
        """The shape of the density of one event, broadcast with the bounds of the support."""
        event = jax.ShapeDtypeStruct(self.event_shape, self.dtype)
        inside = jax.eval_shape(self.support.check, event)
        return np.broadcast_shapes(self._density_of(()).shape, inside.shape)

    @property
    def is_reparameterized(self) -> bool:
        """Always false: nothing is known of the user's sampler."""
        return False

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters, or JAX's default integer for a discrete support."""
        return jnp.result_type(int) if self.support.is_discrete else self._float_dtype

    @property
    def _float_dtype(self) -> np.dtype:
        return float_dtype(*jax.tree.leaves(self.parameters), *jax.tree.leaves(self.support))

    def _log_prob(self, value: ArrayLike) -> Array:
        event_ndims = len(self.event_shape)
        value = jnp.asarray(value)
        batch = np.broadcast_shapes(value.shape[: value.ndim - event_ndims], self.batch_shape)
        value = jnp.broadcast_to(value, batch + self.event_shape)
        inside = jnp.broadcast_to(self.support.check(value), batch)
        within = jnp.expand_dims(inside, tuple(range(-event_ndims, 0)))
        point = convert(self.support.feasible(self.event_shape), value.dtype)
        safe = select(within, value, point)
        return select(inside, self.log_density(safe, *self.parameters), -jnp.inf)

    def _sample(self, key: Array, shape: Shape) -> Array:
        if self.sampler is None:
            raise NotImplementedError("Custom: there is no sampler; give one, or the value")
        return self.sampler(key, shape, *self.parameters)


def _is_list(x: Any) -> bool:
    return isinstance(x, list)
