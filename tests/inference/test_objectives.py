"""Objectives: gradients against quadrature, bounds against the evidence, what the fits cover."""

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import (
    ELBO,
    ForwardKL,
    ImportanceWeighted,
    MeanField,
    PointMass,
    Renyi,
    ScoreFunction,
    svi,
)
from inference.common.layout import Layout
from inference.guides.normal import LocScale
from inference.runtime.compiled_program import compile_program
from inference.variational.multi_sample_bounds import log_mean

Z = 4.5  # failure rate 7e-6 for each comparison
GUIDE = MeanField()
AT = (-0.2, -0.4)  # mean and log standard deviation of a guide in one dimension
NUM_KEYS = 40_000
CORRELATED = np.array([[1.0, 0.7], [0.7, 1.0]])


def log_gamma(x):
    """The density of the logarithm of Gamma(0.8), skewed, times 3."""
    return math.log(3) + jnp.sum(0.8 * x - jnp.exp(x)) - math.lgamma(0.8)


def parameters(loc, log_scale):
    return LocScale(jnp.reshape(loc, 1), jnp.reshape(log_scale, 1))


def pairs():
    """Nodes and weights for two independent standard normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    return grid, np.outer(weights, weights).ravel() / (2 * np.pi)


def over_pairs(objective):
    """The mean over two draws of what `objective` makes of positions and log weights of both."""
    grid, weights = pairs()

    def mean(at):
        def one(noise):
            x = at[0] + jnp.exp(at[1]) * noise
            held = jax.lax.stop_gradient(x)
            log_prob = lambda x: dist.Normal(at[0], jnp.exp(at[1])).log_prob(x)  # noqa: E731
            log_weights = jax.vmap(log_gamma)(x) - log_prob(x)
            return objective(log_weights, log_prob(held))

        return weights @ jax.vmap(one)(jnp.asarray(grid))

    return np.array(jax.grad(mean)(jnp.array(AT)))


def renyi_bound(alpha):
    return lambda log_weights, _: log_mean((1 - alpha) * log_weights) / (1 - alpha)


def wake(log_weights, held):
    return jax.nn.softmax(jax.lax.stop_gradient(log_weights)) @ held


@dataclasses.dataclass(frozen=True)
class WithoutSquares(ImportanceWeighted):
    """Broken: the path of the weights, with the shares in place of their squares."""

    def mean(self, log_density, guide, parameters, keys):
        held = jax.lax.stop_gradient(parameters)

        def one(key):
            position = guide.sample(parameters, key)
            return log_density(position) - guide.log_prob(held, position)

        log_weights = jax.vmap(one)(keys)
        return jax.lax.stop_gradient(jax.nn.softmax(log_weights)) @ log_weights


@dataclasses.dataclass(frozen=True)
class Backwards(ForwardKL):
    """Broken: of the other sign."""

    def mean(self, log_density, guide, parameters, keys):
        return -super().mean(log_density, guide, parameters, keys)


GRADIENTS = {
    "ELBO": (ELBO(), lambda log_weights, _: log_weights.mean()),
    "ELBO, stuck": (ELBO(stick_the_landing=True), lambda log_weights, _: log_weights.mean()),
    "score function": (ScoreFunction(), lambda log_weights, _: log_weights.mean()),
    "importance weighted": (ImportanceWeighted(), renyi_bound(0.0)),
    "importance weighted, plain": (ImportanceWeighted(False), renyi_bound(0.0)),
    "Renyi 1/2": (Renyi(0.5), renyi_bound(0.5)),
    "Renyi 1/2, plain": (Renyi(0.5, False), renyi_bound(0.5)),
    "Renyi 2": (Renyi(2.0), renyi_bound(2.0)),
    "Renyi 1": (Renyi(1.0), lambda log_weights, _: log_weights.mean()),
    "forward": (ForwardKL(), wake),
    "forward, plain": (ForwardKL(doubly_reparameterized=False), wake),
    "broken: without squares": (WithoutSquares(), renyi_bound(0.0)),
    "broken: backwards": (Backwards(), wake),
}


@pytest.mark.quick_rows("importance weighted, plain", "ELBO, stuck", "score function", "Renyi 1/2")
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_unbiased(name):
    """Of the objective for two draws, by quadrature over both."""
    objective, exact = GRADIENTS[name]
    keys = jax.random.split(jax.random.key(0), (NUM_KEYS, 2))

    def gradient(keys):
        mean = lambda at: objective.mean(log_gamma, GUIDE, parameters(*at), keys)  # noqa: E731
        return jax.grad(mean)(jnp.array(AT))

    found = np.asarray(jax.jit(jax.vmap(gradient))(keys))
    errors = found.std(0) / NUM_KEYS**0.5
    deviations = np.abs(found.mean(0) - over_pairs(exact)) / errors
    assert np.all(deviations < Z) == (not name.startswith("broken")), deviations


def conjugate(mu):
    """A prior of Normal(0, 2) and a datum of 1.5 with standard deviation 1."""
    return jnp.sum(dist.Normal(0.0, 2.0).log_prob(mu) + dist.Normal(mu, 1.0).log_prob(1.5))


def bound(objective, num_particles, num_keys=4000):
    """The mean of the estimates for a guide that is too wide, and its standard error."""
    at = parameters(jnp.asarray(0.5), jnp.asarray(0.3))
    keys = jax.random.split(jax.random.key(1), (num_keys, num_particles))
    one = lambda keys: objective.mean(conjugate, GUIDE, at, keys)  # noqa: E731
    found = np.asarray(jax.jit(jax.vmap(one))(keys), np.float64)
    return found.mean(), found.std() / num_keys**0.5


@pytest.mark.slow
@pytest.mark.usefixtures("float_dtype")
def test_bounds_rise_from_the_elbo_to_the_evidence():
    evidence = st.norm(0.0, 5**0.5).logpdf(1.5)
    rows = [
        bound(ELBO(), 2),
        bound(Renyi(0.5), 10),
        bound(ImportanceWeighted(), 10),
        bound(ImportanceWeighted(), 200),
    ]
    for (low, low_error), (high, high_error) in itertools.pairwise(rows):
        assert high - low > Z * np.hypot(low_error, high_error)
    assert evidence - rows[0][0] > 0.1
    assert abs(evidence - rows[-1][0]) < 0.01
    # What the others record is the same.
    for same in (ForwardKL(), ForwardKL(doubly_reparameterized=False), Renyi(0.0, False)):
        np.testing.assert_allclose(bound(same, 10), rows[2], rtol=1e-5)
    np.testing.assert_allclose(bound(Renyi(1.0), 2)[0], rows[0][0], atol=Z * rows[0][1])
    np.testing.assert_allclose(bound(Renyi(0.999), 2)[0], bound(Renyi(1.0), 2)[0], atol=0.01)


@pytest.mark.slow_rows("ImportanceWeighted(doubly_reparameterized=True)")
@pytest.mark.parametrize("objective", [ImportanceWeighted(), Renyi(0.3), ForwardKL()], ids=str)
def test_gradients_have_no_noise_at_the_posterior(objective):
    log_density = lambda x: -0.5 * jnp.sum((x - 1) ** 2)  # noqa: E731
    at = parameters(jnp.ones(()), jnp.zeros(()))
    keys = jax.random.split(jax.random.key(0), 5)
    gradient = jax.grad(lambda at: objective.mean(log_density, GUIDE, at, keys))(at)
    for leaf in gradient:
        np.testing.assert_allclose(leaf, 0.0, atol=1e-6)


def correlated(key, covariance):
    ppl.sample(key, dist.MultivariateNormal(jnp.ones(2), covariance=covariance), name="x")


@pytest.mark.slow
def test_fits_cover_more_from_the_elbo_to_the_forward_divergence():
    """Mean fields: the ELBO's variances are those of the precision, the other's the posterior's."""
    scales = {}
    for objective in (ELBO(), Renyi(0.5), ForwardKL()):
        result = svi(
            jax.random.key(0),
            correlated,
            jnp.asarray(CORRELATED, float),
            objective=objective,
            num_particles=50,
            optimizer=optax.adam(optax.exponential_decay(0.03, 1000, 0.5)),
            num_steps=4000,
        )
        np.testing.assert_allclose(result.parameters.loc, 1.0, atol=0.05)
        scales[type(objective)] = np.exp(result.parameters.log_scale)
    narrow = np.diag(np.linalg.inv(CORRELATED)) ** -0.5
    np.testing.assert_allclose(scales[ELBO], narrow, rtol=0.02)
    np.testing.assert_allclose(scales[ForwardKL], 1.0, atol=0.05)
    assert np.all(scales[Renyi] > narrow + 0.05)
    assert np.all(scales[Renyi] < 0.92)


def scalar(key, scale):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(-0.5 * (x / scale) ** 2, name="f")


@pytest.mark.quick_rows("ScoreFunction()")
@pytest.mark.parametrize(
    "objective", [ImportanceWeighted(), Renyi(0.5), ForwardKL(), ScoreFunction()], ids=str
)
def test_new_data_and_keys_compile_nothing(objective, x64):
    settings = {"objective": objective, "num_particles": 3, "num_steps": 100, "num_draws": 30}
    svi(jax.random.key(0), scalar, 2.0, **settings)
    misses = compile_program.cache_info().misses
    result = svi(jax.random.key(1), scalar, 3.0, **settings)
    assert compile_program.cache_info().misses == misses
    assert result.elbos.dtype == jnp.float64
    assert result.parameters.loc.dtype == jnp.float64


def rows(key, *args):
    return args


REFUSED = {
    "one draw": ({"objective": ImportanceWeighted()}, ValueError, r"num_particles=10, say, got 1"),
    "no density": (
        {"objective": ForwardKL(), "guide": PointMass(), "num_particles": 9},
        ValueError,
        r"needs a guide with a density, which PointMass\(\) has not",
    ),
    "batch": (
        {"objective": Renyi(0.5), "num_particles": 9, "batch": rows},
        ValueError,
        r"batch goes with objectives that are linear .*not with Renyi\(alpha=0.5",
    ),
    "a class": ({"objective": ForwardKL}, TypeError, "must be an objective such as ELBO"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_suit_is_refused(name):
    settings, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        svi(jax.random.key(0), scalar, 2.0, **settings)


@pytest.mark.parametrize("alpha", [math.nan, math.inf, "half"])
def test_alpha_is_a_number(alpha):
    with pytest.raises(ValueError, match="alpha of Renyi must not be negative"):
        Renyi(-1.0)
    with pytest.raises(ValueError, match="alpha of Renyi must be a finite number"):
        Renyi(alpha)


def test_layouts_hold_discrete_values_exactly(float_dtype):
    values = {"k": jnp.arange(3) + 2**20, "b": jnp.array([True, False]), "x": jnp.ones(2, float)}
    layout = Layout.of_numbers(values)
    assert layout.ravel(values).dtype == float_dtype
    there = layout.unravel(layout.ravel(values))
    assert jax.tree.map(lambda x: x.dtype, there) == jax.tree.map(lambda x: x.dtype, values)
    jax.tree.map(np.testing.assert_array_equal, there, values)
    assert Layout.of_numbers({"k": jnp.arange(3)}).dtype == float_dtype
