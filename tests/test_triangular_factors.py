"""Cholesky factors and triangular solves: right, and never split over threads that wait."""

import math
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import distributions as dist
import ppl
from distributions.common import triangular_factors

ROOT = pathlib.Path(__file__).parent.parent
CALL = re.compile(r"custom_call @(lapack_\w+)\(.*?\) \{.*\} : \((.*)\) -> ")
SPLIT = 200_000  # operations of one call from which jaxlib 0.10 splits it
TIMES = {"syevd": 5}  # operations over the cube of the size, where they are more


def split_calls(function, *args):
    """The calls of LAPACK for several matrices that jaxlib would split, by name and shape."""
    text = jax.jit(function).lower(*args).as_text()
    assert text.count("custom_call @lapack") == len(CALL.findall(text))
    shapes = [
        (name, tuple(map(int, re.findall(r"(\d+)x", operands.split("tensor<")[-1]))))
        for name, operands in CALL.findall(text)
    ]
    work = [
        TIMES.get(name[8:-4], 1) * math.prod(shape) * shape[-2] * (math.prod(shape[:-2]) > 1)
        for name, shape in shapes
    ]
    return [call for call, count in zip(shapes, work, strict=True) if count >= SPLIT]


def rows(make, size, num=6000):
    """The total log density of two tables of rows, each with its own matrices."""
    matrix = jnp.broadcast_to(jnp.eye(size), (num, size, size))
    data = matrix if make(matrix).event_shape[1:] else matrix[..., 0] * 0.5
    return lambda a, b: make(a).log_prob(data).sum() + make(b).log_prob(data).sum(), matrix


FAMILIES = {
    "MultivariateNormal": lambda m: dist.MultivariateNormal(0.0, scale_tril=m),
    "MultivariateNormal, covariance": lambda m: dist.MultivariateNormal(0.0, covariance=m),
    "MultivariateStudentT": lambda m: dist.MultivariateStudentT(3.0, 0.0, precision=m),
    "Wishart": lambda m: dist.Wishart(20.0, scale_tril=m),
    "MatrixNormal": lambda m: dist.MatrixNormal(
        jnp.zeros_like(m), scale_tril_row=m, scale_tril_column=m
    ),
    "CAR": lambda m: dist.CAR(0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=1.0 - m),
    "KroneckerNormal": lambda m: dist.KroneckerNormal(
        0.0, scale_trils=(m, m[..., :1, :1]), noise_scale=0.5
    ),
}


@pytest.mark.parametrize("size", [3, 9])
@pytest.mark.parametrize("name", FAMILIES)
def test_no_density_of_many_rows_has_calls_that_are_split(name, size):
    total, matrix = rows(FAMILIES[name], size)
    assert split_calls(jax.value_and_grad(total, (0, 1)), matrix, matrix) == []


def test_the_count_sees_calls_that_are_split():
    batch = jnp.broadcast_to(jnp.eye(9), (6000, 9, 9))
    assert split_calls(jnp.linalg.cholesky, batch) == [("lapack_spotrf_ffi", (6000, 9, 9))]
    assert split_calls(jnp.linalg.cholesky, batch[:9]) == split_calls(jnp.sum, batch) == []
    assert split_calls(jnp.linalg.eigh, batch[:60]) == [("lapack_ssyevd_ffi", (60, 9, 9))]


def missing_rows(key):
    mu = ppl.sample(key, dist.Normal(jnp.zeros(9), 2.0), name="mu")
    normal = dist.MultivariateNormal(jnp.broadcast_to(mu, (300, 9)), covariance=jnp.eye(9))
    ppl.sample(key, normal, name="rows")


def two_processes(key):
    at = jnp.linspace(0.0, 1.0, 40)[:, None]
    for name in "fg":
        scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name=f"{name}.scale")
        kernel = lambda a, b, scale=scale: jnp.exp(-jnp.sum((a - b) ** 2) / scale)  # noqa: E731
        process = dist.GaussianProcess(kernel, at, observation_noise_variance=0.1)
        ppl.sample(key, process, name=name)


def test_no_model_mapped_over_draws_has_calls_that_are_split():
    data = np.where(np.arange(2700).reshape(300, 9) % 7 == 0, np.nan, 0.5)
    given = ppl.condition(missing_rows, {"rows": ppl.impute(data)})
    model = ppl.marginalize(given, {"rows": ppl.Gaussian()})
    assert split_calls(ppl.recover(model, {"mu": jnp.zeros((160, 9))}), jax.random.key(0)) == []
    score = ppl.log_density(ppl.condition(two_processes, {"f": jnp.ones(40), "g": jnp.ones(40)}))
    draws = {"f.scale": jnp.ones(100), "g.scale": jnp.ones(100)}
    assert split_calls(jax.vmap(jax.value_and_grad(score)), draws) == []


def test_both_packages_have_the_same_file():
    ours = ROOT / "ppl/marginal/triangular_factors.py"
    assert ours.read_text() == (ROOT / "distributions/common/triangular_factors.py").read_text()


def by_parts(matrix, x, transposed):
    tril = triangular_factors.cholesky(matrix)
    return tril, triangular_factors.solve_lower(tril, x, transposed=transposed)


def by_jax(matrix, x, transposed):
    tril = jnp.linalg.cholesky(matrix)
    return tril, lax.linalg.triangular_solve(
        tril, x, left_side=True, lower=True, transpose_a=transposed
    )


# Arithmetic, parts of a batch, and one call: jax.vmap maps the factors, or the vectors alone.
@pytest.mark.parametrize(("size", "num"), [(5, 20), (7, 300), (7, 1)])
def test_values_and_derivatives_are_those_of_lapack(size, num, x64):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(num, size, size + 2))
    matrix = jnp.asarray(root @ root.mT + np.eye(size))
    x = jnp.asarray(rng.normal(size=(num, size, 2)))

    def found(of, transposed):
        def total(matrix, x):
            tril, y = of(matrix, x, transposed)
            return jnp.sum(jnp.sin(y)) + jnp.sum(tril**3)

        change = jax.jvp(jax.grad(total, (0, 1)), (matrix, x), (matrix, x[::-1]))
        mapped = jax.vmap(jax.grad(total, 1), (None, 0))(matrix[0], x)
        return total(matrix, x), change, mapped

    for transposed in (False, True):
        mine = jax.jit(lambda t=transposed: found(by_parts, t))()
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9),
            *(mine, found(by_jax, transposed)),
        )


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    singular = jnp.broadcast_to(jnp.ones((3, 3)), (20, 3, 3))
    assert np.isnan(triangular_factors.cholesky(singular)[:, -1, -1]).all()


def test_matrices_without_rows_are_solved_for_one_factor_or_many():
    empty, vectors = jnp.zeros((0, 0)), jnp.zeros((20, 0, 2))
    solve = jax.vmap(triangular_factors.solve_lower, (None, 0))
    assert jax.jit(solve)(empty, vectors).shape == vectors.shape
    assert jax.vmap(triangular_factors.cholesky)(jnp.zeros((20, 0, 0))).shape == (20, 0, 0)
