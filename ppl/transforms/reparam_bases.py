"""Base distributions of strategies of reparam, on all real numbers: a draw is its own position."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol

_HALF_LOG_TWO_PI = 0.9189385332046727
_AWAY = 4  # shape and rate of the gamma distribution of the squared distance
_LOG_NORMALIZER = math.log(2) + _AWAY * math.log(_AWAY) - math.lgamma(_AWAY)


class _Real(distribution_protocol.DistributionWrapper):
    """Base class of real distributions: values are positions."""

    def forward(self, position: Any) -> Any:
        """The position itself."""
        return position

    def inverse(self, value: Any) -> Any:
        """The value itself."""
        return value


@dataclasses.dataclass(frozen=True)
class Normal(_Real):
    """Independent normal numbers, as many as a position has.

    Strategies recognize the family by its name, which is the name of the class.
    """

    loc: Any
    scale: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The position itself, and the sum of its normal log densities."""
        z = (position - self.loc) / self.scale
        terms = -0.5 * z**2 - jnp.log(self.scale) - _HALF_LOG_TWO_PI
        return position, distribution_protocol.sum_all(terms)


@dataclasses.dataclass(frozen=True)
class Plane(_Real):
    """Points of the plane with independent direction and distance from the origin.

    The direction has the distribution `base`, the squared distance Gamma(4, 4). That gamma
    distribution has mean 1 and keeps points away from the origin, where all directions meet.
    """

    base: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The point itself, and the sum of the log densities of its direction and distance."""
        log_prob = distribution_protocol.log_prob(self.base, angle(position))
        squared = jnp.sum(position**2, -1)
        away = (_AWAY - 1) * jnp.log(squared) - _AWAY * squared + _LOG_NORMALIZER
        return position, distribution_protocol.sum_all(log_prob) + jnp.sum(away)


def angle(point: Any) -> Any:
    """The direction of a point on the last axis of size 2, in radians in (-pi, pi]."""
    return jnp.arctan2(point[..., 1], point[..., 0])
