"""What inference asks of a model: a density on unconstrained space."""

from typing import Any, Protocol

import jax


class Target(Protocol):
    """A log density on unconstrained space; a pytree whose leaves are the data."""

    def log_density(self, position: Any) -> jax.Array:
        """The unnormalised log density of `position`, a scalar."""
        ...

    def initial(self, key: jax.Array) -> Any:
        """A random position to start from."""
        ...

    def constrain(self, position: Any) -> dict[str, Any]:
        """The values that `position` stands for."""
        ...

    def log_probs(self, position: Any) -> dict[str, Any]:
        """The log probabilities by site, for messages."""
        ...
