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
# Their folders import in one direction.
WITH_FOLDERS = (*PACKAGES, "inference.kernels")
# Names by which a program finds a module by its name.
FINDERS = ("import_module", "__import__", "modules")
HEAVY = ("tensorflow_probability", "optax", "arviz", "scipy.special")


def imports(tree: ast.Module, package: str) -> set[str]:
    """The names that a module of `package` imports, at any depth; relative ones made absolute.

    A string given to `import_module`, or looked up in `sys.modules`, is an import as well.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*parents, node.module] if node.module else parents)
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found | {name for name in names_by_string(tree) if name is not None}


def names_by_string(tree: ast.Module) -> Iterator[str | None]:
    """Modules that a program finds by their names; None for a name that it computes."""
    names = {node: getattr(node, "attr", getattr(node, "id", None)) for node in ast.walk(tree)}
    finders = {x: name for x, name in names.items() if name in FINDERS}
    if not finders:  # as in nearly all files
        return
    around = {child: node for node in names for child in ast.iter_child_nodes(node)}
    for node, name in finders.items():
        user = around.get(node)
        if name in ("import_module", "__import__"):
            given = user.args[:1] if isinstance(user, ast.Call) and user.func is node else []
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules":
            call = around.get(user)
            is_get = isinstance(user, ast.Attribute) and user.attr == "get"
            given = call.args[:1] if is_get and isinstance(call, ast.Call) else []
            given = [user.slice] if isinstance(user, ast.Subscript) else given
        else:
            continue
        texts = [x.value for x in given if isinstance(x, ast.Constant) and isinstance(x.value, str)]
        yield texts[0] if texts else None


# For every package that may import ppl.
SHARED = (
    "ppl.common.draw_chunks",
    "ppl.common.file_suffix",
    "ppl.common.near_names",
    "ppl.harvest.function_equality",
    "ppl.harvest.pytrees",
)


def is_shared(name: str) -> bool:
    return any(within(name, module) for module in SHARED)


def modules(package: str) -> list[pathlib.Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, package
    return found


@functools.cache
def imports_of(path: pathlib.Path) -> set[str]:
    """The names that a file imports, see :func:`imports`."""
    return imports(tree_of(path), ".".join(path.relative_to(ROOT).parent.parts))


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
        ("def f():\n    from jax import _src", {"jax._src"}),
        ("from . import rules", {"ppl.harvest.rules"}),
        ("from .rules import scan", {"ppl.harvest.rules.scan"}),
        ("from .. import sample", {"ppl.sample"}),
        ("if TYPE_CHECKING:\n    import optax", {"optax"}),
        ("def f():\n    return importlib.import_module('ppl.core').x", {"ppl.core"}),
        ("import_module('ppl')", {"ppl"}),
        ("__import__('ppl')", {"ppl"}),
        ("sys.modules['ppl'].sample", {"ppl"}),
        ("sys.modules.get('ppl')", {"ppl"}),
    ],
)
def test_every_form_of_import_is_seen(source, found):
    assert imports(ast.parse(source), "ppl.harvest") == found


# Files that find modules by names which they compute, and why.
COMPUTED = {
    "distributions/__init__.py": "a module is imported at the first use of a name in the stub",
    "distributions/common/near_names.py": "which package that is imported has a name",
    "inference/common/serialization.py": "a file names classes by tags, which any room may have",
    "ppl/common/near_names.py": "which package that is imported has a name",
    "ppl/harvest/jax_tables.py": "the module of a function of JAX",
}


@pytest.mark.parametrize(
    "source",
    [
        "importlib.import_module(f'inference.drivers.{name}')",
        "load = importlib.import_module",
        "__import__(name)",
        "sys.modules[name]",
        "sys.modules.get(name)",
        "vars(sys)['x'], sys.modules",
    ],
)
def test_a_computed_name_of_a_module_is_seen(source):
    assert [*names_by_string(ast.parse(source))] == [None]


def test_few_files_find_modules_by_computed_names():
    found = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in modules(package)
        if None in names_by_string(tree_of(path))
    }
    assert found == {*COMPUTED}


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
    assert rooms == {"inference/drivers", "inference/kernels/gibbs", "inference/models"}


def folders_imported(package: str) -> dict[str, set[str]]:
    """The folders of a package, each with those that it imports."""
    root = ROOT.joinpath(*package.split("."))
    below: dict[str, set[str]] = {}
    for path in modules(root.relative_to(ROOT).as_posix()):
        folder, *inside = path.relative_to(root).parts
        if inside:  # what is public comes from everywhere
            names = [name for name in imports_of(path) if within(name, package)]
            found = {name[len(package) + 1 :].partition(".")[0] for name in names}
            below.setdefault(folder, set()).update(found - {folder})
    return {folder: found & below.keys() for folder, found in below.items()}


def in_circles(arrows: dict[str, set[str]]) -> list[str]:
    """Names in circles of arrows, or between two: all others are taken off from both ends."""
    while True:
        last = {name for name, below in arrows.items() if not below & arrows.keys()}
        ends = last | arrows.keys() - set().union(*arrows.values())
        if not ends:
            return sorted(arrows)
        arrows = {name: below for name, below in arrows.items() if name not in ends}


def test_circles_of_arrows_are_seen():
    arrows = {"top": {"a"}, "a": {"b", "low"}, "b": {"c"}, "c": {"a"}, "low": set()}
    assert in_circles(arrows) == ["a", "b", "c"]


@pytest.mark.parametrize("package", WITH_FOLDERS)
def test_rooms_import_in_one_direction(package):
    """The folders of a package, taken as a whole, have an order."""
    arrows = folders_imported(package)
    assert len(arrows) > 4
    assert not in_circles(arrows)


@functools.cache
def files() -> dict[str, pathlib.Path]:
    """The file of every module of the packages, by its name."""
    found = {}
    for path in (path for package in PACKAGES for path in modules(package)):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@functools.cache
def modules_imported(name: str) -> set[str]:
    """The modules of the packages that a module imports."""
    found = set()
    for imported in imports_of(files()[name]):
        while imported and imported not in files():
            imported = imported.rpartition(".")[0]
        found.add(imported)
    return found - {name, ""}


@pytest.mark.parametrize("package", PACKAGES)
def test_files_import_in_one_direction(package):
    arrows = {name: modules_imported(name) for name in files() if within(name, package)}
    assert len(arrows) > 100
    assert not in_circles(arrows)


def test_harvest_imports_nothing_of_the_language():
    outside = {
        (path.name, name)
        for path in modules("ppl/harvest")
        for name in imports_of(path)
        if within(name, "ppl") and not within(name, "ppl.harvest")
    }
    assert not outside


APPROXIMATIONS = (
    "optimize",
    "svi",
    "svgd",
    "laplace",
    "pathfinder",
    "importance",
)
CHAINS = (
    "inference.chains",
    "inference.kernels.ensemble",
    "inference.kernels.hamiltonian",
    "inference.warmup",
)


def routes(module: str) -> dict[str, list[str]]:
    """All modules that `module` imports, and those that they import, by the way to each."""
    found, waiting = {module: [module]}, [module]
    while waiting:
        name = waiting.pop(0)
        for imported in sorted(modules_imported(name) - found.keys()):
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
        *("distributions/common/eigenvectors.py", "ppl/doors/stan_density.py"),
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
    return {dotted(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    return ast.parse(path.read_text())


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text; empty for attributes of anything else than a name."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


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
