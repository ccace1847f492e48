"""Integral of the density of a program over real sites, whose scores couple few elements each.

The sites are laid out in blocks (`BlockLayout`), and the log density is completed to a square about
a point. Subclasses choose the point, and say whether the square is exact.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.common.missing_data import is_imputed
from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.joint_scores import GroupScores, Lookup
from ppl.harvest import jax_core
from ppl.harvest.leaf_values import vary_alike
from ppl.harvest.program import Harvester, Program
from ppl.harvest.survey import Path, Sites, describe, describe_all
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockVector
from ppl.marginal.completed_square import CompletedSquare
from ppl.marginal.coupled_elements import find_layout
from ppl.marginal.degree import Degree
from ppl.marginal.element_dependence import Indexed
from ppl.marginal.filtered_evidence import log_evidence_of_steps
from ppl.marginal.group_factors import Axes
from ppl.marginal.ordered_layout import (
    OrderedLayout,
    find_ordered_layout,
    is_worth_order,
)
from ppl.marginal.quadratic_scores import MergeKnown, Score, TracedScores
from ppl.marginal.score_dependence import DependenceReader, Dependences
from ppl.marginal.tree_layout import TreeLayout
from ppl.primitives.site_kinds import RANDOM

_SINGLE = 1e-10  # of a dtype with a larger epsilon, rounding errors of the maximum matter
_INDICES = tuple(map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint32")))

LogDensity = Callable[[BlockVector], jax.Array]
Scores = Mapping[Path, jax.Array]


@dataclasses.dataclass(frozen=True, eq=False)
class ScoredDensity:
    """A log density of a vector.

    Attributes:
        scores: Its scores, of a vector.
        total: Their sum, or a number for each independent plate.
    """

    scores: Callable[[BlockVector], Scores]
    total: Callable[[Scores], jax.Array]

    def __call__(self, x: BlockVector) -> jax.Array:
        """The log density."""
        return self.total(self.scores(x))


def find_equal_inputs(inputs: Sequence[Any]) -> tuple[int, ...]:
    """For each input of a program, the number of the first input that is known to be equal.

    Only integers and booleans are compared. A model that indexes twice with one array captures
    the array twice.
    """
    found: list[int] = []
    known: dict[Any, int] = {}
    for i, x in enumerate(inputs):
        key: Any = i
        if not jax_core.is_traced(x) and getattr(x, "dtype", None) in _INDICES:
            key = x.shape, str(x.dtype), np.asarray(x).tobytes()
        found.append(known.setdefault(key, i))
    return tuple(found)


@dataclasses.dataclass(frozen=True, eq=False)
class BlockIntegral:
    """Integral of the density of a program over some of its sites.

    Two integrals are equal if their programs have the same equations, joined in the same way.

    Attributes:
        jaxpr: The program, without constants.
        sites: The paths of the sites that are integrated out.
        max_block: The largest number of elements that are coupled as a whole.
        scored: The paths of `sites` and of all sites whose scores depend on `sites`.
        inputs: For each input of the program, the number of the first input known to be equal.
        known: The inputs of the program that are known, by number, for an order of the elements.
        strategy: The name of the strategy that users ask for.
        is_exact: Whether the log density is a square.
    """

    jaxpr: Any
    sites: tuple[Path, ...]
    max_block: int
    scored: tuple[Path, ...]
    inputs: tuple[int, ...]
    known: Mapping[int, Any] = dataclasses.field(default_factory=dict, kw_only=True)
    strategy: ClassVar[str]
    is_exact: ClassVar[bool] = True

    def __eq__(self, other: object) -> bool:
        """Whether the programs are equal, and the integrals are over equal sites."""
        return isinstance(other, BlockIntegral) and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        """The hash of all that an integral is compared by."""
        return hash(self._fingerprint)

    @functools.cached_property
    def _fingerprint(self) -> Any:
        program = tuple(fingerprint_constants(self.jaxpr, ())), fingerprint_wiring(self.jaxpr)
        names = {f.name for f in dataclasses.fields(self)} - {"jaxpr", "known"}
        fields = tuple(getattr(self, name) for name in sorted(names))
        layouts = (self._layouts[group] for group in self._layouts)
        orders = tuple(x.order if isinstance(x, OrderedLayout) else None for x in layouts)
        return type(self), program, fields, orders

    @functools.cached_property
    def _found(self) -> Sites:
        return Harvester(self._program([None] * len(self.jaxpr.invars)), Score()).sites

    def start(self, path: Path) -> Any:
        """A number that all elements of a site may have."""
        return 0.0

    @functools.cached_property
    def _structure(self) -> tuple[Dependences, DependenceReader]:
        reader = DependenceReader(self.sites, self.scored, {})
        nothing = [None] * len(self.jaxpr.invars)
        return reader.read(self.jaxpr, nothing, self.inputs), reader

    @property
    def bounded(self) -> frozenset[Path]:
        """Sites whose support depends on an integrated site."""
        return frozenset(self._structure[1].bounded)

    @functools.cached_property
    def groups(self) -> dict[Path, Any]:
        """For each score, the integrated sites that it depends on, directly or through others."""
        groups = [frozenset([path]) for path in self.sites]
        for degree in self._degrees.values():
            parts = [group for group in groups if group & degree.variables]
            rest = [group for group in groups if group not in parts]
            groups = [*rest, frozenset[Any]().union(*parts)] if parts else rest
        order = {group: tuple(p for p in self.sites if p in group) for group in groups}
        found = {}
        for path, degree in self._degrees.items():
            depends = degree.variables | ({path} & set(self.sites))  # A flat prior is constant.
            found[path] = next((order[g] for g in groups if g & depends), ())
        return found

    @property
    def num_independent(self) -> int:
        """The number of parts of the sites that are independent of each other."""
        layouts = map(self._layout, dict.fromkeys(filter(None, self.groups.values())))
        return sum(x.num_independent for x in layouts)

    def check_size(self) -> None:
        """Check that few elements are coupled as a whole.

        Raises:
            ValueError: If they are more than `max_block`.
        """
        for group in filter(None, dict.fromkeys(self.groups.values())):
            self._layout(group)

    @functools.cached_property
    def _traced(self) -> TracedScores:
        plants = {
            path: found.collapse().avals
            for path, found in self._found.items()
            if found.site.tag == RANDOM
        }
        return TracedScores.of(self.jaxpr, plants, self.scored, self.sites, self.strategy)

    @functools.cached_property
    def _degrees(self) -> dict[Path, Degree]:
        return self._traced.degrees(self.sites)

    def _program(self, inputs: Sequence[Any]) -> Program:
        return Program(self.jaxpr, list(inputs), [], lambda leaves: leaves)

    def _scores(
        self, paths: Collection[Path], inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> dict[Path, jax.Array]:
        """Scores of some sites; values that they do not depend on may be missing."""
        action = Score(frozenset(paths), frozenset(self.sites), self.strategy)
        missing = {
            path: tuple(_missing(a) for a in found.collapse().avals)
            for path, found in self._found.items()
            if found.site.tag == RANDOM and path not in plants
        }
        plants = {**missing, **plants}
        return Harvester(self._program(inputs), action).run(plants, live_outs=False)[1]

    def _layout(self, group: tuple[Path, ...]) -> BlockLayout:
        layout = self._layouts[group]
        size = layout.size_as_whole
        if size > self.max_block:
            raise ValueError(self._explain_size(group, size, self._structure[1].causes))
        return layout

    @functools.cached_property
    def _layouts(self) -> dict[tuple[Path, ...], BlockLayout]:
        """The layout of each group; by an order of its elements where that costs clearly less."""
        found = {}
        for group in filter(None, dict.fromkeys(self.groups.values())):
            found[group] = self._find_layout(group, self._structure[0])
            if is_worth_order(found[group]):
                found[group] = self._order(group, found[group])[0] or found[group]
        return found

    def _order(
        self, group: tuple[Path, ...], layout: BlockLayout
    ) -> tuple[OrderedLayout | None, bool]:
        paths = [path for path, key in self.groups.items() if key == group]
        shapes = {path: self.aval(path).shape for path in group}
        return find_ordered_layout(self._traced, paths, shapes, self.known, layout)

    def _find_layout(self, group: tuple[Path, ...], dependences: Dependences) -> BlockLayout:
        mine = {path: dependences[path] for path, key in self.groups.items() if key == group}
        shapes = {path: self.aval(path).shape for path in group}
        return find_layout(mine, group, shapes)

    def aval(self, path: Path) -> Any:
        """The abstract value of a site."""
        return self._found[path].collapse().avals[0]

    def log_prob(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> jax.Array:
        """The log of the integral over one group of sites, by plate if plates are independent."""
        if not group:
            scores = self._scores([p for p, g in self.groups.items() if not g], inputs, plants)
            return functools.reduce(jnp.add, map(jnp.sum, scores.values()))
        return self._square(group, inputs, plants).log_integral()

    def axes(self, path: Path) -> Axes:
        """The axes along which the integral of a score's group is a product of integrals."""
        dependences, reader = self._structure
        spreads = {p: x.spread(reader.num_parts.get(p, 0), ()) for p, x in dependences.items()}
        if not self.groups[path]:  # A score of its own.
            spread = spreads[path]
            of_sum = tuple(i for i in range(len(spread.shape)) if i not in spread.parts)
            return Axes({path: range(len(spread.shape))}, of_sum)
        layout = self._layout(self.groups[path])
        along = layout.score_axes or {}
        of_scores = {
            p: tuple(axes.index(i) if i in axes else None for i in range(len(spread.shape)))
            for p, spread in spreads.items()
            for axes in [along.get(p, ())]
        }
        num_axes = max(map(len, along.values()), default=0)
        return Axes(of_scores, range(num_axes + self._is_by_step(layout)))

    def complete_square(
        self, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> CompletedSquare:
        """The log density as a quadratic form in the sites, which are one group."""
        return self._square(self.sites, inputs, plants)

    @property
    def layout(self) -> BlockLayout:
        """The layout of the sites, which are one group."""
        return self._layout(self.sites)

    def log_prob_of_groups(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> jax.Array:
        """The log of the integral over the sites of one group, as `group_scores` describes it.

        In a chain, step t has log p(y[t] | y[0], ..., y[t-1]), for the data y[t] of step t.
        """
        layout = self._layout(group)
        if not self._is_by_step(layout):
            density = self._log_density_of_groups(group, inputs, plants)
            return self._square(group, inputs, plants, density).log_integral()
        square = self._square(group, inputs, plants)
        point = square.mode if square.shear is None else square.shear.apply(square.mode)
        scores = self._group_scores(group, inputs, plants)
        found = log_evidence_of_steps(
            layout, lambda x: layout.total_of_steps(scores(x)), lax.stop_gradient(point)
        )
        return layout.arrange_steps(jnp.where(jnp.any(square.is_improper), jnp.nan, found))

    def _log_density_of_groups(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> ScoredDensity:
        """The log density of a group of sites, for each element of plates that data index, too."""
        layout = self._layout(group)
        if layout.group_axes is None or layout.score_axes is not None:
            return self._log_density(group, inputs, plants)
        scores = self._group_scores(group, inputs, plants)
        uses = self._uses(group, inputs)
        uses = {path: tuple(map(_evaluate, each)) for path, each in uses.items()}
        return ScoredDensity(scores, lambda found: layout.total_of_groups(found, uses))

    def _is_by_step(self, layout: BlockLayout) -> bool:
        return layout.has_steps and self.is_exact

    def _uses(
        self, group: tuple[Path, ...], inputs: Sequence[Any]
    ) -> Mapping[Path, tuple[int | Indexed, ...]]:
        """The axes of scores along the groups, with indices read from the inputs."""
        dependences = DependenceReader(self.sites, self.scored, {}).read(
            self.jaxpr, inputs, self.inputs
        )
        return self._find_layout(group, dependences).group_axes or {}

    def group_scores(self, path: Path, inputs: Sequence[Any]) -> GroupScores:
        """The layout of `log_prob_of_groups`: its axes, and the data that each number belongs to.

        Args:
            path: The path of the score.
            inputs: The inputs of the program; None for an unknown input.
        """
        group = self.groups[path]
        layout = self._layout(group)
        dependences, reader = self._structure
        is_by_step = self._is_by_step(layout)
        sizes: tuple[int, ...] = ()
        axes: dict[Path, tuple[Any, ...]] = {p: () for p in self.scored if self.groups[p] == group}
        if is_by_step:
            sizes = layout.shape_of_steps
            steps = layout.step_axes or {}
            axes = {p: (*(layout.score_axes or {}).get(p, ()), steps[p]) for p in axes}
        elif layout.group_axes is not None:
            sizes = layout.plates
            axes = dict(self._uses(group, inputs))
        spreads = tuple(
            (p, dependences[p].spread(reader.num_parts.get(p, 0), [_known(i) for i in axes[p]]))
            for p in axes
            if p not in self.sites
        )
        time = len(sizes) - 1 if is_by_step else None
        return GroupScores(group, sizes, spreads, time, layout.is_reversed)

    def draw(
        self,
        key: jax.Array,
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        is_wanted: jax.Array | None = None,
    ) -> tuple[dict[Path, Any], jax.Array, jax.Array]:
        """A joint draw of all integrated sites given all others.

        Args:
            key: Random key.
            inputs: The inputs of the program.
            plants: The values of other sites.
            is_wanted: Whether a draw is wanted, by default it is; else the values are those of the
                largest density, with the log weight 0.

        Returns:
            The values, their log importance weight, and the log of the integral.
        """
        drawn: dict[Path, Any] = {}
        log_weight = log_integral = jnp.zeros(())
        for i, group in enumerate(dict.fromkeys(filter(None, self.groups.values()))):
            of_group = jax.random.fold_in(key, i)
            x, weight, here = self._draw_group(of_group, group, inputs, plants, is_wanted)
            drawn |= self._values(self._layout(group), x)
            log_integral += here
            log_weight += weight
        drawn |= self._merge_known(drawn, inputs, plants)
        return {path: drawn[path] for path in self.sites}, log_weight, log_integral

    def _draw_group(
        self,
        key: jax.Array,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        is_wanted: jax.Array | None,
    ) -> tuple[BlockVector, jax.Array, jax.Array]:
        """A joint draw of the sites of one group, its log weight, and the log of the integral."""
        square = self._square(group, inputs, plants)
        here = jnp.sum(square.log_integral())

        def draw() -> tuple[BlockVector, jax.Array]:
            return square.draw(key)[0], jnp.zeros((), here.dtype)

        return *draw_where(is_wanted, square, draw), here

    def mode(
        self, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> tuple[dict[Path, Any], jax.Array]:
        """The jointly most probable values of all integrated sites given all others.

        Returns:
            The values, and the log of the integral.
        """
        found: dict[Path, Any] = {}
        log_integral = jnp.zeros(())
        for group in dict.fromkeys(filter(None, self.groups.values())):
            square = self._square(group, inputs, plants)
            found |= self._values(self._layout(group), square.maximum)
            log_integral += jnp.sum(square.log_integral())
        found |= self._merge_known(found, inputs, plants)
        return {path: found[path] for path in self.sites}, log_integral

    def _merge_known(
        self, drawn: Mapping[Path, Any], inputs: Sequence[Any], plants: Mapping[Path, Any]
    ) -> dict[Path, Any]:
        """Drawn sites that are observed in part, with their known entries."""
        wanted = frozenset(p for p in self.sites if any(map(is_imputed, self._found[p].sites)))
        plants = {**plants, **{path: (x,) for path, x in drawn.items()}}
        run = Harvester(self._program(inputs), MergeKnown(wanted))
        return run.run(plants, live_outs=False)[1] if wanted else {}

    def _start(self, group: tuple[Path, ...], log_density: LogDensity) -> BlockVector:
        """Zeros, which vary over the axes of a mesh as the log density does.

        The gradient in a vector that does not vary is summed over the shards.
        """
        zeros = self._layout(group).zeros(self._dtype(group))
        if not jax.sharding.get_abstract_mesh().manual_axes:
            return zeros
        inner, border, _ = vary_alike([zeros.inner, zeros.border, log_density(zeros)])
        return BlockVector(inner, border)

    def _square(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
        log_density: ScoredDensity | None = None,
    ) -> CompletedSquare:
        """The log density of a group of sites, or one with a number for each plate, as a square."""
        layout = self._layout(group)
        if isinstance(layout, TreeLayout):  # Its indices are read from the inputs.
            reader = DependenceReader(self.sites, self.scored, plants)
            layout = self._find_layout(group, reader.read(self.jaxpr, inputs, self.inputs))
        log_density = log_density or self._log_density(group, inputs, plants)
        return self._complete_square(layout, group, log_density)

    def _complete_square(
        self, layout: BlockLayout, group: tuple[Path, ...], log_density: ScoredDensity
    ) -> CompletedSquare:
        """The log density of a group of sites, given all others, as a square about a point."""
        raise NotImplementedError

    def _log_density(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> ScoredDensity:
        layout = self._layout(group)
        return ScoredDensity(self._group_scores(group, inputs, plants), layout.total)

    def _group_scores(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> Callable[[BlockVector], dict[Path, jax.Array]]:
        layout = self._layout(group)
        paths = [path for path, key in self.groups.items() if key == group]

        def scores(x: BlockVector) -> dict[Path, jax.Array]:
            values = {path: (v,) for path, v in self._values(layout, x).items()}
            return self._scores(paths, inputs, {**plants, **values})

        return scores

    def _dtype(self, group: tuple[Path, ...]) -> Any:
        return jnp.result_type(*(self.aval(path).dtype for path in group))

    def _values(self, layout: BlockLayout, x: BlockVector) -> dict[Path, jax.Array]:
        return {
            path: value.astype(self.aval(path).dtype) for path, value in layout.values(x).items()
        }

    def _explain_size(self, group: Sequence[Path], size: int, causes: Mapping[Path, str]) -> str:
        words = "".join(f" {describe(p)}: {causes[p]}." for p in group if p in causes)
        if self._order(tuple(group), self._layouts[tuple(group)])[1]:
            words += (
                " They are read by indices that are arguments of the model or computed from them. "
                "Indices that the model takes from a closure or a global are known in advance, and "
                "so is what they couple."
            )
        return (
            f"marginalize: {size} elements of {describe_all(group)} are coupled as a whole, more "
            f"than max_block={self.max_block}; the cost is their number cubed.{words} Let each "
            "element depend on few of them, let a loop carry the last values alone, or raise "
            f"{self.strategy}(max_block=...)."
        )


def is_single(dtype: Any) -> bool:
    """Whether a dtype has single precision, or less."""
    return bool(jnp.finfo(dtype).eps > _SINGLE)


def draw_where(
    is_wanted: jax.Array | None,
    square: CompletedSquare,
    draw: Callable[[], tuple[BlockVector, jax.Array]],
) -> tuple[BlockVector, jax.Array]:
    """A draw and its log weight where it is wanted, else the maximum of a square."""
    if is_wanted is None:
        return draw()
    maximum = square.maximum  # It is kept, so no branch may compute it.
    no_weight = jnp.zeros((), square.height.dtype)
    return lax.cond(is_wanted, draw, lambda: (maximum, no_weight))


def value_and_slope(log_density: LogDensity, x: BlockVector) -> tuple[jax.Array, BlockVector]:
    """A log density and its gradient.

    The log density may have a number for each element of the plates, and the gradient is the
    gradient of the sum of these numbers.
    """

    def total(x: BlockVector) -> tuple[jax.Array, jax.Array]:
        apart = log_density(x)
        return jnp.sum(apart), apart

    (_, height), slope = jax.value_and_grad(total, has_aux=True)(x)
    return height, slope


def _evaluate(axis: int | Indexed) -> int | Indexed:
    """An axis of a score, or its index read in advance, outside of any differentiated function."""
    if isinstance(axis, int):
        return axis
    array = jnp.asarray(axis.read())
    return dataclasses.replace(axis, read=lambda: array)


def _known(axis: int | Indexed | None) -> int | Lookup | None:
    """The axis of a score, or the numbers of an index if they are known."""
    return Lookup.of(axis.axes, axis.read) if isinstance(axis, Indexed) else axis


def _missing(aval: Any) -> jax.Array:
    """NaN, or zeros, as the value of an input that nothing reads."""
    is_inexact = jnp.issubdtype(aval.dtype, jnp.inexact)
    return jnp.full(aval.shape, jnp.nan if is_inexact else 0, aval.dtype)
