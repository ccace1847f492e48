"""Minibatches: positional arguments of a model for each step, drawn or given."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax

import ppl
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.target import differing_names, named_sites
from inference.models.value_target import ValueTarget
from inference.runtime.devices import put_on_common_devices
from ppl.common.arguments import Arguments
from ppl.common.column_names import doubt_other_categories
from ppl.common.foreign_arrays import convert_arguments
from ppl.harvest.function_equality import ComparedByContents
from ppl.harvest.jax_core import is_traced
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.pytrees import register_dataclass

Retargeted = tuple[Any, Any, Layout]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Batches:
    """Function of a step's key that draws the arguments of the step.

    Attributes:
        draw: Function of a key and of all arguments, compared by its contents.
    """

    draw: ComparedByContents

    def __call__(self, key: jax.Array, target: Any, guide: Any) -> Retargeted:
        """Target of a batch, the guide to it, and its layout."""
        args, kwargs = target.arguments.join(target.data)
        batch = self.draw.value(key, *args, **kwargs)
        if batch is None or isinstance(batch, list):
            raise TypeError(f"batch must return a tuple of the arguments of a step, got {batch!r}")
        batch = batch if isinstance(batch, tuple) else (batch,)
        return _retarget(target, guide, batch, kwargs)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GivenBatch:
    """Arguments of one step that a user gives.

    Attributes:
        data: Arguments that are arrays or floats, on the device.
        arguments: All other arguments, static.
    """

    data: list[Any]
    arguments: Arguments = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "GivenBatch":
        """Batch of the arguments of a model, copied to the default device unless it is traced."""
        arguments, data = Arguments.split(args, kwargs)
        data = [x if is_traced(x) else put_on_common_devices(x) for x in data]
        return cls(data, arguments)

    def __call__(self, key: jax.Array, target: Any, guide: Any) -> Retargeted:
        """Target of the batch, the guide to it, and its layout."""
        return _retarget(target, guide, *self.arguments.join(self.data))


def _retarget(target: Any, guide: Any, args: tuple[Any, ...], kwargs: Any) -> Retargeted:
    """Target of the same model for other arguments, the guide to it, and its layout.

    Raises:
        ValueError: if the new target has other latent sites, and the guide is not a function of the
            arguments, or if it reads a column whose categories are not those of the old target, or
            if the entries of a latent site have other names.
    """
    first = target.arguments.join(target.data)
    args, kwargs = doubt_other_categories(convert_arguments(args, kwargs), first)
    if isinstance(target, ValueTarget):
        of_batch = target.to(args, kwargs)
        _check_names(of_batch, target, is_local=True)
        return of_batch, guide.to(of_batch), of_batch.layout
    of_batch = ppl.unconstrain(target.model, *args, **kwargs)
    shapes = of_batch.position_shapes
    all_data = target.position_shapes
    if Layout.of(shapes) != Layout.of(all_data):
        raise ValueError(
            f"the latent sites of a batch, {_list_shapes(shapes)}, are not those of all "
            f"data, {_list_shapes(all_data)}, so {guide!r} cannot be fitted to them. Where "
            "rows have latent sites of their own, give a guide that is a function and draws "
            "them from the arguments of the batch."
        )
    _check_names(of_batch, target, is_local=False)
    return of_batch, guide, Layout.of(shapes)


def _check_names(of_batch: Any, first: Any, is_local: bool) -> None:
    """Check that the entries of latent sites are called as those of the data of a fit.

    Args:
        of_batch: Target of a batch.
        first: Target that the fit began with.
        is_local: Whether a batch may have entries of its own; then only their order is checked.

    Raises:
        ValueError: If they have other names, or names in another order.
    """
    latent = [site for site in named_sites(of_batch) if not site[1]]
    for name, dim, own, old in differing_names(latent, named_sites(first)):
        if not is_local or {*own} == {*old}:
            raise ValueError(
                f"the entries of site {name!r} along {dim!r} are called {short_repr(list(own))} in "
                f"a batch, and {short_repr(list(old))} in the data that the fit began with, so "
                "that each would learn from data of others. Sort the batches alike; or give an "
                "index without a name, table.rename_axis(None), which names nothing."
            )


def batches(
    key: jax.Array, batch: Callable[..., Any] | None, target: Any, guide: Any
) -> Batches | None:
    """Batches drawn by the function `batch`, checked; None if `batch` is None.

    Raises:
        TypeError: if `batch` is not a function.
        ValueError: if a batch has other latent sites than all data, and the guide is not a
            function of the arguments.
    """
    if batch is None:
        return None
    if not callable(batch):
        raise TypeError(
            "batch must be a function of a key and of the arguments of the model, which returns "
            f"the arguments of one step, got {batch!r}"
        )
    drawn = Batches(ComparedByContents.of(batch))
    try:
        jax.eval_shape(lambda key: drawn(key, target, guide)[0].initial(key), key)
    except Exception as error:
        error.add_note(
            "The arguments were those that batch has returned: those of the model, in the same "
            "order, with fewer rows."
        )
        raise
    return drawn


def iterate_batches(batches: Any) -> Iterator[tuple[Any, ...]]:
    """The positional arguments of one step after another.

    An iterable that can start again, such as a list or a loader, starts again at its end. An
    iterator does not.

    Raises:
        TypeError: if `batches` is not an iterable of batches.
        ValueError: if there is no batch.
    """
    if callable(batches) and not isinstance(batches, Iterable):
        raise TypeError(
            f"batches must be an iterable of batches, got the function {batches!r}: one that draws "
            "a batch from all data is for batch=, and a generator function has to be called"
        )
    is_wrong = isinstance(batches, str | bytes | Mapping) or hasattr(batches, "dtype")
    if is_wrong or not (isinstance(batches, Iterable) or hasattr(batches, "__getitem__")):
        raise TypeError(
            "batches must be an iterable, such as a data loader, whose elements are tuples of the "
            f"arguments of one step, got {type(batches).__name__}"
        )
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None:
        raise ValueError("batches is empty, or its first batch is None: there is no data to fit")
    return _repeat(batches, first, iterator)


def _repeat(batches: Any, first: Any, iterator: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    yield _as_arguments(first)
    yield from map(_as_arguments, iterator)
    has_more = iterator is not batches  # else it is an iterator, which has ended
    while has_more:
        has_more = False
        for batch in batches:
            has_more = True
            yield _as_arguments(batch)


def _as_arguments(batch: Any) -> tuple[Any, ...]:
    """Positional arguments of a step: the items of a tuple or list, or one argument."""
    return tuple(batch) if isinstance(batch, tuple | list) else (batch,)


def _list_shapes(shapes: Any) -> str:
    return ", ".join(f"{name} {x.shape}" for name, x in named_leaves(shapes))
