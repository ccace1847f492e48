"""Files of draws: one NumPy ``.npy`` file for each array, ``(chain, draw, *shape)``.

A file has its full size from the start, with holes where no draws are yet. Draws are written with
`pwrite`, not through a memory map: a full disk is an error then, where a map would end the process.
A map of draws that were written is safe to read.
"""

import io
import math
import os
import pathlib
import zlib
from typing import Any

import numpy as np

_PIECE = 1 << 22  # bytes read at once


class DrawFile:
    """File of the draws of one array.

    Attributes:
        path: The file.
        shape: Chains, draws, and the shape of a draw.
        dtype: The dtype.
        num_drawn: Number of draws of each chain in the file.
        checksums: CRC-32 of these draws, by chain.
    """

    def __init__(self, path: pathlib.Path, shape: tuple[int, ...], dtype: Any) -> None:
        """A file that `create` makes, or `check` looks at."""
        self.path, self.shape, self.dtype = path, shape, np.dtype(dtype)
        self.num_drawn = np.zeros(shape[0], np.int64)
        self.checksums = np.zeros(shape[0], np.uint32)
        self._size = math.prod(shape[2:]) * self.dtype.itemsize  # bytes of a draw
        self._file: int | None = None

    @property
    def header(self) -> bytes:
        """The header of the file."""
        return _header(self.shape, self.dtype)

    @property
    def num_bytes(self) -> int:
        """Size of the whole file."""
        return len(self.header) + self.shape[0] * self.shape[1] * self._size

    def create(self) -> None:
        """Makes the file, without draws.

        Raises:
            OSError: if it cannot be written.
        """
        self._file = _make(self.path, self.header, self.num_bytes)

    def check(self, num_drawn: np.ndarray, checksums: np.ndarray) -> str | None:
        """Opens the file, checks that it holds certain draws, and returns what is wrong, in words.

        A file for fewer draws than `shape` has is copied into a larger one.
        """
        try:
            with open(self.path, "rb") as file:
                held = file.read(len(self.header))
                old = self._read_header(held)
                if old is None:
                    return f"its header is not that of {self.dtype}{list(self.shape)}"
                size = len(held) + old * self.shape[0] * self._size
                if os.fstat(file.fileno()).st_size != size:
                    return f"it has {os.fstat(file.fileno()).st_size} bytes, expected {size}"
                if np.any(num_drawn > old):
                    return f"it has room for {old} draws, and {num_drawn.max()} were recorded"
                for chain in range(self.shape[0]):
                    file.seek(len(held) + chain * old * self._size)
                    if _checksum(file, int(num_drawn[chain]) * self._size) != checksums[chain]:
                        return f"the checksum of chain {chain} differs"
        except FileNotFoundError:
            return "it is missing"
        self.num_drawn, self.checksums = num_drawn.astype(np.int64), checksums.copy()
        if old < self.shape[1]:
            self._grow(old)
        else:
            self._file = os.open(self.path, os.O_RDWR)
        return None

    def _read_header(self, held: bytes) -> int | None:
        """Number of draws in a header; `None` for a header that does not fit this array."""
        try:
            stream = io.BytesIO(held)
            np.lib.format.read_magic(stream)
            shape, is_fortran, _ = np.lib.format.read_array_header_1_0(stream)
        except (ValueError, SyntaxError, TypeError):
            return None
        num_draws = shape[1] if len(shape) > 1 else -1
        expected = (self.shape[0], num_draws, *self.shape[2:])
        is_ours = held == _header(expected, self.dtype) and num_draws <= self.shape[1]
        return num_draws if is_ours and not is_fortran else None

    def _grow(self, old: int) -> None:
        """Copies the draws into a larger file, which then takes the place of the old one."""
        partial = self.path.with_suffix(".partial")
        new = _make(partial, self.header, self.num_bytes)
        start = len(self.header)
        with open(self.path, "rb") as file:
            for chain, number in enumerate(self.num_drawn.tolist()):
                file.seek(start + chain * old * self._size)
                place = start + chain * self.shape[1] * self._size
                left = number * self._size
                while left:
                    piece = file.read(min(left, _PIECE))
                    _write(new, piece, place)
                    place = place + len(piece)
                    left = left - len(piece)
        os.fsync(new)
        os.replace(partial, self.path)
        self._file = new

    def place(self, chain: int) -> int:
        """Place of the next draw of a chain, for `write`."""
        number = chain * self.shape[1] + int(self.num_drawn[chain])
        return len(self.header) + number * self._size

    def count(self, chain: int, number: int, content: bytes) -> None:
        """Counts the next draws of a chain, whose bytes have been written."""
        self.checksums[chain] = zlib.crc32(content, int(self.checksums[chain]))
        self.num_drawn[chain] += number

    def write(self, content: bytes, place: int) -> None:
        """Writes bytes at a place of the file.

        Raises:
            OSError: if the disk is full.
        """
        assert self._file is not None
        _write(self._file, content, place)

    def sync(self) -> None:
        """Waits until the disk has all that was written."""
        if self._file is not None:
            os.fsync(self._file)

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self, num_drawn: int) -> np.ndarray:
        """The first draws of each chain, mapped into memory; changes stay in memory."""
        draws = np.memmap(
            self.path, self.dtype, mode="c", offset=len(self.header), shape=self.shape
        )
        return draws[:, :num_drawn]

    def copy(self, num_drawn: int) -> np.ndarray:
        """The first draws of each chain, read into memory; holes of the file are zeros.

        On a full disk that is a part of memory, a hole cannot be read through a map: the system
        ends the process (SIGBUS).
        """
        draws = np.empty((self.shape[0], num_drawn, *self.shape[2:]), self.dtype)
        for chain, into in enumerate(draws):
            place = len(self.header) + chain * self.shape[1] * self._size
            into.view(np.uint8).ravel()[:] = np.fromfile(
                self.path, np.uint8, num_drawn * self._size, offset=place
            )
        return draws


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    descr = np.lib.format.dtype_to_descr(dtype)
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    length = (len(text) + 64) // 192 * 192 + 246  # as long for more draws
    return np.lib.format.magic(1, 0) + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def _make(path: pathlib.Path, header: bytes, num_bytes: int) -> int:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    _write(file, header, 0)
    os.ftruncate(file, num_bytes)
    return file


def _write(file: int, content: bytes, place: int) -> None:
    view = memoryview(content)
    while view:
        number = os.pwrite(file, view, place)
        view = view[number:]
        place = place + number


def _checksum(file: Any, left: int) -> int:
    checksum = 0
    while left and (piece := file.read(min(left, _PIECE))):
        checksum = zlib.crc32(piece, checksum)
        left = left - len(piece)
    return checksum
