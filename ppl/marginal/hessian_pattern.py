"""Sparsity pattern of the Hessian of a program, by its jaxpr and the numbers that are known.

Second derivatives come from nonlinear operations, each of which couples the variables that an
element of its result is made of. From the results back to the inputs, each operation passes on
which elements of its operands are live: a nonlinear operation on others leaves no trace, as behind
a product with a known 0. The pattern may have more entries than the Hessian, never fewer.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import Kind, array_primitive, passes_on
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.wirings import Call
from ppl.marginal.array_axes import axes_of
from ppl.marginal.moved_elements import MOVES

_MAX_PAIRS = 2**22  # of elements, in one operation
_MAX_PAIRS_OF_ROW = 64  # on average, where an operation has more pairs
_PRODUCTS = ("mul", "dot_general")

Shape = tuple[int, ...]


class TooDense(Exception):  # noqa: N818
    """Raised where an operation couples so many elements that the pattern is of no use."""


class PatternReader:
    """Reader of the pattern of a program.

    Args:
        jaxpr: The program.
        known: Known numbers of inputs, by the number of the input.
        starts: The number of the first variable of an input, by the number of the input.
        size: The number of variables.

    Attributes:
        has_unknown_index: Whether variables are read by an index whose numbers are not known.
    """

    def __init__(
        self, jaxpr: Jaxpr, known: Mapping[int, Any], starts: Mapping[int, int], size: int
    ):
        inner, _ = jaxprs.raw(jaxpr)
        self.has_unknown_index = False
        self._size = size
        self._values: list[_Value] = []
        inputs = [
            _Value(_shape(v), starts.get(i), known.get(i)) for i, v in enumerate(inner.invars)
        ]
        self._results = self._walk(jaxpr, inputs)

    def read(self, results: Collection[int]) -> Any:
        """The pattern of the Hessian of some results, a sparse matrix of booleans.

        Raises:
            TooDense: If an operation couples too many variables.
        """
        for value in self._values:
            value.live = np.zeros(math.prod(value.shape), bool)
        for i in results:
            self._results[i].mark(slice(None))
        found = scipy.sparse.csr_array((self._size, self._size), dtype=bool)
        for value in reversed(self._values):
            if value.made is not None and value.live.any():
                found = found + self._couple(value, value.made)
        return found

    @property
    def num_computed(self) -> int:
        """The number of elements of all arrays that are computed from variables."""
        return sum(math.prod(x.shape) for x in self._values)

    def _walk(self, jaxpr: Jaxpr, args: "Sequence[_Value]") -> "list[_Value]":
        inner, consts = jaxprs.raw(jaxpr)
        constants = [_Value(np.shape(c), known=c) for c in consts]
        env = dict(zip([*inner.constvars, *inner.invars], [*constants, *args], strict=True))

        def look_up(atom: Any) -> _Value:
            is_literal = isinstance(atom, jex.Literal)
            return _Value(np.shape(atom.val), known=atom.val) if is_literal else env[atom]

        for eqn in inner.eqns:
            outs = self._equation(eqn, list(map(look_up, eqn.invars)))
            env.update(zip(eqn.outvars, outs, strict=True))
        return list(map(look_up, inner.outvars))

    def _equation(self, eqn: jex.JaxprEqn, operands: "list[_Value]") -> "list[_Value]":
        wiring = wiring_of(eqn)
        if isinstance(wiring, Call):
            return self._walk(wiring.body, [operands[i] for i in wiring.operands])
        if passes_on(eqn):
            return operands[: len(eqn.outvars)]
        if any(x.depends for x in operands):
            made = [_Made(eqn, operands, i) for i in range(len(eqn.outvars))]
            self.has_unknown_index |= any(x.has_unknown_index for x in made)
            return list(map(self._make, eqn.outvars, made))
        if any(x.read is None for x in operands) or jax_core.acts(eqn):
            return [_Value(_shape(v)) for v in eqn.outvars]

        @functools.cache
        def evaluate() -> list[Any]:
            with jax.ensure_compile_time_eval():
                found = jax_core.bind(eqn, [x.read() for x in operands])  # pyright: ignore
            return [np.asarray(x) for x in found]

        return [
            _Value(_shape(v), read=lambda i=i: evaluate()[i]) for i, v in enumerate(eqn.outvars)
        ]

    def _make(self, v: Any, made: "_Made") -> "_Value":
        if not jnp.issubdtype(v.aval.dtype, jnp.inexact):
            return _Value(_shape(v))  # an integer or a boolean has no derivative
        self._values.append(_Value(_shape(v), made=made))
        return self._values[-1]

    def _couple(self, value: "_Value", made: "_Made") -> Any:
        """The pairs of variables that an operation couples; its operands are marked as live."""
        live = np.flatnonzero(value.live)
        for k, x in enumerate(made.operands):
            if x.depends:
                x.mark(made.incidence(k)[live].indices)
        if made.is_linear:
            return scipy.sparse.csr_array((self._size, self._size), dtype=bool)
        if made.is_product:
            outs, *sides = made.joint_indices
            is_live = value.live[outs]
            left, right = (
                self._rows(x)[side[is_live]] for x, side in zip(made.operands, sides, strict=True)
            )
            found = _pair(left, right)
            return found + found.T
        rows = self._rows(value)[live]
        return _pair(rows, rows)

    def _rows(self, value: "_Value") -> Any:
        """The variables that each element of a value is made of, a sparse matrix of booleans."""
        if value.rows is None:
            num = math.prod(value.shape)
            rows = scipy.sparse.csr_array((num, self._size), dtype=bool)
            if value.start is not None:
                own = value.start + np.arange(num)
                rows = _matrix(np.arange(num), own, (num, self._size))
            elif value.made is not None:
                for k, x in enumerate(value.made.operands):
                    if x.depends:
                        rows = rows + value.made.incidence(k) @ self._rows(x)
            value.rows = rows
        return value.rows


class _Value:
    """A value of a program, which depends on variables, or may be known.

    Attributes:
        shape: Its shape.
        start: The number of the first variable, if it is an array of variables.
        made: What made it, if it depends on variables.
        read: Gives its numbers; None if they are not known.
        live: The elements with a derivative of the results, flat.
        rows: The variables that each element is made of, once they were asked for.
    """

    def __init__(
        self,
        shape: Shape,
        start: int | None = None,
        known: Any = None,
        made: "_Made | None" = None,
        read: Callable[[], Any] | None = None,
    ):
        self.shape = shape
        self.start = start
        self.made = made
        self.read = read if known is None else lambda: known
        self.live = np.zeros(math.prod(shape), bool)
        self.rows: Any = None

    @property
    def depends(self) -> bool:
        """Whether it depends on variables."""
        return self.made is not None or self.start is not None

    def mark(self, elements: np.ndarray | slice) -> None:
        """Mark some elements as live."""
        self.live[elements] = True


class _Made:
    """A result of an operation, some of whose operands depend on variables."""

    def __init__(self, eqn: jex.JaxprEqn, operands: Sequence[_Value], number: int):
        self.operands = operands
        self._eqn = eqn
        self._number = number
        self._name = eqn.primitive.name
        self._kind = array_primitive(eqn).kind
        self._shape = _shape(eqn.outvars[number])
        self._incidence: dict[int, Any] = {}

    @property
    def is_linear(self) -> bool:
        """Whether the result is linear in all operands that depend on variables."""
        primitive = array_primitive(self._eqn)
        if primitive.is_multilinear and sum(x.depends for x in self.operands) == 1:
            return True
        _, others = primitive.split(self.operands)
        return not any(x.depends for x in others)

    @property
    def is_product(self) -> bool:
        """Whether the result is a sum of products of two operands that depend on variables."""
        return self._name in _PRODUCTS and all(x.depends for x in self.operands)

    @property
    def has_unknown_index(self) -> bool:
        """Whether elements are read or written at an index that is not known."""
        is_indexed = self._kind in (Kind.READ, Kind.WRITE)
        return is_indexed and any(x.read is None for x in self._indices)

    @property
    def _indices(self) -> Sequence[_Value]:
        if self._name in ("dynamic_slice", "gather"):
            return self.operands[1:]
        return self.operands[2:] if self._name == "dynamic_update_slice" else self.operands[1:2]

    def incidence(self, operand: int) -> Any:
        """The elements of an operand that each element of the result is made of."""
        if operand not in self._incidence:
            rows, columns = self._pairs(operand)
            shape = math.prod(self._shape), math.prod(self.operands[operand].shape)
            self._incidence[operand] = _matrix(rows, columns, shape)
        return self._incidence[operand]

    def _pairs(self, operand: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of an element of the result and an element of an operand."""
        if self._kind is Kind.MOVEMENT:
            filled = [np.broadcast_to(np.int64(-1), x.shape) for x in self.operands]
            filled[operand] = _indices_of(self.operands[operand].shape)
            return _sources(MOVES[self._name](self._eqn.params, *filled)[self._number])
        is_indexed = self._kind in (Kind.READ, Kind.WRITE)
        if is_indexed and not self.has_unknown_index:
            if self._kind is Kind.READ and operand == 0:
                return _sources(self._read())
            if self._kind is Kind.WRITE and array_primitive(self._eqn).linear is not None:
                return self._written(operand)
        if self._name in _PRODUCTS:
            outs, *sides = self.joint_indices
            return outs, sides[operand]
        places = axes_of(self._eqn)[operand]
        return _aligned(self._shape, self.operands[operand].shape, places)

    def _read(self) -> np.ndarray:
        """The element that each element of the result is read from."""
        with jax.ensure_compile_time_eval():
            indices = [jnp.asarray(x.read()) for x in self._indices]  # pyright: ignore
            source = jnp.asarray(_indices_of(self.operands[0].shape), jnp.int32)
            params = {**self._eqn.params}
            if "fill_value" in params:
                params["fill_value"] = None
            return np.asarray(
                jax_core.bind(self._eqn.replace(params=params), [source, *indices])[0]
            )

    def _written(self, operand: int) -> tuple[np.ndarray, np.ndarray]:
        """Pairs of an element of the result and an element of what was there or was written."""
        here = _indices_of(self._shape)
        is_slice = self._name == "dynamic_update_slice"
        if operand == 0:
            return here.ravel(), here.ravel()
        updates = self.operands[1 if is_slice else 2].shape
        params = self._eqn.params
        with jax.ensure_compile_time_eval():
            indices = [jnp.asarray(x.read()) for x in self._indices]  # pyright: ignore
            if is_slice:
                found = lax.dynamic_slice(jnp.asarray(here), indices, updates)
            else:

                def write(x: jax.Array) -> jax.Array:
                    return lax.scatter_add(
                        jnp.zeros(self._shape),
                        indices[0],
                        x,
                        params["dimension_numbers"],
                        mode=params["mode"],
                    )

                if math.prod(self._shape) >= _MAX_PAIRS:
                    raise TooDense
                # The number of the element that each update goes to, from 1; 0 for none.
                aval = jax.ShapeDtypeStruct(updates, float)
                (found,) = jax.linear_transpose(write, aval)(jnp.asarray(here + 1.0))
                found = found - 1
        columns, rows = _sources(np.rint(np.asarray(found)).astype(np.int64))
        return rows, columns

    @functools.cached_property
    def joint_indices(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each product in a sum of products, its element of the result and of both operands.

        Products with a known 0 are left out.
        """
        first, second = (x.shape for x in self.operands)
        if self._name == "mul":
            places = axes_of(self._eqn)
            outs, left = _aligned(self._shape, first, places[0])
            _, right = _aligned(self._shape, second, places[1])
        else:
            outs, left, right = self._products(first, second)
        keep = np.ones(outs.size, bool)
        for x, side in zip(self.operands, (left, right), strict=True):
            if not x.depends and x.read is not None:
                keep &= np.ravel(x.read())[side] != 0
        return outs[keep], left[keep], right[keep]

    def _products(self, first: Shape, second: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The products of `dot_general`; of a known operand, only its nonzero elements."""
        contract, batch = self._eqn.params["dimension_numbers"]
        shapes = first, second
        free = [
            [i for i in range(len(shape)) if i not in con and i not in bat]
            for shape, con, bat in zip(shapes, contract, batch, strict=True)
        ]
        known = next((k for k, x in enumerate(self.operands) if x.read is not None), None)
        side = 1 if known == 1 else 0
        if known is None:
            kept = np.arange(math.prod(shapes[side]))
        else:
            kept = np.flatnonzero(np.asarray(self.operands[known].read()))  # pyright: ignore
        other = 1 - side
        rest = tuple(shapes[other][i] for i in free[other])
        each = math.prod(rest)
        size = len(kept) * each
        if size > _MAX_PAIRS:
            raise TooDense
        mine = [np.repeat(x, each) for x in _unravel(kept, shapes[side])]
        theirs: dict[int, np.ndarray] = {
            axis: np.tile(x, len(kept))
            for axis, x in zip(free[other], _unravel(np.arange(each), rest), strict=True)
        }
        for pair in (contract, batch):
            theirs |= {j: mine[i] for i, j in zip(pair[side], pair[other], strict=True)}
        at: list[Any] = [None, None]
        at[side] = mine
        at[other] = [theirs[i] for i in range(len(shapes[other]))]
        out = [at[0][i] for i in batch[0]] + [at[k][i] for k in (0, 1) for i in free[k]]
        left, right = (_flatten(x, s, size) for x, s in zip(at, shapes, strict=True))
        return _flatten(out, self._shape, size), left, right


def _shape(v: Any) -> Shape:
    return tuple(getattr(v.aval, "shape", ()))


def _indices_of(shape: Shape) -> np.ndarray:
    return np.arange(math.prod(shape)).reshape(shape)


def _unravel(flat: np.ndarray, shape: Shape) -> Sequence[np.ndarray]:
    """The index of elements along each axis, from their flat indices."""
    return np.unravel_index(flat, shape) if shape else ()


def _flatten(index: Sequence[np.ndarray], shape: Shape, size: int) -> np.ndarray:
    """Flat indices of elements, from their index along each axis."""
    found = np.zeros(size, np.int64)
    for x, n in zip(index, shape, strict=True):
        found = found * n + x
    return found


def _sources(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of an element and its source, where it has one."""
    flat = np.ravel(found)
    rows = np.flatnonzero(flat >= 0)
    return rows, flat[rows]


def _aligned(
    shape: Shape, operand: Shape, places: Sequence[int | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of an element of a result and of an operand that agree along the axes that are kept.

    Args:
        shape: The shape of the result.
        operand: The shape of the operand.
        places: For each axis of the operand, its axis in the result; None if it is not kept.
    """
    gone = [i for i, place in enumerate(places) if place is None]
    joint = (*shape, *(operand[i] for i in gone))
    size = math.prod(joint)
    if size > _MAX_PAIRS:
        raise TooDense
    index = _unravel(np.arange(size), joint)
    own = [index[len(shape) + gone.index(i) if p is None else p] for i, p in enumerate(places)]
    return _flatten(index[: len(shape)], shape, size), _flatten(own, operand, size)


def _matrix(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    """The sparse matrix of booleans with some entries."""
    ones = np.ones(len(rows), bool)
    return scipy.sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()


def _pair(left: Any, right: Any) -> Any:
    """The pairs of variables of which one is in a row on the left, one in that row on the right."""
    counts = np.diff(left.indptr).astype(float) @ np.diff(right.indptr)
    if counts > max(_MAX_PAIRS, _MAX_PAIRS_OF_ROW * left.shape[0]):
        raise TooDense
    return left.T.tocsr() @ right
