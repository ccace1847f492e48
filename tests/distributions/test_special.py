"""Special functions, with their derivatives, and moments made of them, against mpmath."""

import re

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist
from distributions.numerics.gamma_functions import (
    digamma_rest,
    log_beta,
    log_beta_half,
    stirling_error,
)
from distributions.numerics.loader_kernels import exp_rest
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.softplus import softplus
from distributions.numerics.special import (
    arcsinh_ratio,
    bounded_ratio,
    finite_slopes,
    hypot,
    log1p_quotient,
    log1p_square,
    log1p_square_ratio,
    log_quotient,
    scale_by_reciprocal,
)

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")

# On both sides of 8, where Stirling's formula begins, and at it.
POINTS = (1e-5, 0.3, 1.0, 2.0, 7.9, 8.0, 8.1, 30.0, 1e4, 1e8)


def _polygamma(n, x):
    return mpmath.psi(n, mpmath.mpf(x))


@pytest.mark.slow_rows("1e-05")
@pytest.mark.parametrize("a", POINTS)
def test_log_beta(a, x64):
    """Equal arguments and 8 are where a minimum or a maximum has half a derivative."""
    b = jnp.asarray(POINTS)
    values = [jax.vmap(f, (None, 0))(a, b) for f in (log_beta, jax.grad(log_beta))]
    second = jax.vmap(jax.hessian(log_beta, (0, 1)), (None, 0))(a, b)[0]
    with mpmath.workdps(40):
        truths = [
            [mpmath.log(mpmath.beta(a, y)) for y in POINTS],
            [_polygamma(0, a) - _polygamma(0, mpmath.mpf(a) + y) for y in POINTS],
            [_polygamma(1, a) - _polygamma(1, mpmath.mpf(a) + y) for y in POINTS],
            [-_polygamma(1, mpmath.mpf(a) + y) for y in POINTS],
        ]
    for found, truth in zip([*values, *second], truths, strict=True):
        np.testing.assert_allclose(found, np.array(truth, float), rtol=1e-9, atol=1e-14)


def test_log_beta_half(x64):
    x = jnp.asarray(POINTS)
    found = [jax.vmap(f)(x) for f in (log_beta_half, jax.grad(log_beta_half))]
    second = jax.vmap(jax.grad(jax.grad(log_beta_half)))(x)
    with mpmath.workdps(40):
        half = mpmath.mpf(0.5)
        truths = [
            [mpmath.log(mpmath.beta(y, half)) for y in POINTS],
            [_polygamma(0, y) - _polygamma(0, y + half) for y in POINTS],
            [_polygamma(1, y) - _polygamma(1, y + half) for y in POINTS],
        ]
    for value, truth in zip([*found, second], truths, strict=True):
        np.testing.assert_allclose(value, np.array(truth, float), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("x", [1e-30, 1e-3, 0.5, 1.5, 3.9, 4.0, 4.1, 7.9, 8.0, 8.1, 30.0, 1e6])
def test_stirling_error(x, float_dtype):
    """Where the series begin, in either precision, and below."""
    x = jnp.asarray(x, float_dtype)
    with mpmath.workdps(40):
        y = mpmath.mpf(float(x))
        leading = (y - 0.5) * mpmath.log(y) - y + mpmath.log(2 * mpmath.pi) / 2
        truths = mpmath.loggamma(y) - leading, _polygamma(0, y) - mpmath.log(y)
        truths = [float(truth) for truth in truths]
    tolerance = 1e-6 if float_dtype == np.float32 else 1e-13
    found = [float(f(x)) for f in (stirling_error, digamma_rest)]
    np.testing.assert_allclose(found, truths, rtol=tolerance, atol=tolerance)
    slope = float(jax.grad(stirling_error)(x))
    np.testing.assert_allclose(slope, truths[1] + 0.5 / float(x), rtol=tolerance, atol=tolerance)


def test_exp_rest(float_dtype):
    """Within three roundings: the polynomial, its square and the product."""
    x = np.concatenate([np.linspace(-0.25, 0.25, 101), [1e-12, -1e-9]]).astype(float_dtype)
    with mpmath.workdps(60):
        truth = [float(mpmath.expm1(v) - v) for v in map(mpmath.mpf, map(float, x))]
    tolerance = 3 * np.finfo(float_dtype).eps
    np.testing.assert_allclose(exp_rest(jnp.asarray(x)), truth, rtol=tolerance)


def test_slope_of_log_beta_half_near_0():
    """Where the ratio of two products has a derivative beyond single precision."""
    for x in (1e-30, 1e-10):
        np.testing.assert_allclose(jax.grad(log_beta_half)(jnp.float32(x)), -1 / x, rtol=1e-5)


# On both sides of -16 and -8, where the series of the derivative begins in either precision.
LOWER = (-1e4, -300.0, -20.0, -16.1, -15.9, -8.1, -7.9, -1.0, 0.0, 2.0, 12.0)


def _hazard(x):
    return mpmath.npdf(x) / mpmath.ncdf(x)


@pytest.mark.quick_rows("float64")
def test_derivatives_of_log_ndtr(float_dtype):
    """In single precision the logarithms of density and probability would cancel."""
    x = jnp.asarray(LOWER, float_dtype)
    first, second = jax.vmap(jax.grad(log_ndtr))(x), jax.vmap(jax.grad(jax.grad(log_ndtr)))(x)
    with mpmath.workdps(60):
        hazards = [_hazard(mpmath.mpf(float(y))) for y in x]
        bends = [-h * (h + mpmath.mpf(float(y))) for h, y in zip(hazards, x, strict=True)]
    tolerance = 1e-5 if float_dtype == np.float32 else 1e-11
    np.testing.assert_allclose(first, np.array(hazards, float), rtol=tolerance)
    if float_dtype == np.float64:
        np.testing.assert_allclose(second, np.array(bends, float), rtol=1e-9)


@pytest.mark.parametrize("in_sum", [False, True])
def test_log1p_square(float_dtype, in_sum):
    """On both sides of where the square is the whole of it, up to where it overflows."""
    largest = float(jnp.finfo(float_dtype).max)
    x = jnp.asarray([0.0, 1e-8, 0.5, 3e3, 8e6, -9e6, 4e15, -5e15, 0.9 * largest, -largest])
    x = x.astype(float_dtype)
    slopes = jax.vmap(jax.grad(lambda y: log1p_square(y, in_sum)))(x)
    at = [mpmath.mpf(float(y)) for y in x]
    tolerance = 4 * jnp.finfo(float_dtype).eps
    with mpmath.workdps(60):
        values = [float(mpmath.log1p(y * y)) for y in at]
        truths = [float(2 * y / (1 + y * y)) for y in at]
    error = tolerance if in_sum else 0
    np.testing.assert_allclose(log1p_square(x, in_sum), values, rtol=tolerance, atol=error)
    np.testing.assert_allclose(slopes, truths, rtol=tolerance, atol=jnp.finfo(float_dtype).tiny)


@pytest.mark.slow_rows("bfloat16")
@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32])
def test_bends_of_log1p_square(dtype):
    """In half precision, the square of the square overflows from 16 on."""
    x = jnp.asarray([0.0, 0.5, -3.0, 15.0, 20.0, -50.0, 100.0, 130.0], dtype)
    bends = jax.vmap(jax.grad(jax.grad(log1p_square)))(x)
    y = np.asarray(x, float)
    truth = 2 * (1 - y * y) / (1 + y * y) ** 2
    info = jnp.finfo(dtype)  # a bend is a difference, of which a part may be next to no number
    error = {"rtol": 8 * float(info.eps), "atol": float(info.tiny) / 8}
    np.testing.assert_allclose(np.asarray(bends, float), truth, **error)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 0.5, 1e30])
def test_slopes_of_the_square_of_a_quotient(scale):
    """Where the derivative of the quotient overflows, too."""
    x = jnp.asarray([0.0, 0.25, -3.0, 1e6, 1e30], np.float32)
    scale = jnp.float32(scale)
    by_x, by_scale = jax.vmap(jax.grad(log1p_square_ratio, (0, 1)), (0, None))(x, scale)
    y, s = np.asarray(x, float), float(scale)
    share = 2 * y * y / (s * s + y * y)
    np.testing.assert_allclose(by_scale, -share / s, rtol=1e-5, atol=1e-37)
    is_known = y / s < 1e38
    expected = np.where(y == 0, 0, share / np.where(y == 0, 1, y))
    np.testing.assert_allclose(by_x[is_known], expected[is_known], rtol=1e-5, atol=1e-37)


def _mean_chi(df, power=1):
    half = mpmath.mpf(df) / 2
    log_mean = mpmath.loggamma(half + power / 2) - mpmath.loggamma(half)
    return mpmath.exp(log_mean + power * mpmath.log(2) / 2)


# In float32: what is computed, and the truth, of numbers whose log-gammas or squares cancel.
LARGE = {
    "WishartCholesky": (
        lambda df: dist.WishartCholesky(df, scale=jnp.eye(2)).mean()[0, 0],
        _mean_chi,
    ),
    "InverseWishartCholesky": (
        lambda df: dist.InverseWishartCholesky(df, scale=jnp.eye(2)).mean()[1, 1],
        lambda df: _mean_chi(df, -1),
    ),
    "Chi": (lambda df: dist.Chi(df).variance(), lambda df: df - _mean_chi(df) ** 2),
}


@pytest.mark.parametrize("df", [20.0, 900.0, 1e6, 1e8])
@pytest.mark.parametrize("name", LARGE)
def test_moments_do_not_cancel(name, df):
    computed, truth = LARGE[name]
    with mpmath.workdps(40):
        np.testing.assert_allclose(computed(df), float(truth(df)), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 0.3, 7.0, 1e30])
def test_scaled(scale, float_dtype):
    """By reciprocals of scales, one for all values; also of scales whose squares are no numbers."""
    x, scale = np.linspace(-3, 3, 7).astype(float_dtype), np.asarray(scale, float_dtype)
    tolerance = 4 * np.finfo(float_dtype).eps
    value, slope = jax.jvp(
        lambda s: scale_by_reciprocal(jnp.asarray(x) * s, s), (scale,), (scale / 3,)
    )
    np.testing.assert_allclose(value, x, rtol=tolerance)
    np.testing.assert_allclose(slope, 0 * x, atol=tolerance)
    slope = jax.jacfwd(lambda s: scale_by_reciprocal(jnp.asarray(x * scale), s))(scale)
    np.testing.assert_allclose(slope, -x / scale, rtol=tolerance)


@pytest.mark.parametrize(("scales", "divided"), [((), ""), ((1,), "1"), ((3,), "3")])
def test_scaled_divides_the_fewer(scales, divided):
    f = lambda x, s: jax.jvp(scale_by_reciprocal, (x, s), (x, s))  # noqa: E731
    text = str(jax.make_jaxpr(f)(jnp.ones(3), jnp.ones(scales)))
    assert set(re.findall(r":f32\[([^]]*)\] = div", text)) == {divided}


def test_scales_of_half_precision():
    d = dist.Normal(jnp.float16(0), jnp.float16(1e-5))
    np.testing.assert_allclose(jax.jit(lambda d: d.log_prob(jnp.float16(0)))(d), 10.59, rtol=2e-3)


@pytest.mark.slow
def test_finite_slopes():
    """Those of the formula, with second ones, but where its value is infinite."""
    formula = lambda x, scale, shift: -jnp.exp(x / scale) + shift * x  # noqa: E731
    guarded = finite_slopes(formula)
    at = jnp.array([0.5, -1.0]), jnp.float32(2.0), np.float32(3.0)
    for f in (formula, guarded):
        total = lambda x, scale, f=f: f(x, scale, at[2]).sum()  # noqa: E731
        found = (*jax.grad(total, (0, 1))(*at[:2]), *jax.hessian(total, (0, 1))(*at[:2]))
        if f is formula:
            expected = found
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)
    slopes = jax.vmap(jax.grad(guarded, (0, 1)), (0, None, None))(jnp.array([1e30, 0.5]), *at[1:])
    plain = jax.grad(formula, (0, 1))(jnp.float32(1e30), *at[1:])
    assert not np.isfinite(plain).all()
    assert [float(s[0]) for s in slopes] == [0, 0]
    assert all(s[1] != 0 for s in slopes)


def test_finite_slopes_of_integers_and_of_what_is_not_given():
    formula = finite_slopes(lambda k, rate, none: k.astype(rate.dtype) * jnp.log(rate) - rate)
    slope = jax.jit(jax.vmap(jax.grad(formula, 1), (0, None, None)))
    np.testing.assert_allclose(slope(jnp.arange(3), jnp.float32(2.0), None), [-1, -0.5, 0])


def test_quotients_that_overflow():
    tiny, huge = jnp.float32(1e-30), jnp.float32(1e30)
    value, slopes = jax.value_and_grad(bounded_ratio, (0, 1))(huge, tiny)
    assert value >= np.finfo(np.float32).max
    assert not np.isnan(slopes).any()
    # A slope of 0 far out, times what the quotient's is: 0, and not NaN.
    slope = jax.grad(lambda scale: jnp.tanh(bounded_ratio(huge, scale)))(tiny)
    assert slope == 0
    near = [
        jax.grad(f, (0, 1))(jnp.float32(3), jnp.float32(2))
        for f in (bounded_ratio, scale_by_reciprocal)
    ]
    np.testing.assert_allclose(near, [[0.5, -0.75]] * 2)


@pytest.mark.parametrize(("x", "scale"), [(1e30, 1e-30), (1.0, 1e-30), (3.0, 2.0), (1e-20, 1.0)])
def test_logarithms_of_quotients(x, scale):
    x, scale = np.float32(x), np.float32(scale)
    with mpmath.workdps(40):
        quotient = mpmath.mpf(float(x)) / mpmath.mpf(float(scale))
        truths = [float(mpmath.log1p(quotient)), float(mpmath.log(1 + quotient))]
    found = log1p_quotient(jnp.asarray(x), jnp.asarray(scale))
    np.testing.assert_allclose(found, truths[0], rtol=1e-6)
    above = np.nextafter(scale, np.float32(np.inf))
    near = log_quotient(jnp.asarray(above), jnp.asarray(scale))
    exact = np.log1p((np.float64(above) - np.float64(scale)) / np.float64(scale))
    np.testing.assert_allclose(near, exact, rtol=1e-5)
    np.testing.assert_allclose(
        log_quotient(jnp.asarray(x), jnp.asarray(scale)), float(mpmath.log(quotient)), rtol=1e-6
    )


@pytest.mark.parametrize("function", [arcsinh_ratio, log1p_square_ratio])
@pytest.mark.parametrize("x", [1e30, 1e5, 3.0, -0.5, 0.0, -1e30])
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1.0, 2.0, 1e10])
def test_functions_of_quotients(x, scale, function):
    """Exact where the quotient or its slopes overflow, but that one of 2 / x may then be 0."""
    x, scale = jnp.float32(x), jnp.float32(scale)
    value, slopes = jax.value_and_grad(function, (0, 1))(x, scale)
    with mpmath.workdps(80):
        a, b = mpmath.mpf(float(x)), mpmath.mpf(float(scale))
        if function is arcsinh_ratio:
            truth, by_log = mpmath.asinh(a / b), a / mpmath.sqrt(a * a + b * b)
        else:
            truth, by_log = mpmath.log1p((a / b) ** 2), 2 * a * a / (a * a + b * b)
        by_x = float(by_log / a) if a else 1 / float(b) if function is arcsinh_ratio else 0.0
    np.testing.assert_allclose(value, float(truth), rtol=2e-6, atol=1e-30)
    np.testing.assert_allclose(slopes[0], by_x, rtol=2e-6, atol=1e-29)
    np.testing.assert_allclose(slopes[1], float(-by_log / b), rtol=2e-6, atol=1e-29)


@pytest.mark.parametrize("ratio", [1.5, 2.0, 2.5, 1e5])
def test_logarithms_of_quotients_of_large_numbers(ratio):
    """Not by a difference of logarithms, which are large beside it."""
    low = np.float32(1e20)
    high = np.float32(ratio * 1e20)
    found = log_quotient(jnp.asarray(high), jnp.asarray(low))
    np.testing.assert_allclose(found, np.log(np.float64(high) / np.float64(low)), rtol=2e-7)


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_hypot(size):
    point = jnp.float32(3 * size), jnp.float32(4 * size)
    value, slopes = jax.value_and_grad(hypot, (0, 1))(*point)
    np.testing.assert_allclose(value, 5 * size, rtol=1e-6)
    np.testing.assert_allclose(slopes, [0.6, 0.8], rtol=1e-6)


def test_softplus(float_dtype):
    """Derivatives are as precise where their values are tiny, and finite at the ends."""
    points = [-80.0, -30.0, -1.0, 0.0, 1.0, 30.0, 80.0]
    found = [jax.vmap(softplus)(jnp.asarray(points, float_dtype))]
    f = softplus
    for _ in range(3):
        f = jax.grad(f)
        found.append(jax.vmap(f)(jnp.asarray(points, float_dtype)))
    with mpmath.workdps(80):
        p = [1 / (1 + mpmath.exp(-mpmath.mpf(x))) for x in points]
        truths = [
            [mpmath.log1p(mpmath.exp(mpmath.mpf(x))) for x in points],
            p,
            [p * (1 - p) for p in p],
            [p * (1 - p) * (1 - 2 * p) for p in p],
        ]
    rtol = 8 * float(jnp.finfo(float_dtype).eps)
    for values, truth in zip(found, truths, strict=True):
        np.testing.assert_allclose(values, np.array(truth, float), rtol=rtol)
    ends = jnp.asarray([-jnp.inf, jnp.inf], float_dtype)
    np.testing.assert_array_equal(jax.vmap(softplus)(ends), [0, jnp.inf])
    np.testing.assert_array_equal(jax.vmap(jax.grad(softplus))(ends), [0, 1])
