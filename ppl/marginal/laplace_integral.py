"""Laplace integral: the log probability of a program, by Laplace's approximation of some sites."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp

from ppl.harvest import jax_core
from ppl.harvest.survey import Path, describe, describe_all
from ppl.marginal.block_integral import BlockIntegral, LogDensity, sheared, value_and_slope
from ppl.marginal.block_matrices import BlockVector, vary_like
from ppl.marginal.completed_square import CompletedSquare, precision_of
from ppl.marginal.newton import find_mode

_LARGEST_GAIN = 1e-3  # nats by which a mode in single precision may be higher


@dataclasses.dataclass(frozen=True, eq=False)
class LaplaceIntegral(BlockIntegral):
    """Integral of the density of a program over some sites, by Laplace's approximation.

    The log density is replaced by its second-order expansion about the mode given all other sites.
    Derivatives are exact for the approximation: the mode is an implicit function of other sites.

    Attributes:
        tolerance: The search may end at most so many nats below the mode.
        max_steps: The largest number of Newton steps.
        num_proposals: The number of draws of each independent part from which one is chosen.
    """

    tolerance: float
    max_steps: int
    num_proposals: int
    strategy: ClassVar[str] = "ppl.Laplace"
    is_exact: ClassVar[bool] = False

    def check(self) -> None:
        """Check that the sites are real, and that no support of another site depends on them.

        Raises:
            ValueError: If they are not, or one does: a quadratic expansion does not see an edge.
        """
        _ = self._traced
        for path in sorted(self.bounded, key=repr):
            raise ValueError(
                f"marginalize: the support of site {describe(path)} depends on "
                f"{describe_all(self.sites)}, so that the density is 0 on one side of an edge, "
                "which Laplace's approximation does not see. Leave what it depends on among the "
                "sites to sample."
            )

    def _draw_group(
        self,
        key: jax.Array,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> tuple[BlockVector, jax.Array, jax.Array]:
        """A joint draw: of each independent part, one of several by its importance weight.

        The weight of the draw is the product over the parts of the mean weight of their proposals.
        """
        density = self._log_density_of_groups(group, inputs, plants)
        square = self._complete_square(group, density)
        here = square.log_integral()

        def propose(key: jax.Array) -> tuple[BlockVector, jax.Array]:
            x, log_prob = square.draw(key)
            return x, density(x) - here - log_prob

        if self.num_proposals == 1:
            x, log_weight = propose(key)
            return x, jnp.sum(log_weight), jnp.sum(here)
        choice, *keys = jax.random.split(key, self.num_proposals + 1)
        proposals, log_weights = jax.vmap(propose)(jnp.stack(keys))
        log_weights = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
        chosen = jax.random.categorical(choice, log_weights, axis=0)
        log_mean = logsumexp(log_weights, axis=0) - jnp.log(self.num_proposals)
        if here.ndim:  # plates, and so no border
            inner = proposals.inner[jnp.ravel(chosen), jnp.arange(chosen.size)]
            x = dataclasses.replace(proposals, inner=inner, border=proposals.border[0])
        else:
            x = jax.tree.map(lambda x: x[chosen], proposals)
        return x, jnp.sum(log_mean), jnp.sum(here)

    def _complete_square(self, group: tuple[Path, ...], log_density: LogDensity) -> CompletedSquare:
        """The log density as a quadratic form about its maximum.

        Inner elements are measured from an estimate of their means given the border. So they stay
        near their modes as the border moves, and keep precision where their scale is small.
        """
        layout = self._layout(group)
        dtype = self._dtype(group)
        start = self._start(group, log_density)
        shear = None
        if start.inner.size and start.border.size:
            plain = log_density
            multiply = jax.linearize(lambda x: value_and_slope(plain, x)[1], start)[1]
            matrix = precision_of(layout, vary_like(start, multiply), dtype)
            shear = lax.stop_gradient(matrix).factor().shear()
            shear = jnp.where(jnp.isfinite(shear), shear, 0)
            log_density = sheared(plain, shear)
        mode = find_mode(layout, log_density, start, self.tolerance, self.max_steps)

        def gradient(x):
            return value_and_slope(log_density, x)[1]

        slope, multiply = jax.linearize(gradient, mode)
        slope = lax.stop_gradient(slope)  # 0, but for the error of Newton's method
        matrix = precision_of(layout, vary_like(mode, multiply), dtype)
        height = log_density(mode)
        factor = lax.stop_gradient(matrix).factor()
        square = CompletedSquare(mode, height, slope, matrix, factor, layout, shear)
        is_lost = square.is_improper | (square.gain > max(self.tolerance, _LARGEST_GAIN))
        square = dataclasses.replace(square, height=jnp.where(is_lost, height - jnp.inf, height))
        is_wrong = jnp.any(is_lost) & jnp.all(jnp.isfinite(height))
        if not jax_core.is_traced(is_wrong) and is_wrong:
            raise ValueError(
                f"marginalize: no mode of {describe_all(group)} given the rest was found in "
                f"{self.max_steps} steps of Newton's method from 0. Give each a proper prior and a "
                "density with one mode; raise ppl.Laplace(max_steps=...); or leave them among the "
                "sites to sample."
            )
        return square
