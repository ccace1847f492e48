"""Mixtures of one family, whose components stand along the last batch axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.combinators.mixture import DIFFERENT_EVENTS, MixtureBase
from distributions.combinators.support_union import hull
from distributions.combinators.tfp import as_distribution
from distributions.common.arrays import align
from distributions.common.pytree import pytree_dataclass
from distributions.constraints import Constraint
from distributions.core.distribution import Distribution, Shape
from distributions.discrete.categorical import Categorical


@pytree_dataclass(eq=False, repr=False)
class MixtureSameFamily(MixtureBase):
    r"""Mixture of the distributions along the last batch axis of `components_distribution`.

    `p(x) = sum_k w_k p_k(x)`, where `w` are the probabilities of `mixture_distribution` and `k`
    runs over the last batch axis of the components. The support is the smallest set of its kind
    that holds the supports of all components.

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
        mixture = self.mixture_distribution
        if not isinstance(mixture, Categorical):
            self._fail(f"mixture_distribution must be a Categorical; got {mixture!r}")
        components = as_distribution(
            "MixtureSameFamily", "components_distribution", self.components_distribution
        )
        object.__setattr__(self, "components_distribution", components)
        count = self.num_components
        inner = components.batch_shape
        if inner[-1:] != (count,):
            self._fail(
                f"{count} categories need components of batch shape (..., {count}); got {inner}"
            )
        try:
            _ = self.batch_shape
        except ValueError:
            shapes = f"{mixture.batch_shape} of the weights and {inner[:-1]} of the components"
            self._fail(f"the batch shapes {shapes} do not broadcast")

    @property
    def support(self) -> Constraint:
        """The set of values with positive density."""
        d = self.components_distribution
        found = hull(d.support, d.batch_shape + d.event_shape)
        if found is None:
            self._fail(DIFFERENT_EVENTS)
        return found

    def _event_ranks(self) -> tuple[int, Shape]:
        return 0, (0, 1)

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

    @property
    def _are_reparameterized(self) -> bool:
        return self.components_distribution.is_reparameterized

    @property
    def _reads_points(self) -> bool:
        return self.components_distribution._reads_points

    def _each(self, method: str, *value: Any) -> Array:
        event_ndims = len(self.event_shape)
        batch_ndims = len(self.batch_shape)

        def spread(v: Array) -> Array:
            aligned = align(v, event_ndims, max(v.ndim - event_ndims, batch_ndims))
            return jnp.expand_dims(aligned, -1 - event_ndims)

        return getattr(self.components_distribution, method)(*jax.tree.map(spread, value))

    def _draws(self, key: Array, front: Shape) -> Array:
        every = (*front, self.num_components, *self.event_shape)
        return self.components_distribution._sample(key, every)
