"""Jobs: worker processes side by side, a core each, with limits of time; results as JSON lines."""

import concurrent.futures
import json
import os
import pathlib
import queue
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.comparison.run import ROOT, reason

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false"


def run_jobs(
    jobs: Mapping[str, Sequence[str]], num_jobs: int, job_seconds: float, all_seconds: float
) -> dict[str, str]:
    """Runs commands, several at a time, and returns by name what went wrong with some.

    Each process has a core of its own, as far as there are as many.

    Args:
        jobs: Commands by name, in the order in which they begin.
        num_jobs: Number of processes at a time.
        job_seconds: Seconds after which a process is ended.
        all_seconds: Seconds after which all processes are ended, and none begins.
    """
    deadline, failures = time.monotonic() + all_seconds, {}
    cores: queue.Queue[int | None] = queue.Queue()
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [None]
    for i in range(num_jobs):
        cores.put(allowed[i % len(allowed)])
    environment = os.environ | ONE_THREAD
    environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()

    def run(name: str) -> None:
        seconds = min(job_seconds, deadline - time.monotonic())
        if seconds <= 0:
            failures[name] = "not begun"
            return
        began, core = time.monotonic(), cores.get()
        pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        process = subprocess.Popen(jobs[name], cwd=ROOT, env=environment, text=True, **pipes)
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        try:
            _, errors = process.communicate(timeout=seconds)
            if process.returncode:
                failures[name] = reason(errors) or f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            failures[name] = f"not finished after {seconds:.0f} s"
        cores.put(core)
        outcome = failures.get(name, f"{time.monotonic() - began:.0f} s")
        print(f"{name}: {outcome}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(num_jobs) as pool:
        list(pool.map(run, jobs))
    return failures


def append(path: pathlib.Path | str, entry: Mapping[str, Any]) -> None:
    """Adds a line of JSON; lines of several processes do not mix."""
    with open(path, "a") as file:
        file.write(json.dumps(entry) + "\n")


def entries_of(path: pathlib.Path | str) -> list[dict[str, Any]]:
    """All entries of a file of JSON lines, if there is one; a line cut short is left out."""
    found = []
    for text in pathlib.Path(path).read_text().splitlines() if os.path.exists(path) else ():
        try:
            found.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return found
