"""Base of ensemble kernels without gradients, whose moves follow the differences of chains."""

import abc
import dataclasses
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.argument_checks import check_count
from inference.common.layout import Layout
from inference.common.log_densities import metropolis_rate
from inference.common.threefry import random_words, seed_of, threefry, uniform
from inference.kernels.ensemble.kernel import DensityKernel, layout_of
from inference.kernels.gradient_free.kernel import flat_density


class DifferenceState(NamedTuple):
    """State of all chains of a kernel whose moves follow the differences of chains.

    Attributes:
        position: Pytree with the chains in front.
        log_density: ``(chain,)``.
    """

    position: Any
    log_density: jax.Array


class DifferenceInfo(NamedTuple):
    """Statistics of a transition of :class:`AffineInvariant` or :class:`DifferentialEvolution`.

    Attributes:
        acceptance_rate: Mean probability with which proposals were accepted, ``(chain,)``.
        num_evaluations: Evaluations of the density by each chain, one for each proposal.
    """

    acceptance_rate: jax.Array
    num_evaluations: jax.Array


@dataclasses.dataclass(frozen=True)
class DifferenceKernel(DensityKernel, abc.ABC):
    """Kernel that moves chains along the lines and differences of other chains.

    Each transition deals the chains to two halves at random. In each sweep, one half moves by what
    the other one is, then the other half by what the first one has become. A chain thus never moves
    by what depends on itself, and the density is left invariant exactly.

    Moves stay in the directions that the chains span, so that there are at least two chains more
    than twice the number of coordinates, and starts differ in all directions. The kernel adapts
    nothing: chains themselves are the scale of its moves. In warm-up they forget their starts.

    Attributes:
        log_density: Function of the position of one chain that returns a scalar, or `None` if a
            driver is to supply it. It needs no gradient.
        num_steps: Sweeps of a transition, in each of which every chain makes one proposal; `None`
            for the number of coordinates.
    """

    num_steps: int | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps is not None:
            number = check_count("num_steps", self.num_steps, least=1)
            object.__setattr__(self, "num_steps", number)

    def init(self, position: Any) -> DifferenceState:
        """The state of all chains at `position`, a pytree with the chains in front.

        Raises:
            TypeError: if a setting or the log density is not real, or the position has other leaves
                than floating-point arrays.
            ValueError: if a setting is out of range, there is no log density, chains are too few or
                of an odd number, or they do not differ in all directions.
        """
        layout = layout_of(position)
        self.check(layout)
        position = jax.tree.map(jnp.asarray, position)
        positions = jax.vmap(layout.ravel)(position)
        self._check_num_chains(*positions.shape)
        with suppress(jax.errors.TracerArrayConversionError):
            self.check_positions(np.asarray(positions))
        return DifferenceState(position, self._densities(layout)(positions))

    def check_positions(self, positions: np.ndarray) -> None:
        """Checks that starting points of all chains differ in all directions.

        Raises:
            ValueError: if chains are too few or of an odd number, or they do not.
        """
        self._check_num_chains(*positions.shape)
        rank = rank_of_differences(positions)
        size = positions.shape[1]
        if rank < size:
            raise ValueError(
                f"{type(self).__name__} moves chains along their differences, but their starting "
                f"points differ only in {rank} directions of {size}, and no chain would ever leave "
                'these; start each chain elsewhere, as by init="uniform"'
            )

    def step(self, key: jax.Array, state: DifferenceState) -> tuple[DifferenceState, Any]:
        """One transition of all chains."""
        layout = layout_of(state.position)
        densities = self._densities(layout)
        positions = jax.vmap(layout.ravel)(state.position)
        num_chains, size = positions.shape
        num_steps = size if self.num_steps is None else self.num_steps
        seed = seed_of(key)
        half = num_chains // 2
        order = jnp.argsort(random_words(seed, 0, num_chains))

        def move(i: Any, carry: Any) -> Any:
            (moving, log_density, total), others = carry
            words = jnp.stack(threefry(seed, num_chains + i))
            proposal, log_factor = self.propose(words, moving, others[0])
            found = densities(proposal)
            rate = metropolis_rate(found, log_density, log_factor)
            is_accepted = uniform(words, jnp.arange(half), layout.dtype) < rate
            moved = jnp.where(is_accepted[:, None], proposal, moving)
            log_density = jnp.where(is_accepted, found, log_density)
            return others, (moved, log_density, total + rate)

        start = positions, state.log_density.astype(layout.dtype), jnp.zeros(num_chains)
        start = jax.tree.map(lambda x: x[order].astype(layout.dtype), start)
        halves = tuple(jax.tree.map(lambda x, i=i: x[i * half :][:half], start) for i in (0, 1))
        halves = lax.fori_loop(0, 2 * num_steps, move, halves)
        # Chains in their own order again.
        places = jnp.zeros_like(order).at[order].set(jnp.arange(num_chains, dtype=order.dtype))
        moved, log_density, total = (jnp.concatenate(x)[places] for x in zip(*halves, strict=True))
        new = DifferenceState(
            jax.vmap(layout.unravel)(moved), log_density.astype(state.log_density.dtype)
        )
        return new, DifferenceInfo(total / num_steps, jnp.int32(num_steps))

    def adapt(
        self, state: DifferenceState, info: Any, iteration: jax.Array, num_warmup: jax.Array
    ) -> DifferenceState:
        """The state as it is: the scale of moves follows from the chains."""
        return state

    @abc.abstractmethod
    def propose(
        self, seed: jax.Array, moving: jax.Array, others: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Proposals of chains, and log factors of their acceptance ratios.

        Args:
            seed: Seed of the move, whose counters from the number of chains on are free.
            moving: Positions of the chains that move, ``(chain, size)``.
            others: Positions of the chains that stay, ``(chain, size)``.
        """

    def least_num_chains(self, size: int) -> int:
        """Number of chains that this kernel needs for `size` coordinates."""
        return 2 * (size + 1)

    def _check_num_chains(self, num_chains: int, size: int) -> None:
        least = self.least_num_chains(size)
        if num_chains < least or num_chains % 2:
            raise ValueError(
                f"{type(self).__name__} moves one half of the chains along the differences of the "
                f"other: with {size} coordinates it needs an even number of {least} chains at "
                f"least, got {num_chains}; write num_chains={2 * least}, or use RandomWalk() or "
                "Slice() for a few chains"
            )

    def _densities(self, layout: Layout) -> Any:
        """Log densities ``(chain,)`` as a function of positions ``(chain, size)``."""
        return jax.vmap(flat_density(self, "log_density", layout))


def rank_of_differences(positions: np.ndarray) -> int:
    """Number of directions in which points ``(point, size)`` differ, up to rounding."""
    eps = float(np.finfo(positions.dtype).eps)
    differences = positions.astype(np.float64) - positions[:1]
    spread = np.std(differences, 0)
    is_spread = spread > 2 * eps * np.max(np.abs(positions), 0)
    scaled = differences[:, is_spread] / spread[is_spread]
    return int(np.linalg.matrix_rank(scaled, rtol=eps * max(scaled.shape)))


def distinct_chains(seed: jax.Array, first: int, number: int, num_others: int) -> jax.Array:
    """Indices below `num_others`, three different ones in random order, ``(3, number)``.

    Args:
        seed: Seed of random words.
        first: First counter of them.
        number: Number of triples.
        num_others: Number of chains to choose from, at least 3.
    """
    words = random_words(seed, first, 3 * number).reshape(3, number)
    sizes = jnp.array([num_others, num_others - 1, num_others - 2], jnp.uint32)
    one, second, third = (words % sizes[:, None]).astype(jnp.int32)
    third = jnp.where(third >= second, third + 1, third)
    # Second and third are steps on a circle from the first one.
    return jnp.stack([one, (one + 1 + second) % num_others, (one + 1 + third) % num_others])
