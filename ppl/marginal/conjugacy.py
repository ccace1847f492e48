"""Conjugacy: whether the full conditional of a site lies in an exponential family.

The answer depends only on the program. So the other sites have random values, the data are drawn
given these, and all numbers are in double precision. A member of the family is fitted to the slope
of each score at two points. At further points, the slopes of the score and of this member must
agree, and the density must be positive on the whole support.

Random values of a continuous site lie at unconstrained positions of moderate size, at several
scales. Draws from a vague prior would not do: under a precision that is nearly 0, effects are huge,
a likelihood is flat or not finite, and its slopes tell nothing. Discrete sites are drawn.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
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
from ppl.harvest.program import Harvester, Program
from ppl.harvest.survey import Path, Sites
from ppl.marginal.finite_supports import look_at_distributions
from ppl.marginal.full_conditional import PlaceValues, RecordValues, score_values
from ppl.marginal.natural_parameters import alternate, measure_in_bulk, points_at
from ppl.primitives.site_kinds import LATENT, OBSERVED, kind_of
from ppl.transforms.unobserve import unobserve

_RADII = (2.0, 2.0, 1.0, 1.0, 0.5, 0.1, 0.01, 0.001)  # of unconstrained positions, by draw
# Points, in spreads from the center: the first two are fitted, slopes are compared at the others.
# At points far out, the density must be positive.
_NEAR = (-0.8, 0.8, -1.5, 0.3, 2.0)
_FAR = {"float64": 20.0, "float32": 8.0}
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_TOLERANCES = {"float64": 1e-7, "float32": 1e-3}  # of slopes, relative to the largest


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
        answer, fixed = self._answer()
        undrawn[:] = [fixed]
        _find_kept((asked, self._values(fixed)))[:] = [answer]
        return answer

    def _values(self, paths: Sequence[Path]) -> Hashable:
        """Fingerprint of the values of sites that cannot be drawn."""
        return tuple(fingerprint_value(x) for path in paths for x in self.plants[path])

    def _answer(self) -> tuple[bool, Sequence[Path]]:
        """The answer, and the sites that kept their values because they cannot be drawn."""
        leaves = jax.tree.leaves((self.model, self.args, self.kwargs))
        has_masks = any(jax_core.is_traced(x) and x.dtype == bool for x in leaves)
        numbers = [_Numbers(bit) for bit in ((None, False, True) if has_masks else (None,))]
        try:
            with jax.enable_x64(True):
                return self._ask_all([dataclasses.replace(n, dtype=np.float64) for n in numbers])
        except (TypeError, ValueError):  # The model wants single precision.
            return self._ask_all(numbers)

    def _ask_all(self, numbers: Sequence["_Numbers"]) -> tuple[bool, Sequence[Path]]:
        fixed: Sequence[Path] = ()
        for each in numbers:
            is_conjugate, fixed = self._ask(each)
            if not is_conjugate:
                return False, fixed
        return True, fixed

    def _ask(self, numbers: "_Numbers") -> tuple[bool, Sequence[Path]]:
        with jax.ensure_compile_time_eval():
            model, args, kwargs = jax.tree.map(
                numbers.replace, (self.model, self.args, dict(self.kwargs))
            )
        program = trace_model(model, None, args, kwargs)
        with jax.ensure_compile_time_eval():
            inputs = [*map(numbers.fill, program.inputs)]

        def compare(simulated: Model, fixed: Sequence[Path]) -> bool:
            simulation = trace_model(simulated, None, args, kwargs)
            # Sows of numbers that are known would be lost where models are traced so.
            with jax.ensure_compile_time_eval():
                draw = self._drawing(simulation, fixed, numbers)

                def one(key, radius):
                    return self._compare(key, program.jaxpr, inputs, draw(key, radius))

                keys = jax.random.split(jax.random.key(0), len(_RADII))
                radii = np.asarray(_RADII)
                found = jax.jit(jax.vmap(one), compiler_options=_QUICK)(keys, radii)
                is_like, is_finite = map(np.asarray, found)
            return bool(np.all(is_like | ~is_finite) and np.all(np.any(is_finite, 0)))

        try:
            return compare(unobserve(model), []), ()
        except NotImplementedError:
            fixed = self._find_undrawn(program)
            has_data = any(kind_of(self.sites[path].site) == OBSERVED for path in fixed)
            return compare(model if has_data else unobserve(model), fixed), fixed

    def _drawing(
        self, simulation: Program, fixed: Sequence[Path], numbers: "_Numbers"
    ) -> Callable[[jax.Array, jax.Array], dict[Path, Any]]:
        """A function of a key and a radius that gives all random sites random values.

        Sites in `fixed` keep their values.
        """
        inputs = [*map(numbers.fill, simulation.inputs)]
        at = len(simulation.consts)
        kept = {path: tuple(map(numbers.replace, self.plants[path])) for path in fixed}
        placed = self._find_placed(simulation, fixed)
        paths = frozenset([self.path, *self.plants])
        record = PlaceValues(paths, placed=frozenset(placed))

        def draw(key: jax.Array, radius: jax.Array) -> dict[Path, Any]:
            key, key_of_positions = jax.random.split(key)
            positions = _draw_positions(key_of_positions, radius, placed)
            operands = [key, *inputs[at + 1 :]]
            program = dataclasses.replace(simulation, consts=inputs[:at], operands=operands)
            return Harvester(program, record).run({**kept, **positions}, live_outs=False)[1]

        return draw

    def _find_placed(self, simulation: Program, fixed: Sequence[Path]) -> dict[Path, Any]:
        """Abstract values of continuous latent sites with a map from unconstrained space."""
        latent = [p for p, f in self.sites.items() if kind_of(f.site) == LATENT and p not in fixed]
        found = look_at_distributions(simulation.jaxpr, latent, _has_map)
        others = {site.path for site, has_map in found if not has_map}
        sites = Harvester(simulation, RecordValues()).sites
        avals = {path: sites[path].collapse().avals for path in latent if path not in others}
        return {path: aval for path, (aval, *rest) in avals.items() if not rest}

    def _find_undrawn(self, program: Program) -> list[Path]:
        """Sites with a distribution that has no draws, such as an improper one."""

        def cannot_draw(_: Any, d: Any) -> bool:
            try:
                jax.eval_shape(lambda: distribution_protocol.draw(d, jax.random.key(0)))
            except NotImplementedError:
                return True
            return False

        found = look_at_distributions(program.jaxpr, list(self.plants), cannot_draw)
        return [site.path for site, cannot in found if cannot]

    def _compare(
        self, key: Any, jaxpr: Any, inputs: Sequence[Any], plants: Mapping[Path, Any]
    ) -> tuple[jax.Array, jax.Array]:
        """Two masks of elements: slopes agree with the family's; all slopes are finite."""
        family, (like,) = self.family, plants[self.path]
        shape = like.shape
        dtype = like.dtype

        def scores(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            found = score_values(jaxpr, inputs, {**plants, self.path: (x,)}, self.scored)
            heights = jnp.stack([found[path] for path in self.scored])
            return heights, heights

        far = _FAR[str(dtype)]
        offsets = jnp.asarray([*_NEAR, -far, far], dtype).reshape(-1, *[1] * len(shape))
        stretch = jax.random.uniform(key, (len(offsets), *shape), dtype, 0.7, 1.3)
        offsets = offsets * stretch * alternate(shape, 1)

        def measure(place: Any) -> Any:
            x = points_at(family, place, offsets)
            gradients, heights = jax.vmap(jax.jacrev(scores, has_aux=True), out_axes=1)(x)
            return x, jax.vmap(jax.vmap(family.slope), (None, 0))(x, gradients), heights

        def fit(measured: Any) -> Any:
            x, slopes, _ = measured
            return family.fit(x[:2], jnp.sum(slopes, 0)[:2])

        x, slopes, heights = measure_in_bulk(family, measure, fit, family.start(shape, dtype))
        x = x[: len(_NEAR)]
        slopes = slopes[:, : len(_NEAR)]
        fitted = jax.vmap(lambda slope: family.fit(x[:2], slope[:2]))(slopes)
        predict = jax.vmap(jax.vmap(family.predict, (0, None)), (None, 0))
        error = jnp.abs(slopes - predict(x, fitted))
        size = jnp.max(jnp.abs(slopes), 1, keepdims=True)
        tolerance = _TOLERANCES[str(slopes.dtype)]
        bound = tolerance * (size + tolerance * jnp.max(size, 0, keepdims=True))
        is_like = jnp.all(error <= bound, (0, 1)) & jnp.all(heights > -jnp.inf)
        is_finite = jnp.all(jnp.isfinite(slopes), (0, 1)) & ~jnp.any(jnp.isnan(heights))
        return is_like, is_finite


def _has_map(_: Any, d: Any) -> bool:
    """Whether values of a distribution have unconstrained positions."""
    try:
        value = distribution_protocol.abstract_draw(d, jax.random.key(0))
        jax.eval_shape(lambda x: distribution_protocol.inverse(d, x), value)
    except NotImplementedError:
        return False
    return True


def _draw_positions(
    key: jax.Array, radius: jax.Array, avals: Mapping[Path, Any]
) -> dict[Path, tuple[jax.Array]]:
    """Numbers uniform on (-radius, radius), for each site."""
    ends = list(itertools.accumulate(x.size for x in avals.values()))
    # One call for all sites: every call of a sampler costs its compilation.
    flat = radius * jax.random.uniform(key, (ends[-1] if ends else 0,), radius.dtype, -1.0, 1.0)
    return {
        path: (flat[end - x.size : end].reshape(x.shape).astype(x.dtype),)
        for end, (path, x) in zip(ends, avals.items(), strict=True)
    }


@functools.lru_cache(maxsize=1024)
def _find_kept(_: Hashable) -> list[Any]:
    """A list to keep an answer in: empty at first; equal fingerprints share one list."""
    return []


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Numbers that replace traced values.

    Attributes:
        bit: The value of booleans, or None for random booleans.
        dtype: The dtype of floating numbers.
    """

    bit: bool | None = None
    dtype: Any = np.float32

    def replace(self, x: Any) -> Any:
        """A value after `fill`, cast to `dtype` if it is a floating array."""
        x = self.fill(x)
        is_floating = hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
        if not is_floating:
            return x
        return (jnp if isinstance(x, jax.Array) else np).asarray(x, self.dtype)

    def fill(self, x: Any) -> Any:
        """Numbers of the same shape and dtype for a traced value; any other value unchanged."""
        if not jax_core.is_traced(x):
            return x
        rng = np.random.default_rng(0)
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            key = jax.random.key(0)
            return jax.random.split(key, x.shape) if x.shape else key
        if x.dtype == bool and self.bit is not None:
            return jnp.full(x.shape, self.bit)
        if x.dtype == bool:
            return jnp.asarray(rng.uniform(size=x.shape) < 0.5)
        is_floating = jnp.issubdtype(x.dtype, jnp.floating)
        found = rng.uniform(0.2, 0.8, x.shape) if is_floating else rng.integers(1, 3, x.shape)
        return jnp.asarray(found, x.dtype)
