"""Base of objects that are saved to files."""

import os
from typing import Self

from inference.common import serialization


class Saved:
    """Base of dataclasses that can be written to a file and read from it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the object to `path`, a NumPy ``.npz`` archive, under exactly this name.

        The file keeps all arrays, and objects made of plain numbers, such as the guides of this
        library. For a guide that is a function, it keeps only the name and the parameters: give the
        function to :meth:`SVIResult.load`.

        Raises:
            OSError: if the file cannot be written; a former file is then unchanged.
            ValueError: if `path` is the name of another kind of file, as ``"fit.json"``.
        """
        serialization.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads from a file what :meth:`save` has written; nothing is changed.

        Raises:
            ValueError: if `path` holds something else, is damaged, or was written by a newer
                version of the library.
        """
        return serialization.load(path, cls)
