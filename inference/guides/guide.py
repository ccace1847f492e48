"""Guide: the protocol for a family of distributions over flat positions."""

from typing import Any, Protocol

import jax

from inference.common.layout import Layout


class Guide(Protocol):
    """A family of distributions over flat positions, to be fitted to a posterior.

    A guide is a frozen dataclass and a pytree; fields that determine shapes are static. These
    methods are optional:

    * ``sample_and_log_prob(parameters, key)``: a draw and its log density. A guide has it if the
      density of its own draw costs less than a call of `log_prob`.
    * ``init_normal(position, layout, scale)``: parameters close to a normal distribution. Its mean
      is `position`; `scale` is the Cholesky factor of its covariance, ``(size, size)``, or its
      standard deviations, ``(size,)``.
    * ``forward(parameters, noise)`` and ``inverse(parameters, position)``: the guide as an
      invertible map of standard normal numbers ``(size,)`` to a position ``(size,)``. `forward`
      returns the position, `inverse` the noise; both return the log determinant of the Jacobian of
      `forward` with it. ``mcmc(transport=True)`` needs them.
    """

    @property
    def has_density(self) -> bool:
        """Whether `log_prob` is a density; without one there are no importance weights."""
        ...

    def init(self, position: jax.Array, layout: Layout) -> Any:
        """Initial parameters around `position`, which `layout` splits into sites."""
        ...

    def sample(self, parameters: Any, key: jax.Array) -> jax.Array:
        """A flat position, differentiable with respect to the parameters."""
        ...

    def log_prob(self, parameters: Any, position: jax.Array) -> jax.Array:
        """The log density of a flat position, a scalar."""
        ...

    def entropy(self, parameters: Any) -> jax.Array | None:
        """The entropy, a scalar, or `None` where it has no closed form."""
        ...


def init_of_guide(guide: Any, position: jax.Array, layout: Layout, scale: Any = None) -> Any:
    """Initial parameters around `position`, with `scale` if it is known and of use."""
    if scale is None or not hasattr(guide, "init_normal"):
        return guide.init(position, layout)
    return guide.init_normal(position, layout, scale)


def draw_of(guide: Guide, parameters: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A flat position and its log density, by the guide's cheapest method."""
    together = getattr(guide, "sample_and_log_prob", None)
    if together is not None:
        return together(parameters, key)
    position = guide.sample(parameters, key)
    return position, guide.log_prob(parameters, position)
