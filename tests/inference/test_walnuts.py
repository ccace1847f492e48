"""WALNUTS: beside a recursive one in NumPy, beside NUTS, and on exact draws of a funnel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import inference
import ppl
from inference import NUTS, WALNUTS
from inference.common.threefry import normal, seed_of
from inference.kernels.hamiltonian import walnuts_trajectory
from inference.kernels.hamiltonian.walnuts_trajectory import judge
from tests.inference.test_nuts_trajectory import SCALES, Recursion, log_density

FAILURE_RATE = 1e-5  # of each test of a distribution
SCALE = 3.0  # of the funnel's first coordinate
NUM_CHAINS = 8_000


class RecursionOfLeaps(Recursion):
    """WALNUTS as in the paper: trees by recursion, and each leap by tries from both of its ends."""

    def __init__(self, *args, tolerance, max_halvings):
        super().__init__(*args)
        self.tolerance, self.max_halvings = tolerance, max_halvings
        self.num_gradients, self.first_tries, self.halvings = 0, [], 0
        self.is_irreversible = False

    def attempt(self, leaf, direction, halvings):
        """The end of a try, and whether its energy stays within the tolerance."""
        whole, energies = self.step_size, [self.change(leaf)]
        self.step_size = whole / 2**halvings
        for _ in range(2**halvings):
            leaf = super().move(leaf, direction)
            self.num_gradients += 1
            energies.append(self.change(leaf))
            if not np.ptp(energies) <= self.tolerance:
                break
        self.step_size = whole
        return leaf, np.ptp(energies) <= self.tolerance

    def move(self, leaf, direction):
        for halvings in range(self.max_halvings + 1):
            end, follows = self.attempt(leaf, direction, halvings)
            self.halvings = max(self.halvings, halvings)
            if halvings == 0:
                self.first_tries.append(min(1.0, np.exp(-self.change(end))))
            if follows:
                break
        if not follows:
            self.is_divergent = True
            return None
        for coarser in range(halvings - 1, -1, -1):
            if self.attempt(end, -direction, coarser)[1]:
                self.is_irreversible = True
                return None
        return end

    def build(self, leaf, direction, depth):
        if depth == 0:
            leaf = self.move(leaf, direction)
            return [leaf], leaf is not None
        return super().build(leaf, direction, depth)


def compare_with_recursion(step_size, tolerance, max_halvings):
    """Events of some transitions, counted; all agree with those of the recursion."""
    kernel = WALNUTS(log_density, step_size, tolerance=tolerance, max_halvings=max_halvings)
    step = jax.jit(lambda key, position: kernel.step(key, kernel.init(position)))
    seen = {"is_irreversible": 0, "is_divergent": 0, "halvings": 0, "depth": 0}
    for number in range(12):
        key = jax.random.key(number)
        position = SCALES * np.random.default_rng(number).normal(size=SCALES.size)
        state, info = step(key, jnp.asarray(position))
        momentum = normal(seed_of(key), SCALES.size, jnp.float64)
        numbers = {"tolerance": tolerance, "max_halvings": max_halvings}
        reference = RecursionOfLeaps(seed_of(key), position, momentum, step_size, 10, **numbers)
        (q, _, gradient, lp), joined, ended = reference.run()
        np.testing.assert_allclose(state.position, q, rtol=0, atol=1e-9)
        np.testing.assert_allclose(state.gradient, gradient, rtol=0, atol=1e-7)
        np.testing.assert_allclose(state.log_density, lp, rtol=1e-8)
        assert info.num_steps == reference.num_gradients
        assert info.depth == joined
        assert info.is_divergent == reference.is_divergent
        assert info.is_irreversible == reference.is_irreversible
        assert info.halvings == reference.halvings
        assert info.is_truncated == (not ended)
        rate = np.mean(reference.first_tries)
        np.testing.assert_allclose(info.acceptance_rate, rate, rtol=1e-8, atol=1e-30)
        seen = {name: count + int(getattr(info, name)) for name, count in seen.items()}
    return seen


@pytest.mark.usefixtures("x64")
@pytest.mark.quick_rows("0.8-0.1-6")
@pytest.mark.parametrize(
    ("step_size", "tolerance", "max_halvings"),
    [(0.4, 0.05, 6), (0.8, 0.1, 6), (1.6, 1.0, 6), (0.8, 2.0, 1), (0.3, 0.5, 0)],
)
def test_walnuts_is_the_recursive_one(step_size, tolerance, max_halvings):
    seen = compare_with_recursion(step_size, tolerance, max_halvings)
    assert seen["depth"] > 6
    assert seen["halvings"] > 0 or max_halvings == 0
    assert seen["is_irreversible"] > 0 or max_halvings < 2
    assert seen["is_divergent"] > 0 or max_halvings > 1


def funnel_model(key):
    v = ppl.sample(key, dist.Normal(0.0, 1.5), name="v")
    return ppl.sample(key, dist.Normal(jnp.zeros(3), jnp.exp(v)), name="x")


def test_an_infinite_tolerance_gives_the_bits_of_nuts():
    runs = [
        inference.mcmc(
            jax.random.key(0),
            funnel_model,
            kernel=kernel,
            num_chains=2,
            num_warmup=100,
            num_draws=50,
            progress=False,
        )
        for kernel in (NUTS(), WALNUTS(tolerance=jnp.inf))
    ]
    nuts, walnuts = (run.draws["x"] for run in runs)
    np.testing.assert_array_equal(walnuts, nuts)
    for name in ("num_steps", "acceptance_rate", "depth", "energy"):
        np.testing.assert_array_equal(runs[1].stats[name], runs[0].stats[name])


def funnel(x):
    v = x[0]
    return -0.5 * (v / SCALE) ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-v) - 0.5 * x[1:].size * v


def funnel_p_value(kernel, num_steps=2):
    """The least p-value of v and of x given v, after transitions from exact draws."""
    rng = np.random.default_rng(0)
    v = SCALE * rng.normal(size=NUM_CHAINS)
    x = np.exp(v / 2)[:, None] * rng.normal(size=(NUM_CHAINS, 5))

    def chain(key, position):
        keys = jax.random.split(key, num_steps)
        state, info = jax.lax.scan(lambda s, key: kernel.step(key, s), kernel.init(position), keys)
        return state.position, info

    keys = jax.random.split(jax.random.key(1), NUM_CHAINS)
    starts = jnp.asarray(np.column_stack([v, x]), jnp.float32)
    draws, info = jax.jit(lambda *xs: jax.lax.map(lambda x: chain(*x), xs))(keys, starts)
    draws = np.asarray(draws, np.float64)
    z = draws[:, 1:] * np.exp(-draws[:, :1] / 2)
    tests = [st.kstest(draws[:, 0] / SCALE, "norm"), st.kstest(z.ravel(), "norm")]
    tests += [st.kstest((z**2).sum(1), "chi2", args=(5,)), st.spearmanr(draws[:, 0], (z**2).sum(1))]
    return min(test.pvalue for test in tests), jax.tree.map(np.asarray, info)


FUNNEL = WALNUTS(funnel, 1.0, tolerance=0.5)


def test_transitions_leave_exact_draws_of_a_funnel_exact():
    p_value, info = funnel_p_value(FUNNEL)
    assert p_value > FAILURE_RATE
    assert 0.1 < np.mean(info.is_irreversible) < 0.9
    assert np.max(info.halvings) >= 6
    assert not np.any(info.is_divergent)


def no_checks(leap, error, tolerance, max_halvings):
    """A leap joins as soon as its energy follows."""
    right = judge(leap, error, tolerance, max_halvings)
    joins = right.joins | (~leap.is_check & right.is_check)
    return right._replace(joins=joins, is_check=right.is_check & ~joins)


def checks_of_the_next_only(leap, error, tolerance, max_halvings):
    """Of the coarser tries, only the finest one is made from the other end."""
    right = judge(leap, error, tolerance, max_halvings)
    joins = right.joins | (leap.is_check & right.begins & ~right.is_irreversible)
    return right._replace(joins=joins, is_check=right.is_check & ~joins)


@pytest.mark.slow
def test_leaps_without_checks_are_caught(monkeypatch):
    monkeypatch.setattr(walnuts_trajectory, "judge", no_checks)
    assert funnel_p_value(FUNNEL, num_steps=4)[0] < FAILURE_RATE


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("broken", [no_checks, checks_of_the_next_only])
def test_leaps_with_too_few_checks_are_not_those_of_the_paper(monkeypatch, broken):
    monkeypatch.setattr(walnuts_trajectory, "judge", broken)
    with pytest.raises(AssertionError):
        compare_with_recursion(0.8, 0.1, 6)


@pytest.mark.slow
def test_a_run_that_goes_on_has_the_draws_of_one_run(tmp_path):
    numbers = {"num_chains": 2, "num_warmup": 100, "progress": False}
    whole = inference.mcmc(
        jax.random.key(0), funnel_model, kernel=WALNUTS(), num_draws=80, **numbers
    )
    folder = tmp_path / "run"
    inference.mcmc(
        jax.random.key(0),
        funnel_model,
        kernel=WALNUTS(),
        num_draws=30,
        checkpoint=folder,
        **numbers,
    )
    longer = inference.resume(folder, funnel_model, kernel=WALNUTS(), num_draws=80, progress=False)
    np.testing.assert_array_equal(longer.draws["x"], whole.draws["x"])
    for name in ("num_steps", "halvings", "is_irreversible"):
        np.testing.assert_array_equal(longer.stats[name], whole.stats[name])


@pytest.mark.parametrize("beyond", [-jnp.inf, jnp.nan])
def test_cliffs_are_divergences_and_leave_exact_draws_exact(beyond):
    """A normal number below 0.5, where the density has no slope to turn a trajectory back."""

    def cut(x):
        return jnp.where(x < 0.5, -0.5 * x**2, beyond)

    kernel = WALNUTS(cut, 1.5, max_halvings=3)
    starts = st.truncnorm.rvs(-np.inf, 0.5, size=NUM_CHAINS, random_state=0)

    def chain(key, position):
        state, info = kernel.step(key, kernel.init(position))
        return state.position, info

    keys = jax.random.split(jax.random.key(2), NUM_CHAINS)
    draws, info = jax.jit(jax.vmap(chain))(keys, jnp.asarray(starts, jnp.float32))
    assert st.kstest(draws, "truncnorm", args=(-np.inf, 0.5)).pvalue > FAILURE_RATE
    assert 0.05 < np.mean(info.is_divergent) < 0.95
    assert np.all(info.halvings[info.is_divergent] == 3)


@pytest.mark.slow
def test_quantiles_of_a_funnel_are_right_with_all_defaults():
    """Where NUTS finds none of the draws below the quantile of 1 %."""
    run = inference.mcmc(
        jax.random.key(0),
        funnel_model,
        kernel=WALNUTS(),
        num_chains=32,
        num_draws=3000,
        progress=False,
    )
    v = run.draws["v"] / 1.5
    assert not np.any(run.stats["is_divergent"])
    for q in (0.01, 0.05, 0.5, 0.95, 0.99):
        x = (v < st.norm.ppf(q)).astype(float)
        assert abs(x.mean() - q) < 5 * float(inference.mcse_mean(x))


def step_at_ones(**settings):
    kernel = WALNUTS(funnel, 0.5, **settings)
    return kernel.step(jax.random.key(0), kernel.init(jnp.ones(3)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tolerance": 0.0}, "tolerance must be a positive number, or infinity, got 0.0"),
        ({"tolerance": jnp.nan}, "tolerance must be a positive number, or infinity, got nan"),
        ({"max_halvings": -1}, "max_halvings must be an integer of at least 0, got -1"),
    ],
)
def test_settings_are_checked(settings, words):
    with pytest.raises(ValueError, match=words):
        step_at_ones(**settings)
