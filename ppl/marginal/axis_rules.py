"""Rules for the axes of arrays: for each primitive, which elements of its operands it reads.

A rule `(eqn, operands)` gives the dependences of the results, of those of the operands.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.marginal.element_dependence import Indexed, Place, Uses, join, mix, move_axes
from ppl.marginal.moved_elements import MOVES, move_elements
from ppl.marginal.values import Value
from ppl.marginal.written_elements import WRITES, write_elements

Rule = Callable[[jex.JaxprEqn, Sequence[Value]], list[Uses]]

BY_ELEMENT = frozenset(
    [
        *("abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2"),
        *("atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "clamp", "convert_element_type"),
        *("cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2"),
        *("expm1", "floor", "ge", "gt", "igamma", "igammac", "imag", "integer_pow", "is_finite"),
        *("le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg"),
        *("nextafter", "not", "or", "polygamma", "population_count", "pow", "real"),
        *("reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n"),
        *("shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh"),
        *("sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "tangent_of_sow", "to_edtype"),
        *("xor", "zeta"),
    ]
)
_REDUCES = frozenset(
    [
        *("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"),
        *("reduce_xor", "argmax", "argmin"),
    ]
)
_ALONG_ONE_AXIS = {"cumsum": "axis", "cumprod": "axis", "cummax": "axis", "cummin": "axis"}
_ALONG_ONE_AXIS |= {"cumlogsumexp": "axis", "sort": "dimension"}
_OF_MATRICES = frozenset(
    [
        *("cholesky", "lu", "eigh", "qr", "triangular_solve", "svd", "householder_product"),
        *("cholesky_in_parts", "triangular_solve_in_parts", "eigh_in_parts"),
    ]
)


def apply_rule(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    """The dependences of the results of an equation without inner programs."""
    num_outs = len(eqn.outvars)
    if not any(value.uses for value in operands):
        return [{}] * num_outs
    name = eqn.primitive.name
    if jax_core.passes_on(eqn):
        return [value.uses for value in operands[:num_outs]]
    if name in BY_ELEMENT:
        shape = tuple(eqn.outvars[0].aval.shape)  # pyright: ignore[reportAttributeAccessIssue]
        return [join(*(_repeat(value, shape) for value in operands))] * num_outs
    if name in _REDUCES:
        return [_drop(operands[0], eqn.params["axes"])]
    if name in _ALONG_ONE_AXIS:
        axis = eqn.params[_ALONG_ONE_AXIS[name]]
        uses = join(*(value.uses for value in operands))
        ndim = len(operands[0].shape)
        return [move_axes(uses, [i if i != axis else None for i in range(ndim)])] * num_outs
    if name in _OF_MATRICES:
        moved = [_keep_batch(value) for value in operands]
        return [join(*moved)] * num_outs
    if name in _RULES:
        return _RULES[name](eqn, operands)
    return [join(*(mix(value.uses) for value in operands))] * num_outs


def _repeat(value: Value, shape: tuple[int, ...]) -> Uses:
    """Dependences of an operand by element, whose axes of size 1 are repeated."""
    if value.shape in (shape, ()):
        return value.uses
    pairs = zip(value.shape, shape, strict=True)
    return move_axes(value.uses, [i if n == m else None for i, (n, m) in enumerate(pairs)])


def _drop(value: Value, axes: Sequence[int]) -> Uses:
    """Dependences where some axes are reduced."""
    kept = iter(range(len(value.shape)))
    places = [None if i in axes else next(kept) for i in range(len(value.shape))]
    return move_axes(value.uses, places)


def _keep_batch(value: Value) -> Uses:
    """Dependences where all axes but the last two stay."""
    ndim = len(value.shape)
    return move_axes(value.uses, [i if i < ndim - 2 else None for i in range(ndim)])


def _dot(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    contract, batch = eqn.params["dimension_numbers"]
    start, found = len(batch[0]), []
    for value, con, bat in zip(operands, contract, batch, strict=True):
        free = [i for i in range(len(value.shape)) if i not in con and i not in bat]
        places: list[int | None] = [None] * len(value.shape)
        for i, axis in enumerate(bat):
            places[axis] = i
        for i, axis in enumerate(free):
            places[axis] = start + i
        start += len(free)
        found.append(move_axes(value.uses, places))
    return [join(*found)]


def _dynamic_slice(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, sizes = operands[0], eqn.params["slice_sizes"]
    at = join(*(mix(value.uses) for value in operands[1:]))
    places: list[Place] = list(range(len(x.shape)))
    for axis, (size, start) in enumerate(zip(sizes, operands[1:], strict=True)):
        if size != x.shape[axis]:
            places[axis] = None
            if not start.uses and start.read is not None:
                read = functools.partial(_read_slice, start.read, size, x.shape[axis])
                places[axis] = Indexed((axis,), ("from", start.term, size), read)
    return [join(move_axes(x.uses, places), at)]


def _read_slice(read_start: Callable[[], Any], size: int, length: int) -> Any:
    """Indices of a slice, whose start JAX clips so that the slice is within the array."""
    return jnp.clip(read_start(), 0, length - size) + jnp.arange(size)


def _gather(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, index = operands
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    num_out = len(getattr(eqn.outvars[0].aval, "shape", ()))
    offsets = list(numbers.offset_dims)
    batch = [i for i in range(num_out) if i not in offsets]  # axes of the index array, in order
    uses_of_index = move_axes(index.uses, [*batch, None])
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    places: list[Place] = [None] * len(x.shape)
    kept = [i for i in range(len(x.shape)) if i not in gone]
    for i, out in zip(kept, offsets, strict=True):
        places[i] = out if sizes[i] == x.shape[i] else None
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    for i, j in pairs:
        places[i] = batch[j]
    is_known = index.read is not None and not index.uses
    if is_known:
        for column, axis in enumerate(numbers.start_index_map):
            if sizes[axis] == 1 and x.shape[axis] > 1:
                places[axis] = _read_column(index, column, tuple(batch), x.shape[axis])
    uses = move_axes(x.uses, places)
    return [uses if is_known else join(uses, uses_of_index)]


def _read_column(index: Value, column: int, axes: tuple[int, ...], size: int) -> Indexed:
    """The index along one axis, out of an array whose last axis is the axes that are indexed."""
    at = index.read
    read = lambda: jnp.clip(at()[..., column], 0, size - 1)  # noqa: E731  # pyright: ignore
    term = index.term if index.shape[-1] == 1 else (index.term, column)
    if index.columns is not None:
        term = index.columns[column]
    return Indexed(axes, ("gather", term), read)


_RULES: dict[str, Rule] = {
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    **dict.fromkeys(MOVES, move_elements),
    **dict.fromkeys(WRITES, write_elements),
}
