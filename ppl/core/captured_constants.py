"""Captured constants: numbers that a model takes from globals, closures and attributes."""

import enum
import hashlib
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from ppl.common.arguments import Arguments
from ppl.core.model_pytree import Model, name_of
from ppl.core.model_run import trace_model
from ppl.core.scalar_sizes import explaining_sizes
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.function_equality import likeness
from ppl.harvest.leaf_values import check_range
from ppl.harvest.program import Program
from ppl.harvest.pytrees import is_split
from ppl.harvest.rules import wiring_of
from ppl.harvest.survey import describe
from ppl.harvest.wirings import Shards

_MESHES = (jax.sharding.Mesh, jax.sharding.AbstractMesh)
_PLAIN = (bool, int, float, str, types.NoneType, enum.Enum, np.dtype, *_MESHES)


def trace_and_fingerprint(
    look: Callable[[Program], Any], model: Model, arguments: Arguments, data: Sequence[Any]
) -> tuple[Any, tuple[Hashable, ...]]:
    """Trace a model with abstract data, and fingerprint the constants that it captures.

    If the fingerprint changes, programs compiled for the model are out of date.

    Args:
        look: A function of the traced program.
        model: A function of a random key.
        arguments: The static arguments of the model.
        data: The data among its arguments; their numbers are not in the fingerprint.

    Returns:
        The result of `look`, and the fingerprint.
    """
    found = []

    _check_range(model)
    # `eval_shape` gets leaves, as JAX keeps thousands of tree structures, with models in them.
    leaves, structure = jax.tree.flatten((model, data))

    def trace_and_look(*leaves: Any) -> None:
        model, data = jax.tree.unflatten(structure, leaves)
        args, kwargs = arguments.join(data)
        program = trace_model(model, None, args, kwargs)
        found.append((look(program), tuple(fingerprint_constants(program.jaxpr, program.consts))))

    args, kwargs = arguments.join(data)
    with explaining_sizes(model, args, kwargs):
        jax.eval_shape(trace_and_look, *leaves)
    return found[0]


def _check_range(model: Model) -> None:
    """Raise a ValueError for data of a model that a compiled program would wrap or make infinite.

    A later check would come too late: the data then have JAX's dtype, with infinities in them.
    """
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        try:
            check_range(leaf)
        except ValueError as error:
            name = describe(tuple(x.key for x in path if isinstance(x, jax.tree_util.DictKey)))
            raise ValueError(f"{name_of(model)}: its data {name} hold {error}") from error


def fingerprint_constants(jaxpr: Any, consts: Sequence[Any]) -> Iterator[Hashable]:
    """Fingerprint of a traced program: its primitives with their settings, and numbers by bits.

    Abstract values, such as the leaves of arguments, enter only by shape and dtype.
    """
    yield from map(fingerprint_value, consts)
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        yield from (fingerprint_value(x.val) for x in eqn.invars if isinstance(x, jex.Literal))
        yield from ((k, x) for k, x in sorted(eqn.params.items()) if _is_plain(x))
        if "jvp_jaxpr_fun" in eqn.params:
            yield _fingerprint_rule(eqn)
        if "site" in eqn.params:
            site = eqn.params["site"]
            yield site.path, site.axes, site.loops, _fingerprint_tree(site.extra_tree)
        for inner in jax_core.subjaxprs(eqn):
            yield from fingerprint_constants(*jaxprs.raw(inner))


def calls_python(jaxpr: Any) -> bool:
    """Whether a program calls functions of Python, as callbacks and derivatives of one's own.

    Fingerprints do not tell such functions apart, but for derivatives that are functions of a
    module and so have one name each, as those of `jax.nn.softplus` and `jnp.logaddexp`.
    """
    return any(
        any(callable(x) and not isinstance(x, _MESHES) for x in eqn.params.values())
        or ("jvp_jaxpr_fun" in eqn.params and _fingerprint_rule(eqn) is None)
        or any(calls_python(jaxprs.raw(inner)[0]) for inner in jax_core.subjaxprs(eqn))
        for eqn in jaxpr.eqns
    )


def _fingerprint_rule(eqn: jex.JaxprEqn) -> Hashable:
    """The rule of a function with `jax.custom_jvp` if it is a function of a module, else None.

    It is compared by identity, and the globals that it names by their values.
    """
    rule = jax_core.rule_of_custom_jvp(eqn)
    if not isinstance(rule, types.FunctionType) or rule.__closure__:
        return None
    is_named = rule.__globals__.get(rule.__qualname__) is rule
    return (rule, likeness(rule, ())) if is_named else None


def fingerprint_wiring(jaxpr: Any) -> Hashable:
    """Fingerprint of how the equations of a program are joined: its variables by number."""
    inner, _ = jaxprs.raw(jaxpr)
    numbers: dict[Any, int] = {}

    def number(v):
        return str(v.aval) if isinstance(v, jex.Literal) else numbers.setdefault(v, len(numbers))

    inputs = tuple((number(v), str(v.aval)) for v in (*inner.constvars, *inner.invars))
    eqns = tuple(
        (
            tuple(map(number, eqn.invars)),
            tuple(map(number, eqn.outvars)),
            tuple(map(fingerprint_wiring, jax_core.subjaxprs(eqn))),
        )
        for eqn in inner.eqns
    )
    return inputs, eqns, tuple(map(number, inner.outvars))


def find_mesh(jaxpr: Any) -> Any:
    """The mesh of the first `shard_map` in a traced program, or None."""
    for eqn in jaxpr.eqns:
        if isinstance(wiring := wiring_of(eqn), Shards):
            return wiring.mesh
        for inner in jax_core.subjaxprs(eqn):
            if (mesh := find_mesh(jaxprs.raw(inner)[0])) is not None:
                return mesh
    return None


def _is_plain(value: Any) -> bool:
    """Whether a parameter is data: numbers, text, dtypes, enums, meshes, and tuples of these."""
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _fingerprint_tree(tree: Any) -> Hashable:
    """Fingerprint of a tree structure; functions in it count by their code, not by identity."""
    data = tree.node_data()
    return data and (data[0], likeness(data[1], ()), *map(_fingerprint_tree, tree.children()))


def fingerprint_value(value: Any) -> Hashable:
    """Fingerprint of a number or array by its bits; of a traced one by shape and dtype.

    Raises:
        ValueError: If it is split over devices: each would have all of it in its program.
    """
    if jax_core.is_traced(value) or jnp.issubdtype(jnp.result_type(value), jax.dtypes.extended):
        return jax.typeof(value)
    if not getattr(value, "is_fully_addressable", True):
        return jax.typeof(value)  # shards on other processes cannot be read
    if is_split(value):
        raise ValueError(
            f"the model takes an array of shape {value.shape}, which is split over devices, from a "
            "global or a closure. It would be a constant of the program, of which every device has "
            "a copy. Give it as an argument of the model, or as data of a site, ppl.condition."
        )
    array = np.asarray(value)
    return array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest()
