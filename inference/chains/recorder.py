"""Recorder of a run: it keeps the draws, and a state of the chains from which to go on."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from inference.common.state_leaves import State
from inference.common.target import Target
from ppl.harvest.pytrees import register_dataclass


class Recorder:
    """Recorder that keeps draws and the last state in memory.

    A run calls, in this order:

    1. `open`, with the shapes of its draws, and `reserve` before there are more draws than room;
    2. `put`, by each batch of chains that has new draws;
    3. `record`, when it `is_due`, and when the run ends or is interrupted;
    4. `read`, and perhaps `read_further`.

    Attributes:
        keep: Names of the sites whose draws are kept; `None` for all.
        state: State of the run: the last recorded one, at first the state to go on from or `None`.
        arrays: Arrays ``(chain, draw, *shape)``, a pytree of values of sites and of statistics.
        num_put: Number of draws of each chain that have been put.
        constants: Entries added to each recorded state: what was learned before the run.
        takes_parts: Whether states may be those of one of several processes.
    """

    takes_parts = False

    def __init__(
        self, keep: tuple[str, ...] | None = None, state: State | None = None, draws: Any = None
    ) -> None:
        """Makes a recorder.

        Args:
            keep: Names of the sites whose draws are kept; `None` for all.
            state: State to go on from, or `None`.
            draws: Draws and statistics up to that state, a pytree as `arrays`.
        """
        self.keep = keep
        self.state = state
        self.arrays = draws
        self.num_put = np.zeros(0, int)
        self.constants: State = {}

    @property
    def is_due(self) -> bool:
        """Whether a state should be recorded now."""
        return False

    def open(self, shapes: Any, num_chains: int, num_draws: int) -> None:
        """Makes room for draws.

        Args:
            shapes: Shapes and dtypes of one draw, a pytree as `arrays`.
            num_chains: Number of chains of this process.
            num_draws: Maximum number of draws of each chain.
        """
        if self.arrays is None:

            def empty(x):
                return np.empty((num_chains, 0, *x.shape), x.dtype)

            self.arrays = jax.tree.map(empty, shapes)
        self.num_put = np.full(num_chains, jax.tree.leaves(self.arrays)[0].shape[1])

    def reserve(self, num_draws: int) -> None:
        """Makes room for `num_draws` draws of each chain; no thread may call `put` meanwhile."""

        def extend(old: np.ndarray) -> np.ndarray:
            if old.shape[1] >= num_draws:
                return old
            new = np.empty((len(old), num_draws, *old.shape[2:]), old.dtype)
            new[:, : old.shape[1]] = old
            return new

        self.arrays = jax.tree.map(extend, self.arrays)

    def put(self, chain: int, values: Any, spans: np.ndarray) -> None:
        """Keeps draws of the chains of a batch; threads may call it for different chains.

        Args:
            chain: Number of the first chain among the chains of this process.
            values: Values in the rows of the batch, ``(chain, row, *shape)``, a pytree as `arrays`.
            spans: For each chain a range of draws and a range of rows, ``(chain, 4)``: first draw,
                end of draws, first row, end of rows. Ends are excluded.
        """
        self.num_put[chain : chain + len(spans)] = spans[:, 1]
        pairs = list(zip(*map(jax.tree.leaves, (self.arrays, values)), strict=True))
        if np.all(spans == spans[0]):  # far faster than thousands of chains one by one
            to_start, to_end, from_start, from_end = spans[0].tolist()
            for kept, new in pairs:
                part = kept[chain : chain + len(spans), to_start:to_end]
                part[...] = new[:, from_start:from_end]
            return
        for kept, new in pairs:
            for i, (to_start, to_end, from_start, from_end) in enumerate(spans.tolist()):
                kept[chain + i, to_start:to_end] = new[i, from_start:from_end]

    def record(self, state: Callable[[], State]) -> None:
        """Keeps the state that `state` returns; `state` first puts all draws up to that state."""
        self.state = state() | self.constants

    def read(self, num_drawn: int) -> Any:
        """The first `num_drawn` draws of each chain."""
        return jax.tree.map(lambda x: x[:, :num_drawn], self.arrays)

    def read_further(self, num_drawn: int) -> Any:
        """Draws after the first `num_drawn`, which some chains have made before an interrupt.

        `None` if the run cannot go on from memory: there is no state, or a folder has it.
        """
        if self.state is None:
            return None
        return jax.tree.map(lambda x: x[:, num_drawn : self.num_put.max()].copy(), self.arrays)

    def close(self) -> None:
        """Releases files and locks, if the recorder has any."""


@jax.tree_util.register_pytree_node_class
class KeptSites:
    """Function from a position to the values of some sites of a target, as a pytree.

    Compiled, the function computes nothing that only other sites need.
    """

    def __init__(self, target: Target, keep: tuple[str, ...] | None) -> None:
        self.target = target
        self.keep = keep

    def constrain(self, position: Any) -> dict[str, Any]:
        """Values of the sites at a position, on their supports."""
        values = self.target.constrain(position)
        return values if self.keep is None else select_sites(values, self.keep)

    def tree_flatten(self) -> tuple[tuple[Any], Any]:
        """Part with data, and static part."""
        return (self.target,), self.keep

    @classmethod
    def tree_unflatten(cls, keep: Any, children: tuple[Any]) -> "KeptSites":
        """The object of these parts."""
        return cls(*children, keep)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class RowValues:
    """Function from a position to values of sites, and to corrections of statistics.

    Attributes:
        kept: Sites that are kept.
    """

    kept: KeptSites

    def constrain(self, position: Any) -> tuple[dict[str, Any], dict[str, jax.Array]]:
        """Values of the sites, and the amounts, by name, to subtract from the statistics of a draw.

        In other coordinates than unconstrained space, the log density of a chain has the log
        determinant of the Jacobian added to it.
        """
        log_det = getattr(self.kept.target, "log_det", None)
        excess = {} if log_det is None else {"log_density": log_det(position)}
        return self.kept.constrain(position), excess


def is_kept(name: str, keep: tuple[str, ...]) -> bool:
    """Whether a site, or a scope around it, is in `keep`."""
    return any(name == kept or name.startswith(f"{kept}.") for kept in keep)


def select_sites(values: Mapping[str, Any], keep: tuple[str, ...], scope: str = "") -> Any:
    """Values of the kept sites; scopes without a kept site are left out."""
    found = {}
    for name, value in values.items():
        path = f"{scope}{name}"
        if is_kept(path, keep):
            found[name] = value
        elif isinstance(value, Mapping) and (inner := select_sites(value, keep, f"{path}.")):
            found[name] = inner
    return found
