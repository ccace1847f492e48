"""from_pymc: models of PyMC, against PyMC itself."""

import functools
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import inference
import ppl

pm = pytest.importorskip("pymc", reason="PyMC is not installed")
pytensor = pytest.importorskip("pytensor")

from .pymc_models import EFFECTS, ERRORS, MODELS, families, labels_of_two, marbles  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
    pytest.mark.filterwarnings("ignore:Data in y contains missing values"),
]


def position_of(unconstrained, seed=1):
    """Random positions of all sites."""
    leaves, tree = jax.tree.flatten(unconstrained.position_shapes)
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    draws = [
        0.5 * jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, draws)


def log_density_of_pymc(model, position):
    """PyMC's log density of positions, by name of the site."""
    point = {model.rvs_to_values[rv].name: np.asarray(position[rv.name]) for rv in model.free_RVs}
    return model.compile_logp(mode="FAST_COMPILE")(point)


def check_densities(theirs):
    """Both densities of a position, and the way back to it."""
    unconstrained = ppl.unconstrain(ppl.from_pymc(theirs))
    position = position_of(unconstrained)
    found = jax.jit(unconstrained.log_density)(position)
    np.testing.assert_allclose(found, log_density_of_pymc(theirs, position), rtol=1e-7)
    back = unconstrained.unconstrain(unconstrained.constrain(position))
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-9), back, position
    )


@pytest.mark.parametrize("name", MODELS)
def test_densities_are_pymcs(x64, name):
    check_densities(MODELS[name]())


@pytest.mark.parametrize(
    ("formula", "family"),
    [
        ("y ~ x + (x|g)", "gaussian"),
        ("k ~ x + (1|g)", "poisson"),
        ("b ~ x * g", "bernoulli"),
        ("k ~ x", "negativebinomial"),
        ("y ~ bs(x, df=4)", "t"),
    ],
)
def test_densities_of_bambi(x64, formula, family):
    bambi = pytest.importorskip("bambi", reason="Bambi is not installed")
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    data = {"x": x, "g": rng.choice(list("abcd"), 40), "y": x + rng.normal(size=40)}
    data |= {"k": rng.poisson(np.exp(0.3 * x)), "b": rng.integers(0, 2, 40)}
    model = bambi.Model(formula, pandas.DataFrame(data), family=family)
    model.build()
    check_densities(model.backend.model)


def test_the_page_runs(x64, monkeypatch):
    page = (pathlib.Path(__file__).parents[2] / "docs/coming-from.md").read_text()
    code = page.split("```py\n")[1].split("```")[0]
    few = {"num_warmup": 100, "num_draws": 100, "num_chains": 2, "learn_centering": False}
    monkeypatch.setattr(inference, "mcmc", functools.partial(inference.mcmc, **few))
    names = {}
    exec(code.replace('jax.config.update("jax_enable_x64", True)', ""), names)
    assert names["new"]["y"].shape == (2, 100, 3)
    assert {"posterior_predictive", "log_likelihood", "observed_data"} <= {*names["data"].groups()}


def test_terms_by_observation_and_float32():
    theirs = MODELS["radon"]()
    ours = ppl.from_pymc(theirs)
    position = position_of(ppl.unconstrain(ours))
    terms = ppl.log_probs(ours)(ppl.unconstrain(ours).constrain(position))
    assert terms["level"].shape == (30,)
    assert terms["level"].dtype == jnp.float32
    total = sum(float(jnp.sum(x)) for x in terms.values())
    volume = float(position["sd_a"] + position["sd"])  # both by the logarithm
    expected = log_density_of_pymc(theirs, jax.tree.map(lambda x: np.asarray(x, float), position))
    assert total + volume == pytest.approx(expected, rel=1e-5)


def test_new_data_do_not_recompile(x64):
    ours = ppl.from_pymc(MODELS["eight_schools"]())
    traces = []

    @jax.jit
    def density(position, data):
        traces.append(0)
        return ppl.unconstrain(ours, data).log_density(position)

    position = position_of(ppl.unconstrain(ours))
    found = [float(density(position, {"y": EFFECTS + shift})) for shift in (0.0, 3.0)]
    assert len(traces) == 1
    assert found[0] == pytest.approx(float(ppl.unconstrain(ours).log_density(position)))
    with pm.Model() as shifted:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        z = pm.Normal("z", 0, 1, shape=8)
        errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
        pm.Normal("y", mu + tau * z, errors, observed=EFFECTS + 3)
    assert found[1] == pytest.approx(float(log_density_of_pymc(shifted, position)), rel=1e-7)


def test_prediction_at_other_rows(x64):
    line = ppl.from_pymc(MODELS["line"](), observe=False)
    given = {"slope": jnp.array([2.0, 3.0])}
    found = ppl.predict(line, given)(jax.random.key(0), {"x": np.array([1.0, 10.0, 100.0])})
    np.testing.assert_allclose(found["y"], [[2, 20, 200], [3, 30, 300]], atol=0.1)
    with pytest.raises(ValueError, match=r"predict\(from_pymc\(pymc_model, observe=False\), draws"):
        ppl.predict(ppl.from_pymc(MODELS["line"]()), given)(jax.random.key(0))


def test_groups_names_and_entries(x64):
    ours = ppl.from_pymc(MODELS["eight_schools"]())
    assert "HalfCauchy" in str(ppl.graph(ours)())
    result = inference.mcmc(
        jax.random.key(0), ours, num_chains=2, num_warmup=100, num_draws=50, learn_centering=False
    )
    data = result.to_arviz(ours, key=jax.random.key(1))
    assert data.posterior["theta"].dims == ("chain", "draw", "school")
    assert list(data.posterior["theta"]["school"].values) == list("ABCDEFGH")
    np.testing.assert_allclose(
        data.posterior["theta"],
        data.posterior["mu"].values[..., None]
        + data.posterior["tau"].values[..., None] * data.posterior["z"].values,
    )
    np.testing.assert_array_equal(data.observed_data["y"], EFFECTS)
    assert list(data.constant_data.data_vars) == ["errors"]
    np.testing.assert_array_equal(data.constant_data["errors"], ERRORS)
    assert list(data.constant_data["errors"]["school"].values) == list("ABCDEFGH")
    prior = inference.prior_to_arviz(jax.random.key(0), ours, num_draws=2)
    assert prior.constant_data["errors"].dims == ("school",)
    assert repr(ours) == "from_pymc(sites: 3 latent, 1 observed)"
    assert data.log_likelihood["y"].shape == data.posterior_predictive["y"].shape == (2, 50, 8)


def test_samplers_draw_from_pymcs_densities(x64):
    """Log densities of draws have the mean that PyMC's own draws have, within 5 errors."""
    theirs = families()
    ours = ppl.from_pymc(theirs)
    drawn = ppl.simulate(ours)(jax.random.key(0))
    by_pymc = dict(
        zip(
            drawn,
            pm.draw([theirs[x] for x in drawn], random_seed=1, mode="FAST_COMPILE"),
            strict=True,
        )
    )
    score = jax.jit(ppl.log_probs(ours))
    for name, terms in score(drawn).items():
        expected = score(jax.tree.map(jnp.asarray, by_pymc))[name]
        spread = np.sqrt((np.var(terms) + np.var(expected)) / terms.size)
        assert abs(np.mean(terms) - np.mean(expected)) < 5 * spread, name


def test_discrete_site_is_summed_out(x64):
    ours = ppl.marginalize(ppl.from_pymc(labels_of_two()), ["z"])
    with pm.Model() as by_hand:
        p = pm.Beta("p", 2, 2)
        pm.NormalMixture("y", [1 - p, p], [-1.0, 2.0], 1.0, observed=[0.0, 1.0, 3.0])
    unconstrained = ppl.unconstrain(ours)
    position = position_of(unconstrained)
    expected = log_density_of_pymc(by_hand, position)
    assert float(unconstrained.log_density(position)) == pytest.approx(expected, rel=1e-7)


@pytest.mark.slow
def test_posterior_means_are_exact(x64):
    """A normal mean of known variance, 6 errors; and a scale on a grid, by PyMC's density."""
    with pm.Model() as theirs:
        mu = pm.Normal("mu", 1.0, 2.0)
        sd = pm.HalfNormal("sd", 1.0)
        pm.Normal("y", mu, 1.5, observed=[0.0, 1.0, 4.0])
        pm.Exponential("z", 1 / sd, observed=[0.5, 2.0])
    result = inference.mcmc(jax.random.key(0), ppl.from_pymc(theirs))
    precision = 1 / 4 + 3 / 2.25
    exact = (1 / 4 + 5 / 2.25) / precision
    errors = result.summary().mcse_mean
    assert abs(result.draws["mu"].mean() - exact) < 6 * errors[0]
    grid = np.linspace(1e-3, 8, 4001)
    weights = np.exp(-(grid**2) / 2 - 2.5 / grid) / grid**2
    mean = (weights * grid).sum() / weights.sum()
    assert abs(result.draws["sd"].mean() - mean) < 6 * errors[1]


NUMBERS = np.array([0.0, 1.0, 4.0])
PRECISION = 1 / 4 + 3 / 2.25
MEAN = (1 / 4 + 5 / 2.25) / PRECISION
CHAINS = {"num_warmup": 100, "num_draws": 400, "num_chains": 2, "progress": False}


def conjugate():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 1.0, 2.0), 1.5, observed=NUMBERS)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [None, inference.Gibbs({"mu": inference.Slice()})])
def test_every_consumer_takes_a_model(x64, tmp_path, kernel):
    """Against the closed forms of a normal mean; 6 standard errors fail once in 5e8 times."""
    ours = ppl.from_pymc(conjugate())
    free = ppl.from_pymc(conjugate(), observe=False)
    kernel = {} if kernel is None else {"kernel": kernel}
    result = inference.mcmc(jax.random.key(0), ours, **CHAINS, **kernel)

    def check(draws, mean):
        assert abs(draws.mean() - mean) < 6 * inference.mcse_mean(draws)

    check(result.draws["mu"], MEAN)
    result.save(tmp_path / "fit")
    again = inference.MCMCResult.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.draws["mu"], result.draws["mu"])
    evidence = st.multivariate_normal.logpdf(NUMBERS, np.ones(3), 4 + 2.25 * np.eye(3))
    if kernel:
        return
    for found in (
        inference.smc(jax.random.key(0), ours, num_particles=1000, progress=False),
        inference.evidence(result, ours),
    ):
        assert abs(found.log_evidence - evidence) < 6 * found.standard_error
    fit = inference.svi(jax.random.key(0), ours, num_steps=2000, progress=False)
    assert abs(np.mean(fit.draws["mu"]) - MEAN) < 0.3 / PRECISION**0.5
    check(np.asarray(ppl.predict(free, result.draws)(jax.random.key(0))["y"][..., 0]), MEAN)
    left_out = [
        st.norm.logpdf(y, (1 / 4 + (5 - y) / 2.25) / p, (1 / p + 2.25) ** 0.5)
        for y, p in zip(NUMBERS, [1 / 4 + 2 / 2.25] * 3, strict=True)
    ]
    assert inference.loo(result, ours).elpd == pytest.approx(sum(left_out), abs=0.3)
    refitted = inference.cross_validate(jax.random.key(0), ours, folds=3, **CHAINS)
    assert refitted.elpd == pytest.approx(sum(left_out), abs=0.3)
    ranks = inference.calibrate(
        jax.random.key(0), free, observed=["y"], num_simulations=3, **CHAINS
    ).ranks
    assert ranks.shape == (3, 2)
    both = {"y": jnp.stack([NUMBERS, NUMBERS + 3.0])}
    each = inference.mcmc_each(jax.random.key(0), ours, both, **CHAINS)
    for draws, shift in zip(np.asarray(each.draws["mu"]), (0.0, 3.0), strict=True):
        check(draws, MEAN + shift * 3 / 2.25 / PRECISION)


def test_discrete_site_alone_is_refused():
    with pytest.raises(ValueError, match="marginalize"):
        inference.mcmc(jax.random.key(0), ppl.from_pymc(labels_of_two()))


def test_refusals(monkeypatch):
    with pytest.raises(TypeError, match=r"expected a pymc\.Model"):
        ppl.from_pymc(lambda key: 0)
    with pm.Model() as weird:
        pm.PolyaGamma("w", 1, 0.0)
    with pytest.raises(NotImplementedError, match=r"site 'w'.*PolyaGamma.*jax_funcify"):
        ppl.from_pymc(weird)
    with pytest.raises(NotImplementedError, match=r"site 'n'.*HyperGeometric.*hypergeometric"):
        ppl.simulate(ppl.from_pymc(marbles()))(jax.random.key(0))
    ours = ppl.from_pymc(MODELS["line"]())
    for data, words in [
        ({"z": np.zeros(4)}, r"no data 'z'. There are \['x', 'y_data'\]"),
        ({"x": np.zeros((4, 1))}, r"'x' have the shape \(4,\).*got \(4, 1\)"),
        ({"x": np.zeros(7)}, r"site 'y' has the shape \(7,\), got data of the shape \(4,\)"),
    ]:
        with pytest.raises(ValueError, match=words):
            ppl.log_density(ours)({"slope": 1.0}, data)
    floor = {"floor": np.array([0, 1]), "level": np.zeros(2)}  # the counties are 30
    with pytest.raises(ValueError, match="do not fit into the PyMC model"):
        ppl.log_probs(ppl.from_pymc(MODELS["radon"]()))({}, floor)
    with pytest.raises(ValueError, match="'floor' and 'level' both have the dimension 'house'"):
        ppl.log_probs(ppl.from_pymc(MODELS["radon"]()))({}, {"floor": np.array([0, 1])})
    for data, words in [
        (np.zeros(4), "must be a dict"),
        ({"x": ["a"] * 4}, r"data 'x' must be an array of float64, got \['a'"),
    ]:
        with pytest.raises(TypeError, match=words):
            ppl.log_density(ours)({"slope": 1.0}, data)
    with pytest.raises(TypeError, match="data 'floor' are integers in the PyMC model, got float32"):
        ppl.log_probs(ppl.from_pymc(MODELS["radon"]()))({}, {"floor": np.full(30, 0.5)})
    with pm.Model() as batches:
        pm.Normal(
            "y", pm.Normal("m"), 1, observed=pm.Minibatch(np.zeros(9), batch_size=3), total_size=9
        )
    with pytest.raises(NotImplementedError, match=r"pm\.Minibatch"):
        ppl.from_pymc(batches)
    monkeypatch.setitem(__import__("sys").modules, "pymc", None)
    with pytest.raises(ImportError, match=r"harvest-ppl\[pymc\]"):
        ppl.from_pymc(batches)


def test_single_integers_are_sizes(x64):
    def model_of(n):
        with pm.Model() as model:
            n = pm.Data("n", np.array(n))
            rows = pm.Data("rows", np.arange(12.0))
            z = pm.Normal("z", 0, 1, shape=(n,))
            total = pytensor.tensor.sum(z * pytensor.tensor.arange(n) + rows[:n])
            pm.Binomial("y", n, pm.Beta("p", 1, 1), observed=2)
            pm.Normal("x", total, pytensor.tensor.sum(pytensor.tensor.ones((n,))), observed=1.0)
        return model

    ours = ppl.from_pymc(model_of(3))
    for n, data in [(3, ()), (5, ({"n": 5},))]:
        theirs = model_of(n)
        values = {"p": 0.3, "z": np.linspace(-1, 1, n)}
        position = {"p_logodds__": np.log(0.3 / 0.7), "z": values["z"]}
        expected = theirs.compile_logp(jacobian=False)(position)
        assert ppl.log_density(ours)(values, *data) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(TypeError, match=r"data 'n' are one integer.*integer of Python, got 2\.5"):
        ppl.log_density(ours)(values, {"n": 2.5})
    with pytest.raises(TypeError, match=r"fixed when JAX compiles"):
        ppl.log_density(ours)(values, {"n": jnp.array(5)})
    with pm.Model() as array:
        shape = pm.Data("shape", np.array([2, 3]))
        pm.Normal("z", 0, 1, shape=(shape[0], shape[1]))
    with pytest.raises(NotImplementedError, match=r"shape of site 'z'.*pm\.Data of one integer"):
        ppl.from_pymc(array)


def test_later_changes_of_a_model_are_not_seen():
    with pm.Model() as theirs:
        x = pm.Data("x", np.arange(4.0))
        y = pm.Data("y_data", np.arange(4.0))
        shift = pytensor.shared(1.0)
        slope = pm.Normal("slope", 0, 5)
        pm.Normal("y", slope * x + shift, 1.0, observed=y, shape=x.shape)
    ours = ppl.from_pymc(theirs)
    shift.set_value(100.0)
    with theirs:
        pm.Deterministic("double", 2 * slope)
        pm.Potential("tilt", -(slope**2))
    two = {"x": np.arange(2.0), "y_data": np.ones(2)}
    terms = ppl.log_probs(ours)({"slope": 0.0}, two)
    assert set(terms) == {"slope", "y"}
    np.testing.assert_allclose(terms["y"], -0.5 * np.log(2 * np.pi), rtol=1e-6)


def test_discrete_families_may_be_negative():
    with pm.Model() as theirs:
        parts = [pm.DiscreteUniform.dist(-5, 5), pm.Poisson.dist(3)]
        pm.Mixture("mixed", [0.5, 0.5], parts)
        pm.Poisson("count", 2.0)
    sites = jax.eval_shape(ppl.trace(ppl.from_pymc(theirs)), jax.random.key(0)).sites
    assert sites["mixed"].distribution.support.low is None
    assert sites["count"].distribution.support.low == 0


def test_precision_of_jax_stays():
    assert not jax.config.jax_enable_x64
    ppl.from_pymc(MODELS["line"]())
    assert not jax.config.jax_enable_x64
