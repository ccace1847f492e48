"""Known values of a program, evaluated by NumPy where something asks for them.

A value is known if it follows from arguments and constants. JAX would compile a program for each;
NumPy takes microseconds. A primitive without a rule gives an unknown value.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from ppl.harvest import jax_core

READS = ("gather", "dynamic_slice")


class UnknownValueError(Exception):
    """A value cannot be evaluated."""


class KnownValue:
    """Array that is known, perhaps one for each step of some loops, whose axes are in front.

    Attributes:
        loops: The loops, outermost first.
        operands: The values that it is made of.
    """

    loops: tuple[int, ...] = ()
    operands: "Sequence[KnownValue]" = ()

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The array; an axis of a loop may have size 1."""
        raise UnknownValueError


class GivenArray(KnownValue):
    """Argument or constant."""

    def __init__(self, value: Any):
        self.value = value

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The array, copied from its device."""
        if jax_core.is_traced(self.value):
            raise UnknownValueError
        if not getattr(self.value, "is_fully_addressable", True):
            raise UnknownValueError
        return np.asarray(self.value)


class LoopRow(KnownValue):
    """One row of an array for each step of a loop."""

    def __init__(self, of: KnownValue, loop: int):
        self.loops = (*of.loops, loop)
        self.operands = (of,)

    @functools.cached_property
    def array(self) -> np.ndarray:
        """All rows."""
        return self.operands[0].array


class StackedRows(KnownValue):
    """The values in all steps of a loop, stacked along a new axis in front."""

    def __init__(self, of: KnownValue, loop: int, length: int):
        self._is_row = loop in of.loops
        self._length = length
        self.loops = tuple(x for x in of.loops if x != loop)
        self.operands = (of,)

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The stacked array."""
        array = self.operands[0].array
        at = len(self.loops)
        if not self._is_row:
            array = np.expand_dims(array, at)
        shape = (*array.shape[:at], self._length, *array.shape[at + 1 :])
        return np.broadcast_to(array, shape)


class MadeByEquation(KnownValue):
    """Result of an equation."""

    def __init__(self, eqn: jex.JaxprEqn, operands: Sequence[KnownValue]):
        self.eqn = eqn
        self.operands = operands
        self.loops = tuple(sorted({loop for x in operands for loop in x.loops}))

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The result by NumPy."""
        rule = _RULES.get(self.eqn.primitive.name)
        if rule is None and (self.eqn.primitive.name not in READS or self.loops):
            raise UnknownValueError
        arrays = [self._spread(x) for x in self.operands]
        if rule is None:
            return self._by_jax(arrays)
        with np.errstate(all="ignore"):
            return rule(self.eqn, len(self.loops), arrays)

    def _spread(self, x: KnownValue) -> np.ndarray:
        """An operand with an axis for each loop of the result."""
        array = x.array
        sizes = dict(zip(x.loops, array.shape, strict=False))
        lead = [sizes.get(loop, 1) for loop in self.loops]
        return array.reshape([*lead, *array.shape[len(x.loops) :]])

    def _by_jax(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The result of a read of known numbers, as of a table of groups, outside of loops."""
        (found,) = jax_core.bind(self.eqn, list(map(jax.numpy.asarray, arrays)))
        return np.asarray(found)


class LastEntry(KnownValue):
    """One entry along the last axis."""

    def __init__(self, of: KnownValue, i: int):
        self._i = i
        self.loops = of.loops
        self.operands = (of,)

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The entries."""
        return self.operands[0].array[..., self._i]


class LiteralNumber(KnownValue):
    """Number in the program itself."""

    def __init__(self, literal: jex.Literal):
        self._literal = literal

    @functools.cached_property
    def array(self) -> np.ndarray:
        """The number."""
        return np.asarray(self._literal.val, jax_core.dtype_of(self._literal))


def find_sources(value: KnownValue) -> Iterator[GivenArray]:
    """The arguments and constants that a value is made of, apart from masks."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if isinstance(x, GivenArray) and not _is_mask(x.value):
            yield x
        stack.extend(x.operands)


def _is_mask(value: Any) -> bool:
    return str(getattr(value, "dtype", "")) == "bool"


def is_wrapped(value: KnownValue) -> bool:
    """Whether negative indices have been counted from the end."""
    while len(value.operands) == 1:
        value = value.operands[0]
    return isinstance(value, MadeByEquation) and value.eqn.primitive.name == "select_n"


# Rules: the result of a primitive for arrays with `lead` axes of loops in front.

Rule = Callable[[jex.JaxprEqn, int, Sequence[np.ndarray]], np.ndarray]


def _pad(array: np.ndarray, lead: int, rank: int) -> np.ndarray:
    """A scalar with axes of size 1, so that the axes of loops are in front."""
    missing = lead + rank - array.ndim
    return array.reshape([*array.shape[:lead], *[1] * missing, *array.shape[lead:]])


def _elementwise(fn: Callable[..., Any]) -> Rule:
    def rule(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
        rank = len(jax_core.shape_of(eqn.outvars[0]))
        return np.asarray(fn(*(_pad(x, lead, rank) for x in arrays)))

    return rule


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotient of integers, rounded toward zero."""
    if x.dtype.kind not in "iu" or not np.all(y):
        raise UnknownValueError
    return (np.sign(x) * np.sign(y) * (np.abs(x) // np.abs(y))).astype(x.dtype)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind not in "iu" or not np.all(y):
        raise UnknownValueError
    return np.fmod(x, y)


def _select(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.choose(which.astype(int), cases)


def _convert(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0].astype(eqn.params["new_dtype"])


def _broadcast(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    if len(arrays) != 1:
        raise UnknownValueError
    (array,) = arrays
    shape = eqn.params["shape"]
    to = [1] * len(shape)
    for axis, size in zip(eqn.params["broadcast_dimensions"], array.shape[lead:], strict=True):
        to[axis] = size
    front = array.shape[:lead]
    return np.broadcast_to(array.reshape([*front, *to]), [*front, *shape])


def _reshape(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    if len(arrays) != 1 or eqn.params.get("dimensions") is not None:
        raise UnknownValueError
    return arrays[0].reshape([*arrays[0].shape[:lead], *jax_core.shape_of(eqn.outvars[0])])


def _squeeze(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0].squeeze(tuple(lead + i for i in eqn.params["dimensions"]))


def _concatenate(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    front = np.broadcast_shapes(*(x.shape[:lead] for x in arrays))
    full = [np.broadcast_to(x, [*front, *x.shape[lead:]]) for x in arrays]
    return np.concatenate(full, lead + eqn.params["dimension"])


def _slice(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    starts = eqn.params["start_indices"]
    strides = eqn.params["strides"] or [1] * len(starts)
    each = map(slice, starts, eqn.params["limit_indices"], strides)
    return arrays[0][(*[slice(None)] * lead, *each)]


def _transpose(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0].transpose([*range(lead), *(lead + i for i in eqn.params["permutation"])])


def _reverse(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.flip(arrays[0], tuple(lead + i for i in eqn.params["dimensions"]))


def _iota(eqn: jex.JaxprEqn, lead: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
    shape = eqn.params["shape"]
    along = eqn.params["dimension"]
    to = [shape[along] if i == along else 1 for i in range(len(shape))]
    counted = np.arange(math.prod(to), dtype=eqn.params["dtype"])
    return np.broadcast_to(counted.reshape(to), shape)


_RULES: Mapping[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "convert_element_type": _convert,
    "iota": _iota,
    "reshape": _reshape,
    "rev": _reverse,
    "slice": _slice,
    "squeeze": _squeeze,
    "transpose": _transpose,
    **{
        name: _elementwise(fn)
        for name, fn in {
            "add": operator.add,
            "and": operator.and_,
            "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
            "copy": lambda x: x,
            "copy_p": lambda x: x,
            "div": _divide,
            "eq": operator.eq,
            "ge": operator.ge,
            "gt": operator.gt,
            "le": operator.le,
            "lt": operator.lt,
            "max": np.maximum,
            "min": np.minimum,
            "mul": operator.mul,
            "ne": operator.ne,
            "neg": operator.neg,
            "not": np.invert,
            "or": operator.or_,
            "rem": _remainder,
            "select_n": _select,
            "sign": np.sign,
            "sub": operator.sub,
        }.items()
    },
}
