"""Base of kernels of counts, which have no upper bound."""

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.log_densities import (
    check_log_density,
    require_log_density,
    wrap_log_density,
)
from inference.kernels.discrete.integers import Bounds, Integers

LIMIT = 2**30  # of counts, so that sums with a change do not overflow
MAX_CHANGE = LIMIT - 64  # a float32


@dataclasses.dataclass(frozen=True)
class CountKernel:
    """Kernel of integers with a lower bound, and perhaps an upper one.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. A position is a pytree of arrays of integers or booleans. It needs no
            gradient.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value, likewise. `None` for no bound but that of the dtype, 2**30 at most.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    lower: Any = dataclasses.field(default=None, kw_only=True)
    upper: Any = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        wrap_log_density(self)

    def begin(self, position: Any) -> tuple[Any, jax.Array]:
        """A position as arrays, and its log density, after all checks.

        Raises:
            TypeError: if the position, a bound or the log density is of a wrong type.
            ValueError: if the position is out of bounds, or there is no log density.
        """
        form = self.form_of(position)
        position = jax.tree.map(jnp.asarray, position)
        vector = form.ravel(position)
        bounds = self.bounds(form)
        form.check_inside(vector, bounds)
        with suppress(jax.errors.TracerArrayConversionError):
            for bound in np.concatenate([np.asarray(x) for x in bounds]):
                if abs(int(bound)) > LIMIT:
                    raise ValueError(f"bounds must be 2**30 at most, got {bound}")
        return position, self.value(form, vector)

    def form_of(self, position: Any) -> Integers:
        """Form of positions.

        Raises:
            TypeError: if a leaf holds neither integers nor booleans.
        """
        return Integers.of(position, type(self).__name__)

    def bounds(self, form: Integers) -> Bounds:
        """Bounds of elements.

        Raises:
            TypeError: if a bound is no integer.
            ValueError: if a bound does not fit the position.
        """
        lower = form.spread("lower", 0 if self.lower is None else self.lower)
        if self.upper is not None:
            return Bounds(lower, form.spread("upper", self.upper))
        return Bounds(lower, np.minimum(form.limits().upper, LIMIT).astype(form.dtype))

    def first_sizes(self, form: Integers, position: Any) -> jax.Array:
        """Sizes of moves before warm-up, ``(size,)``: that of Poisson counts at the position."""
        distance = form.ravel(position) - self.bounds(form).lower
        return 1 + jnp.sqrt(distance.astype(form.real))

    def value(self, form: Integers, vector: jax.Array) -> jax.Array:
        """Log density of a flat position; negative infinity outside of the bounds.

        Raises:
            TypeError: if the log density is not a floating-point number.
            ValueError: if there is no log density, or it does not return a scalar.
        """
        lower, upper = self.bounds(form)
        is_inside = jnp.all((vector >= lower) & (vector <= upper))
        density = require_log_density(self, also="")
        found = check_log_density(density(form.unravel(jnp.clip(vector, lower, upper))))
        return jnp.where(is_inside, found.astype(form.real), -jnp.inf)

    def refresh(self, state: Any) -> Any:
        """The state at the same position, for a log density that has changed since."""
        form = self.form_of(state.position)
        return state._replace(log_density=self.value(form, form.ravel(state.position)))
