"""Random programs of the grammar."""

import dataclasses
import random
from collections.abc import Collection, Sequence

from .grammar import (
    DEFAULTS,
    FAMILIES,
    OPS,
    Block,
    Draw,
    Expr,
    Let,
    Program,
    Statement,
    Term,
    kind_of,
    results_of,
    var,
)

BLOCKS = {
    "scan": 4.0,
    "vmap": 4.0,
    "cond": 1.5,
    "switch": 1.0,
    "jit": 1.0,
    "checkpoint": 1.0,
    "nest": 1.0,
    "scale": 1.0,
    "fori": 1.0,
}
MAX_DEPTH = 2  # blocks within each other


@dataclasses.dataclass(frozen=True)
class Variable:
    """A variable in sight; `free` of the normal sites of a linear program."""

    expr: Expr
    free: bool


class Generator:
    """Random statements, each of which reads variables of those before it.

    A linear program has a log density that is quadratic in its normal sites. Families that are
    favored come four times as often, and first, favored blocks four times as often. `without` are
    names of families, blocks and operations that no program shall have.
    """

    def __init__(
        self,
        seed: int,
        *,
        linear: bool = False,
        favored: Collection[str] = (),
        without: Collection[str] = (),
    ):
        self._rng = random.Random(seed)
        self._linear = linear
        self._families = {
            k: x.weight * (4 if k in favored else 1)
            for k, x in FAMILIES.items()
            if k not in without
        }
        self._favored = [k for k in self._families if k in favored]
        self._ops = {k: x for k, x in OPS.items() if k not in without}
        self._blocks = {
            k: x * (4 if k in favored else 1) for k, x in BLOCKS.items() if k not in without
        }
        self._count = 0

    def program(self) -> Program:
        """A whole program."""
        first = self._draw([])
        scope = self._defined(first, [])
        return (first, *self._statements(scope, self._rng.randint(2, 5), 0))

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _statements(self, scope: list[Variable], num: int, depth: int) -> list[Statement]:
        """Statements; `scope` gains what they define."""
        found: list[Statement] = []
        for _ in range(num):
            s = self._statement(scope, depth)
            scope += self._defined(s, scope)
            found.append(s)
        return found

    def _defined(self, s: Statement, scope: Sequence[Variable]) -> list[Variable]:
        bound = {x.expr.args[0] for x in scope if not x.free}
        match s:
            case Let() | Term():
                free = not _names(s.expr) & bound
            case Draw():
                free = not FAMILIES[s.family].normal
            case Block():
                free = False
        whole = ("index", "indices")
        return [Variable(x, free or not self._linear or kind_of(x) in whole) for x in results_of(s)]

    def _statement(self, scope: list[Variable], depth: int) -> Statement:
        kind = self._rng.choices(("draw", "block", "let", "term"), (5, 3, 1, 1))[0]
        if kind == "block" and depth < MAX_DEPTH:
            return self._block(scope, depth)
        if kind == "let":
            return Let(self._name(), self.expr(self._kind(), scope, False, 2))
        if kind == "term":
            called = self._rng.choice(("factor", "deterministic"))
            expr = self.expr("number", scope, called == "factor", 2)
            return Term(self._name(), called, expr)
        return self._draw(scope)

    def _kind(self) -> str:
        return self._rng.choice(("number", "vector", "number", "vector", "index", "indices"))

    def _draw(self, scope: Sequence[Variable]) -> Draw:
        families = self._families
        if not scope and self._favored:
            families = {k: families[k] for k in self._favored}
        family = self._rng.choices(list(families), list(families.values()))[0]
        args = (self._operand(x, scope, 1) for x in FAMILIES[family].operands)
        return Draw(self._name(), family, tuple(args))

    def _operand(self, operand: str, scope: Sequence[Variable], depth: int) -> Expr:
        return self.expr(operand.rstrip("!"), scope, operand.endswith("!"), depth)

    def expr(self, kind: str, scope: Sequence[Variable], free: bool, depth: int) -> Expr:
        """An expression of a type; a free one does not depend on normal sites."""
        allowed = [x.expr for x in scope if kind_of(x.expr) == kind and (x.free or not free)]
        rng = self._rng
        if depth > 0 and rng.random() < (0.5 if allowed else 0.85):
            ops = [name for name, op in self._ops.items() if op.result == kind]
            op = rng.choices(ops, [OPS[name].weight for name in ops])[0]
            operands = [
                self.expr(x.rstrip("!"), scope, free or x.endswith("!"), depth - 1)
                for x in OPS[op].operands
            ]
            return Expr(op, tuple(operands))
        if allowed and rng.random() < 0.9:
            return rng.choice(allowed[-4:])
        return self._constant(kind)

    def _constant(self, kind: str) -> Expr:
        rng, op = self._rng, DEFAULTS[kind].op
        real = lambda: round(rng.uniform(-1.5, 1.5), 2)  # noqa: E731
        match op:
            case "const":
                return Expr(op, (real(),))
            case "consts":
                return Expr(op, (real(), real(), real()))
            case "scale":
                return Expr(op, (round(rng.uniform(0.5, 1.6), 2),))
            case "choice":
                return Expr(op, (rng.randrange(3),))
        return Expr(op, tuple(rng.randrange(3) for _ in range(3)))

    def _block(self, scope: list[Variable], depth: int) -> Block:
        rng, name = self._rng, self._name()
        kind = rng.choices(list(self._blocks), list(self._blocks.values()))[0]
        size = rng.choice((2, 3)) if kind in ("scan", "vmap", "fori") else 0
        inner = list(scope)
        heads: list[Expr] = []
        carries: list[str] = []
        if kind in ("scan", "fori"):
            carries = [rng.choice(("number", "number", "index")) for _ in range(rng.randint(1, 2))]
            heads += [self.expr(x, scope, x == "index", 1) for x in carries]
        if kind in ("scan", "vmap"):
            heads.append(self.expr(rng.choice(("vector", "vector", "indices")), scope, True, 1))
        if kind in ("cond", "switch"):
            heads.append(self.expr("index", scope, True, 1))
        shell = Block(name, kind, tuple(heads), (), tuple(heads[: len(carries)]), size)
        if kind == "scan":
            shell = dataclasses.replace(shell, outs=tuple(heads))
        free = {"number": not self._linear, "index": True}
        inner += [Variable(var(x, k), free[k]) for x, k in zip(shell.carries, carries, strict=True)]
        if kind in ("scan", "vmap"):
            of = "index" if kind_of(heads[-1]) == "indices" else "number"
            inner.append(Variable(var(shell.element, of), True))
        body = self._statements(inner, rng.randint(1, 3), depth + 1)
        outs = [self.expr(x, inner, x == "index", 1) for x in carries]
        if kind != "fori":
            out = rng.choice(("number", "number", "index"))
            outs.append(self.expr(out, inner, out == "index", 1))
        return Block(name, kind, tuple(heads), tuple(body), tuple(outs), size)


def _names(expr: Expr) -> set[str]:
    if expr.op == "var":
        return {expr.args[0]}
    return {n for x in expr.args if isinstance(x, Expr) for n in _names(x)}
