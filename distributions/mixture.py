"""Mixtures of distributions of one family."""

from __future__ import annotations

import dataclasses
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions._arrays import align, promote
from distributions._pytree import pytree_dataclass
from distributions.categories import Categorical
from distributions.constraints import Constraint
from distributions.distribution import Distribution, Shape
from distributions.special import safe_log


def _hull(support: Constraint, shape: Shape) -> Constraint:
    """The smallest set of the kind of `support` that holds it along the last batch axis."""
    names = [name for name in ("low", "high") if hasattr(support, name)]
    bounds = {name: getattr(support, name) for name in names}
    if not any(np.ndim(bound) for bound in bounds.values()):
        return support
    full = {name: jnp.broadcast_to(bound, shape) for name, bound in bounds.items()}
    merged = {name: (jnp.min if name == "low" else jnp.max)(b, -1) for name, b in full.items()}
    return dataclasses.replace(support, **merged)  # pyright: ignore[reportArgumentType]


@pytree_dataclass(eq=False, repr=False)
class MixtureSameFamily(Distribution):
    r"""Mixture of the distributions along the last batch axis of `components_distribution`.

    `p(x) = sum_k w_k p_k(x)`, where `w` are the probabilities of `mixture_distribution` and `k`
    runs over the last batch axis of the components. The support is that of the components, or the
    smallest set of its kind that holds all of theirs.

    Args:
        mixture_distribution: A `Categorical` over the components.
        components_distribution: The components; the last axis of its batch shape has as many
            entries as there are categories.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> weights = dist.Categorical(probs=jnp.array([0.5, 0.5]))
    >>> mixture = dist.MixtureSameFamily(weights, dist.Normal(jnp.array([-1.0, 1.0]), 1.0))
    >>> round(float(mixture.log_prob(0.0)), 4)
    -1.4189

    References:
        McLachlan and Peel, *Finite Mixture Models* (2000), section 1.2.
    """

    mixture_distribution: Categorical
    components_distribution: Distribution

    def __post_init__(self) -> None:
        """Checks the kinds and the shapes of the parts."""
        mixture, components = self.mixture_distribution, self.components_distribution
        if not isinstance(mixture, Categorical):
            self._fail(f"mixture_distribution must be a Categorical; got {mixture!r}")
        if not isinstance(components, Distribution):
            self._fail(f"components_distribution must be a Distribution; got {components!r}")
        count, inner = self.num_components, components.batch_shape
        if inner[-1:] != (count,):
            self._fail(
                f"{count} categories need components of batch shape (..., {count}); got {inner}"
            )
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = f"{mixture.batch_shape} of the weights and {inner[:-1]} of the components"
            self._fail(f"the batch shapes {shapes} do not broadcast")

    def _fail(self, message: str) -> NoReturn:
        raise ValueError(f"MixtureSameFamily: {message}")

    @property
    def num_components(self) -> int:
        """The number of components."""
        return np.shape(self._weights)[-1]

    @property
    def _weights(self) -> Any:
        mixture = self.mixture_distribution
        return mixture.probs if mixture.logits is None else mixture.logits

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        return _hull(self.components_distribution.support, self.components_distribution.batch_shape)

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent mixtures."""
        return np.broadcast_shapes(
            self.mixture_distribution.batch_shape, self.components_distribution.batch_shape[:-1]
        )

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one component."""
        return self.components_distribution.event_shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the components' draws."""
        return self.components_distribution.dtype

    def _log_weights(self, batch_ndims: int) -> Array:
        weights = jnp.asarray(self._weights)
        log = (
            safe_log(weights)
            if self.mixture_distribution.logits is None
            else jax.nn.log_softmax(weights)
        )
        return align(log, 1, batch_ndims)

    def _log_prob(self, value: ArrayLike) -> Array:
        value = jnp.asarray(value)
        batch_ndims = max(value.ndim - len(self.event_shape), len(self.batch_shape))
        value = jnp.expand_dims(
            align(value, len(self.event_shape), batch_ndims), -1 - len(self.event_shape)
        )
        log_probs = self.components_distribution.log_prob(value)
        return _log_sum_exp(jnp.add(*promote(log_probs, self._log_weights(batch_ndims))))

    def _sample(self, key: Array, shape: Shape) -> Array:
        key_index, key_value = random.split(key)
        event_ndims = len(self.event_shape)
        front = shape[: len(shape) - event_ndims]
        index = self.mixture_distribution._sample(key_index, front)
        every = (*front, self.num_components, *self.event_shape)
        draws = self.components_distribution._sample(key_value, every)
        index = jnp.expand_dims(index, tuple(range(-1 - event_ndims, 0)))
        return jnp.take_along_axis(draws, index, axis=-1 - event_ndims).reshape(shape)

    def mean(self) -> Array:
        """The weighted mean of the components' means."""
        return self._average(self.components_distribution.mean())

    def variance(self) -> Array:
        """The mean of the components' variances plus the variance of their means."""
        means, variances = (
            self.components_distribution.mean(),
            self.components_distribution.variance(),
        )
        deviations = means - jnp.expand_dims(self.mean(), -1 - len(self.event_shape))
        return self._average(variances + jnp.square(deviations))

    def _average(self, values: Array) -> Array:
        event_ndims, batch_ndims = len(self.event_shape), len(self.batch_shape)
        weights = jnp.expand_dims(
            jnp.exp(self._log_weights(batch_ndims)), tuple(range(-event_ndims, 0))
        )
        return jnp.sum(weights * align(values, 1 + event_ndims, batch_ndims), axis=-1 - event_ndims)


def _log_sum_exp(x: Array) -> Array:
    """Along the last axis; the gradient is zero where every entry is `-inf`."""
    impossible = (x == -jnp.inf).all(-1)
    total = jax.nn.logsumexp(jnp.where(impossible[..., None], 0, x), axis=-1)
    return jnp.where(impossible, -jnp.inf, total)
