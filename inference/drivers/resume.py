"""resume: more draws of chains whose state is on disk or in a result."""

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.sharding import Mesh

from inference.chains.recorder import Recorder
from inference.checkpoints.run_folder import RunFolder
from inference.drivers.check_inputs import check_inputs
from inference.drivers.checkpoints import check_joint_data, folder_of_run
from inference.drivers.resumable_state import recorder_of
from inference.drivers.run_chains import run_chains
from inference.drivers.run_description import describe_init
from inference.drivers.run_settings import RunSettings, restore_settings
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.hamiltonian.nuts import NUTS
from inference.monitoring.until import Until
from inference.results.guide_result import GuideResult
from inference.results.mcmc_result import MCMCResult
from inference.results.result import Result
from inference.results.svi_result import SVIResult
from inference.runtime.devices import is_over_processes, together
from inference.runtime.progress import Shown
from ppl.core.model_pytree import as_pytree


def resume(
    run: str | os.PathLike[str] | MCMCResult,
    model: Callable[..., Any],
    *args: Any,
    num_draws: int | None = None,
    kernel: Kernel = NUTS(),
    init: GuideResult | None = None,
    mesh: Mesh | None = None,
    until: Until | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> MCMCResult:
    """Goes on with a run of :func:`mcmc`: to its end, or to more draws.

    The draws equal the draws of one longer run, bit for bit. The key and all settings are taken
    from the run. A model, its data and a kernel cannot be read from a disk: they are given again,
    and compared with the run's. A result holds no data: its kernel, its sites and the log density
    at its last draws are compared.

    Args:
        run: The folder, `checkpoint` of :func:`mcmc`; or a result of :func:`mcmc` without a folder,
            which may have been saved and loaded.
        model: The model of the run.
        *args: Its arguments, as in the run.
        num_draws: Draws of each chain in the result, including the draws of the run so far; if it
            is smaller, the result has the first draws of the run. By default the number that the
            run was to have. After a run with `until`, `num_draws` or `until` is needed.
        kernel: The kernel of the run.
        init: The fit whose guide transports the chains, for a run with `transport`; its numbers are
            compared with the run's.
        mesh: Devices over which chains are spread; see :func:`mcmc`.
        until: Precision at which the run ends, with all draws that it has or more; see
            :func:`mcmc`.
        cache_dir: A directory for compiled programs.
        progress: Whether to show a bar; see :func:`mcmc`.
        **kwargs: More arguments of the model.

    Returns:
        All draws of the chains, from the first on.

    Raises:
        NotImplementedError: if the run has a folder and data are split over devices of several
            processes.
        OSError: if the folder cannot be written.
        TypeError: if an argument has the wrong type.
        ValueError: if the folder has no run, is damaged or in use, if the result does not hold its
            chains, or if the model, its arguments, the kernel or the fit of a run with `transport`
            differ from the run's; the message says which.

    Example:
        >>> import tempfile
        >>> import jax
        >>> import ppl, distributions as dist, inference
        >>> model = lambda key: ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     key = jax.random.key(0)
        ...     result = inference.mcmc(key, model, num_draws=100, checkpoint=folder)
        ...     more = inference.resume(folder, model, num_draws=300)
        >>> more.draws["mu"].shape, bool((more.draws["mu"][:, :100] == result.draws["mu"]).all())
        ((4, 300), True)
    """
    if isinstance(run, Result) and not isinstance(run, MCMCResult):
        raise TypeError(
            f"run must be the folder of a run of mcmc or its result, got {type(run).__name__}"
            + "; a fit goes on by inference.svi(..., state=result.state)"
            * isinstance(run, SVIResult)
        )

    def go_on(described: Mapping[str, Any], checkpoint: RunFolder | Recorder) -> MCMCResult:
        """Runs the chains further, with the settings of the run and of this call."""
        if num_draws is None and until is None and described["has_until"]:
            raise ValueError(
                "the run had until=..., which is not kept: give it again, or num_draws="
            )
        settings = restore_settings(described, kernel)
        if settings.transport or init is not None:
            _check_fit(settings, init)
            settings = dataclasses.replace(settings, init=init)
        run_settings = dataclasses.replace(
            settings,
            num_draws=described["num_draws"] if num_draws is None else num_draws,
            has_until=until is not None,
        )
        return run_chains(
            run_settings,
            model,
            args,
            kwargs,
            mesh=mesh,
            until=until,
            cache_dir=cache_dir,
            progress=progress,
            checkpoint=checkpoint,
        )

    # A result holds its chains in memory.
    if isinstance(run, MCMCResult):
        check_inputs(resume, jax.random.key(0), model, args, kwargs)
        recorder = recorder_of(run, kernel, model, args, kwargs)
        assert run.chains is not None
        return go_on(run.chains["settings"], recorder)
    check_joint_data((as_pytree(model), args, kwargs))
    # A folder has a manifest and a state, unless its run is of another driver or never started.
    folder = None
    try:
        with together(is_over_processes(mesh)):
            folder = RunFolder(folder_of_run(run, mesh), is_begun=True)
            manifest = folder.read_manifest()
            if manifest is not None and manifest.get("driver") == "svi":
                raise ValueError(
                    f"checkpoint={folder.name} has a run of svi: call inference.svi again as "
                    "before, with checkpoint= and as many num_steps as the whole run is to have"
                )
            driver = "mcmc" if manifest is None else manifest.get("driver", "mcmc")
            if driver != "mcmc":
                raise ValueError(
                    f"checkpoint={folder.name} has a run of {driver}, not of chains: call "
                    f"inference.{driver} again as before, with checkpoint="
                )
            check_inputs(resume, jax.random.key(0), model, args, kwargs)
            if manifest is None or not all(x in manifest for x in ("key", "num_draws", "init")):
                raise folder.emptiness()
            if not (folder.path / "state.npz").exists():
                raise ValueError(
                    f"checkpoint={folder.name} has a run that ended before its chains had started; "
                    "call inference.mcmc as before"
                )
        return go_on(manifest, folder)
    finally:
        if folder is not None:
            folder.close()


def _check_fit(settings: RunSettings, fit: Any) -> None:
    """Checks that a fit is the one whose guide transported the chains of a run.

    Raises:
        ValueError: if the run had another one or none, or if none is given.
    """
    if not settings.transport:
        raise ValueError(
            "init is for a run with transport=True, whose chains need the guide of its fit; this "
            "run goes on without"
        )
    if fit is None:
        raise ValueError(
            "the chains of the run moved in the standard coordinates of a fit (transport=True), "
            "which a run does not keep: give it again, resume(..., init=fit)"
        )
    found = describe_init(fit)
    if found != settings.init.digest:
        raise ValueError(
            f"init: the run had a fit of hash {settings.init.digest}, the call one of {found}: "
            "give the fit that transported its chains"
        )
