"""Kernels that move along differences of chains: exact laws, invariance, starts, bad settings."""

import dataclasses
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random

import distributions as dist
import ppl
from inference import (
    AffineInvariant,
    DifferentialEvolution,
    mcmc,
    mcse_mean,
)
from inference.kernels.ensemble.differences import distinct_chains, rank_of_differences

FAILURE_RATE = 1e-5  # of one test, by chance
NUM_ENSEMBLES, NUM_CHAINS, NUM_STEPS = 1_000, 8, 3
KERNELS = {
    "AffineInvariant": AffineInvariant(num_steps=1),
    "DifferentialEvolution": DifferentialEvolution(num_steps=1, snooker_rate=0.5),
}


def transitions(kernel, key, positions, number):
    """Positions of all chains after each of some transitions, and acceptance rates."""

    def step(state, key):
        state, info = kernel.step(key, state)
        return state, (state.position, info.acceptance_rate)

    return lax.scan(step, kernel.init(positions), random.split(key, number))[1]


SCALES = np.array([0.05, 1.0, 1.0, 5.0, 10.0, 30.0])
FACTOR = SCALES[:, None] * (np.eye(6) + 0.9 * np.tri(6, k=-1))
MEAN = np.arange(6.0)


def correlated(key, mean, factor):
    ppl.sample(key, dist.MultivariateNormal(mean, scale_tril=factor), name="x")


def run(kernel, **settings):
    settings = {"num_chains": 28, "num_warmup": 100, "num_draws": 200} | settings
    arguments = jnp.asarray(MEAN, float), jnp.asarray(FACTOR, float)
    return mcmc(random.key(0), correlated, *arguments, kernel=kernel, **settings)


@pytest.mark.quick_rows("float32-DifferentialEvolution")
@pytest.mark.parametrize("kernel", [AffineInvariant(), DifferentialEvolution()], ids=KERNELS)
def test_a_correlated_normal_has_its_moments(float_dtype, kernel):
    result = run(kernel, num_draws=500)
    x = np.asarray(result.draws["x"], np.float64)
    z = np.linalg.solve(FACTOR, np.moveaxis(x - MEAN, -1, 0).reshape(6, -1)).reshape(6, 28, 500)
    for i in range(6):
        for values, mean in [(z[i], 0), (z[i] ** 2, 1), (z[i] * z[i - 1], 0)]:
            assert abs(values.mean() - mean) < 4.5 * mcse_mean(values)
            assert mcse_mean(values) < 0.08
    assert result.draws["x"].dtype == float_dtype
    assert {"acceptance_rate", "num_evaluations", "log_density"} == set(result.stats)
    assert "nested" not in str(result.summary())  # each chain has a start of its own


@pytest.mark.parametrize(
    "kernel", [AffineInvariant(), DifferentialEvolution(snooker_rate=0.0)], ids=KERNELS
)
def test_chains_of_a_mapped_density_are_mapped(x64, kernel):
    start = np.random.default_rng(1).normal(size=(14, 6))

    def forward(x):
        return np.asarray(x) @ FACTOR.T + MEAN

    inverse = jnp.asarray(np.linalg.inv(FACTOR))

    def log_density(is_mapped, y):
        x = jnp.where(is_mapped, inverse @ (y - MEAN), y)
        return -jnp.sum(jnp.cosh(x))

    @jax.jit
    def draws(is_mapped, start):
        moved = dataclasses.replace(kernel, log_density=lambda y: log_density(is_mapped, y))
        return transitions(moved, random.key(2), start, 5)[0]

    plain = draws(False, start)
    assert np.mean(plain[-1] != start) > 0.9
    mapped = draws(True, forward(start))
    np.testing.assert_allclose(mapped, forward(plain), rtol=1e-8, atol=1e-8)


def test_jumps_restore_the_weights_of_modes():
    """A quarter of the chains starts where three quarters of the mass are."""

    def log_density(x):
        heights = jnp.log(jnp.array([0.75, 0.25])) - 0.5 * (x - jnp.array([-15.0, 15.0])) ** 2
        return jax.nn.logsumexp(heights)

    start = np.random.default_rng(3).normal(size=64) + np.repeat([-15.0, 15.0], [16, 48])
    kernel = DifferentialEvolution(log_density, num_steps=8)
    draws = jax.jit(lambda x: transitions(kernel, random.key(4), x, 1000)[0])(jnp.asarray(start))
    is_low = np.asarray(draws[100:].T < 0, float)
    assert mcse_mean(is_low) < 0.02
    assert abs(is_low.mean() - 0.75) < 4.5 * mcse_mean(is_low)


def stepped(key):
    """A density by a loop that has no gradient: Beta(2, 1) within steps of doubling weight."""
    x = ppl.sample(key, dist.Uniform(0.0, 4.0), name="x")
    left, weight = lax.while_loop(lambda c: c[0] > 1, lambda c: (c[0] - 1, 2 * c[1]), (x, 1.0))
    ppl.factor(jnp.log(weight * left), name="weight")


def test_a_density_needs_no_gradient():
    settings = {"num_chains": 16, "num_warmup": 100, "num_draws": 500}
    result = mcmc(random.key(0), stepped, kernel=DifferentialEvolution(num_steps=4), **settings)
    for i, weight in enumerate([1, 2, 4, 8]):
        is_there = (np.floor(result.draws["x"]) == i).astype(float)
        assert abs(is_there.mean() - weight / 15) < 4.5 * mcse_mean(is_there)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_draws_are_never_where_the_density_is_nan(kernel):
    def log_density(x):
        return jnp.where(jnp.all(jnp.abs(x) < 1), 0.0, jnp.nan)

    kernel = dataclasses.replace(kernel, log_density=log_density)
    start = random.uniform(random.key(5), (16, 2), minval=-1.0)
    outside = jnp.array([[3.0, 0.0], [jnp.nan, 0.0]])  # as no driver starts them
    start = jnp.concatenate([start, outside])
    draws, rate = jax.jit(lambda x: transitions(kernel, random.key(6), x, 500))(start)
    assert np.abs(draws[:, :16]).max() < 1
    np.testing.assert_allclose(np.var(draws[:, :16], (0, 1)), 1 / 3, rtol=0.15)
    assert np.all(np.isfinite(rate))


@pytest.mark.parametrize(
    ("kernel", "num_chains", "words"),
    [
        (AffineInvariant(), 4, "an even number of 6 chains at least, got 4; write num_chains=12"),
        (AffineInvariant(), 7, "an even number of 6 chains at least, got 7"),
        (DifferentialEvolution(), 5, "needs an even number of 6 chains"),
        (AffineInvariant(max_stretch=1.0), 6, "max_stretch must be a finite number above 1"),
        (DifferentialEvolution(step_size=0.0), 6, "step_size must be a positive"),
        (DifferentialEvolution(jitter=0.0), 6, "jitter must be a number between 0 and 1"),
        (DifferentialEvolution(jump_rate=1.0), 6, "jump_rate must be a number in [0, 1), got 1.0"),
        (DifferentialEvolution(snooker_rate=-0.1), 6, "snooker_rate must be a number in [0, 1)"),
    ],
)
def test_settings_are_checked_in_words(kernel, num_chains, words):
    kernel = dataclasses.replace(kernel, log_density=lambda x: -jnp.sum(x**2))
    with pytest.raises(ValueError, match=re.escape(words)):
        kernel.init(np.random.default_rng(0).normal(size=(num_chains, 2)))


def test_the_number_of_sweeps_and_the_density_are_checked():
    with pytest.raises(ValueError, match="num_steps must be an integer of at least 1, got 0"):
        AffineInvariant(num_steps=0)
    with pytest.raises(ValueError, match="AffineInvariant has no log_density"):
        AffineInvariant().init(np.random.default_rng(0).normal(size=(6, 2)))
    with pytest.raises(ValueError, match="returned an array of shape"):
        AffineInvariant(lambda x: x).init(np.random.default_rng(0).normal(size=(6, 2)))


def test_starts_that_do_not_differ_in_all_directions_are_refused():
    with pytest.raises(ValueError, match="differ only in 0 directions of 6"):
        run(DifferentialEvolution(), init={"x": MEAN})
    with pytest.raises(ValueError, match="an even number of 14 chains at least, got 4"):
        run(AffineInvariant(), num_chains=4)
    with pytest.raises(ValueError, match="AffineInvariant adapts as its own fields say"):
        run(AffineInvariant(), target_acceptance_rate=0.9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rank_of_differences_is_up_to_rounding(dtype):
    rng = np.random.default_rng(8)
    points = (rng.normal(size=(40, 3)) * [1e-6, 1.0, 1e6] + [0.0, 1e3, 0.0]).astype(dtype)
    assert rank_of_differences(points) == 3
    on_plane = np.column_stack([points, points @ np.array([3.0, 0.1, 1e-6], dtype)])
    assert rank_of_differences(on_plane) == 3
    assert rank_of_differences(np.column_stack([points, np.full(40, 7, dtype)])) == 3
    assert rank_of_differences(points[:2]) == 1


def test_triples_of_chains_are_distinct_and_uniform():
    triples = np.asarray(distinct_chains(random.key_data(random.key(9)), 0, 60_000, 5))
    assert all(np.all(a != b) for a, b in itertools.combinations(triples, 2))
    counts = np.unique(triples.T, axis=0, return_counts=True)[1]
    assert len(counts) == 60
    assert st.chisquare(counts).pvalue > FAILURE_RATE


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_devices_of_a_mesh_work_together(kernel):
    settings = {"num_chains": 16, "num_warmup": 12, "num_draws": 3}
    alone = run(kernel, **settings)
    together = run(kernel, mesh=jax.make_mesh((4,), ("x",)), **settings)
    np.testing.assert_allclose(together.draws["x"], alone.draws["x"], rtol=1e-2, atol=1e-2)


@dataclasses.dataclass(frozen=True)
class SumOfOthers(AffineInvariant):
    """Each chain becomes the sum of the chains that stay."""

    def propose(self, seed, moving, others):
        return jnp.ones_like(moving) * jnp.sum(others), jnp.full(len(moving), 99.0)


def test_a_half_moves_by_the_chains_of_the_other_half():
    """A law of six numbers tells too little: stretch moves within one half are nearly right."""
    kernel = SumOfOthers(lambda x: 0 * x, num_steps=1)
    start = np.float32([1, 10, 100, 1000])
    for number in range(4):
        state, _ = kernel.step(random.key(number), kernel.init(start))
        values, times = np.unique(state.position, return_counts=True)
        first = state.position == values[0]
        assert list(times) == [2, 2]
        assert values[0] == start[~first].sum()
        assert values[1] == 2 * values[0]
