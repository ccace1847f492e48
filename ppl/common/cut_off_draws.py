"""Warnings of draws that are cut off at an end of their dtype, or NaN, by site.

Integers are counted beside their distribution, as there the support may end, too. Floating draws
are looked at when they are known: no program counts them.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import jax_core
from ppl.harvest.pytrees import is_split
from ppl.harvest.survey import Path, describe


def has_counts(value: Any) -> bool:
    """Whether a value has integers that draws of a distribution may exceed."""
    dtypes = (jnp.result_type(x) for x in jax.tree.leaves(value))
    return any(jnp.issubdtype(x, np.signedinteger) and x.itemsize >= 4 for x in dtypes)


def warn_of_cut_off(where: str, path: Path, count: Any, value: Any) -> None:
    """Warns of the draws of a site that are cut off or NaN, if they are known.

    Args:
        where: The name of the caller.
        path: The path of the site.
        count: The number of integers that are cut off, as `distribution_protocol.count_cut_off` has
            it, for each part of the draws; None where there are no integers.
        value: All draws of the site.
    """
    if count is not None and is_known(count) and (num := int(np.sum(count))):
        dtype = jnp.result_type(int)
        words = f"cut off at an end of {dtype}, as the support goes on there. Bound"
        _warn(where, path, value, num, words, dtype)
    floats = [x for x in jax.tree.leaves(value) if isinstance(x, jax.Array | np.ndarray)]
    wrong = [x for x in floats if jnp.issubdtype(x.dtype, np.floating) and not _are_inside(x)]
    if not wrong:
        return
    dtype = jnp.result_type(*wrong)
    if num := sum(int((abs(x) >= float(jnp.finfo(x.dtype).max)).sum()) for x in wrong):
        words = f"cut off at an end of {dtype}, too large for it. Rescale, or bound"
        _warn(where, path, value, num, words, dtype)
    if num := sum(int((x != x).sum()) for x in wrong):
        why = f"a parameter is NaN, or {dtype} is too narrow for what the sampler computes"
        _warn(where, path, value, num, f"NaN: {why}. Rescale, or bound", dtype)


def _warn(where: str, path: Path, value: Any, num: int, words: str, dtype: np.dtype) -> None:
    size = sum(np.size(x) for x in jax.tree.leaves(value))
    room = ", or make room by jax.config.update('jax_enable_x64', True)" * (dtype.itemsize < 8)
    warnings.warn(
        f"{where}: {num} of {size} draws of site {describe(path)} are {words} the parameters of "
        f"its distribution{room}.",
        stacklevel=4,
    )


def is_known(x: Any) -> bool:
    """Whether the values of an array are at hand."""
    return not jax_core.is_traced(x) and getattr(x, "is_fully_addressable", True)


def _are_inside(draws: Any) -> bool:
    """Whether floating draws are all numbers between the ends of their dtype, or are not known."""
    if not np.size(draws) or not is_known(draws):
        return True
    end = float(jnp.finfo(draws.dtype).max)
    is_far = isinstance(draws, jax.Array) and {x.platform for x in draws.devices()} != {"cpu"}
    if is_far or is_split(draws):
        return float(_largest(draws)) < end
    draws = np.asarray(draws)
    return -end < float(draws.min()) and float(draws.max()) < end


@jax.jit
def _largest(draws: jax.Array) -> jax.Array:
    """The largest absolute value, found where the draws are; NaN if one is."""
    return abs(draws).max()
