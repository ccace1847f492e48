"""Errors for traced numbers that Python needs, as for a size given as an array argument."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from ppl.core.model_pytree import Model, name_of
from ppl.harvest.jax_core import is_traced
from ppl.harvest.program import trace

NOT_CONCRETE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


def needs_a_number(error: BaseException) -> bool:
    """Whether an error says that Python needs the number of a traced value."""
    return isinstance(error, NOT_CONCRETE) or "of concrete values" in str(error)


@contextmanager
def explaining_sizes(model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator:
    """A context in which a model is traced, whose errors name integer arrays used as sizes.

    An integer of Python or NumPy is known. An array is data, even if it has no axes.

    Raises:
        TypeError: If the model could be traced with its integer scalars known.
    """
    try:
        yield
    except (*NOT_CONCRETE, TypeError) as error:
        if not needs_a_number(error):
            raise
        known, found = _with_known_scalars(args, kwargs)
        if not found or not _is_traceable(model, *known):
            raise
        name, x = next(iter(found.items()))
        raise TypeError(
            f"argument {name} of {name_of(model)} is an array, {x.dtype}[] of the value {int(x)}, "
            "and so data, which are traced; as a size, or where Python needs the number, it must "
            "be an integer of Python: give int(...)."
        ) from error


def _with_known_scalars(args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Arguments with integers instead of integer arrays without axes, and these arrays by name."""
    found = {}

    def known(path: Any, x: Any) -> Any:
        is_scalar = isinstance(x, jax.Array | np.ndarray) and x.shape == () and not is_traced(x)
        if not is_scalar or x.dtype.kind not in "iu":
            return x
        found[jax.tree_util.keystr(path[1:], simple=True, separator=".")] = x
        return int(x)

    return jax.tree_util.tree_map_with_path(known, (args, dict(kwargs))), found


def _is_traceable(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    key = jax.eval_shape(lambda: jax.random.key(0))
    try:
        trace(model, (key, *args), kwargs)
    except Exception:  # whatever a model raises, it says that it cannot be traced so
        return False
    return True
