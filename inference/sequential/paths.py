"""Paths: densities from which particles go to a target, as a reference and terms with powers."""

import dataclasses
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from inference.common.target import Target
from ppl.harvest.pytrees import register_dataclass


class Path(Protocol):
    """Path of densities on unconstrained space; a pytree whose leaves are the data."""

    @property
    def num_terms(self) -> int:
        """Number of terms."""
        ...

    def split(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the reference, and log terms ``(term,)``, which sum to the target's."""
        ...


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LikelihoodPath:
    """Path from the prior to the posterior, by powers of the likelihood.

    Attributes:
        target: The target.
    """

    target: Target

    @property
    def num_terms(self) -> int:
        """One: the log likelihood."""
        return 1

    def split(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the prior, and the log likelihood, ``(1,)``."""
        own, rest = self.target.split_log_density(position)
        return own, rest[None]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ModelsPath:
    """Path from the prior of a first model, through its posterior and others, to a last one.

    The first term is the log likelihood of the first model, and each other one the log density of
    a model relative to the one before.

    Attributes:
        targets: The models on unconstrained space, all with positions of the same shapes.
    """

    targets: tuple[Target, ...]

    @property
    def num_terms(self) -> int:
        """Number of models."""
        return len(self.targets)

    def split(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log density of the prior of the first model, and log ratios, ``(term,)``."""
        own, rest = self.targets[0].split_log_density(position)
        terms = [rest]
        before = own + rest
        for target in self.targets[1:]:
            after = target.log_density(position)
            terms.append(jnp.where(jnp.isneginf(after), after, after - before))
            before = after
        return own, jnp.stack([jnp.asarray(x, own.dtype) for x in terms])


def log_density_on_path(path: Path, powers: jax.Array, position: Any) -> jax.Array:
    """Log density at a place of a path, given by the powers of the terms."""
    own, terms = path.split(position)
    powers = powers.astype(terms.dtype)
    return own + jnp.sum(jnp.where(powers > 0, powers * terms, 0))
