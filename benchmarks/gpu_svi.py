"""How many steps a second does variational inference take on an accelerator, beside NumPyro?

    regression   mean field, logistic regression of 10,000 rows and 25 predictors
    full rank    full covariance over 1,000 coordinates of a normal density
    flow         inverse autoregressive flow of two layers, 100 units each, over 100 coordinates
    batches      mean field, a batch of 10,000 rows of 10,000,000 for each step, drawn on the device
    streamed     as batches, of data in the host's memory, of which a loader gives a batch for each
                 step; ours by ``svi(batches=)``, which puts the next batch on the device meanwhile
    digits vae   a variational autoencoder of images of 8 by 8 pixels, with networks of 128 units
                 and batches of 100 images, as `examples/digits_vae.py`

Both take steps of Adam(1e-2) with one draw each. Ours are the extra steps of a longer call of
`inference.svi` over the extra time, after both lengths have run once; NumPyro's are those of its
`svi.update` in a `lax.scan` under `jit`, which its own interface does not offer. Medians of rounds
in which both take turns; there are fewer rounds where one takes long. For the streamed case NumPyro
has its update under `jit`, called with a batch at a time. The cases run in a process of their own,
which ends if one of them has no number after ``--seconds``; the others then run in another one.
``--small`` shows within a few minutes, on a CPU, that the benchmark works.

    python benchmarks/gpu_svi.py [--small] [--rows 10000000] [--rounds 3] [--seconds N] [case ...]
"""

import argparse
import itertools
import pathlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as theirs
import optax
from jax import lax
from numpyro.infer import SVI, Trace_ELBO, autoguide

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import distributions as dist
import inference
import ppl

COLUMNS, BATCH = 25, 10_000
NUM_PIXELS, MOST, NUM_CODES, NUM_UNITS, NUM_IMAGES, IMAGES = 64, 16, 10, 128, 1_500, 100
FEW, MANY = 1_000, 9_000  # steps of a short and a long call
FEW_STREAMED, MANY_STREAMED = 100, 900
COORDINATES = 1_000  # of the full covariance
Steps = Callable[[int], float]


def rows(num_rows: int) -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (num_rows, COLUMNS))
    logits = x @ jax.random.normal(keys[1], (COLUMNS,))
    return x, (jax.random.uniform(keys[2], (num_rows,)) < jax.nn.sigmoid(logits)).astype(jnp.int32)


def ours(model: Any, *args: Any, few: int = 0, many: int = 0, **settings: Any) -> Steps:
    """Steps of a second of `inference.svi`, by the number of the round."""
    few, many = few or FEW, many or MANY

    def seconds(seed: int, num_steps: int) -> float:
        start = time.perf_counter()
        inference.svi(
            jax.random.key(seed),
            model,
            *args,
            num_steps=num_steps,
            num_draws=1,
            optimizer=optax.adam(1e-2),
            **settings,
        )
        return time.perf_counter() - start

    def steps(seed: int) -> float:
        return (many - few) / (seconds(seed, many) - seconds(seed, few))

    seconds(0, few)
    return steps


def numpyros(model: Any, guide: Any, *args: Any) -> Steps:
    """Steps of a second of NumPyro's update in one compiled loop."""
    svi = SVI(model, guide, numpyro.optim.Adam(1e-2), Trace_ELBO())

    @jax.jit
    def run(state: Any, *args: Any) -> Any:
        return lax.scan(lambda state, _: svi.update(state, *args), state, length=MANY)

    def steps(seed: int) -> float:
        state = svi.init(jax.random.key(seed), *args)
        start = time.perf_counter()
        jax.block_until_ready(run(state, *args))
        return MANY / (time.perf_counter() - start)

    steps(0)
    return steps


def logistic(key: jax.Array, x: jax.Array, y: jax.Array, num_rows: int) -> None:
    slopes = ppl.sample(key, dist.Normal(jnp.zeros(COLUMNS), 1.0), name="slopes")
    log_probs = dist.Bernoulli(logits=x @ slopes).log_prob(y)
    ppl.factor(num_rows / len(y) * jnp.sum(log_probs), name="rows")


def their_logistic(x: jax.Array, y: jax.Array) -> None:
    slopes = numpyro.sample("slopes", theirs.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1))
    part, num_rows = (x, y), len(x)
    if num_rows > BATCH:  # a plate would permute all rows for each batch
        index = jax.random.randint(numpyro.prng_key(), (BATCH,), 0, num_rows)
        part = x[index], y[index]
    with numpyro.handlers.scale(scale=num_rows / len(part[0])), numpyro.plate("rows", len(part[0])):
        numpyro.sample("y", theirs.Bernoulli(logits=part[0] @ slopes), obs=part[1])


def regression(num_rows: int) -> tuple[Steps, Steps]:
    x, y = rows(BATCH)
    mean_field = autoguide.AutoNormal(their_logistic)
    return ours(logistic, x, y, BATCH), numpyros(their_logistic, mean_field, x, y)


def normal(size: int) -> tuple[Any, Any]:
    scale = np.geomspace(0.1, 10, size).astype(np.float32)
    model = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(size), scale), name="x")  # noqa: E731
    their = lambda: numpyro.sample("x", theirs.Normal(jnp.zeros(size), scale).to_event(1))  # noqa: E731
    return model, their


def full_rank(num_rows: int) -> tuple[Steps, Steps]:
    model, their = normal(COORDINATES)
    covariance = autoguide.AutoMultivariateNormal(their)
    return ours(model, guide=inference.FullRank()), numpyros(their, covariance)


def flow(num_rows: int) -> tuple[Steps, Steps]:
    model, their = normal(100)
    guide = inference.InverseAutoregressive(num_layers=2, hidden_sizes=(100,))
    theirs = autoguide.AutoIAFNormal(their, num_flows=2, hidden_dims=[100])
    return ours(model, guide=guide), numpyros(their, theirs)


def batches(num_rows: int) -> tuple[Steps, Steps]:
    x, y = rows(num_rows)

    def batch(key: jax.Array, x: jax.Array, y: jax.Array, num_rows: int) -> Any:
        index = jax.random.randint(key, (BATCH,), 0, len(x))
        return x[index], y[index], num_rows

    mean_field = autoguide.AutoNormal(their_logistic)
    part = ours(logistic, x, y, num_rows, batch=batch)
    return part, numpyros(their_logistic, mean_field, x, y)


class Loader:
    """Batches of consecutive rows of arrays in the host's memory; it ends, and starts again."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        num_rows = len(self.arrays[0])
        for start in range(0, num_rows - min(BATCH, num_rows) + 1, BATCH):
            yield tuple(x[start : start + BATCH] for x in self.arrays)


def streamed(num_rows: int) -> tuple[Steps, Steps]:
    x, y = map(np.asarray, rows(num_rows))
    few, many = FEW_STREAMED, MANY_STREAMED

    def part(key: jax.Array, x: jax.Array, y: jax.Array) -> None:
        logistic(key, x, y, num_rows)

    held = x[:BATCH], y[:BATCH]
    mine = ours(part, *held, few=few, many=many, batches=Loader(x, y))

    def their(x: jax.Array, y: jax.Array) -> None:
        slopes = numpyro.sample("slopes", theirs.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1))
        with numpyro.plate("rows", num_rows, subsample_size=len(x)):
            numpyro.sample("y", theirs.Bernoulli(logits=x @ slopes), obs=y)

    optimizer = numpyro.optim.Adam(1e-2)
    svi = SVI(their, autoguide.AutoNormal(their), optimizer, Trace_ELBO())
    update = jax.jit(svi.update)

    def steps(seed: int) -> float:
        state, loader = svi.init(jax.random.key(seed), *held), itertools.cycle(Loader(x, y))
        state, _ = update(state, *next(loader))
        start = time.perf_counter()
        for _ in range(many):
            state, _ = update(state, *next(loader))
        jax.block_until_ready(state)
        return many / (time.perf_counter() - start)

    steps(0)
    return mine, steps


def perceptron(key: jax.Array, num_in: int, num_out: int) -> dict[str, jax.Array]:
    """Weights of a network with one hidden layer."""
    first, second = jax.random.split(key)
    return {
        "first": jax.random.normal(first, (num_in, NUM_UNITS)) / num_in**0.5,
        "bias": jnp.zeros(NUM_UNITS),
        "second": jax.random.normal(second, (NUM_UNITS, num_out)) / NUM_UNITS**0.5,
        "end": jnp.zeros(num_out),
    }


def apply(weights: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    hidden = jax.nn.relu(x @ weights["first"] + weights["bias"])
    return hidden @ weights["second"] + weights["end"]


def digits_vae(num_rows: int) -> tuple[Steps, Steps]:
    keys = jax.random.split(jax.random.key(0), 3)
    pixels = jax.random.randint(keys[0], (NUM_IMAGES, NUM_PIXELS), 0, MOST + 1)
    decoder = perceptron(keys[1], NUM_CODES, NUM_PIXELS)
    encoder = perceptron(keys[2], NUM_PIXELS, 2 * NUM_CODES)

    def encode(weights: Any, pixels: jax.Array) -> tuple[jax.Array, jax.Array]:
        loc, log_scale = jnp.split(apply(weights, pixels / MOST), 2, axis=-1)
        return loc, jnp.exp(log_scale)

    def model(key: jax.Array, pixels: jax.Array) -> None:
        weights = ppl.param(decoder, name="decoder")

        def image(key: jax.Array, pixels: jax.Array) -> None:
            code = ppl.sample(key, dist.Normal(jnp.zeros(NUM_CODES), 1.0), name="code")
            dots = dist.Binomial(MOST, logits=apply(weights, code))
            ppl.factor(jnp.sum(dots.log_prob(pixels)), name="pixels")

        images = ppl.scale(jax.vmap(image), NUM_IMAGES / len(pixels))
        images(jax.random.split(key, len(pixels)), pixels)

    def guide(key: jax.Array, pixels: jax.Array) -> None:
        weights = ppl.param(encoder, name="encoder")

        def code(key: jax.Array, pixels: jax.Array) -> None:
            ppl.sample(key, dist.Normal(*encode(weights, pixels)), name="code")

        codes = ppl.scale(jax.vmap(code), NUM_IMAGES / len(pixels))
        codes(jax.random.split(key, len(pixels)), pixels)

    def batch(key: jax.Array, pixels: jax.Array) -> Any:
        return (pixels[jax.random.randint(key, (IMAGES,), 0, len(pixels))],)

    def their_model(pixels: jax.Array) -> None:
        weights = numpyro.param("decoder", decoder)
        with numpyro.plate("images", NUM_IMAGES, subsample_size=IMAGES) as index:
            code = numpyro.sample("code", theirs.Normal(jnp.zeros(NUM_CODES), 1.0).to_event(1))
            dots = theirs.Binomial(MOST, logits=apply(weights, code)).to_event(1)
            numpyro.sample("pixels", dots, obs=pixels[index])

    def their_guide(pixels: jax.Array) -> None:
        weights = numpyro.param("encoder", encoder)
        with numpyro.plate("images", NUM_IMAGES, subsample_size=IMAGES) as index:
            of_code = theirs.Normal(*encode(weights, pixels[index])).to_event(1)
            numpyro.sample("code", of_code)

    mine = ours(model, pixels, guide=guide, batch=batch)
    return mine, numpyros(their_model, their_guide, pixels)


CASES = {
    "regression": regression,
    "full rank": full_rank,
    "flow": flow,
    "batches": batches,
    "streamed": streamed,
    "digits vae": digits_vae,
}


def shrink() -> None:
    """Fewer steps, rows and coordinates, for a look on a CPU."""
    global BATCH, FEW, MANY, FEW_STREAMED, MANY_STREAMED, COORDINATES
    BATCH, COORDINATES, FEW, MANY, FEW_STREAMED, MANY_STREAMED = 1_000, 100, 100, 1_100, 100, 1_100


def line_of(case: str, options: argparse.Namespace) -> str:
    """Medians of rounds, of which none starts after half of the time."""
    began, rates = time.monotonic(), []
    pair = CASES[case](options.rows)
    for number in range(options.rounds):
        if not number or time.monotonic() - began < options.seconds / 2:
            rates.append([tool(1 + number) for tool in pair])
    a, b = (statistics.median(column) for column in zip(*rates, strict=True))
    return f"{case:14}{a:10.0f}{b:10.0f}{a / b:8.2f}{len(rates):8}"


def work(options: argparse.Namespace) -> None:
    """Prints the device, and a line for each case."""
    if options.small:
        shrink()
    versions = f"JAX {jax.__version__}, NumPyro {numpyro.__version__}"
    print(f"{jax.devices()[0].device_kind}, {versions}; steps a second", flush=True)
    for case in options.cases:
        print(line_of(case, options), flush=True)


def watch(cases: list[str], options: argparse.Namespace, is_first: bool) -> list[str]:
    """Runs cases in another process, and returns those that are left when it ends."""
    given = [f"--{name}={getattr(options, name)}" for name in ("rows", "rounds", "seconds")]
    given += ["--worker", *["--small"] * options.small]
    command = [sys.executable, __file__, *given, *cases]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        for number, case in enumerate(cases, 1):
            limit = threading.Timer(options.seconds, worker.kill)
            limit.start()
            head = worker.stdout.readline() if number == 1 else ""
            line = worker.stdout.readline()
            limit.cancel()
            if head and is_first:
                print(f"{head}{'':14}{'ppl':>10}{'numpyro':>10}{'ratio':>8}{'rounds':>8}")
            if not line:
                why = f"not within {options.seconds:.0f} s" if worker.wait() < 0 else "failed"
                print(f"{case:14}{why}", flush=True)
                return cases[number:]
            print(line, end="", flush=True)
    return []


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60, help="limit of a case, 180 if small")
    parser.add_argument("--small", action="store_true", help="few steps, and 100,000 rows")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.small:
        parser.set_defaults(rows=100_000, seconds=180)
        options = parser.parse_args()
    if options.worker:
        work(options)
        return
    cases, is_first = options.cases, True
    while cases:
        cases, is_first = watch(cases, options, is_first), False


if __name__ == "__main__":
    main()
