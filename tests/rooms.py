"""Tests of a room: the files of tests that use a folder of the packages, or what imports it.

Importers count up to the first file that a package offers names of: nearly all of a package is
reached by way of some others.

A name that a package offers, as `ppl.marginalize`, leads to the file that has it, so that a test is
one of the room's by what it calls, not by the package that it imports.
"""

import ast
import functools
import pathlib
from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("ppl", "distributions", "inference")


@functools.cache
def rooms() -> dict[str, str]:
    """Folders of the packages as modules, by the names that a room goes by."""
    folders = [
        path.parent.relative_to(ROOT)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("__init__.py"))
    ]
    found = {folder.as_posix(): ".".join(folder.parts) for folder in folders}
    by_last_name: dict[str, list[str]] = {}
    for folder in folders:
        by_last_name.setdefault(folder.name, []).append(".".join(folder.parts))
    return found | {name: of[0] for name, of in by_last_name.items() if len(of) == 1}


@functools.cache
def files() -> dict[str, pathlib.Path]:
    """Files of the packages and of the tests by module; stubs stand for lazy packages."""
    found = {}
    for top in (*PACKAGES, "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            stub = path.with_suffix(".pyi")
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = stub if stub.exists() else path
    return found


@functools.cache
def offered(package: str) -> dict[str, str]:
    """Names that a package takes from its files, with their full names."""
    path = files()[package]
    if path.stem != "__init__":
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
    }


def modules_on_way(name: str) -> Iterator[str]:
    """The modules by which a dotted name is found: the package of a folder, then the file."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        if module not in files():
            continue
        target = offered(module).get(parts[length]) if length < len(parts) else None
        if module not in PACKAGES or target is None:
            yield module
        if target is not None:
            yield from modules_on_way(".".join([target, *parts[length + 1 :]]))
        return


@functools.cache
def used_by(module: str) -> frozenset[str]:
    """The modules that a module imports, or whose names it reads off a package."""
    tree = ast.parse(files()[module].read_text(encoding="utf-8"))
    aliases: dict[str, str] = {}
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {x.asname or x.name.split(".")[0]: x.name for x in node.names if x.asname}
            names |= {x.name for x in node.names if "." in x.name}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            full = {x.asname or x.name: f"{node.module}.{x.name}" for x in node.names}
            aliases |= full
            names |= set(full.values())
        elif isinstance(node, ast.Attribute):
            names.add(ast.unparse(node))
    written_out = {
        ".".join([aliases.get(first, first), *rest])
        for first, *rest in (x.split(".") for x in names)
    }
    return frozenset(x for name in written_out for x in modules_on_way(name)) - {module}


def users_among_tests(modules: Iterable[str]) -> set[pathlib.Path]:
    """The files of tests that use a module, themselves or by the helpers that they import."""
    wanted = set(modules)
    tests = [module for module in files() if module.split(".")[0] == "tests"]
    size = 0
    while len(wanted) != size:
        size = len(wanted)
        wanted |= {module for module in tests if used_by(module) & wanted}
    return {files()[module] for module in wanted.intersection(tests)}


@functools.cache
def files_of_tests(room: str) -> set[pathlib.Path]:
    """The files of tests of a room, by a name in `rooms`, and of the files that import it."""
    inside = {x for x in files() if x == rooms()[room] or x.startswith(f"{rooms()[room]}.")}
    return users_among_tests(inside | importers(inside))


def importers(inside: set[str]) -> set[str]:
    """The files that import a room; and those that import these, up to the first public ones."""
    sources = [x for x in files() if x.split(".")[0] in PACKAGES and x not in PACKAGES]
    found: set[str] = set()
    last = inside
    while last:
        last = {x for x in sources if used_by(x) & last} - inside - found
        found |= last
        last -= public()
    return found


@functools.cache
def public() -> frozenset[str]:
    """The files that have the names which the packages offer."""
    names = [f"{package}.{name}" for package in PACKAGES for name in offered(package)]
    return frozenset(x for name in names for x in modules_on_way(name))
