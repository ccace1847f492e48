"""Optax's optimisers: which a user may give, and a step of one."""

from typing import Any

import jax

from ppl.harvest.function_equality import ByContents


def optimizer_of(optimizer: Any, rate: float) -> ByContents:
    """An optimiser as a user gives it, by its likeness; by default Adam with a learning rate.

    Raises:
        TypeError: if it is none of optax.
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
    """Parameters and state after a step against `gradient`; `more` is for optimisers that ask."""
    import optax

    rule = optax.with_extra_args_support(optimizer.value)
    # Optax multiplies counts of steps by floats, which users may have forbidden.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        updates, state = rule.update(gradient, state, parameters, grad=gradient, **more)
        return optax.apply_updates(parameters, updates), state
