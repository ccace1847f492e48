"""Derivatives of distribution functions of counts where a chance is 0 or 1, and a drift is 0."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist


def _negative_binomial(p, k, r):
    return (1 - p) ** r * sum(math.comb(j + r - 1, j) * p**j for j in range(k + 1))


# The distribution by its parameter, its distribution function as a polynomial, and its edges.
COUNTS = {
    "Binomial": (
        lambda p: dist.Binomial(5, probs=p),
        lambda p, k: sum(math.comb(5, j) * p**j * (1 - p) ** (5 - j) for j in range(k + 1)),
        (0.0, 1.0),
    ),
    "Poisson": (
        lambda rate: dist.Poisson(rate),
        lambda rate, k: jnp.exp(-rate) * sum(rate**j / math.factorial(j) for j in range(k + 1)),
        (0.0,),
    ),
    "NegativeBinomial": (
        lambda p: dist.NegativeBinomial(total_count=2, probs=p),
        lambda p, k: _negative_binomial(p, k, 2),
        (0.0, 1.0),
    ),
    "Geometric": (
        lambda p: dist.Geometric(probs=p),
        lambda p, k: 1 - (1 - p) ** (k + 1),
        (0.0, 1.0),
    ),
    "ProbitBernoulli": (
        lambda p: dist.ProbitBernoulli(probs=p),
        lambda p, k: 1 - p,
        (0.0, 1.0),
    ),
    "PoissonBinomial": (
        lambda p: dist.PoissonBinomial(probs=jnp.stack([p, 0 * p, 0.5 + 0 * p])),
        lambda p, k: [(1 - p) / 2, 1 - p / 2, 1 + 0 * p, 1 + 0 * p][k],
        (0.0, 1.0),
    ),
    "Hurdle": (
        lambda p: dist.Hurdle(dist.Geometric(probs=0.5), probs=p),
        lambda p, k: 1 - (1 - p) * 0.5**k,
        (0.0, 1.0),
    ),
}


def jets(f, at):
    """A function at many points, and its first and second derivatives, reverse and forward."""
    both = jax.vmap(lambda x: (f(x), jax.jacrev(f)(x), jax.jacfwd(jax.jacrev(f))(x)))
    return np.stack(jax.jit(both)(jnp.array(at, float)))


@pytest.mark.slow_rows("Binomial", "NegativeBinomial")
@pytest.mark.parametrize("name", COUNTS)
def test_derivatives_where_a_chance_is_zero(name, x64):
    make, cdf, edges = COUNTS[name]
    counts = np.arange(4 if name != "ProbitBernoulli" else 1)
    expected = jets(lambda p: jnp.stack([cdf(p, int(k)) for k in counts]), edges)
    both = jets(lambda p: jnp.stack([make(p).cdf(counts), make(p).survival(counts)]), edges)
    np.testing.assert_allclose(both[:, :, 0], expected, rtol=1e-12, atol=1e-12)
    rest = np.array([1.0, 0.0, 0.0])[:, None, None] - expected
    np.testing.assert_allclose(both[:, :, 1], rest, rtol=1e-12, atol=1e-12)


@pytest.mark.quick_rows("Geometric")
@pytest.mark.parametrize("name", ["Poisson", "Geometric"])
def test_censored_and_truncated_where_a_chance_is_zero(name, x64):
    make, cdf, edges = COUNTS[name]
    at = [edges[-1] if name == "Geometric" else 0.0]

    def found(p):
        d = make(p)
        censored, truncated = dist.Censored(d, low=0), dist.Truncated(d, high=1)
        return jnp.stack([censored.log_prob(0), truncated.log_prob(0)])

    expected = jets(lambda p: jnp.log(jnp.stack([cdf(p, 0), cdf(p, 0) / cdf(p, 1)])), at)
    np.testing.assert_allclose(jets(found, at), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("value", [0.3, -1.5])
def test_derivatives_by_a_drift_of_zero(value, x64):
    def f(drift):
        return dist.Wiener(1.2, 0.1, 0.3, drift).cdf(value)

    found, step = jets(f, [0.0])[:, 0], 1e-3
    at = f(step * jnp.arange(-2.0, 3.0))
    first = np.dot([1, -8, 0, 8, -1], at) / (12 * step)
    second = np.dot([-1, 16, -30, 16, -1], at) / (12 * step**2)
    np.testing.assert_allclose(found, [at[2], first, second], rtol=1e-7)
