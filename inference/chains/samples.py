"""Samples: the draws of a run, and checks that arrays can hold the values of sites."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.leaf_names import named_leaves
from inference.common.matrices import Matrix
from inference.common.warm_up import WarmUp


class Samples(NamedTuple):
    """Draws of a run.

    Attributes:
        draws: Values of sites, arrays of shape ``(chain, draw, *shape)``.
        stats: Statistics of transitions by name, ``(chain, draw)``.
        inverse_mass_matrix: Matrices at the end of warm-up, with the chains in front, or `None`.
        warmup: Record of warm-up, or `None`.
    """

    draws: dict[str, Any]
    stats: dict[str, np.ndarray]
    inverse_mass_matrix: Matrix | None
    warmup: WarmUp | None = None


def check_sites(sites: Mapping[str, Any]) -> None:
    """Checks that NumPy arrays can hold the values of all sites.

    Raises:
        TypeError: if the values of a site are random keys.
    """
    for name, leaf in named_leaves(sites):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise TypeError(
                f"site {name!r} has random keys as its values, {leaf.dtype}, of which no draws are "
                "kept; record jax.random.key_data(key)"
            )


def shapes_of_draws(values: Any) -> Any:
    """Shapes and dtypes of one draw, from values ``(chain, row, *shape)``."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), values)
