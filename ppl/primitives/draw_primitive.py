"""draw_p: a draw as a JAX primitive, whose sampler is traced only where the draw is needed."""

import dataclasses
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import jax_core, leaf_values
from ppl.harvest.leaked_tracers import explain_leaked_tracer
from ppl.harvest.sowing import SCOPED, Axis, batch_operands


@dataclasses.dataclass(frozen=True)
class Draw:
    """Static part of a draw; its operands are the key and the leaves of the distribution.

    Attributes:
        name: The name of the site.
        scope: The scopes around the site, outermost first.
        distribution: The tree structure of the distribution.
        tree: The tree structure of the value.
        avals: Shape and dtype of each leaf of the value, without the `vmap` axes.
        axes: The `vmap` axes that the draw stands under, innermost first.
    """

    name: str
    distribution: Any
    tree: Any
    avals: tuple[jax.ShapeDtypeStruct, ...]
    axes: tuple[Axis, ...] = ()
    scope: tuple[Hashable, ...] = ()

    def sample(self, key: jax.Array, *leaves: Any) -> tuple[jax.Array, ...]:
        """The leaves of one draw, without the `vmap` axes."""
        d = jax.tree.unflatten(self.distribution, leaves)
        try:
            with explain_leaked_tracer(f"site {self.name!r}: "):
                value = distribution_protocol.draw(
                    d, jax.random.fold_in(key, hash_of_path((*self.scope, self.name)))
                )
        except NotImplementedError as error:
            raise NotImplementedError(f"site {self.name!r}: {error}") from error
        values = jax.tree.leaves(value)
        return tuple(x.astype(aval.dtype) for x, aval in zip(values, self.avals, strict=True))


def draw(key: jax.Array, d: Any, *, name: str) -> Any:
    """A draw from `d`, determined by `key` and `name`: one key serves many names."""
    leaves, distribution_tree = jax.tree.flatten(d)
    arrays = [_as_array(leaf, d, name) for leaf in leaves]
    avals, tree = jax.tree.flatten(distribution_protocol.abstract_draw(d, key))
    static = Draw(name, distribution_tree, tree, tuple(avals))
    operands = leaf_values.vary_alike([key, *arrays])
    return jax.tree.unflatten(tree, draw_p.bind(*operands, draw=static))


def _as_array(leaf: Any, d: Any, name: str) -> jax.Array:
    """A leaf of a distribution as an array; any other leaf is an error."""
    try:
        return leaf_values.as_array(leaf)
    except ValueError as error:
        raise ValueError(
            f"sample {name!r}: a parameter of {distribution_protocol.name_of(d)} holds {error} "
            "Where they are counts, a float may do."
        ) from error
    except TypeError as error:
        remedy = "It must be an array."
        if leaf is d:
            remedy = (
                "A distribution must be a pytree of arrays: register its class with "
                "jax.tree_util.register_dataclass or jax.tree_util.register_pytree_node."
            )
        raise TypeError(
            f"sample {name!r}: the distribution {distribution_protocol.name_of(d)} has a leaf of "
            f"type {type(leaf).__name__}: {leaf!r}. {remedy}"
        ) from error


def hash_of_path(path: Sequence[Hashable]) -> int:
    """Hash of a name and the scopes around it (BLAKE2b, 4 bytes), the same in every process."""
    whole = "\0".join(map(str, path))
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=4).digest())


def _impl(*operands: Any, draw: Draw) -> list[Any]:
    return list(lift(draw.sample, draw.axes)(*operands))


def _abstract_eval(*avals: Any, draw: Draw) -> list[Any]:
    sizes = tuple(axis.size for axis in reversed(draw.axes))
    return [jax_core.abstract_array(sizes + a.shape, a.dtype, operands=avals) for a in draw.avals]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, draw: Draw) -> Any:
    moving = [not jax_core.is_zero_tangent(t) for t in tangents]

    def sample(*some: Any) -> tuple[Any, ...]:
        rest = iter(some)
        operands = [next(rest) if m else p for p, m in zip(primals, moving, strict=True)]
        return tuple(_impl(*operands, draw=draw))

    at, along = (
        tuple(x for x, m in zip(xs, moving, strict=True) if m) for xs in (primals, tangents)
    )
    return jax.jvp(sample, at, along)


def _batch(args: Sequence[Any], dims: Sequence[Any], *, draw: Draw) -> Any:
    size, args, mapped = batch_operands(args, dims, 0)
    draw = dataclasses.replace(draw, axes=(*draw.axes, Axis(size, mapped)))
    outs = draw_p.bind(*args, draw=draw)
    return outs, [0] * len(outs)


draw_p = jax_core.make_primitive(
    "draw", impl=_impl, abstract_eval=_abstract_eval, jvp=_jvp, batch=_batch
)


def _move_into_scope(params: Mapping[str, Any], scope: Hashable) -> dict[str, Any]:
    draw = params["draw"]
    return {"draw": dataclasses.replace(draw, scope=(scope, *draw.scope))}


SCOPED[draw_p] = _move_into_scope
