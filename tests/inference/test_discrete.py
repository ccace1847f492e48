"""Kernels of bounded integers: laws by enumeration, broken proposals, bounds, bad input."""

import dataclasses
import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random

from inference import DiscreteLangevin, DiscreteLangevinInfo, GibbsWithGradients, Kernel, mcse_mean
from inference.kernels.discrete import discrete_langevin as langevin_module
from inference.kernels.discrete import gibbs_with_gradients as gwg_module

FAILURE_RATE = 1e-5  # of one test, by chance
NUM_CHAINS = 4000


class Enumerated(NamedTuple):
    """Density of which all states are known.

    Attributes:
        log_density: Log density of a vector.
        states: All vectors, ``(state, element)``.
        log_densities: Log density of each, computed by NumPy, up to a constant.
    """

    log_density: Callable[[Any], jax.Array]
    states: np.ndarray
    log_densities: np.ndarray

    @property
    def probs(self):
        weights = np.exp(self.log_densities - self.log_densities.max())
        return weights / weights.sum()

    def draws(self, size):
        return self.states[np.random.default_rng(1).choice(len(self.states), size, p=self.probs)]

    def p_value(self, draws):
        """The least p-value of chi-square tests of log densities and of the first elements."""
        numbers = np.ravel_multi_index(tuple(draws.T), tuple(self.states.max(0) + 1))
        _, levels = np.unique(self.log_densities.round(4), return_inverse=True)
        patterns = np.unique(self.states[:, :4], axis=0, return_inverse=True)[1].ravel()
        return min(chi_square(x[numbers], x, self.probs) for x in (levels, patterns))


def chi_square(found, cells, probs):
    """P-value of cells of draws; cells of few draws are joined."""
    expected = np.bincount(cells, probs) * len(found)
    observed = np.bincount(found, minlength=len(expected))
    if np.any(observed[expected == 0]):
        return 0.0
    observed = observed[expected > 0]
    expected = expected[expected > 0]
    order = np.argsort(expected)
    group = np.empty(len(expected), int)
    group[order] = np.floor(np.cumsum(expected[order]) / 20)
    _, group = np.unique(group, return_inverse=True)
    if group.max() == 0:
        return 1.0
    return st.chisquare(np.bincount(group, observed), np.bincount(group, expected)).pvalue


def grid(rows):
    """Pairs of neighbors on a grid of so many rows and columns."""
    number = np.arange(rows**2).reshape(rows, rows)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    return np.concatenate([across, np.stack([number[:-1].ravel(), number[1:].ravel()])], 1)


def ising():
    """Sixteen spins of 0 and 1 on a grid of 4 x 4, and a field that grows along it."""
    a, b = grid(4)
    field = np.linspace(-0.4, 0.6, 16)

    def log_density(x):
        s = 2 * x - 1
        return 0.35 * jnp.sum(s[a] * s[b]) + jnp.sum(field.astype(np.float32) * s)

    states = np.array(list(itertools.product([0, 1], repeat=16)))
    s = 2 * states - 1
    return Enumerated(log_density, states, 0.35 * np.sum(s[:, a] * s[:, b], 1) + s @ field)


def potts():
    """Nine elements of three values on a grid: equal neighbors and larger values weigh more.

    The cosine of the angle between two values is 1 if they are equal, and -1/2 if they are not.
    """
    a, b = grid(3)

    def log_density(x):
        angle = (2 * np.pi / 3) * (x[a] - x[b])
        return 0.5 * jnp.sum(jnp.cos(angle)) + 0.2 * jnp.sum(x)

    states = np.array(list(itertools.product(range(3), repeat=9)))
    equal = np.sum(states[:, a] == states[:, b], 1)
    return Enumerated(log_density, states, 0.75 * equal + 0.2 * states.sum(1))


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


@pytest.mark.quick_rows(
    "Ising-GibbsWithGradients",
    "Potts-GibbsWithGradients, exact",
    "Potts-DiscreteLangevin",
)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_kernel_leaves_exact_draws_exact(target, name):
    target = TARGETS[target]
    kernel = bind(KERNELS[name], target)
    assert isinstance(kernel, Kernel)
    draws, rate = after(kernel, target.draws(NUM_CHAINS))
    assert 0.4 < rate < 0.97  # there is something to get wrong
    assert target.p_value(draws) > FAILURE_RATE


@pytest.mark.quick_rows("Potts-GibbsWithGradients")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_chains_from_one_corner_reach_the_law(target, name):
    target = TARGETS[target]
    kernel = bind(KERNELS[name], target)
    num_steps = 300 if isinstance(kernel, DiscreteLangevin) else 30  # of one proposal, or six
    draws, _ = after(kernel, np.zeros((1500, target.states.shape[1]), int), num_steps)
    assert target.p_value(draws) > FAILURE_RATE


@pytest.mark.parametrize("name", ["GibbsWithGradients, exact", "DiscreteLangevin"])
def test_proposals_that_are_taken_for_symmetric_are_caught(monkeypatch, name):
    monkeypatch.setattr(gwg_module, "log_proposal_ratio", lambda *_: 0.0)
    monkeypatch.setattr(langevin_module, "log_proposal_ratio", lambda *_: 0.0)
    draws, _ = after(bind(KERNELS[name], POTTS), POTTS.draws(NUM_CHAINS), 5)
    assert POTTS.p_value(draws) < FAILURE_RATE


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


@pytest.mark.quick_rows("GibbsWithGradients", "DiscreteLangevin, exact")
@pytest.mark.parametrize("name", KERNELS)
def test_refreshed_states_are_those_of_the_new_density(name):
    kernel = bind(KERNELS[name], POTTS)
    state = kernel.init(jnp.arange(9) % 3)
    other = dataclasses.replace(kernel, log_density=lambda x: 2 * POTTS.log_density(x))
    expected = other.init(state.position)
    jax.tree.map(np.testing.assert_array_equal, other.refresh(state), expected)
    assert other.refresh(state).log_density != state.log_density


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


def test_floats_and_keys_of_both_kinds_are_taken(float_dtype):
    kernel = bind(GibbsWithGradients(), ISING)
    state = kernel.init(jnp.zeros(16, jnp.int32))
    assert state.log_density.dtype == state.changes.dtype == float_dtype
    new, info = kernel.step(random.key(3), state)
    assert jax.tree.map(jnp.shape, new) == jax.tree.map(jnp.shape, state)
    jax.tree.map(np.testing.assert_array_equal, kernel.step(random.PRNGKey(3), state), (new, info))
    assert new.position.dtype == jnp.int32


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
