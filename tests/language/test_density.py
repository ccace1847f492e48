"""Densities and gradients equal those written by hand, to 1e-10 in float64 and 1e-5 in float32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.scipy import stats

import distributions as dist
import ppl

from .cases import CASES, Case
from .checks import assert_close, shapes
from .programs import eight_schools

EVERY_CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def argnums(case: Case) -> tuple[int, ...]:
    return tuple(range(1 + len(case.args)))


@functools.cache
def by_hand(index: int) -> jax.Array:
    """The density written by hand and its gradient, by values and by arguments, in float64."""
    case = CASES[index]
    with jax.enable_x64(True):
        values, args = jax.tree.map(jnp.asarray, (case.values, case.args))
        return jax.jit(jax.value_and_grad(case.density, argnums(case)))(values, *args)


@pytest.mark.quick_rows(
    "empty-loop",
    "scan-of-vmap-observed",
    "cond-on-latent-false",
    "jit",
    "scan-of-vmap",
    "shared-in-vmap",
    "eight-schools-observed",
)
@EVERY_CASE
def test_density_gradient_and_log_probs(case, x64):
    def ours(values, *args):
        value = jax.value_and_grad(ppl.log_density(case.model), argnums(case))(values, *args)
        return value, ppl.log_probs(case.model)(values, *args)

    values, args = jax.tree.map(jnp.asarray, (case.values, case.args))
    actual, log_probs = jax.jit(ours)(values, *args)
    assert actual[0].shape == ()
    assert actual[0].dtype == jnp.float64
    assert_close(actual, by_hand(CASES.index(case)))
    assert shapes(log_probs) == case.shapes
    assert_close(sum(jnp.sum(x) for x in jax.tree.leaves(log_probs)), actual[0])


@pytest.mark.quick_rows(
    "cond-on-latent-false",
    "shared-in-vmap",
    "vmap-scan-vmap",
    "jit",
    "scan-of-vmap",
    "scan-vmap-scan",
    "closed-over-in-scan",
    "loops",
    "two-vmaps",
    "nest",
    "scan-in-scan",
)
@pytest.mark.parametrize(
    "case", [case for case in CASES if "observed" not in case.id], ids=lambda case: case.id
)
def test_float32(case):
    values, args = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (case.values, case.args))
    value_and_grad = jax.value_and_grad(ppl.log_density(case.model), argnums(case))
    actual = jax.jit(value_and_grad)(values, *args)
    assert {x.dtype for x in jax.tree.leaves(actual)} == {np.dtype(np.float32)}
    assert_close(actual, by_hand(CASES.index(case)), "float32")


def test_transformations_of_log_density(x64):
    """jit, vmap, scan and hessian of a log density; the one of eight schools is quadratic in mu."""
    density = ppl.log_density(eight_schools)
    values, sigma = {"tau": 2.0, "theta": jnp.arange(8.0), "y": jnp.ones(8)}, jnp.ones(8)
    of_mu = lambda mu: density({**values, "mu": mu}, sigma)  # noqa: E731
    mus = jnp.array([-1.0, 0.5, 3.0])
    expected = jnp.stack([of_mu(mu) for mu in mus])
    assert_close(jax.jit(jax.vmap(of_mu))(mus), expected)
    assert_close(lax.scan(lambda _, mu: (None, of_mu(mu)), None, mus)[1], expected)
    assert_close(jax.jit(jax.hessian(of_mu))(0.3), jnp.array(-1 / 25 - 8 / 4))
    over_sigma = jax.jit(jax.vmap(density, (None, 0)))({**values, "mu": -1.0}, jnp.ones((2, 8)))
    assert_close(over_sigma, jnp.full(2, expected[0]))


def test_order_of_values_and_extra_arguments_do_not_matter(x64):
    """Values are found by name; arguments may be given by keyword, and need not be arrays."""

    def model(key, scale, *, family, shape):
        x = ppl.sample(key, family(jnp.zeros(shape), scale), name="x")
        return {"label": "text", "none": None, "y": ppl.sample(key, family(x, scale), name="y")}

    density = ppl.log_density(model)
    values = {"y": jnp.ones(2), "x": jnp.zeros(2)}
    actual = density(values, scale=2.0, family=dist.Laplace, shape=(2,))
    assert_close(actual, stats.laplace.logpdf(jnp.array([0.0, 0, 1, 1]), 0.0, 2.0).sum())


def test_values_take_the_dtype_of_the_site():
    """Python numbers and arrays of other widths, of the same kind."""

    def model(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0 + n), name="x")

    density = ppl.log_density(model)
    expected = density({"n": jnp.int32(2), "x": jnp.ones(2)})
    for n, x in [
        (2, np.ones(2)),
        (np.int64(2), jnp.ones(2, jnp.bfloat16)),
        (2.0, np.float16([1, 1])),
    ]:
        assert_close(density({"n": n, "x": x}), expected, "float32")


def test_model_without_sites():
    assert ppl.log_density(lambda key: 1.0)({}) == 0.0
    assert ppl.log_probs(lambda key: 1.0)({}) == {}
