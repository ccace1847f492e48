"""What inference asks of a model: a density on unconstrained space."""

from typing import Any, Protocol

import jax


class Target(Protocol):
    """A log density on unconstrained space; a pytree whose leaves are the data."""

    @property
    def position_shapes(self) -> Any:
        """The shapes and dtypes of a position."""
        ...

    @property
    def mesh(self) -> Any:
        """The mesh of a `shard_map` in the density, or None."""
        ...

    def log_density(self, position: Any) -> jax.Array:
        """The unnormalised log density of `position`, a scalar."""
        ...

    def prior_and_likelihood(self, position: Any) -> tuple[jax.Array, jax.Array]:
        """Log densities at the values of `position`: of latent sites, and of data and factors."""
        ...

    def initial(self, key: jax.Array, values: Any = None) -> Any:
        """A random position to start from, where some sites may have values."""
        ...

    def prior(self, key: jax.Array) -> Any:
        """A position drawn from the prior."""
        ...

    def constrain(self, position: Any) -> dict[str, Any]:
        """The values that `position` stands for."""
        ...

    def sites(self, position: Any) -> dict[str, Any]:
        """For messages: by site, what has its `value`, `distribution` and `log_prob`."""
        ...


class PriorSampler(Protocol):
    """Importance sampling from the prior; a pytree whose leaves are the data."""

    def weighted(self, key: jax.Array) -> tuple[dict[str, Any], jax.Array]:
        """Values drawn from the prior, and the log probability of the data given them."""
        ...
