"""Manifest of a run: all that determines its draws, in JSON, and a comparison with a call."""

import hashlib
import importlib.metadata
import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest.pytrees import is_split

# 1 had no "driver", and other hashes of kernels, guides and starts; 2 had no identity.
FORMAT = 3
# Entries that may differ between processes of one run, with a warning.
_MAY_DIFFER = {"library": "version of this library", "jax": "version of JAX", "device": "devices"}
THE_STEP = "the step's program"  # entry for all code of a fit, named if no other entry differs
# Entries that a call may change, by driver: the run then goes on to another end.
_OF_THE_END = {"mcmc": ("num_draws", "has_until"), "svi": ("num_draws", "num_steps")}


def describe_array(x: Any) -> dict[str, Any]:
    """Shape, dtype and SHA-256 of an array.

    Raises:
        TypeError: if it holds objects: their bytes are addresses in memory.
    """
    if jnp.issubdtype(getattr(x, "dtype", np.float32), jax.dtypes.extended):
        x = jax.random.key_data(x)
    if is_split(x):
        return {"shape": list(x.shape), "dtype": str(x.dtype), "sha256": _hash_parts(x)}
    x = np.ascontiguousarray(x)
    if x.dtype.hasobject:
        raise TypeError(
            f"an array of dtype {x.dtype} cannot be compared with that of another process; give "
            "numbers, or a list"
        )
    return {
        "shape": list(x.shape),
        "dtype": str(x.dtype),
        "sha256": hashlib.sha256(x.tobytes()).hexdigest(),
    }


def _hash_parts(x: jax.Array) -> str:
    """SHA-256 of an array that is split over devices, read a range of rows at a time.

    Raises:
        NotImplementedError: if some of the devices are of other processes.
    """
    if not x.is_fully_addressable:
        raise NotImplementedError(
            f"an array of shape {x.shape} is split over devices of several processes, and "
            "checkpoint is for data that one process has; leave it out, or split the data over "
            "jax.local_devices()"
        )
    parts = {tuple(map(str, part.index)): part for part in x.addressable_shards}
    by_rows: dict[int, list[Any]] = {}
    for part in parts.values():
        by_rows.setdefault(part.index[0].start or 0, []).append(part)
    hashed = hashlib.sha256()
    for _, some in sorted(by_rows.items()):
        rows = np.empty((some[0].data.shape[0], *x.shape[1:]), x.dtype)
        for part in some:
            rows[:, *part.index[1:]] = part.data
        hashed.update(rows.tobytes())
    return hashed.hexdigest()


def describe_tree(tree: Any) -> dict[str, Any]:
    """Hash of the structure of a pytree, and its leaves."""
    leaves, structure = jax.tree.flatten(tree)
    return {"structure": digest(repr(structure)), "leaves": list(map(describe_leaf, leaves))}


def describe_leaf(x: Any) -> Any:
    """Description of an array, or a hash of the text of something else, such as a function."""
    return describe_array(x) if hasattr(x, "dtype") else digest(repr(x))[:16]


def digest(text: str) -> str:
    """SHA-256 of a text, without addresses in memory."""
    return hashlib.sha256(re.sub(r"0x[0-9a-f]+", "0x", text).encode()).hexdigest()


def describe_platform(driver: str, devices: Any) -> dict[str, Any]:
    """Format, driver of the run, versions and devices."""
    return {
        "format": FORMAT,
        "driver": driver,
        "library": importlib.metadata.version("harvest-ppl"),
        "jax": jax.__version__,
        "device": f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform})",
    }


def compare_manifests(name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Checks that a call fits the run in a folder.

    Programs are not compared if another version of JAX or of this library has made the folder, as
    their text may differ.

    Raises:
        ValueError: if the manifests differ; the message says in which entry.
    """
    if old.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint={name} has format {old.get('format')!r}, expected {FORMAT}: another "
            "version of this library has written it"
        )
    if old.get("driver") != new["driver"]:
        raise ValueError(
            f"checkpoint={name} is the folder of a run of {old.get('driver')}, not of "
            f"{new['driver']}; give another folder"
        )
    others = [what for key, what in _MAY_DIFFER.items() if old[key] != new[key]]
    has_other_program = old["jax"] != new["jax"] or old["library"] != new["library"]
    differing = [
        f"{key}: the run has {_show(old.get(key))}, the call {_show(value)}"
        for key, value in new.items()
        if key not in ("format", THE_STEP, *_OF_THE_END.get(new["driver"], ()), *_MAY_DIFFER)
        and not (key.endswith(" program") and has_other_program)
        and old.get(key) != value
    ]
    extra = [key for key in old if key not in new]
    differing += [f"{key}: the call has none" for key in extra]
    if not differing and not has_other_program and old.get(THE_STEP) != new.get(THE_STEP):
        differing = [f"{THE_STEP}: the run has {old.get(THE_STEP)}, the call {new.get(THE_STEP)}"]
    if differing:
        raise ValueError(
            f"checkpoint={name} is the folder of another run. These differ:\n  "
            + "\n  ".join(differing)
            + "\nCall with what the run had, or give another folder."
        )
    if others:
        warnings.warn(
            f"checkpoint={name} was written with other {', '.join(others)}: the run goes on, and "
            "its further draws may differ in their bits from those of an undisturbed run",
            RuntimeWarning,
            stacklevel=2,
        )


def with_new_end(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The manifest of a run that goes on: the old manifest, with the end that a call gives.

    Numbers of draws and steps are the largest so far, as the files must have room for them.
    """
    end = {name: new[name] for name in _OF_THE_END[new["driver"]] if name in new}
    return old | {k: max(old[k], x) if k.startswith("num_") else x for k, x in end.items()}


def _show(value: Any) -> str:
    """A value in few words."""
    if isinstance(value, dict) and "sha256" in value:
        return f"{value['dtype']}{value['shape']} of hash {value['sha256'][:8]}"
    text = repr(value)
    return text if isinstance(value, str) or len(text) < 100 else f"one of hash {digest(text)[:8]}"
