"""Conjugacy: whether the full conditional of a site lies in an exponential family.

It is a question about the program, so that it is asked at draws of all other sites from the prior
and of the data given these, and in double precision: the slope of each score must be that of a
member of the family at further points, and the density positive on the whole support.
"""

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.full_conditional import score_values
from ppl.core.model_pytree import Model
from ppl.core.model_run import ModelRun, trace_model
from ppl.core.natural_parameters import alternate, measure_in_bulk, points_at
from ppl.harvest import _jax
from ppl.harvest._survey import Path
from ppl.primitives.site_kinds import RANDOM
from ppl.transforms.simulate import Record
from ppl.transforms.unobserve import unobserve

_NUM_DRAWS = 8  # of all other sites
# Points, in spreads from the center: two that are fitted, others at which slopes are compared, and
# two at which the density must be positive.
_OFFSETS = (-0.8, 0.8, -1.5, 0.3, 2.0, -25.0, 25.0)
_NUM_NEAR = 5
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_TOLERANCES = {"float64": 1e-7, "float32": 1e-3}  # of slopes, relative to the largest


@dataclasses.dataclass(frozen=True)
class Question:
    """Whether the full conditional of a site lies in a family, for a model and its arguments."""

    model: Model
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    path: Path
    scored: Sequence[Path]
    family: Any

    def is_conjugate(self) -> bool:
        """The answer, which is kept. Values that are traced stand for any, as numbers."""
        program = trace_model(self.model, None, self.args, self.kwargs)
        inputs = [x for x in program.inputs if x is not None]
        numbers = tuple(fingerprint_constants(program.jaxpr, inputs))
        wiring = fingerprint_wiring(program.jaxpr)
        kept = _find_answer((numbers, wiring, self.path, tuple(self.scored), self.family))
        if not kept:
            kept.append(self._answer())
        return kept[0]

    def _answer(self) -> bool:
        with jax.ensure_compile_time_eval():
            try:
                with jax.enable_x64(True):
                    return self._ask(np.float64)
            except (TypeError, ValueError):  # The model wants single precision.
                return self._ask(np.float32)

    def _ask(self, dtype: Any) -> bool:
        model, args, kwargs = jax.tree.map(
            _Numbers(dtype).replace, (self.model, self.args, dict(self.kwargs))
        )
        program = trace_model(model, None, args, kwargs)
        jaxpr, inputs = program.jaxpr, _Numbers(dtype).fill(program.inputs, len(program.consts))
        simulation = trace_model(unobserve(model), jax.random.key(0), args, kwargs)
        at = len(simulation.consts)
        given = _Numbers(dtype).fill(simulation.inputs, at)

        def ask(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            consts, rest = given[:at], given[at + 1 :]
            drawn = dataclasses.replace(simulation, consts=consts, operands=[key, *rest])
            run = ModelRun(model, drawn, Record())
            values = run.run({}, live_outs=False)[1]
            plants = {
                path: tuple(jax.tree.leaves(value))
                for path, value in values.items()
                if run.sites[path].site.tag == RANDOM
            }
            return self._compare(key, jaxpr, inputs, plants)

        found = jax.jit(jax.vmap(ask), compiler_options=_QUICK)(
            jax.random.split(jax.random.key(1), _NUM_DRAWS)
        )
        is_like, is_finite = map(np.asarray, found)
        return bool(np.all(is_like | ~is_finite) and np.all(np.any(is_finite, 0)))

    def _compare(
        self, key: Any, jaxpr: Any, inputs: Sequence[Any], plants: Mapping[Path, Any]
    ) -> tuple[jax.Array, jax.Array]:
        """For each element, whether slopes are those of the family, and whether all are finite."""
        family, (like,) = self.family, plants[self.path]

        shape, dtype = like.shape, like.dtype

        def scores(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            found = score_values(jaxpr, inputs, {**plants, self.path: (x,)}, self.scored)
            heights = jnp.stack([found[path] for path in self.scored])
            return heights, heights

        offsets = jnp.asarray(_OFFSETS, dtype).reshape(-1, *[1] * len(shape))
        spread = jax.random.uniform(key, (len(_OFFSETS), *shape), dtype, 0.7, 1.3)
        offsets = offsets * spread * alternate(shape, 1)

        def measure(place: Any) -> Any:
            x = points_at(family, place, offsets)
            gradients, heights = jax.vmap(jax.jacrev(scores, has_aux=True), out_axes=1)(x)
            return x, jax.vmap(jax.vmap(family.slope), (None, 0))(x, gradients), heights

        def fit(measured: Any) -> Any:
            x, slopes, _ = measured
            return family.fit(x[:2], jnp.sum(slopes, 0)[:2])

        x, slopes, heights = measure_in_bulk(family, measure, fit, shape, dtype)
        near = slice(None, _NUM_NEAR)
        x, slopes = x[near], slopes[:, near]
        fitted = jax.vmap(lambda slope: family.fit(x[:2], slope[:2]))(slopes)
        predict = jax.vmap(jax.vmap(family.predict, (0, None)), (None, 0))
        error = jnp.abs(slopes - predict(x, fitted))
        size = jnp.max(jnp.abs(slopes), 1, keepdims=True)
        tolerance = _TOLERANCES[str(slopes.dtype)]
        bound = tolerance * (size + tolerance * jnp.max(size, 0, keepdims=True))
        is_like = jnp.all(error <= bound, (0, 1)) & jnp.all(heights > -jnp.inf)
        is_finite = jnp.all(jnp.isfinite(slopes), (0, 1)) & ~jnp.any(jnp.isnan(heights))
        return is_like, is_finite


@functools.lru_cache(maxsize=1024)
def _find_answer(_: Hashable) -> list[bool]:
    """The answer to a question by its fingerprint, if there is one already."""
    return []


class _Numbers:
    """Numbers in place of values that are traced."""

    def __init__(self, dtype: Any):
        self._dtype, self._rng = dtype, np.random.default_rng(0)

    def replace(self, x: Any) -> Any:
        """A value in a floating dtype, if it is an array; numbers in place of a traced one."""
        if _jax.is_traced(x):
            return self._draw(x)
        is_floating = hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating)
        return np.asarray(x, self._dtype) if is_floating else x

    def fill(self, inputs: Sequence[Any], key: int) -> list[Any]:
        """Inputs of a program, with numbers in place of those that are traced."""
        return [x if x is None else self._draw(x) if _jax.is_traced(x) else x for x in inputs]

    def _draw(self, x: Any) -> Any:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            return (
                jax.random.key(0) if not x.shape else jax.random.split(jax.random.key(0), x.shape)
            )
        if jnp.issubdtype(x.dtype, jnp.floating):
            return self._rng.uniform(0.2, 0.8, x.shape).astype(self._dtype)
        if x.dtype == bool:
            return self._rng.uniform(size=x.shape) < 0.5
        return self._rng.integers(1, 3, x.shape).astype(x.dtype)
