"""Results of guides and weights as files and for ArviZ; what a file does not keep."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from distributions import constraints
from inference import (
    BySite,
    FullRank,
    ImportanceResult,
    LaplaceResult,
    LowRank,
    MCMCResult,
    MeanField,
    NeuralSpline,
    PointMass,
    Structured,
    SVGDResult,
    SVIResult,
    importance,
    laplace,
    pathfinder,
    svgd,
    svi,
)


def part(key):
    return ppl.sample(key, dist.HalfNormal(1.0), name="scale")


def model(key, y):
    scale = ppl.nest(part, scope="part")(key)
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
    ppl.factor(dist.Normal(x, scale + 0.5).log_prob(y), name="y")


def guide(key, y):
    loc, log_sd = ppl.param((jnp.zeros(3, float), jnp.zeros(3, float)), name="x")
    ppl.sample(key, dist.Normal(loc, jnp.exp(log_sd)), name="x")
    sd = ppl.param(jnp.asarray(0.5, float), name="sd", support=constraints.positive)
    ppl.nest(lambda key: ppl.sample(key, dist.LogNormal(0.0, sd), name="scale"), scope="part")(key)


Y = np.array([0.3, -1.0, 2.0])
QUICK = {"num_steps": 150, "num_draws": 40}


def fitted(seed=0, **settings):
    return svi(jax.random.key(seed), model, jnp.asarray(Y, float), **QUICK | settings)


MAKE = {
    "mean field": lambda: fitted(),
    "full rank": lambda: fitted(guide=FullRank(0.3)),
    "low rank": lambda: fitted(guide=LowRank(2)),
    "point": lambda: fitted(guide=PointMass()),
    "function": lambda: fitted(guide=guide),
    "by site": lambda: fitted(guide=BySite({("x", "part.scale"): FullRank()}, rest=PointMass())),
    "structured": lambda: fitted(guide=Structured("part.scale")),
    "flow": lambda: fitted(guide=NeuralSpline(num_layers=2, hidden_sizes=(4,), num_bins=3)),
    "pathfinder": lambda: pathfinder(jax.random.key(0), model, jnp.asarray(Y, float), num_draws=40),
    "laplace": lambda: laplace(jax.random.key(0), model, jnp.asarray(Y, float), num_draws=40),
    "importance": lambda: importance(jax.random.key(0), model, jnp.asarray(Y, float), num_draws=40),
}


def saved(result, tmp_path):
    path = tmp_path / "result"
    result.save(path)
    return type(result).load(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAKE)
def test_what_is_loaded_says_the_same(name, tmp_path):
    result = MAKE[name]()
    loaded = saved(result, tmp_path)
    assert repr(loaded) == repr(result)
    assert str(loaded.summary()) == str(result.summary())
    if name == "function":  # it holds the data of the model
        result = dataclasses.replace(result, guide=loaded.guide)
    for x, y in zip(jax.tree.leaves(loaded), jax.tree.leaves(result), strict=True):
        np.testing.assert_array_equal(x, y)
        assert np.asarray(x).dtype == np.asarray(y).dtype
    assert jax.tree.structure(loaded.draws) == jax.tree.structure(result.draws)
    if hasattr(result, "parameters"):
        assert jax.tree.structure(loaded.parameters) == jax.tree.structure(result.parameters)
    data = loaded.to_arviz()
    assert set(data["posterior"].data_vars) == {"x", "part.scale"}
    equal = result._equally_weighted()
    np.testing.assert_array_equal(data["posterior"]["x"], equal.draws["x"])
    np.testing.assert_array_equal(data["sample_stats"]["log_weights"], equal.log_weights)


def test_particles_are_kept(tmp_path):
    result = svgd(jax.random.key(0), model, jnp.asarray(Y, float), num_particles=20, num_steps=30)
    loaded = saved(result, tmp_path)
    assert isinstance(loaded, SVGDResult)
    jax.tree.map(np.testing.assert_array_equal, loaded.draws, result.draws)
    assert str(loaded.summary()) == str(result.summary())
    assert set(loaded.to_arviz()["posterior"].data_vars) == {"x", "part.scale"}


@pytest.mark.quick_rows("float64-mean field")
@pytest.mark.parametrize(
    "settings",
    [{}, {"guide": guide}, {"guide": BySite({"x": FullRank()})}],
    ids=["mean field", "function", "by site"],
)
def test_a_run_goes_on_from_a_file(settings, tmp_path, float_dtype):
    settings = settings | {"optimizer": optax.chain(optax.clip(3.0), optax.adam(1e-2))}
    whole = fitted(num_steps=300, **settings)
    loaded = saved(fitted(**settings), tmp_path)
    rest = fitted(state=loaded.state, **settings)
    jax.tree.map(np.testing.assert_array_equal, rest.parameters, whole.parameters)
    assert rest.draws["x"].dtype == float_dtype


def test_a_guide_of_a_file_gives_weights(tmp_path):
    result = fitted(guide=FullRank())
    weighted = [
        importance(jax.random.key(2), model, jnp.asarray(Y, float), guide=x, num_draws=50)
        for x in (result, saved(result, tmp_path))
    ]
    np.testing.assert_array_equal(weighted[0].log_weights, weighted[1].log_weights)


def test_a_function_is_not_kept(tmp_path):
    loaded = saved(fitted(guide=guide), tmp_path)
    with pytest.raises(ValueError, match="loaded from a file, which keeps no functions: of guide"):
        importance(jax.random.key(2), model, jnp.asarray(Y, float), guide=loaded)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "result.npz"
    fitted().save(path)
    for kind in (LaplaceResult, ImportanceResult, MCMCResult):
        message = f"is not a saved {kind.__name__}: it is a SVIResult"
        with pytest.raises(ValueError, match=re.escape(message)):
            kind.load(path)
    np.savez(path, structure=np.array('{"result": "SVIResult", "fields": {"draws": {"dict": {}}}}'))
    with pytest.raises(ValueError, match=r"is not a saved SVIResult: .*it lacks 'log_density'"):
        SVIResult.load(path)
    code = '{"result": "SVIResult", "fields": {"guide": {"named": "os:system", "items": []}}}'
    np.savez(path, structure=np.array(code))
    with pytest.raises(ValueError, match="names 'os:system', which is not of this library"):
        SVIResult.load(path)


def test_a_guide_of_plain_numbers_is_kept_as_it_is(tmp_path):
    assert saved(fitted(guide=MeanField(0.25)), tmp_path).guide == MeanField(0.25)


def test_a_file_that_is_none_or_something_else(tmp_path):
    with pytest.raises(FileNotFoundError):
        SVIResult.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("draws")
    with pytest.raises(ValueError, match="is not a saved SVIResult: it is no archive of NumPy"):
        SVIResult.load(tmp_path / "text")


def test_a_damaged_file(tmp_path):
    path, result = tmp_path / "result", MAKE["laplace"]()
    result.save(path)
    path.write_bytes(
        path.read_bytes().replace(np.asarray(result.draws["x"]).tobytes()[:4], b"ABCD")
    )
    with pytest.raises(ValueError, match="is not a saved LaplaceResult: Bad CRC-32"):
        LaplaceResult.load(path)
