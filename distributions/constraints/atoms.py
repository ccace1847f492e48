"""Sets of numbers with atoms: points with a probability each, beside the density of the others."""

from __future__ import annotations

from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.pytree import pytree_dataclass
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
