"""Scores of groups by brute force: which terms share latent entries, and the log of their sum.

A term is one entry of a log probability or a factor, without what `scale` multiplies it by. Terms
that share entries of the sites that are taken out, directly or by others, are a group. Its score is
the log of its sum over states and of its integral over numbers; a factor multiplies that.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import ppl

from .case import Case, Values, to_arrays
from .checks import close, compare
from .integrals import MAX_STATES, Quadratic, normal_sites
from .oracle import Path
from .sums import posterior_of
from .to_jax import flat, nested

POINTS = (0.37, -1.61)  # of numbers that are integrated out: a term that differs depends on one


@dataclasses.dataclass(frozen=True)
class Group:
    """The terms and the entries of a group, by number."""

    terms: list[int]
    states: list[int]
    numbers: list[int]


class Groups:
    """The groups of a program whose sites are summed and integrated out in part."""

    def __init__(self, case: Case, summed: Sequence[Path], integrated: Sequence[Path]):
        self._case, self._summed, self._integrated = case, summed, integrated
        run, taken = case.run, {*summed, *integrated}
        found = run.log_probs | run.factors
        self._sizes = {p: np.size(x) for p, x in found.items()}
        self.paths = [(p, i) for p, n in self._sizes.items() for i in range(n)]
        shapes = {p: np.reshape(run.weights[p], (*np.shape(run.weights[p]), 1)) for p in found}
        self.weights = np.concatenate(
            [
                np.broadcast_to(np.reshape(w, (-1, 1)), (w.size, self._sizes[p] // w.size)).ravel()
                for p, w in shapes.items()
            ]
        )
        self.is_data = np.array([p not in taken for p, _ in self.paths])
        self._num_states = [case.sites[p].states for p in summed for _ in range(self._size(p))]
        self._num_numbers = sum(map(self._size, integrated))

    def _size(self, path: Path) -> int:
        return np.size(self._case.run.values[path])

    def terms(self, values: Values, state: Any, numbers: Any) -> Any:
        """All terms at some values, in a state of the summed entries and at numbers."""
        at: dict[Path, Any] = dict(values)
        for paths, entries, dtype in (
            (self._summed, state, int),
            (self._integrated, numbers, float),
        ):
            left = list(entries)
            for path in paths:
                n = self._size(path)
                shape = np.shape(self._case.run.values[path])
                at[path], left = np.array(left[:n], dtype).reshape(shape), left[n:]
        run = self._case.oracle.run(at)
        found = run.log_probs | run.factors
        return np.concatenate([np.ravel(x) for x in found.values()]) / self.weights

    def find(self, values: Values) -> list[Group]:
        """The groups of terms that share entries."""
        return self._connect(self.uses(values), len(self._num_states))

    def uses(self, values: Values) -> Any:
        """Which terms depend on which entries: summed ones, then integrated ones."""
        n = len(self._num_states)
        uses = self._own_entries()
        low, high = (np.full(self._num_numbers, x) for x in POINTS)
        low = low + 0.11 * np.arange(self._num_numbers)
        at = {s: self.terms(values, s, low) for s in np.ndindex(*self._num_states)}
        for state, terms in at.items():
            for i in range(n):
                first = (*state[:i], 0, *state[i + 1 :])
                uses[:, i] |= terms != at[first]
            for j in range(self._num_numbers):
                moved = np.where(np.arange(self._num_numbers) == j, high, low)
                uses[:, n + j] |= terms != self.terms(values, state, moved)
        return uses

    def _own_entries(self) -> Any:
        """Which terms are the log probabilities of which entries."""
        found = np.zeros((len(self.paths), len(self._num_states) + self._num_numbers), bool)
        entry = 0
        for path in (*self._summed, *self._integrated):
            event_size = self._size(path) // self._sizes[path]
            for i in range(self._size(path)):
                found[self.paths.index((path, i // event_size)), entry] = True
                entry += 1
        return found

    def _connect(self, uses: Any, num_states: int) -> list[Group]:
        """The connected parts of the graph of terms and entries."""
        found, left = [], set(range(uses.shape[1]))
        while left:
            entries = {left.pop()}
            while True:
                terms = np.flatnonzero(uses[:, sorted(entries)].any(1))
                more = set(np.flatnonzero(uses[terms].any(0)).tolist()) | entries
                if more == entries:
                    break
                entries = more
            left -= entries
            states = sorted(i for i in entries if i < num_states)
            numbers = sorted(i - num_states for i in entries if i >= num_states)
            found.append(Group(terms.tolist(), states, numbers))
        return found

    def score(self, values: Values, group: Group, terms: Sequence[int]) -> float:
        """The log of the sum and the integral of some terms of a group, without a factor."""
        found = []
        for part in np.ndindex(*(self._num_states[i] for i in group.states)):
            state = np.zeros(len(self._num_states), int)
            state[group.states] = part

            def of(x: Any, state: Any = state) -> float:
                numbers = np.zeros(self._num_numbers)
                numbers[group.numbers] = x
                return float(np.sum(self.terms(values, state, numbers)[list(terms)]))

            height = of(np.zeros(len(group.numbers)))
            if group.numbers and height > -np.inf:
                height = Quadratic.of(of, len(group.numbers)).log_integral()
            found.append(height)
        return float(np.logaddexp.reduce(found))

    def have_data_of_several_factors(self, values: Values) -> bool:
        """Whether the observed terms of a group have several factors."""
        data = [[t for t in group.terms if self.is_data[t]] for group in self.find(values)]
        return any(len({*self.weights[terms]}) > 1 for terms in data)

    def have_a_constant_factor(self, values: Values) -> bool:
        """Whether no entry moves a factor, though its expression may read one."""
        constant = ~self.uses(values).any(1)
        return any(
            p in self._case.run.factors and constant[t] for t, (p, _) in enumerate(self.paths)
        )

    def scores(self, values: Values, *, backwards: bool = False) -> Any:
        """The score of each term; None if the terms of a group have several factors.

        Where a group has several observed terms, each is given those before it, or those behind.
        """
        nothing = np.zeros(len(self._num_states), int), np.zeros(self._num_numbers)
        scores = np.where(self.is_data, self.weights * self.terms(values, *nothing), 0.0)
        for group in self.find(values):
            if len({*self.weights[group.terms]}) > 1:
                return None
            data = [t for t in group.terms if self.is_data[t]][:: -1 if backwards else 1]
            own = [t for t in group.terms if not self.is_data[t]]
            heights = [self.score(values, group, own + data[: i + 1]) for i in range(len(data))]
            scores[data] = self.weights[data] * np.diff(heights, prepend=0.0)
        return scores


def check_groups_of_states(case: Case) -> bool:
    """Discrete sites summed out of a program that is scaled in part."""
    return _check(case, case.discrete(MAX_STATES, "summed"), [])


def check_groups_of_numbers(case: Case) -> bool:
    """Normal sites integrated out of a linear program that is scaled in part."""
    summed = case.discrete(MAX_STATES, "summed") if case.luck("with sums") < 0.3 else []
    return _check(case, summed, normal_sites(case))


def _check(case: Case, summed: Sequence[Path], integrated: Sequence[Path]) -> bool:
    """The density and its derivative, and the score of each entry."""
    if not summed and not integrated:
        return False
    how: dict[str, Any] = {".".join(p): ppl.Enumerate() for p in summed}
    how |= {".".join(p): ppl.Gaussian() for p in integrated}
    data, given = posterior_of(case, [*summed, *integrated])
    groups = Groups(case, summed, integrated)
    expected = groups.scores(data | given)
    model = ppl.condition(case.model, nested(data)) if data else case.model
    model = ppl.marginalize(model, how)
    if expected is None:
        ppl.log_density(model)(to_arrays(given))
        # A site that nothing depends on integrates to 1, whatever its factor is.
        assert not groups.have_data_of_several_factors(data | given), "different factors are taken"
        return False
    exact = lambda x: float(np.sum(groups.scores(data | x)))  # noqa: E731
    compare(case, "density of groups", ppl.log_density(model), exact, given)
    if groups.have_a_constant_factor(data | given):
        return True  # Its score may be part of a group's.
    found = flat(jax.jit(ppl.log_probs(model))(to_arrays(given)))
    backwards = groups.scores(data | given, backwards=True)
    for path, x in found.items():
        terms = [t for t, (p, _) in enumerate(groups.paths) if p == path]
        if terms and np.size(x) == len(terms):  # Else, they are those of groups.
            is_later = not np.allclose(np.ravel(x), expected[terms], rtol=1e-8, atol=1e-8)
            close(f"scores of {path}", np.ravel(x), (backwards if is_later else expected)[terms])
            close("shape", np.shape(x), np.shape((case.run.log_probs | case.run.factors)[path]))
    return True
