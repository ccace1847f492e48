"""Models without loops, and their densities by hand."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split
from jax.scipy import stats
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

tfd = tfp.distributions
normal, gamma = stats.norm.logpdf, stats.gamma.logpdf


def real(*shape: int) -> np.ndarray:
    """Numbers in (-2, 2) in no order, another set for each shape."""
    return 2 * np.sin(np.arange(1.0, np.prod(shape, dtype=int) + 1) ** 2 + len(shape)).reshape(
        shape
    )


def positive(*shape: int) -> np.ndarray:
    return np.exp(0.5 * real(*shape))


def simplex(*shape: int) -> np.ndarray:
    weights = positive(*shape)
    return weights / weights.sum(-1, keepdims=True)


def half_cauchy(x: Any, scale: Any) -> Any:
    return jnp.log(2) + stats.cauchy.logpdf(x, 0.0, scale)


SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


def eight_schools(key: Any, sigma: Any) -> Any:
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(mu, tau * jnp.ones(8)), name="theta")
    return ppl.sample(key, dist.Normal(theta, sigma), name="y")


def eight_schools_density(v: Any, sigma: Any, y: Any = None) -> Any:
    prior = normal(v["mu"], 0.0, 5.0) + half_cauchy(v["tau"], 5.0)
    y = v["y"] if y is None else y
    return prior + normal(v["theta"], v["mu"], v["tau"]).sum() + normal(y, v["theta"], sigma).sum()


SCHOOLS = {"mu": 1.5, "tau": 2.5, "theta": 3 * real(8)}


def jitted(key: Any, scale: Any) -> Any:
    @jax.jit
    def inner(key: Any, x: Any) -> Any:
        return ppl.sample(key, dist.Normal(2 * x, scale), name="y")

    x = ppl.sample(key, dist.Cauchy(0.0, 1.0), name="x")
    return jax.jit(lambda x: inner(key, x))(x)


def cond_on(pred: Callable[[Any], Any]) -> Callable[..., Any]:
    """One site with a family for each branch, and one behind it."""

    def model(key: Any, z: Any) -> Any:
        z = ppl.sample(key, dist.Normal(z, 1.0), name="z")
        high = lambda z: ppl.sample(key, dist.HalfNormal(jnp.exp(z)), name="x")  # noqa: E731
        low = lambda z: ppl.sample(key, dist.Exponential(jnp.exp(-z)), name="x")  # noqa: E731
        x = lax.cond(pred(z), high, low, z)
        return ppl.sample(key, dist.Normal(x, 1.0), name="y")

    return model


def cond_density(is_high: bool) -> Callable[..., Any]:
    def density(v: Any, loc: Any) -> Any:
        z, x = v["z"], v["x"]
        high, low = jnp.log(2) + normal(x, 0.0, jnp.exp(z)), stats.expon.logpdf(x, 0.0, jnp.exp(z))
        return normal(z, loc) + (high if is_high else low) + normal(v["y"], x)

    return density


COND = {"x": (), "y": (), "z": ()}


def submodel(key: Any, loc: Any) -> Any:
    x = ppl.sample(key, dist.Normal(loc, 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, 2.0), name="y")


def submodel_density(v: Any, loc: Any) -> Any:
    return normal(v["x"], loc, 1.0).sum() + normal(v["y"], v["x"], 2.0).sum()


def nested(key: Any, loc: Any) -> Any:
    """The same submodel in three scopes, one of them two deep and under vmap."""
    keys = split(key, 3)
    a = ppl.nest(submodel, scope="a")(keys[0], loc)
    b = ppl.nest(submodel, scope="b")(keys[1], a)
    rows = lambda key: jax.vmap(ppl.nest(submodel, scope="d"), (0, None))(split(key, 3), b)  # noqa: E731
    return ppl.nest(rows, scope="c")(keys[2])


def nested_density(v: Any, loc: Any) -> Any:
    first = submodel_density(v["a"], loc) + submodel_density(v["b"], v["a"]["y"])
    return first + submodel_density(v["c"]["d"], v["b"]["y"])


NESTED = {"x": np.float64(0.5), "y": np.float64(-1.0)}
SITE = {"x": (), "y": ()}
COUNTS = np.array([0, 3, 1, 0, 5, 2])


def design_matrix() -> jax.Array:
    return jnp.asarray(real(6, 2))


def poisson_regression(key: Any) -> Any:
    """The design matrix and the data are closed over."""
    x = design_matrix()

    def inner(w: Any) -> Any:
        return ppl.sample(key, dist.Poisson(jnp.exp(x @ w)), name="count")

    return jax.jit(inner)(ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="w"))


def poisson_density(v: Any) -> Any:
    rate = jnp.exp(design_matrix() @ v["w"])
    return normal(v["w"]).sum() + stats.poisson.logpmf(COUNTS, rate).sum()


def vectors(key: Any, locs: Any, scale: Any) -> Any:
    """Distributions over vectors of which vmap maps some parameters only, along axis 1."""
    weights = ppl.sample(key, dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])), name="weights")

    def one(key: Any, loc: Any) -> Any:
        x = ppl.sample(key, dist.MultivariateNormal(loc, scale_tril=scale), name="x")
        p = ppl.sample(key, dist.Dirichlet(1 + 5 * weights), name="p")
        return ppl.sample(key, dist.MultivariateNormal(x, covariance=jnp.diag(p)), name="y")

    return jax.vmap(one, (0, 1))(split(key, 2), locs)


def vectors_density(v: Any, locs: Any, scale: Any) -> Any:
    dirichlet, mvn = stats.dirichlet.logpdf, stats.multivariate_normal.logpdf
    covariance = jnp.tril(scale) @ jnp.tril(scale).T
    total = dirichlet(v["weights"], jnp.array([2.0, 3.0, 4.0]))
    for i in range(2):
        x, p, y = v["x"][i], v["p"][i], v["y"][i]
        total += mvn(x, locs[:, i], covariance) + dirichlet(p, 1 + 5 * v["weights"])
        total += normal(y, x, jnp.sqrt(p)).sum()
    return total


SCALE_TRIL = np.array([[1.0, 0.0, 0.0], [0.5, 1.2, 0.0], [-0.3, 0.2, 0.7]])


def raw_tfp(key: Any, loc: Any) -> Any:
    """Distributions of TFP beside ours."""
    mu = ppl.sample(key, tfd.Normal(loc, jnp.ones_like(loc)), name="mu")
    s = ppl.sample(key, tfd.Gamma(2 * jnp.ones_like(loc), jnp.ones_like(loc)), name="s")

    def one(key: Any, mu: Any) -> Any:
        pair = tfd.Independent(tfd.Normal(mu * jnp.ones(2), s), reinterpreted_batch_ndims=1)
        return ppl.sample(key, dist.Normal(ppl.sample(key, pair, name="pair").sum(), s), name="y")

    mus = mu + jnp.arange(3.0)
    return jax.vmap(one)(split(key, 3), mus)


def raw_tfp_density(v: Any, loc: Any) -> Any:
    mus = v["mu"] + jnp.arange(3.0)
    return (
        normal(v["mu"], loc)
        + gamma(v["s"], 2.0)
        + normal(v["pair"], mus[:, None], v["s"]).sum()
        + normal(v["y"], v["pair"].sum(-1), v["s"]).sum()
    )


def mixture(key: Any, locs: Any) -> Any:
    p = ppl.sample(key, dist.Beta(2.0, 3.0), name="p")
    parts = dist.Categorical(probs=jnp.array([p, 1 - p]))
    d = dist.MixtureSameFamily(parts, dist.Normal(locs, 1.0))
    return jax.vmap(lambda key: ppl.sample(key, d, name="x"))(split(key, 4))


def mixture_density(v: Any, locs: Any) -> Any:
    p = v["p"]
    parts = jnp.exp(normal(v["x"][:, None], locs)) @ jnp.array([p, 1 - p])
    return stats.beta.logpdf(p, 2.0, 3.0) + jnp.log(parts).sum()
