"""Checkpoints of smc: the folder of a run of particles, and the manifest that a call must fit."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from inference.checkpoints.manifest import THE_STEP, compare_manifests, describe_platform, digest
from inference.checkpoints.run_folder import RunFolder
from inference.checkpoints.state_writer import StateWriter
from inference.common.leaf_names import named_leaves
from inference.drivers.run_description import (
    describe_arguments,
    describe_init,
    describe_key,
    describe_model,
    describe_object,
    describe_programs,
)
from inference.models.row_path import RowPath
from inference.runtime.devices import default_device
from inference.runtime.interrupts import without_interrupts
from inference.sequential.moves import Mover, move_particles
from inference.sequential.paths import ModelsPath
from inference.sequential.population_state import population_of, state_of
from inference.sequential.tempering import Population


class PopulationFolder:
    """Recorder of populations in a locked folder, each with a note in words."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._writer = StateWriter(folder)
        self._unwritten: tuple[Population, str] | None = None

    def read(self) -> tuple[Population, str] | None:
        """Last recorded population and its note; `None` if there is none.

        Raises:
            ValueError: if the file is damaged.
        """
        state = self.folder.read_state()
        return None if state is None else (population_of(state), str(state["note"]))

    def record(self, population: Population, note: str) -> None:
        """Writes a population if one is due; else it stays in memory until the next one."""
        self._unwritten = population, note
        if self._writer.is_due:
            self._write()

    def close(self) -> None:
        """Writes the last population, also of an interrupted run, and gives the folder free."""
        try:
            self._write()
        finally:
            self._writer.close()

    def _write(self) -> None:
        if self._unwritten is None:
            return
        population, note = self._unwritten
        with without_interrupts():
            self._writer.write(lambda: {"note": np.array(note), **state_of(population)})
            self._unwritten = None


def open_populations(
    checkpoint: Any, mover: Mover, target: Any, model: Any, given: Mapping[str, Any]
) -> PopulationFolder:
    """Recorder for the run of a call in a folder, new or begun.

    Args:
        checkpoint: Path of the folder.
        mover: The moves.
        target: The model on unconstrained space.
        model: The model.
        given: Settings: `key`, `start`, and others that JSON can hold.

    Raises:
        OSError: if the folder cannot be written.
        TypeError: if `checkpoint` is not a path.
        ValueError: if the folder has another run, is damaged or in use.
    """
    folder = RunFolder(checkpoint)
    try:
        manifest = describe_platform("smc", [default_device()])
        manifest |= _describe_run(mover, target, model, given)
        old = folder.read_manifest()
        if old is None:
            folder.write_manifest(manifest)
        else:
            compare_manifests(folder.name, old, manifest)
        return PopulationFolder(folder)
    except BaseException:
        folder.close()
        raise


def _describe_run(
    mover: Mover, target: Any, model: Any, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Entries of a manifest: settings, arguments, and programs of all that may be code."""
    start = given["start"]
    return {
        **{name: x for name, x in given.items() if name not in ("key", "start")},
        "key": describe_key(given["key"]),
        "chain_length": mover.chain_length,
        "kernel": describe_object(mover.kernel),
        "init": start and describe_init((start.positions, start.log_densities)),
        "sites": {
            name: [list(x.shape), str(x.dtype)] for name, x in named_leaves(target.position_shapes)
        },
        **describe_arguments(target, model),
        **_describe_path(mover.path, target),
        "the model's program": describe_model(target),
        THE_STEP: describe_programs((move_particles, *_shapes_of_moves(mover))),
    }


def _describe_path(path: Any, target: Any) -> dict[str, Any]:
    """Entries of a manifest on the densities on the way."""
    if isinstance(path, RowPath):
        return {"path": "data", "rows of the first batch": path.num_first} | {
            "batch_size": path.batch_size
        }
    if not isinstance(path, ModelsPath):
        return {"path": "likelihood"}
    others = path.targets[:-1]
    return {
        "path": f"{len(others)} of one's own",
        "data of the models of path": describe_init(others),
        "path's program": digest(" ".join(map(describe_model, others)))[:16],
    }


def _shapes_of_moves(mover: Mover) -> tuple[Any, ...]:
    """Arguments of :func:`move_particles`, with shapes in place of arrays."""
    layout = mover.layout

    def numbers(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, layout.dtype)

    return (
        mover,
        jax.ShapeDtypeStruct((2,), np.uint32),
        numbers(2, layout.size),
        numbers(mover.path.num_terms),
        numbers(layout.size),
        numbers(),
        jax.ShapeDtypeStruct((), np.int32),
    )
