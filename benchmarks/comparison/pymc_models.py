"""The problems as models in PyMC, with the same priors and the same names, for nutpie."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Data = Mapping[str, Any]


def eight_schools(pm: Any, data: Data) -> None:
    (sigma,) = data["args"]
    mu = pm.Normal("mu", 0.0, 5.0)
    tau = pm.HalfCauchy("tau", 5.0)
    z = pm.Normal("z", 0.0, 1.0, shape=8)
    pm.Normal("y", mu + tau * z, sigma, observed=data["y"])


def autoregression(pm: Any, data: Data) -> None:
    (lagged,) = data["args"]
    alpha = pm.Normal("alpha", 0.0, 10.0)
    beta = pm.Normal("beta", 0.0, 10.0, shape=lagged.shape[1])
    sigma = pm.HalfCauchy("sigma", 2.5)
    pm.Normal("y", alpha + lagged @ beta, sigma, observed=data["y"])


def nes(pm: Any, data: Data) -> None:
    (design,) = data["args"]
    beta = pm.Flat("beta", shape=design.shape[1])
    sigma = pm.HalfFlat("sigma")
    pm.Normal("y", design @ beta, sigma, observed=data["y"])


def logistic(pm: Any, data: Data) -> None:
    intercept = pm.Normal("intercept", 0.0, 1.0)
    weight = pm.Normal("weight", 0.0, 1.0, shape=25)
    pm.Bernoulli("y", logit_p=intercept + data["x"] @ weight, observed=data["y"].astype(int))


def radon(pm: Any, data: Data) -> None:
    mu = pm.Normal("mu", 0.0, 10.0)
    tau = pm.HalfNormal("tau", 1.0)
    slope = pm.Normal("slope", 0.0, 10.0)
    sigma = pm.HalfNormal("sigma", 1.0)
    z = pm.Normal("z", 0.0, 1.0, shape=85)
    mean = (mu + tau * z)[data["county"]] + slope * data["floor"]
    pm.Normal("y", mean, sigma, observed=data["y"])


def gaussian(pm: Any, data: Data) -> None:
    x = pm.Flat("x", shape=100)
    pm.Potential("density", -0.5 * (x @ data["precision"] @ x))


def stochastic_volatility(pm: Any, data: Data) -> None:
    size = len(data["y"])
    mu = pm.Normal("mu", -1.0, 2.0)
    phi = pm.Beta("phi", 20.0, 1.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    start = pm.Flat("start")
    deviation = pm.Flat("deviation", shape=size)
    before = pm.math.concatenate([start[None], deviation[:-1]])
    first = pm.logp(pm.Normal.dist(0.0, sigma / pm.math.sqrt(1.0 - phi**2)), start)
    walk = pm.logp(pm.Normal.dist(phi * before, sigma), deviation)
    pm.Potential("walk", first + walk.sum())
    pm.Normal("y", 0.0, pm.math.exp(0.5 * (mu + deviation)), observed=data["y"])


def _made(declare: Any) -> Any:
    def make(data: Data) -> Any:
        import pymc

        with pymc.Model() as model:
            declare(pymc, {name: _float64(x) for name, x in data.items()})
        return model

    return make


def _float64(x: Any) -> Any:
    """Arrays of floats as PyMC wants them."""
    if isinstance(x, list):
        return [_float64(element) for element in x]
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


PYMC_MODELS = {
    "eight schools": _made(eight_schools),
    "autoregression": _made(autoregression),
    "nes": _made(nes),
    "logistic": _made(logistic),
    "logistic, 1,000 rows": _made(logistic),
    "radon": _made(radon),
    "Gaussian": _made(gaussian),
    "Gaussian along the axes": _made(gaussian),
    "stochastic volatility": _made(stochastic_volatility),
}
