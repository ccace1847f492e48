"""Warnings for coordinates at the edge of their support, where a fit may never converge."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from inference.common.leaf_names import element_names, named_leaves

# Distance from 0 on unconstrained space: a scale is then exp(-15), which is 3e-7, or a probability
# as close to 0 or 1.
_EDGE = 15.0
Labels = Mapping[str, Sequence[Any]]
_NONE: Labels = {}


def find_bounded_coordinates(
    values: Mapping[str, Any], position: Any, labels: Labels = _NONE
) -> set[str]:
    """Names of the coordinates whose values differ from their unconstrained positions.

    Args:
        values: Values by site.
        position: Unconstrained position of these values.
        labels: Labels of the axes of sites that have any, by name.
    """
    by_name = dict(named_leaves(values))
    found = set()
    for name, x in named_leaves(position):
        value = by_name.get(name, x)
        if np.shape(value) != np.shape(x) or np.any(value != x):
            found |= set(element_names(name, np.shape(x), labels.get(name, ())))
    return found


def describe_boundary(
    what: str,
    position: Any,
    inside: Callable[[], Collection[str]],
    labels: Labels = _NONE,
) -> Iterator[str]:
    """Warning for bounded coordinates that are far out on unconstrained space.

    Args:
        what: Noun for a coordinate: ``"site"`` or ``"parameter"``.
        position: Position on unconstrained space.
        inside: Function that gives the names of coordinates with bounds; called only if some
            coordinate is far out.
        labels: Labels of the axes of sites that have any, by name.
    """
    far = []
    for name, leaf in named_leaves(position):
        flat = np.ravel(leaf)
        places = np.flatnonzero(np.abs(flat) > _EDGE)
        if places.size:
            names = element_names(name, np.shape(leaf), labels.get(name, ()))
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
