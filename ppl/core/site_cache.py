"""Cache of functions at sites: a function is traced once for all programs with equal sites."""

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import jax_core, leaf_values
from ppl.harvest.sowing import Axis, Site

_CONTAINERS = (type(None), tuple, list, dict)
_MAX_HOST_NUMBERS = 256  # numbers of the host that one cached function may keep in memory

OfSite = Callable[[Any, Any], Any]


def lift_to_leaves(fn: OfSite, site: Site) -> Callable[..., Any]:
    """Function `(value_leaves, *distribution_leaves)` that maps `fn` over the axes of a site.

    `fn(value, distribution)` is mapped over the `vmap` axes that are recorded at the site.
    """
    return _lift_to_leaves(fn, site.tree, site.extra_tree, site.axes)


def _lift_to_leaves(
    fn: OfSite, tree: Any, extra_tree: Any, axes: Sequence[Axis]
) -> Callable[..., Any]:
    def of_leaves(values: Any, *extras: Any) -> Any:
        return fn(jax.tree.unflatten(tree, values), jax.tree.unflatten(extra_tree, extras))

    return lift(of_leaves, axes, 1)


def cached_at_site(
    fn: OfSite, site: Site, values: Sequence[Any], extras: Sequence[Any], *, summed: bool
) -> tuple[Any, jax.Array]:
    """Apply `fn(value, distribution)` over the `vmap` axes of a site; traced functions are cached.

    Tracing a density takes many times as long as calling a traced function. A traced function is
    cached if the distribution declares (`is_closed`) that it depends only on its leaves and their
    structure.

    Args:
        fn: A function `(value, distribution) -> pair` defined at the level of a module.
        site: The site.
        values: The leaves of the value.
        extras: The leaves of the distribution.
        summed: Whether to sum the second part of the pair.
    """
    values = tuple(values)
    traced = any(jax_core.is_traced(x) for x in (*values, *extras))
    numbers = [x for x in extras if not isinstance(x, jax.Array)]
    is_small = sum(np.size(x) for x in numbers) <= _MAX_HOST_NUMBERS
    if not (traced and is_small and _is_pure_tree(site.extra_tree)):
        return _finish(lift_to_leaves(fn, site)(values, *extras), summed)
    known = tuple(None if isinstance(x, jax.Array) else _HostOperand(x) for x in extras)
    # Structures of distributions are equal whatever the ranks of the parameters are.
    ranks = tuple(map(np.ndim, extras))
    program = _jit_at_site(fn, summed, site.tree, site.extra_tree, site.axes, known, ranks)
    return program(values, *(x for x in extras if isinstance(x, jax.Array)))


def _finish(pair: tuple[Any, jax.Array], summed: bool) -> tuple[Any, jax.Array]:
    return (pair[0], distribution_protocol.sum_all(pair[1])) if summed else pair


@functools.lru_cache(maxsize=1024)
def _is_pure_tree(tree: Any) -> bool:
    """Whether all distributions in a tree depend only on their leaves and structure."""
    kinds = (kind for kind, _ in leaf_values.nodes(tree))
    return all(kind in _CONTAINERS or getattr(kind, "is_closed", False) for kind in kinds)


class _HostOperand:
    """Hashable operand of the host, equal to another of the same type, dtype, shape and bits."""

    def __init__(self, value: Any):
        self.value = value
        array = np.asarray(value)
        self._key = type(value), array.dtype, array.shape, array.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HostOperand) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@functools.lru_cache(maxsize=1024)
def _jit_at_site(
    fn: OfSite,
    summed: bool,
    tree: Hashable,
    extra_tree: Hashable,
    axes: tuple[Axis, ...],
    known: tuple[_HostOperand | None, ...],
    _: tuple[int, ...],
) -> Callable[..., Any]:
    lifted = _lift_to_leaves(fn, tree, extra_tree, axes)

    def at_site(values: Any, *arrays: Any) -> Any:
        rest = iter(arrays)
        operands = (next(rest) if x is None else x.value for x in known)
        return _finish(lifted(values, *operands), summed)

    return jax.jit(at_site)
