"""Batches of chains of a Hamiltonian kernel: their rows, warm-up windows and states."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.chains.batch import Batch
from inference.chains.chain import Chain, ChainPlan, awaits_comparison
from inference.chains.recorder import Recorder
from inference.common.matrices import Blocks
from inference.common.state_leaves import State
from inference.warmup.adaptation import FIRST_WINDOW, is_due, set_first_diagonal
from inference.warmup.fisher_mass_matrix import renew_matrices
from inference.warmup.warm_up_log import WarmUpLog


class ChainBatch(Batch):
    """Batch of chains of a Hamiltonian kernel, with the windows of their warm-up.

    A row holds a position and statistics, and a gradient if the mass matrix is learned in windows.

    Attributes:
        schedule: Phases of warm-up.
        kinds: Shapes and dtypes of the statistics in a row, by name.
        windows: Pieces of rows for the next mass matrix, for each chain.
        log: Log of warm-up.
        stops: Iterations at which calls end, to log a diagonal.
    """

    def __init__(
        self,
        chains: Chain,
        plan: ChainPlan,
        kinds: Mapping[str, Any],
        recorder: Recorder,
        place: int = 0,
        log_ends: tuple[int, ...] = (),
        *,
        stops: bool = False,
    ) -> None:
        """Makes a batch of chains that have made no move or go on from a state.

        Args:
            chains: The chains.
            plan: Settings of the run.
            kinds: Shapes and dtypes of the statistics in a row, by name.
            recorder: Keeper of draws and statistics.
            place: Number of the first chain among the chains of this process.
            log_ends: Iterations at the ends of the windows that are logged; none without a log.
            stops: Whether calls end where windows of a diagonal end, to log the diagonal there.
        """
        schedule = plan.schedule
        iteration = np.asarray(chains.progress.iteration)
        num_warmup = int(schedule.num_warmup)
        num_iterations = int(np.asarray(plan.num_iterations))
        super().__init__(chains, iteration, num_warmup, num_iterations, recorder, place)
        self.schedule = schedule
        self.kinds = kinds
        self.has_windows = chains.progress.adaptation.has_windows
        self.windows: list[list[np.ndarray]] = [[] for _ in iteration]
        self.log = WarmUpLog(len(iteration), self._size, log_ends, kinds)
        self.stops = self.log.window_ends[:-1] if stops and self.log.is_kept else ()
        first = schedule.slow_start if self.has_windows else schedule.num_warmup
        self.first = np.full(len(iteration), 0 if self.log.is_kept else first, np.int32)

    @property
    def _size(self) -> int:
        return self.chains.trajectory.position.shape[-1]

    @property
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Initial positions, with log densities and gradients."""
        start = jax.device_get(self.chains.progress.search.start)
        return start.position, start.log_density, start.gradient

    def guess(self, kind: str) -> None:
        """Guesses first mass matrices, of a kind, from the gradients at the chains' starts."""
        gradient = np.asarray(self.chains.progress.search.start.gradient)
        self._adapt(set_first_diagonal(self.chains.progress.adaptation, gradient, kind))

    @property
    def awaits_comparison(self) -> bool:
        """Whether all chains of the batch wait to be compared with the other chains."""
        is_compared = np.asarray(self.chains.is_compared)
        chains = self.chains._replace(is_compared=is_compared)
        return bool(np.all(awaits_comparison(self.schedule, self.iteration, chains)))

    @property
    def is_due(self) -> np.ndarray:
        """Flags of the chains that wait for a new mass matrix."""
        state = self.chains.progress.adaptation
        window = state._replace(window=np.asarray(state.window)) if self.has_windows else state
        return is_due(self.schedule, self.iteration, window)

    def renew(self, values: Callable[[Any], Any], blocks: Blocks | None) -> None:
        """Renews the mass matrix of each waiting chain, in blocks, from the chain's own draws."""
        which = self.is_due
        if which.any():
            self.take(values)
            windows = [self.window(i)[0] if x else None for i, x in enumerate(which)]
            adaptation = self.chains.progress.adaptation
            self.learn(renew_matrices(adaptation, windows, blocks), which)

    def go_on_from(self, progress: Any, which: np.ndarray) -> None:
        """Moves the chains in `which` to the states in `progress`; they begin a new transition."""
        kept = jax.device_get(self.chains)
        moved = kept._replace(progress=progress, has_begun=np.zeros(len(which), bool))

        def pick(new, old):
            return np.where(which.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)

        self.chains = jax.tree.map(pick, moved, kept)
        self.iteration = np.asarray(self.chains.progress.iteration)

    def window(self, chain: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws and gradients of a chain's window, ``(draw, 2, size)``, and log densities."""
        return self.split(np.concatenate(self.windows[chain]))

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws and gradients in rows, ``(..., 2, size)``, and log densities, ``(...,)``."""
        size = self._size
        log_density = size + list(self.kinds).index("log_density")
        return np.stack([rows[..., :size], rows[..., -size:]], -2), rows[..., log_density]

    def learn(self, adaptation: Any, which: np.ndarray) -> None:
        """Adopts a state of warm-up, and empties the windows of the chains in `which`."""
        self._adapt(adaptation)
        self._note_matrices(which, np.searchsorted(self.log.window_ends, self.iteration))
        pieces = zip(which, self.windows, strict=True)
        self.windows = [[] if has_learned else old for has_learned, old in pieces]

    def _adapt(self, adaptation: Any) -> None:
        progress = self.chains.progress._replace(adaptation=adaptation)
        self.chains = self.chains._replace(progress=progress)

    def parts(self, rows: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Positions and statistics in rows."""
        on_host = np.asarray(rows)
        return on_host[..., : self._size], self.stats(on_host)

    def leaving(self, rows: Any) -> Any:
        """The rows, all of which are copied to the host."""
        return rows

    def stats(self, left: np.ndarray) -> dict[str, np.ndarray]:
        """Statistics by name in rows on the host."""
        return {name: left[..., self._size + i] for i, name in enumerate(self.kinds)}

    def learn_from(self, rows: Any, num_rows: np.ndarray) -> None:
        """Keeps the rows that belong to a window of warm-up, and logs all rows of warm-up."""
        if self.log.is_kept and np.any(self.first <= self.num_warmup):
            self._log(self.stats(np.asarray(rows)), num_rows)
        if self.has_windows:
            span = self.schedule.slow_start, self.schedule.slow_stop
            start, stop = (np.clip(x - self.first, 0, num_rows) for x in span)
            for chain, pieces in enumerate(self.windows):
                pieces.append(np.asarray(rows)[chain, start[chain] : stop[chain]].copy())

    def _log(self, stats: Mapping[str, np.ndarray], num_rows: np.ndarray) -> None:
        progress = self.chains.progress
        is_new = (self.first == 0) & (num_rows > 0)
        num_tries = np.where(is_new, np.asarray(progress.search.num_tries), 0)
        self.log.count(self.first, num_rows, stats, num_tries)
        if is_new.any() and (self.has_windows or self.stops):
            self._note_matrices(is_new, np.zeros(len(is_new), int))

    @property
    def next_stop(self) -> int | None:
        """Iteration at which the next call ends, as a window of a diagonal does; `None` if none."""
        done = int(np.min(self.iteration))
        return next((stop for stop in self.stops if stop > done), None)

    def note_diagonals(self, values: Callable[[Any], Any]) -> None:
        """Logs the diagonals of chains that have all come to the end of a window."""
        done = int(np.min(self.iteration))
        if done in self.stops and np.all(self.iteration == done) and np.any(self.first < done):
            self.take(values)
            which = np.ones(len(self.first), bool)
            self._note_matrices(which, np.searchsorted(self.log.window_ends, self.iteration))

    def note_last_matrices(self) -> None:
        """Logs the mass matrices after warm-up, once."""
        which = np.asarray(np.isnan(self.log.condition[:, -1:]).any(1))
        if which.any():
            self._note_matrices(which, np.full(len(which), len(self.log.window_ends) - 1))

    def _note_matrices(self, which: np.ndarray, windows: np.ndarray) -> None:
        """Logs the mass matrices of the chains in `which`, at the ends of given windows."""
        if self.log.is_kept:
            matrices = jax.device_get(self.chains.progress.adaptation.inverse_mass_matrix)
            self.log.note_matrices(windows, matrices, which)

    def send(self, values: Callable[[Any], Any]) -> None:
        """Sends draws as :meth:`Batch.send` does; the next draws begin in the first row."""
        super().send(values)
        self.first = np.maximum(self.first, self.sent).astype(np.int32)

    def restore(self, windows: np.ndarray, lengths: np.ndarray) -> None:
        """Goes on from a recorded state, before which all rows had been read.

        Args:
            windows: Rows of the windows of all chains, one chain after the other.
            lengths: Number of rows of each chain.
        """
        self.first = np.maximum(self.first, self.iteration).astype(np.int32)
        if self.has_windows:
            pieces = np.split(windows, np.cumsum(lengths)[:-1])
            self.windows = [[x] if len(x) else [] for x in pieces]


def renew_together(
    batches: Sequence[ChainBatch],
    pool: np.ndarray,
    agrees: np.ndarray,
    blocks: Blocks | None = None,
) -> None:
    """Renews the mass matrices of all chains at the end of a pooled window.

    | Chain                              | Mass matrix                                           |
    |------------------------------------|-------------------------------------------------------|
    | agrees with the others             | learned from the pool, the draws of all that agree    |
    | astray, window of 15 draws or more | learned from the chain's own draws                    |
    | astray, shorter window             | kept; learned from its own draws if no chain agrees   |

    If a stray chain has only a few draws in a window, they only show its way to the typical set, so
    its mass matrix is kept. The matrix of the pool would not suit the chain: many of the pool's
    standard deviations away, a chain may get stuck.

    Args:
        batches: All batches of this process, each of the same number of chains.
        pool: Draws and gradients of the chains that agree, ``(draw, 2, size)``.
        agrees: Flags of the chains that agree, in the order of `batches`.
        blocks: Blocks of a dense matrix, outside of which it is diagonal; `None` for one block.
    """
    states = [batch.chains.progress.adaptation for batch in batches]
    size = len(batches[0].first)

    def alone(i):
        return batches[i // size].window(i % size)[0]

    is_short = len(alone(0)) < FIRST_WINDOW and len(pool) > 0

    def own(i):
        return None if is_short else alone(i)

    state = jax.tree.map(lambda *x: np.concatenate(x), *states)
    new = renew_matrices(state, [pool if x else own(i) for i, x in enumerate(agrees)], blocks)
    new = new._replace(window=state.window + 1)
    for i, batch in enumerate(batches):
        part = jax.tree.map(lambda x, i=i: x[i * size : (i + 1) * size], new)
        batch.learn(part, np.ones(size, bool))


def state_of_windows(batches: Sequence[ChainBatch], no_rows: np.ndarray) -> State:
    """Entries of a recorded state with the windows of all chains.

    Args:
        batches: All batches, with all draws read.
        no_rows: Array with the shape of a chain's rows but no row.
    """
    pieces = [own for batch in batches for own in batch.windows]
    return {
        "windows": np.concatenate([no_rows, *(x for own in pieces for x in own)]),
        "window_lengths": np.array([sum(map(len, own)) for own in pieces]),
    }


def restore_windows(batches: Sequence[ChainBatch], state: State) -> None:
    """Gives each batch its rows of the windows in a recorded state."""
    windows = state["windows"]
    lengths = state["window_lengths"]
    ends = np.cumsum(lengths)
    for batch in batches:
        here = slice(batch.place, batch.place + len(batch.first))
        rows = windows[ends[here][0] - lengths[here][0] : ends[here][-1]]
        batch.restore(rows, lengths[here])
