"""Checkpoints of a run of a model: the kept sites, and the manifest that a call must fit."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Mesh

from inference.chains.recorder import is_kept
from inference.checkpoints.disk_recorder import DiskRecorder
from inference.checkpoints.manifest import compare_manifests, describe_platform, with_new_end
from inference.checkpoints.run_folder import EARLIER_STATE, RunFolder, folder_of_process
from inference.common.argument_checks import short_repr
from inference.common.leaf_names import named_leaves
from inference.common.target import NamedSite, named_sites
from inference.drivers.run_description import describe_arguments, describe_programs
from inference.drivers.run_settings import RunSettings
from inference.runtime.devices import (
    Share,
    default_device,
    is_over_processes,
    mesh_of_data,
    share_chains,
    together,
)


def check_kept(keep: Any, sites: Sequence[NamedSite]) -> tuple[str, ...] | None:
    """Names of the sites and scopes to keep; `None` for all.

    Raises:
        TypeError: if `keep` holds something else than names.
        ValueError: if a name belongs to no site or scope, or if `keep` is empty.
    """
    if keep is None:
        return None
    names = [keep] if isinstance(keep, str) else keep
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        found = short_repr(keep)
        raise TypeError(f'keep must be names of sites, such as ["mu", "tau"], got {found}')
    if not names:
        raise ValueError("keep: expected names of sites, got none; leave it out to keep all")
    for name in names:
        site = name.partition("[")[0]
        if site != name and any(is_kept(known, (site,)) for known, *_ in sites):
            raise ValueError(f"keep: sites are kept as a whole: give {site!r}, not {name!r}")
        if not any(is_kept(site, (name,)) for site, *_ in sites):
            known = ", ".join(site for site, *_ in sites)
            raise ValueError(f"keep: no site is called {name!r}; there are {known}")
    return tuple(sorted(set(names)))


def kept_sites(target: Any, keep: tuple[str, ...] | None) -> tuple[NamedSite, ...]:
    """The sites of a target that are kept."""
    sites = named_sites(target)
    return tuple(site for site in sites if keep is None or is_kept(site[0], keep))


def open_recorder(
    checkpoint: Any, target: Any, model: Any, run_settings: RunSettings, mesh: Mesh | None
) -> DiskRecorder:
    """Recorder for the run of a call in a folder, new or begun.

    Args:
        checkpoint: Path of the folder, or the folder, locked.
        target: Density of the model.
        model: The model.
        run_settings: Settings of the run, checked.
        mesh: Devices of the run, or `None`.

    Raises:
        NotImplementedError: if devices of several processes move each chain.
        OSError: if the folder cannot be written.
        RuntimeError: if another process fails at this.
        TypeError: if `checkpoint` is not a path.
        ValueError: if the folder has another run, is damaged or in use, or if chains cannot be
            spread over devices.
    """
    folder = checkpoint if isinstance(checkpoint, RunFolder) else None
    try:
        share = share_chains(run_settings.num_chains, mesh, target)
        _check_joint(share.is_joint)
        devices = [default_device()] if mesh is None else list(mesh.devices.flat)
        is_partial = is_over_processes(mesh)
        part = _describe_part(share) if is_partial else {}
        with together(is_partial):
            if folder is None:
                folder = RunFolder(folder_of_run(checkpoint, mesh))
            manifest = describe_platform("mcmc", devices) | part
            manifest |= _describe_run(target, model, run_settings)
            old = folder.read_manifest()
            if old is not None:
                compare_manifests(folder.name, old, manifest)
                manifest = with_new_end(old, manifest)
            if manifest != old:
                folder.write_manifest(manifest)
            recorder = DiskRecorder(
                folder,
                run_settings.keep,
                manifest["num_draws"],
                has_until=run_settings.has_until,
            )
            earlier = folder.read_state(EARLIER_STATE) if is_partial else None
        if is_partial:
            recorder.agree(earlier)
        return recorder
    except BaseException:
        if folder is not None:
            folder.close()
        raise


def folder_of_run(checkpoint: Any, mesh: Mesh | None) -> Any:
    """Path of the folder in which this process keeps its part of a run.

    Raises:
        TypeError: if `checkpoint` is not a path.
        ValueError: if the folder has a run of another number of processes.
    """
    if not is_over_processes(mesh):
        return checkpoint
    return folder_of_process(checkpoint, jax.process_index(), jax.process_count())


def check_joint_data(tree: Any) -> None:
    """Checks that a model and its arguments are not split over devices of several processes.

    Raises:
        NotImplementedError: if they are, so that no folder can hold the chains of a process.
        ValueError: if they are split over different meshes.
    """
    _check_joint(is_over_processes(mesh_of_data(tree), "the mesh over which the data are split"))


def _check_joint(is_joint: bool) -> None:
    """Checks that a folder can hold the chains of a process.

    Raises:
        NotImplementedError: if devices of several processes move each chain.
    """
    if is_joint:
        raise NotImplementedError(
            "data are split over devices of several processes, all of which move each chain, and "
            "checkpoint is for chains that one process moves; leave it out, or split the data over "
            "jax.local_devices()"
        )


def _describe_part(share: Share) -> dict[str, Any]:
    """Entries of a manifest: the number of processes, and which chains are those of this one."""
    return {
        "processes": jax.process_count(),
        "chains of this process": share.chains.tolist(),
    }


def _describe_run(target: Any, model: Any, run_settings: RunSettings) -> dict[str, Any]:
    """Entries of a manifest: the settings, the arguments and the program of the model."""
    return {
        **run_settings.describe(),
        "sites": {
            name: [list(x.shape), str(x.dtype)] for name, x in named_leaves(target.position_shapes)
        },
        **describe_arguments(target, model),
        "the model's program": describe_programs(
            (lambda target, position: target.log_density(position), target, target.position_shapes),
            (lambda target, position: target.constrain(position), target, target.position_shapes),
        ),
    }
