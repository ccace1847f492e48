"""Recorder of a fit, such as of SVI, that keeps its state and its ELBOs in a folder."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from inference.checkpoints.run_folder import RunFolder
from inference.checkpoints.state_writer import StateWriter
from inference.common.state_leaves import leaves_of_state, restore_leaves
from inference.runtime.interrupts import without_interrupts


class FitFolder:
    """Recorder of a fit in a locked folder.

    The file `state.npz` holds both the state and the ELBOs of all steps before it, so that they
    always fit each other.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self._writer = folder, StateWriter(folder)

    def read(self, shapes: Any) -> tuple[Any, np.ndarray, bool] | None:
        """State, ELBOs and whether a callback ended the fit; `None` if there is no state.

        Args:
            shapes: Shapes and dtypes of a state.

        Raises:
            ValueError: if the file is damaged.
        """
        held = self.folder.read_state()
        if held is None:
            return None
        return restore_leaves("fit", held, shapes), held["elbos"], bool(held["is_ended"])

    def record(
        self, state: Any, elbos: Sequence[np.ndarray], *, is_last: bool, is_ended: bool
    ) -> None:
        """Writes a state if it is due, or the last one."""
        if is_last or self._writer.is_due:
            with without_interrupts():
                self._writer.write(
                    lambda: {
                        **leaves_of_state("fit", state),
                        "elbos": np.concatenate(elbos),
                        "is_ended": np.array(is_ended),
                    }
                )

    def close(self) -> None:
        """Gives the folder free."""
        self._writer.close()
