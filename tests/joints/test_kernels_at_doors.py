"""Kernels that need no gradient, or move discrete sites, at each door of a run.

Draws are right by exact means, and the same however a run is stopped, spread or kept.
"""

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

import distributions as dist
import inference
import ppl
from inference import (
    PMMH,
    CountSlice,
    DifferentialEvolution,
    EllipticalSlice,
    Gibbs,
    GibbsWithGradients,
    ParallelTempering,
    ParticleGibbs,
    RandomWalk,
    Slice,
)

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")

Y = np.array([-0.5, 2.4, 0.9])
X = 1.0
Z = 5.0  # standard errors: 6e-7 of two-sided tests fail by chance
SHORT = {"num_warmup": 100, "progress": False}


def classes(key, y):
    """A mean, and a class of each datum."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.3)), name="z")
    ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")


def counts(key, y):
    """A mean, and a count without a largest value of each datum."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    n = ppl.sample(key, dist.Poisson(jnp.full(3, 1.5)), name="z")
    ppl.sample(key, dist.Normal(mu + n, 1.0), name="y")


def normal(key, y):
    """Two means that depend on each other."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    b = ppl.sample(key, dist.Normal(0.5 * mu, 1.0), name="b")
    ppl.sample(key, dist.Normal(mu + b, 1.0), name="x")
    ppl.sample(key, dist.Normal(jnp.full(3, mu), 1.0), name="y")


def hidden(key, y):
    """A chance to stay, and two states in three steps of a scan."""
    stay = ppl.sample(key, dist.Beta(3.0, 2.0), name="mu")

    def step(z, key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, stay, 1 - stay)), name="z")
        ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")
        return z, None

    jax.lax.scan(step, jnp.int32(1), random.split(key, 3))


def exact_of_hidden():
    """Means of the chance, on a grid, and of the states, over all paths; and the log evidence."""
    stay = np.linspace(0, 1, 402)[1:-1]
    paths = np.array(list(itertools.product((0, 1), repeat=3)))
    num_stays = (np.column_stack([np.ones(8), paths[:, :-1]]) == paths).sum(1)
    log_weight = stats.norm.logpdf(Y, 2 * paths, 1).sum(1) + stats.beta.logpdf(stay, 3, 2)[:, None]
    log_weight += num_stays * np.log(stay)[:, None] + (3 - num_stays) * np.log(1 - stay)[:, None]
    weight = np.exp(log_weight)
    total = weight.sum()
    means = {"mu": weight.sum(1) @ stay / total, "z": weight.sum(0) @ paths / total}
    return means, np.log(total * (stay[1] - stay[0]))


def means_of_states(values, log_prior, step):
    """Means of mu, and of a state of each datum, given y ~ Normal(mu + step * state, 1)."""
    states = np.array(list(itertools.product(values, repeat=3)))
    rest = Y - step * states
    covariance = np.eye(3) + 1.0
    log_weight = stats.multivariate_normal.logpdf(rest, np.zeros(3), covariance)
    log_weight += log_prior(states).sum(1)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return {"mu": weight @ rest.sum(1) / 4, "z": weight @ states}


def means_of_normal():
    precision = np.array([[1.0 + 0.25 + 1.0 + 3.0, -0.5 + 1.0], [-0.5 + 1.0, 1.0 + 1.0]])
    mu, b = np.linalg.solve(precision, [X + Y.sum(), X])
    return {"mu": mu, "b": b}


MEANS, LOG_EVIDENCE = exact_of_hidden()
EXACT = {
    classes: means_of_states((0, 1), lambda z: np.log(np.where(z == 1, 0.3, 0.7)), 2.0),
    counts: means_of_states(range(12), lambda n: stats.poisson.logpmf(n, 1.5), 1.0),
    normal: means_of_normal(),
    hidden: MEANS,
}


@dataclasses.dataclass(frozen=True)
class Posterior:
    """A model of data that are its argument."""

    model: Any

    def __call__(self, key, y):
        data = {"y": y} | ({"x": jnp.asarray(X)} if self.model is normal else {})
        ppl.condition(self.model, data)(key, y)


KERNELS = {
    "Gibbs.auto, classes": (classes, Gibbs.auto()),
    "GibbsWithGradients": (classes, Gibbs({"z": GibbsWithGradients(gradient=False)})),
    "CountSlice": (counts, Gibbs({"z": CountSlice()})),
    "Gibbs.auto, counts": (counts, Gibbs.auto()),
    "Gibbs.auto, normal": (normal, Gibbs.auto()),
    "EllipticalSlice": (normal, EllipticalSlice()),
    "Slice": (normal, Slice()),
    "RandomWalk": (normal, RandomWalk()),
    "DifferentialEvolution": (normal, DifferentialEvolution()),
    "ParallelTempering": (normal, ParallelTempering(kernel=Slice(), num_temperatures=4)),
    "PMMH": (hidden, PMMH(16)),
    "ParticleGibbs": (hidden, Gibbs({"z": ParticleGibbs(8)}, rest=Slice())),
}
OF_MANY = ["DifferentialEvolution"]  # one program moves all chains, which round together


def run(name, num_draws=400, **settings):
    model, kernel = KERNELS[name]
    num_chains = 12 if name in OF_MANY else 2
    return inference.mcmc(
        random.key(0),
        Posterior(model),
        jnp.asarray(Y),
        kernel=kernel,
        num_draws=num_draws,
        num_chains=num_chains,
        **SHORT,
        **settings,
    )


@functools.cache
def whole(name):
    return run(name)


def same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_draws_have_the_exact_means(name):
    for site, mean in EXACT[KERNELS[name][0]].items():
        draws = np.asarray(whole(name).draws[site], float)
        error = inference.mcse_mean(draws)
        assert np.all(np.abs(draws.mean((0, 1)) - mean) < Z * error), site


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_a_run_goes_on_from_a_folder_a_result_and_a_file(name, tmp_path):
    model, kernel = KERNELS[name]
    parts = tmp_path / "run", run(name, 150, checkpoint=tmp_path / "run"), run(name, 150)
    parts[2].save(tmp_path / "result")
    loaded = inference.MCMCResult.load(tmp_path / "result")
    for part in (parts[0], parts[2], loaded):
        more = inference.resume(
            part, Posterior(model), jnp.asarray(Y), kernel=kernel, num_draws=400, progress=False
        )
        same(more.draws, whole(name).draws)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KERNELS if name not in OF_MANY])
def test_a_mesh_changes_no_draw(name):
    same(run(name, mesh=jax.make_mesh((2,), ("chain",))).draws, whole(name).draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["CountSlice", "EllipticalSlice", "ParallelTempering", "PMMH", "ParticleGibbs"]
)
def test_sites_that_are_kept_have_the_same_draws(name):
    kept = run(name, keep="mu")
    assert list(kept.draws) == ["mu"]
    same(kept.draws["mu"], whole(name).draws["mu"])
    assert run(name, until=inference.Until(ess=20), num_draws=4000).facts.ended


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["Gibbs.auto, classes", "CountSlice", "ParallelTempering", "PMMH", "ParticleGibbs"]
)
def test_other_doors_take_the_draws(name):
    model, kernel = KERNELS[name]
    result = whole(name)
    assert np.isfinite(inference.loo(result, Posterior(model), jnp.asarray(Y)).elpd)
    new = ppl.predict(model, result.draws)(random.key(1), jnp.asarray(Y))
    assert new["y"].shape == (2, 400, 3)
    report = inference.calibrate(
        random.key(2),
        model,
        jnp.asarray(Y),
        observed=["y", "x"] if model is normal else ["y"],
        kernel=kernel,
        num_simulations=3,
        num_draws=50,
        **SHORT,
    )
    assert report.ranks.shape[0] == 3


def data_sets(model):
    """Two data sets with one posterior of the mean."""
    return jnp.stack([Y, Y if model is hidden else Y[::-1]])


def each(model, kernel):
    settings = {**SHORT, "num_draws": 600, "num_chains": 2}
    data = data_sets(model)
    return inference.mcmc_each(random.key(0), Posterior(model), data, kernel=kernel, **settings)


def traced(model, kernel):
    settings = {"num_warmup": 100, "num_draws": 600, "num_chains": 2}
    sample = jax.vmap(inference.sampler(Posterior(model), kernel=kernel, **settings), (None, 0))
    return jax.jit(sample)(random.key(0), data_sets(model))


READS_MODEL = ["Gibbs.auto, classes", "ParticleGibbs"]
ONE_PROGRAM = [
    *((name, each) for name in ("RandomWalk", "Slice", "Gibbs.auto, counts")),
    *((name, door) for name in ("ParallelTempering", *READS_MODEL) for door in (each, traced)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "door"), ONE_PROGRAM)
def test_one_program_for_many_data_sets(name, door):
    model, kernel = KERNELS[name]
    result = door(model, kernel)
    draws = np.asarray(result.draws["mu"], float)
    assert draws.shape == (2, 2, 600)
    error = np.array([inference.mcse_mean(x) for x in draws])
    assert np.all(np.abs(draws.mean((1, 2)) - EXACT[model]["mu"]) < Z * error)
    if "z" in EXACT[model]:
        states = np.asarray(result.draws["z"][0], float)
        assert result.draws["z"].dtype == jnp.int32
        gap = states.mean((0, 1)) - EXACT[model]["z"]
        assert np.all(np.abs(gap) < Z * np.array(inference.mcse_mean(states)))


@pytest.mark.parametrize("name", ["DifferentialEvolution", "EllipticalSlice"])
@pytest.mark.parametrize("door", [each, traced])
def test_other_kernels_are_refused_within_a_program(name, door):
    with pytest.raises(TypeError, match="it runs under mcmc, in a call for each"):
        door(*KERNELS[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [("Gibbs.auto, normal", "Gibbs moves values of blocks"), ("EllipticalSlice", "is not normal")],
)
def test_kernels_of_values_are_not_transported(name, words):
    fit = inference.laplace(random.key(0), Posterior(normal), jnp.asarray(Y))
    with pytest.raises((ValueError, TypeError), match=words):
        run(name, init=fit, transport=True)


IN_SCOPE = {"PMMH": PMMH(16), "ParticleGibbs": Gibbs({"s.z": ParticleGibbs(8)}, rest=Slice())}


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SCOPE)
def test_particle_kernels_within_a_scope_and_with_labels(name):
    model = ppl.nest(Posterior(hidden), scope="s")
    settings = {**SHORT, "num_draws": 400, "num_chains": 2}
    y = jnp.asarray(Y)
    result = inference.mcmc(random.key(1), model, y, kernel=IN_SCOPE[name], **settings)
    for site, mean in EXACT[hidden].items():
        draws = np.asarray(result.draws["s"][site], float)
        assert np.all(np.abs(draws.mean((0, 1)) - mean) < Z * inference.mcse_mean(draws)), site
    model = ppl.label(Posterior(hidden), dims={"z": ["time"]}, coords={"time": [*"abc"]})
    found = inference.mcmc(random.key(0), model, y, kernel=KERNELS[name][1], **settings)
    same(found.draws, whole(name).draws)
    assert found.summary().names == ("mu", "z[a]", "z[b]", "z[c]")
    assert found.to_arviz()["posterior"]["z"].coords["time"].values.tolist() == [*"abc"]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SCOPE)
def test_evidence_of_particle_kernels_is_that_of_a_sum(name):
    """Words say how: the states are summed, which is exact."""
    y = jnp.asarray(Y)
    with pytest.raises(
        ValueError, match=r"values of 'z' are discrete.*marginalize\(model, \['z'\]"
    ):
        inference.evidence(whole(name), Posterior(hidden), y)
    found = inference.evidence(whole(name), ppl.marginalize(Posterior(hidden), ["z"]), y)
    assert abs(found.log_evidence - LOG_EVIDENCE) < Z * found.standard_error
