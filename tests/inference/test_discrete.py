"""Kernels of bounded integers: laws by enumeration, broken proposals, bounds, bad input."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random

from inference import DiscreteLangevin, DiscreteLangevinInfo, GibbsWithGradients, mcse_mean
from tests.inference.targets import Enumerated, ising, potts

FAILURE_RATE = 1e-5  # of one test, by chance
NUM_CHAINS = 4000


ISING, POTTS = ising(), potts()
TARGETS = {"Ising": ISING, "Potts": POTTS}
KERNELS = {
    "GibbsWithGradients": GibbsWithGradients(num_steps=6),
    "GibbsWithGradients, exact": GibbsWithGradients(num_steps=6, gradient=False),
    "DiscreteLangevin": DiscreteLangevin(step_size=0.3),
    "DiscreteLangevin, exact": DiscreteLangevin(step_size=0.3, gradient=False),
}


def bind(kernel, target):
    """The kernel of a target's density and number of values."""
    number = int(target.states.max()) + 1
    return dataclasses.replace(kernel, log_density=target.log_density, num_values=number)


def after(kernel, starts, num_steps=1):
    """Positions and mean acceptance rate after some transitions."""

    def chain(key, position):
        keys = random.split(key, num_steps)
        state, info = lax.scan(lambda s, k: kernel.step(k, s), kernel.init(position), keys)
        return state.position, info.acceptance_rate

    keys = random.split(random.key(0), len(jax.tree.leaves(starts)[0]))
    found, rates = jax.jit(jax.vmap(chain))(keys, starts)
    return jax.tree.map(np.asarray, found), float(np.mean(rates))


@pytest.mark.quick_rows("Potts-GibbsWithGradients")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_chains_from_one_corner_reach_the_law(target, name):
    target = TARGETS[target]
    kernel = bind(KERNELS[name], target)
    num_steps = 300 if isinstance(kernel, DiscreteLangevin) else 30  # of one proposal, or six
    draws, _ = after(kernel, np.zeros((1500, target.states.shape[1]), int), num_steps)
    assert target.p_value(draws) > FAILURE_RATE


def test_warm_up_brings_the_acceptance_rate_to_its_target():
    kernel = bind(DiscreteLangevin(step_size=5.0), POTTS)

    @jax.jit
    def chain(key):
        def warm(state, i):
            state, info = kernel.step(random.fold_in(key, i), state)
            return kernel.adapt(state, info, i, jnp.int32(1000)), None

        def draw(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info)

        state, _ = lax.scan(warm, kernel.init(jnp.zeros(9, int)), jnp.arange(1000))
        return lax.scan(draw, state, random.split(random.fold_in(key, 1000), 3000))[1]

    draws, info = chain(random.key(0))
    assert info.step_size.std() < 1e-6
    assert abs(info.acceptance_rate.mean() - 0.574) < 0.1
    expected = POTTS.probs @ POTTS.states
    for i in range(9):
        x = np.asarray(draws[None, :, i], float)
        assert abs(x.mean() - expected[i]) < 4.3 * mcse_mean(x) < 0.4


def test_step_sizes_have_a_limit_where_all_is_accepted():
    kernel = DiscreteLangevin(lambda x: jnp.zeros(()))
    state = kernel.init(jnp.zeros(3, int))
    adapt = jax.jit(kernel.adapt)
    for i in range(20):
        state = adapt(state, DiscreteLangevinInfo(*jnp.ones(3)), jnp.int32(i), jnp.int32(100))
    assert 1.0 < state.step_size <= 10.01


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"step_size": -1.0}, "step_size must be a positive, finite number, got -1.0"),
        ({"target_acceptance_rate": 2.0}, "target_acceptance_rate must be a number between 0 and"),
    ],
)
def test_bad_settings_of_langevin_are_named(settings, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        dataclasses.replace(DiscreteLangevin(total), **settings).init(jnp.array([0, 1]))


def selection(size, seed=0):
    """Variables of a regression, in or out, with normal coefficients integrated out."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(16, size)) + 0.3 * rng.normal(size=(16, 1))
    y = 0.6 * x[:, 0] - 0.5 * x[:, 3] + 0.3 * x[:, 4] + rng.normal(size=16)
    x32, y32 = x.astype(np.float32), y.astype(np.float32)

    def log_density(z):
        covariance = jnp.eye(16) + (x32 * jnp.broadcast_to(z, x.shape)) @ x32.T
        factor = jnp.linalg.cholesky(covariance)
        white = jax.scipy.linalg.solve_triangular(factor, y32, lower=True)
        return -jnp.sum(jnp.log(jnp.diag(factor))) - 0.5 * jnp.sum(white**2) - 0.7 * jnp.sum(z)

    states = np.array(list(itertools.product([0, 1], repeat=size)))
    found = []
    for z in states.astype(bool):
        covariance = np.eye(16) + x[:, z] @ x[:, z].T
        quadratic = y @ np.linalg.solve(covariance, y)
        found.append(-0.5 * (np.linalg.slogdet(covariance)[1] + quadratic) - 0.7 * z.sum())
    return Enumerated(log_density, states, np.array(found))


def long_run(kernel, position, num_draws=1000, seed=0):
    """Positions of one chain."""

    @jax.jit
    def run(state):
        keys = random.split(random.key(seed), num_draws)
        return lax.scan(lambda s, k: (kernel.step(k, s)[0], s.position), state, keys)[1]

    return jax.tree.map(np.asarray, run(kernel.init(position)))


@pytest.mark.parametrize("size", [10, pytest.param(15, marks=pytest.mark.slow)])
def test_variables_are_selected_with_exact_probabilities(size):
    target = selection(size)
    kernel = GibbsWithGradients(target.log_density)
    draws, rate = after(kernel, target.draws(800).astype(bool), 2)
    assert draws.dtype == bool
    assert rate > 0.1
    assert target.p_value(draws.astype(int)) > FAILURE_RATE


def pair(x):
    """A boolean that prefers counts of two and more, and such counts by site."""
    return jnp.sum((0.5 * x["flag"] - 0.2) * x["count"]) + 0.1 * jnp.sum(x["flag"])


MIXED = {"count": jnp.array([1, 2, 3], jnp.int8), "flag": jnp.array([True, False, True])}
BOUNDS = {"lower": {"count": 1, "flag": 0}, "upper": {"count": jnp.array([2, 3, 4]), "flag": 1}}


@pytest.mark.quick_rows("True")
@pytest.mark.parametrize("gradient", [True, False])
def test_sites_keep_their_own_bounds_and_dtypes(gradient):
    kernel = GibbsWithGradients(pair, gradient=gradient, **BOUNDS)
    draws = long_run(kernel, MIXED)
    assert draws["count"].dtype == np.int8
    assert draws["flag"].dtype == bool
    assert draws["count"].min() == 1
    np.testing.assert_array_equal(draws["count"].max(0), [2, 3, 4])
    for i in range(3):
        counts = np.arange(1, i + 3)
        both = np.exp([-0.2 * counts, 0.3 * counts + 0.1])
        x = draws["flag"][:, i].astype(float)[None]
        assert abs(x.mean() - both[1].sum() / both.sum()) < 4.3 * mcse_mean(x)
        x = draws["count"][:, i].astype(float)[None]
        assert abs(x.mean() - both.sum(0) @ counts / both.sum()) < 4.3 * mcse_mean(x)


def test_bounds_may_be_traced_if_their_number_is_known():
    kernel = GibbsWithGradients(lambda x: 0.3 * jnp.sum(x), upper=jnp.array([1, 3]), num_values=4)
    start = kernel.init(jnp.array([1, 2]))
    step = jax.jit(lambda kernel, key, state: kernel.step(key, state))
    found = step(kernel, random.key(0), start)
    jax.tree.map(np.testing.assert_array_equal, found, kernel.step(random.key(0), start))
    with pytest.raises(ValueError, match=r"are traced, .* give it num_values"):
        step(dataclasses.replace(kernel, num_values=None), random.key(0), start)


def steep(x):
    """A density whose derivative is infinite at 0."""
    return jnp.sum(jnp.sqrt(x))


def with_gap(x):
    return jnp.where(jnp.sum(x) == 3, jnp.nan, 0.4 * jnp.sum(x))


ODD = {
    "infinite derivative": (steep, lambda x: np.sqrt(x).sum(1)),
    "NaN": (with_gap, lambda x: np.where(x.sum(1) == 3, -np.inf, 0.4 * x.sum(1))),
}


@pytest.mark.quick_rows("infinite derivative-True", "NaN-False")
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", ODD)
def test_odd_densities_have_exact_laws(name, gradient):
    log_density, exact = ODD[name]
    states = np.array(list(itertools.product(range(3), repeat=3)))
    target = Enumerated(log_density, states, exact(states))
    kernel = GibbsWithGradients(log_density, num_values=3, gradient=gradient, max_change=2)
    draws, _ = after(kernel, np.ones((2000, 3), int) * [1, 2, 1], 10)
    assert target.p_value(draws) > FAILURE_RATE


def test_a_flat_density_has_states_of_both_parities():
    kernel = GibbsWithGradients(lambda x: jnp.zeros(()))
    draws, rate = after(kernel, np.zeros((2000, 4), int), 10)
    assert rate == 1.0
    states = np.array(list(itertools.product([0, 1], repeat=4)))
    assert Enumerated(lambda x: x, states, np.zeros(16)).p_value(draws) > FAILURE_RATE


def total(x):
    return 1.0 * jnp.sum(x)


TABLE = jnp.arange(4.0)
MISTAKES = [
    (total, {}, jnp.zeros(2), TypeError, "position has dtype float32; GibbsWithGradients moves"),
    (total, {}, {"z": "abc"}, TypeError, "position['z'] has dtype text"),
    (total, {}, jnp.array([0, 2]), ValueError, "position has an element 2, outside of its bounds"),
    (total, {"lower": 1}, jnp.array([0, 1]), ValueError, "an element 0, outside of its bounds 1"),
    (total, {"lower": 1, "upper": 0}, jnp.array([0, 1]), ValueError, "lower is above upper, 1 and"),
    (total, {"upper": 1.5}, jnp.array([0, 1]), TypeError, "upper must hold integers, got 1.5"),
    (total, {"upper": np.ones(3, int)}, jnp.array([0, 1]), ValueError, "does not broadcast to"),
    (total, {"upper": {"a": 1}}, jnp.array([0, 1]), ValueError, "have the structure of the"),
    (total, {"upper": 3}, jnp.array([True]), ValueError, "exceed its dtype, from 0 to 1"),
    (total, {"upper": 4, "num_values": 3}, jnp.array([0]), ValueError, "an element has 5 values"),
    (total, {}, jnp.zeros(0, int), ValueError, "to move: got position of shape (0,)"),
    (None, {}, jnp.array([0]), ValueError, "has no log_density; give it one"),
    (lambda x: 1.0 * x, {}, jnp.array([0, 1]), ValueError, "returned an array of shape (2,)"),
    (lambda x: TABLE[x].sum(), {}, jnp.array([0, 1]), TypeError, "values as floating-point numb"),
    (
        lambda x: jnp.sum(x.astype(int) % 2) * 1.0,
        {},
        jnp.array([0, 1]),
        ValueError,
        "its gradient by it is zero whatever the values",
    ),
    (
        lambda x: jnp.sum(jnp.where(x == 1, 2.0, 1.0)),
        {},
        jnp.array([0, 1]),
        ValueError,
        "GibbsWithGradients(gradient=False) evaluates neighbors",
    ),
    (steep, {}, jnp.array([0, 1]), ValueError, "the gradient of log_density by position is not"),
    (
        lambda x: lax.div(x + 3, jnp.asarray(2, x.dtype)).sum() * 1.0,
        {},
        jnp.array([0]),
        ValueError,
        "log_density is 1.0 at the position, and 1.5 at the same values as floating-point",
    ),
]


@pytest.mark.parametrize(("log_density", "settings", "position", "error", "words"), MISTAKES)
def test_bad_input_is_refused_in_words(log_density, settings, position, error, words):
    with pytest.raises(error, match=re.escape(words)):
        GibbsWithGradients(log_density, **settings).init(position)


@pytest.mark.parametrize("name", ["num_values", "max_change", "num_steps"])
def test_counts_are_checked_at_once(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got 0"):
        dataclasses.replace(GibbsWithGradients(), **{name: 0})


def test_flags_are_checked_at_once():
    with pytest.raises(TypeError, match="gradient of GibbsWithGradients must be True or False"):
        dataclasses.replace(GibbsWithGradients(), gradient=1)
