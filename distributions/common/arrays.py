"""Dtype promotion and rank alignment, done once so that formulas can be written plainly."""

import functools
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.common.sparse_graph import SparseGraph


def float_dtype(*values: Any) -> np.dtype:
    """The floating dtype of `values` by JAX's rules; Python scalars and integers defer."""
    strong = {v.dtype for v in values if not _defers(v)}
    # The usual case, without JAX's rules, which take longer.
    if len(strong) == 1 and (dtype := strong.pop()).kind == "f" and dtype.itemsize <= 4:
        return dtype
    return common_dtype(*values, 1.0)


def _defers(x: Any) -> bool:
    return not hasattr(x, "dtype") or getattr(x, "weak_type", False)


def common_dtype(*values: Any) -> np.dtype:
    """The dtype of `values` by JAX's standard rules, however strict the user's setting."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


def stack(values: Any) -> Any:
    """Lists and tuples as one array, on the host if possible; anything else unchanged."""
    if not isinstance(values, list | tuple):
        return values
    traced = any(isinstance(leaf, Array) for leaf in jax.tree.leaves(values))
    return jnp.asarray(values) if traced else np.asarray(values)


def convert(x: ArrayLike, dtype: Any) -> Any:
    """`x` in `dtype`. A host scalar stays on the host: no operation, traced or not."""
    if isinstance(x, Array):
        if x.dtype == dtype and not x.weak_type:
            return x
        return lax.convert_element_type(x, dtype)
    return np.asarray(x, dtype) if np.ndim(x) == 0 else jnp.asarray(x, dtype)


def as_array(x: ArrayLike, dtype: Any) -> Array:
    """`x` as an array in `dtype`."""
    return convert(x, dtype) if isinstance(x, Array) else jnp.asarray(x, dtype)


def align(x: Any, event_ndims: int, batch_ndims: int) -> Any:
    """`x` with new leading axes, `batch_ndims + event_ndims` in all; a scalar stays one."""
    ndim = x.ndim
    missing = batch_ndims + event_ndims - x.ndim
    if ndim == 0 or missing <= 0:
        return x
    return lax.broadcast_in_dim(x, (1,) * missing + x.shape, range(missing, missing + ndim))


def select(condition: Any, on_true: Any, on_false: Any) -> Array:
    """`jnp.where` in the dtype of the arrays, without the jitted call that is lowered apart."""
    dtype = next(x.dtype for x in (on_true, on_false) if hasattr(x, "dtype"))
    operands = condition, convert(on_false, dtype), convert(on_true, dtype)
    shape = np.broadcast_shapes(*map(np.shape, operands))
    return lax.select_n(*(_broadcast(x, shape) for x in operands))


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    if np.shape(x) == shape:
        return x
    return jnp.broadcast_to(x, shape) if np.ndim(x) else lax.broadcast(x, shape)


def satisfies(value: Any, **bounds: Any) -> Any:
    """Whether comparisons with all bounds hold: `satisfies(x, ge=0.0, lt=np.inf)`.

    Value and bounds have one dtype and one rank, scalars apart. JAX arrays are compared by
    primitives: an operator of `jax.numpy` takes four times as long to trace.
    """
    if not isinstance(value, Array):
        held = (getattr(operator, name)(value, bound) for name, bound in bounds.items())
        return functools.reduce(operator.and_, held)
    shape = np.broadcast_shapes(value.shape, *map(np.shape, bounds.values()))
    fitting = ((name, convert(bound, value.dtype)) for name, bound in bounds.items())
    x = _broadcast(value, shape)
    held = (
        getattr(lax, name)(x, _broadcast_unless_scalar(bound, shape)) for name, bound in fitting
    )
    return functools.reduce(lax.bitwise_and, held)


def _broadcast_unless_scalar(x: Any, shape: tuple[int, ...]) -> Any:
    return _broadcast(x, shape) if np.ndim(x) else x


def as_float(x: ArrayLike) -> Array:
    """`x` as an array of a floating dtype."""
    return as_array(x, float_dtype(x))


def promote(x: ArrayLike, *others: ArrayLike, dtype: Any = None) -> tuple[Array, ...]:
    """All arguments in one dtype (floating by default) and, scalars apart, of one rank."""
    dtype = float_dtype(x, *others) if dtype is None else dtype
    arrays = [as_array(x, dtype), *(convert(other, dtype) for other in others)]
    ndim = max(a.ndim for a in arrays)
    return tuple(align(a, 0, ndim) for a in arrays)


def is_traced(x: Any) -> bool:
    """Whether an array is a tracer: its values are not known yet."""
    return isinstance(x, Array) and type(x) not in _types_of_known_arrays()


@functools.cache
def _types_of_known_arrays() -> frozenset[type]:
    """The types of arrays of numbers, and of random keys, whose values are known."""
    with jax.ensure_compile_time_eval():  # known within a trace, too
        return frozenset({type(jnp.zeros(())), type(jax.random.key(0))})


def as_host_array(x: Any) -> np.ndarray | None:
    """`x` as a NumPy array; None if its values are unknown here (traced, or on other hosts).

    A sparse graph is checked where it is made, and None here.
    """
    if not isinstance(x, Array):
        return None if isinstance(x, SparseGraph) else np.asarray(x)
    return None if is_traced(x) or not x.is_fully_addressable else np.asarray(x)


def as_held(x: Any) -> np.ndarray | None:
    """A number or an array of the host in JAX's float dtype for it; None for anything else."""
    if isinstance(x, Array):
        return None
    array = np.asarray(x)
    if array.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        return array.astype(jnp.result_type(x))


def fault_of_range(x: Any) -> str | None:
    """Words on a number of the host that JAX would wrap or make infinite, or None."""
    if isinstance(x, Array) or (array := np.asarray(x)).dtype.kind not in "iuf" or not array.size:
        return None
    dtype = jnp.result_type(x)
    limits = jnp.finfo(dtype) if array.dtype.kind == "f" else jnp.iinfo(dtype)
    low, high = (array.dtype.type(end) for end in (limits.min, limits.max))
    with np.errstate(all="ignore"):
        beyond = ((array < low) | (array > high)) & (abs(array) < np.inf)
    if array.itemsize <= dtype.itemsize or not beyond.any():
        return None
    return (
        f"{array[beyond].flat[0]}, which is out of the range of {dtype}; "
        "jax.config.update('jax_enable_x64', True) makes room for it"
    )


def summarize(x: Any) -> str:
    """A few characters for `x`: the value of a host scalar, dtype and shape of an array."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return repr(x)
    if x.shape == () and as_host_array(x) is not None:
        return str(x)
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"
