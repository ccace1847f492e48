"""Draws that are cut off: integers at an end of their dtype, beyond which the support goes on."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from distributions.common.arrays import as_host_array, is_traced
from distributions.constraints.base import bounds
from distributions.constraints.counts import FiniteSet, Multinomial


def count_cut_off(support: Any, draws: Any) -> Any:
    """The number of draws that are cut off at an end of their integer dtype.

    At such an end a draw is right only if the support ends there, too. Where no draw can be cut
    off, the number is 0, and the draws are not looked at; they may be traced.
    """
    dtype = jnp.result_type(draws)
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
    return sum(((draws == end) & goes_on).sum() for end, goes_on in ends)


def warn_of_cut_off(d: Any, draws: Any) -> None:
    """Warns of known draws of `d` that are cut off. The values of traced draws are not known."""
    if is_traced(draws) or not getattr(draws, "is_fully_addressable", True):
        return
    if num := int(count_cut_off(d.support, draws)):
        dtype = jnp.result_type(draws)
        remedy = (
            "Bound the parameters, or take a continuous family."
            if dtype.itemsize == 8
            else "jax.config.update('jax_enable_x64', True) makes room, or bound the parameters."
        )
        warnings.warn(
            f"{type(d).__name__}: {num} of {draws.size} draws are cut off at an end of {dtype}, "
            f"as the support goes on there. {remedy}",
            stacklevel=3,
        )


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
    while hasattr(support, "base"):
        support = support.base
    if isinstance(support, FiniteSet):
        return 0, 0  # each draw is one of the members
    if isinstance(support, Multinomial):
        total = support.total_count
        return 0, (total if isinstance(total, jax.Array) else np.asarray(total))[..., None]
    low, high = (x if (host := as_host_array(x)) is None else host for x in bounds(support))
    return low, high
