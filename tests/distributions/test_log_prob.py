"""Log densities: equal to scipy's, -inf outside of the support, the same under transformations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from tests.distributions.cases import CASES, Case, log_probs, over

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
every_case = over(CASES)
bounded_case = over([case for case in CASES if case.outside])


@jax.jit
def score(d, value):
    return d.log_prob(value)


@jax.jit
def score_and_gradients(d, value):
    total = lambda d, value: d.log_prob(value).sum()  # noqa: E731
    return d.log_prob(value), jax.grad(total, (0, 1), allow_int=True)(d, value)


def floats(tree):
    return [x for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_log_prob_is_scipys(case: Case, x64):
    """Of every family in the quick suite, too."""
    values = case.values(float)
    expected = log_probs(case.truth(float), np.asarray(values))
    np.testing.assert_allclose(score(case.build(float), values), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
@every_case
def test_log_prob_in_both_precisions_and_a_finite_gradient(case: Case, float_dtype):
    values = case.values(float_dtype)
    expected = log_probs(case.truth(float_dtype), np.asarray(values))
    log_prob, gradients = score_and_gradients(case.build(float_dtype), values)
    assert log_prob.dtype == float_dtype
    tolerance = 1e-10 if float_dtype == np.float64 else case.tolerance32
    np.testing.assert_allclose(log_prob, expected, rtol=tolerance, atol=tolerance)
    assert all(np.isfinite(g).all() for g in floats(gradients))


@pytest.mark.slow_rows(
    "Beta",
    "TruncatedNormal",
    "Binomial, logits",
    "NegativeBinomial, logits",
    "ZeroInflated, probs",
    "Dirichlet",
    "LKJCholesky",
    "Truncated, Normal",
)
@every_case
def test_gradient_is_the_limit_of_differences(case: Case, x64):
    """Along the direction that moves the value and each parameter, zeros and infinities apart."""
    at = case.build(float), case.values(float)
    leaves, treedef = jax.tree.flatten(at)
    ways = [(np.asarray(x) != 0) & np.isfinite(x) & (np.asarray(x).dtype == float) for x in leaves]

    def total(step):
        moved = [
            np.where(way, x + step, x) if way.any() else x
            for x, way in zip(leaves, ways, strict=True)
        ]
        return score(*jax.tree.unflatten(treedef, moved)).sum()

    gradients = jax.tree.leaves(score_and_gradients(*at)[1])
    slope = sum(
        np.asarray(g)[way].sum() for g, way in zip(gradients, ways, strict=True) if way.any()
    )
    np.testing.assert_allclose(slope, (total(1e-6) - total(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.slow_rows(
    "OrderedLogistic",
    "Binomial, logits",
    "Poisson, rate",
    "NegativeBinomial, logits",
    "Dirichlet",
    "LKJCholesky",
)
@bounded_case
def test_outside_of_the_support(case: Case):
    d = case.build()
    for event in case.outside:
        value = jnp.broadcast_to(jnp.asarray(event, np.float32), case.inside.shape)
        log_prob, gradients = score_and_gradients(d, value)
        assert (log_prob == -np.inf).all(), event
        assert all((g == 0).all() for g in floats(gradients)), event
        assert not d.support.check(value).any(), event


@pytest.mark.slow_rows("TruncatedNormal", "Dirichlet", "LKJCholesky", "Truncated, Normal")
@every_case
def test_nan_has_no_finite_density(case: Case):
    d = case.build()
    log_prob, _ = score_and_gradients(d, jnp.full(case.inside.shape, jnp.nan, np.float32))
    assert (np.isnan(log_prob) if d.support.is_unrestricted else log_prob == -np.inf).all()


@pytest.mark.slow_rows(
    "Gamma",
    "InverseGamma",
    "Beta",
    "TruncatedNormal",
    "Binomial, logits",
    "NegativeBinomial, logits",
    "ZeroInflated, probs",
    "Dirichlet",
    "LKJCholesky",
    "Truncated, Normal",
)
@every_case
def test_eager_is_jitted(case: Case, x64):
    d, values = case.build(float), case.values(float)
    np.testing.assert_allclose(d.log_prob(values), score(d, values), rtol=1e-12, atol=1e-12)


@pytest.mark.slow_rows(
    "Normal",
    "TruncatedNormal",
    "Categorical, logits",
    "OrderedLogistic",
    "Binomial, logits",
    "NegativeBinomial, logits",
    "Dirichlet",
    "MultivariateNormal, covariance",
    "Truncated, Normal",
)
@every_case
def test_vmap_over_leaves_is_the_batch(case: Case, x64):
    """Leaves taken apart, mapped and put together inside `vmap`, as a mapped site does it."""
    d, values = case.build(float), case.values(float)
    leaves, treedef = jax.tree.flatten(d)
    if not leaves:
        pytest.skip("no parameters")
    factors = np.array([1.0, 0.75, 0.5])
    many = [jnp.stack([scaled(leaf, f) for f in factors]) for leaf in leaves]

    def one(*leaves):
        inner = jax.tree.unflatten(treedef, leaves)
        assert (inner.batch_shape, inner.event_shape) == (d.batch_shape, d.event_shape)
        assert inner.dtype == d.dtype
        return inner.log_prob(values)

    mapped = jax.jit(jax.vmap(one))(*many)
    for i in range(len(factors)):
        alone = score(jax.tree.unflatten(treedef, [leaf[i] for leaf in many]), values)
        np.testing.assert_allclose(mapped[i], alone, rtol=1e-12, atol=1e-12)


def scaled(leaf, factor):
    return leaf if jnp.issubdtype(jnp.result_type(leaf), jnp.integer) else leaf * factor


def test_values_broadcast_with_the_batch():
    d = dist.Normal(jnp.zeros((3, 1)), jnp.ones(4))
    assert d.batch_shape == (3, 4)
    assert d.log_prob(0.0).shape == (3, 4)
    assert d.log_prob(jnp.zeros((5, 1, 4))).shape == (5, 3, 4)
    categories = dist.Categorical(probs=jnp.full((2, 4), 0.25))
    assert (categories.cdf(1) == 0.5).all()
    assert categories.log_prob(1).shape == (2,)
    e = dist.Dirichlet(jnp.ones((2, 3)))
    assert e.log_prob(jnp.full(3, 1 / 3)).shape == (2,)
    assert e.log_prob(jnp.full((5, 1, 3), 1 / 3)).shape == (5, 2)


MISFITS = [
    (
        lambda: dist.Normal(0.0, jnp.ones(3)),
        (4,),
        r"Normal: a value of shape \(4,\) does not .*\(3,\)",
    ),
    (lambda: dist.Dirichlet(jnp.ones(3)), (4,), r"Dirichlet: .*\(4,\).*event_shape \(3,\)"),
    (lambda: dist.Dirichlet(jnp.ones(3)), (1,), r"Dirichlet: .*\(1,\).*event_shape \(3,\)"),
    (lambda: dist.Dirichlet(jnp.ones(3)), (), r"Dirichlet: .*\(\).*event_shape \(3,\)"),
    (
        lambda: dist.Flat(dist.constraints.simplex, (2, 3)),
        (3, 3),
        r"Flat: .*\(3, 3\).*batch_shape \(2,\)",
    ),
]


@pytest.mark.parametrize(("make", "shape", "message"), MISFITS)
def test_a_value_that_does_not_fit(make, shape, message):
    with pytest.raises(ValueError, match=message):
        make().log_prob(jnp.zeros(shape))


def test_far_tails_of_a_truncated_normal():
    """Against mpmath: at the lower end, 40 scales away; and on an interval of one ulp."""
    d = dist.TruncatedNormal(0.0, 1.0, 40.0, jnp.inf)
    np.testing.assert_allclose(d.log_prob(40.0), 3.68950348, rtol=1e-6)
    np.testing.assert_allclose(d.log_prob(40.5), 3.68950348 - (40.5**2 - 40**2) / 2, rtol=1e-6)
    narrow = dist.TruncatedNormal(0.0, 1.0, 1.0, jnp.nextafter(jnp.float32(1), jnp.float32(2)))
    np.testing.assert_allclose(narrow.log_prob(1.0), 23 * np.log(2), rtol=1e-6)


def test_rice_without_a_mean_is_rayleigh(x64):
    values = np.array([1e-3, 1.0, 50.0])
    log_prob, slope = jax.vmap(
        jax.value_and_grad(lambda nu, x: dist.Rice(nu, 2.0).log_prob(x)), (None, 0)
    )(0.0, values)
    np.testing.assert_allclose(log_prob, dist.Rayleigh(2.0).log_prob(values), rtol=1e-12)
    np.testing.assert_allclose(slope, 0, atol=1e-12)


@pytest.mark.parametrize("name", ["Uniform", "DiscreteUniform"])
def test_nothing_is_traced_in_vain_of_a_flat_density(name):
    """Such as a point of the support for the formula, which does not look at it."""
    make, parameter = getattr(dist, name), np.array([3, 4])
    parameter = parameter if name == "DiscreteUniform" else parameter.astype(np.float32)
    jaxpr = jax.make_jaxpr(lambda high, x: make(low=0, high=high).log_prob(x))(parameter, parameter)
    used = [*jaxpr.jaxpr.outvars, *(v for eqn in jaxpr.eqns for v in eqn.invars)]
    assert all(any(v is u for u in used) for eqn in jaxpr.eqns for v in eqn.outvars)


def _marginal(scale, y):
    log_probs = [dist.HalfNormal(scale).log_prob(y), dist.Exponential(scale).log_prob(y)]
    return jnp.where(y > 0, jnp.logaddexp(*log_probs), 0.0).sum()


def _squared(scale, y):
    return jnp.where(y > 0, dist.HalfNormal(scale).log_prob(y) ** 2, 0.0).sum()


@pytest.mark.quick_rows("_squared")
@pytest.mark.parametrize("density", [_marginal, _squared])
def test_padding_out_of_the_support_has_no_part_in_derivatives(density, x64):
    """Where what follows has no derivative at -inf, as a sum of densities by their logarithms."""
    y, padded = jnp.array([0.7, 1.2]), jnp.array([0.7, 1.2, -1.0])
    for f in (density, jax.grad(density), jax.hessian(density)):
        np.testing.assert_allclose(f(1.5, padded), f(1.5, y), rtol=1e-12)


def test_an_empty_support_that_is_traced_has_no_density():
    """As of a bound that is a parameter: no NaN, which would spoil what other points give."""
    f = lambda high: dist.Uniform(0.0, high).log_prob(jnp.array([0.5, 0.2])).sum()  # noqa: E731
    assert jax.jit(f)(-1.0) == -np.inf
    np.testing.assert_allclose(jax.nn.logsumexp(jax.vmap(f)(jnp.array([-1.0, 1.0]))), 0.0)


def test_a_poisson_rate_that_overflows_has_finite_derivatives():
    """Of counts that it makes impossible, and of what is no count."""
    density = lambda x, k: dist.Poisson(log_rate=x).log_prob(k)  # noqa: E731
    counts = jnp.array([3.0, 0.5, -1.0, jnp.nan], jnp.float32)
    values, slopes = jax.vmap(jax.value_and_grad(density), (None, 0))(jnp.float32(100), counts)
    assert (values == -jnp.inf).all()
    assert slopes[0] < -1e38
    np.testing.assert_array_equal(slopes[1:], 0)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize("logits", [0.0, 1e-4, -0.49, 0.51, 30.0])
def test_slope_of_a_continuous_bernoulli(x64, logits):
    """Also where it is uniform, at which the larger end changes."""
    score = lambda c: dist.ContinuousBernoulli(logits=c).log_prob(0.25)  # noqa: E731
    mean = dist.ContinuousBernoulli(logits=logits).mean()
    np.testing.assert_allclose(jax.grad(score)(logits), 0.25 - mean, rtol=1e-9)


def test_slopes_of_a_sum_where_its_formulas_meet(x64):
    """At `z = rate scale`, where neither part is the lower one, as beside it."""
    score = lambda x: dist.ExponentiallyModifiedGaussian(0.5, 0.5, 2.0).log_prob(x)  # noqa: E731
    slopes = [jax.grad(score)(jnp.asarray(x)) for x in (1 - 1e-9, 1.0, 1 + 1e-9)]
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-7)


HALF = {
    "DiscreteWeibull": (lambda t: dist.DiscreteWeibull(t(0.5), t(0.75)), 1),
    "GeneralizedPareto": (lambda t: dist.GeneralizedPareto(t(0.0), t(1.0), t(0.125)), 0.5),
    "Lomax": (lambda t: dist.Lomax(t(1.0), t(2.0)), 0.5),
    "SinhArcsinh": (lambda t: dist.SinhArcsinh(t(0.0), t(1.0), t(0.25), t(1.0)), 0.5),
    "Wiener": (lambda t: dist.Wiener(t(1.0), t(0.125), t(0.5), t(0.25)), 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HALF)
def test_half_precision(name):
    """Bounds of formulas are numbers of the type, and no warning tells of one that is not."""
    make, value = HALF[name]
    value = value if isinstance(value, int) else jnp.float16(value)
    found = make(jnp.float16).log_prob(value)
    assert found.dtype == jnp.float16
    np.testing.assert_allclose(found, make(jnp.float32).log_prob(value), rtol=5e-3, atol=5e-3)
