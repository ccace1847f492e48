"""marginalize over effects nested in effects: exact integrals at a cost linear in their number."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jex

import distributions as dist
import ppl
from ppl.marginal import coupled_elements
from ppl.marginal.block_integral import BlockIntegral
from tests.language.integrals import INTEGRALS

pytestmark = pytest.mark.usefixtures("x64")

NUM_REGIONS = 3
NUM_TOWNS = 7
RNG = np.random.default_rng(0)
Y = RNG.normal(size=20)
TOWN = RNG.integers(NUM_TOWNS, size=20)
REGIONS = RNG.integers(NUM_REGIONS, size=(4, NUM_TOWNS))
SITES = ("mu", "region", "town")


def nested(key, scales, region_of, town_of):
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    region = ppl.sample(key, dist.Normal(mu * jnp.ones(NUM_REGIONS), scales[0]), name="region")
    loc = region.at[region_of].get(mode="clip")
    town = ppl.sample(key, dist.Normal(loc, scales[1] * jnp.ones(NUM_TOWNS)), name="town")
    loc = town.at[town_of].get(mode="clip") + 0.5 * mu
    ppl.sample(key, dist.Normal(loc, 1.0), name="y")


def log_evidence(scales, region_of, town_of, scale_of_mu=3.0):
    """The log density of the data of `nested`, by their covariance matrix."""
    town_of = np.clip(town_of, 0, NUM_TOWNS - 1)
    region_of = np.clip(region_of, 0, NUM_REGIONS - 1)[town_of]
    covariance = scale_of_mu**2 + np.eye(len(Y))
    for scale, of in ((scales[0], region_of), (scales[1], town_of)):
        covariance = covariance + scale**2 * (of[:, None] == of)
    square = Y @ np.linalg.solve(covariance, Y)
    return -(square + np.linalg.slogdet(2 * np.pi * covariance)[1]) / 2


def integrated(model, data, sites=SITES, strategy=None):
    strategy = ppl.Gaussian() if strategy is None else strategy
    return ppl.marginalize(ppl.condition(model, data), dict.fromkeys(sites, strategy))


def test_nested_effects_have_the_exact_integral():
    density = ppl.log_density(integrated(nested, {"y": Y}))
    scales = jnp.array([0.6, 0.8])

    @jax.jit
    def both(scales, regions, town_of):
        of = jax.value_and_grad(lambda s, r: density({}, s, r, town_of))
        return jax.vmap(of, (None, 0))(scales, regions)

    for town_of in (TOWN, TOWN + 3):  # the second with numbers past the last town
        found, slopes = both(scales, REGIONS, town_of)
        exact = [log_evidence(scales, r, town_of) for r in REGIONS]
        np.testing.assert_allclose(found, exact, rtol=1e-12)
        for i in range(2):
            step = np.eye(2)[i] * 1e-5
            ends = [log_evidence(scales + s, REGIONS[0], town_of) for s in (step, -step)]
            np.testing.assert_allclose(slopes[0, i], (ends[0] - ends[1]) / 2e-5, rtol=1e-7)
    assert both._cache_size() == 1  # indices are arguments


def test_parents_may_be_drawn_by_a_site():
    def model(key):
        probs = jnp.ones(NUM_REGIONS) / NUM_REGIONS
        of = ppl.sample(key, dist.iid(dist.Categorical(probs=probs), NUM_TOWNS), name="of")
        region = ppl.sample(key, dist.Normal(jnp.zeros(NUM_REGIONS), 0.6), name="region")
        town = ppl.sample(key, dist.Normal(region[of], 0.8), name="town")
        ppl.sample(key, dist.Normal(town[TOWN], 1.0), name="y")

    density = jax.jit(ppl.log_density(integrated(model, {"y": Y}, SITES[1:])))
    for region_of in REGIONS[:2]:
        exact = log_evidence((0.6, 0.8), region_of, TOWN, 0.0) - NUM_TOWNS * np.log(NUM_REGIONS)
        np.testing.assert_allclose(density({"of": region_of}), exact, rtol=1e-12)


LEVELS = {
    "nested": ("x", "z"),
    "nested_uncentered": ("x", "z"),
    "nested_in_vmap": ("x", "z"),
    "nested_twice": ("x", "z", "w"),
    "nested_slopes": ("x", "wz"),
    "nested_chains": ("x", "z"),
    "nested_residuals": ("x", "w", "z"),
    "nested_but_for_one": ("x",),
    "cells": ("x", "z"),
    "crossed": ("x",),
}


@pytest.fixture
def layouts(monkeypatch):
    """All layouts that integrals ask for."""
    found = []
    layout_of = BlockIntegral._layout  # pyright: ignore

    def note(self, group):
        found.append(layout_of(self, group))
        return found[-1]

    monkeypatch.setattr(BlockIntegral, "_layout", note)
    return found


@pytest.mark.quick_rows("nested_uncentered", "nested_in_vmap", "nested_twice", "nested_but_for_one")
@pytest.mark.parametrize("name", LEVELS)
def test_levels_are_those_that_one_index_links(name, layouts):
    (case,) = (case for case in INTEGRALS if case.name == name)
    jax.eval_shape(ppl.log_density(case.integrated()), case.values())
    found = []
    layout = layouts[-1]
    while layout is not None:
        found.append("".join(sorted(path[-1] for path in layout.inner)))
        layout = getattr(layout, "above", None)
    assert tuple(found) == LEVELS[name]


def arrays_of(jaxpr):
    """The shapes of all values in a program and the programs within."""
    for eqn in jaxpr.eqns:
        yield from (v.aval.shape for v in eqn.outvars if hasattr(v.aval, "shape"))
        for inner in jex.jaxprs_in_params(eqn.params):
            yield from arrays_of(inner)


def counts(key, scales, region_of, size):
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    region = ppl.sample(key, dist.Normal(mu * jnp.ones(size), scales[0]), name="region")
    town = ppl.sample(key, dist.Normal(region[region_of], scales[1]), name="town")
    ppl.sample(key, dist.Poisson(log_rate=town), name="y")


@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()], ids=["gaussian", "laplace"])
def test_no_array_has_children_by_parents(strategy):
    num = 600
    region_of = np.arange(num) % 40

    def normal(key, scales, region_of, size):
        region = ppl.sample(key, dist.Normal(jnp.zeros(size), scales[0]), name="region")
        town = ppl.sample(key, dist.Normal(region[region_of], scales[1]), name="town")
        ppl.sample(key, dist.Normal(town, 1.0), name="y")

    is_exact = isinstance(strategy, ppl.Gaussian)
    model, sites = (normal, SITES[1:]) if is_exact else (counts, SITES)
    density = ppl.log_density(
        integrated(model, {"y": np.ones(num, float if is_exact else int)}, sites, strategy)
    )
    program = jax.make_jaxpr(jax.grad(lambda s, r: density({}, s, r, 40)))(jnp.ones(2), region_of)
    largest = max(np.prod(shape, dtype=int) for shape in arrays_of(program.jaxpr))
    assert num <= largest <= 20 * num < 40 * num


@pytest.mark.slow
def test_laplace_of_nested_effects_is_that_of_a_dense_border(monkeypatch):
    y = np.random.default_rng(1).poisson(2.0, NUM_TOWNS)

    def results():
        summed = integrated(counts, {"y": y}, SITES, ppl.Laplace(tolerance=1e-12))
        density = ppl.log_density(summed)
        of = lambda s: density({}, s, REGIONS[0], NUM_REGIONS)  # noqa: E731
        scales = jnp.array([0.6, 0.8])
        return jax.jit(jax.value_and_grad(of))(scales)

    found = results()
    monkeypatch.setattr(coupled_elements, "find_levels", lambda first, *_: [first])
    for ours, exact in zip(found, results(), strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-8)


@pytest.mark.slow
def test_draws_by_laplace_have_equal_weights_where_it_is_exact():
    summed = integrated(nested, {"y": Y}, SITES, ppl.Laplace(num_proposals=1))
    args = jnp.array([0.6, 0.8]), REGIONS[0], TOWN
    found = jax.jit(ppl.log_density(summed))({}, *args)
    np.testing.assert_allclose(found, log_evidence(*args), rtol=1e-10)
    draws, log_weights = ppl.recover(summed, {}, log_weights=True)(jax.random.key(0), *args)
    assert {name: draws[name].shape for name in draws} == {"mu": (), "region": (3,), "town": (7,)}
    np.testing.assert_allclose(log_weights, 0.0, atol=1e-9)


@pytest.mark.slow
def test_single_precision_holds_for_tiny_nested_scales():
    density = jax.jit(ppl.log_density(integrated(nested, {"y": Y.astype(np.float32)})))
    for scales in itertools.product([1e-6, 1e-4, 1e-2, 1.0, 1e4], repeat=2):
        args = np.int32(REGIONS[0]), np.int32(TOWN)
        with jax.enable_x64(False):
            found = density({}, np.array(scales, np.float32), *args)
        np.testing.assert_allclose(found, log_evidence(scales, *args), rtol=2e-6)
