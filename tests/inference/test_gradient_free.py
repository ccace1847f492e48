"""Random-walk Metropolis and slice sampling: exact laws, what warm-up learns, bad settings."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random
from jax.tree_util import Partial

import distributions as dist
import ppl
from inference import (
    MALA,
    LowRankMatrix,
    RandomWalk,
    RandomWalkInfo,
    Slice,
    mcmc,
    mcse_mean,
)
from inference.chains.step_chains import StepChain, make_transition
from inference.common.layout import Layout
from inference.kernels.gradient_free.scale import (
    adapt_scale,
    init_scale,
    is_window_end,
    search_scale,
)
from ppl.harvest.pytrees import register_dataclass


def uneven(key):
    """Scales from 1e-3 to 1e3, a ridge, and a skewed positive site."""
    ppl.sample(key, dist.Normal(jnp.zeros(3), jnp.array([1e-3, 1.0, 1e3])), name="a")
    b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
    ppl.sample(key, dist.Normal(0.99 * b, 0.1), name="c")
    ppl.sample(key, dist.Gamma(2.0, 3.0), name="g")


@pytest.mark.quick_rows("float32-Slice")
@pytest.mark.parametrize("kernel", [RandomWalk(), Slice()], ids=["RandomWalk", "Slice"])
def test_chains_learn_scales_without_tuning(float_dtype, kernel):
    result = mcmc(random.key(0), uneven, kernel=kernel, num_draws=2000)
    draws = jax.tree.map(lambda x: np.asarray(x, np.float64), result.draws)
    scaled = [draws["a"] / [1e-3, 1.0, 1e3], draws["b"], (draws["c"] - 0.99 * draws["b"]) / 0.1]
    numbers = [*np.moveaxis(scaled[0], -1, 0), *scaled[1:], draws["g"] / 3 * 3]
    expected = [(0.0, 1.0)] * 5 + [(2 / 3, 2 / 9)]
    for x, (mean, variance) in zip(numbers, expected, strict=True):
        squares = (x - mean) ** 2
        assert abs(x.mean() - mean) < 4.3 * mcse_mean(x)
        assert abs(squares.mean() - variance) < 4.3 * mcse_mean(squares)
        assert mcse_mean(x) < 0.06 * np.sqrt(variance)
    if isinstance(kernel, RandomWalk):
        assert 0.15 < result.stats["acceptance_rate"].mean() < 0.35


def test_windows_double_and_the_last_is_long():
    ends = [i + 1 for i in range(1000) if is_window_end(jnp.int32(i), jnp.int32(1000))]
    assert ends == [1, 25, 50, 100, 200, 400, 900]
    short = [i + 1 for i in range(40) if is_window_end(jnp.int32(i), jnp.int32(40))]
    assert short == [1, 36]


@pytest.mark.parametrize("size", [3, 120])
def test_the_covariance_is_that_of_the_window(x64, size):
    draws = np.random.default_rng(0).normal(size=(200, size)) @ np.diag(np.linspace(1, 3, size))
    scale = init_scale(None, Layout.of(jnp.zeros(size)))
    adapt = jax.jit(adapt_scale)
    for i, x in enumerate(draws[:180]):
        scale = adapt(scale, jnp.asarray(x), jnp.int32(i), jnp.int32(200))
    window = np.cov(draws[50:180].T) if size == 3 else np.diag(np.var(draws[50:180], 0, ddof=1))
    shrunk = np.where(np.eye(size), window, window * 130 / 135)
    factor = scale.factor if size == 3 else np.diag(scale.factor)
    np.testing.assert_allclose(factor @ factor.T, shrunk, rtol=1e-8)
    assert scale.count == 0


def test_first_scales_are_within_a_factor_of_two(x64):
    sds = jnp.array([1e-4, 0.3, 1.0, 5e4])

    def density(x):
        return -0.5 * jnp.sum((x / sds) ** 2)

    middle = 3 * sds  # not at the mode
    search = jax.jit(lambda wanted: search_scale(density, middle, density(middle), wanted))
    ratio = search(True) / sds
    assert np.all((ratio >= 0.5) & (ratio <= 1.0))
    np.testing.assert_array_equal(search(False), np.ones(4))


def stepped(key):
    """A density with jumps, by a loop that has no gradient: left is Beta(2, 1) within a step."""
    x = ppl.sample(key, dist.Uniform(0.0, 4.0), name="x")
    left, weight = lax.while_loop(lambda c: c[0] > 1, lambda c: (c[0] - 1, 2 * c[1]), (x, 1.0))
    ppl.factor(jnp.log(weight * left), name="weight")


@pytest.mark.parametrize("kernel", [RandomWalk(), Slice()], ids=["RandomWalk", "Slice"])
def test_a_density_needs_no_gradient(kernel):
    result = mcmc(random.key(0), stepped, kernel=kernel, num_draws=4000)
    for i, weight in enumerate([1, 2, 4, 8]):
        is_there = (np.floor(result.draws["x"]) == i).astype(float)
        assert abs(is_there.mean() - weight / 15) < 4.3 * mcse_mean(is_there)
    left = np.asarray(result.draws["x"], np.float64) % 1
    assert abs(left.mean() - 2 / 3) < 4.3 * mcse_mean(left)


def test_kernels_with_gradients_refuse_that_density():
    with pytest.raises(ValueError, match="while_loop"):
        mcmc(random.key(0), stepped, kernel=MALA(), num_warmup=2, num_draws=2)


def test_steps_stay_near_the_first_one_while_all_is_accepted(x64):
    kernel = RandomWalk(lambda x: 0.0 * jnp.sum(x))
    state = kernel.init(jnp.zeros(3))
    adapt = jax.jit(kernel.adapt)
    for i in range(20):
        state = adapt(state, RandomWalkInfo(*jnp.ones(3)), jnp.int32(i), jnp.int32(100))
        assert 1.0 <= state.step_size / (2.38 / np.sqrt(3)) <= 10.0


def with_gaps(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(jnp.where(jnp.abs(x) < 1, 0.0, jnp.nan), name="cut")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RandomWalk(), Slice()], ids=["RandomWalk", "Slice"])
def test_draws_are_never_where_the_density_is_nan(kernel):
    result = mcmc(random.key(0), with_gaps, kernel=kernel, init={"x": 0.1}, num_draws=2000)
    x = np.asarray(result.draws["x"], np.float64)
    assert np.abs(x).max() < 1
    squares = x**2
    assert abs(squares.mean() - st.truncnorm(-1, 1).var()) < 4.3 * mcse_mean(squares)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (RandomWalk(step_size=-1.0), "step_size must be a positive, finite number, got -1.0"),
        (RandomWalk(target_acceptance_rate=1.5), "target_acceptance_rate must be a number between"),
        (
            RandomWalk(covariance=jnp.ones(2)),
            "covariance has shape (2,); the position has",
        ),
        (Slice(width=0.0), "width must be a positive, finite number, got 0.0"),
        (
            Slice(covariance=jnp.array([-1.0])),
            "the kernel's covariance must be finite and positive",
        ),
    ],
)
def test_bad_settings_are_named(kernel, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        mcmc(random.key(0), with_gaps, kernel=kernel, num_warmup=2, num_draws=2)


def test_a_covariance_of_low_rank_is_its_dense_matrix(x64):
    matrix = LowRankMatrix(np.array([1.0, 2.0]), np.array([[0.6, 0.8]]), np.array([9.0]))
    factor = init_scale(matrix, Layout.of(jnp.zeros(2))).factor
    np.testing.assert_allclose(factor @ factor.T, [[3.88, 7.68], [7.68, 24.48]], rtol=1e-8)


def test_a_number_of_steps_is_checked_at_once():
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 1, got 0"):
        RandomWalk(num_steps=0)


def test_settings_of_other_kernels_are_refused_in_words():
    with pytest.raises(ValueError, match="RandomWalk adapts as its own fields say"):
        mcmc(random.key(0), with_gaps, kernel=RandomWalk(), target_acceptance_rate=0.3)


@pytest.mark.parametrize("kernel", [RandomWalk(), Slice()], ids=["RandomWalk", "Slice"])
def test_a_bare_log_density_is_enough(kernel, float_dtype):
    kernel = dataclasses.replace(kernel, log_density=lambda x: -0.5 * jnp.sum(x["b"] ** 2))
    state = kernel.init({"b": jnp.zeros((2, 3), float_dtype)})
    keys = random.split(random.key(0), 2000)
    _, draws = jax.jit(
        lambda s: lax.scan(lambda s, k: (kernel.step(k, s)[0], s.position), s, keys)
    )(state)
    assert draws["b"].dtype == float_dtype
    np.testing.assert_allclose(np.var(draws["b"], 0), 1, atol=0.4)


def test_a_step_is_traced_for_the_first_run_only():
    traces = []

    @register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Counted(RandomWalk):
        def step(self, key, state):
            traces.append(key)
            return super().step(key, state)

    kernel = Counted()
    mcmc(random.key(0), uneven, kernel=kernel, num_warmup=9, num_draws=9, progress=False)
    assert traces
    traces.clear()
    mcmc(random.key(1), uneven, kernel=kernel, num_warmup=9, num_draws=9, progress=False)
    assert not traces


@pytest.mark.parametrize(("size", "extra"), [(10, 1), (100_000, 0)], ids=["small", "large"])
def test_steps_with_little_data_are_one_loop(size, extra):
    def density(data, x):
        return -jnp.sum((x - data) ** 2)

    kernel = RandomWalk(log_density=Partial(density, jnp.zeros(size)))
    state = kernel.init(jnp.zeros(()))
    chain = StepChain(jnp.zeros(2, jnp.uint32), jnp.int32(0), jnp.int32(0), state)
    layout = Layout.of_numbers(jnp.zeros(()))

    def num_loops(is_fused):
        move = lambda kernel, chain: make_transition(kernel, layout, chain, is_fused)  # noqa: E731
        return str(jax.make_jaxpr(move)(kernel, chain)).count("while[")

    assert num_loops(True) == num_loops(False) + extra
