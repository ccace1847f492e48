"""Densities of TFP's distributions in double precision, however their parameters are given."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import distributions.combinators.tfp_precision
import ppl
import ppl.common.tfp_precision
from distributions.combinators.tfp import as_distribution
from distributions.combinators.tfp_precision import in_default_precision

tfd, tfb, tfl = tfp.distributions, tfp.bijectors, tfp.tf2jax.linalg
KEY = jax.random.key(0)

pytestmark = pytest.mark.usefixtures("x64")

# The name in TFP, its arguments, a value, and a reference.
CASES = {
    "Bates": ((3, 0.3, 1.7), 0.7, dist.Bates(3, 0.3, 1.7)),
    "Beta": ((2.3, 1.7), 0.7, st.beta(2.3, 1.7)),
    "Cauchy": ((0.3, 1.7), 0.7, st.cauchy(0.3, 1.7)),
    "Chi": ((2.3,), 0.7, st.chi(2.3)),
    "Chi2": ((2.3,), 0.7, st.chi2(2.3)),
    "Dirichlet": (([2.3, 1.7, 0.9],), [0.2, 0.3, 0.5], dist.Dirichlet([2.3, 1.7, 0.9])),
    "Exponential": ((1.7,), 0.7, st.expon(scale=1 / 1.7)),
    "ExponentiallyModifiedGaussian": ((0.3, 1.7, 1.2), 0.7, st.exponnorm(1 / 2.04, 0.3, 1.7)),
    "Gamma": ((2.3, 1.7), 0.7, st.gamma(2.3, scale=1 / 1.7)),
    "GeneralizedExtremeValue": ((0.3, 1.7, 0.2), 0.7, st.genextreme(-0.2, 0.3, 1.7)),
    "GeneralizedNormal": ((0.3, 1.7, 1.3), 0.7, st.gennorm(1.3, 0.3, 1.7)),
    "GeneralizedPareto": ((0.3, 1.7, 0.2), 0.7, st.genpareto(0.2, 0.3, 1.7)),
    "Gumbel": ((0.3, 1.7), 0.7, st.gumbel_r(0.3, 1.7)),
    "HalfCauchy": ((0.0, 1.7), 0.7, st.halfcauchy(0.0, 1.7)),
    "HalfNormal": ((1.7,), 0.7, st.halfnorm(0.0, 1.7)),
    "InverseGamma": ((2.3, 1.7), 0.7, st.invgamma(2.3, scale=1.7)),
    "InverseGaussian": ((2.3, 1.7), 0.7, st.invgauss(2.3 / 1.7, scale=1.7)),
    "JohnsonSU": ((0.2, 1.3, 0.3, 1.7), 0.7, st.johnsonsu(0.2, 1.3, 0.3, 1.7)),
    "Kumaraswamy": ((2.3, 1.7), 0.7, dist.Kumaraswamy(2.3, 1.7)),
    "Laplace": ((0.3, 1.7), 0.7, st.laplace(0.3, 1.7)),
    "Logistic": ((0.3, 1.7), 0.7, st.logistic(0.3, 1.7)),
    "LogNormal": ((0.3, 1.7), 0.7, st.lognorm(1.7, scale=np.exp(0.3))),
    "Moyal": ((0.3, 1.7), 0.7, st.moyal(0.3, 1.7)),
    "Normal": ((0.3, 1.7), 0.7, st.norm(0.3, 1.7)),
    "Pareto": ((2.3, 1.7), 2.7, st.pareto(2.3, scale=1.7)),
    "StudentT": ((4.3, 0.3, 1.7), 0.7, st.t(4.3, 0.3, 1.7)),
    "Triangular": ((0.1, 3.0, 1.3), 0.7, st.triang(1.2 / 2.9, 0.1, 2.9)),
    "TruncatedNormal": ((0.3, 1.7, -1.1, 2.0), 0.7, st.truncnorm(-1.4 / 1.7, 1.0, 0.3, 1.7)),
    "Uniform": ((0.3, 1.7), 0.7, st.uniform(0.3, 1.4)),
    "VonMises": ((0.3, 1.7), 0.7, st.vonmises(1.7, 0.3)),
    "Weibull": ((2.3, 1.7), 0.7, st.weibull_min(2.3, scale=1.7)),
    "Bernoulli": ((None, 0.3), 1, st.bernoulli(0.3)),
    "BetaBinomial": ((7.0, 2.3, 1.7), 3, st.betabinom(7, 2.3, 1.7)),
    "Binomial": ((7.0, None, 0.3), 3, st.binom(7, 0.3)),
    "Categorical": ((None, [0.3, 0.7]), 1, st.bernoulli(0.7)),
    "Geometric": ((None, 0.3), 3, st.geom(0.3, loc=-1)),
    "NegativeBinomial": ((5.3, None, 0.3), 3, st.nbinom(5.3, 0.7)),
    "Poisson": ((2.3,), 3, st.poisson(2.3)),
    "Skellam": ((2.3, 1.7), 1, st.skellam(2.3, 1.7)),
    "Zipf": ((2.3,), 3, dist.Zipf(2.3)),
}
LOC, SCALES, TRIL = [0.3, -0.7], [1.7, 0.4], [[1.7, 0.0], [0.3, 0.4]]
COVARIANCE = [[2.89, 0.51], [0.51, 0.25]]
# Inside of the images of TFP's default bijectors: entries of directions are positive, and those on
# the diagonal of a matrix's factor above log(2).
DIRECTION, MATRIX = [0.48, 0.64, 0.6], [[2.89, 0.51], [0.51, 0.9]]
PROBS, COUNTS, UNIT = [0.2, 0.3, 0.5], [1.0, 0.0, 2.0], [0.6, 0.0, 0.8]
CASES |= {
    "DirichletMultinomial": (
        (3.0, [2.3, 1.7, 0.9]),
        COUNTS,
        dist.DirichletMultinomial(total_count=3, concentration=[2.3, 1.7, 0.9]),
    ),
    "LKJ": ((2, 1.7), [[1.0, 0.3], [0.3, 1.0]], dist.LKJ(2, 1.7)),
    "CholeskyLKJ": ((2, 1.7), [[1.0, 0.0], [0.6, 0.8]], dist.LKJCholesky(2, 1.7)),
    "Multinomial": ((3.0, None, PROBS), COUNTS, dist.Multinomial(3, probs=PROBS)),
    "MultivariateNormalDiag": (
        (LOC, SCALES),
        [0.7, 0.1],
        st.multivariate_normal(LOC, np.diag(SCALES) ** 2),
    ),
    "MultivariateNormalDiagPlusLowRankCovariance": (
        (LOC, [0.7, 0.2], [[0.3], [0.4]]),
        [0.7, 0.1],
        st.multivariate_normal(LOC, [[0.79, 0.12], [0.12, 0.36]]),
    ),
    "MultivariateNormalFullCovariance": (
        (LOC, COVARIANCE),
        [0.7, 0.1],
        st.multivariate_normal(LOC, COVARIANCE),
    ),
    "MultivariateNormalLinearOperator": (
        (LOC, tfl.LinearOperatorLowerTriangular, TRIL),
        [0.7, 0.1],
        st.multivariate_normal(LOC, COVARIANCE),
    ),
    "MultivariateNormalTriL": ((LOC, TRIL), [0.7, 0.1], st.multivariate_normal(LOC, COVARIANCE)),
    "MultivariateStudentTLinearOperator": (
        (4.3, LOC, tfl.LinearOperatorLowerTriangular, TRIL),
        [0.7, 0.1],
        st.multivariate_t(LOC, COVARIANCE, 4.3),
    ),
    "OneHotCategorical": ((None, PROBS), [0.0, 1.0, 0.0], dist.OneHotCategorical(probs=PROBS)),
    "PlackettLuce": (([2.3, 1.7, 0.9],), [2, 0, 1], dist.PlackettLuce([2.3, 1.7, 0.9])),
    "PowerSpherical": ((UNIT, 1.7), DIRECTION, dist.PowerSpherical(UNIT, 1.7)),
    "RelaxedOneHotCategorical": (
        (0.7, None, PROBS),
        PROBS,
        dist.RelaxedOneHotCategorical(0.7, probs=PROBS),
    ),
    "VonMisesFisher": ((UNIT, 1.7), DIRECTION, dist.VonMisesFisher(UNIT, 1.7)),
    "WishartTriL": ((4.3, TRIL), MATRIX, st.wishart(4.3, COVARIANCE)),
    "WishartLinearOperator": (
        (4.3, tfl.LinearOperatorLowerTriangular, TRIL),
        MATRIX,
        st.wishart(4.3, COVARIANCE),
    ),
}
FORMS = {
    "python": lambda x: x,
    "numpy": lambda x: np.asarray(x, np.float64),
    "jax": lambda x: jnp.asarray(x, np.float64),
}


def reference(d, value):
    if isinstance(d, dist.Distribution):
        return d.log_prob(value)
    return d.logpmf(value) if isinstance(value, int) else d.logpdf(value)


def built(name, form):
    """The distribution of a case; a class of linear operators takes the argument after it."""
    given = []
    for x in CASES[name][0]:
        formed = x if x is None or isinstance(x, int | type) else form(x)
        given.append(given.pop()(formed) if given and isinstance(given[-1], type) else formed)
    return getattr(tfd, name)(*given)


@pytest.mark.parametrize(
    "form",
    [pytest.param(FORMS[x], id=x, marks=[pytest.mark.slow] * (x != "python")) for x in FORMS],
)
@pytest.mark.parametrize("name", CASES)
def test_every_family_of_tfp_is_precise(name, form):
    _, value, expected = CASES[name]
    d = as_distribution("", "", built(name, form))
    found = d.log_prob(jnp.asarray(value))
    np.testing.assert_allclose(found, reference(expected, value), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("name", ["Normal", "Gamma", "Bernoulli"])
def test_a_site_of_tfp_is_precise(name, form):
    _, value, expected = CASES[name]
    density = ppl.log_density(lambda key: ppl.sample(key, built(name, form), name="x"))
    found = density({"x": jnp.int32(value) if name == "Bernoulli" else value})
    np.testing.assert_allclose(found, reference(expected, value), rtol=1e-12)


NESTED = {
    "batch": lambda: tfd.Normal([0.3, 0.3], 1.7),
    "integers": lambda: tfd.Normal(0, 1),
    "independent": lambda: tfd.Independent(tfd.Normal([0.3], 1.7), 1),
    "sample": lambda: tfd.Sample(tfd.Normal(0.3, 1.7), 2),
    "transformed": lambda: tfd.TransformedDistribution(tfd.Normal(0.3, 1.7), tfb.Scale(0.3)),
    "mixture": lambda: tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.3, 0.7]), tfd.Normal([0.3, 0.1], 1.7)
    ),
}


@pytest.mark.slow_rows("mixture")
@pytest.mark.parametrize("make", NESTED.values(), ids=NESTED)
def test_nested_distributions_of_tfp_are_double(make):
    narrow, d = make(), in_default_precision(make())
    assert d.dtype == np.float64
    value = jnp.full(d.event_shape, 0.7)
    np.testing.assert_allclose(d.log_prob(value), narrow.log_prob(np.float32(value)), rtol=1e-6)
    assert d.sample(seed=KEY).dtype == np.float64


def test_draws_of_a_site_of_tfp_are_double():
    draw = ppl.simulate(lambda key: ppl.sample(key, built("InverseGaussian", float), name="x"))
    assert draw(KEY)["x"].dtype == np.float64


def test_explicit_single_precision_stays():
    d = tfd.Normal(0.3, np.float32(1.7))
    assert as_distribution("", "", d).dtype == np.float32


def test_both_packages_have_one_rule():
    sources = map(
        inspect.getsource, (ppl.common.tfp_precision, distributions.combinators.tfp_precision)
    )
    assert len(set(sources)) == 1
