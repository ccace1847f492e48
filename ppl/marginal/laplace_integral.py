"""Laplace integral: the log probability of a program, by Laplace's approximation of some sites."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import logsumexp

from ppl.core.captured_constants import calls_python
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.plants import PathDict
from ppl.harvest.survey import Path, describe, describe_all
from ppl.marginal.block_integral import BlockIntegral, ScoredDensity, draw_where
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockVector
from ppl.marginal.completed_square import CompletedSquare
from ppl.marginal.coupled_elements import couples
from ppl.marginal.known_work import split_scores
from ppl.marginal.newton import find_mode
from ppl.marginal.parameter_edges import find_edges
from ppl.marginal.split_density import SplitDensity
from ppl.primitives.site_kinds import RANDOM

_NEAR = (1.0, -1.0, 0.1, -0.1)  # shifts from where the search starts
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
        plants = {
            path: found.collapse().avals
            for path, found in self._found.items()
            if found.site.tag == RANDOM
        }
        edges = find_edges(self.jaxpr, plants, self.scored, self.sites)
        for path, (name, how) in edges.items():
            raise ValueError(
                f"marginalize: the parameter {name} of site {describe(path)} {how} "
                f"{describe_all(self.sites)}, which may be any number, but the parameter may not. "
                "The density is 0 on one side of an edge, which Laplace's approximation does not "
                "see. Give the parameter a link, as jnp.exp or jax.nn.softplus, or leave "
                f"{describe_all(self.sites)} among the sites to sample."
            )

    def log_prob(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> jax.Array:
        """The log of the integral over one group of sites, by plate if plates are independent.

        Outside of other programs, it is found by one that is compiled once for all equal integrals,
        and so are its derivatives. Integrals with functions of Python in their programs are
        compiled anew, as which functions these are does not tell them apart.
        """
        operands = list(inputs), PathDict(plants)
        is_outside = all(map(jax_core.is_concrete, jax.tree.leaves(operands)))
        if not group or not is_outside or self._calls_python:
            return super().log_prob(group, inputs, plants)
        found = _compile_log_prob(self, group)(*operands)
        if not jax_core.is_concrete(found) or jnp.all(jnp.isfinite(found)):
            return found
        return super().log_prob(group, inputs, plants)  # says why it is not finite

    @functools.cached_property
    def _calls_python(self) -> bool:
        return calls_python(jaxprs.raw(self.jaxpr)[0])

    def _draw_group(
        self,
        key: jax.Array,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        is_wanted: jax.Array | None,
    ) -> tuple[BlockVector, jax.Array, jax.Array]:
        """A joint draw: of each independent part, one of several by its importance weight.

        The weight of the draw is the product over the parts of the mean weight of their proposals.
        """
        density = self._log_density_of_groups(group, inputs, plants)
        square = self._square(group, inputs, plants, density)
        here = square.log_integral()

        def propose(key: jax.Array) -> tuple[BlockVector, jax.Array]:
            x, log_prob = square.draw(key)
            return x, density(x) - here - log_prob

        def draw() -> tuple[BlockVector, jax.Array]:
            if self.num_proposals == 1:
                x, log_weight = propose(key)
                return x, jnp.sum(log_weight)
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
            return x, jnp.sum(log_mean)

        return *draw_where(is_wanted, square, draw), jnp.sum(here)

    def _complete_square(
        self, layout: BlockLayout, group: tuple[Path, ...], log_density: ScoredDensity
    ) -> CompletedSquare:
        """The log density as a quadratic form about its maximum.

        Inner elements are measured from an estimate of their means given the border. So they stay
        near their modes as the border moves, and keep precision where their scale is small.
        """
        start = self._start(group, log_density)
        density, known = self._split(layout, group, log_density, start)
        given = density.give(known, start)
        for depth in range(layout.num_shears):
            more = lax.stop_gradient(density.precision(given, start)).factor().shear(depth)
            more = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), more)
            given = density.shear(given, start, more)
        mode = find_mode(density, given, start, self.tolerance, self.max_steps)
        height, slope, matrix = mode.here
        slope = lax.stop_gradient(slope)  # 0, but for the error of Newton's method
        square = CompletedSquare(
            mode.x, height, slope, matrix, mode.factor, density.layout, given.shear
        )
        is_far = mode.gain > max(self.tolerance, _LARGEST_GAIN)
        is_lost = square.is_improper | is_far.reshape(height.shape)
        # The density is 0 where it is so at the start, but not beside a pole.
        is_zero = jnp.isneginf(height) & jnp.isfinite(square.gain - square.log_det)
        height_or_nan = jnp.where(is_lost & ~is_zero, jnp.nan, height)
        square = dataclasses.replace(square, height=height_or_nan)
        is_wrong = jnp.any(is_lost | ~jnp.isfinite(height))
        may_tell = not jax_core.is_traced(is_wrong) and is_wrong
        if may_tell and self._begins_finite(group, density, known, start):
            raise ValueError(
                f"marginalize: no mode of {describe_all(group)} given the rest was found in "
                f"{self.max_steps} steps of Newton's method from 0. Give each a proper prior and a "
                "density with one mode; raise ppl.Laplace(max_steps=...); or leave them among the "
                "sites to sample."
            )
        return square

    def _begins_finite(
        self,
        group: tuple[Path, ...],
        density: SplitDensity,
        known: Sequence[Any],
        start: BlockVector,
    ) -> bool:
        """Whether all scores are finite where the search starts.

        Raises:
            ValueError: If a score is not, but is near there; or if it is NaN, and all that it
                depends on besides is finite.
        """

        def scores(shift: float) -> dict[Path, jax.Array]:
            near = jax.tree.map(lambda x: x + shift, start)
            return density.scores(known, near)

        here = scores(0.0)
        near = [scores(shift) for shift in _NEAR]
        for path, x in here.items():
            is_better = [~jnp.isfinite(x) & jnp.isfinite(there[path]) for there in near]
            if any(map(jnp.any, is_better)):
                remedy = "Measure them from a point of positive density, as by ppl.reparam"
            elif jnp.any(jnp.isnan(x)) and _is_finite(density.scores.find_known(known, path)):
                remedy = "Nor is it near there: look at the parameters of that site"
            else:
                continue
            raise ValueError(
                f"marginalize: the log probability of site {describe(path)} is not finite where "
                f"{describe_all(group)} are 0, where ppl.Laplace() begins to look for the mode. "
                f"{remedy}, or leave {describe_all(group)} among the sites to sample."
            )
        return _is_finite(list(here.values()))

    def _split(
        self,
        layout: BlockLayout,
        group: tuple[Path, ...],
        log_density: ScoredDensity,
        start: BlockVector,
    ) -> tuple[SplitDensity, list[Any]]:
        """The log density in two parts, and the values that it needs to know."""
        scores, known = split_scores(log_density.scores, start)
        others = frozenset(p for p in scores.scores if self._degrees[p].degree > 2)
        dependences = {path: self._structure[0][path] for path in others}
        shapes = {path: self.aval(path).shape for path in group}
        inner = *layout.inner, *layout.leading
        is_diagonal = not couples(dependences, inner or shapes, shapes)
        dtype = self._dtype(group)
        return SplitDensity(layout, dtype, scores, log_density.total, others, is_diagonal), known


def _is_finite(arrays: Sequence[Any]) -> bool:
    numbers = [x for x in arrays if jnp.issubdtype(getattr(x, "dtype", float), jnp.inexact)]
    return all(bool(jnp.all(jnp.isfinite(x))) for x in numbers)


@functools.lru_cache(maxsize=16)
def _compile_log_prob(integral: LaplaceIntegral, group: tuple[Path, ...]) -> Any:
    """The log probability of a group of sites as a compiled function of inputs and values."""
    return jax.jit(functools.partial(BlockIntegral.log_prob, integral, group))
