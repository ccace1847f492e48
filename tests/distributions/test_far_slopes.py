"""Slopes of distribution functions and quantiles at ends, as far as the dtype reaches."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist

# Family, oracle, and a value beyond which (cdf), or below which (survival), almost nothing lies.
_CDF = {
    "Exponential": (lambda: dist.Exponential(1.0), st.expon(), 30.0),
    "GeneralizedPareto": (lambda: dist.GeneralizedPareto(0.0, 1.0, 0.3), st.genpareto(0.3), 1e4),
    "Gompertz": (lambda: dist.Gompertz(1.0, 1.0), st.gompertz(1.0), 3.4),
    "Lomax": (lambda: dist.Lomax(2.5, 0.5), st.lomax(2.5, scale=0.5), 1e6),
    "Pareto": (lambda: dist.Pareto(concentration=3.0, scale=1.0), st.pareto(3.0), 1e5),
    "Rayleigh": (lambda: dist.Rayleigh(1.0), st.rayleigh(), 7.5),
    "Weibull": (
        lambda: dist.Weibull(concentration=2.0, scale=1.0),
        st.weibull_min(2.0),
        5.5,
    ),
}


def _relaxed_bernoulli(x):
    odds = np.square(x / (1 - x))
    return 2 * odds / np.square(1 + odds) / (x * (1 - x))


_SURVIVAL = {
    "Dagum": (lambda: dist.Dagum(0.25, 2.0, 1.0), st.burr(2.0, 0.25), 1e-14),
    "Frechet": (lambda: dist.Frechet(2.0, 1.0), st.invweibull(2.0), 0.18),
    "GeneralizedExtremeValue": (
        lambda: dist.GeneralizedExtremeValue(0.0, 1.0, 0.2),
        st.genextreme(-0.2),
        -2.5,
    ),
    "Gumbel": (lambda: dist.Gumbel(0.0, 1.0), st.gumbel_r(), -3.4),
    "RelaxedBernoulli": (
        lambda: dist.RelaxedBernoulli(2.0, logits=0.0),
        types.SimpleNamespace(pdf=_relaxed_bernoulli),
        1e-4,
    ),
}


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("name", [*_CDF, *_SURVIVAL])
def test_slopes_near_one_are_densities(name, is_double):
    make, oracle, x = (_CDF | _SURVIVAL)[name]
    with jax.enable_x64(is_double):
        d, sign = make(), 1 if name in _CDF else -1
        slope = jax.grad(d.cdf if name in _CDF else d.survival)
        x = float(np.float64(x) if is_double else np.float32(x))
        found, second = jax.jit(jax.value_and_grad(slope))(x)
    step = 1e-5 * abs(x)
    bend = (oracle.pdf(x + step) - oracle.pdf(x - step)) / (2 * step)
    np.testing.assert_allclose(found, sign * oracle.pdf(x), rtol=1e-8 if is_double else 1e-4)
    np.testing.assert_allclose(second, sign * bend, rtol=1e-5 if is_double else 1e-3)


def jets(f, *at):
    """A value, its gradient and the gradient of the sum of that, with one weight each."""
    places = tuple(range(len(at)))
    slopes = jax.grad(f, places)

    def weighted(*at):
        return sum((i + 1) * slope for i, slope in enumerate(slopes(*at)))

    def jet(*at):
        return f(*at), slopes(*at), jax.grad(weighted, places)(*at)

    return jax.jit(jet)(*(jnp.float32(x) for x in at))


# The distribution, its parameters and a probability; the quantile and its gradient, beginning with
# the slope by the probability: 0 where it is infinite.
ENDS = {
    "Gompertz at 0": (dist.Gompertz, (2.0, 0.25), 0.0, 0.0, (2.0, 0.0, 0.0)),
    "Gompertz at 1": (dist.Gompertz, (2.0, 0.25), 1.0, np.inf, (0.0, 0.0, 0.0)),
    "Kumaraswamy at 0": (dist.Kumaraswamy, (2.0, 3.0), 0.0, 0.0, (0.0, 0.0, 0.0)),
    "Kumaraswamy at 1": (dist.Kumaraswamy, (2.0, 3.0), 1.0, 1.0, (0.0, 0.0, 0.0)),
    "LogitNormal at 0": (dist.LogitNormal, (0.5, 2.0), 0.0, 0.0, (0.0, 0.0, 0.0)),
    "LogitNormal at 1": (dist.LogitNormal, (0.5, 2.0), 1.0, 1.0, (0.0, 0.0, 0.0)),
    "Triangular at 0": (dist.Triangular, (-1.0, 2.0, 0.5), 0.0, -1.0, (0.0, 1.0, 0.0, 0.0)),
    "Triangular at 1": (dist.Triangular, (-1.0, 2.0, 0.5), 1.0, 2.0, (0.0, 0.0, 1.0, 0.0)),
}


@pytest.mark.parametrize("name", ENDS)
def test_quantiles_at_0_and_1(name):
    make, parameters, q, value, slopes = ENDS[name]
    found, gradient, second = jets(lambda q, *p: make(*p).quantile(q), q, *parameters)
    assert found == value
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6)
    assert np.isfinite(second).all()


@pytest.mark.parametrize(("peak", "q"), [(-1.0, 0.0), (2.0, 1.0)])
def test_the_peak_of_a_triangle_at_an_end(peak, q):
    """There the density is 2 over the width, and the slope of the quantile its inverse."""
    slope = jax.grad(lambda q: dist.Triangular(-1.0, 2.0, peak).quantile(q))(q)
    np.testing.assert_allclose(slope, 1.5, rtol=1e-6)


# Functions of a distribution, in single precision, whose formulas overflow; and their values.
OVERFLOWING = {
    "AsymmetricLaplace": (
        lambda k: dist.AsymmetricLaplace(loc=0.5, scale=2.0, asymmetry=k).log_cdf(0.25),
        (1e-8,),
        -1.25e7 + 2 * np.log(1e-8),
    ),
    "DiscreteWeibull": (lambda q, b: dist.DiscreteWeibull(q, b).survival(5), (0.5, 1e8), 0),
    "Frechet": (lambda k, s: dist.Frechet(k, s).quantile(1.0), (1e-8, 2.0), np.inf),
    "Gompertz": (lambda x, c: dist.Gompertz(c, 1.0).cdf(x), (1e30, 0.5), 1),
    "JohnsonSU": (lambda a: dist.JohnsonSU(a, 2.0, 0.0, 1.0).quantile(0.5), (1e8,), -np.inf),
    "Levy": (lambda x, s: dist.Levy(0.0, s).cdf(x), (1e30, 1e-8), 1),
    "TwoPieceNormal": (lambda x, k: dist.TwoPieceNormal(0.0, 1.0, k).cdf(x), (0.5, 1e-8), 1),
    "Weibull": (
        lambda k: dist.Weibull(concentration=k, scale=1.0).quantile(1.0),
        (1e-8,),
        np.inf,
    ),
}


@pytest.mark.parametrize("name", OVERFLOWING)
def test_slopes_where_formulas_overflow(name):
    f, at, value = OVERFLOWING[name]
    found, gradient, second = jets(f, *at)
    np.testing.assert_allclose(found, value, rtol=1e-6)
    assert np.isfinite(gradient).all()
    assert np.isfinite(second).all()
