"""Draws that are cut off at an end of their dtype: integers and floating numbers; draws of NaN.

An integer is cut off at the least and the largest number of its dtype if the support goes on there.
A floating number is if it is infinite, or no smaller than the largest finite number. One that is
too small for its dtype is rounded, not cut off: samplers of positive numbers give the smallest
normal number for it.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from distributions.common.arrays import as_host_array, is_traced
from distributions.constraints.atoms import Constant
from distributions.constraints.base import bounds
from distributions.constraints.counts import FiniteSet, Multinomial


def count_cut_off(support: Any, draws: Any) -> Any:
    """The number of draws that are cut off at an end of their dtype.

    At an end of integers a draw is right only if the support ends there, too. Where no draw can be
    cut off, the number is 0, and the draws are not looked at; they may be traced.
    """
    dtype = jnp.result_type(draws)
    if jnp.issubdtype(dtype, jnp.floating):
        if _has_members(support):
            return 0
        return (abs(draws) >= float(jnp.finfo(dtype).max)).sum()
    if dtype.kind != "i" or dtype.itemsize < 4:
        return 0
    limits = np.iinfo(dtype)
    low, high = _ends(support)
    ends = [
        (limits.min, _is_beyond(low, dtype) and low < limits.min),
        (limits.max, _is_beyond(high, dtype) and high > limits.max),
    ]
    ends = [(end, goes_on) for end, goes_on in ends if is_traced(goes_on) or np.any(goes_on)]
    if ends and _is_on_cpu(draws):
        draws = np.asarray(draws)
    missed = _is_below(draws, low) if any(end == limits.max for end, _ in ends) else False
    return sum((((draws == end) | missed) & goes_on).sum() for end, goes_on in ends)


def _is_below(draws: Any, low: Any) -> Any:
    """Whether integers lie below a support, as a search says that it has found none up to its end.

    A bound that is not known here tells nothing.
    """
    host = as_host_array(low)
    least = np.iinfo(draws.dtype).min
    return False if host is None else draws < np.maximum(host, least).astype(draws.dtype)


def warn_of_cut_off(d: Any, draws: Any) -> None:
    """Warns of known draws of `d` that are cut off or NaN; traced draws are not known."""
    if is_traced(draws) or not getattr(draws, "is_fully_addressable", True):
        return
    dtype = draws.dtype
    is_floating = jnp.issubdtype(dtype, jnp.floating)
    if is_floating and _are_inside(draws):
        return
    of = f"of {draws.size} draws are"
    if num := int(count_cut_off(d.support, draws)):
        why = "too large for it" if is_floating else "as the support goes on there"
        warnings.warn(
            f"{type(d).__name__}: {num} {of} cut off at an end of {dtype}, {why}. {_remedy(dtype)}",
            stacklevel=3,
        )
    if is_floating and (num := int((draws != draws).sum())):
        warnings.warn(
            f"{type(d).__name__}: {num} {of} NaN: a parameter is NaN, or {dtype} is too narrow for "
            f"what the sampler computes. {_remedy(dtype)}",
            stacklevel=3,
        )


def _are_inside(draws: Any) -> bool:
    """Whether known floating draws are all numbers between the ends of their dtype."""
    if not draws.size:
        return True
    end = float(jnp.finfo(draws.dtype).max)
    if not _is_on_cpu(draws):
        return float(_largest(draws)) < end
    draws = np.asarray(draws)
    return -end < float(draws.min()) and float(draws.max()) < end


@jax.jit
def _largest(draws: jax.Array) -> jax.Array:
    """The largest absolute value, found where the draws are; NaN if one is."""
    return abs(draws).max()


def _remedy(dtype: Any) -> str:
    """The remedy for draws that a dtype cannot hold."""
    if jnp.issubdtype(dtype, jnp.floating):
        room = ", or make room by jax.config.update('jax_enable_x64', True)"
        return f"Rescale, or bound the parameters{room * (dtype.itemsize < 8)}."
    if dtype.itemsize == 8:
        return "Bound the parameters, or take a continuous family."
    return "jax.config.update('jax_enable_x64', True) makes room, or bound the parameters."


def _is_on_cpu(draws: Any) -> bool:
    """Whether the values are at hand without a copy from another device."""
    if not isinstance(draws, jax.Array):
        return True
    return not is_traced(draws) and {device.platform for device in draws.devices()} == {"cpu"}


def _is_beyond(bound: Any, dtype: np.dtype) -> bool:
    """Whether a bound may lie beyond a dtype: none does that a narrower one holds."""
    own = bound.dtype if isinstance(bound, jax.Array) else np.asarray(bound).dtype
    return own.kind not in "biu" or own.itemsize > dtype.itemsize


def _ends(support: Any) -> tuple[Any, Any]:
    """The ends of a support, beyond all integers where it has none."""
    if _has_members(support):
        return 0, 0  # each draw is one of the members
    support = _innermost(support)
    if isinstance(support, Multinomial):
        total = support.total_count
        return 0, (total if isinstance(total, jax.Array) else np.asarray(total))[..., None]
    low, high = (x if (host := as_host_array(x)) is None else host for x in bounds(support))
    return low, high


def _innermost(support: Any) -> Any:
    """The set of the entries of an event."""
    while hasattr(support, "base"):
        support = support.base
    return support


def _has_members(support: Any) -> bool:
    """Whether each draw is one of the parameters."""
    return isinstance(_innermost(support), Constant | FiniteSet)
