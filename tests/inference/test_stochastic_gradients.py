"""SGLD and SGHMC: the laws that their steps leave invariant, and the bias that a summary tells."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy.linalg import solve_discrete_lyapunov

import distributions as dist
import inference
import ppl
from distributions import constraints
from inference import SGHMC, SGLD, SubsampledHMC, mcmc
from inference.drivers.subsampling import with_rows_of
from tests.distributions.test_compiled import compiled

# Of ten statistics, one is beyond by chance in a run of 6,000.
Z = 4.3
NUM_CHAINS = 4000
NUM_ROWS = 500
BATCH = 20
RATIOS = np.array([1.0, 0.5])  # covariance of the kernel over that of the posterior

rng = np.random.default_rng(0)
ROWS = rng.normal(3.0, [1.0, 2.0], (NUM_ROWS, 2))
# The posterior of two means, given rows of variance 1 and priors of variance 4.
PRECISION = 1 / 4 + NUM_ROWS
MEAN = ROWS.sum(0) / PRECISION
# Variance of the gradient of a batch, in units in which the covariance is the identity.
NOISE = NUM_ROWS**2 / BATCH * ROWS.var(0) / PRECISION


def log_prior(q):
    return -jnp.sum(q**2) / 8


def log_likelihood(q, rows):
    return -0.5 * jnp.sum((rows - q[None]) ** 2)


def unscaled(q, rows):
    """A likelihood that gives each row of a batch the weight of one row."""
    return log_likelihood(q, rows) * (len(rows) / NUM_ROWS)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Loud(SGLD):
    """SGLD whose noise has the standard deviation of the step size, not of its root."""

    def _move(self, factor, step_size, position, momentum, force_at, z):
        root = jnp.sqrt(step_size)
        return super()._move(factor, step_size, position, momentum, force_at, z * root)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Undamped(SGHMC):
    """SGHMC whose noise makes up for half of the friction."""

    def _move(self, factor, step_size, position, momentum, force_at, z):
        half = jnp.sqrt(jnp.asarray(0.5, z.dtype))
        return super()._move(factor, step_size, position, momentum, force_at, z * half)


def make(kernel, log_likelihood=log_likelihood, **fields):
    return kernel(
        log_prior,
        log_likelihood,
        jnp.asarray(ROWS),
        batch_size=BATCH,
        covariance=jnp.asarray(RATIOS / PRECISION),
        center=jnp.asarray(MEAN + 0.03),
        **fields,
    )


def variances_of(kernel):
    """Stationary variances, over those of the posterior; the gradient is linear in the position."""
    noise = NOISE * RATIOS * (0 if kernel.control_variates else 1)
    h = float(kernel.step_size)
    found = []
    for ratio, v in zip(RATIOS, noise, strict=True):
        if isinstance(kernel, SGHMC):
            damping = h * float(kernel.friction)
            step = np.array([[1, h], [-h * ratio, 1 - damping - h**2 * ratio]])
            shocks = np.diag([0, 2 * damping + h**2 * v])
            found.append(ratio * solve_discrete_lyapunov(step, shocks)[0, 0])
        else:
            shocks = h + h**2 / 4 * v
            found.append(ratio * shocks / (1 - (1 - h * ratio / 2) ** 2))
    return np.array(found)


def scores(kernel, num_steps=50):
    """How many standard errors means and variances of chains are away from the stationary law."""
    kernel = dataclasses.replace(kernel, num_steps=num_steps)
    positions = jnp.asarray(MEAN + np.random.default_rng(1).normal(size=(NUM_CHAINS, 2)) / 30)
    keys = random.split(random.key(2), NUM_CHAINS)
    states = jax.jit(jax.vmap(kernel.init))(positions.astype(kernel.data.dtype))
    states, infos = jax.jit(jax.vmap(kernel.step))(keys, states)
    assert not infos.is_divergent.any()
    draws = (np.asarray(states.position, np.float64) - MEAN) * np.sqrt(PRECISION)
    variances = variances_of(kernel)
    mean = draws.mean(0) / np.sqrt(variances / NUM_CHAINS)
    spread = (draws.var(0) / variances - 1) / np.sqrt(2 / NUM_CHAINS)
    return np.abs([*mean, *spread]), states, infos


CASES = {
    "SGLD": (SGLD, {"step_size": 0.5, "control_variates": False}),
    "SGLD, small steps": (SGLD, {"step_size": 0.05}),
    "SGLD, center": (SGLD, {"step_size": 1.5}),
    "SGHMC": (SGHMC, {"step_size": 0.3, "control_variates": False}),
    "SGHMC, friction": (SGHMC, {"step_size": 0.8, "friction": 0.4}),
}


@pytest.mark.quick_rows("float64-SGLD", "float32-SGHMC")
@pytest.mark.parametrize("name", CASES)
def test_chains_have_the_stationary_law_of_a_normal_density(float_dtype, name):
    kernel, fields = CASES[name]
    found, states, infos = scores(
        make(kernel, **fields), 200 if name == "SGLD, small steps" else 50
    )
    assert np.all(found < Z)
    assert infos.gradient_noise.dtype == float_dtype
    noise = NOISE * RATIOS * (not fields.get("control_variates", True))
    np.testing.assert_allclose(np.mean(states.noise, 0), noise, rtol=0.03, atol=1e-6)
    np.testing.assert_array_equal(infos.gradient_noise, np.max(states.noise, 1))


def test_noise_is_told_along_the_coordinates_of_positions():
    """By covariances that are not diagonal: whitened coordinates are other ones."""
    covariance = jnp.array([[2.0, 1.2], [1.2, 1.0]]) / PRECISION
    kernel = dataclasses.replace(
        make(SGLD, step_size=0.5, control_variates=False), covariance=covariance
    )
    state = kernel.init(jnp.asarray(MEAN))
    keys = random.split(random.key(0), 200)
    states, infos = jax.jit(jax.vmap(kernel.step, (0, None)))(keys, state)
    of_gradient = np.diag(NOISE * PRECISION)
    expected = np.diag(covariance @ of_gradient @ covariance) / np.diag(covariance)
    np.testing.assert_allclose(np.mean(states.noise, 0), expected, rtol=0.12)
    told = kernel.inflation(0.5, np.max(states.noise, 1))
    np.testing.assert_allclose(infos.variance_inflation, told, rtol=1e-5)


def test_the_running_mean_of_noise_forgets_its_start():
    kernel = make(SGLD, step_size=0.5)
    state = kernel.init(jnp.asarray(MEAN))._replace(
        noise=jnp.full(2, 1e3), num_transitions=jnp.int32(100)
    )
    state, info = jax.jit(kernel.step)(random.key(0), state)
    assert float(info.gradient_noise) == pytest.approx(990)
    assert int(state.num_transitions) == 100


@pytest.mark.parametrize("kernel", [SGLD, SGHMC])
def test_the_inflation_that_is_told_is_exact(kernel):
    """For the covariance of the posterior; the law of the step sizes is that of `variances_of`."""
    made = make(kernel, step_size=0.4, control_variates=False)
    told = made.inflation(0.4, NOISE[0])
    assert float(told) == pytest.approx(variances_of(made)[0] - 1, rel=1e-5)
    chosen = made.step_size_for(float(NOISE[0]), 0.05)
    assert float(made.inflation(chosen, NOISE[0])) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.quick_rows("noise", "scale")
@pytest.mark.parametrize(
    ("kernel", "fields"),
    [
        pytest.param(Loud, {"control_variates": True}, id="noise"),
        pytest.param(Undamped, {"control_variates": True}, id="friction"),
        pytest.param(SGLD, {"log_likelihood": unscaled}, id="scale"),
        pytest.param(SGHMC, {"log_likelihood": unscaled}, id="scale of SGHMC"),
    ],
)
def test_steps_of_another_law_are_found_out(kernel, fields):
    made = make(kernel, step_size=0.4, **{"control_variates": False} | fields)
    assert np.max(scores(made)[0]) > 2 * Z


def regression(key, x):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")
    ppl.sample(key, dist.Normal(w * x, 1.0), name="y")


def scaled_regression(key, x, num_rows):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")

    def rows(key):
        ppl.sample(key, dist.Normal(w * x, 1.0), name="y")

    ppl.scale(rows, num_rows / len(x))(key)


def given(model, y):
    return ppl.condition(model, {"y": y})


def by_arguments(key, x, *, y, num_rows):
    return given(scaled_regression, y)(key, x, num_rows)


X = rng.normal(size=1000).astype(np.float32)
Y = (0.5 * X + rng.normal(size=1000)).astype(np.float32)
POSTERIOR = given(regression, Y)
FEW = {"num_warmup": 5, "num_draws": 20}


@pytest.mark.parametrize("kernel", [SGLD(batch_size=20), SGHMC(batch_size=20)])
def test_a_run_tells_the_bias_that_it_has(kernel):
    """The noise of a regression grows with the distance from the mode."""
    result = mcmc(random.key(0), POSTERIOR, X, kernel=kernel, num_warmup=20, num_draws=5000)
    precision = 1 / 4 + np.sum(X.astype(np.float64) ** 2)
    mean = np.sum(X * Y, dtype=np.float64) / precision
    draws = np.asarray(result.draws["w"], np.float64)
    told = np.mean(result.stats["variance_inflation"])
    assert 0.02 < told < 0.12
    assert abs(draws.mean() - mean) < Z * inference.mcse_mean(draws)
    sd = np.sqrt((1 + told) / precision)
    assert abs(draws.std() - sd) < Z * inference.mcse_sd(draws)
    text = " ".join(str(result.summary()).split())
    assert f"variances of draws would be at most {told:.2%} too large" in text
    assert "draws are biased by the step size" in text
    assert len(result.summary().problems) == 1


def test_rows_are_found_in_arguments_and_in_conditions():
    kernel = SGLD(batch_size=20)
    first = mcmc(random.key(0), POSTERIOR, X, kernel=kernel, **FEW).draws["w"]
    again = mcmc(random.key(0), by_arguments, X, y=Y, num_rows=1000, kernel=kernel, **FEW)
    np.testing.assert_allclose(again.draws["w"], first, atol=1e-4)


@pytest.mark.quick_rows("SGHMC", "SubsampledHMC")
@pytest.mark.parametrize("kernel", [SGLD, SGHMC, SubsampledHMC])
def test_runs_go_on_and_their_draws_are_taken_for_the_models(kernel, tmp_path):
    """Nothing compares an estimate from some rows with the log density of the model."""
    kernel = kernel(batch_size=20)
    run = partial(mcmc, random.key(0), POSTERIOR, X, kernel=kernel)
    whole = run(num_warmup=5, num_draws=500)
    run(checkpoint=tmp_path / "run", **FEW)
    kept = inference.resume(tmp_path / "run", POSTERIOR, X, num_draws=500, kernel=kernel)
    np.testing.assert_array_equal(kept.draws["w"], whole.draws["w"])
    assert "log_density" not in whole.stats
    x, y = (np.asarray(z, np.float64) for z in (X, Y))
    precision = 1 / 4 + x @ x
    exact = (x @ y) ** 2 / precision - y @ y - len(x) * np.log(2 * np.pi) - np.log(4 * precision)
    assert inference.evidence(whole, POSTERIOR, X).log_evidence == pytest.approx(exact / 2, abs=0.2)
    assert inference.loo(whole, POSTERIOR, X).elpd == pytest.approx(exact / 2, abs=8)


def walk(key, y):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")

    def rows(key):
        ppl.sample(key, dist.Normal(w * jnp.append(y[:1], y[:-1]), 1.0), name="y")

    given(rows, y)(key)


def by_row(key, x):
    z = ppl.sample(key, dist.Normal(x, 1.0), name="z")
    ppl.sample(key, dist.Normal(z, 1.0), name="y")


def with_factor(key, x):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")
    ppl.factor(-(w**2), name="penalty")
    ppl.sample(key, dist.Normal(w * x, 1.0), name="y")


def with_prior_of_rows(key, x):
    w = ppl.sample(key, dist.Normal(jnp.mean(x), 2.0), name="w")
    ppl.sample(key, dist.Normal(w * x, 1.0), name="y")


def one_number(key):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")
    ppl.sample(key, dist.Normal(w, 1.0), name="y")


def flat(key, x):
    v = ppl.sample(key, dist.Flat(constraints.real, (2,)), name="v")
    ppl.sample(key, dist.Normal(jnp.sum(v) * x, 1.0), name="y")


MISSING = np.where(np.arange(1000) == 3, np.nan, Y)
REFUSED = {
    "series": (walk, (Y,), "the sum of its parts, of 10 rows each"),
    "values by row": (given(by_row, Y), (X,), r"the latent sites are z \(10,\)"),
    "many values": (given(by_row, jnp.resize(Y, 2500)), (jnp.resize(X, 2500),), "of their own"),
    "factor": (given(with_factor, Y), (X,), "the sum of its parts"),
    "prior of rows": (given(with_prior_of_rows, Y), (X,), "prior of latent sites changes"),
    "one number": (given(one_number, 1.0), (), "has none"),
    "few rows": (given(regression, Y[:8]), (X[:8],), "the data have 8 rows"),
    "missing": (given(regression, ppl.impute(MISSING)), (X,), "'y' is observed in part"),
    "NaN": (
        given(regression, Y),
        (np.where(MISSING == Y, X, np.nan),),
        "the mode, and climb 0 found",
    ),
    "no peak": (given(flat, Y), (X,), r"is flat along v\[0\], v\[1\]"),
}


@pytest.mark.quick_rows("series", "values by row", "many values", "factor", "one number", "missing")
@pytest.mark.parametrize("name", REFUSED)
def test_data_without_independent_rows_are_refused(name):
    model, args, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        mcmc(random.key(0), model, *args, kernel=SGLD(batch_size=20), **FEW)


def test_data_of_a_closure_are_told_of():
    def closed(key, x):
        return given(regression, Y)(key, x)

    with pytest.raises(ValueError, match="site 'y'") as error:
        mcmc(random.key(0), closed, X, kernel=SGLD(batch_size=20), **FEW)
    assert "a model reads from a closure are not split" in error.value.__notes__[-1]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: SGLD(batch_size=3), "must be even"),
        (lambda: SGLD(num_steps=0), "num_steps of SGLD"),
        (lambda: SGLD(control_variates=1), "must be True or False"),
        (lambda: SGLD().init(1.0), "SGLD has no log_prior"),
        (lambda: make(SGLD, step_size=4.0), "less than 4"),
        (lambda: make(SGLD), "no step_size"),
        (lambda: make(SGHMC, step_size=0.6), r"step_size \* friction"),
        (lambda: make(SGLD, log_likelihood=lambda q, rows: rows, step_size=0.1), "a scalar"),
    ],
)
def test_settings_that_cannot_be_are_refused(kernel, words):
    with pytest.raises((ValueError, TypeError), match=words):
        kernel().init(jnp.asarray(MEAN))


def test_steps_that_are_not_finite_are_told_of():
    def steep(q, rows):
        return -0.5 * jnp.sum((rows - q[None]) ** 2) * jnp.where(jnp.max(rows) > 5, jnp.nan, 1)

    kernel = make(SGLD, steep, step_size=0.1)
    state = kernel.init(jnp.asarray(MEAN))._replace(center_gradient=jnp.zeros(2))
    new, info = jax.jit(kernel.step)(random.key(0), state)
    assert info.is_divergent
    assert np.isfinite(new.position).all()


def test_new_rows_of_the_same_number_compile_nothing():
    run = partial(mcmc, random.key(1), kernel=SGLD(batch_size=22), **FEW)
    with compiled() as events:
        run(POSTERIOR, X)
        assert events
        events.clear()
        run(given(regression, Y + 1), X + 1)
    assert not events


def test_a_center_that_is_given_is_kept():
    target = ppl.unconstrain(POSTERIOR, X)
    kernel = SGLD(batch_size=20, center={"w": 0.45})
    assert float(with_rows_of(kernel, target, random.key(0)).center["w"]) == np.float32(0.45)


def bounded(key, x):
    w = ppl.sample(key, dist.Normal(0.0, 2.0), name="w")
    mean = w * jnp.where(w < 0.53, x, jnp.nan)
    ppl.sample(key, dist.Normal(mean, 1.0), name="y")


def test_noise_that_is_not_finite_is_told_of():
    kernel = SGLD(batch_size=20, center={"w": 0.5}, covariance=np.full(1, 1e-3))
    with pytest.raises(ValueError, match="gradients of batches are not finite"):
        mcmc(random.key(6), given(bounded, Y), X, kernel=kernel, **FEW)
