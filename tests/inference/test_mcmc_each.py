"""Whole runs as one function, and many data sets at once: the same draws, words for mistakes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import HMC, NUTS, Gibbs, MCMCResult, MCMCResults, mcmc, mcmc_each, sampler
from inference.results import mcmc_results
from inference.runtime import compiled_program

KEY = jax.random.key(0)
DATA = jnp.array([[1.0, 2.0, 0.5], [4.0, 5.0, 4.5], [-1.0, 0.0, -0.5]])
SCALE = 2.0


def posterior(key, y, scale):
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        return ppl.sample(key, dist.Normal(mu * jnp.ones(3), scale), name="y")

    return ppl.condition(model, {"y": y})(key)


def exact(y):
    """Mean and standard deviation of the posterior."""
    precision = 1 / 9 + 3 / SCALE**2
    return np.sum(np.asarray(y), -1) / SCALE**2 / precision, precision**-0.5


BRIEF = {"num_warmup": 150, "num_draws": 200, "num_chains": 2}
run = jax.jit(sampler(posterior, **BRIEF))


@pytest.fixture(scope="module")
def fits():
    return mcmc_each(KEY, posterior, DATA, SCALE, in_axes=(0, None), **BRIEF)


def test_arviz_gets_data_sets_as_a_dimension(fits):
    pytest.importorskip("arviz")
    data = fits.to_arviz(coords={"dataset": ["a", "b", "c"]})
    assert data["posterior"]["mu"].dims == ("chain", "draw", "dataset")
    np.testing.assert_array_equal(data["posterior"]["mu"].sel(dataset="b"), fits[1].draws["mu"])
    one = fits[2].to_arviz()["sample_stats"]
    assert set(one.data_vars) == set(data["sample_stats"].data_vars)
    np.testing.assert_array_equal(data["sample_stats"]["lp"][..., 2], one["lp"])
    draws = {"theta": np.zeros((3, 2, 5, 4))}
    more = MCMCResults(draws, {"lp": np.zeros((3, 2, 5))}, None, (), ())
    named = more.to_arviz(dims={"theta": "item"})
    assert named["posterior"]["theta"].dims == ("chain", "draw", "dataset", "item")
    with pytest.raises(TypeError, match="to_arviz: a model adds groups to the result of one data"):
        fits.to_arviz(posterior)


def test_a_fit_is_compared_with_the_data_that_it_is_given(fits):
    """Unless the model is another form of what was sampled, with other latent sites."""
    pytest.importorskip("arviz")
    assert "log_likelihood" in fits[1].to_arviz(posterior, DATA[1], SCALE)
    other = DATA[2], SCALE
    with pytest.raises(ValueError, match=r"to_arviz: .* data are not those of the run"):
        fits[1].to_arviz(posterior, *other)
    with pytest.raises(ValueError, match=r"loo: .* data are not those of the run"):
        inference.loo(fits[1], posterior, *other)
    with pytest.raises(ValueError, match=r"power_scale: .* data are not those of the run"):
        inference.power_scale(fits[1], posterior, *other)
    deterministic = dataclasses.replace(fits[1], sites=(("mu_base", False), ("mu", True)))
    inference.loo(deterministic, posterior, *other)


def check(draws, y):
    """Means within 5 standard errors, for half of the draws effective."""
    mean, sd = exact(y)
    error = np.abs(np.mean(draws, (-2, -1)) - mean)
    assert np.all(error < 5 * sd / np.sqrt(draws[..., 0].size * draws.shape[-1] / 2 / mean.size))


def test_a_whole_run_is_a_function_of_arrays():
    result = run(KEY, DATA[0], SCALE)
    assert isinstance(result, MCMCResult)
    assert result.draws["mu"].shape == (2, 200)
    check(np.asarray(result.draws["mu"]), DATA[0])
    assert "mu" in str(result.summary())


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_draws_are_those_of_mcmc(dtype):
    """Up to rounding, while there are few transitions."""
    with jax.enable_x64(dtype == jnp.float64):
        y, settings = DATA[0].astype(dtype), {"num_warmup": 12, "num_draws": 3, "num_chains": 2}
        ours = jax.jit(sampler(posterior, **settings))(KEY, y, SCALE)
        theirs = mcmc(KEY, posterior, y, SCALE, mass_matrix="diagonal", **settings)
        assert ours.draws["mu"].dtype == dtype
        tolerance = 1e-9 if dtype == jnp.float64 else 1e-3
        np.testing.assert_allclose(ours.draws["mu"], theirs.draws["mu"], tolerance, tolerance)
        np.testing.assert_array_equal(ours.stats["num_steps"], theirs.stats["num_steps"])


def test_runs_under_vmap_and_scan_are_those_of_one_data_set():
    each = [run(KEY, y, SCALE).draws["mu"] for y in DATA]
    mapped = jax.jit(jax.vmap(sampler(posterior, **BRIEF), (None, 0, None)))(KEY, DATA, SCALE)
    np.testing.assert_allclose(mapped.draws["mu"], np.stack(each), rtol=1e-3, atol=1e-3)
    step = lambda carry, y: (carry, run(KEY, y, SCALE).draws["mu"])  # noqa: E731
    scanned = jax.lax.scan(step, 0, DATA)[1]
    np.testing.assert_allclose(scanned, np.stack(each), rtol=1e-3, atol=1e-3)


def test_legacy_keys_give_the_same_draws():
    legacy = run(jax.random.PRNGKey(0), DATA[0], SCALE)
    np.testing.assert_array_equal(legacy.draws["mu"], run(KEY, DATA[0], SCALE).draws["mu"])


def test_every_data_set_has_its_own_posterior(fits):
    assert fits.draws["mu"].shape == (3, 2, 200)
    check(fits.draws["mu"], DATA)
    spread = np.std(fits.draws["mu"], (1, 2))
    np.testing.assert_allclose(spread, exact(DATA[0])[1], rtol=0.3)


def test_each_fit_is_a_result(fits):
    one = fits[1]
    assert isinstance(one, MCMCResult)
    np.testing.assert_array_equal(one.draws["mu"], fits.draws["mu"][1])
    assert len(fits) == len(list(fits)) == 3
    assert len(fits[1:]) == 2
    assert "mu" in str(one.summary())


def test_a_data_set_does_not_depend_on_those_behind_it(fits):
    fewer = mcmc_each(KEY, posterior, DATA[:2], SCALE, in_axes=(0, None), **BRIEF)
    np.testing.assert_allclose(fewer.draws["mu"], fits.draws["mu"][:2], rtol=1e-3, atol=1e-3)


def test_axes_may_stand_anywhere(fits):
    other = mcmc_each(KEY, posterior, DATA.T, SCALE * jnp.ones(3), in_axes=(-1, 0), **BRIEF)
    np.testing.assert_allclose(other.draws["mu"], fits.draws["mu"], rtol=1e-3, atol=1e-3)


def test_other_data_compile_nothing(fits):
    before = compiled_program.compile_program.cache_info().misses
    mcmc_each(KEY, posterior, DATA + 1.0, 3.0, in_axes=(0, None), **BRIEF)
    assert compiled_program.compile_program.cache_info().misses == before


def test_fits_can_be_saved(fits, tmp_path):
    fits.save(tmp_path / "fits.npz")
    again = MCMCResults.load(tmp_path / "fits.npz")
    np.testing.assert_array_equal(again.draws["mu"], fits.draws["mu"])
    assert str(again.summary()) == str(fits.summary())


def nowhere(key, bad):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(jnp.where(bad > 0, jnp.nan, -0.5 * x**2), name="f")


def test_a_chain_without_a_start_has_draws_of_nan():
    fits = mcmc_each(KEY, nowhere, jnp.array([0.0, 1.0]), **BRIEF)
    is_nan = np.isnan(fits.draws["x"])
    assert is_nan[1].all()
    assert not is_nan[0].any()
    assert fits.stats["is_divergent"][1].all()
    words = str(fits.summary())
    assert "1 data set (1) have a chain without a start" in words
    assert fits.summary().is_doubtful.tolist() == [False, True]


def test_draws_that_are_not_finite_make_a_fit_doubtful():
    """In one data set a scalar of one draw, in another chains that are stuck apart."""
    draws = np.random.default_rng(0).normal(size=(4, 4, 500, 2))
    draws[1, 2, 7, 1] = np.nan
    draws[2, 0, 0, 0] = np.inf
    draws[3, :, :, 1] = np.arange(4.0)[:, None]
    stats = {"log_density": np.zeros((4, 4, 500)), "is_divergent": np.zeros((4, 4, 500), bool)}
    found = MCMCResults({"x": draws}, stats, None, (), (("x", False),)).summary()
    assert found.is_doubtful.tolist() == [False, True, True, True]
    assert found.has_non_finite.tolist() == [False, True, True, False]
    assert found.rhat[3] > 1e6
    assert "2 data sets (1, 2) have draws that are not finite" in str(found)
    assert "R-hat above" in str(found)
    numbers = np.array([[np.inf, 1.0], [np.nan, 1.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(mcmc_results._extreme(np.max, numbers), [np.inf, 1, np.nan])


def with_gaps(key, y):
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        return ppl.sample(key, dist.Normal(mu * jnp.ones(3), 0.1), name="y")

    return ppl.condition(model, {"y": y})(key)


def test_missing_entries_of_each_data_set_are_drawn():
    gaps = [
        ppl.impute(jnp.array([1.0, jnp.nan, 1.0])),
        ppl.impute(jnp.array([jnp.nan, -1.0, -1.0])),
    ]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *gaps)
    draws = mcmc_each(KEY, with_gaps, stacked, **BRIEF).draws["y"]
    np.testing.assert_array_equal(draws[0][..., [0, 2]], 1.0)
    np.testing.assert_array_equal(draws[1][..., 1:], -1.0)
    np.testing.assert_allclose(
        [draws[0, ..., 1].mean(), draws[1, ..., 0].mean()], [1, -1], atol=0.1
    )


def test_a_lost_chain_of_integers_is_told():
    """Integers have no NaN: a count below an impossible number of successes."""

    def counted(key, seen):
        def model(key):
            k = ppl.sample(key, dist.Poisson(3.0), name="k")
            ppl.sample(key, dist.Binomial(k, probs=0.5), name="seen")

        return ppl.condition(model, {"seen": seen})(key)

    fits = mcmc_each(KEY, counted, jnp.array([2, -1]), kernel=Gibbs.auto(), **BRIEF)
    whole = fits.summary()
    assert (whole.num_chains, whole.has_no_start.tolist()) == (2, [False, True])
    assert abs(fits.draws["k"][0].mean() - 3.5) < 0.5
    assert "no chain found a start" in str(fits[1].summary())
    assert "a start" not in str(fits[0].summary())


@pytest.mark.parametrize(
    ("in_axes", "error", "words"),
    [
        ((0,), ValueError, "1 entries for 2 arguments"),
        ((None, None), ValueError, "no argument has an axis"),
        ((0, 0), ValueError, r"argument 2 of the model has the shape \(\)"),
        ((2, None), ValueError, r"argument 1 of the model has the shape \(3, 3\)"),
        (("0", None), TypeError, "integers and None, got '0'"),
        (([0, 0], None), ValueError, "structure of the arguments"),
    ],
)
def test_wrong_axes_are_explained(in_axes, error, words):
    with pytest.raises(error, match=words):
        mcmc_each(KEY, posterior, DATA, SCALE, in_axes=in_axes, **BRIEF)


def test_numbers_of_data_sets_must_agree():
    with pytest.raises(ValueError, match="3 of argument 1 of the model, 2 of argument 2"):
        mcmc_each(KEY, posterior, DATA, jnp.ones(2), **BRIEF)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        (
            {"kernel": inference.ChEES()},
            TypeError,
            "ChEES moves all chains together",
        ),
        ({"kernel": NUTS(lambda x: -x)}, ValueError, "log density of its own"),
        ({"kernel": HMC(inverse_mass_matrix=jnp.eye(1))}, ValueError, "diagonal mass matrix alone"),
        ({"num_chains": 0}, ValueError, "num_chains"),
        ({"target_acceptance_rate": 1.5}, ValueError, "target_acceptance_rate"),
        ({"init": "prior"}, TypeError, "no argument 'init'.* mcmc has it, for one data set"),
    ],
)
def test_wrong_settings_are_explained(settings, error, words):
    with pytest.raises(error, match=words):
        mcmc_each(KEY, posterior, DATA, SCALE, in_axes=(0, None), **settings)
    with pytest.raises(error, match=words):
        sampler(posterior, **settings)(KEY, DATA[0], SCALE)


def test_only_some_sites_of_each_fit_are_kept():
    def scaled(key, y):
        mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
        ppl.deterministic(jnp.exp(mu), name="odds")
        return ppl.condition(lambda key: ppl.sample(key, dist.Normal(mu, 1.0), name="y"), {"y": y})(
            key
        )

    settings = {"num_warmup": 20, "num_draws": 30, "num_chains": 2}
    y = jnp.array([0.5, -1.0])
    few = mcmc_each(KEY, scaled, y, keep="odds", **settings)
    alone = jax.eval_shape(sampler(scaled, keep=["odds"], **settings), KEY, y[0])
    assert few.draws.keys() == alone.draws.keys() == {"odds"}
    assert few.sites == alone.sites == (("odds", True, ()),)
    assert few[1].summary()["odds"].mean > 0
    with pytest.raises(ValueError, match="keep: no site is called 'w'; there are mu, odds"):
        mcmc_each(KEY, scaled, y, keep=["w"])
    with pytest.raises(TypeError, match=r"no argument 'transport', .*mcmc has it, for one data"):
        mcmc_each(KEY, scaled, y, transport=True)  # pyright: ignore


def test_an_argument_of_the_model_is_none_of_sampler():
    with pytest.raises(TypeError, match="scale= is an argument of model 'posterior': give it to"):
        sampler(posterior, scale=SCALE)
