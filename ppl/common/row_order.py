"""Order of rows: series and tables of pandas that are given together have it in common."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from ppl.common.columns import is_of
from ppl.harvest.leaf_values import short_repr


@dataclasses.dataclass(frozen=True)
class RowOrders:
    """Indices of the data of a model, of which any two are equal: nothing depends on them.

    Attributes:
        indices: An index of pandas by a description of what has it.
    """

    indices: Mapping[str, Any] = dataclasses.field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, data: Any) -> "RowOrders":
        """Indices of the series among data of sites, nested dicts, or of one series.

        Raises:
            ValueError: If two of them have one set of entries in two orders.
        """
        found = dict(_indices_in(data, "the data of site {!r}"))
        _compare(found)
        return cls(found)


def check_row_orders(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Check that arguments of a model and its data have their rows in one order.

    Args:
        model: A model, a pytree.
        args: Its arguments.
        kwargs: Its keyword arguments.

    Raises:
        ValueError: If two of them have one set of entries in two orders.
    """
    found = dict(_indices_in((args, dict(kwargs)), "argument {}", 1))
    if found:
        for orders in _orders_in(model):
            found |= orders.indices
        _compare(found)


def _indices_in(tree: Any, words: str, num_skipped: int = 0) -> Iterator[tuple[str, Any]]:
    """Descriptions of series, and of tables whose index has no name, each with its index.

    A named index of a table names a dimension, which labels compare.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree, is_leaf=_has_orders):
        name = words.format(jax.tree_util.keystr(path[num_skipped:], simple=True, separator="."))
        if _has_orders(leaf):  # data with gaps
            yield from ((name, index) for index in leaf.row_orders.indices.values())
        elif _has_index(leaf):
            yield name, leaf.index


def _has_index(x: Any) -> bool:
    is_of_pandas = is_of("pandas", x) and hasattr(x, "iloc")
    return is_of_pandas and (not hasattr(x, "columns") or x.index.name is None)


def _has_orders(x: Any) -> bool:
    return isinstance(getattr(x, "row_orders", None), RowOrders)


def _orders_in(model: Any) -> Iterator[RowOrders]:
    """Orders of the data of all conditions of a model."""
    for leaf in jax.tree.leaves(model, is_leaf=_has_orders):
        if _has_orders(leaf):
            yield leaf.row_orders
            yield from _orders_in(getattr(leaf, "args", ()))


def _compare(indices: Mapping[str, Any]) -> None:
    known: list[tuple[str, Any]] = []
    for what, index in indices.items():
        for first, other in known:
            if _differ_in_order(index, other):
                raise ValueError(
                    f"the rows of {what} and of {first} are the same in two orders, "
                    f"{short_repr(index.tolist())} and {short_repr(other.tolist())}, and a model "
                    "takes entries by their place. Sort them alike, x.loc[y.index]; if they are "
                    "in one order already, give x.reset_index(drop=True)."
                )
        known.append((what, index))


def _differ_in_order(index: Any, other: Any) -> bool:
    if index is other or len(index) != len(other) or index.equals(other):
        return False
    if index.name != other.name and None not in (index.name, other.name):
        return False
    is_set = index.is_unique and other.is_unique
    return is_set and set(index) == set(other)
