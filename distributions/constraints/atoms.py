"""Sets with atoms, points with a probability each: beside numbers with a density, and alone."""

from __future__ import annotations

from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import common_dtype, promote
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints.base import Constraint, Shape
from distributions.constraints.scalar import match_bounds


def _either(a: Any, b: Any) -> Any:
    if not isinstance(a, Array) and not isinstance(b, Array):
        return a | b
    shape = np.broadcast_shapes(a.shape, b.shape)
    return jnp.broadcast_to(a, shape) | jnp.broadcast_to(b, shape)


@pytree_dataclass
class WithAtoms(Constraint):
    """The numbers of `base`, which have a density, and `atoms`, which have a probability each.

    No smooth map from unconstrained space reaches an atom with positive probability.
    """

    base: Constraint
    atoms: tuple[ArrayLike, ...]

    has_atoms = True

    @property
    def description(self) -> str:
        """The set in words: the numbers, and the atoms."""
        return f"{self.base.description}, or {' or '.join(map(str, self.atoms))}"

    @property
    def bijector(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError(
            "some of its values have probabilities of their own, beside the density of the others; "
            "make it of a Bernoulli site and a continuous one, or give it as data."
        )

    def check(self, value: Any) -> Any:
        """Whether the value is one of the numbers, or an atom."""
        inside = self.base.check(value)
        value, *atoms = match_bounds(value, *self.atoms)
        for atom in atoms:
            inside = _either(inside, (value == atom) & (abs(value) < np.inf))
        return inside

    def feasible(self, shape: Shape = ()) -> Any:
        """A point of the base."""
        return self.base.feasible(shape)


@pytree_dataclass
class Constant(Constraint):
    """The set of one value."""

    value: ArrayLike
    ndims: int = static()

    description = "the constant itself"

    @property
    def is_discrete(self) -> bool:
        """Whether the value is no floating number."""
        return not jnp.issubdtype(jnp.result_type(self.value), jnp.floating)

    @property
    def has_atoms(self) -> bool:
        """Whether the value is a floating number."""
        return not self.is_discrete

    @property
    def event_ndims(self) -> int:
        """The number of axes of the value."""
        return self.ndims

    @property
    def bijector(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError("a constant has no density: no map from unconstrained space.")

    def check(self, value: Any) -> Any:
        """Whether a value is the constant."""
        value, point = promote(value, self.value, dtype=common_dtype(value, self.value))
        return (value == point).all(tuple(range(-self.ndims, 0)))

    def feasible(self, shape: Shape = ()) -> Any:
        """The constant."""
        return self.value
