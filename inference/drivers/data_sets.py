"""Data sets of a call: arguments with the data sets in front, and the arguments of one data set."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common.columns import Columns
from ppl.core.model_pytree import as_written
from ppl.transforms.check_indices import check_indices, may_be_out_of_range


def stack_data_sets(args: tuple[Any, ...], in_axes: Any) -> tuple[tuple[Any, ...], list[bool], int]:
    """Arguments with the data sets in front, whether each leaf has them, and their number.

    Raises:
        TypeError: if `in_axes` holds anything but integers and `None`, or an argument is a list
            of tables.
        ValueError: if `in_axes` does not fit the arguments, or numbers of data sets differ.
    """
    axes = _spread_axes(args, in_axes)
    _check_tables(args, in_axes)
    leaves, tree = jax.tree_util.tree_flatten_with_path(args)
    stacked = []
    sizes = {}
    for (path, leaf), axis in zip(leaves, axes, strict=True):
        if axis is None:
            stacked.append(leaf)
            continue
        name = f"argument {path[0].idx + 1}{jax.tree_util.keystr(path[1:])} of the model"
        shape = np.shape(leaf)
        if not -len(shape) <= axis < len(shape):
            raise ValueError(
                f"in_axes: {name} has the shape {shape}, and so no axis {axis} over data sets; "
                "give None for an argument that all data sets share"
            )
        sizes[name] = shape[axis]
        stacked.append(jnp.moveaxis(jnp.asarray(leaf), axis, 0))
    if not sizes:
        raise ValueError(
            f"in_axes: no argument has an axis over data sets, got {in_axes!r} for {len(args)} "
            "arguments. Data within the model, as ppl.condition or ppl.from_stan gives it, are the "
            "same for all: give models of equal shapes as the argument of another one, lambda key, "
            "model: model(key), with jax.tree.map(lambda *x: jax.numpy.stack(x), *models). For one "
            "data set use mcmc"
        )
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{size} of {name}" for name, size in sizes.items())
        raise ValueError(f"in_axes: numbers of data sets differ: {told}")
    num = next(iter(sizes.values()))
    if not num:
        raise ValueError(f"in_axes: there are no data sets: {next(iter(sizes))} is empty")
    return jax.tree.unflatten(tree, stacked), [axis is not None for axis in axes], num


def _check_tables(args: tuple[Any, ...], in_axes: Any) -> None:
    """Check that no argument with data sets is a list of tables.

    Raises:
        TypeError: if there is one.
    """
    each = tuple(in_axes) if isinstance(in_axes, list | tuple) else (in_axes,) * len(args)
    for i, (given, axis) in enumerate(zip(args, each, strict=True)):
        is_list = isinstance(given, list | tuple) and any(isinstance(x, Columns) for x in given)
        if is_list and axis is not None:
            raise TypeError(
                f"argument {i + 1} of the model is a {type(given).__name__} of tables, and data "
                "sets are an axis of arrays. Give one Dataset of xarray whose first dimension is "
                "that of the data sets, and that has no names of rows: "
                "xarray.concat([x.to_xarray() for x in tables], 'dataset').drop_vars('index')"
            )


def _spread_axes(args: tuple[Any, ...], in_axes: Any) -> list[int | None]:
    """Axis of each leaf of the arguments."""

    def is_none(x):
        return x is None

    if not isinstance(in_axes, int | None):
        in_axes = tuple(in_axes)
        if len(in_axes) != len(args):
            raise ValueError(
                f"in_axes has {len(in_axes)} entries for {len(args)} arguments of the model "
                f"(without its key), got {in_axes!r}; give one for each"
            )
    for axis in jax.tree.leaves(in_axes, is_leaf=is_none):
        if not isinstance(axis, int | None) or isinstance(axis, bool):
            raise TypeError(f"in_axes must hold integers and None, got {axis!r} in {in_axes!r}")
    try:
        spread = jax.tree.map(
            lambda axis, part: [axis] * len(jax.tree.leaves(part)), in_axes, args, is_leaf=is_none
        )
    except ValueError as error:
        raise ValueError(
            f"in_axes {in_axes!r} has not the structure of the arguments {jax.tree.structure(args)}"
        ) from error
    return jax.tree.leaves(spread, is_leaf=is_none)


def data_set(args: Any, is_stacked: list[bool], i: int) -> Any:
    """Arguments of one data set."""
    leaves, tree = jax.tree.flatten(args)
    parts = [x[i] if flag else x for x, flag in zip(leaves, is_stacked, strict=True)]
    return jax.tree.unflatten(tree, parts)


def check_indices_of_each(
    model: Any, args: Any, is_stacked: list[bool], num: int, kwargs: Mapping[str, Any]
) -> None:
    """Check the indices of all data sets, in one program for all unless one is out of range.

    Raises:
        ValueError: if an index of a data set is out of range.
    """
    leaves, tree = jax.tree.flatten(args)
    shared = [None if flag else x for x, flag in zip(leaves, is_stacked, strict=True)]
    stacked = [x for x, flag in zip(leaves, is_stacked, strict=True) if flag]
    written = as_written(model)

    def on_each(key: Any, *stacked: Any) -> Any:
        def on_one(key: Any, *rows: Any) -> Any:
            rest = iter(rows)
            pairs = zip(shared, is_stacked, strict=True)
            own = jax.tree.unflatten(tree, [next(rest) if flag else x for x, flag in pairs])
            return written(key, *own, **kwargs)

        return jax.vmap(on_one)(jax.random.split(key, num), *stacked)

    if may_be_out_of_range(on_each, tuple(stacked), {}):
        for i in range(num):
            try:
                check_indices(model, data_set(args, is_stacked, i), kwargs)
            except ValueError as error:
                raise ValueError(f"data set {i}: {error}") from None
