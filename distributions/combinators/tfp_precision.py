"""Default precision for objects of TensorFlow Probability (TFP) under x64.

TFP reads Python floats, and some NumPy arrays, as float32 even under x64. In JAX a Python float has
the default dtype, unless an array beside it is narrower. An object of TFP (distribution, bijector,
kernel, linear operator) is rebuilt by JAX's rule, from the arguments of its constructor, which it
keeps in `parameters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def in_default_precision(x: Any) -> Any:
    """An object of TFP whose Python and NumPy parameters are float64 under x64.

    Objects of other packages are unchanged, and so are objects with a parameter of explicit lower
    precision.
    """
    if not _is_built(x) or jnp.result_type(float) != np.float64:
        return x
    return x if any(_is_narrow(leaf) for leaf in _leaves(x)) else _widened(x, None)


def default_bijector(d: Any) -> Any:
    """The default bijector of a distribution of TFP, or None; in float64 if the distribution is.

    Constants of such a bijector are Python floats that TFP reads as float32.
    """
    found = d.experimental_default_event_space_bijector()
    return in_default_precision(found) if d.dtype == np.float64 else found


def _is_built(x: Any) -> bool:
    """Whether an object keeps the arguments of its constructor."""
    return isinstance(getattr(x, "parameters", None), dict) and not isinstance(x, type)


def _children(x: Any) -> Any:
    return x.parameters.values() if _is_built(x) else x.values() if isinstance(x, dict) else x


def _leaves(x: Any) -> Iterator[Any]:
    """All parameters, also of nested objects."""
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


def _widened(x: Any, held: Any) -> Any:
    """A parameter as a JAX array in float64, whose dtype no constructor of TFP changes."""
    if _is_built(x):
        return _rebuilt(x)
    if _is_numeric(x):
        return jnp.asarray(x, np.float64) if _becomes_float(x, held) else x
    if isinstance(x, dict):
        return type(x)((name, _widened(child, None)) for name, child in x.items())
    if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
        return type(x)(_widened(child, None) for child in x)
    return x


def _rebuilt(x: Any) -> Any:
    given = x.parameters
    wide = {name: _widened(value, getattr(x, name, None)) for name, value in given.items()}
    return type(x)(**wide) if any(wide[name] is not given[name] for name in given) else x


def _is_numeric(x: Any) -> bool:
    """Whether a parameter is a Python or NumPy number, or lists of such numbers."""
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype.kind == "f"
    if isinstance(x, list | tuple):
        return bool(x) and all(map(_is_numeric, x))
    return isinstance(x, int | float) and not isinstance(x, bool)


def _becomes_float(x: Any, held: Any) -> bool:
    """Whether a parameter holds floats, or integers that TFP holds as floats."""
    return np.asarray(x).dtype.kind == "f" or getattr(held, "dtype", None) == np.float32
