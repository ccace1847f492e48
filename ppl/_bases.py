"""What strategies of reparam start from: distributions of real numbers."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ppl import distribution

_HALF_LOG_TWO_PI = 0.9189385332046727


class _Real(distribution.Wrapper):
    """Values are positions as they are."""

    def forward(self, position: Any) -> Any:
        return position

    def inverse(self, value: Any) -> Any:
        return value


@dataclasses.dataclass(frozen=True)
class Normal(_Real):
    """Independent normal numbers, as many as there are; they need no other package."""

    loc: Any
    scale: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        z = (position - self.loc) / self.scale
        terms = -0.5 * z**2 - jnp.log(self.scale) - _HALF_LOG_TWO_PI
        return position, distribution.summed(terms)


@dataclasses.dataclass(frozen=True)
class Plane(_Real):
    """Points of the plane whose direction has a distribution."""

    base: Any

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        log_prob = distribution.log_prob(self.base, angle(position))
        return position, distribution.summed(log_prob) - 0.5 * jnp.sum(position**2)


def angle(point: Any) -> Any:
    """The direction of a point, in (-pi, pi]."""
    return jnp.arctan2(point[..., 1], point[..., 0])
