"""Gaussian integral: the log probability of a program with jointly normal sites integrated out."""

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.analysis.degree import Degree
from ppl.analysis.scopes import ScopeReader, Scopes
from ppl.core.block_layout import BlockLayout, find_layout
from ppl.core.block_matrices import BlockVector, solve
from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.completed_square import CompletedSquare, precision_of
from ppl.core.quadratic_scores import Score, TracedScores, join_names
from ppl.harvest import _jax
from ppl.harvest._program import Harvester, Program
from ppl.harvest._site_names import describe
from ppl.harvest._survey import Path, Sites
from ppl.primitives.site_kinds import RANDOM

_SINGLE = 1e-10  # of a dtype with a larger epsilon, rounding errors of the maximum matter
_INDICES = tuple(map(np.dtype, ("bool", "int8", "int16", "int32", "int64", "uint8", "uint32")))


def find_equal_inputs(inputs: Sequence[Any]) -> tuple[int, ...]:
    """For each input of a program, the first that is equal: known integers and booleans.

    A model that indexes twice with one array captures it twice.
    """
    found: list[int] = []
    known: dict[Any, int] = {}
    for i, x in enumerate(inputs):
        key: Any = i
        if not _jax.is_traced(x) and getattr(x, "dtype", None) in _INDICES:
            key = x.shape, str(x.dtype), np.asarray(x).tobytes()
        found.append(known.setdefault(key, i))
    return tuple(found)


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianIntegral:
    """Integral of the density of a program over sites that are jointly normal given all others.

    Two integrals are equal if their programs have the same equations, joined in the same way.

    Attributes:
        jaxpr: The program, without constants.
        sites: The paths of the sites that are integrated out.
        most: The largest number of elements that are coupled as a whole.
        scored: The paths of the sites whose scores depend on these sites, and of these.
        inputs: For each input of the program, the first that is known to be equal.
    """

    jaxpr: Any
    sites: tuple[Path, ...]
    most: int
    scored: tuple[Path, ...]
    inputs: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        """Whether the programs and the integrals are the same."""
        return isinstance(other, GaussianIntegral) and self._fingerprint == other._fingerprint

    def __hash__(self) -> int:
        """The hash of all that an integral is compared by."""
        return hash(self._fingerprint)

    @functools.cached_property
    def _fingerprint(self) -> Any:
        program = tuple(fingerprint_constants(self.jaxpr, ())), fingerprint_wiring(self.jaxpr)
        return program, self.sites, self.most, self.scored, self.inputs

    @functools.cached_property
    def _found(self) -> Sites:
        return Harvester(self._program([None] * len(self.jaxpr.invars)), Score()).sites

    def start(self, path: Path) -> Any:
        """A number that all elements of a site may have."""
        return 0.0

    @functools.cached_property
    def _structure(self) -> tuple[Scopes, ScopeReader]:
        reader = ScopeReader(self.sites, self.scored, {})
        nothing = [None] * len(self.jaxpr.invars)
        return reader.read(self.jaxpr, nothing, self.inputs), reader

    @property
    def moving(self) -> frozenset[Path]:
        """Latent sites whose map from unconstrained space depends on an integrated site."""
        return frozenset(self._structure[1].moving)

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

    def check(self) -> None:
        """Check that the integral exists as far as the program tells.

        Raises:
            ValueError: If a site is not real, or not jointly normal with the others.
        """
        _ = self._degrees

    def check_size(self) -> None:
        """Check that few elements are coupled as a whole.

        Raises:
            ValueError: If they are more than `most`.
        """
        for group in filter(None, dict.fromkeys(self.groups.values())):
            self._layout(group)

    @functools.cached_property
    def _degrees(self) -> dict[Path, Degree]:
        plants = {
            path: found.collapse().avals
            for path, found in self._found.items()
            if found.site.tag == RANDOM
        }
        return TracedScores.of(self.jaxpr, plants, self.scored, self.sites).check(self.sites)

    def _program(self, inputs: Sequence[Any]) -> Program:
        return Program(self.jaxpr, list(inputs), [], lambda leaves: leaves)

    def _scores(
        self, paths: Collection[Path], inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> dict[Path, jax.Array]:
        """Scores of some sites; values that they do not depend on may be missing."""
        action = Score(wanted=frozenset(paths))
        missing = {
            path: tuple(_missing(a) for a in found.collapse().avals)
            for path, found in self._found.items()
            if found.site.tag == RANDOM and path not in plants
        }
        plants = {**missing, **plants}
        return Harvester(self._program(inputs), action).run(plants, live_outs=False)[1]

    def _layout(self, group: tuple[Path, ...]) -> BlockLayout:
        scopes, reader = self._structure
        mine = {path: scopes[path] for path, key in self.groups.items() if key == group}
        shapes = {path: self.aval(path).shape for path in group}
        layout = find_layout(mine, group, shapes)
        size = max(layout.size_of_block, layout.size_of_border)
        if size > self.most:
            raise ValueError(_explain_size(group, size, self.most, reader.causes))
        return layout

    def aval(self, path: Path) -> Any:
        """The abstract value of a site."""
        return self._found[path].collapse().avals[0]

    def log_prob(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> jax.Array:
        """The log of the integral over the sites of one group, apart for elements of plates."""
        if not group:
            scores = self._scores([p for p, g in self.groups.items() if not g], inputs, plants)
            return functools.reduce(jnp.add, map(jnp.sum, scores.values()))
        return self._complete_square(group, inputs, plants).log_integral()

    def complete_square(
        self, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> CompletedSquare:
        """The log density as a quadratic form in the sites, which are one group."""
        return self._complete_square(self.sites, inputs, plants)

    @property
    def layout(self) -> BlockLayout:
        """The layout of the sites, which are one group."""
        return self._layout(self.sites)

    def draw(
        self, key: jax.Array, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> dict[Path, Any]:
        """A joint draw of all integrated sites given all others."""
        drawn: dict[Path, Any] = {}
        for i, group in enumerate(dict.fromkeys(filter(None, self.groups.values()))):
            square = self._complete_square(group, inputs, plants)
            x = square.draw(jax.random.fold_in(key, i))
            drawn |= self._values(self._layout(group), x)
        return {path: drawn[path] for path in self.sites}

    def _values(self, layout: BlockLayout, x: BlockVector) -> dict[Path, jax.Array]:
        return {
            path: value.astype(self.aval(path).dtype) for path, value in layout.values(x).items()
        }

    def _complete_square(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> CompletedSquare:
        """The log density as a quadratic form about its maximum.

        The maximum is a point of expansion without a derivative of its own: the integral does not
        depend on the point. In single precision the form at 0 would lose what cancels in it.
        """
        layout = self._layout(group)
        paths = [path for path, key in self.groups.items() if key == group]
        dtype = jnp.result_type(*(self.aval(path).dtype for path in group))

        def log_density(x: BlockVector) -> jax.Array:
            values = {path: (v,) for path, v in self._values(layout, x).items()}
            scores = self._scores(paths, inputs, {**plants, **values})
            return layout.total(scores)

        total = lambda x: jnp.sum(log_density(x))  # noqa: E731
        slope, multiply = jax.linearize(jax.grad(total), layout.zeros(dtype))
        is_finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]
        matrix = precision_of(layout, multiply, dtype)
        factor = matrix.factor()
        fixed = lax.stop_gradient((matrix, factor))
        mode = lax.stop_gradient(solve(*fixed, slope))
        if jnp.finfo(dtype).eps > _SINGLE:  # One step of iterative refinement.
            rest = solve(*fixed, jax.grad(total)(mode))
            mode = lax.stop_gradient(jax.tree.map(jnp.add, mode, rest))
        height, slope = log_density(mode), jax.grad(total)(mode)
        square = CompletedSquare(mode, height, slope, matrix, factor, layout.num_elements)
        is_wrong = jnp.any(square.is_improper) & jnp.all(jnp.stack(is_finite))
        if not _jax.is_traced(is_wrong) and is_wrong:
            raise ValueError(
                f"marginalize: {join_names(group)} are improper given the rest: their precision "
                "matrix is not positive definite. Give each a proper prior, or data that tell all "
                "of them apart."
            )
        return square


def _explain_size(group: Sequence[Path], size: int, most: int, causes: Mapping[Path, str]) -> str:
    words = "".join(f" {describe(p)}: {causes[p]}." for p in group if p in causes)
    return (
        f"marginalize: {size} elements of {join_names(group)} are coupled as a whole, more than "
        f"most={most}; the cost is their number cubed.{words} Let each element depend on few of "
        "them, let a loop carry the last values alone, or raise ppl.Gaussian(most=...)."
    )


def _missing(aval: Any) -> jax.Array:
    """NaN in place of a value that nothing reads."""
    is_inexact = jnp.issubdtype(aval.dtype, jnp.inexact)
    return jnp.full(aval.shape, jnp.nan if is_inexact else 0, aval.dtype)
