"""How long does it take to make, trace and compile a distribution, beside NumPyro?

For each of the twenty families that models use most, two new functions make the distribution from
their arguments: one returns the log density of a value, the other a draw. Each is traced and
lowered, and then compiled. Both libraries take turns in one process, with Python's garbage
collector off. Figures are medians over rounds of CPU time, which other work on the machine disturbs
less than elapsed time.

    trace       milliseconds to trace and lower
    XLA         ratio of the times to compile
    both        ratio of the times to trace and lower density and draw together
    difference  largest relative difference of the two log densities

Above the table: seconds to import the package in fresh processes, after JAX, beside NumPyro's
distributions and TensorFlow Probability's JAX substrate.

    python benchmarks/distribution_tracing.py [rounds]
"""

import dataclasses
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import numpyro
import numpyro.distributions as nd

import distributions as dist

Make = Callable[..., Any]
KEY = jax.random.key(0)
X = np.array([0.25, 0.5, 0.75], np.float32)
Y = np.array([0, 1, 3])
A = np.array([0.5, 1.5, 2.5], np.float32)
SIMPLEX = np.array([0.25, 0.25, 0.5], np.float32)
TRIL = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]], np.float32)
CUTS = np.array([-1.0, 0.5], np.float32)


@dataclasses.dataclass(frozen=True)
class Family:
    """A family as we make it and as NumPyro does, from the same parameters, and a value."""

    ours: Make
    theirs: Make
    parameters: tuple[Any, ...]
    value: Any


FAMILIES = {
    "Normal": Family(ours=dist.Normal, theirs=nd.Normal, parameters=(0.5, A), value=X),
    "HalfNormal": Family(ours=dist.HalfNormal, theirs=nd.HalfNormal, parameters=(A,), value=X),
    "Cauchy": Family(ours=dist.Cauchy, theirs=nd.Cauchy, parameters=(0.5, A), value=X),
    "HalfCauchy": Family(
        ours=lambda s: dist.HalfCauchy(0.0, s), theirs=nd.HalfCauchy, parameters=(A,), value=X
    ),
    "StudentT": Family(ours=dist.StudentT, theirs=nd.StudentT, parameters=(3.0, 0.5, A), value=X),
    "Laplace": Family(ours=dist.Laplace, theirs=nd.Laplace, parameters=(0.5, A), value=X),
    "LogNormal": Family(ours=dist.LogNormal, theirs=nd.LogNormal, parameters=(0.5, A), value=X),
    "Exponential": Family(ours=dist.Exponential, theirs=nd.Exponential, parameters=(A,), value=X),
    "Gamma": Family(ours=dist.Gamma, theirs=nd.Gamma, parameters=(2.0, A), value=X),
    "InverseGamma": Family(
        ours=dist.InverseGamma, theirs=nd.InverseGamma, parameters=(2.0, A), value=X
    ),
    "Weibull": Family(
        ours=dist.Weibull, theirs=lambda k, s: nd.Weibull(s, k), parameters=(2.0, A), value=X
    ),
    "Beta": Family(ours=dist.Beta, theirs=nd.Beta, parameters=(2.0, A), value=X),
    "Uniform": Family(ours=dist.Uniform, theirs=nd.Uniform, parameters=(0.0, A + 1), value=X),
    "Bernoulli": Family(
        ours=lambda p: dist.Bernoulli(logits=p),
        theirs=lambda p: nd.Bernoulli(logits=p),
        parameters=(A,),
        value=Y.clip(0, 1),
    ),
    "Binomial": Family(
        ours=lambda p: dist.Binomial(9, logits=p),
        theirs=lambda p: nd.Binomial(9, logits=p),
        parameters=(A,),
        value=Y,
    ),
    "Poisson": Family(ours=dist.Poisson, theirs=nd.Poisson, parameters=(A,), value=Y),
    "NegativeBinomial": Family(
        ours=lambda m, k: dist.NegativeBinomial(mean=m, concentration=k),
        theirs=nd.NegativeBinomial2,
        parameters=(A, 2.0),
        value=Y,
    ),
    "Categorical": Family(
        ours=lambda p: dist.Categorical(logits=p),
        theirs=lambda p: nd.Categorical(logits=p),
        parameters=(A,),
        value=2,
    ),
    "Dirichlet": Family(ours=dist.Dirichlet, theirs=nd.Dirichlet, parameters=(A,), value=SIMPLEX),
    "MultivariateNormal": Family(
        ours=lambda m, tril: dist.MultivariateNormal(m, scale_tril=tril),
        theirs=lambda m, tril: nd.MultivariateNormal(m, scale_tril=tril),
        parameters=(A, TRIL),
        value=X,
    ),
}


def log_prob(make: Make) -> tuple[Any, Callable[..., Any]]:
    return lambda value, *parameters: make(*parameters).log_prob(value)


def sample(make: Make) -> Callable[..., Any]:
    return lambda key, *parameters: make(*parameters).sample(key, (4,))


def once(f: Callable[..., Any], *args: Any) -> tuple[float, float]:
    """CPU milliseconds to trace and lower a new function, and to compile it."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    lowered = jax.jit(f).lower(*args)
    traced = time.process_time()
    lowered.compile()
    end = time.process_time()
    gc.enable()
    return 1e3 * (traced - start), 1e3 * (end - traced)


def medians(rounds: int, calls: list[Callable[[], tuple[float, float]]]) -> list[list[float]]:
    times = [[call() for call in calls] for _ in range(rounds + 1)][1:]
    return [
        [statistics.median(column) for column in zip(*one, strict=True)]
        for one in zip(*times, strict=True)
    ]


def geometric_mean(x: list[float]) -> float:
    return float(np.exp(np.mean(np.log(x))))


def imports(rounds: int = 9) -> None:
    """Seconds to import a package in a fresh process that has imported JAX."""
    start = "import time, jax, jax.numpy, numpy; t = time.perf_counter(); "
    end = "; print(time.perf_counter() - t)"
    tfp = "from tensorflow_probability.substrates import jax as tfp; tfp.distributions"
    statements = ("import distributions", tfp, "import numpyro.distributions")
    times = [
        [
            float(subprocess.check_output([sys.executable, "-c", start + s + end], text=True))
            for s in statements
        ]
        for _ in range(rounds)
    ]
    ours, theirs, numpyros = (statistics.median(c) for c in zip(*times, strict=True))
    print(f"import after JAX, s: ours {ours:.3f}, TFP {theirs:.3f}, NumPyro {numpyros:.3f}")


def main(rounds: int) -> None:
    versions = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpyro {numpyro.__version__}"
    print(f"Python {sys.version.split()[0]}, {versions}, {jax.default_backend()}, {rounds} rounds")
    imports()
    print(f"{'':20}{'log_prob: trace, ms':>24}{'XLA':>8}{'sample: trace, ms':>26}{'XLA':>8}")
    heads = f"{'ours':>8}{'numpyro':>8}{'ratio':>8}{'ratio':>8}  " * 2
    print(f"{'':20}{heads}{'both':>6}{'difference':>12}")
    columns: list[list[float]] = [[], [], [], [], []]
    for name, family in FAMILIES.items():
        makes, parameters = (family.ours, family.theirs), family.parameters
        scores = [np.asarray(make(*parameters).log_prob(family.value)) for make in makes]
        difference = np.max(np.abs(scores[0] / scores[1] - 1))
        shown, at, totals = "", jnp.asarray(family.value), np.zeros(2)
        for k, (method, first) in enumerate(((log_prob, at), (sample, KEY))):
            calls = [
                lambda m=make, f=method, args=(first, *parameters): once(f(m), *args)
                for make in makes
            ]
            (a, a_xla), (b, b_xla) = medians(rounds, calls)
            columns[2 * k].append(a / b)
            columns[2 * k + 1].append(a_xla / b_xla)
            totals += a, b
            shown += f"{a:8.1f}{b:8.1f}{a / b:8.2f}{a_xla / b_xla:8.2f}  "
        columns[4].append(totals[0] / totals[1])
        print(f"{name:20}{shown}{columns[4][-1]:6.2f}{difference:12.1e}", flush=True)
    means = [geometric_mean(c) for c in columns]
    above = [sum(r > 1 for r in c) for c in columns]
    print("geometric means of the ratios: " + ", ".join(f"{m:.2f}" for m in means))
    print("ratios above 1: " + ", ".join(map(str, above)) + f" of {len(FAMILIES)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
