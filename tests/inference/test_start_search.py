"""The search for starts: the best of ten uniform points, or the first finite one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import mcmc
from inference.initialization.start_search import StartingPoints, search_starts

CHAINS = np.arange(2)
DENSITIES = np.random.default_rng(0).normal(size=(2, 100)) - 5.0


def search(densities, gradients=None, num_candidates=10):
    """The chosen attempts of two chains, and the attempts that were evaluated."""
    seen = []

    def evaluate(attempts):
        seen.append(attempts.tolist())
        pick = lambda table: table[CHAINS, attempts]  # noqa: E731
        gradient = np.zeros(2) if gradients is None else pick(gradients)
        return StartingPoints(1.0 * attempts[:, None], pick(densities), gradient[:, None])

    found, is_found, _ = search_starts(evaluate, 2, num_candidates)
    assert is_found.all()
    return found.position[:, 0].astype(int).tolist(), seen


def test_a_uniform_start_is_the_best_of_ten():
    chosen, seen = search(DENSITIES)
    assert chosen == DENSITIES[:, :10].argmax(1).tolist()
    assert seen == [[i, i] for i in range(10)] + [chosen]  # the last are the chosen ones


def test_points_that_are_not_finite_are_never_chosen():
    densities, gradients = DENSITIES.copy(), np.zeros_like(DENSITIES)
    densities[0, :12], densities[1, 3] = -np.inf, np.inf
    gradients[1, densities[1, :10].argsort()[-2]] = np.nan
    chosen, seen = search(densities, gradients)
    assert chosen == [12, densities[1, :10].argsort()[-3]]
    assert seen[10:] == [[10, chosen[1]], [11, chosen[1]], [12, chosen[1]]]


def test_other_starts_are_the_first_finite_ones():
    densities = DENSITIES.copy()
    densities[0, :2] = np.nan
    assert search(densities, num_candidates=1) == ([2, 0], [[0, 0], [1, 0], [2, 0]])
    assert search(DENSITIES, num_candidates=1) == ([0, 0], [[0, 0]])


@pytest.mark.parametrize("init", ["uniform", "optimum"])
def test_later_uniform_points_come_nearer_to_zero(init):
    """Uniform points make a correlation matrix of 30 rows that is singular in single precision."""

    def model(key):
        ppl.sample(key, dist.LKJ(30, 1.0), name="c")

    run = {"num_warmup": 0, "num_draws": 1, "num_chains": 2}
    draws = mcmc(jax.random.key(0), model, init=init, **run).draws["c"]
    assert np.linalg.eigvalsh(draws.astype(float)).min() > 0


def arma(key, y):
    """Where |theta| > 1 the errors grow as theta^t, and gradients reach 1e100."""
    phi = ppl.sample(key, dist.Normal(0.0, 2.0), name="phi")
    theta = ppl.sample(key, dist.Normal(0.0, 2.0), name="theta")

    def step(state, inputs):
        (before, error), (key, y) = state, inputs
        mean = phi * before + theta * error
        ppl.sample(key, dist.Normal(mean, 1.0), name="y")
        return (y, y - mean), None

    start = jnp.zeros((), y.dtype)
    jax.lax.scan(step, (start, start), (jax.random.split(key, len(y)), y))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*far from the others:RuntimeWarning")
def test_all_chains_of_an_arma_arrive(x64):
    """From the first finite uniform point, half of all chains froze: 1023 steps of 1e-51 a draw."""
    error = np.random.default_rng(0).normal(size=201)
    y = jnp.asarray(error[1:] + 0.4 * error[:-1])
    posterior = ppl.condition(arma, {"y": y})
    for seed in range(5):
        settings = {"num_warmup": 300, "num_draws": 100}
        stats = mcmc(jax.random.key(seed), posterior, y, **settings).stats
        assert np.ptp(stats["log_density"].mean(1)) < 3
        assert stats["num_steps"].mean() < 10
