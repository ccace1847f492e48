"""Values by path as nested dicts, and the check of what a caller plants against what is sown."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import _jax
from ppl.harvest._sow import describe
from ppl.harvest._survey import Found, Path, Sites, show

Leaves = tuple[jax.Array, ...]


def nested(flat: Mapping[Path, Any]) -> dict[Any, Any]:
    """A dict by path as nested dicts."""
    out: dict[Any, Any] = {}
    for path, value in flat.items():
        *scopes, name = path
        inner = out
        for scope in scopes:
            inner = inner.setdefault(scope, {})
        inner[name] = value
    return out


def paths_in(plants: Mapping[Any, Any], sites: Collection[Path]) -> list[tuple[Path, Any]]:
    """The entries of a nested dict; what stands under the path of a site is one entry."""
    if not isinstance(plants, Mapping):
        raise TypeError(
            f"expected a dict of values by name, got {type(plants).__name__}: {plants!r}."
        )
    prefixes = {path[:i] for path in sites for i in range(1, len(path))}

    def walk(plants: Mapping[Any, Any], prefix: Path) -> list[tuple[Path, Any]]:
        entries: list[tuple[Path, Any]] = []
        for name, value in plants.items():
            path = (*prefix, name)
            if path in prefixes and path not in sites:
                if not isinstance(value, Mapping):
                    raise TypeError(
                        f"{describe(path)} is a scope: expected a dict of its values, got "
                        f"{value!r}."
                    )
                entries += walk(value, path)
            else:
                entries.append((path, value))
        return entries

    return walk(plants, ())


def check_plants(
    plants: Mapping[Any, Any], sites: Sites, allows: Callable[[Path], bool]
) -> dict[Path, Leaves]:
    """The leaves of each plant; one that does not fit, or whose name no sow has, is an error."""
    found: dict[Path, Leaves] = {}
    for path, value in paths_in(plants, sites):
        if path in sites:
            found[path] = fit_plant(f"plant {describe(path)}", value, sites[path])
        elif allows(path):
            raise ValueError(f"plant {describe(path)}: no sow has this name. {known(sites)}")
    return found


def known(paths: Collection[Path]) -> str:
    """What an unknown name could have been."""
    return f"There are: {', '.join(map(describe, paths)) or 'none at all'}."


def fit_plant(where: str, value: Any, found: Found, *, same_kind: bool = False) -> Leaves:
    """The leaves of a value that is to stand for a sown one.

    A Python scalar takes the dtype of the site; with `same_kind` so does an array of another width.

    Raises:
        ValueError: If the structure or a shape differs.
        TypeError: If a dtype differs.
    """
    leaves, tree = jax.tree_util.tree_flatten(value)
    if tree != found.site.tree:
        is_leaf = jax.tree_util.treedef_is_leaf(found.site.tree)
        expected = "an array (use jnp.asarray)" if is_leaf else f"the structure {found.site.tree}"
        raise ValueError(f"{where}: expected {expected}, got {tree}.")
    if not found.uniform:
        raise ValueError(
            f"{where}: it is sown inside and outside of a vmap, so no one value stands for both. "
            "Give "
            "each sow a name of its own."
        )
    avals = found.collapsed().avals
    return tuple(_fit(where, x, aval, same_kind) for x, aval in zip(leaves, avals, strict=True))


def _fit(where: str, leaf: Any, aval: Any, same_kind: bool) -> jax.Array:
    array = _as_array(where, leaf, aval)
    if array.shape != aval.shape:
        raise ValueError(
            f"{where}: expected {show([aval])}, got {show([array])}. The axes of vmap and of loops "
            "come first; use jnp.broadcast_to if one value is meant for all of them."
        )
    if array.dtype == aval.dtype:
        return array
    if _takes_dtype(leaf, array, aval.dtype, same_kind):
        return _jax.as_aval(array.astype(aval.dtype), aval)
    raise TypeError(
        f"{where}: expected {show([aval])}, got {show([array])}. Cast it with "
        f".astype({str(aval.dtype)!r}) if that is what is meant."
    )


def _as_array(where: str, leaf: Any, aval: Any) -> jax.Array:
    if isinstance(leaf, int) and not isinstance(leaf, bool) and _kind(aval.dtype) == 1:
        limits = jnp.iinfo(aval.dtype)
        if not limits.min <= leaf <= limits.max:
            raise ValueError(f"{where}: expected {show([aval])}, got {leaf}, out of its range.")
        return jnp.asarray(leaf, aval.dtype)
    try:
        return jnp.asarray(leaf)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{where}: expected {show([aval])}, got {leaf!r}.") from error


def _takes_dtype(leaf: Any, array: jax.Array, dtype: Any, same_kind: bool) -> bool:
    """Whether a leaf may be cast: a scalar without a dtype, or an array of the same kind."""
    have, want = _kind(array.dtype), _kind(dtype)
    if isinstance(leaf, float) and leaf.is_integer() and want == 1:
        return jnp.iinfo(dtype).min <= leaf <= jnp.iinfo(dtype).max
    is_scalar = array.ndim == 0 and getattr(array, "weak_type", False)
    return 0 < have <= want if is_scalar else same_kind and have == want > 0


def _kind(dtype: Any) -> int:
    """1 for integers, 2 for floats, 3 for complex numbers, 0 for what is never cast."""
    kinds = (np.integer, np.floating, np.complexfloating)
    return next((i for i, k in enumerate(kinds, 1) if jnp.issubdtype(dtype, k)), 0)
