"""Supports of mixtures: the smallest constraints that hold several others."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from distributions.combinators.wrapper import bounds, extreme
from distributions.common.arrays import as_host_array
from distributions.constraints import (
    Constraint,
    independent,
    integer_interval,
    interval,
    with_atoms,
)
from distributions.constraints.atoms import WithAtoms
from distributions.constraints.base import Independent
from distributions.core.distribution import Shape


def hull(support: Constraint, shape: Shape, ndims: int = 0) -> Constraint | None:
    """The smallest set of the kind of `support` that holds the supports of all components.

    Components stand along the last axis in front of the `ndims` axes of an event. None stands for
    no such set.
    """
    if isinstance(support, WithAtoms):
        return _hull_with_atoms(support, shape, ndims)
    if isinstance(support, Independent):
        base = hull(support.base, shape, ndims + support.ndims)
        return None if base is None else independent(base, support.ndims)
    limits = {name: getattr(support, name) for name in ("low", "high") if hasattr(support, name)}
    if not any(np.ndim(leaf) for leaf in jax.tree.leaves(support)):
        return support
    if len(limits) != len(jax.tree.leaves(support)):
        return None
    full = {name: jnp.broadcast_to(limit, shape) for name, limit in limits.items()}
    axis = -1 - ndims
    merged = {name: (jnp.min if name == "low" else jnp.max)(b, axis) for name, b in full.items()}
    return dataclasses.replace(support, **merged)  # pyright: ignore[reportArgumentType]


def _hull_with_atoms(support: WithAtoms, shape: Shape, ndims: int) -> Constraint | None:
    """`hull` of a set with atoms, or None.

    All components must share the atoms: others would have a density there.
    """
    base = hull(support.base, shape, ndims)
    spread = [jnp.broadcast_to(atom, shape) if np.ndim(atom) else atom for atom in support.atoms]
    atoms = [jnp.take(x, 0, axis=-1 - ndims) if np.ndim(x) else x for x in spread]
    pairs = zip(spread, atoms, strict=True)
    shared = all(_same(x, jnp.expand_dims(y, -1 - ndims)) for x, y in pairs if np.ndim(x))
    return with_atoms(base, *atoms) if base is not None and shared else None


def _same(x: Any, y: Any) -> bool:
    """Whether two arrays are equal, or may be."""
    x = as_host_array(x)
    y = as_host_array(y)
    return x is None or y is None or bool(np.all(x == y))


def _union_with_atoms(supports: Sequence[Constraint]) -> Constraint | None:
    if not all(isinstance(s, WithAtoms) for s in supports):
        return None
    bases, atoms = zip(*((s.base, s.atoms) for s in supports), strict=True)  # pyright: ignore[reportAttributeAccessIssue]
    if len({len(a) for a in atoms}) > 1:
        return None
    shared = all(_same(x, y) for a in atoms for x, y in zip(a, atoms[0], strict=True))
    base = union(bases)
    return with_atoms(base, *atoms[0]) if base is not None and shared else None


def union(supports: Sequence[Constraint]) -> Constraint | None:
    """The smallest constraint that holds all supports, or None if there is none."""
    first = supports[0]
    ndims = {s.event_ndims for s in supports}
    if any(s.has_atoms for s in supports):
        return _union_with_atoms(supports)
    if len({jax.tree.structure(s) for s in supports}) == 1 and not jax.tree.leaves(first):
        return first
    if all(isinstance(s, Independent) for s in supports) and len(ndims) == 1:
        base = union([s.base for s in supports])  # pyright: ignore[reportAttributeAccessIssue]
        return None if base is None else independent(base, first.ndims)  # pyright: ignore[reportAttributeAccessIssue]
    if ndims != {0}:
        return None
    low, high = zip(*map(bounds, supports), strict=True)
    least = functools.reduce(functools.partial(extreme, "minimum"), low)
    most = functools.reduce(functools.partial(extreme, "maximum"), high)
    return (integer_interval if first.is_discrete else interval)(least, most)
