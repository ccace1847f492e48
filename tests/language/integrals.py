"""Models with jointly normal sites to integrate out, for the tests of marginalize."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl

Y = np.array([0.3, -1.0, 2.0, 1.2, 0.4])
GROUP = np.array([0, 2, 1, 1, 0])
TOWN = np.array([3, 0, 2, 3, 1])  # of each observation
REGION = np.array([1, 0, 1, 1])  # of each town


@dataclasses.dataclass(frozen=True)
class Integral:
    """A model of a latent `scale`, data, and sites to be integrated out.

    Attributes:
        model: The model.
        sites: The sites to integrate out.
        data: The data.
        blocks: The sizes of the blocks of the precision matrix that is expected: elements of
            plates, blocks of a chain, size of a block, size of the border.
    """

    model: Callable[..., Any]
    sites: tuple[str, ...] = ("x",)
    data: Any = dataclasses.field(default_factory=lambda: {"y": Y})
    blocks: tuple[int, int, int, int] = (5, 1, 1, 0)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__

    def posterior(self) -> Any:
        """The model conditioned on its data."""
        return ppl.condition(self.model, self.data)

    def integrated(self) -> Any:
        """The model without the sites."""
        return ppl.marginalize(self.posterior(), dict.fromkeys(self.sites, ppl.Gaussian()))

    def values(self) -> Mapping[str, Any]:
        """Values of the latent sites that stay."""
        return {"scale": jnp.asarray(0.7)}


def scale_of(key):
    return ppl.sample(key, dist.HalfNormal(2.0), name="scale")


def schools(key):
    scale = scale_of(key)
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    x = ppl.sample(key, dist.Normal(mu, scale * jnp.ones(5)), name="x")
    ppl.sample(key, dist.Normal(x, 1.0 + 0.1 * np.arange(5)), name="y")


def mapped(key):
    scale = scale_of(key)

    def row(key):
        x = ppl.sample(key, dist.Normal(scale, 1.0), name="x")
        return ppl.sample(key, dist.Normal(2.0 * x + 1.0, scale), name="y")

    return jax.vmap(row)(split(key, 5))


def levels_and_slopes(key):
    scale = scale_of(key)
    at = np.array([0.1, -0.3, 0.5, 1.0, 2.0])
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    slope = ppl.sample(key, dist.Normal(0.0, 3.0), name="slope")
    x = ppl.sample(key, dist.Normal(mu, scale * jnp.ones(3)), name="x")
    z = ppl.sample(key, dist.Normal(jnp.zeros(3), 0.5), name="z")
    ppl.sample(key, dist.Normal(x[GROUP] + (slope + z[GROUP]) * at, 0.5), name="y")


def looked_up_in_vmap(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), scale), name="x")
    z = ppl.sample(key, dist.iid(dist.Normal(0.0, 0.5), (3, 2)), name="z")

    def row(key, i):
        loc = x[i] + z[i] @ jnp.array([0.3, -1.0]) + z[i, 1]
        return ppl.sample(key, dist.Normal(loc, 0.5), name="y")

    jax.vmap(row)(split(key, 5), GROUP.astype(np.int32))


def columns(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.iid(dist.Normal(0.0, scale), (3, 2)), name="x")
    z = ppl.sample(key, dist.iid(dist.Normal(0.0, 0.5), (2, 3)), name="z")
    loc = x[GROUP, 0] - 0.5 * x[GROUP, 1] + z[0, GROUP] + z[1, GROUP]
    ppl.sample(key, dist.Normal(loc, 0.5), name="y")


def cells(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.iid(dist.Normal(0.0, scale), (3, 2)), name="x")
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), 0.5), name="z")
    ppl.sample(key, dist.Normal(x[GROUP, GROUP % 2] + z[GROUP % 2], 0.5), name="y")


def compared(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.iid(dist.Normal(0.0, scale), (3, 3)), name="x")
    ppl.sample(key, dist.Normal(x[GROUP, 0] - x[2 - GROUP, 1], 0.5), name="y")


def crossed(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), scale), name="x")
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), 0.5), name="z")
    ppl.sample(key, dist.Normal(x[GROUP] + z[GROUP % 2], 0.5), name="y")


def local_level(key):
    scale = scale_of(key)

    def step(level, key):
        level = ppl.sample(key, dist.Normal(level, scale), name="x")
        ppl.sample(key, dist.Normal(level, 0.5), name="y")
        return level, None

    start = ppl.sample(key, dist.Normal(0.0, 2.0), name="start")
    lax.scan(step, start, split(key, 5))


def local_level_from_number(key):
    scale = scale_of(key)

    def step(level, key):
        level = ppl.sample(key, dist.Normal(level, scale), name="x")
        return level, ppl.sample(key, dist.Normal(level, 0.5), name="y")

    lax.scan(step, 0.0, split(key, 5), reverse=True)


def panel(key):
    """Series with two states each, which begin at a site of their own that is a state short."""
    scale = scale_of(key)
    start = ppl.sample(key, dist.Normal(jnp.arange(3.0), scale), name="start")

    def series(key, start):
        def step(state, key):
            level, trend = state
            z = ppl.sample(key, dist.Normal(0.9 * trend, 0.3), name="z")
            x = ppl.sample(key, dist.Normal(level + trend, scale), name="x")
            return (x, z), ppl.sample(key, dist.Normal(x + 0.1 * level, 0.5), name="y")

        return lax.scan(step, (start, 0.5), split(key, 4), reverse=True)[1]

    return jax.vmap(series)(split(key, 3), start)


def state_space(key):
    scale = scale_of(key)
    transition = np.array([[0.9, 0.3], [-0.4, 0.8]])
    noise = jnp.array([[0.5, 0.2], [0.2, 0.3]])

    def step(x, key):
        d = dist.MultivariateNormal(transition @ x, covariance=scale * noise)
        x = ppl.sample(key, d, name="x")
        return x, ppl.sample(key, dist.Normal(x[0] - 0.5 * x[1], 1.0), name="y")

    lax.scan(step, jnp.zeros(2), split(key, 5))


def second_order(key):
    scale = scale_of(key)

    def step(carry, key):
        before, last = carry
        x = ppl.sample(key, dist.Normal(0.6 * last - 0.3 * before, scale), name="x")
        return (last, x), ppl.sample(key, dist.Normal(x, 0.5), name="y")

    lax.scan(step, (0.0, 0.0), split(key, 5))


def several_chains(key):
    scale = scale_of(key)
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

    def chain(key):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(mu + 0.5 * x, scale), name="x")
            return x, ppl.sample(key, dist.Normal(x, 0.5), name="y")

        return lax.scan(step, 0.0, split(key, 4))[1]

    return jax.vmap(chain)(split(key, 3))


def vectors_in_scan(key):
    scale = scale_of(key)

    def step(x, key):
        x = ppl.sample(key, dist.Normal(0.5 * x, scale), name="x")
        return x, ppl.sample(key, dist.Normal(x, jnp.array([0.5, 1.0, 2.0])), name="y")

    lax.scan(step, jnp.zeros(3), split(key, 4))


def level_and_trend(key):
    scale = scale_of(key)

    def step(carry, key):
        level, trend = carry
        z = ppl.sample(key, dist.Normal(trend, 0.3), name="z")
        x = ppl.sample(key, dist.Normal(level + trend, scale), name="x")
        return (x, z), ppl.sample(key, dist.Normal(x, 0.5), name="y")

    lax.scan(step, (0.0, 0.0), split(key, 5))


def times_observed(key):
    scale = scale_of(key)

    def step(x, key):
        x = ppl.sample(key, dist.Normal(x, scale), name="x")
        return x, x

    _, path = lax.scan(step, 0.0, split(key, 6))
    ppl.sample(key, dist.Normal(path[np.array([0, 2, 2, 3, 5])], 0.5), name="y")
    ppl.deterministic(jnp.exp(path[-1]), name="last")


def gaussian_process(key):
    scale = scale_of(key)
    at = np.linspace(0.0, 1.0, 5)
    covariance = jnp.exp(-jnp.square((at[:, None] - at) / scale)) + 1e-2 * np.eye(5)
    x = ppl.sample(key, dist.MultivariateNormal(0.0, covariance=covariance), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")


def regression(key):
    scale = scale_of(key)
    design = jnp.asarray(np.random.default_rng(1).normal(size=(5, 3)))
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), scale), name="x")
    ppl.sample(key, dist.Normal(design @ x, 0.5), name="y")


def walk_of_increments(key):
    scale = scale_of(key)

    def step(level, key):
        level = level + scale * ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        return level, ppl.sample(key, dist.Normal(level, 0.5), name="y")

    lax.scan(step, 0.0, split(key, 5))


def factors(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(5), scale), name="x")
    ppl.factor(-jnp.square(x - Y), name="near")
    ppl.factor(-10.0 * jnp.square(jnp.sum(x)), name="total")


def flat(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    ppl.sample(key, dist.Normal(x * np.arange(1.0, 6.0), scale), name="y")


def in_scope(key):
    scale = scale_of(key)

    def part(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(5), scale), name="x")
        return ppl.deterministic(2.0 * x, name="twice")

    x = ppl.nest(part, scope="part")(key)
    ppl.sample(key, dist.Normal(x, 0.5), name="y")


def two_blocks(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(5), scale), name="x")
    z = ppl.sample(key, dist.Normal(scale, 1.0), name="z")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")
    ppl.sample(key, dist.Normal(z, scale), name="w")


def chosen(key):
    scale = scale_of(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(5), scale), name="x")
    loc = lax.cond(scale > 0.5, lambda x: 2.0 * x, lambda x: -x, x)
    ppl.sample(key, dist.Normal(loc, 0.5), name="y")


def nested(key):
    scale = scale_of(key)
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    z = ppl.sample(key, dist.Normal(mu, scale * jnp.ones(2)), name="z")
    x = ppl.sample(key, dist.Normal(z[REGION], 0.5), name="x")
    ppl.sample(key, dist.Normal(x[TOWN] + 0.1 * mu, 0.7), name="y")


def nested_uncentered(key):
    scale = scale_of(key)
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="z")
    x = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="x")
    loc = 0.5 * x + z[REGION]
    ppl.sample(key, dist.Normal(loc[TOWN // 2], 0.7), name="y")
    ppl.sample(key, dist.Normal(loc[2 + TOWN // 2], 0.7), name="w")


def nested_in_vmap(key):
    scale = scale_of(key)
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")

    def region(key):
        z = ppl.sample(key, dist.Normal(mu, scale), name="z")
        x = ppl.sample(key, dist.Normal(z * jnp.ones(4), 0.5), name="x")
        return ppl.sample(key, dist.Normal(x, 0.7), name="y")

    return jax.vmap(region)(split(key, 3))


def nested_twice(key):
    scale = scale_of(key)
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    w = ppl.sample(key, dist.Normal(mu, scale * jnp.ones(2)), name="w")
    z = ppl.sample(key, dist.Normal(w[np.array([1, 1, 0])], 0.4), name="z")
    x = ppl.sample(key, dist.Normal(z[np.array([2, 0, 1, 2])], scale), name="x")
    ppl.sample(key, dist.Normal(x[TOWN], 0.7), name="y")


def nested_slopes(key):
    scale = scale_of(key)
    at = jnp.array([0.1, -0.3, 0.5, 1.0, 2.0])
    mu = ppl.sample(key, dist.Normal(jnp.zeros(2), 3.0), name="mu")
    z = ppl.sample(key, dist.Normal(jnp.tile(mu, (3, 1)), scale), name="z")
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 0.3), name="w")
    index = np.array([2, 0, 2, 1])
    x = ppl.sample(key, dist.Normal((z + w[:, None])[index], 0.5), name="x")
    ppl.sample(key, dist.Normal(x[TOWN, 0] + x[TOWN, 1] * at, 0.7), name="y")


def nested_chains(key):
    scale = scale_of(key)
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="z")
    drift = z[REGION[1:]]

    def chain(key, drift):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(drift + 0.5 * x, scale), name="x")
            return x, ppl.sample(key, dist.Normal(x, 0.5), name="y")

        return lax.scan(step, 0.0, split(key, 4))[1]

    return jax.vmap(chain)(split(key, 3), drift)


def nested_residuals(key):
    scale = scale_of(key)
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="z")
    w = ppl.sample(key, dist.Normal(z[REGION], 0.5), name="w")
    x = ppl.sample(key, dist.Normal(jnp.zeros(5), 0.5), name="x")
    ppl.sample(key, dist.Normal(x + w[TOWN] - z[REGION][TOWN], 0.7), name="y")


def nested_but_for_one(key):
    scale = scale_of(key)
    z = ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="z")
    x = ppl.sample(key, dist.Normal(z[REGION], 0.5), name="x")
    ppl.sample(key, dist.Normal(x[TOWN] + z[TOWN % 2], 0.7), name="y")


INTEGRALS = [
    Integral(schools, ("mu", "x"), blocks=(5, 1, 1, 1)),
    Integral(mapped),
    Integral(levels_and_slopes, ("x", "z", "mu", "slope"), blocks=(3, 1, 2, 2)),
    Integral(looked_up_in_vmap, ("x", "z"), blocks=(3, 1, 3, 0)),
    Integral(columns, ("x", "z"), blocks=(3, 1, 4, 0)),
    Integral(cells, ("x", "z"), blocks=(6, 1, 1, 2)),
    Integral(compared, blocks=(0, 1, 0, 9)),
    Integral(crossed, ("x", "z"), blocks=(3, 1, 1, 2)),
    Integral(local_level, ("start", "x"), blocks=(1, 6, 1, 0)),
    Integral(local_level_from_number, blocks=(1, 5, 1, 0)),
    Integral(panel, ("start", "x", "z"), {"y": Y[:3, None] * Y[:4]}, (3, 5, 2, 0)),
    Integral(state_space, blocks=(1, 5, 2, 0)),
    Integral(second_order, blocks=(1, 3, 2, 0)),
    Integral(several_chains, ("mu", "x"), {"y": Y[:3, None] * Y[:4]}, (3, 4, 1, 1)),
    Integral(vectors_in_scan, data={"y": Y[:4, None] * Y[:3]}, blocks=(3, 4, 1, 0)),
    Integral(level_and_trend, ("x", "z"), blocks=(1, 5, 2, 0)),
    Integral(times_observed, blocks=(1, 6, 1, 0)),
    Integral(gaussian_process, blocks=(0, 1, 0, 5)),
    Integral(regression, blocks=(0, 1, 0, 3)),
    Integral(walk_of_increments, blocks=(0, 1, 0, 5)),
    Integral(factors, data={}, blocks=(0, 1, 0, 5)),
    Integral(flat, blocks=(0, 1, 0, 1)),
    Integral(in_scope, ("part.x",)),
    Integral(two_blocks, ("x", "z"), {"y": Y, "w": np.array(0.3)}),
    Integral(chosen),
    Integral(nested, ("x", "z", "mu"), blocks=(4, 1, 1, 3)),
    Integral(nested_uncentered, ("x", "z"), {"y": Y, "w": -Y}, (4, 1, 1, 2)),
    Integral(nested_in_vmap, ("mu", "x", "z"), {"y": Y[:3, None] * Y[:4]}, blocks=(12, 1, 1, 4)),
    Integral(nested_twice, ("mu", "w", "x", "z"), blocks=(4, 1, 1, 6)),
    Integral(nested_slopes, ("mu", "x", "w", "z"), blocks=(4, 1, 2, 11)),
    Integral(nested_chains, ("x", "z"), {"y": Y[:3, None] * Y[:4]}, (3, 4, 1, 2)),
    Integral(nested_residuals, ("w", "x", "z"), blocks=(5, 1, 1, 6)),
    Integral(nested_but_for_one, ("x", "z"), blocks=(4, 1, 1, 2)),
]
