"""`python -m tests.fuzz`: new random programs until the time is over; what fails is shrunk."""

import argparse
import collections
import contextlib
import itertools
import os
import re
import sys
import time
from collections.abc import Sequence

import jaxlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
if jaxlib.version.__version_info__ < (0, 11):
    # XLA's old emitters take two thirds of the time of the new ones.
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax

from .case import Case
from .laws import LAWS, law_of
from .run import Outcome
from .shrink import shrink


def main() -> int:
    """Runs all checks of programs, from a first seed on; 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1000, help="of the first program")
    parser.add_argument("--only", nargs="+", choices=LAWS, default=list(LAWS), metavar="CHECK")
    parser.add_argument("--shrink", type=float, default=60.0, help="seconds for each fault")
    parser.add_argument("--known", default="$^", help="pattern of faults that are counted alone")
    given = parser.parse_args()
    jax.config.update("jax_disable_most_optimizations", True)  # Nearly all the time is compiling.
    session = Session(given.shrink, re.compile(given.known))
    with contextlib.suppress(KeyboardInterrupt):
        _check_until(time.monotonic() + given.seconds, given.seed, given.only, session)
    session.summarize()
    return 1 if session.faults else 0


def _check_until(until: float, seed: int, laws: Sequence[str], session: "Session") -> None:
    """Checks a program of each seed by one of the laws."""
    for i in itertools.count():
        if time.monotonic() > until:
            return
        name = law_of(seed + i, laws)
        session.add(name, seed + i, *LAWS[name].check(seed + i))
        if i % 50 == 49:
            jax.clear_caches()


class Session:
    """Counts of what has come of programs; a new fault is printed when it is found."""

    def __init__(self, shrink_seconds: float, known: re.Pattern[str]):
        self._shrink_seconds, self._known = shrink_seconds, known
        self._outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
        self._refusals: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()

    def add(self, name: str, seed: int, case: Case, outcome: Outcome) -> None:
        """Counts an outcome."""
        self._outcomes[name, outcome.verdict] += 1
        if outcome.verdict == "refused":
            self._refusals[outcome.kind] += 1
        if outcome.verdict == "fault":
            kind = f"{name}: {outcome.kind}"
            if not self.faults[kind] and not self._known.search(outcome.words):
                _tell(name, seed, case, outcome, self._shrink_seconds)
            self.faults[kind] += 1

    def summarize(self) -> None:
        """Prints the counts."""
        print(f"\n{self._outcomes.total()} programs")
        for (name, verdict), n in sorted(self._outcomes.items()):
            print(f"  {name:20} {verdict:8} {n}")
        for title, found in (("refusals", self._refusals), ("faults", self.faults)):
            print(f"{title}: {found.total()}")
            for words, n in found.most_common():
                print(f"  {n:5} {words}")


def _tell(name: str, seed: int, case: Case, outcome: Outcome, seconds: float) -> None:
    """Prints a fault, with the smallest program that has it."""
    law = LAWS[name]

    def fails(program):
        found = law.run(Case(program, case.seed))
        return found.verdict == "fault" and found.kind == outcome.kind

    smallest = Case(shrink(case.program, fails, seconds), case.seed)
    found = law.run(smallest)
    print(f"\n=== FAULT of {name}, seed {seed}: {outcome.words[:1500]}")
    print(f"--- smallest program (values of seed {case.seed}): {found.words[:1500]}")
    print(smallest.source)
    print({".".join(p): x.tolist() for p, x in smallest.run.values.items()})
    print("\n".join(found.traceback.splitlines()[-14:]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
