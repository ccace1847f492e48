"""Models as pytrees: any callable becomes a pytree of its data, with a name for errors.

Models of other libraries are recognized only by names; no other library is imported.
"""

import dataclasses
import functools
import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax.tree_util import Partial

from ppl.common.arguments import Arguments
from ppl.harvest.function_equality import has_hash
from ppl.harvest.harvesting import Nested

Model = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])

_LIBRARIES = {"numpyro": "NumPyro", "pymc": "PyMC", "pyro": "Pyro"}
_DOORS = {"NumPyro": "from_numpyro", "PyMC": "from_pymc"}
_STATEMENTS = ("sample", "Model")  # attributes of these modules by which their models are known


def as_pytree(model: Model) -> Model:
    """A model as a pytree of its data, which can be an argument of a jitted function."""
    check_callable(model)
    if jax.tree_util.all_leaves([model]):
        return Partial(_wrap_unhashable(model))
    if all(map(_is_data, jax.tree.leaves(model))):
        return model
    hashable = jax.tree.map(_wrap_unhashable, model)
    arguments, data = Arguments.split((hashable,), {})
    return Partial(PartitionedModel(arguments), data)


def check_callable(model: Model) -> None:
    """Check that a model is callable.

    Raises:
        TypeError: If it is not.
    """
    if not callable(model):
        given = _describe_foreign(model) or reprlib.repr(model)
        raise TypeError(f"expected a model, a function of a random key, got {given}.")


def explaining_foreign_models(function: Function) -> Function:
    """Decorator of a function of a model: its errors say if the model is of another library."""

    @functools.wraps(function)
    def wrapped(model: Model, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(model, *args, **kwargs)
        except Exception as error:
            # Only after an error: a model of ours costs no time.
            if words := _describe_foreign(model):
                raise TypeError(f"{words}.") from error
            raise

    return wrapped  # pyright: ignore[reportReturnType]


def _wrap_unhashable(leaf: Any) -> Any:
    """A leaf of a model; a callable without a hash is wrapped, to be compared by identity."""
    is_wrapped = callable(leaf) and not has_hash(leaf)
    return UnhashableModel(leaf) if is_wrapped else leaf


def _is_data(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)


@dataclasses.dataclass(frozen=True, eq=False)
class UnhashableModel:
    """Wrapper of a model without a hash, compared by identity."""

    __wrapped__: Model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the wrapped model."""
        return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        """Whether `other` wraps the same object."""
        return isinstance(other, UnhashableModel) and self.__wrapped__ is other.__wrapped__

    def __hash__(self) -> int:
        """The identity of the wrapped model."""
        return id(self.__wrapped__)


@dataclasses.dataclass(frozen=True)
class PartitionedModel:
    """Static part of a model with leaves that are not data, such as a module with functions.

    Attributes:
        arguments: The static part; data are placeholders in it.
    """

    arguments: Arguments

    def merge_parts(self, data: Sequence[Any]) -> Model:
        """The model with its data put back."""
        (model,), _ = self.arguments.join(data)
        return model

    def __call__(self, data: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """Call the model with its data put back."""
        return self.merge_parts(data)(*args, **kwargs)


def unwrap_model(model: Model) -> Model:
    """The model that `as_pytree` was given, with its present data."""
    func = model.func if isinstance(model, Partial) else None
    return func.merge_parts(*model.args) if isinstance(func, PartitionedModel) else model


def without_scopes(model: Model) -> Model:
    """The model inside of `nest`, which has the same arguments."""
    while isinstance(model := unwrap_model(model), Partial) and isinstance(model.func, Nested):
        (model,) = model.args
    return model


def innermost(model: Model) -> Model:
    """The function that a modeler wrote, without transformations such as `condition`."""
    while isinstance(model := _strip_jit(unwrap_model(model)), Partial):
        model = model.args[0] if model.args and callable(model.args[0]) else model.func
    return model.__wrapped__ if isinstance(model, UnhashableModel) else model


def parameters_behind_key(model: Model) -> list[inspect.Parameter]:
    """Parameters of a model after the key, by the names that its modeler wrote.

    Raises:
        ValueError: If it is a callable without a signature.
    """
    return list(inspect.signature(as_written(model)).parameters.values())[1:]


def arguments_by_name(
    model: Model, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of a model, and what is bound within it, by the names that its modeler wrote.

    A model that holds data under other names has a method `data_by_name` of all but the key.

    Raises:
        TypeError: If the arguments do not fit.
        ValueError: If it is a callable without a signature.
    """
    function, bound, named = split_partial(as_written(model))
    named = named | dict(kwargs)
    if hasattr(function, "data_by_name"):
        return function.data_by_name(*bound, *args, **named)
    given = inspect.signature(function).bind(*bound, _KEY, *args, **named).arguments
    return {name: x for name, x in given.items() if x is not _KEY}


def labels_of_data(model: Model) -> dict[str, tuple[Any, ...]]:
    """Dimensions of the arrays that a model holds under other names, by name.

    As for sites, there is None for each axis without a name, or a pair of the name of the dimension
    and the names of its entries, if they have any.
    """
    function, _, _ = split_partial(as_written(model))
    return function.labels_of_data() if hasattr(function, "labels_of_data") else {}


_KEY = object()  # stands for the key


def split_partial(function: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A function within partial functions, and the arguments that they give it."""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    while True:
        if isinstance(function, UnhashableModel):
            function = function.__wrapped__
        # JAX has a stand-in for a partial function within another.
        if not all(hasattr(function, x) for x in ("func", "args", "keywords")):
            return function, args, kwargs
        args = (*function.args, *args)
        kwargs = {**function.keywords, **kwargs}
        function = function.func


def as_written(model: Model) -> Model:
    """The model inside of transformations, with what it is bound to."""
    while isinstance(model := _strip_jit(unwrap_model(model)), Partial):
        if not (model.args and callable(model.args[0])):
            break
        model = model.args[0]
    return model


def name_of(model: Model) -> str:
    """A model's name, for errors."""
    model = innermost(model)
    return f"model {getattr(model, '__name__', type(model).__name__)!r}"


def _strip_jit(model: Model) -> Model:
    """The function inside of jax.jit and its kin, if it is a transformed model."""
    inner = getattr(model, "__wrapped__", None)
    return inner if isinstance(inner, Partial) else model


def _describe_foreign(model: Any) -> str:
    """Advice for a model of another library, "" for any other object."""
    function = innermost(model)
    library = _library_of(type(model)) or _library_of(type(function)) or _library_in(function)
    if not library:
        return ""
    what = f"{name_of(model)} is one of {library}" if callable(model) else f"a model of {library}"
    door = _DOORS.get(library)
    door = f"take it as it is, by ppl.{door}(model), or " if door else ""
    return (
        f"{what}: {door}write it as a function of a random key, def model(key, *args), with "
        "ppl.sample(key, distribution, name=...) for each variable, and give data by "
        "ppl.condition(model, {name: data}); docs/models.md shows one beside the other"
    )


def _library_in(function: Any) -> str:
    """Name of the library whose statements a function makes, judged by the globals it uses."""
    while isinstance(function, functools.partial):
        function = function.func
    read = list(_globals_of(inspect.unwrap(function)))
    if any(_root_of(value) == "ppl" for value, _ in read):
        return ""
    found = (_library_of_statement(*pair) for pair in read)
    return next((library for library in found if library), "")


def _globals_of(function: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Globals and variables of closures that a function reads, and the names in its code."""
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    if code is None:
        return
    for name in code.co_names:
        if name in function.__globals__:
            yield function.__globals__[name], code.co_names
    for cell in cells:
        try:
            yield cell.cell_contents, code.co_names
        except ValueError:  # a variable that has no value yet
            continue


def _library_of_statement(value: Any, names: tuple[str, ...]) -> str:
    if inspect.ismodule(value):
        is_read = any(statement in names for statement in _STATEMENTS)
        return _LIBRARIES.get(value.__name__, "") if is_read else ""
    is_statement = getattr(value, "__name__", "") in _STATEMENTS
    return _library_of(value) if is_statement else ""


def _library_of(value: Any) -> str:
    return _LIBRARIES.get(_root_of(value), "")


def _root_of(value: Any) -> str:
    """Package of a module, class or function, "" for other objects."""
    module = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
    return module.partition(".")[0] if isinstance(module, str) else ""
