"""Replacement of the distribution of a site by a wrapper around it."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common.lift import lift
from ppl.harvest.interpreter import Operands
from ppl.harvest.sowing import Axis, Site


def replace_distribution(
    site: Site, operands: Operands, make: Callable[[Any], Any], by_element: Sequence[Any] = ()
) -> tuple[Site, Operands]:
    """Replace the distribution of a random site by `make(distribution)`, a wrapper around it.

    Args:
        site: The site.
        operands: Its operands.
        make: A function from the distribution to the wrapper.
        by_element: Arrays in the wrapper with the outermost axes of the site in front, as many as
            they have. All other arrays that the wrapper adds are equal for all elements.

    Returns:
        The site and its operands with the wrapper.
    """
    made = []

    def make_for_element(*leaves: Any) -> tuple[()]:
        wrapped, tree = jax.tree.flatten(make(jax.tree.unflatten(site.extra_tree, leaves)))
        places = {id(leaf): place for place, leaf in enumerate(leaves)}
        made.append((tree, [(places.get(id(leaf)), leaf) for leaf in wrapped]))
        return ()

    # Abstract elements: the structure has to know parameters without the axes of `vmap`.
    jax.eval_shape(lift(make_for_element, site.axes), *operands.extras)
    tree, leaves = made[-1]
    mapped = {id(leaf) for leaf in by_element}

    def maps(axis: Axis, depth: int) -> Iterator[bool]:
        for place, leaf in leaves:
            is_mapped = id(leaf) in mapped and depth < jnp.ndim(leaf)
            yield is_mapped if place is None else axis.mapped[place]

    outermost = range(len(site.axes) - 1, -1, -1)
    axes = tuple(
        dataclasses.replace(axis, mapped=tuple(maps(axis, depth)))
        for axis, depth in zip(site.axes, outermost, strict=True)
    )
    site = dataclasses.replace(site, extra_tree=tree, axes=axes)
    extras = (leaf if place is None else operands.extras[place] for place, leaf in leaves)
    return site, dataclasses.replace(operands, extras=tuple(map(jnp.asarray, extras)))
