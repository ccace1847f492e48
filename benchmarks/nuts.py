"""How many effective draws a second does NUTS make, beside NumPyro, BlackJAX and nutpie?

Ten posteriors by default, six of them of posteriordb where its data are there, with 4 chains; then
two of them with up to 1024 chains. Every tool runs in a process of its own with the same log
density of unconstrained parameters, as `ppl` derives it; nutpie has models in PyMC for most, if
that is installed. All have a target acceptance rate of 0.8 and the mass matrix of their defaults: a
diagonal, and ours a dense one for up to 100 coordinates, then one of low rank. A tool that is not
installed is left out.

"first" is the first call, imports apart, with tracing and compiling; "again" the median of more
calls, with other keys, of all that a user waits for; "exec" is the same work where nothing is
traced or compiled again: ours are chains on a log density that is made once, as that of the others
is, and for NumPyro it is its kernel in one jitted function. "us / gradient": "exec" over the
gradients of all chains, which share the cores. "executed / useful": the gradients that compiled
loops evaluate over those that chains need; in lock step, chains wait for the longest trajectory of
each iteration. ESS is the smallest bulk ESS over all parameters. "z" is the largest difference of
posterior means to the published ones or, with a star, to ours, in standard errors: above about 5,
one is wrong.

    python benchmarks/nuts.py [--chains 4 1024] [--models radon garch] [--warmup N] [--draws N] ...

Everything goes to `benchmarks/results/` as JSON, table and picture: `nuts` and `nuts-chains`, or
`chosen` where models or chains are given.
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
