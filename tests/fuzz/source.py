"""Source text of a program, one for JAX and for NumPy: only what its names mean differs."""

import dataclasses
from collections.abc import Sequence

from .grammar import (
    FAMILIES,
    OPS,
    SIZE,
    Block,
    Draw,
    Expr,
    Let,
    Program,
    Statement,
    Term,
    kind_of,
    results_of,
)


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a statement stands: in which branch, and in maps over which elements."""

    twist: int = 0
    elements: tuple[str, ...] = ()


def write(program: Program) -> str:
    """A function `model(key)` that returns all values of the top level."""
    names = [x.args[0] for s in program for x in results_of(s)]
    returned = f"return {_tuple(names) if names else '()'}"
    return "\n".join(["def model(key):", *_indent([*_lines(program, _Place()), returned])]) + "\n"


def _lines(program: Program, at: _Place) -> list[str]:
    return [line for s in program for line in _statement(s, at)]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)},)"


def _statement(s: Statement, at: _Place) -> list[str]:
    match s:
        case Let():
            return [f"{s.name} = {text(s.expr, at.twist)}"]
        case Draw():
            args = [text(x, at.twist) for x in s.args]
            family = FAMILIES[s.family]
            drawn = f"sample(key, {family.text.format(*args)}, name={s.name!r})"
            return [f"{s.name} = {f'real({drawn})' if family.result == 'vector' else drawn}"]
        case Term():
            # What a vmap does not map is one term for all of its elements.
            mapped = "".join(f" + 0.0 * {x}" for x in at.elements)
            return [f"{s.name} = {s.kind}({_cast(s.expr, at)}{mapped}, name={s.name!r})"]
    return _BLOCKS[s.kind](s, at)


def _cast(expr: Expr, at: _Place) -> str:
    cast = "whole" if kind_of(expr) in ("index", "indices") else "real"
    return f"{cast}({text(expr, at.twist)})"


def _heads(s: Block, at: _Place) -> list[str]:
    return [_cast(x, at) for x in s.heads]


def _define(
    s: Block, at: _Place, args: str, *, first: Sequence[str] = (), suffix: str = ""
) -> list[str]:
    """The body as a function: it returns the carries, and then what else there is."""
    outs = [_cast(x, at) for x in s.outs]
    n = s.num_carries
    returned = ", ".join([*([_tuple(outs[:n])] if n else []), *outs[n:]])
    lines = [*first, *_lines(s.body, at), f"return {returned}"]
    return [f"def {s.name}f{suffix}({args}):", *_indent(lines)]


def _pad(s: Block) -> str:
    """The index that makes an output of a short loop a vector."""
    return "[xp.array([0, 1, 1])]" if s.size < SIZE else ""


def _scan(s: Block, at: _Place) -> list[str]:
    *starts, xs = _heads(s, at)
    *carries, ys = s.results
    first = [f"{_tuple(s.carries)} = carry", f"key, {s.element} = inputs"]
    inputs = f"(split(key, {s.size}), {xs}[:{s.size}])"
    return [
        *_define(s, at, "carry, inputs", first=first),
        f"{_tuple(carries)}, {ys} = scan({s.name}f, {_tuple(starts)}, {inputs})",
        *([f"{ys} = {ys}{_pad(s)}"] if _pad(s) else []),
    ]


def _vmap(s: Block, at: _Place) -> list[str]:
    (xs,) = _heads(s, at)
    inside = dataclasses.replace(at, elements=(*at.elements, s.element))
    call = f"vmap({s.name}f)(split(key, {s.size}), {xs}[:{s.size}])"
    return [
        *_define(s, inside, f"key, {s.element}"),
        f"{s.results[0]} = {call}{_pad(s)}",
    ]


def _fori(s: Block, at: _Place) -> list[str]:
    first = [f"{_tuple(s.carries)} = carry", "key = fold_in(key, i)"]
    call = f"fori_loop(0, {s.size}, {s.name}f, {_tuple(_heads(s, at))})"
    return [
        *_define(s, at, "i, carry, key=key", first=first),
        f"{_tuple(s.results)} = {call}",
    ]


def _branches(s: Block, at: _Place, num: int) -> list[str]:
    twists = [dataclasses.replace(at, twist=at.twist + i) for i in range(num)]
    return [x for i, t in enumerate(twists) for x in _define(s, t, "key", suffix=f"{i}")]


def _cond(s: Block, at: _Place) -> list[str]:
    call = f"cond({_heads(s, at)[0]} > 0, {s.name}f0, {s.name}f1, key)"
    return [*_branches(s, at, 2), f"{s.results[0]} = {call}"]


def _switch(s: Block, at: _Place) -> list[str]:
    names = ", ".join(f"{s.name}f{i}" for i in range(SIZE))
    call = f"switch({_heads(s, at)[0]}, [{names}], key)"
    return [*_branches(s, at, SIZE), f"{s.results[0]} = {call}"]


def _called(s: Block, at: _Place) -> list[str]:
    option = {"nest": f", scope={s.name!r}", "scale": ", 1.7"}.get(s.kind, "")
    call = f"{s.kind}({s.name}f{option})(key)"
    return [*_define(s, at, "key"), f"{s.results[0]} = {call}"]


_BLOCKS = {
    "scan": _scan,
    "vmap": _vmap,
    "fori": _fori,
    "cond": _cond,
    "switch": _switch,
    "jit": _called,
    "checkpoint": _called,
    "nest": _called,
    "scale": _called,
}


def text(expr: Expr, twist: int = 0) -> str:
    """Text of an expression; in the branch of number `twist`, its constants are others."""
    args = expr.args
    match expr.op:
        case "var":
            return args[0]
        case "const":
            return repr(round(args[0] - 0.6 * twist, 3))
        case "consts":
            return f"xp.array({[round(x + 0.4 * twist, 3) for x in args]})"
        case "scale":
            return repr(round(args[0] + 0.5 * twist, 3))
        case "choice":
            return repr((args[0] + twist) % SIZE)
        case "choices":
            return f"xp.array({[(x + twist) % SIZE for x in args]})"
    return OPS[expr.op].text.format(*(text(x, twist) for x in args))
