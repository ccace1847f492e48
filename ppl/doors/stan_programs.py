"""Stan programs with their data, compiled by another package, and the data as JSON.

A program is looked up by a fingerprint of its source, data and seed. The fingerprint is an array,
an argument of compiled functions, so that new data of the same shapes never recompile.
"""

import collections
import contextlib
import dataclasses
import functools
import hashlib
import json
import math
import os
import re
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ppl.doors.stan_declarations import declarations
from ppl.doors.stan_functions import StanFunctions
from ppl.harvest.leaf_values import short_repr

COMPILERS = ("stanli", "bridgestan")
NUM_WORDS = 4  # of 32 bits, of a fingerprint

# Errors of central differences, of truncation and of rounding, are least near this step.
_STEP = float(np.cbrt(np.finfo(np.float64).eps))

_PROGRAMS: weakref.WeakValueDictionary[bytes, "StanProgram"] = weakref.WeakValueDictionary()
# Models whose structures are equal may stand for each other in JAX's caches, so that the newest
# programs outlive the models that they were made for.
_NEWEST: collections.deque[Any] = collections.deque(maxlen=16)


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable of a Stan program, and where it stands among all numbers of the program.

    Attributes:
        name: The name, with ":1", ":2" behind it for the entries of a tuple, and ":real", ":imag"
            for the parts of complex numbers.
        shape: The shape.
        start: The place of the first number; the others follow, the last index fastest.
    """

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def end(self) -> int:
        """The place behind the last number."""
        return self.start + int(np.prod(self.shape))


class StanProgram:
    """A compiled Stan program with its data; a `bridgestan.StanModel` does the work.

    Attributes:
        name: The name of the program's file.
        fingerprint: Four unsigned integers of 32 bits.
        size: The number of unconstrained parameters.
        parameters: The parameters in the order of the program, each with the shape of its
            unconstrained numbers.
        outputs: Parameters, transformed parameters and generated quantities.
        is_threaded: Whether several threads may call the program at once.
    """

    def __init__(self, model: Any):
        self._model = model
        self._functions = StanFunctions(model)
        self._last = b"", np.empty(0)  # the position of the last outputs, and they
        self.name = model.name()
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self.is_threaded = "STAN_THREADS=true" in model.model_info()
        self.size: int = model.param_unc_num()
        self.parameters = _blocks(model.param_unc_names())
        self.outputs, self._order = _variables(model.param_names(include_tp=True, include_gq=True))
        self._levels = {
            (tp, gq): model.param_num(include_tp=tp, include_gq=gq)
            for tp, gq in [(True, True), (True, False), (False, False)]
        }
        self.fingerprint = _fingerprint(model)
        _PROGRAMS[self.fingerprint.tobytes()] = self
        _NEWEST.append(self)

    def __reduce__(self) -> Any:
        """The program is compiled again, from its library and data, where it is unpickled."""
        return _load, (self._model.lib_path, self._model.data, self._model.seed)

    def log_density(self, position: np.ndarray, out: np.ndarray) -> None:
        """The log density at an unconstrained position, -inf where the program rejects it."""
        try:
            with self._exclusive():
                self._functions.log_density(position, out)
        except RuntimeError as error:
            self._warn(_REJECTED, error)
            out[()] = np.nan
        if math.isnan(out.item()):
            out[()] = -np.inf

    def gradient(self, position: np.ndarray, out: np.ndarray) -> None:
        """The log density and, behind it, its gradient, -inf and zeros where there is none."""
        try:
            with self._exclusive():
                self._functions.gradient(position, out)
        except RuntimeError as error:
            self._warn(_REJECTED, error)
            out[0] = np.nan
        found = out.item(0)
        if not math.isfinite(found):
            out[1:] = 0
            out[0] = -np.inf if math.isnan(found) else found

    def hessian(self, position: np.ndarray, out: np.ndarray) -> None:
        """Second derivatives, by central differences of gradients; NaN beside a rejection."""
        found = np.empty(1 + self.size)

        def gradient(x: np.ndarray, out: np.ndarray) -> None:
            self.gradient(x, found)
            out[:] = found[1:] if math.isfinite(found[0]) else np.nan

        _central_differences(gradient, position, out)
        out[:] = (out + out.T) / 2

    def jacobian(self, position: np.ndarray, out: np.ndarray) -> None:
        """Derivatives of all outputs, by central differences with the same random numbers."""
        seed = self._seed_at(position)
        columns = np.empty((self.size, len(out)))
        _central_differences(lambda x, to: self._constrain(x, to, seed), position, columns)
        out[:] = columns.T

    def constrain(self, position: np.ndarray, out: np.ndarray) -> None:
        """All outputs at a position; NaN where the program fails.

        The random numbers of generated quantities follow from the seed and the position, so that
        a chain that stays where it is, and the padding behind its draws, need no other call.
        """
        key = position.tobytes()
        last, values = self._last
        if key != last:
            self._constrain(position, out, self._seed_at(position))
            self._last = key, out.copy()  # in one piece, as threads read it
        else:
            out[:] = values

    def _seed_at(self, position: np.ndarray) -> int:
        return zlib.crc32(position.tobytes(), self._model.seed & 0xFFFFFFFF)

    def _constrain(self, position: np.ndarray, out: np.ndarray, seed: int) -> None:
        rng = self._model.new_rng(seed)
        values = np.empty(len(out))
        for (tp, gq), num in self._levels.items():
            try:
                with self._exclusive():
                    self._functions.constrain(position, values, rng, include_tp=tp, include_gq=gq)
            except RuntimeError as error:
                self._warn(_FAILED, error)
                continue
            values[num:] = np.nan
            out[:] = values[self._order]
            return
        out[:] = np.nan

    def _exclusive(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.is_threaded else self._lock

    def _warn(self, what: str, error: RuntimeError) -> None:
        """Warns of the first failure of each kind."""
        if what not in self._warned:
            self._warned.add(what)
            words = f"from_stan: {what} This is said once. Stan says: {error}"
            warnings.warn(words, RuntimeWarning, stacklevel=2)


_REJECTED = "the Stan program rejects a position, whose log density is -inf."
_FAILED = "outputs of the Stan program fail at a position, and are NaN there."


def _central_differences(
    function: Callable[[Any, Any], Any], position: np.ndarray, out: np.ndarray
) -> None:
    """Derivatives of `function(position, values)` by each coordinate, a row of `out` for each."""
    sides = np.empty((2, *out.shape[1:]))
    for i, x in enumerate(position):
        step = _STEP * max(1.0, abs(x))
        for side, end in zip(sides, (x + step, x - step), strict=True):
            moved = position.copy()
            moved[i] = end
            function(moved, side)
        out[i] = (sides[0] - sides[1]) / (2 * step)


def find_program(fingerprint: np.ndarray) -> StanProgram:
    """The program with a fingerprint.

    Raises:
        RuntimeError: If this process has none.
    """
    found = _PROGRAMS.get(fingerprint.tobytes())
    if found is None:
        raise RuntimeError(
            "from_stan: this process has no Stan program for the model. Call ppl.from_stan with "
            "the same program and data before, and keep what it returns."
        )
    return found


def _load(library: str, data: str, seed: int) -> StanProgram:
    bridgestan = _import_bridgestan()
    return StanProgram(bridgestan.StanModel(library, data, seed=seed, warn=False))


def _fingerprint(model: Any) -> np.ndarray:
    data = model.data
    if data.endswith(".json"):  # BridgeStan takes a path in place of the data
        data = Path(data).read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{model.name()} {model.seed} {data}".encode())
    if "__stanli" not in data:  # All programs of stanli share one library.
        digest.update(Path(model.lib_path).read_bytes())
    return np.frombuffer(digest.digest()[: 4 * NUM_WORDS], np.uint32)


def _variables(names: list[str]) -> tuple[tuple[Variable, ...], np.ndarray]:
    """Variables by name, and the order that makes each a block with its last index fastest."""
    places: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for place, full in enumerate(names):
        index = tuple(int(x) - 1 for x in re.findall(r"\.(\d+)", full))
        name = re.sub(r"\.(\d+)", "", full).replace(".", ":")
        places.setdefault(name, []).append((index, place))
    found = []
    order: list[int] = []
    for name, entries in places.items():
        shape = tuple(max(i) + 1 for i in zip(*(index for index, _ in entries), strict=True))
        found.append(Variable(name, shape, len(order)))
        order.extend(place for _, place in sorted(entries))
    return tuple(found), np.array(order, int)


def _blocks(names: list[str]) -> tuple[Variable, ...]:
    """The unconstrained numbers of each parameter, a vector in Stan's order or a scalar."""
    places: dict[str, list[int]] = {}
    for place, full in enumerate(names):
        places.setdefault(re.split("[.:]", full)[0], []).append(place)
    return tuple(
        Variable(name, () if name in names else (len(found),), found[0])
        for name, found in places.items()
    )


@contextlib.contextmanager
def _installed(package: str) -> Iterator[None]:
    """Raises an error with advice where the import of a package fails within."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"ppl.from_stan needs the package {package!r}, which is not installed ({error}). "
            "Install it by: pip install 'harvest-ppl[stan]'"
        ) from error


def _import_bridgestan() -> Any:
    with _installed("bridgestan"):
        import bridgestan  # pyright: ignore[reportMissingImports]
    return bridgestan


def _import_stanli() -> Any:
    with _installed("stanli"):
        import stanli  # pyright: ignore[reportMissingImports]
    return stanli


def compile_program(
    program: Any, data: Any, compiler: str, seed: int, include_paths: tuple[str, ...]
) -> StanProgram:
    """A Stan program with data, compiled.

    Raises:
        ImportError: If a package is not installed.
        ValueError: If the program does not compile, or the data do not fit.
    """
    bridgestan = _import_bridgestan()
    if isinstance(program, bridgestan.StanModel):
        if data is not None:
            raise ValueError(
                "from_stan: data came beside a bridgestan.StanModel, which has its data already. "
                "Give the data to StanModel, or the program's file to from_stan."
            )
        return StanProgram(program)
    text = data_as_json(data, allows_nan=compiler == "bridgestan")
    source = _source(program)
    if compiler == "stanli":
        stanli = _import_stanli()
        name = "stan_program" if source is program else Path(program).stem
        folder = [] if source is program else [str(Path(program).resolve().parent)]
        with _explained("the program does not compile"):
            mir = stanli.stan_to_mir(source, include_paths=[*include_paths, *folder])
        hint = functools.partial(_hint_at_data, text=text)
        _check_shapes(source, text)
        with _explained("the program does not take these data", hint):
            model = stanli.bridgestan_model(mir=mir, name=name, data=text, seed=seed)
        _warn_of_lost_blocks(source, model)
        return StanProgram(model)
    if source is program:
        raise ValueError(
            "from_stan: BridgeStan compiles files, got the text of a program. Write it to a file "
            "that ends in .stan and give its path, or use compiler='stanli'."
        )
    options = [f"--include-paths={','.join(include_paths)}"] if include_paths else []
    with _explained("the program does not compile"):
        library = bridgestan.compile_model(
            program, stanc_args=options, make_args=["STAN_THREADS=true"]
        )
    with _explained("the program does not take these data"):
        return StanProgram(bridgestan.StanModel(library, text, seed=seed))


@contextlib.contextmanager
def _explained(what: str, hint: Callable[[str], str] = lambda _: "") -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ValueError(f"from_stan: {what}. {hint(str(error))}Stan says: {error}") from error


def _check_shapes(source: str, text: str) -> None:
    """Raise a ValueError for data of another shape than declared; stanli compares numbers alone."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError:  # Stan has words for it.
        return
    for name, sizes in declarations(source, "data").items():
        try:
            shape = np.shape(data.get(name))
        except ValueError:  # rows of several lengths
            continue
        if sizes is None or name not in data or 0 in shape:
            continue
        known = [int(x) if x.isdecimal() else data.get(x) for x in sizes]
        known = [n if type(n) is int else None for n in known]
        if len(shape) == len(sizes) and all(
            n in (m, None) for m, n in zip(shape, known, strict=True)
        ):
            continue
        shown = [
            x if n is None or x.isdecimal() else f"{x} = {n}"
            for x, n in zip(sizes, known, strict=True)
        ]
        raise ValueError(
            f"from_stan: the program does not take these data. {name!r} is declared with the shape "
            f"({', '.join(shown)}), and has the shape {shape}."
        )


def _warn_of_lost_blocks(source: str, model: Any) -> None:
    """Warns where stanli computes nothing of a block that declares variables."""
    sizes = [model.param_num(include_tp=tp, include_gq=gq) for tp, gq in _LEVELS]
    blocks = zip(("transformed parameters", "generated quantities"), sizes, sizes[1:], strict=False)
    lost = [x for x, before, behind in blocks if before == behind and declarations(source, x)]
    if lost:
        names = [name for block in lost for name in declarations(source, block)]
        warnings.warn(
            f"from_stan: stanli computes nothing of the {' and '.join(lost)}, so that there are no "
            f"sites {', '.join(map(repr, names))}; the density is whole. Most likely it lacks a "
            "type, such as tuples, and has printed which. With compiler='bridgestan' they are "
            "there.",
            UserWarning,
            stacklevel=4,
        )


_LEVELS = [(False, False), (True, False), (True, True)]  # whether with each of the two blocks


def _hint_at_data(error: str, text: str) -> str:
    """Words for data that do not fit; text is their JSON."""
    if "contained non-int values" in error:
        return "Some are floats where the program declares int: give integers, x.astype(int). "
    found = re.search(r"unknown (?:data variable|int) (\w+)", error)
    given = list(json.loads(text or "{}"))
    if found is None or found[1] in given:
        return ""
    return f"There are no data {found[1]!r}; there are {given}. "


def _source(program: Any) -> str:
    """The text of a program; `program` itself if it is the text.

    Raises:
        TypeError: If it is neither text nor a path.
        FileNotFoundError: If there is no such file.
    """
    if isinstance(program, str) and ("{" in program or "\n" in program):
        return program
    if not isinstance(program, str | os.PathLike):
        raise TypeError(
            "from_stan: program must be the path of a .stan file, the text of a program, or a "
            f"bridgestan.StanModel, got {short_repr(program)}."
        )
    if isinstance(program, str) and not program.strip():
        raise ValueError("from_stan: program is empty. Give a path, or the text of a program.")
    path = Path(program)
    if not path.is_file():
        raise FileNotFoundError(f"from_stan: program: there is no file {str(path)!r}.")
    return path.read_text(encoding="utf-8")


def data_as_json(data: Any, *, allows_nan: bool) -> str:
    """Data as the text that Stan reads.

    Raises:
        TypeError: If data are neither a mapping nor a path, or hold other things than numbers.
        ValueError: If numbers are not finite and `allows_nan` is false.
    """
    if data is None:
        return "{}"
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        if not path.is_file():
            raise FileNotFoundError(f"from_stan: data: there is no file {str(path)!r}.")
        return path.read_text(encoding="utf-8")
    if not isinstance(data, Mapping):
        raise TypeError(
            "from_stan: data must be a dict of numbers and arrays by name, or the path of a JSON "
            f"file, got {short_repr(data)}."
        )
    return json.dumps({str(k): _entry(str(k), x, allows_nan) for k, x in data.items()})


def _entry(name: str, value: Any, allows_nan: bool) -> Any:
    if isinstance(value, tuple):  # Stan's tuples.
        return {str(i + 1): _entry(f"{name}:{i + 1}", x, allows_nan) for i, x in enumerate(value)}
    try:
        array = np.asarray(value)
    except ValueError:  # Rows of several lengths.
        array = np.asarray(None)
    if array.dtype.kind not in "biufc":
        raise TypeError(
            f"from_stan: data {name!r}: expected a number or an array of numbers, got "
            f"{short_repr(value)}."
        )
    if not allows_nan and not np.isfinite(array).all():
        raise ValueError(
            f"from_stan: data {name!r}: {np.sum(~np.isfinite(array))} of {array.size} numbers are "
            "NaN or infinite, which stanli does not read. Leave missing entries out, as Stan has "
            "no missing data, or use compiler='bridgestan'."
        )
    if array.dtype.kind == "b":
        array = array.astype(int)
    if array.dtype.kind == "c":
        array = np.stack([np.real(array), np.imag(array)], axis=-1)
    return array.tolist()
