"""Batches of data: the arguments of a model, drawn anew for each step."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

import ppl
from inference._guide_function import GuideFunction, arguments_of
from inference.flat import Layout
from inference.likeness import Alike
from inference.names import named_leaves


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Batches:
    """Draws the arguments of a step.

    Attributes:
        draw: A function of a key and of all arguments, by its likeness.
    """

    draw: Alike

    def __call__(self, key: jax.Array, target: Any, guide: Any) -> tuple[Any, Any]:
        """The target of a batch, and the guide to it."""
        if isinstance(guide, GuideFunction):
            guide = guide.to(self._target(key, guide.target.target))
            return guide.target, guide
        return self._target(key, target), guide

    def _target(self, key: jax.Array, target: ppl.Unconstrained) -> ppl.Unconstrained:
        args, kwargs = arguments_of(target)
        batch = self.draw.value(key, *args, **kwargs)
        return ppl.unconstrain(
            target.model, *(batch if isinstance(batch, tuple) else (batch,)), **kwargs
        )


def batches(
    key: jax.Array, batch: Callable[..., Any] | None, target: Any, guide: Any
) -> Batches | None:
    """Batches as a user asks for them, if he does.

    Raises:
        TypeError: if `batch` is no function.
        ValueError: if the model has other latent sites for a batch than for all data, and the guide
            is no function of the arguments.
    """
    if batch is None:
        return None
    if not callable(batch):
        raise TypeError(
            "batch must be a function of a key and of the arguments of the model, which returns "
            f"the arguments of one step, got {batch!r}"
        )
    drawn = Batches(Alike.of(batch))
    shapes = lambda target: jax.eval_shape(target.initial, key)  # noqa: E731
    of_batch = jax.eval_shape(lambda key: drawn(key, target, guide)[0].initial(key), key)
    if not isinstance(guide, GuideFunction) and Layout.of(of_batch) != Layout.of(shapes(target)):
        raise ValueError(
            f"the latent sites of a batch, {_listed(of_batch)}, are not those of all data, "
            f"{_listed(shapes(target))}, so {guide!r} cannot be fitted to them. Where rows have "
            "latent sites of their own, give a guide that is a function and draws them from the "
            "arguments of the batch."
        )
    return drawn


def _listed(shapes: Any) -> str:
    return ", ".join(f"{name} {x.shape}" for name, x in named_leaves(shapes))
