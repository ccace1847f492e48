"""Models of NumPyro of the kinds that its users write, each with data and with values of sites."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as npd
from numpyro import handlers, plate, sample
from numpyro.contrib.control_flow import cond, scan
from numpyro.infer.reparam import LocScaleReparam


@dataclasses.dataclass(frozen=True)
class Example:
    """A model with its arguments, and values of its latent sites.

    Attributes:
        model: The model of NumPyro.
        args: Its arguments.
        values: A value of each latent site.
        is_discrete: Whether a latent site is discrete, so that there is no unconstrained density.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    values: dict[str, Any]
    is_discrete: bool = False


rng = np.random.default_rng(0)
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
X = rng.normal(size=(6, 2))
Y = rng.normal(size=6)
TEAM = np.array([0, 0, 1, 1, 2, 2])
COUNTS = np.array([1, 0, 3, 2, 2, 5])
GRADES = np.array([0, 1, 2, 2, 1, 0])


def eight_schools(errors, effects=None):
    mu = sample("mu", npd.Normal(0.0, 5.0))
    tau = sample("tau", npd.HalfCauchy(5.0))
    with plate("school", len(errors)):
        theta = sample("theta", npd.Normal(mu, tau))
        sample("y", npd.Normal(theta, errors), obs=effects)


def regression(x, y=None):
    intercept = sample("intercept", npd.Normal(0.0, 1.0))
    with plate("predictor", x.shape[1]):
        slopes = sample("slopes", npd.Normal(0.0, 0.5))
    scale = sample("scale", npd.Exponential(1.0))
    mean = numpyro.deterministic("mean", intercept + x @ slopes)
    with plate("row", len(x)):
        sample("y", npd.StudentT(4.0, mean, scale), obs=y)


def nested_plates(team, y):
    base = sample("base", npd.Normal(0.0, 1.0))
    with plate("period", 2, dim=-2):
        drift = sample("drift", npd.Laplace(0.0, 1.0))
        with plate("team", 3, dim=-1):
            strength = sample("strength", npd.Normal(base + drift, 1.0))
    with plate("row", len(y)):
        sample("y", npd.Normal(strength[0, team] - strength[1, team], 1.0), obs=y)


def horseshoe(x, y):
    with plate("predictor", x.shape[1]):
        local = sample("local", npd.HalfCauchy(1.0))
        raw = sample("raw", npd.Normal(0.0, 1.0))
    overall = sample("overall", npd.HalfCauchy(0.1))
    precision = sample("precision", npd.Gamma(2.0, 1.0))
    mean = x @ numpyro.deterministic("slopes", local * overall * raw)
    sample("y", npd.Normal(mean, precision**-0.5), obs=y)


def mixture(y):
    weights = sample("weights", npd.Dirichlet(jnp.array([2.0, 3.0])))
    with plate("part", 2):
        means = sample("means", npd.Normal(jnp.array([-1.0, 1.0]), 1.0))
    with plate("row", len(y)):
        z = sample("z", npd.Categorical(weights), infer={"enumerate": "parallel"})
        sample("y", npd.Normal(means[z], 0.5), obs=y)


def hidden_markov(y):
    with plate("hidden", 2):
        rows = sample("rows", npd.Dirichlet(jnp.ones(2)))
        rates = sample("rates", npd.Gamma(2.0, 1.0))

    def step(state, count):
        state = sample("state", npd.Categorical(rows[state]), infer={"enumerate": "parallel"})
        sample("y", npd.Poisson(rates[state]), obs=count)
        return state, None

    scan(step, 0, y)


def autoregression(y):
    slope = sample("slope", npd.Uniform(-1.0, 1.0))
    noise = sample("noise", npd.LogNormal(0.0, 1.0))

    def step(last, _):
        now = sample("now", npd.Normal(slope * last, noise))
        sample("y", npd.Normal(now, 0.3))
        return now, now

    with handlers.condition(data={"y": y}):
        numpyro.deterministic("path", scan(step, 0.0, None, length=len(y))[1])


def gaussian_process(x, y):
    scale = sample("scale", npd.InverseGamma(3.0, 2.0))
    length = sample("length", npd.HalfNormal(1.0))
    square = (x[:, None] - x) ** 2
    covariance = scale * jnp.exp(-0.5 * square / length**2) + 0.1 * jnp.eye(len(x))
    sample("y", npd.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


def ordinal(x, grades):
    cuts = sample(
        "cuts",
        npd.TransformedDistribution(
            npd.Normal(0.0, 1.0).expand([2]).to_event(1), npd.transforms.OrderedTransform()
        ),
    )
    free = sample("free", npd.ImproperUniform(npd.constraints.positive, (), ()))
    slope = sample("slope", npd.Normal(0.0, 1.0).mask(True))
    with plate("row", len(grades)):
        sample("grade", npd.OrderedLogistic(free * slope * x, cuts), obs=grades)


def bounded(counts):
    low = sample("low", npd.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.0))
    share = sample("share", npd.Beta(2.0, 2.0))
    angle = sample("angle", npd.VonMises(0.5, 2.0))
    total = sample("total", npd.Uniform(low, low + 3.0))
    numpyro.factor("tilt", -(angle**2) * share)
    with plate("row", len(counts)), handlers.scale(scale=2.0):
        sample("count", npd.ZeroInflatedPoisson(share, jnp.exp(total)), obs=counts)


def correlated(y):
    factor = sample("factor", npd.LKJCholesky(2, concentration=2.0))
    scales = sample("scales", npd.HalfNormal(1.0).expand([2]).to_event(1))
    with plate("row", len(y)), handlers.mask(mask=jnp.arange(len(y)) > 0):
        sample("y", npd.MultivariateNormal(0.0, scale_tril=scales[:, None] * factor), obs=y)


def rewritten(y):
    mu = sample("mu", npd.Normal(0.0, 1.0))
    with handlers.reparam(config={"theta": LocScaleReparam(0)}), plate("row", len(y)):
        theta = sample("theta", npd.Normal(mu, 2.0))
    with handlers.scope(prefix="likelihood"):
        sample("y", npd.Normal(theta, 1.0), obs=y)


def branches(flag, y):
    x = cond(
        flag > 0,
        lambda scale: sample("x", npd.Normal(0.0, scale)),
        lambda scale: sample("x", npd.Normal(1.0, scale)),
        2.0,
    )
    sample("y", npd.Normal(x, 1.0), obs=y)


STATES = np.array([0, 1, 1, 0, 0, 1])
EXAMPLES = {
    "schools": Example(
        eight_schools, (ERRORS, EFFECTS), {"mu": 1.0, "tau": 2.0, "theta": rng.normal(size=8)}
    ),
    "regression": Example(
        regression, (X, Y), {"intercept": 0.1, "slopes": rng.normal(size=2), "scale": 0.7}
    ),
    "nested plates": Example(
        nested_plates,
        (TEAM, Y),
        {"base": 0.3, "drift": rng.normal(size=(2, 1)), "strength": rng.normal(size=(2, 3))},
    ),
    "horseshoe": Example(
        horseshoe,
        (X, Y),
        {"local": [0.5, 2.0], "raw": [0.1, -0.4], "overall": 0.2, "precision": 1.3},
    ),
    "mixture": Example(
        mixture, (Y,), {"weights": [0.3, 0.7], "means": [-0.5, 0.8], "z": STATES}, is_discrete=True
    ),
    "hidden Markov": Example(
        hidden_markov,
        (COUNTS,),
        {"rows": [[0.8, 0.2], [0.4, 0.6]], "rates": [0.5, 3.0], "state": STATES},
        is_discrete=True,
    ),
    "autoregression": Example(
        autoregression, (Y,), {"slope": 0.4, "noise": 0.9, "now": rng.normal(size=6)}
    ),
    "process": Example(gaussian_process, (X[:, 0], Y), {"scale": 0.8, "length": 0.6}),
    "ordinal": Example(
        ordinal, (X[:, 0], GRADES), {"cuts": [-0.4, 0.9], "free": 1.5, "slope": 0.3}
    ),
    "bounded": Example(bounded, (COUNTS,), {"low": -0.3, "share": 0.4, "angle": 0.2, "total": 0.9}),
    "correlated": Example(
        correlated,
        (rng.normal(size=(4, 2)),),
        {"factor": [[1.0, 0.0], [0.6, 0.8]], "scales": [0.7, 1.2]},
    ),
    "rewritten": Example(rewritten, (Y,), {"mu": 0.4, "theta_decentered": rng.normal(size=6)}),
    "branches": Example(branches, (np.array(1.0), 0.5), {"x": 0.3}),
}
