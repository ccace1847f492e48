"""Axes of arrays: for each primitive, which axis of the results each axis of an operand becomes."""

from collections.abc import Callable, Sequence

from jax.extend import core as jex

from ppl.harvest.array_primitives import Kind, array_primitive

Axes = tuple[int | None, ...]
Shapes = Sequence[tuple[int, ...]]
Rule = Callable[[jex.JaxprEqn, Shapes], list[Axes]]


def axes_of(eqn: jex.JaxprEqn) -> list[Axes]:
    """For each operand, the axis of the results that each of its axes becomes, or None.

    | Primitive                                          | Axis of the results        |
    |----------------------------------------------------|----------------------------|
    | removes the axis                                   | None                       |
    | mixes or repeats elements along the axis           | None                       |
    | `broadcast_in_dim` that repeats an axis of size 1  | the repeated axis          |
    | moves elements along the axis, as `rev` does       | the axis at the same place |
    """
    shapes = [_shape(v) for v in eqn.invars]
    rule = _BY_NAME.get(eqn.primitive.name) or _BY_KIND.get(array_primitive(eqn).kind, _mix)
    # `vmap` writes some axes as integers of NumPy, which are no `int`.
    return [tuple(i if i is None else int(i) for i in places) for places in rule(eqn, shapes)]


def _shape(v: object) -> tuple[int, ...]:
    return tuple(getattr(v.aval, "shape", ()))  # pyright: ignore[reportAttributeAccessIssue]


def _mix(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [(None,) * len(shape) for shape in shapes]


def _stay(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [tuple(range(len(shape))) for shape in shapes]


def _by_element(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    """Rule of elementwise primitives, which repeat scalars and axes of size 1."""
    out = _shape(eqn.outvars[0])
    return [tuple(i if n == out[i] else None for i, n in enumerate(shape)) for shape in shapes]


def _without(ndim: int, gone: Sequence[int]) -> Axes:
    """Places of `ndim` axes after the axes `gone` are removed."""
    return tuple(None if i in gone else i - sum(j < i for j in gone) for i in range(ndim))


def _reduce(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [_without(len(shape), eqn.params["axes"]) for shape in shapes]


def _mix_along(param: str) -> Rule:
    """Rule of a primitive that mixes elements along the axis in the parameter `param`."""

    def rule(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
        mixed = eqn.params[param]
        return [tuple(i if i != mixed else None for i in range(len(shape))) for shape in shapes]

    return rule


def _keep_batch(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    ndims = map(len, shapes)
    return [tuple(i if i < ndim - 2 else None for i in range(ndim)) for ndim in ndims]


def _dot(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    """Rule of `dot_general`: batch axes come first, then the free axes of each operand."""
    contract, batch = eqn.params["dimension_numbers"]
    start = len(batch[0])
    found = []
    for shape, con, bat in zip(shapes, contract, batch, strict=True):
        free = [i for i in range(len(shape)) if i not in con and i not in bat]
        places = {axis: i for i, axis in enumerate(bat)}
        places |= {axis: start + i for i, axis in enumerate(free)}
        start += len(free)
        found.append(tuple(map(places.get, range(len(shape)))))
    return found


def _broadcast(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [tuple(eqn.params["broadcast_dimensions"]), *_mix(eqn, shapes[1:])]


def _transpose(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    order = eqn.params["permutation"]
    return [tuple(map(order.index, range(len(order))))]


def _squeeze(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [_without(len(shapes[0]), eqn.params["dimensions"])]


def _stack(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    new = eqn.params["axis"]
    return [tuple(i + (new <= i) for i in range(len(shape))) for shape in shapes]


def _unstack(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    return [_without(len(shapes[0]), [eqn.params["axis"]])]


def _reshape(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    """Rule of `reshape`: longer axes are kept if only axes of size 1 are added or removed.

    Axes of size 1 are paired in order, as all pairings are right.
    """
    old = shapes[0]
    new = eqn.params["new_sizes"]
    longer, to = ([i for i, n in enumerate(shape) if n != 1] for shape in (old, new))
    ones, free = ([i for i, n in enumerate(shape) if n == 1] for shape in (old, new))
    places = dict(zip(ones, free, strict=False))
    if [old[i] for i in longer] == [new[i] for i in to] and eqn.params["dimensions"] is None:
        places |= dict(zip(longer, to, strict=True))
    return [tuple(map(places.get, range(len(old)))), *_mix(eqn, shapes[1:])]


def _dynamic_slice(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    """Rule of `dynamic_slice`: axes that are read whole are kept."""
    pairs = enumerate(zip(shapes[0], eqn.params["slice_sizes"], strict=True))
    return [tuple(i if n == size else None for i, (n, size) in pairs), *_mix(eqn, shapes[1:])]


def _gather(eqn: jex.JaxprEqn, shapes: Shapes) -> list[Axes]:
    """Rule of `gather`.

    Axes of the operand are kept if they are batch axes or read whole. All axes of the index but
    the last are kept.
    """
    numbers = eqn.params["dimension_numbers"]
    sizes = eqn.params["slice_sizes"]
    batch = [i for i in range(len(_shape(eqn.outvars[0]))) if i not in numbers.offset_dims]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [i for i in range(len(sizes)) if i not in gone]
    pairs = zip(kept, numbers.offset_dims, strict=True)
    places = {i: out for i, out in pairs if sizes[i] == shapes[0][i]}
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    places |= {i: batch[j] for i, j in pairs}
    return [tuple(map(places.get, range(len(sizes)))), (*batch, None)]


_BY_NAME: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast,
    "dynamic_slice": _dynamic_slice,
    "gather": _gather,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "stack": _stack,
    "transpose": _transpose,
    "unstack": _unstack,
}
_BY_KIND: dict[Kind, Rule] = {
    Kind.BY_ELEMENT: _by_element,
    Kind.CUMULATIVE: _mix_along("axis"),
    Kind.IDENTITY: _stay,
    Kind.MATRIX: _keep_batch,
    Kind.MOVEMENT: _stay,
    Kind.PRODUCT: _dot,
    Kind.REDUCTION: _reduce,
    Kind.SORT: _mix_along("dimension"),
}
