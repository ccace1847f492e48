"""Coordinates at the edge of their support: a sign that there is nothing to converge to."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from inference.common.leaf_names import element_names, named_leaves

_EDGE = 15.0  # on unconstrained space: exp(-15) is 3e-7, and a probability as close to 0 or 1


def find_bounded_coordinates(values: Mapping[str, Any], position: Any) -> set[str]:
    """The coordinates of sites whose values are other than their position on unconstrained space.

    Args:
        values: By site.
        position: The unconstrained position that they stand for.
    """
    by_name, found = dict(named_leaves(values)), set()
    for name, x in named_leaves(position):
        value = by_name.get(name, x)
        if np.shape(value) != np.shape(x) or np.any(value != x):
            found |= set(element_names(name, np.shape(x)))
    return found


def describe_boundary(
    what: str, position: Any, inside: Callable[[], Collection[str]]
) -> Iterator[str]:
    """Words for coordinates that are far out on unconstrained space.

    Args:
        what: What they are coordinates of.
        position: Where they are on unconstrained space.
        inside: Gives the names of those that have bounds; asked only where some are far out.
    """
    far = []
    for name, leaf in named_leaves(position):
        flat = np.ravel(leaf)
        places = np.flatnonzero(np.abs(flat) > _EDGE)
        names = element_names(name, np.shape(leaf)) if places.size else []
        far += [(names[i], flat[i]) for i in places]
    with_bounds = inside() if far else ()
    far = [(name, x) for name, x in far if name in with_bounds]
    if far:
        name, x = max(far, key=lambda item: abs(item[1]))
        more = f" and {len(far) - 1} more" if len(far) > 1 else ""
        yield (
            f"{what} {name}{more} is at the edge of its support ({x:.3g} on unconstrained space, "
            "as where a scale goes to 0 or a probability to 1): the fit may never end. Give it a "
            "prior that falls off there, or bring data to a scale near 1."
        )
