"""Mutants that a machine makes: a sign, a comparison, an axis, an index or a connective is another.

Each file of more than a hundred lines of code has up to two, chosen by its name, so that they are
the same in each run until the file changes; one kind after the other (DeMillo, Lipton and Sayward
1978). What an error says is left as it is: words have tests of their own.
"""

import ast
import functools
import itertools
import pathlib
import random
import sys
import zlib
from collections.abc import Iterable, Iterator

from tests.mutation import PACKAGES, ROOT, Mutant, main
from tests.rooms import files, importers, used_by, users_among_tests

MIN_LINES = 100  # of code, for a file to have mutants
MUTANTS_PER_FILE = 2  # some three hundred in all
_MAX_NEAREST = 4  # files of tests that come first
_OTHERS = {
    ast.Add: ("sign", "+", "-"),
    ast.Sub: ("sign", "-", "+"),
    ast.Lt: ("comparison", "<", ">="),
    ast.LtE: ("comparison", "<=", ">"),
    ast.Gt: ("comparison", ">", "<="),
    ast.GtE: ("comparison", ">=", "<"),
    ast.Eq: ("comparison", "==", "!="),
    ast.NotEq: ("comparison", "!=", "=="),
    ast.Is: ("comparison", "is", "is not"),
    ast.IsNot: ("comparison", "is not", "is"),
    ast.And: ("connective", "and", "or"),
    ast.Or: ("connective", "or", "and"),
}
_LEFT_OUT = (ast.Raise, ast.JoinedStr, ast.Assert)
_OTHER_NUMBER = {0: "-1", -1: "0", 1: "0"}

Change = tuple[str, int, int, str]  # kind, start and end in the source, new text


def changes(source: str) -> list[Change]:
    """All changes that a mutant of a file may make, in the order of its lines."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *itertools.accumulate(len(line) for line in lines)]
    text = source.encode()

    def span(node: ast.expr) -> tuple[int, int]:
        end = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return starts[node.lineno - 1] + node.col_offset, end

    def between(kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Change]:
        start = span(left)[1]
        at = text.find(old.encode(), start, span(right)[0])
        if at >= 0 and b"#" not in text[start:at]:
            yield kind, at, at + len(old), new

    def number(kind: str, node: ast.expr) -> Iterator[Change]:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return
        if type(value) is int and value in _OTHER_NUMBER:
            yield kind, *span(node), _OTHER_NUMBER[value]

    def of(node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.BinOp(left, op, right) if type(op) in _OTHERS:
                yield from between(_OTHERS[type(op)][0], left, right, *_OTHERS[type(op)][1:])
            case ast.Compare(left, [op], [right]) if type(op) in _OTHERS:
                yield from between(_OTHERS[type(op)][0], left, right, *_OTHERS[type(op)][1:])
            case ast.BoolOp(op, [left, right, *_]):
                yield from between(_OTHERS[type(op)][0], left, right, *_OTHERS[type(op)][1:])
            case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
                start = span(node)[0]
                yield "sign", start, start + 1, ""
            case ast.keyword("axis", value):
                yield from number("axis", value)
            case ast.Subscript(_, ast.Constant() | ast.UnaryOp() as index):
                yield from number("index", index)
            case ast.Slice(lower, upper):
                for bound in filter(None, (lower, upper)):
                    yield from number("index", bound)

    def walk(node: ast.AST) -> Iterator[Change]:
        if not isinstance(node, _LEFT_OUT):
            yield from of(node)
            for child in ast.iter_child_nodes(node):
                yield from walk(child)

    return sorted(set(walk(ast.parse(source))), key=lambda change: change[1:])


def choose(source: str, name: str) -> list[Change]:
    """Some changes of a file, of each kind in turn; the same ones for a name and a source."""
    found = changes(source)
    random.Random(zlib.crc32(name.encode())).shuffle(found)
    kinds: dict[str, list[Change]] = {}
    for change in found:
        kinds.setdefault(change[0], []).append(change)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*kinds.values()))
    return [x for x in turns if x is not None][:MUTANTS_PER_FILE]


def in_context(source: str, change: Change) -> tuple[str, str]:
    """The lines around a change, old and new: as many as occur only once in the file."""
    _, start, end, new = change
    text = source.encode()
    begin = text.rfind(b"\n", 0, start) + 1
    stop = (text.find(b"\n", end) + len(text) + 1) % (len(text) + 1)
    while text.count(text[begin:stop]) > 1:
        begin = text.rfind(b"\n", 0, begin - 1) + 1
    old = text[begin:stop].decode()
    return old, (text[begin:start] + new.encode() + text[end:stop]).decode()


def num_code_lines(source: str) -> int:
    """Lines that hold a statement or part of one; no comments, docstrings or empty lines."""
    tree = ast.parse(source)
    held: set[int] = set()
    for node in ast.walk(tree):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not is_docstring:
            last = node.body[0].lineno - 1 if getattr(node, "body", None) else node.end_lineno
            held |= set(range(node.lineno, (last or node.lineno) + 1))
    return len([i for i in held if source.splitlines()[i - 1].strip()])


@functools.cache
def nearest_tests(module: str) -> tuple[str, ...]:
    """Files of tests that use a module, or its importers.

    First comes the one of its name, then those of its direct importers, then those that use it
    themselves, not by a helper, and few others beside it.
    """
    around = importers({module})
    own = _names_of_tests({module})
    of_importers = _names_of_tests(x for x in around if module in used_by(x))

    def distance(test: str) -> tuple[bool, bool, bool, int, str]:
        name = _last_name(test)
        is_direct = module in used_by(test)
        return name not in own, name not in of_importers, not is_direct, len(used_by(test)), test

    users = users_among_tests({module} | around)
    tests = {
        name: path.relative_to(ROOT).as_posix()
        for name, path in files().items()
        if _last_name(name) in own or (path in users and _last_name(name).startswith("test_"))
    }
    return tuple(tests[x] for x in sorted(tests, key=distance)[:_MAX_NEAREST]) or ("tests",)


def _names_of_tests(modules: Iterable[str]) -> set[str]:
    return {f"test_{_last_name(module)}" for module in modules}


def _last_name(module: str) -> str:
    return module.rpartition(".")[2]


def mutants() -> Iterator[Mutant]:
    """The mutants of all files that are long enough."""
    for module, path in files().items():
        if module.split(".")[0] not in PACKAGES or path.name.startswith("__init__"):
            continue
        source = path.read_text(encoding="utf-8")
        if num_code_lines(source) <= MIN_LINES:
            continue
        file = path.relative_to(ROOT).as_posix()
        for i, change in enumerate(choose(source, file)):
            old, new = in_context(source, change)
            yield Mutant(
                name=f"{pathlib.Path(file).with_suffix('').as_posix()}:{i + 1}",
                file=file,
                old=old,
                new=new,
                breaks=f"another {change[0]}",
                tests=nearest_tests(module),
            )


if __name__ == "__main__":
    sys.exit(main(tuple(mutants())))
