"""Sequential Monte Carlo: what does an estimate of the evidence cost, beside the peers?

Two parts, each with its problems:

- "filters": `particle_filter` on series of 500 steps, beside the package `particles`, whose models
  are classes of NumPy; both propose by the model, and resample systematically below half of the
  effective sample size;
- "samplers": `smc` on a logistic regression with ten covariates, beside BlackJAX's waste-free
  tempering with random walks of adapted covariance, and PyMC's `sample_smc`; 2048 particles each.

Columns: CPU seconds of a call on all threads, the first call apart, which compiles; particle steps
a second; the standard deviation (SD) of the log evidence over calls with other keys; its bias, the
log of the mean evidence minus what is known (by a Kalman filter, by bridge sampling of 16,000
draws), with its standard error; and seconds times variance, what a call would cost at an SD of 1:
the smaller the better. Tools take turns in one process.

    python benchmarks/sequential.py [--parts filters samplers] [--rounds N]

The package `particles` asks for an old NumPy, but runs with a new one:
`pip install --no-deps particles joblib scikit-learn`. A peer that is not installed is left out.
"""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import pathlib
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

if __name__ == "__main__":
    here = pathlib.Path(__file__).resolve().parent
    sys.path = [str(here.parent), *(x for x in sys.path if pathlib.Path(x).resolve() != here)]

import distributions as dist
import inference
import ppl

RESULTS = pathlib.Path(__file__).parent / "results"
NUM_STEPS = 500
Run = Callable[[int], float]
Row = dict[str, Any]


def volatility(key, num_days):
    """Stochastic volatility: the log variance of returns is an autoregression."""

    def day(x, key):
        x = ppl.sample(key, dist.Normal(0.95 * x, 0.3), name="x")
        ppl.sample(key, dist.Normal(0.0, jnp.exp(x / 2)), name="y")
        return x, None

    first = ppl.sample(key, dist.Normal(0.0, 1.0), name="first")
    jax.lax.scan(day, first, jax.random.split(key, num_days))


def local_level(key, num_steps):
    """A random walk that is observed with noise, whose evidence is known by a Kalman filter."""

    def step(x, key):
        x = ppl.sample(key, dist.Normal(x, 0.5), name="x")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")
        return x, None

    first = ppl.sample(key, dist.Normal(0.0, 1.0), name="first")
    jax.lax.scan(step, first, jax.random.split(key, num_steps))


def logistic(key, x):
    """Logistic regression with wide priors."""
    beta = ppl.sample(key, dist.iid(dist.Normal(0.0, 5.0), x.shape[1]), name="beta")
    ppl.sample(key, dist.Bernoulli(logits=x @ beta), name="y")


def series(model: Callable[..., Any]) -> np.ndarray:
    """Simulated observations of a model of a series."""
    return np.asarray(ppl.simulate(model)(jax.random.key(1), NUM_STEPS)["y"])


def table_of_covariates() -> tuple[np.ndarray, np.ndarray]:
    """300 rows of ten covariates, and simulated outcomes."""
    rng = np.random.default_rng(7)
    x = np.column_stack([np.ones(300), rng.normal(size=(300, 9))])
    beta = rng.normal(size=10) / 2
    return x, (rng.random(300) < 1 / (1 + np.exp(-x @ beta))).astype(int)


def filter_of_ours(model: Callable[..., Any], y: np.ndarray, num_particles: int) -> Run:
    """Log evidence by `particle_filter`, with one draw of a path, as the peer makes none."""
    posterior = ppl.condition(model, {"y": jnp.asarray(y)})

    def run(seed: int) -> float:
        found = inference.particle_filter(
            jax.random.key(seed),
            posterior,
            NUM_STEPS,
            num_particles=num_particles,
            num_draws=1,
            smoothing="ancestors",
            progress=False,
        )
        return float(found.log_evidence)

    return run


def filter_of_particles(model: Callable[..., Any], y: np.ndarray, num_particles: int) -> Run:
    """Log evidence by a bootstrap filter of the package `particles`, without smoothing."""
    import particles
    from particles import distributions as laws
    from particles import state_space_models

    rho, sd = (0.95, 0.3) if model is volatility else (1.0, 0.5)

    class StateSpace(state_space_models.StateSpaceModel):
        def PX0(self):  # noqa: N802
            return laws.Normal(scale=float(np.hypot(rho, sd)))

        def PX(self, t, xp):  # noqa: N802
            return laws.Normal(loc=rho * xp, scale=sd)

        def PY(self, t, xp, x):  # noqa: N802
            if model is volatility:
                return laws.Normal(scale=np.exp(x / 2))
            return laws.Normal(loc=x)

    def run(seed: int) -> float:
        np.random.seed(seed)
        bootstrap = state_space_models.Bootstrap(ssm=StateSpace(), data=y)
        found = particles.SMC(fk=bootstrap, N=num_particles)
        found.run()
        return float(found.logLt)

    return run


def sampler_of_ours() -> Run:
    """Log evidence by `smc` with its defaults."""
    x, y = table_of_covariates()
    posterior = ppl.condition(logistic, {"y": jnp.asarray(y)})
    covariates = jnp.asarray(x)

    def run(seed: int) -> float:
        found = inference.smc(jax.random.key(seed), posterior, covariates, progress=False)
        return float(found.log_evidence)

    return run


def sampler_of_blackjax() -> Run:
    """Log evidence by BlackJAX: waste-free tempering, random walks with adapted covariance."""
    import blackjax
    from blackjax.smc import extend_params, resampling
    from blackjax.smc.tuning.from_particles import particles_covariance_matrix
    from blackjax.smc.waste_free import waste_free_smc

    x, y = map(jnp.asarray, table_of_covariates())
    num_particles = 2048
    size = x.shape[1]

    def log_prior(beta):
        return jax.scipy.stats.norm.logpdf(beta, 0.0, 5.0).sum()

    def log_likelihood(beta):
        eta = x @ beta
        return jnp.sum(y * eta - jnp.logaddexp(0.0, eta))

    kernel = blackjax.rmh.build_kernel()

    def step(key, state, log_density, cov):
        def propose(key, position):
            return position + jax.random.multivariate_normal(key, jnp.zeros(size), cov)

        return kernel(key, state, log_density, propose)

    def tuned(key, state, info):
        cov = particles_covariance_matrix(state.particles) * 2.38**2 / size
        return extend_params({"cov": cov})

    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        mcmc_step_fn=step,
        mcmc_init_fn=blackjax.rmh.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=tuned,
        initial_parameter_value=extend_params({"cov": 25.0 * jnp.eye(size)}),
        target_ess=0.5,
        num_mcmc_steps=None,
        update_strategy=waste_free_smc(num_particles, 16),
    )

    @jax.jit
    def sample(key):
        def is_unfinished(carried):
            return carried[0].sampler_state.tempering_param < 1

        def advance(carried):
            state, key, total = carried
            key, own = jax.random.split(key)
            state, info = algorithm.step(own, state)
            return state, key, total + info.log_likelihood_increment

        start, own = jax.random.split(key)
        particles = 5.0 * jax.random.normal(start, (num_particles, size))
        state = algorithm.init(particles)
        return jax.lax.while_loop(is_unfinished, advance, (state, own, jnp.zeros(())))[2]

    return lambda seed: float(sample(jax.random.key(seed)))


def sampler_of_pymc() -> Run:
    """Log evidence by PyMC's `sample_smc` with its defaults but for one chain."""
    import pymc as pm

    x, y = table_of_covariates()

    def run(seed: int) -> float:
        with pm.Model(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            beta = pm.Normal("beta", 0.0, 5.0, shape=x.shape[1])
            pm.Bernoulli("y", logit_p=x @ beta, observed=y)
            settings = {"chains": 1, "cores": 1, "progressbar": False, "random_seed": seed}
            found = pm.sample_smc(2048, **settings)
        steps = found.sample_stats["log_marginal_likelihood"].values[0]
        return float(np.ravel(steps[-1] if steps.dtype == object else steps)[-1])

    return run


def truth_of_level(y: np.ndarray) -> float:
    """Log evidence of the random walk, all of its states integrated out exactly."""
    posterior = ppl.condition(local_level, {"y": jnp.asarray(y)})
    exact = ppl.marginalize(posterior, {"first": ppl.Gaussian(), "x": ppl.Gaussian()})
    return float(ppl.log_density(exact)({}, NUM_STEPS))


def truth_of_logistic() -> float:
    """Log evidence of the logistic regression, by bridge sampling; standard error 0.01."""
    x, y = table_of_covariates()
    posterior = ppl.condition(logistic, {"y": jnp.asarray(y)})
    draws = inference.mcmc(
        jax.random.key(5), posterior, jnp.asarray(x), num_draws=4000, progress=False
    )
    return inference.evidence(draws, posterior, jnp.asarray(x)).log_evidence


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem: its name, log evidence if known, particle steps of a call, and tools."""

    name: str
    truth: float | None
    work: int | None
    tools: Mapping[str, Callable[[], Run]]


def filter_problem(model: Callable[..., Any], num_particles: int) -> Problem:
    """The problem of a series."""
    y = series(model)
    return Problem(
        f"{model.__name__.replace('_', ' ')}, {num_particles:,} particles",
        truth_of_level(y) if model is local_level else None,
        NUM_STEPS * num_particles,
        {
            "ppl": lambda: filter_of_ours(model, y, num_particles),
            "particles": lambda: filter_of_particles(model, y, num_particles),
        },
    )


def problems(parts: Sequence[str]) -> Iterator[Problem]:
    """The problems of some parts."""
    if "filters" in parts:
        for model, num_particles in ((local_level, 1000), (volatility, 1000), (volatility, 10_000)):
            yield filter_problem(model, num_particles)
    if "samplers" in parts:
        tools = {"ppl": sampler_of_ours, "blackjax": sampler_of_blackjax, "pymc": sampler_of_pymc}
        yield Problem("logistic regression", truth_of_logistic(), None, tools)


def measure(problem: Problem, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds and log evidences of calls of each tool, in turns; the first call compiles."""
    made = {
        name: make()
        for name, make in problem.tools.items()
        if name == "ppl" or importlib.util.find_spec(name) is not None
    }
    found: dict[str, dict[str, list[float]]] = {x: {"seconds": [], "values": []} for x in made}
    for seed in range(rounds + 1):
        for name, run in made.items():
            start = time.process_time()
            value = run(seed)
            found[name]["seconds"].append(time.process_time() - start)
            found[name]["values"].append(value)
    return found


def rows_of(problem: Problem, found: Mapping[str, Mapping[str, list[float]]]) -> list[Row]:
    """A row for each tool."""
    rows = []
    for name, x in found.items():
        seconds = statistics.median(x["seconds"][1:])
        values = np.asarray(x["values"])
        weights = np.exp(values - values.max())
        error = weights.std(ddof=1) / weights.mean() / np.sqrt(len(weights))
        mean = values.max() + np.log(weights.mean())
        rows.append(
            {
                "problem": problem.name,
                "tool": name,
                "first call (s)": x["seconds"][0],
                "call (s)": seconds,
                "10^6 steps a s": problem.work and problem.work / seconds / 1e6,
                "SD": values.std(ddof=1),
                "bias": None if problem.truth is None else mean - problem.truth,
                "error of bias": error,
                "s x variance": seconds * values.var(ddof=1),
            }
        )
    for row in rows:
        row["peer / ours"] = (
            None if row["tool"] == "ppl" else row["s x variance"] / rows[0]["s x variance"]
        )
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a table."""
    head = list(rows[0])
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2)]
    lines += [
        ["" if x is None else f"{x:.3g}" if isinstance(x, float) else str(x) for x in row.values()]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def versions() -> str:
    """Versions of what was measured."""
    names = [x for x in ("jax", "blackjax", "pymc", "particles") if importlib.util.find_spec(x)]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def main() -> None:
    """Measure, and write JSON and table, anew after each problem."""
    parser = argparse.ArgumentParser(description="cost of estimates of the evidence")
    parser.add_argument("--parts", nargs="*", default=["filters", "samplers"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    given = parser.parse_args()
    rows: list[Row] = []
    for problem in problems(given.parts):
        rows += [
            {name: float(x) if isinstance(x, np.floating) else x for name, x in row.items()}
            for row in rows_of(problem, measure(problem, given.rounds))
        ]
        (given.out / "sequential.json").write_text(json.dumps(rows, indent=1) + "\n")
        words = f"Made by `benchmarks/sequential.py`, which explains the columns. {versions()}."
        text = f"# Sequential Monte Carlo\n\n{words}\n\n{markdown(rows)}"
        (given.out / "sequential.md").write_text(text)
        print(markdown(rows))


if __name__ == "__main__":
    main()
