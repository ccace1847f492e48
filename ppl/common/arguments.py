"""Arguments of a call, split into data for a jitted function and a static part."""

import dataclasses
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import foreign_arrays


class _HOLE:
    """Placeholder for data among static leaves."""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """Static part of the arguments of a call: structure, integers and other hashable objects.

    Attributes:
        tree: The structure of the pair (args, kwargs).
        leaves: The static leaves, with placeholders for data.
    """

    tree: Any
    leaves: tuple[Hashable, ...]

    _DATA: ClassVar = (jax.Array, np.ndarray, np.inexact, float, complex)

    @classmethod
    def split(
        cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple["Arguments", list[Any]]:
        """The static part of arguments, and their data: arrays, floats and complex numbers.

        Tables become `Columns`, columns of pandas and other foreign arrays become arrays. Integers
        and booleans of NumPy become integers and booleans of Python, which are static, as sizes
        are.

        Raises:
            TypeError: If an argument is neither data nor hashable.
        """
        leaves, tree = jax.tree.flatten(foreign_arrays.convert_arguments(args, kwargs))
        leaves = [x.item() if isinstance(x, np.integer | np.bool_) else x for x in leaves]
        data = [jnp.asarray(x) for x in leaves if isinstance(x, cls._DATA)]
        rest = tuple(_HOLE if isinstance(x, cls._DATA) else x for x in leaves)
        for leaf in rest:
            if not isinstance(leaf, Hashable):
                raise TypeError(
                    f"argument of type {type(leaf).__name__}: expected arrays, numbers or hashable "
                    "objects; register its class as a pytree if it holds arrays."
                )
        return cls(tree, rest), data

    def join(self, data: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments `(args, kwargs)`, with placeholders replaced by data."""
        rest = iter(data)
        return jax.tree.unflatten(self.tree, [next(rest) if x is _HOLE else x for x in self.leaves])
