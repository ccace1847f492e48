"""Score tables: log probabilities of a program for all states that its summed sites may have.

The program is evaluated with constant paths planted (all elements in one state). If a score depends
on several earlier steps, periodic paths are planted, as the colors of a sparse Jacobian. So one
batch of evaluations gives the scores of all elements, whatever their number.
"""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ppl.common import distribution_protocol
from ppl.common.missing_data import is_imputed
from ppl.core.model_run import SiteAction, apply_at_site
from ppl.core.site_cache import cached_at_site
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites
from ppl.marginal.element_dependence import Aligned
from ppl.marginal.program_slices import Slicer
from ppl.marginal.repeated_elements import evaluate_once
from ppl.marginal.score_dependence import ScoreDependence
from ppl.primitives.site_kinds import FACTOR, RANDOM


@dataclasses.dataclass(frozen=True)
class ScoreStates(SiteAction):
    """Action that plants states and records scores; a summed site is scored at each of its states.

    Attributes:
        states: The states of each summed site.
        wanted: The sites whose scores are recorded.
        constant: The sites whose planted states are equal in all steps of loops.
        bounded: Sites whose support depends only on states of this configuration.
        planted: The sites whose values are planted, or None for all. Scores read no other site.
    """

    states: Mapping[Path, Any] = dataclasses.field(default_factory=dict)
    wanted: frozenset[Path] = frozenset()
    constant: frozenset[Path] = frozenset()
    bounded: frozenset[Path] = frozenset()
    planted: frozenset[Path] | None = None
    tags: ClassVar = (RANDOM, FACTOR)
    at_once: ClassVar[bool] = True

    def is_constant(self, path: Path) -> bool:
        """Whether the planted states of a site are equal in all steps of loops."""
        return path in self.constant

    def matches(self, site: Site) -> bool:
        """Whether a value is planted, or a score is wanted."""
        is_known = self.planted is None or site.path in self.planted | self.wanted
        return is_known and super().matches(site)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution for a score or a support."""
        return not planted, False, site.path in self.wanted | self.bounded

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value and its score, with the states of a summed site along the last axis."""
        values = operands.values if plant is None else plant
        if site.path not in self.wanted:
            if site.path in self.bounded and operands.is_used:
                values = score_parts(site, operands, values)[0]
            return values, None
        if site.path not in self.states:
            return score_parts(site, operands, values)
        states = jnp.asarray(self.states[site.path], values[0].dtype)

        def each(k):
            return _score_state(site, operands, values[0], k)

        return values, jax.vmap(each, out_axes=-1)(states)


def score_parts(
    site: Site, operands: Operands, values: Sequence[Any]
) -> tuple[Sequence[Any], jax.Array]:
    """A value and the scores of its parts; a value outside of the support is replaced."""
    if site.tag == FACTOR:
        return values, values[0]
    value, log_prob = cached_at_site(_of_parts, site, values, operands.extras, summed=False)
    return values if value is None else jax.tree.leaves(value), log_prob


def _of_parts(value: Any, d: Any) -> tuple[Any, jax.Array]:
    """Replacement for a value outside of the support, or None, and the score of each part."""
    log_prob = distribution_protocol.log_prob_by_part(d, value)
    whole = log_prob
    if getattr(d, "ignores_values", False):
        whole = distribution_protocol.log_prob(d, value)
    safe = distribution_protocol.replace_outside_support(d, value, whole)
    return None if safe is value else safe, log_prob


def _score_state(site: Site, operands: Operands, like: jax.Array, state: Any) -> jax.Array:
    value = jnp.full_like(like, state)
    log_prob = score_parts(site, operands, [value])[1]
    if not is_imputed(site):
        return log_prob
    known = apply_at_site(site, operands, [value], lambda x, d: d.merge_known(x))
    return jnp.where(known == value, log_prob, -jnp.inf)


@dataclasses.dataclass(frozen=True)
class Coordinate:
    """One number of a configuration: the state of some elements of a site.

    Attributes:
        path: The site.
        element: The index along each axis; None along an axis that is not enumerated.
        lag: The lag of the elements in a chain.
    """

    path: Path
    element: tuple[int | None, ...]
    lag: int = 0


@dataclasses.dataclass(frozen=True)
class ScoreTable:
    """Table of a score for all states of the summed elements that the score depends on.

    Attributes:
        coordinates: The coordinates, in the order of the axes of the table.
        time: By path, the axis of the score along which lags run.
        starts: By path of a site before the first step, the site of its chain.
    """

    coordinates: tuple[Coordinate, ...]
    time: Mapping[Path, int]
    starts: Mapping[Path, Path]

    @property
    def group(self) -> Any:
        """A key, equal for tables that one batch of evaluations serves."""
        return self.coordinates, tuple(sorted(self.starts.items()))


class Evaluator:
    """Evaluates score tables of a program at planted values.

    Args:
        program: The program with its inputs.
        states: The states of each summed site.
        dependences: The dependences of all scores.
        plants: The values of other sites.
        bounded: The sites whose support depends on the states.
        slicer: Takes slices of the program.
        sites: The random sites and factors of the program.
    """

    def __init__(
        self,
        program: Program,
        states: Mapping[Path, np.ndarray],
        dependences: Mapping[Path, ScoreDependence],
        plants: Mapping[Path, Sequence[Any]],
        bounded: frozenset[Path] = frozenset(),
        *,
        slicer: Slicer,
        sites: Sites,
    ):
        self._program = program
        self._slicer = slicer
        self._sites = sites
        self._states = states
        self._dependences = dependences
        self._plants = plants
        self._bounded = bounded
        self._planted = frozenset(plants) | states.keys()

    def evaluate(self, tables: Mapping[Path, ScoreTable]) -> dict[Path, Any]:
        """Table of each score, with the axes of coordinates before the axes of its dependence.

        The table of a summed site has an axis for its own states between these.
        """
        groups: dict[Any, list[Path]] = {}
        for path, table in tables.items():
            groups.setdefault(table.group, []).append(path)
        found: dict[Path, Any] = {}
        for paths in groups.values():
            found |= evaluate_once(functools.partial(self._tables, tables, paths))
        return found

    def _tables(self, tables: Mapping[Path, ScoreTable], paths: Sequence[Path]) -> dict[Path, Any]:
        """The score tables of `paths`, filled by one batch of evaluations."""
        table = tables[paths[0]]
        known = frozenset(table.coordinates)
        bounded = frozenset(
            p for p in self._bounded & tables.keys() if known >= set(tables[p].coordinates)
        )
        records = self._run(table, frozenset(paths), bounded)
        return {p: self._arrange(p, records[p], tables[p]) for p in paths}

    def _run(
        self, table: ScoreTable, wanted: frozenset[Path], bounded: frozenset[Path]
    ) -> dict[Path, Any]:
        """Scores for all configurations, with an axis for each coordinate in front."""
        sizes = [len(self._states[c.path]) for c in table.coordinates]
        part = self._slicer.cut(wanted | bounded, self._planted)
        constant = self._find_constant(table, part.pick(self._states))
        action = ScoreStates(self._states, wanted, constant, bounded, self._planted)
        harvester = Harvester(part.program(self._program.inputs), action)

        def run(config: Sequence[Any]) -> dict[Path, Any]:
            plants = part.pick(self._plants)
            plants |= self._plant_states(table, config, part.pick(self._states))
            return harvester.run(plants, live_outs=False)[1]

        if not sizes:
            return run([])
        grid = jnp.meshgrid(*map(jnp.arange, sizes), indexing="ij")
        records = jax.vmap(run)([x.ravel() for x in grid])
        return {p: r.reshape(*sizes, *r.shape[1:]) for p, r in records.items()}

    def _find_constant(self, table: ScoreTable, paths: Collection[Path]) -> frozenset[Path]:
        """The summed sites whose elements all have one state in a configuration."""
        mine = {path: [c for c in table.coordinates if c.path == path] for path in paths}

        def is_one(found):
            return len(found) < 2 and all(set(c.element) <= {None} for c in found)

        return frozenset(path for path, found in mine.items() if is_one(found))

    def _plant_states(
        self, table: ScoreTable, config: Sequence[Any], paths: Collection[Path]
    ) -> dict[Path, Any]:
        """The planted values of summed sites, for one state of each coordinate."""
        starts = {path: chain for path, chain in table.starts.items() if path in paths}
        found = {path: self._path(path, table, config) for path in paths if path not in starts}
        for before, chain in starts.items():
            pairs = zip(table.coordinates, config, strict=True)
            mine = {c.lag: x for c, x in pairs if c.path == chain}
            at = -1 if max(mine) > 0 else self._dependences[chain].shape[table.time[chain]]
            state = next(x for lag, x in mine.items() if (at + lag) % len(mine) == 0)
            found[before] = self._fill(
                before, lambda index, shape, x=state: jnp.broadcast_to(x, shape)
            )
        return found

    def _path(self, path: Path, table: ScoreTable, config: Sequence[Any]) -> Any:
        pairs = [(c, x) for c, x in zip(table.coordinates, config, strict=True) if c.path == path]
        lags = sorted({c.lag for c, _ in pairs})
        if path in self._find_constant(table, [path]):
            state = sum((x for _, x in pairs), jnp.int32(0))
            return self._fill(path, lambda _, shape: jnp.broadcast_to(state, shape))

        def fill(index: Sequence[Any], shape: tuple[int, ...]) -> Any:
            values = jnp.zeros(shape, jnp.int32)
            for c, x in pairs:
                here = [i == at for i, at in zip(index, c.element, strict=True) if at is not None]
                if len(lags) > 1:  # Steps that are `len(lags)` apart have one color, and one state.
                    axis = self._time_axis(path)
                    here.append(index[axis] % len(lags) == (-c.lag) % len(lags))
                where = jnp.ones((), bool)
                for mask in here:
                    where = where & mask
                values = jnp.where(where, x, values)
            return values

        return self._fill(path, fill)

    def _time_axis(self, path: Path) -> int:
        """The axis of a site along which scores look back."""
        return next(
            axis
            for dependence in self._dependences.values()
            for source, uses in dependence.uses.items()
            if source.path == path
            for axis, use in enumerate(uses)
            if isinstance(use, Aligned) and use.lags != {0}
        )

    def _fill(self, path: Path, fill: Any) -> list[Any]:
        """Leaves of a summed site from a function of the indices along its axes."""
        shape = self._dependences[path].shape
        return [self.value(path, fill(np.indices(shape, sparse=True), shape))]

    def value(self, path: Path, index: Any) -> Any:
        """The value of a summed site, from the number of the state of each element."""
        aval = self._sites[path].collapse().avals[0]
        states = self._states[path]
        if np.array_equal(states, np.arange(states[0], states[0] + len(states))):
            values = (index + int(states[0])).astype(aval.dtype)
        else:
            values = jnp.asarray(states, aval.dtype)[index]
        return jnp.transpose(values, self._dependences[path].layout)

    def _arrange(self, path: Path, record: Any, table: ScoreTable) -> Any:
        """A record with axes in the order of the dependence, by lags instead of colors."""
        dependence = self._dependences[path]
        num = len(table.coordinates)
        own = [record.ndim - 1] if path in self._states else []
        back = [num + dependence.layout.index(i) for i in range(len(dependence.shape))]
        record = jnp.transpose(record, [*range(num), *own, *back])
        for chain, axis in table.time.items():
            record = self._sort_by_lag(chain, record, table, num + len(own) + axis)
        return record

    def _sort_by_lag(self, chain: Path, record: Any, table: ScoreTable, axis: int) -> Any:
        mine = [i for i, c in enumerate(table.coordinates) if c.path == chain]
        period = len({table.coordinates[i].lag for i in mine})
        if period == 1:
            return record
        where = {(table.coordinates[i].element, table.coordinates[i].lag): i for i in mine}
        lags = sorted({table.coordinates[i].lag for i in mine})
        steps = jnp.arange(record.shape[axis]) % period
        steps = jnp.expand_dims(steps, [i for i in range(record.ndim) if i != axis])
        out = record
        for color in range(period):
            order = list(range(record.ndim))
            for i in mine:
                c = table.coordinates[i]
                # At a step of this color, the element at a lag has the color (color - lag).
                holder = next(lag for lag in lags if (-lag) % period == (color - c.lag) % period)
                order[i] = where[c.element, holder]
            out = jnp.where(steps == color, jnp.transpose(record, order), out)
        return out
