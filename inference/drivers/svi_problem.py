"""Problems of SVI: a model with data, a guide and an objective, for `svi` and `svi_step`."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.common.leaf_names import named_leaves
from inference.drivers.init_from_result import normal_start
from inference.initialization.initial_positions import STRATEGIES
from inference.models.carried_state import carried_state
from inference.models.guide_function import GuideFunction, bind_guide
from inference.models.minibatch import GivenBatch, batches
from inference.models.model_parameters import ModelParameters, make_parametric_target
from inference.results.guide_result import GuideResult
from inference.results.importance_result import ImportanceResult
from inference.results.mcmc_result import MCMCResult
from inference.results.optimize_result import OptimizeResult
from inference.results.svgd_result import SVGDResult
from inference.runtime.compiled_program import compile_once
from inference.variational.elbo import Objective, check_objective
from inference.variational.optax_step import optimizer_of
from inference.variational.svi_step import SVIProblem
from ppl.common.row_order import check_row_orders

Started = GuideResult | ImportanceResult | MCMCResult | OptimizeResult | SVGDResult


def make_problem(
    key: jax.Array,
    model: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Any,
    guide: Any,
    optimizer: Any,
    num_particles: int,
    objective: Objective,
    batch: Callable[..., Any] | None = None,
    is_fed: bool = False,
) -> SVIProblem:
    """The problem of a model, its arguments, a guide and an objective, on the device.

    Raises:
        TypeError: if an argument has the wrong type.
        ValueError: if the guide or the objective does not suit the model, or if a parameter or a
            state of the model and one of the guide have one name.
    """
    is_function = not hasattr(guide, "sample")
    target, parametric = make_parametric_target(
        model,
        args,
        kwargs,
        is_function=is_function,
        learns_centering=_learns_centering(guide, objective),
    )
    problem = problem_of(key, target, guide, objective, optimizer, num_particles, batch, is_fed)
    _check_names(parametric, problem.guide)
    carried = carried_state(problem.target, problem.guide)
    return problem._replace(parametric=jax.device_put(parametric), carried=jax.device_put(carried))


def problem_of(
    key: jax.Array,
    target: Any,
    guide: Any,
    objective: Objective,
    optimizer: Any,
    num_particles: int,
    batch: Callable[..., Any] | None = None,
    is_fed: bool = False,
) -> SVIProblem:
    """The problem of a target."""
    rule = optimizer_of(optimizer, 0.01)
    guide, layout = bind_guide(target, guide)
    check_objective(objective, guide, num_particles, is_fed or batch is not None)
    particles = np.arange(num_particles, dtype=np.uint32)
    drawn = batches(key, batch, target, guide)
    problem = SVIProblem(target, guide, objective, rule, particles, layout, drawn)
    return jax.device_put(problem)


def with_batch(problem: SVIProblem, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SVIProblem:
    """The problem of one step, for a batch that is given."""
    target: Any = problem.target
    check_row_orders(target.model, args, kwargs)
    return problem._replace(batches=GivenBatch.of(args, kwargs))


def _learns_centering(guide: Any, objective: Any) -> bool:
    """Whether a better fit has better weights of centering.

    A mode has not: the density of a mode grows without bound as a scale falls to 0. Nor has an
    objective whose value depends on the coordinates.
    """
    has_density = getattr(guide, "has_density", False)
    return has_density and getattr(objective, "learns_centering", False)


class FittedParameters(NamedTuple):
    """Parameters of a fit.

    Attributes:
        by_name: Values of the model's parameters by name; None if it has none.
        centering: Learned weights of centering by site, if any.
        of_guide: Parameters of the guide.
        of_guide_by_name: Values of the parameters of a guide that is a function, by name; None for
            other guides.
    """

    by_name: Any
    centering: dict[str, Any]
    of_guide: Any
    of_guide_by_name: Any


def values_of(problem: SVIProblem, parameters: Any) -> FittedParameters:
    """The parts of a fit's parameters, on the host.

    They are computed by a compiled program. Without one, model and guide would run operation by
    operation, each with a program of its own. JAX drops all but the values from the program.
    """
    if problem.parametric is None and not isinstance(problem.guide, GuideFunction):
        return FittedParameters(None, {}, jax.device_get(parameters), None)
    arguments = problem, parameters
    return jax.device_get(compile_once(_split_parameters, *arguments)(*arguments))


def _split_parameters(problem: SVIProblem, parameters: Any) -> FittedParameters:
    parametric: Any = problem.parametric
    of_target, of_guide = (None, parameters) if parametric is None else parameters
    guide = problem.guide
    by_name = guide.values(of_guide) if isinstance(guide, GuideFunction) else None
    if parametric is None:
        return FittedParameters(None, {}, of_guide, by_name)
    values = parametric.values(problem.target, of_target)
    return FittedParameters(values, parametric.weights(of_target), of_guide, by_name)


def check_init(init: Any, *, is_function: bool) -> Any:
    """The argument `init`, or ``"uniform"`` if the guide is a function and `init` a strategy.

    Raises:
        ValueError: if a guide that is a function is to start at a result.
    """
    if is_function and isinstance(init, Started):
        raise ValueError(
            "init is a result, but a guide that is a function begins with its own numbers, those "
            "of ppl.param: give them there, or go on with state=result.state"
        )
    has_own_start = is_function and isinstance(init, str) and init in STRATEGIES
    return "uniform" if has_own_start else init


def starting_point(init: Any, problem: SVIProblem) -> Any:
    """The starting point of a fit by the argument `init`."""
    return normal_start(init, problem.target, problem.layout) if isinstance(init, Started) else init


def _check_names(parametric: ModelParameters | None, guide: Any) -> None:
    """Raises an error if a parameter of the model and a parameter of the guide have one name.

    Raises:
        ValueError: if so. They would be two numbers, not one shared number.
    """
    if parametric is None or not isinstance(guide, GuideFunction):
        return
    of_guide = jax.eval_shape(lambda: guide.init(jax.numpy.zeros(0), guide.layout))
    of_model = dict(named_leaves(parametric.initial.by_name or {}))
    common = [name for name, _ in named_leaves(of_guide) if name in of_model]
    if common:
        raise ValueError(
            f"the model and guide {guide!r} both have the parameter {common[0]!r}: these are two, "
            "which are fitted apart. Give them different names."
        )
