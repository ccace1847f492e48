"""mcmc with kernels that adapt over chains: exact moments, superchains, devices, one's own."""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy import stats as st

import distributions as dist
import ppl
from inference import (
    MEADS,
    AdjustedMCLMC,
    AffineInvariant,
    ChEES,
    MCMCResult,
    mcmc,
    mcse_mean,
    nested_rhat,
)
from inference.chains.ensemble_sampling import num_superchains
from ppl.harvest.pytrees import register_dataclass

Z = 4.5  # of some tens of estimates, one is beyond by chance in a run of some thousand
KERNELS = {"ChEES": ChEES(), "AdjustedMCLMC": AdjustedMCLMC(), "MEADS": MEADS()}
COVARIANCE = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 400.0]])
MEAN = np.array([1.0, 2.0, 30.0])
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def gaussian(key, precision):
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1000.0), name="x")
    gap = x - jnp.asarray(MEAN, x.dtype)
    ppl.factor(-0.5 * gap @ precision @ gap + 0.5 * jnp.sum((x / 1000.0) ** 2), name="density")


def schools(key, errors):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    ppl.sample(key, dist.Normal(mu + tau * z, errors), name="y")


def exact_schools():
    """Means of `mu` and `tau`, and their standard deviations, with all else integrated out."""
    t = (np.arange(4000) + 0.5) / 4000
    tau = 5 * np.tan(np.pi * t / 2)  # quantiles of the prior
    variances = ERRORS**2 + tau[:, None] ** 2
    precision = 1 / 25 + np.sum(1 / variances, 1)
    mean = np.sum(EFFECTS / variances, 1) / precision
    log_weight = 0.5 * (
        precision * mean**2
        - np.sum(EFFECTS**2 / variances + np.log(variances), 1)
        - np.log(precision)
    )
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mu, of_tau = weight @ mean, weight @ tau
    sd_mu = np.sqrt(weight @ (1 / precision + mean**2) - mu**2)
    return {"mu": (mu, sd_mu), "tau": (of_tau, np.sqrt(weight @ tau**2 - of_tau**2))}


def z_scores(draws, mean, sd):
    """Errors of the mean and of the variance in standard errors."""
    squares = (draws - mean) ** 2
    return [
        (draws.mean((0, 1)) - mean) / mcse_mean(draws),
        (squares.mean((0, 1)) - sd**2) / mcse_mean(squares),
    ]


def run(kernel, model=gaussian, argument=None, **settings):
    argument = np.linalg.inv(COVARIANCE).astype(float) if argument is None else argument
    settings = {"num_chains": 64, "num_warmup": 200, "num_draws": 50} | settings
    return mcmc(jax.random.key(0), model, jnp.asarray(argument), kernel=kernel, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_eight_schools_have_their_exact_moments(name):
    posterior = ppl.condition(schools, {"y": jnp.asarray(EFFECTS)})
    settings = {"num_chains": 128, "num_warmup": 500, "num_draws": 200}
    result = run(KERNELS[name], posterior, ERRORS, **settings)
    for site, (mean, sd) in exact_schools().items():
        z = z_scores(np.asarray(result.draws[site], np.float64), mean, sd)
        assert np.max(np.abs(z[0])) < Z
        assert np.abs(result.draws[site].std() / sd - 1) < 0.1
    assert not [x for x in result.summary().problems if "diverged" not in x]


@pytest.mark.slow
def test_exact_moments_of_eight_schools_are_by_quadrature():
    def density(mu, tau):
        likelihood = st.norm.pdf(EFFECTS, mu, np.hypot(ERRORS, tau)).prod()
        return likelihood * st.norm.pdf(mu, 0, 5) / (1 + (tau / 5) ** 2) * 1e12

    moments = [
        integrate.dblquad(lambda mu, tau, f=f: f(tau) * density(mu, tau), 0, 60, -20, 25)[0]
        for f in (lambda _: 1.0, lambda tau: tau)
    ]
    assert abs(moments[1] / moments[0] - exact_schools()["tau"][0]) < 0.05


@pytest.mark.quick_rows("ChEES")
@pytest.mark.parametrize("name", KERNELS)
def test_a_correlated_gaussian_has_its_moments_and_superchains(name):
    result = run(KERNELS[name], num_draws=100 if name == "ChEES" else 300)
    z = z_scores(np.asarray(result.draws["x"], np.float64), MEAN, np.sqrt(np.diag(COVARIANCE)))
    assert np.max(np.abs(z)) < Z
    assert not np.any(result.stats["is_divergent"])
    assert {"acceptance_rate", "num_steps", "step_size", "log_density"} <= set(result.stats)
    summary = result.summary()
    assert not summary.problems
    assert "R-hat nested, of 16 superchains" in str(summary)
    np.testing.assert_array_equal(summary.rhat, nested_rhat(result.draws["x"], 16))
    fewer = jax.tree.map(lambda x: x[1:], result)  # superchains are known no more
    assert "nested" not in str(fewer.summary())
    assert not any("ESS" in x for x in fewer.summary().problems)  # 400 are asked for, as before


def test_given_starts_have_no_superchains_and_names_few():
    assert [num_superchains(ChEES(), "uniform", n) for n in (4, 31, 32, 64, 100, 1024)] == [
        None,
        None,
        8,
        16,
        10,
        16,
    ]
    assert num_superchains(ChEES(), {"x": np.zeros((64, 3))}, 64) is None
    assert num_superchains(AffineInvariant(), "uniform", 64) is None


def test_chains_not_warmed_up_are_seen_by_nested_rhat():
    result = run(ChEES(step_size=1e-3, max_num_steps=1), num_warmup=0, num_draws=4, num_chains=32)
    (words,) = [x for x in result.summary().problems if "R-hat" in x]
    assert "Nested R-hat exceeds 1.12" in words
    assert "have not forgotten the starts" in words


@pytest.mark.slow
def test_devices_of_a_mesh_work_together():
    """Means over chains are of all devices: draws are those of one device, up to rounding."""
    mesh = jax.make_mesh((4,), ("x",))
    settings = {"num_chains": 16, "num_warmup": 12, "num_draws": 3}
    for kernel in KERNELS.values():
        alone = run(kernel, **settings)
        together = run(kernel, mesh=mesh, **settings)
        np.testing.assert_allclose(together.draws["x"], alone.draws["x"], rtol=1e-2, atol=1e-2)


def test_arguments_of_other_kernels_are_refused_in_words(tmp_path):
    with pytest.raises(ValueError, match="ChEES adapts as its own fields say"):
        run(ChEES(), target_acceptance_rate=0.9)
    with pytest.raises(ValueError, match="mass_matrix is for kernels such as NUTS"):
        run(MEADS(), mass_matrix="dense")
    with pytest.raises(ValueError, match="needs 2 of them at least, got 1"):
        run(ChEES(), num_chains=1)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (ChEES(step_size=-1.0), "step_size must be a positive"),
        (ChEES(trajectory_length=np.inf), "trajectory_length must be a positive"),
        (ChEES(target_acceptance_rate=1.5), "target_acceptance_rate must be a number between"),
        (AdjustedMCLMC(max_num_steps=0), "max_num_steps must be a number of at least 1"),
        (
            ChEES(inverse_mass_matrix=np.array([1.0, 1.0, 0.0])),
            r"positive, finite variances, got 0.0 at .* 2",
        ),
        (MEADS(step_size_factor=-1.0), "step_size_factor must be a positive"),
    ],
)
def test_settings_of_the_kernel_are_checked_by_mcmc(kernel, words):
    with pytest.raises(ValueError, match=words):
        run(kernel)


class Walkers(NamedTuple):
    position: Any
    log_density: jax.Array
    scale: jax.Array


class Walked(NamedTuple):
    acceptance_rate: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Walk:
    """Random walk whose scale all chains adapt together; `mistake` breaks the protocol."""

    log_density: Any = None
    mistake: str = dataclasses.field(default="", metadata={"static": True})
    moves_chains_together: ClassVar[bool] = True

    def init(self, position):
        values = jax.vmap(self.log_density)(position)
        return Walkers(position, values, jnp.ones((), values.dtype))

    def step(self, key, state):
        for_noise, for_choice = jax.random.split(key)
        x = state.position["x"]
        noise = state.scale * jax.random.normal(for_noise, x.shape, x.dtype)
        position = {"x": x + noise}
        value = jax.vmap(self.log_density)(position)
        rate = jnp.exp(jnp.minimum(value - state.log_density, 0))
        is_accepted = jax.random.uniform(for_choice, rate.shape, rate.dtype) < rate
        x = jnp.where(is_accepted[:, None], position["x"], x)
        new = Walkers({"x": x}, jnp.where(is_accepted, value, state.log_density), state.scale)
        return new, Walked(rate[:3] if self.mistake == "info" else rate)

    def adapt(self, state, info, iteration, num_warmup):
        scale = state.scale * jnp.exp(jnp.mean(info.acceptance_rate) - 0.3)
        if self.mistake == "adapt":
            scale = scale[None]
        return state._replace(scale=scale)


def test_a_kernel_of_ones_own_adapts_over_chains(tmp_path):
    def normal(key, scale):
        ppl.sample(key, dist.Normal(jnp.zeros(2), scale), name="x")

    settings = {"num_chains": 64, "num_warmup": 100, "num_draws": 200}
    result = run(Walk(), normal, 50.0, **settings)
    assert abs(np.mean(result.stats["acceptance_rate"]) - 0.3) < 0.1
    assert abs(np.std(result.draws["x"]) / 50 - 1) < 0.1
    result.save(tmp_path / "walk.npz")
    loaded = MCMCResult.load(tmp_path / "walk.npz")
    assert str(loaded.summary()) == str(result.summary())
    with pytest.raises(TypeError, match=r"Walk\.adapt must return a state like"):
        run(Walk(mistake="adapt"), normal, 50.0, **settings)
    with pytest.raises(TypeError, match=r"info of Walk\.step must be a NamedTuple of scalars, or"):
        run(Walk(mistake="info"), normal, 50.0, **settings)


def counts(key, x):
    slopes = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="slopes")
    ppl.sample(key, dist.Poisson(log_rate=x @ slopes), name="y")


@pytest.mark.slow_rows("optimum-ChEES", "uniform-AdjustedMCLMC", "uniform-MEADS", "optimum-MEADS")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("init", ["uniform", "optimum"])
def test_chains_arrive_from_starts_with_huge_gradients(name, init):
    """Covariates of scale 10: at uniform points, rates are beyond exp(30)."""
    rng = np.random.default_rng(0)
    x = (10 * rng.normal(size=(100, 3))).astype(np.float32)
    y = rng.poisson(np.exp(x @ [0.05, -0.1, 0.02])).astype(np.int32)
    posterior = ppl.condition(counts, {"y": y})
    result = run(KERNELS[name], posterior, x, init=init)
    assert np.median(result.stats["step_size"]) > 0.05
    assert np.min(result.stats["log_density"]) > np.max(result.stats["log_density"]) - 40
    assert np.max(result.summary().rhat) < 1.05
