"""Which sampler makes most effective draws a second with hundreds or thousands of chains?

ChEES-HMC, adjusted MCLMC and MEADS of this library, which move all chains in lockstep and adapt
over them, beside those of the same names in BlackJAX, if it is installed, and beside our NUTS, on
the accelerator that JAX finds. ESS is that of the bulk, the least over all scalars; the time is
that of warm-up and draws together, with nothing compiled. `benchmarks/nuts.py` explains the
columns. With ``--cpu`` the benchmark runs on the CPU; without, it says if there is no accelerator,
and ends. All models are in the code: it needs no published draws and no network.

    python benchmarks/many_chains.py [--cpu] [--chains 128 1024] [--models radon] [--draws N] ...

Results go to `benchmarks/results/` as JSON, table and picture.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.ensembles import ENSEMBLES
from benchmarks.comparison.run import arguments, compare
from benchmarks.comparison.tools import installed
from benchmarks.gpu import accelerator

MODELS = ["schools", "radon", "logistic"]
CHAINS = [128, 1024, 4096]


def main() -> None:
    numbers = {"warmup": 300, "draws": 100, "repeats": 2, "chains": CHAINS}
    parser = arguments(__doc__, models=MODELS, **numbers, name=None, execution_only=True)
    parser.set_defaults(tools=["ppl", *installed(ENSEMBLES)])
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    options = parser.parse_args()
    kind = "the CPU" if options.cpu else accelerator()
    if not kind:
        print("JAX finds no accelerator: nothing is measured. --cpu runs on the CPU.")
        return
    name = "-".join(["many-chains", *kind.lower().replace(",", "").split()])
    options.name = options.name or name.replace("-the-cpu", "-cpu")
    print(kind, flush=True)
    compare(options)
    print((options.out / f"{options.name}.md").read_text())


if __name__ == "__main__":
    main()
