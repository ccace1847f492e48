"""Rules for the elements of arrays along the first axis, for each primitive that handles keys.

A rule `(terms, made, out, i)` gives the term of the `i`-th element of the result `out` in terms of
elements of the operands, or None if there is no simpler term.
"""

from collections.abc import Mapping
from typing import Any

from ppl.analysis.terms import AppliedPrimitive, Element, Term, Terms, row
from ppl.harvest import jax_core


def _stack(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    return made.operands[i] if made.params["axis"] == 0 else None


def _concatenate(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    if made.params["dimension"] != 0:
        return None
    for operand, (size, *_) in zip(made.operands, made.shapes, strict=True):
        if i < size:
            return terms.element(operand, i)
        i -= size
    return None


def _tile(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    if not set(made.params["reps"][1:]) <= {1}:
        return None
    return terms.element(made.operands[0], i % made.shapes[0][0])


def _rev(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    if made.params["dimensions"] != (0,):
        return None
    return terms.element(made.operands[0], made.shapes[0][0] - 1 - i)


def _slice(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    starts = made.params["start_indices"]
    limits = made.params["limit_indices"]
    strides = made.params["strides"] or (1,) * len(starts)
    element = terms.element(made.operands[0], starts[0] + i * strides[0])
    if limits[1:] == made.shapes[0][1:] and not any(starts[1:]) and set(strides[1:]) <= {1}:
        return element
    rest = row(
        made,
        [element],
        start_indices=starts[1:],
        limit_indices=limits[1:],
        strides=strides[1:] if max(strides[1:]) > 1 else None,
    )
    return _make_single(terms, rest)


def _broadcast(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    (x, *dynamic), (shape, *_), params = made.operands, made.shapes, made.params
    if dynamic:
        return None
    dims = params["broadcast_dimensions"]
    rest = params["shape"][1:]
    if 0 in dims:
        x = terms.element(x, i if shape[0] > 1 else 0)
        shape = shape[1:]
        dims = dims[1:]
    if shape == rest:
        return x
    dims = tuple(d - 1 for d in dims)
    one = made._replace(params={**params, "shape": rest, "broadcast_dimensions": dims})
    return _make_single(terms, one._replace(shapes=[shape], operands=[x]))


def _reshape(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    (x, *dynamic), (old, *_), new = made.operands, made.shapes, made.params["new_sizes"]
    if dynamic or made.params["dimensions"] is not None:
        return None
    if new == (1, *old):
        return x
    if len(old) > 1 and new == (old[0] * old[1], *old[2:]):
        return terms.element(terms.element(x, i // old[1]), i % old[1])
    return None


def _split(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    if made.shapes[0]:
        return _elementwise(terms, made, out, i)
    return terms.of("split", made.operands[0], i) if jax_core.splits_alike(made.eqn) else None


def _elementwise(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    """Rule of an elementwise primitive, with operands of one rank or scalars."""
    if len({len(shape) for shape in made.shapes if shape}) != 1:
        return None
    operands: list[Any] = [
        terms.element(x, i if shape[0] > 1 else 0) if shape else x
        for x, shape in zip(made.operands, made.shapes, strict=True)
    ]
    return _make_single(terms, row(made, operands))


def _wrap(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    return _elementwise(terms, made, out, i) if len(made.shapes[0]) > 1 else None


def _squeeze(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    dims = tuple(d - 1 for d in made.params["dimensions"])
    return _make_single(terms, row(made, [terms.element(made.operands[0], i)], dimensions=dims))


def _unstack(terms: Terms, made: AppliedPrimitive, out: int, i: int) -> Term | None:
    element = terms.element(made.operands[0], i)
    return terms.make(row(made, [element], axis=made.params["axis"] - 1))[out]


def _make_single(terms: Terms, made: AppliedPrimitive) -> Term:
    (result,) = terms.make(made)
    return result


ELEMENTS: Mapping[str, Element] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "random_fold_in": _elementwise,
    "random_split": _split,
    "random_unwrap": _elementwise,
    "random_wrap": _wrap,
    "reshape": _reshape,
    "rev": _rev,
    "slice": _slice,
    "squeeze": _squeeze,
    "stack": _stack,
    "tile": _tile,
    "unstack": _unstack,
}
