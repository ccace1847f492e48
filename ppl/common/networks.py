"""Networks of several libraries: their parameters by path, and the network with others in place."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial, tree_flatten_with_path

Parameters = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, taken apart.

    Attributes:
        parameters: Arrays by path, such as ``"layers.0.weight"``.
        rebuild: Function from arrays by path to the network with these arrays.
    """

    parameters: Parameters
    rebuild: Callable[[Parameters], Any]


def take_apart(net: Any, inputs: Sequence[Any], where: str) -> Network:
    """The parameters of a network, and a function that rebuilds the network from them.

    | network | parameters | rebuilt |
    |---|---|---|
    | pytree, such as a module of Equinox | leaves that are arrays of floats | the pytree |
    | module of Flax NNX, or a pytree of them | variables of type `Param` | the module |
    | module of Flax Linen | collection "params" of its `init` | `apply` with these parameters |
    | pair `(init, apply)` | the tree that `init` returns | `apply` with these parameters |

    Args:
        net: The network.
        inputs: Inputs to initialize a network of the last two rows; only shapes and dtypes count.
        where: The start of error messages.

    Raises:
        TypeError: If `net` is not a network, or `inputs` are missing or superfluous.
    """
    if isinstance(net, type):
        raise TypeError(f"{where}: expected a network, got the class {net.__name__}: make one.")
    functions = _init_and_apply(net)
    if functions is not None:
        return _take_apart_functions(net, *functions, inputs, where)
    if inputs:
        raise TypeError(
            f"{where}: inputs are for modules of Flax Linen and pairs (init, apply); a "
            f"{type(net).__name__} has its parameters already."
        )
    return _take_apart_nnx(net, where) if _has_nnx(net) else _take_apart_tree(net, where)


def _is_of(net: Any, library: str) -> bool:
    return any(cls.__module__.startswith(f"{library}.") for cls in type(net).__mro__)


def _has_nnx(net: Any) -> bool:
    """Whether a network is a module of Flax NNX, or a pytree of such modules."""

    def is_nnx(x):
        return _is_of(x, "flax.nnx")

    return any(map(is_nnx, jax.tree.leaves(net, is_leaf=is_nnx)))


def _init_and_apply(net: Any) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The two functions of a pair, or of an object that has both; None for any other network."""
    if isinstance(net, tuple):
        # Two modules of Equinox can be called, too, but are pytrees.
        is_pair = len(net) == 2 and jax.tree_util.all_leaves(net) and all(map(callable, net))
        return (net[0], net[1]) if is_pair else None
    init = getattr(net, "init", None)
    apply = getattr(net, "apply", None)
    is_leaf = jax.tree_util.all_leaves([net])
    return (init, apply) if is_leaf and callable(init) and callable(apply) else None


def _take_apart_functions(
    net: Any,
    init: Callable[..., Any],
    apply: Callable[..., Any],
    inputs: Sequence[Any],
    where: str,
) -> Network:
    if not isinstance(inputs, tuple) or not inputs:
        raise TypeError(
            f"{where}: a network that its init makes needs inputs to see their shapes: give "
            f"inputs=(x,), a tuple of what the network is to be called with, got {inputs!r}."
        )
    # A fixed key: no random number but draws of sites may enter a density.
    made = init(jax.random.key(0), *inputs)
    if not _is_of(net, "flax.linen"):
        return _of_leaves(made, lambda tree: Partial(apply, tree), where)
    rest = {name: x for name, x in made.items() if name != "params"}

    def together(tree):
        return Partial(apply, rest | {"params": tree})

    return _of_leaves(made.get("params", {}), together, where)


def _take_apart_nnx(net: Any, where: str) -> Network:
    nnx = importlib.import_module("flax.nnx")
    graph, parameters, rest = nnx.split(net, nnx.Param, ...)
    # A copy, as the variables of a module may change only in the trace that made them.
    return _of_leaves(parameters, lambda tree: nnx.merge(graph, tree, rest, copy=True), where)


def _take_apart_tree(net: Any, where: str) -> Network:
    return _of_leaves(net, lambda tree: tree, where)


def named_arrays(tree: Any, where: str) -> tuple[Any, Callable[[Any], Any]]:
    """The arrays of a tree by path, and a function that puts others in their place.

    A single array or number is no dict. Random keys and leaves that are not arrays stay in the
    tree.

    Raises:
        TypeError: If there are no arrays.
        ValueError: If two arrays have one path.
    """
    if jax.tree_util.all_leaves([tree]) and (_is_state(tree) or isinstance(tree, int)):
        return jnp.asarray(tree), lambda array: array
    structure, named = _leaves_by_path(tree, where)
    arrays = {name: jnp.asarray(x) for name, x in named.items() if _is_state(x)}
    if not arrays:
        raise TypeError(f"{where}: expected a pytree of arrays, got {tree!r}.")
    return arrays, lambda values: jax.tree.unflatten(structure, (named | values).values())


def _is_state(leaf: Any) -> bool:
    is_number = isinstance(leaf, float) and not isinstance(leaf, np.generic)
    is_array = is_number or isinstance(leaf, jax.Array | np.ndarray | np.generic)
    return is_array and not jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key)


def _of_leaves(tree: Any, rebuild: Callable[[Any], Any], where: str) -> Network:
    """The arrays of floats of a tree, by path; other leaves of the tree are kept unchanged."""
    structure, named = _leaves_by_path(tree, where)
    parameters = {name: jnp.asarray(x) for name, x in named.items() if _is_parameter(x)}
    if not parameters:
        raise TypeError(
            f"{where}: expected a network with arrays of floats for parameters, got {tree!r}."
        )

    def put_back(values: Parameters) -> Any:
        return rebuild(jax.tree.unflatten(structure, (named | values).values()))

    return Network(parameters, put_back)


def _leaves_by_path(tree: Any, where: str) -> tuple[Any, dict[str, Any]]:
    """The structure of a tree, and its leaves by path.

    Raises:
        ValueError: If two leaves have one path.
    """
    leaves, structure = tree_flatten_with_path(tree)
    named = {_path_name(path): leaf for path, leaf in leaves}
    if len(named) < len(leaves):
        names = [_path_name(path) for path, _ in leaves]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where}: two parts have the path {twice!r}: rename one.")
    return structure, named


def _is_parameter(leaf: Any) -> bool:
    is_array = isinstance(leaf, jax.Array | np.ndarray)
    return is_array and jnp.issubdtype(leaf.dtype, jnp.floating)


def _path_name(path: Sequence[Any]) -> str:
    """A path in a tree, joined by dots; without the last step into a variable of Flax NNX."""
    names = [str(_key_of(key)) for key in path]
    if len(names) > 1 and names[-1] == "value" and not isinstance(path[-1], jax.tree_util.DictKey):
        names.pop()
    return ".".join(names)


def _key_of(key: Any) -> Any:
    for attribute in ("name", "key", "idx"):  # of a field, a dict or an indexed child, a sequence
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return key


def matching(named: Mapping[str, Any], path: str) -> str | None:
    """The longest of some names that is a path or its beginning, or None.

    Example:
        >>> matching({"layers": 1, "layers.0": 2}, "layers.0.weight")
        'layers.0'
    """
    found = [name for name in named if path == name or path.startswith(f"{name}.")]
    return max(found, key=len, default=None)
