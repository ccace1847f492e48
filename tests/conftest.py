"""What all tests run under: the CPU, strict promotion, derandomized hypothesis, common fixtures."""

import collections
import gc
import itertools
import os
import pathlib
import sys
import zlib
from collections.abc import Iterator

import jaxlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Compiled programs stay on disk beside the environment: what runs again takes a third less.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", os.path.join(sys.prefix, "compiled-programs"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
if jaxlib.version.__version_info__ < (0, 11):
    # Most of the time goes to compiling. XLA's old emitters take two thirds of that of the new
    # ones; later versions have the new ones alone, so they are tested there.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import hypothesis
import jax
import jax.numpy as jnp
import pytest

from tests.rooms import files_of_tests, rooms

jax.config.update("jax_num_cpu_devices", 4)  # for what is sharded
jax.config.update("jax_traceback_in_locations_limit", 0)  # lines of tests within programs: slow

ROOT = pathlib.Path(__file__).parents[1]
POSTERIORDB = pathlib.Path(os.environ.get("PPL_POSTERIORDB") or ROOT / "../shared/posteriordb")

# JAX refuses to promote ranks ("raise") and dtypes ("strict") wherever our code alone runs. TFP
# cannot live with it: nearly every method broadcasts parameters against draws (rank), and
# Categorical, LogNormal and StudentT mix int32, float32 and float64 (dtype). A test that needs
# another setting than its directory's is marked `promotion(rank=..., dtype=...)`.
STRICT = {"rank": "raise", "dtype": "strict"}
THROUGH_TFP = {"rank": "allow", "dtype": "standard"}
PROMOTION = {
    "harvest": STRICT,
    "language": THROUGH_TFP,
    "distributions": THROUGH_TFP,
    "inference": {"rank": "raise", "dtype": "standard"},  # counts of steps are multiplied by floats
    "models": THROUGH_TFP,
    "fuzz": THROUGH_TFP,
}

hypothesis.settings.register_profile("suite", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("suite")


def promotion_of(item: pytest.Item) -> dict[str, str]:
    """The promotion settings of a test: its directory's, overruled by its own marks."""
    in_tests = item.path.is_relative_to(ROOT / "tests")
    directory = item.path.relative_to(ROOT / "tests").parts[0] if in_tests else ""
    settings = dict(PROMOTION.get(directory, STRICT))
    for mark in reversed(list(item.iter_markers("promotion"))):
        settings |= mark.kwargs
    return settings


# A program that is compiled holds some maps of memory. Linux grants a process 65,530, and XLA dies
# without a word when there are no more; a test of a density takes about forty.
MAX_MAPS = 30_000
MAX_RESIDENT = 3 * 2**30  # bytes, as each processor has a process
TESTS_PER_LOOK = 50
num_tests = itertools.count(1)


def holds_much() -> bool:
    """Whether the process holds many maps of memory, or much memory; where Linux tells."""
    try:
        num_maps = pathlib.Path("/proc/self/maps").read_bytes().count(b"\n")
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return True
    return num_maps > MAX_MAPS or pages * os.sysconf("SC_PAGE_SIZE") > MAX_RESIDENT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Runs a test, with the fixtures that it sets up, under its settings."""
    settings = promotion_of(item)
    # Compiling is most of what tests do, and takes half the time at XLA's cheapest level.
    is_optimized = item.get_closest_marker("optimized") is not None
    jax.config.update("jax_disable_most_optimizations", not is_optimized)
    # Laws hold up to rounding to float32, not to the fewer bits that some accelerators multiply
    # with. Inference sees to its own precision.
    directory = item.path.parent.name
    precision = None if directory == "inference" else "highest"
    with (
        jax.numpy_rank_promotion(settings["rank"]),
        jax.numpy_dtype_promotion(settings["dtype"]),
        jax.default_matmul_precision(precision),
    ):
        result = yield
    if next(num_tests) % TESTS_PER_LOOK == 0 and holds_much():
        jax.clear_caches()
    return result


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--sample` and `--room`."""
    parser.addoption(
        "--sample",
        type=int,
        default=1,
        metavar="N",
        help="of tests that look little at JAX, and of slow ones, run one in N",
    )
    parser.addoption(
        "--room",
        metavar="FOLDER",
        help="run the tests of a folder of the packages, and of the files that import it",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses a room that is not there."""
    if (room := config.getoption("room")) and room not in rooms():
        known = ", ".join(sorted(x for x in rooms() if "/" in x))
        raise pytest.UsageError(f"no room is called {room!r}; rooms: {known}")


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Leaves out the files of tests that are not of the room."""
    room = config.getoption("room")
    is_test = collection_path.suffix == ".py"
    return True if room and is_test and collection_path not in files_of_tests(room) else None


# Tests that see most of what a new JAX changes: programs, their transformations, compiled chains.
CHAINS = ("chain", "compiled_program", "devices", "kernels", "mcmc", "own_kernels", "xla")
LOOKS_AT_JAX = (
    *("tests/harvest/", "tests/language/", "tests/test_"),
    *(f"tests/inference/test_{name}.py" for name in CHAINS),
)


def is_left_out(item: pytest.Item) -> bool:
    """Whether a test needs reference posteriors that are not there, or is not in the sample."""
    if "posteriordb" in getattr(item, "fixturenames", ()) and not POSTERIORDB.is_dir():
        return True
    is_slow = item.get_closest_marker("slow") is not None or is_slow_row(item)
    if item.nodeid.startswith(LOOKS_AT_JAX) and not is_slow:
        return False
    return zlib.crc32(item.nodeid.encode()) % item.config.getoption("--sample") != 0


def row_of(item: pytest.Item) -> str:
    """The row of a table that a test has, or an empty string."""
    return item.callspec.id if hasattr(item, "callspec") else ""


def is_slow_row(item: pytest.Item) -> bool:
    """Whether a row of a table takes long, by the marks `quick_rows` and `slow_rows`."""
    row = row_of(item)
    quick, slow = (item.get_closest_marker(name) for name in ("quick_rows", "slow_rows"))
    return bool((quick and row not in quick.args) or (slow and row in slow.args))


def unknown_rows(items: list[pytest.Item]) -> list[str]:
    """Rows that a mark names and no test has."""
    rows, named = collections.defaultdict(set), collections.defaultdict(set)
    for item in items:
        name = item.nodeid.split("[")[0]
        rows[name].add(row_of(item))
        for mark in (*item.iter_markers("quick_rows"), *item.iter_markers("slow_rows")):
            named[name].update(mark.args)
    return [f"{name}[{row}]" for name in named for row in sorted(named[name] - rows[name])]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves tests out, see :func:`is_left_out`, and marks slow rows."""
    is_part = config.getoption("lf", False) or any("::" in x for x in config.args)
    if not is_part and (unknown := unknown_rows(items)):
        raise pytest.UsageError("marks name rows that do not exist:\n" + "\n".join(unknown))
    left_out = {item for item in items if is_left_out(item)}
    for item in filter(is_slow_row, items):
        item.add_marker(pytest.mark.slow)
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Keeps the collector of garbage from what lives as long as the session."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """Says which JAX runs."""
    return f"jax: {jax.__version__}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out."""
    if not POSTERIORDB.is_dir():
        terminalreporter.write_line(f"No {POSTERIORDB}: the tests that read it were left out.")


@pytest.fixture(scope="session")
def posteriordb() -> pathlib.Path:
    """The folder of reference posteriors; without it, a test that asks is not collected."""
    return POSTERIORDB


@pytest.fixture
def x64() -> Iterator[None]:
    """Runs a test in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=["float32", "float64"])
def float_dtype(request: pytest.FixtureRequest) -> Iterator[jnp.dtype]:
    """Runs a test once in each precision, as the default one of JAX; gives the dtype."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)
