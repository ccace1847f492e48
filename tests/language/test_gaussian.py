"""marginalize with Gaussian: integrals equal those of the quadratic form, and draws are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import distributions as dist
import ppl
from ppl.core.gaussian_integral import GaussianIntegral
from tests.language.integrals import INTEGRALS

pytestmark = pytest.mark.usefixtures("x64")

BY_NAME = {case.name: case for case in INTEGRALS}


def zeros_of(case):
    nodes = ppl.graph(case.posterior())().nodes
    found = {}
    for name in case.sites:
        *scopes, last = name.split(".")
        inner = found
        for scope in scopes:
            inner = inner.setdefault(scope, {})
        inner[last] = jnp.zeros(nodes[name].shape)
    return found


def as_normal(case):
    """Of the integrated sites at some scale, as one vector: the log integral, mean, covariance."""
    flat, unflatten = ravel_pytree(zeros_of(case))
    density = ppl.log_density(case.posterior())

    def of(scale):
        f = lambda x: density({"scale": scale, **unflatten(x)})  # noqa: E731
        precision = -jax.hessian(f)(flat)
        mean = jnp.linalg.solve(precision, jax.grad(f)(flat))
        log_det = jnp.linalg.slogdet(precision)[1]
        log_integral = f(mean) - log_det / 2 + flat.size / 2 * jnp.log(2 * jnp.pi)
        return log_integral, mean, jnp.linalg.inv(precision)

    return of


STEP = 1e-3
QUICK = ["schools", "levels_and_slopes", "second_order"]


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize("case", INTEGRALS, ids=lambda case: case.name)
def test_integrals_equal_those_of_the_quadratic_form(case, monkeypatch):
    layouts = []
    layout_of = GaussianIntegral._layout  # pyright: ignore

    def note(self, group):
        found = layout_of(self, group)
        sizes = found.num_plates, found.num_blocks, found.size_of_block, found.size_of_border
        layouts.append(sizes)
        return found

    monkeypatch.setattr(GaussianIntegral, "_layout", note)
    density = ppl.log_density(case.integrated())
    ours = lambda scale: density({"scale": scale})  # noqa: E731
    scales = 0.7 + STEP * jnp.arange(-2.0, 3.0)

    @jax.jit
    def both(scales):
        slopes = jax.grad(ours)(scales[2]), jax.grad(jax.grad(ours))(scales[2])
        exact = jax.lax.map(lambda scale: as_normal(case)(scale)[0], scales)
        return jax.lax.map(ours, scales), slopes, exact

    found, (slope, curvature), exact = both(scales)
    np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
    first = (exact[0] - 8 * exact[1] + 8 * exact[3] - exact[4]) / (12 * STEP)
    second = (-exact[0] + 16 * exact[1] - 30 * exact[2] + 16 * exact[3] - exact[4]) / 12
    np.testing.assert_allclose(slope, first, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(curvature, second / STEP**2, rtol=1e-5, atol=1e-5)
    assert case.blocks in layouts


NUM_DRAWS = 40_000
DRAWN = ["second_order", "schools", "several_chains", "level_and_trend", "levels_and_slopes"]


@pytest.mark.quick_rows("second_order", "schools")
@pytest.mark.parametrize("case", [BY_NAME[name] for name in DRAWN], ids=lambda case: case.name)
def test_recovered_draws_have_the_exact_moments(case):
    _, mean, covariance = jax.jit(as_normal(case))(0.7)
    draws = ppl.recover(case.integrated(), {"scale": jnp.full(NUM_DRAWS, 0.7)})(jax.random.key(0))
    assert set(draws) == set(case.sites)
    flat = np.concatenate([np.reshape(draws[n], (NUM_DRAWS, -1)) for n in sorted(draws)], 1)
    error = np.sqrt(np.diag(covariance) / NUM_DRAWS)
    assert np.all(np.abs(flat.mean(0) - mean) < 4.5 * error)

    def excess(draws):
        """The largest error of the covariance of whitened draws, in standard errors."""
        white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
        return np.abs(white @ white.T / NUM_DRAWS - np.eye(len(white))).max() * np.sqrt(
            NUM_DRAWS / 2
        )

    assert excess(flat) < 4.5
    rng = np.random.default_rng(0)
    apart = np.stack([rng.permutation(column) for column in flat.T], 1)  # right one by one
    assert excess(apart) > 4.5


def test_single_precision_holds_far_from_zero():
    """The form at 0 would lose all digits: the data are 1e4 standard deviations away."""

    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.float32(1e4), 1.0), name="x")
        ppl.sample(key, dist.Normal(x, jnp.float32(1.0)), name="y")

    summed = ppl.condition(ppl.marginalize(model, {"x": ppl.Gaussian()}), {"y": np.float32(1e4)})
    exact = -0.5 * np.log(2 * np.pi * 2)
    np.testing.assert_allclose(ppl.log_density(summed)({}), exact, rtol=1e-6)


def refused(model, sites=("x",), **kwargs):
    return ppl.marginalize(model, dict.fromkeys(sites, ppl.Gaussian(**kwargs)))


def scaled(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.sample(key, dist.Normal(0.0, jnp.exp(x)), name="y")


def logistic(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.sample(key, dist.Bernoulli(logits=x), name="y")


def heavy_tailed(key):
    ppl.sample(key, dist.StudentT(3.0, 0.0, 1.0), name="x")


def positive(key):
    ppl.sample(key, dist.Flat(dist.constraints.positive), name="x")


def product(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    ppl.sample(key, dist.Normal(x * z, 1.0), name="y")


def discrete(key):
    ppl.sample(key, dist.Bernoulli(probs=0.5), name="x")


def unknown_level(key):
    ppl.sample(key, dist.Flat(dist.constraints.real), name="x")


def two_unknown_levels(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    z = ppl.sample(key, dist.Flat(dist.constraints.real), name="z")
    ppl.sample(key, dist.Normal(x + z, 1.0), name="y")


def wide(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(9), 1.0), name="x")
    ppl.sample(key, dist.Normal(jnp.sum(x), 1.0), name="y")


REFUSED = [
    (lambda: refused(scaled), {"y": 0.5}, r"site 'y' is not quadratic in 'x', by the operation"),
    (lambda: refused(logistic), {"y": 1}, r"site 'y' is not quadratic in 'x'"),
    (lambda: refused(heavy_tailed), {}, r"site 'x' is not quadratic in 'x'"),
    (lambda: refused(positive), {}, r"site 'x' has the family Flat, whose support is not"),
    (lambda: refused(product, "xz"), {"y": 0.5}, r"not jointly quadratic in 'x', 'z'.*'square'"),
    (lambda: refused(discrete), {}, r"site 'x' is no array of real numbers.*ppl.Enumerate"),
    (lambda: refused(unknown_level), {}, r"'x' is improper given the rest"),
    (lambda: refused(two_unknown_levels, "xz"), {"y": 0.5}, r"'x', 'z' are improper given"),
    (lambda: refused(wide, most=8), {"y": 0.5}, r"9 elements of 'x' are coupled as a whole"),
    (lambda: refused(wide, ["v"]), {"y": 0.5}, r"has no site 'v'"),
]


@pytest.mark.parametrize("row", range(len(REFUSED)))
def test_what_is_no_gaussian_integral_is_refused(row):
    make, data, message = REFUSED[row]
    with pytest.raises(ValueError, match=message):
        ppl.log_density(ppl.condition(make(), data))({})


def test_one_of_two_factors_of_a_product_is_integrated():
    summed = ppl.condition(refused(product), {"y": 0.5})
    exact = -0.5 * (0.5**2 / 5 + np.log(5) + 2.0**2 + 2 * np.log(2 * np.pi))
    np.testing.assert_allclose(ppl.log_density(summed)({"z": 2.0}), exact, rtol=1e-12)
