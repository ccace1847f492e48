"""Models as pytrees: any callable becomes a pytree of its data, with a name for errors."""

import dataclasses
import functools
import reprlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
from jax.tree_util import Partial

from ppl.common.arguments import Arguments
from ppl.core.foreign_models import describe_foreign
from ppl.harvest.function_equality import has_hash

Model = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def as_pytree(model: Model) -> Model:
    """A model as a pytree of its data, which can be an argument of a jitted function."""
    check_callable(model)
    if jax.tree_util.all_leaves([model]):
        return Partial(model if has_hash(model) else UnhashableModel(model))
    if all(map(_is_data, jax.tree.leaves(model))):
        return model
    arguments, data = Arguments.split((model,), {})
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
    """Decorator: an error of a function of a model says if the model is of another library."""

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


def _describe_foreign(model: Any) -> str:
    return describe_foreign(model, innermost(model), name_of(model))


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
        """Whether both wrap the same object."""
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


def innermost(model: Model) -> Model:
    """The function that a modeler wrote, without transformations such as `condition`."""
    while isinstance(model := _strip_jit(unwrap_model(model)), Partial):
        model = model.args[0] if model.args and callable(model.args[0]) else model.func
    return model.__wrapped__ if isinstance(model, UnhashableModel) else model


def name_of(model: Model) -> str:
    """A model's name, for errors."""
    model = innermost(model)
    return f"model {getattr(model, '__name__', type(model).__name__)!r}"


def _strip_jit(model: Model) -> Model:
    """The function inside of jax.jit and its kin, if it is a transformed model."""
    inner = getattr(model, "__wrapped__", None)
    return inner if isinstance(inner, Partial) else model
