"""The base of all results with draws, which saves them to files and hands them to ArviZ."""

import os
from typing import Any, Self

import numpy as np

from inference.common import serialization
from inference.common.leaf_names import named_leaves


class Result:
    """The base of dataclasses with the field `draws`: files, and ArviZ's groups."""

    draws: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result to `path`, a NumPy ``.npz`` archive, under exactly that name.

        All arrays are kept, and what is made of plain numbers, as the guides of this library. A
        guide that is a function is not: of it, the file has the name and the parameters.
        """
        serialization.save(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what :meth:`save` has written.

        Its draws, summary and weights are as they were, and one of :func:`inference.svi` can be
        gone on from. A guide that was a function has its name alone.

        Raises:
            ValueError: if `path` holds something else, is damaged, or is of a newer version of the
                library.
        """
        return serialization.load(path, cls)

    def to_arviz(self) -> Any:
        """The draws and statistics as ArviZ holds them.

        Returns:
            An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``, with the
            groups `posterior` and `sample_stats`. Names of nested sites are joined by dots.

        Raises:
            ImportError: if ArviZ is not installed.
            ValueError: if two sites get one name, as ``"a.b"`` and ``"b"`` within ``"a"``.
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
        """What there is of each draw, ``(chain, draw)``, under ArviZ's names."""
        raise NotImplementedError

    def _sites(self) -> str:
        """The sites and shapes of the draws."""
        return ", ".join(f"{name} {np.shape(x)[2:]}" for name, x in named_leaves(self.draws))
