"""Runner of the mutants: each in a copy of the tree, its nearest tests first, then the rest.

A mutant that its nearest slow tests notice is not shown to the rest of the quick suite, so that
the number noticed by the quick suite is a lower bound.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("ppl", "distributions", "inference")
MAX_NEAREST_SECONDS, MAX_REST_SECONDS = 600, 3600  # of one run of pytest: longer ones hang
MIN_NOTICED_SHARE = {"quick": 0.9, "all": 1.0}
_MARKS = {"quick": "not slow", "slow": "slow"}
_NOT_COPIED = shutil.ignore_patterns(
    *(
        ".git",
        ".venv*",
        ".hypothesis",
        ".pytest_cache",
        ".ruff_cache",
        "__pycache__",
        "build",
        "dist",
    )
)
_FAILED = re.compile(
    r"^(?:FAILED|ERROR) (\S+?\.py(?:::[^\[\s]+(?:\[.*?\])?)?)(?: - |$)", re.MULTILINE
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutant:
    """Small wrong change of one file, with the tests that are nearest to it."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    keyword: str = ""

    def apply(self, source: str) -> str:
        """Source of the file with the change in it."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} occurs {source.count(self.old)} times")
        return source.replace(self.old, self.new)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """First test that fails with a mutant, if any, and the suite in which it stands.

    A run that ended without a failed test, as it hung or crashed, leaves the verdict undecided: the
    machine may be the cause.
    """

    mutant: Mutant
    suite: str = ""
    test: str = ""
    seconds: float = 0.0

    @property
    def is_undecided(self) -> bool:
        return self.test.startswith("(")

    @property
    def is_noticed(self) -> bool:
        return bool(self.suite) and not self.is_undecided

    def __str__(self) -> str:
        found = f"noticed by {self.test} in {self.suite}" if self.is_noticed else "LIVES"
        if self.is_undecided:
            found = f"UNDECIDED, {self.test} in {self.suite}"
        return f"{self.mutant.name}: {found} after {self.seconds:.0f} s"


@contextmanager
def copied(mutant: Mutant | None) -> Iterator[pathlib.Path]:
    """Temporary copy of the tree, with a mutant in it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_NOT_COPIED)
        if mutant is not None:
            file = tree / mutant.file
            file.write_text(mutant.apply(file.read_text(encoding="utf-8")), encoding="utf-8")
        yield tree


def first_failure(tree: pathlib.Path, arguments: Sequence[str], max_seconds: float) -> str:
    """Identifier of the first test that fails, or an empty string.

    A run that is over its limit, or ends without a verdict, is told in parentheses.
    """
    posteriors = os.environ.get("PPL_POSTERIORDB") or ROOT / "../shared/posteriordb"
    environment = os.environ | {
        "PYTHONPATH": str(tree),
        "PPL_POSTERIORDB": str(pathlib.Path(posteriors).resolve()),
    }
    options = ("-q", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=max_seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "(hangs)"
    return _failed(process.returncode, output)


def _failed(code: int, output: str) -> str:
    if code in (0, 5):  # no failure, no test
        return ""
    if code == 4 and "ERROR: " in output:
        raise ValueError(f"pytest refuses what is asked:\n{output[-2000:]}")
    if found := _FAILED.search(output):
        return found[1]
    return f"(pytest ends with {code})"


def stages(mutant: Mutant, suites: Sequence[str]) -> Iterator[tuple[str, list[str], float]]:
    """Runs of pytest for a mutant: the nearest tests of each suite, then all the others."""
    keyword = ["-k", mutant.keyword] if mutant.keyword else []
    for suite in suites:
        yield suite, ["-m", _MARKS[suite], *keyword, *mutant.tests], MAX_NEAREST_SECONDS
    for suite in suites:
        # The list of mutants is tested against the sources: it would notice each of them.
        rest = ["-m", _MARKS[suite], "--ignore=tests/test_mutants.py", "tests"]
        yield suite, rest, MAX_REST_SECONDS


def judge(mutant: Mutant, suites: Sequence[str], is_brief: bool = False) -> Verdict:
    """Verdict on one mutant; brief, of the nearest tests alone."""
    began = time.monotonic()
    with copied(mutant) as tree:
        for suite, arguments, max_seconds in stages(mutant, suites):
            if is_brief and max_seconds == MAX_REST_SECONDS:
                break
            if test := first_failure(tree, arguments, max_seconds):
                return Verdict(mutant, suite, test, time.monotonic() - began)
    return Verdict(mutant, seconds=time.monotonic() - began)


def failing_without(verdicts: Sequence[Verdict]) -> str:
    """First of the tests found that fails in the tree as it is, too, and so tells nothing."""
    tests = sorted({x.test for x in verdicts if x.is_noticed})
    if not tests:
        return ""
    with copied(None) as tree:
        return first_failure(tree, ["-m", "slow or not slow", *tests], MAX_REST_SECONDS)


def main(mutants: Sequence[Mutant]) -> int:
    """Command line of the runner; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--suite", choices=MIN_NOTICED_SHARE, default="all")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[x.name for x in mutants])
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="run one in N")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    parser.add_argument("--nearest", action="store_true", help="run the nearest tests alone")
    given = parser.parse_args()
    chosen = [x for x in mutants if given.only is None or x.name in given.only][:: given.sample]
    suites = ("quick",) if given.suite == "quick" else ("quick", "slow")
    verdicts = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        futures = [pool.submit(judge, mutant, suites, given.nearest) for mutant in chosen]
        for future in concurrent.futures.as_completed(futures):
            verdicts.append(future.result())
            print(verdicts[-1], flush=True)
    if broken := failing_without(verdicts):
        print(f"{broken} fails without a mutant, too: mend it first")
        return 1
    return report(verdicts, given.suite)


def report(verdicts: Sequence[Verdict], suite: str) -> int:
    """Prints how many are noticed; gives 1 where they are too few, and 0 elsewhere."""
    total, noticed = len(verdicts), [x for x in verdicts if x.is_noticed]
    num_all, num_quick = len(noticed), sum(x.suite == "quick" for x in noticed)
    counts = f"quick suite: {num_quick} of {total}"
    is_enough = num_quick >= MIN_NOTICED_SHARE["quick"] * total
    if suite == "all":
        counts += f"; all tests: {num_all} of {total}"
        is_enough = is_enough and num_all >= MIN_NOTICED_SHARE["all"] * total
    if num_undecided := sum(x.is_undecided for x in verdicts):
        counts += f"; undecided: {num_undecided}"
    print(counts)
    return 0 if is_enough else 1
