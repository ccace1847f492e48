"""Checkpoints of calibrate: the manifest that a call must fit."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.tree_util import tree_leaves

import ppl
from inference.checkpoints.manifest import describe_array
from inference.common.leaf_names import named_leaves
from inference.drivers.calibration_models import Values
from inference.drivers.calibration_simulator import Simulator
from inference.drivers.pooled_fits import PooledFits
from inference.drivers.run_description import (
    describe_call,
    describe_function,
    describe_init,
    describe_key,
    describe_programs,
    describe_setting,
)
from ppl.core.model_pytree import as_pytree


def describe_calibration(
    key: jax.Array,
    problem: Simulator,
    values: Values,
    fit: Callable[..., Any],
    settings: Mapping[str, Any],
    pooled: PooledFits | None,
) -> dict[str, Any]:
    """Entries of a manifest: settings, arguments, and programs of all that may be code.

    Args:
        key: Key of the call.
        problem: The simulator.
        values: All that it has simulated, which folders do not keep: fits in a folder are to these.
        fit: The fit.
        settings: Keywords of `fit`.
        pooled: Fits whose chains are one pool, or `None`.
    """
    model = as_pytree(problem.model)
    if pooled is None:
        of_fits = _described("the fit's program", describe_function, fit)
        for name, value in settings.items():
            of_fits |= _described(f"{name} of fit", describe_setting, value)
    else:
        of_fits = pooled.describe_run()
    shapes = named_leaves(problem.shapes)
    leaves = enumerate(tree_leaves(model))
    return {
        "key": describe_key(key),
        "num_simulations": len(tree_leaves(values)[0]),
        "observed": list(problem.names),
        "data of observed": problem.data and describe_init(problem.data),
        "result": problem.draws and describe_init(problem.draws),
        "fit": getattr(fit, "__qualname__", type(fit).__qualname__),
        "sites": {name: [list(x.shape), str(x.dtype)] for name, x in shapes},
        **describe_call(problem.args, {}, problem.model),
        **{f"data {i} of the model": describe_array(x) for i, x in leaves},
        "the model's program": describe_programs((functools.partial(_simulate, problem), key)),
        "simulated values": describe_init(values),
        **of_fits,
    }


def _described(name: str, describe: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    """Entry of a manifest on an argument.

    Raises:
        TypeError: if it cannot be compared.
    """
    try:
        return {name: describe(value)}
    except TypeError as error:
        raise TypeError(f"calibrate: {name}: {error}") from error


def _simulate(problem: Simulator, key: jax.Array) -> Any:
    """Values of all sites, and their log probabilities."""
    values = ppl.simulate(problem.model)(key, *problem.args)
    return values, ppl.log_probs(problem.model)(values, *problem.args)
