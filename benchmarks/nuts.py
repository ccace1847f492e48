"""How many effective draws a second does NUTS make, beside NumPyro, BlackJAX and nutpie?

By default, ten posteriors with 4 chains, six of them from posteriordb if its data are there; then
two of the ten with up to 1024 chains. Every tool runs in a process of its own on the same log
density of unconstrained parameters, derived by `ppl`. If PyMC is installed, nutpie has models in
PyMC for most posteriors instead. All tools have a target acceptance rate of 0.8 and their default
mass matrix: a diagonal for the others; for ours a dense matrix up to 100 coordinates, and a
low-rank one above. A tool that is not installed is left out.

    first              seconds of the first call, with tracing and compiling, without imports
    again              median seconds of later calls with other keys: all that a user waits for
    exec               the same work with nothing traced or compiled again. Our chains then run on a
                       log density made once, as for the other tools; NumPyro's kernel runs in one
                       jitted function
    us / gradient      "exec" over the gradients of all chains, which share the cores
    executed / useful  gradients that compiled loops evaluate over gradients that chains need; in
                       lock step, chains wait for the longest trajectory of each iteration
    ESS                smallest bulk ESS of all parameters
    z                  largest difference of posterior means from the published ones, in standard
                       errors; with a star, from our means. Above about 5, one of the two is wrong

    python benchmarks/nuts.py [--chains 4 1024] [--models radon garch] [--warmup N] [--draws N] ...

Results go to `benchmarks/results/` as JSON, table and picture. The files are `nuts` and
`nuts-chains`, or `chosen` if models or chains are given.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.problems import MORE, POSTERIORDB, PROBLEMS, default_names
from benchmarks.comparison.run import arguments, compare

RUNS = [
    {
        "models": default_names(),
        "chains": [4],
        "warmup": 1000,
        "draws": 1000,
        "repeats": 3,
        "execution_only": False,
        "name": "nuts",
    },
    {
        "models": ["eight schools", "radon"],
        "chains": [1, 4, 16, 64, 256, 1024],
        "warmup": 300,
        "draws": 100,
        "repeats": 2,
        "execution_only": True,
        "name": "nuts-chains",
    },
]


def main() -> None:
    given = vars(arguments(__doc__, **dict.fromkeys(RUNS[0])).parse_args())
    given = {name: value for name, value in given.items() if value is not None}
    unknown = set(given.get("models", ())) - set(PROBLEMS)
    if unknown:
        raise SystemExit(f"no model {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    if not POSTERIORDB.is_dir():
        print(f"No {POSTERIORDB}: the models of posteriordb are left out.")
    is_chosen = "models" in given or "chains" in given
    there = {*default_names(), *MORE}
    for run in [RUNS[0] | {"name": "chosen"}] if is_chosen else RUNS:
        options = argparse.Namespace(**run | given)
        options.models = [name for name in options.models if name in there]
        compare(options)
        print((options.out / f"{options.name}.md").read_text())


if __name__ == "__main__":
    main()
