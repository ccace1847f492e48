"""Real numbers as a support, and the identity as its map from unconstrained space."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Reals:
    """Support of numbers without a constraint: the finite real numbers."""

    is_unrestricted: ClassVar[bool] = True
    is_discrete: ClassVar[bool] = False
    event_ndims: ClassVar[int] = 0
    description: ClassVar[str] = "finite"

    def check(self, value: Any) -> jax.Array:
        """Whether each number is finite."""
        return jnp.isfinite(value)

    def feasible(self, shape: tuple[int, ...] = ()) -> float:
        """A point of the support: 0."""
        del shape
        return 0.0


@dataclasses.dataclass(frozen=True)
class Identity:
    """Bijector of numbers without a constraint: values are positions."""

    def forward(self, position: Any) -> Any:
        """The position itself."""
        return position

    def inverse(self, value: Any) -> Any:
        """The value itself."""
        return value

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """0 for each number."""
        return jnp.zeros_like(position)
