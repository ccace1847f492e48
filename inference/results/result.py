"""Base of results with draws: saved files, and conversion to ArviZ."""

import os
from typing import Any, Self

import numpy as np

from inference.common import serialization
from inference.common.leaf_names import named_leaves


class Result:
    """Base of result dataclasses with a field `draws`: files, and conversion to ArviZ."""

    draws: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result to `path`, a NumPy ``.npz`` archive, under exactly that name.

        The file keeps all arrays, and objects made of plain numbers, such as the guides of this
        library. For a guide that is a function, it keeps the name and the parameters alone.
        """
        serialization.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a result from a file that :meth:`save` has written.

        Draws, weights and summary are unchanged, and :func:`inference.svi` can go on from its
        state. A guide that was a function has only its name, and cannot be called.

        Raises:
            ValueError: if `path` holds something else, is damaged, or was written by a newer
                version of the library.
        """
        return serialization.load(path, cls)

    def to_arviz(self) -> Any:
        """Converts draws and statistics to ArviZ's container.

        Returns:
            An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``, with the
            groups `posterior` and `sample_stats`. Names of nested sites are joined by dots.

        Raises:
            ImportError: if ArviZ is not installed.
            ValueError: if two sites get the same name, as ``"a.b"`` and ``"b"`` within ``"a"``.
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install arviz") from error
        leaves = list(named_leaves(self.draws))
        groups = {"posterior": dict(leaves), "sample_stats": self._statistics()}
        if len(groups["posterior"]) < len(leaves):
            names = [name for name, _ in leaves]
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"ArviZ has one name for each array, and two sites are {twice!r}")
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups)
        return arviz.from_dict(posterior=groups["posterior"], sample_stats=groups["sample_stats"])

    def _statistics(self) -> dict[str, Any]:
        """Statistics of each draw, ``(chain, draw)``, under ArviZ's names."""
        raise NotImplementedError

    def _sites(self) -> str:
        """Names and shapes of the sites of the draws, as text."""
        return ", ".join(f"{name} {np.shape(x)[2:]}" for name, x in named_leaves(self.draws))
