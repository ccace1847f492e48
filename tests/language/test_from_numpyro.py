"""from_numpyro: models of NumPyro, against NumPyro itself."""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.diagnostics
import numpyro.distributions as npd
import numpyro.infer
import numpyro.infer.util as numpyro_util
import pytest
import scipy.special
import scipy.stats
from jax import random
from numpyro import handlers
from numpyro.contrib.control_flow import scan

import inference
import ppl
from inference.runtime.compiled_program import compile_program
from ppl.doors.numpyro_distribution import wrap

from .numpyro_models import EXAMPLES


def example_of(name):
    """A model of NumPyro, its arguments, values of its sites, and the model of ours."""
    example = EXAMPLES[name]
    args = jax.tree.map(jnp.asarray, example.args)
    values = {site: jnp.asarray(x) for site, x in example.values.items()}
    return example.model, args, values, ppl.from_numpyro(example.model)


def log_densities(name, args, values):
    """The log densities of values and of positions, of ours and of NumPyro."""
    theirs, _, _, ours = example_of(name)
    found = [
        (
            ppl.log_density(ours)(values, *args),
            numpyro_util.log_density(theirs, args, {}, values)[0],
        )
    ]
    back = values
    if not EXAMPLES[name].is_discrete:
        unconstrained = ppl.unconstrain(ours, *args)
        position = unconstrained.unconstrain(values)
        energy = numpyro_util.potential_energy(theirs, args, {}, position)
        found.append((unconstrained.log_density(position), -energy))
        back = {site: unconstrained.constrain(position)[site] for site in values}
    return found, back


@pytest.mark.slow_rows("horseshoe", "ordinal", "bounded", "correlated", "rewritten")
@pytest.mark.parametrize("name", EXAMPLES)
def test_densities_are_numpyros(x64, name):
    _, args, values, _ = example_of(name)
    found, back = jax.jit(log_densities, static_argnums=0)(name, args, values)
    for ours, theirs in found:
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-7), back, values)


def test_mixtures_are_summed(x64):
    _, (data,), values, model = example_of("mixture")
    del values["z"]
    found = jax.jit(ppl.log_density(ppl.marginalize(model, ["z"])))(values, data)
    parts = scipy.stats.norm(values["means"], 0.5).logpdf(np.asarray(data)[:, None])
    likelihood = scipy.special.logsumexp(parts + np.log(values["weights"]), axis=1).sum()
    prior = scipy.stats.norm([-1, 1], 1).logpdf(values["means"]).sum()
    prior += scipy.stats.dirichlet([2, 3]).logpdf(values["weights"])
    np.testing.assert_allclose(found, prior + likelihood, rtol=1e-10)


def test_advice_on_infinite_states_names_no_family_of_ours():
    model = ppl.marginalize(ppl.from_numpyro(lambda: numpyro.sample("z", npd.Poisson(1.0))), ["z"])
    with pytest.raises(ValueError, match=r"numpyro\.Poisson, which has infin.* states\. Sample it"):
        ppl.log_density(model)({})


def test_chains_in_a_scan_are_summed(x64):
    _, (counts,), values, model = example_of("hidden Markov")
    del values["state"]
    found = jax.jit(ppl.log_density(ppl.marginalize(model, ["state"])))(values, counts)
    rows, rates = (np.asarray(values[name]) for name in ("rows", "rates"))
    weights = np.array([1.0, 0.0])
    for count in np.asarray(counts):
        weights = (weights @ rows) * scipy.stats.poisson(rates).pmf(count)
    prior = scipy.stats.gamma(2).logpdf(rates).sum()  # uniform rows have the log density 0
    np.testing.assert_allclose(found, np.log(weights.sum()) + prior, rtol=1e-10)


def test_sites_know_their_plates_and_data():
    _, args, _, model = example_of("schools")
    found = jax.jit(ppl.trace(model))(random.key(0), *args).sites
    assert [site.kind for site in found.values()] == ["latent"] * 3 + ["observed"]
    assert [site.labels for site in found.values()] == [(), ()] + [(("school", None),)] * 2


def test_data_may_come_by_condition():
    _, (errors, effects), values, model = example_of("schools")

    def densities():
        yield ppl.log_density(ppl.condition(model, {"y": effects}))(values, errors)
        yield ppl.log_density(ppl.from_numpyro(EXAMPLES["schools"].model, errors, effects))(values)
        yield ppl.log_density(model)(values, errors, effects=effects)

    assert len({x.item() for x in jax.jit(lambda: [*densities()])()}) == 1


def test_new_data_compile_nothing():
    """Data that the model was made with, and arguments."""
    _, (errors, effects), _, _ = example_of("schools")

    def fit(shift):
        model = ppl.from_numpyro(EXAMPLES["schools"].model, errors + shift)
        return inference.optimize(random.key(0), model, effects + shift, progress=False).values

    first = fit(0.0)
    misses = compile_program.cache_info().misses
    assert fit(1.0)["mu"] != first["mu"]
    assert compile_program.cache_info().misses == misses


@pytest.mark.parametrize("make_key", [random.key, random.PRNGKey])
def test_draws_are_of_their_distributions(make_key):
    """The draws of each site are compared by a Kolmogorov-Smirnov test; a false alarm has 1e-4."""

    def model():
        with numpyro.plate("row", 500):
            x = numpyro.sample("x", npd.Gamma(2.0, 1.0))
            numpyro.sample("y", npd.Normal(x, 2.0))

    drawn = ppl.simulate(ppl.from_numpyro(model))(make_key(0))
    pairs = [
        (drawn["x"], scipy.stats.gamma(2.0)),
        (drawn["y"] - drawn["x"], scipy.stats.norm(0, 2)),
    ]
    for draws, d in pairs:
        assert scipy.stats.kstest(np.asarray(draws), d.cdf).pvalue > 1e-4
        assert scipy.stats.kstest(2 * np.asarray(draws), d.cdf).pvalue < 1e-4


def test_distributions_may_be_mapped():
    """Leaves with further axes, as in a trace under `vmap`."""
    model = ppl.from_numpyro(EXAMPLES["schools"].model)
    errors = jnp.asarray(EXAMPLES["schools"].args[0])
    trace = jax.jit(jax.vmap(ppl.trace(model), in_axes=(0, None)))
    traced = trace(random.split(random.key(0), 3), errors)
    site = traced.sites["theta"]
    d = site.distribution
    assert d.batch_shape == (3, 8)
    np.testing.assert_allclose(d.log_prob(site.value), site.log_prob, rtol=1e-6)
    assert d.sample(random.key(1), (2,)).shape == (2, 3, 8)
    assert d.support.check(site.value).shape == (3, 8)


def test_leaves_have_one_order_in_all_processes():
    """NumPyro's is that of a set, and a program that differs is not resumed."""
    d = wrap(npd.StudentT(5.0, 1.0, 2.0).expand([2]).mask(jnp.ones(2, bool)))
    assert [x.ravel()[0] for x in d.leaves[-3:]] == [5, 1, 2]  # df, loc and scale
    assert d.rebuild().base_dist.base_dist.get_args() == {"df": 5, "loc": 1, "scale": 2}
    assert repr(wrap(npd.Normal(1.0, 2.0))) == "numpyro.Normal(loc=1.0, scale=2.0)"


@pytest.mark.slow_rows("LKJCholesky")
@pytest.mark.parametrize(
    ("d", "inside", "outside"),
    [
        (npd.HalfNormal(1.0), 0.5, -0.5),
        (npd.Uniform(0.0, jnp.array([1.0, 3.0])), [0.5, 2.5], [1.5, 3.5]),
        (npd.Poisson(2.0), 3, -1),
        (npd.Dirichlet(jnp.ones(3)), [0.2, 0.3, 0.5], [0.5, 0.5, 0.5]),
        (npd.HalfNormal(1.0).expand([2]).to_event(1), [0.5, 1.0], [0.5, -1.0]),
        (npd.LKJCholesky(2), [[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]),
        (npd.HalfNormal(1.0).mask(jnp.array([True, False])), [0.5, -1.0], [-0.5, -1.0]),
    ],
    ids=["HalfNormal", "Uniform", "Poisson", "Dirichlet", "Independent", "LKJCholesky", "masked"],
)
def test_values_outside_of_a_support_are_impossible(d, inside, outside):
    """NumPyro gives them some number."""
    ours = wrap(d)
    inside, outside = (jnp.asarray(x, ours.dtype) for x in (inside, outside))

    def scores(x):
        found = ours.log_prob(x)
        return jnp.where(found > -jnp.inf, found, 0).sum(), found

    def check(inside, outside):
        slope = None
        if jnp.issubdtype(ours.dtype, jnp.floating):
            slope = jax.grad(scores, has_aux=True)(outside)[0]
        return d.log_prob(inside), ours.log_prob(inside), ours.log_prob(outside), slope

    theirs, found, impossible, slope = jax.jit(check)(inside, outside)
    np.testing.assert_allclose(found, theirs, rtol=1e-5)
    assert (impossible == -jnp.inf).any()
    assert slope is None or jnp.isfinite(slope).all()


def normal(name="x", obs=None, **kwargs):
    return numpyro.sample(name, npd.Normal(0.0, 1.0), obs=obs, **kwargs)


def subsampled():
    with numpyro.plate("row", 10, subsample_size=5):
        normal()


def scanned(around, length=3):
    with around:
        scan(lambda carry, _: (normal(), None), 0.0, None, length=length)


def doubled():
    normal()
    normal()


def broadcast():
    numpyro.sample("x", npd.Normal(jnp.zeros((3, 1)), 1.0), obs=jnp.zeros(3))


def named_as_a_plate():
    with numpyro.plate("x", 2):
        normal("y")
    normal()


MISTAKES = {
    "param": (lambda: numpyro.param("w", 1.0), "the statement param 'w'. Without a prior"),
    "mutable": (lambda: numpyro.primitives.mutable("w", 1.0), "the statement mutable 'w'"),
    "prng_key": (numpyro.prng_key, "prng_key .*draw them by numpyro.sample"),
    "subsample": (subsampled, "plate 'row' with a random 5 of its 10 elements.*batch="),
    "substitute": (
        handlers.substitute(normal, data={"x": 1.0}),
        "the value of site 'x' that is not data.*handlers.condition",
    ),
    "two sites": (doubled, "sites have the name 'x'.*handlers.scope"),
    "site and plate": (named_as_a_plate, "a plate and a site have the name 'x'"),
    "outer product": (broadcast, "site 'x': data of shape .*broadcast to"),
    "shape": (
        lambda: numpyro.sample("x", npd.Normal(jnp.zeros(4), 1.0), obs=jnp.zeros(3)),
        r"site 'x' has data of shape \(3,\), and a distribution of batch shape \(4,\) .* its plate",
    ),
    "NaN": (lambda: normal(obs=np.nan), "site 'x' has data that are NaN.*obs_mask="),
    "reparam around scan": (
        lambda: scanned(handlers.reparam(config={})),
        "handlers.reparam around scan. Put it into the function that scan takes",
    ),
    "mask around scan": (
        lambda: scanned(handlers.mask(mask=jnp.ones(3, bool))),
        "an array of handlers.mask around scan",
    ),
    "short data around scan": (
        lambda: scanned(handlers.condition(data={"x": jnp.zeros(2)})),
        r"data of shape \(2,\) for site 'x' in a scan of length 3",
    ),
    "function around scan": (
        lambda: scanned(handlers.condition(condition_fn=lambda site: 0.0)),
        "condition_fn= of handlers.condition around scan",
    ),
    "point": (
        lambda: numpyro.sample("x", npd.Delta(1.0, log_density=0.5)),
        "the log_density of numpyro.Delta at site 'x'. Write it by numpyro.factor",
    ),
    "no statement": (lambda: 1.0, "has no statement of NumPyro.*goes through no door"),
}


@pytest.mark.parametrize(("model", "words"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_be_carried_over_is_named(model, words):
    with pytest.raises((NotImplementedError, ValueError), match=f"from_numpyro: .*{words}"):
        ppl.trace(ppl.from_numpyro(model))(random.key(0))
    assert not numpyro.primitives._PYRO_STACK  # nothing is left behind


def test_points_and_levy(x64):
    """A point mass is deterministic; Levy's support, which NumPyro loses, is that of its loc."""

    def model():
        with numpyro.plate("row", 3):
            point = numpyro.sample("point", npd.Delta(jnp.ones(2), event_dim=1))
            rate = numpyro.sample("rate", npd.Levy(2.0, 1.5))
        numpyro.sample("y", npd.Levy(rate[0] - point[0].sum(), 1.0), obs=4.0)

    ours = ppl.from_numpyro(model)
    values = {"rate": jnp.array([2.5, 3.0, 4.0])}
    found = ppl.trace(ppl.condition(ours, values))(random.key(0))
    assert found.sites["point"].kind == "deterministic"
    assert found.sites["point"].value.shape == (3, 2)
    terms = [*scipy.stats.levy.logpdf(values["rate"], 2, 1.5), scipy.stats.levy.logpdf(4, 0.5, 1)]
    np.testing.assert_allclose(found.log_density, np.sum(terms), rtol=1e-10)
    assert ppl.log_density(ours)({"rate": jnp.array([1.9, 3.0, 4.0])}) == -np.inf
    assert jnp.isfinite(jax.vmap(ppl.log_density(ours))({"rate": jnp.full((2, 3), 3.0)})).all()


def test_other_mistakes_are_told(monkeypatch):
    with pytest.raises(TypeError, match=r"expected a model of NumPyro.*got 5"):
        ppl.from_numpyro(5)
    with pytest.raises(TypeError, match="expected one random key"):
        ppl.from_numpyro(normal)(1.0)
    with pytest.raises(TypeError, match="unexpected keyword") as caught:
        ppl.from_numpyro(normal)(random.key(0), wrong=jnp.zeros(2))
    assert caught.value.__notes__ == [
        "ppl.from_numpyro: the error came from 'normal', called with the arguments "
        "(wrong=float32[2]), without a key."
    ]
    with pytest.raises(NotImplementedError, match="ImproperUniform has no draws"):
        wrap(npd.ImproperUniform(npd.constraints.real, (), ())).sample(random.key(0))
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"harvest-ppl\[numpyro\]"):
        ppl.from_numpyro(normal)


def test_arguments_have_the_names_of_the_model():
    @handlers.scale(scale=1.0)
    def line(x, noise, y=None):
        slope = numpyro.sample("slope", npd.Normal(0.0, 1.0))
        numpyro.sample("y", npd.Normal(slope * x, noise), obs=y)

    x = jnp.arange(3.0)
    with pytest.raises(TypeError, match="nor has model 'line': did you mean 'num_draws'"):
        inference.mcmc(random.key(0), ppl.from_numpyro(line, x, 1.0, x), num_samples=10)
    with pytest.raises(TypeError, match="missing a required argument: 'noise'"):
        ppl.log_density(ppl.from_numpyro(line, x))({"slope": 1.0}, y=x)
    by_name = ppl.from_numpyro(line, noise=1.0)
    assert jnp.isfinite(ppl.log_density(by_name)({"slope": 1.0}, x, y=x))
    data = inference.prior_to_arviz(random.key(0), by_name, x, num_draws=10)
    assert {*data.constant_data.data_vars} == {"noise", "x"}
    within = ppl.from_numpyro(functools.partial(line, noise=jnp.ones(3)), x, y=x)
    assert repr(within) == "from_numpyro(line)"
    data = inference.prior_to_arviz(random.key(0), within, num_draws=10)
    assert {*data.constant_data.data_vars} == {"noise", "x", "y"}
    with pytest.raises(ValueError, match=r"by obs=\. Give the model without them.*y=None"):
        ppl.predict(within, {"slope": jnp.zeros(3)})(random.key(0))


def test_handlers_around_a_scan_reach_its_sites(x64):
    data = jnp.arange(3.0)

    def model():
        with handlers.scale(scale=2.0), handlers.scope(prefix="a"), handlers.mask(mask=True):
            scanned(handlers.condition(data={"x": data, "other": 1.0}))

    expected, _ = numpyro_util.log_density(model, (), {}, {})
    found = ppl.trace(ppl.from_numpyro(model))(random.key(0))
    np.testing.assert_allclose(found.log_density, expected, rtol=1e-10)
    assert found.sites["a/x"].kind == "observed"


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize(("name", "out"), [("regression", ()), ("mixture", ("z",))])
def test_posterior_means_are_numpyros(name, out):
    """By NumPyro's sampler, and for discrete sites by weights of their states.

    Differences are below 5 standard errors: a false alarm has the probability 6e-7 a scalar.
    """
    theirs, args, values, ours = example_of(name)
    model = ppl.marginalize(ours, list(out)) if out else ours

    def summed(y):
        weights = numpyro.sample("weights", npd.Dirichlet(jnp.array([2.0, 3.0])))
        with numpyro.plate("part", 2):
            means = numpyro.sample("means", npd.Normal(jnp.array([-1.0, 1.0]), 1.0))
        terms = npd.Normal(means, 0.5).log_prob(y[:, None]) + jnp.log(weights)
        numpyro.factor("y", jax.scipy.special.logsumexp(terms, axis=-1))

    kernel = numpyro.infer.NUTS(summed if out else theirs)
    chains = numpyro.infer.MCMC(
        kernel,
        num_warmup=500,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    chains.run(random.key(0), *args)
    result = inference.mcmc(random.key(1), model, *args, progress=False)
    for site, draws in chains.get_samples(group_by_chain=True).items():
        if site not in values:
            continue
        found = result.draws[site]
        errors = [
            x.std((0, 1)) / np.sqrt(numpyro.diagnostics.effective_sample_size(np.asarray(x, float)))
            for x in (draws, found)
        ]
        difference = np.asarray(draws).mean((0, 1)) - np.asarray(found).mean((0, 1))
        assert np.all(np.abs(difference) < 5 * np.hypot(*errors)), site
