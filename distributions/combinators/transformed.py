"""Distributions of bijective functions of a random variable."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions import constraints
from distributions.bijectors import (
    Affine,
    Bijector,
    Chain,
    CholeskyFactor,
    Exp,
    Identity,
    Lower,
    Ordered,
    PositiveDefinite,
    Sigmoid,
    Softplus,
    StickBreaking,
    Upper,
)
from distributions.combinators.independent import Independent
from distributions.combinators.tfp import as_bijector
from distributions.combinators.wrapper import DerivedDistribution, as_batch, bounds
from distributions.common.arrays import promote, select
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape
from distributions.core.distribution_functions import ENDS, OPPOSITE


def _codomain(bijector: Bijector) -> Constraint | None:
    """The set onto which a bijector maps, or None where that is not known."""
    match bijector:
        case Exp() | Softplus():
            return constraints.positive
        case Lower(low):
            return constraints.greater_than(low)
        case Upper(high):
            return constraints.less_than(high)
        case Sigmoid(low, high):
            return constraints.open_interval(low, high)
        case StickBreaking():
            return constraints.open_simplex
        case Ordered():
            return constraints.ordered
        case CholeskyFactor():
            return constraints.lower_cholesky
        case PositiveDefinite():
            return constraints.positive_definite
        case Chain(parts) if parts and all(isinstance(p, Affine | Identity) for p in parts[1:]):
            return _codomain(parts[0])
    return None


@pytree_dataclass
class _Image(Constraint):
    """The image of a set under a bijector."""

    base: Constraint
    map: Bijector
    description = "in the image of the bijector"

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.base.event_ndims

    @property
    def bijector(self) -> Bijector:  # pyright: ignore[reportIncompatibleVariableOverride]
        return Chain((self.map, self.base.bijector))

    @property
    def low(self) -> Any:
        return self._ends[0]

    @property
    def high(self) -> Any:
        return self._ends[1]

    @property
    def _ends(self) -> tuple[Array, Array]:
        """The images of the ends of an interval, in increasing order."""
        if self.event_ndims:
            raise AttributeError("a set of arrays has no ends")
        a, b = promote(*(self._end(jnp.asarray(end, float)) for end in bounds(self.base)))
        return jnp.minimum(a, b), jnp.maximum(a, b)

    def _end(self, end: Array) -> Array:
        """The image of one end; of an infinite end without derivatives, which would be NaN."""
        finite = jnp.isfinite(end)
        inner = self.map.forward(select(finite, end, 0))
        limit = lax.stop_gradient(self.map.forward(end))
        return select(jnp.broadcast_to(finite, inner.shape), inner, limit)

    def check(self, value: Any) -> Any:
        value = jnp.asarray(value)
        outer = self.map.bijectors[0] if isinstance(self.map, Chain) else self.map
        codomain = _codomain(outer)
        inside = jnp.asarray(self.base.check(self.map.inverse(value)))
        if codomain is None:
            return inside
        return inside & _all(jnp.asarray(codomain.check(value)), inside.ndim)

    def feasible(self, shape: Shape = ()) -> Any:
        inner = self.map.inverse_event_shape(shape)
        base = jnp.asarray(self.base.feasible(inner))
        return self.map.forward(jnp.broadcast_to(base, np.broadcast_shapes(base.shape, inner)))


def _all(x: Array, ndim: int) -> Array:
    return x.all(tuple(range(ndim, x.ndim)))


@pytree_dataclass(eq=False, repr=False)
class TransformedDistribution(DerivedDistribution):
    r"""The distribution of `bijector.forward(x)`, with `x` from `distribution`.

    `p(y) = p0(x) / |det dy/dx|` with `x = bijector.inverse(y)`.

    Args:
        distribution: Any continuous distribution. If the bijector takes events of more axes, the
            last batch axes of the distribution become axes of the event.
        transform: A bijector: one of `distributions.bijectors`, or one of TensorFlow Probability.

    >>> import distributions as dist
    >>> normal, exp = dist.Normal(0.0, 1.0), dist.bijectors.Exp()
    >>> round(float(dist.TransformedDistribution(normal, exp).log_prob(2.0)), 4)
    -1.8523
    >>> round(float(dist.LogNormal(0.0, 1.0).log_prob(2.0)), 4)
    -1.8523

    References:
        Dillon et al., "TensorFlow Distributions" (2017), section 4.
    """

    is_closed: ClassVar[bool] = True

    distribution: Distribution
    transform: Bijector

    def _check(self) -> None:
        transform = as_bijector(self.transform)
        d = self.distribution
        object.__setattr__(self, "transform", transform)
        if d.support.is_discrete or d.support.has_atoms:
            self._fail(f"distribution must be continuous; got {d!r}")
        missing = transform.event_ndims - len(d.event_shape)
        if missing > 0:
            object.__setattr__(self, "distribution", Independent(d, missing))

    @property
    def support(self) -> Constraint:
        """The image of the distribution's support."""
        codomain = _codomain(self.transform)
        d = self.distribution
        if d.support.is_unrestricted and codomain is not None:
            return constraints.independent(codomain, len(self.event_shape) - codomain.event_ndims)
        return _Image(d.support, self.transform)

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, (0, len(self.distribution.event_shape))

    @property
    def batch_shape(self) -> Shape:
        """The batch shape of the distribution, broadcast with the parameters of the bijector."""
        d = self.distribution
        if not any(np.ndim(leaf) for leaf in jax.tree.leaves(self.transform)):
            return d.batch_shape
        draw = jax.ShapeDtypeStruct(d.batch_shape + d.event_shape, d.dtype)
        shape = jax.eval_shape(self.transform.forward, draw).shape
        return shape[: len(shape) - len(self.event_shape)]

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw."""
        return self.transform.forward_event_shape(self.distribution.event_shape)

    def _log_prob(self, value: ArrayLike) -> Array:
        (value,) = promote(value)
        event_ndims = len(self.event_shape)
        support = self.support
        front = value.shape[: value.ndim - event_ndims]
        batch = np.broadcast_shapes(front, self.batch_shape)
        value = jnp.broadcast_to(value, batch + self.event_shape)
        inside = jnp.broadcast_to(support.check(value), batch)
        within = jnp.expand_dims(inside, tuple(range(-event_ndims, 0)))
        point = jnp.asarray(support.feasible(self.event_shape), value.dtype)
        x = self.transform.inverse(select(within, value, point))
        log_prob, log_det = promote(self.distribution._log_prob(x), self._log_det(x))
        return select(inside, log_prob - log_det, -jnp.inf)

    @property
    def _reads_points(self) -> bool:
        return self.distribution._reads_points

    def _log_prob_at(self, point: Point) -> Array:
        if point.inner is None:
            return super()._log_prob_at(point)
        log_prob = self.distribution._log_prob_at(point.inner)
        return jnp.subtract(*promote(log_prob, self._log_det(point.inner.value)))

    def _log_det(self, x: Array) -> Array:
        axes = tuple(range(self.transform.event_ndims - len(self.distribution.event_shape), 0))
        return jnp.sum(self.transform.forward_log_det_jacobian(x), axis=axes)

    def _sample(self, key: Array, shape: Shape) -> Array:
        front = shape[: len(shape) - len(self.event_shape)]
        x = self.distribution._sample(key, front + self.distribution.event_shape)
        return self.transform.forward(x).astype(self.dtype)

    def _increases(self) -> Array:
        low, high = (self.distribution.support.bijector.forward(x) for x in (-0.5, 0.5))
        return self.transform.forward(high) > self.transform.forward(low)

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        value, low, high = promote(value, *bounds(self.support))
        inside = (value > low) & (value < high)
        # Elsewhere the inverse gets a point of the support, or gradients would be NaN.
        point = self.transform.forward(self.distribution.support.bijector.forward(0.0))
        value, point = promote(value, point)
        x = self.transform.inverse(select(inside, value, point))
        same, other = (getattr(self.distribution, n)(x) for n in (name, OPPOSITE[name]))
        result = select(jnp.broadcast_to(self._increases(), same.shape), same, other)
        before, after = ENDS[name]
        beyond = select(
            value <= low, before, select(value >= high, after, jnp.full_like(value, jnp.nan))
        )
        return as_batch(select(inside, result, beyond), self.batch_shape)

    def _quantile(self, q: Array) -> Array:
        q = as_batch(q, self.batch_shape)
        q = jnp.where(self._increases(), q, 1 - q)
        low, high = bounds(self.distribution.support)
        is_end = ((q == 0) & (low == -jnp.inf)) | ((q == 1) & (high == jnp.inf))
        x = self.distribution._quantile(select(is_end, 0.5, q))
        x = select(is_end, jnp.where(q == 0, -jnp.inf, jnp.inf), x)
        y = lax.stop_gradient(self.transform.forward(x))
        # Slopes at infinity, or of what overflows, are 0: a chain of derivatives would have NaN.
        inside = lax.is_finite(y) & ~is_end
        point = self.distribution.support.bijector.forward(0.0)
        return select(inside, self.transform.forward(select(inside, x, point)), y)

    def _moment(self, name: str) -> Array:
        d = self.distribution
        transform = self.transform
        event_ndims = len(self.event_shape)
        if not isinstance(transform, Affine):
            self._lacks(name)
        if name == "variance":
            variance, scale = promote(d.variance(), transform.scale)
            return as_batch(jnp.square(scale) * variance, self.batch_shape, event_ndims)
        if name == "entropy":
            return d.entropy() + self._log_det(as_batch(d.mean(), self.batch_shape, event_ndims))
        return transform.forward(d._moment(name))
