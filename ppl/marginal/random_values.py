"""Random values of all sites of a model, at which the conjugacy of each site is verified.

Values of a continuous site lie at unconstrained positions of moderate size, at several scales.
Draws from a vague prior alone would not do: under a precision that is nearly 0, effects are huge, a
likelihood is flat or not finite, and its slopes tell nothing. Discrete sites and data are drawn.

Moderate positions may be far from the prior, which then decides what a model is like: so further
draws have all of these values, or half of them, from the prior, or lie at large positions.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.harvest import jax_core
from ppl.harvest.program import Harvester, Program
from ppl.harvest.survey import Path, Sites
from ppl.marginal.finite_supports import look_at_distributions
from ppl.marginal.full_conditional import PlaceValues, RecordValues
from ppl.primitives.site_kinds import LATENT, kind_of

_RADII = (2.0, 2.0, 1.0, 1.0, 0.5, 0.1, 0.01, 0.001)  # of unconstrained positions, by draw
_FAR_RADII = (5.0, 20.0)
_PRIOR_SHARES = (1.0, 1.0, 1.0, 1.0, 0.5, 0.5)  # of the sites that are drawn, by further draw
IS_MODERATE = np.arange(len(_RADII + _FAR_RADII + _PRIOR_SHARES)) < len(_RADII)  # by draw
_MAX_KEPT = 2**23  # numbers of one model that are kept for its other sites
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_BRISK = {"xla_backend_optimization_level": 1}
_NO_EMITTERS = {"xla_cpu_use_fusion_emitters": False}  # before JAX 0.12

Values = Mapping[Path, Sequence[Any]]  # of sites, with an axis of draws in front


@dataclasses.dataclass(frozen=True)
class Numbers:
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


@dataclasses.dataclass(frozen=True)
class Simulation:
    """Simulation of all random sites of a model whose data are not fixed.

    Attributes:
        program: The program of the model.
        numbers: Numbers that replace traced values.
        sites: All sites.
        paths: The random sites.
        kept: Values of sites that cannot be drawn.
    """

    program: Program
    numbers: Numbers
    sites: Sites
    paths: frozenset[Path]
    kept: Mapping[Path, tuple[Any, ...]]

    def draw(self) -> Values:
        """Values of all random sites, by draw; the first, in `IS_MODERATE`, are moderate.

        Raises:
            NotImplementedError: If a site has neither draws nor a map from unconstrained space.
        """
        placed = self._find_placed()
        inputs = [*map(self.numbers.fill, self.program.inputs)]
        at = len(self.program.consts)
        undrawn = find_undrawn(self.program, [*placed])
        record = PlaceValues(self.paths, frozenset(placed), frozenset(placed) - frozenset(undrawn))

        def one(seed: jax.Array, positions: Mapping[Path, Any]) -> Values:
            operands = [jax.random.key(seed), *inputs[at + 1 :]]
            program = dataclasses.replace(self.program, consts=inputs[:at], operands=operands)
            return Harvester(program, record).run({**self.kept, **positions}, live_outs=False)[1]

        # Sows of numbers that are known would be lost where models are traced so.
        with jax.ensure_compile_time_eval():
            seeds = np.arange(len(IS_MODERATE), dtype=np.uint32)
            positions = _draw_positions(placed)
            found = jax.jit(jax.vmap(one), compiler_options=quick_options())(seeds, positions)
            return jax.tree.map(np.asarray, dict(found))

    def _find_placed(self) -> dict[Path, Any]:
        """Abstract values of continuous latent sites with a map from unconstrained space."""
        latent = [p for p, f in self.sites.items() if kind_of(f.site) == LATENT]
        latent = [path for path in latent if path not in self.kept]
        found = look_at_distributions(self.program.jaxpr, latent, _has_map)
        others = {site.path for site, has_map in found if not has_map}
        sites = Harvester(self.program, RecordValues()).sites
        avals = {path: sites[path].collapse().avals for path in latent if path not in others}
        return {path: aval for path, (aval, *rest) in avals.items() if not rest}


def draw_once(asked: Hashable, simulation: Callable[[], Simulation]) -> Values:
    """Draws of a simulation, kept for the next site of the same model.

    Args:
        asked: All that the draws depend on.
        simulation: Gives the simulation; it is called where there are no draws yet.
    """
    kept = _find_draws(asked)
    if kept:
        return kept[0]
    values = simulation().draw()
    if sum(x.size for x in jax.tree.leaves(values)) <= _MAX_KEPT:
        kept.append(values)
    return values


@functools.lru_cache(maxsize=4)
def _find_draws(_: Hashable) -> list[Values]:
    """A list to keep draws in: empty at first; equal fingerprints share one list."""
    return []


def find_undrawn(program: Program, paths: Sequence[Path]) -> list[Path]:
    """Sites with a distribution that has no draws, such as an improper one."""

    def has_draws(_: Any, d: Any) -> bool:
        return distribution_protocol.has_draws(d)

    found = look_at_distributions(program.jaxpr, paths, has_draws)
    return [site.path for site, is_drawn in found if not is_drawn]


def quick_options() -> dict[str, Any]:
    """Options of XLA for programs that run once: they compile in a third of the time."""
    return {**_QUICK, **_faster_options()}


def brisk_options() -> dict[str, Any]:
    """Options of XLA for programs that run for a second: they compile in half of the time."""
    return {**_BRISK, **_faster_options()}


@functools.cache
def _faster_options() -> dict[str, Any]:
    """Options by which every program is compiled faster, and large loops run slower."""
    try:
        jax.jit(lambda: 0, compiler_options=_NO_EMITTERS).lower().compile()
    except jax.errors.JaxRuntimeError:  # This version has no such option.
        return {}
    return _NO_EMITTERS


def _has_map(_: Any, d: Any) -> bool:
    """Whether values of a distribution have unconstrained positions."""
    try:
        value = distribution_protocol.abstract_draw(d, jax.random.key(0))
        jax.eval_shape(lambda x: distribution_protocol.inverse(d, x), value)
    except NotImplementedError:
        return False
    return True


def _draw_positions(avals: Mapping[Path, Any]) -> dict[Path, tuple[np.ndarray, np.ndarray]]:
    """Numbers uniform on (-radius, radius) by draw and site; a mask of what the prior gives."""
    rng = np.random.default_rng(0)
    radii = np.asarray([*_RADII, *_FAR_RADII, *[_RADII[0]] * len(_PRIOR_SHARES)])
    shares = np.asarray([*[0.0] * len(_RADII + _FAR_RADII), *_PRIOR_SHARES])
    found = {}
    for path, x in avals.items():
        numbers = rng.uniform(-1, 1, (len(radii), x.size)) * radii[:, None]
        is_drawn = np.repeat(rng.uniform(size=(len(radii), 1)) < shares[:, None], x.size, 1)
        shape = (len(radii), *x.shape)
        found[path] = (numbers.reshape(shape).astype(x.dtype), is_drawn.reshape(shape))
    return found
