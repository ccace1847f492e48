"""Guides against scipy's normal distribution; gradients of the ELBO against quadrature."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import random

from inference import (
    ELBO,
    BySite,
    FullRank,
    InverseAutoregressive,
    LowRank,
    MaskedAutoregressive,
    MeanField,
    NeuralSpline,
    PointMass,
    Structured,
)
from inference.common.layout import Layout
from inference.guides.normal import LocFactor, LocScale
from tests.inference.targets import skewed_log_density

# Each test compares at most forty means with their standard errors: all stay below this but for a
# failure rate of 7e-4.
Z = 4.3

GUIDES = {
    "mean field": MeanField(),
    "full rank": FullRank(),
    "low rank": LowRank(2),
    "structured": Structured("b", has_varying_scales=False),
    "by site": BySite({"b": MeanField()}, rest=FullRank()),
}
OTHERS = {
    "varying scales": Structured("b"),
    "inverse autoregressive": InverseAutoregressive(2, (4,)),
    "masked autoregressive": MaskedAutoregressive(2, (4,)),
    "spline": NeuralSpline(2, (4,)),
    "flow by site": BySite({"b": InverseAutoregressive(1, (4,))}),
}


def layout_of(size, dtype=float):
    """Two sites, the later one of one coordinate."""
    return Layout.of({"a": jnp.zeros(size - 1, dtype), "b": jnp.zeros(1, dtype)})


def some_parameters(guide, size, dtype=float):
    """Parameters as far along as an optimizer may take them."""
    if not isinstance(guide, MeanField | FullRank | LowRank):
        start = guide.init(jnp.zeros(size, dtype), layout_of(size, dtype))
        return jax.tree.map(moved(np.random.default_rng(size), dtype), start)
    rng = np.random.default_rng(size)
    loc, log_scale = 0.5 * rng.normal(size=(2, size))
    if isinstance(guide, MeanField):
        return LocScale(jnp.asarray(loc, dtype), jnp.asarray(log_scale - 0.5, dtype))
    factor = 0.6 * rng.normal(size=(size, size if isinstance(guide, FullRank) else guide.rank))
    arrays = (loc, log_scale - 0.5, factor)
    return LocFactor(*(jnp.asarray(x, dtype) for x in arrays))


def moved(rng, dtype):
    """Anywhere from where it was, and scales from 0.1 to 0.6 or so."""

    def move(x):
        log_scale = jnp.where(jnp.isclose(x, np.log(0.1), rtol=1e-3), np.log(6.0), 0.0)
        return jnp.asarray(x + log_scale + 0.5 * rng.normal(size=x.shape), dtype)

    return move


def mean_of(guide, parameters):
    """Of a normal distribution; `b` comes last."""
    if isinstance(guide, BySite):
        return jnp.concatenate([parameters.parts[name].loc for name in ("rest", "b")])
    return parameters.loc


@pytest.mark.quick_rows(
    "float64-mean field",
    "float32-mean field",
    "float64-full rank",
    "float32-full rank",
    "float64-low rank",
)
@pytest.mark.parametrize("name", GUIDES)
def test_the_density_is_that_of_a_normal_distribution(name, float_dtype):
    guide = GUIDES[name]
    parameters = some_parameters(guide, 4, float_dtype)
    covariance = guide.covariance(parameters)
    exact = st.multivariate_normal(np.float64(mean_of(guide, parameters)), np.float64(covariance))
    positions = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)), float_dtype)
    found = jax.jit(jax.vmap(guide.log_prob, (None, 0)))(parameters, positions)
    assert found.dtype == covariance.dtype == float_dtype
    tolerance = 1e-10 if float_dtype == "float64" else 2e-5
    np.testing.assert_allclose(found, exact.logpdf(positions), rtol=tolerance)
    np.testing.assert_allclose(guide.entropy(parameters), exact.entropy(), rtol=tolerance)


@pytest.mark.slow_rows("float32-by site", "float64-mean field", "float64-by site")
@pytest.mark.parametrize("name", GUIDES)
def test_draws_have_the_mean_and_covariance(name, float_dtype):
    guide, num_draws = GUIDES[name], 40_000
    parameters = some_parameters(guide, 4, float_dtype)
    keys = random.split(random.key(1), num_draws)
    draws = jax.jit(jax.vmap(guide.sample, (None, 0)))(parameters, keys)
    assert draws.dtype == float_dtype
    covariance = np.float64(guide.covariance(parameters))
    centered = np.float64(draws) - np.float64(mean_of(guide, parameters))
    variances = np.diag(covariance)
    assert np.all(np.abs(centered.mean(0)) < Z * np.sqrt(variances / num_draws))
    errors = np.sqrt((np.outer(variances, variances) + covariance**2) / num_draws)
    assert np.all(np.abs(centered.T @ centered / num_draws - covariance) < Z * errors)


def test_the_factor_of_full_rank_is_that_of_its_covariance():
    parameters = some_parameters(FullRank(), 4)
    factor = np.linalg.cholesky(FullRank().covariance(parameters))
    np.testing.assert_allclose(FullRank().scale_tril(parameters), factor, rtol=1e-5, atol=1e-6)


EVERY = GUIDES | OTHERS | {"point": PointMass()}


@pytest.mark.quick_rows(
    "float64-point",
    "float32-point",
    "float32-full rank",
    "float64-full rank",
    "float32-varying scales",
    "float64-varying scales",
    "float32-mean field",
    "float64-mean field",
    "float32-flow by site",
)
@pytest.mark.parametrize("name", EVERY)
def test_a_guide_begins_around_a_position(name, float_dtype):
    guide, position = EVERY[name], jnp.arange(3, dtype=float_dtype)
    parameters = guide.init(position, layout_of(3, float_dtype))
    assert all(leaf.dtype == float_dtype for leaf in jax.tree.leaves(parameters))
    draws = [guide.sample(parameters, random.key(seed)) for seed in range(3)]
    is_point = isinstance(guide, PointMass)
    assert guide.has_density is not is_point
    np.testing.assert_allclose(draws, [position] * 3, atol=0.0 if is_point else 0.5)
    assert np.ptp(draws, axis=0).min() > 0 or is_point
    if name in GUIDES:
        np.testing.assert_array_equal(mean_of(guide, parameters), position)
        spread = jnp.sqrt(jnp.diag(guide.covariance(parameters)))
        np.testing.assert_allclose(spread, 0.1, rtol=0.1)


def test_legacy_keys_draw_the_same():
    parameters = some_parameters(MeanField(), 3)
    typed, legacy = (MeanField().sample(parameters, f(3)) for f in (random.key, random.PRNGKey))
    np.testing.assert_array_equal(typed, legacy)


# A skewed density of three coordinates, of which two stay where the guide's mean is not.
def skewed(flat):
    scaled = {"x0": flat[0], "x1": flat[1], "x2": 0.05 * (flat[2] if flat.size > 2 else 1.0)}
    return skewed_log_density(scaled)


def exact_elbo(guide, parameters):
    """The ELBO by Gauss-Hermite quadrature over the guide's own normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    size = mean_of(guide, parameters).size
    grid = jnp.array(list(itertools.product(nodes, repeat=size)))
    weight = np.prod(list(itertools.product(weights / weights.sum(), repeat=size)), axis=1)
    factor = jnp.linalg.cholesky(guide.covariance(parameters))
    positions = mean_of(guide, parameters)[None] + grid @ factor.T
    values = jax.vmap(lambda z: skewed(z) - guide.log_prob(parameters, z))(positions)
    return jnp.sum(jnp.asarray(weight) * values)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WrongSign(MeanField):
    """A guide whose entropy has the wrong sign."""

    def entropy(self, parameters):
        return -super().entropy(parameters)

    def log_prob(self, parameters, position):
        return -super().log_prob(parameters, position)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WithoutEntropy(FullRank):
    """A guide that knows only its density."""

    def entropy(self, parameters):
        return None


def scores(guide, objective, num_draws=20_000):
    """Each component of ELBO and gradient, less the exact one, in standard errors."""
    parameters = some_parameters(guide, 2)
    exact = MeanField() if isinstance(guide, WrongSign) else guide
    expected = jax.value_and_grad(lambda p: exact_elbo(exact, p))(parameters)
    keys = random.split(random.key(0), num_draws)
    estimate = lambda p, key: objective.estimate(skewed, guide, p, key)  # noqa: E731
    each = jax.jit(jax.vmap(jax.value_and_grad(estimate), (None, 0)))(parameters, keys)

    def score(found, expected):
        mean, error = np.mean(found, 0), np.std(found, 0) / np.sqrt(num_draws)
        is_exact = np.isclose(mean, expected, rtol=1e-10, atol=1e-12)  # what does not vary
        return np.where(is_exact, 0.0, (mean - expected) / np.where(error > 0, error, 1e-12))

    return np.concatenate(
        [np.ravel(s) for s in jax.tree.leaves(jax.tree.map(score, each, expected))]
    )


ESTIMATORS = {
    **{name: (guide, ELBO()) for name, guide in GUIDES.items()},
    **{f"{name}, stuck": (guide, ELBO(True)) for name, guide in GUIDES.items()},
    "without entropy": (WithoutEntropy(), ELBO()),
}


@pytest.mark.quick_rows("mean field, stuck", "structured, stuck", "without entropy")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_elbo_and_its_gradient_are_unbiased(x64, name):
    assert np.max(np.abs(scores(*ESTIMATORS[name]))) < Z


@pytest.mark.parametrize("stick_the_landing", [False, True])
def test_a_wrong_sign_is_seen(x64, stick_the_landing):
    assert np.max(np.abs(scores(WrongSign(), ELBO(stick_the_landing)))) > 5 * Z


@pytest.mark.slow
@pytest.mark.parametrize("name", GUIDES | OTHERS)
def test_stuck_to_the_landing_the_gradient_has_no_variance(x64, name):
    guide = EVERY[name]
    parameters = some_parameters(guide, 3)
    posterior = lambda z: guide.log_prob(parameters, z) - 7.0  # noqa: E731
    keys = random.split(random.key(0), 10)

    def gradients(objective):
        estimate = lambda p, key: objective.estimate(posterior, guide, p, key)  # noqa: E731
        return jax.jit(jax.vmap(jax.value_and_grad(estimate), (None, 0)))(parameters, keys)

    values, stuck = gradients(ELBO(stick_the_landing=True))
    np.testing.assert_allclose(values, -7.0, rtol=1e-10)
    assert max(np.max(np.abs(x), initial=0.0) for x in jax.tree.leaves(stuck)) < 1e-10
    assert np.std(jax.tree.leaves(gradients(ELBO())[1])[0]) > 0.1


def test_particles_are_averaged():
    parameters = some_parameters(MeanField(), 2)
    keys = random.split(random.key(0), 3)
    each = [ELBO().estimate(skewed, MeanField(), parameters, key) for key in keys]
    mean = ELBO().mean(skewed, MeanField(), parameters, keys)
    np.testing.assert_allclose(mean, np.mean(each), rtol=1e-6)
