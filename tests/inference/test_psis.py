"""Pareto smoothed weights: against ArviZ's, and the fit against draws with a known shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from inference import psis
from inference.results.psis import (
    fit_pareto,
    largest_pareto_k,
    pareto_quantile,
    psis_of,
    psis_on_host,
)

# Of eight means in standard errors, all stay below this but for a failure rate of 2e-4.
Z = 4.3
SIZE, REPEATS = 2000, 400


def pareto_draws(shape, scale=3.0):
    uniform = np.random.default_rng(0).uniform(size=(REPEATS, SIZE))
    return np.sort(scale * ((1 - uniform) ** -shape - 1) / shape)


@pytest.mark.quick_rows("0.2")
@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.7, 1.5])
def test_the_fit_recovers_shape_and_scale(x64, shape):
    """The shape's asymptotic variance is (1 + k)**2 / n, the scale's 2 sigma**2 (1 + k) / n."""
    shapes, scales = jax.vmap(fit_pareto)(jnp.asarray(pareto_draws(shape)))
    shapes = (shapes * (SIZE + 10) - 5) / SIZE  # without the prior's pull
    for found, true, sd in (
        (shapes, shape, (1 + shape) / np.sqrt(SIZE)),
        (scales, 3.0, 3.0 * np.sqrt(2 * (1 + shape) / SIZE)),
    ):
        bias = 3 * sd / np.sqrt(SIZE)  # of order 1 / n
        assert abs(np.mean(found) - true) < Z * sd / np.sqrt(REPEATS) + bias
        np.testing.assert_allclose(np.std(found), sd, rtol=0.2)


def log_weights(name, size):
    rng = np.random.default_rng(1)
    return {
        "normal": rng.normal(size=size),
        "heavy": 0.9 * rng.exponential(size=size),
        "bounded": np.log(rng.beta(3.0, 2.0, size=size)),
        "shifted": 2.0 * rng.normal(size=size) - 1000.0,
        "many zeros": np.where(rng.uniform(size=size) < 0.3, -np.inf, rng.normal(size=size)),
    }[name]


def arviz_psis(raw):
    """Normalized log weights and the shape, as ArviZ before and after 1.0 has them."""
    try:
        from arviz_stats.base.array import array_stats
    except ImportError:
        from arviz import psislw

        return psislw(raw.copy())
    return array_stats.psislw(-raw)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("size", [30, 900])  # where rounding up or down is the same
@pytest.mark.parametrize("name", ["normal", "heavy", "bounded", "shifted", "many zeros"])
def test_weights_are_those_of_arviz(x64, name, size):
    raw = log_weights(name, size)
    expected, expected_shape = arviz_psis(raw)
    for smoothed, shape in (psis(raw), psis_on_host(raw)):
        np.testing.assert_allclose(shape, expected_shape, rtol=1e-8)
        total = scipy.special.logsumexp(smoothed)
        np.testing.assert_allclose(smoothed - total, expected, rtol=1e-8)


def test_single_precision_and_maps():
    raw = np.stack([log_weights(name, 1000) for name in ("normal", "heavy", "shifted")])
    with jax.enable_x64(True):
        exact = [psis(x) for x in raw]
    smoothed, shapes = jax.jit(jax.vmap(psis))(raw.astype(np.float32))
    assert smoothed.dtype == shapes.dtype == np.float32
    for i, (weights, shape) in enumerate(exact):
        np.testing.assert_allclose(shapes[i], shape, atol=2e-3)
        np.testing.assert_allclose(smoothed[i], weights, atol=2e-3)


@pytest.mark.parametrize(
    ("raw", "shape"),
    [
        (np.zeros(20), np.nan),
        (np.full(100, 3.0), -np.inf),
        (np.r_[np.zeros(99), np.nan], np.inf),
        (np.r_[np.zeros(99), np.inf], np.inf),
        (np.full(100, -np.inf), np.inf),
        (-100.0 * np.arange(100), np.inf),
        (np.r_[np.zeros(97), np.full(3, 2.0)], np.inf),
    ],
    ids=["too few", "constant", "NaN", "infinite", "all zero", "one for all", "a few ties"],
)
def test_weights_without_a_tail(raw, shape):
    for smoothed, found in (psis(raw), psis_on_host(raw)):
        np.testing.assert_equal(float(found), shape)
        np.testing.assert_array_equal(smoothed, np.asarray(raw, smoothed.dtype))


def test_draws_without_density_are_no_rounding():
    log_weights = np.where(np.arange(100) == 50, 0.0, -np.arange(100.0))
    assert psis_of(log_weights, np.r_[-1.0, log_weights[1:]]).pareto_k > 1
    log_density = np.r_[-np.inf, log_weights[1:]]
    assert psis_of(np.r_[-np.inf, log_weights[1:]], log_density).pareto_k > 1
    assert psis_of(np.full(100, -np.inf), np.full(100, -np.inf)).pareto_k == np.inf


def test_rounding_is_of_the_draws_that_count():
    # A draw far out, of next to no weight, says nothing about rounding at the others.
    log_weights = np.asarray(np.random.default_rng(0).pareto(2.0, 1000), np.float32)
    log_density = np.full(1000, -90.0, np.float32)
    k = psis_of(np.log1p(log_weights), log_density).pareto_k
    log_density[np.argmin(log_weights)] = -1e8
    assert psis_of(np.log1p(log_weights), log_density).pareto_k == k > 0.3


def test_one_draw_has_no_tail():
    assert np.isnan(psis_of(np.ones(1), np.ones(1)).pareto_k)


def test_the_quantile_is_continuous_in_the_shape():
    level = jnp.linspace(0.1, 0.9, 5)
    exponential = -np.log1p(-np.asarray(level))
    for shape in (-1e-4, 0.0, 1e-9, 1e-4):
        found = pareto_quantile(level, jnp.float32(shape), jnp.float32(1.0))
        np.testing.assert_allclose(found, exponential, rtol=1e-3)


def test_few_draws_ask_for_lighter_tails():
    assert largest_pareto_k(10) == 0.0
    assert largest_pareto_k(1000) == pytest.approx(2 / 3)
    assert largest_pareto_k(10**6) == 0.7


def test_a_vector_is_asked_for():
    with pytest.raises(ValueError, match=r"log_weights must be a vector.* got \(2, 50\)"):
        psis(jnp.zeros((2, 50)))


@pytest.mark.parametrize("given", ["a", None, [1.0, [2.0]], np.ones(30) * 1j, np.ones(30, bool)])
def test_weights_are_real_numbers(given):
    with pytest.raises(TypeError, match="log_weights must be real numbers, got"):
        psis(given)


def test_no_draw_is_refused_and_not_a_number_has_no_shape():
    for smooth in (psis, jax.jit(psis), lambda x: psis_on_host(np.asarray(x))):
        with pytest.raises(ValueError, match="must hold the weight of one draw at least, got none"):
            smooth(jnp.zeros(0))
        for size, expected in ((10, np.nan), (50, np.inf)):
            raw = jnp.linspace(0.0, 1.0, size).at[3].set(jnp.nan)
            smoothed, pareto_k = smooth(raw)
            np.testing.assert_array_equal(pareto_k, expected)
            np.testing.assert_array_equal(smoothed, raw)


@pytest.mark.parametrize("constant", [0.0, -1436.0, -141851.0, 3e6])
def test_weights_that_are_equal_up_to_rounding_have_a_low_k(constant):
    """Ties of float32, in which a log density of thousands leaves them, are no heavy tail."""
    for seed in range(20):
        noise = -0.01 * np.random.default_rng(seed).normal(size=1000) ** 2
        raw = np.float32(noise + constant)
        assert psis(raw).pareto_k < 0
        assert psis_of(raw, np.full(1000, constant, np.float32)).pareto_k < 0
