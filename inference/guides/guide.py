"""Guide."""

from typing import Any, Protocol

import jax

from inference.common.layout import Layout


class Guide(Protocol):
    """A family of distributions. A frozen dataclass, and a pytree; what makes shapes is static.

    One that finds the density of its own draw in passing may have a method `sample_and_log_prob`,
    that takes what `sample` takes. One that can begin close to a normal distribution may have
    ``init_normal(position, layout, scale)``: `position` is its mean, and `scale` the Cholesky
    factor of its covariance, ``(size, size)``, or standard deviations, ``(size,)``.
    """

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` is a density; else there are no importance weights."""
        ...

    def init(self, position: jax.Array, layout: Layout) -> Any:
        """Parameters to begin with, around `position`, which `layout` splits into sites."""
        ...

    def sample(self, parameters: Any, key: jax.Array) -> jax.Array:
        """A flat position, with a derivative with respect to the parameters."""
        ...

    def log_prob(self, parameters: Any, position: jax.Array) -> jax.Array:
        """The log density of a flat position, a scalar."""
        ...

    def entropy(self, parameters: Any) -> jax.Array | None:
        """The entropy, a scalar, or `None` where it has no closed form."""
        ...


def init_of_guide(guide: Any, position: jax.Array, layout: Layout, scale: Any = None) -> Any:
    """Parameters to begin with, around `position`, and with `scale` if that is known and of use."""
    if scale is None or not hasattr(guide, "init_normal"):
        return guide.init(position, layout)
    return guide.init_normal(position, layout, scale)


def draw_of(guide: Guide, parameters: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A flat position, and its log density, with no more work than the guide needs."""
    together = getattr(guide, "sample_and_log_prob", None)
    if together is not None:
        return together(parameters, key)
    position = guide.sample(parameters, key)
    return position, guide.log_prob(parameters, position)
