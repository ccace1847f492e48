"""Models of PyMC's gallery and of Bambi's, fitted to published tables, for `doors.py`.

They are as a user writes them, and know nothing of this library.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from benchmarks.comparison import gallery, tables


def numbers(table: str, kind: type = float) -> np.ndarray:
    """Rows of a table, with a slash between columns."""
    return np.array([row.split("/") for row in table.split()], kind).squeeze()


def eight_schools() -> Any:
    effects = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
    errors = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("effect", theta, errors, observed=effects, dims="school")
    return model


def rugby() -> Any:
    return in_gallery(gallery.make_rugby(), gallery.rugby_in_pymc)


def coal_mining() -> Any:
    """The change point, on all years but the two that the gallery masks."""
    counts = [(1851 + i, int(x)) for i, x in enumerate(gallery.EXPLOSIONS.split()) if x != "?"]
    years, explosions = np.array(counts).T
    with pm.Model() as model:
        gallery.coal_mining_in_pymc(pm, (years,), {"explosions": explosions})
    return model


def rat_tumors() -> Any:
    return in_gallery(gallery.make_rats(), gallery.rats_in_pymc)


def lip_cancer() -> Any:
    return in_gallery(gallery.make_icar(), gallery.icar_in_pymc)


def in_gallery(example: Any, statements: Callable[..., None]) -> Any:
    with pm.Model(coords=dict(example.coords)) as model:
        statements(pm, example.args, example.data)
    return model


def robust_line() -> Any:
    x, y, errors = numbers(tables.OUTLIERS).T
    with pm.Model() as model:
        b = pm.Normal("b", 0, 10, shape=2)
        nu = pm.InverseGamma("nu", 1, 1)
        line = b[0] + b[1] * (x - x.mean()) / (2 * x.std())
        scale = 2 * y.std()
        pm.StudentT("y", nu=nu + 1, mu=line, sigma=errors / scale, observed=(y - y.mean()) / scale)
    return model


def two_drugs() -> Any:
    """Estimation in place of a t test (Kruschke 2013)."""
    hours = numbers(tables.EXTRA_SLEEP).reshape(2, 10)
    with pm.Model(coords={"drug": ["1", "2"]}) as model:
        mean = pm.Normal("mean", hours.mean(), 2 * hours.std(), dims="drug")
        sd = pm.Uniform("sd", 0.1, 10, dims="drug")
        nu = pm.Exponential("nu_minus_one", 1 / 29) + 1
        pm.StudentT("hours", nu=nu, mu=mean[:, None], sigma=sd[:, None], observed=hours)
        pm.Deterministic("difference", mean[1] - mean[0])
    return model


def volatility() -> Any:
    returns = numbers(tables.RETURNS)
    with pm.Model() as model:
        step = pm.Exponential("step", 10)
        walk = pm.GaussianRandomWalk(
            "walk", sigma=step, init_dist=pm.Normal.dist(0, 1), shape=len(returns)
        )
        nu = pm.Exponential("nu", 0.1)
        pm.StudentT("returns", nu=nu, lam=pm.math.exp(-2 * walk), observed=returns)
    return model


def gaussian_process() -> Any:
    times, acceleration = numbers(tables.CRASHES).T
    with pm.Model() as model:
        length = pm.Gamma("length", 2, 0.3)
        height = pm.HalfNormal("height", 50)
        noise = pm.HalfNormal("noise", 50)
        process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.Matern52(1, length))
        process.marginal_likelihood("acceleration", X=times[:, None], y=acceleration, sigma=noise)
    return model


def galaxies() -> Any:
    velocities = numbers(tables.VELOCITIES) / 1000
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        weights = pm.Dirichlet("weights", np.ones(3))
        means = pm.Normal(
            "means", 20, 10, shape=3, transform=ordered, initval=np.array([10.0, 20.0, 30.0])
        )
        scales = pm.InverseGamma("scales", 3, 4, shape=3)
        pm.NormalMixture("velocity", weights, means, scales, observed=velocities)
    return model


def mastectomy() -> Any:
    """Weibull survival times, censored from the right, in the accelerated form."""
    words = tables.MONTHS.split()
    months = np.array([float(x.rstrip("+")) for x in words])
    limit = np.where([x.endswith("+") for x in words], months, np.inf)
    has_metastases = np.arange(len(words)) >= 12
    with pm.Model() as model:
        beta = pm.Normal("beta", [4, 0], 5, shape=2)
        shape = pm.HalfNormal("shape", 2)
        times = pm.Weibull.dist(shape, pm.math.exp(beta[0] + beta[1] * has_metastases))
        pm.Censored("months", times, lower=None, upper=limit, observed=months)
    return model


def nile() -> Any:
    flow = numbers(tables.FLOWS)
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.5)
        level = pm.Normal("level", 0, 1)
        sd = pm.HalfNormal("sd", 1)
        scaled = (flow - flow.mean()) / flow.std()
        first = pm.Normal.dist(0, 2)
        pm.AR("flow", [level, rho], sigma=sd, constant=True, init_dist=first, observed=scaled)
    return model


def sleepstudy() -> Any:
    reaction = numbers(tables.REACTIONS)
    columns = {
        "Reaction": reaction,
        "Days": np.tile(np.arange(10), 18),
        "Subject": np.repeat([f"S{i}" for i in range(18)], 10),
    }
    return by_bambi("Reaction ~ Days + (Days | Subject)", columns)


def birth_weights() -> Any:
    low, age, weight, race, smokes = numbers(tables.BIRTHS).T
    columns = {
        "low": low.astype(int),
        "age": age,
        "lwt": weight,
        "race": np.array(["white", "black", "other"])[race.astype(int) - 1],
        "smoke": smokes,
    }
    return by_bambi("low ~ age + lwt + race + smoke", columns, family="bernoulli")


def absences() -> Any:
    names = "Eth", "Sex", "Age", "Lrn", "Days"
    rows = [x.split("-") for x in tables.ABSENCES.split()]
    columns: dict[str, Any] = dict(zip(names, np.array(rows).T, strict=True))
    columns["Days"] = columns["Days"].astype(int)
    return by_bambi("Days ~ Eth + Sex + Age + Lrn", columns, family="negativebinomial")


def gasoline() -> Any:
    share, temperature, batch = numbers(tables.GASOLINE).T
    columns = {"share": share, "temp": temperature, "batch": batch.astype(int).astype(str)}
    return by_bambi("share ~ temp + batch", columns, family="beta")


def crash_splines() -> Any:
    times, acceleration = numbers(tables.CRASHES).T
    columns = {"times": times, "acceleration": acceleration}
    return by_bambi("acceleration ~ bs(times, df=8, intercept=False)", columns)


def by_bambi(formula: str, columns: dict[str, Any], **how: Any) -> Any:
    """The model of PyMC that Bambi makes of a formula."""
    import bambi
    import pandas as pd

    model = bambi.Model(formula, pd.DataFrame(columns), **how)
    model.build()
    return model.backend.model


# The slowest last.
PYMC_MODELS: dict[str, Callable[[], Any]] = {
    "eight schools": eight_schools,
    "coal mining": coal_mining,
    "robust line": robust_line,
    "two drugs": two_drugs,
    "galaxies": galaxies,
    "mastectomy": mastectomy,
    "Nile": nile,
    "rat tumors": rat_tumors,
    "rugby": rugby,
    "Gaussian process": gaussian_process,
    "lip cancer": lip_cancer,
    "volatility": volatility,
}
BAMBI_MODELS: dict[str, Callable[[], Any]] = {
    "sleepstudy": sleepstudy,
    "birth weights": birth_weights,
    "absences": absences,
    "gasoline": gasoline,
    "crash, splines": crash_splines,
}
