"""Slopes of distribution functions that are nearly 1 are densities, as far as the dtype reaches."""

import jax
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
_SURVIVAL = {
    "Dagum": (lambda: dist.Dagum(0.25, 2.0, 1.0), st.burr(2.0, 0.25), 1e-14),
    "Frechet": (lambda: dist.Frechet(2.0, 1.0), st.invweibull(2.0), 0.18),
    "GeneralizedExtremeValue": (
        lambda: dist.GeneralizedExtremeValue(0.0, 1.0, 0.2),
        st.genextreme(-0.2),
        -2.5,
    ),
    "Gumbel": (lambda: dist.Gumbel(0.0, 1.0), st.gumbel_r(), -3.4),
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
