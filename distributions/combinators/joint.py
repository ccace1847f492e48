"""Joint distributions: a pytree of independent distributions as one."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, random

from distributions.common.pytree import pytree_dataclass
from distributions.core.distribution import Distribution


def _is_distribution(x: Any) -> bool:
    return isinstance(x, Distribution)


@pytree_dataclass(eq=False, repr=False)
class Joint:
    """The joint distribution of independent variables: a pytree with distributions as leaves.

    A draw is a pytree of draws, such as the weights of a network, and the log density is the sum
    over all entries of all leaves. So the batch axes of a part belong to the event.

    Args:
        parts: A pytree whose leaves are distributions, each continuous or discrete.

    Raises:
        TypeError: If a leaf is no distribution of this library, or there is none.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> d = dist.Joint({"w": dist.Normal(jnp.zeros((2, 3)), 1.0), "b": dist.Normal(0.0, 1.0)})
    >>> round(float(d.log_prob({"w": jnp.zeros((2, 3)), "b": 0.0})), 4)  # 7 normal variables
    -6.4326

    References:
        Dillon et al., "TensorFlow Distributions" (2017), section 3.
    """

    parts: Any

    def __post_init__(self) -> None:
        """Checks the leaves."""
        leaves = jax.tree.leaves(self.parts, is_leaf=_is_distribution)
        wrong = [leaf for leaf in leaves if not _is_distribution(leaf)]
        nested = jax.tree.leaves(self.parts, is_leaf=lambda x: isinstance(x, Joint))
        if any(isinstance(x, Joint) for x in nested):
            raise TypeError("Joint: a part is a Joint; put its own parts in its place")
        if wrong or not leaves:
            got = f"a {type(wrong[0]).__name__}" if wrong else "none"
            raise TypeError(f"Joint: parts must be a pytree of distributions; got {got} among them")

    def __repr__(self) -> str:
        return f"Joint({self.parts!r})"

    def sample(self, key: Array, sample_shape: tuple[int, ...] | int = ()) -> Any:
        """Draws, a pytree of arrays `sample_shape + batch_shape + event_shape` of each part."""
        return self._draw("sample", key, sample_shape)

    def sample_unchecked(self, key: Array, sample_shape: tuple[int, ...] | int = ()) -> Any:
        """Draws of `sample`, without a look at their values and so without a warning."""
        return self._draw("sample_unchecked", key, sample_shape)

    def _draw(self, method: str, key: Array, sample_shape: Any) -> Any:
        number = len(jax.tree.leaves(self.parts, is_leaf=_is_distribution))
        keys = iter(random.split(key, number))
        return self._map(lambda d: getattr(d, method)(next(keys), sample_shape))

    def count_cut_off(self, draws: Any) -> Any:
        """The number of draws at an end of their dtype, or infinite, where the support goes on."""
        return sum(jax.tree.leaves(self._map(lambda d, x: d.count_cut_off(x), draws)))

    def log_prob(self, value: Any) -> Array:
        """The log density of a pytree of values, summed over all entries but leading axes.

        Args:
            value: A pytree as `parts`, with arrays in place of the distributions.
        """
        return self._sum(lambda d, x: d.log_prob(x), value)

    def at_position(self, position: Any) -> tuple[Any, Array]:
        """The values at unconstrained positions, and their log density, as precise as these."""
        pairs = self._map(lambda d, y: d.at_position(y), position)
        value, scores = (
            jax.tree.map(lambda _, pair, i=i: pair[i], self.parts, pairs, is_leaf=_is_distribution)
            for i in range(2)
        )
        return value, self._sum(lambda d, score: score, scores)

    def mean(self) -> Any:
        """The means of the parts."""
        return self._map(lambda d: d.mean())

    def variance(self) -> Any:
        """The variances of the parts."""
        return self._map(lambda d: d.variance())

    def mode(self) -> Any:
        """The modes of the parts."""
        return self._map(lambda d: d.mode())

    def entropy(self) -> Array:
        """The sum of the entropies of the parts."""
        entropies = jax.tree.leaves(self._map(lambda d: jnp.sum(d.entropy())))
        return reduce(operator.add, entropies)

    @property
    def bijector(self) -> _Each:
        """The map from unconstrained space onto the support, part by part.

        Raises:
            NotImplementedError: A part is discrete.
        """
        self._map(lambda d: d.bijector)  # raises for a discrete one
        return _Each(self)

    def _map(self, f: Callable[..., Any], *trees: Any) -> Any:
        expected = jax.tree.structure(self.parts, is_leaf=_is_distribution)
        for tree in trees:
            if jax.tree.structure(tree) != expected:
                raise ValueError(
                    f"Joint: expected a value for each part, {expected}; got "
                    f"{jax.tree.structure(tree)}"
                )
        return jax.tree.map(f, self.parts, *trees, is_leaf=_is_distribution)

    def _sum(self, terms: Callable[[Distribution, Any], Array], value: Any) -> Array:
        """The sum of terms of each batch of the parts, over the axes of the batch."""

        def total(d: Distribution, x: Any) -> Array:
            found = jnp.asarray(terms(d, x))
            return jnp.sum(found, tuple(range(found.ndim - len(d.batch_shape), found.ndim)))

        return reduce(operator.add, jax.tree.leaves(self._map(total, value)))


class _Each:
    """Maps from unconstrained space onto the supports of the parts of a joint distribution."""

    def __init__(self, joint: Joint) -> None:
        self._joint = joint

    def forward(self, x: Any) -> Any:
        """The values at unconstrained positions."""
        return self._joint._map(lambda d, y: d.bijector.forward(y), x)

    def inverse(self, y: Any) -> Any:
        """The unconstrained positions of values."""
        return self._joint._map(lambda d, x: d.bijector.inverse(x), y)

    def forward_log_det_jacobian(self, x: Any) -> Array:
        """The sum of the log determinants of the parts."""

        def log_det(d, y):
            return d.bijector.forward_log_det_jacobian(y)

        return self._joint._sum(log_det, x)
