"""No function of a family, nor a slope of it, is NaN at special values and parameters."""

import jax
import numpy as np
import pytest

from tests.distributions.sweep import Sweep, sweep, swept

# Left out are second derivatives and families with iterated special functions, which compile for
# minutes, and those with a NaN far out or in a quantile at 0 or 1, such as Gompertz, Kumaraswamy,
# LogitNormal and Triangular.
FAMILIES = (
    *("Normal", "Cauchy", "Laplace", "Logistic", "SoftLaplace", "Moyal", "DoublesidedMaxwell"),
    *("HalfNormal", "HalfCauchy", "Exponential", "LogNormal", "Rayleigh", "Pareto", "Lomax"),
    *("LogLogistic", "Dagum", "Levy", "Gumbel", "Weibull", "Frechet", "GeneralizedExtremeValue"),
    *("Bernoulli", "ProbitBernoulli", "Categorical", "FiniteDiscrete", "OrderedLogistic"),
    *("StoppingRatioLogistic", "Geometric", "DiscreteUniform", "DiscreteWeibull"),
    *("Uniform", "LogUniform", "JohnsonSU", "TwoPieceNormal", "AsymmetricLaplace"),
)
# Families with a NaN at an extreme parameter, each with the reason.
KNOWN = {
    "AsymmetricLaplace": "the square of an asymmetry of 1e-8 is below rounding",
    "DiscreteWeibull": "counts to the power of 1e8 overflow",
    "Frechet": "a quantile to the power of -1e8 overflows",
    "JohnsonSU": "hyperbolic sines of 1e8 overflow",
    "Levy": "a scale of 1e-8 over 1e30 is a subnormal number",
    "TwoPieceNormal": "the square of a skewness of 1e-8 is below rounding",
    "Weibull": "the quantile at 1 is infinity to the power of 1e-8",
}
QUICK = ("Gumbel", "LogLogistic", "SoftLaplace")
CASES = {case.family: case for case in swept()}


def _is_usual(found: Sweep) -> np.ndarray:
    return (found.points[:, 2:] == found.points[0, 2:]).all(1)


def faults(found: Sweep) -> tuple[list[str], list[str]]:
    """NaN in a value or a slope: at the usual parameters, and at others."""
    usual = _is_usual(found)[:, None]
    is_nan = np.isnan(found.values) | np.isnan(found.slopes).any(-1)
    told = [
        [f"{found.names[j]} at {found.points[i].tolist()}" for i, j in np.argwhere(is_nan & rows)]
        for rows in (usual, ~usual)
    ]
    return told[0], told[1]


def wrong_slopes(found: Sweep) -> list[str]:
    """Slopes of distribution functions, at the usual parameters, that are not densities."""
    at = {name: j for j, name in enumerate(found.names)}
    if "quantile" not in at:  # of counts
        return []
    density = np.exp(found.values[:, at["log_prob"]])
    told = []
    for name, sign in {"cdf": 1, "survival": -1}.items():
        slope = sign * found.slopes[:, at[name], 0]
        wrong = _is_usual(found) & ~np.isclose(slope, density, rtol=1e-6, atol=1e-300)
        is_end = np.isin(found.values[:, at[name]], (0, 1)) & (slope == 0)
        wrong &= ~is_end & (density < np.inf)
        told += [f"{name} at {found.points[i].tolist()}: {slope[i]}" for i in np.flatnonzero(wrong)]
    return told


@pytest.mark.parametrize("name", QUICK)
def test_slopes_of_a_few_families_are_numbers(name, x64):
    assert faults(sweep(CASES[name], np.float32)) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_slopes_are_numbers_and_densities(name, x64):
    single, double = (sweep(CASES[name], dtype) for dtype in (np.float32, np.float64))
    (usual, extreme), (usual64, extreme64) = faults(single), faults(double)
    assert usual + usual64 == []
    assert bool(extreme + extreme64) == (name in KNOWN), extreme + extreme64
    assert wrong_slopes(double) == []
    jax.clear_caches()
