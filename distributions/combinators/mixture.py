"""Mixtures of distributions, of one family or of several."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.combinators.support_union import union
from distributions.combinators.tfp import as_distribution
from distributions.combinators.wrapper import as_batch
from distributions.common.arrays import align, common_dtype, promote, select
from distributions.common.point import Point
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape
from distributions.core.quantile import reparameterize
from distributions.discrete.categorical import Categorical
from distributions.numerics.special import log_weighted_sum

DIFFERENT_EVENTS = (
    "the supports of the components differ, and are not intervals (nor have they the same atoms)"
)


class MixtureBase(Distribution):
    """Base of mixtures; values of the components stand along one more axis, last of the batch."""

    is_closed: ClassVar[bool] = True

    mixture_distribution: Categorical

    @property
    @abc.abstractmethod
    def _are_reparameterized(self) -> bool:
        """Whether draws of all components are reparameterized."""

    @abc.abstractmethod
    def _each(self, method: str, *value: Any) -> Array:
        """The results of a method for all components, stacked behind the batch."""

    @abc.abstractmethod
    def _draws(self, key: Array, front: Shape) -> Array:
        """A draw of every component, of shape `(*front, num_components, *event_shape)`."""

    def _fail(self, message: str) -> NoReturn:
        raise ValueError(f"{type(self).__name__}: {message}")

    @property
    def num_components(self) -> int:
        """The number of components."""
        return np.shape(self._weights)[-1]

    @property
    def _weights(self) -> Any:
        mixture = self.mixture_distribution
        return mixture.probs if mixture.logits is None else mixture.logits

    @property
    def _has_probs(self) -> bool:
        return self.mixture_distribution.logits is None

    def _log_weights(self, ndim: int) -> Array:
        """Logarithms of the weights of a mixture that has logits."""
        return align(jax.nn.log_softmax(jnp.asarray(self._weights)), 1, ndim - 1)

    def _probs(self, ndim: int) -> Array:
        weights = jnp.asarray(self._weights)
        probs = weights if self._has_probs else jax.nn.softmax(weights)
        return align(probs, 1, ndim - 1)

    def _log_prob(self, value: ArrayLike) -> Array:
        return self._log_sum("log_prob", value)

    def _log_prob_at(self, point: Point) -> Array:
        return self._log_sum("_log_prob_at", point.without_inner())

    def _log_sum(self, method: str, value: Any) -> Array:
        each = self._each(method, jax.tree.map(jnp.asarray, value))
        if self._has_probs:
            each, probs = promote(each, self._probs(each.ndim))
            return log_weighted_sum(probs, each)
        return _log_sum_exp(jnp.add(*promote(each, self._log_weights(each.ndim))))

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        log = self._log_sum("log_" + name.removeprefix("log_"), value)
        return log if name.startswith("log_") else jnp.exp(log)

    @property
    def is_reparameterized(self) -> bool:
        """Whether draws have the implicit derivatives of quantiles: only for continuous numbers."""
        return self._are_reparameterized and not self.event_shape

    def _sample(self, key: Array, shape: Shape) -> Array:
        key_index, key_value = random.split(key)
        event_ndims = len(self.event_shape)
        front = shape[: len(shape) - event_ndims]
        index = self.mixture_distribution._sample(key_index, front)
        index = jnp.expand_dims(index, tuple(range(-1 - event_ndims, 0)))
        draws = self._draws(key_value, front)
        draw = jnp.take_along_axis(draws, index, axis=-1 - event_ndims).reshape(shape)
        if not self.is_reparameterized:
            return draw
        return reparameterize(self, lax.stop_gradient(draw))

    def _moment(self, name: str) -> Array:
        if name == "mean":
            return self._average(self._each("mean"))
        if name != "variance":
            self._lacks(name)
        means = self._each("mean")
        variances = self._each("variance")
        deviations = means - jnp.expand_dims(self.mean(), -1 - len(self.event_shape))
        return self._average(variances + jnp.square(deviations))

    def _average(self, values: Array) -> Array:
        event_ndims = len(self.event_shape)
        batch_ndims = len(self.batch_shape)
        weights = self._probs(batch_ndims + 1)
        weights = jnp.expand_dims(weights, tuple(range(-event_ndims, 0)))
        values = align(values, 1 + event_ndims, batch_ndims)
        return jnp.sum(weights * values, axis=-1 - event_ndims)


@pytree_dataclass(eq=False, repr=False)
class Mixture(MixtureBase):
    r"""Mixture of distributions of any families.

    `p(x) = sum_k w_k p_k(x)`, where `w` are the probabilities of `mixture_distribution`. The
    support is the common support of the components; for numbers with different supports, it is the
    smallest interval that holds all.

    Args:
        mixture_distribution: A `Categorical` over the components.
        components: A list of distributions of one event shape, all continuous or all discrete,
            whose batch shapes broadcast.

    >>> import distributions as dist
    >>> weights = dist.Categorical(probs=[0.75, 0.25])
    >>> mixture = dist.Mixture(weights, [dist.Normal(0.0, 1.0), dist.Cauchy(0.0, 1.0)])
    >>> round(float(mixture.log_prob(0.0)), 4)
    -0.9708

    References:
        McLachlan and Peel, *Finite Mixture Models* (2000), section 1.2.
    """

    mixture_distribution: Categorical
    components: Sequence[Distribution]

    def __post_init__(self) -> None:
        """Checks the kinds and the shapes of the parts."""
        mixture = self.mixture_distribution
        if not isinstance(mixture, Categorical):
            self._fail(f"mixture_distribution must be a Categorical; got {mixture!r}")
        if not isinstance(self.components, list | tuple) or not self.components:
            self._fail(f"components must be a list of distributions; got {self.components!r}")
        components = tuple(as_distribution("Mixture", "components", c) for c in self.components)
        object.__setattr__(self, "components", components)
        if len(components) != self.num_components:
            self._fail(f"{self.num_components} categories, but {len(components)} components")
        events = {c.event_shape for c in components}
        if len(events) > 1:
            self._fail(f"the components differ in event_shape: {sorted(events)}")
        if len({c.support.is_discrete for c in components}) > 1:
            self._fail("some components are discrete and some are continuous")
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = [mixture.batch_shape, *(c.batch_shape for c in components)]
            self._fail(f"the batch shapes of weights and components do not broadcast: {shapes}")
        _ = self.support

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        found = union([c.support for c in self.components])
        if found is None:
            self._fail(DIFFERENT_EVENTS)
        return found

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent mixtures."""
        shapes = (c.batch_shape for c in self.components)
        return np.broadcast_shapes(self.mixture_distribution.batch_shape, *shapes)

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of a component."""
        return self.components[0].event_shape

    @property
    def dtype(self) -> np.dtype:
        """The promoted dtype of the components' draws."""
        return common_dtype(*(np.empty((), c.dtype) for c in self.components))

    @property
    def _are_reparameterized(self) -> bool:
        return all(c.is_reparameterized for c in self.components)

    @property
    def _reads_points(self) -> bool:
        return any(c._reads_points for c in self.components)

    def _each(self, method: str, *value: Any) -> Array:
        results = [getattr(c, method)(*value) for c in self.components]
        event_ndims = len(self.event_shape) if method in ("mean", "variance") else 0
        results = [as_batch(r, self.batch_shape, event_ndims) for r in promote(*results)]
        return jnp.stack(results, -1 - event_ndims)

    def _draws(self, key: Array, front: Shape) -> Array:
        shape = front + self.event_shape
        keys = random.split(key, self.num_components)
        draws = [c._sample(k, shape) for c, k in zip(self.components, keys, strict=True)]
        return jnp.stack(promote(*draws, dtype=self.dtype), -1 - len(self.event_shape))


@jax.custom_jvp
def _log_sum_exp(x: Array) -> Array:
    """`log(sum(exp(x)))` along the last axis; its gradient is zero where every entry is `-inf`."""
    _, total, most = _exponentials(x)
    return jnp.log(total) + most


def _exponentials(x: Array) -> tuple[Array, Array, Array]:
    """`exp(x - m)`, their sum, and `m`: the greatest entry, or 0 if it is infinite."""
    most = lax.stop_gradient(jnp.max(x, -1, keepdims=True))
    most = select(lax.is_finite(most), most, 0)
    parts = jnp.exp(x - most)
    return parts, jnp.sum(parts, -1), most[..., 0]


@_log_sum_exp.defjvp
def _log_sum_exp_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    parts, total, most = _exponentials(*primals)
    share = 1 / select(total > 0, total, 1)
    return jnp.log(total) + most, jnp.sum(parts * share[..., None] * tangents[0], -1)
