"""The ten models of `latent_models.py` in NumPyro, as its users write them.

Sites have the names and priors that they have there. Effects with an unknown scale are not
centered, as NumPyro's guides advise.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.control_flow import scan
from numpyro.handlers import reparam
from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value
from numpyro.infer.reparam import LocScaleReparam

from benchmarks.comparison.latent_models import NUM_RETURNS, NUM_TRIALS
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.tools import TARGET_ACCEPTANCE_RATE, Settings

Model = Callable[..., None]


def not_centered(*names: str) -> Callable[[Model], Model]:
    """A decorator of a model whose sites of these names are not centered."""
    return lambda model: reparam(model, config={x: LocScaleReparam(0) for x in names})


@not_centered("b")
def seeds(num_seeds, is_other_seed, is_cucumber, germinated):
    alpha0 = numpyro.sample("alpha0", dist.Normal(0, 1e3))
    alpha1 = numpyro.sample("alpha1", dist.Normal(0, 1e3))
    alpha2 = numpyro.sample("alpha2", dist.Normal(0, 1e3))
    alpha12 = numpyro.sample("alpha12", dist.Normal(0, 1e3))
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    with numpyro.plate("plates", len(num_seeds)):
        b = numpyro.sample("b", dist.Normal(0, tau**-0.5))
        logits = alpha0 + alpha1 * is_other_seed + alpha2 * is_cucumber
        logits += alpha12 * is_other_seed * is_cucumber + b
        numpyro.sample("germinated", dist.Binomial(num_seeds, logits=logits), obs=germinated)


@not_centered("b")
def surgical(num_operations, deaths):
    mu = numpyro.sample("mu", dist.Normal(0, 1e3))
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    with numpyro.plate("hospitals", len(num_operations)):
        b = numpyro.sample("b", dist.Normal(mu, tau**-0.5))
        numpyro.sample("deaths", dist.Binomial(num_operations, logits=b), obs=deaths)


@not_centered("plate")
def salm(dose, colonies):
    alpha_star = numpyro.sample("alpha_star", dist.Normal(0, 100))
    beta = numpyro.sample("beta", dist.Normal(0, 100))
    gamma = numpyro.sample("gamma", dist.Normal(0, 1e5))
    tau = numpyro.sample("tau", dist.Gamma(1e-3, 1e-3))
    log_dose = jnp.log(dose + 10)
    level = alpha_star + beta * (log_dose - log_dose.mean()) + gamma * (dose - dose.mean())
    with numpyro.plate("doses", len(dose), dim=-2), numpyro.plate("plates", 3, dim=-1):
        plate = numpyro.sample("plate", dist.Normal(0, tau**-0.5))
        rate = jnp.exp(level[:, None] + plate)
        numpyro.sample("colonies", dist.Poisson(rate), obs=colonies)


@not_centered("b1", "b")
def epil(base, is_treated, age, seizures):
    names = "alpha0", "alpha_base", "alpha_trt", "alpha_bt", "alpha_age", "alpha_v4"
    alpha = {x: numpyro.sample(x, dist.Normal(0, 100)) for x in names}
    tau_b1 = numpyro.sample("tau_b1", dist.Gamma(1e-3, 1e-3))
    tau_b = numpyro.sample("tau_b", dist.Gamma(1e-3, 1e-3))
    log_base = jnp.log(base / 4)
    patient = alpha["alpha0"] + alpha["alpha_base"] * log_base + alpha["alpha_age"] * jnp.log(age)
    patient += is_treated * (alpha["alpha_trt"] + alpha["alpha_bt"] * log_base)
    is_last = jnp.array([0.0, 0.0, 0.0, 1.0])
    with numpyro.plate("patients", len(base)):
        b1 = numpyro.sample("b1", dist.Normal(0, tau_b1**-0.5))
    with numpyro.plate("patient", len(base), dim=-2), numpyro.plate("visits", 4, dim=-1):
        b = numpyro.sample("b", dist.Normal(0, tau_b**-0.5))
        rate = jnp.exp((patient + b1)[:, None] + alpha["alpha_v4"] * is_last + b)
        numpyro.sample("seizures", dist.Poisson(rate), obs=seizures)


def lattice(structure, expected, cases):
    level = numpyro.sample("level", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    neighbors = (structure < 0).astype(float)
    field = numpyro.sample("field", dist.CAR(0.0, 0.95, sigma**-2, neighbors))
    with numpyro.plate("sites", len(expected)):
        numpyro.sample("cases", dist.Poisson(expected * jnp.exp(level + field)), obs=cases)


@not_centered("first")
def volatility(returns):
    level = numpyro.sample("level", dist.Normal(0, 2))
    persistence = numpyro.sample("persistence", dist.Beta(20, 1.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))

    def step(before, _):
        with reparam(config={"h": LocScaleReparam(0)}):
            h = numpyro.sample("h", dist.Normal(persistence * before, sigma))
        return h, h

    first = numpyro.sample("first", dist.Normal(0, sigma / jnp.sqrt(1 - persistence**2)))
    _, h = scan(step, first, None, length=NUM_RETURNS)
    with numpyro.plate("days", NUM_RETURNS):
        numpyro.sample("returns", dist.Normal(0, jnp.exp((h + level) / 2)), obs=returns)


def gaussian_process(x, counts):
    level = numpyro.sample("level", dist.Normal(1, 1))
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(1))
    length = numpyro.sample("length", dist.InverseGamma(5, 1))
    distance = (x[:, None] - x) / length
    covariance = amplitude**2 * jnp.exp(-0.5 * distance**2) + 1e-4 * jnp.eye(len(x))
    with numpyro.plate("points", len(x)):
        z = numpyro.sample("z", dist.Normal(0, 1))
    curve = numpyro.deterministic("curve", jnp.linalg.cholesky(covariance) @ z)
    with numpyro.plate("data", len(x)):
        numpyro.sample("counts", dist.Poisson(jnp.exp(level + curve)), obs=counts)


@not_centered("ability", "ease")
def crossed(student, item, correct):
    level = numpyro.sample("level", dist.Normal(0, 2))
    sigma_student = numpyro.sample("sigma_student", dist.HalfNormal(1))
    sigma_item = numpyro.sample("sigma_item", dist.HalfNormal(1))
    with numpyro.plate("students", 40):
        ability = numpyro.sample("ability", dist.Normal(0, sigma_student))
    with numpyro.plate("items", 15):
        ease = numpyro.sample("ease", dist.Normal(0, sigma_item))
    with numpyro.plate("answers", len(correct)):
        logits = level + ability[student] + ease[item]
        numpyro.sample("correct", dist.Bernoulli(logits=logits), obs=correct)


@not_centered("effect")
def counts_by_group(group, x, count):
    level = numpyro.sample("level", dist.Normal(0, 2))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("groups", 100):
        effect = numpyro.sample("effect", dist.Normal(0, sigma))
    with numpyro.plate("data", len(count)):
        rate = jnp.exp(level + slope * x + effect[group])
        numpyro.sample("count", dist.Poisson(rate), obs=count)


@not_centered("effect")
def trials_by_group(x, successes):
    level = numpyro.sample("level", dist.Normal(0, 2))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("groups", len(x)):
        effect = numpyro.sample("effect", dist.Normal(0, sigma))
        logits = level + slope * x + effect
        numpyro.sample("successes", dist.Binomial(NUM_TRIALS, logits=logits), obs=successes)


NUMPYRO_MODELS: dict[str, Model] = {
    "seeds": seeds,
    "surgical": surgical,
    "salm": salm,
    "epil": epil,
    "lattice": lattice,
    "volatility": volatility,
    "Gaussian process": gaussian_process,
    "crossed effects": crossed,
    "counts by group": counts_by_group,
    "trials by group": trials_by_group,
}
# From starts that are drawn at random, the rates are infinite.
STARTS: dict[str, dict[str, float]] = {"salm": {"gamma": 0.0}}


def sample(name: str, problem: Problem, settings: Settings) -> Mapping[str, Any]:
    """Draws of all sites, ``(chain, draw, *shape)``, by NUTS on the chains as one batch."""
    start = init_to_value(values=STARTS[name]) if name in STARTS else init_to_uniform
    mcmc = MCMC(
        NUTS(NUMPYRO_MODELS[name], init_strategy=start, target_accept_prob=TARGET_ACCEPTANCE_RATE),
        num_warmup=settings.num_warmup,
        num_samples=settings.num_draws,
        num_chains=settings.num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *map(np.asarray, problem.args), **problem.data)
    return jax.device_get(mcmc.get_samples(group_by_chain=True))
