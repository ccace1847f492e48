"""Models whose sites stand in scans, fori loops and vmaps, and their densities by hand."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.random import split
from jax.scipy import stats

import distributions as dist
import ppl

from .programs import design_matrix, gamma, normal


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


def closed_over_in_scan(key: Any, slope: Any) -> Any:
    """Every step reads a row of an array that is closed over, by its number."""
    table = design_matrix()

    def step(i: Any, key: Any) -> Any:
        return i + 1, ppl.sample(key, dist.Normal(slope * table[i], 1.0), name="x")

    return lax.scan(step, 0, split(key, 6))[1]


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
