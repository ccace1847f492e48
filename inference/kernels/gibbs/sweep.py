"""A sweep of Gibbs sampling: all blocks of a model in turn."""

import collections
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from inference.kernels.gibbs.block_density import block_density
from inference.kernels.gibbs.elliptical_block import elliptical_kernel
from inference.kernels.gibbs.full_conditionals import conditional_of, draw_jointly
from inference.kernels.gibbs.gibbs_plan import PlannedBlock
from inference.kernels.gibbs.gibbs_target import GibbsTarget
from inference.kernels.gibbs.path_space import ParametersOfModel, PathOfBlock
from inference.kernels.gradient_free.elliptical_slice import EllipticalSlice
from inference.kernels.hamiltonian.adaptive_hamiltonian import AdaptiveHamiltonian
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.particle.particle_gibbs import ParticleGibbs
from inference.kernels.particle.pmmh import PMMH
from inference.models.row_split import log_parts
from ppl.harvest.names import nest_by_path
from ppl.harvest.pytrees import register_dataclass
from ppl.harvest.survey import Path, join_scopes

_FLAGS = ("is_divergent", "is_truncated")  # of transitions, which a sweep has from any block
_SAME = 8  # units of the last place within which two values are one


class GibbsState(NamedTuple):
    """State of a chain of Gibbs sampling.

    Attributes:
        position: Values of all latent sites.
        log_density: Scalar, the log density of these values.
        blocks: State of each block, `None` for one that is drawn.
    """

    position: Any
    log_density: jax.Array
    blocks: tuple["BlockState | None", ...]


class BlockState(NamedTuple):
    """State of a block that a kernel moves.

    Attributes:
        kernel: State of the kernel, at a position of the block's sites.
        info: Statistics of its last transition.
    """

    kernel: Any
    info: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Sweep:
    """Gibbs sampling of a model, a kernel.

    Attributes:
        target: The model and its blocks.
    """

    target: GibbsTarget

    def init(self, position: Mapping[str, Any]) -> GibbsState:
        """State at values of all latent sites."""
        values = self.target.by_path(position)
        blocks = tuple(
            None if block.is_drawn else self._begin(block, values) for block in self.target.blocks
        )
        return self._state(values, blocks)

    def step(self, key: jax.Array, state: GibbsState) -> tuple[GibbsState, Any]:
        """One sweep: each block in turn, given the present values of all others."""
        values = self.target.by_path(state.position)
        keys = random.split(key, len(self.target.blocks))
        blocks = []
        infos = []
        for own, block, old in zip(keys, self.target.blocks, state.blocks, strict=True):
            if old is None:
                values |= self._draw(block, own, values)
                blocks.append(None)
                continue
            new, moved = self._move(block, own, old, values)
            values |= moved
            blocks.append(new)
            infos.append((block, new.info))
        return self._state(values, tuple(blocks)), _join_infos(infos)

    def adapt(
        self, state: GibbsState, info: Any, iteration: jax.Array, num_warmup: jax.Array
    ) -> GibbsState:
        """State with each kernel adapted to its block."""
        values = self.target.by_path(state.position)
        blocks = []
        for block, old in zip(self.target.blocks, state.blocks, strict=True):
            if old is None:
                blocks.append(None)
                continue
            kernel, fresh = self._fresh(block, old, values)
            if hasattr(kernel, "adapt"):
                fresh = kernel.adapt(fresh, old.info, iteration, num_warmup)
                old = old._replace(kernel=fresh)
            blocks.append(old)
        return state._replace(blocks=tuple(blocks))

    def check_states(self, states: GibbsState) -> None:
        """Checks that exact draws are finite; states have the chains in front.

        Raises:
            ValueError: if a value is not: whether a full conditional is proper may depend on data
                and values, which the plan does not see.
        """
        values = self.target.by_path(states.position)
        drawn = [path for block in self.target.blocks if block.is_drawn for path in block.paths]
        wrong = [path for path in drawn if not np.all(np.isfinite(values[path]))]
        if wrong:
            names = ", ".join(repr(join_scopes(path)) for path in wrong)
            sites, their = ("sites", "their") if len(wrong) > 1 else ("site", "its")
            raise ValueError(
                f"Gibbs: exact draws of {sites} {names} are not finite: given the values of all "
                f"other sites and the data, {their} full conditional is improper, or "
                f"{values[wrong[0]].dtype} is too narrow for it. Give {sites} {names} a proper "
                "prior, and look at factors and scores that grow without bound there"
            )

    def _state(self, values: Mapping[Path, Any], blocks: tuple[Any, ...]) -> GibbsState:
        position = nest_by_path({path: values[path] for path in self.target.shapes})
        return GibbsState(position, self.target.log_density(position), blocks)

    def _draw(
        self, block: PlannedBlock, key: jax.Array, values: Mapping[Path, Any]
    ) -> dict[Path, Any]:
        """Values of the sites of a block, drawn from full conditionals."""
        base = self.target.base
        if block.is_joint:
            return draw_jointly(base, block.paths, block.strategy, key, values)
        values = dict(values)
        keys = random.split(key, len(block.paths))
        for own, path in zip(keys, block.paths, strict=True):
            values[path] = conditional_of(base, path, values).sample(own)
        return {path: values[path] for path in block.paths}

    def _space(self, block: PlannedBlock, values: Mapping[Path, Any]) -> "_Space":
        """Space in which the kernel of a block moves, given all other sites."""
        if isinstance(block.kernel, PMMH):
            return ParametersOfModel(self.target.base, values)
        others = {path: x for path, x in values.items() if path not in block.paths}
        if isinstance(block.kernel, ParticleGibbs):
            return PathOfBlock(self.target.base, block.paths, others)
        return (_Values if block.is_discrete else _Coordinates)(self.target, block.paths, others)

    def _begin(self, block: PlannedBlock, values: Mapping[Path, Any]) -> BlockState:
        """State of the kernel of a block, before its first transition."""
        space = self._space(block, values)
        position = space.position_of(values)
        kernel = _kernel_of(block, space, position)
        state = kernel.init(position)
        key = jax.eval_shape(lambda: random.key(0))
        _, info = jax.eval_shape(kernel.step, key, state)
        return BlockState(state, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), info))

    def _move(
        self, block: PlannedBlock, key: jax.Array, old: BlockState, values: Mapping[Path, Any]
    ) -> tuple[BlockState, dict[Path, Any]]:
        """State of a block after a transition, and the values of its sites."""
        kernel, fresh = self._fresh(block, old, values)
        new, info = kernel.step(key, fresh)
        return BlockState(new, info), self._space(block, values).values_of(new)

    def _fresh(
        self, block: PlannedBlock, old: BlockState, values: Mapping[Path, Any]
    ) -> tuple[Any, Any]:
        """Kernel of a block given the present values of all others, and its state among them."""
        space = self._space(block, values)
        position = space.follow(old.kernel.position, values)
        kernel = _kernel_of(block, space, position)
        return kernel, _refresh(kernel, old.kernel._replace(position=position))


class _Coordinates:
    """Unconstrained space of some real sites, given all others."""

    def __init__(self, target: GibbsTarget, paths: tuple[Path, ...], others: Mapping[Path, Any]):
        self._given = target.base.given(others)
        self._target = target
        self._paths = paths
        self.log_density = self._given.log_density

    def log_prior(self, position: Any) -> jax.Array:
        """Log prior density of the block, given all other sites."""
        return log_parts(self._given, position)[0]

    def position_of(self, values: Mapping[Path, Any]) -> Any:
        """Position of values."""
        return self._given.unconstrain(nest_by_path({path: values[path] for path in self._paths}))

    def values_of(self, state: Any) -> dict[Path, Any]:
        """Values at the position of a state."""
        return self.values_at(state.position)

    def values_at(self, position: Any) -> dict[Path, Any]:
        """Values at a position."""
        found = self._target.by_path(self._given.constrain(position))
        return {path: found[path] for path in self._paths}

    def follow(self, position: Any, values: Mapping[Path, Any]) -> Any:
        """Position of the block's values after other blocks have moved.

        It is the old one, unless the map to values has changed with them, as that of a site whose
        bounds depend on other sites. Then values stay, and the position follows.
        """
        now = self.values_at(position)
        moved = self.position_of(values)
        old = self._target.by_path(position)
        found = {}
        for path, new in self._target.by_path(moved).items():
            tolerance = _SAME * jnp.finfo(now[path].dtype).eps * jnp.abs(values[path])
            is_same = jnp.all(jnp.abs(now[path] - values[path]) <= tolerance)
            found[path] = jnp.where(is_same | ~jnp.all(jnp.isfinite(new)), old[path], new)
        return nest_by_path(found)


class _Values:
    """Values of some discrete sites, given all others."""

    def __init__(self, target: GibbsTarget, paths: tuple[Path, ...], others: Mapping[Path, Any]):
        self._target = target
        self._paths = paths
        self._others = others

    def log_density(self, position: Any) -> jax.Array:
        """Log density of values of the block."""
        values = dict(self._others) | self._target.by_path(position)
        return self._target.log_density(nest_by_path(values))

    def position_of(self, values: Mapping[Path, Any]) -> Any:
        """The values of the block's sites."""
        return nest_by_path({path: values[path] for path in self._paths})

    def values_of(self, state: Any) -> dict[Path, Any]:
        """Values of the block by path."""
        return self._target.by_path(state.position)

    def follow(self, position: Any, values: Mapping[Path, Any]) -> Any:
        """The position, which does not depend on other blocks."""
        return position


_Space = _Coordinates | _Values | PathOfBlock | ParametersOfModel


def _kernel_of(block: PlannedBlock, space: _Space, position: Any) -> Any:
    """Kernel of a block for its density; a Hamiltonian one adapts itself."""
    if isinstance(space, PathOfBlock | ParametersOfModel):
        return space.kernel(block.kernel)
    density = block_density(space.log_density, position)
    if isinstance(block.kernel, HamiltonianKernel):
        return AdaptiveHamiltonian(block.kernel, density)
    if isinstance(space, _Coordinates) and isinstance(block.kernel, EllipticalSlice):
        return elliptical_kernel(space.log_prior, density, position)
    return dataclasses.replace(block.kernel, log_density=density)


def _refresh(kernel: Any, state: Any) -> Any:
    """State at its position, with what is cached of the density evaluated anew."""
    if hasattr(kernel, "refresh"):
        return kernel.refresh(state)
    return kernel.init(state.position)


def _join_infos(infos: list[tuple[PlannedBlock, Any]]) -> Any:
    """Statistics of all kernels; those of other blocks than the rest carry their sites' names.

    A sweep is divergent, or cut short, if the transition of one of its blocks is. The energy of a
    block is left out: its density lacks terms that change as other blocks move.
    """
    fields: dict[str, Any] = {}
    for block, info in infos:
        for name, x in info._asdict().items():
            if x is None:  # a kernel that cannot diverge, say
                continue
            if name in _FLAGS:
                fields[name] = fields.get(name, False) | x
            elif name != "energy":
                fields[_distinct(f"{name}{_suffix(block)}", fields)] = x
    return _info_type(tuple(fields))(**fields)


def _suffix(block: PlannedBlock) -> str:
    """Suffix of the names of a block's statistics: nothing for the rest."""
    names = ["_".join(map(str, path)) for path in block.paths]
    return "" if block.is_rest else "_of_" + "_".join(names)


def _distinct(name: str, others: Mapping[str, Any]) -> str:
    """A name that no other statistic has."""
    return _distinct(f"{name}_again", others) if name in others else name


@functools.lru_cache(maxsize=64)
def _info_type(names: tuple[str, ...]) -> Any:
    return collections.namedtuple("GibbsInfo", names)
