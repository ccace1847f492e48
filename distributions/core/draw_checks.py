"""Checks of draws whose values are known: integers that stand at an end of their dtype."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np

from distributions.common.arrays import as_host_array
from distributions.constraints.base import bounds
from distributions.constraints.counts import FiniteSet, Multinomial


def warn_of_ends(d: Any, draws: Any) -> None:
    """Warns of known draws of `d` that are cut off at an end of their integer dtype.

    At such an end a draw is right only if the support ends there, too. Traced draws are unknown.
    """
    if not isinstance(draws, jax.Array) or draws.dtype.kind != "i" or draws.dtype.itemsize < 4:
        return
    host = as_host_array(draws)
    if host is None or not host.size:
        return
    limits = np.iinfo(host.dtype)
    if limits.min < host.min() and host.max() < limits.max:
        return
    low, high = _ends(d.support)
    at_low = (host == limits.min) & (low < limits.min)
    at_high = (host == limits.max) & (high > limits.max)
    if num := int(np.sum(at_low | at_high)):
        end = limits.max if at_high.any() else limits.min
        warnings.warn(
            f"{type(d).__name__}: {num} of {host.size} draws stand at {end}, the end of "
            f"{host.dtype}, where the support goes on: they are cut off there. "
            + _remedy(host.dtype),
            stacklevel=3,
        )


def _remedy(dtype: np.dtype) -> str:
    if dtype.itemsize == 8:
        return "Bound the parameters, or take a continuous family."
    return "jax.config.update('jax_enable_x64', True) makes room, or bound the parameters."


def _ends(support: Any) -> tuple[Any, Any]:
    """The ends of a support, beyond all integers where they are not known."""
    if isinstance(support, FiniteSet):
        return np.inf, -np.inf  # each draw is one of the members
    if isinstance(support, Multinomial):
        low, high = 0, np.asarray(support.total_count)[..., None]
    else:
        low, high = bounds(getattr(support, "base", support))
    low, high = as_host_array(low), as_host_array(high)
    return -np.inf if low is None else low, np.inf if high is None else high
