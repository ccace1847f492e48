"""Effects: operations of a program whose meaning is left to the handlers around it."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest import jax_core, leaf_values
from ppl.harvest.names import fit
from ppl.harvest.sowing import check_hashable, sow_p
from ppl.harvest.survey import describe, struct_of


@dataclasses.dataclass(frozen=True, eq=False)
class Effect:
    """Operation with a name, made by `effect`; a call performs it."""

    name: str
    result: Callable[..., Any]

    def __repr__(self) -> str:
        return f"effect {self.name!r}"

    def __call__(self, *operands: Any) -> Any:
        """Perform the operation; its result is the one that the handler around it gives."""
        leaves, operand_tree = jax.tree.flatten(operands)
        leaves = [self._as_array("operand", leaf) for leaf in leaves]
        tree, avals = self._declare_result(jax.tree.unflatten(operand_tree, leaves))
        call = EffectCall(self, operand_tree, tree, avals)
        return jax.tree.unflatten(tree, perform_p.bind(*leaves, call=call))

    def _declare_result(self, operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        found: dict[str, Any] = {}

        def declare(*operands: Any) -> None:
            leaves, found["tree"] = jax.tree.flatten(self.result(*operands))
            found["avals"] = tuple(self._aval(leaf) for leaf in leaves)

        jax.eval_shape(declare, *operands)
        return found["tree"], found["avals"]

    def _aval(self, leaf: Any) -> jax.ShapeDtypeStruct:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return struct_of(jax.typeof(self._as_array("declared result", leaf)))
        if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):  # a random key
            return struct_of(leaf)
        return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))

    def _as_array(self, what: str, leaf: Any) -> jax.Array:
        try:
            return leaf_values.as_array(leaf)
        except TypeError as error:
            raise TypeError(
                f"{self}: expected a pytree of arrays as its {what}, got a leaf of type "
                f"{type(leaf).__name__}: {leaf!r}."
            ) from error


def effect(name: str, result: Callable[..., Any]) -> Effect:
    """Declare an effect: an operation whose meaning is given by a handler (see `handle`).

    Effects are told apart by identity: two declarations of one name are two effects.

    Args:
        name: Name in error messages.
        result: A function of the operands, traced abstractly, whose value has the structure,
            shapes and dtypes of the effect's result: a pytree of arrays or `jax.ShapeDtypeStruct`s.

    Returns:
        A function of pytrees of arrays. A call performs the effect and returns the result that the
        handler around it gives.

    Raises:
        TypeError: If `name` is not a string or `result` cannot be called. When called, if an
            operand or the declared result holds anything but arrays.

    Example:
        >>> from ppl.harvest import effect, handle
        >>> ask = effect("ask", lambda: 0.0)
        >>> handle(lambda x: x + ask(), {ask: lambda k: k(2.0)})(1.0).item()
        3.0
    """
    if not isinstance(name, str):
        raise TypeError(f"effect: name must be a string, got {name!r}.")
    if not callable(result):
        raise TypeError(
            f"effect {name!r}: result must be a function of the operands that gives arrays of the "
            f"result's shapes and dtypes, got {result!r}."
        )
    return Effect(name, result)


@dataclasses.dataclass(frozen=True)
class SownEffect:
    """Key, in a dict of handlers, for all sows with a tag; made by `sown`."""

    tag: Hashable


def sown(tag: Hashable) -> SownEffect:
    """Sows with a tag, as an effect for `handle`.

    The handler is called as `handler(k, value, path)`, or with a state as
    `handler(state, value, path)`. The path is the tuple of the scopes and the name. The result that
    the handler resumes with replaces the value. Under `vmap`, an unmapped value is sown once, as in
    `harvest`; an unmapped value of `ppl.sample` is sown once for each key.

    Args:
        tag: The tag given to `sow`.

    Returns:
        A key for the handlers of `handle`.

    Raises:
        TypeError: If `tag` is not hashable.

    Example:
        >>> from ppl.harvest import handle, sow, sown
        >>> f = lambda x: sow(x + 1.0, tag="t", name="y") ** 2
        >>> handle(f, {sown("t"): lambda k, value, path: (path, k(2 * value))})(1.0)
        (('y',), Array(16., dtype=float32, weak_type=True))
    """
    check_hashable("sown: tag", tag)
    return SownEffect(tag)


@dataclasses.dataclass(frozen=True)
class EffectCall:
    """Static parameters of an equation that performs an effect on the leaves of the operands.

    Attributes:
        effect: The effect.
        operand_tree: Structure of the tuple of operands.
        tree: Structure of the result.
        avals: Abstract leaves of the result, without `vmap` axes.
        batch_shape: Sizes of the `vmap` axes around the effect, outermost first. All operands and
            results have these axes in front.
    """

    effect: Effect
    operand_tree: Any
    tree: Any
    avals: tuple[jax.ShapeDtypeStruct, ...]
    batch_shape: tuple[int, ...] = ()


def _impl(*operands: Any, call: EffectCall) -> NoReturn:
    name = call.effect.name
    raise RuntimeError(
        f"{call.effect} is performed where nothing handles it. Run the function through "
        f"handle(f, {{{name}: handler}}), which must stand around all that performs {name!r}."
    )


def _abstract_eval(*operands: Any, call: EffectCall) -> list[Any]:
    avals = call.avals
    return [
        jax_core.abstract_array(call.batch_shape + a.shape, a.dtype, a.weak_type) for a in avals
    ]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: EffectCall) -> NoReturn:
    raise NotImplementedError(
        f"{call.effect} is performed in a function that is differentiated with respect to its "
        "operands, and has no derivative before it is handled. Handle it inside, as "
        f"grad(handle(f, {{{call.effect.name}: handler}}))."
    )


def _batch(size: int, args: Sequence[Any], dims: Sequence[Any], *, call: EffectCall) -> Any:
    args = [jax_core.batched_in_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    call = dataclasses.replace(call, batch_shape=(size, *call.batch_shape))
    return perform_p.bind(*args, call=call), [0] * len(call.avals)


perform_p = jax_core.make_primitive(
    "perform",
    impl=_impl,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    batch=_batch,
    effect=jax_core.PerformEffect(),
    batch_always=True,
)


@dataclasses.dataclass(frozen=True)
class PerformedEffect:
    """Effect, or a sow handled as an effect, with the operands of one performance.

    Attributes:
        where: Name in error messages.
        operands: Operands for the handler, with `vmap` axes in front.
        static: Arguments of the handler after the operands: the path of a sow.
        tree: Structure of the result.
        avals: Abstract leaves of the result, without `vmap` axes.
        batch_shape: Sizes of the `vmap` axes, outermost first.
    """

    where: str
    operands: tuple[Any, ...]
    static: tuple[Any, ...]
    tree: Any
    avals: tuple[jax.ShapeDtypeStruct, ...]
    batch_shape: tuple[int, ...]

    def fit(self, result: Any) -> list[jax.Array]:
        """Leaves of a result, checked against the declared structure, shapes and dtypes."""
        leaves = fit(f"{self.where}: the result", result, self.tree, self.avals)
        return [jax_core.as_aval(leaf, aval) for leaf, aval in zip(leaves, self.avals, strict=True)]


def handler_key(eqn: jex.JaxprEqn) -> Hashable:
    """Key, in a dict of handlers, of the effect of an equation; None if it has no effect."""
    if eqn.primitive is perform_p:
        return eqn.params["call"].effect
    return SownEffect(eqn.params["site"].tag) if eqn.primitive is sow_p else None


def describe_effect(eqn: jex.JaxprEqn) -> str:
    """Name, in errors, of the effect of an equation."""
    if eqn.primitive is perform_p:
        return repr(eqn.params["call"].effect)
    return f"sow {describe(eqn.params['site'].path)}"


def read_performed(eqn: jex.JaxprEqn, args: Sequence[Any]) -> PerformedEffect:
    """Effect of an equation, with its operands."""
    where = describe_effect(eqn)
    if eqn.primitive is perform_p:
        call = eqn.params["call"]
        operands = jax.tree.unflatten(call.operand_tree, args)
        return PerformedEffect(where, operands, (), call.tree, call.avals, call.batch_shape)
    site = eqn.params["site"]
    _check_sow(where, site)
    values = args[: site.num_values]
    axes = len(site.axes)
    avals = tuple(
        jax.ShapeDtypeStruct(a.shape[axes:], a.dtype, weak_type=a.weak_type)
        for a in (struct_of(v.aval) for v in eqn.outvars)
    )
    value = jax.tree.unflatten(site.tree, values)
    return PerformedEffect(where, (value,), (site.path,), site.tree, avals, site.batch_shape)


def _check_sow(where: str, site: Any) -> None:
    if site.has_pred:
        raise NotImplementedError(
            f"{where}: a sow_cond cannot be handled. Use "
            "lax.cond(pred, lambda v: sow(v, ...), lambda v: v, value)."
        )
    if site.selected:
        raise ValueError(
            f"{where}: it stands in a branch of a cond whose predicate a vmap maps, beside a "
            "collective over elements or an effect, or under spmd_axis_name, so that JAX runs all "
            "branches and selects. Handle it inside of the vmap, as vmap(handle(f, ...))."
        )
