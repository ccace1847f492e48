"""Base of kernels that evaluate a log density without its gradient."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from inference.common.layout import Layout
from inference.common.log_densities import (
    check_log_density,
    require_log_density,
    wrap_log_density,
)
from inference.common.matrices import Matrix, kind_of
from inference.kernels.gradient_free.scale import Scale, adapt_scale, init_scale, search_scale


@dataclasses.dataclass(frozen=True)
class GradientFreeKernel:
    """Kernel that evaluates a log density, which need not have a gradient.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. A position is a pytree of floating-point arrays.
        covariance: Covariance of positions before warm-up: matrix ``(size, size)``, or variances
            ``(size,)``, in the order of ``jax.tree.leaves`` of a position. `None` for ones, in a
            matrix for up to 100 coordinates; warm-up then begins with the curvatures at the start.
            It learns a covariance of the same form.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    covariance: Matrix | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        wrap_log_density(self)

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range.
        """
        init_scale(self.covariance, layout)

    def density_of(self, layout: Layout) -> Callable[[jax.Array], jax.Array]:
        """Log density as a function of a flat vector.

        Raises:
            TypeError: if the log density is not a floating-point number.
            ValueError: if there is no log density, or it does not return a scalar.
        """
        return flat_density(self, "log_density", layout)

    def refresh(self, state: Any) -> Any:
        """The state at the same position, for a log density that has changed since.

        Raises:
            TypeError: if the log density is not a floating-point number.
            ValueError: if there is no log density, or it does not return a scalar.
        """
        layout = Layout.of(state.position)
        return state._replace(log_density=self.density_of(layout)(layout.ravel(state.position)))

    def adapt_scale(
        self, state: Any, layout: Layout, iteration: jax.Array, num_warmup: jax.Array
    ) -> Scale:
        """Scale of a state after an iteration of warm-up."""
        position = layout.ravel(state.position)
        scale = adapt_scale(state.scale, position, iteration, num_warmup)
        if self.covariance is not None:
            return scale
        is_first = iteration == 0
        density = self.density_of(layout)
        found = search_scale(density, position, state.log_density, is_first)
        factor = found if kind_of(scale.factor) == "diagonal" else jnp.diag(found)
        return scale._replace(factor=jnp.where(is_first, factor, scale.factor))


def flat_density(kernel: Any, field: str, layout: Layout) -> Callable[[jax.Array], jax.Array]:
    """Function of a position in a field of a kernel, as a function of a flat vector.

    Raises:
        TypeError: if it does not return a floating-point number.
        ValueError: if the field is `None`, or the function does not return a scalar.
    """
    function = require_log_density(kernel, field)

    def density(vector: jax.Array) -> jax.Array:
        return check_log_density(function(layout.unravel(vector)), field).astype(layout.dtype)

    return density
