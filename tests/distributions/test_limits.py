"""One parameter tiny or huge, values near and far: log densities as in double precision, no NaN."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist
from distributions.core.family import Family
from tests.distributions.cases import CASES, Case, over
from tests.distributions.cases.base import cast

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")

EXTREMES = (0.0, 1e-30, 1e-10, 1.0, 100.0, -100.0, 1e10, 1e30, -1e30)
VALUES = np.array([-np.inf, -1e30, -1.5, 0, 0.5, 1, 2, 3, 1e30, np.inf], np.float32)
COUNTS = np.array([-1, 0, 1, 3, 10**6, 2**31 - 1])
MOST = float(np.finfo(np.float32).max)

Setting = dict[str, np.ndarray]

# Of these, single precision holds too little of the parameters or of the value.
TOO_COARSE = {
    "VonMises": "an angle of 1e10 is known to some hundred turns",
    "PERT": "with a temperature of 1e30, values are some 1e7 spreads apart",
    "PowerSpherical": "as are directions with a concentration of 1e30",
    "VonMisesFisher": "as are directions with a concentration of 1e30",
}
# Of these slopes, at extremes of a parameter, it holds the difference of two large numbers.
CANCELLING = {
    ("ExponentiallyModifiedGaussian", "rate", "rate"): "an inverse rate and a value of 1e30",
    ("Exponential", "rate", "rate"): "an inverse rate and a value of 1e30",
    ("ExpGamma", "concentration", "concentration"): "an inverse of 1e30 and a value of -1e30",
    ("ExpInverseGamma", "concentration", "concentration"): "an inverse and a value of 1e30",
    ("NormalInverseGaussian", "tailweight", "loc"): "a Bessel function's of 1e10 and the skewness",
    ("NoncentralChi2", "df", "noncentrality"): "a value beside 1e10 degrees of freedom",
    ("Wiener", "alpha", "alpha"): "a threshold of 1e10 beside its inverse",
    ("Wiener", "delta", "alpha"): "a drift of 1e10 beside an inverse threshold",
    ("TruncatedNormal", "scale", "scale"): "by a standardized bound of 1e30 and by the scale",
    ("Skellam", "rate1", "rate1"): "by the inverse root of the rate and by the rate",
    ("Skellam", "rate2", "rate2"): "by the inverse root of the rate and by the rate",
}


def floats_of(case: Case) -> Setting:
    """The parameters that are numbers of a floating type, in single precision."""
    numbers = [p.name for p in case.build()._parameters if not p.event_ndims]  # type: ignore[attr-defined]
    given = {k: np.asarray(v) for k, v in case.parameters.items() if k in numbers}
    return {k: v.astype(np.float32) for k, v in given.items() if v.dtype == float}


def is_of_numbers(case: Case) -> bool:
    return isinstance(case.build(), Family) and case.is_number and bool(floats_of(case))


def settings_of(case: Case) -> Iterator[tuple[str, Setting]]:
    """The parameters of a case, of one batch shape, with each in turn at each valid extreme."""
    floats = floats_of(case)
    for name, value in floats.items():
        for extreme in EXTREMES:
            changed = floats | {name: np.full_like(value, extreme)}
            try:
                case.make(**case.parameters | changed)
            except ValueError:
                continue
            whole = np.broadcast_arrays(*changed.values())
            yield f"{name} = {extreme}", dict(zip(changed, whole, strict=True))


def scores_and_slopes(case: Case) -> Any:
    """A function of the floats and of values: log densities, what lies inside, derivatives."""
    others = {k: v for k, v in case.given(float).items() if k not in floats_of(case)}

    def score(floats, value):
        d = case.make(**floats, **others)
        log_prob = d.log_prob(value)
        inside = jnp.broadcast_to(d.support.check(value), log_prob.shape)
        return log_prob.sum(), (log_prob, inside)

    @jax.jit
    def batch(floats, values):
        one = jax.value_and_grad(score, has_aux=True)
        (_, (log_prob, inside)), slopes = jax.vmap(one, (None, 0))(floats, values)
        return log_prob, inside, slopes

    return batch


def overflow(values: np.ndarray, floats: Setting) -> np.ndarray:
    """Whether the product of a value and parameters, or of their inverses, may overflow."""
    logs = [np.log(np.abs(v), where=v != 0, out=np.zeros(v.shape)) for v in floats.values()]
    total = sum(np.abs(np.where(np.isinf(log), 0, log)) for log in logs)
    log_values = np.log(np.maximum(np.abs(values), 1))
    return np.expand_dims(log_values, tuple(range(1, 1 + np.ndim(total)))) + total > np.log(MOST)


@pytest.mark.quick_rows(
    "Exponential", "HalfNormal", "Uniform", "LogNormal", "Laplace", "Weibull", "InverseGamma"
)
@over([case for case in CASES if is_of_numbers(case)], exhaustive=True)
def test_extremes(case: Case):
    """Log densities and their slopes are those of double precision, and no NaN is in either."""
    family = case.name.partition(",")[0]
    is_discrete, batch = case.build().support.is_discrete, scores_and_slopes(case)
    values = COUNTS if is_discrete else VALUES
    for setting, floats in settings_of(case):
        found, inside, slopes = batch(jax.tree.map(jnp.asarray, floats), jnp.asarray(values))
        with jax.enable_x64(True):
            wide = {k: jnp.asarray(v, float) for k, v in floats.items()}
            wide_values = jnp.asarray(values, int if is_discrete else float)
            truth, wide_inside, wide_slopes = batch(wide, wide_values)
        found, truth, inside = map(np.asarray, (found, truth, inside))
        shown = f"{setting}\n{values}\n{found}\n{truth}"
        assert not np.isnan([found, truth]).any(), shown
        if family not in TOO_COARSE:
            close = np.isclose(found, truth, 1e-4, 1e-4)
            huge = (np.abs(truth) > 0.01 * MOST) & (found < -0.01 * MOST)
            far = overflow(values, floats).reshape(len(values), *(-1,) * (found.ndim > 1))
            # A bound of the support may be rounded onto a value.
            assert np.all(close | huge | (far & (found < -30)) | (inside != wide_inside)), shown
        for name in floats:
            slope, wide_slope = np.asarray(slopes[name]), np.asarray(wide_slopes[name])
            shown = f"{setting}, derivatives by {name}\n{values}\n{slope}\n{wide_slope}"
            assert not np.isnan([slope, wide_slope]).any(), shown
            of_batch = slope.ndim == inside.ndim
            outside = ~inside if of_batch else ~inside.any(-1)
            assert np.isfinite(slope[(outside.T & np.isfinite(values)).T]).all(), shown
            sure = inside & (inside == wide_inside) & (np.abs(truth) < 0.01 * MOST)
            sure = sure if of_batch else sure.all(-1)
            # Of the right sign and size, where terms of a moderate size cancel, too.
            close = np.isclose(slope, wide_slope, 0.05, 5e-3) | (np.abs(wide_slope) > 0.01 * MOST)
            is_known = (family, setting.partition(" ")[0], name) in CANCELLING
            assert family in TOO_COARSE or is_known or np.all(close | ~sure), shown


def is_of_events(case: Case) -> bool:
    return not is_of_numbers(case) and case.name != "Custom"  # Its formula is the test's own.


def multiples(case: Case) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The parameters of a case with the entries of each in turn multiplied or replaced."""
    given = {k: np.asarray(v) for k, v in case.given(np.float32).items()}
    for name, value in given.items():
        if value.dtype == np.float32 and np.isfinite(value).all():
            for extreme in map(np.float32, (0, 1e-30, 1, 1e30)):
                for changed in (value * extreme, np.full_like(value, extreme)):
                    try:
                        case.make(**given | {name: changed})
                    except ValueError:
                        continue
                    yield f"{name} of {extreme}: {changed}", given | {name: changed}


def is_coarse(given: dict[str, Any]) -> bool:
    """Whether columns of a factor are one another's multiples: roundings make a determinant."""
    factor = np.asarray(given.get("cov_factor", 0), float)
    return factor.any() and np.linalg.matrix_rank(factor) < factor.shape[-1]


@pytest.mark.slow_rows("ZeroInflated, probs", "Dirichlet", "LKJCholesky", "Truncated, Normal")
@over([case for case in CASES if is_of_events(case)], exhaustive=True)
def test_extremes_of_events(case: Case):
    """Log densities are those of double precision; slopes that it can hold are not NaN."""

    @jax.jit
    def batch(given, values):
        def score(floats, value):
            log_prob = case.make(**given | floats).log_prob(value)
            return log_prob.sum(), log_prob

        floats = {k: v for k, v in given.items() if jnp.issubdtype(v.dtype, jnp.floating)}
        found, slopes = jax.vmap(jax.grad(score, has_aux=True), (None, 0))(floats, values)[::-1]
        return found, jax.tree.leaves(slopes)

    for setting, given in multiples(case):
        found, slopes = batch(jax.tree.map(jnp.asarray, given), case.values(np.float32))
        with jax.enable_x64(True):
            wide = {k: cast(v, float) for k, v in given.items()}
            truth, wide_slopes = batch(wide, case.values(float))
        if np.isnan(truth).any() or is_coarse(given):
            continue  # A matrix that is singular.
        shown = f"{setting}\n{found}\n{truth}"
        assert not np.isnan(found).any(), shown
        beyond = np.abs(truth) > 0.01 * MOST
        far = np.isinf(found) & case.name.startswith("MultivariateStudentT")  # Of infinite squares.
        if case.name not in TOO_COARSE:
            assert np.all(np.isclose(found, truth, 1e-3, 1e-3) | beyond | far), shown
        if all((np.abs(x) < 0.01 * MOST).all() for x in [truth, *wide_slopes]):
            assert not any(np.isnan(s).any() for s in slopes), f"{setting}\n{slopes}\n{wide_slopes}"


def sinh_arcsinh(x, skewness, tailweight):
    """The log density by the definition, in many digits."""
    factor = mpmath.sinh(tailweight * mpmath.asinh(2)) / 2
    slope = mpmath.diff(lambda x: normal_variable(x, factor, skewness, tailweight), x)
    z = normal_variable(x, factor, skewness, tailweight)
    return -z * z / 2 - mpmath.log(2 * mpmath.pi) / 2 + mpmath.log(slope)


def normal_variable(x, factor, skewness, tailweight):
    return mpmath.sinh(mpmath.asinh(x * factor) / tailweight - skewness)


@pytest.mark.parametrize("tailweight", [1e-3, 0.02, 1.0, 8.0, 15.0])
@pytest.mark.parametrize("x", [1e-3, 2.0, 40.0])
def test_sinh_arcsinh_on_both_sides_of_its_logarithms(x64, x, tailweight):
    with mpmath.workdps(60):
        truth = float(sinh_arcsinh(mpmath.mpf(x), mpmath.mpf(0.25), mpmath.mpf(tailweight)))
    found = dist.SinhArcsinh(0.0, 1.0, 0.25, tailweight).log_prob(x)
    np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("x", [5e9, 3e10, 1e14])
def test_logarithms_of_huge_quotients(x64, x):
    with mpmath.workdps(40):
        truths = [float(-2 * mpmath.log1p(x)), float(-2 * mpmath.log1p(x))]
    found = [dist.Lomax(1.0, 1.0).log_prob(x), dist.GeneralizedPareto(0.0, 1.0, 1.0).log_prob(x)]
    np.testing.assert_allclose(found, truths, rtol=1e-13)


@pytest.mark.parametrize("k", [300, 1001, 5000])
def test_small_steps_of_a_discrete_weibull(x64, k):
    with mpmath.workdps(40):
        q = mpmath.mpf(0.999)
        truth = float(mpmath.log(q**k - q ** (k + 1)))
    np.testing.assert_allclose(dist.DiscreteWeibull(0.999, 1.0).log_prob(k), truth, rtol=1e-13)


@pytest.mark.slow
def test_slopes_of_what_has_a_limit():
    """In reverse mode, at a concentration of 0 and at the location, where logarithms are not."""
    gev, x = dist.GeneralizedExtremeValue, jnp.float32(1.0)
    functions = (
        lambda loc: gev(loc, 1.0, 0.0).log_cdf(x),
        lambda loc: gev(loc + 0.8, 1.0, 0.25).log_cdf(x),
        lambda loc: dist.Truncated(gev(loc, 1.0, 0.0), -1.0, 2.0).log_prob(x),
        lambda loc: dist.GeneralizedPareto(loc, 1.0, 0.0).log_survival(x),
    )
    for f in functions:
        slope = jax.grad(f)(jnp.float32(0.2))
        difference = (f(jnp.float32(0.21)) - f(jnp.float32(0.19))) / 0.02
        np.testing.assert_allclose(slope, difference, rtol=2e-3)


@pytest.mark.slow_rows("bounds0")
@pytest.mark.parametrize("bounds", [(0.0, np.inf), (-np.inf, 2.0), (-np.inf, np.inf)])
def test_second_derivatives_of_a_truncated_normal(x64, bounds):
    score = lambda loc: dist.TruncatedNormal(loc, 1.0, *bounds).log_prob(1.0)  # noqa: E731
    slope = jax.grad(score)
    difference = (slope(0.2 + 1e-5) - slope(0.2 - 1e-5)) / 2e-5
    for second in (jax.hessian(score), jax.jacrev(slope)):
        np.testing.assert_allclose(second(0.2), difference, rtol=1e-7)


def test_a_peak_that_is_an_end_in_another_precision():
    dist.Triangular(0.0, jnp.float32(0.7), 0.7)
    dist.PERT(jnp.float32(0.1), np.float64(0.1), 1.0)


def test_a_truncated_normal_whose_bound_is_beyond_all_scales():
    """The standardized bound overflows: there the density is large, and beyond it is none."""
    at_bound, beyond = dist.TruncatedNormal(0.0, 1e-30, 1e10, jnp.inf).log_prob(
        jnp.array([1e10, 1.1e10], jnp.float32)
    )
    assert 138 < at_bound < 162
    assert beyond < -1e30


@pytest.mark.slow_rows("0.01")
@pytest.mark.parametrize("tailweight", [0.01, 0.015, 0.02])
def test_slopes_of_light_hyperbolic_sines(tailweight):
    """In single precision, as in double, but for roundings of terms of 1 / tailweight."""
    slope = lambda b: jax.grad(lambda b: dist.SinhArcsinh(0.0, 1.0, 0.0, b).log_prob(0.3))(b)  # noqa: E731
    with jax.enable_x64(True):
        truth = float(slope(jnp.float64(tailweight)))
    np.testing.assert_allclose(slope(jnp.float32(tailweight)), truth, rtol=1e-4, atol=2e-5)
