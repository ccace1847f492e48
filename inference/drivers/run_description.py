"""Descriptions of what decides a run, for its manifest: key, settings, data and programs."""

import dataclasses
import functools
import re
import types
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import DictKey, tree_flatten_with_path

from inference.checkpoints.manifest import describe_array, describe_leaf, describe_tree, digest
from inference.common.leaf_names import named_leaves
from ppl.core.model_pytree import parameters_behind_key


@dataclasses.dataclass(frozen=True)
class RecordedInit:
    """Initial positions of a resumed run, of which only the hash is kept.

    Attributes:
        digest: The hash in the manifest.
    """

    digest: str


def describe_init(init: Any) -> str:
    """Name of a strategy, or a hash of a start that was given.

    Of results and states, files keep the leaves in order, but not all of their structure, nor
    whether a number is an array.
    """
    if isinstance(init, RecordedInit):
        return init.digest
    if isinstance(init, str):
        return init
    leaves = list(named_leaves(init)) if isinstance(init, Mapping) else jax.tree.leaves(init)

    def array(x):
        return np.asarray(x) if isinstance(x, float) else x

    return digest(repr(jax.tree.map(lambda x: describe_leaf(array(x)), leaves)))[:16]


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


def describe_object(value: Any) -> str:
    """Text of a kernel or another pytree of settings, with a hash of its arrays."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    short = text if len(text) < 200 else f"{text[:200]}..."
    return f"{short} of hash {digest(text + repr(describe_tree(value)))[:16]}"


def describe_arguments(target: Any, model: Any) -> dict[str, Any]:
    """Arguments and data of the model of a target."""
    args, kwargs = target.arguments.join(target.data)
    return describe_call(args, kwargs, model) | describe_data(target)


def describe_call(args: Sequence[Any], kwargs: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """Arrays among the arguments, by names for messages; other arguments."""
    try:
        parameters = parameters_behind_key(model)
    except ValueError:
        parameters = []
    names = [x.name for x in parameters if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    found = {}
    for i, arg in enumerate(args):
        name = f" ({names[i]})" if i < len(names) else ""
        found[f"argument {i}{name}"] = describe_argument(arg)
    for name, arg in kwargs.items():
        found[f"argument {name}"] = describe_argument(arg)
    return found


def describe_data(target: Any) -> dict[str, Any]:
    """Arrays in the model of a target, by names for messages."""
    found = {}
    for i, (path, leaf) in enumerate(tree_flatten_with_path(target.model)[0]):
        keys = ".".join(str(key.key) for key in path if isinstance(key, DictKey))
        found[f"data {i} of the model" + f" ({keys})" * bool(keys)] = describe_array(leaf)
    return found


def describe_argument(arg: Any) -> Any:
    """Shapes, dtypes and hashes of the arrays in an argument, and a hash of its structure."""
    leaves, structure = jax.tree.flatten(arg)
    if len(leaves) == 1 and leaves[0] is arg and hasattr(arg, "dtype"):
        return describe_array(arg)
    return {
        "structure": digest(repr(structure))[:16],
        "leaves": list(map(describe_leaf, leaves)),
    }


def describe_function(function: Any) -> str:
    """Name and hash of the code of a function, with what it holds; not of functions that it calls.

    Functions of this library have its version.
    """
    module = getattr(function, "__module__", "") or ""
    name = f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    if module.partition(".")[0] == "inference":
        return name
    return f"{name} of hash {digest(repr(_words(function)))[:16]}"


def _words(value: Any) -> Any:
    """Code and contents of a value, as text that other processes have too."""
    match value:
        case types.FunctionType():
            cells = [_words(x.cell_contents) for x in value.__closure__ or ()]
            return [_words(value.__code__), _words(value.__defaults__), cells]
        case types.CodeType():
            return [value.co_code.hex(), value.co_names, [_words(x) for x in value.co_consts]]
        case functools.partial():
            return [_words(value.func), _words(value.args), _words(value.keywords)]
        case tuple() | list():
            return [_words(x) for x in value]
        case dict():
            return [[name, _words(x)] for name, x in value.items()]
        case set() | frozenset():
            return sorted(map(repr, value))
    return describe_object(value)


def describe_programs(*calls: tuple[Any, ...]) -> str:
    """Hash of the programs of functions, each with its arguments or their shapes."""
    text = []
    for function, *arguments in calls:
        closed = jax.make_jaxpr(function)(*arguments)
        text += [str(closed.jaxpr), *(repr(describe_array(x)) for x in closed.consts)]
    return digest("\n".join(text))[:16]
