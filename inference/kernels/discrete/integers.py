"""Positions of integers and booleans as flat vectors, and bounds of their elements."""

import dataclasses
import math
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_flatten_with_path

from inference.common.argument_checks import as_real, short_repr
from inference.common.layout import Layout


class Bounds(NamedTuple):
    """Least and largest values of the elements of a position, flat vectors of integers."""

    lower: Any
    upper: Any


@dataclasses.dataclass(frozen=True)
class Integers:
    """Form of a position of integers and booleans, for conversion to a flat vector and back.

    Attributes:
        layout: Structure, shapes and dtypes of the position.
    """

    layout: Layout

    @classmethod
    def of(cls, position: Any, kernel: str) -> "Integers":
        """The form of a position.

        Args:
            position: Pytree of arrays.
            kernel: Name of the kernel, for messages.

        Raises:
            TypeError: if a leaf holds neither integers nor booleans.
            ValueError: if there are no elements.
        """
        for path, leaf in tree_flatten_with_path(position)[0]:
            is_text = isinstance(leaf, str | bytes)  # JAX takes it for the name of a dtype
            dtype = "text" if is_text else jnp.result_type(leaf)
            if is_text or not (_is_bool(dtype) or jnp.issubdtype(dtype, jnp.integer)):
                raise TypeError(
                    f"position{keystr(path)} has dtype {dtype}; {kernel} moves integers and "
                    "booleans. Convert it, e.g. with jnp.asarray(x, int)."
                )
        return cls(Layout.of_numbers(position))

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.layout.size

    @property
    def dtype(self) -> Any:
        """The dtype of the flat vector: int32, or int64 if a leaf needs it."""
        is_long = any(jnp.dtype(dtype).itemsize == 8 for dtype in self.layout.dtypes)
        return jnp.dtype(jnp.int64 if is_long else jnp.int32)

    @property
    def real(self) -> Any:
        """The dtype of floating-point numbers that go with the position."""
        return self.layout.dtype

    def ravel(self, position: Any) -> jax.Array:
        """The elements of `position` as one flat vector of integers, ``(size,)``."""
        leaves = [jnp.ravel(leaf).astype(self.dtype) for leaf in jax.tree.leaves(position)]
        return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)

    def unravel(self, vector: jax.Array) -> Any:
        """The position with the elements of `vector`."""
        return self.layout.unravel(vector)

    def unravel_floats(self, vector: jax.Array) -> Any:
        """The pytree of floating-point arrays with the elements of `vector`."""
        dtypes = (vector.dtype,) * len(self.layout.dtypes)
        return dataclasses.replace(self.layout, dtypes=dtypes).unravel(vector)

    def spread(self, name: str, value: Any) -> Any:
        """A number for each element, ``(size,)``; a NumPy array unless a number is traced.

        Args:
            name: Name of the argument, for messages.
            value: Integer, array that broadcasts to a position of one array, or a pytree of such
                with the structure of the position.

        Raises:
            TypeError: if a number is no integer.
            ValueError: if the structure or a shape does not fit.
        """
        treedef = self.layout.treedef
        is_number = jax.tree.structure(value) == jax.tree.structure(0) and not np.shape(value)
        leaves = [value] * treedef.num_leaves if is_number else jax.tree.leaves(value)
        if not is_number and jax.tree.structure(value) != treedef:
            raise ValueError(
                f"{name} must be an integer, or have the structure of the position, {treedef}; "
                f"got {jax.tree.structure(value)}"
            )
        found = []
        for leaf, shape in zip(leaves, self.layout.shapes, strict=True):
            given = as_real(leaf)
            if given is None or not jnp.issubdtype(given.dtype, jnp.integer):
                raise TypeError(f"{name} must hold integers, got {short_repr(leaf)}")
            if not _broadcasts(given.shape, shape):
                raise ValueError(
                    f"{name} has shape {given.shape}, which does not broadcast to the shape "
                    f"{shape} of the position"
                )
            found.append((leaf, shape))
        with suppress(jax.errors.TracerArrayConversionError):
            known = [np.broadcast_to(np.asarray(leaf), shape).ravel() for leaf, shape in found]
            values = np.concatenate(known)
            if np.any(values != values.astype(self.dtype)):
                raise ValueError(f"{name} has a number that does not fit {self.dtype}, got {value}")
            return values.astype(self.dtype)
        traced = [jnp.broadcast_to(jnp.asarray(leaf), shape).ravel() for leaf, shape in found]
        return jnp.concatenate([x.astype(self.dtype) for x in traced])

    def limits(self) -> Bounds:
        """Least and largest numbers that the dtypes of the elements hold."""
        form = jnp.iinfo(self.dtype)
        infos = [_range(dtype) for dtype in self.layout.dtypes]
        sizes = [math.prod(shape) for shape in self.layout.shapes]
        lower = [max(low, form.min) for low, _ in infos]
        upper = [min(high, form.max) for _, high in infos]
        return Bounds(
            np.repeat(np.array(lower, self.dtype), sizes),
            np.repeat(np.array(upper, self.dtype), sizes),
        )

    def check_inside(self, vector: Any, bounds: Bounds) -> None:
        """Checks that a position is within bounds, where these are known.

        Raises:
            ValueError: if bounds are out of order, or an element is outside of them.
        """
        with suppress(jax.errors.TracerArrayConversionError):
            lower = np.asarray(bounds.lower)
            upper = np.asarray(bounds.upper)
            for i in np.flatnonzero(lower > upper)[:1]:
                raise ValueError(
                    f"lower is above upper, {lower[i]} and {upper[i]}, in an element of "
                    f"{self._leaf_of(i)}"
                )
            least, most = self.limits()
            for i in np.flatnonzero((lower < least) | (upper > most))[:1]:
                raise ValueError(
                    f"the bounds {lower[i]} to {upper[i]} of an element of {self._leaf_of(i)} "
                    f"exceed its dtype, from {least[i]} to {most[i]}"
                )
            values = np.asarray(vector)
            for i in np.flatnonzero((values < lower) | (values > upper))[:1]:
                raise ValueError(
                    f"{self._leaf_of(i)} has an element {values[i]}, outside of its bounds "
                    f"{lower[i]} to {upper[i]}. Start within them, or give the kernel others by "
                    "lower and upper."
                )

    def _leaf_of(self, i: int) -> str:
        """Name of the leaf of an element."""
        stops = np.cumsum([math.prod(shape) for shape in self.layout.shapes])
        paths, _ = tree_flatten_with_path(self.layout.unravel(jnp.arange(self.size)))
        return f"position{keystr(paths[int(np.searchsorted(stops, i, side='right'))][0])}"


def _range(dtype: Any) -> tuple[int, int]:
    return (0, 1) if _is_bool(dtype) else (int(jnp.iinfo(dtype).min), int(jnp.iinfo(dtype).max))


def _is_bool(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.bool_)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    with suppress(ValueError):
        return np.broadcast_shapes(shape, target) == target
    return False
