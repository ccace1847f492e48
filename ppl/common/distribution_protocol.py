"""Protocol of distributions: all that models need of one, for this library's and TFP's classes."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.common import tfp_precision
from ppl.common.tfp_precision import default_bijector, in_default_precision

# Names of the families whose event consists of independent parts.
FAMILIES_OF_PARTS = ("Independent", "IID")


def is_distribution(d: Any) -> bool:
    """Whether `d` has the methods of a distribution."""
    methods = callable(getattr(d, "log_prob", None)) and callable(getattr(d, "sample", None))
    return methods and not isinstance(d, type)


class DistributionWrapper:
    """Base class of wrappers: all methods are delegated to `base` unless overridden."""

    base: Any

    def sample(self, key: jax.Array) -> Any:
        """One draw."""
        return draw(self.base, key)

    def log_prob(self, value: Any) -> jax.Array:
        """The log density of a value."""
        return log_prob(self.base, value)

    def forward(self, position: Any) -> Any:
        """The value at an unconstrained position."""
        return forward(self.base, position)

    def inverse(self, value: Any) -> Any:
        """The unconstrained position of a value."""
        return inverse(self.base, value)

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value at an unconstrained position, and the log density of the position."""
        return constrain(self.base, position)

    def merge_known(self, value: Any) -> Any:
        """The value with its known entries set to the data, in a site observed in part."""
        return merge_known(self.base, value)

    def is_possible(self, value: Any) -> jax.Array:
        """Whether each event lies in the support, or is left out of the log density."""
        return is_possible(self.base, value)

    def count_cut_off(self, value: Any) -> Any:
        """The number of integers in a draw that are cut off at an end of their dtype."""
        return count_cut_off(self.base, value)

    @property
    def moves(self) -> bool:
        """Whether positions differ from positions of the bare distribution."""
        return isinstance(self.base, DistributionWrapper) and self.base.moves

    @property
    def support(self) -> Any:
        """The set of values with positive density, or None if the base has no `support`."""
        return getattr(self.base, "support", None)

    @property
    def bijector(self) -> Any:
        """The map from unconstrained space onto the support."""
        return bijector(self.base)


def _base(d: Any) -> Any:
    """The base of a wrapper, or None for any other distribution."""
    return getattr(d, "base", None) if isinstance(d, DistributionWrapper) else None


def num_inner_leaves(tree: Any) -> int:
    """The number of leaves of the innermost distribution, which come first in its wrappers."""
    while (data := tree.node_data()) and issubclass(data[0], DistributionWrapper):
        tree = tree.children()[0]
    return tree.num_leaves


def wrappers(tree: Any) -> Iterator[tuple[type, dict[str, Any]]]:
    """The classes of a distribution's wrappers and their static fields, outermost first.

    They are read off the structure: some families cannot be made of leaves that are not arrays.
    """
    while (data := tree.node_data()) and issubclass(data[0], DistributionWrapper):
        fields = dataclasses.fields(data[0])  # pyright: ignore[reportArgumentType]
        names = [field.name for field in fields if field.metadata.get("static")]
        yield data[0], dict(zip(names, data[1], strict=True))
        tree = tree.children()[0]


def merge_known(d: Any, value: Any) -> Any:
    """The value with its known entries set to the data, in a site observed in part."""
    return d.merge_known(value) if isinstance(d, DistributionWrapper) else value


def with_all_batch_axes(d: Any) -> Any:
    """A distribution to whose parameters `vmap` may add axes in front; TFP's know no other way."""
    if isinstance(d, DistributionWrapper):
        return dataclasses.replace(d, base=with_all_batch_axes(d.base))  # pyright: ignore
    return tfp_precision.with_all_batch_axes(d) if _is_tfp(d) else d


def forward(d: Any, position: Any) -> Any:
    """The value at an unconstrained position."""
    return (
        d.forward(position) if isinstance(d, DistributionWrapper) else bijector(d).forward(position)
    )


def inverse(d: Any, value: Any) -> Any:
    """The unconstrained position of a value."""
    return d.inverse(value) if isinstance(d, DistributionWrapper) else bijector(d).inverse(value)


def nan_outside_support(d: Any, value: Any, position: Any) -> Any:
    """The position, with NaN for events whose value is outside of the support.

    A scalar map gives NaN by itself. A map of vectors may not: the map from the simplex, for
    example, ignores the sum.
    """
    support: Any = getattr(d, "support", None)
    if not getattr(support, "event_ndims", 0) or support.is_unrestricted:
        return position
    is_inside = support.check(value)
    axes = range(jnp.ndim(is_inside), jnp.ndim(position))
    return jnp.where(jnp.expand_dims(is_inside, tuple(axes)), position, jnp.nan)


def constrain(d: Any, position: Any) -> tuple[Any, jax.Array]:
    """The value at an unconstrained position, and the log density of the position.

    The log density of a position is the log probability of its value plus the log determinant of
    the map.
    """
    if isinstance(d, DistributionWrapper):
        return d.constrain(position)
    value, volume, score = constrain_apart(d, position)
    return value, volume + sum_all(score)


def constrain_apart(d: Any, position: Any) -> tuple[Any, jax.Array, Any]:
    """The value at a position, the log determinant of the map, and the log probability."""
    if hasattr(d, "constrain_apart"):
        return d.constrain_apart(position)
    if isinstance(d, DistributionWrapper):
        value, log_density = d.constrain(position)
        score = log_prob(d, value)
        return value, log_density - sum_all(jnp.where(score == -jnp.inf, 0, score)), score
    b = bijector(d)
    if hasattr(d, "at_position"):
        value, score = d.at_position(position)
    else:
        value = b.forward(position)
        score = log_prob(d, value)
    return value, sum_all(log_det(b, position)), score


def transform(d: Any) -> Any:
    """The transform of a transformed distribution, or None for any other distribution.

    In TFP, this is the attribute `bijector`. In this library, `bijector` is the map onto the
    support, and the transform is the attribute `transform`.
    """
    if _is_tfp(d):
        return getattr(d, "bijector", None) if hasattr(d, "distribution") else None
    return d.transform if name_of(d) == "TransformedDistribution" else None


def sum_all(x: jax.Array) -> jax.Array:
    """The sum of all elements; a scalar is returned as it is, to trace nothing."""
    return jnp.sum(x) if jnp.ndim(x) else x


def _is_tfp(d: Any) -> bool:
    return hasattr(d, "experimental_default_event_space_bijector")


def name_of(d: Any) -> str:
    """The name of the family, through wrappers."""
    base = _base(d)
    if base is not None:
        return name_of(base)
    return getattr(d, "family_name", type(d).__name__)


def parts_of_joint(d: Any, value: Any) -> list[tuple[Any, Any]] | None:
    """The parts of a pytree of distributions, each with its value; None for any other."""
    while (base := _base(d)) is not None:
        d = base
    if name_of(d) != "Joint":
        return None
    parts, tree = jax.tree.flatten(d.parts, is_leaf=is_distribution)
    return list(zip(parts, tree.flatten_up_to(value), strict=True))


def part_of(d: Any) -> Any:
    """The distribution of one independent part, if a distribution has such parts; else itself."""
    return part_of(d.distribution) if name_of(d) in FAMILIES_OF_PARTS else d


def draw(d: Any, key: jax.Array) -> Any:
    """One draw; `count_cut_off` counts the integers in it that are cut off."""
    if _is_tfp(d):
        return in_default_precision(d).sample(seed=key)
    return getattr(d, "sample_unchecked", d.sample)(key)


def has_draws(d: Any) -> bool:
    """Whether a distribution can be drawn from; an improper one cannot. Nothing is evaluated."""
    try:
        jax.eval_shape(lambda: draw(d, jax.random.key(0)))
    except NotImplementedError:
        return False
    return True


def count_cut_off(d: Any, value: Any) -> Any:
    """The number of integers in a draw that are cut off at an end of their dtype; 0 if unknown."""
    if isinstance(d, DistributionWrapper):
        return d.count_cut_off(value)
    return d.count_cut_off(value) if hasattr(d, "count_cut_off") else 0


def abstract_draw(d: Any, key: Any) -> Any:
    """Shape and dtype of a draw; the sampler is traced only if the distribution lacks them."""
    dtype = getattr(d, "dtype", None)
    try:
        return jax.ShapeDtypeStruct((*map(int, d.batch_shape), *map(int, d.event_shape)), dtype)
    except (AttributeError, TypeError, ValueError):  # A joint distribution, or no shapes.
        return jax.eval_shape(lambda k: draw(d, k), key)


def shape_of(d: Any) -> tuple[int, ...] | None:
    """The shape of a draw, or None if it is not a single array."""
    drawn = abstract_draw(d, jax.eval_shape(lambda: jax.random.key(0)))
    return drawn.shape if isinstance(drawn, jax.ShapeDtypeStruct) else None


def repeat(d: Any, shape: tuple[int, ...]) -> Any:
    """Independent copies of a distribution, with `shape` in front of its batch axes."""
    if not shape:
        return d
    size, *rest = shape
    d = with_all_batch_axes(in_default_precision(d))
    return jax.vmap(lambda _: repeat(d, tuple(rest)))(jnp.zeros(size))


def log_prob(d: Any, value: Any) -> jax.Array:
    """The log density of a value, -inf outside of the support."""
    return _tfp_log_prob(d, value) if _is_tfp(d) else d.log_prob(value)


class Parts(DistributionWrapper):
    """A distribution with a log probability for each independent part of its event."""

    def __init__(self, base: Any):
        self.base = base

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability of each part."""
        return log_prob_by_part(self.base, value)


def log_prob_by_part(d: Any, value: Any) -> jax.Array:
    """The log density of each independent part of an event, behind the axes of the batch."""
    if hasattr(d, "log_prob_by_part"):
        return d.log_prob_by_part(value)
    if isinstance(d, DistributionWrapper):
        inner: Any = dataclasses.replace(d, base=Parts(d.base))  # pyright: ignore
        return log_prob(inner, value) if name_of(d) in FAMILIES_OF_PARTS else log_prob(d, value)
    if name_of(d) not in FAMILIES_OF_PARTS:
        return log_prob(d, value)
    if name_of(d) == "Independent":
        return log_prob_by_part(d.distribution, value)
    num = len(d.sample_shape)
    start = jnp.ndim(value) - len(d.event_shape)
    copies = jnp.moveaxis(value, range(start, start + num), range(num))
    found = log_prob_by_part(d.distribution, copies)
    return jnp.moveaxis(found, range(num), range(start, start + num))


def bijector(d: Any) -> Any:
    """The map from unconstrained space onto the support.

    Raises:
        NotImplementedError: If there is no such map, as for a discrete distribution.
    """
    if not _is_tfp(d):
        if not hasattr(d, "bijector"):
            raise NotImplementedError(f"{name_of(d)} has no bijector.")
        return d.bijector
    found = default_bijector(in_default_precision(d))
    if found is None:
        raise NotImplementedError(f"{name_of(d)} is discrete.")
    return found


def in_support(d: Any, value: Any) -> Any:
    """Whether each event of a value lies in the support; True if nothing bounds it."""
    while (base := _base(d)) is not None:
        d = base
    support = getattr(d, "support", None)
    if support is not None:
        return True if support.is_unrestricted else support.check(value)
    try:  # TFP's maps give NaN outside of the support.
        position = inverse(d, value) if jax.tree_util.all_leaves([value]) else None
    except NotImplementedError:  # It is discrete.
        return True
    return True if position is None or is_real(d) else ~jnp.isnan(position)


def is_possible(d: Any, value: Any) -> Any:
    """Whether each event of a value lies in the support, or is left out of the log density."""
    if isinstance(d, DistributionWrapper):
        return d.is_possible(value)
    inside = in_support(d, value)
    if getattr(d, "ignores_values", False):
        inside = is_finite(d, value) if inside is True else inside
        inside = inside | (log_prob(d, value) > -jnp.inf)
    return inside


def is_finite(d: Any, value: jax.Array) -> jax.Array:
    """Whether all entries of each event are finite; each entry, where events have no shape."""
    while (base := _base(d)) is not None:
        d = base
    num_axes = len(getattr(d, "event_shape", ()))
    return jnp.isfinite(value).all(tuple(range(value.ndim - num_axes, value.ndim)))


def replace_outside_support(d: Any, value: Any, log_prob: jax.Array) -> Any:
    """The value, with events outside of the support replaced by a point of the support.

    Later sites are then scored at valid parameters, so that neither the total, which is -inf, nor
    its gradient becomes NaN. Events that a mask leaves out of the total are not replaced.
    """
    value = merge_known(d, value)
    support = getattr(d, "support", None)
    if support is None or support.is_unrestricted:
        return value
    event_ndims = support.event_ndims
    inside = support.check(value)
    if getattr(d, "ignores_values", False):
        inside = inside | (log_prob > -jnp.inf)
    inside = jnp.expand_dims(inside, tuple(range(-event_ndims, 0)))
    point = support.feasible(value.shape[value.ndim - event_ndims :])
    point = jnp.broadcast_to(jnp.asarray(point, value.dtype), value.shape)
    return lax.select(jnp.broadcast_to(inside, value.shape), value, point)


def num_event_axes(d: Any) -> int:
    """The number of axes of one draw."""
    base = _base(d)
    return len(d.event_shape) if base is None else num_event_axes(base)


def is_real(d: Any) -> bool:
    """Whether values are unconstrained, so that values are positions."""
    support = getattr(d, "support", None)
    if support is not None:
        return support.is_unrestricted
    return type(bijector(d)).__name__ == "Identity"


def feasible_point(d: Any, like: Any) -> Any:
    """A point of the support, broadcast to the shape and dtype of an array."""
    if (base := _base(d)) is not None:
        return feasible_point(base, like)
    support = getattr(d, "support", None)
    if support is not None:
        event_ndims = support.event_ndims
        point = support.feasible(like.shape[like.ndim - event_ndims :])
        return jnp.broadcast_to(jnp.asarray(point, like.dtype), like.shape)
    try:
        return bijector(d).forward(jnp.zeros_like(inverse(d, like)))
    except NotImplementedError:
        return jnp.zeros_like(like)


def log_det(b: Any, position: Any) -> jax.Array:
    """The log determinants of the Jacobian of a bijector at unconstrained positions."""
    if hasattr(b, "forward_min_event_ndims"):
        return b.forward_log_det_jacobian(position, b.forward_min_event_ndims)
    return b.forward_log_det_jacobian(position)


def _tfp_log_prob(d: Any, value: Any) -> jax.Array:
    """The log density of a TFP distribution, -inf outside of the support.

    TFP gives NaN at many values outside of the support. The map to unconstrained space gives NaN
    too, by which these values are found. They are replaced by a point of the support before they
    are scored, so that gradients are finite.
    """
    d = in_default_precision(d)  # Leaves of known value are NumPy arrays here.
    try:
        b = bijector(d)
    except NotImplementedError:
        return d.log_prob(value)
    if is_real(d) or not jax.tree_util.all_leaves([value]):
        return d.log_prob(value)
    position = b.inverse(value)
    event_axes = range(value.ndim - len(d.event_shape), value.ndim)
    inside = ~jnp.isnan(position).any(tuple(range(event_axes.start, position.ndim)))
    feasible = b.forward(jnp.zeros_like(position))
    safe = jnp.where(jnp.expand_dims(inside, tuple(event_axes)), value, feasible)
    return jnp.where(inside, d.log_prob(safe), -jnp.inf)
