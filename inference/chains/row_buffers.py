"""Buffers of rows on the device: a program fills one while draws of another go to the host."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


class RowBuffers:
    """Memory of a batch of chains for its rows, two buffers if draws leave while others are made.

    A program takes over the memory of the rows that it fills (donation). Rows whose draws are still
    to be read therefore wait aside, and the program fills others. JAX starts a program and returns
    before it has ended, so the order is: `send` full rows, start the program with rows of `fill`,
    `receive` meanwhile, wait for the program. Rows that were received last are filled first:
    they may have been sent before they were full.

    Attributes:
        filling: Rows with draws that have not been sent; `None` if there are none.
    """

    def __init__(self) -> None:
        self.filling: Any = None
        self._free: list[Any] = []
        self._sent: tuple[Any, Callable[[Any], None], Any] | None = None

    @property
    def is_sending(self) -> bool:
        """Whether draws have been sent and not received."""
        return self._sent is not None

    def fill(self, empty: Any) -> Any:
        """Rows for a program to fill: rows with draws, else free rows, else a copy of `empty`."""
        if self.filling is None:
            self.filling = self._free.pop() if self._free else jax.tree.map(np.copy, empty)
        return self.filling

    def send(self, piece: Any, keep: Callable[[Any], None]) -> None:
        """Starts the copy of a piece of draws to the host, and sets the rows aside.

        Args:
            piece: Arrays on the device, made of the rows, or rows themselves.
            keep: Function that takes the piece on the host.
        """
        self.receive()
        for x in jax.tree.leaves(piece):
            x.copy_to_host_async()
        self._sent = (piece, keep, self.filling)
        self.filling = None

    def receive(self) -> None:
        """Waits for the piece that was sent, if any, and hands it over; its rows are free then."""
        if self._sent is not None:
            piece, keep, rows = self._sent
            keep(jax.device_get(piece))
            self._sent = None
            self._free.append(rows)
