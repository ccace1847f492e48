"""No function of a family, nor a first or second derivative, is NaN at special values."""

import jax
import numpy as np
import pytest

from tests.distributions.cases import CASES, SIGNATURES
from tests.distributions.sweep import Sweep, sweep, swept

SWEPT = {case.family: case for case in swept()}
# Distributions without a row in the table whose functions are of no numbers, or of those given.
NO_NUMBERS = {
    "Censored": "its atoms are parameters",
    "Delta": "an atom",
    "Flat": "it has no distribution function",
    "IntervalCensored": "a pair of numbers",
    "Joint": "a pytree",
    "Masked": "a distribution that the user gives",
    "iid": "an array",
}
# Special functions by iteration, whose second derivatives may take minutes. Derivatives of the
# families that are left out are compared with differences, at usual and equal values, in
# `test_special_points_of_functions` and `test_special_points_of_densities` alone.
ITERATED = (
    *("Beta", "Chi", "Chi2", "ExpGamma", "Gamma", "GammaPoisson", "HalfStudentT"),
    *("InverseChi2", "InverseGamma", "StudentT"),
)
NOT_TRIED = (
    *("BetaNegativeBinomial", "BetaProportion", "ExpInverseGamma", "GammaGamma"),
    *("GeneralizedNormal", "Mixture", "NoncentralChi2", "NormalInverseGaussian"),
    *("PERT", "Rice", "Skellam", "SkewStudentT", "TwoPieceStudentT", "Wiener"),
)
LEFT_OUT = dict.fromkeys(NOT_TRIED, "not swept: up to minutes op by op")
# Families with a NaN at an extreme parameter, each with the reason.
KNOWN = {
    "Custom": "its density, of a user, is NaN beyond the width that it reads",
    "Dagum": "a slope of 1e-20 has a second derivative whose factors overflow in single precision",
    "DoublesidedMaxwell": "its density is 0 at the median, where quantiles have no derivatives",
    "GeneralizedExtremeValue": "beside a location of 1e8 third powers overflow in single precision",
    "SkewNormal": "products with a skewness of 1e8 overflow in single precision",
}
QUICK = ("Gumbel", "LogLogistic", "SoftLaplace")


def _is_usual(found: Sweep) -> np.ndarray:
    return (found.points[:, 2:] == found.points[0, 2:]).all(1)


def _holds_squares(found: Sweep) -> np.ndarray:
    """Whether second derivatives are sure to be held: not those by 1e30 in single precision."""
    sizes = np.abs(found.points)
    is_held = (found.dtype == np.float64) | (sizes == 0) | (sizes > 1e-9) & (sizes < 1e9)
    at = [1 if name == "quantile" else 0 for name in found.names]
    return is_held[:, at] & is_held[:, 2:].all(1, keepdims=True)


def faults(found: Sweep) -> tuple[list[str], list[str]]:
    """NaN in a value or a derivative: at the usual parameters, and at others."""
    usual = _is_usual(found)[:, None]
    is_nan = np.isnan(found.values) | np.isnan(found.slopes).any(-1)
    is_finite = np.isfinite(found.values) & np.isfinite(found.slopes).all(-1)
    is_nan |= np.isnan(found.bends).any(-1) & is_finite & _holds_squares(found)
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
    assert faults(sweep(SWEPT[name], np.float32)) == ([], [])


def test_no_family_is_forgotten():
    """Each public one is swept, or has values that are no numbers, or is named with a reason."""
    arrays = {case.family for case in CASES if not case.is_number}
    assert set(SIGNATURES) - {"ICAR"} == SWEPT.keys() | arrays | NO_NUMBERS.keys()
    assert LEFT_OUT.keys() | KNOWN.keys() | set(ITERATED) <= SWEPT.keys()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=(pytest.mark.exhaustive,) * (name in ITERATED))
        for name in SWEPT
        if name not in LEFT_OUT
    ],
)
def test_slopes_are_numbers_and_densities(name, x64):
    single, double = (sweep(SWEPT[name], dtype) for dtype in (np.float32, np.float64))
    (usual, extreme), (usual64, extreme64) = faults(single), faults(double)
    assert usual + usual64 == []
    assert bool(extreme + extreme64) == (name in KNOWN), extreme + extreme64
    assert wrong_slopes(double) == []
    jax.clear_caches()
