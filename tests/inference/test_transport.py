"""Chains in the standard coordinates of a fit: its density, draws, refusals and further runs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import (
    HMC,
    MEADS,
    NUTS,
    WALNUTS,
    AdjustedMCLMC,
    BySite,
    ChEES,
    FullRank,
    InverseAutoregressive,
    LowRank,
    MaskedAutoregressive,
    MCMCResult,
    MeanField,
    NeuralSpline,
    PointMass,
    Structured,
    SVIResult,
    Until,
    laplace,
    loo,
    mcmc,
    optimize,
    resume,
    svi,
)
from inference.chains.sampling import sample
from inference.common.layout import Layout
from inference.initialization.initial_positions import Init
from inference.models.transported_target import TransportedTarget, transport
from ppl.harvest.pytrees import register_dataclass

KEY = jax.random.key(0)
FLOW = {"num_layers": 2, "hidden_sizes": (8,)}
GUIDES = {
    "MeanField": MeanField(0.5),
    "FullRank": FullRank(0.5),
    "Structured": Structured("mu", 0.5),
    "NeuralSpline": NeuralSpline(**FLOW, num_bins=3),
    "InverseAutoregressive": InverseAutoregressive(**FLOW),
    "MaskedAutoregressive": MaskedAutoregressive(**FLOW),
}


def part(key, x):
    return ppl.sample(key, dist.LogNormal(jnp.zeros(2), 0.5), name="scale") * x


def model(key, x):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    scale = ppl.nest(part, scope="part")(key, x)
    ppl.deterministic(mu + scale, name="both")
    return ppl.sample(key, dist.Normal(mu, scale), name="y")


Y = np.array([0.3, -1.0], np.float32)
POSTERIOR = ppl.condition(model, {"y": Y})


def shaken(parameters, amount=0.3):
    """Parameters that are far from those of the identity."""
    leaves, tree = jax.tree.flatten(parameters)
    rng = np.random.default_rng(0)
    moved = [x + np.asarray(amount * rng.normal(size=np.shape(x)), x.dtype) for x in leaves]
    return jax.tree.unflatten(tree, moved)


def transported(target, guide, amount=0.3):
    layout = Layout.of(target.position_shapes)
    start = jnp.linspace(-0.5, 0.5, layout.size, dtype=layout.dtype)
    return transport(target, guide, shaken(guide.init(start, layout), amount))


def fit(name="FullRank", num_steps=300):
    return fit_once(name, num_steps, jax.config.jax_enable_x64)


@functools.cache
def fit_once(name, num_steps, is_x64):
    return svi(
        KEY,
        POSTERIOR,
        np.ones(2, np.float32),
        guide=GUIDES[name],
        num_steps=num_steps,
        num_draws=20,
    )


SHORT = {"num_warmup": 50, "num_draws": 40, "num_chains": 2}


def run(started=None, **settings):
    settings = SHORT | {"init": started or fit(), "transport": True} | settings
    return mcmc(KEY, POSTERIOR, np.ones(2, np.float32), **settings)


@pytest.mark.parametrize("name", GUIDES)
def test_density_is_the_change_of_variables(name, float_dtype):
    target = ppl.unconstrain(POSTERIOR, jnp.ones(2, float_dtype))
    layout = Layout.of(target.position_shapes)
    moved = transported(target, GUIDES[name])
    standard = jnp.array([0.7, -1.3, 0.4], float_dtype)
    position = {"standard": standard}
    assert Layout.of(moved.position_shapes).dtype == float_dtype

    def forward(standard):
        return layout.ravel(moved.forward({"standard": standard})[0])

    _, log_det = jnp.linalg.slogdet(jax.jacobian(forward)(standard))
    assert abs(log_det) > 0.1
    expected = target.log_density(layout.unravel(forward(standard))) + log_det
    tolerance = 2e-5 if float_dtype == jnp.float32 else 1e-10
    np.testing.assert_allclose(moved.log_density(position), expected, rtol=tolerance)
    np.testing.assert_allclose(moved.log_det(position), log_det, rtol=tolerance, atol=tolerance)
    back = moved.inverse(layout.unravel(forward(standard)))["standard"]
    np.testing.assert_allclose(back, standard, rtol=10 * tolerance)
    values = target.constrain(layout.unravel(forward(standard)))
    jax.tree.map(np.testing.assert_array_equal, moved.constrain(position), values)


def test_the_other_methods_are_those_of_the_model(x64):
    target = ppl.unconstrain(POSTERIOR, jnp.ones(2, np.float32))
    moved = transported(target, GUIDES["NeuralSpline"])
    assert moved.order == target.order
    for method in ("initial", "prior"):
        position, _ = moved.forward(getattr(moved, method)(KEY))
        jax.tree.map(np.testing.assert_allclose, position, getattr(target, method)(KEY))
    position = moved.initial(KEY, {"mu": 0.7})
    np.testing.assert_allclose(moved.constrain(position)["mu"], 0.7)
    unmoved = target.initial(KEY, {"mu": 0.7})
    found = moved.prior_and_likelihood(position)
    np.testing.assert_allclose(found, target.prior_and_likelihood(unmoved))
    assert moved.sites(position).keys() == target.sites(unmoved).keys()


def correlated(key):
    first = ppl.sample(key, dist.Normal(1.0, 2.0), name="first")
    return ppl.sample(key, dist.Normal(jnp.stack([first, -first]), 0.5), name="rest")


@register_dataclass
@dataclasses.dataclass(frozen=True)
class WithoutDeterminant(TransportedTarget):
    """A wrong target."""

    def log_density(self, position):
        return self.base.log_density(self.forward(position)[0])


def scores(target_of, guide):
    """Means and variances of the coordinates, in standard errors off the truth."""
    target = ppl.unconstrain(correlated)
    moved = transported(target, guide, amount=0.5)
    moved = target_of(moved.base, moved.guide, moved.parameters)
    settings = {"num_warmup": 500, "num_draws": 1000, "num_chains": 4}
    init = Init("normal")
    drawn = sample(KEY, moved, NUTS(), **settings, init=init, target_acceptance_rate=0.9)
    first = np.asarray(drawn.draws["first"])
    rest = np.asarray(drawn.draws["rest"])
    found = []
    for x, mean, variance in (
        (first, 1.0, 4.0),
        (rest[..., 0], 1.0, 4.25),
        (rest[..., 1], -1.0, 4.25),
        (rest[..., 0] - first, 0.0, 0.25),
        (rest[..., 1] + first, 0.0, 0.25),
    ):
        found.append((x.mean() - mean) / float(inference.mcse_mean(x)))
        squares = (x - mean) ** 2
        found.append((squares.mean() - variance) / float(inference.mcse_mean(squares)))
    return np.abs(found)


@pytest.mark.quick_rows("Structured")
@pytest.mark.parametrize("name", ["Structured", "MaskedAutoregressive"])
def test_draws_are_those_of_the_model_for_any_map(name, x64):
    guide = Structured("first", 0.5) if name == "Structured" else GUIDES[name]
    most = 4.5  # standard errors, which ten numbers exceed once in 15,000 times
    assert np.all(scores(TransportedTarget, guide) < most)
    assert np.any(scores(WithoutDeterminant, guide) > most)


def test_log_densities_of_a_result_are_on_unconstrained_space(x64):
    result = run()
    assert Layout.of(result.draws).size == 2 * 40 * 5
    target = ppl.unconstrain(POSTERIOR, np.ones(2, np.float32))

    def log_density(values):
        return target.log_density(target.initial(KEY, values))

    latent = {"mu": result.draws["mu"], "part": result.draws["part"]}
    expected = jax.vmap(jax.vmap(log_density))(latent)
    np.testing.assert_allclose(result.stats["log_density"], expected, rtol=1e-8)
    some = run(keep="both")
    assert some.draws.keys() == {"both"}
    np.testing.assert_allclose(some.stats["log_density"], expected, rtol=1e-8)
    whole = np.asarray(mcmc(KEY, POSTERIOR, np.ones(2, np.float32), **SHORT).stats["log_density"])
    assert abs(np.median(whole) - np.median(expected)) < 2.0


def test_chains_start_at_draws_of_the_guide():
    still = NUTS(step_size=1e-6, max_depth=1)
    settings = {"kernel": still, "num_warmup": 0, "num_draws": 1, "num_chains": 200}
    starts = np.asarray(run(**settings).draws["mu"])[:, 0]
    loc = fit().parameters.loc[0]
    sd = float(jnp.sqrt(GUIDES["FullRank"].covariance(fit().parameters)[0, 0]))
    assert len(np.unique(starts)) == 200
    assert abs(starts.mean() - loc) < 5 * sd / np.sqrt(200)
    assert 0.8 < starts.std() / sd < 1.25
    matrices = run(num_warmup=1, num_draws=1, mass_matrix="dense").inverse_mass_matrix
    np.testing.assert_array_equal(matrices, np.broadcast_to(np.eye(3), (2, 3, 3)))


def test_the_summary_says_who_transports():
    result = run()
    assert "2 chains x 40 draws; transported by FullRank" in str(result.summary())
    assert "transported" not in str(run(transport=False).summary())
    diverged = dict(result.stats, is_divergent=np.ones((2, 40), bool))
    problems = " ".join(dataclasses.replace(result, stats=diverged).summary().problems)
    assert "Fit the guide that transports the chains with more steps, or a flow, " in problems
    facts = dataclasses.replace(result.facts, transport="NeuralSpline")
    other = dataclasses.replace(result, stats=diverged, facts=facts)
    assert "or a flow with more layers" in " ".join(other.summary().problems)


def test_another_fit_compiles_nothing():
    traces = []

    def counted(key):
        traces.append(1)
        return ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")

    first = svi(KEY, counted, num_steps=2, num_draws=4, guide=FullRank())
    other = dataclasses.replace(first, parameters=shaken(first.parameters))
    mcmc(KEY, counted, init=first, transport=True, **SHORT)
    num_traces = len(traces)
    mcmc(KEY, counted, init=first, transport=True, **SHORT)
    again = len(traces) - num_traces
    mcmc(KEY, counted, init=other, transport=True, **SHORT)
    assert len(traces) - num_traces == 2 * again < num_traces


FUNNEL_SIZE = 9


def funnel(key):
    v = ppl.sample(key, dist.Normal(0.0, 3.0), name="v")
    return ppl.sample(key, dist.Normal(jnp.zeros(FUNNEL_SIZE), jnp.exp(v / 2)), name="x")


def effort(**settings):
    """ESS of v for 1000 gradients, and the draws."""
    result = mcmc(KEY, funnel, **settings)
    v = np.asarray(result.draws["v"])
    return 1000 * float(inference.ess_bulk(v)) / np.sum(result.stats["num_steps"]), v


@pytest.mark.quick_rows("Structured")
@pytest.mark.parametrize("name", ["Structured", "InverseAutoregressive"])
def test_funnels_become_straight(name):
    guide = Structured("v") if name == "Structured" else InverseAutoregressive()
    started = svi(KEY, funnel, guide=guide, num_steps=5000)
    straight, v = effort(init=started, transport=True)
    assert abs(v.mean()) < 5 * float(inference.mcse_mean(v))
    assert abs(v.std() - 3.0) < 5 * float(inference.mcse_sd(v))
    own = effort(learn_centering=False)[0]
    assert straight > 3 * own  # ten times and more, mostly


def switching(key, x):
    mean = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="mean")
    which = ppl.sample(key, dist.Bernoulli(probs=0.4 * jnp.ones(4)), name="which")
    ppl.sample(key, dist.Normal(mean[which], 1.0), name="y")
    return ppl.sample(key, dist.Normal(mean[0] * x, 1.0), name="z")


def test_sums_and_missing_data_are_transported():
    y = jnp.array([0.2, jnp.nan, 1.0, -0.3])
    data = {"z": ppl.impute(y), "y": jnp.zeros(4)}
    posterior = ppl.marginalize(ppl.condition(switching, data), ["which"])
    posterior = ppl.reparam(posterior, {"mean": ppl.NonCentered()})
    x = np.ones(4, np.float32)
    started = svi(KEY, posterior, x, num_steps=300)
    result = mcmc(KEY, posterior, x, init=started, transport=True, num_draws=500, num_warmup=300)
    usual = mcmc(KEY, posterior, x, num_draws=500, num_warmup=300)
    assert result.draws.keys() == usual.draws.keys()
    for name in ("mean", "z"):
        found, expected = (np.asarray(r.draws[name]).reshape(2000, -1) for r in (result, usual))
        np.testing.assert_allclose(found.mean(0), expected.mean(0), atol=0.4)
    np.testing.assert_allclose(
        np.mean(result.stats["log_density"]), np.mean(usual.stats["log_density"]), atol=0.5
    )


KERNELS = {
    "HMC": (HMC(num_steps=4), 2),
    "WALNUTS": (WALNUTS(), 2),
    "ChEES": (ChEES(), 32),
    "MEADS": (MEADS(), 64),
    "AdjustedMCLMC": (AdjustedMCLMC(), 32),
}


@pytest.mark.quick_rows("WALNUTS", "ChEES")
@pytest.mark.parametrize("name", KERNELS)
def test_any_kernel_is_transported(name):
    kernel, num_chains = KERNELS[name]
    result = run(kernel=kernel, num_chains=num_chains, num_warmup=100, num_draws=100)
    mu = np.asarray(result.draws["mu"])
    exact = np.asarray(mcmc(KEY, POSTERIOR, np.ones(2, np.float32)).draws["mu"])
    assert abs(mu.mean() - exact.mean()) < 0.3
    assert 0.6 < mu.std() / exact.std() < 1.6
    target = ppl.unconstrain(POSTERIOR, np.ones(2, np.float32))
    latent = jax.tree.map(lambda x: x[0, -1], {k: result.draws[k] for k in ("mu", "part")})
    expected = target.log_density(target.initial(KEY, latent))
    np.testing.assert_allclose(result.stats["log_density"][0, -1], expected, rtol=1e-3)


def test_results_serve_as_those_of_other_chains(tmp_path):
    mesh = jax.make_mesh((1,), ("chains",))
    result = run(until=Until(mcse={"mu": 10.0}), num_draws=2000, mesh=mesh)
    assert "all criteria of until hold" in str(result.summary())
    estimate = loo(
        result, POSTERIOR, np.ones(2, np.float32), refit=-np.inf, num_chains=2, num_draws=200
    )
    assert np.isfinite(estimate.elpd)
    result.save(tmp_path / "result.npz")
    loaded = MCMCResult.load(tmp_path / "result.npz")
    assert loaded.facts.transport == "FullRank"


def test_a_saved_fit_transports_as_before(tmp_path):
    fit().save(tmp_path / "fit.npz")
    result = run(SVIResult.load(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(result.draws["mu"], run().draws["mu"])
    curved = run(laplace(KEY, POSTERIOR, np.ones(2, np.float32)))
    assert curved.facts.transport


def test_runs_go_on_with_their_fit(tmp_path):
    whole = run(num_draws=60)
    first = run(num_draws=25, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(first.draws["mu"], whole.draws["mu"][:, :25])
    again = run(num_draws=40, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(again.draws["mu"], whole.draws["mu"][:, :40])
    data = POSTERIOR, np.ones(2, np.float32)
    others = [resume(tmp_path / "run", *data, num_draws=60, init=fit())]
    part = run(num_draws=25)
    part.save(tmp_path / "part.npz")
    part = MCMCResult.load(tmp_path / "part.npz")
    others += [resume(part, *data, num_draws=60, init=fit())]
    others += [resume(others[-1], *data, num_draws=60, init=fit())]
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, other.draws, whole.draws)
        jax.tree.map(np.testing.assert_array_equal, other.stats, whole.stats)
    for there in (tmp_path / "run", part):
        with pytest.raises(ValueError, match=r"give it again, resume\(\.\.\., init=fit\)"):
            resume(there, *data, num_draws=80)
        with pytest.raises(ValueError, match="init: the run had a fit of hash"):
            resume(there, *data, num_draws=80, init=fit(num_steps=2))
    with pytest.raises(ValueError, match="init: the run has"):
        run(fit(num_steps=2), checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="init is for a run with transport=True"):
        resume(run(transport=False), *data, num_draws=80, init=fit())
    with pytest.raises(ValueError, match="transport: the call has none"):
        run(transport=False, checkpoint=tmp_path / "run")


def other_model(key, x):
    return ppl.sample(key, dist.Normal(0.0, 1.0), name="mu") * x


def longer(key, x):
    return ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="y")


@pytest.mark.parametrize("guide", [LowRank(1), PointMass(), BySite({"mu": FullRank()})])
def test_guides_without_a_map_are_refused(guide, tmp_path):
    started = svi(KEY, POSTERIOR, np.ones(2, np.float32), guide=guide, num_steps=2, num_draws=4)
    with pytest.raises(ValueError, match=rf"FullRank.*a fit of {type(guide).__name__}"):
        run(started, checkpoint=tmp_path / "run")
    run(fit(), checkpoint=tmp_path / "run")  # the folder is still free


def test_wrong_fits_are_refused():
    for init in ("uniform", {"mu": 0.0}, optimize(KEY, POSTERIOR, np.ones(2, np.float32))):
        with pytest.raises(TypeError, match=r"transport=True needs init=fit.*got init="):
            mcmc(KEY, POSTERIOR, np.ones(2, np.float32), init=init, transport=True)
    with pytest.raises(TypeError, match="transport must be True or False, got 'yes'"):
        run(transport="yes")
    with pytest.raises(ValueError, match="init is a SVIResult of another model"):
        mcmc(KEY, other_model, np.ones(2, np.float32), init=fit(), transport=True)
    x = np.ones(3, np.float32)
    few, more = (
        ppl.condition(longer, {"y": ppl.impute(np.array(y))})
        for y in ([1, np.nan, 2], [1, np.nan, np.nan])
    )
    started = svi(KEY, few, x, num_steps=2, num_draws=4)
    with pytest.raises(ValueError, match=r"a fit to 1 unconstrained coordinates, .* has 2: fit it"):
        mcmc(KEY, more, x, init=started, transport=True)


def test_functions_are_no_maps():
    def guide(key):
        loc = ppl.param(0.0, name="loc")
        return ppl.sample(key, dist.Normal(loc, 1.0), name="x")

    def simple(key):
        return ppl.sample(key, dist.Normal(0.0, 1.0), name="x")

    started = svi(KEY, simple, guide=guide, num_steps=2, num_draws=4)
    with pytest.raises(ValueError, match=r"transport=True needs a guide that maps .* fit of guide"):
        mcmc(KEY, simple, init=started, transport=True)
