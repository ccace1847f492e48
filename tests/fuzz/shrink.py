"""Smaller programs that fail as a given one does."""

import dataclasses
import time
from collections.abc import Callable, Iterator

from .grammar import (
    DEFAULTS,
    OPS,
    Block,
    Draw,
    Expr,
    Let,
    Program,
    Statement,
    Term,
    kind_of,
    map_exprs,
    results_of,
    substitute,
)


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """A program that fails, of which no part can be taken away; or what is found in time."""
    until, again = time.monotonic() + seconds, True
    while again:
        again = False
        for smaller in candidates(program):
            if time.monotonic() > until:
                return program
            if fails(smaller):
                program, again = smaller, True
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs with a part taken away, the largest parts first."""
    for i, s in enumerate(program):
        yield _without(program, i)
        if isinstance(s, Block):
            yield _unwrapped(program, i, s)
    for i, s in enumerate(program):
        if isinstance(s, Block):
            for body in candidates(s.body):
                yield _replaced(program, i, _with_body(s, body))
            if s.num_carries > 1:
                yield from _fewer_carries(program, i, s)
    for i, s in enumerate(program):
        for smaller in _simpler(s):
            yield _replaced(program, i, smaller)


def _replaced(program: Program, i: int, s: Statement) -> Program:
    return (*program[:i], s, *program[i + 1 :])


def _forget(program: Program, names: dict[str, Expr]) -> Program:
    """A program in which variables have constant values."""
    return tuple(map_exprs(s, lambda x: substitute(x, names)) for s in program)


def _default_results(s: Statement) -> dict[str, Expr]:
    return {x.args[0]: DEFAULTS[kind_of(x)] for x in results_of(s)}


def _without(program: Program, i: int) -> Program:
    return (*program[:i], *_forget(program[i + 1 :], _default_results(program[i])))


def _with_body(s: Block, body: Program) -> Block:
    """A block with a smaller body: its outs forget what the body no longer defines."""
    gone = {x.args[0]: DEFAULTS[kind_of(x)] for t in s.body for x in results_of(t)}
    for t in body:
        for x in results_of(t):
            gone.pop(x.args[0], None)
    return dataclasses.replace(s, body=body, outs=tuple(substitute(x, gone) for x in s.outs))


def _unwrapped(program: Program, i: int, s: Block) -> Program:
    """The body of a block in its place."""
    inner: dict[str, Expr] = dict(zip(s.carries, s.heads, strict=False))
    if s.kind in ("scan", "vmap"):
        inner[s.element] = DEFAULTS["number" if kind_of(s.heads[-1]) == "vector" else "index"]
    body = _forget(s.body, inner)
    outs = [substitute(x, inner) for x in s.outs]
    after = dict(_default_results(s))
    for name, kind, out in zip(s.results, map(kind_of, results_of(s)), outs, strict=True):
        if kind == kind_of(out):
            after[name] = out
    return (*program[:i], *body, *_forget(program[i + 1 :], after))


def _fewer_carries(program: Program, i: int, s: Block) -> Iterator[Program]:
    """A loop without its last carry."""
    n = s.num_carries - 1
    known = {s.carries[n]: s.heads[n]}
    heads, outs = s.heads[:n] + s.heads[n + 1 :], s.outs[:n] + s.outs[n + 1 :]
    body = _forget(s.body, known)
    smaller = dataclasses.replace(
        s, heads=heads, body=body, outs=tuple(substitute(x, known) for x in outs)
    )
    after = _default_results(s) | {
        old: x
        for old, x in zip(s.results[:n] + s.results[n + 1 :], results_of(smaller), strict=True)
    }
    yield (*program[:i], smaller, *_forget(program[i + 1 :], after))


def _simpler(s: Statement) -> Iterator[Statement]:
    """Statements with a simpler expression."""
    match s:
        case Let() | Term():
            yield from (dataclasses.replace(s, expr=x) for x in _simpler_exprs(s.expr))
        case Draw():
            for args in _simpler_of(s.args):
                yield dataclasses.replace(s, args=args)
        case Block():
            for heads in _simpler_of(s.heads):
                yield dataclasses.replace(s, heads=heads)
            for outs in _simpler_of(s.outs):
                yield dataclasses.replace(s, outs=outs)
            if s.size > 2:
                yield dataclasses.replace(s, size=2)


def _simpler_of(exprs: tuple[Expr, ...]) -> Iterator[tuple[Expr, ...]]:
    for i, x in enumerate(exprs):
        for simpler in _simpler_exprs(x):
            yield (*exprs[:i], simpler, *exprs[i + 1 :])


def _simpler_exprs(expr: Expr) -> Iterator[Expr]:
    """Expressions of the same type with fewer operations."""
    if expr == DEFAULTS[kind_of(expr)]:
        return
    yield DEFAULTS[kind_of(expr)]
    if expr.op not in OPS:
        return
    yield from (x for x in expr.args if kind_of(x) == kind_of(expr))
    for args in _simpler_of(expr.args):
        yield Expr(expr.op, args)
