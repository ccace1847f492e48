"""Search for the sites of a state space that each particle can carry exactly."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from inference.models.integrated_states import IntegratedStates
from inference.models.state_space import ModelStateSpace
from inference.models.summed_states import SummedStates, combinations
from ppl.harvest.names import nest_by_path, paths_in
from ppl.harvest.program import Program
from ppl.harvest.survey import Path, Sites
from ppl.marginal.degree import CONSTANT, Degree, find_degrees
from ppl.marginal.finite_supports import find_states

_MAX_NORMAL = 32  # numbers of a step that are integrated: a Hessian has a column for each
_MAX_COMBINATIONS = 16  # of discrete values of a step, whose pairs are scored


def carry_exactly(space: ModelStateSpace) -> ModelStateSpace | IntegratedStates | SummedStates:
    """State space without the sites that particles can carry as moments or probabilities.

    Normal sites come first: sites in which, given the values of all other sites, the log density of
    each step is a square, as is proved by its degree. If there are none, discrete sites of a step
    with few combinations are summed. The carry must be a function of the values of the last step.
    """
    if space.split.memory != 1:
        return space
    at_start, in_step = _find_normal(space)
    if in_step:
        return IntegratedStates(space, at_start, in_step)
    return _sum_discrete(space)


def why_not_exact(space: ModelStateSpace) -> str:
    """Reason why particles can carry no site of a state space exactly."""
    if space.split.memory != 1:
        return "the carry is no function of the values of the last step alone"
    return (
        "no site of a step is normal given all others with densities that are squares in it, and "
        "none is discrete with few values"
    )


def _sum_discrete(space: ModelStateSpace) -> ModelStateSpace | SummedStates:
    body = space.split.body
    states = []
    for path, site in body.latent.items():
        try:
            program = Program(body.jaxpr, [], [None] * len(body.jaxpr.invars), list)
            found = find_states(program, [path])[path]
        except ValueError:
            continue
        if len(site.avals) == 1:
            states.append((path, found, site.avals[0]))
    chosen = []
    num = 1
    for path, found, aval in sorted(states, key=lambda x: len(x[1]) ** x[2].size):
        num *= len(found) ** aval.size
        if num <= _MAX_COMBINATIONS:
            chosen.append((path, found.astype(aval.dtype), aval.shape))
    if not chosen:
        return space
    paths, found, shapes = zip(*chosen, strict=True)
    values = combinations(list(found), list(shapes))
    dtypes = [x.dtype for x in found]
    cast = tuple(x.astype(t) for x, t in zip(values, dtypes, strict=True))
    return SummedStates(space, cast, tuple(paths))


def _find_normal(space: ModelStateSpace) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Paths of the sites before the scan, and in a step, that are jointly normal."""
    starts = _candidates(space.split.before.latent, space.start_sites)
    steps = _candidates(space.split.body.latent, space.step_sites)
    degrees = _Degrees.of(space)
    chosen: tuple[list[Path], list[Path]] = ([], [])
    size = 0
    for kind, path, aval in [(1, *x) for x in steps] + [(0, *x) for x in starts]:
        tried = tuple([*paths, path] if i == kind else paths for i, paths in enumerate(chosen))
        if size + aval.size <= _MAX_NORMAL and degrees.are_normal(*tried):
            chosen[kind].append(path)
            size += aval.size
    return tuple(chosen[0]), tuple(chosen[1])


def _candidates(sites: Sites, paths: Iterable[Path]) -> list[tuple[Path, Any]]:
    """Sites that are one array of real numbers."""
    found = [(path, sites[path].avals) for path in paths]
    return [
        (path, avals[0])
        for path, avals in found
        if len(avals) == 1 and jnp.issubdtype(avals[0].dtype, jnp.floating)
    ]


@dataclasses.dataclass(frozen=True)
class _Traced:
    """Program of a score, with the path of the site of each input that is a value."""

    jaxpr: Any
    names: Sequence[Path | None]

    def degrees(self, state: Sequence[Degree], paths: Sequence[Path]) -> list[Degree]:
        """Degrees of state after it, log density and log weight."""
        rest = [Degree(1, frozenset([x])) if x in paths else CONSTANT for x in self.names]
        return find_degrees(self.jaxpr, [*state, *rest])


@dataclasses.dataclass(frozen=True)
class _Degrees:
    """Programs of the scores of a state space as functions of states and values."""

    start: _Traced
    step: _Traced
    finish: _Traced

    @classmethod
    def of(cls, space: ModelStateSpace) -> "_Degrees":
        key = jax.eval_shape(lambda: random.key(0))
        state, at_start, _ = jax.eval_shape(space.start, key)
        t = jax.ShapeDtypeStruct((), jnp.int32)
        _, in_step, _ = jax.eval_shape(space.move, key, state, t)

        def step(state: Any, values: Any, t: Any) -> Any:
            return space.score(state, values, t)

        def finish(state: Any) -> Any:
            return state, jnp.zeros(()), space.finish(state)

        return cls(
            _Traced(jax.make_jaxpr(space.score_start)(at_start), _names(at_start, space)),
            _Traced(jax.make_jaxpr(step)(state, in_step, t), [*_names(in_step, space), None]),
            _Traced(jax.make_jaxpr(finish)(state), []),
        )

    def are_normal(self, at_start: Sequence[Path], in_step: Sequence[Path]) -> bool:
        """Whether all log densities are squares, and states linear, in the values of some sites.

        The log density of each site must have a square of its value.
        """
        *of_start, density, weight = self.start.degrees([], at_start)
        if not _is_square(density, weight, at_start):
            return False
        constant = [CONSTANT] * len(of_start)
        *of_step, _, _ = self.step.degrees(constant, in_step)
        states = [_join(*pair) for pair in zip(of_start, of_step, strict=True)]
        if any(x.degree > 1 for x in states):
            return False
        if any(x.degree for x in self.step.degrees(states, [])[:-2]):
            return False  # a value that later steps need besides the carry
        *of_step, density, weight = self.step.degrees(states, in_step)
        *_, last = self.finish.degrees(states, [])
        return (
            _is_square(density, weight, in_step)
            and all(x.degree <= 1 for x in of_step)
            and last.degree <= 2
        )


def _is_square(density: Degree, weight: Degree, paths: Sequence[Path]) -> bool:
    if not paths:
        return max(density.degree, weight.degree) <= 2
    return density.degree == 2 and density.variables >= {*paths} and weight.degree <= 2


def _join(a: Degree, b: Degree) -> Degree:
    largest = max(a.degree, b.degree)
    return CONSTANT if largest == 0 else Degree(largest, a.variables | b.variables)


def _names(values: Any, space: ModelStateSpace) -> list[Path]:
    """Path of the site of each leaf of values, in the order of `jax.tree.leaves`."""
    named = {
        path: jax.tree.map(lambda _, path=path: _Name(path), x)
        for path, x in paths_in(values, space.split.order)
    }
    return [x.path for x in jax.tree.leaves(nest_by_path(named))]


@dataclasses.dataclass(frozen=True)
class _Name:
    """Path of a site as a leaf."""

    path: Path
