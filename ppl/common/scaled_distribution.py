"""Scores times a factor: scaled distributions and terms, which keep score and factor apart."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.sowing import Site


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Scaled(distribution_protocol.DistributionWrapper):
    """A distribution with its log probability multiplied by `factor`.

    Attributes:
        base: The distribution.
        factor: A number, or an array whose axes are the first of the log probability.
    """

    base: Any
    factor: Any

    def log_prob(self, value: Any) -> jax.Array:
        """The log probability under `base` times the factor, -inf outside of the support."""
        return multiply_score(distribution_protocol.log_prob(self.base, value), self.factor)

    def constrain(self, position: Any) -> tuple[Any, jax.Array]:
        """The value, and its scaled log probability plus the unscaled log determinant."""
        value, log_det, log_prob = self.constrain_apart(position)
        return value, log_det + distribution_protocol.sum_all(log_prob)

    def constrain_apart(self, position: Any) -> tuple[Any, jax.Array, jax.Array]:
        """The value, the unscaled log determinant, and the scaled log probability."""
        value, log_det, log_prob = distribution_protocol.constrain_apart(self.base, position)
        return value, log_det, multiply_score(log_prob, self.factor)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ScaledTerm:
    """Terms of a log density that were multiplied by factors, one after another.

    The site of a `factor` has it as extra operands, and the product as its value.

    Attributes:
        log_weight: The terms before they were multiplied.
        factors: The factors; the axes of each factor are the first axes of the terms.
    """

    log_weight: Any
    factors: list[Any]


def multiply_score(log_prob: jax.Array, factor: Any) -> jax.Array:
    """A score times a factor, whose axes are the first axes of the score; a score of -inf stays."""
    factor = jnp.asarray(factor, log_prob.dtype)
    factor = jnp.expand_dims(factor, tuple(range(factor.ndim, log_prob.ndim)))
    is_impossible = log_prob == -jnp.inf  # the slope of its product would be NaN
    return jnp.where(is_impossible, log_prob, jnp.where(is_impossible, 0, log_prob) * factor)


def without_factors(d: Any) -> Any:
    """A distribution without the factors of its log probability."""
    if isinstance(d, Scaled):
        return without_factors(d.base)
    if isinstance(d, distribution_protocol.DistributionWrapper):
        return dataclasses.replace(d, base=without_factors(d.base))  # pyright: ignore
    return d


def factors_at(site: Site) -> list[int]:
    """The places of factors among the extra operands of a site; mostly none."""
    if not site.num_extras:
        return []
    d = jax.tree.unflatten(site.extra_tree, range(site.num_extras))
    if isinstance(d, ScaledTerm):
        return list(d.factors)
    places = []
    while isinstance(d, distribution_protocol.DistributionWrapper):
        places += [d.factor] if isinstance(d, Scaled) else []
        d = d.base  # pyright: ignore[reportAttributeAccessIssue]
    return places


def unscaled_terms(site: Site, extras: Any) -> jax.Array:
    """The terms at the site of a scaled `factor`, before they were multiplied."""

    def of(*leaves):
        return jax.tree.unflatten(site.extra_tree, leaves).log_weight

    return lift(of, site.axes)(*extras)
