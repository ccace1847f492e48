"""What only an accelerator does: products of few bits, kernels in another order, its own functions.

All tests here are skipped where JAX has no accelerator; ``make test-gpu`` runs them, and the rest
of the suite, where there is one.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as exact

import distributions as dist
import inference
import ppl

pytestmark = [
    pytest.mark.skipif(jax.default_backend() == "cpu", reason="JAX finds no accelerator"),
    pytest.mark.promotion(rank="allow", dtype="standard"),
]

NUM_ROWS, NUM_COLUMNS = 10_000, 25


@pytest.fixture(scope="module")
def regression():
    """A logistic regression whose log density is of the order of -3000, with its data."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_ROWS, NUM_COLUMNS)).astype(np.float32)
    logits = x @ rng.normal(size=NUM_COLUMNS)
    y = (rng.uniform(size=NUM_ROWS) < exact.expit(logits)).astype(np.int32)

    def model(key, x):
        slopes = ppl.sample(key, dist.Normal(jnp.zeros(NUM_COLUMNS), 1.0), name="slopes")
        ppl.sample(key, dist.Bernoulli(logits=x @ slopes), name="y")

    return ppl.condition(model, {"y": y}), x, y


def log_density(slopes, x, y):
    """Of the regression in double precision, on the host."""
    logits = np.asarray(slopes, float) @ np.asarray(x, float).T
    prior = -0.5 * np.sum(np.square(slopes, dtype=float), -1) - 0.5 * NUM_COLUMNS * np.log(
        2 * np.pi
    )
    return prior - np.sum(np.logaddexp(0, np.where(y == 1, -logits, logits)), -1)


def test_densities_of_many_rows_are_precise_and_no_chain_freezes(regression):
    posterior, x, y = regression
    result = inference.mcmc(
        jax.random.key(0), posterior, x, num_chains=64, num_warmup=60, num_draws=10
    )
    stats = result.stats
    expected = log_density(result.draws["slopes"], x, y)
    assert np.max(np.abs(stats["log_density"] - expected)) < 0.02
    assert np.max(stats["num_steps"]) < 64
    assert np.min(stats["step_size"]) > 0.3 * np.median(stats["step_size"])


@pytest.mark.parametrize("num_chains", [4, 256])
def test_the_same_key_gives_the_same_draws(regression, num_chains):
    posterior, x, _ = regression
    draws = [
        inference.mcmc(
            jax.random.key(0), posterior, x, num_chains=num_chains, num_warmup=40, num_draws=10
        ).draws["slopes"]
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*draws)


def test_a_fit_of_the_same_key_is_the_same(regression):
    posterior, x, _ = regression
    fits = [inference.svi(jax.random.key(0), posterior, x, num_steps=500) for _ in range(2)]
    np.testing.assert_array_equal(*[fit.elbos for fit in fits])


LINE, POSITIVE, UNIT = (
    np.linspace(-12, 12, 4001),
    np.geomspace(1e-6, 1e6, 4001),
    np.linspace(0, 1, 4003)[1:-1],
)
FUNCTIONS = {
    "exp": (jnp.exp, np.exp, LINE),
    "expm1": (jnp.expm1, np.expm1, LINE),
    "log": (jnp.log, np.log, POSITIVE),
    "log1p": (jnp.log1p, np.log1p, POSITIVE),
    "log1p near -1": (jnp.log1p, np.log1p, -UNIT),
    "tanh": (jnp.tanh, np.tanh, LINE),
    "logistic": (jax.nn.sigmoid, exact.expit, LINE),
    "log-logistic": (jax.nn.log_sigmoid, exact.log_expit, LINE),
    "erf": (jax.scipy.special.erf, exact.erf, LINE),
    "erfc": (jax.scipy.special.erfc, exact.erfc, np.linspace(-4, 8, 4001)),
    "inverse erf": (jax.scipy.special.erfinv, exact.erfinv, 2 * UNIT - 1),
    "log ndtr": (jax.scipy.special.log_ndtr, exact.log_ndtr, LINE),
    "log gamma": (jax.scipy.special.gammaln, exact.gammaln, POSITIVE),
    "digamma": (jax.scipy.special.digamma, exact.digamma, POSITIVE),
    "i0e": (jax.scipy.special.i0e, exact.i0e, LINE),
    "i1e": (jax.scipy.special.i1e, exact.i1e, LINE),
    "sine": (jnp.sin, np.sin, LINE),
    "power": (lambda x: x**1.7, lambda x: x**1.7, POSITIVE),
}
CROSS_ZERO = "log ndtr", "log gamma", "digamma"  # sums of terms near 1, whose error stays


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_precise_over_their_range(name):
    """The error, by the size of the value or of its change over a rounding of the argument."""
    function, reference, points = FUNCTIONS[name]
    points = points.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = reference(points.astype(float))
        change = np.abs(
            reference(np.nextafter(points, np.inf, dtype=np.float32).astype(float)) - expected
        )
    found = np.asarray(jax.jit(function)(points), float)
    kind, least = np.finfo(np.float32), 1 if name in CROSS_ZERO else 0
    scale = np.maximum(np.maximum(np.abs(expected), least) * kind.eps, change) + kind.tiny
    error = np.abs(found - expected) / scale
    worst = np.nanargmax(np.where(np.isfinite(expected), error, 0))
    assert error[worst] < 64, (name, points[worst], found[worst], expected[worst])


def test_long_sums_are_precise():
    """Sums of many terms stay within a few roundings of the sum of sizes."""
    terms = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    total = float(jax.jit(jnp.sum)(terms))
    assert abs(total - terms.sum(dtype=float)) < 1e-6 * np.abs(terms).sum(dtype=float)
