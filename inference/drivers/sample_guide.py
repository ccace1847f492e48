"""sample_guide: more draws of a fitted guide, without another fit."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

import ppl
from inference.common.argument_checks import check_count, short_repr
from inference.common.serialization import Absent, restore_structure
from inference.drivers.check_inputs import check_inputs
from inference.drivers.guide_draws import describe_draws, describe_paths, draw_guide
from inference.models.guide_function import GuideFunction, bind_guide, make_target
from inference.models.same_model import check_density, in_coordinates_of
from inference.results.guide_result import GuideResult
from inference.results.pathfinder_result import PathfinderResult
from inference.results.svi_result import SVIResult
from inference.runtime.jax_settings import settings

Fit = TypeVar("Fit", bound=GuideResult)


def sample_guide(
    key: jax.Array,
    result: Fit,
    model: Callable[..., Any],
    *args: Any,
    num_draws: int = 1000,
    cache_dir: str | os.PathLike[str] | None = None,
    **kwargs: Any,
) -> Fit:
    """Draws from the guide of a fit, as many as wanted, without another fit.

    A result holds the guide and its parameters, but neither the model nor its data. So they are
    given again, and compared with those of the fit by the log density at a former draw. With the
    key of the fit and as many draws, the draws are those of the fit.

    Args:
        key: Random key.
        result: Result of :func:`svi`, :func:`laplace` or :func:`pathfinder`, which may have been
            saved and loaded.
        model: The model of the fit, with its data.
        *args: Its arguments. After a fit by batches, all data.
        num_draws: Number of draws. Those of several paths of Pathfinder are resampled from as many
            of each path, as in the fit.
        cache_dir: A directory for compiled programs.
        **kwargs: More arguments of the model.

    Returns:
        A result of the same class with the same fit: new draws of all sites, deterministic ones
        too, with their log densities and importance weights, and ELBO and Pareto k by these draws.

    Raises:
        TypeError: if `result` is not of a fit with a guide; or if the guide is one of your own, and
            was not given when the result was loaded.
        ValueError: if the model, its arguments or its data are not those of the fit.

    Example:
        >>> import jax, ppl, distributions as dist, inference
        >>> def model(key):
        ...     mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ...     ppl.deterministic(2 * mu, name="twice")
        ...     return ppl.sample(key, dist.Normal(mu, 4.0), name="y")
        >>> posterior = ppl.condition(model, {"y": 5.0})
        >>> result = inference.laplace(jax.random.key(0), posterior, num_draws=10)
        >>> more = inference.sample_guide(jax.random.key(1), result, posterior, num_draws=5000)
        >>> more.draws["twice"].shape, round(float(more.draws["mu"].mean()), 1)
        ((1, 5000), 1.8)
    """
    if not isinstance(result, GuideResult):
        raise TypeError(
            "result must be that of a fit with a guide, of svi, laplace or pathfinder, got "
            f"{short_repr(result)}"
        )
    guide: Any = result.guide
    if isinstance(guide, Absent):
        raise TypeError(
            f"the guide {guide} is of a file, which keeps no code: give it when loading, "
            "SVIResult.load(path, guide=guide)"
        )
    check_inputs(sample_guide, key, model, args, kwargs)
    num_draws = check_count("num_draws", num_draws, least=1)
    # The model with the parameters and the state of the fit, in its coordinates.
    values = getattr(result, "model_parameters", None)
    state = getattr(result, "model_state", None)
    if values or state:
        model = ppl.with_params(model, values, state)
    is_function = isinstance(guide, GuideFunction)
    target = in_coordinates_of(result, make_target(model, args, kwargs, is_function=is_function))
    batching = getattr(result, "batching", "")
    if batching != "first":  # Then the fit knows the log density of its first batch alone.
        stats = {"log_density": result.log_density}
        check_density("sample_guide", result.draws, stats, target)
    # The guide, for this model.
    bound, layout = bind_guide(target, guide.guide if is_function else guide)
    if is_function:
        bound = dataclasses.replace(bound, state=guide.state)
    parameters = result.parameters
    if isinstance(result, SVIResult):
        nowhere = jax.ShapeDtypeStruct((layout.size,), layout.dtype)
        shapes = jax.eval_shape(lambda position: bound.init(position, layout), nowhere)
        parameters = restore_structure(parameters, shapes)
    num_paths = np.size(result.elbos) if isinstance(result, PathfinderResult) else 1
    with settings(cache_dir):
        drawn = draw_guide(key, target, bound, layout, parameters, num_paths * num_draws)
    if isinstance(result, PathfinderResult):
        fields = describe_paths(key, drawn, target, bound, num_draws)
    else:
        fields = describe_draws(drawn, target, bound)
    if batching:
        fields["batching"] = "all"
    return dataclasses.replace(result, **fields)
