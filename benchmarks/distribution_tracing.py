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

# Our family, NumPyro's, the parameters, and a value.
FAMILIES: dict[str, tuple[Make, Make, tuple[Any, ...], Any]] = {
    "Normal": (dist.Normal, nd.Normal, (0.5, A), X),
    "HalfNormal": (dist.HalfNormal, nd.HalfNormal, (A,), X),
    "Cauchy": (dist.Cauchy, nd.Cauchy, (0.5, A), X),
    "HalfCauchy": (lambda s: dist.HalfCauchy(0.0, s), nd.HalfCauchy, (A,), X),
    "StudentT": (dist.StudentT, nd.StudentT, (3.0, 0.5, A), X),
    "Laplace": (dist.Laplace, nd.Laplace, (0.5, A), X),
    "LogNormal": (dist.LogNormal, nd.LogNormal, (0.5, A), X),
    "Exponential": (dist.Exponential, nd.Exponential, (A,), X),
    "Gamma": (dist.Gamma, nd.Gamma, (2.0, A), X),
    "InverseGamma": (dist.InverseGamma, nd.InverseGamma, (2.0, A), X),
    "Weibull": (dist.Weibull, lambda k, s: nd.Weibull(s, k), (2.0, A), X),
    "Beta": (dist.Beta, nd.Beta, (2.0, A), X),
    "Uniform": (dist.Uniform, nd.Uniform, (0.0, A + 1), X),
    "Bernoulli": (
        lambda p: dist.Bernoulli(logits=p),
        lambda p: nd.Bernoulli(logits=p),
        (A,),
        Y.clip(0, 1),
    ),
    "Binomial": (
        lambda p: dist.Binomial(9, logits=p),
        lambda p: nd.Binomial(9, logits=p),
        (A,),
        Y,
    ),
    "Poisson": (dist.Poisson, nd.Poisson, (A,), Y),
    "NegativeBinomial": (
        lambda m, k: dist.NegativeBinomial(mean=m, concentration=k),
        nd.NegativeBinomial2,
        (A, 2.0),
        Y,
    ),
    "Categorical": (
        lambda p: dist.Categorical(logits=p),
        lambda p: nd.Categorical(logits=p),
        (A,),
        2,
    ),
    "Dirichlet": (dist.Dirichlet, nd.Dirichlet, (A,), SIMPLEX),
    "MultivariateNormal": (
        lambda m, tril: dist.MultivariateNormal(m, scale_tril=tril),
        lambda m, tril: nd.MultivariateNormal(m, scale_tril=tril),
        (A, TRIL),
        X,
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
    for name, (ours, theirs, parameters, value) in FAMILIES.items():
        scores = [np.asarray(make(*parameters).log_prob(value)) for make in (ours, theirs)]
        difference = np.max(np.abs(scores[0] / scores[1] - 1))
        shown, at, totals = "", jnp.asarray(value), np.zeros(2)
        for k, (method, first) in enumerate(((log_prob, at), (sample, KEY))):
            calls = [
                lambda m=make, f=method, args=(first, *parameters): once(f(m), *args)
                for make in (ours, theirs)
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
