"""Checkpoints of SVI: the folder of a fit, and the manifest by which a call is compared."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.checkpoints.fit_folder import FitFolder
from inference.checkpoints.manifest import (
    THE_STEP,
    compare_manifests,
    describe_platform,
    with_new_end,
)
from inference.checkpoints.run_folder import RunFolder
from inference.common.leaf_names import named_leaves
from inference.drivers.run_description import (
    describe_argument,
    describe_arguments,
    describe_init,
    describe_key,
    describe_object,
    describe_programs,
)
from inference.guides.guide import draw_of
from inference.runtime.devices import default_device
from inference.variational.optax_step import apply_gradient
from inference.variational.svi_loop import Fit, shapes_of_state
from inference.variational.svi_step import SVIProblem, step_svi


def open_fit(
    checkpoint: Any, problem: SVIProblem, model: Any, given: Mapping[str, Any]
) -> tuple[FitFolder, Fit | None]:
    """Folder of the fit of a call, new or begun, and the fit so far.

    Args:
        checkpoint: Path of the folder.
        problem: The problem of the first step.
        model: The model.
        given: Settings: `key`, `guide`, `objective`, `init`, `state`, `num_steps` and the first of
            given batches, if any, and others that JSON can hold.

    Raises:
        OSError: if the folder cannot be written.
        TypeError: if `checkpoint` is not a path.
        ValueError: if the folder has another run, is damaged or in use, or has more steps.
    """
    folder = RunFolder(checkpoint)
    try:
        manifest = describe_platform("svi", [default_device()])
        manifest |= _describe_fit(problem, model, given)
        old = folder.read_manifest()
        if old is not None:
            compare_manifests(folder.name, old, manifest)
            manifest = with_new_end(old, manifest)
        recorder = FitFolder(folder)
        found = recorder.read(shapes_of_state(problem))
        begun = None if found is None else Fit(found[0], found[1], is_ended=found[2])
        if begun is not None and len(begun.elbos) > given["num_steps"]:
            raise ValueError(
                f"checkpoint={folder.name} has the state after {len(begun.elbos)} steps, and none "
                f"after num_steps={given['num_steps']}: give as many steps or more, or another "
                "folder"
            )
        if manifest != old:
            folder.write_manifest(manifest)
        return recorder, begun
    except BaseException:
        folder.close()
        raise


def _describe_fit(problem: SVIProblem, model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a manifest: settings, arguments, and programs of all that may be code."""
    named = "key", "guide", "objective", "init", "state", "first batch"
    state = shapes_of_state(problem)
    seed = jax.ShapeDtypeStruct((2,), np.uint32)
    position = jax.ShapeDtypeStruct((problem.layout.size,), problem.layout.dtype)
    number = jax.ShapeDtypeStruct((), problem.layout.dtype)
    of_model = ()
    of_guide = state.parameters
    if problem.parametric is not None:
        of_model = state.parameters._replace(guide=())
        of_guide = state.parameters.guide
    return {
        **{name: x for name, x in given.items() if name not in named},
        "key": describe_key(given["key"]),
        "guide": describe_object(given["guide"]),
        "objective": describe_object(given["objective"]),
        "init": describe_init(given["init"]),
        "state": None if given["state"] is None else describe_init(given["state"]),
        "parameters": {name: [list(x.shape), str(x.dtype)] for name, x in named_leaves(state)},
        **describe_arguments(problem.target, model),
        "first batch": describe_argument(given["first batch"]),
        "the model's program": describe_programs((_values, _model_of(problem), of_model, position)),
        "the guide's program": describe_programs((_draw, problem.guide, of_guide, seed)),
        "the optimizer's program": describe_programs((_update, problem.optimizer, state, number)),
        THE_STEP: describe_programs((step_svi, problem, state, number)),
    }


def _model_of(problem: SVIProblem) -> Any:
    """The problem with only its target and the parameters of the model."""
    nothing: Any = ()
    return problem._replace(guide=nothing, objective=nothing, optimizer=nothing, batches=None)


def _values(problem: SVIProblem, parameters: Any, position: jax.Array) -> Any:
    """Log density at a flat position, and values of sites there."""
    problem, _ = problem.split(parameters)
    return problem.log_density(position), problem.target.constrain(problem.layout.unravel(position))


def _draw(guide: Any, parameters: Any, words: jax.Array) -> Any:
    return draw_of(guide, parameters, jax.random.wrap_key_data(words, impl="threefry2x32"))


def _update(optimizer: Any, state: Any, loss: jax.Array) -> Any:
    at = state.parameters
    moved = apply_gradient(optimizer, at, state.optimizer_state, at, value=loss)
    return optimizer.value.init(at), moved
