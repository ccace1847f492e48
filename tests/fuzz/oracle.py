"""Programs run as plain Python over NumPy: loops are loops, and each draw adds a log density."""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from . import families

Path = tuple[str, ...]
Values = Mapping[Path, Any]


def halved(x: Any) -> Any:
    """A number halved until it is below 1."""
    while abs(x) > 1:
        x = 0.5 * x
    return x


@dataclasses.dataclass
class Run:
    """What a run has found: arrays by path, with the axes of loops and maps in front.

    `weights` are what log probabilities and factors were multiplied by.
    """

    values: dict[Path, Any]
    log_probs: dict[Path, Any]
    factors: dict[Path, Any]
    derived: dict[Path, Any]
    supports: dict[Path, str]
    weights: dict[Path, Any]
    out: Any

    def log_density(self) -> float:
        """The sum of all terms."""
        terms = [*self.log_probs.values(), *self.factors.values()]
        return float(sum(np.sum(x) for x in terms))


class _Machine:
    """State of one run, and the functions that a program calls."""

    def __init__(self, values: Values, rng: Any, fixed: Values, ignored: Values):
        self._values, self._rng, self._fixed, self._ignored = values, rng, fixed, ignored
        self._scope: Path = ()
        self._index: tuple[int, ...] = ()
        self._factor = 1.0
        self.records: dict[str, dict[Path, dict[tuple[int, ...], Any]]] = collections.defaultdict(
            lambda: collections.defaultdict(dict)
        )
        self.supports: dict[Path, str] = {}

    def record(self, what: str, path: Path, value: Any) -> None:
        assert self._index not in self.records[what][path], path
        self.records[what][path][self._index] = np.asarray(value)

    def names(self) -> dict[str, Any]:
        """What the names in the text of a program mean."""
        return families.ALL | {
            "sample": self.sample,
            "factor": self.factor,
            "deterministic": self.deterministic,
            "scan": self.scan,
            "vmap": self.vmap,
            "fori_loop": self.fori_loop,
            "cond": self.cond,
            "switch": self.switch,
            "nest": self.nest,
            "scale": self.scale,
            "xp": np,
            "jit": lambda f: f,
            "checkpoint": lambda f: f,
            "split": lambda key, num: [None] * num,
            "fold_in": lambda key, i: None,
            "real": lambda x: np.asarray(x, float),
            "whole": lambda x: np.asarray(x, int),
            "squash": special.expit,
            "halved": halved,
            "placed": lambda vector, index, x: np.where(np.arange(len(vector)) == index, x, vector),
        }

    def sample(self, key: Any, d: Any, *, name: str) -> Any:
        path = (*self._scope, name)
        if path in self._fixed:
            value = np.asarray(self._fixed[path])[self._index]
            self.record("derived", path, value)
            return value
        drawn = path not in self._values
        value = d.draw(self._rng) if drawn else np.asarray(self._values[path])[self._index]
        with np.errstate(all="ignore"):
            log_prob = np.asarray(d.log_prob(value))
        if self._factor != 1.0:
            log_prob = np.where(log_prob == -np.inf, -np.inf, self._factor * log_prob)
        if path in self._ignored:
            log_prob = np.where(self._ignored[path][self._index], 0.0, log_prob)
        self.record("values", path, value)
        self.record("log_probs", path, log_prob)
        self.record("weights", path, self._factor)
        self.supports[path] = d.support
        return np.asarray(value)

    def factor(self, x: Any, *, name: str) -> None:
        self.record("factors", (*self._scope, name), self._factor * np.asarray(x))
        self.record("weights", (*self._scope, name), self._factor)

    def deterministic(self, x: Any, *, name: str) -> Any:
        self.record("derived", (*self._scope, name), x)
        return x

    def _at(self, i: int, f: Callable[..., Any], *args: Any) -> Any:
        self._index = (*self._index, i)
        out = f(*args)
        self._index = self._index[:-1]
        return out

    def scan(self, f: Any, carry: Any, xs: tuple[Any, ...]) -> tuple[Any, Any]:
        ys = []
        for i in range(len(xs[0])):
            carry, y = self._at(i, f, carry, tuple(x[i] for x in xs))
            ys.append(y)
        return carry, np.stack(ys)

    def vmap(self, f: Any) -> Callable[..., Any]:
        return lambda *xs: np.stack(
            [self._at(i, f, *(x[i] for x in xs)) for i in range(len(xs[0]))]
        )

    def fori_loop(self, first: int, last: int, f: Any, carry: Any) -> Any:
        for i in range(first, last):
            carry = self._at(i, f, i, carry)
        return carry

    def cond(self, pred: Any, f: Any, g: Any, *args: Any) -> Any:
        return f(*args) if pred else g(*args)

    def switch(self, index: Any, branches: Any, *args: Any) -> Any:
        return branches[int(np.clip(index, 0, len(branches) - 1))](*args)

    def nest(self, f: Any, *, scope: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            self._scope = (*self._scope, scope)
            out = f(*args)
            self._scope = self._scope[:-1]
            return out

        return run

    def scale(self, f: Any, factor: float) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            before, self._factor = self._factor, self._factor * factor
            out = f(*args)
            self._factor = before
            return out

        return run


def stack(by_index: Mapping[tuple[int, ...], Any]) -> Any:
    """An array of values by index, or the value itself if the index is empty."""
    if () in by_index:
        return by_index[()]
    firsts = sorted({i[0] for i in by_index})
    inner = [{i[1:]: x for i, x in by_index.items() if i[0] == first} for first in firsts]
    return np.stack([stack(x) for x in inner])


class Oracle:
    """A program in source text, run by plain Python."""

    def __init__(self, source: str):
        self._code = compile(source, "<program>", "exec")

    def run(
        self,
        values: Values,
        *,
        seed: int = 0,
        fixed: Values | None = None,
        ignored: Values | None = None,
    ) -> Run:
        """Run the program: sites with a value have it, others are drawn.

        `fixed` sites have a value and no log density, nor have `ignored` entries, by mask.
        """
        machine = _Machine(values, np.random.default_rng(seed), fixed or {}, ignored or {})
        names = machine.names()
        exec(self._code, names)
        out = names["model"](None)
        found = {
            what: {path: stack(x) for path, x in machine.records[what].items()}
            for what in ("values", "log_probs", "factors", "derived", "weights")
        }
        return Run(**found, supports=machine.supports, out=out)
