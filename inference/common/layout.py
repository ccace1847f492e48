"""Layout: pytrees of floating-point arrays as one flat vector."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import keystr, tree_flatten_with_path


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Layout:
    """Structure, shapes and dtypes of a pytree, for conversion to a flat vector and back.

    A layout is hashable, so that it can be static under ``jax.jit``. The vector has the dtype to
    which the leaves' dtypes promote; the conversion back restores the dtype of each leaf.

    Example:
        >>> layout = Layout.of({"a": jnp.zeros(2), "b": jnp.ones(())})
        >>> layout.ravel({"a": jnp.zeros(2), "b": jnp.ones(())})
        Array([0., 0., 1.], dtype=float32)
    """

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, position: Any) -> "Layout":
        """The layout of `position`.

        Raises:
            TypeError: if a leaf is not a floating-point array.
            ValueError: if `position` has no elements.
        """
        leaves, _ = tree_flatten_with_path(position)
        for path, leaf in leaves:
            if isinstance(leaf, str | bytes):  # JAX takes it for the name of a dtype
                raise TypeError(f"position{keystr(path)} must be an array, got {leaf!r}.")
            dtype = jnp.result_type(leaf)
            if not jnp.issubdtype(dtype, jnp.floating):
                raise TypeError(
                    f"position{keystr(path)} has dtype {dtype}; a position is a pytree of "
                    "floating-point arrays. Convert it, e.g. with jnp.asarray(x, float)."
                )
        return cls.of_numbers(position)

    @classmethod
    def of_numbers(cls, values: Any) -> "Layout":
        """The layout of values that may include integers.

        In a vector of float32, integers are exact up to 2**24.

        Raises:
            ValueError: if `values` have no elements.
        """
        leaves, treedef = jax.tree.flatten(values)
        shapes = tuple(map(jnp.shape, leaves))
        if not sum(map(math.prod, shapes)):
            named = tree_flatten_with_path(values)[0]
            got = ", ".join(f"position{keystr(path)} of shape {jnp.shape(x)}" for path, x in named)
            raise ValueError(
                f"position has no element to move: got {got or repr(values)}. Are its shapes those "
                "of data that are empty?"
            )
        return cls(treedef, shapes, tuple(map(jnp.result_type, leaves)))

    @property
    def size(self) -> int:
        """The number of elements."""
        return sum(map(math.prod, self.shapes))

    @property
    def is_floating(self) -> bool:
        """Whether all leaves are floating-point arrays."""
        return all(jnp.issubdtype(dtype, jnp.floating) for dtype in self.dtypes)

    @property
    def dtype(self) -> Any:
        """The dtype of the flat vector, of 32 bits at least: algorithms need this precision."""
        floating = [dtype for dtype in self.dtypes if jnp.issubdtype(dtype, jnp.floating)]
        dtype = jnp.result_type(*floating or [float])
        return dtype if jnp.finfo(dtype).bits >= 32 else jnp.dtype(jnp.float32)

    def ravel(self, position: Any) -> jax.Array:
        """The elements of `position` as one flat vector, ``(size,)``."""
        leaves = [jnp.ravel(leaf).astype(self.dtype) for leaf in jax.tree.leaves(position)]
        return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)

    def unravel(self, vector: jax.Array) -> Any:
        """The pytree with the elements of `vector`, ``(size,)``."""
        leaves = []
        start = 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            stop = start + math.prod(shape)
            leaves.append(vector[start:stop].reshape(shape).astype(dtype))
            start = stop
        return jax.tree.unflatten(self.treedef, leaves)
