"""Transformations of a model whose steps are a scan, beside `particle_filter`.

Evidence is exact where particles carry all states, and within its standard error elsewhere.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from scipy import stats

import distributions as dist
import inference
import ppl

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")

Y = np.array([0.3, 1.9, -1.0, 0.4], np.float32)
GAPS = np.array([0.3, np.nan, -1.0, 0.4], np.float32)
START = 0.4
SUM = {"x0": ppl.Gaussian(), "x": ppl.Gaussian()}


def walk(key, table=None, *, noise=None, by_param=False):
    """Four steps of an autoregression from a drawn start, with data in each."""
    start, key = random.split(key)
    scale = ppl.param(0.7, name="scale") if by_param else 0.7

    def observe(key, x):
        ppl.sample(key, dist.Normal(x, 0.5), name="y")

    def step(x, inputs):
        x = ppl.sample(inputs[0], dist.Normal(0.9 * x, scale), name="x")
        (observe if noise is None else ppl.scale(observe, noise))(inputs[0], x)
        return x, None

    x0 = ppl.sample(start, dist.Normal(0.0, 1.0), name="x0")
    lax.scan(step, x0, (random.split(key, 4), None if table is None else table["y"]))


def with_factor(key):
    ppl.factor(-1.5, name="more")
    walk(key)


def weighted(key):
    walk(key, noise=2.0)


def with_param(key):
    walk(key, by_param=True)


def of_table(key, table):
    ppl.condition(walk, {"y": table["y"]})(key, table)


def exact(y=Y, start=None, sd=0.5):
    """Log evidence, and the means of the states given all data."""
    powers = np.array([[0.9 ** max(i - j, 0) * (i >= j) for j in range(5)] for i in range(5)])
    maps = powers[1:] * np.array([1.0, 0.7, 0.7, 0.7, 0.7])
    shift = np.zeros(4) if start is None else maps[:, 0] * start
    maps = maps if start is None else maps[:, 1:]
    seen = ~np.isnan(y)
    joint = (maps @ maps.T)[seen][:, seen] + sd**2 * np.eye(seen.sum())
    rest = y[seen] - shift[seen]
    log_evidence = stats.multivariate_normal.logpdf(rest, np.zeros(len(rest)), joint)  # type: ignore
    return log_evidence, shift + (maps @ maps.T)[:, seen] @ np.linalg.solve(joint, rest)


def more(found, extra):
    return found[0] + extra, found[1]


GIVEN = ppl.condition(walk, {"y": Y})
# A power of a normal density is one of a smaller scale, times a number.
OF_POWER = 4 * np.log(np.sqrt(2 * np.pi * 0.125) / (2 * np.pi * 0.25))
LABELS: dict[str, Any] = {"dims": {"x": ["time"]}, "coords": {"time": [*"abcd"]}}
RIGHT = {
    "nest": (ppl.condition(ppl.nest(walk, scope="a"), {"a": {"y": Y}}), exact()),
    "nest of data": (ppl.nest(GIVEN, scope="a"), exact()),
    "jit": (jax.jit(GIVEN), exact()),
    "checkpoint": (ppl.condition(jax.checkpoint(walk), {"y": Y}), exact()),
    "condition": (
        ppl.condition(GIVEN, {"x0": START}),
        more(exact(start=START), stats.norm.logpdf(START)),
    ),
    "intervene": (ppl.intervene(GIVEN, {"x0": START}), exact(start=START)),
    "ignore": (ppl.condition(walk, {"y": ppl.ignore(GAPS)}), exact(GAPS)),
    "label": (ppl.label(GIVEN, **LABELS), exact()),
    "reparam of states": (ppl.reparam(GIVEN, {"x": ppl.NonCentered()}), exact()),
    "reparam of the start": (ppl.reparam(GIVEN, {"x0": ppl.NonCentered()}), exact()),
    "reparam, learned": (ppl.reparam(GIVEN, {"x": ppl.LearnedCentering()}), exact()),
    "scale of data": (ppl.condition(weighted, {"y": Y}), more(exact(sd=0.125**0.5), OF_POWER)),
    "factor": (ppl.condition(with_factor, {"y": Y}), more(exact(), -1.5)),
    "table": (of_table, exact()),
    "with_params": (
        ppl.with_params(ppl.condition(with_param, {"y": Y}), {"scale": jnp.float32(0.7)}),
        exact(),
    ),
}
REFUSED = {
    "impute": (ppl.condition(walk, {"y": ppl.impute(GAPS)}), "'y' is observed in part"),
    "impute of states": (ppl.condition(GIVEN, {"x": ppl.impute(GAPS)}), "'x' is observed in part"),
    "scale": (ppl.scale(GIVEN, 2.0), "'x0' is latent and scaled, by ppl.scale"),
    "block of the start": (ppl.block(GIVEN, ["x0"]), "the value of 'x0', latent, which ppl.block"),
    "block of states": (ppl.block(GIVEN, ["x"]), "the value of 'x', latent, which ppl.block"),
    "block of data": (ppl.block(GIVEN, ["y"]), "no site is observed, so that no step has a weight"),
    "marginalize": (ppl.marginalize(GIVEN, SUM), "'y' is scored together with others"),
    "param": (ppl.condition(with_param, {"y": Y}), "inference.svi alone finds parameters"),
    "from_density": (
        ppl.from_density(lambda x: -(x["x"] ** 2), {"x": jnp.float32(0.0)}),
        "no lax.scan",
    ),
}


def filtered(name, **settings):
    args = ({"y": Y},) if name == "table" else ()
    model = RIGHT[name][0]
    return inference.particle_filter(random.key(0), model, *args, progress=False, **settings)


@pytest.mark.quick_rows("nest", "reparam of states", "scale of data")
@pytest.mark.parametrize("name", RIGHT)
def test_exact_particles_give_the_exact_evidence(name):
    """Means within 5 standard errors of 500 draws: by chance, not so for 1 of 10^5 seeds."""
    log_evidence, means = RIGHT[name][1]
    result = filtered(name, exact=True, num_particles=20, num_draws=500)
    np.testing.assert_allclose(result.log_evidence, log_evidence, rtol=1e-4)
    x = np.asarray(result.draws.get("a", result.draws)["x"])[0]
    assert (abs(x.mean(0) - means) < 5 * x.std(0) / 500**0.5).all()


@pytest.mark.slow
@pytest.mark.parametrize("proposal", [None, "optimal"])
@pytest.mark.parametrize("name", RIGHT)
def test_particles_give_the_evidence_within_its_error(name, proposal):
    """By chance, not so for 1 of 10^5 seeds."""
    result = filtered(name, proposal=proposal)
    assert not result.why_not_optimal
    error = max(result.standard_error, 1e-3)
    assert abs(result.log_evidence - RIGHT[name][1][0]) < 4.5 * error


@pytest.mark.parametrize("name", REFUSED)
def test_the_rest_is_refused_in_words(name):
    model, words = REFUSED[name]
    with pytest.raises((ValueError, NotImplementedError), match=words):
        inference.particle_filter(random.key(0), model)
