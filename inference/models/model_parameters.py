"""Parameters, weights of centering and state of a model, which change together with the guide."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import expit
from jax.tree_util import Partial

import ppl
from inference.models.carried_state import initial_state, with_state
from inference.models.guide_function import make_target, plant_parameters
from inference.runtime.devices import put_on_common_devices
from ppl.common.foreign_arrays import convert_arguments
from ppl.common.row_order import check_row_orders
from ppl.core.model_pytree import as_pytree
from ppl.harvest.pytrees import register_dataclass
from ppl.transforms.prior_weights import ParameterError


class TargetParameters(NamedTuple):
    """Parameters of a target.

    Attributes:
        by_name: Parameters of the model, made by `ppl.param`, on unconstrained space; None if it
            has none.
        centering: Log odds of the weights of centering by site; None if there are none to learn.
    """

    by_name: Any
    centering: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ModelParameters:
    """Parameters of a target that are fitted together with the guide.

    Attributes:
        initial: The parameters to begin with.
    """

    initial: TargetParameters

    def at(self, target: Any, parameters: TargetParameters) -> Any:
        """Target with other parameters."""
        by_name, centering = parameters
        if by_name is not None:
            plant = target.model.func
            model = target.model.args[0]
            target = dataclasses.replace(target, model=Partial(plant, model, by_name))
        return target if centering is None else target.with_centering(self.weights(parameters))

    def weights(self, parameters: TargetParameters) -> dict[str, Any]:
        """Weights of centering by site; none if there are none to learn."""
        return {} if parameters.centering is None else jax.tree.map(expit, parameters.centering)

    def values(self, target: Any, parameters: TargetParameters) -> Any:
        """Parameters of the model by name, mapped to their supports; None if it has none."""
        if parameters.by_name is None:
            return None
        args, kwargs = target.arguments.join(target.data)
        reaped = ppl.reap(self.at(target, parameters).model, tag="param_value")
        return reaped(jax.random.key(0), *args, **kwargs)


def make_parametric_target(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Any,
    *,
    is_function: bool,
    learns_centering: bool,
) -> tuple[Any, ModelParameters | None]:
    """Target of a guide to a model that may have parameters, and these parameters, if any.

    With `learns_centering`, weights of centering are among them. They begin with one half: halfway
    between coordinates that suit few data and coordinates that suit many.
    """
    check_row_orders(model, args, kwargs)
    args, kwargs = convert_arguments(args, kwargs)
    target, by_name = _make_target(model, args, kwargs, is_function=is_function)
    centering = None
    if learns_centering and target.centering:
        centering = jax.tree.map(jnp.zeros_like, target.weights)
    if by_name is None and centering is None:
        return target, None
    parameters = ModelParameters(TargetParameters(by_name, centering))
    return parameters.at(target, parameters.initial), parameters


def _make_target(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, *, is_function: bool
) -> tuple[Any, Any]:
    """Target of a guide to a model with its initial state, and its parameters by name, or None."""
    try:
        return make_target(model, args, kwargs, is_function=is_function), None
    except ParameterError:  # found in the trace that a target needs anyhow
        pass
    model, args, kwargs = put_on_common_devices((as_pytree(model), args, kwargs))
    # A fixed key, as for a guide: parameters and state begin with the numbers in the code.
    initial = ppl.reap(model, tag="param", exclusive=True)(jax.random.key(0), *args, **kwargs)
    model = with_state(model, initial_state(model, args, kwargs))
    if not initial:
        return make_target(model, args, kwargs, is_function=is_function), None
    planted = Partial(plant_parameters, model, initial)
    return make_target(planted, args, kwargs, is_function=is_function), initial
