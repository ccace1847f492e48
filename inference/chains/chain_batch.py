"""Batches of chains that one call moves together: their states, draws and warm-up windows."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from inference.chains.chain import Chain, ChainPlan, awaits_comparison
from inference.chains.recorder import Recorder
from inference.chains.row_buffers import RowBuffers
from inference.chains.run_control import Monitor
from inference.common.state_leaves import State, leaves_of_state
from inference.warmup.adaptation import FIRST_WINDOW, is_due, set_first_diagonal
from inference.warmup.fisher_mass_matrix import renew_matrices


class ChainBatch:
    """Batch of chains that one call moves, stacked.

    A row holds a position and statistics, and a gradient if the mass matrix is learnt in windows.

    Attributes:
        chains: The chains; a call that moves them takes their memory, so they are not valid
            meanwhile.
        iteration: Number of complete transitions of each chain.
        buffers: Memory for draws.
        first: Iteration of the first row, of each chain.
        recorder: Keeper of draws and statistics read from the rows.
        place: Number of the first chain, among those of this process.
        windows: Pieces of rows for the next mass matrix, for each chain.
        seen: Iteration up to which `look` has counted, of each chain.
        num_divergent: Number of transitions that it has seen diverge after warm-up.
        is_watched: Whether somebody wants to know these two, which then are brought up to date
            before rows are read, and by calls of `look`.
        looked: Time of the last look, in seconds.
        step_size: Step size of the last row that it has seen of each chain; NaN before.
        monitor: Monitor that is told new draws by `look`.
    """

    def __init__(
        self,
        chains: Chain,
        plan: ChainPlan,
        kinds: Mapping[str, Any],
        recorder: Recorder,
        place: int = 0,
    ) -> None:
        self.chains, self.iteration = chains, np.asarray(chains.progress.iteration)
        self.buffers = RowBuffers()
        self.plan, self.kinds = plan, kinds
        self.has_windows = chains.progress.adaptation.has_windows
        schedule, num_chains = plan.schedule, len(self.iteration)
        first = schedule.slow_start if self.has_windows else schedule.num_warmup
        self.first = np.full(num_chains, first, np.int32)
        self.recorder, self.place = recorder, place
        self.seen, self.num_divergent = self.iteration.copy(), 0
        self.step_size = np.full(num_chains, np.nan)
        self.is_watched, self.looked = False, time.monotonic()
        self.monitor = Monitor()
        self.windows: list[list[np.ndarray]] = [[] for _ in range(num_chains)]

    @property
    def is_complete(self) -> bool:
        """Whether all chains have made all their transitions."""
        return bool(np.all(self.iteration >= self.plan.num_iterations))

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
        """Whether all chains have come to their comparison with the others."""
        is_compared = np.asarray(self.chains.is_compared)
        chains = self.chains._replace(is_compared=is_compared)
        return bool(np.all(awaits_comparison(self.plan.schedule, self.iteration, chains)))

    @property
    def is_due(self) -> np.ndarray:
        """Flags of the chains that wait for a new mass matrix."""
        state = self.chains.progress.adaptation
        window = state._replace(window=np.asarray(state.window)) if self.has_windows else state
        return is_due(self.plan.schedule, self.iteration, window)

    def renew(self, values: Callable[[Any], Any]) -> None:
        """Renews the mass matrix of each waiting chain from the chain's own draws."""
        which = self.is_due
        if which.any():
            self.take(values)
            windows = [self.window(i)[0] if x else None for i, x in enumerate(which)]
            self.learn(renew_matrices(self.chains.progress.adaptation, windows), which)

    def go_on_from(self, progress: Any, which: np.ndarray) -> None:
        """Moves the chains in `which` to where `progress` is; their next transition is new."""
        kept = jax.device_get(self.chains)
        moved = kept._replace(progress=progress, has_begun=np.zeros(len(which), bool))
        pick = lambda new, old: np.where(which.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)  # noqa: E731
        self.chains = jax.tree.map(pick, moved, kept)
        self.iteration = np.asarray(self.chains.progress.iteration)

    def window(self, chain: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws and gradients of a chain's window, ``(draw, 2, size)``, and log densities."""
        return self.split(np.concatenate(self.windows[chain]))

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Draws and gradients in rows, ``(..., 2, size)``, and log densities, ``(...,)``."""
        size = self.chains.trajectory.position.shape[-1]
        log_density = size + list(self.kinds).index("log_density")
        return np.stack([rows[..., :size], rows[..., -size:]], -2), rows[..., log_density]

    def learn(self, adaptation: Any, which: np.ndarray) -> None:
        """Adopts a state of warm-up, and empties the windows of the chains in `which`."""
        self._adapt(adaptation)
        pieces = zip(which, self.windows, strict=True)
        self.windows = [[] if has_learnt else old for has_learnt, old in pieces]

    def _adapt(self, adaptation: Any) -> None:
        progress = self.chains.progress._replace(adaptation=adaptation)
        self.chains = self.chains._replace(progress=progress)

    def look(self) -> None:
        """Counts divergences, and reads the step size, in the rows that are new."""
        self.looked = time.monotonic()
        wanted = [name for name in ("is_divergent", "step_size") if name in self.kinds]
        filling = self.buffers.filling
        if filling is None or len(wanted) < 2 or not filling.is_fully_addressable:
            return
        size, kinds = self.chains.trajectory.position.shape[-1], list(self.kinds)
        is_divergent, step_size = (size + kinds.index(name) for name in wanted)
        rows, num_warmup = np.asarray(filling), self.plan.schedule.num_warmup
        stops = np.minimum(self.iteration - self.first, rows.shape[1] - 1)
        begins = np.clip(self.seen - self.first, 0, stops)
        draws = np.clip(num_warmup - self.first, begins, stops)
        spans = zip(rows, begins, draws, stops, strict=True)
        for i, (chain, begin, draw, stop) in enumerate(spans):
            if begin < stop:
                self.step_size[i] = chain[stop - 1, step_size]
            if draw < stop:
                self.num_divergent += int(chain[draw:stop, is_divergent].sum())
                if self.monitor.look_seconds is not None:
                    self.monitor.add(self.place + i, chain[draw:stop, :size])
        self.seen = np.maximum(self.seen, self.iteration)

    def send(self, values: Callable[[Any], Any]) -> None:
        """Reads windows in the rows and sends draws off; `values` computes values of sites."""
        stops, filling = np.minimum(self.iteration, self.plan.num_iterations), self.buffers.filling
        if filling is None or np.all(stops <= self.first):
            return
        if self.is_watched:
            self.look()
        schedule, size = self.plan.schedule, self.chains.trajectory.position.shape[-1]
        num_rows = np.maximum(stops - self.first, 0)
        if self.has_windows:
            learnt = np.clip(schedule.slow_stop - self.first, 0, num_rows)
            for chain, stop in enumerate(learnt):
                self.windows[chain].append(np.asarray(filling)[chain, :stop].copy())
        begin = np.clip(schedule.num_warmup - self.first, 0, num_rows)
        if np.any(begin < num_rows):
            start = self.first + begin - schedule.num_warmup
            spans = np.stack([start, start + num_rows - begin, begin, num_rows], -1)

            def keep(piece: tuple[Any, np.ndarray]) -> None:
                sites, rows = piece
                stats = {name: rows[..., size + i] for i, name in enumerate(self.kinds)}
                self.recorder.put(self.place, (sites, stats), spans)

            self.buffers.send((values(filling), filling), keep)
        self.first = np.maximum(self.first, stops).astype(np.int32)

    def take(self, values: Callable[[Any], Any]) -> None:
        """Sends draws off, see :meth:`send`, and waits until the recorder has all."""
        self.send(values)
        self.buffers.receive()

    def restore(self, windows: np.ndarray, lengths: np.ndarray) -> None:
        """Goes on where a run has been left whose rows had been read.

        Args:
            windows: Rows of the windows of all chains, one chain after the other.
            lengths: Number of rows of each chain.
        """
        self.first = np.maximum(self.first, self.iteration).astype(np.int32)
        if self.has_windows:
            pieces = np.split(windows, np.cumsum(lengths)[:-1])
            self.windows = [[x] if len(x) else [] for x in pieces]


def renew_together(batches: Sequence[ChainBatch], pool: np.ndarray, agrees: np.ndarray) -> None:
    """Renews the mass matrices of all chains at the end of a pooled window.

    | Chain                              | Mass matrix                                           |
    |------------------------------------|-------------------------------------------------------|
    | agrees with the others             | learnt from the pool, the draws of all that agree     |
    | astray, window of 15 draws or more | learnt from the chain's own draws                     |
    | astray, shorter window             | kept; learnt from its own draws if no chain agrees    |

    The few draws of a short window only show a stray chain's way to the typical set. The matrix of
    the pool does not fit either: many of its standard deviations away, a chain may get stuck.

    Args:
        batches: All batches of this process, each of the same number of chains.
        pool: Draws and gradients of the chains that agree, ``(draw, 2, size)``.
        agrees: Flags of the chains that agree, in the order of `batches`.
    """
    states, size = [batch.chains.progress.adaptation for batch in batches], len(batches[0].first)
    alone = lambda i: batches[i // size].window(i % size)[0]  # noqa: E731
    is_short = len(alone(0)) < FIRST_WINDOW and len(pool) > 0
    own = lambda i: None if is_short else alone(i)  # noqa: E731
    state = jax.tree.map(lambda *x: np.concatenate(x), *states)
    new = renew_matrices(state, [pool if x else own(i) for i, x in enumerate(agrees)])
    new = new._replace(window=state.window + 1)
    for i, batch in enumerate(batches):
        part = jax.tree.map(lambda x, i=i: x[i * size : (i + 1) * size], new)
        batch.learn(part, np.ones(size, bool))


def state_of(
    batches: Sequence[ChainBatch], values: Callable[[Any], Any], no_rows: np.ndarray
) -> State:
    """State of a run between two calls, after all draws up to there have been read.

    Args:
        batches: All batches.
        values: Function that computes values of sites from rows.
        no_rows: Rows of a chain, none of them.
    """
    for batch in batches:
        batch.take(values)
    of_batches = [jax.device_get(batch.chains) for batch in batches]
    pieces = [own for batch in batches for own in batch.windows]
    return {
        **leaves_of_state("chain", jax.tree.map(lambda *x: np.concatenate(x), *of_batches)),
        "chains_per_call": np.array(len(batches[0].first)),
        "windows": np.concatenate([no_rows, *(x for own in pieces for x in own)]),
        "window_lengths": np.array([sum(map(len, own)) for own in pieces]),
    }


def restore_windows(batches: Sequence[ChainBatch], state: State) -> None:
    """Gives batches, whose chains are those of a state, their pieces of windows."""
    windows, lengths = state["windows"], state["window_lengths"]
    ends = np.cumsum(lengths)
    for batch in batches:
        here = slice(batch.place, batch.place + len(batch.first))
        rows = windows[ends[here][0] - lengths[here][0] : ends[here][-1]]
        batch.restore(rows, lengths[here])
