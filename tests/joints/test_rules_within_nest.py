"""A rule of `marginalize` within `nest`, and what comes outside of both: the rule sees the data.

The oracle is the multivariate normal density of the sites with data, in SciPy.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

X = np.array([0.3, -0.5])
Y = np.array([0.6, -1.0])
U = 0.2
GAP = np.nan


def model(key):
    loc = ppl.param(0.0, name="loc")
    u = ppl.sample(key, dist.StudentT(4.0, 0.0, 1.0), name="u")
    v = ppl.sample(key, dist.Normal(loc, 1.0), name="v")
    x = ppl.sample(key, dist.Normal(v * jnp.ones(2), 0.7), name="x")
    shift = ppl.deterministic(0.0 * x, name="shift")
    ppl.sample(key, dist.Normal(x + u + shift, 0.5), name="y")
    ppl.factor(-(u**2), name="f")


def log_density(x=(GAP, GAP), y=Y, v=GAP, loc=0.0, u=U):
    """The log density of v, x and y without gaps and of u."""
    values = np.array([v, *x, *y])
    means = np.array([loc, loc, loc, loc + u, loc + u])
    roots = np.zeros((5, 5))  # of v, the errors of x and those of y
    roots[:, 0] = 1.0
    roots[1:3, 1:3] = roots[3:, 1:3] = 0.7 * np.eye(2)
    roots[3:, 3:] = 0.5 * np.eye(2)
    known = ~np.isnan(values)
    covariance = (roots @ roots.T)[np.ix_(known, known)]
    given_u = stats.multivariate_normal.logpdf(values[known], means[known], covariance)  # pyright: ignore[reportArgumentType]
    return given_u + stats.t.logpdf(u, 4) - u**2


IN_PART = np.array([0.25, GAP])


def nested(path, **values):
    for scope in reversed(path):
        values = {scope: values}
    return values


def blocked(f, path):
    return ppl.block(f, [".".join((*path, "f"))])


CASES = {  # data within, data outside, what stands between, the log density
    "condition": ({"y": Y}, {"x": X}, None, log_density(X)),
    "latent": ({"y": Y}, {"v": 0.4}, None, log_density(v=0.4)),
    "data": ({}, {"y": Y}, None, log_density()),
    "impute": ({"y": Y}, {"x": ppl.impute(IN_PART)}, None, log_density(IN_PART)),
    "ignore": ({}, {"x": X, "y": ppl.ignore(IN_PART)}, None, log_density(X, IN_PART)),
    "scale": ({"y": Y}, {"x": X}, lambda f, _: ppl.scale(f, 2.0), 2.0 * log_density(X)),
    "block": ({"y": Y}, {"x": X}, blocked, log_density(X) + U**2),
    "intervene": (
        {"y": Y},
        {"x": X},
        lambda f, path: ppl.intervene(f, nested(path, shift=np.array([0.5, 0.5]))),
        log_density(X, Y - 0.5),
    ),
    "with_params": (
        {"y": Y},
        {"x": X},
        lambda f, path: ppl.with_params(f, nested(path, loc=0.5)),
        log_density(X, loc=0.5),
    ),
    "reparam": (
        {"y": Y},
        {"x": X},
        lambda f, _: ppl.reparam(f, ppl.auto_reparam),
        log_density(X),
    ),
}


@pytest.mark.parametrize("path", [("a",), ("b", "a")])
@pytest.mark.parametrize(("inner", "outer", "between", "expected"), CASES.values(), ids=CASES)
def test_data_outside_of_nest(inner, outer, between, expected, path):
    made = ppl.condition(ppl.marginalize(model, ppl.auto_marginal), inner)
    for scope in reversed(path):
        made = ppl.nest(made, scope=scope)
    if between is not None:
        made = between(made, path)
    made = ppl.condition(made, nested(path, **outer))
    found = jax.jit(ppl.log_density(made))(nested(path, u=U))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_data_of_a_nested_model_are_its_leaves():
    """So that new data of the same shapes do not recompile."""
    made = ppl.nest(ppl.condition(ppl.marginalize(model, ppl.auto_marginal), {"y": Y}), scope="a")
    np.testing.assert_array_equal(jax.tree.leaves(made)[0], Y)
    density = jax.jit(lambda made, u: ppl.log_density(made)({"a": {"u": u}}))
    changed = jax.tree.map(lambda y: y - 0.1, made)
    np.testing.assert_allclose(density(made, U), log_density(), rtol=1e-10)
    np.testing.assert_allclose(density(changed, U), log_density(y=Y - 0.1), rtol=1e-10)


class Unhashable:
    """A model with the equality of its contents, and so without a hash."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __call__(self, key):
        return ppl.sample(key, dist.Normal(0.0, 1.0), name="x")


def test_a_nested_model_is_any_function_of_a_key():
    made = ppl.condition(ppl.nest(Unhashable(), scope="a"), {"a": {"x": 0.3}})
    np.testing.assert_allclose(ppl.log_density(made)({}), stats.norm.logpdf(0.3))
    with pytest.raises(TypeError, match=r"model 'model' cannot be called with .*: too many"):
        ppl.log_density(ppl.nest(ppl.nest(model, scope="a"), scope="b"))({}, 1.0)
