"""Distribution of chains over processes and devices, and the gathering of their draws."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

DEVICE = "device"  # axis of the mesh that chains are split along


@dataclasses.dataclass(frozen=True)
class Share:
    """Share of a process in the chains of a run, and its devices.

    Attributes:
        chains: Numbers of the chains that this process runs.
        num_chains: Number of chains of all processes.
        mesh: Devices that the chains are split over. `None` if only JAX's default device has
            chains, and if all devices of `own` move each chain.
        is_mapped: Whether a device maps over its chains, as an accelerator does.
        is_partial: Whether other processes run other chains.
        own: Mesh of a `shard_map` in the density, or `None`.
    """

    chains: np.ndarray
    num_chains: int
    mesh: Mesh | None
    is_mapped: bool
    is_partial: bool = False
    own: Mesh | None = None

    @property
    def everywhere(self) -> NamedSharding | None:
        """Sharding that replicates an array on all devices; `None` for the default device."""
        mesh = self.own if self.mesh is None else self.mesh
        return None if mesh is None else NamedSharding(mesh, PartitionSpec())

    @contextmanager
    def together(self) -> Iterator[None]:
        """A context that fails in all processes if it fails in one, so that none waits for ever.

        Raises:
            RuntimeError: if another process fails.
        """
        try:
            yield
        except Exception:  # raised again, once the other processes have been told
            self.min_over_processes(0)
            raise
        if not self.min_over_processes(1):
            raise RuntimeError("chains of another process failed; its message says why")

    def gather(self, tree: Any) -> Any:
        """Arrays of all processes, joined along their first axis in the order of the chains."""
        if not self.is_partial:
            return tree
        from jax.experimental import multihost_utils

        order = np.argsort(multihost_utils.process_allgather(self.chains, tiled=True))
        together = multihost_utils.process_allgather(tree, tiled=True)
        return jax.tree.map(lambda x: np.asarray(x)[order], together)

    def min_over_processes(self, number: int) -> int:
        """Minimum of `number` over processes."""
        if not self.is_partial:
            return number
        from jax.experimental import multihost_utils

        return int(np.min(multihost_utils.process_allgather(np.int32(number))))


def default_device() -> Any:
    """JAX's default device: `jax.default_device` if set, else the first local device."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None or isinstance(device, str):
        return jax.local_devices(backend=device)[0]
    return device


def copy_to_default_device(tree: Any) -> Any:
    """Pytree with all its JAX arrays on the default device.

    Raises:
        ValueError: if this process has only a part of an array.
    """
    device = default_device()

    def move(x: Any) -> Any:
        if not isinstance(x, jax.Array) or x.devices() == {device}:
            return x
        if not x.is_fully_addressable:
            if not x.is_fully_replicated:
                raise ValueError(
                    f"an array of shape {x.shape} in the model or its arguments is spread over "
                    "processes; give each process the whole, as a NumPy array"
                )
            x = x.addressable_data(0)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            words = jax.device_put(np.asarray(jax.random.key_data(x)))
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(x))
        return jax.device_put(np.asarray(x))  # not committed, so that a program may spread it

    return jax.tree.map(move, tree)


def share_chains(num_chains: int, mesh: Mesh | None, own: Any = None) -> Share:
    """Share of this process in `num_chains` chains.

    | Given                                  | Devices                                           |
    |----------------------------------------|---------------------------------------------------|
    | `own`, the mesh of a `shard_map` in    | all devices of `own` move each chain              |
    | the density, of several devices        |                                                   |
    | `mesh`                                 | the devices of `mesh`, equally many chains each   |
    | neither, on an accelerator             | as many local devices as can have equally many    |
    |                                        | chains each; the default device if                |
    |                                        | `jax.default_device` is set                       |
    | neither, otherwise                     | the default device                                |

    Raises:
        TypeError: if `mesh` is not a mesh of devices.
        ValueError: if chains cannot be split evenly over devices, or devices over processes; or if
            both meshes are given.
    """
    if own is not None and own.size > 1:
        return _share_own_mesh(own, num_chains, mesh)
    if mesh is None:
        devices = [default_device()]
        is_chosen = jax.config.jax_default_device is not None  # pyright: ignore
        if devices[0].platform != "cpu" and not is_chosen:
            devices = jax.local_devices()
        here = devices[: math.gcd(len(devices), num_chains)]
        return _share_on_devices(here, np.arange(num_chains), num_chains)
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
    share = _share_on_devices([devices[i] for i in here], chains[here].ravel(), num_chains)
    return dataclasses.replace(share, is_partial=len(here) < mesh.size)


def _share_own_mesh(own: Any, num_chains: int, mesh: Mesh | None) -> Share:
    if mesh is not None:
        raise ValueError(
            f"mesh: the model has a shard_map of its own, over {own}, all of whose devices move "
            "each chain, so chains cannot be spread over devices; leave out mesh"
        )
    own = own if isinstance(own, Mesh) else jax.sharding.get_mesh()
    if any(device.process_index != jax.process_index() for device in own.devices.flat):
        raise ValueError(
            f"the model has a shard_map over devices of several processes, {own}; chains need one "
            "over devices of this process, jax.local_devices()"
        )
    is_mapped = own.devices.flat[0].platform != "cpu"
    return Share(np.arange(num_chains), num_chains, None, is_mapped, own=own)


def _share_on_devices(devices: Sequence[Any], chains: np.ndarray, num_chains: int) -> Share:
    is_default = len(devices) == 1 and devices[0] == default_device()
    mesh = None if is_default else Mesh(np.array(devices), (DEVICE,))
    return Share(chains, num_chains, mesh, devices[0].platform != "cpu")
