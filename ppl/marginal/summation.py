"""Summation: the log probability of a program with some of its sites summed out."""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.joint_scores import GroupScores
from ppl.harvest.program import Harvester, Program
from ppl.harvest.survey import Path, Sites, describe
from ppl.marginal.element_dependence import Aligned, Indexed, Source
from ppl.marginal.elimination import Eliminator, TimePlates
from ppl.marginal.factors import (
    EliminationError,
    Gather,
    Local,
    LogFactor,
    Variable,
    show_count,
    with_longest_last,
)
from ppl.marginal.group_factors import Axes
from ppl.marginal.program_slices import Slicer
from ppl.marginal.score_dependence import DependenceReader, Dependences
from ppl.marginal.score_tables import Coordinate, Evaluator, ScoreStates, ScoreTable
from ppl.marginal.sum_structure import SumStructure


@dataclasses.dataclass(frozen=True, eq=False)
class Summation:
    """Sum of the density of a program over the states of some of its sites.

    Two sums are equal if their programs have the same equations, joined in the same way.

    Attributes:
        jaxpr: The program, without constants.
        states: The states of each summed site.
        max_states: The largest number of states in one table.
        scored: The paths of the summed sites and of all sites whose scores depend on them.
        inputs: For each input of the program, the number of the first input known to be equal.
    """

    jaxpr: Any
    states: Mapping[Path, np.ndarray]
    max_states: int
    scored: tuple[Path, ...]
    inputs: tuple[int, ...]
    is_exact: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        """Whether the programs are equal, and the sums are over equal sites and states."""
        return isinstance(other, Summation) and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        """The hash of all that a sum is compared by."""
        return hash(self._fingerprint)

    @functools.cached_property
    def _fingerprint(self) -> Any:
        states = tuple((path, tuple(x.tolist())) for path, x in self.states.items())
        program = tuple(fingerprint_constants(self.jaxpr, ())), fingerprint_wiring(self.jaxpr)
        return program, states, self.max_states, self.scored, self.inputs

    @property
    def sites(self) -> Collection[Path]:
        """The sites that are summed out."""
        return self.states.keys()

    def start(self, path: Path) -> Any:
        """A state that all elements of a site may have."""
        return self.states[path][0]

    def aval(self, path: Path) -> Any:
        """The abstract value of a summed site."""
        return self._sites[path].collapse().avals[0]

    @functools.cached_property
    def _sites(self) -> Sites:
        """The random sites and factors of the program."""
        program = self._program([None] * len(self.jaxpr.invars))
        return Harvester(program, ScoreStates()).sites

    @functools.cached_property
    def _slicer(self) -> Slicer:
        return Slicer(self.jaxpr)

    @functools.cached_property
    def _traced(self) -> dict[Any, Any]:
        """Functions of the sites of the program that are traced so far."""
        return {}

    @functools.cached_property
    def _abstract(self) -> SumStructure:
        """The structure of the sum; indices are not known."""
        return self._structure([None] * len(self.jaxpr.invars), {})

    @property
    def bounded(self) -> frozenset[Path]:
        """Sites whose support depends on a summed site."""
        return self._abstract.bounded

    @functools.cached_property
    def groups(self) -> dict[Path, Any]:
        """A key for each score; scores of one sum have equal keys."""
        structure = self._abstract
        return {path: structure.group(path) for path in self.scored}

    @functools.cached_property
    def _members(self) -> dict[Any, list[Path]]:
        """The scores of each group."""
        found: dict[Any, list[Path]] = {}
        for path, group in self.groups.items():
            found.setdefault(group, []).append(path)
        return found

    @functools.cached_property
    def untouched(self) -> frozenset[Path]:
        """Paths of scores that depend on none of the summed sites, given all other values."""
        structure = self._abstract
        return frozenset(path for path in self.scored if not structure.touches(path))

    def log_prob(
        self, group: Any, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> jax.Array:
        """The log of the sum over one group of sites, a number for each independent element."""
        done, plates = self._eliminate(group, inputs, plants, {}, None)
        return _total(done, plates)

    def group_scores(self, path: Path, inputs: Sequence[Any]) -> GroupScores:
        """The layout of `log_prob`: its axes, and the data that each of its numbers belongs to.

        Args:
            path: The path of the score.
            inputs: The inputs of the program; None for an unknown input.
        """
        group = self.groups[path]
        mine = self._members[group]
        structure = self._structure(inputs, {}, mine)
        plates = structure.plates_of_group(group)
        spreads = {p: structure.spread(p, plates) for p in mine if p not in self.states}
        lags = [structure.lags_of(plate) for plate in plates]
        time = next((i for i, each in enumerate(lags) if each - {0}), None)
        return GroupScores(
            tuple(p for p in mine if p in self.states),
            tuple(plates.values()),
            tuple(spreads.items()),
            time,
            time is not None and min(lags[time]) < 0,
        )

    def axes(self, path: Path) -> Axes:
        """The axes along which the sum of a score's group is a product of sums."""
        structure = self._abstract
        together = structure.enumerated | structure.chained
        of_sum = tuple(structure.plates_of_group(self.groups[path]))
        if path in self.untouched:  # A score of its own.
            of_sum = structure.plates_of_site(path)

        def name(path: Path, axis: int) -> Any:
            plate = structure.plate_of_score(path, axis)
            return None if plate in together else plate

        of_scores = {
            path: tuple(name(path, axis) for axis in dependence.layout)
            for path, dependence in structure.dependences.items()
        }
        return Axes(of_scores, of_sum)

    def weigh(
        self, path: Path, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> jax.Array:
        """The log weights of a site's states, along the last axis; its elements are independent."""
        structure, factors = self._find_factors(self.groups[path], inputs, plants, {})
        table = _eliminator(structure, factors, self.max_states, None).multiply(factors)
        dependence = structure.dependences[path]
        plates = [structure.plate(path, axis) for axis in range(len(dependence.shape))]
        weights = table.over([*plates, Local(Variable(path))])
        return jnp.transpose(weights, [*dependence.layout, len(plates)])

    def is_apart(self, path: Path) -> bool:
        """Whether the elements of a site are independent given all sites that are not summed."""
        structure = self._abstract
        plates = [
            structure.plate(path, axis) for axis in range(len(structure.dependences[path].shape))
        ]
        uses = [
            use
            for dependence in structure.dependences.values()
            for source, each in dependence.uses.items()
            if source.path == path
            for use in each
        ]
        is_chain = any(isinstance(use, Aligned) and use.lags != {0} for use in uses)
        return not is_chain and not structure.enumerated and len(set(plates)) == len(plates)

    def draw(
        self,
        key: jax.Array,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> tuple[dict[Path, Any], jax.Array, jax.Array]:
        """A joint draw of all summed sites given all others.

        Returns:
            The states, their log importance weight, 0, and the log of the sum.
        """
        drawn, log_sum = self._choose(inputs, plants, key)
        return drawn, jnp.zeros(()), log_sum

    def mode(
        self, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> tuple[dict[Path, Any], jax.Array]:
        """The jointly most probable states of all summed sites given all others.

        Returns:
            The states, and their log weight.
        """
        return self._choose(inputs, plants, None)

    def _choose(
        self,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        key: jax.Array | None,
    ) -> tuple[dict[Path, Any], jax.Array]:
        """One joint state of all summed sites: drawn with a key, else the most probable one."""
        structure = self._abstract
        dtype = jnp.result_type(float)
        probes = {
            path: jnp.zeros((len(states), *structure.dependences[path].shape), dtype)
            for path, states in self.states.items()
        }

        def total(probes: Mapping[Path, Any]) -> Any:
            sums = []
            for i, group in enumerate(dict.fromkeys(self.groups.values())):
                at = None if key is None else jax.random.fold_in(key, i)
                done, _ = self._eliminate(group, inputs, plants, probes, at, is_mode=key is None)
                sums += [jnp.sum(factor.table) for factor in done]
            return sum(sums)

        log_weight, one_hot = jax.value_and_grad(total)(probes)
        evaluator = self._evaluator(structure, inputs, {})
        chosen = {path: evaluator.value(path, jnp.argmax(x, 0)) for path, x in one_hot.items()}
        return chosen, log_weight

    def _structure(
        self,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        paths: Sequence[Path] | None = None,
    ) -> SumStructure:
        """The structure of the sum, or of one group of its scores, given by their paths."""
        jaxpr = self.jaxpr
        names = self.inputs
        if paths is None or len(paths) == len(self.scored) or self._abstract.chained:
            paths = self.scored  # Chains are told apart by all of them.
        else:
            part = self._slicer.cut(paths, self.states.keys() | plants.keys())
            jaxpr = part.jaxpr
            inputs = part.program(inputs).inputs
            unread = range(len(names), len(names) + part.num_unread)
            names = (*(names[i] for i in part.inputs), *unread)
        reader = DependenceReader(self.states, paths, plants, traced=self._traced)
        dependences = reader.read(jaxpr, inputs, names)
        self._check_elements(dependences)
        bounded = frozenset(reader.bounded)
        return SumStructure(dependences, self.states, reader.causes, bounded, reader.num_parts)

    def _evaluator(
        self,
        structure: SumStructure,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> Evaluator:
        program = self._program(inputs)
        bounded = structure.bounded
        # A slice may hold sites of other groups, which are given some state, too.
        dependences = {**self._abstract.dependences, **structure.dependences}
        more = {"slicer": self._slicer, "sites": self._sites}
        return Evaluator(program, self.states, dependences, plants, bounded, **more)

    def _check_elements(self, dependences: Dependences) -> None:
        """Check that each element of a summed site has a score of its own."""
        for dependence in dependences.values():
            for source, uses in dependence.uses.items():
                path = source.path
                if source.start is None and len(uses) != len(dependences[path].shape):
                    raise EliminationError(
                        f"marginalize: site {describe(path)} depends on sites that are taken out "
                        "before it, by which its elements have a joint score. Take it out first, "
                        f"as in ppl.marginalize(ppl.marginalize(model, [{describe(path)}]), "
                        "others); if all of them are discrete, take them out in one call."
                    )

    def _program(self, inputs: Sequence[Any]) -> Program:
        return Program(self.jaxpr, list(inputs), [], lambda leaves: leaves)

    def _eliminate(
        self,
        group: Any,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        probes: Mapping[Path, Any],
        key: Any,
        *,
        is_mode: bool = False,
    ) -> tuple[list[LogFactor], Mapping[Any, int]]:
        """Log factors that add up to the log sum, and the plates that the log sum has as axes."""
        structure, factors = self._find_factors(group, inputs, plants, probes)
        done = _eliminator(structure, factors, self.max_states, key, is_mode).run(factors)
        return done, structure.plates_of_group(group)

    def _find_factors(
        self,
        group: Any,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        probes: Mapping[Path, Any],
    ) -> tuple[SumStructure, list[LogFactor]]:
        """The structure of the sum, and the tables of the scores of one group."""
        structure = self._structure(inputs, plants, self._members[group])
        paths = self._members[group]
        for path in paths:
            if (count := structure.num_configurations(path)) > self.max_states:
                raise EliminationError(self._explain(structure, path, count))
        tables = {path: structure.table(path) for path in paths}
        scores = self._evaluator(structure, inputs, plants).evaluate(tables)
        for path, probe in probes.items():
            if path in scores:
                score = scores[path]
                scores[path] = score + jnp.broadcast_to(probe, score.shape).astype(score.dtype)
        factors = [
            factor
            for path in paths
            for factor in _factors(structure, path, tables[path], scores[path])
        ]
        return structure, factors

    def _explain(self, structure: SumStructure, path: Path, count: int) -> str:
        sites = {source.path for source in structure.dependences[path].uses}
        causes = [f"{describe(p)}: {structure.causes[p]}" for p in sites if p in structure.causes]
        states = show_count(count)
        return (
            f"marginalize: site {describe(path)} depends on many elements of "
            f"{', '.join(map(describe, sorted(sites)))} at once, which take {states} states "
            f"together, more than max_states={self.max_states}."
            f"{' ' + '; '.join(causes) + '.' if causes else ''} Let each element depend on few of "
            "them, let a loop carry the last states alone, or raise max_states."
        )


def _total(factors: Sequence[LogFactor], plates: Mapping[Any, int]) -> jax.Array:
    """The sum of log factors, with an axis for each plate.

    Factors with other plates are added to the first element.
    """
    apart = [f for f in factors if set(f.labels) == set(plates)]
    tables = [f.over(tuple(plates)) for f in apart] or [jnp.zeros(tuple(plates.values()))]
    total = functools.reduce(jnp.add, tables)
    for factor in factors:
        if factor not in apart:  # It belongs to no element.
            total = total.at[(0,) * total.ndim].add(jnp.sum(factor.table))
    return total


def _eliminator(
    structure: SumStructure,
    factors: Sequence[LogFactor],
    max_states: int,
    key: Any,
    is_mode: bool = False,
) -> Eliminator:
    variables = {x.variable for f in factors for x in f.locals}
    plates = {
        v: frozenset(
            plate
            for axis in range(len(structure.dependences[v.path].shape))
            if (plate := structure.plate(v.path, axis)) not in structure.enumerated
        )
        for v in variables
    }
    sizes = {v: len(structure.states[v.path]) for v in variables}
    starts = {}
    for before, chain in structure.starts.items():
        for v in variables:
            if v.path == chain and Variable(before, v.element) in variables:
                starts[v] = Variable(before, v.element)

    def words(together: Collection[Variable]) -> str:
        paths = dict.fromkeys(describe(v.path) for v in sorted(together, key=repr))
        counts = {p: sum(describe(v.path) == p for v in together) for p in paths}
        return ", ".join(f"{p} ({n} elements)" if n > 1 else f"site {p}" for p, n in counts.items())

    chains = TimePlates(structure.chained, starts)
    return Eliminator(sizes, plates, chains, max_states, words, key, is_mode)


def _factors(structure: SumStructure, path: Path, table: ScoreTable, score: Any) -> list[LogFactor]:
    """The factors of a score: one for each element along its enumerated axes."""
    num = len(table.coordinates) + (path in structure.states)
    dependence = structure.dependences[path]
    axes = range(len(dependence.shape))
    plates = [structure.plate_of_score(path, axis) for axis in axes]
    split = [axis for axis in axes if plates[axis] in structure.enumerated]
    found = []
    for index in itertools.product(*(range(dependence.shape[axis]) for axis in split)):
        at = dict(zip(split, index, strict=True))
        part = score[(*[slice(None)] * num, *(at.get(axis, slice(None)) for axis in axes))]
        labels = [_local(structure, path, c, at) for c in table.coordinates]
        if path in structure.states:
            labels.append(Local(Variable(path, index)))
        labels += [plates[axis] for axis in axes if axis not in at]
        found.append(_merge_labels(labels, part))
    return found


def _local(structure: SumStructure, path: Path, c: Coordinate, at: Mapping[int, int]) -> Local:
    """The variable that a coordinate stands for, at an index along the enumerated axes."""
    element = []
    gathers = []
    shape = structure.dependences[c.path].shape
    uses = next(u for s, u in structure.dependences[path].uses.items() if s == Source(c.path))
    for axis, (use, fixed) in enumerate(zip(uses, c.element, strict=True)):
        plate = structure.plate(c.path, axis)
        if fixed is not None:
            element.append(fixed)
        elif plate in structure.enumerated:
            assert isinstance(use, Aligned)
            element.append(at[use.axis])
        elif isinstance(use, Indexed):
            over = tuple(structure.plate_of_score(path, i) for i in use.axes if i not in at)
            where = tuple(at.get(i, slice(None)) for i in use.axes)

            def read(use=use, where=where):
                return jnp.asarray(use.read())[where]

            gathers.append(Gather(plate, over, (use.term, str(where)), shape[axis], read))
    return Local(Variable(c.path, tuple(element)), c.lag, tuple(gathers))


def _merge_labels(labels: Sequence[Any], table: Any) -> LogFactor:
    """A log factor with one axis a label; axes with equal labels become their diagonal."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            table = jnp.diagonal(table, axis1=i, axis2=j)
            labels = [x for k, x in enumerate(labels) if k not in (i, j)] + [label]
    wanted = [x for x in labels if isinstance(x, Local)]
    wanted += [x for x in labels if not isinstance(x, Local)]
    wanted = with_longest_last(wanted, dict(zip(labels, table.shape, strict=True)))
    return LogFactor(wanted, LogFactor(tuple(labels), table).over(wanted))
