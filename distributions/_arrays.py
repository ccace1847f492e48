"""Dtype promotion and rank alignment, done once so that formulas can be written plainly."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike


def float_dtype(*values: Any) -> np.dtype:
    """The floating dtype of `values` by JAX's rules; Python scalars and integers defer."""
    return common_dtype(*values, 1.0)


def common_dtype(*values: Any) -> np.dtype:
    """The dtype of `values` by JAX's standard rules, however strict the user's setting."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*values)


def stack(values: Any) -> Any:
    """Lists and tuples as one array, on the host where that is possible; anything else as it is."""
    if not isinstance(values, list | tuple):
        return values
    traced = any(isinstance(leaf, Array) for leaf in jax.tree.leaves(values))
    return jnp.asarray(values) if traced else np.asarray(values)


def convert(x: ArrayLike, dtype: Any) -> Any:
    """`x` in `dtype`. A host scalar stays on the host: that costs no operation, traced or not."""
    if isinstance(x, Array):
        return x if x.dtype == dtype else x.astype(dtype)
    return np.asarray(x, dtype) if np.ndim(x) == 0 else jnp.asarray(x, dtype)


def align(x: Any, event_ndims: int, batch_ndims: int) -> Any:
    """`x` with new leading axes, `batch_ndims + event_ndims` in all; a scalar stays one."""
    missing = batch_ndims + event_ndims - x.ndim
    return x if x.ndim == 0 or missing <= 0 else lax.expand_dims(jnp.asarray(x), range(missing))


def select(condition: Any, on_true: Any, on_false: Any) -> Array:
    """`jnp.where` in the dtype of the arrays: no jitted call, which is lowered by itself."""
    dtype = next(x.dtype for x in (on_true, on_false) if hasattr(x, "dtype"))
    operands = condition, convert(on_false, dtype), convert(on_true, dtype)
    shape = np.broadcast_shapes(*map(np.shape, operands))
    return lax.select_n(*(jnp.broadcast_to(x, shape) for x in operands))


def as_float(x: ArrayLike) -> Array:
    """`x` as an array of a floating dtype."""
    return jnp.asarray(x, float_dtype(x))


def promote(x: ArrayLike, *others: ArrayLike, dtype: Any = None) -> tuple[Array, ...]:
    """All arguments in one dtype (a floating one, if not said) and, scalars apart, of one rank."""
    dtype = float_dtype(x, *others) if dtype is None else dtype
    arrays = [jnp.asarray(x, dtype), *(convert(other, dtype) for other in others)]
    ndim = max(a.ndim for a in arrays)
    return tuple(align(a, 0, ndim) for a in arrays)


def known(x: Any) -> np.ndarray | None:
    """`x` as a NumPy array, or None when its values are not at hand (traced, or on other hosts)."""
    try:
        is_here = not isinstance(x, Array) or x.is_fully_addressable
    except jax.errors.ConcretizationTypeError:  # It is traced.
        return None
    return np.asarray(x) if is_here else None


def summarise(x: Any) -> str:
    """A few characters for `x`: the value of a host scalar, dtype and shape of an array."""
    if not hasattr(x, "dtype") or not hasattr(x, "shape"):
        return repr(x)
    if x.shape == () and known(x) is not None:
        return str(x)
    return f"{x.dtype}[{','.join(map(str, x.shape))}]"
