"""Numbers at extremes: large concentrations, where textbook formulas cancel, against mpmath."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special as sp

import distributions as dist
from tests.distributions.cases import CORE

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
MANY = 2.0**33
NEAR = 1 / np.sqrt(MANY)


def over(names):
    """Parametrizes a test over names that begin with a family; those not much used are slow."""
    slow = {name: (pytest.mark.slow,) * (name.split()[0] not in CORE) for name in names}
    return pytest.mark.parametrize("name", [pytest.param(n, marks=slow[n]) for n in names])


def log_beta(a, b):
    return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def gamma(x, a, rate):
    return a * mpmath.log(rate * x) - mpmath.log(x) - rate * x - mpmath.loggamma(a)


def inverse_gamma(x, a, scale):
    return gamma(1 / x, a, scale) - 2 * mpmath.log(x)


def chi(x, df):
    return gamma(x * x, df / 2, 0.5) + mpmath.log(2 * x)


def exp_gamma(y, a, rate):
    return gamma(mpmath.exp(y), a, rate) + y


def beta(x, a, b):
    return (a - 1) * mpmath.log(x) + (b - 1) * mpmath.log1p(-x) - log_beta(a, b)


def gamma_gamma(x, a, b, scale):
    z = x / scale
    return beta(z / (1 + z), a, b) - 2 * mpmath.log1p(z) - mpmath.log(scale)


def student_t(x, df, loc, scale):
    z = (x - loc) / scale
    constant = mpmath.log(scale) + mpmath.log(df) / 2 + log_beta(df / 2, mpmath.mpf(0.5))
    return -(df + 1) / 2 * mpmath.log1p(z * z / df) - constant


def skew_student_t(x, a, b, loc, scale):
    z = (x - loc) / scale
    t = z / mpmath.sqrt(a + b + z * z)
    slope = (1 - t * t) / 2 * mpmath.sqrt((1 - t * t) / (a + b)) / scale
    return beta((1 + t) / 2, a, b) + mpmath.log(slope)


# The family, its density, the parameters, and values around the middle and far from it.
LARGE = {
    "Gamma": (dist.Gamma, gamma, (MANY, 2.0), MANY / 2 * (1 + NEAR * np.array([-2, 0.5, 3e4]))),
    "Chi2": (
        dist.Chi2,
        lambda x, df: gamma(x, df / 2, 0.5),
        (MANY,),
        MANY * (1 + NEAR * np.array([-2, 0.5, 1e5])),
    ),
    "Beta": (dist.Beta, beta, (MANY, MANY), 0.5 + 2.0**-18 * np.array([-1, 0, 2])),
    "StudentT": (dist.StudentT, student_t, (1e10, 0.5, 2.0), np.array([0.5, -3.0, 9.0])),
    "SkewStudentT": (
        dist.SkewStudentT,
        skew_student_t,
        (1e10, 1e10, 0.5, 2.0),
        np.array([0.5, -3.0, 9.0]),
    ),
    "Beta of unequal concentrations": (
        dist.Beta,
        beta,
        (1e10, 3e9),
        10 / 13 + 4e-6 * np.array([-3.0, 0.0, 1.0]),
    ),
    "Beta of one large concentration": (
        dist.Beta,
        beta,
        (2.5, 1e10),
        1e-10 * np.array([0.1, 1.0, 5.0]),
    ),
    "InverseGamma": (
        dist.InverseGamma,
        inverse_gamma,
        (1e10, 2e10),
        2 + 2e-5 * np.array([-3.0, 0.0, 1.0]),
    ),
    "Chi": (dist.Chi, chi, (1e10,), 1e5 + np.array([-2.0, 0.0, 1.0])),
    "ExpGamma": (
        dist.ExpGamma,
        exp_gamma,
        (1e8, 1.0),
        np.log(1e8) + 1e-4 * np.array([-2.0, 0.0, 1.0]),
    ),
    "GammaGamma": (
        dist.GammaGamma,
        gamma_gamma,
        (2e10, 1e10, 3.0),
        6 + 1e-4 * np.array([-2.0, 0.0, 1.0]),
    ),
}


@jax.jit
def score_and_gradients(d, x):
    gradients = jax.vmap(jax.grad(lambda d, x: d.log_prob(x), (0, 1)), (None, 0))(d, x)
    return d.log_prob(x), jax.tree.leaves(gradients)


def slopes(formula, at):
    """Derivatives in the logarithms of all arguments, or in those that are 0."""
    sizes = [abs(x) or mpmath.mpf(1) for x in at]

    def moved(i, step):
        return formula(*(x + step * sizes[i] * (i == j) for j, x in enumerate(at)))

    with mpmath.workdps(80):
        h = mpmath.mpf(10) ** -20
        return np.array([float((moved(i, h) - moved(i, -h)) / (2 * h)) for i in range(len(at))])


def check(row, float_dtype, tolerance):
    make, formula, parameters, values = row
    given = [jnp.asarray(p, float_dtype) for p in (*parameters, values)]
    found, gradients = score_and_gradients(make(*given[:-1]), given[-1])
    for i in range(len(values)):
        at = [float(p) for p in (given[-1][i], *given[:-1])]
        exact = [mpmath.mpf(x) for x in at]
        with mpmath.workdps(60):
            truth = float(formula(*exact))
        np.testing.assert_allclose(found[i], truth, tolerance, tolerance)
        *of_parameters, of_value = (float(g[i]) for g in gradients)
        ours = np.array([of_value, *of_parameters]) * [abs(x) or 1 for x in at]
        expected = slopes(formula, exact)
        rounding = 8 * np.finfo(float_dtype).eps * np.abs(at).max()
        np.testing.assert_allclose(ours, expected, tolerance, tolerance + rounding)


@over(LARGE)
def test_large_concentrations(name, x64):
    check(LARGE[name], np.float64, 1e-10)


@over(["Gamma", "Chi2", "Beta", "StudentT", "SkewStudentT"])
def test_large_concentrations_in_single_precision(name):
    """Where what is given to the kernels is not rounded."""
    check(LARGE[name], np.float32, 1e-5)


# Parameters of families with a scale, beside it.
SCALED = {
    "AsymmetricLaplace": {"loc": 0.0, "asymmetry": 2.0},
    "Cauchy": {"loc": 0.0},
    "Dagum": {"concentration": 1.5, "sharpness": 2.0},
    "DoublesidedMaxwell": {"loc": 0.0},
    "Frechet": {"concentration": 1.5},
    "GeneralizedNormal": {"loc": 0.0, "power": 3.0},
    "GeneralizedPareto": {"loc": 0.0, "concentration": 0.25},
    "Gumbel": {"loc": 0.0},
    "HalfCauchy": {"loc": 0.0},
    "HalfNormal": {},
    "HalfStudentT": {"df": 3.0, "loc": 0.0},
    "Horseshoe": {},
    "InverseGamma": {"concentration": 1.5},
    "JohnsonSU": {"skewness": 1.0, "tailweight": 2.0, "loc": 0.0},
    "Laplace": {"loc": 0.0},
    "Levy": {"loc": 0.0},
    "Logistic": {"loc": 0.0},
    "Lomax": {"concentration": 1.5},
    "Moyal": {"loc": 0.0},
    "Normal": {"loc": 0.0},
    "Rayleigh": {},
    "SinhArcsinh": {"loc": 0.0, "skewness": 0.25, "tailweight": 0.75},
    "SkewNormal": {"loc": 0.0, "skewness": 2.0},
    "SkewStudentT": {"a": 1.5, "b": 2.0, "loc": 0.0},
    "SoftLaplace": {"loc": 0.0},
    "StudentT": {"df": 3.0, "loc": 0.0},
    "TruncatedNormal": {"loc": 0.0, "low": 0.0, "high": np.inf},
    "TwoPieceNormal": {"loc": 0.0, "skewness": 2.0},
    "TwoPieceStudentT": {"df": 3.0, "loc": 0.0, "skewness": 2.0},
    "Weibull": {"concentration": 1.5},
}


@pytest.mark.slow_rows("Cauchy", "TruncatedNormal", "Weibull")
@over(SCALED)
def test_tiny_and_huge_scales(name):
    """In units of the scale, log densities and their derivatives are what they are at scale 1."""
    make, others = getattr(dist, name), SCALED[name]
    score = lambda z, log_scale, scale: make(  # noqa: E731
        scale=jnp.exp(log_scale) * scale, **others
    ).log_prob(z * scale)
    found = {}
    for scale in (1e-30, 1.0, 1e30):
        both = jax.value_and_grad(score, (0, 1))
        scores, slopes = jax.vmap(both, (0, None, None))(
            jnp.array([0.25, 3.0], np.float32), jnp.float32(0), jnp.float32(scale)
        )
        found[scale] = [scores + np.log(scale).astype(np.float32), *slopes]
    for scale in (1e-30, 1e30):
        np.testing.assert_allclose(found[scale], found[1.0], rtol=1e-4, atol=2e-5)


@pytest.mark.slow_rows("TruncatedNormal")
@over([name for name in SCALED if "loc" in SCALED[name] and name != "Levy"])
def test_derivatives_at_the_location_are_numbers(name):
    """For a scale whose square is 0 in single precision."""
    make = lambda p: getattr(dist, name)(**p)  # noqa: E731
    parameters = {k: jnp.float32(v) for k, v in (SCALED[name] | {"scale": 1e-30}).items()}
    gradients = jax.grad(lambda p: make(p).log_prob(0.0))(parameters)
    assert not any(np.isnan(g) for g in gradients.values())


FAR = ["Cauchy", "HalfCauchy", "HalfStudentT", "JohnsonSU", "Normal", "SinhArcsinh", "SkewNormal"]
FAR += ["SkewStudentT", "StudentT", "TwoPieceNormal", "TwoPieceStudentT"]


@over(FAR)
@pytest.mark.parametrize("x", [1e25, -1e25, 3e38])
def test_values_whose_squares_overflow(name, x):
    """Densities are not 0 where they are none in double precision; derivatives are numbers."""
    score = lambda p, x: getattr(dist, name)(**p).log_prob(x)  # noqa: E731
    parameters = {k: jnp.float32(v) for k, v in (SCALED[name] | {"scale": 1.0}).items()}
    found, gradients = jax.value_and_grad(score, (0, 1))(parameters, jnp.float32(x))
    assert not any(np.isnan(g) for g in jax.tree.leaves(gradients))
    with jax.enable_x64(True):
        wide = {k: jnp.float64(v) for k, v in parameters.items()}
        truth, slopes = jax.value_and_grad(score)(wide, jnp.float64(x))
    is_huge = np.abs(truth) > np.finfo(np.float32).max
    np.testing.assert_allclose(found, -np.inf if is_huge else truth, rtol=1e-5)
    if not is_huge and abs(x) < 1e38:
        for parameter, slope in slopes.items():
            np.testing.assert_allclose(gradients[0][parameter], slope, rtol=1e-4, atol=1e-30)


CONCENTRATED = {
    "VonMises": (lambda c: dist.VonMises(0.0, c), 3e38),
    "VonMisesFisher": (lambda c: dist.VonMisesFisher(np.float32([1, 0, 0]), c), 1e30),
}


@over(CONCENTRATED)
def test_draws_around_a_direction_of_huge_concentration(name):
    """Rejection ends where multiples or squares of the concentration overflow."""
    make, concentration = CONCENTRATED[name]
    draws = make(jnp.float32(concentration)).sample(jax.random.key(0), (4,))
    units = np.abs(draws[..., 1:] if draws.ndim > 1 else draws) * np.sqrt(concentration)
    assert ((units > 1e-3) & (units < 6)).all()


@pytest.mark.parametrize("concentration", [0.0, 0.5, 20.0, 1e3, 1e6, 1e30])
def test_slope_by_a_concentration(concentration):
    """That of the normalizer is half an inverse, far below the rounding of 1."""
    c = jnp.float32(concentration)
    found = jax.grad(lambda c: dist.VonMises(0.0, c).log_prob(0.0))(c)
    with mpmath.workdps(50):
        m = mpmath.mpf(float(c))
        tail = 1 / (2 * m) if m > 1e9 else 1 - mpmath.besseli(1, m) / mpmath.besseli(0, m)
    np.testing.assert_allclose(found, float(tail), rtol=2e-5)


# With the standard deviations and the numbers of axes of the tangent planes.
DIRECTIONS = {
    "ProjectedNormal": (lambda c: dist.ProjectedNormal(c * np.float32([1, 0, 0])), -1, 2),
    "VonMises": (CONCENTRATED["VonMises"][0], -0.5, 1),
}


@over(DIRECTIONS)
@pytest.mark.parametrize("concentration", [1e6, 1e10, 1e30, 3e38])
def test_densities_around_a_direction_of_large_concentration(name, concentration):
    """Those of a normal law in the tangent plane, in the middle and a standard deviation off it."""
    make, power, size = DIRECTIONS[name]
    sd = concentration**power
    for deviation in (0.0, 1.0) if sd > 1e-37 else (0.0,):
        angle = np.float32(deviation * sd)
        x = angle if size == 1 else np.stack([np.cos(angle), np.sin(angle), 0 * angle])
        expected = -size * (np.log(sd) + 0.5 * np.log(2 * np.pi)) - 0.5 * deviation**2
        found = jax.jit(lambda c, x: make(c).log_prob(x))(np.float32(concentration), x)
        np.testing.assert_allclose(found, expected, 1e-5)


@pytest.mark.parametrize("power", [1e3, 1e30])
def test_zipf_of_a_large_power(power):
    score = lambda power, k: dist.Zipf(power).log_prob(k)  # noqa: E731
    found = [jax.value_and_grad(score)(jnp.float32(power), k) for k in (1, 2)]
    np.testing.assert_allclose(found, [[0, 0], [-power * np.log(2), -np.log(2)]], rtol=1e-6)


BY_SEARCH = {
    "Hurdle": lambda c: dist.Hurdle(dist.Poisson(c), probs=0.5),
    "SineBivariateVonMises": lambda c: dist.SineBivariateVonMises(0.0, 0.0, c, c, correlation=0.5),
    "VonMises": lambda c: dist.VonMises(0.0, c),
    "VonMisesFisher": lambda c: dist.VonMisesFisher(np.float32([1, 0, 0]), c),
    "Wiener": lambda c: dist.Wiener(c, 0.125, 0.5, 0.25),
    "Zipf": lambda c: dist.Zipf(c),
}


@over(BY_SEARCH)
def test_a_search_with_a_parameter_that_is_nan_ends(name):
    """And says that there is no draw: with NaN, or with -1 for a count."""
    sample = jax.jit(lambda c: BY_SEARCH[name](c).sample(jax.random.key(0), (3,)))
    draws = sample(jnp.float32(jnp.nan))
    assert np.all(np.isnan(draws) if jnp.issubdtype(draws.dtype, jnp.floating) else draws == -1)
    assert np.all(np.isfinite(sample(jnp.float32(2.0))))


@pytest.mark.parametrize("width", [1e-3, 1.0, 9.0, 12.0])
def test_levels_of_which_one_has_nearly_all_mass(width):
    """What the others have is not lost beside 1, nor is what a narrow level has."""
    cutpoints = np.float32([-width, width])
    found = dist.OrderedLogistic(cutpoints=cutpoints, loc=np.float32(0.25)).log_prob(1)
    low, high = np.float64(cutpoints) - 0.25
    others = 1 / (1 + np.exp(-low)) + 1 / (1 + np.exp(high))
    expected = np.log1p(-others)
    np.testing.assert_allclose(found, expected, 1e-6)


@pytest.mark.slow_rows("1e-06--1.0", "1e-06--30.0", "9.0-0.3")
@pytest.mark.parametrize("low", [-1.0, 0.0, 0.3, 30.0, -30.0])
@pytest.mark.parametrize("width", [1e-6, 0.5, 9.0])
def test_first_and_second_derivatives_of_a_level(x64, low, width):
    """To rounding, also where the location is a cutpoint."""
    point = [low, low + width, 0.0]
    log_prob = lambda v: dist.OrderedLogistic(cutpoints=v[:2], loc=v[2]).log_prob(1)  # noqa: E731

    def derivative(*which):
        logistic = lambda x: 1 / (1 + mpmath.exp(-x))  # noqa: E731
        mass = lambda b, a, loc: mpmath.log(logistic(a - loc) - logistic(b - loc))  # noqa: E731
        with mpmath.workdps(50):
            return float(mpmath.diff(mass, point, tuple(map(which.count, range(3)))))

    first = [derivative(i) for i in range(3)]
    second = [[derivative(i, j) for j in range(3)] for i in range(3)]
    slope, curvature = jax.grad(log_prob)(jnp.array(point)), jax.hessian(log_prob)(jnp.array(point))
    np.testing.assert_allclose(slope, first, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(curvature, second, rtol=1e-10, atol=1e-10 * np.max(np.abs(second)))


@pytest.mark.parametrize("cutpoints", [[1.0, 1.0], [1.0, -1.0]])
def test_cutpoints_that_do_not_ascend_are_drawn_apart(cutpoints):
    log_prob = lambda c: dist.OrderedLogistic(cutpoints=c, loc=0.0).log_prob(1)  # noqa: E731
    value, slope = jax.value_and_grad(log_prob)(jnp.array(cutpoints))
    assert value == -jnp.inf
    assert np.all(np.isfinite(slope))
    assert slope[0] < 0 < slope[1]


@pytest.mark.parametrize("y", [0.0, 1e30])
def test_log_of_a_gamma_variable_next_to_overflow(y, float_dtype):
    """The density is 0 there, with derivatives of 0, and not yet 0 next to it."""
    most = np.log(float(np.finfo(float_dtype).max))
    f = dist.ExpGamma(2.5, 1.0).log_prob
    near = float_dtype.type(0.97 * most)
    np.testing.assert_allclose(f(near), -np.exp(np.float64(near)), rtol=1e-6)
    far = float_dtype.type(max(y, 1.01 * most))
    assert f(far) == -np.inf
    assert (jax.grad(f)(far), jax.grad(jax.grad(f))(far)) == (0, 0)


@pytest.mark.parametrize("logits", [-1e8, 0.5, 1e8])
def test_bends_of_counts_by_log_odds_and_failures(logits):
    def f(at):
        return dist.NegativeBinomial(logits=at[0], total_count=at[1]).log_prob(2)

    r = 3.5
    found = jax.hessian(f)(jnp.array([logits, r], jnp.float32))
    p = sp.expit(logits)
    by_r = sp.polygamma(1, r + 2) - sp.polygamma(1, r)
    np.testing.assert_allclose(found, [[-(r + 2) * p * (1 - p), -p], [-p, by_r]], rtol=1e-4)


def test_quantile_beyond_the_largest_number():
    """It is clipped, and so a constant; the slope of the distribution function is finite there."""
    df = jnp.float32(1e-8)
    f = lambda df, scale, q: dist.InverseChi2(df, scale).quantile(q)  # noqa: E731
    value, slopes = jax.value_and_grad(f, (0, 1, 2))(df, jnp.float32(0.5), jnp.float32(0.5))
    assert value == jnp.finfo(jnp.float32).max
    assert slopes == (0, 0, 0)


@pytest.mark.parametrize("df", [2e-4, 0.5])
def test_t_tails_next_to_overflow(df):
    """The value over the root of the degrees of freedom overflows; the probability is not 0."""
    df = np.float32(df)
    z = np.float32(3e38)
    f = lambda z, df: dist.StudentT(df).log_survival(z)  # noqa: E731
    value, slopes = jax.value_and_grad(f, (0, 1))(z, df)

    def expected(df):
        x = df / (df + mpmath.mpf(float(z)) ** 2)
        return mpmath.log(mpmath.betainc(df / 2, 0.5, 0, x, regularized=True) / 2)

    df = mpmath.mpf(float(df))
    np.testing.assert_allclose(value, float(expected(df)), rtol=1e-5)
    np.testing.assert_allclose(slopes[1], float(mpmath.diff(expected, df)), rtol=1e-4)


def test_generalized_normal_tails_where_the_power_overflows():
    at = jnp.array([16.0, 0.75, 2.0, 1e8], jnp.float32)
    f = lambda at: dist.GeneralizedNormal(*at[1:]).log_cdf(at[0])  # noqa: E731
    value, slopes = jax.value_and_grad(f)(at)
    assert value == 0
    np.testing.assert_array_equal(slopes, np.zeros(4))
