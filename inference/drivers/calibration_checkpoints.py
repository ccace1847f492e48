"""Checkpoints of calibrate: the manifest that a call must fit."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.tree_util import tree_leaves

import ppl
from inference.checkpoints.manifest import describe_array
from inference.common.leaf_names import named_leaves
from inference.drivers.calibration_simulator import Simulator
from inference.drivers.pooled_fits import PooledFits
from inference.drivers.run_description import (
    describe_call,
    describe_function,
    describe_init,
    describe_key,
    describe_object,
    describe_programs,
)
from ppl.core.model_pytree import as_pytree


def describe_calibration(
    key: jax.Array,
    problem: Simulator,
    num: int,
    fit: Callable[..., Any],
    settings: Mapping[str, Any],
    pooled: PooledFits | None,
) -> dict[str, Any]:
    """Entries of a manifest: settings, arguments, and programs of all that may be code."""
    model = as_pytree(problem.model)
    if pooled is None:
        of_fits = {f"{name} of fit": _describe_setting(x) for name, x in settings.items()}
        of_fits["the fit's program"] = describe_function(fit)
    else:
        of_fits = pooled.describe_run()
    shapes = named_leaves(problem.shapes)
    leaves = enumerate(tree_leaves(model))
    return {
        "key": describe_key(key),
        "num_simulations": num,
        "observed": list(problem.names),
        "data of observed": problem.data and describe_init(problem.data),
        "result": problem.draws and describe_init(problem.draws),
        "fit": getattr(fit, "__qualname__", type(fit).__qualname__),
        "sites": {name: [list(x.shape), str(x.dtype)] for name, x in shapes},
        **describe_call(problem.args, {}, problem.model),
        **{f"data {i} of the model": describe_array(x) for i, x in leaves},
        "the model's program": describe_programs((_simulate, model, problem.args, key)),
        **of_fits,
    }


def _describe_setting(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | None) else describe_object(value)


def _simulate(model: Any, args: tuple[Any, ...], key: jax.Array) -> Any:
    """Values of all sites, and their log probabilities."""
    values = ppl.simulate(model)(key, *args)
    return values, ppl.log_probs(model)(values, *args)
