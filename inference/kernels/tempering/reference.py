"""References: the densities at which paths of parallel tempering start."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from inference.common.log_densities import check_log_density, wrap_log_density
from inference.common.target import Target
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Reference:
    """Density at which a path of parallel tempering starts; one that is easy to sample.

    The log evidence is that of the target relative to the reference: it is the log normalizing
    constant of the target if the density of the reference is normalized.

    Attributes:
        log_density: Function of a position that returns a scalar.
        sample: Function of a key that returns an independent draw, a position; `None` if there is
            none. The kernel then moves at the reference, too.

    Example:
        >>> standard = Reference(
        ...     lambda x: -0.5 * jnp.sum(x**2), lambda key: jax.random.normal(key, (3,))
        ... )
        >>> standard.sample(jax.random.key(0)).shape
        (3,)
    """

    log_density: Callable[[Any], jax.Array]
    sample: Callable[[jax.Array], Any] | None = None

    def __post_init__(self) -> None:
        wrap_log_density(self)
        wrap_log_density(self, "sample")

    def split(
        self, log_density: Callable[[Any], jax.Array], position: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Log density of the reference, and what a target's log density has beyond it.

        Raises:
            TypeError: if a log density is not a floating-point number.
            ValueError: if a log density is not a scalar.
        """
        own = check_log_density(self.log_density(position), "log_density of the reference")
        return own, check_log_density(log_density(position)) - own


@register_dataclass
@dataclasses.dataclass(frozen=True)
class PriorReference:
    """Prior of a model, over the coordinates of its target.

    Attributes:
        target: The target.
    """

    target: Target

    @classmethod
    def of(cls, target: Target) -> "PriorReference":
        """Prior of a model that can be drawn, and scored apart from data.

        Raises:
            NotImplementedError: if it cannot.
        """
        key = jax.eval_shape(lambda: jax.random.key(0))
        shapes = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), target
        )
        try:
            # A distribution without draws says so only where its sampler is lowered.
            jax.jit(lambda target, key: target.prior(key)).lower(shapes, key)
            jax.eval_shape(target.split_log_density, target.position_shapes)
        except (NotImplementedError, ValueError) as error:
            reason = str(error).split(". ")[0]
            raise NotImplementedError(
                f"ParallelTempering starts at the prior, and {reason}. Give it another start, such "
                "as reference=inference.Reference(lambda x: 0.05 * space.log_density(x)) with "
                "space = ppl.unconstrain(model, *args)"
            ) from error
        return cls(target)

    def sample(self, key: jax.Array) -> Any:
        """Position of an independent draw from the prior."""
        return self.target.prior(key)

    def split(
        self, log_density: Callable[[Any], jax.Array], position: Any
    ) -> tuple[jax.Array, jax.Array]:
        """Log density of the prior, and the log likelihood, which sum to the target's."""
        return self.target.split_log_density(position)
