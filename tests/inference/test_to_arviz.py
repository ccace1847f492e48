"""ArviZ's container with all that a model adds to draws."""

import functools

import arviz
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from scipy import stats

import distributions as dist
import inference
import ppl
from inference import ImportanceResult, MCMCResult, OptimizeResult
from inference.runtime.compiled_program import compile_program
from ppl.transforms.unobserve import unobserve

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")
KEY = jax.random.key(0)
IS_OLD = arviz.__version__.startswith("0.")
GAPPY = np.array([1.0, np.nan, 3.0, np.nan])
X = np.arange(3.0)
LABELS = {"county": ["a", "b", "c"], "item": list("wxyz")}


def county(key, level, x, length):
    slope = ppl.sample(key, dist.Normal(level, 2.0), name="slope")

    def step(z, key):
        z = ppl.sample(key, dist.Normal(0.5 * z, 1.0), name="z")
        return z, ppl.sample(key, dist.Normal(slope * x + z, 0.7), name="y")

    return jax.lax.scan(step, 0.0, jax.random.split(key, length))[1]


def model(key, x, length):
    """Counties by `vmap`, years by a scan, gaps of both kinds, and a vector in a scope."""
    level = ppl.sample(key, dist.Normal(1.0, 1.5), name="level")
    keys = jax.random.split(key, len(x))
    by_county = functools.partial(county, level=level, length=length)
    jax.vmap(lambda key, x: by_county(key, x=x), axis_name="county")(keys, x)
    ppl.deterministic(level**2, name="square")
    ppl.sample(key, dist.Normal(jnp.full(4, level), 1.0), name="gappy")
    ppl.sample(key, dist.Poisson(jnp.full(2, jnp.exp(level))), name="count")

    def part(key):
        return ppl.sample(
            key, dist.MultivariateNormal(jnp.full(2, level), scale_diag=jnp.ones(2)), name="v"
        )

    return ppl.nest(part, scope="part")(key)


Y = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
POSTERIOR = ppl.condition(
    model,
    {
        "y": Y,
        "gappy": ppl.impute(GAPPY),
        "count": ppl.ignore(np.array([1, 5]), np.array([True, False])),
        "part": {"v": np.array([0.5, 1.0])},
    },
)


@pytest.fixture(scope="module")
def result():
    """Draws that need no chains: from the prior, with the data kept."""
    keys = jax.random.split(KEY, 40)
    sites = jax.vmap(lambda key: ppl.simulate(POSTERIOR)(key, X, 5))(keys)
    names = ("level", "slope", "z", "gappy", "square")
    draws = {name: np.asarray(sites[name]).reshape(2, 20, *sites[name].shape[1:]) for name in names}
    return MCMCResult(draws, {"energy": np.ones((2, 20))}, None)


@pytest.fixture(scope="module")
def data(result):
    return result.to_arviz(POSTERIOR, X, 5, key=KEY, coords=LABELS, dims={"gappy": ["item"]})


def shapes(data, group):
    return {name: dict(x.sizes) for name, x in data[group].data_vars.items()}


@pytest.mark.parametrize("bind", [functools.partial, jax.tree_util.Partial])
def test_bound_arguments_are_constant_data(bind):
    def line(key, x, noise, size=3):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        ppl.sample(key, dist.Normal(slope * x, noise), name="y")

    x = np.arange(3.0)
    model = ppl.condition(bind(bind(line, noise=np.ones(3)), size=3), {"y": x})
    result = inference.MCMCResult({"slope": np.zeros((2, 4))}, {}, None)
    data = result.to_arviz(model, x)["constant_data"]
    assert {*data.data_vars} == {"noise", "x"}
    np.testing.assert_array_equal(data["noise"], np.ones(3))


def test_groups_have_the_sites_that_belong_there(data):
    data_sites = {"y", "gappy", "count", "part.v"}
    expected = {
        "posterior": {"level", "slope", "z", "gappy", "square"},
        "log_prior": {"level", "slope", "z", "gappy"},
        "log_likelihood": data_sites,
        "prior": {"level", "slope", "z", "square"},
        "prior_predictive": data_sites,
        "posterior_predictive": data_sites,
        "observed_data": data_sites,
        "constant_data": {"x"},
    }
    assert {g: set(data[g].data_vars) for g in expected} == expected
    assert isinstance(data, arviz.InferenceData if IS_OLD else xarray.DataTree)


def test_dimensions_are_named_by_vmap_and_scan(data):
    of_draws = {"chain": 2, "draw": 20}
    series = {"county": 3, "time": 5}
    assert shapes(data, "posterior") == {
        "level": of_draws,
        "slope": {**of_draws, "county": 3},
        "z": {**of_draws, **series},
        "gappy": {**of_draws, "item": 4},
        "square": of_draws,
    }
    assert shapes(data, "observed_data")["y"] == series
    assert shapes(data, "prior_predictive")["y"] == {"chain": 1, "draw": 500, **series}
    assert shapes(data, "posterior_predictive")["part.v"] == {**of_draws, "part.v_dim_0": 2}
    assert shapes(data, "log_likelihood")["part.v"] == of_draws  # a joint event counts as one
    assert list(data["posterior"]["slope"].coords["county"].values) == ["a", "b", "c"]


def test_missing_entries_are_nan(data):
    np.testing.assert_array_equal(data["observed_data"]["gappy"], GAPPY)
    np.testing.assert_array_equal(data["observed_data"]["count"], [np.nan, 5])
    np.testing.assert_array_equal(data["observed_data"]["y"], Y)
    np.testing.assert_array_equal(data["constant_data"]["x"], X)


def test_log_probabilities_are_those_of_scipy(data):
    post, lik, prior = data["posterior"], data["log_likelihood"], data["log_prior"]
    level, slope = post["level"].values, post["slope"].values
    means = (slope * X)[..., None] + post["z"].values
    np.testing.assert_allclose(lik["y"], stats.norm.logpdf(Y, means, 0.7), rtol=2e-4)
    np.testing.assert_allclose(prior["level"], stats.norm.logpdf(level, 1, 1.5), rtol=2e-4)
    counts = stats.poisson.logpmf(5, np.exp(level))
    np.testing.assert_allclose(lik["count"], counts[..., None], rtol=2e-4)
    entries = stats.norm.logpdf(post["gappy"].values, level[..., None], 1.0)
    np.testing.assert_allclose(lik["gappy"], entries[..., ::2], rtol=2e-4)
    np.testing.assert_allclose(prior["gappy"], entries[..., 1::2], rtol=2e-4)


def test_missing_entries_have_no_log_probability(data):
    of_draws = {"chain": 2, "draw": 20}
    assert shapes(data, "log_likelihood")["gappy"] == {**of_draws, "gappy_entry": 2}
    assert list(data["log_likelihood"]["gappy_entry"].values) == ["gappy[0]", "gappy[2]"]
    assert list(data["log_prior"]["gappy_entry"].values) == ["gappy[1]", "gappy[3]"]
    assert list(data["log_likelihood"]["count_entry"].values) == ["count[1]"]


def grid(key):
    """A site of two axes, and one of vectors."""
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    ppl.sample(key, dist.Normal(mu * jnp.ones((4, 5)), 1.0), name="y")
    rows = dist.MultivariateNormal(mu * jnp.ones((6, 2)), scale_diag=jnp.ones(2))
    ppl.sample(key, rows, name="v")


@pytest.mark.parametrize("site", ["y", "v"])
@pytest.mark.filterwarnings("ignore")
def test_loo_of_arviz_counts_what_is_there(site):
    rng = np.random.default_rng(3)
    y, v = rng.normal(size=(4, 5)), rng.normal(size=(6, 2))
    y[1, 2] = y[3, 4] = v[2] = np.nan
    posterior = ppl.condition(grid, {"y": ppl.ignore(y), "v": ppl.ignore(v)})
    result = MCMCResult({"mu": rng.normal(size=(4, 500)) / 4}, {}, None)
    data = result.to_arviz(posterior)
    found = arviz.loo(data, var_name=site, pointwise=True)
    ours = inference.loo(result, posterior, site=site)
    elpd, terms = (found["elpd_loo"], found["loo_i"]) if IS_OLD else (found.elpd, found.elpd_i)
    np.testing.assert_allclose(elpd, ours.elpd, rtol=1e-4)
    np.testing.assert_allclose(terms, ours.pointwise, rtol=1e-4)
    assert len(ours.names) == {"y": 18, "v": 5}[site]


def test_log_probabilities_sum_to_the_log_density(data, result):
    total = sum(
        x.values.reshape(2, 20, -1).sum(-1)
        for group in ("log_prior", "log_likelihood")
        for x in data[group].data_vars.values()
    )
    flat = jax.tree.map(lambda x: x.reshape(40, *x.shape[2:]), result.draws)
    density = jax.jit(jax.vmap(lambda draw: ppl.log_density(POSTERIOR)(draw, X, 5)))(flat)
    np.testing.assert_allclose(total.ravel(), density, rtol=1e-5)


def test_predictions_are_new_data_for_each_draw(data):
    """Standardized, they have mean 0 and variance 1, within 4 standard errors."""
    post, drawn = data["posterior"], data["posterior_predictive"]
    means = (post["slope"].values * X)[..., None] + post["z"].values
    scores = (drawn["y"].values - means) / 0.7
    assert abs(scores.mean()) < 4 / np.sqrt(scores.size)
    assert abs(scores.std() - 1) < 4 / np.sqrt(2 * scores.size)
    assert np.isfinite(drawn["gappy"]).all()
    assert not np.isclose(drawn["gappy"][..., 0], 1.0).any()  # what is data is drawn too
    prior = data["prior"]["level"].values
    assert abs(prior.mean() - 1) < 4 * 1.5 / np.sqrt(prior.size)


def test_unobserve_takes_back_what_condition_did():
    models = model, unobserve(ppl.scale(POSTERIOR, 2.0))
    before, after = jax.jit(lambda: [ppl.simulate(m)(KEY, X, 5) for m in models])()
    jax.tree.map(np.testing.assert_array_equal, before, after)


def test_without_a_key_there_are_no_predictions(result):
    data = result.to_arviz(POSTERIOR, X, 5)
    assert "log_likelihood" in data
    assert not any(group in data for group in ("prior", "posterior_predictive"))


def test_groups_that_are_not_asked_for_are_not_computed(result, monkeypatch):
    monkeypatch.setattr(ppl, "predict", None)
    data = result.to_arviz(POSTERIOR, X, 5, key=KEY, groups=["log_likelihood", "observed_data"])
    groups = data.groups() if IS_OLD else data.children
    assert {*groups} == {"posterior", "sample_stats", "log_likelihood", "observed_data"}


def series(key):
    """Latent sites that depend on data, and on data of another law."""
    scale = ppl.sample(key, dist.Gamma(0.02, 1.0), name="scale")  # many draws round to 0
    y = ppl.sample(key, dist.Normal(0.0, 1.0 + scale), name="y")
    z = ppl.sample(key, dist.Poisson(jnp.exp(0.1 * y)), name="z")
    ppl.deterministic(z + y, name="sum")
    ppl.sample(key, dist.Normal(y + z, 1.0), name="w")


def test_prior_groups_are_joint_draws_of_the_model():
    """However the groups are chosen, they are what one program draws for all sites."""
    posterior = ppl.condition(series, {"y": 0.5, "w": ppl.impute(np.array(np.nan))})
    draws = {"scale": np.ones((1, 8)), "z": np.ones((1, 8), int), "w": np.zeros((1, 8))}
    result = MCMCResult({name: x.astype("f4") for name, x in draws.items()}, {}, None)
    result.draws["z"] = draws["z"]
    exact = ppl.predict(series, 500)(jax.random.split(KEY)[0])
    names = "prior", "prior_predictive", "posterior_predictive"
    for groups in (names, names[:1], names[1:2]):
        found = result.to_arviz(posterior, key=KEY, groups=groups)
        have = found.groups() if IS_OLD else found.children
        assert {*groups} == {*have} - {"posterior", "sample_stats"}
        for name in {*groups} & {*names[:2]}:
            sites = {"prior": {"scale", "z", "sum"}, "prior_predictive": {"y", "w"}}[name]
            assert {*found[name].data_vars} == sites
            for site in sites:
                np.testing.assert_allclose(found[name][site].values[0], exact[site], rtol=1e-5)


def test_a_container_before_any_fit_has_the_draws_of_predict():
    def labeled(key, x):
        slope = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="slope")
        ppl.deterministic(2 * slope, name="double")
        y = ppl.sample(key, dist.Normal(slope[:, None] * x, 1.0), name="y")
        return y

    names = {"slope": "county", "y": ["county", "year"]}
    labeled = ppl.label(labeled, names, {"county": ["a", "b", "c"]})
    posterior = ppl.condition(labeled, {"y": np.ones((3, 2))})
    found = inference.prior_to_arviz(
        KEY, posterior, X[:2], num_draws=70, coords={"year": [2001, 2002]}
    )
    have = found.groups() if IS_OLD else found.children
    assert {*have} == {"prior", "prior_predictive", "observed_data", "constant_data"}
    exact = ppl.predict(labeled, 70)(KEY, X[:2])
    for group, names in (("prior", ("slope", "double")), ("prior_predictive", ("y",))):
        assert {*found[group].data_vars} == {*names}
        for name in names:
            np.testing.assert_allclose(found[group][name].values[0], exact[name], rtol=1e-5)
    assert list(found["prior"]["county"].values) == ["a", "b", "c"]
    assert found["prior_predictive"]["y"].dims == ("chain", "draw", "county", "year")
    assert list(found["prior_predictive"]["year"].values) == [2001, 2002]
    with pytest.raises(NotImplementedError, match="is improper"):
        inference.prior_to_arviz(KEY, with_flat)


def test_log_probabilities_are_compiled_once_for_all_tools():
    """Sensitivity and cross-validation of another result have the program of the container."""
    calls = []

    def counted(key):
        calls.append(1)
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu * jnp.ones(5), 1.0), name="y")

    posterior = ppl.condition(counted, {"y": np.arange(5.0)})
    results = [
        MCMCResult({"mu": np.random.default_rng(i).normal(size=(2, 100 + i))}, {}, None)
        for i in range(2)
    ]
    results[0].to_arviz(posterior, groups="log_likelihood")
    num_programs = compile_program.cache_info().misses
    inference.power_scale(results[1], posterior)
    assert compile_program.cache_info().misses == num_programs
    inference.loo(results[1], posterior)
    assert compile_program.cache_info().misses == num_programs + 1  # what is missing in the data
    calls.clear()
    inference.power_scale(results[0], posterior)
    inference.loo(results[0], posterior)
    assert len(calls) == 4  # for the shapes and constants, and for the indices of data


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"groups": ["likelihood"]}, ValueError, "no group 'likelihood'; there are log_likelihood"),
        ({"groups": "prior"}, ValueError, r"'prior' needs .*, and a key: .*key=key\)"),
        ({"num_prior_draws": 0}, ValueError, "num_prior_draws must be an integer of at least 1"),
    ],
)
def test_wrong_groups_are_errors_in_words(result, given, error, words):
    with pytest.raises(error, match=words):
        result.to_arviz(POSTERIOR, X, 5, **given)


def with_flat(key):
    return ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="w")


def with_icar(key):
    graph = np.ones((2, 2)) - np.eye(2)
    return ppl.sample(key, dist.ICAR(scale=1.0, adj_matrix=graph), name="w")


def with_cutpoints(key):
    return ppl.sample(key, dist.Flat(dist.constraints.ordered, (2,)), name="w")


@pytest.mark.parametrize("prior", [with_flat, with_icar, with_cutpoints])
def test_groups_of_a_prior_that_cannot_be_drawn_are_left_out(prior):
    """A factor is not an observation: ArviZ's loo has the data alone."""

    def improper(key):
        w = prior(key)
        ppl.factor(-0.1 * jnp.sum(w**2), name="penalty")
        ppl.sample(key, dist.Normal(w[jnp.array([0, 1, 1])], 1.0), name="y")

    posterior = ppl.condition(improper, {"y": np.arange(3.0)})
    w = np.sort(np.random.default_rng(0).normal(size=(2, 50, 2)), -1).astype("f4")
    result = MCMCResult({"w": w}, {}, None)
    with pytest.warns(UserWarning, match="prior cannot be drawn: .* is improper"):
        data = result.to_arviz(posterior, key=KEY)
    assert not {"prior", "prior_predictive"} & {*(data.groups() if IS_OLD else data.children)}
    expected = stats.norm.logpdf(np.arange(3.0), w[..., [0, 1, 1]])
    assert set(data["log_likelihood"].data_vars) == {"y"}
    np.testing.assert_allclose(data["log_likelihood"]["y"], expected, rtol=1e-5)
    assert np.isfinite(data["posterior_predictive"]["y"]).all()
    result._predictions("", posterior, (), {}, KEY, needs_likelihood=False)  # without a warning


def test_draws_are_not_copied(result):
    draws = result.draws["slope"]
    assert np.shares_memory(result.to_arviz()["posterior"]["slope"].values, draws)


def two_scans(key):
    """Axes of several sizes under one name, and nested ones under one name."""

    def step(_, key):
        return _, ppl.sample(key, dist.Normal(0.0, 1.0), name="a")

    def outer(_, key):
        def inner(_, key):
            return _, ppl.sample(key, dist.Normal(0.0, 1.0), name="b")

        return _, jax.lax.scan(inner, 0, jax.random.split(key, 2))[1]

    jax.lax.scan(step, 0, jax.random.split(key, 2))
    jax.lax.scan(outer, 0, jax.random.split(jax.random.fold_in(key, 1), 3))


def test_axes_that_share_a_name_are_told_apart():
    draws = {"a": np.zeros((1, 4, 2)), "b": np.zeros((1, 4, 3, 2))}
    data = MCMCResult(draws, {}, None).to_arviz(two_scans)
    assert data["posterior"]["a"].dims[2:] == ("a_time",)
    assert data["posterior"]["b"].dims[2:] == ("b_time", "b_time_1")


def walk(key):
    """Results of a scan recorded outside of it, and arrays that are no series."""

    def step(z, key):
        z = z + ppl.sample(key, dist.Normal(0.0, 1.0), name="e")
        return z, z

    last, level = jax.lax.scan(step, 0.0, jax.random.split(key, 5))
    ppl.deterministic(level, name="level")
    ppl.deterministic(level[:3], name="first")
    ppl.deterministic(last, name="last")
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.deterministic(mu * jnp.ones(5), name="other")


def test_results_of_a_scan_are_a_series():
    sizes = {"e": (5,), "level": (5,), "first": (3,), "last": (), "mu": (), "other": (5,)}
    draws = {name: np.zeros((1, 4, *shape)) for name, shape in sizes.items()}
    data = MCMCResult(draws, {}, None).to_arviz(walk)["posterior"]
    own = {name: x.dims[2:] for name, x in data.data_vars.items()}
    assert own == {
        "e": ("time",),
        "level": ("time",),
        "first": ("first_dim_0",),
        "last": (),
        "mu": (),
        "other": ("other_dim_0",),
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dims": {"thing": ["a"]}}, "dims: there is no site 'thing'; there are gappy, level"),
        ({"dims": {"slope": ["a", "b"]}}, r"site 'slope' has the shape \(3,\), so it takes 1 name"),
        ({"dims": {"slope": ["draw"]}}, "site 'slope' takes names that are strings"),
        ({"dims": {"z": ["a", "a"]}}, "site 'z' takes names that are strings, all different"),
        ({"dims": {"slope": ["i"], "gappy": ["i"]}}, "site 'gappy' has 4 entries along 'i', and"),
        ({"coords": {"town": [1, 2]}}, "coords: no site has the dimension 'town'"),
        ({"dims": {"slope": "i"}, "coords": {"i": [1]}}, "site 'slope' has 3 entries along 'i'"),
    ],
)
def test_wrong_dimensions_are_errors_in_words(result, given, words):
    with pytest.raises(ValueError, match=f"to_arviz: .*{words}"):
        result.to_arviz(**given)


def test_another_model_is_an_error_in_words(result):
    with pytest.raises(ValueError, match="has the latent site 'a', of which there are no draws"):
        result.to_arviz(two_scans)
    more = MCMCResult({**result.draws, "w": np.zeros((2, 20))}, {}, None)
    with pytest.raises(ValueError, match="the model has no site 'w', of which there are draws"):
        more.to_arviz(POSTERIOR, X, 5)
    with pytest.raises(TypeError, match="a key and arguments are for a model"):
        result.to_arviz(key=KEY)
    with pytest.raises(TypeError, match=r"to_arviz: expected one random key .*, got 0"):
        result.to_arviz(POSTERIOR, X, 5, key=0)


def normal(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    return ppl.sample(key, dist.Normal(x * jnp.ones(3), 1.0), name="y")


SMALL = ppl.condition(normal, {"y": np.ones(3)})
FEW = {"num_draws": 50, "progress": False}
WAYS = {
    "svi": lambda: inference.svi(KEY, SMALL, num_steps=5, **FEW),
    "laplace": lambda: inference.laplace(KEY, SMALL, num_draws=50),
    "pathfinder": lambda: inference.pathfinder(KEY, SMALL, num_draws=50),
    "importance": lambda: inference.importance(KEY, SMALL, num_draws=50),
    "svgd": lambda: inference.svgd(KEY, SMALL, num_steps=2, num_particles=50, progress=False),
}


QUICK = ("importance", "svgd")


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if way in QUICK else pytest.mark.slow) for way in WAYS]
)
def test_results_of_every_driver_go_to_arviz(way):
    data = WAYS[way]().to_arviz(SMALL, key=KEY, dims={"y": ["obs"]})
    assert shapes(data, "posterior_predictive") == {"y": {"chain": 1, "draw": 50, "obs": 3}}
    assert shapes(data, "log_likelihood") == {"y": {"chain": 1, "draw": 50, "obs": 3}}


def test_a_mode_has_no_draws_for_arviz():
    with pytest.raises(TypeError, match="optimize finds one point, and ArviZ takes draws"):
        OptimizeResult.to_arviz(None, SMALL)


def test_pictures_of_weighted_draws_show_the_weights():
    weights = np.array([[0.0, 0.25, 0.75, 0.0]])
    x = np.arange(4.0)[None]
    result = ImportanceResult({"x": x}, np.log(np.ones((1, 4))), weights, 0.0, 0.0, 2.0, 0.1)
    equal = result._equally_weighted()
    assert sorted(equal.draws["x"][0]) == [1, 2, 2, 2]
    np.testing.assert_array_equal(equal.weights, 0.25)


def test_groups_of_weighted_draws_heed_the_weights():
    """The draws of the prior have mean 0, those of the posterior mean 3/4."""
    weighted = inference.importance(KEY, SMALL, num_draws=4000)
    data = weighted.to_arviz(SMALL, key=KEY)
    x = np.asarray(data["posterior"]["x"])
    assert abs(x.mean() - 0.75) < 4 * 0.5 / np.sqrt(weighted.ess)
    assert abs(x.std() - 0.5) < 4 * 0.5 / np.sqrt(weighted.ess)
    drawn = np.asarray(data["posterior_predictive"]["y"])
    assert abs(drawn.mean() - 0.75) < 4 * np.sqrt(1.25 / weighted.ess)
    expected = stats.norm.logpdf(1.0, x[..., None]) * np.ones(3)
    np.testing.assert_allclose(data["log_likelihood"]["y"], expected, rtol=1e-5)
    np.testing.assert_array_equal(data["posterior"]["x"], weighted.to_arviz()["posterior"]["x"])
    np.testing.assert_allclose(data["sample_stats"]["weights"], 1 / 4000)
    assert len(set(np.ravel(data["sample_stats"]["log_weights"]))) == 1
    for group in ("posterior", "log_likelihood", "posterior_predictive"):
        assert "importance weights that are worth" in data[group].attrs["resampling"]


def test_weights_without_a_sum_give_no_groups():
    model = ppl.condition(normal, {"y": np.full(3, np.inf)})
    weighted = inference.importance(KEY, model, num_draws=50)
    with pytest.raises(ValueError, match="nothing to draw from: the log weights have no finite"):
        weighted.to_arviz()


def test_a_summed_element_without_data_is_no_observation():
    def summed(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.5)), name="z")
        ppl.sample(key, dist.Normal(mu + z[np.array([0, 0, 2, 2])], 1.0), name="y")

    posterior = ppl.condition(ppl.marginalize(summed, ["z"]), {"y": np.arange(4.0)})
    result = MCMCResult({"mu": np.linspace(-1, 1, 40).reshape(2, 20)}, {}, None)
    found = result.to_arviz(posterior, groups="log_likelihood")["log_likelihood"]
    assert list(found["z.y_entry"].values) == ["z.y[0]", "z.y[2]"]
    assert len(inference.loo(result, posterior, unit="group").names) == 2


def test_a_keyword_of_the_model_that_to_arviz_has_is_refused(result):
    named = lambda key, groups: ppl.sample(key, dist.Normal(groups, 1.0), name="mu")  # noqa: E731
    with pytest.raises(TypeError, match=r"'groups', and so has to_arviz.* Give it .* by position"):
        result.to_arviz(named, groups=jnp.ones(2))


def test_an_argument_by_position_alone_is_no_keyword():
    """The key of a model whose data stand in front, as of from_pymc, is not that of to_arviz."""

    def model(scale, key, /):
        return ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="mu")

    drawn = MCMCResult({"mu": np.linspace(-1, 1, 40).reshape(2, 10, 2)}, {}, None)
    posterior = jax.tree_util.Partial(model, jnp.ones(2))
    found = drawn.to_arviz(posterior, key=jax.random.key(0), groups=["prior"])
    assert found["prior"]["mu"].shape == (1, 500, 2)
