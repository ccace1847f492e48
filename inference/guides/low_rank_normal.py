"""Low-rank normal distributions and their mixtures, for Laplace's approximation and Pathfinder.

Their parameters are computed from curvature, not fitted: an optimizer would not keep the directions
orthonormal.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix, push
from inference.common.threefry import noise_of, seed_of, threefry, uniform
from inference.guides.guide import Guide
from inference.guides.normal import log_normal, normal_entropy
from ppl.harvest.pytrees import register_dataclass


class LowRankNormalParameters(NamedTuple):
    r"""Parameters of :class:`LowRankNormalGuide`.

    Attributes:
        loc: The mean, ``(size,)``.
        factor: The factor `L` of the covariance :math:`L L^\top`.
    """

    loc: jax.Array
    factor: LowRankMatrix

    def place(self, noise: jax.Array) -> jax.Array:
        """The position for standard normal `noise`, both ``(size,)``."""
        return self.loc + push(self.factor, noise)

    def noise(self, position: jax.Array) -> jax.Array:
        """The standard normal noise for `position`, the inverse of :meth:`place`."""
        inverse = self.factor._replace(values=1 / self.factor.values)
        return inverse.stretch((position - self.loc) / self.factor.scale)

    def half_log_det(self) -> jax.Array:
        """Half of the logarithm of the covariance's determinant."""
        return jnp.sum(jnp.log(self.factor.scale)) + jnp.sum(jnp.log(self.factor.values))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LowRankNormalGuide:
    r"""A normal distribution whose covariance is a :class:`inference.LowRankMatrix`.

    The covariance is a diagonal plus a matrix of low rank, and so is its inverse. A draw takes time
    in proportion to ``size * rank``.

    Args:
        rank: Number of stretched directions, at most the number of coordinates.

    References:
        Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 4.
    """

    rank: int = dataclasses.field(metadata={"static": True})
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> LowRankNormalParameters:
        """The standard normal distribution around `position`."""
        ones = jnp.ones_like(position)
        vectors = jnp.eye(self.rank, position.size, dtype=position.dtype)
        return LowRankNormalParameters(position, LowRankMatrix(ones, vectors, ones[: self.rank]))

    def sample(self, parameters: LowRankNormalParameters, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc = parameters.loc
        return parameters.place(noise_of(key, loc.size, loc.dtype))

    def log_prob(self, parameters: LowRankNormalParameters, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        return log_prob_of_noise(parameters, parameters.noise(position))

    def entropy(self, parameters: LowRankNormalParameters) -> jax.Array:
        """The entropy, a scalar."""
        return parameters.half_log_det() + normal_entropy(jnp.zeros_like(parameters.loc))

    def covariance(self, parameters: LowRankNormalParameters) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        factor = parameters.factor
        return factor._replace(values=factor.values**2).dense()


def log_prob_of_noise(parameters: LowRankNormalParameters, noise: jax.Array) -> jax.Array:
    """The log density at the position for `noise`."""
    return log_normal(noise) - parameters.half_log_det()


class GuideMixtureParameters(NamedTuple):
    """Parameters of :class:`GuideMixture`.

    Attributes:
        log_share: The logarithm of the probability of each component, ``(component,)``.
        components: The parameters of the components, stacked.
    """

    log_share: jax.Array
    components: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GuideMixture:
    """A mixture of members of one family.

    Args:
        guide: The family.
        num_components: Number of components.
    """

    guide: Guide
    num_components: int = dataclasses.field(metadata={"static": True})
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> GuideMixtureParameters:
        """Equal shares of identical components, each the initial member of the family."""
        one = self.guide.init(position, layout)
        log_share = jnp.full(self.num_components, -math.log(self.num_components), position.dtype)
        copies = jax.tree.map(lambda x: jnp.stack([x] * self.num_components), one)
        return GuideMixtureParameters(log_share, copies)

    def sample(self, parameters: GuideMixtureParameters, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``, not differentiable with respect to the shares."""
        seed = seed_of(key)
        level = uniform(seed, jnp.uint32(0), parameters.log_share.dtype)
        below = jnp.cumsum(jnp.exp(parameters.log_share))
        number = jnp.searchsorted(below[:-1] / below[-1], level, side="right")
        component = jax.tree.map(lambda x: x[number], parameters.components)
        words = jnp.stack(threefry(seed, jnp.uint32(1)))
        return self.guide.sample(component, random.wrap_key_data(words, impl="threefry2x32"))

    def log_prob(self, parameters: GuideMixtureParameters, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        each = jax.vmap(self.guide.log_prob, (0, None))(parameters.components, position)
        return jax.nn.logsumexp(each + parameters.log_share)

    def entropy(self, parameters: GuideMixtureParameters) -> None:
        """`None`: no closed form is known."""
        return None

    def covariance(self, parameters: GuideMixtureParameters) -> jax.Array:
        """The covariance matrix, ``(size, size)``: the sum within and between components."""
        share = jnp.exp(parameters.log_share)
        family: Any = self.guide
        within = jax.vmap(family.covariance)(parameters.components)
        locs = parameters.components.loc
        centered = locs - (share @ locs)[None]
        between = (centered * share[:, None]).T @ centered
        return jnp.tensordot(share, within, 1) + between
