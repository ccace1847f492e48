"""Distributions of NumPyro as distributions of this library's protocol.

A distribution of NumPyro has methods of the same names with other arguments, no value for numbers
outside of its support, and its map from unconstrained space elsewhere, in `biject_to`.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd

from ppl.doors.independent_parts import Independent
from ppl.doors.numpyro_supports import (
    Bijector,
    Support,
    bijector_onto,
    feasible_like,
    is_unrestricted,
    satisfies,
)
from ppl.harvest import leaf_values
from ppl.harvest.pytrees import register_dataclass


@dataclasses.dataclass(frozen=True, eq=False)
class Structure:
    """Static part of a distribution of NumPyro.

    Attributes:
        tree: Its tree structure.
        places: The place among our leaves of each leaf of the tree. NumPyro's order of parameters
            differs between processes, and ours does not.
        ranks: The number of axes of each of our leaves.
        batch_shape: Its batch shape.
        event_shape: Its event shape.
        dtype: The dtype of the value.
    """

    tree: Any
    places: tuple[int, ...]
    ranks: tuple[int, ...]
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    dtype: np.dtype

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The distribution of NumPyro with these leaves."""
        d = jax.tree.unflatten(self.tree, [leaves[i] for i in self.places])
        inner: Any = innermost(d)
        if type(inner) is npd.Levy:  # its support gets lost on the way through a tree
            loc: Any = inner.loc
            inner._support = npd.constraints.greater_than(loc)
        return d

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.ranks, self.batch_shape, self.event_shape, self.dtype

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure) or self._parts != other._parts:
            return False
        try:
            return bool(self.tree == other.tree)
        except ValueError:  # arrays among what is static
            return self.tree is other.tree

    def __hash__(self) -> int:
        return hash(self._parts)  # NumPyro's own parts may have no hash


@register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class NumPyroDistribution:
    """A distribution of NumPyro, whose leaves may gain axes in front by `vmap`.

    Attributes:
        leaves: The arrays of the distribution.
        structure: All else of it.
    """

    leaves: tuple[Any, ...]
    structure: Structure = dataclasses.field(metadata={"static": True})

    is_closed: ClassVar[bool] = True

    def __repr__(self) -> str:
        parameters = ", ".join(f"{k}={x}" for k, x in innermost(self.rebuild()).get_args().items())
        return f"{self.family_name}({parameters})"

    @property
    def family_name(self) -> str:
        """The name of the family, within what expands, masks or joins its batch."""
        return f"numpyro.{type(innermost(self.rebuild())).__name__}"

    @property
    def ignores_values(self) -> bool:
        """Whether a mask leaves entries out of the log density."""
        return has_mask(self.rebuild())

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch, with the axes that `vmap` has added in front."""
        return (*self._mapped_shape(), *self.structure.batch_shape)

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The shape of one event."""
        return self.structure.event_shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the value."""
        return self.structure.dtype

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Draws of shape `sample_shape + batch_shape + event_shape`.

        Raises:
            NotImplementedError: If the distribution has no draws, as an improper one.
        """
        mapped = self._mapped_shape()
        if not mapped:
            try:
                drawn = self.rebuild().sample(key, tuple(sample_shape))
            except NotImplementedError as error:
                raise NotImplementedError(
                    f"{self.family_name} has no draws in NumPyro. Give the value, by ppl.condition "
                    "say, or start from init='uniform'"
                ) from error
            return jnp.asarray(drawn).astype(self.dtype)
        keys = jax.random.split(key, mapped[0])
        drawn = self._map_first(lambda d, k: d.sample(k, sample_shape), keys)
        return jnp.moveaxis(drawn, 0, len(sample_shape))

    def log_prob(self, value: Any) -> jax.Array:
        """The log density of each event, -inf outside of the support."""
        return self.apply(_log_prob, value)

    def at_position(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """The value at an unconstrained position, and its log density.

        No check is made: rounding may put a value on the edge of its support.
        """
        value = self.bijector.forward(position)
        return value, self.apply(lambda d, x: jnp.asarray(d.log_prob(x)), value)

    @property
    def support(self) -> Support:
        """The set of values with positive density."""
        return Support(self)

    @property
    def bijector(self) -> Bijector:
        """The map from unconstrained space onto the support, NumPyro's `biject_to`.

        Raises:
            NotImplementedError: If there is no such map, as for a discrete distribution.
        """
        constraint = self.rebuild().support
        if constraint.is_discrete:
            raise NotImplementedError(f"{self.family_name} is discrete.")
        try:
            return bijector_onto(constraint, self)
        except NotImplementedError as error:
            raise NotImplementedError(
                f"{self.family_name} has no map from unconstrained space in NumPyro, whose "
                "handlers.reparam is for such sites."
            ) from error

    @property
    def has_standard_form(self) -> bool:
        """Whether a draw is a known function of a standard variable."""
        return _standard_parameters(self.rebuild()) is not None

    def standard_form(self, centeredness: Any) -> tuple[Any, Any, Any]:
        """A distribution, and the maps from its variable to this one and back.

        With weight c, the standard variable has location `c loc` and scale `scale^c`.

        Raises:
            NotImplementedError: If there is no such form.
        """
        d = self.rebuild()
        found = _standard_parameters(d)
        if found is None:
            raise NotImplementedError(f"{self.family_name} has no standard form.")
        if type(innermost(d)) is npd.LogNormal:
            normal: Any = wrap(npd.Normal(*found))
            base, forward, inverse = normal.standard_form(centeredness)
            return base, lambda z: jnp.exp(forward(z)), lambda x: inverse(jnp.log(x))
        loc, scale = found
        c = 0.0 if centeredness is None else centeredness
        stretch = scale if centeredness is None else jnp.exp((1 - c) * jnp.log(scale))
        parameters = {"scale": jnp.ones_like(scale) if centeredness is None else scale / stretch}
        start = 0.0
        shift = 0.0
        if loc is not None:
            start = loc
            shift = c * loc
            parameters["loc"] = shift * jnp.ones_like(scale)
        if hasattr(innermost(d), "df"):
            parameters["df"] = jnp.broadcast_to(innermost(d).df, jnp.shape(scale))
        base = wrap(type(innermost(d))(**parameters), dtype=self.dtype)

        def forward(z: Any) -> Any:
            return start + stretch * (z - shift)

        def inverse(x: Any) -> Any:
            return (x - start) / stretch + shift

        return base, forward, inverse

    def apply(self, function: Callable[..., Any], *values: Any) -> Any:
        """A function of the distribution of NumPyro and of values, over all axes of `vmap`."""
        if self._mapped_shape():
            return self._map_first(lambda d, *xs: d.apply(function, *xs), *values)
        return function(self.rebuild(), *values)

    def rebuild(self) -> Any:
        """The distribution of NumPyro."""
        return self.structure.rebuild(self.leaves)

    def _mapped_axes(self) -> list[int]:
        """The number of axes that `vmap` has added to each leaf."""
        pairs = zip(self.leaves, self.structure.ranks, strict=True)
        return [np.ndim(leaf) - rank for leaf, rank in pairs]

    def _mapped_shape(self) -> tuple[int, ...]:
        added = self._mapped_axes()
        most = max(added, default=0)
        return np.shape(self.leaves[added.index(most)])[:most] if most else ()

    def _map_first(self, function: Callable[..., Any], *values: Any) -> Any:
        """A function of distribution and values, mapped over the first axis that was added."""
        added = self._mapped_axes()
        axes = tuple(0 if x == max(added) else None for x in added)

        def one(leaves: Sequence[Any], *xs: Any) -> Any:
            return function(dataclasses.replace(self, leaves=tuple(leaves)), *xs)

        return jax.vmap(one, in_axes=(axes, *[0] * len(values)))(self.leaves, *values)


def wrap(d: Any, dtype: Any = None) -> NumPyroDistribution | Independent:
    """A distribution of NumPyro under our protocol; `dtype` is that of the value, if it is known.

    Raises:
        TypeError: If a parameter is not an array.
    """
    if isinstance(d, npd.Independent):
        return Independent(wrap(d.base_dist, dtype), d.reinterpreted_batch_ndims)
    leaves, tree = jax.tree.flatten(d)
    order = [*_by_name(jax.tree.unflatten(tree, range(len(leaves))))]
    leaves = tuple(leaf_values.as_array(leaves[i]) for i in order)
    places = tuple(map(order.index, range(len(order))))
    ranks = tuple(map(np.ndim, leaves))
    bare = Structure(
        tree, places, ranks, tuple(d.batch_shape), tuple(d.event_shape), np.dtype(bool)
    )
    if dtype is None:
        dtype = _dtype_of_draw(bare, tuple(map(_abstract, leaves)), jnp.result_type(float))
    return NumPyroDistribution(leaves, dataclasses.replace(bare, dtype=np.dtype(dtype)))


def _by_name(x: Any) -> Iterator[Any]:
    """The leaves of a distribution of NumPyro, parameters in the order of their names."""
    if isinstance(x, list | tuple):
        for part in x:
            yield from _by_name(part)
        return
    if not isinstance(x, npd.Distribution):
        yield from jax.tree.leaves(x)
        return
    for name in sorted(type(x).gather_pytree_data_fields()):
        yield from _by_name(vars(x).get(name))


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))


@functools.lru_cache(maxsize=1024)
def _dtype_of_draw(
    structure: Structure, leaves: tuple[jax.ShapeDtypeStruct, ...], float_dtype: Any
) -> Any:
    """The dtype of a draw; of an improper distribution, that of floats."""

    def draw(leaves: Sequence[Any], key: jax.Array) -> Any:
        return structure.rebuild(leaves).sample(key)

    try:
        return jax.eval_shape(draw, leaves, jax.eval_shape(lambda: jax.random.key(0))).dtype
    except NotImplementedError:
        return float_dtype


def innermost(d: Any) -> Any:
    """The distribution within what expands, masks or joins a batch."""
    while isinstance(d, npd.ExpandedDistribution | npd.Independent | npd.MaskedDistribution):
        d = d.base_dist
    return d


def has_mask(d: Any) -> bool:
    """Whether a mask leaves entries out of the log density."""
    while isinstance(d, npd.ExpandedDistribution | npd.Independent | npd.MaskedDistribution):
        if isinstance(d, npd.MaskedDistribution):
            return True
        d = d.base_dist
    return False


# Families that are closed under x -> a + b x, or under x -> b x.
_LOCATION_SCALE = (npd.Normal, npd.Cauchy, npd.Laplace, npd.Logistic, npd.Gumbel, npd.StudentT)
_SCALE = (npd.HalfNormal, npd.HalfCauchy)


def _standard_parameters(d: Any) -> tuple[Any, Any] | None:
    """Location, or None, and scale, over the whole batch; None for other families."""
    family: Any = d.base_dist if isinstance(d, npd.ExpandedDistribution) else d
    if type(family) not in (*_LOCATION_SCALE, *_SCALE, npd.LogNormal):
        return None
    scale = jnp.broadcast_to(family.scale, d.batch_shape)
    if type(family) in _SCALE:
        return None, scale
    return jnp.broadcast_to(family.loc, d.batch_shape), scale


def _log_prob(d: Any, value: Any) -> jax.Array:
    if is_unrestricted(d.support) and not isinstance(innermost(d), npd.ImproperUniform):
        return jnp.asarray(d.log_prob(value))
    inside = _is_inside(d, value)
    point = feasible_like(d.support, jnp.shape(value), jnp.result_type(value))
    event_axes = tuple(range(-len(d.event_shape), 0))
    safe = value if point is None else jnp.where(jnp.expand_dims(inside, event_axes), value, point)
    return jnp.where(inside, d.log_prob(safe), -jnp.inf)


def _is_inside(d: Any, value: Any) -> jax.Array:
    """Whether each event lies in the support, or a mask leaves it out."""
    if isinstance(d, npd.MaskedDistribution):
        return _is_inside(d.base_dist, value) | ~jnp.asarray(d._mask)
    if isinstance(d, npd.ExpandedDistribution):
        inside = _is_inside(d.base_dist, value)
        return jnp.broadcast_to(inside, np.broadcast_shapes(inside.shape, d.batch_shape))
    if isinstance(d, npd.Independent):
        inside = _is_inside(d.base_dist, value)
        return inside.all(tuple(range(-d.reinterpreted_batch_ndims, 0)))
    return satisfies(d.support, value)
