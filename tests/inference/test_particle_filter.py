"""Filters, smoothers and conditional SMC against exact evidence and smoothing distributions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from inference.particles import particle_filter as filters
from inference.particles.backward_sampling import draw_index, sample_backward
from inference.particles.conditional_smc import conditional_smc
from inference.particles.particle_filter import (
    log_evidence_variance,
    particle_filter,
    trace_paths,
)
from inference.particles.resampling import SCHEMES, multinomial
from tests.inference.state_spaces import HIDDEN, HMM, NORMAL, SPACES, batch_means_error

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
slow = pytest.mark.slow


def quick(names, *of_these):
    return [x if x in of_these else pytest.param(x, marks=slow) for x in names]


def error_of_evidence(space, runs=10_000, **settings):
    """Mean of estimates relative to the evidence, minus 1, in standard errors; spread of logs."""

    def estimate(key):
        return particle_filter(key, space, 24, keeps_values=False, **settings).log_evidence

    found = np.asarray(jax.jit(jax.vmap(estimate))(random.split(random.key(0), runs)), float)
    ratios = np.exp(found - space.exact()[0])
    return (ratios.mean() - 1) / (ratios.std() / runs**0.5), found.std()


@pytest.mark.parametrize("name", quick(SPACES, "of_noise"))
@pytest.mark.parametrize("scheme", quick(SCHEMES, "systematic"))
def test_evidence_is_unbiased(name, scheme):
    """Four standard errors: by chance, not so for 6 of 10^5 seeds."""
    assert abs(error_of_evidence(SPACES[name], scheme=SCHEMES[scheme])[0]) < 4


def test_evidence_that_forgets_old_weights_is_caught(monkeypatch):
    """Where a step did not resample, the weights from before it count."""
    reweight = filters.reweight

    def forgetful(log_weights, factors):
        equal = filters.equal_weights(factors.size, factors.dtype)
        return reweight(log_weights, factors)[0], reweight(equal, factors)[1]

    monkeypatch.setattr(filters, "reweight", forgetful)
    assert abs(error_of_evidence(NORMAL)[0]) > 6


@pytest.mark.parametrize("name", quick(SPACES, "normal"))
def test_smoothed_paths_have_the_exact_means(name):
    """Means under the weights of the evidence, which are unbiased; at most 4.5 standard errors."""
    space, runs = SPACES[name], 10_000

    def smooth(key):
        for_run, for_path, for_index = random.split(key, 3)
        run = particle_filter(for_run, space, 24, scheme=multinomial, keeps_states=True)
        index = draw_index(for_index, run.log_weights)
        paths = sample_backward(for_path, space, run), trace_paths(run, index)
        return paths, run.log_evidence, log_evidence_variance(run)

    found = jax.jit(jax.vmap(smooth))(random.split(random.key(1), runs))
    paths, log_evidence, variance = jax.tree.map(lambda x: np.asarray(x, float), found)
    exact, mean, _ = space.exact()
    weights = np.exp(log_evidence - exact)
    for path in paths:
        off = weights[:, None] * (in_one(*path) - mean)
        assert np.abs(off.mean(0) / (off.std(0) / runs**0.5)).max() < 4.5
    # Estimates of its variance are of the asymptotic one.
    assert 0.6 < variance.mean() / log_evidence.var() < 1.4


def in_one(start, path):
    """Values before the first step, if there are any, and of all steps."""
    return path if start is None else np.concatenate([start[:, None], path], 1)


def errors_of_sweeps(space, num_particles, draws=20_000):
    """Means of paths of conditional SMC, in standard errors by batches."""

    def sweep(path, key):
        moved = conditional_smc(key, space, num_particles, *path)
        return moved[:2], moved[:2]

    run = particle_filter(random.key(5), space, 100)
    first = trace_paths(run, jnp.int32(0))
    keys = random.split(random.key(2), draws)
    _, paths = jax.jit(lambda first, keys: jax.lax.scan(sweep, first, keys))(first, keys)
    paths = in_one(*jax.tree.map(lambda x: np.asarray(x, float), paths))
    _, mean, second = space.exact()
    errors = (paths.mean(0) - mean) / batch_means_error(paths)
    if isinstance(space, HMM):
        both = paths[:, 1:] * paths[:, :-1]
    else:
        both, second = (paths - mean) ** 2, np.diag(second)
    return np.concatenate([errors, (both.mean(0) - second) / batch_means_error(both)])


@pytest.mark.parametrize("num_particles", [2, pytest.param(16, marks=slow)])
@pytest.mark.parametrize("name", quick(SPACES, "independent"))
def test_conditional_smc_keeps_the_smoothing_distribution(name, num_particles):
    """All moments within 4.5 standard errors of 50 batches: 1 in 1000 seeds not so by chance."""
    assert np.abs(errors_of_sweeps(SPACES[name], num_particles)).max() < 4.5


def test_a_step_without_weights_ends_the_evidence():
    """Where no particle fits, it is zero; where a weight is NaN, so is it."""

    def run(y):
        space = dataclasses.replace(HIDDEN, y=HIDDEN.y.at[3].set(y))
        return particle_filter(random.key(0), space, 8)

    run = jax.jit(run)
    dead = run(jnp.inf)
    assert dead.log_evidence == -jnp.inf
    assert np.isneginf(dead.increments).tolist() == [t == 4 for t in range(11)]
    assert np.isfinite(dead.log_weights).all()
    assert np.isnan(run(jnp.nan).log_evidence)
