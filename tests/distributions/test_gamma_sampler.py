"""Draws of gamma variables: their laws, their extremes and how they move with the concentration."""

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from jax import random

from distributions.numerics.gamma_sampler import beta, gamma, log_gamma, student_t

NUM = 100_000
SMALLEST_P = 1e-6  # A right sampler fails one of these tests in 1 of 30,000 changes of the draws.


@pytest.mark.slow_rows("0.001")
@pytest.mark.parametrize("a", [1e-3, 0.3, 1.0, 4.5, 300.0, 1e6, 1e8])
def test_logarithms_have_their_law(a, x64):
    """Uniform by the distribution function, which is `x^a / Gamma(a + 1)` where draws underflow."""
    log_draws = np.asarray(log_gamma(random.key(1), jnp.asarray(a), (NUM,), np.float64))
    far = np.exp(np.minimum(a * log_draws - sp.gammaln(a + 1), 0))
    near = st.gamma(a).cdf(np.exp(np.clip(log_draws, -80, 700)))
    assert st.kstest(np.where(log_draws < -80, far, near), "uniform").pvalue > SMALLEST_P


def test_proposals_are_accepted_by_the_exact_ratio(x64):
    """At a concentration of 1 it varies most; more draws see an error of 0.01 in it."""
    draws = np.asarray(gamma(random.key(8), jnp.asarray(1.0), (5 * NUM,), np.float64))
    assert st.kstest(draws, st.expon.cdf).pvalue > SMALLEST_P


@pytest.mark.slow
@pytest.mark.parametrize("a", [0.3, 4.5, 300.0])
def test_draws_in_single_precision_have_their_laws(a):
    draws = np.asarray(gamma(random.key(2), jnp.asarray(a), (NUM,), np.float32), float)
    assert st.kstest(draws, st.gamma(a).cdf).pvalue > SMALLEST_P
    draws = np.asarray(beta(random.key(3), jnp.asarray(a), jnp.full((), a), (NUM,), np.float32))
    assert st.kstest(draws.astype(float), st.beta(a, a).cdf).pvalue > SMALLEST_P
    draws = np.asarray(student_t(random.key(4), jnp.asarray(a), (NUM,), np.float32), float)
    assert st.kstest(draws, st.t(a).cdf).pvalue > SMALLEST_P


def test_large_concentrations_keep_their_spread():
    for a in (1e5, 1e8, 1e10):
        draws = np.asarray(gamma(random.key(5), jnp.float32(a), (NUM,), np.float32), float)
        np.testing.assert_allclose(draws.mean(), a, atol=0.02 * a**0.5)
        np.testing.assert_allclose(draws.std(), a**0.5, rtol=0.02)


def test_what_is_at_the_edge_and_what_is_no_concentration(x64):
    a = jnp.array([0.0, jnp.inf, jnp.nan, -1.0])
    for draw, edges in ((gamma, [0, jnp.inf]), (log_gamma, [-jnp.inf, jnp.inf])):
        drawn = draw(random.key(0), a, (4,), np.float64)
        np.testing.assert_array_equal(drawn, [*edges, jnp.nan, jnp.nan])


def test_half_precision_is_drawn_in_single():
    a = jnp.full(NUM, 2.0, jnp.bfloat16)
    draws = gamma(random.key(0), a, (NUM,), jnp.bfloat16)
    assert draws.dtype == jnp.bfloat16
    assert abs(draws.astype(float).mean() - 2) < 0.02


@pytest.mark.slow_rows("0.001")
@pytest.mark.parametrize("a", [1e-3, 0.3, 4.5, 60.0])
def test_draws_move_as_their_quantiles_do(a, x64):
    draw = lambda a: log_gamma(random.key(0), a, (4,), np.float64)  # noqa: E731
    log_draws, moves = jax.jvp(draw, (jnp.asarray(a),), (jnp.ones(()),))
    with mp.workdps(40):
        for x, move in zip(map(float, log_draws), moves, strict=True):
            by_a = mp.diff(lambda a, x=x: mp.gammainc(a, 0, mp.exp(x), regularized=True), a)
            density = mp.exp(a * mp.mpf(x) - mp.exp(x)) / mp.gamma(a)
            np.testing.assert_allclose(move, float(-by_a / density), rtol=1e-7)
    plain = lambda a: gamma(random.key(0), a, (4,), np.float64)  # noqa: E731
    draws, plain_moves = jax.jvp(plain, (jnp.asarray(a),), (jnp.ones(()),))
    np.testing.assert_allclose(draws, np.exp(log_draws), rtol=1e-12)
    np.testing.assert_allclose(plain_moves, draws * moves, rtol=1e-7, atol=1e-300)
