"""Groups of sites, and their coordinates in a flat position."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves


class SiteGroup(NamedTuple):
    """Some sites of a layout.

    Attributes:
        index: Indices of their coordinates in the flat position, ``(size,)``.
        layout: Split of a vector of these coordinates into sites, keyed by full name.
    """

    index: np.ndarray
    layout: Layout


def gather(x: jax.Array, index: np.ndarray) -> jax.Array:
    """``x[index]`` by at most one slice a site, so that its derivative has no scatter."""
    cuts = np.flatnonzero(np.diff(index) != 1) + 1
    runs = [run for run in np.split(index, cuts) if run.size]
    slices = [x[run[0] : run[-1] + 1] for run in runs] or [x[:0]]
    return slices[0] if len(slices) == 1 else jnp.concatenate(slices)


def group_sites(layout: Layout, names: Iterable[str]) -> SiteGroup:
    """The group of the sites with these full names."""
    known = _index_sites(layout)
    chosen = sorted(names)
    parts = [np.zeros(0, int), *(known[name][0] for name in chosen)]
    kinds = {name: known[name][1] for name in chosen}
    leaves, treedef = jax.tree.flatten(kinds)
    kind = Layout(treedef, tuple(x.shape for x in leaves), tuple(x.dtype for x in leaves))
    return SiteGroup(np.concatenate(parts), kind)


def full_names(layout: Layout) -> list[str]:
    """The names of all sites, scopes joined by dots."""
    return list(_index_sites(layout))


def select_sites(who: str, layout: Layout, names: Sequence[str]) -> list[str]:
    """The full names of the sites that `names` select; the name of a scope selects all its sites.

    Raises:
        ValueError: if a name belongs to no site, or a site is named twice. The message lists the
            sites.
    """
    known = full_names(layout)
    selected = []
    for name in names:
        found = [full for full in known if full == name or full.startswith(f"{name}.")]
        if not found:
            raise ValueError(
                f"{who} names a site {name!r}, and the sites are {_quote_names(known)}"
            )
        doubled = [full for full in found if full in selected]
        if doubled:
            raise ValueError(
                f"{who} names site {doubled[0]!r} twice; give each of the sites "
                f"{_quote_names(known)} to one guide"
            )
        selected += found
    return selected


def _index_sites(layout: Layout) -> dict[str, tuple[np.ndarray, jax.ShapeDtypeStruct]]:
    """The indices, shape and dtype of each site, by full name."""
    kinds = [jax.ShapeDtypeStruct(*kind) for kind in zip(layout.shapes, layout.dtypes, strict=True)]
    names = [name for name, _ in named_leaves(jax.tree.unflatten(layout.treedef, kinds))]
    stops = np.cumsum([math.prod(kind.shape) for kind in kinds])
    starts = [0, *stops[:-1]]
    indices = [np.arange(start, stop) for start, stop in zip(starts, stops, strict=True)]
    return dict(zip(names, zip(indices, kinds, strict=True), strict=True))


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
