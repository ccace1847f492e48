"""Gaussian integral: the log probability of a program with jointly normal sites integrated out."""

import dataclasses
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.analysis.degree import CONSTANT, Degree, find_degrees
from ppl.analysis.scopes import ScopeReader, Scopes
from ppl.common import distribution_protocol
from ppl.core.block_layout import BlockLayout, find_layout
from ppl.core.block_matrices import BlockFactor, BlockMatrix, BlockVector
from ppl.core.captured_constants import fingerprint_constants, fingerprint_wiring
from ppl.core.model_run import SiteAction, apply_at_site, score
from ppl.harvest import _jax
from ppl.harvest._interpreter import Operands
from ppl.harvest._plants import ByPath
from ppl.harvest._program import Harvester, Program
from ppl.harvest._site_names import describe
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path, Sites
from ppl.primitives.site_kinds import FACTOR, RANDOM

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclasses.dataclass(frozen=True)
class _Score(SiteAction):
    """Action that plants values and records the scores of some sites, each summed.

    Attributes:
        wanted: The sites whose scores are recorded.
        checked: Sites that must be arrays of real numbers without bounds.
    """

    wanted: frozenset[Path] = frozenset()
    checked: frozenset[Path] = frozenset()
    tags: ClassVar = (RANDOM, FACTOR)
    batched: ClassVar[bool] = False
    at_once: ClassVar[bool] = True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution for a score."""
        return not planted, False, site.path in self.wanted

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, and its score."""
        values = operands.values if plant is None else plant
        if site.path in self.checked:
            apply_at_site(site, operands, values, lambda _, d: _check_real(site, values, d))
        if site.path not in self.wanted:
            return values, None
        return score(site, operands, values, summed=True)


def find_equal_inputs(inputs: Sequence[Any]) -> tuple[int, ...]:
    """For each input of a program, the first that is equal: known integers and booleans.

    A model that indexes twice with one array captures it twice.
    """
    found: list[int] = []
    known: dict[Any, int] = {}
    for i, x in enumerate(inputs):
        is_index = not _jax.is_traced(x) and jax.typeof(x).dtype.kind in "iub"
        key = (np.shape(x), str(x.dtype), np.asarray(x).tobytes()) if is_index else i
        found.append(known.setdefault(key, i))
    return tuple(found)


def _check_real(site: Site, values: Sequence[Any], d: Any) -> tuple[()]:
    where = f"marginalize: site {describe(site.path)}"
    if len(values) != 1 or not jnp.issubdtype(values[0].dtype, jnp.floating):
        is_discrete = len(values) == 1
        raise ValueError(
            f"{where} is no array of real numbers, which ppl.Gaussian() integrates over. "
            + (
                "Sum discrete sites by ppl.Enumerate()."
                if is_discrete
                else "Draw its parts as sites of their own."
            )
        )
    support = getattr(d, "support", None)
    is_real = distribution_protocol.is_real(d) if support is None else support.is_unrestricted
    if not is_real:
        name = distribution_protocol.name_of(d)
        raise ValueError(
            f"{where} has the family {name}, whose support is not the whole real line; "
            "ppl.Gaussian() integrates over all real numbers. Leave it among the sites to sample."
        )
    return ()


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianIntegral:
    """Integral of the density of a program over sites that are jointly normal given all others.

    Two integrals are equal if their programs have the same equations, joined in the same way.

    Attributes:
        jaxpr: The program, without constants.
        block: The paths of the sites that are integrated out.
        most: The largest number of elements that are coupled as a whole.
        scored: The paths of the sites whose scores depend on these sites, and of these.
        inputs: For each input of the program, the first that is known to be equal.
    """

    jaxpr: Any
    block: tuple[Path, ...]
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
        return program, self.block, self.most, self.scored, self.inputs

    @functools.cached_property
    def _sites(self) -> Sites:
        return Harvester(self._program([None] * len(self.jaxpr.invars)), _Score()).sites

    def start(self, path: Path) -> Any:
        """A number that all elements of a site may have."""
        return 0.0

    @functools.cached_property
    def _structure(self) -> tuple[Scopes, ScopeReader]:
        reader = ScopeReader(self.block, self.scored, {})
        nothing = [None] * len(self.jaxpr.invars)
        return reader.read(self.jaxpr, nothing, self.inputs), reader

    @property
    def moving(self) -> frozenset[Path]:
        """Latent sites whose map from unconstrained space depends on an integrated site."""
        return frozenset(self._structure[1].moving)

    @functools.cached_property
    def groups(self) -> dict[Path, Any]:
        """For each score, the integrated sites that it depends on, directly or through others."""
        groups = [frozenset([path]) for path in self.block]
        for degree in self._degrees.values():
            parts = [group for group in groups if group & degree.variables]
            rest = [group for group in groups if group not in parts]
            groups = [*rest, frozenset[Any]().union(*parts)] if parts else rest
        order = {group: tuple(p for p in self.block if p in group) for group in groups}
        return {
            path: next((order[g] for g in groups if g & degree.variables), ())
            for path, degree in self._degrees.items()
        }

    def check(self) -> None:
        """Check that the integral exists as far as the program tells.

        Raises:
            ValueError: If a site is not real, or not jointly normal with the others.
        """
        _ = self._degrees

    @functools.cached_property
    def _degrees(self) -> dict[Path, Degree]:
        """The degree of each score in the integrated sites.

        Raises:
            ValueError: If the integral does not exist, or is no Gaussian one.
        """
        jaxpr, names = self._trace()
        found = self._find_degrees(jaxpr, names, self.block)
        alone = {path: self._find_degrees(jaxpr, names, [path]) for path in self.block}
        for path, degree in found.items():
            if degree.cause is not None:
                guilty = [site for site in self.block if alone[site][path].cause is not None]
                raise ValueError(_explain_degree(path, degree.cause, guilty))
        for path, degrees in alone.items():
            if max(x.degree for x in degrees.values()) < 2:
                raise ValueError(
                    f"marginalize: site {describe(path)} is improper given the rest, as no score "
                    "is quadratic in it. Give it a proper prior, or data that depend on it."
                )
        return found

    def _trace(self) -> tuple[Any, list[Path | None]]:
        """The scores as a program, and the path of the site that each of its inputs is."""
        shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in self.jaxpr.invars]
        plants = {
            path: [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in found.collapse().avals]
            for path, found in self._sites.items()
            if found.site.tag == RANDOM
        }
        names = [None] * len(shapes) + [path for path, each in plants.items() for _ in each]

        def scores(inputs: Any, plants: Any) -> list[jax.Array]:
            action = _Score(frozenset(self.scored), frozenset(self.block))
            found = Harvester(self._program(inputs), action).run(plants, live_outs=False)[1]
            return [found[path] for path in self.scored]

        return jax.make_jaxpr(scores)(shapes, ByPath(plants)), names

    def _find_degrees(
        self, jaxpr: Any, names: Sequence[Path | None], sites: Collection[Path]
    ) -> dict[Path, Degree]:
        operands = [Degree(1, frozenset([name])) if name in sites else CONSTANT for name in names]
        return dict(zip(self.scored, find_degrees(jaxpr, operands), strict=True))

    def _program(self, inputs: Sequence[Any]) -> Program:
        return Program(self.jaxpr, list(inputs), [], lambda leaves: leaves)

    def _scores(
        self, paths: Collection[Path], inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> dict[Path, jax.Array]:
        """Scores of some sites; values that they do not depend on may be missing."""
        action = _Score(wanted=frozenset(paths))
        missing = {
            path: tuple(_missing(a) for a in found.collapse().avals)
            for path, found in self._sites.items()
            if found.site.tag == RANDOM and path not in plants
        }
        plants = {**missing, **plants}
        return Harvester(self._program(inputs), action).run(plants, live_outs=False)[1]

    def _layout(self, group: tuple[Path, ...]) -> BlockLayout:
        scopes, reader = self._structure
        mine = {path: scopes[path] for path, key in self.groups.items() if key == group}
        shapes = {path: self._aval(path).shape for path in group}
        layout = find_layout(mine, group, shapes)
        size = max(layout.size_of_block, layout.size_of_border)
        if size > self.most:
            raise ValueError(_explain_size(group, size, self.most, reader.causes))
        return layout

    def _aval(self, path: Path) -> Any:
        return self._sites[path].collapse().avals[0]

    def log_prob(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> jax.Array:
        """The log of the integral over the sites of one group."""
        if not group:
            scores = self._scores([p for p, g in self.groups.items() if not g], inputs, plants)
            return _sum_all(scores)
        return self._complete_square(group, inputs, plants).log_integral()

    def draw(
        self, key: jax.Array, inputs: Sequence[Any], plants: Mapping[Path, Sequence[Any]]
    ) -> dict[Path, Any]:
        """A joint draw of all integrated sites given all others."""
        drawn: dict[Path, Any] = {}
        for i, group in enumerate(dict.fromkeys(filter(None, self.groups.values()))):
            square = self._complete_square(group, inputs, plants)
            x = square.draw(jax.random.fold_in(key, i))
            drawn |= self._values(self._layout(group), x)
        return {path: drawn[path] for path in self.block}

    def _values(self, layout: BlockLayout, x: BlockVector) -> dict[Path, jax.Array]:
        return {
            path: value.astype(self._aval(path).dtype) for path, value in layout.values(x).items()
        }

    def _complete_square(
        self,
        group: tuple[Path, ...],
        inputs: Sequence[Any],
        plants: Mapping[Path, Sequence[Any]],
    ) -> "_Square":
        """The log density as a quadratic form about its maximum.

        The maximum is a point of expansion without a derivative of its own: the integral does not
        depend on the point. In single precision the form at 0 would lose what cancels in it.
        """
        layout = self._layout(group)
        paths = [path for path, key in self.groups.items() if key == group]
        dtype = jnp.result_type(*(self._aval(path).dtype for path in group))

        def log_density(x: BlockVector) -> jax.Array:
            values = {path: (v,) for path, v in self._values(layout, x).items()}
            scores = self._scores(paths, inputs, {**plants, **values})
            return _sum_all(scores)

        slope, multiply = jax.linearize(jax.grad(log_density), layout.zeros(dtype))
        is_defined = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]
        factor = _precision(layout, multiply, dtype).factor()
        mode = lax.stop_gradient(factor.solve_transposed(factor.solve(slope)))
        height, slope = jax.value_and_grad(log_density)(mode)
        square = _Square(mode, height, factor.solve(slope), factor, layout.num_elements)
        if not _jax.is_traced(square.log_det) and all(is_defined) and square.is_improper:
            raise ValueError(_explain_improper(group))
        return square


@dataclasses.dataclass(frozen=True)
class _Square:
    """A quadratic log density `height + slope (x - mode) - (x - mode)^T P (x - mode) / 2`.

    Attributes:
        mode: A point, near the maximum.
        height: The log density there.
        slope: The gradient there, multiplied by the inverse of the factor.
        factor: The Cholesky factor of `P`.
        num_elements: The number of variables.
    """

    mode: BlockVector
    height: jax.Array
    slope: BlockVector
    factor: BlockFactor
    num_elements: int

    @functools.cached_property
    def log_det(self) -> jax.Array:
        """Half the log determinant of the precision."""
        return self.factor.half_log_det()

    @property
    def is_improper(self) -> jax.Array:
        """Whether the precision is not positive definite."""
        return ~jnp.isfinite(self.log_det)

    def log_integral(self) -> jax.Array:
        """The log of the integral, minus infinity where it does not exist."""
        rest = sum(jnp.sum(jnp.square(x)) for x in jax.tree.leaves(self.slope)) / 2
        found = self.height + rest - self.log_det + self.num_elements * _LOG_TWO_PI / 2
        return jnp.where(self.is_improper, -jnp.inf, found)

    def draw(self, key: jax.Array) -> BlockVector:
        """A draw from the normal distribution with this density."""
        leaves, tree = jax.tree.flatten(self.slope)
        keys = jax.random.split(key, len(leaves))
        noisy = [
            x + jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)
        ]
        step = self.factor.solve_transposed(jax.tree.unflatten(tree, noisy))
        return jax.tree.map(jnp.add, self.mode, step)


def _missing(aval: Any) -> jax.Array:
    """NaN in place of a value that nothing reads."""
    is_inexact = jnp.issubdtype(aval.dtype, jnp.inexact)
    return jnp.full(aval.shape, jnp.nan if is_inexact else 0, aval.dtype)


def _sum_all(scores: Mapping[Path, jax.Array]) -> jax.Array:
    """The sum of scores; those in loops have axes."""
    return sum((jnp.sum(x) for x in scores.values()), jnp.zeros(()))


def _precision(layout: BlockLayout, multiply: Any, dtype: Any) -> BlockMatrix:
    """The precision: minus the Hessian, and the identity where a block is padded."""
    negative = jax.tree.map(jnp.negative, layout.hessian(multiply, dtype))
    one = jnp.asarray(layout.padding, dtype)[:, :, None] * jnp.eye(
        layout.size_of_block, dtype=dtype
    )
    return dataclasses.replace(negative, diagonal=negative.diagonal + one)


def _names(paths: Collection[Path]) -> str:
    return ", ".join(map(describe, paths))


def _explain_degree(path: Path, cause: Any, guilty: Sequence[Path]) -> str:
    operation, variables = cause
    together = "" if guilty or len(variables) < 2 else "jointly "
    sites = guilty or sorted(variables)
    return (
        f"marginalize: the log probability of site {describe(path)} is not {together}quadratic in "
        f"{_names(sites)}, by the operation {operation!r}. ppl.Gaussian() integrates over sites "
        "that are jointly normal given all others. Leave "
        f"{'one of them' if together else _names(sites)} among the sites to sample."
    )


def _explain_size(group: Sequence[Path], size: int, most: int, causes: Mapping[Path, str]) -> str:
    words = "".join(f" {describe(p)}: {causes[p]}." for p in group if p in causes)
    return (
        f"marginalize: {size} elements of {_names(group)} are coupled as a whole, more than "
        f"most={most}; the cost is their number cubed.{words} Let each element depend on few of "
        "them, let a loop carry the last values alone, or raise ppl.Gaussian(most=...)."
    )


def _explain_improper(group: Sequence[Path]) -> str:
    return (
        f"marginalize: {_names(group)} are improper given the rest: their precision matrix is not "
        "positive definite. Give each a proper prior, or data that tell all of them apart."
    )
