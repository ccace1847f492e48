"""Three packages, one direction: who imports whom, what each offers, what importing it costs."""

import ast
import functools
import importlib
import pathlib
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("ppl", "distributions", "inference")
HEAVY = ("tensorflow_probability", "optax", "arviz", "scipy.special")


def imports(source: str, package: str) -> set[str]:
    """The names that a module of `package` imports, at any depth; relative ones made absolute."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parents, node.module] if node.module else parents)
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


# For every package that may import ppl.
SHARED = ("ppl.common.near_names", "ppl.harvest.function_equality", "ppl.harvest.pytrees")


def is_shared(name: str) -> bool:
    return any(within(name, module) for module in SHARED)


def modules(package: str) -> list[pathlib.Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, package
    return found


def imports_of(path: pathlib.Path) -> set[str]:
    return imports(path.read_text(), ".".join(path.relative_to(ROOT).parent.parts))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def importers(where: str, target: str) -> set[str]:
    """The files under `where` that import `target` or anything in it, but for what is shared."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in modules(where)
        if any(within(n, target) and not is_shared(n) for n in imports_of(path))
    }


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import ppl.harvest as h", {"ppl.harvest"}),
        ("def f():\n    from jax import _src", {"jax", "jax._src"}),
        ("from . import rules", {"ppl.harvest", "ppl.harvest.rules"}),
        ("from .rules import scan", {"ppl.harvest.rules", "ppl.harvest.rules.scan"}),
        ("from .. import sample", {"ppl", "ppl.sample"}),
    ],
)
def test_every_form_of_import_is_seen(source, found):
    assert imports(source, "ppl.harvest") == found


@pytest.mark.parametrize(
    ("package", "target"),
    [
        ("ppl", "distributions"),
        ("ppl", "inference"),
        ("distributions", "ppl"),
        ("distributions", "inference"),
        ("inference", "distributions"),
    ],
)
def test_packages_import_in_one_direction(package, target):
    assert not importers(package, target)


def test_few_rooms_know_models():
    rooms = {file.rpartition("/")[0] for file in importers("inference", "ppl")}
    assert rooms == {"inference/drivers", "inference/models"}


def room_of(name: str) -> str | None:
    """The folder or file in a package that a module, or a name in one, belongs to."""
    package, _, rest = name.partition(".")
    room = rest.partition(".")[0]
    folder = ROOT / package / room
    if package not in PACKAGES or not (folder.is_dir() or folder.with_suffix(".py").is_file()):
        return None
    return room


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_in_one_direction(package):
    """The folders of a package, taken as a whole, have an order."""
    arrows: dict[str, set[str]] = {}
    for path in modules(package):
        if path.parent == ROOT / package:
            continue  # what is public comes from everywhere
        room = path.relative_to(ROOT / package).parts[0]
        rooms = {room_of(name) for name in imports_of(path) if within(name, package)}
        arrows.setdefault(room, set()).update(rooms - {room, None, ""})
    assert len(arrows) > 4
    while arrows:
        lowest = {room for room, below in arrows.items() if not below & arrows.keys()}
        assert lowest, f"these rooms import each other in a circle: {sorted(arrows)}"
        arrows = {room: below for room, below in arrows.items() if room not in lowest}


def test_harvest_imports_nothing_of_the_language():
    outside = {
        (path.name, name)
        for path in modules("ppl/harvest")
        for name in imports_of(path)
        if within(name, "ppl") and not within(name, "ppl.harvest")
    }
    assert not outside


APPROXIMATIONS = ("optimize", "svi", "svgd", "laplace", "pathfinder", "importance")
CHAINS = ("inference.chains", "inference.ensemble", "inference.hamiltonian", "inference.warmup")


def routes(module: str) -> dict[str, list[str]]:
    """All modules that `module` imports, and those that they import, by the way to each."""
    names = {}
    for package in PACKAGES:
        for path in modules(package):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            names[name.removesuffix(".__init__")] = path
    found, waiting = {module: [module]}, [module]
    while waiting:
        name = waiting.pop(0)
        for imported in sorted(imports_of(names[name]) & names.keys() - found.keys()):
            if imported not in PACKAGES:  # they import all that they offer
                found[imported] = [*found[name], imported]
                waiting.append(imported)
    return found


@pytest.mark.parametrize("name", APPROXIMATIONS)
def test_approximations_know_nothing_of_chains(name):
    ways = routes(f"inference.drivers.{name}")
    assert "inference.runtime.compiled_program" in ways
    assert not [way for last, way in ways.items() if any(within(last, room) for room in CHAINS)]


def test_mcmc_reaches_chains():
    """So that the names above are those of folders."""
    reached = routes("inference.drivers.mcmc")
    assert all(any(within(name, room) for name in reached) for room in CHAINS)


INSIDES = {
    "jax._src": {"inference/runtime/xla_options.py"},
    "jax.core": {"ppl/harvest/jax_core.py"},
    "jax.interpreters": {
        *("ppl/harvest/jax_core.py", "ppl/harvest/jax_tables.py"),
        *("ppl/marginal/triangular_factors.py", "distributions/common/triangular_factors.py"),
        "distributions/common/eigenvectors.py",
    },
}


@pytest.mark.parametrize("insides", INSIDES)
def test_few_files_know_the_insides_of_jax(insides):
    naming = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in modules(package)
        if any(within(name, insides) for name in imports_of(path) | chains(path))
    }
    assert naming == INSIDES[insides]


@functools.cache
def chains(path: pathlib.Path) -> set[str]:
    """Every `a.b.c` in a module."""
    nodes = (
        node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)
    )
    return {ast.unparse(node) for node in nodes}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_typed(package):
    assert (ROOT / package / "py.typed").is_file()


def public_functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def unannotated(function: ast.FunctionDef) -> list[str]:
    a = function.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return [x.arg for x in named if x.annotation is None and x.arg not in ("self", "cls")]


def test_missing_annotations_are_seen():
    (function,) = public_functions(ast.parse("def f(self, a: int, b, *c, d, **e): ...").body)
    assert unannotated(function) == ["b", "d", "c", "e"]


@pytest.mark.parametrize("package", PACKAGES)
def test_public_signatures_are_annotated(package):
    missing = {
        f"{path.relative_to(ROOT).as_posix()}:{function.lineno}": unannotated(function)
        for path in modules(package)
        for function in public_functions(ast.parse(path.read_text()).body)
        if unannotated(function)
    }
    assert not missing


@pytest.mark.parametrize("name", ["ppl", "ppl.harvest", "distributions", "inference"])
def test_public_names_are_those_listed(name):
    module = importlib.import_module(name)
    listed = module.__all__
    public = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and not isinstance(value, types.ModuleType)
    }
    assert len(set(listed)) == len(listed)
    assert public <= set(listed)
    assert all(hasattr(module, key) for key in listed)


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_is_cheap(package):
    code = f"import sys, {package}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
