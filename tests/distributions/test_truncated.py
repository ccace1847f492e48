"""Truncation: derivatives of draws, bounds between integers, bounds far out."""

import jax
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist

KEY = jax.random.key(3)


@pytest.mark.slow
def test_truncated_draws_have_derivatives(x64):
    def draw(loc):
        return dist.Truncated(dist.Normal(loc, 1.0), 0.5, 2.0).sample(KEY, (3,))

    slope = jax.jvp(draw, (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, (draw(1e-5) - draw(-1e-5)) / 2e-5, rtol=1e-6)


@pytest.mark.slow
def test_integers_between_bounds_that_are_none(x64):
    d = dist.Truncated(dist.Poisson(2.0), 0.5, 3.5)
    base = st.poisson(2.0)
    mass = base.cdf(3) - base.cdf(0)
    np.testing.assert_allclose(d.log_prob([1, 3]), np.log(base.pmf([1, 3]) / mass), rtol=1e-12)
    assert (d.log_prob([0, 4]) == -np.inf).all()
    draws = np.asarray(d.sample(KEY, (200,)))
    assert set(draws) == {1, 2, 3}


def test_truncation_far_out(x64):
    d = dist.Truncated(dist.Normal(0.0, 1.0), 40.0)
    np.testing.assert_allclose(d.log_prob(40.0), 3.68950348054912, rtol=1e-11)  # by mpmath
    draws = d.sample(KEY, (2000,))
    assert d.support.check(draws).all()
    mean = 40.02496884720726  # by mpmath; the standard deviation is about 1 / 40
    assert abs(draws.mean() - mean) < 5 * 0.025 / np.sqrt(2000)


COUNTS = {
    "Binomial": (dist.Binomial(1000, probs=0.001), 60, st.binom(1000, 0.001)),
    "GammaPoisson": (dist.GammaPoisson(3.0, 9.0), 60, st.nbinom(3, 0.9)),
    "NegativeBinomial": (dist.NegativeBinomial(total_count=3.0, probs=0.1), 60, st.nbinom(3, 0.9)),
    "Poisson": (dist.Poisson(1.0), 50, st.poisson(1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_counts_truncated_where_single_precision_underflows(name):
    """The mass that remains is then the sum of few terms, each far less than the one before."""
    base, low, oracle = COUNTS[name]
    d = dist.Truncated(base, low=low)
    terms = oracle.logpmf(np.arange(low, low + 60))
    expected = terms[:3] - np.logaddexp.reduce(terms)
    np.testing.assert_allclose(d.log_prob(np.arange(low, low + 3)), expected, atol=1e-4)
    assert (d.sample(KEY, (50,)) >= low).all()


def test_no_mass_between_the_bounds_is_no_density():
    """Where the logarithm of the mass overflows, nothing may be said to be likely."""
    score = lambda scale: dist.Truncated(dist.Normal(0.0, scale), low=1e20).log_prob(1.1e20)  # noqa: E731
    log_prob, slope = jax.jit(jax.value_and_grad(score))(np.float32(1))
    assert log_prob == -np.inf
    assert np.isfinite(slope)
