"""Writer of the states of a run, at times."""

import os
import time
import warnings
from collections.abc import Callable

from inference.checkpoints.run_folder import STATE, RunFolder
from inference.common.state_leaves import State

RECORD_SECONDS = 15.0  # seconds between two states
_MAX_SHARE = 0.02  # of the time that recording states may take


class StateWriter:
    """Writer of the states of a run in a locked folder; the first is due at once.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._has_warned = False
        self._is_behind = False
        self._due = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether a state should be written now."""
        return time.monotonic() >= self._due

    def write(self, make: Callable[[], State], name: str = STATE) -> bool:
        """Writes the state that `make` returns; if the disk is full, it warns, and writes later.

        The time of `make` counts as time of recording.

        Returns:
            Whether the state is written.
        """
        began = time.monotonic()
        try:
            self.folder.write_state(make(), name)
            self._is_behind = False
        except OSError as error:
            self._is_behind = True
            self._warn(error)
        now = time.monotonic()
        self._due = now + max(RECORD_SECONDS, (now - began) / _MAX_SHARE)
        return not self._is_behind

    def close(self) -> None:
        """Gives the folder free, with a warning if the last state is not in it."""
        self.folder.close()
        if self._is_behind:
            warnings.warn(
                f"checkpoint={self.folder.name} has not the end of the run, for which there was no "
                "room: it is in the result alone. The same call makes it again from the last state "
                "on disk; make room first",
                RuntimeWarning,
                stacklevel=2,
            )

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"checkpoint={self.folder.name} cannot be written: {os.strerror(error.errno or 0)} "
                "- as long as the run lasts, it keeps in memory what is not written until there is "
                "room. After a kill, it goes on from the last state on disk",
                RuntimeWarning,
                stacklevel=2,
            )
