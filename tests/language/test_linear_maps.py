"""marginalize with Gaussian where data choose the step of a chain, or where a design is sparse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import sparse
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

DATA = np.cos(np.arange(8.0) ** 2)
KIND = np.array([0, 1, 2, 0, 1, 1, 2, 0])
SLOPE = 0.6
# An entry of row 4 is alone in its row; row 1 is empty.
DESIGN = np.array([[0.0, 1.5, -0.4], [0.0] * 3, [2.0, 0.0, 0.3], [0.1, 0.7, 0.0], [0.0, 0.0, -1.2]])


def chain(key):
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")

    def step(x, row):
        key, kind = row
        moves = [
            lambda x: x,
            lambda x: slope * x + 1.0,
            lambda x: x / jnp.sqrt(jnp.where(kind == 2, slope, -1.0)),  # NaN if not taken
        ]
        x = ppl.sample(key, dist.Normal(lax.switch(kind, moves, x), 0.7), name="x")
        return x, ppl.sample(key, dist.Normal(x, 1.3), name="y")

    return lax.scan(step, 0.2, (jax.random.split(key, 8), KIND))[1]


def exact_chain(slope):
    mean, row, means, rows = 0.2, np.zeros(8), [], []
    for t, kind in enumerate(KIND):
        factor = [1.0, slope, slope**-0.5][kind]
        mean, row = factor * mean + (kind == 1), factor * row + 0.7 * np.eye(8)[t]
        means.append(mean)
        rows.append(row)
    covariance = np.array(rows) @ np.transpose(rows) + 1.3**2 * np.eye(8)
    return stats.multivariate_normal.logpdf(DATA, means, covariance)  # pyright: ignore


def regression_on(kind, *, is_left=False):
    design = kind.fromdense(jnp.asarray(DESIGN.T if is_left else DESIGN))

    def model(key):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), slope), name="x")
        return ppl.sample(key, dist.Normal(x @ design if is_left else design @ x, 0.8), name="y")

    return model


def exact_regression(slope):
    covariance = slope**2 * DESIGN @ DESIGN.T + 0.64 * np.eye(5)
    return stats.multivariate_normal.logpdf(DATA[:5], np.zeros(5), covariance)


def check(model, data, exact):
    """The density and its slope are those of the normal vector, times the prior of the slope."""
    summed = ppl.marginalize(ppl.condition(model, {"y": data}), {"x": ppl.Gaussian()})
    density = lambda slope: ppl.log_density(summed)({"slope": slope})  # noqa: E731
    joint = lambda slope: exact(slope) + stats.norm.logpdf(slope)  # noqa: E731
    found, derivative = jax.jit(jax.value_and_grad(density))(SLOPE)
    np.testing.assert_allclose(found, joint(SLOPE), rtol=1e-12)
    difference = (joint(SLOPE + 1e-5) - joint(SLOPE - 1e-5)) / 2e-5
    np.testing.assert_allclose(derivative, difference, rtol=1e-7)


def test_data_choose_the_step_of_a_chain():
    """The derivative of a step that is not taken would be NaN."""
    check(chain, DATA, exact_chain)


@pytest.mark.parametrize("kind", [sparse.BCOO, sparse.BCSR], ids=lambda kind: kind.__name__)
def test_a_design_is_sparse(kind):
    check(regression_on(kind), DATA[:5], exact_regression)


def test_a_sparse_design_stands_on_the_right():
    check(regression_on(sparse.BCOO, is_left=True), DATA[:5], exact_regression)


@pytest.mark.parametrize("kind", [sparse.COO, sparse.CSR], ids=lambda kind: kind.__name__)
def test_a_kind_of_sparse_design_that_has_no_batches_is_an_error(kind):
    with pytest.raises(ValueError, match=r"'y' depends on 'x' by the operation .*BCOO or BCSR"):
        check(regression_on(kind), DATA[:5], exact_regression)
