"""Densities that need eigenvectors, for many matrices: against SciPy's dense normal density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
from distributions.common import eigenvectors

NUM = 40  # matrices of 9 rows; calls take 27
STEP = 1e-4


def car(c, precision, graph, x):
    return dist.CAR(0.0, correlation=c, conditional_precision=precision, adj_matrix=graph).log_prob(
        x
    )


def dense_car(c, precision, graph, x):
    matrix = precision * (np.diag(graph.sum(-1)) - c * graph)
    return st.multivariate_normal(cov=np.linalg.inv(matrix)).logpdf(x)


def kronecker(first, second, noise, x):
    return dist.KroneckerNormal(0.0, scale_trils=(first, second), noise_scale=noise).log_prob(x)


def dense_kronecker(first, second, noise, x):
    covariance = np.kron(first @ first.T, second @ second.T) + noise**2 * np.eye(len(x))
    return st.multivariate_normal(cov=covariance).logpdf(x)


def rows_of_car(rng):
    def graph():
        upper = np.triu(rng.uniform(0.5, 2.0, (NUM, 9, 9)), 1)
        return upper + upper.swapaxes(-1, -2)

    numbers, vectors = rng.uniform(0.5, 0.9, (2, NUM)), rng.normal(size=(2, NUM, 9))
    direction = np.full(NUM, -1.3), np.full(NUM, 0.3), graph() - 1.2, vectors[0]
    return (*numbers, graph(), vectors[1]), direction


def rows_of_kronecker(rng):
    def trils(n):
        return np.tril(rng.normal(size=(NUM, n, n)), -1) + np.eye(n)

    at = (trils(9), trils(2), rng.uniform(0.5, 2.0, NUM), rng.normal(size=(NUM, 18)))
    return at, (trils(9), trils(2), np.full(NUM, 0.3), rng.normal(size=(NUM, 18)))


def along(density, at, direction):
    """The density along a line, on which what has no direction is constant."""
    pairs = list(zip(at, direction, strict=True))
    return lambda t: density(*(x if d is None else x + t * d for x, d in pairs))


def differences(density, at, direction):
    """The value, slope and curvature of a density along a line."""
    f = along(density, at, direction)
    below, middle, above = f(-STEP), f(0.0), f(STEP)
    return middle, (above - below) / (2 * STEP), (above - 2 * middle + below) / STEP**2


def row(arrays, i):
    return [x if x is None else x[i] for x in arrays]


@pytest.mark.parametrize(
    ("density", "dense", "make"),
    [(car, dense_car, rows_of_car), (kronecker, dense_kronecker, rows_of_kronecker)],
    ids=["CAR", "KroneckerNormal"],
)
def test_mapped_derivatives_are_those_of_the_dense_normal(density, dense, make, x64):
    at, direction = make(np.random.default_rng(0))
    value_and_slope = jax.value_and_grad(lambda t, *line: along(density, *line)(t))
    found = jax.jit(jax.vmap(value_and_slope, (None, 0, 0)))(0.0, at, direction)
    expected = [differences(dense, row(at, i), row(direction, i)) for i in range(NUM)]
    np.testing.assert_allclose(np.stack(found, -1), np.array(expected)[:, :2], rtol=1e-6, atol=1e-6)
    if density is kronecker:  # with second derivatives in the noise and the vector alone
        direction = (None, None, *direction[2:])
        expected = [differences(dense, row(at, i), row(direction, i)) for i in range(NUM)]
    curvature = jax.grad(jax.grad(lambda t, *line: along(density, *line)(t)))
    found = jax.jit(jax.vmap(curvature, (None, 0, 0)))(0.0, at, direction)
    np.testing.assert_allclose(found, np.array(expected)[:, 2], rtol=1e-4, atol=1e-4)


def test_decompositions_in_parts_are_those_of_jax(x64):
    root = np.random.default_rng(1).normal(size=(50, 9, 9))
    matrix = jnp.asarray(root + root.mT)

    def found(of):
        def total(x):
            values, vectors = jax.vmap(of)(x)
            return jnp.sum(jnp.sin(values)) + jnp.sum(jnp.square(vectors) * jnp.arange(9.0))

        change = jax.jvp(jax.grad(total), (matrix,), (matrix[::-1],))
        return jax.vmap(of)(matrix), change

    mine = jax.jit(found, static_argnums=0)(eigenvectors.eigh)
    theirs = found(lambda x: tuple(jnp.linalg.eigh(x)))
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert eigenvectors.eigh(jnp.zeros((20, 0, 0)))[1].shape == (20, 0, 0)


def test_decompositions_over_devices_keep_their_sharding():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
    matrix = jnp.broadcast_to(jnp.eye(9), (50, 9, 9))
    with jax.set_mesh(mesh):
        spread = jax.device_put(matrix, jax.NamedSharding(mesh, jax.P("i", None, None)))
        values, vectors = jax.jit(eigenvectors.eigh)(spread)
    assert values.sharding.spec[0] == vectors.sharding.spec[0] == "i"
    np.testing.assert_allclose(values, 1.0, rtol=1e-6)
