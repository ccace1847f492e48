"""A case: a random program, the values of its sites, and which role each site has."""

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .grammar import Family, Program, sites
from .oracle import Oracle, Path, Run
from .source import write
from .to_jax import nested, to_model

Values = dict[Path, Any]


@dataclasses.dataclass(frozen=True)
class Case:
    """A program and a seed, from which the values and the roles of its sites follow.

    The role of a site depends on the seed and its name alone, so that it stays as the program
    shrinks.
    """

    program: Program
    seed: int

    @functools.cached_property
    def source(self) -> str:
        return write(self.program)

    @functools.cached_property
    def oracle(self) -> Oracle:
        return Oracle(self.source)

    @functools.cached_property
    def model(self) -> Callable[..., Any]:
        return to_model(self.source)

    @functools.cached_property
    def run(self) -> Run:
        """A run of the program, its sites drawn by NumPy."""
        return self.oracle.run({}, seed=self.seed)

    @property
    def is_tame(self) -> bool:
        """Whether all numbers are small enough for finite differences."""
        return all(np.all(np.abs(x) < 1e3) for x in self.run.values.values())

    @functools.cached_property
    def sites(self) -> dict[Path, Family]:
        return {path: family for path, family, _ in sites(self.program)}

    def luck(self, *what: Any) -> float:
        """A uniform number that belongs to the seed and a question."""
        return random.Random(f"{self.seed} {what}").random()

    def pick(self, among: Sequence[Any], *what: Any) -> Any:
        """One of several things."""
        return among[int(len(among) * self.luck(*what))]

    def split(self, paths: Sequence[Path], share: float, what: str) -> tuple[Values, Values]:
        """The values of some sites, and those of others: of the share, and the rest."""
        first = {p: self.run.values[p] for p in paths if self.luck(what, p) < share}
        return first, {p: self.run.values[p] for p in paths if p not in first}

    def discrete(self, max_states: int, what: str) -> list[Path]:
        """Some sites with few states together."""
        found, left = [], max_states
        for path, family in self.sites.items():
            if family.states and self.luck(what, path) < 0.8:
                num = float(family.states) ** np.size(self.run.values[path])
                if num <= left:
                    found.append(path)
                    left //= int(num)
        return found

    def states(self, paths: Sequence[Path]) -> Iterator[Values]:
        """All joint states of discrete sites."""
        shapes = [np.shape(self.run.values[p]) for p in paths]
        nums = [np.full(s, self.sites[p].states) for p, s in zip(paths, shapes, strict=True)]
        sizes = [int(np.prod(s)) for s in shapes]
        bases = [int(n) for x in nums for n in np.ravel(x)]
        for state in np.ndindex(*bases):
            parts = np.split(np.array(state, int), np.cumsum(sizes)[:-1]) if sizes else []
            yield {p: x.reshape(s) for p, x, s in zip(paths, parts, shapes, strict=True)}

    def is_smooth(self, path: Path) -> bool:
        """Whether all values nearby are in the support."""
        return self.run.supports[path] in ("real", "positive", "unit")


def to_arrays(values: Mapping[Path, Any]) -> dict[str, Any]:
    """Values for JAX, nested by scope."""
    arrays = {}
    for path, x in values.items():
        is_whole = np.issubdtype(np.asarray(x).dtype, np.integer)
        arrays[path] = jnp.asarray(x, jnp.int32 if is_whole else float)
    return nested(arrays)


def moved(values: Mapping[Path, Any], direction: Mapping[Path, Any], step: float) -> Values:
    """Values moved along a direction."""
    return {p: x + step * direction[p] if p in direction else x for p, x in values.items()}


def slope(f: Callable[[Values], float], values: Values, direction: Values) -> float:
    """The derivative of a function along a direction, by differences of the fourth order."""
    at = lambda h: f(moved(values, direction, h))  # noqa: E731
    h = 1e-4
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def direction(case: Case, values: Values) -> Values:
    """A random direction among the smooth sites, small where a value is."""
    rng = np.random.default_rng(case.seed)
    found = {}
    for path, x in values.items():
        if case.is_smooth(path):
            room = np.minimum(np.abs(x), 1.0)
            if case.run.supports[path] == "unit":
                room = np.minimum(room, 1.0 - x)
            found[path] = room * rng.uniform(-1, 1, np.shape(x))
    return found


def along(gradient: Any, direction: Values) -> float:
    """The derivative along a direction, of a gradient nested by scope."""
    total = 0.0
    for path, x in direction.items():
        inner = functools.reduce(lambda tree, name: tree[name], path, gradient)
        total += float(np.sum(np.asarray(inner) * x))
    return total


def value_and_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function of values, some of which are whole numbers, and its gradient."""
    return jax.jit(jax.value_and_grad(f, allow_int=True))
