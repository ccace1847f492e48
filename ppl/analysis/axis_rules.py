"""Rules for the axes of arrays: for each primitive, which elements of its operands it reads.

A rule `(eqn, operands)` gives the dependences of the results, of those of the operands.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax.extend import core as jex

from ppl.analysis.element_dependence import Indexed, Uses, index_along, join, mix, move_axes
from ppl.analysis.values import Value
from ppl.harvest import _jax

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
        *("cholesky_in_parts", "triangular_solve_in_parts"),
    ]
)


def apply_rule(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    """The dependences of the results of an equation without inner programs."""
    num_outs = len(eqn.outvars)
    if not any(value.uses for value in operands):
        return [{}] * num_outs
    name = eqn.primitive.name
    if _jax.passes_on(eqn):
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


def _broadcast(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, shape = operands[0], eqn.params["shape"]
    places = [
        b if x.shape[i] == shape[b] else None
        for i, b in enumerate(eqn.params["broadcast_dimensions"])
    ]
    return [move_axes(x.uses, places)]


def _reshape(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, new = operands[0].shape, eqn.params["new_sizes"]
    ends = {}
    for j in range(len(new)):
        if new[j] != 1:
            ends[math.prod(new[:j]), new[j]] = j
    ones = [j for j in range(len(new)) if new[j] == 1]
    places = [ends.get((math.prod(x[:i]), n)) for i, n in enumerate(x)]
    if eqn.params.get("dimensions") is not None:
        places = [None] * len(x)
    # An axis of size 1 goes to any free axis of size 1.
    places = [
        (ones.pop(0) if n == 1 and ones else place) for place, n in zip(places, x, strict=True)
    ]
    return [move_axes(operands[0].uses, places)]


def _transpose(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    permutation = list(eqn.params["permutation"])
    return [move_axes(operands[0].uses, [permutation.index(i) for i in range(len(permutation))])]


def _squeeze(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    return [_drop(operands[0], eqn.params["dimensions"])]


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


def _concatenate(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    axis = eqn.params["dimension"]
    found = []
    for value in operands:
        places = [i if i != axis else None for i in range(len(value.shape))]
        found.append(move_axes(value.uses, places))
    return [join(*found)]


def _stack(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    axis, ndim = eqn.params["axis"], len(operands[0].shape)
    places = [i if i < axis else i + 1 for i in range(ndim)]
    return [join(*(move_axes(value.uses, places) for value in operands))]


def _slice(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, params = operands[0], eqn.params
    uses = x.uses
    steps = params["strides"] or (1,) * len(x.shape)
    same = list(range(len(x.shape)))
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    for axis, (start, limit, step) in enumerate(bounds):
        if (start, limit, step) != (0, x.shape[axis], 1):
            read = lambda start=start, limit=limit, step=step: jnp.arange(start, limit, step)  # noqa: E731
            index = Indexed((axis,), ("range", start, limit, step), read)
            uses = index_along(uses, {axis: index}, [i if i != axis else None for i in same])
    return [uses]


def _dynamic_slice(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, sizes = operands[0], eqn.params["slice_sizes"]
    at = join(*(mix(value.uses) for value in operands[1:]))
    uses = x.uses
    for axis, (size, start) in enumerate(zip(sizes, operands[1:], strict=True)):
        if size != x.shape[axis]:
            places = [i if i != axis else None for i in range(len(x.shape))]
            if not start.uses and start.read is not None:
                read = lambda at=start.read, size=size: at() + jnp.arange(size)  # noqa: E731
                index = Indexed((axis,), ("from", start.term, size), read)
                uses = index_along(uses, {axis: index}, places)
            else:
                uses = move_axes(uses, places)
    return [join(uses, at)]


def _gather(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, index = operands
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    num_out = len(getattr(eqn.outvars[0].aval, "shape", ()))
    offsets = list(numbers.offset_dims)
    batch = [i for i in range(num_out) if i not in offsets]  # axes of the index array, in order
    uses_of_index = move_axes(index.uses, [*batch, None])
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    places: list[int | None] = [None] * len(x.shape)
    kept = [i for i in range(len(x.shape)) if i not in gone]
    for i, out in zip(kept, offsets, strict=True):
        places[i] = out if sizes[i] == x.shape[i] else None
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    for i, j in pairs:
        places[i] = batch[j]
    found: dict[int, Indexed] = {}
    is_known = index.read is not None and not index.uses
    if is_known:
        for column, axis in enumerate(numbers.start_index_map):
            if sizes[axis] == 1 and x.shape[axis] > 1:
                found[axis] = _read_column(index, column, tuple(batch), x.shape[axis])
    uses = index_along(x.uses, found, places)
    return [uses if is_known else join(uses, uses_of_index)]


def _read_column(index: Value, column: int, axes: tuple[int, ...], size: int) -> Indexed:
    """The index along one axis, out of an array whose last axis is the axes that are indexed."""
    at = index.read
    read = lambda: jnp.clip(at()[..., column], 0, size - 1)  # noqa: E731  # pyright: ignore
    term = index.term if index.shape[-1] == 1 else (index.term, column)
    if index.columns is not None:
        term = index.columns[column]
    return Indexed(axes, ("gather", term), read)


def _rev(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, axes = operands[0], eqn.params["dimensions"]
    return [move_axes(x.uses, [None if i in axes else i for i in range(len(x.shape))])]


def _pad(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, config = operands[0], eqn.params["padding_config"]
    places = [i if tuple(c) == (0, 0, 0) else None for i, c in enumerate(config)]
    return [join(move_axes(x.uses, places), operands[1].uses)]


def _split(eqn: jex.JaxprEqn, operands: Sequence[Value]) -> list[Uses]:
    x, axis, start, found = operands[0], eqn.params["axis"], 0, []
    places = [i if i != axis else None for i in range(len(x.shape))]
    for size in eqn.params["sizes"]:
        read = lambda start=start, size=size: jnp.arange(start, start + size)  # noqa: E731
        index = Indexed((axis,), ("range", start, start + size, 1), read)
        found.append(index_along(x.uses, {axis: index}, places))
        start += size
    return found


_RULES: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "dot_general": _dot,
    "concatenate": _concatenate,
    "stack": _stack,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "rev": _rev,
    "pad": _pad,
    "split": _split,
}
