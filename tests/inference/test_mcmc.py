"""mcmc on whole models: exact posteriors, compilation, chunks and what it refuses."""

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import HMC, NUTS, ess_tail, mcmc
from inference.chains import sampling
from inference.common.matrices import (
    MAX_DENSE_SIZE,
    MAX_LOW_RANK_SIZE,
    RANK,
    LowRankMatrix,
    expand_diagonal,
)
from inference.runtime.compiled_program import compile_program
from tests.inference.regression import DESIGN, Y, design, posterior
from tests.inference.targets import FakeTarget

# Below this many of its standard errors, each of some forty estimates stays at a two-sided failure
# rate of 2e-5.
Z = 4.3


def exact_posterior():
    covariance = np.linalg.inv(DESIGN.T @ DESIGN + np.eye(3) / 4)
    return covariance @ DESIGN.T @ Y, covariance


QUICK = {"num_warmup": 300, "num_draws": 50, "num_chains": 2}


MATRIX = NUTS(inverse_mass_matrix=np.eye(3, dtype=np.float32))


@pytest.mark.quick_rows("NUTS", "HMC")
@pytest.mark.parametrize(
    ("dtype", "settings"),
    [
        ("float32", {}),
        pytest.param("float64", {}, marks=pytest.mark.slow),
        ("float64", {"mass_matrix": "diagonal"}),
        ("float32", {"mass_matrix": "low_rank"}),
        pytest.param("float32", {"mass_matrix": "dense", "kernel": MATRIX}, marks=pytest.mark.slow),
        ("float32", {"kernel": HMC(num_steps=7)}),
    ],
    ids=["NUTS", "NUTS in float64", "diagonal", "low rank", "dense from a matrix", "HMC"],
)
def test_posterior_of_a_linear_regression(dtype, settings):
    with jax.enable_x64(dtype == "float64"):
        check_posterior(dtype, settings)


@pytest.mark.parametrize(("kernel", "mixes"), [(HMC(), True), (HMC(step_size_jitter=0.0), False)])
def test_hmc_keeps_off_periods_of_the_density(kernel, mixes):
    """A matrix that is well learned lets all coordinates return at once, and scales hardly mix."""

    def model(key):
        ppl.sample(key, dist.Normal(jnp.zeros(10), 1.0), name="x")

    draws = mcmc(jax.random.key(1), model, kernel=kernel).draws["x"]
    assert (ess_tail(draws).min() > 1200) == mixes


def check_posterior(dtype, settings):
    result = mcmc(jax.random.key(0), posterior(), design(), num_draws=2000, **settings)
    draws, summary = result.draws["w"], result.summary()
    mean, covariance = exact_posterior()
    sd = np.sqrt(np.diag(covariance))
    assert draws.shape == (4, 2000, 3)
    assert draws.dtype == dtype
    assert np.all(np.abs(summary.mean - mean) < Z * summary.mcse_mean)
    # The standard error of a normal sample's standard deviation is sd / sqrt(2 ESS of the squares).
    np.testing.assert_allclose(summary.sd / sd, 1.0, rtol=0, atol=0.06)
    correlation = np.corrcoef(draws.reshape(-1, 3).T)
    np.testing.assert_allclose(correlation, covariance / np.outer(sd, sd), atol=0.06)
    assert summary.problems == ()


def test_stats_describe_every_transition():
    result = mcmc(jax.random.key(1), posterior(), design(), **QUICK)
    stats = result.stats
    assert {name: x.shape for name, x in stats.items()} == dict.fromkeys(stats, (2, 50))
    assert {"acceptance_rate", "is_divergent", "energy", "num_steps", "depth"} < set(stats)
    target = ppl.unconstrain(posterior(), design())
    expected = jax.vmap(jax.vmap(target.log_density))(result.draws)
    np.testing.assert_allclose(stats["log_density"], expected, rtol=1e-5)
    assert np.all(stats["step_size"] == stats["step_size"][:, :1])  # warm-up is over
    assert result.inverse_mass_matrix.shape == (2, 3, 3)
    assert 0.6 < np.mean(stats["acceptance_rate"]) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "num_sites", "shape"),
    [
        (NUTS(), MAX_DENSE_SIZE, (MAX_DENSE_SIZE, MAX_DENSE_SIZE)),
        (NUTS(), MAX_DENSE_SIZE + 1, "low rank"),
        (NUTS(), MAX_LOW_RANK_SIZE + 1, (MAX_LOW_RANK_SIZE + 1,)),
        (
            NUTS(inverse_mass_matrix=expand_diagonal(np.ones(5, np.float32), "low_rank")),
            5,
            "low rank",
        ),
        (NUTS(inverse_mass_matrix=jnp.ones(2)), 2, (2,)),
        (NUTS(inverse_mass_matrix=jnp.eye(120)), 120, (120, 120)),
    ],
)
def test_the_kind_of_mass_matrix_follows_from_the_size(kernel, num_sites, shape):
    def model(key):
        return ppl.sample(key, dist.Normal(jnp.zeros(num_sites), 1.0), name="x")

    settings = QUICK | {"num_warmup": 30, "num_draws": 5}
    result = mcmc(jax.random.key(0), model, kernel=kernel, **settings)
    found = jax.tree.map(np.shape, result.inverse_mass_matrix)
    rank = min(RANK, num_sites)
    low_rank = LowRankMatrix((2, num_sites), (2, rank, num_sites), (2, rank))
    assert found == (low_rank if shape == "low rank" else (2, *shape))


@pytest.mark.quick_rows("no warm-up")
@pytest.mark.parametrize(
    ("num_warmup", "kernel", "expected"),
    [
        (1, NUTS(), np.diag([0.1, 1.0])),
        (0, NUTS(), np.eye(2)),
        (1, NUTS(inverse_mass_matrix=jnp.array([2.0, 3.0])), np.array([2.0, 3.0])),
    ],
    ids=["guessed", "no warm-up", "given"],
)
def test_a_short_warm_up_leaves_the_first_mass_matrix(num_warmup, kernel, expected):
    def model(key):
        ppl.sample(key, dist.Normal(jnp.zeros(2), jnp.array([0.1, 10.0])), name="x")

    settings = {"num_warmup": num_warmup, "num_draws": 2, "kernel": kernel}
    result = mcmc(jax.random.key(0), model, init={"x": np.ones(2)}, **settings)
    np.testing.assert_allclose(result.inverse_mass_matrix, [expected] * 4, rtol=1e-6)


def test_sites_are_constrained_and_scopes_nested():
    def part(key):
        return ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def model(key):
        scale = ppl.nest(part, scope="part")(key)
        ppl.sample(key, dist.Normal(jnp.zeros((2, 3)), scale), name="x")

    result = mcmc(jax.random.key(0), model, num_warmup=300, num_draws=50)
    assert jax.tree.map(np.shape, result.draws) == {"part": {"scale": (4, 50)}, "x": (4, 50, 2, 3)}
    assert np.all(result.draws["part"]["scale"] > 0)
    assert result.summary().names[:2] == ("part.scale", "x[0,0]")


def test_a_density_is_traced_once_and_never_again():
    """For the start, the warm-up and all draws together; its values once."""
    traces = collections.Counter()

    def density(x, data):
        traces["density"] += 1
        return -0.5 * jnp.sum((x - data) ** 2)

    class Counted(FakeTarget):
        def constrain(self, position):
            traces["constrain"] += 1
            return super().constrain(position)

    jax.tree_util.register_dataclass(Counted)
    settings = QUICK | {"mass_matrix": "diagonal", "target_acceptance_rate": 0.8}

    def run(seed, data, kernel=NUTS(), **changes):
        target = Counted(density, (2,), jnp.float32(data))
        return sampling.sample(jax.random.key(seed), target, kernel, **settings | changes)

    run(0, 1.0)
    assert traces == {"density": 1, "constrain": 1}
    run(1, 2.0)
    run(2, 2.0, num_warmup=120, num_draws=333)
    run(3, 2.0, NUTS(step_size=0.3), target_acceptance_rate=0.9)
    assert traces == {"density": 1, "constrain": 1}


def test_new_data_compile_nothing():
    mcmc(jax.random.key(0), posterior(), design(), **QUICK)
    sizes = compile_program.cache_info().misses
    mcmc(jax.random.key(1), posterior(Y + 1), design() + 1, **QUICK | {"num_draws": 20})
    assert compile_program.cache_info().misses == sizes


class Elsewhere:
    """A model that reads numbers beside its arguments, as one in a notebook does."""

    def __init__(self, loc, data):
        self.loc, self.data = loc, data

    def __call__(self, key):
        mu = ppl.sample(key, dist.Normal(self.loc, 1.0), name="mu")
        ppl.factor(-0.5 * jnp.sum((mu - self.data) ** 2), name="data")
        shift = self.loc / 4  # in a function that is made anew each time, but a like one
        ppl.sample(key, dist.Custom(lambda x: -0.5 * (x - shift) ** 2), name="custom")


@pytest.mark.slow
def test_what_a_model_reads_elsewhere_may_change():
    def means():
        draws = mcmc(jax.random.key(0), model, **QUICK).draws
        return [draws["mu"].mean(), draws["custom"].mean()]

    model = Elsewhere(0.0, np.zeros(3, np.float32))
    found, misses = [means()], compile_program.cache_info().misses
    found.append(means())
    assert compile_program.cache_info().misses == misses
    model.loc = 40.0
    found.append(means())
    model.data[:] = -20.0
    found.append(means())
    np.testing.assert_allclose(found, [[0, 0], [0, 0], [10, 10], [-5, 10]], atol=0.3)


@pytest.mark.slow
def test_draws_depend_on_neither_chunks_nor_the_number_of_draws(monkeypatch):
    whole = mcmc(jax.random.key(2), posterior(), design(), **QUICK)
    more = mcmc(jax.random.key(2), posterior(), design(), **QUICK | {"num_draws": 61})
    monkeypatch.setattr(sampling, "CALL_SECONDS", 0.0)  # ever smaller chunks
    pieces = mcmc(jax.random.key(2), posterior(), design(), **QUICK)
    jax.tree.map(np.testing.assert_array_equal, whole, pieces)
    np.testing.assert_array_equal(whole.draws["w"], more.draws["w"][:, :50])


@pytest.mark.slow
def test_a_chain_does_not_depend_on_the_others(x64):
    two = mcmc(jax.random.key(2), posterior(), design(), **QUICK | {"num_warmup": 20})
    five = mcmc(
        jax.random.key(2), posterior(), design(), **QUICK | {"num_warmup": 20, "num_chains": 5}
    )
    # Other vector instructions round otherwise, and chaos makes that grow: in float64 not to 1e-6.
    np.testing.assert_allclose(two.draws["w"][:, :2], five.draws["w"][:2, :2], rtol=1e-6)
    assert not np.allclose(five.draws["w"][0], five.draws["w"][1])


def test_a_precise_angle_beside_the_cut_of_the_circle():
    """A von Mises posterior by conjugacy; where points may come near the origin, many diverge."""
    angles = np.random.default_rng(0).vonmises(3.1, 40.0, 60)

    def model(key):
        mu = ppl.sample(key, dist.VonMises(0.0, 1e-6), name="mu")
        ppl.sample(key, dist.VonMises(jnp.full(60, mu), 40.0), name="y")

    posterior = ppl.condition(model, {"y": jnp.asarray(angles, jnp.float32)})
    result = mcmc(jax.random.key(0), ppl.reparam(posterior, {"mu": ppl.Circular()}))
    assert result.stats["is_divergent"].mean() < 0.01
    resultant = np.exp(1j * angles).sum()
    beside = np.angle(np.exp(1j * result.draws["mu"]) / resultant)
    sd = (40 * np.abs(resultant)) ** -0.5
    assert abs(beside.mean()) < 4 * sd / np.sqrt(1000)
    np.testing.assert_allclose(beside.std(), sd, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sites_of_half_precision_keep_their_dtype(dtype):
    half = jnp.dtype(dtype).type

    def model(key):
        mu = ppl.sample(key, dist.Normal(half(0), half(1)), name="mu")
        ppl.sample(key, dist.Normal(mu, half(1)), name="y")

    mu = mcmc(jax.random.key(0), ppl.condition(model, {"y": half(2)})).draws["mu"]
    assert mu.dtype == dtype
    np.testing.assert_allclose(mu.astype(float).mean(), 1, atol=0.1)
    np.testing.assert_allclose(mu.astype(float).std(), 0.5**0.5, rtol=0.1)


def test_legacy_keys_draw_the_same():
    typed = mcmc(jax.random.key(5), posterior(), design(), **QUICK)
    legacy = mcmc(jax.random.PRNGKey(5), posterior(), design(), **QUICK)
    jax.tree.map(np.testing.assert_array_equal, typed.draws, legacy.draws)


def test_without_warm_up_the_kernel_stays_as_it_is():
    kernel = NUTS(step_size=0.2, inverse_mass_matrix=jnp.array([0.5, 1.0, 0.25]))
    result = mcmc(
        jax.random.key(0), posterior(), design(), kernel=kernel, **QUICK | {"num_warmup": 0}
    )
    np.testing.assert_allclose(result.stats["step_size"], 0.2)
    np.testing.assert_allclose(result.inverse_mass_matrix, [[0.5, 1.0, 0.25]] * 2)


def test_a_higher_target_acceptance_rate_gives_a_higher_one():
    """In three dimensions the averaged step size accepts more than asked: .80 to .86 for .6."""
    settings = QUICK | {"num_warmup": 600, "num_draws": 300}
    rates = [
        np.mean(
            mcmc(
                jax.random.key(0), posterior(), design(), target_acceptance_rate=target, **settings
            ).stats["acceptance_rate"]
        )
        for target in (0.6, 0.95)
    ]
    assert rates[0] < 0.9 < 0.94 < rates[1]


def test_progress_bar(capsys):
    mcmc(jax.random.key(0), posterior(), design(), progress=True, **QUICK)
    line = r"draws, 350 of 350 iterations after \d+ s, step size \S+, \d+ divergences?\n"
    assert re.fullmatch(line, capsys.readouterr().err)


@pytest.mark.slow
def test_an_observation_outside_of_the_support_is_named():
    def model(key):
        rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
        ppl.sample(key, dist.Exponential(rate), name="wait")

    with pytest.raises(ValueError, match="site 'wait' has log probability -inf"):
        mcmc(jax.random.key(0), ppl.condition(model, {"wait": -1.0}), **QUICK)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"num_chains": 0}, ValueError, "num_chains must be an integer of at least 1, got 0"),
        ({"num_draws": 0}, ValueError, "num_draws must be an integer of at least 1, got 0"),
        ({"num_warmup": -1}, ValueError, "num_warmup must be an integer of at least 0, got -1"),
        ({"num_draws": 2**31}, ValueError, "num_draws must be an integer of at most 1073741823"),
        ({"num_warmup": 2**40}, ValueError, "num_warmup must be an integer of at most 1073741823"),
        ({"num_draws": 10.0}, TypeError, "num_draws must be an integer, got 10.0"),
        ({"num_chains": True}, ValueError, "num_chains must be an integer of at least 1, got True"),
        (
            {"mass_matrix": "full"},
            ValueError,
            "must be one of 'auto', 'diagonal', 'low_rank', 'dense', or a list of tuples",
        ),
        ({"mass_matrix": ["dense"]}, ValueError, "must be one of 'auto', 'diagonal', 'low_rank'"),
        ({"cache_dir": 3}, TypeError, "cache_dir must be the path of a directory, got 3"),
        ({"target_acceptance_rate": 80}, ValueError, "must lie between 0 and 1, got 80"),
        ({"target_acceptance_rate": "0.9"}, TypeError, "must lie between 0 and 1, got '0.9'"),
        ({"target_acceptance_rate": [0.8]}, TypeError, "must lie between 0 and 1, got [0.8]"),
        ({"kernel": NUTS}, TypeError, "did you mean NUTS()?"),
        ({"kernel": "NUTS"}, TypeError, "kernel must be a kernel such as NUTS(), got 'NUTS'"),
        ({"kernel": NUTS(step_size=jnp.ones(4))}, ValueError, "step_size must be a scalar"),
        (
            {"kernel": NUTS(step_size=-0.1)},
            ValueError,
            "step_size must be a positive, finite number",
        ),
        (
            {"kernel": NUTS(step_size=True)},
            TypeError,
            "step_size must be a positive, finite number",
        ),
        ({"kernel": HMC(step_size_jitter=1.5)}, ValueError, "jitter must be a number in [0, 1)"),
        (
            {"kernel": NUTS(inverse_mass_matrix=np.tri(3))},
            ValueError,
            "inverse_mass_matrix must be symmetric",
        ),
        ({"kernel": NUTS(jnp.sum)}, ValueError, "kernel has a log density of its own"),
        ({"kernel": NUTS(inverse_mass_factor=np.ones(3))}, ValueError, "pass the matrix"),
        (
            {"kernel": NUTS(inverse_mass_matrix=jnp.eye(3)), "mass_matrix": "diagonal"},
            ValueError,
            "pass mass_matrix='dense', or a vector",
        ),
        *(
            ({"kernel": NUTS(inverse_mass_matrix=x)}, ValueError, "must be finite and positive")
            for x in (
                np.array([1.0, -1.0, 1.0]),
                np.array([1.0, np.nan, 1.0]),
                np.ones((3, 3)) - 2 * np.eye(3),
                LowRankMatrix(np.ones(3), np.eye(1, 3), -np.ones(1)),
                LowRankMatrix(np.ones(3), np.full((1, 3), np.nan), np.ones(1)),
            )
        ),
        (
            {"kernel": NUTS(inverse_mass_matrix=jnp.ones(2))},
            ValueError,
            "inverse_mass_matrix has shape (2,); the position has 3 elements",
        ),
    ],
)
def test_what_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=re.escape(message)):
        mcmc(jax.random.key(0), posterior(), design(), **settings)


@pytest.mark.parametrize("key", [0, np.zeros(3), jax.random.split(jax.random.key(0))])
def test_a_key_is_asked_for(key):
    with pytest.raises(TypeError, match="key must be one key"):
        mcmc(key, posterior(), design())
