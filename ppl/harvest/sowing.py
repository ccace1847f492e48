"""Sow primitive: names a value and tags it; the identity until it is harvested."""

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs, leaf_values
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.leaf_values import short_repr
from ppl.harvest.ties import tie

Mode = Literal["strict", "append", "clobber", "cond_clobber"]
MODES = ("strict", "append", "clobber", "cond_clobber")


@dataclasses.dataclass(frozen=True)
class Axis:
    """`vmap` axis around a sow.

    Attributes:
        size: Number of elements.
        mapped: Mask of the extra operands that it maps.
        maps_key: Whether each element has a key of its own.
        name: The `axis_name` of the `vmap`; None if it has none.
    """

    size: int
    mapped: tuple[bool, ...]
    maps_key: bool = False
    name: str | None = None


@dataclasses.dataclass(frozen=True)
class Site:
    """Static parameters of a sow.

    The operands of a sow are, in order: the leaves of the value; a predicate, if there is one; the
    leaves of the extra; the key of the draw, if there is one.

    Attributes:
        tag: Namespace in which transformations find the sow.
        name: Name within the scope.
        mode: Treatment of a name that is sown again.
        tree: Structure of the value.
        extra_tree: Structure of the extra, which the sow carries beside the value.
        note: Hashable message from the sower to the transformation.
        scope: Scopes around the sow, outermost first.
        axes: `vmap` axes around the sow, innermost first. Every value has them all in front.
        loops: For each loop with a `vmap` outside of it, innermost first, the number of `vmap` axes
            inside of it, less the vmapped conds inside of it whose axes lie outside of it. A
            vmapped cond (`vmapped_cond`) counts as a loop.
        selected: Whether a `vmap` turns a cond around the sow into a select.
        has_key: Whether the key is an operand. A replacement for the drawn value then also stands
            under the axes that map the key.
        labels: Hashable words about the last axes of the value, one for each; for whoever names its
            entries.
    """

    tag: Hashable
    name: Hashable
    mode: Mode
    tree: Any
    extra_tree: Any
    note: Hashable = None
    scope: tuple[Hashable, ...] = ()
    axes: tuple[Axis, ...] = ()
    loops: tuple[int, ...] = ()
    selected: bool = False
    has_key: bool = False
    labels: tuple[Hashable, ...] = ()

    @property
    def path(self) -> tuple[Hashable, ...]:
        """Scopes and name, outermost scope first."""
        return (*self.scope, self.name)

    @property
    def num_values(self) -> int:
        """Number of leaves of the value."""
        return self.tree.num_leaves

    @property
    def num_extras(self) -> int:
        """Number of leaves of the extra."""
        return self.extra_tree.num_leaves

    @property
    def has_pred(self) -> bool:
        """Whether a predicate is an operand."""
        return self.mode == "cond_clobber"

    @property
    def num_mapped_always(self) -> int:
        """Number of operands that every `vmap` axis maps: leaves of the value, and predicate."""
        return self.num_values + self.has_pred

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Sizes of the `vmap` axes, outermost first."""
        return tuple(axis.size for axis in reversed(self.axes))

    def num_axes_outside(self, depth: int) -> int:
        """Number of `vmap` axes outside of the `depth` innermost loops around the site."""
        if depth == 0:
            return len(self.axes)
        return len(self.axes) - self.loops[depth - 1] if depth <= len(self.loops) else 0

    def into_vmap(self, depth: int) -> "Site":
        """Site in a vmapped cond that becomes the next loop outside of `depth` loops."""
        inside = self.loops + (len(self.axes),) * (depth - len(self.loops))
        outside = (num - 1 for num in inside[depth:])
        return dataclasses.replace(self, loops=(*inside[:depth], len(self.axes), *outside))

    def without_vmap(self, depth: int) -> "Site":
        """Site as it was before `into_vmap`."""
        inside = self.loops + (len(self.axes),) * (depth - len(self.loops))
        outside = (num + 1 for num in inside[depth + 1 :])
        return dataclasses.replace(self, loops=(*inside[:depth], *outside))

    def out_of_vmap(self, depth: int, size: int) -> "Site":
        """Site as seen from outside of a vmapped cond: it stands under one more axis."""
        axis = Axis(size, (True,) * self.num_extras, maps_key=True)
        return dataclasses.replace(self.without_vmap(depth), axes=(*self.axes, axis))

    def split(self, operands: Sequence[Any]) -> tuple[tuple[Any, ...], Any, tuple[Any, ...], Any]:
        """Operands as (leaves of value, predicate or None, leaves of extra, key or None)."""
        values = operands[: self.num_values]
        rest = operands[self.num_values :]
        pred, rest = (rest[0], rest[1:]) if self.has_pred else (None, rest)
        extras = rest[: self.num_extras]
        keys = rest[self.num_extras :]
        return tuple(values), pred, tuple(extras), keys[0] if self.has_key else None


def bind_site(
    value: Any,
    *,
    tag: Hashable,
    name: Hashable,
    mode: Mode,
    pred: Any = None,
    extra: Any = None,
    note: Hashable = None,
    key: Any = None,
    where: str = "sow",
    labels: tuple[Hashable, ...] = (),
) -> Any:
    """Sow `value` together with `extra`, a pytree of arrays that stays with the site.

    `key` is the random key of the draw. `where` is the function that was called, for errors.
    `labels` are words about the last axes of the value, one for each.
    """
    leaves, tree = jax.tree_util.tree_flatten(value)
    leaves = [_as_array(leaf, name, where) for leaf in leaves]
    extras, extra_tree = jax.tree_util.tree_flatten(extra)
    site = Site(tag, name, mode, tree, extra_tree, note, has_key=key is not None, labels=labels)
    preds = [jnp.asarray(pred, bool)] if site.has_pred else []
    keys = [key] if site.has_key else []
    out = sow_p.bind(*leaves, *preds, *map(jnp.asarray, extras), *keys, site=site)
    return jax.tree_util.tree_unflatten(tree, out)


def _as_array(leaf: Any, name: Hashable, where: str = "sow") -> jax.Array:
    try:
        return leaf_values.as_array(leaf)
    except TypeError as error:
        remedy = (
            "Register its class with jax.tree_util.register_dataclass or "
            "jax.tree_util.register_pytree_node, or give the arrays that it holds."
        )
        if callable(leaf):
            remedy = "It is a function: give what it returns, as in x.mean() for x.mean."
        raise TypeError(
            f"{where} {name!r}: expected a pytree of arrays, got a leaf of type "
            f"{type(leaf).__name__}: {short_repr(leaf)}. {remedy}"
        ) from error


def _check_name(tag: Hashable, name: Hashable) -> None:
    check_hashable(f"sow {name!r}: tag", tag)
    check_hashable(f"sow {name!r}: name", name)


def check_hashable(what: str, given: Hashable) -> None:
    """Raise a TypeError unless a value is hashable; `what` names the value in the error."""
    try:
        hash(given)
    except TypeError as error:
        found = short_repr(given)
        raise TypeError(f"{what} must be hashable, got {found}; use a string.") from error


def sow(
    value: Any, *, tag: Hashable, name: Hashable, mode: Mode = "strict", key: Any = None
) -> Any:
    """Name a value, so that transformations of the function around it can reap or replace it.

    Outside of `harvest` and its kin, `sow` is the identity: `sow(x, tag=t, name=n) == x`, with
    derivative 1.

    Args:
        value: Any pytree of arrays.
        tag: A hashable namespace; each transformation looks at one tag.
        name: A hashable name, unique within tag and scope for mode "strict".
        mode: Treatment of a name that is sown again: "strict" (an error), "append" (values are
            stacked on a new axis 0, in loops too) or "clobber" (the last value wins).
        key: Any pytree, often a random key, that the result is made to depend on.

    Returns:
        `value`, its leaves as arrays.

    Raises:
        TypeError: If a leaf of `value` or `key` is not an array, or if `tag` or `name` is not
            hashable.
        ValueError: If `mode` is none of the three.

    Example:
        >>> from ppl.harvest import reap, sow
        >>> def f(x):
        ...     return 2 * sow(x + 1.0, tag="intermediate", name="y")
        >>> f(1.0).item(), reap(f, tag="intermediate")(1.0)["y"].item()
        (4.0, 2.0)
    """
    _check_name(tag, name)
    if mode == "cond_clobber":
        raise ValueError(
            f"sow {name!r}: mode 'cond_clobber' needs a predicate; use sow_cond(value, pred, ...)."
        )
    if mode not in MODES:
        raise ValueError(f"sow {name!r}: mode must be one of {MODES[:3]}, got {mode!r}.")
    return bind_site(_tie(value, key, name), tag=tag, name=name, mode=mode)


def sow_cond(
    value: Any,
    pred: Any,
    *,
    tag: Hashable,
    name: Hashable,
    mode: Mode = "cond_clobber",
    key: Any = None,
) -> Any:
    """Name a value where `pred` holds: the last such value is reaped, zeros if there is none.

    Args:
        value: Any pytree of arrays.
        pred: A scalar boolean.
        tag: A hashable namespace; each transformation looks at one tag.
        name: A hashable name.
        mode: "cond_clobber", the only mode.
        key: Any pytree that the result is made to depend on.

    Returns:
        `value`, its leaves as arrays, also where `pred` is False.

    Raises:
        TypeError: If a leaf of `value` or `key` is not an array, `pred` is not boolean, or `tag` or
            `name` is not hashable.
        ValueError: If `mode` is another one, or `pred` is not a scalar.

    Example:
        >>> import jax
        >>> from ppl.harvest import reap, sow_cond
        >>> def f(x):
        ...     def body(i, x):
        ...         return sow_cond(x + i, i < 3, tag="t", name="early")
        ...     return jax.lax.fori_loop(0, 10, body, x)
        >>> reap(f, tag="t")(0)["early"].item()
        3
    """
    _check_name(tag, name)
    if mode != "cond_clobber":
        raise ValueError(f"sow_cond {name!r}: mode must be 'cond_clobber', got {mode!r}.")
    pred = _as_predicate(pred, name)
    if jnp.shape(pred) != ():
        raise ValueError(
            f"sow_cond {name!r}: pred must be a scalar, got shape {jnp.shape(pred)}; reduce it "
            "with jnp.any or jnp.all, or vmap over it."
        )
    return bind_site(_tie(value, key, name), tag=tag, name=name, mode=mode, pred=pred)


def _as_predicate(pred: Any, name: Hashable) -> jax.Array:
    try:
        array = leaf_values.as_array(pred)
        if array.dtype == bool or jnp.issubdtype(array.dtype, jnp.integer):
            return array.astype(bool)
        raise TypeError(f"{array.dtype} is not boolean")
    except TypeError as error:
        raise TypeError(
            f"sow_cond {name!r}: pred must be a boolean scalar, got {pred!r}. Compare to get one."
        ) from error


def _tie(value: Any, key: Any, name: Hashable) -> Any:
    """Let `value` depend on `key` in the compiled program, at no cost when it runs."""
    if key is None:
        return value
    value = jax.tree.map(lambda leaf: _as_array(leaf, name), value)
    try:
        key = jax.tree.map(leaf_values.as_array, key)
    except TypeError as error:
        raise TypeError(f"sow {name!r}: key must be a pytree of arrays, got {key!r}.") from error
    return tie(value, key)


def _impl(*operands: Any, site: Site) -> list[Any]:
    return list(operands[: site.num_values])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, site: Site) -> Any:
    outs = sow_p.bind(*primals, site=site)
    return outs, [_mark_tangent(t, site) for t in tangents[: site.num_values]]


def _mark_tangent(tangent: Any, site: Site) -> Any:
    return tangent if jax_core.is_zero_tangent(tangent) else tangent_p.bind(tangent, site=site)[0]


def _transpose(cotangents: Sequence[Any], *operands: Any, site: Site) -> list[Any]:
    return [*cotangents, *[None] * (len(operands) - site.num_values)]


def _batch(name: str | None, args: Sequence[Any], dims: Sequence[Any], *, site: Site) -> Any:
    size, args, mapped = batch_operands(args, dims, site.num_mapped_always)
    axis = Axis(size, mapped[: site.num_extras], any(mapped[site.num_extras :]), name)
    site = dataclasses.replace(site, axes=(*site.axes, axis))
    return sow_p.bind(*args, site=site), [0] * site.num_values


def batch_operands(
    args: Sequence[Any], dims: Sequence[Any], num_mapped_always: int
) -> tuple[int, list[Any], tuple[bool, ...]]:
    """Move batch axes to the front; each of the first `num_mapped_always` operands gets one."""
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    moved = [
        jax_core.batched_in_front(arg, dim, size)
        if dim is not None or i < num_mapped_always
        else arg
        for i, (arg, dim) in enumerate(zip(args, dims, strict=True))
    ]
    return size, moved, tuple(dim is not None for dim in dims[num_mapped_always:])


sow_p = jax_core.make_primitive(
    "sow",
    impl=_impl,
    abstract_eval=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    batch_by_name=True,
    effect=jax_core.SowEffect(),
)

# Tangent or cotangent of a sown value: the identity, and zero where the value is planted. Unlike a
# sow it has no effect, so JAX moves, transposes and drops it like any linear map.
tangent_p = jax_core.make_primitive(
    "tangent_of_sow",
    impl=lambda x, *, site: [x],
    abstract_eval=lambda x, *, site: [x],
    jvp=lambda xs, ts, *, site: (tangent_p.bind(*xs, site=site), [_mark_tangent(ts[0], site)]),
    transpose=lambda cts, x, *, site: [_mark_tangent(cts[0], site)],
    batch=lambda xs, dims, *, site: (tangent_p.bind(*xs, site=site), list(dims)),
)


def sites_in(eqn: jex.JaxprEqn) -> Iterator[Site]:
    """Sites in an equation, at any depth."""
    if eqn.primitive is sow_p:
        yield eqn.params["site"]
    for jaxpr in jax_core.subjaxprs(eqn):
        yield from sites_of(jaxpr)


def sites_of(jaxpr: Jaxpr) -> Iterator[Site]:
    """Sites in a jaxpr, at any depth."""
    for eqn in jaxprs.raw(jaxpr)[0].eqns:
        yield from sites_in(eqn)


def _move_site(params: Mapping[str, Any], scope: Hashable) -> dict[str, Any]:
    site = params["site"]
    return {"site": dataclasses.replace(site, scope=(scope, *site.scope))}


# By primitive, the rule by which `nest` moves an equation into a scope.
SCOPED: dict[Any, Callable[[Mapping[str, Any], Hashable], dict[str, Any]]] = {
    sow_p: _move_site,
    tangent_p: _move_site,
}


def names_sites(jaxpr: Jaxpr, memo: dict[int, bool]) -> bool:
    """Whether a jaxpr holds an equation with a scope, such as a sow, at any depth."""
    if id(jaxpr) not in memo:
        memo[id(jaxpr)] = jax_core.has_sow(jaxpr) or any(
            eqn.primitive in SCOPED or any(names_sites(j, memo) for j in jax_core.subjaxprs(eqn))
            for eqn in jaxprs.raw(jaxpr)[0].eqns
        )
    return memo[id(jaxpr)]
