"""Inverse Hessians from pairs against dense matrices, and the normal distributions they make."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix
from inference.guides.low_rank_normal import (
    GuideMixture,
    GuideMixtureParameters,
    LowRankNormalGuide,
    LowRankNormalParameters,
)
from inference.optimization.inverse_hessian import add_pair, init_pairs, normal_from

Z = 4.3  # for at most forty means: failure rate 7e-4


def some_pairs(size, number, history, dtype):
    """Pairs of a quadratic with some noise, so that no two agree; the arrays that went in."""
    rng = np.random.default_rng(size + number)
    root = rng.normal(size=(size, size)) + 2 * np.eye(size)
    steps = rng.normal(size=(number, size))
    falls = steps @ (root @ root.T) + 0.1 * rng.normal(size=(number, size))
    pairs = init_pairs(jnp.zeros(size, dtype), history)
    for step, fall in zip(steps, falls, strict=True):
        pairs = jax.jit(add_pair)(pairs, jnp.asarray(step, dtype), jnp.asarray(fall, dtype))
    return pairs, steps, falls


def compact(variance, steps, falls):
    """The inverse Hessian by equations 7 and 8 of Zhang et al. (2022)."""
    s, z, alpha = steps.T, falls.T, np.diag(variance)
    upper = np.triu(s.T @ z)
    inverse = np.linalg.inv(upper)
    corner = inverse.T @ (np.diag(np.diag(upper)) + z.T @ alpha @ z) @ inverse
    gamma = np.block([[np.zeros_like(upper), -inverse], [-inverse.T, corner]])
    beta = np.concatenate([alpha @ z, s], 1)
    return alpha + beta @ gamma @ beta.T


CASES = {"few": (7, 3, 5), "full": (9, 4, 4), "forgotten": (9, 6, 3), "many": (4, 6, 6)}


@pytest.mark.quick_rows("float64-forgotten", "float32-forgotten", "float32-many")
@pytest.mark.parametrize("name", CASES)
def test_the_covariance_is_that_of_the_compact_form(name, float_dtype):
    size, number, history = CASES[name]
    pairs, steps, falls = some_pairs(size, number, history, float_dtype)
    gradient = jnp.linspace(-1, 1, size, dtype=float_dtype)
    found = jax.jit(normal_from)(pairs, jnp.ones(size, float_dtype), gradient)
    expected = compact(np.float64(pairs.variance), steps[-history:], falls[-history:])
    tolerance = {"atol": (1e-9 if float_dtype == jnp.float64 else 2e-4) * np.abs(expected).max()}
    rank = min(size, 2 * history)
    covariance = LowRankNormalGuide(rank).covariance(found)
    assert covariance.dtype == float_dtype
    assert found.factor.vectors.shape == (rank, size)
    np.testing.assert_allclose(covariance, expected, **tolerance)
    np.testing.assert_allclose(found.loc, 1 + expected @ np.linspace(-1, 1, size), **tolerance)
    np.testing.assert_allclose(expected @ falls[-1], steps[-1], atol=1e-8)  # the secant equation


def test_the_diagonal_is_that_of_a_dense_update(x64):
    """Of BFGS from the old one, scaled to the curvature along the step; one that fits is left."""
    curvature, step = np.array([4.0, 1.0, 0.25]), np.array([1.0, -2.0, 0.5])
    old, fall = np.array([0.3, 2.0, 1.5]), curvature * step
    hessian = np.diag(fall**2 @ old / (fall @ step) / old)
    along = hessian @ step
    hessian += np.outer(fall, fall) / (fall @ step) - np.outer(along, along) / (step @ along)
    pairs = init_pairs(jnp.zeros(3), 3)

    def updated(variance):
        return add_pair(pairs._replace(variance=jnp.asarray(variance)), step, fall).variance

    np.testing.assert_allclose(updated(old), 1 / np.diag(hessian), rtol=1e-12)
    np.testing.assert_allclose(updated(1 / curvature), 1 / curvature, rtol=1e-12)


def test_pairs_without_curvature_are_left_out():
    pairs, step = init_pairs(jnp.zeros(3), 2), jnp.ones(3)
    for fall in (-step, 0 * step, jnp.nan * step, jnp.array([1.0, -1.0, 0.0])):
        jax.tree.map(np.testing.assert_array_equal, add_pair(pairs, step, fall), pairs)


def some_stretched(dtype, seed=0):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(4, 2)))[0].T
    loc, scale = rng.normal(size=4), np.exp(rng.normal(size=4) - 1)
    parameters = LowRankNormalParameters(loc, LowRankMatrix(scale, vectors, np.array([2.7, 0.5])))
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), parameters)


def some_mixture(dtype):
    components = [some_stretched(dtype, seed) for seed in (0, 1)]
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *components)
    return GuideMixtureParameters(jnp.log(jnp.array([0.25, 0.75], dtype)), stacked), components


def check_draws(guide, parameters, mean, covariance, num_draws=40_000):
    keys = jax.random.split(jax.random.key(1), num_draws)
    draws = np.float64(jax.jit(jax.vmap(guide.sample, (None, 0)))(parameters, keys))
    centered = draws - mean
    assert np.all(np.abs(centered.mean(0)) < Z * np.sqrt(np.diag(covariance) / num_draws))
    products = centered[:, :, None] * centered[:, None]
    errors = products.std(0) / np.sqrt(num_draws)
    assert np.all(np.abs(products.mean(0) - covariance) < Z * errors)


def test_a_stretched_normal_is_normal(float_dtype):
    guide, parameters = LowRankNormalGuide(2), some_stretched(float_dtype)
    mean, covariance = np.float64(parameters.loc), np.float64(guide.covariance(parameters))
    exact = st.multivariate_normal(mean, covariance)
    at = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)), float_dtype)
    tolerance = 1e-10 if float_dtype == jnp.float64 else 2e-5
    found = jax.vmap(guide.log_prob, (None, 0))(parameters, at)
    np.testing.assert_allclose(found, exact.logpdf(at), rtol=tolerance)
    np.testing.assert_allclose(guide.entropy(parameters), exact.entropy(), rtol=tolerance)
    check_draws(guide, parameters, mean, covariance)


@pytest.mark.quick_rows("float32")
def test_a_mixture_is_one(float_dtype):
    parameters, components = some_mixture(float_dtype)
    family = LowRankNormalGuide(2)
    guide = GuideMixture(family, 2)
    locs = np.float64(parameters.components.loc)
    exact = [
        st.multivariate_normal(np.float64(x.loc), np.float64(family.covariance(x)))
        for x in components
    ]
    at = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)), float_dtype)
    log_pdfs = np.log([0.25, 0.75])[:, None] + [x.logpdf(at) for x in exact]
    found = jax.vmap(guide.log_prob, (None, 0))(parameters, at)
    np.testing.assert_allclose(found, np.logaddexp(*log_pdfs), rtol=2e-5)
    mean = 0.25 * locs[0] + 0.75 * locs[1]
    covariance = np.float64(guide.covariance(parameters))
    check_draws(guide, parameters, mean, covariance)
    start = guide.init(jnp.zeros(4, float_dtype), Layout.of(jnp.zeros(4, float_dtype)))
    np.testing.assert_allclose(guide.covariance(start), np.eye(4), atol=1e-6)
    assert jax.tree.map(jnp.shape, start) == jax.tree.map(jnp.shape, parameters)


def test_one_call_of_lapack_waits_for_another():
    pairs = jax.tree.map(lambda x: jnp.stack([x] * 40), some_pairs(100, 3, 6, jnp.float32)[0])
    at = jnp.ones((40, 100), jnp.float32)
    text = jax.jit(jax.vmap(normal_from)).lower(pairs, at, at).compile().as_text()
    lines = dict(re.findall(r"^ *(?:ROOT )?%([\w.-]+) = (.*)$", text, re.MULTILINE))
    waiting = [name for name, line in lines.items() if "lapack_ssyevd" in line]
    before = set(waiting)
    while waiting:
        names = set(re.findall(r"%([\w.-]+)", lines.get(waiting.pop(), ""))) - before
        before |= names
        waiting.extend(names)
    called = {
        found[0] for name in before if (found := re.findall(r"lapack_\w+", lines.get(name, "")))
    }
    assert called == set(re.findall(r"lapack_\w+", text))
    assert len(called) == 3
