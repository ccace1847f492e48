"""Objectives: what the parameters of a guide are fitted by."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from inference.guides import Guide, draw_of


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ELBO:
    r"""The evidence lower bound, :math:`E_q[\log p(z, y) - \log q(z)] \le \log p(y)`.

    Its gradient follows the path from noise to position, :math:`z = g(\lambda, \epsilon)`, so the
    log density must be differentiable. Where the guide has an entropy in closed form, that takes
    the place of :math:`-\log q`.

    Args:
        stick_the_landing: Whether to take :math:`\log q` along the path alone, with the parameters
            in it held fixed. What is left out has mean zero; the rest has no variance at all where
            the guide is the posterior, and often more where it cannot be.

    References:
        Kingma and Welling (2014), Auto-encoding variational Bayes; Roeder, Wu and Duvenaud (2017),
        Sticking the landing: simple, lower-variance gradient estimators for variational inference.
    """

    stick_the_landing: bool = False

    def estimate(
        self,
        log_density: Callable[[jax.Array], jax.Array],
        guide: Guide,
        parameters: Any,
        key: jax.Array,
    ) -> jax.Array:
        """An unbiased estimate from one draw, whose derivative by `parameters` is one too.

        Args:
            log_density: Function of a flat position.
            guide: The family.
            parameters: Which member of it.
            key: Key of the draw.

        Returns:
            A scalar.
        """
        entropy = guide.entropy(parameters)
        if self.stick_the_landing:
            position = guide.sample(parameters, key)
            entropy = -guide.log_prob(lax.stop_gradient(parameters), position)
        elif entropy is None:
            position, log_prob = draw_of(guide, parameters, key)
            entropy = -log_prob
        else:
            position = guide.sample(parameters, key)
        return log_density(position) + entropy

    def mean(
        self,
        log_density: Callable[[jax.Array], jax.Array],
        guide: Guide,
        parameters: Any,
        keys: jax.Array,
    ) -> jax.Array:
        """The mean of the estimates from draws with each of `keys`."""

        def one(key: jax.Array) -> jax.Array:
            return self.estimate(log_density, guide, parameters, key)

        return one(keys[0]) if keys.shape[0] == 1 else jnp.mean(jax.vmap(one)(keys))
