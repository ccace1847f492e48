"""Loops and branches of JAX around, between and inside of sites, against densities by hand.

The densities are loops of Python over numbers with formulas of their own.
"""

# ruff: noqa: E501

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

from .by_hand import Row, cauchy, check_density_gradient_and_draws, laplace, log_normal, normal
from .checks import assert_close
from .programs import positive, real

# A carry that is a pytree, of which the sites move one part each.


def stochastic_volatility(key: Any, phi: Any) -> Any:
    """The carry holds the log volatility, its average so far, and a count."""
    sigma = ppl.sample(key, dist.LogNormal(-1.0, 0.5), name="sigma")

    def day(carry: Any, key: Any) -> Any:
        h, (average, n) = carry
        h = ppl.sample(key, dist.Normal(phi * h + 0.1 * average, sigma), name="h")
        ppl.sample(key, dist.Normal(0.0, jnp.exp(0.5 * h)), name="y")
        return (h, ((n * average + h) / (n + 1), n + 1)), None

    return lax.scan(day, (jnp.zeros_like(phi), (jnp.zeros_like(phi), 0)), split(key, 6))[0]


def stochastic_volatility_density(v: Any, phi: Any) -> Any:
    total, h, past = log_normal(v["sigma"], -1.0, 0.5), 0.0, [0.0]
    for t in range(6):
        average = sum(past) / max(t, 1)
        total += normal(v["h"][t], phi * h + 0.1 * average, v["sigma"])
        h = v["h"][t]
        past.append(h)
        total += normal(v["y"][t], 0.0, jnp.exp(0.5 * h))
    return total


def scan_over_draws(key: Any, decay: Any) -> Any:
    """What vmap drew is scanned over, backwards, with a site at every step."""
    x = jax.vmap(lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x"))(split(key, 4))

    def step(level: Any, keyed: Any) -> Any:
        key, x = keyed
        level = decay * level + x
        return level, ppl.sample(key, dist.Laplace(level, 2.0), name="y")

    return lax.scan(step, 0.5, (split(key, 4), x), reverse=True, unroll=3)[1]


def scan_over_draws_density(v: Any, decay: Any) -> Any:
    total, level = 0.0, 0.5
    for i in reversed(range(4)):
        level = decay * level + v["x"][i]
        total += normal(v["x"][i], 0.0) + laplace(v["y"][i], level, 2.0)
    return total


# While loops without sites, between sites.


def square_root(a: Any) -> Any:
    """Newton's iteration until it stands."""
    goes_on = lambda s: (jnp.abs(s[0] ** 2 - a) > 1e-13 * a) & (s[1] < 60)  # noqa: E731
    return lax.while_loop(goes_on, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))[0]


def while_between(key: Any, scale: Any) -> Any:
    a = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="a")
    x = ppl.sample(key, dist.Normal(square_root(a), scale), name="x")
    # Bounds that are not static: a while loop again.
    total = lax.fori_loop(0, 2 + (x > 0), lambda i, s: s + jnp.sin(x + i), 0.0)
    return ppl.sample(key, dist.Normal(total, scale), name="y")


def while_between_density(v: Any, scale: Any) -> Any:
    a, x = v["a"], v["x"]
    total = sum(jnp.sin(x + i) for i in range(3)) - jnp.where(x > 0, 0.0, jnp.sin(x + 2))
    return log_normal(a, 0.0) + normal(x, jnp.sqrt(a), scale) + normal(v["y"], total, scale)


def while_in_scan(key: Any, start: Any) -> Any:
    """Each element of a vmap halves the value until it is small, another number of times."""

    def step(x: Any, key: Any) -> Any:
        x = lax.while_loop(lambda x: jnp.abs(x) > 0.5, lambda x: 0.5 * x, x)
        return ppl.sample(key, dist.Normal(x, 1.5), name="x"), None

    return jax.vmap(lambda key, x: lax.scan(step, x, split(key, 3))[0])(split(key, 2), start)


def while_in_scan_density(v: Any, start: Any) -> Any:
    total = 0.0
    for i in range(2):
        x = start[i]
        for t in range(3):
            for _ in range(6):
                x = jnp.where(jnp.abs(x) > 0.5, 0.5 * x, x)
            total += normal(v["x"][i, t], x, 1.5)
            x = v["x"][i, t]
    return total


# Conds: on a carried latent, in each other, on a discrete latent, with loops in their branches.


def threshold_walk(key: Any, push: Any) -> Any:
    """The branch of each step depends on the latent state before it."""

    def step(x: Any, key: Any) -> Any:
        up = lambda: ppl.sample(key, dist.Normal(x - push, 0.5), name="x")  # noqa: E731
        down = lambda: ppl.sample(key, dist.Laplace(0.5 * x + push, 1.0), name="x")  # noqa: E731
        x = lax.cond(x > 0, up, down)
        return x, ppl.sample(key, dist.Normal(x, 1.0), name="y")

    return lax.scan(step, 0.2, split(key, 5))[1]


def threshold_walk_density(v: Any, push: Any) -> Any:
    total, x = 0.0, 0.2
    for t in range(5):
        new = v["x"][t]
        above = normal(new, x - push, 0.5)
        total += jnp.where(x > 0, above, laplace(new, 0.5 * x + push)) + normal(v["y"][t], new)
        x = new
    return total


def cond_in_cond(key: Any, flag: Any) -> Any:
    """Outer on a latent, inner on data."""
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    draw = lambda d: ppl.sample(key, d, name="x")  # noqa: E731
    low = lambda: draw(dist.Cauchy(z, 2.0))  # noqa: E731
    high = lambda: lax.cond(  # noqa: E731
        flag > 0, lambda: draw(dist.Normal(z, 2.0)), lambda: draw(dist.Laplace(z, 3.0))
    )
    return lax.cond(z > 0.3, high, low)


def cond_in_cond_density(v: Any, flag: Any) -> Any:
    x, z = v["x"], v["z"]
    high = jnp.where(flag > 0, normal(x, z, 2.0), laplace(x, z, 3.0))
    return normal(z, 0.0) + jnp.where(z > 0.3, high, cauchy(x, z, 2.0))


def loops_in_branches(key: Any, start: Any) -> Any:
    """One branch scans, the other maps; both draw three values of one name, and all share a factor."""
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")

    def walk(x: Any) -> Any:
        step = lambda x, key: (ppl.sample(key, dist.Normal(x, 1.0), name="x"), None)  # noqa: E731
        end = lax.scan(step, x, split(key, 3))[0]
        ppl.factor(-(end**2), name="end")
        return end

    def cloud(x: Any) -> Any:
        step = lambda _, key: (None, ppl.sample(key, dist.Laplace(x + z, 1.0), name="x"))  # noqa: E731
        mean = lax.scan(step, None, split(key, 3))[1].mean()
        ppl.factor(jnp.zeros_like(mean), name="end")
        return mean

    end = lax.cond(z < 0, walk, cloud, start)
    return ppl.sample(key, dist.Normal(end, 0.7), name="y")


def loops_in_branches_density(v: Any, start: Any) -> Any:
    x, z = v["x"], v["z"]
    walk = normal(x[0], start) + normal(x[1], x[0]) + normal(x[2], x[1])
    walk += normal(v["y"], x[2], 0.7) - x[2] ** 2
    cloud = sum(laplace(x[i], start + z) for i in range(3))
    cloud += normal(v["y"], (x[0] + x[1] + x[2]) / 3, 0.7)
    return normal(z, 0.0) + jnp.where(z < 0, walk, cloud)


Y = 0.6
BRANCHES = {"x": real(3), "y": Y}
CASES: dict[str, Row] = {
    "scan-carries-a-pytree": (stochastic_volatility, stochastic_volatility_density, [(0.8, {"sigma": 0.7, "h": real(6), "y": positive(6)})]),
    "scan-over-draws": (scan_over_draws, scan_over_draws_density, [(0.9, {"x": real(4), "y": positive(4)})]),
    "while-between-sites": (while_between, while_between_density, [(0.8, {"a": 2.5, "x": 0.4, "y": Y}), (0.8, {"a": 0.3, "x": -0.4, "y": Y})]),
    "while-in-scan-in-vmap": (while_in_scan, while_in_scan_density, [(real(2), {"x": 3 * real(2, 3)})]),
    "cond-on-carried-latent": (threshold_walk, threshold_walk_density, [(0.4, {"x": real(5), "y": positive(5)})]),
    "cond-in-cond": (cond_in_cond, cond_in_cond_density, [(flag, {"z": z, "x": Y}) for z, flag in ((0.5, 1.0), (0.5, -1.0), (-0.5, 1.0))]),
    "loops-in-branches": (loops_in_branches, loops_in_branches_density, [(0.3, {"z": z, **BRANCHES}) for z in (-0.4, 0.4)]),
}  # fmt: skip


@pytest.mark.quick_rows("while-between-sites", "cond-on-carried-latent")
@pytest.mark.parametrize(("model", "by_hand", "points"), CASES.values(), ids=CASES)
def test_density_gradient_and_draws(model, by_hand, points, x64):
    check_density_gradient_and_draws(model, by_hand, points)


def switched(key: Any, loc: Any) -> Any:
    """The family is a discrete latent."""
    i = ppl.sample(key, dist.Categorical(probs=jnp.array([0.2, 0.3, 0.5])), name="i")
    families = [dist.Normal, dist.Laplace, dist.Cauchy]
    draws = [lambda f=f: ppl.sample(key, f(loc, 2.0), name="x") for f in families]
    return lax.switch(i, draws)


@pytest.mark.parametrize(("i", "family"), [(0, normal), (1, laplace), (2, cauchy)])
def test_switch_on_a_discrete_latent(i, family, x64):
    actual = jax.jit(jax.value_and_grad(ppl.log_density(switched), 1))({"i": i, "x": 0.3}, 0.5)
    by_hand = lambda loc: jnp.log(jnp.array([0.2, 0.3, 0.5])[i]) + family(0.3, loc, 2.0)  # noqa: E731
    assert_close(actual, jax.value_and_grad(by_hand)(jnp.array(0.5)))


@pytest.mark.parametrize("max_elements", [0, 2**24], ids=["step by step", "at once"])
def test_a_long_scan_adds_up_without_drift(max_elements, monkeypatch):
    """Plain addition in float32 is wrong by more than 1 here; the sum itself is rounded by 0.02."""
    monkeypatch.setattr("ppl.harvest.rules.parallel_scan._MAX_ELEMENTS", max_elements)
    num_steps = 200_000
    y = np.random.default_rng(0).normal(size=num_steps).astype(np.float32)

    def model(key):
        def step(scale, key):
            y = ppl.sample(key, dist.Normal(0.0, scale), name="y")
            return 0.5 + 0.3 * jnp.tanh(scale) + 0.2 * jnp.abs(y), None

        lax.scan(step, 1.0, split(key, num_steps))

    scales = [1.0]
    for size in np.abs(y[:-1].astype(float)).tolist():
        scales.append(0.5 + 0.3 * math.tanh(scales[-1]) + 0.2 * size)
    expected = st.norm.logpdf(y.astype(float), 0.0, scales).sum()
    assert abs(jax.jit(ppl.log_density(model))({"y": y}) - expected) < 0.05


def test_a_map_in_batches_has_one_of_a_size():
    def model(key: Any, n: int) -> Any:
        one = lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x")  # noqa: E731
        return lax.map(one, split(key, n), batch_size=2)

    x = jnp.arange(4.0).reshape(2, 2)
    assert_close(ppl.log_density(model)({"x": x}, 4), jax.scipy.stats.norm.logpdf(x).sum())
    with pytest.raises(ValueError, match=r"model 'model': site 'x'.*batch_size that divides its"):
        ppl.simulate(model)(key(0), 5)
