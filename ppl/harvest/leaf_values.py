"""Leaves of arguments, results and tangents, and their conversion to arrays."""

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest import jax_core


def as_array(leaf: Any) -> jax.Array:
    """Leaf as an array; a TypeError for a leaf that is not one, such as a string.

    JAX would take a string for the name of a dtype, and its error or warning would depend on the
    strings that NumPy knows.
    """
    if isinstance(leaf, str | bytes):
        raise TypeError(f"{leaf!r} is not an array.")
    check_range(leaf)
    try:
        return jnp.asarray(leaf)
    except (ValueError, OverflowError) as error:
        raise TypeError(str(error)) from error


def check_range(leaf: Any, dtype: Any = None) -> None:
    """Raise a ValueError for known numbers that are out of the range of a dtype.

    By default, the dtype is the one that JAX gives the numbers.

    JAX would wrap integers, such as NumPy's of 64 bits, and make floats infinite.
    """
    if isinstance(leaf, float | int):
        leaf = np.asarray(leaf)
    is_known = isinstance(leaf, np.ndarray | np.generic | jax.Array) and not jax_core.is_traced(
        leaf
    )
    is_float = is_known and jnp.issubdtype(leaf.dtype, np.floating)
    if is_float and (dtype is None or jnp.issubdtype(dtype, np.floating)):
        _check_floats(leaf, dtype)
    if not is_known or not jnp.issubdtype(leaf.dtype, np.integer):
        return
    if dtype is not None and not jnp.issubdtype(dtype, np.integer):
        return
    limits = jnp.iinfo(jnp.result_type(leaf) if dtype is None else dtype)
    own = jnp.iinfo(leaf.dtype)
    fits = limits.min <= own.min <= own.max <= limits.max
    if fits or not leaf.size or not getattr(leaf, "is_fully_addressable", True):
        return
    array = np.asarray(leaf)
    low = int(array.min())
    high = int(array.max())
    if not limits.min <= low <= high <= limits.max:
        what = f"integers from {low} to {high}, which are" if low < high else f"{low}, which is"
        raise ValueError(
            f"{what} out of the range of {limits.dtype}; where they are data, "
            "jax.config.update('jax_enable_x64', True) makes room for them."
        )


def _check_floats(leaf: Any, dtype: Any) -> None:
    """Raise a ValueError for finite floats that would become infinite in a dtype."""
    dtype = jnp.result_type(leaf) if dtype is None else dtype
    limit = float(jnp.finfo(dtype).max)
    if float(jnp.finfo(leaf.dtype).max) <= limit or not getattr(leaf, "is_fully_addressable", True):
        return
    array = np.asarray(leaf)
    size = np.abs(array)
    beyond = array[(size > limit) & (size < np.inf)]
    if beyond.size:
        raise ValueError(
            f"numbers such as {beyond.flat[0]}, which would be infinite in {dtype}: it holds "
            f"numbers up to {limit:.1e}. Rescale them; or jax.config.update('jax_enable_x64', "
            "True) makes room for them."
        )


def host_scalar(value: Any, aval: Any) -> Any:
    """Literal as a NumPy scalar, or as a Python number if its type is weak."""
    value = np.asarray(value, aval.dtype)[()]
    return value.item() if aval.weak_type else value


def nodes(tree: Any) -> Iterator[tuple[type, Any]]:
    """Nodes of a pytree structure as (type, metadata), without its leaves."""
    if data := tree.node_data():
        yield data
    for child in tree.children():
        yield from nodes(child)


def is_float0(value: Any) -> bool:
    """Whether a value is a tangent or cotangent of an integer, of dtype float0."""
    return getattr(value, "dtype", None) == jax.dtypes.float0


def add_tangents(a: Any, b: Any) -> Any:
    """Sum of two tangents; float0 tangents have no numbers to add."""
    return a if is_float0(a) else a + b


def zero_cotangent(aval: Any) -> Any:
    """Zero cotangent as a pullback takes it, of dtype float0 for an integer."""
    make = np.zeros if is_float0(aval) else jnp.zeros
    return make(aval.shape, aval.dtype)


def zeros_like(aval: Any) -> jax.Array:
    """Zeros of the type of `aval`, in place of a value that nothing reads."""
    zeros = jax_core.as_aval(jnp.zeros(aval.shape, aval.dtype), aval)
    return _vary(zeros, jax_core.varying_axes(aval))


def _vary(x: jax.Array, axes: Iterable[Any]) -> jax.Array:
    have = jax_core.varying_axes(jax.typeof(x))
    missing = tuple(axis for axis in axes if axis not in have)
    return lax.pcast(x, missing, to="varying") if missing else x


def vary_alike(arrays: Sequence[Any]) -> list[Any]:
    """Arrays cast to vary over the same mesh axes: every axis over which one of them varies."""
    axes = frozenset().union(*(jax_core.varying_axes(jax.typeof(x)) for x in arrays))
    return [_vary(x, axes) for x in arrays]


def as_varying(value: Any) -> Any:
    """Pytree whose arrays are cast to vary over all manual mesh axes.

    Inside of a shard_map, the types of a loop's carry must not change from step to step.
    """
    axes = jax.sharding.get_abstract_mesh().manual_axes
    return jax.tree.map(lambda x: _vary(x, axes), value) if axes else value


def short_repr(value: Any) -> str:
    """The `repr` of a value for an error, shortened."""
    return _BRIEF.repr(value)


_BRIEF = reprlib.Repr()
_BRIEF.maxother = _BRIEF.maxstring = _BRIEF.maxlong = 100
