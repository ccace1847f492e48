"""Optax optimisers: the check of a user's optimiser, and one step of it."""

from typing import Any

import jax

from ppl.harvest.function_equality import ByContents


def optimizer_of(optimizer: Any, rate: float) -> ByContents:
    """The user's optimiser, compared by contents; by default Adam with the learning rate `rate`.

    Raises:
        TypeError: if `optimizer` is not an optax optimiser.
    """
    import optax

    optimizer = optax.adam(rate) if optimizer is None else optimizer
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(
            f"optimizer must be an optax optimiser such as optax.adam({rate}), got {optimizer!r}"
        )
    return ByContents.of(optimizer)


def apply_gradient(
    optimizer: ByContents, gradient: Any, state: Any, parameters: Any, **more: Any
) -> tuple[Any, Any]:
    """Parameters and state after a step against `gradient`.

    `more` holds extra arguments, such as the value of the loss, for optimisers that take them.
    """
    import optax

    rule = optax.with_extra_args_support(optimizer.value)
    # Optax multiplies step counts by floats; a user may have forbidden such promotions.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        updates, state = rule.update(gradient, state, parameters, grad=gradient, **more)
        return optax.apply_updates(parameters, updates), state
