"""Default precision for objects of TensorFlow Probability, which reads Python floats as float32.

TFP does so even under x64, and with some NumPy arrays. In JAX, Python floats have the default
dtype, unless an array beside them is narrower. To follow that rule, an object of TFP (distribution,
bijector, kernel, linear operator) is rebuilt from its attribute `parameters`, the arguments of its
constructor. In the same way it is rebuilt with parameters that all have the axes of its batch, for
`vmap` and loops to put further axes in front of.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def in_default_precision(x: Any) -> Any:
    """An object of TFP with its Python and NumPy parameters in float64 under x64.

    Objects of other packages, and objects with a parameter of explicit lower precision, stay
    unchanged.
    """
    if not _is_built(x) or jnp.result_type(float) != np.float64:
        return x
    return x if any(_is_narrow(leaf) for leaf in _leaves(x)) else _widen(x, None)


def default_bijector(d: Any) -> Any:
    """The default bijector of a TFP distribution, in its precision, or None if it has none.

    Constants of such a bijector are Python floats, read by TFP as float32.
    """
    found = d.experimental_default_event_space_bijector()
    return in_default_precision(found) if d.dtype == np.float64 else found


def with_all_batch_axes(x: Any, num_axes: int = 0, event_ndims: int = 0) -> Any:
    """A TFP distribution with axes of size 1 for the batch axes that its parameters lack.

    Args:
        x: A distribution or bijector; objects of other packages stay unchanged.
        num_axes: The least number of batch axes.
        event_ndims: For a bijector, the number of axes of an event that it maps.
    """
    if not (_is_built(x) and hasattr(x, "parameter_properties")):
        return x
    num_axes = max(num_axes, len(getattr(x, "batch_shape", ())))
    given = x.parameters
    wide = {}
    for name, properties in x.parameter_properties().items():
        if given.get(name) is not None:
            ndims = (
                properties.bijector_instance_event_ndims(x, x_event_ndims=event_ndims)
                if _is_bijector(x)
                else properties.instance_event_ndims(x)
            )
            wide[name] = _expand(given[name], getattr(x, name, None), num_axes, ndims)
    return type(x)(**given | wide) if any(wide[k] is not given[k] for k in wide) else x


def _expand(value: Any, held: Any, num_axes: int, event_ndims: Any) -> Any:
    """A parameter, or each of a list, with axes in front: `num_axes` and those of its events."""
    if isinstance(event_ndims, list | tuple) and isinstance(value, list | tuple):
        pairs = list(zip(value, event_ndims, strict=True))
        parts = [_expand(part, part, num_axes, ndims) for part, ndims in pairs]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    if not isinstance(event_ndims, int | np.integer):
        return value
    if _is_bijector(value):
        return with_all_batch_axes(value, num_axes, int(event_ndims))
    if _is_built(value):
        return with_all_batch_axes(value, num_axes + int(event_ndims))
    missing = num_axes + int(event_ndims) - np.ndim(value)
    # What TFP holds has the common dtype of the parameters.
    return value if missing <= 0 else jnp.expand_dims(held, tuple(range(missing)))


def _is_bijector(x: Any) -> bool:
    return _is_built(x) and hasattr(x, "forward_min_event_ndims")


def _is_built(x: Any) -> bool:
    """Whether an object keeps the arguments of its constructor."""
    return isinstance(getattr(x, "parameters", None), dict) and not isinstance(x, type)


def _children(x: Any) -> Any:
    return x.parameters.values() if _is_built(x) else x.values() if isinstance(x, dict) else x


def _leaves(x: Any) -> Iterator[Any]:
    """All parameters, with the parameters of nested objects."""
    if _is_built(x) or isinstance(x, dict | list | tuple):
        for child in _children(x):
            yield from _leaves(child)
    else:
        yield x


def _is_narrow(x: Any) -> bool:
    dtype = (
        getattr(x, "dtype", None) if isinstance(x, np.ndarray | np.generic | jax.Array) else None
    )
    return dtype is not None and jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 8


def _widen(x: Any, held: Any) -> Any:
    """A parameter as a JAX array of float64: constructors of TFP keep the dtype of JAX arrays."""
    if _is_built(x):
        return _rebuild(x)
    if _is_numeric(x):
        return jnp.asarray(x, np.float64) if _becomes_float(x, held) else x
    if isinstance(x, dict):
        return type(x)((name, _widen(child, None)) for name, child in x.items())
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(_widen(child, None) for child in x)
    return x


def _rebuild(x: Any) -> Any:
    given = x.parameters
    wide = {name: _widen(value, getattr(x, name, None)) for name, value in given.items()}
    return type(x)(**wide) if any(wide[name] is not given[name] for name in given) else x


def _is_numeric(x: Any) -> bool:
    """Whether a parameter is a Python number, NumPy floats, or a list or tuple of these."""
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype.kind == "f"
    if isinstance(x, list | tuple):
        return bool(x) and all(map(_is_numeric, x))
    return isinstance(x, int | float) and not isinstance(x, bool)


def _becomes_float(x: Any, held: Any) -> bool:
    """Whether a parameter contains a float, or its integers are held by TFP as float32."""
    return np.asarray(x).dtype.kind == "f" or getattr(held, "dtype", None) == np.float32
