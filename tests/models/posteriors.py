"""Posteriors of posteriordb as models: name, model, data and how its reference names the draws."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import distributions as dist
import ppl
from distributions import constraints

Data = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Posterior:
    """A model with its data, and the site and index that each reference parameter stands for.

    Attributes:
        name: The name of the file of the reference.
        model: The model.
        arguments: The arguments of the model, from the published data.
        observed: What the model is conditioned on, from the published data.
        options: What `mcmc` is told beyond its defaults.
        derived: Adds to the draws what the reference has besides our sites.
    """

    name: str
    model: Callable[..., Any]
    arguments: Callable[[Data], tuple[Any, ...]]
    observed: Callable[[Data], Mapping[str, Any]]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    derived: Callable[[dict[str, Any]], dict[str, Any]] = lambda draws: draws

    def condition(self, data: Data) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The posterior, a model, and its arguments."""
        return ppl.condition(self.model, self.observed(data)), self.arguments(data)


def flat(shape: tuple[int, ...] = ()) -> dist.Flat:
    return dist.Flat(constraints.real, shape)


def flat_positive() -> dist.Flat:
    return dist.Flat(constraints.positive, ())


def array(data: Data, *names: str) -> tuple[jax.Array, ...]:
    return tuple(jnp.asarray(np.asarray(data[name], float)) for name in names)


def eight_schools_centered(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(mu, tau * jnp.ones(8)), name="theta")
    ppl.sample(key, dist.Normal(theta, sigma), name="y")


def eight_schools_noncentered(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    ppl.sample(key, dist.Normal(mu + tau * z, sigma), name="y")


def autoregression(key, lagged):
    alpha = ppl.sample(key, dist.Normal(0.0, 10.0), name="alpha")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(lagged.shape[1]), 10.0), name="beta")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="sigma")
    ppl.sample(key, dist.Normal(alpha + lagged @ beta, sigma), name="y")


def lags(data: Data) -> tuple[jax.Array]:
    (y,) = array(data, "y")
    order, size = data["K"], data["T"]
    return (jnp.stack([y[order - k : size - k] for k in range(1, order + 1)], axis=1),)


def garch(key, observed, first_scale):
    mu = ppl.sample(key, flat(), name="mu")
    alpha0 = ppl.sample(key, flat_positive(), name="alpha0")
    alpha1 = ppl.sample(key, dist.Flat(constraints.interval(0.0, 1.0), ()), name="alpha1")
    beta1 = ppl.sample(key, dist.Flat(constraints.interval(0.0, 1.0 - alpha1), ()), name="beta1")

    def step(scale, inputs):
        key, y = inputs
        ppl.sample(key, dist.Normal(mu, scale), name="y")
        return jnp.sqrt(alpha0 + alpha1 * (y - mu) ** 2 + beta1 * scale**2), None

    keys = jax.random.split(key, len(observed))
    lax.scan(step, jnp.asarray(first_scale, observed.dtype), (keys, observed))


def gaussian_process(key, x):
    rho = ppl.sample(key, dist.Gamma(25.0, 4.0), name="rho")
    alpha = ppl.sample(key, dist.HalfNormal(2.0), name="alpha")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    squared = (x[:, None] - x) ** 2
    covariance = alpha**2 * jnp.exp(-squared / (2 * rho**2)) + sigma * jnp.eye(len(x))
    ppl.sample(key, dist.MultivariateNormal(jnp.zeros(len(x)), covariance=covariance), name="y")


def regression_half_cauchy(key, design):
    beta = ppl.sample(key, flat((design.shape[1],)), name="beta")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="sigma")
    ppl.sample(key, dist.Normal(design @ beta, sigma), name="y")


def regression_flat(key, design):
    beta = ppl.sample(key, flat((design.shape[1],)), name="beta")
    sigma = ppl.sample(key, flat_positive(), name="sigma")
    ppl.sample(key, dist.Normal(design @ beta, sigma), name="y")


def regression_normal(key, design):
    beta = ppl.sample(key, dist.Normal(jnp.zeros(design.shape[1]), 10.0), name="beta")
    sigma = ppl.sample(key, dist.HalfNormal(10.0), name="sigma")
    ppl.sample(key, dist.Normal(design @ beta, sigma), name="y")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OrderedNormal:
    """Two exchangeable normals in ascending order: a distribution written by a user."""

    scale: Any
    event_shape = (2,)
    batch_shape = ()
    support = constraints.ordered
    bijector = constraints.ordered.bijector

    @property
    def dtype(self):
        return jnp.asarray(self.scale).dtype

    def log_prob(self, value):
        return dist.Normal(0.0, self.scale).log_prob(value).sum(-1)

    def sample(self, key, sample_shape=()):
        draws = dist.Normal(jnp.zeros(2), self.scale).sample(key, sample_shape)
        return jnp.sort(draws, axis=-1)


def gaussian_mixture(key, size):
    mu = ppl.sample(key, OrderedNormal(2.0), name="mu")
    sigma = ppl.sample(key, dist.HalfNormal(2.0 * jnp.ones(2)), name="sigma")
    theta = ppl.sample(key, dist.Beta(5.0, 5.0), name="theta")
    mixture = dist.MixtureSameFamily(
        dist.Categorical(probs=jnp.stack([theta, 1.0 - theta])), dist.Normal(mu, sigma)
    )
    jax.vmap(lambda k: ppl.sample(k, mixture, name="y"))(jax.random.split(key, size))


def with_intercept(*columns: Any) -> jax.Array:
    return jnp.stack([jnp.ones_like(columns[0]), *columns], axis=1)


def earnings_design(data: Data) -> tuple[jax.Array]:
    height, male = array(data, "height", "male")
    return (with_intercept(height, male, height * male),)


def mesquite_design(data: Data) -> tuple[jax.Array]:
    d1, d2, canopy, height, group = array(
        data, "diam1", "diam2", "canopy_height", "total_height", "group"
    )
    logs = (jnp.log(d1 * d2 * canopy), jnp.log(d1 * d2), jnp.log(d1 / d2), jnp.log(height))
    return (with_intercept(*logs, group),)


def nes_design(data: Data) -> tuple[jax.Array]:
    ideology, race, age, education, gender, income = array(
        data, "real_ideo", "race_adj", "age_discrete", "educ1", "gender", "income"
    )
    ages = [(age == k).astype(age.dtype) for k in (2, 3, 4)]
    return (with_intercept(ideology, race, *ages, education, gender, income),)


def kidiq_design(data: Data) -> tuple[jax.Array]:
    school, iq = array(data, "mom_hs", "mom_iq")
    return (with_intercept(school, iq, school * iq),)


def outcome(name: str, log: bool = False) -> Callable[[Data], Mapping[str, Any]]:
    def observed(data: Data) -> Mapping[str, Any]:
        (y,) = array(data, name)
        return {"y": jnp.log(y) if log else y}

    return observed


POSTERIORS = [
    Posterior(
        name="eight_schools-eight_schools_centered",
        model=eight_schools_centered,
        arguments=lambda data: array(data, "sigma"),
        observed=outcome("y"),
        options={"target_acceptance_rate": 0.99, "num_draws": 4000},
    ),
    Posterior(
        name="eight_schools-eight_schools_noncentered",
        model=eight_schools_noncentered,
        arguments=lambda data: array(data, "sigma"),
        observed=outcome("y"),
        derived=lambda draws: (
            draws | {"theta": draws["mu"][..., None] + draws["tau"][..., None] * draws["z"]}
        ),
    ),
    Posterior(
        name="arK-arK",
        model=autoregression,
        arguments=lags,
        observed=lambda data: {"y": array(data, "y")[0][data["K"] :]},
    ),
    Posterior(
        name="garch-garch11",
        model=garch,
        arguments=lambda data: (*array(data, "y"), data["sigma1"]),
        observed=outcome("y"),
    ),
    Posterior(
        name="gp_pois_regr-gp_regr",
        model=gaussian_process,
        arguments=lambda data: array(data, "x"),
        observed=outcome("y"),
    ),
    Posterior(
        name="earnings-logearn_interaction",
        model=regression_flat,
        arguments=earnings_design,
        observed=outcome("earn", log=True),
    ),
    Posterior(
        name="kidiq-kidscore_interaction",
        model=regression_half_cauchy,
        arguments=kidiq_design,
        observed=outcome("kid_score"),
    ),
    Posterior(
        name="kidiq-kidscore_momhs",
        model=regression_half_cauchy,
        arguments=lambda data: (with_intercept(*array(data, "mom_hs")),),
        observed=outcome("kid_score"),
    ),
    Posterior(
        name="mesquite-logmesquite_logvash",
        model=regression_flat,
        arguments=mesquite_design,
        observed=outcome("weight", log=True),
    ),
    Posterior(
        name="nes1980-nes",
        model=regression_flat,
        arguments=nes_design,
        observed=outcome("partyid7"),
    ),
    Posterior(
        name="low_dim_gauss_mix-low_dim_gauss_mix",
        model=gaussian_mixture,
        arguments=lambda data: (data["N"],),
        observed=outcome("y"),
    ),
    Posterior(
        name="sblrc-blr",
        model=regression_normal,
        arguments=lambda data: array(data, "X"),
        observed=outcome("y"),
    ),
]
