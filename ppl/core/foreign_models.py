"""Models of other libraries, found by their names alone: nothing of theirs is imported."""

import functools
import inspect
from collections.abc import Iterator
from typing import Any

_LIBRARIES = {"numpyro": "NumPyro", "pymc": "PyMC", "pyro": "Pyro"}
_STATEMENTS = ("sample", "Model")  # attributes of these modules by which their models are known


def describe_foreign(model: Any, function: Any, name: str) -> str:
    """Advice for a model of another library, "" for any other object.

    Args:
        model: The object that was given as a model.
        function: The innermost function of it.
        name: Its name, for the message.
    """
    library = _library_of(type(model)) or _library_in(function)
    if not library:
        return ""
    what = f"{name} is one of {library}" if callable(model) else f"a model of {library}"
    return (
        f"{what}: write it as a function of a random key, def model(key, *args), with "
        "ppl.sample(key, distribution, name=...) for each variable, and give data by "
        "ppl.condition(model, {name: data}); docs/models.md shows one beside the other"
    )


def _library_in(function: Any) -> str:
    """Name of the library whose statements a function makes, as far as its globals show."""
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
