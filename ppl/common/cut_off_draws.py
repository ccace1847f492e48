"""Warnings of drawn integers that are cut off at an end of their dtype, by site."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import jax_core
from ppl.harvest.survey import Path, describe


def has_counts(value: Any) -> bool:
    """Whether a value has integers that draws of a distribution may exceed."""
    dtypes = (jnp.result_type(x) for x in jax.tree.leaves(value))
    return any(jnp.issubdtype(x, np.signedinteger) and x.itemsize >= 4 for x in dtypes)


def warn_of_cut_off(where: str, path: Path, count: Any, value: Any) -> None:
    """Warns of the draws of a site that are cut off, if their number is known and not 0.

    Args:
        where: The name of the caller.
        path: The path of the site.
        count: The number of draws that are cut off, as `distribution_protocol.count_cut_off` has
            it, for each part of the draws; None where there are no integers.
        value: All draws of the site.
    """
    if (
        count is None
        or jax_core.is_traced(count)
        or not getattr(count, "is_fully_addressable", True)
    ):
        return
    if not (num := int(np.sum(count))):
        return
    size = sum(np.size(x) for x in jax.tree.leaves(value))
    dtype = jnp.result_type(int)
    remedy = "Bound the parameters of its distribution"
    if dtype.itemsize < 8:
        remedy += ", or make room by jax.config.update('jax_enable_x64', True)"
    warnings.warn(
        f"{where}: {num} of {size} draws of site {describe(path)} are cut off at an end of "
        f"{dtype}, as the support goes on there. {remedy}.",
        stacklevel=3,
    )
