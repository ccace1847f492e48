"""Nested dicts of values by path, and the check of plants against the sown values."""

import functools
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr

from ppl.harvest import jax_core, leaf_values
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.survey import Found, Path, Sites, describe, show

Leaves = tuple[jax.Array, ...]

_MAX_NAMES = 6  # leaves named in an error


def nest_by_path(flat: Mapping[Path, Any]) -> dict[Any, Any]:
    """Nested dicts of the values of a dict by path."""
    out: dict[Any, Any] = {}
    for path, value in flat.items():
        *scopes, name = path
        inner = out
        for scope in scopes:
            inner = inner.setdefault(scope, {})
        inner[name] = value
    return out


def paths_in(plants: Mapping[Any, Any], sites: Collection[Path]) -> list[tuple[Path, Any]]:
    """Entries of nested dicts by path; the value at the path of a site is one entry."""
    if not isinstance(plants, Mapping):
        raise TypeError(
            f"expected a dict of values by name, got {type(plants).__name__}: {short_repr(plants)}."
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
    """Leaves of each plant by path. A plant that does not fit, or names no sow, is an error."""
    found: dict[Path, Leaves] = {}
    for path, value in paths_in(plants, sites):
        if path in sites:
            found[path] = fit_plant(f"plant {describe(path)}", value, sites[path])
        elif allows(path):
            raise ValueError(
                f"plant {describe(path)}: no sow has this name. {suggest_names(sites)}"
            )
    return found


def suggest_names(paths: Collection[Path], unknown: Path = (), *, what: str = "sows") -> str:
    """Words that suggest names in place of an unknown one, or say that there are no `what`."""
    for path in paths:
        if unknown and describe(path) == describe(unknown).replace("/", "."):
            nested = functools.reduce(lambda x, name: f"{{{name!r}: {x}}}", reversed(path), "...")
            return f"Values within a scope are a dict of their own: {nested}."
    return f"Use one of: {', '.join(map(describe, paths))}." if paths else f"There are no {what}."


def fit_plant(where: str, value: Any, found: Found, *, same_kind: bool = False) -> Leaves:
    """Leaves of a value that is to replace a sown one, checked by `fit`.

    Raises:
        ValueError: If the structure or a shape differs.
        TypeError: If a dtype differs.
    """
    if not found.uniform:
        raise ValueError(
            f"{where}: it is sown inside and outside of a vmap, so no one value stands for both. "
            "Give "
            "each sow a name of its own."
        )
    hint = (
        "The axes of vmap and of loops come first; use jnp.broadcast_to if one value is meant for "
        "all of them."
    )
    avals = found.collapse().avals
    return fit(where, value, found.site.tree, avals, same_kind=same_kind, hint=hint)


def fit(
    where: str,
    value: Any,
    tree: Any,
    avals: Iterable[Any],
    *,
    same_kind: bool = False,
    hint: str = "Reshape or broadcast it.",
) -> Leaves:
    """Leaves of a value, checked against a structure, shapes and dtypes.

    A Python scalar is cast to the dtype. With `same_kind`, so is an array of another width.

    Raises:
        ValueError: If the structure or a shape differs.
        TypeError: If a dtype differs.
    """
    paths_and_leaves, got = jax.tree_util.tree_flatten_with_path(value)
    if got != tree and jax.tree_util.treedef_is_leaf(tree):
        remedy = " Use jnp.asarray." if _is_rows(value) else ""
        came = "None" if value is None else f"{type(value).__name__}: {_text(value)}"
        raise ValueError(f"{where}: expected {show(avals)}, got {came}.{remedy}")
    if got != tree:
        expected = jax.tree.unflatten(tree, avals)
        if words := _missing_and_extra(expected, value):
            raise ValueError(f"{where}: expected another structure: {words}.")
        difference = _difference(expected, value)
        raise ValueError(f"{where}: expected the structure {tree}, got {got}.{difference}")
    return tuple(
        _fit(where, f" at {keystr(path)}" if path else "", leaf, aval, same_kind, hint)
        for (path, leaf), aval in zip(paths_and_leaves, avals, strict=True)
    )


class _Type(str):
    """Printed type of a tracer, in place of a value."""

    __slots__ = ()
    __repr__ = str.__str__


def _text(value: Any) -> str:
    """Short text of a value, with the types of its tracers."""

    def typed(x):
        return _Type(show([x])) if jax_core.is_traced(x) else x

    return reprlib.repr(jax.tree.map(typed, value))


def _is_rows(value: Any) -> bool:
    """Whether a value is a list or tuple that an array can be made of."""
    leaves = jax.tree.leaves(value)

    def is_number(x):
        return hasattr(x, "dtype") or isinstance(x, complex | float | int)

    if not isinstance(value, list | tuple) or not all(map(is_number, leaves)):
        return False
    try:  # by shapes: numbers may be out of range, or traced
        np.asarray(jax.tree.map(lambda x: np.zeros(np.shape(x)), value), float)
    except (TypeError, ValueError):
        return False
    return True


def _difference(expected: Any, got: Any, path: tuple[Any, ...] = ()) -> str:
    """Text on the first difference between two pytree structures; empty if it is at the top."""
    children = [_children(tree) for tree in (expected, got)]
    if jax.tree.structure(*_one_level(expected)) != jax.tree.structure(*_one_level(got)):
        trees = [_show_structure(tree) for tree in (expected, got)]
        where = f" They differ at {keystr(path)}: expected {trees[0]}, got {trees[1]}."
        return where if path else ""
    pairs = zip(*children, strict=True)
    return next(
        _difference(a, b, (*path, *key))
        for (key, a), (_, b) in pairs
        if jax.tree.structure(a) != jax.tree.structure(b)
    )


def _missing_and_extra(expected: Any, got: Any) -> str:
    """Words for leaves that only one of two nested dicts has; empty if they differ otherwise."""
    paths = [
        [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)] for tree in (expected, got)
    ]
    missing = [path for path in paths[0] if path not in paths[1]]
    extra = [path for path in paths[1] if path not in paths[0]]
    is_of_dicts = all(
        path and all(isinstance(key, jax.tree_util.DictKey) for key in path)
        for path in (*missing, *extra)
    )
    if not is_of_dicts or (not extra and len(missing) == len(paths[0])):
        return ""
    parts = []
    for what, paths_of_one in (("the value lacks", missing), ("it does not have", extra)):
        listed = ", ".join(map(keystr, paths_of_one[:_MAX_NAMES]))
        if more := len(paths_of_one[_MAX_NAMES:]):
            listed += f" and {more} more"
        parts += [f"{what} {listed}"] * bool(listed)
    return ", and ".join(parts)


def _one_level(tree: Any) -> tuple[Any, Callable[[Any], bool]]:
    return tree, lambda node: node is not tree


def _children(tree: Any) -> list[tuple[Any, Any]]:
    return jax.tree_util.tree_leaves_with_path(*_one_level(tree))


def _show_structure(tree: Any) -> str:
    return str(jax.tree.structure(tree)).removeprefix("PyTreeDef(").removesuffix(")")


def _fit(where: str, at: str, leaf: Any, aval: Any, same_kind: bool, hint: str) -> jax.Array:
    array = _as_array(where, at, leaf, aval)
    if array.shape != aval.shape:
        raise ValueError(f"{where}: expected {show([aval])}, got {show([array])}{at}. {hint}")
    if array.dtype == aval.dtype:
        return array
    if _takes_dtype(leaf, array, aval.dtype, same_kind):
        return jax_core.as_aval(array.astype(aval.dtype), aval)
    cast = f"Cast it with .astype({str(aval.dtype)!r})"
    if (_kind(array.dtype), _kind(aval.dtype)) == (2, 1):
        remedy = f"{cast} if all are whole; if not, the family of the site must be continuous."
    else:
        remedy = f"{cast} if that is what is meant."
    raise TypeError(f"{where}: expected {show([aval])}, got {show([array])}{at}. {remedy}")


def _as_array(where: str, at: str, leaf: Any, aval: Any) -> jax.Array:
    if isinstance(leaf, int) and not isinstance(leaf, bool) and _kind(aval.dtype) == 1:
        limits = jnp.iinfo(aval.dtype)
        if not limits.min <= leaf <= limits.max:
            raise ValueError(f"{where}: expected {show([aval])}, got {leaf}{at}, out of its range.")
        return jnp.asarray(leaf, aval.dtype)
    try:
        if _kind(aval.dtype) == 1 or jnp.issubdtype(getattr(leaf, "dtype", float), np.floating):
            leaf_values.check_range(leaf, aval.dtype)
        return leaf_values.as_array(leaf)
    except TypeError as error:
        raise TypeError(f"{where}: expected {show([aval])}, got {short_repr(leaf)}{at}.") from error
    except ValueError as error:
        raise ValueError(f"{where}: expected {show([aval])}{at}, got {error}") from error


def _takes_dtype(leaf: Any, array: jax.Array, dtype: Any, same_kind: bool) -> bool:
    """Whether a leaf may be cast to a dtype.

    A scalar without a dtype may be cast to its own kind or a wider one, and a whole float to an
    integer; with `same_kind`, an array to another dtype of its kind, and booleans to integers.
    """
    have = _kind(array.dtype)
    want = _kind(dtype)
    if array.dtype == bool and want == 1 and same_kind:
        return True
    if isinstance(leaf, float) and leaf.is_integer() and want == 1:
        return jnp.iinfo(dtype).min <= leaf <= jnp.iinfo(dtype).max
    is_scalar = array.ndim == 0 and getattr(array, "weak_type", False)
    return 0 < have <= want if is_scalar else same_kind and have == want > 0


def _kind(dtype: Any) -> int:
    """Kind of a dtype: 1 integer, 2 float, 3 complex, 0 any other, which is never cast."""
    kinds = (np.integer, np.floating, np.complexfloating)
    return next((i for i, k in enumerate(kinds, 1) if jnp.issubdtype(dtype, k)), 0)
