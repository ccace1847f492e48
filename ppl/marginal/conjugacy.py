"""Conjugacy: whether the full conditional of a site lies in an exponential family.

The answer depends only on the program. So the other sites have random values, the data are drawn
given these, and all numbers are in double precision. A member of the family is fitted to the slope
of each score at two points. At further points, the slopes of the score and of this member must
agree, and the density must be positive on the whole support. The family must have a distribution
with the sum of these members.

Where values are not moderate, slopes may be differences of huge terms. Their rounding is measured
by values that are less by a few units in the last place.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.core.captured_constants import (
    fingerprint_constants,
    fingerprint_value,
    fingerprint_wiring,
)
from ppl.core.model_pytree import Model
from ppl.core.model_run import trace_model
from ppl.harvest import jax_core
from ppl.harvest.program import Program
from ppl.harvest.survey import Path, Sites
from ppl.marginal.finite_supports import look_at_distributions
from ppl.marginal.full_conditional import score_values
from ppl.marginal.natural_parameters import alternate, measure_in_bulk, points_at
from ppl.marginal.random_values import (
    IS_MODERATE,
    Numbers,
    Simulation,
    Values,
    draw_once,
    find_undrawn,
    quick_options,
)
from ppl.primitives.site_kinds import OBSERVED, kind_of
from ppl.transforms.unobserve import unobserve

# Points, in spreads from the center: the first two are fitted, slopes are compared at the others.
# At points far out, the density must be positive.
_NEAR = (-0.8, 0.8, -1.5, 0.3, 2.0)
_FAR = {"float64": 20.0, "float32": 8.0}
_NUM_POINTS = len(_NEAR) + 2
_TOLERANCES = {"float64": 1e-7, "float32": 1e-3}  # of slopes, relative to the largest
_ULPS = 8.0  # by which values are less, at most, where rounding is measured
_NOISE = 32.0  # errors of slopes, in changes of slopes with such values
_MAX_NOISE = 1e-2  # of slopes that tell something, relative to the largest


@dataclasses.dataclass(frozen=True)
class Question:
    """Whether the full conditional of a site lies in a family, for a model and its arguments.

    Attributes:
        program: The program of the model.
        model: The model.
        args: Its arguments.
        kwargs: Its keyword arguments.
        path: The site.
        scored: The site, and all sites whose scores depend on it.
        family: The family.
        sites: All sites.
        plants: Values of all other random sites, used for sites that have no draws.
    """

    program: Program
    model: Model
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    path: Path
    scored: Sequence[Path]
    family: Any
    sites: Sites
    plants: Mapping[Path, Sequence[Any]]

    def is_conjugate(self) -> bool:
        """The answer, kept for the next time.

        Traced values are replaced by random numbers, which stand for any value.
        """
        inputs = [x for x in self.program.inputs if x is not None]
        numbers = tuple(fingerprint_constants(self.program.jaxpr, inputs))
        wiring = fingerprint_wiring(self.program.jaxpr)
        asked = numbers, wiring, self.path, tuple(self.scored), self.family
        undrawn = _find_kept(asked)
        if undrawn and (kept := _find_kept((asked, self._values(undrawn[0])))):
            return kept[0]
        answer, fixed = self._answer((numbers, wiring))
        undrawn[:] = [fixed]
        _find_kept((asked, self._values(fixed)))[:] = [answer]
        return answer

    def _values(self, paths: Sequence[Path]) -> Hashable:
        """Fingerprint of the values of sites that cannot be drawn."""
        return tuple(fingerprint_value(x) for path in paths for x in self.plants[path])

    def _answer(self, asked: Hashable) -> tuple[bool, Sequence[Path]]:
        """The answer, and the sites that kept their values because they cannot be drawn."""
        leaves = jax.tree.leaves((self.model, self.args, self.kwargs))
        has_masks = any(jax_core.is_traced(x) and x.dtype == bool for x in leaves)
        numbers = [Numbers(bit) for bit in ((None, False, True) if has_masks else (None,))]
        try:
            with jax.enable_x64(True):
                double = [dataclasses.replace(n, dtype=np.float64) for n in numbers]
                return self._ask_all(double, asked)
        except (TypeError, ValueError):  # The model wants single precision.
            return self._ask_all(numbers, asked)

    def _ask_all(self, numbers: Sequence[Numbers], asked: Hashable) -> tuple[bool, Sequence[Path]]:
        fixed: Sequence[Path] = ()
        for each in numbers:
            is_conjugate, fixed = self._ask(each, asked)
            if not is_conjugate:
                return False, fixed
        return True, fixed

    def _ask(self, numbers: Numbers, asked: Hashable) -> tuple[bool, Sequence[Path]]:
        with jax.ensure_compile_time_eval():
            model, args, kwargs = jax.tree.map(
                numbers.replace, (self.model, self.args, dict(self.kwargs))
            )
        program = trace_model(model, None, args, kwargs)
        with jax.ensure_compile_time_eval():
            inputs = [*map(numbers.fill, program.inputs)]
        family = find_family(program, self.path)  # Its bounds have the precision of the numbers.
        values, fixed = self._values_at_draws(numbers, program, (model, args, kwargs), asked)
        shape = values[self.path][0].shape
        stretch = np.random.default_rng(0).uniform(0.7, 1.3, (shape[0], _NUM_POINTS, *shape[1:]))

        def one(stretch, is_moderate, plants):
            return self._compare(family, stretch, is_moderate, program.jaxpr, inputs, plants)

        # Sows of numbers that are known would be lost where models are traced so.
        with jax.ensure_compile_time_eval():
            compare = jax.jit(jax.vmap(one), compiler_options=quick_options())
            is_like, is_known = map(np.asarray, compare(stretch, IS_MODERATE, values))
        return bool(np.all(is_like | ~is_known) and np.all(np.any(is_known[IS_MODERATE], 0))), fixed

    def _values_at_draws(
        self, numbers: Numbers, program: Program, called: tuple[Model, Any, Any], asked: Hashable
    ) -> tuple[Values, Sequence[Path]]:
        """Random values of all random sites, and the sites that keep theirs."""
        model, args, kwargs = called
        paths = frozenset([self.path, *self.plants])

        def draw(simulated: Model, fixed: Sequence[Path]) -> Values:
            kept = {path: tuple(map(numbers.replace, self.plants[path])) for path in fixed}
            asked_for = asked, numbers, tuple(fixed), self._values(fixed)
            return draw_once(
                asked_for,
                lambda: Simulation(
                    trace_model(simulated, None, args, kwargs), numbers, self.sites, paths, kept
                ),
            )

        try:
            return draw(unobserve(model), ()), ()
        except NotImplementedError:
            fixed = find_undrawn(program, list(self.plants))
            has_data = any(kind_of(self.sites[path].site) == OBSERVED for path in fixed)
            return draw(model if has_data else unobserve(model), fixed), fixed

    def _compare(
        self,
        family: Any,
        stretch: Any,
        is_moderate: Any,
        jaxpr: Any,
        inputs: Sequence[Any],
        plants: Mapping[Path, Any],
    ) -> tuple[jax.Array, jax.Array]:
        """Two masks of elements: slopes agree with the family's; slopes tell whether they do."""
        (like,) = plants[self.path]
        shape = like.shape
        dtype = like.dtype
        tolerance = _TOLERANCES[str(dtype)]

        def scores(x: jax.Array, others: Mapping[Path, Any]) -> tuple[jax.Array, jax.Array]:
            found = score_values(jaxpr, inputs, {**others, self.path: (x,)}, self.scored)
            heights = jnp.stack([found[path] for path in self.scored])
            return heights, heights

        slopes_at = jax.vmap(jax.jacrev(scores, has_aux=True), (0, None), 1)
        slopes_of_all = jax.vmap(slopes_at, (None, 0))
        others = jax.tree.map(_lower, dict(plants))
        far = _FAR[str(dtype)]
        offsets = jnp.asarray([*_NEAR, -far, far], dtype).reshape(-1, *[1] * len(shape))
        offsets = offsets * stretch.astype(dtype) * alternate(shape, 1)

        def measure(place: Any) -> Any:
            x = points_at(family, place, offsets)
            gradients, heights = slopes_of_all(x, others)
            in_points = jax.vmap(family.slope)
            slopes = jax.vmap(jax.vmap(in_points, (None, 0)), (None, 0))(x, gradients)
            return x, slopes, heights[0]

        def fit(measured: Any) -> Any:
            x, slopes, _ = measured
            return family.fit(x[:2], jnp.sum(slopes[0], 0)[:2])

        x, slopes, heights = measure_in_bulk(family, measure, fit, family.start(shape, dtype))
        x = x[: len(_NEAR)]
        # Beside slopes at lower values, a fit to two slopes that are rounded apart.
        ulps = np.zeros((2, 1, len(_NEAR), *[1] * len(shape)), dtype)
        ulps[1, :, ::2] = _ULPS * jnp.finfo(dtype).eps
        both = slopes[:, :, : len(_NEAR)] * (1 + ulps)
        fit_two = jax.vmap(jax.vmap(lambda slope: family.fit(x[:2], slope[:2])))
        predict = jax.vmap(jax.vmap(family.predict, (0, None)), (None, 0))
        predicted, refitted = jax.vmap(predict, (None, 0))(x, fit_two(both))
        slopes, lower = both
        size = jnp.max(jnp.abs(slopes), 1, keepdims=True)
        largest = jnp.max(size, 0, keepdims=True)
        change = jnp.maximum(jnp.abs(slopes - lower), jnp.abs(predicted - refitted))
        noise = _NOISE * jnp.max(change, 1, keepdims=True)
        bound = tolerance * (size + tolerance * largest)
        bound = jnp.where(is_moderate, bound, bound + noise)
        error = jnp.abs(slopes - predicted)
        is_like = jnp.all(error <= bound, (0, 1)) & jnp.all(heights > -jnp.inf)
        is_like = is_like & _can_make(family, x, slopes, is_moderate)
        is_finite = jnp.all(jnp.isfinite(slopes), (0, 1)) & ~jnp.any(jnp.isnan(heights))
        is_known = jnp.all(jnp.isfinite(predicted) & (noise <= _MAX_NOISE * largest), (0, 1))
        is_known &= jnp.all(heights > -jnp.inf)  # Else a far point may be rounded to an end.
        return is_like, is_finite & (is_moderate | is_known)


def _lower(x: jax.Array) -> jax.Array:
    """A value, and below it one whose floating numbers are less by a few units of rounding."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.stack([x, x])
    share = np.random.default_rng(0).uniform(0, _ULPS, x.shape) * jnp.finfo(x.dtype).eps
    return jnp.stack([x, x * (1 - share.astype(x.dtype))])


def _can_make(family: Any, x: jax.Array, slopes: jax.Array, is_moderate: Any) -> jax.Array:
    """Whether the family has a distribution with the slopes of all scores, whatever the rounding.

    Where values are not moderate, for some rounding.
    """
    total = jnp.sum(slopes[:, :2], 0)
    error = _ULPS * jnp.finfo(x.dtype).eps * jnp.sum(jnp.abs(slopes[:, :2]), 0)
    corners = [(first, last) for first in (-1, 1) for last in (-1, 1)]
    at = [jnp.stack([total[i] + sign[i] * error[i] for i in range(2)]) for sign in corners]
    found = jnp.stack([jnp.asarray(family.can_make(family.fit(x[:2], slope))) for slope in at])
    return jnp.where(is_moderate, jnp.all(found, 0), jnp.any(found, 0))


def find_family(program: Program, path: Path) -> Any:
    """The exponential family that the prior of a site belongs to, or None."""

    def look(_: Any, d: Any) -> Any:
        while isinstance(d, distribution_protocol.DistributionWrapper):
            d = d.base  # pyright: ignore
        return getattr(distribution_protocol.part_of(d), "exponential_family", None)

    looked = look_at_distributions(program.jaxpr, [path], look)
    return next((family for _, family in looked), None)


@functools.lru_cache(maxsize=1024)
def _find_kept(_: Hashable) -> list[Any]:
    """A list to keep an answer in: empty at first; equal fingerprints share one list."""
    return []
