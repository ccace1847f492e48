"""Kernels that adapt over chains, by themselves: protocol, formulas, and calibration."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import distributions as dist
import ppl
from inference import MEADS, AdjustedMCLMC, ChEES, calibrate
from inference.kernels.ensemble import adjusted_mclmc, chees
from inference.kernels.ensemble.adjusted_mclmc import turn
from inference.kernels.ensemble.meads import largest_deviation, wrap
from inference.kernels.ensemble.tuning import chees_gradient, halton

KERNELS = {"ChEES": ChEES(), "AdjustedMCLMC": AdjustedMCLMC(), "MEADS": MEADS()}
NUM_CHAINS = 16
STEP = jax.jit(lambda kernel, key, state: kernel.step(key, state))


def log_density(data, x):
    return -0.5 * jnp.sum((x["a"] - data) ** 2) - jnp.sum(jnp.cosh(x["b"]))


def make(name, dtype):
    kernel = KERNELS[name]
    return dataclasses.replace(kernel, log_density=Partial(log_density, jnp.asarray(0.5, dtype)))


def starts(dtype, seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"a": (NUM_CHAINS, 2), "b": (NUM_CHAINS,)}
    return {name: jnp.asarray(rng.normal(size=s), dtype) for name, s in shapes.items()}


@pytest.mark.parametrize(
    ("kernel", "num_chains", "words"),
    [
        (ChEES(), 1, "needs 2 of them at least, got 1: raise num_chains, to 64 or more"),
        (MEADS(), 7, "needs 8 of them at least"),
        (MEADS(), 10, "multiple of the 4 folds"),
        (ChEES(step_size=-1.0), 4, "step_size must be a positive"),
        (ChEES(target_acceptance_rate=1.5), 4, "between 0 and 1"),
        (ChEES(inverse_mass_matrix=jnp.ones(3)), 4, "a vector of 2 variances"),
        (ChEES(max_num_steps=0), 4, "max_num_steps must be"),
        (MEADS(step_size_factor=0.0), 8, "step_size_factor must be a positive"),
    ],
)
def test_settings_are_checked_in_words(kernel, num_chains, words):
    kernel = dataclasses.replace(kernel, log_density=lambda x: -jnp.sum(x**2))
    with pytest.raises(ValueError, match=words):
        kernel.init(jnp.zeros((num_chains, 2)))


def test_positions_have_chains_in_front_and_enough_coordinates():
    density = lambda x: -jnp.sum(x["a"] ** 2)  # noqa: E731
    with pytest.raises(ValueError, match="chains in front of every leaf"):
        ChEES(density).init({"a": jnp.zeros((4, 2)), "b": jnp.zeros(())})
    with pytest.raises(ValueError, match="two unconstrained coordinates"):
        AdjustedMCLMC(density).init({"a": jnp.zeros((4, 1))})
    with pytest.raises(ValueError, match="has no log_density"):
        MEADS().init(jnp.zeros((8, 2)))
    with pytest.raises(ValueError, match="num_folds"):
        MEADS(num_folds=1)


def test_chees_gradient_is_the_derivative_of_the_criterion(x64):
    """For oscillators in pairs of opposite sign, whose means stay 0, and with equal weights."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 10, 3)) * np.array([1.0, 2.0, 0.5])
    x, v = (np.concatenate([a, -a]) for a in (x, v))

    def criterion(time):
        end = x * np.cos(time) + v * np.sin(time)
        return 0.25 * np.mean((np.sum(end**2, 1) - np.sum(x**2, 1)) ** 2)

    time, h = 0.8, 1e-5
    end, velocity = x * np.cos(time) + v * np.sin(time), v * np.cos(time) - x * np.sin(time)
    found = chees_gradient(*map(jnp.asarray, (x, end, velocity)), jnp.full(20, 0.7), time)
    expected = (criterion(time * np.exp(h)) - criterion(time * np.exp(-h))) / (2 * h)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    # A proposal that cannot be accepted counts for nothing, whatever it is.
    bad = end.copy()
    bad[0] = np.nan
    rate = jnp.full(20, 0.7).at[0].set(0.0)
    assert np.isfinite(chees_gradient(*map(jnp.asarray, (x, bad, velocity)), rate, time))


def test_a_turn_is_that_of_the_sphere_and_goes_back(x64):
    rng = np.random.default_rng(1)
    u = rng.normal(size=(5, 4))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    impulse = rng.normal(size=(5, 4)) * np.array([[0.0], [1e-3], [0.1], [1.0], [20.0]])
    turned, gain = turn(jnp.asarray(u), jnp.asarray(impulse))
    norm = np.linalg.norm(impulse, axis=1, keepdims=True)
    e, delta = impulse / np.where(norm > 0, norm, 1), norm / 3
    along = np.sum(e * u, 1, keepdims=True)
    stretch = np.cosh(delta) + along * np.sinh(delta)
    expected = (u + (np.sinh(delta) + along * (np.cosh(delta) - 1)) * e) / stretch
    np.testing.assert_allclose(turned, expected, atol=1e-12)
    np.testing.assert_allclose(gain, 3 * np.log(stretch)[:, 0], atol=1e-12)
    back, loss = turn(turned, -jnp.asarray(impulse))
    np.testing.assert_allclose(back, u, atol=1e-8)
    np.testing.assert_allclose(loss, -gain, atol=1e-8)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7)])
def test_largest_deviation_is_by_pairs_of_rows(x64, shape):
    rows = np.random.default_rng(2).normal(size=shape)
    n = len(rows)
    pairs = [(rows[i] @ rows[j]) ** 2 for i in range(n) for j in range(n) if i != j]
    expected = np.mean(pairs) / np.mean(np.sum(rows**2, 1))
    for unit in (1.0, 1e-200, 1e300):  # squares under- and overflow
        found = largest_deviation(unit * jnp.asarray(rows)[None])
        np.testing.assert_allclose(found, [unit * np.sqrt(expected)])
    bad = np.concatenate([rows, np.full((1, shape[1]), np.inf)])
    np.testing.assert_allclose(largest_deviation(jnp.asarray(bad)[None]), [np.sqrt(expected)])
    assert np.all(np.isfinite(largest_deviation(jnp.zeros((1, *shape)))))


def test_meads_goes_on_after_a_steep_start_and_bad_momenta():
    kernel = MEADS(Partial(lambda power, x: -jnp.sum(x**power), jnp.int32(4)))
    start = np.random.default_rng(5).normal(size=(NUM_CHAINS, 2))
    start[2] = 1e6  # where the square of a squared gradient overflows
    state = kernel.init(jnp.asarray(start, jnp.float32))
    bad = state._replace(
        momentum=state.momentum.at[3].set(jnp.nan),
        level=state.level.at[4].set(jnp.nan),
        count=jnp.int32(8),
    )
    for start in (state, bad):
        new, info = STEP(kernel, jax.random.key(0), start)
        assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves((new, info)))
        assert np.sum(np.asarray(new.position) != np.asarray(start.position)) > NUM_CHAINS


def test_all_momenta_of_meads_are_drawn_in_the_first_cycle():
    normal = MEADS(Partial(lambda half, x: -half * jnp.sum(x**2), jnp.float32(0.5)), num_folds=2)
    position = np.random.default_rng(6).normal(size=(1024, 4))
    state = normal.init(jnp.asarray(position, jnp.float32))
    new, _ = STEP(normal, jax.random.key(0), state)
    assert abs(np.var(new.momentum) - 1) < 4.5 * np.sqrt(2 / position.size)


def adapted(kernel, num_warmup, num_iterations):
    """State after some adaptations to equal acceptance rates, at exact draws."""
    kernel = dataclasses.replace(kernel, log_density=Partial(lambda x: -0.5 * jnp.sum(x**2)))
    state = kernel.init(jnp.asarray(np.random.default_rng(7).normal(size=(256, 2))))
    _, info = jax.eval_shape(kernel.step, jax.random.key(0), state)
    info = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), info)
    for i in range(num_iterations):
        state = kernel.adapt(state, info, jnp.int32(i), jnp.int32(num_warmup))
    return state.tuning


@pytest.mark.parametrize("num_warmup", [1, 4, 5])
def test_a_warmup_of_few_iterations_keeps_the_step_size(num_warmup):
    step_size = adapted(ChEES(step_size=0.3), num_warmup, num_warmup).step_size
    assert np.isclose(step_size, 0.3) == (num_warmup < 5)


def test_a_given_mass_matrix_fades_in_warmup():
    given = ChEES(inverse_mass_matrix=jnp.array([100.0, 100.0]))
    after = [adapted(given, 100, n).variance[0] for n in (1, 10, 50)]
    assert 50 < after[0] < 70
    assert 3 < after[1] < 6
    assert after[2] < 1.5
    np.testing.assert_allclose(adapted(ChEES(), 100, 1).variance, 1.0, rtol=0.2)


def test_halton_fills_the_unit_interval_and_levels_wrap():
    numbers = np.sort([float(halton(jnp.int32(i), jnp.float32)) for i in range(16)])
    np.testing.assert_allclose(numbers, np.arange(16) / 16, atol=1e-6)
    np.testing.assert_allclose(wrap(jnp.array([0.5, 1.25, -1.0])), [0.5, -0.75, -1.0])


def location_and_scale(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    log_scale = ppl.sample(key, dist.Normal(0.0, 0.5), name="log_scale")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(4), jnp.exp(log_scale)), name="y")


def last_positions(key, posterior, kernel, num_warmup=150, num_iterations=200):
    """Positions of all chains after warm-up, from starts far from the posterior."""
    target = ppl.unconstrain(posterior)
    kernel = dataclasses.replace(kernel, log_density=Partial(type(target).log_density, target))
    for_starts, for_steps = jax.random.split(key)
    start = jax.random.uniform(for_starts, (2, NUM_CHAINS), minval=-2.0, maxval=2.0)

    def step(state, row):
        number, key = row
        state, info = kernel.step(key, state)
        adapted = kernel.adapt(state, info, number, jnp.int32(num_warmup))
        return jax.tree.map(lambda a, b: jnp.where(number < num_warmup, a, b), adapted, state), None

    rows = jnp.arange(num_iterations), jax.random.split(for_steps, num_iterations)
    state = kernel.init({"mu": start[0], "log_scale": start[1]})
    return jax.lax.scan(step, state, rows)[0].position


def report(kernel):
    """Report that fails for a right kernel with a chance of 1e-5."""
    fit = functools.partial(last_positions, kernel=kernel)
    settings = {"observed": ["y"], "num_simulations": 500, "level": 1e-5, "vectorized": True}
    return calibrate(jax.random.key(4), location_and_scale, fit=fit, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_chains_are_calibrated_after_warmup(name):
    found = report(KERNELS[name])
    assert found.is_calibrated, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ChEES", "AdjustedMCLMC"])
def test_calibration_shows_a_wrong_energy(monkeypatch, name):
    if name == "ChEES":
        monkeypatch.setattr(chees, "kinetic_change", lambda start, end: jnp.zeros(len(start)))
    else:
        wrong = lambda u, g: (turn(u, g)[0], jnp.zeros(len(u)))  # noqa: E731
        monkeypatch.setattr(adjusted_mclmc, "turn", wrong)
    brief = dataclasses.replace(KERNELS[name], max_num_steps=16)  # no energy limits the step size
    assert not report(brief).is_calibrated
