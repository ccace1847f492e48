"""`python -m tests.fuzz`: new random programs until the time is over; what fails is shrunk."""

import argparse
import collections
import os
import re
import sys
import time

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
    until, seed = time.monotonic() + given.seconds, given.seed
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    refusals: collections.Counter[str] = collections.Counter()
    faults: collections.Counter[str] = collections.Counter()
    while time.monotonic() < until:
        name = law_of(seed, given.only)
        case, outcome = LAWS[name].check(seed)
        counts[name, outcome.verdict] += 1
        if outcome.verdict == "refused":
            refusals[outcome.kind] += 1
        if outcome.verdict == "fault":
            faults[f"{name}: {outcome.kind}"] += 1
            is_new = faults[f"{name}: {outcome.kind}"] == 1
            if is_new and not re.search(given.known, outcome.words):
                _tell(name, seed, case, outcome, given.shrink)
        seed += 1
        if seed % 50 == 0:
            jax.clear_caches()
    _summarize(seed - given.seed, counts, refusals, faults)
    return 1 if faults else 0


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


def _summarize(num: int, counts, refusals, faults) -> None:
    print(f"\n{num} programs")
    for (name, verdict), n in sorted(counts.items()):
        print(f"  {name:20} {verdict:8} {n}")
    for title, found in (("refusals", refusals), ("faults", faults)):
        print(f"{title}: {sum(found.values())}")
        for words, n in sorted(found.items(), key=lambda x: -x[1]):
            print(f"  {n:5} {words}")


if __name__ == "__main__":
    sys.exit(main())
