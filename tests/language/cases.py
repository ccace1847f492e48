"""The table of models: each with its arguments, values of its sites, and its density written by hand.

The densities by hand use `jax.scipy.stats` and loops or broadcasting of their own, and nothing of the library.
"""

# ruff: noqa: E501

import dataclasses
from collections.abc import Callable, Mapping
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


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and all that is known of its density.

    Attributes:
        id: Where the sites stand.
        model: `f(key, *args)`.
        args: Floats and arrays of floats.
        values: For every latent site.
        density: `(values, *args) -> scalar`.
        shapes: Of the log probability of every site.
    """

    id: str
    model: Callable[..., Any]
    args: tuple[Any, ...]
    values: Mapping[str, Any]
    density: Callable[..., Any]
    shapes: Mapping[str, Any]


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


def random_walk(key: Any, start: Any, num_steps: int = 5) -> Any:
    """A state-space model: x follows a random walk, y is x with noise."""
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def step(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        return x, ppl.sample(key, dist.Normal(x, 0.5), name="y")

    return lax.scan(step, start, split(key, num_steps))[1]


def random_walk_density(v: Any, start: Any, y: Any = None) -> Any:
    before = jnp.concatenate([jnp.array([start]), v["x"][:-1]])
    y = v["y"] if y is None else y
    steps = normal(v["x"], before, v["scale"]).sum() + normal(y, v["x"], 0.5).sum()
    return jnp.log(2) + normal(v["scale"]) + steps


def by_group(key: Any, x: Any) -> Any:
    """A regression for each row of `x`, with a common slope and scale."""
    slope = ppl.sample(key, dist.Normal(0.0, 2.0), name="slope")
    scale = ppl.sample(key, dist.LogNormal(0.0, 0.5), name="scale")

    def group(key: Any, x: Any) -> Any:
        level = ppl.sample(key, dist.Normal(1.0, 4.0), name="level")
        return ppl.sample(key, dist.Normal(level + slope * x, scale), name="y")

    return jax.vmap(group)(split(key, len(x)), x)


def by_group_density(v: Any, x: Any) -> Any:
    top = normal(v["slope"], 0.0, 2.0) + normal(jnp.log(v["scale"]), 0.0, 0.5) - jnp.log(v["scale"])
    lines = v["level"][:, None] + v["slope"] * x
    return top + normal(v["level"], 1.0, 4.0).sum() + normal(v["y"], lines, v["scale"]).sum()


def walkers(key: Any, start: Any) -> Any:
    """A scan of a vmap: the walkers go side by side."""

    def step(x: Any, key: Any) -> Any:
        one = lambda key, x: ppl.sample(key, dist.Normal(0.9 * x, 0.5), name="x")  # noqa: E731
        x = jax.vmap(one)(split(key, len(start)), x)
        return x, x

    return lax.scan(step, start, split(key, 4))[1]


def walkers_density(v: Any, start: Any) -> Any:
    before = jnp.concatenate([start[None], v["x"][:-1]])
    return normal(v["x"], 0.9 * before, 0.5).sum()


def series(key: Any, start: Any) -> Any:
    """A vmap of a scan: each row has a random scale and is then walked."""

    def one(key: Any, x: Any) -> Any:
        scale = ppl.sample(key, dist.Gamma(3.0, 1.0), name="scale")

        def step(x: Any, key: Any) -> Any:
            x = ppl.sample(key, dist.Normal(x, scale), name="x")
            return x, x

        return lax.scan(step, x, split(key, 4))[1]

    return jax.vmap(one)(split(key, len(start)), start)


def series_density(v: Any, start: Any) -> Any:
    before = jnp.concatenate([start[:, None], v["x"][:, :-1]], 1)
    return gamma(v["scale"], 3.0).sum() + normal(v["x"], before, v["scale"][:, None]).sum()


def scan_in_scan(key: Any, start: Any) -> Any:
    def inner(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        return x, None

    def outer(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Laplace(x, 2.0), name="jump")
        return lax.scan(inner, x, split(key, 3))[0], None

    return lax.scan(outer, start, split(key, 2))[0]


def scan_in_scan_density(v: Any, start: Any) -> Any:
    total, x = 0.0, start
    for i in range(2):
        total += stats.laplace.logpdf(v["jump"][i], x, 2.0)
        x = v["jump"][i]
        for j in range(3):
            total += normal(v["x"][i, j], x)
            x = v["x"][i, j]
    return total


def vmap_scan_vmap(key: Any, loc: Any) -> Any:
    """Axes 2 (vmap), 4 (scan) and 3 (vmap), from the outside."""

    def leaf(key: Any, x: Any) -> Any:
        return ppl.sample(key, dist.Normal(x, 1.5), name="x")

    def step(x: Any, key: Any) -> Any:
        x = jax.vmap(leaf)(split(key, 3), x)
        return x, None

    return jax.vmap(lambda key, x: lax.scan(step, x, split(key, 4)))(split(key, 2), loc)


def scan_vmap_scan(key: Any, loc: Any) -> Any:
    """Axes 2 (scan), 3 (vmap) and 4 (scan), from the outside."""

    def step(x: Any, key: Any) -> Any:
        return ppl.sample(key, dist.Normal(x, 1.5), name="x"), None

    def outer(x: Any, key: Any) -> Any:
        walk = lambda key, x: lax.scan(step, x, split(key, 4))[0]  # noqa: E731
        return jax.vmap(walk)(split(key, 3), x), None

    return lax.scan(outer, loc, split(key, 2))


def scan_vmap_scan_density(v: Any, loc: Any) -> Any:
    chain = v["x"].transpose(1, 0, 2).reshape(3, 8)
    return normal(chain, jnp.concatenate([loc[:, None], chain[:, :-1]], 1), 1.5).sum()


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


def switch_in_scan(key: Any, loc: Any) -> Any:
    """Three families in turn."""
    branches = [
        lambda key, x: ppl.sample(key, dist.Normal(x, 1.0), name="x"),
        lambda key, x: ppl.sample(key, dist.Laplace(x, 2.0), name="x"),
        lambda key, x: ppl.sample(key, dist.Cauchy(x, 3.0), name="x"),
    ]

    def step(x: Any, keyed: Any) -> Any:
        key, i = keyed
        return lax.switch(i % 3, branches, key, x), None

    return lax.scan(step, loc, (split(key, 4), jnp.arange(4)))[0]


def switch_in_scan_density(v: Any, loc: Any) -> Any:
    x = jnp.concatenate([jnp.array([loc]), v["x"]])
    first = normal(x[1], x[0]) + normal(x[4], x[3])
    return first + stats.laplace.logpdf(x[2], x[1], 2.0) + stats.cauchy.logpdf(x[3], x[2], 3.0)


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


def closed_over_in_scan(key: Any, slope: Any) -> Any:
    """Every step reads a row of an array that is closed over, by its number."""
    table = design_matrix()

    def step(i: Any, key: Any) -> Any:
        return i + 1, ppl.sample(key, dist.Normal(slope * table[i], 1.0), name="x")

    return lax.scan(step, 0, split(key, 6))[1]


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


def shared_in_vmap(key: Any, x: Any) -> Any:
    """What nothing maps is one variable, though it is drawn inside of the vmap."""

    def one(own: Any, x: Any) -> Any:
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        return ppl.sample(own, dist.Normal(slope * x, 1.0), name="y")

    return jax.vmap(one)(split(key, len(x)), x)


def two_vmaps(key: Any, rows: Any, columns: Any) -> Any:
    """A site under two vmaps, each of which maps one parameter, around batches of 2."""

    def cell(key: Any, row: Any, column: Any) -> Any:
        return ppl.sample(key, dist.Normal(row + jnp.zeros(2), column), name="x")

    over_columns = jax.vmap(cell, (0, None, 0))
    return jax.vmap(over_columns, (0, 0, None))(split(key, (4, 3)), rows, columns)


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


def empty_loop(key: Any, start: Any) -> Any:
    x = ppl.sample(key, dist.Normal(start, 1.0), name="x")
    step = lambda x, key: (ppl.sample(key, dist.Normal(x, 1.0), name="never"), None)  # noqa: E731
    return lax.scan(step, x, split(key, 2)[:0])[0]


def loops(key: Any, start: Any) -> Any:
    """fori_loop, lax.map and a reversed, unrolled scan."""
    keys = split(key, 3)
    fori = lambda i, x: ppl.sample(keys[i], dist.Normal(x, 1.0), name="fori")  # noqa: E731
    x = lax.fori_loop(0, 3, fori, start)
    mapped = lax.map(lambda key: ppl.sample(key, dist.Normal(x, 2.0), name="map"), keys)

    def step(x: Any, keyed: Any) -> Any:
        key, y = keyed
        return ppl.sample(key, dist.Normal(x + y, 3.0), name="back"), None

    return lax.scan(step, x, (keys, mapped), reverse=True, unroll=2)[0]


def loops_density(v: Any, start: Any) -> Any:
    fori = jnp.concatenate([jnp.array([start]), v["fori"]])
    back = jnp.concatenate([v["back"], fori[-1:]])
    return (
        normal(fori[1:], fori[:-1]).sum()
        + normal(v["map"], fori[-1], 2.0).sum()
        + normal(back[:-1], back[1:] + v["map"], 3.0).sum()
    )


ROWS = real(3, 4)

CASES = [
    Case("eight-schools", eight_schools, (SIGMA,), SCHOOLS | {"y": EFFECTS}, eight_schools_density, {"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case("eight-schools-observed", ppl.condition(eight_schools, {"y": EFFECTS}), (SIGMA,), SCHOOLS, lambda v, s: eight_schools_density(v, s, EFFECTS), {"mu": (), "tau": (), "theta": (8,), "y": (8,)}),
    Case("random-walk", random_walk, (0.5,), {"scale": 0.7, "x": real(5), "y": real(5, 1)[:, 0]}, random_walk_density, {"scale": (), "x": (5,), "y": (5,)}),
    Case("random-walk-observed", ppl.condition(random_walk, {"y": real(5)}), (0.5,), {"scale": 0.7, "x": real(5, 1)[:, 0]}, lambda v, s: random_walk_density(v, s, real(5)), {"scale": (), "x": (5,), "y": (5,)}),
    Case("regression-by-vmap", by_group, (ROWS,), {"slope": 0.3, "scale": 1.2, "level": real(3), "y": real(3, 4)}, by_group_density, {"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case("regression-by-vmap-observed", ppl.condition(by_group, {"y": real(3, 4)}), (ROWS,), {"slope": 0.3, "scale": 1.2, "level": real(3)}, lambda v, x: by_group_density({**v, "y": real(3, 4)}, x), {"slope": (), "scale": (), "level": (3,), "y": (3, 4)}),
    Case("scan-of-vmap", walkers, (real(3),), {"x": real(4, 3)}, walkers_density, {"x": (4, 3)}),
    Case("scan-of-vmap-observed", ppl.condition(walkers, {"x": real(4, 3)}), (real(3),), {}, lambda _, start: walkers_density({"x": real(4, 3)}, start), {"x": (4, 3)}),
    Case("vmap-of-scan", series, (real(3),), {"scale": positive(3), "x": real(3, 4)}, series_density, {"scale": (3,), "x": (3, 4)}),
    Case("vmap-of-scan-observed", ppl.condition(series, {"x": real(3, 4)}), (real(3),), {"scale": positive(3)}, lambda v, start: series_density({**v, "x": real(3, 4)}, start), {"scale": (3,), "x": (3, 4)}),
    Case("scan-in-scan", scan_in_scan, (0.5,), {"jump": real(2), "x": real(2, 3)}, scan_in_scan_density, {"jump": (2,), "x": (2, 3)}),
    Case("vmap-scan-vmap", vmap_scan_vmap, (real(2, 3),), {"x": real(2, 4, 3)}, lambda v, loc: normal(v["x"], jnp.concatenate([loc[:, None], v["x"][:, :-1]], 1), 1.5).sum(), {"x": (2, 4, 3)}),
    Case("scan-vmap-scan", scan_vmap_scan, (real(3),), {"x": real(2, 3, 4)}, scan_vmap_scan_density, {"x": (2, 3, 4)}),
    Case("jit", jitted, (1.5,), {"x": 0.7, "y": -0.4}, lambda v, s: stats.cauchy.logpdf(v["x"]) + normal(v["y"], 2 * v["x"], s), {"x": (), "y": ()}),
    Case("cond-on-data", cond_on(lambda _: design_matrix()[0, 0] > 5), (0.1,), {"z": 0.4, "x": 0.8, "y": 2.0}, cond_density(False), COND),
    Case("cond-on-latent-true", cond_on(lambda z: z > 0), (0.1,), {"z": 0.4, "x": 0.8, "y": 2.0}, cond_density(True), COND),
    Case("cond-on-latent-false", cond_on(lambda z: z > 0), (0.1,), {"z": -0.4, "x": 0.8, "y": 2.0}, cond_density(False), COND),
    Case("switch-in-scan", switch_in_scan, (0.2,), {"x": real(4)}, switch_in_scan_density, {"x": (4,)}),
    Case("nest", nested, (0.3,), {"a": NESTED, "b": NESTED, "c": {"d": {"x": real(3), "y": positive(3)}}}, nested_density, {"a": SITE, "b": SITE, "c": {"d": {"x": (3,), "y": (3,)}}}),
    Case("closed-over-data", ppl.condition(poisson_regression, {"count": COUNTS}), (), {"w": real(2)}, poisson_density, {"w": (2,), "count": (6,)}),
    Case("closed-over-in-scan", closed_over_in_scan, (0.4,), {"x": real(6, 2)}, lambda v, slope: normal(v["x"], slope * design_matrix()).sum(), {"x": (6, 2)}),
    Case("vectors-in-vmap", vectors, (real(3, 2), SCALE_TRIL), {"weights": simplex(3), "x": real(2, 3), "p": simplex(2, 3), "y": positive(2, 3)}, vectors_density, {"weights": (), "x": (2,), "p": (2,), "y": (2,)}),
    Case("shared-in-vmap", shared_in_vmap, (real(3),), {"slope": 0.6, "y": positive(3)}, lambda v, x: normal(v["slope"]) + normal(v["y"], v["slope"] * x).sum(), {"slope": (), "y": (3,)}),
    Case("two-vmaps", two_vmaps, (real(4), positive(3)), {"x": real(4, 3, 2)}, lambda v, rows, columns: normal(v["x"], rows[:, None, None], columns[:, None]).sum(), {"x": (4, 3, 2)}),
    Case("raw-tfp", raw_tfp, (np.float64(0.3),), {"mu": 0.5, "s": 1.4, "pair": real(3, 2), "y": real(3)}, raw_tfp_density, {"mu": (), "s": (), "pair": (3,), "y": (3,)}),
    Case("mixture-in-vmap", mixture, (real(2),), {"p": 0.3, "x": real(4)}, mixture_density, {"p": (), "x": (4,)}),
    Case("empty-loop", empty_loop, (0.2,), {"x": 0.5, "never": np.zeros(0)}, lambda v, start: normal(v["x"], start), {"x": (), "never": (0,)}),
    Case("loops", loops, (0.2,), {"fori": real(3), "map": positive(3), "back": real(3, 1)[:, 0]}, loops_density, {"fori": (3,), "map": (3,), "back": (3,)}),
]  # fmt: skip
