"""PyMC models of the problems for nutpie, with the same priors and parameter names."""

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


def normal_mixture(pm: Any, data: Data) -> None:
    ordered = pm.distributions.transforms.ordered
    mu = pm.Normal("mu", 0.0, 2.0, shape=2, transform=ordered, initval=np.array([-1.0, 1.0]))
    sigma = pm.HalfNormal("sigma", 2.0, shape=2)
    theta = pm.Beta("theta", 5.0, 5.0)
    weights = pm.math.stack([theta, 1.0 - theta])
    pm.NormalMixture("y", weights, mu, sigma, observed=data["y"])


def gaussian_process(pm: Any, data: Data) -> None:
    (x,) = data["args"]
    rho = pm.Gamma("rho", 25.0, 4.0)
    alpha = pm.HalfNormal("alpha", 2.0)
    sigma = pm.HalfNormal("sigma", 1.0)
    squared = (x[:, None] - x) ** 2
    covariance = alpha**2 * pm.math.exp(-squared / (2 * rho**2)) + sigma * np.eye(len(x))
    pm.MvNormal("y", np.zeros(len(x)), cov=covariance, observed=data["y"])


def garch(pm: Any, data: Data) -> None:
    from pytensor import scan
    from pytensor.tensor import as_tensor

    y, first_scale = data["args"]
    mu = pm.Flat("mu")
    alpha0 = pm.HalfFlat("alpha0")
    alpha1 = pm.Uniform("alpha1", 0.0, 1.0)
    beta1 = pm.Uniform("beta1", 0.0, 1.0 - alpha1)
    pm.Potential("flat", pm.math.log(1.0 - alpha1))

    def step(y: Any, variance: Any, *_: Any) -> Any:
        return alpha0 + alpha1 * (y - mu) ** 2 + beta1 * variance

    first = as_tensor(first_scale**2)
    later = scan(step, [y[:-1]], [first], [mu, alpha0, alpha1, beta1], return_updates=False)
    variance = pm.math.concatenate([first[None], later])
    pm.Normal("y", mu, pm.math.sqrt(variance), observed=y)


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
    from pytensor import scan

    mu = pm.Normal("mu", -1.0, 2.0)
    phi = pm.Beta("phi", 20.0, 1.5)
    sigma = pm.HalfNormal("sigma", 0.5)
    z = pm.Normal("z", 0.0, 1.0, shape=len(data["y"]))
    start = z[0] / pm.math.sqrt(1.0 - phi**2)
    step = lambda z, deviation, phi: phi * deviation + z  # noqa: E731
    later = scan(step, [z[1:]], [start], [phi], return_updates=False)
    deviation = sigma * pm.math.concatenate([start[None], later])
    pm.Normal("y", 0.0, pm.math.exp(0.5 * (mu + deviation)), observed=data["y"])


def _made(declare: Any) -> Any:
    def make(data: Data) -> Any:
        import pymc

        with pymc.Model() as model:
            declare(pymc, {name: _float64(x) for name, x in data.items()})
        return model

    return make


def _float64(x: Any) -> Any:
    """Arrays of floats in float64, as PyMC expects."""
    if isinstance(x, list):
        return [_float64(element) for element in x]
    return x.astype(np.float64) if np.issubdtype(x.dtype, np.floating) else x


PYMC_MODELS = {
    "eight schools": _made(eight_schools),
    "autoregression": _made(autoregression),
    "nes": _made(nes),
    "normal mixture": _made(normal_mixture),
    "Gaussian process": _made(gaussian_process),
    "garch": _made(garch),
    "logistic": _made(logistic),
    "logistic, 1,000 rows": _made(logistic),
    "radon": _made(radon),
    "Gaussian": _made(gaussian),
    "Gaussian along the axes": _made(gaussian),
    "stochastic volatility": _made(stochastic_volatility),
}
