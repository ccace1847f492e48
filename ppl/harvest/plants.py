"""Planted values on their way to the sows that they replace."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ppl.harvest.survey import Found, Path, Sites


@jax.tree_util.register_pytree_node_class
class PathDict(dict[Path, Any]):
    """Dict by path as a pytree; unlike in a plain dict, the keys need no order."""

    def tree_flatten(self) -> tuple[list[Any], tuple[Path, ...]]:
        """Values as children, paths as static data."""
        return list(self.values()), tuple(self)

    @classmethod
    def tree_unflatten(cls, paths: tuple[Path, ...], values: Sequence[Any]) -> "PathDict":
        """Dict of the paths and values."""
        return cls(zip(paths, values, strict=True))


class Plants:
    """Queues of the plants of one level of a program, in program order.

    `plants` maps a path to one pytree per occurrence. A clobbered name has one for all occurrences.
    """

    def __init__(self, plants: Mapping[Path, Sequence[Any]]):
        self._plants = plants
        self._taken = dict.fromkeys(plants, 0)

    @property
    def paths(self) -> frozenset[Path]:
        """Paths that have plants."""
        return frozenset(self._plants)

    def take(self, sites: Sites) -> PathDict:
        """Plants for the occurrences in an equation, taken off the queues."""
        return PathDict(
            {p: self._next(p, found) for p, found in sites.items() if p in self._plants}
        )

    def _next(self, path: Path, found: Found) -> list[Any]:
        start = 0 if found.clobbers else self._taken[path]
        self._taken[path] = start + found.count
        return list(self._plants[path][start : start + found.count])


def unstack(plant: Any, found: Found) -> list[Any]:
    """Plants for each occurrence of a name, from one plant for all of them."""
    if found.count == 1:
        return [plant]
    front = move_axis(plant, found.repeat_axis, 0)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], front) for i in range(found.count)]


def move_axis(tree: Any, source: int, destination: int) -> Any:
    """`jnp.moveaxis` on every leaf."""
    if source == destination:
        return tree
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, source, destination), tree)
