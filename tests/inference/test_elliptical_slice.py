"""Elliptical slice sampling: exact posteriors, priors found in models, what is refused."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import random

import distributions as dist
import ppl
from inference import (
    CountSlice,
    EllipticalSlice,
    Gibbs,
    MeanField,
    ParallelTempering,
    Slice,
    mcmc,
    mcse_mean,
)
from inference.drivers.normal_prior import with_prior_of
from inference.kernels.gibbs import sweep
from inference.kernels.gibbs.gibbs_target import GibbsTarget
from inference.models.transported_target import TransportedTarget
from inference.runtime.compiled_program import compile_program

FAILURE_RATE = 1e-5  # of one test, by chance
MEAN = jnp.array([1.5, -2.0])
COVARIANCE = jnp.array([[1.0, 0.9], [0.9, 2.0]])
DATA = jnp.array([0.3, 0.1])
NOISE = 0.5


def normal_likelihood(x):
    return -0.5 * jnp.sum((x - DATA) ** 2) / NOISE**2


@pytest.mark.slow
def test_forms_of_the_prior_give_the_same_chain(float_dtype):
    position = {"a": jnp.zeros((), float_dtype), "b": jnp.zeros(1, float_dtype)}

    def likelihood(x):
        return jnp.sum(jnp.sin(3 * x["a"]) * x["b"])

    step = jax.jit(lambda kernel, key, state: kernel.step(key, state))
    factor = np.linalg.cholesky(np.asarray(COVARIANCE))
    found = []
    for prior in ({"covariance": COVARIANCE}, {"factor": factor}):
        kernel = EllipticalSlice(likelihood, mean=MEAN, **prior)
        state = kernel.init(position)
        expected = st.multivariate_normal(MEAN, COVARIANCE).logpdf([0.0, 0.0])
        np.testing.assert_allclose(state.log_density, expected, rtol=1e-5)
        for i in range(3):
            state, info = step(kernel, random.PRNGKey(i), state)
        assert state.position["b"].dtype == float_dtype
        assert info.num_evaluations >= 1
        found.append(state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), *found)
    typed, _ = step(kernel, random.wrap_key_data(random.PRNGKey(0)), kernel.init(position))
    legacy, _ = step(kernel, random.PRNGKey(0), kernel.init(position))
    jax.tree.map(np.testing.assert_array_equal, typed, legacy)


@pytest.mark.slow
def test_refresh_mends_a_stale_likelihood_and_prior():
    old = EllipticalSlice(normal_likelihood, factor=jnp.ones(2))
    new = EllipticalSlice(lambda x: 2 * normal_likelihood(x), mean=MEAN, covariance=COVARIANCE)
    state = old.init(jnp.array([0.7, -0.2]))
    found = new.refresh(state)
    np.testing.assert_array_equal(found.position, state.position)
    np.testing.assert_allclose(found.log_likelihood, 2 * state.log_likelihood, rtol=1e-6)
    prior = st.multivariate_normal(MEAN, COVARIANCE).logpdf(state.position)
    np.testing.assert_allclose(found.log_density, found.log_likelihood + prior, rtol=1e-5)


TIMES = np.linspace(0, 1, 8)
SMOOTH = np.exp(-0.5 * (TIMES[:, None] - TIMES) ** 2 / 0.5**2) + 1e-5 * np.eye(8)


def process(key, offset):
    """A smooth process about a random level, in a scope."""

    def latent(key):
        level = ppl.sample(key, dist.Normal(offset, 0.5), name="level")
        curve = dist.MultivariateNormal(
            level * jnp.ones(8), covariance=jnp.asarray(SMOOTH, offset.dtype)
        )
        return ppl.sample(key, curve, name="curve")

    curve = ppl.nest(latent, scope="prior")(key)
    return ppl.sample(key, dist.Poisson(jnp.exp(curve)), name="counts")


COUNTS = jnp.array([3, 4, 2, 5, 9, 6, 9, 8])
COUNTED = ppl.condition(process, {"counts": COUNTS})


@pytest.mark.quick_rows("float32")
def test_the_prior_of_a_model_is_found(float_dtype):
    target = ppl.unconstrain(COUNTED, jnp.asarray(2.0, float_dtype))
    kernel = with_prior_of(EllipticalSlice(), target)
    expected = np.full((9, 9), 0.25)
    expected[:8, :8] += SMOOTH
    # The prior of a smooth process is nearly singular in float32: processors round otherwise. A
    # transition leaves the posterior invariant with any normal distribution near the prior.
    tolerance = 1e-2 if float_dtype == jnp.float32 else 1e-5
    np.testing.assert_allclose(kernel.mean, np.full(9, 2.0), atol=tolerance)
    factor = np.asarray(kernel.factor, np.float64)
    np.testing.assert_allclose(np.triu(factor, 1), 0)
    white = np.linalg.solve(np.linalg.cholesky(expected), factor)
    np.testing.assert_allclose(white @ white.T, np.eye(9), atol=tolerance)
    position = jax.tree.map(lambda x: jnp.full(x.shape, 1.7, x.dtype), target.position_shapes)
    state = kernel.init(position)
    np.testing.assert_allclose(state.log_density, target.log_density(position), rtol=1e-3)


def scaled(key):
    """Independent sites, one of them counted twice."""
    a = ppl.sample(key, dist.Normal(jnp.array([1.0, -1.0]), 0.5), name="a")
    b = ppl.scale(lambda key: ppl.sample(key, dist.Normal(3.0, 2.0), name="b"), 2.0)(key)
    ppl.factor(-jnp.exp(b) - jnp.sum(a**4), name="weight")


def test_independent_sites_have_standard_deviations(x64):
    target = ppl.unconstrain(scaled)
    kernel = with_prior_of(EllipticalSlice(), target)
    np.testing.assert_allclose(kernel.mean, [1.0, -1.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(kernel.factor, [0.5, 0.5, np.sqrt(2)], rtol=1e-6)
    position = {"a": jnp.array([0.3, 0.1]), "b": jnp.array(0.2)}
    expected = target.log_density(position)
    np.testing.assert_allclose(kernel.init(position).log_density, expected, rtol=1e-6)


def counted(key):
    mu = ppl.sample(key, dist.Normal(1.0, 1.0), name="mu")
    x = ppl.sample(key, dist.Normal(mu, 0.5), name="x")
    ppl.sample(key, dist.Poisson(jnp.exp(x)), name="y")


POSTERIOR = ppl.condition(counted, {"y": 9})


def test_draws_agree_with_quadrature():
    result = mcmc(
        random.key(0), POSTERIOR, kernel=EllipticalSlice(), num_warmup=100, num_draws=4000
    )
    mu, x = np.meshgrid(np.linspace(-4, 6, 801), np.linspace(-3, 5, 801), indexing="ij")
    log_weights = st.norm(1, 1).logpdf(mu) + st.norm(mu, 0.5).logpdf(x) + 9 * x - np.exp(x)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    draws = {name: np.asarray(z, np.float64) for name, z in result.draws.items()}
    for numbers, exact in (
        (draws["x"], x),
        (draws["mu"], mu),
        (draws["x"] ** 2, x**2),
        (draws["x"] * draws["mu"], x * mu),
    ):
        assert abs(numbers.mean() - np.sum(weights * exact)) < 4.3 * mcse_mean(numbers)
        assert mcse_mean(numbers) < 0.1
    assert 1 < result.stats["num_evaluations"].mean() < 6


def skewed(key):
    ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.sample(key, dist.Gamma(2.0, 1.0), name="g")


def funnel(key):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.sample(key, dist.Normal(0.0, jnp.exp(a)), name="b")


def product(key):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
    ppl.sample(key, dist.Normal(a * b, 1.0), name="c")


def flat(key):
    ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.sample(key, dist.Flat(dist.constraints.real), name="b")


def translated(key):
    a = ppl.sample(key, dist.Flat(dist.constraints.real), name="a")
    ppl.sample(key, dist.Normal(a, 1.0), name="b")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (skewed, "site 'g' is not normal a priori: its log density on unconstrained space"),
        (funnel, "site 'b' is not normal a priori jointly with 'a': its log density"),
        (product, "site 'c' is not normal a priori jointly with 'a', 'b': its log density"),
        (flat, "site 'b' has an improper prior, from which nothing can be drawn"),
        (translated, "the prior is improper, or so nearly that its covariance does not fit"),
    ],
)
def test_priors_that_are_not_normal_are_named(model, words):
    with pytest.raises(ValueError, match=re.escape(f"EllipticalSlice: {words}")):
        mcmc(random.key(0), model, kernel=EllipticalSlice(), num_warmup=2, num_draws=2)


def test_a_prior_beside_that_of_the_model_is_refused():
    with pytest.raises(ValueError, match=r"kernel has mean of its own, but mcmc takes prior"):
        mcmc(random.key(0), POSTERIOR, kernel=EllipticalSlice(mean=MEAN))


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({}, ValueError, "needs the covariance of the normal prior or its factor, one of the two"),
        ({"covariance": COVARIANCE, "factor": jnp.ones(2)}, ValueError, "one of the two"),
        ({"covariance": -COVARIANCE}, ValueError, "covariance must be finite and positive"),
        ({"factor": jnp.ones(3)}, ValueError, "factor has shape (3,); the position has 2"),
        ({"factor": COVARIANCE}, ValueError, "factor must be finite and lower triangular"),
        ({"factor": "wide"}, TypeError, "factor must hold real numbers, got 'wide'"),
        ({"factor": jnp.ones(2), "mean": jnp.ones(3)}, ValueError, "mean has shape (3,)"),
        ({"factor": jnp.ones(2), "mean": [0.0, jnp.inf]}, ValueError, "mean must be finite"),
        ({"factor": jnp.ones(2), "mean": "no"}, TypeError, "mean must hold real numbers"),
    ],
)
def test_bad_settings_are_named(settings, error, words):
    with pytest.raises(error, match=re.escape(words)):
        EllipticalSlice(normal_likelihood, **settings).init(jnp.zeros(2))


def test_transport_is_refused():
    target = TransportedTarget(ppl.unconstrain(POSTERIOR), MeanField(), {})
    with pytest.raises(TypeError, match="transport=True moves chains in coordinates in which"):
        with_prior_of(EllipticalSlice(), target)


HOURS = np.array([0.0, 0.4, 1.0])
SEEN = np.array([1.4, 0.3, -0.6])


def curve(key):
    """A process whose mean and covariance depend on other sites."""
    level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
    length = ppl.sample(key, dist.LogNormal(-0.5, 0.7), name="length")
    smooth = jnp.exp(-jnp.abs(HOURS[:, None] - HOURS) / length)
    f = ppl.sample(key, dist.MultivariateNormal(level * jnp.ones(3), covariance=smooth), name="f")
    ppl.sample(key, dist.Normal(f, 0.5), name="y")


CURVE = ppl.condition(curve, {"y": jnp.asarray(SEEN, jnp.float32)})


def curve_means():
    """Posterior means of the log length, the level and the process, by quadrature over two."""
    axes = np.linspace(-5, 4, 91), np.linspace(-5, 5, 101)
    log_length, level = np.meshgrid(*axes, indexing="ij")
    smooth = np.exp(-np.abs(HOURS[:, None] - HOURS) / np.exp(log_length)[..., None, None])
    total = smooth + 0.25 * np.eye(3)
    solved = np.linalg.solve(total, (SEEN - level[..., None])[..., None])[..., 0]
    log_weights = st.norm.logpdf(log_length, -0.5, 0.7) + st.norm.logpdf(level)
    log_weights -= 0.5 * np.sum((SEEN - level[..., None]) * solved, -1)
    log_weights -= 0.5 * np.linalg.slogdet(total)[1]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    means = level[..., None] + (smooth @ solved[..., None])[..., 0]
    return [*(np.sum(weights * x) for x in (log_length, level)), *np.tensordot(weights, means)]


def curve_scores(kernel):
    """How many standard errors means are from the exact ones."""
    draws = mcmc(random.key(0), CURVE, kernel=kernel, num_warmup=200, num_draws=4000).draws
    f = np.moveaxis(np.asarray(draws["f"], np.float64), -1, 0)
    found = [np.log(draws["length"]), np.asarray(draws["level"], np.float64), *f]
    pairs = zip(found, curve_means(), strict=True)
    return [abs(x.mean() - exact) / mcse_mean(x) for x, exact in pairs]


def test_the_prior_of_a_block_is_that_given_all_others():
    target = GibbsTarget.of(CURVE, (), {}, Gibbs({"f": EllipticalSlice()}))
    points = np.array([[0.3, 2.0, -1.0], [1.0, 0.0, 0.5]], np.float32)

    @jax.jit
    def look(level, length):
        others: Any = {("level",): level, ("length",): length}
        space = sweep._Coordinates(target, (("f",),), others)
        kernel: Any = sweep._kernel_of(target.blocks[0], space, {"f": jnp.zeros(3)})
        values = [kernel.log_likelihood({"f": x}) for x in points]
        return kernel.mean, kernel.factor, values[1] - values[0]

    for level, length in ((0.5, 1.5), (-1.0, 0.4)):
        mean, factor, difference = look(level, length)
        smooth = np.exp(-np.abs(HOURS[:, None] - HOURS) / length)
        np.testing.assert_allclose(mean, np.full(3, level), rtol=1e-5)
        np.testing.assert_allclose(factor, np.linalg.cholesky(smooth), atol=1e-5)
        scores = st.norm.logpdf(SEEN, points, 0.5).sum(1)
        np.testing.assert_allclose(difference, scores[1] - scores[0], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(Gibbs({("level", "f"): EllipticalSlice()}, rest=Slice()), id="a block"),
        pytest.param(Gibbs({"f": EllipticalSlice()}), id="beside NUTS"),
        pytest.param(Gibbs({"length": Slice()}, rest=EllipticalSlice()), id="the rest"),
    ],
)
def test_the_prior_of_a_block_follows_other_blocks(kernel):
    assert max(curve_scores(kernel)) < 4.3


@pytest.mark.slow
def test_a_prior_that_does_not_follow_is_caught(monkeypatch):
    def stale(log_prior, log_density, position):
        return EllipticalSlice(lambda x: log_density(x) - log_prior(x), factor=jnp.ones(3))

    monkeypatch.setattr(sweep, "elliptical_kernel", stale)
    compile_program.cache_clear()
    found = curve_scores(Gibbs({"f": EllipticalSlice()}, rest=Slice()))
    compile_program.cache_clear()
    assert max(found) > 4.3


def several(key):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.sample(key, dist.Normal(0.0, jnp.exp(a)), name="b")
    ppl.sample(key, dist.Gamma(2.0, 1.0), name="c")
    ppl.sample(key, dist.Poisson(2.0), name="k")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: Gibbs({"c": EllipticalSlice(), "k": CountSlice()}),
            ValueError,
            "Gibbs: block 'c' by EllipticalSlice(): given all other sites, site 'c' is not normal",
        ),
        (
            lambda: Gibbs({("a", "b"): EllipticalSlice(), "k": CountSlice()}),
            ValueError,
            "site 'b' is not normal a priori jointly with 'a'",
        ),
        (
            lambda: Gibbs({("a", "k"): CountSlice()}, rest=EllipticalSlice()),
            ValueError,
            "has real and discrete sites",
        ),
        (
            lambda: Gibbs({"k": CountSlice(), "a": Slice()}, rest=EllipticalSlice()),
            ValueError,
            "site 'c' is not normal a priori",
        ),
        (
            lambda: Gibbs({"k": EllipticalSlice()}),
            ValueError,
            "'k' is discrete, and EllipticalSlice moves real numbers",
        ),
        (
            lambda: Gibbs({"a": EllipticalSlice(mean=MEAN)}),
            ValueError,
            "has mean of its own, but prior and likelihood are the model's",
        ),
        (
            lambda: ParallelTempering(kernel=EllipticalSlice()),
            TypeError,
            "EllipticalSlice has none",
        ),
    ],
)
def test_blocks_without_a_normal_prior_are_named(make, error, words):
    with pytest.raises(error, match=re.escape(words)):
        mcmc(random.key(0), several, kernel=make(), num_warmup=2, num_draws=2)
