"""What does a step of NUTS cost on an accelerator, and how much of that time does it work?

All chains take a step together. For each model and number of chains:

    us a step     wall-clock microseconds of a step of all chains: the extra time of a run of 300
                  more draws over its extra steps, the median of three pairs of runs
    working       share of that time in which the device executes a kernel
    kernels       kernels and copies that the device executes for a step
    branches      conditionals and loops in the compiled program
    first call    seconds to compile, and to run 300 + 100 iterations

Without an accelerator, the benchmark says so and ends. With ``--cpu`` our chains are mapped over on
the CPU as they would be on an accelerator: this shows the branches, and that the benchmark works.

    python benchmarks/gpu_steps.py [--cpu] [--chains 4 1024] [--models radon] [--table FILE]
"""

import argparse
import collections
import pathlib
import re
import statistics
import sys
import tempfile
import time
from unittest import mock

import jax

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import inference
import ppl
from benchmarks.comparison.counting import CountingRun
from benchmarks.comparison.problems import PROBLEMS
from benchmarks.comparison.tools import as_on_an_accelerator
from inference.chains import sampling

MODELS, CHAINS = ("eight schools", "radon", "logistic"), (4, 64, 1024, 4096)
WARMUP, DRAWS, MORE, PAIRS = 300, 100, 300, 3


class Sampler:
    """NUTS on a problem with a number of chains."""

    def __init__(self, name: str, num_chains: int) -> None:
        problem = PROBLEMS[name]()
        self.target = ppl.unconstrain(problem.model, *problem.args)
        self.num_chains = num_chains

    def run(self, num_draws: int, seed: int = 0) -> tuple[float, int]:
        """Seconds of a run, and its steps."""
        start = time.perf_counter()
        with mock.patch.object(sampling, "_HamiltonianRun", CountingRun):
            sampling.sample(
                jax.random.key(seed),
                self.target,
                inference.NUTS(),
                num_warmup=WARMUP,
                num_draws=num_draws,
                num_chains=self.num_chains,
                target_acceptance_rate=0.8,
                mass_matrix="diagonal",
            )
        seconds = time.perf_counter() - start
        return seconds, CountingRun.last.num_executed // self.num_chains

    def step(self) -> float:
        """Microseconds of a step."""
        found = []
        for seed in range(PAIRS):
            (less, few), (more, many) = (self.run(n, seed) for n in (DRAWS, DRAWS + MORE))
            found.append(1e6 * (more - less) / (many - few))
        return statistics.median(found)

    def profile(self) -> tuple[float, float, list[str]]:
        """Microseconds of work and kernels of a step, and the names of kernels by their time."""
        with tempfile.TemporaryDirectory() as folder:
            with jax.profiler.trace(folder):
                _, num_steps = self.run(DRAWS)
            [path] = pathlib.Path(folder).rglob("*.xplane.pb")
            events = device_events(path)
        spent: collections.Counter[str] = collections.Counter()
        counts: collections.Counter[str] = collections.Counter()
        for name, _, duration in events:
            spent[name] += duration / 1e3 / num_steps
            counts[name] += 1
        names = [
            f"{name[:60]:60}{counts[name] / num_steps:8.2f}{us:8.2f}"
            for name, us in spent.most_common(25)
        ]
        return busy(events) / 1e3 / num_steps, len(events) / num_steps, names

    def branches(self) -> int:
        """Conditionals and loops in the compiled program that moves chains."""
        text = CountingRun.last.advance.as_text()
        return len(re.findall(r"= \S.* (?:conditional|while)\(", text))


def device_events(path: pathlib.Path) -> list[tuple[str, float, float]]:
    """Name, start and duration, in nanoseconds, of all that devices have executed."""
    data = jax.profiler.ProfileData.from_file(str(path))
    return [
        (event.name, event.start_ns, event.duration_ns)
        for plane in data.planes
        if plane.name.startswith("/device:GPU")
        for line in plane.lines
        if line.name.startswith("Stream")
        for event in line.events
    ]


def busy(events: list[tuple[str, float, float]]) -> float:
    """Nanoseconds in which at least one event is on."""
    total, end = 0.0, -1.0
    for _, start, duration in sorted(events, key=lambda event: event[1]):
        total += max(0.0, start + duration - max(start, end))
        end = max(end, start + duration)
    return total


def measure(name: str, num_chains: int, has_profile: bool) -> tuple[str, list[str]]:
    """A line of the table, and the kernels by their time."""
    sampler = Sampler(name, num_chains)
    first, _ = sampler.run(DRAWS)
    step, columns, kernels = sampler.step(), f"{'':20}", []
    if has_profile:
        work, num_kernels, kernels = sampler.profile()
        columns = f"{100 * work / step:9.0f}%{num_kernels:10.1f}"
    line = f"{name:16}{num_chains:6}{step:10.1f}{columns}{sampler.branches():10}{first:12.2f}"
    return line, kernels


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--chains", nargs="+", type=int, default=CHAINS)
    parser.add_argument("--cpu", action="store_true", help="map over our chains on the CPU")
    parser.add_argument("--kernels", action="store_true", help="list kernels by their time")
    options = parser.parse_args()
    is_cpu = jax.default_backend() == "cpu"
    if is_cpu and not options.cpu:
        print("JAX finds no accelerator: nothing is measured. --cpu shows that this file works.")
        return
    print(f"{jax.devices()[0].device_kind}, JAX {jax.__version__}", flush=True)
    print("                chains us a step   working   kernels  branches  first call", flush=True)
    for name in options.models:
        for num_chains in options.chains:
            with as_on_an_accelerator():
                line, kernels = measure(name, num_chains, not is_cpu)
            print(line, *kernels * options.kernels, sep="\n", flush=True)


if __name__ == "__main__":
    main()
