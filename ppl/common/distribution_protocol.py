"""All that the language needs of a distribution, and how TensorFlow Probability's give it."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.common.tfp_precision import default_bijector, in_default_precision

FAMILIES_OF_PARTS = (
    "Independent",
    "IID",
)  # families of one event of independent parts, by their names


def is_distribution(d: Any) -> bool:
    """Whether `d` has the methods of a distribution."""
    methods = callable(getattr(d, "log_prob", None)) and callable(getattr(d, "sample", None))
    return methods and not isinstance(d, type)


class DistributionWrapper:
    """A distribution that differs from its `base` in a part of what the language asks of it."""

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
        """The value with what is known of it."""
        return merge_known(self.base, value)

    @property
    def moves(self) -> bool:
        """Whether positions are others than those of the distribution by itself."""
        return isinstance(self.base, DistributionWrapper) and self.base.moves

    @property
    def support(self) -> Any:
        """The set of values with positive density, or None where it is not told."""
        return getattr(self.base, "support", None)

    @property
    def bijector(self) -> Any:
        """The map from unconstrained space onto the support."""
        return bijector(self.base)


def _base(d: Any) -> Any:
    """What a wrapper stands around, if anything."""
    return getattr(d, "base", None) if isinstance(d, DistributionWrapper) else None


def merge_known(d: Any, value: Any) -> Any:
    """The value with what is known of it."""
    return d.merge_known(value) if isinstance(d, DistributionWrapper) else value


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

    Of a scalar the map itself says so; the map from a simplex, say, forgets what the sum is.
    """
    support: Any = getattr(d, "support", None)
    if not getattr(support, "event_ndims", 0) or support.is_unrestricted:
        return position
    is_inside = support.check(value)
    axes = range(jnp.ndim(is_inside), jnp.ndim(position))
    return jnp.where(jnp.expand_dims(is_inside, tuple(axes)), position, jnp.nan)


def constrain(d: Any, position: Any) -> tuple[Any, jax.Array]:
    """The value at an unconstrained position, and the log density of the position.

    That is the log probability of the value plus the log determinant of the map.
    """
    if isinstance(d, DistributionWrapper):
        return d.constrain(position)
    b = bijector(d)
    value = b.forward(position)
    return value, sum_all(log_det(b, position)) + sum_all(log_prob(d, value))


def transform(d: Any) -> Any:
    """The map that makes a transformed distribution of another one; None of all others.

    TFP's and those that it derives have it as a bijector, which ours has to its support.
    """
    if _is_tfp(d):
        return getattr(d, "bijector", None) if hasattr(d, "distribution") else None
    return d.transform if name_of(d) == "TransformedDistribution" else None


def sum_all(x: jax.Array) -> jax.Array:
    """The sum of all elements; of one element, nothing that must be traced."""
    return jnp.sum(x) if jnp.ndim(x) else x


def _is_tfp(d: Any) -> bool:
    return hasattr(d, "experimental_default_event_space_bijector")


def name_of(d: Any) -> str:
    """The family's name."""
    base = _base(d)
    return type(d).__name__ if base is None else name_of(base)


def part_of(d: Any) -> Any:
    """The distribution of one part, where a distribution is of independent parts; else itself."""
    return part_of(d.distribution) if name_of(d) in FAMILIES_OF_PARTS else d


def draw(d: Any, key: jax.Array) -> Any:
    """One draw."""
    return in_default_precision(d).sample(seed=key) if _is_tfp(d) else d.sample(key)


def abstract_draw(d: Any, key: Any) -> Any:
    """Shape and dtype of a draw, without tracing the sampler where the distribution tells them."""
    dtype = getattr(d, "dtype", None)
    try:
        return jax.ShapeDtypeStruct((*map(int, d.batch_shape), *map(int, d.event_shape)), dtype)
    except (AttributeError, TypeError, ValueError):  # A joint one, or one that tells nothing.
        return jax.eval_shape(lambda k: draw(d, k), key)


def log_prob(d: Any, value: Any) -> jax.Array:
    """The log density of a value, -inf outside of the support."""
    return _tfp_log_prob(d, value) if _is_tfp(d) else d.log_prob(value)


def bijector(d: Any) -> Any:
    """The map from unconstrained space onto the support.

    Raises:
        NotImplementedError: If there is none, as for a discrete distribution.
    """
    if not _is_tfp(d):
        if not hasattr(d, "bijector"):
            raise NotImplementedError(f"{name_of(d)} has no bijector.")
        return d.bijector
    found = default_bijector(in_default_precision(d))
    if found is None:
        raise NotImplementedError(f"{name_of(d)} is discrete.")
    return found


def replace_outside_support(d: Any, value: Any, log_prob: jax.Array) -> Any:
    """The value, or a point of the support where it is outside.

    Whatever depends on a value outside of its support is then scored at a point where it has a
    meaning, so that neither the total of -inf nor its gradient becomes NaN. Where a mask leaves the
    value out of the total, the value stays.
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
    """Whether values are unconstrained, so that they are positions themselves."""
    support = getattr(d, "support", None)
    if support is not None:
        return support.is_unrestricted
    return type(bijector(d)).__name__ == "Identity"


def feasible_point(d: Any, like: Any) -> Any:
    """A point of the support, for each entry of an array."""
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
    """The log density of a TFP distribution, which by itself is NaN at many values off the support.

    There the map to unconstrained space is NaN too; a point of the support is scored in their
    place, so that gradients are finite.
    """
    d = in_default_precision(d)  # Known leaves are arrays of NumPy here.
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
