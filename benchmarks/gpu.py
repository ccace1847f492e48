"""How many effective draws a second does NUTS make with many chains on an accelerator?

NUTS of this library, NumPyro and BlackJAX, with 1 to 4096 chains mapped over together, on the
accelerator that JAX finds. The docstring of `nuts.py` explains the columns; calls that compile
every time are not timed here. Without an accelerator, the benchmark says so and ends. With
``--cpu`` our chains run on the CPU as they would on an accelerator; this shows only that the
benchmark works.

    python benchmarks/gpu.py [--cpu] [--chains 64 1024] [--models radon] [--draws N] ...

Results go to `benchmarks/results/` as JSON, table and picture.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.problems import MORE, default_names
from benchmarks.comparison.run import arguments, compare
from benchmarks.comparison.tools import installed

MODELS = ["eight schools", "radon", "logistic"]
CHAINS = [1, 4, 16, 64, 256, 1024, 4096]


def accelerator() -> str:
    """The kind of the accelerator, empty without one.

    A subprocess asks JAX, as the process that asks takes hold of the accelerator.
    """
    code = "import jax; print(jax.default_backend(), jax.devices()[0].device_kind, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    backend, kind = done.stdout.splitlines()[-2:] if done.returncode == 0 else ("cpu", "")
    return "" if backend == "cpu" else kind


def main() -> None:
    there = {*default_names(), *MORE}
    models = [name for name in MODELS if name in there]
    numbers = {"warmup": 300, "draws": 100, "repeats": 2, "chains": CHAINS}
    parser = arguments(__doc__, models=models, **numbers, name=None, execution_only=True)
    parser.set_defaults(tools=[tool for tool in installed() if tool != "nutpie"])
    parser.add_argument("--cpu", action="store_true", help="map over our chains on the CPU")
    options = parser.parse_args()
    kind = "the CPU, mapped" if options.cpu else accelerator()
    if not kind:
        print("JAX finds no accelerator: nothing is measured. --cpu shows that this file works.")
        return
    options.name = options.name or "-".join(["gpu", *kind.lower().replace(",", "").split()])
    print(kind, flush=True)
    compare(options, is_mapped=options.cpu)
    print((options.out / f"{options.name}.md").read_text())


if __name__ == "__main__":
    main()
