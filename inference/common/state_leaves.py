"""States of runs as arrays by name, for files and for runs that go on."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.leaf_names import named_leaves

State = dict[str, np.ndarray]  # arrays by name; chains in front unless they are numbers of the run
NUM_MEETINGS = "num_meetings"  # entry with the number of meetings of several processes so far


def leaves_of_state(name: str, tree: Any) -> State:
    """The leaves of a pytree as entries of a state, copied; random keys as their words."""
    leaves = [jax.random.key_data(x) if _is_key(x) else x for x in jax.tree.leaves(tree)]
    return {f"{name}.{i}": np.array(x) for i, x in enumerate(jax.device_get(leaves))}


def restore_leaves(name: str, state: State, shapes: Any) -> Any:
    """The pytree whose leaves :func:`leaves_of_state` has given.

    Args:
        name: Name of the entries.
        state: The state.
        shapes: Pytree of the same structure, with a shape and dtype for each leaf.

    Raises:
        ValueError: if the state does not fit.
    """
    named = list(named_leaves(shapes))
    structure = jax.tree.structure(shapes)
    found = [state.get(f"{name}.{i}") for i in range(len(named))]
    for (path, expected), x in zip(named, found, strict=True):
        is_like = x is not None and (_is_key(expected) or _fits(x, expected))
        if not is_like or f"{name}.{len(named)}" in state:
            raise ValueError(
                f"the recorded state does not fit this run at {path}: expected "
                f"{expected.dtype}{list(expected.shape)}, got "
                + ("nothing" if x is None else f"{x.dtype}{list(x.shape)}")
            )
    return jax.tree.unflatten(
        structure,
        [_as_leaf(x, like) for x, like in zip(found, jax.tree.leaves(shapes), strict=True)],
    )


def _fits(x: np.ndarray, expected: Any) -> bool:
    """Whether an array has the given shape and dtype.

    NumPy's files keep only the bits of dtypes such as bfloat16, not their names.
    """
    is_like = x.dtype in (expected.dtype, np.dtype(f"V{np.dtype(expected.dtype).itemsize}"))
    return x.shape == tuple(expected.shape) and is_like


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _as_leaf(x: Any, like: Any) -> Any:
    if not _is_key(like):
        return x.view(like.dtype)
    impls = ("threefry2x32", "rbg", "unsafe_rbg")
    impl = next(name for name in impls if jax.random.key(0, impl=name).dtype == like.dtype)
    return jax.random.wrap_key_data(x, impl=impl)


def kinds(tree: Any) -> str:
    """Paths, dtypes and shapes of the leaves of a tree, as text.

    The text of the tree itself would not do: objects of a user's class may print their address.
    """

    def name(path):
        return jax.tree_util.keystr(path, simple=True, separator=".")

    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return ", ".join(f"{name(path)} {x.dtype}{list(x.shape)}".lstrip() for path, x in leaves)
