"""Distribution functions of counts: against sums of masses, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")


SUMS = {
    "Hypergeometric": (
        dist.Hypergeometric(total_count=400, num_successes=3000, num_failures=5000),
        st.hypergeom(8000, 3000, 400),
    ),
    "BetaBinomial": (
        dist.BetaBinomial(total_count=5000, concentration1=25.0, concentration0=40.0),
        st.betabinom(5000, 25.0, 40.0),
    ),
    "BetaBinomial of two ends": (
        dist.BetaBinomial(total_count=300, concentration1=0.25, concentration0=0.5),
        st.betabinom(300, 0.25, 0.5),
    ),
    "BetaNegativeBinomial": (
        dist.BetaNegativeBinomial(total_count=300.0, concentration1=40.0, concentration0=25.0),
        st.betanbinom(300.0, 25.0, 40.0),
    ),
    "Logarithmic": (dist.Logarithmic(0.999), st.logser(0.999)),
    "Skellam": (dist.Skellam(900.0, 400.0), st.skellam(900.0, 400.0)),
    "Skellam below 0": (dist.Skellam(3.0, 900.0), st.skellam(3.0, 900.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_masses(name, x64):
    """Quantiles are scipy's, and functions are sums of masses there, in both tails."""
    d, oracle = SUMS[name]
    q = np.array([1e-6, 0.03125, 0.5, 0.875, 1 - 1e-6])
    values = np.asarray(d.quantile(q))
    np.testing.assert_array_equal(values, oracle.ppf(q))
    start = int(np.maximum(values[0] - 4000, getattr(d.support, "low", -np.inf)))
    end = int(np.minimum(values[-1] + 40_000, getattr(d.support, "high", np.inf)))
    masses = np.exp(np.asarray(d.log_prob(np.arange(start, end + 1))))
    for value in values[:-1]:
        below, above = masses[: value - start + 1].sum(), masses[value - start + 1 :].sum()
        np.testing.assert_allclose(d.cdf(value), below, rtol=1e-9)
        np.testing.assert_allclose(d.survival(value), above, rtol=1e-9)


RATES = {  # And how many standard deviations from the mean.
    "even": (1e4, 1e4, (-5.0, -0.25, 0.0, 3.0, 6.0)),
    "uneven": (1e6, 1e2, (-9.0, -1.0, 0.01, 2.0)),
    "large": (1e6, 2e6, (-3.0, 0.0, 1.0, 2.0)),
    "rare": (1e-6, 2.0, (-3.0, 0.0, 1.5, 4.0)),
}


@pytest.mark.quick_rows("float32-rare", "float64-rare", "float32-even", "float32-uneven")
@pytest.mark.parametrize("name", RATES)
def test_differences_of_large_counts(name, float_dtype):
    """In both tails, against the sum over one of the two Poisson variables."""
    *rates, deviations = RATES[name]
    first, second = rates
    d = dist.Skellam(*(float_dtype.type(rate) for rate in rates))
    x = np.floor(first - second + np.array(deviations) * np.sqrt(first + second))
    width = 40 * np.sqrt(second) + 40
    j = np.arange(max(second - width, 0), second + width).round()[:, None]
    weights = st.poisson(second).pmf(j)
    weights = weights / weights.sum()
    rtol = 1e-5 if float_dtype == np.float32 else 1e-10
    for ours, theirs in (("log_cdf", "cdf"), ("log_survival", "sf")):
        truth = np.log((weights * getattr(st.poisson(first), theirs)(x + j)).sum(0))
        found = jax.jit(lambda d, x, ours=ours: getattr(d, ours)(x))(d, x.astype(int))
        np.testing.assert_allclose(found, truth, rtol, rtol)


SLOPES = {
    "BetaBinomial": (
        dist.BetaBinomial(total_count=50, concentration1=2.5, concentration0=0.75),
        np.array([3, 45]),
    ),
    "BetaNegativeBinomial": (
        dist.BetaNegativeBinomial(total_count=3.0, concentration1=2.5, concentration0=4.5),
        np.array([0, 40]),
    ),
    "Logarithmic": (dist.Logarithmic(0.75), np.array([1, 9])),
    "Skellam": (dist.Skellam(2.5, 4.0), np.array([-9, 2])),
    "Skellam, less": (dist.Skellam(4.0, 2.5), np.array([-9, 2])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOPES)
def test_derivatives_of_sums_of_masses(name, x64):
    """In the logarithms of all parameters at once, by differences of the function."""
    d, values = SLOPES[name]
    leaves, treedef = jax.tree.flatten(d)

    def log_cdf(step):
        moved = [x * jnp.exp(step) if isinstance(x, float) else x for x in leaves]
        return jax.tree.unflatten(treedef, moved).log_cdf(values)

    slopes = jax.jacrev(log_cdf)(0.0)
    np.testing.assert_allclose(slopes, (log_cdf(1e-5) - log_cdf(-1e-5)) / 2e-5, rtol=1e-6)
