"""Serialization of results: a NumPy ``.npz`` archive of arrays, with JSON for their structure.

The JSON carries a format number. It names classes by tags, so that a file can still be loaded after
modules and classes have been renamed.

======  ================================================================
Format  What is different
======  ================================================================
0       classes by module and name; the file has no `"format"`
1       classes by tags, see `TAGS`
2       facts of a run in a `RunFacts`, not as pairs called `"settings"`
3       names of entries of sites; values of state, and of parameters of
        guides; learned centering; warm-up; tables of cross-validation
======  ================================================================

A new field of a class that files hold needs a higher format: an earlier version of the library then
refuses the file as a newer one.
"""

import dataclasses
import importlib
import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from inference.common.layout import Layout
from inference.common.whole_file import write_whole
from ppl.common.file_suffix import check_suffix

T = TypeVar("T")

FORMAT = 3

# Module and name of the class of each tag. A tag never changes, nor names another class later.
TAGS = {
    "Absent": "inference.common.serialization:Absent",
    "BySite": "inference.guides.by_site:BySite",
    "CalibrationReport": "inference.calibration.report:CalibrationReport",
    "Comparison": "inference.comparison.model_comparison:Comparison",
    "Density": "inference.optimization.mode_search:Density",
    "ELBO": "inference.variational.elbo:ELBO",
    "ElpdEstimate": "inference.results.elpd:ElpdEstimate",
    "Evidence": "inference.results.evidence:Evidence",
    "EvidenceComparison": "inference.comparison.evidence_comparison:EvidenceComparison",
    "FlowParameters": "inference.guides.flows:FlowParameters",
    "ForwardKL": "inference.variational.multi_sample_bounds:ForwardKL",
    "FullRank": "inference.guides.normal:FullRank",
    "GuideFunction": "inference.models.guide_function:GuideFunction",  # made on loading
    "ImportanceResult": "inference.results.importance_result:ImportanceResult",
    "ImportanceWeighted": "inference.variational.multi_sample_bounds:ImportanceWeighted",
    "InverseAutoregressive": "inference.guides.flows:InverseAutoregressive",
    "LaplaceResult": "inference.results.laplace_result:LaplaceResult",
    "Leaves": "inference.common.serialization:Leaves",
    "Loc": "inference.guides.normal:Loc",
    "LocFactor": "inference.guides.normal:LocFactor",
    "LocScale": "inference.guides.normal:LocScale",
    "LowRank": "inference.guides.normal:LowRank",
    "LowRankMatrix": "inference.common.matrices:LowRankMatrix",
    "MCMCResult": "inference.results.mcmc_result:MCMCResult",
    "MCMCResults": "inference.results.mcmc_results:MCMCResults",
    "MaskedAutoregressive": "inference.guides.flows:MaskedAutoregressive",
    "MeanField": "inference.guides.normal:MeanField",
    "Mixture": "inference.guides.low_rank_normal:GuideMixture",
    "ModelAndGuide": "inference.variational.svi_step:ModelAndGuide",
    "Network": "inference.guides.masked_mlp:Network",
    "NestedLaplaceResult": "inference.results.nested_laplace_result:NestedLaplaceResult",
    "NeuralSpline": "inference.guides.flows:NeuralSpline",
    "OptimizeResult": "inference.results.optimize_result:OptimizeResult",
    "PartParameters": "inference.guides.by_site:PartParameters",
    "ParticleFilterResult": "inference.results.particle_filter_result:ParticleFilterResult",
    "PathfinderResult": "inference.results.pathfinder_result:PathfinderResult",
    "PointMass": "inference.guides.normal:PointMass",
    "PowerScaling": "inference.comparison.power_scaling:PowerScaling",
    "Renyi": "inference.variational.multi_sample_bounds:Renyi",
    "RunFacts": "inference.results.run_facts:RunFacts",
    "SMCResult": "inference.results.smc_result:SMCResult",
    "SVGDResult": "inference.results.svgd_result:SVGDResult",
    "SVGDState": "inference.variational.svgd_step:SVGDState",
    "SVIResult": "inference.results.svi_result:SVIResult",
    "SVIState": "inference.variational.svi_step:SVIState",
    "ScoreFunction": "inference.variational.score_function:ScoreFunction",
    "Settling": "inference.variational.svi_step:Settling",
    "Shares": "inference.guides.low_rank_normal:GuideMixtureParameters",
    "StateValues": "inference.models.carried_state:StateValues",
    "Stretched": "inference.guides.low_rank_normal:LowRankNormalParameters",
    "StretchedNormal": "inference.guides.low_rank_normal:LowRankNormalGuide",
    "Structured": "inference.guides.structured:Structured",
    "StructuredParameters": "inference.guides.structured:StructuredParameters",
    "TargetParameters": "inference.models.model_parameters:TargetParameters",
    "WarmUp": "inference.common.warm_up:WarmUp",
}
# Classes in files of format 0, by their module in `inference` at that time; their names then are
# their tags. The table is frozen: no later name of a module or class belongs here.
FORMAT_0 = {
    "bounds": ("ForwardKL", "ImportanceWeighted", "Renyi"),
    "by_site": ("BySite", "PartParameters"),
    "descent": ("SVIState", "Settling"),
    "flows": ("FlowParameters", "InverseAutoregressive", "MaskedAutoregressive", "NeuralSpline"),
    "guides": ("FullRank", "Loc", "LocFactor", "LocScale", "LowRank", "MeanField", "PointMass"),
    "metric": ("LowRankMatrix",),
    "mode_result": ("OptimizeResult",),
    "modes": ("Density",),
    "networks": ("Network",),
    "normals": ("Mixture", "Shares", "Stretched", "StretchedNormal"),
    "objective": ("ELBO",),
    "saved": ("Absent", "Leaves"),
    "score_function": ("ScoreFunction",),
    "stein": ("SVGDState",),
    "structured": ("Structured", "StructuredParameters"),
}

_TAG_OF = {home: tag for tag, home in TAGS.items()}
_PLAIN = (bool, int, float, str, type(None))
_STRUCTURE = "structure"
_DAMAGES = (AttributeError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile)


class Leaves(NamedTuple):
    """Leaves, in order, of a pytree whose structure a file does not keep."""

    leaves: tuple[Any, ...]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Absent:
    """Placeholder for a part of a result that a file does not keep, such as a function.

    Attributes:
        text: The `repr` of the part.
        has_density: Whether the part, if it is a guide, has a density.
    """

    text: str
    has_density: bool = True

    def __repr__(self) -> str:
        return self.text


class NewerFileError(ValueError):
    """Error for a file written by a newer version of the library."""


def restore_structure(value: Any, expected: Any) -> Any:
    """A value from a file, with the structure of `expected` if the file kept only its leaves.

    A value that a file keeps whole, or that has another number of leaves, is returned unchanged.
    """

    def is_part(x):
        return isinstance(x, Absent | Leaves)

    parts = jax.tree.leaves(value, is_leaf=is_part)
    leaves = jax.tree.leaves(value)
    structure = jax.tree.structure(expected)
    if any(map(is_part, parts)) and len(leaves) == structure.num_leaves:
        return jax.tree.unflatten(structure, leaves)
    return value


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Writes a dataclass to `path`, a NumPy ``.npz`` archive, under exactly that name.

    Raises:
        OSError: if the file cannot be written; one that was there is unchanged then.
        TypeError: if `path` is not a path.
        ValueError: if its name is that of another kind of file, as ``"fit.json"``.
    """
    _check_path(path)
    check_suffix("save", path, "an archive of NumPy", ("npz",))
    arrays: list[np.ndarray] = []
    fields = {x.name: _encode(getattr(value, x.name), arrays) for x in _fields(value)}
    structure = {"format": FORMAT, "result": _tag_of_result(type(value)), "fields": fields}
    named: dict[str, Any] = {_STRUCTURE: np.array(json.dumps(structure))}
    named |= {str(i): x for i, x in enumerate(arrays)}
    write_whole(path, lambda file: np.savez(file, **named))


def load(path: str | os.PathLike[str], cls: type[T]) -> T:
    """Reads an object of `cls` from a file written by :func:`save`.

    Raises:
        NewerFileError: if a newer version of the library has written the file.
        TypeError: if `path` is not a path.
        ValueError: if the file holds something else or is damaged.
    """
    _check_path(path)
    if os.path.isdir(path):
        raise ValueError(
            f"{os.fspath(path)!r} is a folder, not a file of {cls.__name__}.save." + _of_a_run(path)
        )
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no archive of NumPy")
        with np.load(path, allow_pickle=False) as archive:
            return _decode_result(archive, cls)
    except NewerFileError as error:
        raise NewerFileError(f"{os.fspath(path)!r} cannot be loaded: {error}") from None
    except _DAMAGES as error:
        refusal = f"{os.fspath(path)!r} is not a saved {cls.__name__}"
        raise ValueError(f"{refusal}: {error}") from error


def pack(value: Any) -> dict[str, np.ndarray]:
    """Arrays by name, from which :func:`unpack` makes a value.

    Args:
        value: Arrays, keys, numbers and strings in dicts, lists and tuples. Of other pytrees, only
            the leaves are kept.
    """
    arrays: list[np.ndarray] = []
    code = json.dumps(_encode(value, arrays))
    return {_STRUCTURE: np.array(code)} | {str(i): x for i, x in enumerate(arrays)}


def unpack(arrays: Mapping[str, Any]) -> Any:
    """The value that :func:`pack` was given, with arrays of NumPy."""
    return _decode(json.loads(str(arrays[_STRUCTURE])), arrays, FORMAT)


def tag_in(path: str | os.PathLike[str]) -> str | None:
    """Tag of the class that a file holds; `None` for a file that :func:`save` has not written."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            return json.loads(str(archive[_STRUCTURE]))["result"]
    except (OSError, *_DAMAGES):
        return None


def _of_a_run(path: str | os.PathLike[str]) -> str:
    """Advice for a folder given instead of a file, if it is the `checkpoint` of a run."""
    if not os.path.exists(os.path.join(path, "manifest.json")):
        return ""
    return (
        " It looks like the checkpoint of a run, whose result is that of the call that made it, "
        "given again with the same folder; of mcmc, inference.resume(folder, model, *args) returns "
        "it, too"
    )


def _check_path(path: Any) -> None:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file, such as 'result.npz', got {path!r}")


def _decode_result(archive: Any, cls: type[T]) -> T:
    structure = json.loads(str(archive[_STRUCTURE]))
    version = structure.get("format", 0)
    if version not in range(FORMAT + 1):
        raise NewerFileError(
            f"it has format {version!r}, expected one of 0 to {FORMAT}: a newer version of the "
            "library has written it; load it with that version, or update this one"
        )
    if structure["result"] != _tag_of_result(cls):
        raise ValueError(f"it is a {structure['result']}")
    fields = {name: _decode(x, archive, version) for name, x in structure["fields"].items()}
    if version < 2 and "settings" in fields:
        fields["facts"] = class_of("RunFacts")(**dict(fields.pop("settings")))
    _check_fields(fields, cls, version)
    return cls(**fields)


def _check_fields(fields: dict[str, Any], cls: Any, version: int) -> None:
    """Check that this version of a class has the fields of a file, and needs no others.

    Raises:
        ValueError: If not: another version of the library has written the file.
    """
    known = _fields(cls)
    needed = [x.name for x in known if x.default is x.default_factory is dataclasses.MISSING]
    lacking = [name for name in needed if name not in fields]
    unknown = [name for name in fields if name not in [x.name for x in known]]
    if lacking or unknown:
        told = [f"has {', '.join(map(repr, unknown))}"] * bool(unknown)
        told += [f"lacks {', '.join(map(repr, lacking))}"] * bool(lacking)
        raise ValueError(
            f"of format {version}, it {' and '.join(told)}: another version of the library has "
            "written it; load it with that version"
        )


def _encode(value: Any, arrays: list[np.ndarray]) -> Any:
    """JSON code of a value; its arrays are appended to `arrays`, and the code has their numbers."""
    if isinstance(value, _PLAIN):
        return {"plain": value}
    if _is_key(value):
        words = _encode(jax.random.key_data(value), arrays)
        return {"key": words, "impl": str(jax.random.key_impl(value))}
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        arrays.append(np.asarray(value))
        dtype = arrays[-1].dtype
        # NumPy's files keep only the bits of dtypes such as bfloat16, not their names.
        named = {"dtype": str(dtype)} if dtype.kind == "V" else {}
        return {"array": len(arrays) - 1, **named}
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {"dict": {name: _encode(x, arrays) for name, x in value.items()}}
    if isinstance(value, dict):
        return {"pairs": [[_encode(x, arrays) for x in item] for item in value.items()]}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encode(x, arrays) for x in value]}
    if isinstance(value, Layout):
        leaves = [[list(x), str(y)] for x, y in zip(value.shapes, value.dtypes, strict=True)]
        numbered = jax.tree.unflatten(value.treedef, range(len(leaves)))
        return {"layout": _encode(numbered, arrays), "leaves": leaves}
    tag = tag_of(type(value))
    if tag is not None and hasattr(value, "_fields"):
        return {"named": tag, "items": [_encode(x, arrays) for x in value]}
    if tag is not None and _is_plain(value):
        fields = {x.name: _encode(getattr(value, x.name), arrays) for x in _fields(value)}
        return {"object": tag, "fields": fields}
    has_density = getattr(value, "has_density", None)
    leaves = jax.tree.leaves(value)
    if has_density is None and (isinstance(value, tuple) or _has_parts(value, leaves)):
        return {"leaves": [_encode(x, arrays) for x in leaves]}
    return {"absent": [repr(value), bool(has_density)]}


def _is_key(value: Any) -> bool:
    is_array = isinstance(value, jax.Array)
    return is_array and jax.numpy.issubdtype(value.dtype, jax.dtypes.prng_key)


def _has_parts(value: Any, leaves: list[Any]) -> bool:
    """Whether a value is a pytree with leaves, so neither a leaf itself nor static."""
    return bool(leaves) and not jax.tree_util.all_leaves([value])


def _decode(code: dict[str, Any], archive: Any, version: int) -> Any:
    def decode(part: Any) -> Any:
        return _decode(part, archive, version)

    match code:
        case {"plain": value}:
            return value
        case {"array": number, "dtype": name}:
            return archive[str(number)].view(name)[()]
        case {"array": number}:
            return archive[str(number)][()]
        case {"key": words, "impl": impl}:
            return jax.random.wrap_key_data(decode(words), impl=impl)
        case {"dict": items}:
            return {name: decode(x) for name, x in items.items()}
        case {"pairs": items}:
            return {decode(name): decode(x) for name, x in items}
        case {"layout": numbered, "leaves": leaves}:
            structure = jax.tree.structure(decode(numbered))
            shapes = tuple(tuple(shape) for shape, _ in leaves)
            return Layout(structure, shapes, tuple(np.dtype(name) for _, name in leaves))
        case {"tuple": items}:
            return tuple(map(decode, items))
        case {"list": items}:
            return list(map(decode, items))
        case {"named": name, "items": items}:
            return _class_of(name, version)(*map(decode, items))
        case {"object": name, "fields": fields}:
            return _class_of(name, version)(**{key: decode(x) for key, x in fields.items()})
        case {"leaves": items}:
            return Leaves(tuple(map(decode, items)))
        case {"absent": [text, has_density]}:
            return Absent(text, has_density)
    raise ValueError(f"it has a part {code!r}")


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(x for x in dataclasses.fields(value) if x.init)


def _is_plain(value: Any) -> bool:
    """Whether a value is a dataclass that a file can hold: none of its fields is a function."""
    if not dataclasses.is_dataclass(value):
        return False
    parts = [getattr(value, x.name) for x in _fields(value)]
    return not any(callable(x) or (_is_ours(x) and not _is_held(x)) for x in parts)


def _is_held(value: Any) -> bool:
    return hasattr(value, "_fields") or _is_plain(value)


def _is_ours(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "inference"


def tag_of(cls: type) -> str | None:
    """Tag of a class in files; `None` for a class that files do not keep."""
    return _TAG_OF.get(f"{cls.__module__}:{cls.__qualname__}")


def _tag_of_result(cls: type) -> str:
    return tag_of(cls) or cls.__name__


def class_of(tag: str) -> Any:
    """Class of a tag.

    Raises:
        NewerFileError: if this version of the library has no such tag.
    """
    if tag not in TAGS:
        raise NewerFileError(
            f"it holds a {tag!r}, which this version of the library does not know: a newer one has "
            "written it; load it with that version, or update this one"
        )
    module, _, name = TAGS[tag].partition(":")
    return getattr(importlib.import_module(module), name)


def _class_of(name: str, version: int) -> Any:
    """Class of a name in a file of format `version`.

    Raises:
        NewerFileError: if this version of the library has no such tag.
        ValueError: if a name in a file of format 0 is not of this library.
    """
    if version > 0:
        return class_of(name)
    module, _, qualname = name.partition(":")
    package, _, module = module.partition(".")
    if package != "inference" or qualname not in FORMAT_0.get(module, ()):
        raise ValueError(f"it names {name!r}, which is not of this library")
    return class_of(qualname)
