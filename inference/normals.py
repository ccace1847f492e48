r"""Normal distributions as they follow from curvature, and mixtures of guides.

They are computed rather than fitted: an optimiser that moved the parameters freely would leave the
directions no longer orthonormal.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from inference.flat import Layout
from inference.guides import Guide
from inference.randomness import normal, seed_of, threefry, uniform

_LOG_2PI = math.log(2 * math.pi)


class Stretched(NamedTuple):
    r"""Parameters of :class:`StretchedNormal`.

    Attributes:
        loc: The mean, ``(size,)``.
        log_scale: The logarithm of the diagonal `D`, ``(size,)``.
        directions: Orthonormal columns `U`, ``(size, rank)``.
        log_stretch: Half of the logarithm of :math:`\Lambda`, ``(rank,)``.
    """

    loc: jax.Array
    log_scale: jax.Array
    directions: jax.Array
    log_stretch: jax.Array

    def place(self, noise: jax.Array) -> jax.Array:
        """The position that standard normal numbers stand for, both ``(size,)``."""
        return self.loc + jnp.exp(self.log_scale) * self._along(jnp.expm1(self.log_stretch), noise)

    def noise(self, position: jax.Array) -> jax.Array:
        """The numbers that a position stands for."""
        scaled = (position - self.loc) * jnp.exp(-self.log_scale)
        return self._along(jnp.expm1(-self.log_stretch), scaled)

    def half_log_det(self) -> jax.Array:
        """Half of the logarithm of the covariance's determinant."""
        return jnp.sum(self.log_scale) + jnp.sum(self.log_stretch)

    def _along(self, change: jax.Array, x: jax.Array) -> jax.Array:
        return x + self.directions @ (change * (self.directions.T @ x))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StretchedNormal:
    r"""A normal distribution with covariance :math:`D (I + U (\Lambda - I) U^\top) D`.

    `D` is a positive diagonal, and `rank` orthonormal columns of `U` are directions in which the
    scaled coordinates spread more or less than 1. It holds a diagonal and a low rank both of a
    covariance and of its inverse. A draw takes time in proportion to ``size * rank``.

    Args:
        rank: Columns of `U`, at most the number of coordinates.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 4.
    """

    rank: int = dataclasses.field(metadata={"static": True})
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> Stretched:
        """The standard normal distribution around `position`."""
        zeros = jnp.zeros_like(position)
        directions = jnp.eye(position.size, self.rank, dtype=position.dtype)
        return Stretched(position, zeros, directions, zeros[: self.rank])

    def sample(self, parameters: Stretched, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``."""
        loc = parameters.loc
        return parameters.place(normal(seed_of(key), loc.size, loc.dtype))

    def log_prob(self, parameters: Stretched, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        return log_prob_of_noise(parameters, parameters.noise(position))

    def entropy(self, parameters: Stretched) -> jax.Array:
        """The entropy, a scalar."""
        return parameters.half_log_det() + parameters.loc.size * (0.5 * (1 + _LOG_2PI))

    def covariance(self, parameters: Stretched) -> jax.Array:
        """The covariance matrix, ``(size, size)``."""
        _, log_scale, directions, log_stretch = parameters
        scale = jnp.exp(log_scale)
        stretch = (directions * jnp.expm1(2 * log_stretch)[None]) @ directions.T
        return jnp.outer(scale, scale) * (jnp.eye(scale.size, dtype=scale.dtype) + stretch)


def log_prob_of_noise(parameters: Stretched, noise: jax.Array) -> jax.Array:
    """The log density of where `noise` is placed."""
    return -0.5 * jnp.sum(noise**2) - noise.size * (0.5 * _LOG_2PI) - parameters.half_log_det()


class Shares(NamedTuple):
    """Parameters of :class:`Mixture`.

    Attributes:
        log_share: The logarithm of the probability of each component, ``(component,)``.
        components: Their parameters, stacked.
    """

    log_share: jax.Array
    components: Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of members of one family.

    Args:
        guide: The family.
        num_components: How many there are.
    """

    guide: Guide
    num_components: int = dataclasses.field(metadata={"static": True})
    has_density = True

    def init(self, position: jax.Array, layout: Layout) -> Shares:
        """As many copies of what the family begins with, with equal shares."""
        one = self.guide.init(position, layout)
        log_share = jnp.full(self.num_components, -math.log(self.num_components), position.dtype)
        copies = jax.tree.map(lambda x: jnp.stack([x] * self.num_components), one)
        return Shares(log_share, copies)

    def sample(self, parameters: Shares, key: jax.Array) -> jax.Array:
        """A position, ``(size,)``, without a derivative by the shares."""
        seed = seed_of(key)
        level = uniform(seed, jnp.uint32(0), parameters.log_share.dtype)
        below = jnp.cumsum(jnp.exp(parameters.log_share))
        number = jnp.searchsorted(below[:-1] / below[-1], level, side="right")
        component = jax.tree.map(lambda x: x[number], parameters.components)
        words = jnp.stack(threefry(seed, jnp.uint32(1)))
        return self.guide.sample(component, random.wrap_key_data(words, impl="threefry2x32"))

    def log_prob(self, parameters: Shares, position: jax.Array) -> jax.Array:
        """The log density of a position, a scalar."""
        each = jax.vmap(self.guide.log_prob, (0, None))(parameters.components, position)
        return jax.nn.logsumexp(each + parameters.log_share)

    def entropy(self, parameters: Shares) -> None:
        """Not known in closed form."""
        return None

    def covariance(self, parameters: Shares) -> jax.Array:
        """The covariance matrix, ``(size, size)``: within the components and between."""
        share = jnp.exp(parameters.log_share)
        family: Any = self.guide
        within = jax.vmap(family.covariance)(parameters.components)
        locs = parameters.components.loc
        centred = locs - (share @ locs)[None]
        between = (centred * share[:, None]).T @ centred
        return jnp.tensordot(share, within, 1) + between
