"""Groups of sites whose mass matrix is dense: names checked, and coordinates in a position."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from inference.common.argument_checks import short_repr
from inference.common.leaf_names import named_leaves
from inference.common.matrices import Blocks
from inference.common.target import Target

KINDS = ("auto", "diagonal", "low_rank", "dense")

Groups = tuple[tuple[str, ...], ...]


def check_mass_matrix_setting(given: Any) -> str | Groups:
    """The argument `mass_matrix`: a kind, or groups of names of sites.

    Raises:
        ValueError: if it is neither, or a name stands twice.
    """
    if isinstance(given, str) and given in KINDS:
        return given
    is_list = isinstance(given, list | tuple) and len(given) > 0
    if not is_list or not all(map(_is_group, given)):
        raise ValueError(
            f"mass_matrix must be one of {', '.join(map(repr, KINDS))}, or a list of tuples of "
            f'names of sites, such as [("a", "b")], got {short_repr(given)}'
        )
    names = [name for group in given for name in group]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"mass_matrix: site {name!r} stands {names.count(name)} times in the groups, "
                "expected once: join groups that share a site"
            )
    return tuple(map(tuple, given))


def _is_group(group: Any) -> bool:
    is_list = isinstance(group, list | tuple) and len(group) > 0
    return is_list and all(isinstance(name, str) for name in group)


def blocks_of(groups: Sequence[Sequence[str]], target: Target, transport: bool) -> Blocks:
    """Sorted coordinates of each group, in the flat vector of a position.

    Args:
        groups: Names of sites.
        target: Density over the unconstrained values of sites.
        transport: Whether chains move in the coordinates of a guide.

    Raises:
        ValueError: if a name is not that of a latent site, or coordinates belong to no site.
    """
    if transport:
        raise ValueError(
            "mass_matrix by site is for the coordinates of the model, and transport=True moves "
            f"chains in those of a guide, which mixes sites; leave one of them out, got {groups}"
        )
    places: dict[str, list[int]] = {}
    start = 0
    for name, leaf in _named(target):
        size = math.prod(leaf.shape)
        places.setdefault(name, []).extend(range(start, start + size))
        start += size
    for name in (name for group in groups for name in group):
        if name not in places:
            raise ValueError(
                f"mass_matrix: {name!r} is no latent site of the model; expected some of "
                f"{', '.join(map(repr, places))}"
            )
    return tuple(np.sort([i for name in group for i in places[name]]) for group in groups)


def _named(target: Target) -> Any:
    """Leaves of a position by name of their site, in the order of the flat vector."""
    shapes = target.position_shapes
    paths = {".".join(map(str, path)) for path, is_derived in target.order if not is_derived}
    for name, leaf in named_leaves(shapes):
        parts = name.split(".")
        prefixes = (".".join(parts[:i]) for i in range(len(parts), 0, -1))
        yield next((x for x in prefixes if x in paths), name), leaf
