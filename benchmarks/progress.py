"""What do the bar, Live and a callback cost?

NUTS with its defaults, 4 chains, on a density that is quick to evaluate: the chains make as many
draws a second as they can, so that nothing hides the cost. Standard error is a terminal that
nobody reads. The five ways take turns; medians over rounds:

    seconds  CPU time of a run, of all threads, compiled before; other processes disturb it less
    ratio    median over rounds of the time over that without a bar, in the same round

    python benchmarks/progress.py [rounds]
"""

import io
import pathlib
import sys
import time

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import distributions as dist
import inference
import ppl

NUM_DRAWS = 50_000


class Terminal(io.StringIO):
    """Terminal that nobody reads."""

    def isatty(self) -> bool:
        """Whether it is a terminal, as it says."""
        return True


def model(key: jax.Array) -> None:
    """Ten independent normal numbers."""
    ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), 10), name="x")


WAYS = {
    "no bar": lambda: False,
    "no bar again": lambda: False,
    "bar": lambda: True,
    "Live()": inference.Live,
    "callback": lambda: lambda _: None,
}


def seconds_of(way: str, seed: int) -> float:
    """CPU time of a run."""
    began = time.process_time()
    inference.mcmc(jax.random.key(seed), model, num_draws=NUM_DRAWS, progress=WAYS[way]())
    return time.process_time() - began


def main(rounds: int) -> None:
    """Measures all ways in turn and prints a table."""
    stderr, sys.stderr = sys.stderr, Terminal()
    for way in WAYS:
        seconds_of(way, 0)
    times = np.array([[seconds_of(way, seed) for way in WAYS] for seed in range(rounds)])
    sys.stderr = stderr
    print(f"jax {jax.__version__}, {jax.default_backend()}, seeds 0 to {rounds - 1}")
    print(f"{'':14}seconds   ratio")
    ratios = np.median(times / times[:, :1], axis=0)
    for way, middle, ratio in zip(WAYS, np.median(times, axis=0), ratios, strict=True):
        print(f"{way:14}{middle:7.2f}{ratio:8.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
