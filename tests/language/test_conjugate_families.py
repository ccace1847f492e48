"""conditional of matrices and of truncated numbers: textbook parameters, and what has none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import distributions as dist
import ppl

ROWS = np.array([[0.3, 1.0], [-0.5, 0.4], [1.2, -0.7], [0.1, 0.9], [2.0, 0.3]])
SCALE = np.array([[2.0, 0.5], [0.5, 1.0]])
SQUARE = ROWS.T @ ROWS
X = np.array([0.3, -1.0, 2.0, 1.2])


def of_precision(key, unit=1.0):
    x = ppl.sample(key, dist.Wishart(4.0, scale=SCALE / unit**2), name="x")
    return ppl.sample(key, dist.MultivariateNormal(np.zeros((5, 2)), precision=x), name="y")


def of_covariance(key, unit=1.0):
    x = ppl.sample(key, dist.InverseWishart(4.0, scale=unit**2 * SCALE), name="x")
    return ppl.sample(key, dist.MultivariateNormal(np.zeros((5, 2)), covariance=x), name="y")


def of_factor(key):
    """A covariance by its Cholesky factor, and a scale by its own."""
    prior = dist.InverseWishart(4.0, scale_tril=np.linalg.cholesky(SCALE))
    factor = jnp.linalg.cholesky(ppl.sample(key, prior, name="x"))
    d = dist.MultivariateNormal(np.zeros((5, 2)), scale_tril=factor)
    return ppl.sample(key, d, name="y")


def of_groups(key):
    """A matrix for each of two groups, with an unknown mean beside it."""
    mean = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="mean")
    x = ppl.sample(key, dist.iid(dist.Wishart(4.0, scale=SCALE), (2,)), name="x")
    d = dist.MultivariateNormal(mean, precision=x[np.array([0, 0, 0, 1, 1])])
    return ppl.sample(key, d, name="y")


def of_scale(key):
    """A Wishart matrix with a scale whose inverse is Wishart."""
    x = ppl.sample(key, dist.Wishart(4.0, scale=SCALE), name="x")
    return ppl.sample(key, dist.InverseWishart(6.0, scale=x), name="y")


def of_positive_mean(key):
    x = ppl.sample(key, dist.Truncated(dist.Normal(0.5, 2.0), low=0.0), name="x")
    return ppl.sample(key, dist.Normal(x * np.ones(4), 1.5), name="y")


def of_mean_between(key):
    x = ppl.sample(key, dist.TruncatedNormal(0.5, 2.0, -1.0, 0.2), name="x")
    return ppl.sample(key, dist.Normal(x * np.ones(4), 1.5), name="y")


def of_half_normal(key):
    """A mean far below the bound."""
    x = ppl.sample(key, dist.HalfNormal(2.0), name="x")
    return ppl.sample(key, dist.Normal(x * np.ones(4), 0.1), name="y")


def of_capped_rate(key):
    x = ppl.sample(key, dist.Truncated(dist.Gamma(2.0, 1.0), high=1.5), name="x")
    return ppl.sample(key, dist.Poisson(x * np.ones(4)), name="y")


def inverse(x):
    return np.linalg.inv(x)


def between(prior_loc, prior_scale, scale, data):
    """Mean and standard deviation before truncation."""
    precision = prior_scale**-2 + len(data) * scale**-2
    mean = (prior_loc * prior_scale**-2 + np.sum(data) * scale**-2) / precision
    return mean, precision**-0.5


def squares(mean):
    groups = ROWS[:3] - mean, ROWS[3:] - mean
    return np.stack([g.T @ g for g in groups])


NEGATIVE = X - 5.0
COUNTS = np.array([0, 2, 1, 1])
CASES = {
    "precision": (of_precision, "Wishart", (9.0, inverse(inverse(SCALE) + SQUARE))),
    "covariance": (of_covariance, "InverseWishart", (9.0, SCALE + SQUARE)),
    "factor": (of_factor, "InverseWishart", (9.0, SCALE + SQUARE)),
    "groups": (of_groups, "Wishart", ([7.0, 6.0], inverse(inverse(SCALE) + squares([0.5, 0])))),
    "scale": (of_scale, "Wishart", (10.0, inverse(inverse(SCALE) + inverse(SQUARE)))),
    "positive": (of_positive_mean, "Truncated", (*between(0.5, 2, 1.5, X), 0, np.inf)),
    "between": (of_mean_between, "TruncatedNormal", (*between(0.5, 2, 1.5, X), -1, 0.2)),
    "half": (of_half_normal, "TruncatedNormal", (*between(0, 2, 0.1, NEGATIVE), 0, np.inf)),
    "capped": (of_capped_rate, "Truncated", (2.0 + COUNTS.sum(), 5.0, 0, 1.5)),
}
DATA = {"scale": SQUARE, "positive": X, "between": X, "half": NEGATIVE, "capped": COUNTS}


def look(name, values, data):
    model, _, _ = CASES[name]
    posterior = ppl.condition(model, {"y": data})
    values = values if name == "groups" else {}
    return ppl.conditional(posterior, "x")(values)


def check(name, found, rtol):
    _, family, exact = CASES[name]
    assert type(found).__name__ == family
    leaves = [x for x in jax.tree.leaves(found) if x is not None]
    for leaf, parameter in zip(leaves, exact, strict=True):
        np.testing.assert_allclose(leaf, parameter, rtol=rtol)


@pytest.mark.quick_rows("covariance", "half")
@pytest.mark.parametrize("name", CASES)
def test_parameters_are_those_of_textbooks(name):
    """In single precision, with traced values and data."""
    found = jax.jit(lambda *args: look(name, *args))
    data = np.asarray(DATA.get(name, ROWS), np.int32 if name == "capped" else np.float32)
    mean = np.asarray([0.5, 0.0], np.float32)
    # Far from a bound, densities hardly depend on the mean and the scale before truncation.
    check(name, found({"mean": mean}, data), 2e-3 if name == "half" else 2e-5)


@pytest.mark.quick_rows("precision", "between")
@pytest.mark.parametrize("name", ["precision", "factor", "positive", "between", "capped"])
def test_log_probs_differ_from_the_density_by_a_constant(name, x64):
    posterior = ppl.condition(CASES[name][0], {"y": DATA.get(name, ROWS)})
    found = ppl.conditional(posterior, "x")({})
    draws = found.sample(key(0), (6,))
    density = jax.jit(jax.vmap(ppl.log_density(posterior)))({"x": draws})
    constants = found.log_prob(draws) - density
    np.testing.assert_allclose(constants, constants[0], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-3, 1e3])
@pytest.mark.parametrize("model", [of_precision, of_covariance])
def test_matrices_of_any_unit_keep_their_parameters(model, unit):
    posterior = ppl.condition(lambda key: model(key, unit), {"y": np.float32(unit * ROWS)})
    found = jax.jit(lambda: ppl.conditional(posterior, "x")({}))()
    scale = inverse(SCALE) + SQUARE if model is of_precision else SCALE + SQUARE
    exact = inverse(unit**2 * scale) if model is of_precision else unit**2 * scale
    np.testing.assert_allclose(found.df, 9.0, rtol=1e-4)
    np.testing.assert_allclose(found.scale, exact, rtol=1e-4)


def unlike(key):
    """Sites of these families whose full conditional lies in none."""
    wrong = ppl.sample(key, dist.Wishart(4.0, scale=SCALE), name="covariance")
    ppl.sample(key, dist.MultivariateNormal(np.zeros((5, 2)), covariance=wrong), name="a")
    pair = ppl.sample(key, dist.iid(dist.Wishart(4.0, scale=SCALE), (2,)), name="sum")
    ppl.sample(key, dist.MultivariateNormal(np.zeros((5, 2)), precision=pair.sum(0)), name="b")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    ppl.sample(key, dist.Normal(np.zeros(4), scale), name="c")
    capped = ppl.sample(key, dist.Truncated(dist.Normal(0.0, 1.0), low=0.0), name="capped")
    ppl.factor(jnp.where(capped < 5.0, 0.0, -jnp.inf), name="cap")
    bound = ppl.sample(key, dist.HalfNormal(1.0), name="bound")
    ppl.sample(key, dist.Truncated(dist.Normal(0.0, 1.0), low=bound), name="bounded")


@pytest.mark.quick_rows("covariance", "capped")
@pytest.mark.parametrize("site", ["covariance", "sum", "scale", "capped", "bound", "bounded"])
def test_other_forms_are_refused(site):
    posterior = ppl.condition(unlike, {"a": ROWS, "b": ROWS, "c": X})
    values = {"covariance": SCALE, "sum": np.stack([SCALE, SCALE]), "scale": 1.0, "capped": 1.0}
    values |= {"bound": 0.5, "bounded": 1.0}
    assert ppl.conditional(posterior, site)(values) is None


def of_tilted_mean(key, tilt):
    x = ppl.sample(key, dist.TruncatedNormal(0.0, 1.0, 0.0, 1.0), name="x")
    ppl.factor(tilt * x**2 / 2, name="tilt")


def of_tilted_rate(key, tilt):
    x = ppl.sample(key, dist.Truncated(dist.Gamma(2.0, 1.0), high=1.5), name="x")
    ppl.factor(tilt * x, name="tilt")


@pytest.mark.quick_rows("mean-1.0", "mean-0.98")
@pytest.mark.parametrize("tilt", [0.98, 1.0, 4.0])
@pytest.mark.parametrize("model", [of_tilted_mean, of_tilted_rate], ids=["mean", "rate"])
def test_improper_densities_before_truncation_are_refused(model, tilt):
    """At a tilt of 1, the density is flat, or that of a power: of no normal, of no gamma one."""
    found = ppl.conditional(model, "x")({}, tilt)
    if tilt >= 1:
        assert found is None
        return
    parameter = found.scale**-2 if model is of_tilted_mean else found.distribution.rate
    np.testing.assert_allclose(parameter, 0.02, rtol=1e-3)
