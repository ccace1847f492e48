"""What is recorded of a draw: censored, in an interval, rounded."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist

KEY = jax.random.key(3)


def test_a_censored_value_has_the_mass_beyond(x64):
    d = dist.Censored(dist.Normal(0.5, jnp.array([1.0, 2.0])), -1.0, 2.0)
    base = st.norm(0.5, [1.0, 2.0])
    np.testing.assert_allclose(d.log_prob(-1.0), base.logcdf(-1), rtol=1e-12)
    np.testing.assert_allclose(d.log_prob(2.0), base.logsf(2), rtol=1e-12)
    np.testing.assert_allclose(d.log_prob(0.25), base.logpdf(0.25), rtol=1e-12)
    for outside in (-1.5, 2.5, np.inf, np.nan):
        assert (d.log_prob(outside) == -np.inf).all()
    counts = dist.Censored(dist.Binomial(9, probs=0.5), high=6)
    mass = np.exp(counts.log_prob(np.arange(7)))
    np.testing.assert_allclose(mass.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(mass[6], st.binom(9, 0.5).sf(5), rtol=1e-12)


def test_censored_draws_are_clipped_and_their_functions_jump(x64):
    d, base = dist.Censored(dist.Normal(0.0, 1.0), -1.0, 0.5), st.norm
    draws = np.asarray(d.sample(KEY, (20_000,)))
    assert draws.min() == -1
    assert draws.max() == 0.5
    share = (draws == -1).mean()  # Within five standard errors: a failure rate of 6e-7.
    assert abs(share - base.cdf(-1)) < 5 * np.sqrt(base.cdf(-1) / len(draws))
    x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(d.cdf(x), [0, base.cdf(-1), 0.5, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(d.quantile([0.01, 0.5, 0.99]), [-1, 0, 0.5], atol=1e-12)


def test_gradients_at_a_bound_are_those_of_the_mass(x64):
    score = lambda loc: dist.Censored(dist.Normal(loc, 1.0), high=2.0).log_prob(2.0)  # noqa: E731
    expected = (st.norm(1e-6, 1).logsf(2) - st.norm(-1e-6, 1).logsf(2)) / 2e-6
    np.testing.assert_allclose(jax.grad(score)(0.0), expected, rtol=1e-8)


@pytest.mark.slow
def test_an_interval_has_its_mass_in_either_tail(x64):
    """Against mpmath far out, where differences of `cdf` are 0."""
    d = dist.IntervalCensored(dist.Normal(np.array([0.0, 1.0]), 1.0))
    base = st.norm(0.0, 1.0)
    value = np.array([[-0.5, 2.0], [-np.inf, 1.0], [0.5, np.inf], [0.25, 0.25], [-np.inf, np.inf]])
    probs = base.cdf(value[:, 1]) - base.cdf(value[:, 0])
    probs[3] = base.pdf(0.25)
    np.testing.assert_allclose(d.log_prob(value[:, None])[:, 0], np.log(probs), atol=1e-14)
    with mpmath.workdps(60):
        far = float(mpmath.log(mpmath.ncdf(-38) - mpmath.ncdf(mpmath.mpf("-38.5"))))
    tails = d.log_prob(np.array([[[38.0, 38.5]], [[-38.5, -38.0]]]))
    np.testing.assert_allclose(tails[:, 0], far, rtol=1e-12)
    wrong = np.array([[2.0, 1.0], [np.inf, np.inf], [-np.inf, -np.inf], [np.nan, 1.0]])
    assert (d.log_prob(wrong[:, None]) == -np.inf).all()
    score = lambda value, d: d.log_prob(value[:, None]).sum()  # noqa: E731
    for at in (value, wrong):
        gradients = jax.tree.leaves(jax.grad(score, (0, 1))(at, d))
        assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.slow
def test_an_interval_of_counts_holds_its_ends(x64):
    d = dist.IntervalCensored(dist.Poisson(np.array([2.0, 3.0])))
    value = np.array([[[2.0, 4.0]], [[3.0, 3.0]], [[1.5, np.inf]], [[-np.inf, 3.5]]])
    base = st.poisson([2.0, 3.0])
    mass = np.log([base.cdf(4) - base.cdf(1), base.pmf(3), base.sf(1), base.cdf(3)])
    np.testing.assert_allclose(d.log_prob(value), mass, rtol=1e-12)
    draws = np.asarray(d.sample(KEY, (50,)))
    assert draws.shape == (50, 2, 2)
    assert (draws[..., 0] == draws[..., 1]).all()
    assert np.isfinite(d.log_prob(draws)).all()


def test_integers_to_which_draws_are_rounded(x64):
    d = dist.Quantized(dist.Exponential(0.5))
    assert d.support.low == 1
    np.testing.assert_allclose(d.log_prob(80), np.log(np.expm1(0.5)) - 40, rtol=1e-12)
    assert set(np.asarray(dist.Quantized(dist.Normal(0.0, 9.0), 0, 1).sample(KEY, (50,)))) == {0, 1}
    with pytest.raises(ValueError, match="Quantized: low must be an integer"):
        dist.Quantized(dist.Normal(0.0, 1.0), 0.5)
