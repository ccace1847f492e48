"""Advice about a finished run: an error in the search for advice must not cost the draws."""

import warnings
from collections.abc import Callable
from typing import Any

import jax

# What a model at other values may do, and a machine without room.
_EXPECTED = (ValueError, NotImplementedError, FloatingPointError, MemoryError)


def advise(
    what: str,
    look: Callable[..., Any],
    *args: Any,
    without: str = "the summary lacks the advice",
) -> Any:
    """`look(*args)`, or None if it fails.

    Errors that a model may raise at other values are passed over. Any other error is a fault of
    this library or of the model. As draws matter more than advice, it becomes a warning.

    Args:
        what: Subject of the advice, for the warning.
        look: The search.
        *args: Its arguments.
        without: What follows from an error, for the warning.
    """
    try:
        return look(*args)
    except (*_EXPECTED, jax.errors.JaxRuntimeError):
        return None
    except Exception as error:
        warnings.warn(
            f"{what} could not be looked for, by a fault of inference or of the model: "
            f"{type(error).__name__}: {error}. The draws are not affected; {without}.",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
