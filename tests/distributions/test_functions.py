"""Distribution functions, quantiles, entropies and modes: against scipy, and each other."""

import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist
from tests.distributions.cases import CASES, KL, Case, mostly_double, over
from tests.distributions.cases.base import without

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
FUNCTIONS = {"cdf": "cdf", "survival": "sf", "log_cdf": "logcdf", "log_survival": "logsf"}
every = functools.partial(over, exhaustive=True)
PROBABILITIES = np.array([0.03125, 0.25, 0.5, 0.875, 0.9990234375])


draw = jax.jit(lambda d, key: d.sample(key, (20_000,)))


# Their functions are sums, series or found by search, and take long to compile.
INVOLVED = (
    *("Beta", "Binomial", "InverseGamma", "MixtureSameFamily", "NegativeBinomial", "StudentT"),
    *("Truncated, Normal", "ZeroInflated"),
)


def scalar(
    cases: list[Case], oracle: str, exclusion: str, slow: tuple[str, ...] = ()
) -> pytest.MarkDecorator:
    """The cases of families of numbers whose oracle has a method."""
    return every([case for case in without(cases, exclusion) if case.tells(oracle)], slow)


@pytest.mark.parametrize(
    "case",
    [case for case in without(CASES, "cdf") if case.tells("cdf")],
    ids=lambda case: case.name,
)
def test_cdf_is_scipys(case: Case, x64):
    """Of every family in the quick suite, too; of no number, no number."""
    values = np.asarray(case.values(float), float)
    found = jax.jit(lambda d, x: d.cdf(x))(case.build(float), np.stack([values, np.nan * values]))
    np.testing.assert_allclose(found[0], case.truth(float).cdf(values), rtol=1e-10, atol=1e-10)
    assert np.isnan(found[1]).all()


@jax.jit
def functions(d, value):
    return {name: getattr(d, name)(value) for name in FUNCTIONS}


@pytest.mark.slow
@mostly_double
@scalar(CASES, "cdf", "cdf")
def test_distribution_functions_are_scipys(case: Case, float_dtype):
    """Inside of the support, and far outside: 0, 1 and their logarithms; NaN for NaN."""
    d, oracle, values = case.build(float_dtype), case.truth(float_dtype), case.values(float_dtype)
    ends = np.where(np.arange(values.size).reshape(values.shape) % 2, np.inf, -np.inf)
    tolerance = 1e-10 if float_dtype == np.float64 else case.tolerance32
    nothing = functions(d, jnp.full(case.inside.shape, jnp.nan, float_dtype))
    assert all(np.isnan(x).all() for x in nothing.values())
    for x in (values, jnp.asarray(ends, float_dtype)):
        found = functions(d, x)
        for name, theirs in FUNCTIONS.items():
            assert found[name].dtype == float_dtype
            if not hasattr(oracle, theirs):
                continue
            with np.errstate(divide="ignore"):
                truth = getattr(oracle, theirs)(np.asarray(x, float))
            np.testing.assert_allclose(found[name], truth, tolerance, tolerance, err_msg=name)


@jax.jit
def quantile(d, q):
    """Quantiles, their slopes unless they are integers, densities and probabilities there."""
    if d.support.is_discrete:
        value, slope = d.quantile(q), None
    else:
        value, slope = jax.jvp(d.quantile, (q,), (jnp.ones_like(q),))
    return value, slope, d.log_prob(value), d.cdf(value)


@pytest.mark.slow_rows(
    "Normal",
    "HalfNormal",
    "Gamma",
    "LogNormal",
    "TruncatedNormal",
    "Bernoulli, logits",
    "Poisson, rate",
    "TransformedDistribution, Exp",
)
@scalar(without(CASES, "quantile"), "cdf", "cdf", slow=INVOLVED)
def test_quantiles_are_scipys_and_have_derivatives(case: Case, x64):
    """The derivative in the probability is the reciprocal of the density; no probability, NaN."""
    d, oracle = case.build(float), case.truth(float)
    axes = tuple(range(1, 1 + len(d.batch_shape)))
    shape = (len(PROBABILITIES), *d.batch_shape)
    q = np.broadcast_to(np.expand_dims(PROBABILITIES, axes), shape)
    value, slope, log_prob, cdf = quantile(d, np.concatenate([q, 1.5 + 0 * q[:1]]))
    assert (~d.support.check(value[-1])).all()
    if hasattr(oracle, "ppf"):
        np.testing.assert_allclose(value[:-1], oracle.ppf(q), rtol=1e-9, atol=1e-9)
    if not d.support.is_discrete:
        np.testing.assert_allclose(cdf[:-1], q, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(slope[:-1], np.exp(-log_prob[:-1]), rtol=1e-8)


@pytest.mark.slow_rows(
    "TruncatedNormal",
    "OrderedLogistic",
    "Binomial, logits",
    "NegativeBinomial, logits",
    "LKJCholesky",
)
@every(without(CASES, "entropy"))
def test_entropies_are_scipys(case: Case, x64):
    """Or, where it has none, the mean over draws within five standard errors (a rate of 6e-7)."""
    d = case.build(float)
    entropy = jax.jit(lambda d: d.entropy())(d)
    if not hasattr(case.truth(float), "entropy"):
        draws = draw(d, jax.random.key(6))
        scores = -np.asarray(jax.jit(d.log_prob)(draws))
        error = scores.std(0) / np.sqrt(len(scores))
        assert (np.abs(entropy - scores.mean(0)) <= 5 * error + 1e-9).all()
        return
    truth = np.broadcast_to(case.truth(float).entropy(), d.batch_shape)
    np.testing.assert_allclose(entropy, truth, rtol=1e-9, atol=1e-9)


@jax.jit
def modes(d, values):
    """The modes, the log densities there, at values and around the mode."""
    mode = d.mode()
    if d.support.is_discrete:
        return mode, d.log_prob(mode), d.log_prob(values), _beside(d, mode)
    position = jnp.clip(jnp.nan_to_num(d.bijector.inverse(mode)), -1e3, 1e3)
    near = lambda step: d.log_prob(d.bijector.forward(position + step))  # noqa: E731
    steps = jax.random.normal(jax.random.key(5), (200, *position.shape))
    sizes = jnp.logspace(-3, 1, 200).reshape((200,) + (1,) * position.ndim)
    event = tuple(range(-d.support.event_ndims, 0))
    is_inside = jnp.expand_dims(d.support.check(mode), event)
    # Where the mode is at an open end of the support, a point next to it.
    inside = jnp.where(is_inside, mode, d.bijector.forward(position))
    return mode, d.log_prob(inside), d.log_prob(values), jax.vmap(near)(sizes * steps)


def _beside(d, mode):
    if d.event_shape:
        return d.log_prob(mode)
    return jax.vmap(lambda step: d.log_prob(mode + step))(jnp.arange(-30, 31).astype(mode.dtype))


@pytest.mark.quick_rows(
    "Bernoulli, logits",
    "Categorical, logits",
    "Laplace",
    "HalfNormal",
    "Logistic",
    "Poisson, rate",
    "Exponential",
    "Normal",
)
@every(without(CASES, "mode"))
def test_no_value_has_a_greater_density_than_the_mode(case: Case, x64):
    """Among the values of the case, and around the mode; of vectors of integers, among draws."""
    d = case.build(float)
    values = case.values(float)
    if d.support.is_discrete and d.event_shape:
        values = draw(d, jax.random.key(5))[:200]
    mode, at_mode, *others = modes(d, values)
    assert mode.shape == d.batch_shape + d.event_shape
    assert all((np.asarray(other) <= np.asarray(at_mode) + 1e-6).all() for other in others)


# Quadrature in unconstrained space: where the support is the real line, in the inverse hyperbolic
# sine of the value, as tails may be heavy; elsewhere they decay exponentially.
NODES = np.linspace(-60, 60, 60_001)
STEP = NODES[1] - NODES[0]


@jax.jit
def density(d, position):
    """Of positions in unconstrained space."""
    log_det = d.bijector.forward_log_det_jacobian(position)
    return jnp.exp(d.log_prob(d.bijector.forward(position)) + log_det)


@pytest.mark.slow_rows(
    "Laplace",
    "Beta",
    "TruncatedNormal",
    "Binomial, logits",
    "NegativeBinomial, logits",
    "Truncated, Normal",
)
@every([case for case in without(CASES, "integral") if case.is_number])
def test_densities_integrate_to_one(case: Case, x64):
    d = case.build(float)
    shape = (-1,) + (1,) * len(d.batch_shape)
    if d.support.is_discrete:
        most = int(np.minimum(np.max(getattr(d.support, "high", np.inf)), 20_000))
        values = np.arange(int(np.min(d.support.low)), most + 1).reshape(shape)
        total = np.exp(np.asarray(jax.jit(d.log_prob)(values))).sum(0)
    else:
        t = NODES.reshape(shape)
        is_real = d.support.is_unrestricted
        position, weight = (np.sinh(t / 3), np.cosh(t / 3) / 3) if is_real else (t, 1)
        total = (np.asarray(density(d, position)) * weight).sum(0) * STEP
    np.testing.assert_allclose(total, 1, rtol=1e-6)


@pytest.mark.quick_rows(
    "Uniform",
    "Exponential",
    "LogNormal",
    "HalfNormal",
    "Weibull",
    "Laplace",
    "OneHotCategorical",
    "Normal",
    "MultivariateNormal",
)
@pytest.mark.parametrize("name", KL)
def test_divergences_are_expected_differences(name, x64):
    """Within five standard errors of the mean over draws (a failure rate of 6e-7); of itself, 0."""
    p, q = KL[name]
    draws = draw(p, jax.random.key(2))
    differences = np.asarray(jax.jit(lambda x: p.log_prob(x) - q.log_prob(x))(draws))
    error = differences.std(0) / np.sqrt(len(differences))
    kl_divergence = jax.jit(dist.kl_divergence)
    divergence = kl_divergence(p, q)
    assert divergence.shape == np.broadcast_shapes(p.batch_shape, q.batch_shape)
    np.testing.assert_array_less(np.abs(divergence - differences.mean(0)), 5 * error + 1e-12)
    np.testing.assert_allclose(kl_divergence(p, p), 0, atol=1e-12)


def bernoulli_divergence(p, q):
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def half_normal_divergence(a, b):
    return 0.5 * ((a / b) ** 2 - 1) - np.log(a / b)


def weibull_divergence(a, b, log_ratio=None):
    with mpmath.workdps(50):
        a, b = mpmath.mpf(a), mpmath.mpf(b)
        log_ratio = mpmath.log(a / b) if log_ratio is None else log_ratio
        power = mpmath.exp(b * log_ratio) * mpmath.gamma(1 + b / a)
        rest = mpmath.log(a / b) - b * log_ratio + mpmath.euler * (b / a - 1)
        return float(rest + power - 1)


def one_scale_divergence(a, b):
    return weibull_divergence(a, b, 0)


# Laws of one parameter, and the divergence between two as in textbooks.
NEAR = {
    "Normal": (
        lambda a: dist.Normal(a, a),
        lambda a, b: 0.5 * ((a / b) ** 2 + (1 - a / b) ** 2 - 1) - np.log(a / b),
    ),
    "HalfNormal": (dist.HalfNormal, lambda a, b: 0.5 * ((a / b) ** 2 - 1) - np.log(a / b)),
    "Exponential": (dist.Exponential, lambda a, b: b / a - 1 - np.log(b / a)),
    "Laplace": (
        lambda a: dist.Laplace(a, a),
        lambda a, b: (a * np.exp(-abs(1 - b / a)) + abs(a - b)) / b - 1 - np.log(a / b),
    ),
    "Cauchy": (
        lambda a: dist.Cauchy(a, a),
        lambda a, b: np.log(((a + b) ** 2 + (a - b) ** 2) / (4 * a * b)),
    ),
    "Weibull": (lambda a: dist.Weibull(concentration=a, scale=9 * a), weibull_divergence),
    "Weibull of one scale": (
        lambda a: dist.Weibull(concentration=8 * a, scale=1.0),
        one_scale_divergence,
    ),
    "Poisson": (dist.Poisson, lambda a, b: a * np.log(a / b) + b - a),
    "Bernoulli": (lambda a: dist.Bernoulli(probs=a), bernoulli_divergence),
    "Binomial": (lambda a: dist.Binomial(9, probs=a), lambda a, b: 9 * bernoulli_divergence(a, b)),
    "Categorical": (
        lambda a: dist.Categorical(probs=np.stack([0 * a, a, 1 - a])),
        bernoulli_divergence,
    ),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("step", [1e-3, 1e-2, 0.25, 1.5])
def test_divergences_of_near_laws(name, step):
    """Single precision is enough, where terms much larger than the divergence would cancel."""
    make, textbook = NEAR[name]
    a, b = np.float32(0.25), np.float32(0.25 * (1 + step))
    expected = textbook(np.float64(a), np.float64(b))
    found = dist.kl_divergence(make(a), make(b))
    np.testing.assert_allclose(found, expected, 3e-7 / step + 1e-6)


def test_a_divergence_of_normal_vectors_takes_two_precisions(x64):
    wide = dist.MultivariateNormal(jnp.zeros(3), scale_tril=2 * jnp.eye(3))
    single = dist.MultivariateNormal(
        jnp.zeros(3, jnp.float32), scale_tril=jnp.eye(3, dtype=jnp.float32)
    )
    with jax.numpy_dtype_promotion("standard"):
        found = dist.kl_divergence(single, wide), dist.kl_divergence(wide, single)
    exact = 3 * (1 / 8 - 0.5 + np.log(2)), 3 * (1.5 - np.log(2))
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_a_divergence_without_closed_form_says_so():
    with pytest.raises(ValueError, match=r"different shapes, \(\) and \(2,\)"):
        dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Dirichlet(jnp.ones(2)))
    with pytest.raises(NotImplementedError, match="Cauchy and Normal; estimate it by"):
        dist.kl_divergence(dist.Cauchy(0.0, 1.0), dist.Normal(0.0, 1.0))


def test_a_divergence_is_not_that_of_another_family_of_the_name():
    other = type("Normal", (dist.Gumbel,), {})
    with pytest.raises(NotImplementedError, match="Normal and Normal; estimate it by"):
        dist.kl_divergence(other(0.0, 1.0), dist.Normal(0.0, 1.0))


def test_what_a_family_lacks_is_said():
    with pytest.raises(NotImplementedError, match=r"Dirichlet has draws of shape \(2,\).*no cdf"):
        dist.Dirichlet(jnp.ones(2)).cdf(jnp.ones(2))
