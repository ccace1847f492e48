"""What strategies of reparam start from: distributions of real numbers."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol

_HALF_LOG_TWO_PI = 0.9189385332046727
_AWAY = 4  # the gamma distribution's shape
_LOG_NORMALIZER = math.log(2) + _AWAY * math.log(_AWAY) - math.lgamma(_AWAY)


class _Real(distribution_protocol.DistributionWrapper):
    """Values are positions as they are."""

    def forward(self, position: Any) -> Any:
        return position

    def inverse(self, value: Any) -> Any:
        return value


@dataclasses.dataclass(frozen=True)
class NormalBase(_Real):
    """Independent normal numbers, as many as there are; they need no other package."""

    loc: Any
    scale: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        z = (position - self.loc) / self.scale
        terms = -0.5 * z**2 - jnp.log(self.scale) - _HALF_LOG_TWO_PI
        return position, distribution_protocol.sum_all(terms)


@dataclasses.dataclass(frozen=True)
class PlaneBase(_Real):
    """Points of the plane whose direction has a distribution, and the squared distance another.

    That is a gamma distribution of mean 1, which keeps from the origin, where all directions meet.
    """

    base: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        log_prob = distribution_protocol.log_prob(self.base, angle(position))
        squared = jnp.sum(position**2, -1)
        away = (_AWAY - 1) * jnp.log(squared) - _AWAY * squared + _LOG_NORMALIZER
        return position, distribution_protocol.sum_all(log_prob) + jnp.sum(away)


def angle(point: Any) -> Any:
    """The direction of a point, in (-pi, pi]."""
    return jnp.arctan2(point[..., 1], point[..., 0])
