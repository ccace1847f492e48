"""Optax optimizers: the check of a user's optimizer, and one step of it."""

from typing import Any

import jax
import jax.numpy as jnp

from ppl.harvest.function_equality import ComparedByContents


def optimizer_of(optimizer: Any, rate: float) -> ComparedByContents:
    """The user's optimizer, compared by contents; by default Adam with the learning rate `rate`.

    Raises:
        TypeError: if `optimizer` is not an optax optimizer, or one that needs more than gradients
            and the value of the loss.
    """
    import optax

    optimizer = optax.adam(rate) if optimizer is None else optimizer
    if isinstance(optimizer, optax.MultiSteps):
        optimizer = optimizer.gradient_transformation()
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(
            f"optimizer must be an optax optimizer such as optax.adam({rate}), got {optimizer!r}"
        )
    rule = ComparedByContents.of(optimizer)
    _check_needs(rule, rate)
    return rule


def _check_needs(optimizer: ComparedByContents, rate: float) -> None:
    """Refuses optimizers that need other arguments than a step gives, by tracing one step.

    Raises:
        TypeError: if the optimizer needs the loss as a function, or pairs of parameters.
    """

    def step(parameters: Any) -> Any:
        state = optimizer.value.init(parameters)
        return apply_gradient(optimizer, parameters, state, parameters, value=jnp.sum(rate))

    try:
        jax.eval_shape(step, {"x": jnp.zeros(2)})
    except (TypeError, AttributeError) as error:
        if "value_fn" in str(error):
            raise TypeError(
                "optimizer calls the loss again along a line (value_fn), as optax.lbfgs does, and "
                f"the loss here has other draws in each step; give one such as optax.adam({rate}). "
                "inference.optimize finds modes by L-BFGS"
            ) from error
        if "'fast'" in str(error):
            raise TypeError(
                "optimizer has fast and slow parameters, as optax.lookahead, which a guide has "
                f"not; give one such as optax.adam({rate})"
            ) from error
    except Exception:  # it may depend on names or shapes of the real parameters
        return


def apply_gradient(
    optimizer: ComparedByContents, gradient: Any, state: Any, parameters: Any, **more: Any
) -> tuple[Any, Any]:
    """Parameters and state after a step against `gradient`.

    `more` holds extra arguments, such as the value of the loss, for optimizers that take them.
    """
    import optax

    rule = optax.with_extra_args_support(optimizer.value)
    # Optax multiplies step counts by floats; a user may have forbidden such promotions.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        updates, state = rule.update(gradient, state, parameters, grad=gradient, **more)
        return optax.apply_updates(parameters, updates), state
