"""Recorder of independent jobs, such as fits to many data sets, that keeps results in a folder."""

import re
import time
from typing import Any

from inference.checkpoints.run_folder import RunFolder
from inference.checkpoints.state_writer import StateWriter
from inference.common.serialization import pack, unpack
from inference.runtime.interrupts import without_interrupts

_MAX_SHARE = 0.005  # of the time that recording may take
_FREE_SECONDS = 0.5  # of recording, in any case


class JobFolder:
    """Recorder of finished jobs in a locked folder, by their numbers.

    A file ``jobs.*.npz`` has the jobs that came since the file before it: mostly one, several where
    jobs come faster than a disk can keep up.
    """

    def __init__(self, folder: RunFolder) -> None:
        """Reads all finished jobs.

        Raises:
            ValueError: if a file is damaged, or of another run.
        """
        self.folder = folder
        self._writer = StateWriter(folder)
        self._results: dict[int, Any] = {}
        self._unwritten: dict[int, Any] = {}
        self._began = time.monotonic()
        self._spent = 0.0
        paths = (re.fullmatch(r"jobs\.(\d+)\.npz", x.name) for x in folder.path.iterdir())
        numbers = sorted(int(found[1]) for found in paths if found)
        self._next = max(numbers, default=-1) + 1
        for number in numbers:
            held = folder.read_state(_name(number))
            assert held is not None
            self._results |= {int(name): value for name, value in unpack(held).items()}

    def __contains__(self, number: int) -> bool:
        """Whether a call before this one has finished a job whose result is not taken yet."""
        return number in self._results

    def take(self, number: int) -> Any:
        """Result of a job that a call before this one has finished; it is given once."""
        return self._results.pop(number)

    def record(self, number: int, result: Any) -> None:
        """Writes the result of a job; if jobs come fast, some seconds later with others.

        Args:
            number: Number of the job.
            result: Its result: arrays, numbers and strings in dicts, lists and tuples.
        """
        self._unwritten[number] = result
        allowed = max(_FREE_SECONDS, _MAX_SHARE * (time.monotonic() - self._began))
        if self._spent <= allowed or self._writer.is_due:
            self._write()

    def write_if_due(self) -> None:
        """Writes results that wait, some seconds after the last write."""
        if self._writer.is_due:
            self._write()

    def close(self) -> None:
        """Writes all that is not written, also after an interrupt, and gives the folder free."""
        try:
            self._write()
        finally:
            self._writer.close()

    def _write(self) -> None:
        if not self._unwritten:
            return
        began = time.monotonic()
        whole = {str(number): result for number, result in self._unwritten.items()}
        with without_interrupts():
            if self._writer.write(lambda: pack(whole), _name(self._next)):
                self._unwritten = {}
                self._next += 1
        self._spent += time.monotonic() - began


def _name(number: int) -> str:
    return f"jobs.{number}.npz"
