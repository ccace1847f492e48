"""resume: more draws of chains whose state is on disk."""

import os
from collections.abc import Callable
from typing import Any

from jax.sharding import Mesh

from inference.checkpoints.run_folder import RunFolder
from inference.drivers.check_inputs import check_inputs
from inference.drivers.checkpoints import RecordedInit, restore_key
from inference.drivers.mcmc import run_chains
from inference.hamiltonian.kernel import Kernel
from inference.hamiltonian.nuts import NUTS
from inference.initialization.initial_positions import STRATEGIES
from inference.monitoring.until import Until
from inference.results.mcmc_result import MCMCResult
from inference.runtime.progress import Shown


def resume(
    checkpoint: str | os.PathLike[str],
    model: Callable[..., Any],
    *args: Any,
    num_draws: int | None = None,
    kernel: Kernel = NUTS(),
    mesh: Mesh | None = None,
    until: Until | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Shown = None,
    **kwargs: Any,
) -> MCMCResult:
    """Goes on with a run of :func:`mcmc` in a folder: to its end, or to more draws.

    Draws are those of one longer run, bit for bit. The key and all settings are read from the
    folder. A model, its data and a kernel cannot be read from a disk: they are given again, and
    compared with those of the run.

    Args:
        checkpoint: The folder, `checkpoint` of :func:`mcmc`.
        model: The model of the run.
        *args: Its arguments, as in the run.
        num_draws: Draws of each chain in the result, those of the run so far included; by default
            as many as the run was to have; needed after a run with `until`, if none is given.
        kernel: The kernel of the run.
        mesh: Devices over which chains are spread; see :func:`mcmc`.
        until: Precision at which the run ends, with all draws that it has or more; see
            :func:`mcmc`.
        cache_dir: A directory for compiled programs.
        progress: Whether to show a bar; see :func:`mcmc`.
        **kwargs: More arguments of the model.

    Returns:
        All draws of the chains, from the first on.

    Raises:
        OSError: if the folder cannot be written.
        TypeError: if an argument has the wrong type.
        ValueError: if the folder has no run, is damaged or in use, or if the model, its arguments
            or the kernel are not those of the run; the message says which.

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
    folder = RunFolder(checkpoint, is_begun=True)
    try:
        manifest = folder.read_manifest()
        if manifest is None or not all(x in manifest for x in ("key", "num_draws", "init")):
            raise folder.emptiness()
        if not (folder.path / "state.npz").exists():
            raise ValueError(
                f"checkpoint={folder.name} has a run that ended before its chains had started; "
                "call inference.mcmc as before"
            )
        if num_draws is None and until is None and manifest.get("has_until"):
            raise ValueError(
                "the run had until=..., which is not in the folder: give it again, or num_draws="
            )
        key = restore_key(manifest["key"])
        check_inputs(resume, key, model, args, kwargs)
        init = manifest["init"]
        return run_chains(
            key,
            model,
            args,
            kwargs,
            kernel=kernel,
            num_warmup=manifest["num_warmup"],
            num_draws=manifest["num_draws"] if num_draws is None else num_draws,
            num_chains=manifest["num_chains"],
            mass_matrix=manifest["mass_matrix"],
            target_acceptance_rate=manifest["target_acceptance_rate"],
            init=init if init in STRATEGIES else RecordedInit(init),
            mesh=mesh,
            until=until,
            cache_dir=cache_dir,
            progress=progress,
            keep=manifest["keep"],
            checkpoint=folder,
        )
    finally:
        folder.close()
