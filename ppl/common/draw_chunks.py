"""Chunks of draws: one compiled program for any number of draws."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import jax_core
from ppl.harvest.pytrees import is_split

_NUM_USUAL = 2**14  # draws, above which larger chunks are worth a program of their own
_CHUNK = 64  # draws of a chunk; of fewer draws, the next power of two
_LARGE_CHUNK = 4096


def choose_chunk_size(given: int | None, num_draws: int, most: int) -> int:
    """Number of draws made at once: the same number for any usual number of draws.

    Args:
        given: The number that the user asks for. If there are fewer draws, the next power of two is
            taken.
        num_draws: The number of draws.
        most: Maximum, for memory, if none is given.
    """
    usual = _CHUNK if num_draws <= _NUM_USUAL else _LARGE_CHUNK
    all_at_once = 2 ** max(num_draws - 1, 0).bit_length()
    if given is None:
        return max(1, min(usual, most, all_at_once))
    return min(given, max(usual, all_at_once))


def has_chunks(arguments: Any) -> bool:
    """Whether the host can cut arguments into chunks: none is traced or on another process."""
    leaves = [jnp.zeros(()), *jax.tree.leaves(arguments)]  # zeros are traced within a `jit`
    can_read = (
        getattr(x, "is_fully_addressable", True) for x in leaves if not jax_core.is_traced(x)
    )
    return not any(map(jax_core.is_traced, leaves)) and all(can_read)


def map_chunks(
    function: Callable[[np.ndarray, Any], Any], draws: Any, num_draws: int, chunk_size: int
) -> Iterator[tuple[int, int, Any]]:
    """Results of a function of many draws, chunk by chunk.

    All chunks have the same size, so that nothing recompiles: the last is padded with copies of the
    last draw.

    Args:
        function: Function of the indices of some draws, and of these draws.
        draws: Pytree of arrays with the axis of the draws in front.
        num_draws: Number of draws.
        chunk_size: Number of draws of each chunk.

    Yields:
        The index of the first draw of the chunk, the number of its draws, and their results,
        padded.
    """
    draws = jax.tree.map(np.asarray, draws)
    for start in range(0, num_draws, chunk_size):
        rows = np.minimum(np.arange(start, start + chunk_size), num_draws - 1)
        some = jax.tree.map(lambda x, rows=rows: x[rows], draws)
        yield start, min(chunk_size, num_draws - start), function(rows, some)


def join_chunks(chunks: Iterator[tuple[int, int, Any]], batch: tuple[int, ...]) -> Any:
    """Results of all draws, with the axes `batch` in front, as arrays of NumPy.

    Results that are split over devices, as data of the model are, stay so as arrays of JAX.
    """
    parts = [jax.tree.map(lambda x, num=num: _leave(x)[:num], x) for _, num, x in chunks]
    whole = jax.tree.map(lambda x, *more: _join((x, *more)) if more else x, *parts)
    return jax.tree.map(lambda x: x.reshape((*batch, *x.shape[1:])), whole)


def _leave(x: Any) -> Any:
    return x if is_split(x) else np.asarray(x)


def _join(parts: tuple[Any, ...]) -> Any:
    return jnp.concatenate(parts) if any(map(is_split, parts)) else np.concatenate(parts)
