"""Minibatches: positional arguments of a model, drawn anew for each step."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

import ppl
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.drivers.discrete_target import DiscreteTarget
from ppl.harvest.function_equality import ByContents


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Batches:
    """Function of a step's key that draws the arguments of the step.

    Attributes:
        draw: Function of a key and of all arguments, compared by its contents.
    """

    draw: ByContents

    def __call__(self, key: jax.Array, target: Any, guide: Any) -> tuple[Any, Any, Layout]:
        """Target of a batch, the guide to it, and its layout."""
        args, kwargs = target.arguments.join(target.data)
        batch = self.draw.value(key, *args, **kwargs)
        if batch is None or isinstance(batch, list):
            raise TypeError(f"batch must return a tuple of the arguments of a step, got {batch!r}")
        batch = batch if isinstance(batch, tuple) else (batch,)
        if isinstance(target, DiscreteTarget):
            target = target.to(batch)
            return target, guide.to(target), target.layout
        target = ppl.unconstrain(target.model, *batch, **kwargs)
        return target, guide, Layout.of(target.position_shapes)


def batches(
    key: jax.Array, batch: Callable[..., Any] | None, target: Any, guide: Any
) -> Batches | None:
    """Batches drawn by the function `batch`, checked; None if `batch` is None.

    Raises:
        TypeError: if `batch` is no function.
        ValueError: if a batch has other latent sites than all data, and the guide is no function of
            the arguments.
    """
    if batch is None:
        return None
    if not callable(batch):
        raise TypeError(
            "batch must be a function of a key and of the arguments of the model, which returns "
            f"the arguments of one step, got {batch!r}"
        )
    drawn = Batches(ByContents.of(batch))
    try:
        one_batch = jax.eval_shape(lambda key: drawn(key, target, guide)[0].initial(key), key)
    except Exception as error:
        error.add_note(
            "The arguments were those that batch has returned: those of the model, in the same "
            "order, with fewer rows."
        )
        raise
    if not isinstance(target, DiscreteTarget):
        all_data = target.position_shapes
        if Layout.of(one_batch) != Layout.of(all_data):
            raise ValueError(
                f"the latent sites of a batch, {_list_shapes(one_batch)}, are not those of all "
                f"data, {_list_shapes(all_data)}, so {guide!r} cannot be fitted to them. Where "
                "rows have latent sites of their own, give a guide that is a function and draws "
                "them from the arguments of the batch."
            )
    return drawn


def _list_shapes(shapes: Any) -> str:
    return ", ".join(f"{name} {x.shape}" for name, x in named_leaves(shapes))
