"""A run of chains of checked settings, from the model to the result."""

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from inference.chains.ensemble_sampling import num_superchains, sample_ensemble
from inference.chains.recorder import KeptSites, Recorder
from inference.chains.samples import Samples
from inference.chains.sampling import sample
from inference.chains.step_sampling import sample_by_steps
from inference.common.argument_checks import short_repr
from inference.common.layout import Layout
from inference.common.state_leaves import State
from inference.common.target import Target, named_sites, target_labels
from inference.common.warm_up import WarmUp
from inference.drivers.approximate_sites import look_at_approximate_sites
from inference.drivers.centering import (
    GRADIENTS,
    learn_centering,
    learnable,
    restore_centering,
    state_of_centering,
    weights_of_chains,
)
from inference.drivers.checkpoints import check_kept, kept_sites, open_recorder
from inference.drivers.init_from_result import (
    Started,
    check_sites_of,
    choose_starts,
    covariance_of,
)
from inference.drivers.mass_blocks import blocks_of
from inference.drivers.nan_search import find_nan
from inference.drivers.noncentering import noncentering_of_chains
from inference.drivers.normal_prior import with_prior_of
from inference.drivers.resumable_state import hand_on, hold_chains
from inference.drivers.run_description import RecordedInit
from inference.drivers.run_settings import NUM_WARMUP, RunSettings
from inference.drivers.subsampling import starts_of, with_rows_of
from inference.initialization.initial_positions import Init
from inference.kernels.ensemble.kernel import is_ensemble
from inference.kernels.gibbs.gibbs import Gibbs
from inference.kernels.gibbs.gibbs_plan import GibbsPlan
from inference.kernels.gibbs.gibbs_target import GibbsTarget, plan_run
from inference.kernels.gibbs.sweep import Sweep
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.subsampling.kernel import SubsamplingKernel
from inference.models.same_model import in_coordinates_of
from inference.models.transported_target import TransportedTarget, transport
from inference.monitoring.monitor import RunMonitor
from inference.monitoring.until import Until
from inference.results.mcmc_result import MCMCResult
from inference.results.run_facts import RunFacts
from inference.runtime.devices import put_on_common_devices
from inference.runtime.interrupts import without_interrupts
from inference.runtime.jax_settings import settings
from inference.runtime.progress import Report, Shown, is_shown, show_progress
from inference.warmup.centering_weights import RoundLengths, round_lengths


class _Run(NamedTuple):
    """A run of chains of checked settings.

    Attributes:
        settings: The settings.
        target: The target, with all sites of the model.
        moved: Target over the coordinates in which chains move: those of `target`, or a guide's.
        kernel: Kernel of the settings, with the prior and the rows of the model if it needs them.
        adaptation: Arguments for the adaptation of a Hamiltonian kernel.
        handed_on: State of another run from which the chains begin, or `None`.
        plan: Plan of Gibbs sampling, or `None`.
    """

    settings: RunSettings
    target: Any
    moved: Any
    kernel: Any
    adaptation: Mapping[str, Any]
    handed_on: State | None
    plan: GibbsPlan | None


def run_chains(
    run_settings: RunSettings,
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any],
    *,
    mesh: Mesh | None,
    until: Until | None,
    cache_dir: str | os.PathLike[str] | None,
    progress: Shown,
    checkpoint: Any,
) -> MCMCResult:
    """Runs chains, as :func:`inference.mcmc`.

    `checkpoint` may also be a folder that is already locked, or a recorder with the chains of a
    result. For such a folder, `init` of the settings may be its description in the manifest.
    """
    began = time.monotonic()
    run = _prepare(run_settings, model, args, kwargs, cache_dir)
    if until is not None:
        _check_until(until, run)
    recorder = checkpoint if isinstance(checkpoint, Recorder) else Recorder(run.settings.keep)
    if checkpoint is not None and checkpoint is not recorder:
        recorder = open_recorder(checkpoint, run.target, model, run.settings, mesh)
    try:
        if is_shown(progress) and run.plan:
            print(run.plan, file=sys.stderr)
        num_iterations = run.settings.num_warmup + run.settings.num_draws
        progress_of_run = show_progress(progress, num_iterations, "iteration")
        with settings(cache_dir), progress_of_run as report:
            return _draw(run, recorder, mesh, report, until, began)
    finally:
        recorder.close()


def _prepare(
    run_settings: RunSettings, model: Any, args: Any, kwargs: Mapping[str, Any], cache_dir: Any
) -> _Run:
    """A run of a model, its settings checked.

    Raises:
        TypeError: if a setting has the wrong type.
        ValueError: if one does not fit the model or the other settings.
    """
    target_acceptance_rate = run_settings.target_acceptance_rate  # None if it was left out
    if not isinstance(run_settings.kernel, Gibbs):  # its settings are of the kernel that runs
        run_settings = run_settings.checked()
    planned = plan_run(run_settings.kernel, model, args, kwargs)
    run_settings = dataclasses.replace(run_settings, kernel=planned.kernel).checked()
    target: Any = put_on_common_devices(planned.target, across_processes=True)
    handed_on = None
    if isinstance(run_settings.init, MCMCResult):
        run_settings, handed_on = hand_on(run_settings, target, target_acceptance_rate)
    if run_settings.learns_by_default:
        is_learned = run_settings.has_learned
        target = learnable(target, NUM_WARMUP if is_learned else run_settings.num_warmup)
    moved = target
    if run_settings.transport:
        moved = _transported(target, run_settings)
        target = moved.base
    with settings(cache_dir):
        kernel = with_prior_of(run_settings.kernel, moved)
        kernel = with_rows_of(kernel, moved, run_settings.key)
    keep = check_kept(run_settings.keep, named_sites(target))
    run_settings = dataclasses.replace(run_settings, keep=keep)
    adaptation = _adaptation_of(run_settings, target)
    return _Run(run_settings, target, moved, kernel, adaptation, handed_on, planned.plan)


def _draw(
    run: _Run,
    recorder: Recorder,
    mesh: Mesh | None,
    report: Report,
    until: Until | None,
    began: float,
) -> MCMCResult:
    """Draws of a run, which `recorder` may let go on from a state, and its result."""
    num_warmup = run.settings.num_warmup
    num_chains = run.settings.num_chains
    lengths = round_lengths(run.target, num_warmup) if run.settings.learns else None
    num_before = 0 if lengths is None else lengths.num_before
    superchains = None
    if lengths is None and is_ensemble(run.kernel):  # else each starts where its first draws end
        superchains = num_superchains(run.kernel, run.settings.init, num_chains)
    init = _init_of(run)
    kernel = Sweep(run.target) if isinstance(run.target, GibbsTarget) else run.kernel
    run = run._replace(kernel=put_on_common_devices(kernel))
    numbers = {"num_draws": run.settings.num_draws, "num_chains": num_chains}
    monitor = RunMonitor(
        report,
        until,
        num_superchains=superchains,
        began=began,
        num_warmup=num_warmup,
        num_before=num_before,
        sites=named_sites(run.target),
        **numbers,
    )
    starts = "uniform" if isinstance(init, RecordedInit) else init  # none is needed
    run, starts, num_earlier = _choose_coordinates(run, starts, recorder, lengths, mesh, monitor)
    samples = _driver_of(run.kernel)(
        run.settings.key,
        run.moved,
        run.kernel,
        **numbers,
        num_warmup=num_warmup - num_before,
        init=starts,
        mesh=mesh,
        monitor=monitor,
        recorder=recorder,
        **run.adaptation,
    )
    monitor.finish()
    facts = dataclasses.replace(
        _facts_of(run, samples, monitor, learns=lengths is not None),
        init=init if isinstance(init, str) else None,
        num_superchains=superchains,
        seconds=time.monotonic() - began,
    )
    num_drawn = jax.tree.leaves(samples[:2])[0].shape[1]
    return MCMCResult(
        *samples[:3],
        facts=facts,
        sites=kept_sites(run.target, recorder.keep),
        chains=hold_chains(recorder, run.settings, num_drawn),
        centering=weights_of_chains(run.target, num_chains),
        warmup=_with_earlier(samples.warmup, num_earlier),
    )


def _init_of(run: _Run) -> Any:
    """Initial positions of the chains, or the name of the way to find them."""
    key = run.settings.key
    init = run.settings.init
    num_chains = run.settings.num_chains
    if run.settings.transport:
        return Init("normal")
    if run.handed_on is not None:
        return Init("chains", run.handed_on)
    if isinstance(init, Started):
        return choose_starts(key, init, run.target, num_chains)
    if isinstance(run.kernel, SubsamplingKernel) and init == "uniform":
        return starts_of(run.kernel, key, num_chains)
    return init


def _choose_coordinates(
    run: _Run,
    starts: Any,
    recorder: Recorder,
    lengths: RoundLengths | None,
    mesh: Mesh | None,
    monitor: RunMonitor,
) -> tuple[_Run, Any, np.ndarray]:
    """The run in coordinates that it learns, or that another run or its own state has learned.

    Args:
        run: The run.
        starts: Initial positions of its chains.
        recorder: Recorder of the run, which keeps the coordinates.
        lengths: Iterations of a round of learning, `None` to learn nothing.
        mesh: Devices of the run.
        monitor: Monitor, which is told how far learning is.

    Returns:
        The run, initial positions after learning, and gradients of each chain spent on it.
    """
    num_gradients = np.zeros(run.settings.num_chains, np.int64)
    adaptation = dict(run.adaptation)
    if run.settings.has_learned:
        state = run.handed_on if recorder.state is None else recorder.state
        assert state is not None
        target = restore_centering(run.target, state)
    elif lengths is None:
        return run, starts, num_gradients
    else:
        adaptation.pop("covariance", None)  # it belongs to other coordinates
        if (state := recorder.state) is not None:
            target = restore_centering(run.target, state)
            num_gradients = state.get(GRADIENTS, num_gradients)
        else:
            target, starts, num_gradients = learn_centering(
                run.settings.key,
                run.target,
                run.kernel,
                lengths=lengths,
                num_chains=run.settings.num_chains,
                init=starts,
                mesh=mesh,
                tell=monitor.tell_before,
                **adaptation,
            )
    recorder.constants = state_of_centering(target, num_gradients)
    run = run._replace(target=target, moved=target, adaptation=adaptation)
    return run, starts, num_gradients


def _facts_of(run: _Run, samples: Samples, monitor: RunMonitor, *, learns: bool) -> RunFacts:
    """Facts of a run by which its summary chooses its advice; `learns` tells of its coordinates."""
    given = run.settings
    num_warmup = given.num_warmup or given.num_earlier_warmup
    is_adapted = isinstance(run.kernel, HamiltonianKernel) and num_warmup > 0
    with without_interrupts():
        noncentering = noncentering_of_chains(run.target, samples.draws, samples.stats)
        nan = find_nan(run.target, samples.draws, samples.stats)
        of_approximate = look_at_approximate_sites(
            given.key,
            run.target,
            samples.draws,
            samples.stats,
            seeks_modes=not monitor.is_interrupted,
        )
    return RunFacts(
        num_warmup=num_warmup,
        target_acceptance_rate=given.target_acceptance_rate if is_adapted else None,
        num_coordinates=Layout.of_numbers(run.target.position_shapes).size,
        noncentering="learned" if learns and noncentering == "done" else noncentering,
        nan=nan,
        **of_approximate,
        ended=monitor.ended,
        is_unmet=bool(monitor.ended) and monitor.is_unmet,
        is_ensemble=is_ensemble(run.kernel),
        num_chains=given.num_chains,
        transport=type(given.init.guide).__name__ if given.transport else None,
        kernel=type(given.kernel).__name__,
        device=jax.local_devices()[0].device_kind,
    )


def _with_earlier(warmup: WarmUp | None, num_gradients: np.ndarray) -> WarmUp | None:
    """Warm-up with the gradients of each chain that were spent before on coordinates."""
    if warmup is None:
        return None
    return dataclasses.replace(warmup, num_earlier_gradients=num_gradients)


def _transported(target: Any, run_settings: RunSettings) -> TransportedTarget:
    """Target in the standard coordinates of a fit.

    Raises:
        ValueError: if the kernel moves blocks of values, the fit is of another model, or its guide
            has no invertible map.
    """
    if isinstance(target, GibbsTarget):
        raise ValueError(
            "transport=True is for kernels that move unconstrained numbers together; "
            f"{type(run_settings.kernel).__name__} moves values of blocks. Leave out "
            "transport=True, or take NUTS()"
        )
    fit = run_settings.init
    check_sites_of(jax.tree.map(lambda x: x[0], fit.draws), target, type(fit).__name__, 1)
    target = in_coordinates_of(fit, target)
    return put_on_common_devices(transport(target, fit.guide, fit.parameters))


def _driver_of(kernel: Any) -> Callable[..., Any]:
    """Function that runs chains of a kernel.

    - A Hamiltonian kernel: one gradient at a time, with adaptation.
    - An ensemble kernel: all chains together, with its own adaptation.
    - Any other kernel: step by step.
    """
    if is_ensemble(kernel):
        return sample_ensemble
    return sample if isinstance(kernel, HamiltonianKernel) else sample_by_steps


def _adaptation_of(run_settings: RunSettings, target: Target) -> dict[str, Any]:
    """Arguments of the function that runs chains for the adaptation of a Hamiltonian kernel.

    Raises:
        ValueError: if the mass matrix has blocks of sites that are not latent.
    """
    if not isinstance(run_settings.kernel, HamiltonianKernel):
        return {}
    init = run_settings.init
    covariance = None
    if run_settings.transport:
        covariance = np.ones(Layout.of(target.position_shapes).size)
    elif isinstance(init, Started):
        covariance = covariance_of(init)
    mass_matrix = run_settings.mass_matrix
    if not isinstance(mass_matrix, str):
        mass_matrix = blocks_of(mass_matrix, target, run_settings.transport)
    return {
        "mass_matrix": mass_matrix,
        "target_acceptance_rate": run_settings.target_acceptance_rate,
        "covariance": covariance,
    }


def _check_until(until: Any, run: _Run) -> None:
    if not isinstance(until, Until):
        raise TypeError(f"until must be inference.Until(...) or None, got {short_repr(until)}")
    kept = KeptSites(run.target, run.settings.keep)
    shapes = jax.eval_shape(kept.constrain, run.target.position_shapes)
    until.check_names(shapes, run.settings.num_chains, target_labels(run.target))
