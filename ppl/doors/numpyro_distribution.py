"""Distributions of NumPyro as distributions of this library's protocol.

A distribution of NumPyro has methods of the same names with other arguments, no value for numbers
outside of its support, and its map from unconstrained space elsewhere, in `biject_to`.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd
from numpyro.distributions import biject_to, constraints

from ppl.harvest import leaf_values
from ppl.harvest.pytrees import register_dataclass


@dataclasses.dataclass(frozen=True, eq=False)
class Structure:
    """Static part of a distribution of NumPyro.

    Attributes:
        tree: Its tree structure.
        ranks: The number of axes of each leaf.
        batch_shape: Its batch shape.
        event_shape: Its event shape.
        dtype: The dtype of the value.
    """

    tree: Any
    ranks: tuple[int, ...]
    batch_shape: tuple[int, ...]
    event_shape: tuple[int, ...]
    dtype: np.dtype

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

    @property
    def family_name(self) -> str:
        """The name of the family, within what expands, masks or joins its batch."""
        return f"numpyro.{type(innermost(self._rebuilt())).__name__}"

    @property
    def ignores_values(self) -> bool:
        """Whether a mask leaves entries out of the log density."""
        return has_mask(self._rebuilt())

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
            drawn = self._rebuilt().sample(key, tuple(sample_shape))
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
    def support(self) -> "Support":
        """The set of values with positive density."""
        return Support(self)

    @property
    def bijector(self) -> "Bijector":
        """The map from unconstrained space onto the support, NumPyro's `biject_to`.

        Raises:
            NotImplementedError: If there is no such map, as for a discrete distribution.
        """
        constraint = self._rebuilt().support
        if constraint.is_discrete:
            raise NotImplementedError(f"{self.family_name} is discrete.")
        try:
            transform = biject_to(constraint)
        except NotImplementedError as error:
            raise NotImplementedError(
                f"{self.family_name} has no map from unconstrained space in NumPyro, whose "
                "handlers.reparam is for such sites."
            ) from error
        return _class_of_bijector(transform)(self)

    @property
    def has_standard_form(self) -> bool:
        """Whether a draw is an affine function of a standard variable."""
        return _standard_parameters(self._rebuilt()) is not None

    def standard_form(self, centeredness: Any) -> tuple[Any, Any, Any]:
        """A distribution, and the maps from its variable to this one and back.

        With weight c, the standard variable has location `c loc` and scale `scale^c`.

        Raises:
            NotImplementedError: If there is no such form.
        """
        d = self._rebuilt()
        found = _standard_parameters(d)
        if found is None:
            raise NotImplementedError(f"{self.family_name} has no standard form.")
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
        return function(self._rebuilt(), *values)

    def _rebuilt(self) -> Any:
        return jax.tree.unflatten(self.structure.tree, self.leaves)

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


def wrap(d: Any, dtype: Any = None) -> NumPyroDistribution:
    """A distribution of NumPyro under our protocol; `dtype` is that of the value, if it is known.

    Raises:
        TypeError: If a parameter is not an array.
    """
    leaves, tree = jax.tree.flatten(d)
    leaves = tuple(map(leaf_values.as_array, leaves))
    ranks = tuple(map(np.ndim, leaves))
    bare = Structure(tree, ranks, tuple(d.batch_shape), tuple(d.event_shape), np.dtype(bool))
    if dtype is None:
        dtype = _dtype_of_draw(bare, tuple(map(_abstract, leaves)), jnp.result_type(float))
    return NumPyroDistribution(leaves, dataclasses.replace(bare, dtype=np.dtype(dtype)))


def _abstract(leaf: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(leaf), jnp.result_type(leaf))


@functools.lru_cache(maxsize=1024)
def _dtype_of_draw(
    structure: Structure, leaves: tuple[jax.ShapeDtypeStruct, ...], float_dtype: Any
) -> Any:
    """The dtype of a draw; of an improper distribution, that of floats."""

    def draw(leaves: Sequence[Any], key: jax.Array) -> Any:
        return jax.tree.unflatten(structure.tree, leaves).sample(key)

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
    if type(family) not in (*_LOCATION_SCALE, *_SCALE):
        return None
    scale = jnp.broadcast_to(family.scale, d.batch_shape)
    if type(family) in _SCALE:
        return None, scale
    return jnp.broadcast_to(family.loc, d.batch_shape), scale


def _log_prob(d: Any, value: Any) -> jax.Array:
    if _is_unrestricted(d.support) and not isinstance(innermost(d), npd.ImproperUniform):
        return jnp.asarray(d.log_prob(value))
    inside = _is_inside(d, value)
    point = _feasible(d.support, jnp.shape(value), jnp.result_type(value))
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
    return _satisfies(d.support, value)


def _satisfies(constraint: Any, value: Any) -> jax.Array:
    """Whether each event satisfies a constraint, but for rounding where it is one of arrays."""
    inside = jnp.asarray(constraint(jnp.asarray(value)))
    single = constraint
    while isinstance(single, constraints.independent):
        single = single.base_constraint
    if constraint.is_discrete or not single.event_dim or _is_unrestricted(constraint):
        return inside
    try:
        transform = biject_to(constraint)
    except NotImplementedError:
        return inside
    back = transform(transform.inv(value))
    tolerance = float(jnp.finfo(value.dtype).eps) ** 0.5
    close = jnp.abs(back - value) <= tolerance * (1 + jnp.abs(value))
    return inside | close.all(tuple(range(-constraint.event_dim, 0)))


def _feasible(constraint: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A point that satisfies a constraint, or None where NumPyro knows none."""
    try:
        return jnp.asarray(constraint.feasible_like(jnp.zeros(shape, dtype))).astype(dtype)
    except NotImplementedError:
        return None


def _is_unrestricted(constraint: Any) -> bool:
    while isinstance(constraint, constraints.independent):
        constraint = constraint.base_constraint
    reals = (constraints.real, constraints.real_vector, constraints.real_matrix)
    return any(constraint is x for x in reals)


@dataclasses.dataclass(frozen=True)
class Support:
    """Support of a distribution of NumPyro.

    Attributes:
        of: The distribution.
    """

    of: NumPyroDistribution

    @property
    def _constraint(self) -> Any:
        return self.of._rebuilt().support

    @property
    def is_unrestricted(self) -> bool:
        """Whether all real numbers belong to it."""
        return _is_unrestricted(self._constraint)

    @property
    def is_discrete(self) -> bool:
        """Whether it consists of integers."""
        return self._constraint.is_discrete

    @property
    def event_ndims(self) -> int:
        """The number of axes of an event."""
        return self._constraint.event_dim

    @property
    def description(self) -> str:
        """Words for errors and tables."""
        if self.is_unrestricted:
            return "finite"
        constraint = self._constraint
        while isinstance(constraint, constraints.independent):
            constraint = constraint.base_constraint
        words = re.findall("[A-Z][a-z0-9]*", type(constraint).__name__)
        return f"numpyro.{'_'.join(words).lower()}"

    @property
    def low(self) -> Any:
        """The least integer, or None."""
        return self._bounds()[0]

    @property
    def high(self) -> Any:
        """The largest integer, or None."""
        return self._bounds()[1]

    def _bounds(self) -> tuple[Any, Any]:
        constraint = self._constraint
        if constraint is constraints.boolean:
            return 0, 1
        low, high = (getattr(constraint, f"{x}_bound", None) for x in ("lower", "upper"))
        return (low, high) if constraint.is_discrete and not constraint.event_dim else (None, None)

    def check(self, value: Any) -> jax.Array:
        """Whether each event belongs to it."""
        return self.of.apply(lambda d, x: _satisfies(d.support, x), jnp.asarray(value))

    def feasible(self, shape: tuple[int, ...] = ()) -> jax.Array:
        """A point of it for each entry of the batch; `shape` is the shape of an event."""
        of = self.of

        def point(d: Any) -> jax.Array:
            full = (*d.batch_shape, *shape)
            found = _feasible(d.support, full, of.dtype)
            return jnp.zeros(full, of.dtype) if found is None else found

        return of.apply(point)


@dataclasses.dataclass(frozen=True)
class Bijector:
    """Map from unconstrained space onto the support of a distribution of NumPyro.

    Attributes:
        of: The distribution.
    """

    of: NumPyroDistribution

    def forward(self, position: Any) -> Any:
        """The value at a position."""
        return self.of.apply(lambda d, x: _transform(d)(x), position)

    def inverse(self, value: Any) -> Any:
        """The position of a value."""
        return self.of.apply(lambda d, x: _transform(d).inv(x), value)

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """The log determinant of the Jacobian at each position."""

        def log_det(d: Any, x: Any) -> Any:
            transform = _transform(d)
            return jnp.asarray(transform.log_abs_det_jacobian(x, transform(x)))

        return self.of.apply(log_det, position)


class Identity(Bijector):
    """The map of real numbers: positions are values."""

    def forward(self, position: Any) -> Any:
        """The position."""
        return position

    def inverse(self, value: Any) -> Any:
        """The value."""
        return value

    def forward_log_det_jacobian(self, position: Any) -> jax.Array:
        """Zeros."""
        return jnp.zeros_like(position)


class Exp(Bijector):
    """The map onto positive numbers, under which a scale is a shift of positions."""


def _transform(d: Any) -> Any:
    return biject_to(d.support)


def _class_of_bijector(transform: Any) -> type[Bijector]:
    while isinstance(transform, npd.transforms.IndependentTransform):
        transform = transform.base_transform
    if isinstance(transform, npd.transforms.IdentityTransform):
        return Identity
    return Exp if isinstance(transform, npd.transforms.ExpTransform) else Bijector
