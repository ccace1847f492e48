"""Factors: tables of log weights with labeled axes, their products and sums.

An axis is labeled by a plate, along which elements are independent given the variables, or by a
variable, whose states run along the axis.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Plate = Hashable


@dataclasses.dataclass(frozen=True)
class Variable:
    """A site, or one element of it: `element` is its index along the axes that are not plates."""

    path: tuple[Hashable, ...]
    element: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Gather:
    """An axis of a variable, read at indices that vary over other plates.

    Attributes:
        target: The plate of the variable.
        plates: The plates that the indices vary over.
        term: A key, equal for equal indices.
        size: The number of elements of the variable along the axis.
        read: Gives the array of indices.
    """

    target: Plate
    plates: tuple[Plate, ...]
    term: Hashable
    size: int
    read: Callable[[], Any] = dataclasses.field(compare=False)


@dataclasses.dataclass(frozen=True)
class Local:
    """A variable as a factor reads it: some steps earlier in a chain, or at indices."""

    variable: Variable
    lag: int = 0
    gathers: tuple[Gather, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class LogFactor:
    """A table of log weights, with a label for each axis: a `Local` or a plate."""

    labels: tuple[Any, ...]
    table: Any

    @functools.cached_property
    def locals(self) -> tuple[Local, ...]:
        """The variables of the factor."""
        return tuple(x for x in self.labels if isinstance(x, Local))

    @functools.cached_property
    def plates(self) -> tuple[Plate, ...]:
        """The plates of the factor."""
        return tuple(x for x in self.labels if not isinstance(x, Local))

    def over(self, labels: Sequence[Any]) -> Any:
        """The table with an axis for each label, of size 1 for a label that the factor lacks."""
        order = [self.labels.index(x) for x in labels if x in self.labels]
        table = jnp.transpose(self.table, order)
        return jnp.expand_dims(table, [i for i, x in enumerate(labels) if x not in self.labels])


class EliminationError(ValueError):
    """Error for a sum that is too large, or of a form that has no exact elimination."""


def show_count(num_states: int) -> str:
    """A number of states in words."""
    return "astronomically many" if num_states >= 2**62 else str(num_states)


def multiply(factors: Sequence[LogFactor]) -> LogFactor:
    """The product of factors, over the union of their labels."""
    labels = unite_labels(factors)
    total = factors[0].over(labels)
    for factor in factors[1:]:
        total = total + factor.over(labels)
    return LogFactor(labels, total)


def unite_labels(factors: Sequence[LogFactor]) -> tuple[Any, ...]:
    """The union of the labels of factors: locals, then plates."""
    sizes = {x: n for f in factors for x, n in zip(f.labels, f.table.shape, strict=True)}
    labels = dict.fromkeys(x for f in factors for x in f.locals)
    return with_longest_last(labels | dict.fromkeys(p for f in factors for p in f.plates), sizes)


def with_longest_last(labels: Iterable[Any], sizes: Mapping[Any, int]) -> tuple[Any, ...]:
    """Labels in their order, but for the longest axis, which comes last.

    XLA loops over the last axis inside of all others, and a short loop is not vectorized.
    """
    labels = list(labels)
    if labels:
        longest = max(reversed(labels), key=lambda x: sizes[x])
        labels.remove(longest)
        labels.append(longest)
    return tuple(labels)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log_sum_exp(x: Any, axis: int = -1) -> Any:
    """The log of the sum of exponentials over an axis; gradients are 0 at -inf."""
    return _scaled_sum(x, axis)[0]


def _scaled_sum(x: Any, axis: int) -> tuple[Any, Any, Any]:
    """Parts of `log_sum_exp`: the result, the terms over their largest, and the sum of these.

    A sum of 0 is returned as 1, for divisions.
    """
    top = lax.stop_gradient(jnp.max(x, axis))
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    terms = jnp.exp(x - jnp.expand_dims(top, axis))
    total = jnp.sum(terms, axis)
    is_zero = total == 0
    total = jnp.where(is_zero, 1.0, total)
    return jnp.where(is_zero, -jnp.inf, jnp.log(total) + top), terms, total


@log_sum_exp.defjvp
def _log_sum_exp_jvp(axis: int, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    """The tangent as a weighted mean, by the terms of the forward pass."""
    value, terms, total = _scaled_sum(primals[0], axis)
    weights = terms / jnp.expand_dims(total, axis)
    return value, jnp.sum(weights * tangents[0], axis)


def sampled_log_sum_exp(x: Any, key: jax.Array) -> Any:
    """`log_sum_exp`, with the gradient of one state drawn in proportion to its weight.

    The gradient of a sum with respect to a table of log weights is then a joint draw of its
    variables, each as a one-hot vector.
    """
    value = lax.stop_gradient(x)
    drawn = jnp.argmax(value + jax.random.gumbel(key, x.shape, x.dtype), -1)[..., None]
    chosen = jnp.take_along_axis(x, drawn, -1)[..., 0]
    chosen = jnp.where(jnp.isfinite(chosen), chosen, 0.0)
    return log_sum_exp(value) + chosen - lax.stop_gradient(chosen)


def largest_log(x: Any) -> Any:
    """The largest log weight over the last axis, with the gradient of one state that has it.

    Of several states it is the first. The gradient of a largest product with respect to a table of
    log weights is then one of the most probable joint states, each variable as a one-hot vector.
    """
    first = jnp.argmax(lax.stop_gradient(x), -1)[..., None]
    return jnp.take_along_axis(x, first, -1)[..., 0]
