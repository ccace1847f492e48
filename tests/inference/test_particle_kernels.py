"""Particle Gibbs and PMMH against exact posteriors of parameters and paths."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random
from jax.tree_util import Partial

import distributions as dist
import inference
import ppl
from inference import NUTS, PMMH, Gibbs, ParticleGibbs, RandomWalk, Slice, mcmc
from inference.kernels.gibbs.path_space import ParametersOfModel
from inference.results.particles import describe_particles, particle_problems
from tests.inference.state_spaces import batch_means_error

slow = pytest.mark.slow
KEY = random.key(0)
Y = np.array([0.2, 1.4, 0.9, -0.5, 0.1, 1.2, 0.6, 0.4, 1.9, -0.2], np.float32)


def hidden(key):
    """Hidden Markov model of two states, ten steps and one parameter."""
    stay = ppl.sample(key, dist.Beta(3.0, 2.0), name="stay")

    def step(z, key):
        one, two = random.split(key)
        z = ppl.sample(one, dist.Bernoulli(probs=jnp.where(z == 1, stay, 1 - stay)), name="z")
        return z, ppl.sample(two, dist.Normal(1.0 * z, 0.8), name="y")

    lax.scan(step, jnp.int32(1), random.split(key, 10))


HIDDEN = ppl.condition(hidden, {"y": Y})


def exact_of_hidden():
    """Mean and variance of the parameter, probabilities of state 1; by a grid, over all paths."""
    stay = np.linspace(0, 1, 402)[1:-1]
    paths = np.array([*itertools.product((0, 1), repeat=10)])
    num_stays = (np.column_stack([np.ones(1024), paths[:, :-1]]) == paths).sum(1)
    logs = st.norm.logpdf(Y, paths, 0.8).sum(1)
    logs = logs + st.beta.logpdf(stay, 3, 2)[:, None]
    logs += num_stays * np.log(stay)[:, None] + (10 - num_stays) * np.log(1 - stay)[:, None]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights.sum(1) @ stay
    return mean, weights.sum(1) @ (stay - mean) ** 2, weights.sum(0) @ paths


def largest_error(result, exact):
    """Of all means and of the variance of the parameter, in standard errors by batches."""
    mean, variance, path = exact
    name = next(name for name in result.draws if name not in ("z", "x", "x0"))
    parameter = result.draws[name].reshape(-1)
    path_draws = result.draws["z" if "z" in result.draws else "x"]
    found = [parameter - mean, (parameter - mean) ** 2 - variance]
    found += list((path_draws.reshape(len(parameter), -1) - path).T)
    return max(abs(np.mean(x)) / batch_means_error(x, 100) for x in found)


@pytest.mark.parametrize(
    ("kernel", "num_draws"),
    [
        (Gibbs({"z": ParticleGibbs(16)}, rest=Slice()), 1500),
        (PMMH(16), 2500),
        pytest.param(Gibbs({"z": ParticleGibbs(2)}, rest=NUTS()), 2500, marks=slow),
        pytest.param(PMMH(5, scheme="multinomial"), 20_000, marks=slow),
    ],
)
def test_parameter_and_states_of_a_hidden_markov_model(kernel, num_draws):
    """Within 4.5 standard errors; by chance, not so for 1 of 10^4 seeds."""
    result = mcmc(random.key(3), HIDDEN, kernel=kernel, num_draws=num_draws, num_warmup=300)
    assert result.draws["z"].dtype.kind == "i"
    assert largest_error(result, exact_of_hidden()) < 4.5
    is_new = (result.stats.get("renewal_rate_of_z", np.ones(1))).mean()
    assert is_new > 0.3


def walk(key, scale_of_noise=0.5):
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    x0 = ppl.sample(key, dist.Normal(0.0, 1.0), name="x0")

    def step(x, key):
        one, two = random.split(key)
        x = ppl.sample(one, dist.Normal(0.9 * x, scale), name="x")
        return x, ppl.sample(two, dist.Normal(x, scale_of_noise), name="y")

    lax.scan(step, x0, random.split(key, 6))


SERIES = np.array([0.5, 1.9, 0.7, -0.4, 0.2, 1.1], np.float32)
WALK = ppl.condition(walk, {"y": SERIES})


def exact_of_walk():
    """Mean and variance of the scale, means of states; by a grid over normal distributions."""
    scales = np.linspace(0, 5, 1001)[1:]
    logs, means = [], []
    for scale in scales:
        maps = np.array([[0.9 ** max(i - j, 0) * (i >= j) for j in range(7)] for i in range(7)])
        prior = maps @ np.diag([1.0, *[scale**2] * 6]) @ maps.T
        joint = prior[1:, 1:] + 0.25 * np.eye(6)
        law = st.multivariate_normal(np.zeros(6), joint)  # type: ignore
        logs.append(law.logpdf(SERIES) + st.halfnorm.logpdf(scale))
        means.append(prior[1:, 1:] @ np.linalg.solve(joint, SERIES))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = weights @ scales
    return mean, weights @ (scales - mean) ** 2, weights @ np.array(means)


@slow
@pytest.mark.parametrize(
    "kernel",
    [
        PMMH(50),
        PMMH(10, proposal="optimal"),
        Gibbs({("x0", "x"): ParticleGibbs(5, proposal="optimal")}, rest=Slice()),
        PMMH(10, scheme="stratified", kernel=RandomWalk(num_steps=2)),
        Gibbs({("x0", "x"): ParticleGibbs(10)}, rest=Slice()),
        Gibbs({"x": ParticleGibbs(5)}, rest=NUTS()),
        Gibbs({"scale": Slice()}, rest=ParticleGibbs(10)),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_scale_and_states_of_a_normal_walk(kernel):
    """The scale has a Jacobian between its space and the unconstrained one."""
    result = mcmc(random.key(5), WALK, kernel=kernel, num_draws=10_000, num_warmup=500)
    assert largest_error(result, exact_of_walk()) < 4.5


def autoregression(key):
    """Both the slope and the scale of a step are unknown, and depend on each other."""
    slope = ppl.sample(key, dist.Uniform(0.0, 1.0), name="slope")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def step(x, key):
        one, two = random.split(key)
        x = ppl.sample(one, dist.Normal(slope * x, scale), name="x")
        return x, ppl.sample(two, dist.Normal(x, 0.5), name="y")

    lax.scan(step, 0.0, random.split(key, 8))


LONGER = np.array([0.4, 1.6, 1.9, 1.1, 0.3, -0.6, -0.2, 0.7], np.float32)


def exact_of_autoregression():
    """Means and covariance of slope and log scale, by Kalman filters on a grid."""
    scales = np.exp(np.linspace(-6, 1.8, 200))
    slope, scale = np.meshgrid((np.arange(100) + 0.5) / 100, scales, indexing="ij")
    logs = st.halfnorm.logpdf(scale) + np.log(scale)
    mean, variance = np.zeros((2, 100, 200))
    for y in LONGER:
        mean = slope * mean
        variance = slope**2 * variance + scale**2
        logs = logs + st.norm.logpdf(y, mean, np.sqrt(variance + 0.25))
        gain = variance / (variance + 0.25)
        mean = mean + gain * (y - mean)
        variance = (1 - gain) * variance
    weights = np.exp(logs - logs.max()).ravel()
    weights /= weights.sum()
    points = np.stack([slope, np.log(scale)]).reshape(2, -1)
    return points @ weights, np.cov(points, aweights=weights, ddof=0)


def error_of_autoregression(num_particles):
    """Largest error of means and covariance, in standard errors by batches."""
    posterior = ppl.condition(autoregression, {"y": LONGER})
    result = mcmc(KEY, posterior, kernel=PMMH(num_particles), num_draws=5000, num_warmup=300)
    mean, covariance = exact_of_autoregression()
    first = result.draws["slope"].ravel() - mean[0]
    second = np.log(result.draws["scale"]).ravel() - mean[1]
    products = np.stack([first**2, first * second, second**2], 1)
    found = np.column_stack([first, second, products - covariance[np.triu_indices(2)]])
    return np.max(np.abs(found.mean(0)) / batch_means_error(found, 100))


@slow
def test_two_parameters_against_kalman_filters_on_a_grid():
    """Within 4 standard errors; by chance, not so for 1 of 3000 seeds."""
    assert error_of_autoregression(32) < 4


@slow
def test_parameters_without_their_jacobian_are_caught(monkeypatch):
    monkeypatch.setattr(ParametersOfModel, "_log_jacobian", lambda self, x: jnp.float32(0))
    assert error_of_autoregression(31) > 8  # another program


def noisy(spread, key, position):
    """Estimate of a standard normal density, noisy on the right, and a draw that goes with it."""
    noise, path = random.normal(key, (2,), position.dtype)
    spread = jnp.where(position > 0, spread, 0.0)
    return -0.5 * position**2 + spread * noise - 0.5 * spread**2, position + path


def test_the_variance_is_measured_where_warm_up_ends():
    kernel = PMMH(kernel=RandomWalk(step_size=2.0), estimate=Partial(noisy, jnp.float32(1.2)))
    step = jax.jit(jax.vmap(kernel.step, (None, 0)))
    new, info = step(random.key(4), jax.vmap(kernel.init)(jnp.array([0.3, -0.3])))
    assert np.isnan(info.log_likelihood_variance).all()
    adapt = jax.jit(jax.vmap(lambda s, i: kernel.adapt(s, i, jnp.int32(9), jnp.int32(10))))
    variance = adapt(new, info).variance
    np.testing.assert_array_equal(variance > 0, new.position > 0)  # noisy on the right
    assert jnp.max(variance) < 5


def test_filters_that_die_have_an_infinite_variance():
    """One estimate of three is 0; the summary of a chain that met them says so."""

    def dying(key, position):
        log_density, path = noisy(1.0, key, position)
        return jnp.where(random.uniform(key) < 0.3, -jnp.inf, log_density), path

    kernel = PMMH(estimate=dying)
    state = kernel.init(jnp.float32(0.3))._replace(log_density=jnp.float32(0.0))
    _, info = kernel.step(random.key(4), state)
    state = kernel.adapt(state, info, jnp.int32(9), jnp.int32(10))
    assert state.variance == jnp.inf
    stats = {"log_likelihood_variance": np.array([[0.5], [float(state.variance)]])}
    assert describe_particles(stats) == ["some of the likelihoods estimated as 0"]
    assert "filters die" in next(particle_problems(stats))


def test_words_on_the_noise_of_estimates():
    def told(variance):
        stats = {"log_likelihood_variance": np.full((4, 10), variance)}
        return *describe_particles(stats), *particle_problems(stats)

    assert told(1.2) == ("log likelihoods estimated with a variance of 1.2",)
    assert "about 5 times as many particles" in told(7.0)[1]
    assert told(np.nan) == ()
    assert not describe_particles({})


def no_scan(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.sample(key, dist.Normal(mu, 1.0), name="y")


def discrete(key):
    n = ppl.sample(key, dist.Poisson(2.0), name="n")

    def step(x, key):
        one, two = random.split(key)
        x = ppl.sample(one, dist.Normal(x, 1.0 + n), name="x")
        return x, ppl.sample(two, dist.Normal(x, 1.0), name="y")

    lax.scan(step, 0.0, random.split(key, 3))


def heavy_tailed(key):
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def step(x, key):
        one, two = random.split(key)
        x = ppl.sample(one, dist.StudentT(3.0, x, scale), name="x")
        return x, ppl.sample(two, dist.Normal(x, 1.0), name="y")

    lax.scan(step, 0.0, random.split(key, 3))


def carrying(carries_scale):
    """Model whose carry has a running sum, and the scale or not; `x0` is only its beginning."""

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        x0 = ppl.sample(key, dist.Normal(0.0, 1.0), name="x0")

        def step(carry, key):
            one, two = random.split(key)
            total, carried = carry
            total += ppl.sample(
                one, dist.Normal(0.0, scale if carried is None else carried), name="x"
            )
            return (total, carried), ppl.sample(two, dist.Normal(total, 1.0), name="y")

        lax.scan(step, (x0, scale if carries_scale else None), random.split(key, 3))

    return ppl.condition(model, {"y": jnp.zeros(3)})


PLAIN = ppl.condition(no_scan, {"y": 1.0})
HEAVY = ppl.condition(heavy_tailed, {"y": jnp.zeros(3)})
COUNTED = ppl.condition(discrete, {"y": jnp.zeros(3)})
ONLY_PATH = ppl.condition(WALK, {"scale": 0.5, "x0": 0.0})


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: PMMH(1), ValueError, "num_particles must be an integer of at least 2, got 1"),
        (lambda: ParticleGibbs(1), ValueError, "num_particles must be an integer of at least 2"),
        (lambda: ParticleGibbs(2.5), TypeError, "num_particles must be an integer"),  # type: ignore
        (lambda: PMMH(scheme="even"), ValueError, "scheme must be one of .*systematic"),
        (lambda: PMMH(proposal=len), ValueError, "must be 'optimal', or None .*takes functions"),  # type: ignore
        (lambda: ParticleGibbs(proposal="prior"), ValueError, "proposal of a kernel must be"),
        (
            lambda: mcmc(KEY, HEAVY, kernel=PMMH(proposal="optimal")),
            ValueError,
            "PMMH\\(\\): proposal=.optimal.*'x': its full conditional has no closed form",
        ),
        (
            lambda: mcmc(KEY, HEAVY, kernel=Gibbs({"x": ParticleGibbs(9, proposal="optimal")})),
            ValueError,
            "Gibbs: block 'x' by ParticleGibbs.*'x': its full conditional has no closed form",
        ),
        (lambda: PMMH(kernel=NUTS()), TypeError, "follows a gradient, and the estimate .* none"),
        (lambda: PMMH(kernel=Slice()), TypeError, "must be a RandomWalk, got Slice"),
        (lambda: PMMH(kernel=RandomWalk(lambda x: x)), ValueError, "log density of its own"),
        (lambda: PMMH().init(jnp.zeros(2)), ValueError, "PMMH has no estimate"),
        (lambda: Gibbs({"z": PMMH()}), TypeError, "PMMH\\(\\), which moves all sites"),
        (lambda: Gibbs({"z": ParticleGibbs}), TypeError, "did you mean ParticleGibbs\\(\\)"),
        (
            lambda: Gibbs({"z": ParticleGibbs(state_space=1)}),
            ValueError,
            "the state space is the model's",
        ),
        (lambda: mcmc(KEY, PLAIN, kernel=PMMH()), ValueError, "PMMH.* needs a state space model"),
        (
            lambda: mcmc(KEY, PLAIN, kernel=Gibbs({"mu": ParticleGibbs()})),
            ValueError,
            "block 'mu' by ParticleGibbs.* needs a state space model",
        ),
        (lambda: mcmc(KEY, PLAIN, kernel=ParticleGibbs()), ValueError, "without steps.*Gibbs.auto"),
        (lambda: mcmc(KEY, ONLY_PATH, kernel=PMMH()), ValueError, "the model has no parameters"),
        (lambda: mcmc(KEY, COUNTED, kernel=PMMH()), ValueError, "site 'n' is a parameter and"),
        (
            lambda: mcmc(KEY, WALK, kernel=Gibbs({"x0": ParticleGibbs()})),
            ValueError,
            "none of its sites is in the scan",
        ),
        (
            lambda: mcmc(KEY, WALK, kernel=ParticleGibbs()),
            ValueError,
            "'scale' does not enter the first carry only",
        ),
        (
            lambda: mcmc(KEY, carrying(True), kernel=ParticleGibbs()),
            ValueError,
            "'scale' does not enter the first carry only.*the carry passes it on as it is",
        ),
        (
            lambda: mcmc(KEY, carrying(False), kernel=ParticleGibbs()),
            ValueError,
            "'scale' does not enter the first carry only",
        ),
        (lambda: mcmc(KEY, WALK, kernel=PMMH(), mass_matrix="dense"), ValueError, "mass_matrix"),
    ],
)
def test_bad_input_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_a_start_of_a_running_sum_belongs_to_the_path():
    kernel = Gibbs({("x0", "x"): ParticleGibbs()}, rest=Slice())
    for carries_scale in (True, False):
        plan = str(inference.gibbs_plan(carrying(carries_scale), kernel=kernel))
        assert "x0     ParticleGibbs" in plan


@slow
def test_a_path_alone_and_a_plan_in_words():
    plan = str(inference.gibbs_plan(WALK, kernel=Gibbs({("x0", "x"): ParticleGibbs()})))
    assert "ParticleGibbs  path of a state space model" in plan
    result = mcmc(KEY, ONLY_PATH, kernel=ParticleGibbs(), num_warmup=10, num_draws=100)
    assert result.draws["x"].shape == (4, 100, 6)
