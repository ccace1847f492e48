"""sample_guide: more draws of a fitted guide."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl

KEY = jax.random.key(0)
OTHER = jax.random.key(1)
Y = jnp.array([1.0, 2.5, -0.5])


def model(key):
    mu = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="mu")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    ppl.deterministic(2 * mu, name="twice")
    return ppl.sample(key, dist.Normal(mu, 0.5 + scale), name="y")


NAMED = ppl.label(model, {"mu": "team", "twice": "team"}, {"team": ["a", "b", "c"]})
POSTERIOR = ppl.condition(NAMED, {"y": Y})


def guide(key):
    loc = ppl.param(jnp.zeros(3), name="loc")
    ppl.sample(key, dist.Normal(loc, 0.5), name="mu")
    ppl.sample(key, dist.LogNormal(ppl.param(-1.0, name="of_scale"), 0.5), name="scale")


FITS = {
    "laplace": functools.partial(inference.laplace, num_draws=40),
    "pathfinder": functools.partial(inference.pathfinder, num_paths=3, num_draws=40),
    "svi": functools.partial(inference.svi, num_steps=100, num_draws=40),
    "function": functools.partial(inference.svi, guide=guide, num_steps=100, num_draws=40),
}


@functools.cache
def fit(name):
    return FITS[name](KEY, POSTERIOR)


def assert_equal(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("name", FITS)
def test_the_draws_of_a_fit_come_again_by_its_key(name, tmp_path):
    """Also those of a result from a file, whose fit is another process's."""
    result = fit(name)
    result.save(tmp_path / "fit.npz")
    given = {"guide": guide} if name == "function" else {}
    loaded = type(result).load(tmp_path / "fit.npz", **given)
    again = inference.sample_guide(KEY, loaded, POSTERIOR, num_draws=40)
    assert type(again) is type(result)
    for field in ("draws", "log_density", "log_weights", "elbo", "pareto_k"):
        assert_equal(getattr(again, field), getattr(result, field))


@pytest.mark.parametrize("name", FITS)
def test_more_draws_have_all_sites_and_names(name):
    result = fit(name)
    more = inference.sample_guide(OTHER, result, POSTERIOR, num_draws=700)
    assert more.draws["mu"].shape == (1, 700, 3)
    np.testing.assert_allclose(more.draws["twice"], 2 * more.draws["mu"], atol=1e-5)
    assert more.log_weights.shape == (1, 700)
    assert more.summary().names == result.summary().names
    # The same distribution: means of 40 and of 700 draws.
    few = np.asarray(result.draws["mu"][0])
    many = np.asarray(more.draws["mu"][0])
    error = np.sqrt(few.var(0) / 40 + many.var(0) / 700)
    assert np.all(np.abs(few.mean(0) - many.mean(0)) < 4 * error)
    assert not np.isin(many, few).any()


def test_parameters_and_coordinates_of_a_fit_are_kept():
    def with_parameters(key):
        spread = ppl.param(1.0, name="spread", support=dist.constraints.positive)
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        theta = ppl.sample(key, dist.Normal(jnp.zeros(3), tau), name="theta")
        return ppl.sample(key, dist.Normal(theta, spread), name="y")

    learned = ppl.reparam(with_parameters, {"theta": ppl.LearnedCentering()})
    posterior = ppl.condition(learned, {"y": Y})
    result = inference.svi(KEY, posterior, num_steps=100, num_draws=40)
    assert result.centering
    again = inference.sample_guide(KEY, result, posterior, num_draws=40)
    compare = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(compare, again.draws, result.draws)
    np.testing.assert_allclose(again.log_density, result.log_density, rtol=1e-5)


def test_other_data_and_results_without_a_guide_are_refused(tmp_path):
    result = fit("laplace")
    for name in ("laplace", "function"):
        with pytest.raises(ValueError, match="sample_guide: the model, its arguments or its data"):
            inference.sample_guide(KEY, fit(name), ppl.condition(NAMED, {"y": Y + 1.0}))
    with pytest.raises(TypeError, match="of a fit with a guide"):
        inference.sample_guide(KEY, result.draws, POSTERIOR)  # pyright: ignore[reportArgumentType]
    fit("function").save(tmp_path / "fit.npz")
    loaded = inference.SVIResult.load(tmp_path / "fit.npz")
    with pytest.raises(TypeError, match="of a file, which keeps no code: give it when loading"):
        inference.sample_guide(KEY, loaded, POSTERIOR)
