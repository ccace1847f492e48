"""Descriptions of what decides a run, for its manifest: key, settings, data and programs."""

import contextlib
import dataclasses
import functools
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import DictKey, tree_flatten_with_path

from inference.checkpoints.manifest import describe_array, describe_leaf, describe_tree, digest
from inference.common.leaf_names import named_leaves
from ppl.core.model_pytree import parameters_behind_key

_PLAIN = bool, int, float, complex, str, bytes
# Packages whose functions are those of their version.
_OF_VERSIONS = "inference", "ppl", "distributions", "jax"


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
    """Text of a kernel or another pytree of settings, with a hash of its arrays and functions."""
    text = _without_places(repr(value))
    contents = text + repr(describe_tree(value))
    if text != repr(value):  # Functions of one name have one text.
        with contextlib.suppress(TypeError):
            contents += repr(_words(value))
    return f"{_short_text(text)} of hash {digest(contents)[:16]}"


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

    Raises:
        TypeError: if it holds an object whose contents are unknown.
    """
    module = getattr(function, "__module__", "") or ""
    name = f"{module}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    words = _words(function)
    return name if words == name else f"{name} of hash {digest(repr(words))[:16]}"


def describe_setting(value: Any) -> Any:
    """A number or a string itself; of anything else a short text, with a hash of its contents.

    Raises:
        TypeError: if it is or holds an object whose contents are unknown.
    """
    if isinstance(value, bool | int | float | str | None):
        return value
    return f"{_short_text(_without_places(repr(value)))} of hash {digest(repr(_words(value)))[:16]}"


def _without_places(text: str) -> str:
    """A text without addresses in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def _short_text(text: str) -> str:
    return text if len(text) < 200 else f"{text[:200]}..."


def _words(value: Any, around: tuple[Any, ...] = ()) -> Any:
    """Code and contents of a value, as text that other processes have too.

    Args:
        value: The value.
        around: Values that hold it, from the outermost.

    Raises:
        TypeError: if it is or holds an object whose contents are unknown.
    """
    if isinstance(value, _PLAIN) or value is None or value is ...:
        return repr(value)
    for i, outer in enumerate(around):
        if outer is value:
            return f"itself, {i} from outside"
    words = functools.partial(_words, around=(*around, value))
    match value:
        case type():
            return _name(value)
        case types.ModuleType():
            return value.__name__
        case types.FunctionType():
            return _words_of_function(value, words)
        case types.MethodType():
            return [words(value.__func__), words(value.__self__)]
        case types.CodeType():
            return [value.co_code.hex(), value.co_names, [words(x) for x in value.co_consts]]
        case functools.partial():
            return [words(value.func), words(value.args), words(value.keywords)]
        case tuple() | list():
            return [_name(type(value)), *map(words, value)]
        case dict():
            return [[words(name), words(x)] for name, x in value.items()]
        case set() | frozenset():
            return sorted(repr(words(x)) for x in value)
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return describe_array(value)
    if hasattr(value, "__wrapped__"):  # as functions by jax.jit
        return [_name(type(value)), words(value.__wrapped__)]
    return [_name(type(value)), *_parts_of_object(value, words)]


def _words_of_function(function: types.FunctionType, words: Callable[[Any], Any]) -> Any:
    name = _name(function)
    code = function.__code__
    package = function.__globals__.get("__name__", "").partition(".")[0]
    if package in _OF_VERSIONS and "<locals>" not in code.co_qualname:
        return name
    kept = [_contents(x) for x in function.__closure__ or ()]
    parts = code, function.__defaults__, function.__kwdefaults__, kept
    return [name, *map(words, parts)]


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return ...


def _parts_of_object(value: Any, words: Callable[[Any], Any]) -> list[Any]:
    """Code and contents of an object that is not built in.

    Raises:
        TypeError: if its contents are unknown.
    """
    call = getattr(type(value), "__call__", None)  # noqa: B004
    code = [words(call)] if isinstance(call, types.FunctionType) else []
    if dataclasses.is_dataclass(value):
        return [*code, *([x.name, words(getattr(value, x.name))] for x in _fields_of(value))]
    found = jax.tree_util.default_registry.flatten_one_level(value)
    if found is not None and found[1] is not value:
        return [*code, words(list(found[0])), words(found[1])]
    if code and hasattr(value, "__dict__"):
        return [*code, words(vars(value))]
    text = _without_places(repr(value))
    if text != repr(value) and type(value) is not object:
        raise TypeError(
            f"{_short_text(text)} cannot be compared with that of another process, as its contents "
            "are unknown; give a function, a dataclass or another pytree, or leave out checkpoint"
        )
    return [*code, text]


def _fields_of(value: Any) -> list[dataclasses.Field[Any]]:
    return [x for x in dataclasses.fields(value) if hasattr(value, x.name)]


def _name(value: Any) -> str:
    """Module and name of a function or a class."""
    return f"{value.__module__}.{value.__qualname__}"


def describe_programs(*calls: tuple[Any, ...]) -> str:
    """Hash of the programs of functions, each with its arguments or their shapes."""
    text = []
    for function, *arguments in calls:
        closed = jax.make_jaxpr(function)(*arguments)
        text += [str(closed.jaxpr), *(repr(describe_array(x)) for x in closed.consts)]
    return digest("\n".join(text))[:16]


def describe_model(target: Any) -> str:
    """Hash of the program of a model: its log density, and values of its sites."""
    return describe_programs((_values, target, target.position_shapes))


def _values(target: Any, position: Any) -> Any:
    return target.log_density(position), target.constrain(position)
