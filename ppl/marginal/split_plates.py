"""Plates whose elements become variables of their own, as one element of another site meets them.

Of n rows and m columns with a score for each pair, the sum over a row is taken given all columns.
"""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from ppl.marginal.factors import Local, LogFactor, Plate, Variable


def count_states(
    product: Sequence[Local],
    plates: Mapping[Variable, frozenset[Plate]],
    num_states: Mapping[Variable, int],
    factors: Sequence[LogFactor],
    fixed: Collection[Plate],
) -> dict[Plate, int]:
    """The joint states of variables that meet, for each plate that may be split for them.

    Args:
        product: The variables that meet. A plate that one of them lacks may be split.
        plates: The plates of each variable.
        num_states: The number of states of each variable.
        factors: All factors.
        fixed: Plates that are not split.
    """
    sizes = sizes_of(factors)
    moved = set(fixed)
    for factor in factors:
        for x in factor.locals:  # What reads a variable at another element than its own.
            moved |= plates[x.variable].difference(() if x.lag else factor.labels)
            moved |= {p for gather in x.gathers for p in (gather.target, *gather.plates)}
    found = frozenset().union(*(plates[x.variable] for x in product))
    crossed = [p for p in found if not all(p in plates[x.variable] for x in product)]
    return {
        p: math.prod(
            num_states[x.variable] ** (sizes[p] if p in plates[x.variable] else 1) for x in product
        )
        for p in crossed
        if p in sizes and p not in moved
    }


def split_plate(
    factors: Sequence[LogFactor], plate: Plate, elements: Mapping[Variable, Sequence[Variable]]
) -> list[LogFactor]:
    """Factors without a plate, one for each element along it in place of each that had it.

    Args:
        factors: The factors.
        plate: The plate.
        elements: For each variable that varies over the plate, the variables of its elements.
    """
    split = []
    for factor in factors:
        if plate not in factor.labels:
            split.append(factor)
            continue
        axis = factor.labels.index(plate)
        rest = (*factor.labels[:axis], *factor.labels[axis + 1 :])
        for i in range(factor.table.shape[axis]):
            labels = tuple(
                dataclasses.replace(x, variable=elements[x.variable][i])
                if isinstance(x, Local) and x.variable in elements
                else x
                for x in rest
            )
            split.append(LogFactor(labels, jnp.take(factor.table, i, axis)))
    return split


def sizes_of(factors: Sequence[LogFactor]) -> dict[Any, int]:
    """The length of the axis of each label."""
    return {x: n for f in factors for x, n in zip(f.labels, f.table.shape, strict=True)}
