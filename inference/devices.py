"""Which chains a process runs and on which devices; what all processes have drawn, put together."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

DEVICE = "device"


@dataclasses.dataclass(frozen=True)
class Share:
    """The chains that this process runs.

    Attributes:
        chains: Their numbers.
        num_chains: How many there are, with those of other processes.
        mesh: The devices that share them, or `None` where there is only one.
        is_mapped: Whether a device maps over its chains, as an accelerator does.
        is_partial: Whether other processes run other chains.
    """

    chains: np.ndarray
    num_chains: int
    mesh: Mesh | None
    is_mapped: bool
    is_partial: bool = False

    @property
    def everywhere(self) -> NamedSharding | None:
        """How what all devices need is to be placed."""
        return None if self.mesh is None else NamedSharding(self.mesh, PartitionSpec())

    @contextmanager
    def together(self) -> Iterator[None]:
        """A context that fails in all processes if it fails in one: else others would wait for it.

        Raises:
            RuntimeError: if another process fails.
        """
        try:
            yield
        except Exception:
            self.least(0)
            raise
        if not self.least(1):
            raise RuntimeError("chains of another process failed; its message says why")

    def gather(self, tree: Any) -> Any:
        """Arrays with the chains of this process in front, with those of all processes."""
        if not self.is_partial:
            return tree
        from jax.experimental import multihost_utils

        order = np.argsort(multihost_utils.process_allgather(self.chains, tiled=True))
        together = multihost_utils.process_allgather(tree, tiled=True)
        return jax.tree.map(lambda x: np.asarray(x)[order], together)

    def least(self, number: int) -> int:
        """The least `number` of any process."""
        if not self.is_partial:
            return number
        from jax.experimental import multihost_utils

        return int(np.min(multihost_utils.process_allgather(np.int32(number))))


def share_of(num_chains: int, mesh: Mesh | None) -> Share:
    """The chains of this process among `num_chains`, on the devices of `mesh`.

    Without one, an accelerator's chains are spread over as many devices of this process as can have
    the same number of chains.

    Raises:
        TypeError: if `mesh` is no mesh of devices.
        ValueError: if chains cannot be spread evenly over devices, or devices over processes.
    """
    if mesh is None:
        devices = jax.local_devices()
        if devices[0].platform == "cpu":
            devices = devices[:1]
        here = devices[: math.gcd(len(devices), num_chains)]
        return _on(here, np.arange(num_chains), num_chains)
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a mesh of devices, as jax.make_mesh makes, got {mesh!r}")
    if num_chains % mesh.size:
        raise ValueError(
            f"num_chains must be a multiple of the {mesh.size} devices of the mesh, got "
            f"{num_chains}"
        )
    devices = list(mesh.devices.flat)
    chains = np.arange(num_chains).reshape(mesh.size, -1)
    processes = [device.process_index for device in devices]
    here = np.flatnonzero(np.asarray(processes) == jax.process_index())
    counts = {processes.count(i) for i in range(jax.process_count())}
    if len(here) < mesh.size and len(counts) > 1:
        raise ValueError(
            "mesh must have as many devices of each of the "
            f"{jax.process_count()} processes, or devices of this one alone, got {mesh}"
        )
    share = _on([devices[i] for i in here], chains[here].ravel(), num_chains)
    return dataclasses.replace(share, is_partial=len(here) < mesh.size)


def _on(devices: Sequence[Any], chains: np.ndarray, num_chains: int) -> Share:
    mesh = Mesh(np.array(devices), (DEVICE,)) if len(devices) > 1 else None
    return Share(chains, num_chains, mesh, devices[0].platform != "cpu")
