"""Errors for leaked tracers: a sown function uses a value of a trace that has ended."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

_REMEDY = (
    "A value of a vmap, loop or checkpoint is used outside of it. Perhaps a function in what is "
    "sown, as in a distribution or a strategy, closes over it, and outlives it: give the value "
    "with the function instead, as a leaf of a pytree. jax.tree_util.Partial(f, value) calls "
    "f(value, ...), and distributions of one's own have parameters."
)


@contextmanager
def explain_leaked_tracer(where: str = "") -> Iterator[None]:
    """Context that adds the place and the remedy to JAX's error for a leaked tracer."""
    try:
        yield
    except jax.errors.UnexpectedTracerError as error:
        if not any(note.endswith(_REMEDY) for note in getattr(error, "__notes__", ())):
            error.add_note(where + _REMEDY)
        raise
