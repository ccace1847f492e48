"""The ten models of `latent_models.py` in PyMC, as its users write them.

Variables have the names and priors that the sites have there. Effects with an unknown scale are not
centered.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pymc_extras as pmx

from benchmarks.comparison.latent_models import NUM_RETURNS, NUM_TRIALS
from benchmarks.comparison.problems import Problem


def effects(name: str, scale: Any, shape: Any, mean: Any = 0.0) -> Any:
    """Effects that are not centered."""
    z = pm.Normal(f"{name}_z", 0, 1, shape=shape)
    return pm.Deterministic(name, mean + scale * z)


def seeds(num_seeds, is_other_seed, is_cucumber, germinated):
    alpha0 = pm.Normal("alpha0", 0, 1e3)
    alpha1 = pm.Normal("alpha1", 0, 1e3)
    alpha2 = pm.Normal("alpha2", 0, 1e3)
    alpha12 = pm.Normal("alpha12", 0, 1e3)
    tau = pm.Gamma("tau", 1e-3, 1e-3)
    logits = alpha0 + alpha1 * is_other_seed + alpha2 * is_cucumber
    logits += alpha12 * is_other_seed * is_cucumber + effects("b", tau**-0.5, len(num_seeds))
    pm.Binomial("germinated", num_seeds, logit_p=logits, observed=germinated)


def surgical(num_operations, deaths):
    mu = pm.Normal("mu", 0, 1e3)
    tau = pm.Gamma("tau", 1e-3, 1e-3)
    b = effects("b", tau**-0.5, len(num_operations), mu)
    pm.Binomial("deaths", num_operations, logit_p=b, observed=deaths)


def salm(dose, colonies):
    alpha_star = pm.Normal("alpha_star", 0, 100)
    beta = pm.Normal("beta", 0, 100)
    gamma = pm.Normal("gamma", 0, 1e5)
    tau = pm.Gamma("tau", 1e-3, 1e-3)
    log_dose = np.log(dose + 10)
    level = alpha_star + beta * (log_dose - log_dose.mean()) + gamma * (dose - dose.mean())
    plate = effects("plate", tau**-0.5, colonies.shape)
    pm.Poisson("colonies", pm.math.exp(level[:, None] + plate), observed=colonies)


def epil(base, is_treated, age, seizures):
    names = "alpha0", "alpha_base", "alpha_trt", "alpha_bt", "alpha_age", "alpha_v4"
    alpha = {x: pm.Normal(x, 0, 100) for x in names}
    tau_b1 = pm.Gamma("tau_b1", 1e-3, 1e-3)
    tau_b = pm.Gamma("tau_b", 1e-3, 1e-3)
    log_base = np.log(base / 4)
    patient = alpha["alpha0"] + alpha["alpha_base"] * log_base + alpha["alpha_age"] * np.log(age)
    patient += is_treated * (alpha["alpha_trt"] + alpha["alpha_bt"] * log_base)
    patient += effects("b1", tau_b1**-0.5, len(base))
    visit = alpha["alpha_v4"] * np.array([0.0, 0.0, 0.0, 1.0])
    b = effects("b", tau_b**-0.5, seizures.shape)
    pm.Poisson("seizures", pm.math.exp(patient[:, None] + visit + b), observed=seizures)


def lattice(structure, expected, cases):
    level = pm.Normal("level", 0, 1)
    sigma = pm.HalfNormal("sigma", 1)
    neighbors = (structure < 0).astype(float)
    field = pm.CAR("field", mu=np.zeros(len(expected)), W=neighbors, alpha=0.95, tau=sigma**-2)
    pm.Poisson("cases", expected * pm.math.exp(level + field), observed=cases)


def volatility(returns):
    level = pm.Normal("level", 0, 2)
    persistence = pm.Beta("persistence", 20, 1.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    first = pm.Normal.dist(0, sigma / pm.math.sqrt(1 - persistence**2))
    path = pm.AR("path", [persistence], sigma=sigma, init_dist=first, steps=NUM_RETURNS)
    pm.Deterministic("first", path[0])
    h = pm.Deterministic("h", path[1:])
    pm.Normal("returns", 0, pm.math.exp((h + level) / 2), observed=returns)


def gaussian_process(x, counts):
    level = pm.Normal("level", 1, 1)
    amplitude = pm.HalfNormal("amplitude", 1)
    length = pm.InverseGamma("length", 5, 1)
    kernel = amplitude**2 * pm.gp.cov.ExpQuad(1, length)
    process = pm.gp.Latent(cov_func=kernel)
    curve = process.prior("curve", x[:, None], jitter=1e-4)
    pm.Poisson("counts", pm.math.exp(level + curve), observed=counts)


def crossed(student, item, correct):
    level = pm.Normal("level", 0, 2)
    sigma_student = pm.HalfNormal("sigma_student", 1)
    sigma_item = pm.HalfNormal("sigma_item", 1)
    ability = effects("ability", sigma_student, 40)
    ease = effects("ease", sigma_item, 15)
    pm.Bernoulli("correct", logit_p=level + ability[student] + ease[item], observed=correct)


def counts_by_group(group, x, count):
    level = pm.Normal("level", 0, 2)
    slope = pm.Normal("slope", 0, 1)
    effect = effects("effect", pm.HalfNormal("sigma", 1), 100)
    pm.Poisson("count", pm.math.exp(level + slope * x + effect[group]), observed=count)


def trials_by_group(x, successes):
    level = pm.Normal("level", 0, 2)
    slope = pm.Normal("slope", 0, 1)
    effect = effects("effect", pm.HalfNormal("sigma", 1), len(x))
    logits = level + slope * x + effect
    pm.Binomial("successes", NUM_TRIALS, logit_p=logits, observed=successes)


PYMC_MODELS: dict[str, Callable[..., None]] = {
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


def fit_laplace(name: str, problem: Problem, num_draws: int) -> Mapping[str, Any]:
    """Draws ``(1, draw, *shape)`` from a normal about the mode of all variables."""
    arguments = map(np.asarray, problem.args)
    data = {x: np.asarray(y) for x, y in problem.data.items()}
    with pm.Model():
        PYMC_MODELS[name](*arguments, **data)
        found = pmx.fit(method="laplace", draws=num_draws, random_seed=0, progressbar=False)
    return {x: y.values for x, y in found.posterior.items()}
