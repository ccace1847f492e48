"""HMC with energy conserving subsampling: exact where expansions are, else near NUTS."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import distributions as dist
import inference
import ppl
from inference import NUTS, SubsampledHMC, mcmc
from inference.common.layout import Layout

Z = 4.3  # of ten statistics, one is beyond by chance in a run of 6,000

rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 2)).astype(np.float32)
Y = (X @ np.array([0.5, -1.0]) + rng.normal(size=2000)).astype(np.float32)
CLICKS = (rng.uniform(size=2000) < 1 / (1 + np.exp(-3 * X[:, 0] + X[:, 1]))).astype(np.int32)


def regression(key, x):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
    ppl.sample(key, dist.Normal(x @ w, 1.0), name="y")


def clicks(key, x):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
    ppl.sample(key, dist.Bernoulli(logits=x @ w), name="y")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Unscaled(SubsampledHMC):
    """Kernel whose expansions leave out the Hessian of all rows."""

    def estimate_of(self, layout, expansion):
        none = expansion._replace(hessian=expansion.hessian / 2)
        return super().estimate_of(layout, none)


def scores(kernel):
    result = mcmc(
        random.key(0), ppl.condition(regression, {"y": Y}), X, kernel=kernel, num_warmup=50
    )
    x = X.astype(np.float64)
    precision = np.eye(2) / 4 + x.T @ x
    mean = np.linalg.solve(precision, x.T @ Y)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    z = (np.asarray(result.draws["w"], np.float64) - mean) / sd
    found = [y.mean() / inference.mcse_mean(y) for i in (0, 1) for y in (z[..., i],)]
    found += [(y**2 - 1).mean() / inference.mcse_mean(y**2) for y in (z[..., 0], z[..., 1])]
    return np.abs(found), result


def test_a_normal_posterior_is_exact():
    found, result = scores(SubsampledHMC(batch_size=21))
    assert np.all(found < Z)
    assert np.mean(result.stats["acceptance_rate"]) > 0.6
    assert np.max(result.stats["estimate_variance"]) < 0.05
    assert "posterior perturbed" in str(result.summary())


def test_an_expansion_that_is_wrong_is_found_out():
    assert np.max(scores(Unscaled(batch_size=20))[0]) > 2 * Z


@pytest.mark.slow
def test_logistic_regression_agrees_with_nuts():
    posterior = ppl.condition(clicks, {"y": CLICKS})
    kernels = SubsampledHMC(batch_size=100), NUTS()
    ours, exact = (
        mcmc(random.key(1), posterior, X, kernel=kernel, num_draws=4000) for kernel in kernels
    )
    assert np.mean(ours.stats["estimate_variance"]) < 1
    assert np.mean(ours.stats["row_acceptance_rate"]) > 0.5
    for i in (0, 1):
        for power in (1, 2):
            mean = exact.draws["w"][..., i].mean()
            a, b = ((x.draws["w"][..., i] - mean) ** power for x in (ours, exact))
            error = np.hypot(inference.mcse_mean(a), inference.mcse_mean(b))
            assert abs(a.mean() - b.mean()) < Z * error


def test_rows_are_drawn_evenly_and_bad_settings_refused():
    kernel = SubsampledHMC(data=jnp.zeros(8), batch_size=4, num_blocks=2)
    keys = random.split(random.key(0), 4000)
    exchanged = jax.vmap(kernel._exchange, (0, None))(keys, jnp.full(4, -1, jnp.int32))
    assert np.all(np.sum(exchanged >= 0, 1) == 2)
    counts = np.bincount(np.asarray(exchanged)[exchanged >= 0], minlength=8)
    assert np.all(np.abs(counts - 1000) < Z * np.sqrt(1000))
    with pytest.raises(ValueError, match="num_blocks of SubsampledHMC"):
        SubsampledHMC(batch_size=4, num_blocks=5)
    with pytest.raises(ValueError, match="has no log_prior"):
        SubsampledHMC().init(1.0)


def test_changes_of_the_estimate_survive_a_million_rows():
    """The log likelihood itself is known to 0.1 in float32."""
    number = 2**20
    data = jnp.asarray(np.random.default_rng(1).normal(size=number), jnp.float32)

    def log_likelihood(mu, rows):
        return jnp.sum(-0.5 * (rows - mu) ** 2 - 1.0)

    kernel = SubsampledHMC(lambda mu: 0 * mu, log_likelihood, data, batch_size=1024, center=0.0)
    state = kernel.init(jnp.float32(0.0))
    estimate = kernel.estimate_of(Layout.of(state.position), state.expansion)
    places = np.arange(-8, 9) / 2**12
    found = jax.vmap(estimate, (0, None))(jnp.asarray(places, jnp.float32)[:, None], state.indices)
    exact = places * np.sum(np.asarray(data, np.float64)) - number * places**2 / 2
    np.testing.assert_allclose(found[0], exact, atol=0.02)


def scaled_clicks(key, x, num_rows):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")

    def rows(key):
        ppl.sample(key, dist.Bernoulli(logits=x @ w), name="y")

    ppl.scale(rows, num_rows / len(x))(key)


@pytest.mark.quick_rows("float64")
def test_a_model_that_scales_itself_is_taken_as_it_is(float_dtype):
    numbers = {"kernel": SubsampledHMC(batch_size=20), "num_warmup": 0, "num_draws": 3}
    x = jnp.asarray(X, float_dtype)
    first, again = (
        mcmc(random.key(0), ppl.condition(model, {"y": CLICKS}), x, *more, **numbers)
        for model, more in ((clicks, ()), (scaled_clicks, (2000,)))
    )
    assert first.draws["w"].dtype == float_dtype
    np.testing.assert_allclose(again.draws["w"], first.draws["w"], atol=1e-3)


def test_models_that_single_rows_do_not_fit_are_refused():
    def other(key, x):
        w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
        ppl.sample(key, dist.Normal(x @ w, 1.0 if len(x) > 1 else 2.0), name="y")

    kernel = SubsampledHMC(batch_size=20)
    with pytest.raises(ValueError, match="of one row each"):
        mcmc(random.key(0), ppl.condition(other, {"y": Y}), X, kernel=kernel)


def test_too_many_coordinates_are_refused():
    def wide(key, x):
        w = ppl.sample(key, dist.Normal(jnp.zeros(2001), 1.0), name="w")
        ppl.sample(key, dist.Normal(x[:, 0] * jnp.sum(w), 1.0), name="y")

    kernel = SubsampledHMC(covariance=np.ones(2001))
    with pytest.raises(ValueError, match="expansion of the log likelihood to second order"):
        mcmc(random.key(0), ppl.condition(wide, {"y": Y}), X, kernel=kernel)


def test_position_and_rows_have_the_law_that_is_stated():
    """Three rows whose expansions are poor: the perturbed posterior is summed over all batches."""
    data = jnp.array([-0.5, 0.3, 1.2])

    def log_prior(q):
        return -(q**2) / 2

    def log_likelihood(q, rows):
        return -0.1 * jnp.sum((rows - q) ** 4)

    kernel = SubsampledHMC(
        log_prior, log_likelihood, data, batch_size=2, covariance=jnp.full(1, 0.5), center=0.2
    )
    first = kernel.init(jnp.float32(0.2))
    keys = random.split(random.key(0), 4000)

    def run(key):
        def move(state, key):
            return kernel.step(key, state)[0], None

        return jax.lax.scan(move, first, random.split(key, 100))[0]

    last = jax.jit(jax.vmap(run))(keys)
    q = np.linspace(-4, 4, 2001)
    rests = []
    for row in np.asarray(data, np.float64):
        u = row - 0.2
        expansion = -0.1 * (u**4 - 4 * u**3 * (q - 0.2) + 6 * u**2 * (q - 0.2) ** 2)
        rests.append((-0.1 * (row - q) ** 4 - expansion, expansion))
    whole = -(q**2) / 2 + sum(expansion for _, expansion in rests)
    pairs = [(a, b) for a in range(3) for b in range(3)]
    log_density = np.array(
        [
            whole
            + 3 * (rests[a][0] + rests[b][0]) / 2
            - 9 / 4 * (rests[a][0] - rests[b][0]) ** 2 / 2
            for a, b in pairs
        ]
    )
    mass = np.exp(log_density - log_density.max())
    mass /= mass.sum()
    mean = np.sum(mass * q)
    variance = np.sum(mass * (q - mean) ** 2)
    spread = np.sum(mass * ((q - mean) ** 2 - variance) ** 2)
    draws = np.asarray(last.position, np.float64)
    assert abs(draws.mean() - mean) < Z * np.sqrt(variance / len(keys))
    assert abs(np.mean((draws - mean) ** 2) - variance) < Z * np.sqrt(spread / len(keys))
    found = np.bincount(3 * last.indices[:, 0] + last.indices[:, 1], minlength=9)
    expected = mass.sum(1)
    error = np.sqrt(expected * (1 - expected) * len(keys))
    assert np.all(np.abs(found - expected * len(keys)) < Z * error)
    assert np.ptp(expected) > 0.02
