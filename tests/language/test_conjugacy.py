"""conditional of conjugate sites: under vmap, in scans, by index, at extremes, in hierarchies."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split

import distributions as dist
import ppl
from ppl.marginal import random_values

COUNTS = np.array([3, 1, 4, 0, 2])
GROUPS = np.array([0, 1, 1, 2, 2])
ROWS = np.array([[1, 2, 3, 1], [0, 0, 7, 0]])


@dataclasses.dataclass(frozen=True)
class Case:
    """A model with a site.

    Attributes:
        model: The model.
        form: The exact parameters of the full conditional; empty if none is known.
        site: The site.
        values: The values of all other latent sites.
        data: The data.
    """

    model: Callable[..., Any]
    form: tuple[Any, ...] = ()
    site: str = "x"
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data: Any = dataclasses.field(default_factory=lambda: {"y": COUNTS})


def mapped(key):
    def row(key):
        x = ppl.sample(key, dist.Gamma(2.0, 1.0), name="x")
        return ppl.sample(key, dist.Poisson(2 * x), name="y")

    return jax.vmap(row)(split(key, 5))


def scanned(key):
    def step(carry, key):
        x = ppl.sample(key, dist.Gamma(2.0, 1.0), name="x")
        return carry, ppl.sample(key, dist.Poisson(2 * x), name="y")

    return lax.scan(step, 0.0, split(key, 5))


def chain(key):
    """A chain of gamma variables, whose elements are not apart."""

    def step(before, key):
        x = ppl.sample(key, dist.Gamma(2.0, 2 / before), name="x")
        return x, ppl.sample(key, dist.Poisson(x), name="y")

    return lax.scan(step, 1.0, split(key, 5))


def indexed(key):
    x = ppl.sample(key, dist.iid(dist.Gamma(2.0, 1.0), (3,)), name="x")
    z = ppl.sample(key, dist.Categorical(logits=np.zeros((5, 3))), name="z")
    ppl.sample(key, dist.Poisson(x[z]), name="y")


def simplexes(key):
    def row(key):
        x = ppl.sample(key, dist.Dirichlet(np.ones(4)), name="x")
        return ppl.sample(key, dist.Multinomial(7, probs=x), name="y")

    return jax.vmap(row)(split(key, 2))


def scaled(key):
    x = ppl.sample(key, dist.Gamma(2.0, 1.0), name="x")
    ppl.scale(lambda k: ppl.sample(k, dist.Poisson(x * np.ones(5)), name="y"), 3.0)(key)


def uniform(key):
    x = ppl.sample(key, dist.Uniform(0.0, 1.0), name="x")
    ppl.sample(key, dist.Binomial(10, probs=x * np.ones(5)), name="y")


def narrow(key):
    x = ppl.sample(key, dist.Uniform(0.1, 1.0), name="x")
    ppl.sample(key, dist.Binomial(10, probs=x * np.ones(5)), name="y")


def large_rate(key):
    x = ppl.sample(key, dist.Gamma(2.0, 1e6), name="x")
    ppl.sample(key, dist.Poisson(1e6 * x * np.ones(5)), name="y")


def tiny_variance(key):
    x = ppl.sample(key, dist.InverseGamma(2.0, 1e-8), name="x")
    ppl.sample(key, dist.Normal(np.zeros(5), jnp.sqrt(x)), name="y")


def rare(key):
    x = ppl.sample(key, dist.Beta(1.0, 1.0), name="x")
    ppl.sample(key, dist.Binomial(1_000_000, probs=x), name="y")


def concentrated(key):
    x = ppl.sample(key, dist.Gamma(1e5, 1e-3), name="x")
    ppl.sample(key, dist.Gamma(3.0, x * np.ones(4)), name="y")


def many(key):
    x = ppl.sample(key, dist.InverseGamma(2.0, 1.0), name="x")
    ppl.sample(key, dist.Normal(np.zeros(50_000), jnp.sqrt(x)), name="y")


def single_precision(key):
    """A carry in single precision, which double precision would change."""
    x = ppl.sample(key, dist.Gamma(np.float32(2), np.float32(1)), name="x")

    def step(carry, key):
        return carry + jnp.float32(0) * x, ppl.sample(key, dist.Poisson(x + carry), name="y")

    return lax.scan(step, jnp.zeros((), jnp.float32), split(key, 5))


def horseshoe(key):
    scale = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="scale")
    x = ppl.sample(key, dist.InverseGamma(0.5, 1 / scale), name="x")
    local = ppl.sample(key, dist.InverseGamma(0.5, np.ones(2)), name="local")
    ppl.sample(key, dist.Normal(np.zeros(2), jnp.sqrt(local * x)), name="y")


def chosen(key):
    """Data that are conjugate in one branch alone."""
    x = ppl.sample(key, dist.Gamma(2.0, 1.0), name="x")
    z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
    ppl.sample(key, dist.Poisson(jnp.where(z, x, 1 + x)), name="y")


def vague_effects(key):
    """Draws from the prior of the precision are nearly 0, where effects drown the logits."""
    x = ppl.sample(key, dist.Normal(0.0, 1e3), name="x")
    precision = ppl.sample(key, dist.Gamma(1e-3, 1e-3), name="precision")
    effects = ppl.sample(key, dist.Normal(np.zeros(5), precision**-0.5), name="effects")
    ppl.sample(key, dist.Binomial(10, logits=x + effects), name="y")


SUMS = np.bincount(GROUPS, COUNTS)
MANY = np.random.default_rng(0).normal(size=50_000).astype(np.float32)
CASES = [
    Case(mapped, (2 + COUNTS, 3)),
    Case(scanned, (2 + COUNTS, 3)),
    Case(chain),
    Case(indexed, (2 + SUMS, 1 + np.bincount(GROUPS)), values={"z": GROUPS}),
    Case(simplexes, (1 + ROWS,), data={"y": ROWS}),
    Case(scaled, (32, 16)),
    Case(uniform, (11, 41)),
    Case(narrow),
    Case(large_rate, (12, 6e6)),
    Case(tiny_variance, (4.5, 1e-8 + 1.5e-7), data={"y": 1e-4 * np.array([1.0, 2, 3, -4, 0])}),
    Case(rare, (3, 999_999), data={"y": 2}),
    Case(concentrated, (1e5 + 12, 1e-3 + 4e-8), data={"y": np.full(4, 1e-8)}),
    Case(many, (25_002, 1 + np.sum(MANY.astype(float) ** 2) / 2), data={"y": MANY}),
    Case(single_precision, (12, 6)),
    Case(
        horseshoe,
        (1.5, 2 + (0.3**2 / 2 + 1 / 0.5) / 2),
        values={"scale": 0.5, "local": np.array([2.0, 0.5])},
        data={"y": np.array([0.3, 1.0])},
    ),
    Case(chosen, values={"z": 1}, data={"y": 3}),
    Case(vague_effects, values={"precision": 2.0, "effects": np.ones(5)}),
]


@pytest.mark.quick_rows("chain", "single_precision", "vague_effects")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.model.__name__)
def test_full_conditionals_have_their_exact_parameters(case):
    """In single precision, under jit."""

    @jax.jit
    def look(values, data):
        return ppl.conditional(ppl.condition(case.model, data), case.site)(values)

    found = jax.tree.leaves(look(case.values, case.data))
    for leaf, exact in zip(found, case.form, strict=True):
        np.testing.assert_allclose(leaf, exact, rtol=2e-6)


def test_parameters_have_their_derivatives(x64):
    """Of the scale of a variance, in the values of another site."""
    values = {"scale": 0.5, "local": np.array([2.0, 0.5])}
    data = np.array([0.3, 1.0])
    found = ppl.conditional(ppl.condition(horseshoe, {"y": data}), "x")
    scale_at = lambda local: found({**values, "local": local}).scale  # noqa: E731
    exact = -(data**2) / values["local"] ** 2 / 2
    for derivative in (jax.jacfwd, jax.jacrev):
        slope = jax.jit(derivative(scale_at))(values["local"])
        np.testing.assert_allclose(slope, exact, rtol=1e-10)


def test_sites_of_a_model_share_their_draws(monkeypatch):
    """Samplers, which take longest to compile, are compiled once a model and not once a site."""
    drawn = []
    draw = random_values.Simulation.draw

    def counted(simulation):
        drawn.append(simulation)
        return draw(simulation)

    def model(key):
        p = ppl.sample(key, dist.Beta(3.5, 1.0), name="p")
        rate = ppl.sample(key, dist.Gamma(2.5, 1.0), name="rate")
        ppl.sample(key, dist.Bernoulli(probs=p), name="success")
        return ppl.sample(key, dist.Poisson(rate), name="y")

    monkeypatch.setattr(random_values.Simulation, "draw", counted)
    posterior = ppl.condition(model, {"success": 1, "y": 3})
    p = ppl.conditional(posterior, "p")({"rate": 1.0})
    rate = ppl.conditional(posterior, "rate")({"p": 0.5})
    assert [type(d).__name__ for d in (p, rate)] == ["Beta", "Gamma"]
    assert len(drawn) == 1
