"""Chains at the end of a run, as a result holds them to go on with more draws."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from inference.chains.recorder import KeptSites, Recorder
from inference.common.leaf_names import named_leaves
from inference.common.matrices import kind_of
from inference.common.state_leaves import State
from inference.common.target import Target, differing_names, named_sites
from inference.drivers.run_description import (
    RecordedInit,
    describe_init,
    describe_object,
    restore_key,
)
from inference.drivers.run_settings import RunSettings, words_of_seed
from inference.kernels.ensemble.kernel import is_ensemble
from inference.kernels.gibbs.gibbs import Gibbs
from inference.kernels.gibbs.gibbs_target import plan_run
from inference.models.same_model import check_density, in_coordinates_of
from inference.results.mcmc_result import MCMCResult
from inference.runtime.devices import put_on_common_devices
from ppl.harvest.leaf_values import short_repr


def hold_chains(
    recorder: Recorder, run_settings: RunSettings, num_drawn: int
) -> dict[str, Any] | None:
    """Entries of a result from which its run can be resumed: arrays and plain values.

    Args:
        recorder: Recorder of the run, after its end.
        run_settings: Settings of the run.
        num_drawn: Number of draws in the result.
    """
    further = recorder.read_further(num_drawn)
    if further is None:
        return None
    if not run_settings.has_named_init:
        given = describe_init(run_settings.init) if run_settings.transport else "given"
        run_settings = dataclasses.replace(run_settings, init=RecordedInit(given))
    return {
        "settings": run_settings.describe(),
        "state": recorder.state,
        "further": further,
        "num_drawn": num_drawn,
    }


def recorder_of(
    result: MCMCResult, kernel: Any, model: Callable[..., Any], args: Any, kwargs: Any
) -> Recorder:
    """Recorder with the chains of a result, after a check that the call belongs to its run.

    Raises:
        ValueError: if the result holds no chains, if its draws have been changed, or if the model,
            its arguments or the kernel differ from the run's.
    """
    planned = plan_run(kernel, model, args, kwargs) if isinstance(kernel, Gibbs) else None
    held = _held_chains(result, kernel if planned is None else planned.kernel)
    planned = planned or plan_run(kernel, model, args, kwargs)
    target = put_on_common_devices(planned.target)
    keep = held["settings"]["keep"]
    keep = None if keep is None else tuple(keep)
    arrays = _check_draws("resume", result, held, target, keep)
    whole = jax.tree.map(lambda x, y: np.concatenate([x, y], 1), arrays, held["further"])
    state = {name: np.array(x) for name, x in held["state"].items()}  # a call may take its memory
    return Recorder(keep, state, whole)


def hand_on(
    run_settings: RunSettings, target: Target, target_acceptance_rate: Any = None
) -> tuple[RunSettings, State]:
    """Settings and first state of a run whose chains go on from those of a result, with other keys.

    Args:
        run_settings: Settings of the new run, whose `init` is a result of :func:`mcmc`.
        target: Target of the new run.
        target_acceptance_rate: The argument of the call, `None` if it was left out.

    Raises:
        ValueError: if the result holds no chains or those of another model, kernel or data, or if a
            setting does not let them go on as they are.
    """
    result = run_settings.init
    held = _held_chains(result, run_settings.kernel)
    old = held["settings"]
    has_learned = any(name.startswith("centering.") for name in held["state"])
    name = type(run_settings.kernel).__name__
    seed = words_of_seed(run_settings.key)
    parent_seed = words_of_seed(restore_key(old["key"]))
    earlier_seeds = [*old.get("earlier_seeds", []), parent_seed]
    if old.get("transport"):
        wrong = "has chains in the coordinates of a fit (transport=True): give init=fit again"
    elif run_settings.num_warmup:
        wrong = (
            "has chains that keep their step sizes, mass matrices and coordinates: give "
            "num_warmup=0"
        )
    elif run_settings.mass_matrix != "auto":
        wrong = "has mass matrices, which its chains keep: leave out mass_matrix"
    elif has_learned and not run_settings.learns:
        wrong = "has coordinates, which its chains keep: leave out learn_centering"
    elif target_acceptance_rate is not None:
        wrong = "has step sizes, which its chains keep: leave out target_acceptance_rate"
    elif seed == parent_seed:
        wrong = "has used this key, whose random numbers would come again: give another"
    elif seed in earlier_seeds:
        wrong = (
            "has chains that an earlier run has moved by this key, whose random numbers would come "
            "again: give another"
        )
    elif is_ensemble(run_settings.kernel) and run_settings.num_chains != old["num_chains"]:
        wrong = f"has chains that {name} moves together: give num_chains={old['num_chains']}"
    else:
        keep = old["keep"]
        _check_draws("init", result, held, target, None if keep is None else tuple(keep))
        matrix = result.inverse_mass_matrix
        kind = "auto" if matrix is None else kind_of(jax.tree.map(lambda x: x[0], matrix))
        settings = dataclasses.replace(
            run_settings,
            mass_matrix=kind,
            target_acceptance_rate=old["target_acceptance_rate"],
            has_learned=has_learned,
            num_earlier_warmup=old["num_warmup"] or old.get("num_earlier_warmup", 0),
            earlier_seeds=earlier_seeds,
        )
        return settings, {name: np.array(x) for name, x in held["state"].items()}
    raise ValueError(f"init, the result of mcmc, {wrong}")


def _held_chains(result: MCMCResult, kernel: Any) -> dict[str, Any]:
    """Entries of a result with its chains, after a check of the kernel that moves them.

    Raises:
        ValueError: if there are none, or another kernel has moved them.
    """
    held = result.chains
    if held is None:
        raise ValueError(
            "the result does not hold its chains. Those of a run with checkpoint= are in its "
            "folder: resume(folder, ...). jax.tree.map, relabel, mcmc_each, sampler, runs on "
            "several processes and files of older versions leave them out"
        )
    found = describe_object(kernel)
    if found != held["settings"]["kernel"]:
        raise ValueError(
            f"kernel: the run has {held['settings']['kernel']}, the call {found}. Give that of the "
            "run, kernel=..."
        )
    return held


def _check_draws(
    where: str, result: MCMCResult, held: dict[str, Any], target: Any, keep: Any
) -> tuple[Any, Any]:
    """Draws and statistics of a result, after a check that they are of its run and of a target.

    Raises:
        ValueError: if they are not.
    """
    arrays = result.draws, result.stats
    lengths = {np.shape(x)[1] for x in jax.tree.leaves(arrays)}
    if lengths != {held["num_drawn"]}:
        raise ValueError(
            f"the result has {sorted(lengths)} draws of each chain, and its run {held['num_drawn']}"
            ": give it as mcmc has returned it"
        )
    _check_sites(target, result, keep)
    check_density(where, result.draws, result.stats, in_coordinates_of(result, target))
    return arrays


def _check_sites(target: Target, result: MCMCResult, keep: Any) -> None:
    shapes = jax.eval_shape(KeptSites(target, keep).constrain, target.position_shapes)

    def in_words(shapes):
        return ", ".join(f"{name} {x}" for name, x in shapes)

    wanted = in_words(
        (name, f"{x.dtype}{list(np.shape(x)[2:])}") for name, x in named_leaves(result.draws)
    )
    found = in_words((name, f"{x.dtype}{list(x.shape)}") for name, x in named_leaves(shapes))
    if found != wanted:
        raise ValueError(f"model: the run has the sites {wanted}, the call {found}")
    for name, dim, own, old in differing_names(named_sites(target), result.sites):
        raise ValueError(
            f"model: the entries of site {name!r} along {dim!r} are called "
            f"{short_repr(list(old))} in the run, and {short_repr(list(own))} in the call. Give "
            "the names of the run."
        )
