"""Parameters of a model, made by `ppl.param`, which are fitted together with the guide."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
from jax.tree_util import Partial

import ppl
from inference.models.guide_function import make_target, plant_parameters
from inference.runtime.devices import copy_to_default_device
from ppl.core.model_pytree import as_pytree
from ppl.harvest.pytrees import register_dataclass
from ppl.transforms.prior_weights import ParameterError


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ModelParameters:
    """Parameters of a model, on unconstrained space, as a fit begins with them.

    Attributes:
        initial: The parameters by name.
    """

    initial: Any

    def at(self, target: Any, parameters: dict[str, Any]) -> Any:
        """Target of the model with other parameters."""
        plant = target.model.func
        model = target.model.args[0]
        return dataclasses.replace(target, model=Partial(plant, model, parameters))

    def values(self, target: Any, parameters: dict[str, Any]) -> Any:
        """Parameters by name, mapped to their supports."""
        args, kwargs = target.arguments.join(target.data)
        reaped = ppl.reap(self.at(target, parameters).model, tag="param_value")
        return reaped(jax.random.key(0), *args, **kwargs)


def make_parametric_target(
    model: Callable[..., Any], args: tuple[Any, ...], kwargs: Any, *, is_function: bool
) -> tuple[Any, ModelParameters | None]:
    """Target of a guide to a model that may have parameters, and these parameters, if any."""
    try:
        return make_target(model, args, kwargs, is_function=is_function), None
    except ParameterError:  # found in the trace that a target needs anyhow
        pass
    model, args, kwargs = copy_to_default_device((as_pytree(model), args, kwargs))
    # A fixed key, as for a guide: parameters begin with the numbers in the code.
    initial = ppl.reap(model, tag="param", exclusive=True)(jax.random.key(0), *args, **kwargs)
    planted = Partial(plant_parameters, model, initial)
    target = make_target(planted, args, kwargs, is_function=is_function)
    return target, ModelParameters(initial)
