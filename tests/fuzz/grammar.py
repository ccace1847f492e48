"""Grammar of random programs: expressions, statements, and the tables of both.

An expression has one of five types. A `number` and a `vector` are real, a `positive` is a number
above 0; an `index` and `indices` are whole numbers from 0 to 2, so that they index a vector.

An operand marked `!` must not depend on the normal sites of a linear program, whose log density is
to be quadratic in them. In other programs the mark says nothing.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

SIZE = 3  # elements of a vector; states of a site at most


@dataclasses.dataclass(frozen=True)
class Expr:
    """An operation with its operands; the arguments of a leaf are Python values."""

    op: str
    args: tuple[Any, ...] = ()


def var(name: str, kind: str) -> Expr:
    """A variable of a type."""
    return Expr("var", (name, kind))


@dataclasses.dataclass(frozen=True)
class Let:
    """`name = expr`."""

    name: str
    expr: Expr


@dataclasses.dataclass(frozen=True)
class Draw:
    """`name = sample(key, family(*args), name=name)`."""

    name: str
    family: str
    args: tuple[Expr, ...]


@dataclasses.dataclass(frozen=True)
class Term:
    """A factor, or a deterministic value: `kind` is the function that is called."""

    name: str
    kind: str
    expr: Expr


@dataclasses.dataclass(frozen=True)
class Block:
    """A construct around a body.

    | kind | heads | variables of the body | outs | results |
    |---|---|---|---|---|
    | scan | first carries, then a vector | carries, an element | carries, a number | the same |
    | vmap | a vector | an element | a number | a vector |
    | fori | first carries | carries | carries | the same |
    | cond, switch | an index | | a number | the same |
    | jit, checkpoint, nest, scale | | | a number | the same |
    """

    name: str
    kind: str
    heads: tuple[Expr, ...]
    body: tuple[Any, ...]
    outs: tuple[Expr, ...]
    size: int = 0

    @property
    def num_carries(self) -> int:
        return {"scan": len(self.outs) - 1, "fori": len(self.outs)}.get(self.kind, 0)

    @property
    def carries(self) -> list[str]:
        return [f"{self.name}c{i}" for i in range(self.num_carries)]

    @property
    def element(self) -> str:
        return f"{self.name}x"

    @property
    def results(self) -> list[str]:
        return [f"{self.name}r{i}" for i in range(len(self.outs))]


Statement = Let | Draw | Term | Block
Program = tuple[Statement, ...]


@dataclasses.dataclass(frozen=True)
class Op:
    """Text of an operation, and the types of its result and of its operands."""

    text: str
    result: str
    operands: tuple[str, ...]
    weight: float = 1.0


OPS = {
    "add": Op("({} + {})", "number", ("number", "number"), 3),
    "minus": Op("({} - {})", "number", ("number", "number")),
    "times": Op("({} * {})", "number", ("number!", "number"), 2),
    "grown": Op("({} * {})", "number", ("positive!", "number")),
    "where": Op("xp.where({} > 0, {}, {})", "number", ("index!", "number", "number"), 2),
    "above": Op("xp.where({} > 0.1, {}, {})", "number", ("number!", "number", "number")),
    "tanh": Op("xp.tanh({})", "number", ("number!",)),
    "square": Op("(0.3 * {} ** 2)", "number", ("number!",)),
    "halved": Op("halved({})", "number", ("number!",)),
    "float": Op("(0.7 * {})", "number", ("index!",), 3),
    "log": Op("xp.log({})", "number", ("positive!",)),
    "lookup": Op("{}[{}]", "number", ("vector", "index!"), 3),
    "last": Op("{}[-1]", "number", ("vector",)),
    "first": Op("{}[0]", "number", ("vector",)),
    "sum": Op("xp.sum({})", "number", ("vector",)),
    "max": Op("xp.max({})", "number", ("vector!",)),
    "dot": Op("({} @ {})", "number", ("vector!", "vector")),
    "full": Op("({} * xp.ones(3))", "vector", ("number",), 2),
    "adds": Op("({} + {})", "vector", ("vector", "vector"), 2),
    "timeses": Op("({} * {})", "vector", ("vector!", "vector")),
    "shifts": Op("({} + {})", "vector", ("vector", "number"), 2),
    "floats": Op("(0.7 * {})", "vector", ("indices!",), 3),
    "stack": Op("xp.stack([{}, {}, {}])", "vector", ("number", "number", "number")),
    "flip": Op("{}[::-1]", "vector", ("vector",)),
    "permuted": Op("{}[xp.array([2, 0, 1])]", "vector", ("vector",)),
    "repeated": Op("{}[xp.array([1, 0, 1])]", "vector", ("vector",)),
    "roll": Op("xp.roll({}, 1)", "vector", ("vector",)),
    "moved": Op("xp.concatenate([{}[1:], {}[:1]])", "vector", ("vector", "vector")),
    "column": Op("xp.tile({}, (2, 1)).T[:, 1]", "vector", ("vector",)),
    "reshaped": Op("xp.stack([{}, {}]).reshape(3, 2)[:, 1]", "vector", ("vector", "vector")),
    "differences": Op("xp.diff({}, append=0.5)", "vector", ("vector",)),
    "outer": Op("xp.sum({}[:, None] * {}[None, :], 0)", "vector", ("vector!", "vector")),
    "placed": Op("placed({}, {}, {})", "vector", ("vector", "index!", "number")),
    "sorted": Op("xp.sort({})", "vector", ("vector!",)),
    "cumsum": Op("xp.cumsum({})", "vector", ("vector",)),
    "lookups": Op("{}[{}]", "vector", ("vector", "indices!"), 3),
    "wheres": Op("xp.where({} > 0, {}, {})", "vector", ("indices!", "vector", "vector"), 2),
    "matmul": Op(
        "(xp.array([[0.5, 0.2, 0.0], [0.0, -0.4, 0.3], [0.7, 0.0, 0.1]]) @ {})",
        "vector",
        ("vector",),
    ),
    "grow": Op("xp.exp(0.3 * xp.tanh({}))", "positive", ("number!",)),
    "pick": Op("xp.array([0.6, 1.1, 1.7])[{}]", "positive", ("index!",)),
    "product": Op("({} * {})", "positive", ("positive!", "positive!")),
    "capped": Op("xp.minimum({} + {}, 2)", "index", ("index!", "index!")),
    "rest": Op("(2 - {})", "index", ("index!",)),
    "state": Op("{}[{}]", "index", ("indices!", "index!")),
    "sign": Op("whole({} > 0.2)", "index", ("number!",)),
    "most": Op("xp.max({})", "index", ("indices!",)),
    "flipped": Op("{}[::-1]", "indices", ("indices!",)),
    "states": Op("{}[{}]", "indices", ("indices!", "indices!")),
    "cappeds": Op("xp.minimum({} + {}, 2)", "indices", ("indices!", "indices!")),
    "signs": Op("whole({} > 0.2)", "indices", ("vector!",)),
}


@dataclasses.dataclass(frozen=True)
class Family:
    """Distribution: its text, the types of parameters and value, and what may be done with it.

    `states` is the number of states of each element, 0 if it is not finite or depends on other
    sites; `normal` says that it can be integrated out in a linear program.
    """

    text: str
    operands: tuple[str, ...]
    result: str
    states: int = 0
    normal: bool = False
    weight: float = 1.0


TRIL = "xp.array([[1.0, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.5, 0.7]])"
FAMILIES = {
    "normal": Family("Normal({}, {})", ("number", "positive!"), "number", normal=True, weight=3),
    "normals": Family("Normal({}, {})", ("vector", "positive!"), "vector", normal=True, weight=3),
    "multivariate": Family(
        f"MultivariateNormal({{}}, scale_tril={TRIL})", ("vector",), "vector", normal=True
    ),
    "student": Family("StudentT(4.0, {}, {})", ("number!", "positive!"), "number"),
    "students": Family("StudentT(4.0, {}, {})", ("vector!", "positive!"), "vector"),
    "half_normal": Family("HalfNormal({})", ("positive!",), "positive"),
    "exponential": Family("Exponential({})", ("positive!",), "positive"),
    "gamma": Family("Gamma({}, {})", ("positive!", "positive!"), "positive"),
    "gammas": Family("Gamma({}, xp.exp(0.3 * xp.tanh({})))", ("positive!", "vector!"), "vector"),
    "beta": Family("Beta({}, {})", ("positive!", "positive!"), "positive"),
    "dirichlet": Family("Dirichlet(xp.exp(0.3 * xp.tanh({})))", ("vector!",), "vector"),
    "poissons": Family("Poisson(xp.exp(0.3 * xp.tanh({})))", ("vector!",), "vector"),
    "bernoulli": Family("Bernoulli(logits={})", ("number!",), "index", 2, weight=3),
    "bernoullis": Family("Bernoulli(logits={})", ("vector!",), "indices", 2, weight=3),
    "categorical": Family("Categorical(logits={})", ("vector!",), "index", 3, weight=2),
    "categoricals": Family(
        "Categorical(logits=xp.stack([{}, {}, {}], -1))",
        ("vector!", "vector!", "vector!"),
        "indices",
        3,
    ),
    "binomial": Family("Binomial(2, probs=squash({}))", ("number!",), "index", 3),
    "binomial_of": Family("Binomial({}, probs=squash({}))", ("index!", "number!"), "index"),
    "binomials_of": Family("Binomial({}, probs=squash({}))", ("indices!", "number!"), "indices"),
    "uniform_to": Family("DiscreteUniform(0, {})", ("index!",), "index"),
}

DISCRETE = tuple(name for name, x in FAMILIES.items() if x.states)
NORMAL = tuple(name for name, x in FAMILIES.items() if x.normal)

DEFAULTS = {
    "number": Expr("const", (0.3,)),
    "vector": Expr("consts", (0.3, -0.8, 1.1)),
    "positive": Expr("scale", (0.8,)),
    "index": Expr("choice", (1,)),
    "indices": Expr("choices", (1, 0, 2)),
}


def kind_of(expr: Expr) -> str:
    """The type of an expression."""
    match expr.op:
        case "var":
            return expr.args[1]
        case "const" | "consts" | "scale" | "choice" | "choices":
            return next(k for k, x in DEFAULTS.items() if x.op == expr.op)
    return OPS[expr.op].result


def vector_of(kind: str) -> str:
    """The type of an array of numbers, or of indices."""
    return "indices" if kind == "index" else "vector"


def results_of(s: Statement) -> list[Expr]:
    """The variables that a statement defines for those behind it."""
    match s:
        case Let():
            return [var(s.name, kind_of(s.expr))]
        case Draw():
            return [var(s.name, FAMILIES[s.family].result)]
        case Term():
            return [] if s.kind == "factor" else [var(s.name, kind_of(s.expr))]
    kinds = [kind_of(x) for x in s.outs]
    if s.kind in ("scan", "vmap"):
        kinds[-1] = vector_of(kinds[-1])
    return [var(name, kind) for name, kind in zip(s.results, kinds, strict=True)]


def map_exprs(s: Statement, f: Callable[[Expr], Expr]) -> Statement:
    """A statement with all of its expressions mapped, those of its body too."""
    match s:
        case Let() | Term():
            return dataclasses.replace(s, expr=f(s.expr))
        case Draw():
            return dataclasses.replace(s, args=tuple(map(f, s.args)))
    body = tuple(map_exprs(x, f) for x in s.body)
    return dataclasses.replace(
        s, heads=tuple(map(f, s.heads)), body=body, outs=tuple(map(f, s.outs))
    )


def substitute(expr: Expr, by: dict[str, Expr]) -> Expr:
    """An expression with variables replaced."""
    if expr.op == "var":
        return by.get(expr.args[0], expr)
    if expr.op not in OPS:
        return expr
    return Expr(expr.op, tuple(substitute(x, by) for x in expr.args))


def sites(program: Program, scope: tuple[str, ...] = (), repeats: int = 1) -> Iterator[Any]:
    """The random sites: (path, family, number of times that it is drawn)."""
    for s in program:
        if isinstance(s, Draw):
            yield (*scope, s.name), FAMILIES[s.family], repeats
        elif isinstance(s, Block):
            inner = (*scope, s.name) if s.kind == "nest" else scope
            yield from sites(s.body, inner, repeats * max(s.size, 1))
