"""Base of what is saved to files."""

import os
from typing import Self

from inference.common import serialization


class Saved:
    """Base of dataclasses that can be written to a file and read from it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all to `path`, a NumPy ``.npz`` archive, under exactly that name.

        The file keeps all arrays, and objects made of plain numbers, such as the guides of this
        library. For a guide that is a function, it keeps the name and the parameters alone: give
        the function to :meth:`SVIResult.load`.

        Raises:
            OSError: if the file cannot be written; one that was there is unchanged then.
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
