"""Primitives of JAX that compute arrays: one record for each, which all analyses read.

A record says which elements of the operands an element of a result is made of, and in which
operands the result is linear. Without a record, each element of a result is assumed to depend on
all elements of all operands, in any way.
"""

import dataclasses
import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from jax.extend import core as jex

_T = TypeVar("_T")


class Kind(enum.Enum):
    """The elements that an element of a result is made of."""

    IDENTITY = "the same element of the first operand; the result is that operand"
    BY_ELEMENT = "the same element of each operand, whose axes of size 1 are repeated"
    REDUCTION = "all elements along some axes"
    CUMULATIVE = "the elements up to it along one axis"
    SORT = "all elements along one axis"
    PRODUCT = "a row of one operand and a column of another"
    MATRIX = "all elements along the last two axes"
    MOVEMENT = "one element, at a place that the parameters tell"
    READ = "one element, at a place that an operand tells"
    WRITE = "one element of an array, or what is written over it"
    MIXTURE = "any elements"


ALL = slice(None)


@dataclasses.dataclass(frozen=True)
class ArrayPrimitive:
    """A primitive: what its results are made of, and which operands they are linear in.

    Attributes:
        kind: What an element of a result is made of.
        linear: The operands in which the results are jointly linear while the others are constant;
            None if there are none.
        is_multilinear: Whether the results are linear in each operand while the others are
            constant.
    """

    kind: Kind = Kind.MIXTURE
    linear: slice | None = None
    is_multilinear: bool = False

    def split(self, operands: Sequence[_T]) -> tuple[list[_T], list[_T]]:
        """The operands that the results are linear in, and the others."""
        places = range(len(operands))[self.linear or slice(0)]
        others = (x for i, x in enumerate(operands) if i not in places)
        return [operands[i] for i in places], list(others)


def _rows(
    kind: Kind, names: str, linear: slice | None = None, *, is_multilinear: bool = False
) -> Iterator[tuple[str, ArrayPrimitive]]:
    return ((name, ArrayPrimitive(kind, linear, is_multilinear)) for name in names.split())


_FIRST = slice(1)
_LAST = slice(-1, None)
_FIRST_TWO = slice(2)
_ALL_BUT_FIRST = slice(1, None)  # the first chooses among the others
_FIRST_AND_THIRD = slice(0, None, 2)  # the second is an index

ARRAY_PRIMITIVES: Mapping[str, ArrayPrimitive] = dict(
    itertools.chain(
        _rows(Kind.IDENTITY, "copy", ALL),
        _rows(Kind.IDENTITY, "device_put name optimization_barrier pin pvary random_clone reshard"),
        _rows(Kind.IDENTITY, "sharding_constraint tie"),
        _rows(Kind.BY_ELEMENT, "add add_any complex conj convert_element_type imag neg real", ALL),
        _rows(Kind.BY_ELEMENT, "reduce_precision sub", ALL),
        _rows(Kind.BY_ELEMENT, "div", _FIRST),
        _rows(Kind.BY_ELEMENT, "select_n", _ALL_BUT_FIRST),
        _rows(Kind.BY_ELEMENT, "mul", is_multilinear=True),
        _rows(Kind.BY_ELEMENT, "eq ge gt is_finite le lt ne and not or xor clz population_count"),
        _rows(Kind.BY_ELEMENT, "shift_left shift_right_arithmetic shift_right_logical"),
        _rows(Kind.BY_ELEMENT, "abs ceil clamp floor max min mulhi nextafter rem round sign"),
        _rows(Kind.BY_ELEMENT, "cbrt exp exp2 expm1 integer_pow log log1p log2 logistic pow rsqrt"),
        _rows(Kind.BY_ELEMENT, "one_minus_square sqrt square acos acosh asin asinh atan atan2"),
        _rows(Kind.BY_ELEMENT, "atanh cos cosh sin sinh tan tanh bessel_i0e bessel_i1e digamma"),
        _rows(Kind.BY_ELEMENT, "erf erf_inv erfc igamma igamma_grad_a igammac lgamma polygamma"),
        _rows(Kind.BY_ELEMENT, "regularized_incomplete_beta zeta"),
        # Derivatives stop here or are held back, so the results are linear in nothing.
        _rows(Kind.BY_ELEMENT, "stop_gradient tangent_of_sow to_edtype"),
        _rows(Kind.REDUCTION, "reduce_sum", ALL),
        _rows(Kind.REDUCTION, "reduce_max reduce_min reduce_prod reduce_and reduce_or reduce_xor"),
        _rows(Kind.REDUCTION, "argmax argmin"),
        _rows(Kind.CUMULATIVE, "cumsum", ALL),
        _rows(Kind.CUMULATIVE, "cumlogsumexp cummax cummin cumprod"),
        _rows(Kind.SORT, "sort"),
        _rows(Kind.PRODUCT, "dot_general", is_multilinear=True),
        _rows(Kind.MATRIX, "triangular_solve triangular_solve_in_parts", _LAST),
        _rows(Kind.MATRIX, "cholesky cholesky_in_parts eigh eigh_in_parts householder_product lu"),
        _rows(Kind.MATRIX, "qr svd"),
        _rows(Kind.MOVEMENT, "broadcast_in_dim concatenate pad reshape rev slice split", ALL),
        _rows(Kind.MOVEMENT, "squeeze stack tile transpose unstack", ALL),
        _rows(Kind.READ, "dynamic_slice gather", _FIRST),
        _rows(Kind.WRITE, "dynamic_update_slice", _FIRST_TWO),
        _rows(Kind.WRITE, "scatter scatter-add scatter-sub", _FIRST_AND_THIRD),
        _rows(Kind.WRITE, "scatter-max scatter-min scatter-mul"),
        _rows(Kind.MIXTURE, "bcoo_todense bcsr_todense fft psum psum_invariant", ALL),
        _rows(Kind.MIXTURE, "reduce_window_sum", ALL),
        _rows(Kind.MIXTURE, "custom_linear_solve tridiagonal_solve", _LAST),
        # Indices of sparse arrays are integers, so constant or no polynomial.
        _rows(Kind.MIXTURE, "bcoo_dot_general bcoo_dot_general_sampled", is_multilinear=True),
        _rows(Kind.MIXTURE, "bcsr_dot_general conv_general_dilated", is_multilinear=True),
    )
)
_UNKNOWN = ArrayPrimitive()


def array_primitive(eqn: jex.JaxprEqn) -> ArrayPrimitive:
    """The record of an equation's primitive."""
    return ARRAY_PRIMITIVES.get(eqn.primitive.name, _UNKNOWN)


def passes_on(eqn: jex.JaxprEqn) -> bool:
    """Whether an equation returns its first operands unchanged; it may still mark them for JAX."""
    return array_primitive(eqn).kind is Kind.IDENTITY
