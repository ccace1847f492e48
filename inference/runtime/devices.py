"""Distribution of chains and data over processes and devices, and the gathering of draws."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ppl.harvest.pytrees import is_split

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
        is_joint: Whether devices of several processes move each chain, so that all processes make
            the same calls.
        own: Mesh whose devices work together on each density: of a `shard_map` in it, or of data
            that are split over devices. `None` without any.
        axes: Axes of `own` that chains are split along, over which no data are split.
    """

    chains: np.ndarray
    num_chains: int
    mesh: Mesh | None
    is_mapped: bool
    is_partial: bool = False
    own: Mesh | None = None
    axes: tuple[str, ...] = ()
    is_joint: bool = False

    def agree(self, number: int) -> int:
        """A number that all processes have that move chains together: the least of theirs.

        Raises:
            LostProcessError: if another process has ended.
        """
        return _min_over_processes(number) if self.is_joint else number

    @property
    def has_accelerator(self) -> bool:
        """Whether chains move on an accelerator."""
        mesh = self.own if self.mesh is None else self.mesh
        device = default_device() if mesh is None else mesh.devices.flat[0]
        return device.platform != "cpu"

    @property
    def unspread(self) -> "Share":
        """Share on the same devices, each of which has all chains."""
        return dataclasses.replace(self, mesh=None, axes=())

    def place(self, tree: Any) -> Any:
        """Arrays on the devices: data that are split stay as they are, others are replicated."""

        def put(x: Any) -> Any:
            if is_split(x):
                return x
            if self.is_joint and not isinstance(x, jax.Array):
                x = jnp.asarray(x)  # else JAX compares float64 with the float32 of other processes
            return jax.device_put(x, self.everywhere)

        return jax.tree.map(put, tree)

    @property
    def everywhere(self) -> NamedSharding | None:
        """Sharding that replicates an array on all devices; `None` for the default device."""
        mesh = self.own if self.mesh is None else self.mesh
        return None if mesh is None else NamedSharding(mesh, PartitionSpec())

    def together(self) -> AbstractContextManager[None]:
        """A context that fails in all processes if it fails in one, see :func:`together`."""
        return together(self.is_partial)

    def gather(self, tree: Any) -> Any:
        """Arrays of all processes, joined along their first axis in the order of the chains.

        Raises:
            LostProcessError: if another process has ended.
        """
        if not self.is_partial:
            return tree
        order = np.argsort(gather_from_processes(self.chains, tiled=True))
        whole = gather_from_processes(tree, tiled=True)
        return jax.tree.map(lambda x: np.asarray(x)[order], whole)

    def min_over_processes(self, number: int) -> int:
        """Minimum of `number` over processes.

        Raises:
            LostProcessError: if another process has ended.
        """
        return _min_over_processes(number) if self.is_partial else number


def _min_over_processes(number: int) -> int:
    return int(np.min(gather_from_processes(np.int32(number))))


class LostProcessError(RuntimeError):
    """Error of a run of several processes, one of which has ended before the others."""


def gather_from_processes(tree: Any, *, tiled: bool = False) -> Any:
    """Arrays of all processes, stacked along a new axis, or joined along the first one if `tiled`.

    Raises:
        LostProcessError: if another process has ended.
    """
    from jax.experimental import multihost_utils

    try:
        return multihost_utils.process_allgather(tree, tiled=tiled)
    except Exception as error:
        cause = next(iter(str(error).splitlines()), "no words")
        raise LostProcessError(
            f"process {jax.process_index()} of {jax.process_count()} could not exchange numbers "
            f"with the others ({type(error).__name__}: {cause}): one of them has most likely "
            "ended, and its own messages say why. "
            "The run cannot go on without it. With checkpoint=, the same call in as many processes "
            "goes on from the last states in the folder"
        ) from error


@contextmanager
def together(is_partial: bool) -> Iterator[None]:
    """A context that fails in all processes if it fails in one, so that none waits for ever.

    Args:
        is_partial: Whether there are other processes.

    Raises:
        RuntimeError: if another process fails.
    """
    if not is_partial:
        yield
        return
    try:
        yield
    except LostProcessError:
        raise
    except Exception:  # raised again, once the other processes have been told
        gather_from_processes(np.int32(0))
        raise
    if not np.min(gather_from_processes(np.int32(1))):
        raise RuntimeError("chains of another process failed; its message says why")


def is_over_processes(mesh: Any, what: str = "mesh") -> bool:
    """Whether a mesh has devices of several processes.

    Args:
        mesh: The mesh, or `None`.
        what: Name of the mesh, for the error.

    Raises:
        ValueError: if it has not as many of each process, nor only devices of this one.
    """
    if not isinstance(mesh, Mesh):
        return False
    processes = [device.process_index for device in mesh.devices.flat]
    if set(processes) == {jax.process_index()}:
        return False
    if len({processes.count(i) for i in range(jax.process_count())}) > 1:
        raise ValueError(
            f"{what} must have as many devices of each of the "
            f"{jax.process_count()} processes, or devices of this one alone, got {mesh}"
        )
    return True


def default_device() -> Any:
    """JAX's default device: `jax.default_device` if set, else the first local device."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if device is None or isinstance(device, str):
        return jax.local_devices(backend=device)[0]
    return device


def mesh_of_data(tree: Any) -> Mesh | None:
    """Mesh over which arrays are split, with automatic axes; `None` if no array is split.

    Raises:
        ValueError: if two arrays are split over different meshes, or one without a mesh.
    """
    found: dict[Mesh, Any] = {}
    for x in jax.tree.leaves(tree):
        if is_split(x):
            found.setdefault(_mesh_of(x), x)
    if len(found) > 1:
        (first, x), (second, y), *_ = found.items()
        raise ValueError(
            f"data are split over different meshes: an array of shape {x.shape} over "
            f"{_describe(first)}, and one of shape {y.shape} over {_describe(second)}. Split all "
            "over one mesh: jax.device_put(x, jax.NamedSharding(mesh, jax.P(axis)))"
        )
    return next(iter(found), None)


def _mesh_of(x: jax.Array) -> Mesh:
    if not isinstance(x.sharding, NamedSharding):
        raise ValueError(
            f"an array of shape {x.shape} is split over devices by {x.sharding}, without a mesh; "
            "split it over one: jax.device_put(x, jax.NamedSharding(mesh, jax.P(axis)))"
        )
    mesh: Any = x.sharding.mesh
    return Mesh(mesh.devices, mesh.axis_names)


def _spans_processes(mesh: Mesh) -> bool:
    """Whether a mesh has devices of other processes."""
    return any(device.process_index != jax.process_index() for device in mesh.devices.flat)


def _names(axes: tuple[str, ...]) -> str:
    """Names of axes, for messages."""
    return ", ".join(map(repr, axes))


def _describe(mesh: Mesh) -> str:
    axes = ", ".join(f"{name!r}: {size}" for name, size in mesh.shape.items())
    return f"a mesh ({axes}) of the devices {[device.id for device in mesh.devices.flat]}"


def put_on_common_devices(tree: Any, *, across_processes: bool = False) -> Any:
    """Pytree with all its JAX arrays on the same devices.

    | Data | Devices |
    |---|---|
    | split over a mesh | all of the mesh: the data stay, other arrays are copied to each device |
    | otherwise | the default device |

    Args:
        tree: The pytree.
        across_processes: Whether data may be split over devices of several processes.

    Raises:
        ValueError: if this process has only a part of an array, or if data are split over
            different meshes.
    """
    device = default_device()
    mesh = mesh_of_data(tree)
    everywhere = None if mesh is None else NamedSharding(mesh, PartitionSpec())

    def move(x: Any) -> Any:
        if not isinstance(x, jax.Array):
            return x
        if is_split(x) and (across_processes or x.is_fully_addressable):
            # The same bytes; a mesh with explicit axes would ask a model for shardings.
            spec = x.sharding.spec  # pyright: ignore[reportAttributeAccessIssue]
            return jax.device_put(x, NamedSharding(_mesh_of(x), spec))
        if x.devices() == {device} and mesh is None:
            return x
        if not x.is_fully_addressable:
            if not x.is_fully_replicated:
                raise ValueError(
                    f"an array of shape {x.shape} in the model or its arguments is spread over "
                    "processes, which only mcmc takes, with NUTS() and kernels like it; give each "
                    "process the whole, as a NumPy array, or split it over jax.local_devices()"
                )
            x = x.addressable_data(0)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            words = jax.device_put(np.asarray(jax.random.key_data(x)), everywhere)
            return jax.random.wrap_key_data(words, impl=jax.random.key_impl(x))
        # Without a mesh it is not committed, so that a program may spread it.
        return jax.device_put(np.asarray(x), everywhere)

    return jax.tree.map(move, tree)


def check_unsplit(driver: str, tree: Any) -> None:
    """Checks that no array is split over devices, for a driver that has each chain on one device.

    Args:
        driver: Name of the driver.
        tree: The model and its arguments.

    Raises:
        ValueError: if an array is split.
    """
    for x in filter(is_split, jax.tree.leaves(tree)):
        raise ValueError(
            f"{driver}: an array of shape {x.shape} in the model or its arguments is split over "
            f"the devices {sorted(device.id for device in x.devices())}, and {driver} moves each "
            "chain on one device, which would gather it. Give whole arrays, as numpy.asarray(x), "
            "if they fit one device; mcmc takes split data, one data set a call"
        )


def share_chains(num_chains: int, mesh: Mesh | None, target: Any = None) -> Share:
    """Share of this process in `num_chains` chains of a target.

    | Given                                  | Devices                                           |
    |----------------------------------------|---------------------------------------------------|
    | a target with a `shard_map` over       | all of them move each chain                       |
    | several devices                        |                                                   |
    | a target with data split over a mesh   | those along the axes of the data move each chain; |
    |                                        | chains are spread over the other axes             |
    | `mesh`                                 | the devices of `mesh`, equally many chains each   |
    | neither, on an accelerator             | as many local devices as can have equally many    |
    |                                        | chains each; the default device if                |
    |                                        | `jax.default_device` is set                       |
    | neither, otherwise                     | the default device                                |

    Raises:
        TypeError: if `mesh` is not a mesh of devices.
        ValueError: if chains cannot be split evenly over devices, or devices over processes; if
            `mesh` is given and the target has a `shard_map`, or data over another mesh.
    """
    if mesh is not None and not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a mesh of devices, as jax.make_mesh makes, got {mesh!r}")
    own = getattr(target, "mesh", None)
    data = mesh_of_data(target)
    if own is not None and own.size > 1:
        return _share_own_mesh(own, num_chains, mesh, data)
    if data is not None:
        return _share_mesh_of_data(data, num_chains, mesh, target)
    if mesh is None:
        devices = [default_device()]
        is_chosen = jax.config.jax_default_device is not None  # pyright: ignore
        if devices[0].platform != "cpu" and not is_chosen:
            devices = jax.local_devices()
        here = devices[: math.gcd(len(devices), num_chains)]
        return _share_on_devices(here, np.arange(num_chains), num_chains)
    if num_chains % mesh.size:
        raise ValueError(
            f"num_chains must be a multiple of the {mesh.size} devices of the mesh, got "
            f"{num_chains}"
        )
    devices = list(mesh.devices.flat)
    chains = np.arange(num_chains).reshape(mesh.size, -1)
    is_partial = is_over_processes(mesh)
    here = [i for i, x in enumerate(devices) if x.process_index == jax.process_index()]
    share = _share_on_devices([devices[i] for i in here], chains[here].ravel(), num_chains)
    return dataclasses.replace(share, is_partial=is_partial)


def check_processes(kernel: Any, share: Share) -> None:
    """Checks that devices of several processes need not move chains of this kernel together.

    Raises:
        NotImplementedError: if they do.
    """
    if share.is_joint:
        raise NotImplementedError(
            f"data are split over devices of several processes, which only NUTS() and kernels like "
            f"it take, not {type(kernel).__name__}; split them over jax.local_devices()"
        )


def _share_own_mesh(own: Any, num_chains: int, mesh: Mesh | None, data: Mesh | None) -> Share:
    if mesh is not None:
        raise ValueError(
            f"mesh: the model has a shard_map of its own, over {own}, all of whose devices move "
            "each chain, so chains cannot be spread over devices; leave out mesh"
        )
    own = own if isinstance(own, Mesh) else jax.sharding.get_mesh()
    if _spans_processes(own):
        raise ValueError(
            f"the model has a shard_map over devices of several processes, {own}; chains need one "
            "over devices of this process, jax.local_devices()"
        )
    if data is not None and list(data.devices.flat) != list(own.devices.flat):
        raise ValueError(
            f"the model has a shard_map over {_describe(own)}, and its data are split over "
            f"{_describe(data)}; split them over the mesh of the shard_map"
        )
    is_mapped = own.devices.flat[0].platform != "cpu"
    return Share(np.arange(num_chains), num_chains, None, is_mapped, own=own)


def _share_mesh_of_data(data: Mesh, num_chains: int, mesh: Mesh | None, target: Any) -> Share:
    if mesh is not None and Mesh(mesh.devices, mesh.axis_names) != data:
        raise ValueError(
            f"mesh: the data are split over {_describe(data)}, and mesh is {_describe(mesh)}. "
            "Chains go where the data are: leave out mesh; or split the data over one axis of "
            "mesh, jax.device_put(x, jax.NamedSharding(mesh, jax.P(axis))), and chains are spread "
            "over its other axes"
        )
    taken = {
        axis
        for x in jax.tree.leaves(target)
        if is_split(x)
        for axes in x.sharding.spec
        for axis in (axes if isinstance(axes, tuple) else (axes,))
    }
    axes = tuple(axis for axis, n in data.shape.items() if axis not in taken and n > 1)
    size = math.prod(data.shape[axis] for axis in axes)
    if num_chains % size:
        raise ValueError(
            f"num_chains must be a multiple of {size}, the size of the mesh along {_names(axes)}, "
            f"over which no data are split and chains are spread, got {num_chains}"
        )
    is_joint = is_over_processes(data, "the mesh over which the data are split")
    if is_joint and axes:
        both = (*sorted(taken & set(data.shape), key=list(data.shape).index), *axes)
        raise NotImplementedError(
            f"data are split over devices of several processes, all of which move each chain; "
            f"chains cannot be spread over {_names(axes)}. Split the data along it, too: "
            f"jax.P({both})"
        )
    share = Share(np.arange(num_chains), num_chains, None, True, own=data, axes=axes)
    return dataclasses.replace(share, is_joint=is_joint)


def _share_on_devices(devices: Sequence[Any], chains: np.ndarray, num_chains: int) -> Share:
    is_default = len(devices) == 1 and devices[0] == default_device()
    mesh = None if is_default else Mesh(np.array(devices), (DEVICE,))
    return Share(chains, num_chains, mesh, devices[0].platform != "cpu")
