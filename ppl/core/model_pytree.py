"""Models as they are given: any callable, as a pytree of its data, with a name for errors."""

import dataclasses
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.tree_util import Partial

from ppl.common.arguments import Arguments
from ppl.harvest.function_equality import has_hash

Model = Callable[..., Any]


def as_pytree(model: Model) -> Model:
    """A model whose data are the leaves of a pytree, to be an argument of a jitted function."""
    check_callable(model)
    if jax.tree_util.all_leaves([model]):
        return Partial(model if has_hash(model) else Itself(model))
    if all(map(_is_data, jax.tree.leaves(model))):
        return model
    arguments, data = Arguments.split((model,), {})
    return Partial(OfParts(arguments), data)


def check_callable(model: Model) -> None:
    """An error if a model is no function."""
    if not callable(model):
        given = reprlib.repr(model)
        raise TypeError(f"expected a model, a function of a random key, got {given}.")


def _is_data(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)


@dataclasses.dataclass(frozen=True, eq=False)
class Itself:
    """A model that has no hash, and equals itself alone."""

    __wrapped__: Model

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.__wrapped__ is other.__wrapped__

    def __hash__(self) -> int:
        return id(self.__wrapped__)


@dataclasses.dataclass(frozen=True)
class OfParts:
    """A model whose leaves are not all data, such as a module with functions, without those."""

    arguments: Arguments

    def whole(self, data: Sequence[Any]) -> Model:
        (model,), _ = self.arguments.join(data)
        return model

    def __call__(self, data: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        return self.whole(data)(*args, **kwargs)


def bare(model: Model) -> Model:
    """A model as it was given."""
    func = model.func if isinstance(model, Partial) else None
    return func.whole(*model.args) if isinstance(func, OfParts) else model


def name_of(model: Model) -> str:
    """A model's name, for errors."""
    while isinstance(model := _unjitted(bare(model)), Partial):
        model = model.args[0] if model.args and callable(model.args[0]) else model.func
    model = model.__wrapped__ if isinstance(model, Itself) else model
    return f"model {getattr(model, '__name__', type(model).__name__)!r}"


def _unjitted(model: Model) -> Model:
    """What jax.jit and its kin were given, where that is a transformed model."""
    inner = getattr(model, "__wrapped__", None)
    return inner if isinstance(inner, Partial) else model
