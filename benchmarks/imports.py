"""How long do imports take? Medians of fresh processes that take turns, also as a table.

Seconds by the clock are those of `python -X importtime`, without the start of Python; seconds of
the CPU are those of the whole process, and depend less on other work of the machine.

    python benchmarks/imports.py [rounds]
"""

import re
import resource
import statistics
import subprocess
import sys

IMPORTS = ("jax", "ppl", "distributions", "inference", "ppl, distributions, inference")
# An import at the top of the program: nested ones are indented.
OUTERMOST = re.compile(
    r"^import time: +\d+ \| +(\d+) \| (?:jax|ppl|distributions|inference)$", re.M
)


def cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(names: str) -> tuple[float, float]:
    """The time of the CPU and of the clock that a new process needs for an import."""
    before = cpu_of_children()
    command = [sys.executable, "-X", "importtime", "-c", f"import {names}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return cpu_of_children() - before, sum(map(int, OUTERMOST.findall(printed))) / 1e6


def main(rounds: int = 7) -> None:
    times: dict[str, list[tuple[float, float]]] = {names: [] for names in IMPORTS}
    for _ in range(rounds):
        for names in IMPORTS:
            times[names].append(seconds(names))
    print(f"Python {sys.version.split()[0]}, medians of {rounds} processes, in seconds\n")
    print("| import | CPU | clock |\n|---|---|---|")
    for names, both in times.items():
        cpu, clock = map(statistics.median, zip(*both, strict=True))
        print(f"| `{names}` | {cpu:.2f} | {clock:.2f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
