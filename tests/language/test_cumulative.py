"""Cumulative sums in models: derivatives by single elements, which XLA alone gets wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.optimized  # XLA folds pads only when it optimizes


def body_of_cond(x):
    return lax.cond(jnp.zeros(()) < 1.0, jnp.cumsum, lambda x: x, x)


def in_reverse(x):
    return lax.cumsum(x[::-1], reverse=True)[::-1]


def steps_of_rows(x):
    return jnp.cumsum(jnp.stack([x, x], 1), 0)[:, 0]


CUMULATIVE = {
    "plain": jnp.cumsum,
    "in jit": jax.jit(lambda x: 1.0 * jnp.cumsum(x)),
    "in cond": body_of_cond,
    "in checkpoint": jax.checkpoint(jnp.cumsum),
    "reverse": in_reverse,
    "rows": steps_of_rows,
    "in vmap": lambda x: jax.vmap(jnp.cumsum)(jnp.stack([x, x]))[1],
    "in scan": lambda x: lax.scan(lambda c, _: (c, jnp.cumsum(x)), 0, None, length=2)[1][1],
}


def walk(cumulative, n):
    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x")
        ppl.sample(key, dist.Normal(cumulative(x)[n // 2], 0.5), name="y")

    return ppl.condition(model, {"y": 1.0})


@pytest.mark.parametrize("name", CUMULATIVE)
@pytest.mark.parametrize("n", [3, 5])
def test_derivatives_by_the_middle_element(name, n):
    """A fold of the pad with as many zeros on both sides gave other gradients to n = 3 and 5."""
    density = ppl.log_density(walk(CUMULATIVE[name], n))
    x = np.arange(4.0 * n).reshape(4, n) / 10
    summed = np.arange(n) <= n // 2
    slopes = -x + 4 * (1 - x @ summed)[:, None] * summed
    curvature = -np.eye(n) - 4 * np.outer(summed, summed)
    f = lambda x: density({"x": x})  # noqa: E731
    found = jax.jit(jax.vmap(lambda x: (jax.grad(f)(x), jax.hessian(f)(x))))(jnp.asarray(x))
    np.testing.assert_allclose(found[0], slopes, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], np.broadcast_to(curvature, (4, n, n)), atol=1e-5)


@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("name", ["in jit", "rows"])
def test_integrals_over_the_middle_element(name, strategy, float_dtype):
    model = ppl.marginalize(walk(CUMULATIVE[name], 5), {"x": strategy})
    evidence = stats.norm.logpdf(1.0, 0.0, np.sqrt(3 + 0.25))
    np.testing.assert_allclose(jax.jit(ppl.log_density(model))({}), evidence, rtol=1e-5)


@pytest.mark.parametrize(
    ("cumulative", "slopes"),
    [
        (jnp.cumprod, [2.0, 1.5, 0.0]),
        (lax.cumlogsumexp, [1 / (1 + np.exp(0.5)), 1 / (1 + np.exp(-0.5)), 0.0]),
        (lax.cummax, [0.0, 1.0, 0.0]),
        (lax.cummin, [1.0, 0.0, 0.0]),
    ],
    ids=["cumprod", "cumlogsumexp", "cummax", "cummin"],
)
def test_slopes_of_other_cumulative_operations(cumulative, slopes):
    def model(key):
        x = ppl.sample(key, dist.Flat(dist.constraints.real, (3,)), name="x")
        ppl.factor(cumulative(x)[1], name="score")

    density = ppl.log_density(model)
    found = jax.jit(jax.vmap(jax.grad(lambda x: density({"x": x}))))(
        jnp.tile(jnp.array([1.5, 2.0, 3.0]), (3, 1))
    )
    np.testing.assert_allclose(found, np.tile(slopes, (3, 1)), rtol=1e-6)
