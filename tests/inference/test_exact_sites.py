"""Sites that particles carry exactly: against Kalman filters, forward algorithms, plain weights."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.flatten_util import ravel_pytree

import distributions as dist
import inference
import ppl
from inference.models.exact_sites import carry_exactly, why_not_exact
from inference.models.integrated_states import IntegratedStates
from inference.models.state_space import ModelStateSpace
from inference.models.summed_states import SummedStates

T = 6
STICKY = jnp.array([[0.9, 0.1], [0.25, 0.75]])


def trend(key, num_steps):
    """A level with a slope, two numbers before the scan, and data after it."""

    def step(state, key):
        slope = ppl.sample(key, dist.Normal(0.8 * state[1], 0.3), name="slope")
        level = ppl.sample(key, dist.Normal(state[0] + slope, 0.5), name="level")
        ppl.sample(key, dist.Normal(level, 1.0), name="y")
        return jnp.stack([level, slope]), None

    first = ppl.sample(key, dist.Normal(jnp.array([500.0, 0.0]), 1.0), name="first")
    last, _ = lax.scan(step, first, random.split(key, num_steps))
    ppl.sample(key, dist.Normal(last[0], 0.1), name="end")


def regimes(key, num_steps):
    """Two hidden states, of which a real site depends too."""

    def step(state, key):
        state = ppl.sample(key, dist.Categorical(probs=STICKY[state]), name="state")
        shift = ppl.sample(key, dist.Normal(1.0 * state, 0.4), name="shift")
        ppl.sample(key, dist.StudentT(4.0, 2.0 * state + jnp.sin(shift), 1.0), name="y")
        return state, None

    lax.scan(step, jnp.array(0), random.split(key, num_steps))


def volatile(key, num_steps):
    """A level whose step sizes vary: normal given the log step size."""

    def step(state, key):
        level, log_sd = state
        log_sd = ppl.sample(key, dist.Normal(0.9 * log_sd, 0.6), name="log_sd")
        level = ppl.sample(key, dist.Normal(level, jnp.exp(log_sd)), name="level")
        ppl.sample(key, dist.Normal(level, 0.3), name="y")
        return (level, log_sd), None

    scale = ppl.sample(key, dist.Gamma(3.0, 2.0), name="scale")
    first = ppl.sample(key, dist.Normal(0.0, scale), name="first")
    lax.scan(step, (first, jnp.zeros(())), random.split(key, num_steps))


def space_of(model, *, seed=1, num_steps=T, gap=False):
    data = ppl.simulate(model)(random.key(seed), num_steps)
    observed = {name: data[name] for name in ("y", "end") if name in data}
    if gap:
        observed["y"] = ppl.ignore(observed["y"], jnp.arange(num_steps) == 2)
    posterior = ppl.condition(model, observed)
    return posterior, ModelStateSpace.of(posterior, (num_steps,))


def weigh(space, key):
    """Log weight of one path drawn step by step."""
    state, start, weight = space.start(random.fold_in(key, space.num_steps))

    def step(carry, t):
        state, total = carry
        state, values, weight = space.move(random.fold_in(key, t), state, t)
        return (state, total + weight), values

    (state, total), path = lax.scan(step, (state, weight), jnp.arange(space.num_steps))
    return total + space.finish(state), start, path


@functools.partial(jax.jit, static_argnums=2)
def weigh_many(space, key, num):
    return jax.vmap(lambda key: weigh(space, key)[0])(random.split(key, num))


@functools.partial(jax.jit, static_argnums=4)
def draw_many(space, key, start, path, num):
    return jax.vmap(lambda key: space.draw_path(key, start, path))(random.split(key, num))


def score_path(space, start, path):
    """Log density of given values and all data, whatever the particle carries."""
    state, *terms = space.score_start(start)

    def step(carry, inputs):
        state, total = carry
        t, values = inputs
        state, *terms = space.score(state, values, t)
        return (state, total + sum(terms)), None

    steps = (jnp.arange(space.num_steps), path)
    (state, total), _ = lax.scan(step, (state, sum(terms)), steps)
    return total + space.finish(state)


def test_all_normal_sites_make_a_kalman_filter():
    """The weight of any particle is the evidence; draws have the moments of the smoother."""
    posterior, space = space_of(trend, gap=True)
    found = carry_exactly(space)
    assert isinstance(found, IntegratedStates)
    assert (found.at_start, found.in_step) == ((("first",),), (("slope",), ("level",)))
    flat, unravel = ravel_pytree(
        {"first": jnp.array([500.0, 0.0]), "slope": jnp.zeros(T), "level": jnp.full(T, 500.0)}
    )

    @jax.jit
    def squares(x):
        def log_density(x):
            return ppl.log_density(posterior)(unravel(x), T)

        return log_density(x), jax.grad(log_density)(x), -jax.hessian(log_density)(x)

    value, slope, precision = (np.asarray(x, float) for x in squares(flat))
    covariance = np.linalg.inv(precision)
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    evidence = value + slope @ covariance @ slope / 2 + log_det / 2
    np.testing.assert_allclose(weigh_many(found, random.key(0), 3), evidence, rtol=1e-4)
    start, path = draw_many(found, random.key(1), {}, {}, 2000)
    drawn = np.asarray(jax.vmap(lambda x: ravel_pytree(x)[0])({**start, **path}))
    mean = np.asarray(flat) + covariance @ slope
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(drawn.mean(0) - mean) < 4.5 * sd / np.sqrt(2000))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (drawn - mean).T)
    np.testing.assert_allclose(np.cov(white), np.eye(len(mean)), atol=0.15)  # 4.5 errors and more


def test_discrete_sites_are_summed_exactly():
    """Given the other values, density and draws are those of an enumeration of all states."""
    posterior, space = space_of(regimes, gap=True)
    found = carry_exactly(space)
    assert isinstance(found, SummedStates)
    assert found.paths == (("state",),)
    path = {"shift": random.normal(random.key(3), (T,))}
    states = jnp.stack(jnp.meshgrid(*[jnp.arange(2)] * T), -1).reshape(-1, T)
    log_density = ppl.log_density(posterior)
    each = jax.jit(jax.vmap(lambda x: log_density({"state": x, **path}, T)))(states)
    evidence = jax.scipy.special.logsumexp(each)
    np.testing.assert_allclose(jax.jit(score_path)(found, {}, path), evidence, rtol=1e-5)
    _, drawn = draw_many(found, random.key(4), {}, path, 4000)
    counts = np.bincount(drawn["state"] @ 2 ** np.arange(T), minlength=2**T)
    order = np.asarray(states) @ 2 ** np.arange(T)
    expected = 4000 * np.exp(np.asarray(each - evidence))[np.argsort(order)]
    error = (counts - expected) / np.sqrt(np.maximum(expected, 1))
    assert np.abs(error).max() < 5


@pytest.mark.parametrize(("model", "kind"), [(volatile, IntegratedStates), (regimes, SummedStates)])
def test_weights_keep_their_mean_and_lose_variance(model, kind):
    """Means of weights are the evidence, with and without exact parts; |z| < 4.5."""
    _, space = space_of(model, num_steps=3)
    found = carry_exactly(space)
    assert isinstance(found, kind)
    shift = float(weigh_many(space, random.key(0), 100).max())
    moments = []
    for i, each in enumerate((space, found)):
        weights = np.exp(np.asarray(weigh_many(each, random.key(i + 1), 20_000), float) - shift)
        moments.append((weights.mean(), weights.var() / weights.size))
    (plain, plain_error), (exact, exact_error) = moments
    assert abs(plain - exact) < 4.5 * np.sqrt(plain_error + exact_error)
    assert exact_error < 0.9 * plain_error


def test_normal_sites_are_proved():
    """Sites in which the density is no square, and carries of several steps, stay particles."""
    _, space = space_of(volatile)
    found = carry_exactly(space)
    assert isinstance(found, IntegratedStates)
    assert (found.at_start, found.in_step) == ((("first",),), (("level",),))

    def bent(key, num_steps):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(jnp.sin(x), 0.5), name="x")
            ppl.sample(key, dist.Normal(x, 1.0), name="y")
            return x, None

        lax.scan(step, jnp.zeros(()), random.split(key, num_steps))

    def sums(key, num_steps):
        def step(total, key):
            total += ppl.sample(key, dist.Normal(0.0, 0.5), name="x")
            ppl.sample(key, dist.Normal(total, 1.0), name="y")
            return total, None

        lax.scan(step, jnp.zeros(()), random.split(key, num_steps))

    def drifts(key, num_steps):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(x + drift, 0.5), name="x")
            ppl.sample(key, dist.Normal(x, 1.0), name="y")
            return x, None

        drift = ppl.sample(key, dist.Normal(0.0, 1.0), name="drift")
        lax.scan(step, jnp.zeros(()), random.split(key, num_steps))

    _, space = space_of(drifts)
    found = carry_exactly(space)
    assert isinstance(found, IntegratedStates)
    assert (found.at_start, found.in_step) == ((), (("x",),))

    for model, words in ((bent, "no site of a step is normal"), (sums, "the carry is no function")):
        posterior, space = space_of(model)
        assert carry_exactly(space) is space
        assert why_not_exact(space).startswith(words)
    result = inference.particle_filter(random.key(0), posterior, T, num_particles=9, exact=True)
    text = str(result.summary()).replace("\n  ", " ")
    assert "nothing carried exactly: the carry is no function of the values" in text


def test_a_filter_carries_sites_exactly():
    """All sites: the evidence itself, and exact draws."""
    posterior, space = space_of(trend, gap=True)
    run = functools.partial(inference.particle_filter, num_draws=400, progress=False)
    result = run(random.key(0), posterior, T, num_particles=2, exact=True)
    exact = weigh_many(carry_exactly(space), random.key(0), 3)
    np.testing.assert_allclose(result.log_evidence, exact, rtol=1e-5)
    assert result.exact == ("first", "slope", "level")
    assert "carried exactly: first, slope, level" in str(result.summary()).replace("\n  ", " ")
    assert "No problem found" in str(result.summary())
    with pytest.raises(TypeError, match="exact must be True or False, got 'yes'"):
        run(random.key(0), posterior, T, exact="yes")  # pyright: ignore


@pytest.mark.slow
def test_a_filter_carries_some_sites_exactly():
    posterior, _ = space_of(volatile)
    run = functools.partial(inference.particle_filter, num_draws=400, progress=False)
    parts = [run(random.key(0), posterior, T, exact=x) for x in (False, True)]
    assert [x.exact for x in parts] == [(), ("first", "level")]
    assert [x.smoothing for x in parts] == ["backward", "ancestors"]
    error = np.hypot(*(x.standard_error for x in parts))
    assert abs(parts[0].log_evidence - parts[1].log_evidence) < 4.5 * error
    moments = [(x.filtered["level"][0].mean(0), x.filtered["level"][0].std(0)) for x in parts]
    difference = abs(moments[0][0] - moments[1][0])  # of 400 draws, few of which are alike
    assert np.all(difference < 4.5 * moments[0][1] * np.sqrt(2 / 100))
