"""Checkpoints of a run of a model: what is kept, and the manifest by which a call is compared."""

import dataclasses
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import DictKey, tree_flatten_with_path

from inference.chains.recorder import is_kept
from inference.checkpoints.disk_recorder import DiskRecorder
from inference.checkpoints.manifest import (
    compare_manifests,
    describe_array,
    describe_platform,
    describe_tree,
    digest,
)
from inference.checkpoints.run_folder import RunFolder
from inference.common.leaf_names import named_leaves
from inference.runtime.devices import default_device
from ppl.core.model_pytree import innermost


@dataclasses.dataclass(frozen=True)
class RecordedInit:
    """Initial positions of a run that goes on, which are known by their hash alone.

    Attributes:
        digest: The hash in the manifest.
    """

    digest: str


def check_kept(keep: Any, sites: Sequence[tuple[str, bool]]) -> tuple[str, ...] | None:
    """Names of the sites and scopes to keep; `None` for all.

    Raises:
        TypeError: if `keep` holds something else than names.
        ValueError: if a name is none of a site or scope, or there is none.
    """
    if keep is None:
        return None
    names = [keep] if isinstance(keep, str) else keep
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f'keep must be names of sites, such as ["mu", "tau"], got {keep!r}')
    if not names:
        raise ValueError("keep: expected names of sites, got none; leave it out to keep all")
    for name in names:
        if not any(is_kept(site, (name,)) for site, _ in sites):
            known = ", ".join(site for site, _ in sites)
            raise ValueError(f"keep: no site is called {name!r}; there are {known}")
    return tuple(sorted(set(names)))


def open_recorder(
    checkpoint: Any, target: Any, model: Any, given: Mapping[str, Any], mesh: Mesh | None
) -> DiskRecorder:
    """Recorder for the run of a call in a folder, new or begun.

    Args:
        checkpoint: Path of the folder, or the folder, locked.
        target: Density of the model.
        model: The model.
        given: Settings of the run: `key`, `kernel`, `init`, `keep`, `num_draws` and `has_until`,
            and others that JSON can hold.
        mesh: Devices of the run, or `None`.

    Raises:
        NotImplementedError: if `mesh` has devices of other processes.
        OSError: if the folder cannot be written.
        TypeError: if `checkpoint` is no path.
        ValueError: if the folder has another run, is damaged or in use.
    """
    devices = [default_device()] if mesh is None else list(mesh.devices.flat)
    if any(device.process_index != jax.process_index() for device in devices):
        raise NotImplementedError(
            "checkpoint is for the devices of one process; leave it out, or give a mesh of "
            "jax.local_devices()"
        )
    folder = checkpoint if isinstance(checkpoint, RunFolder) else RunFolder(checkpoint)
    try:
        manifest = describe_platform(devices) | _describe_run(target, model, given)
        old = folder.read_manifest()
        if old is not None:
            compare_manifests(folder.name, old, manifest)
            room = max(old["num_draws"], manifest["num_draws"])
            manifest = old | {"num_draws": room, "has_until": manifest["has_until"]}
        if manifest != old:
            folder.write_manifest(manifest)
        return DiskRecorder(folder, given["keep"], manifest["num_draws"])
    except BaseException:
        folder.close()
        raise


def _describe_run(target: Any, model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Entries of a manifest: the settings, the arguments and the program of the model."""
    plain = {name: x for name, x in given.items() if name not in ("key", "kernel", "init", "keep")}
    init = given["init"]
    if isinstance(init, RecordedInit):
        init = init.digest
    elif not isinstance(init, str):
        init = digest(repr(describe_tree(init)))[:16]
    return {
        **plain,
        "key": describe_key(given["key"]),
        "kernel": _describe_kernel(given["kernel"]),
        "init": init,
        "keep": None if given["keep"] is None else list(given["keep"]),
        "sites": {
            name: [list(x.shape), str(x.dtype)] for name, x in named_leaves(target.position_shapes)
        },
        **_describe_arguments(target, model),
        "the model's program": _describe_program(target),
    }


def describe_key(key: jax.Array) -> dict[str, Any]:
    """Implementation and words of a key; `None` for the implementation of a legacy key."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return {"impl": None, "words": np.asarray(key).tolist()}
    words = np.asarray(jax.random.key_data(key)).tolist()
    return {"impl": str(jax.random.key_impl(key)), "words": words}


def restore_key(described: Mapping[str, Any]) -> jax.Array:
    """The key that `describe_key` has described."""
    words = jnp.asarray(described["words"], jnp.uint32)
    if described["impl"] is None:
        return words
    return jax.random.wrap_key_data(words, impl=described["impl"])


def _describe_kernel(kernel: Any) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(kernel))
    short = text if len(text) < 200 else f"{text[:200]}..."
    return f"{short} of hash {digest(text + repr(describe_tree(kernel)))[:16]}"


def _describe_arguments(target: Any, model: Any) -> dict[str, Any]:
    """Arrays among the arguments and in the model, by names for messages; other arguments."""
    args, kwargs = target.arguments.join(target.data)
    try:
        parameters = list(inspect.signature(innermost(model)).parameters.values())[1:]
    except ValueError:
        parameters = []
    names = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    found = {}
    for i, arg in enumerate(args):
        name = f" ({names[i]})" if i < len(names) else ""
        found[f"argument {i}{name}"] = _describe_argument(arg)
    for name, arg in kwargs.items():
        found[f"argument {name}"] = _describe_argument(arg)
    for i, (path, leaf) in enumerate(tree_flatten_with_path(target.model)[0]):
        keys = ".".join(str(key.key) for key in path if isinstance(key, DictKey))
        found[f"data {i} of the model" + f" ({keys})" * bool(keys)] = describe_array(leaf)
    return found


def _describe_argument(arg: Any) -> Any:
    leaves, structure = jax.tree.flatten(arg)
    if len(leaves) == 1 and leaves[0] is arg and hasattr(arg, "dtype"):
        return describe_array(arg)
    parts = [describe_array(x) if hasattr(x, "dtype") else digest(repr(x))[:16] for x in leaves]
    return {"structure": digest(repr(structure))[:16], "leaves": parts}


def _describe_program(target: Any) -> str:
    """Hash of the programs of the log density and of the values of sites, with their constants."""
    density = jax.make_jaxpr(lambda target, position: target.log_density(position))
    values = jax.make_jaxpr(lambda target, position: target.constrain(position))
    text = []
    for trace in (density, values):
        closed = trace(target, target.position_shapes)
        text += [str(closed.jaxpr), *(repr(describe_array(x)) for x in closed.consts)]
    return digest("\n".join(text))
