"""Recorder of a run that keeps draws and states in a folder."""

import hashlib
import shutil
import urllib.parse
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from inference.chains.recorder import Recorder
from inference.checkpoints.draw_files import DrawFile
from inference.checkpoints.run_folder import RunFolder
from inference.checkpoints.state_writer import StateWriter
from inference.common.leaf_names import named_leaves
from inference.common.state_leaves import NUM_MEETINGS, State
from inference.runtime.devices import gather_from_processes

_MAX_LETTERS = 100  # of an escaped name: disks take names of 255 bytes, some of 143


class DiskRecorder(Recorder):
    """Recorder that writes draws as they are read, and a state now and then.

    A state is written after the draws up to it, so that a run that is killed goes on from there.
    Draws after the state are made again, with the same bits.

    Of several processes each has a folder of its own. Their chains meet in warm-up, at most of the
    times to learn a matrix together, and have to go on from states between the same two meetings. A
    process records a state after each meeting, and keeps the last one before the meeting: another
    process may have been killed before it has recorded the new one. It cannot be two meetings
    behind, as chains wait for each other.
    """

    takes_parts = True

    def __init__(
        self,
        folder: RunFolder,
        keep: tuple[str, ...] | None,
        room: int = 0,
        *,
        has_until: bool = False,
    ) -> None:
        """A recorder for a locked folder, whose state it reads.

        Args:
            folder: The folder.
            keep: Names of the sites whose draws are kept; `None` for all.
            room: Number of draws of each chain for which there is to be room.
            has_until: Whether a rule ends the run, so that it may need far fewer.

        Raises:
            ValueError: if the state is damaged.
        """
        super().__init__(keep, folder.read_state())
        self.folder = folder
        self.room = room
        self.has_until = has_until
        self.files: list[DrawFile] = []
        self._num_meetings = num_meetings_of(self.state)  # of the state on disk
        self._structure: Any = None
        self._writer = StateWriter(folder)
        self._unwritten: list[tuple[DrawFile, bytes, int]] = []

    def agree(self, earlier: State | None) -> None:
        """Takes the last state that all processes have between the same two meetings.

        Args:
            earlier: State of this process before the last meeting, or `None`.

        Raises:
            ValueError: if there is none, and draws would be lost.
        """
        num_drawn = 0 if self.state is None else int(np.max(self.state.get("num_drawn", 0)))
        known = [num_meetings_of(self.state), num_meetings_of(earlier), num_drawn]
        newest, before, drawn = np.transpose(gather_from_processes(np.array(known, np.int32)))
        agreed = np.min(newest)
        lacking = np.flatnonzero((newest != agreed) & (before != agreed))
        if agreed < 0 and drawn.max() == 0:
            self.state = None
            return
        if agreed < 0:
            lacking = np.flatnonzero(newest < 0)
        if len(lacking):
            which = ", ".join(f"process-{i}" for i in lacking)
            raise ValueError(
                f"checkpoint={self.folder.name}: the states of the processes do not fit together; "
                f"{which} of {len(newest)} has none from which the others could go on. Restore "
                "the folders from a copy of one time, or begin the run anew in another folder"
            )
        if newest[jax.process_index()] != agreed:
            self.state = earlier

    @property
    def is_due(self) -> bool:
        """Whether a state should be recorded now."""
        return self._writer.is_due

    def open(self, shapes: Any, num_chains: int, num_draws: int) -> None:
        """Makes the files of draws, or checks that they hold the draws of the state.

        Raises:
            OSError: if a file cannot be written.
            ValueError: if a file is damaged.
        """
        self._structure = jax.tree.structure(shapes)
        for name, x in named_leaves(shapes):
            kind, _, rest = name.partition(".")
            file = f"{'stats' if kind == '1' else 'draws'}.{_quote(rest)}.npy"
            shape = (num_chains, max(num_draws, self.room), *x.shape)
            self.files.append(DrawFile(self.folder.path / file, shape, x.dtype))
        if not self.has_until:
            self._warn_of_little_room()
        if self.state is None:
            for file in self.files:
                self._prepare(file, file.create)
            return
        recorded = [self.state.get(name) for name in ("num_drawn", "checksums")]
        if any(x is None or len(x) != len(self.files) for x in recorded):
            raise self.folder.damage("state.npz", "it does not fit the files of draws")
        for i, file in enumerate(self.files):
            num_drawn, checksums = (x[i] for x in recorded if x is not None)
            wrong = self._prepare(file, partial(file.check, num_drawn, checksums))
            if wrong is not None:
                raise self.folder.damage(file.path.name, wrong)

    def _prepare(self, file: DrawFile, make: Callable[[], str | None]) -> str | None:
        """Makes or opens a file of draws.

        Raises:
            OSError: if it cannot be written.
        """
        try:
            return make()
        except OSError as error:
            raise self.folder.refusal(error, file.path.name, file.num_bytes) from error

    def _warn_of_little_room(self) -> None:
        held = [x.path.stat().st_size if x.path.exists() else 0 for x in self.files]
        needed = sum(x.num_bytes for x in self.files) - sum(held)
        free = shutil.disk_usage(self.folder.path).free
        if needed > free:
            warnings.warn(
                f"checkpoint={self.folder.name}: all draws need {needed / 1e9:.3g} GB more, and "
                f"{free / 1e9:.3g} GB are free; keep fewer sites with keep=, or make room",
                RuntimeWarning,
                stacklevel=2,
            )

    def reserve(self, num_draws: int) -> None:
        """Does nothing: the files have room for all draws."""

    def put(self, chain: int, values: Any, spans: np.ndarray) -> None:
        """Writes draws of the chains of a batch; see :meth:`Recorder.put`.

        Draws are counted once they are written. Draws that a file already has are left out, as
        after an interrupt the same draws are put again.
        """
        for file, new in zip(self.files, jax.tree.leaves(values), strict=True):
            for i, (start, stop, first, last) in enumerate(spans.tolist()):
                num_there = int(file.num_drawn[chain + i])
                if stop <= max(start, num_there):
                    continue
                if start > num_there:
                    raise AssertionError(f"draws from {start} on, and {num_there} are there")
                draws = new[i, first + num_there - start : last]
                content = np.ascontiguousarray(draws, file.dtype).tobytes()
                self._write(file, content, file.place(chain + i))
                file.count(chain + i, len(draws), content)

    def _write(self, file: DrawFile, content: bytes, place: int) -> None:
        """Writes bytes, or keeps them in memory until the disk has room."""
        try:
            file.write(content, place)
        except OSError:
            self._unwritten.append((file, content, place))

    def record(self, state: Callable[[], State]) -> None:
        """Writes the state; if the disk is full, a later call does."""

        def make() -> State:
            self.state = now = state() | self.constants
            while self._unwritten:
                self._unwritten[-1][0].write(*self._unwritten[-1][1:])
                self._unwritten.pop()
            for file in self.files:
                file.sync()
            if num_meetings_of(now) > self._num_meetings:
                self.folder.keep_earlier_state()
            self._num_meetings = num_meetings_of(now)
            return now | {
                "num_drawn": np.array([x.num_drawn for x in self.files]),
                "checksums": np.array([x.checksums for x in self.files]),
            }

        self._writer.write(make)

    def read(self, num_drawn: int) -> Any:
        """The first `num_drawn` draws of each chain: maps of the files, if they hold all."""
        if not self._unwritten:
            arrays = [file.read(num_drawn) for file in self.files]
        else:
            arrays = [file.copy(num_drawn) for file in self.files]
            for file, content, place in self._unwritten:
                x = arrays[self.files.index(file)]
                new = np.frombuffer(content, x.dtype).reshape(-1, *x.shape[2:])
                size = new[0].nbytes
                chain, draw = divmod((place - len(file.header)) // size, file.shape[1])
                x[chain, draw : draw + len(new)] = new[: max(0, num_drawn - draw)]
        return jax.tree.unflatten(self._structure, arrays)

    def read_further(self, num_drawn: int) -> None:
        """None: a run goes on from its folder."""

    def close(self) -> None:
        """Closes the files, and gives the folder free."""
        for file in self.files:
            file.close()
        self._writer.close()


def num_meetings_of(state: State | None) -> int:
    """Number of meetings of chains of several processes before a state; -1 if there is no state."""
    return -1 if state is None else int(state.get(NUM_MEETINGS, 0))


def _quote(name: str) -> str:
    """Name for a file, different for `a` and `A` also where a disk ignores the case of letters.

    A long name for a file is cut, and ends with a hash of `name`.
    """
    escaped = "".join(
        f"%{ord(x):X}" if "A" <= x <= "Z" else urllib.parse.quote(x, safe="") for x in name
    )
    if len(escaped) <= _MAX_LETTERS:
        return escaped
    return f"{escaped[:_MAX_LETTERS]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
