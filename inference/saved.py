"""Results as files and for ArviZ: what all results have in common."""

import dataclasses
import importlib
import json
import os
import zipfile
from typing import Any, NamedTuple, Self

import jax
import numpy as np

from inference.flat import Layout
from inference.names import named_leaves

_PLAIN = (bool, int, float, str, type(None))
_STRUCTURE = "structure"
_DAMAGES = (AttributeError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile)


class Leaves(NamedTuple):
    """The leaves of a tree whose structure was not kept, in their order."""

    leaves: tuple[Any, ...]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Absent:
    """Stands for a part of a result that a file does not keep, as a function.

    Attributes:
        text: What it was, in words.
        has_density: Of a guide, whether it has a density.
    """

    text: str
    has_density: bool = True

    def __repr__(self) -> str:
        return self.text


class Result:
    """What all results with draws can do; a base of dataclasses with the field `draws`."""

    draws: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result to `path`, a NumPy ``.npz`` archive, under exactly that name.

        All arrays are kept, and what is made of plain numbers, as the guides of this library. A
        guide that is a function is not: of it, the file has the name and the parameters.
        """
        arrays: list[np.ndarray] = []
        fields = {x.name: _encoded(getattr(self, x.name), arrays) for x in _fields(self)}
        structure = json.dumps({"result": type(self).__name__, "fields": fields})
        with open(path, "wb") as file:
            named: dict[str, Any] = {_STRUCTURE: np.array(structure)}
            named |= {str(i): x for i, x in enumerate(arrays)}
            np.savez(file, **named)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads what :meth:`save` has written.

        Its draws, summary and weights are as they were, and one of :func:`inference.svi` can be
        gone on from. A guide that was a function has its name alone.

        Raises:
            ValueError: if `path` holds something else, or is damaged.
        """
        refusal = f"{os.fspath(path)!r} is not a saved {cls.__name__}"
        try:
            with open(path, "rb") as file:
                if not zipfile.is_zipfile(file):
                    raise ValueError("it is no archive of NumPy")
            with np.load(path, allow_pickle=False) as archive:
                structure = json.loads(str(archive[_STRUCTURE]))
                if structure["result"] != cls.__name__:
                    raise ValueError(f"it is a {structure['result']}")
                fields = structure["fields"]
                return cls(**{name: _decoded(x, archive) for name, x in fields.items()})
        except _DAMAGES as error:
            raise ValueError(f"{refusal}: {error}") from error

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


def _encoded(value: Any, arrays: list[np.ndarray]) -> Any:
    """What JSON can hold, with the numbers of arrays in their place."""
    if isinstance(value, _PLAIN):
        return {"plain": value}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        arrays.append(np.asarray(value))
        dtype = arrays[-1].dtype
        named = {"dtype": str(dtype)} if dtype.kind == "V" else {}  # as bfloat16, of which files
        return {"array": len(arrays) - 1, **named}  # keep the bits alone
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _encoded(x, arrays) for name, x in value.items()}}
    if isinstance(value, dict):
        return {"pairs": [[_encoded(x, arrays) for x in item] for item in value.items()]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encoded(x, arrays) for x in value]}
    if isinstance(value, Layout):
        leaves = [[list(x), str(y)] for x, y in zip(value.shapes, value.dtypes, strict=True)]
        numbered = jax.tree.unflatten(value.treedef, range(len(leaves)))
        return {"layout": _encoded(numbered, arrays), "leaves": leaves}
    if _is_ours(value) and hasattr(value, "_fields"):
        return {"named": _name(value), "items": [_encoded(x, arrays) for x in value]}
    if _is_ours(value) and _is_plain(value):
        fields = {x.name: _encoded(getattr(value, x.name), arrays) for x in _fields(value)}
        return {"object": _name(value), "fields": fields}
    has_density = getattr(value, "has_density", None)
    if has_density is None:
        return {"leaves": [_encoded(x, arrays) for x in jax.tree.leaves(value)]}
    return {"absent": [repr(value), has_density]}


def _decoded(code: dict[str, Any], archive: Any) -> Any:
    match code:
        case {"plain": value}:
            return value
        case {"array": number, "dtype": name}:
            return archive[str(number)].view(name)[()]
        case {"array": number}:
            return archive[str(number)][()]
        case {"dict": items}:
            return {name: _decoded(x, archive) for name, x in items.items()}
        case {"pairs": items}:
            return {_decoded(name, archive): _decoded(x, archive) for name, x in items}
        case {"layout": numbered, "leaves": leaves}:
            structure = jax.tree.structure(_decoded(numbered, archive))
            shapes = tuple(tuple(shape) for shape, _ in leaves)
            return Layout(structure, shapes, tuple(np.dtype(name) for _, name in leaves))
        case {"tuple": items}:
            return tuple(_decoded(x, archive) for x in items)
        case {"list": items}:
            return [_decoded(x, archive) for x in items]
        case {"named": name, "items": items}:
            return _class(name)(*(_decoded(x, archive) for x in items))
        case {"object": name, "fields": fields}:
            return _class(name)(**{key: _decoded(x, archive) for key, x in fields.items()})
        case {"leaves": items}:
            return Leaves(tuple(_decoded(x, archive) for x in items))
        case {"absent": [text, has_density]}:
            return Absent(text, has_density)
    raise ValueError(f"it has a part {code!r}")


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(x for x in dataclasses.fields(value) if x.init)


def _is_ours(value: Any) -> bool:
    """Whether it is an object of this package, which a file may name."""
    return type(value).__module__.partition(".")[0] == "inference"


def _is_plain(value: Any) -> bool:
    """Whether it is a dataclass without functions, which no file can hold."""
    if not dataclasses.is_dataclass(value):
        return False
    parts = [getattr(value, x.name) for x in _fields(value)]
    return not any(callable(x) or (_is_ours(x) and not _is_held(x)) for x in parts)


def _is_held(value: Any) -> bool:
    return hasattr(value, "_fields") or _is_plain(value)


def _name(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _class(name: str) -> Any:
    module, _, qualname = name.partition(":")
    if module.partition(".")[0] != "inference" or not qualname.isidentifier():
        raise ValueError(f"it names {name!r}, which is not of this library")
    return getattr(importlib.import_module(module), qualname)
