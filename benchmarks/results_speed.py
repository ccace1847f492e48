"""How long do the summary and the conversion of many draws take, beside ArviZ's own summary?

Draws of ten scalars by four chains, as float32, each an autoregression of coefficient 0.5. ArviZ's
summary has the same columns: mean, standard deviation, interval, ESS of bulk and tails, R-hat and
MCSE. The largest difference of the ESS of the bulk is printed beside the times.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import arviz
import numpy as np
import scipy.signal

from inference import MCMCResult


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the second call, and its result."""
    call()
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def main() -> None:
    """Print a line for each number of draws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--peer-up-to", type=int, default=100_000, help="draws of a chain")
    options = parser.parse_args()
    print(f"NumPy {np.__version__}, ArviZ {arviz.__version__}, seed 0, 4 chains of 10 scalars")
    print("draws in all   summary s   to_arviz s   ArviZ's summary s   ESS differs by")
    for num_draws in options.draws:
        noise = np.random.default_rng(0).normal(size=(4, num_draws, 10))
        draws = scipy.signal.lfilter([1.0], [1.0, -0.5], noise, axis=1).astype(np.float32)
        result = MCMCResult({"x": draws}, {"lp": draws[..., 0]}, None)
        ours, summary = timed(result.summary)
        converted, data = timed(result.to_arviz)
        peer = "        -                 -"
        if num_draws <= options.peer_up_to:
            theirs, table = timed(lambda data=data: arviz.summary(data, round_to="none"))
            column = np.asarray(table["ess_bulk"], np.float64)
            gap = np.max(np.abs(column / summary.ess_bulk - 1))
            peer = f"{theirs:13.2f}     {gap:14.1e}"
        print(f"{4 * num_draws:12,}   {ours:9.3f}   {converted:10.3f}   {peer}", flush=True)


if __name__ == "__main__":
    main()
