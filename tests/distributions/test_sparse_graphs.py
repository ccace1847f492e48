"""CAR and ICAR over graphs by their edges, beside dense matrices of NumPy."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.stats as st

import distributions as dist
import ppl
from distributions.common.sparse_graph import SparseGraph, read_sparse

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")


def lattice(rows: int, columns: int, dtype: Any = float) -> Any:
    """A lattice with random weights."""
    index = np.arange(rows * columns).reshape(rows, columns)
    first = np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])
    second = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(first)).astype(dtype)
    upper = sp.coo_array((weights, (first, second)), shape=(index.size, index.size))
    return upper + upper.T


def path(num: int) -> Any:
    first = np.arange(num - 1)
    upper = sp.coo_array((np.ones(num - 1), (first, first + 1)), shape=(num, num))
    return upper + upper.T


CORRELATION = np.array([0.9, -0.4, 0.999])
GRAPH = lattice(13, 21)
NUM = GRAPH.shape[0]
X = np.random.default_rng(1).normal(size=NUM)


def car(correlation: Any, graph: Any, precision: Any = 1.7) -> Any:
    return dist.CAR(0.3, correlation=correlation, conditional_precision=precision, adj_matrix=graph)


@pytest.fixture(scope="module")
def truth():
    dense = GRAPH.toarray()
    covariances = [
        np.linalg.inv(1.7 * (np.diag(dense.sum(0)) - c * dense)) for c in CORRELATION.tolist()
    ]
    return [st.multivariate_normal(np.full(NUM, 0.3), x) for x in covariances]


@pytest.mark.parametrize("graph", [GRAPH, GRAPH.toarray()], ids=["sparse", "dense"])
def test_densities_and_moments_are_dense_ones(graph, truth, x64):
    d = car(CORRELATION, graph)
    assert isinstance(d.adj_matrix, SparseGraph)
    expected = [each.logpdf(X) for each in truth]
    np.testing.assert_allclose(d.log_prob(X), expected, rtol=1e-11)
    np.testing.assert_allclose(d.entropy(), [each.entropy() for each in truth], rtol=1e-11)
    variances = [np.diag(each.cov) for each in truth]
    np.testing.assert_allclose(d.variance(), variances, rtol=1e-9)
    traced = jax.jit(lambda graph: car(CORRELATION, graph).log_prob(X))(GRAPH.toarray())
    np.testing.assert_allclose(traced, expected, rtol=1e-11)


def test_slopes_are_those_of_a_traced_matrix(x64):
    def slopes(graph):
        score = lambda c, t, x: car(c, graph, t).log_prob(x)  # noqa: E731
        return jax.grad(score, (0, 1, 2))(0.9, 1.7, jnp.asarray(X))

    found = jax.tree.leaves(jax.jit(lambda: slopes(GRAPH))())
    expected = jax.tree.leaves(jax.jit(slopes)(GRAPH.toarray()))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_draws_and_standard_forms_are_by_a_factor(truth, x64):
    d = car(CORRELATION, GRAPH)
    _, forward, inverse = d.standard_form()
    z = inverse(jnp.asarray(X))
    np.testing.assert_allclose(forward(z), np.tile(X, (3, 1)), rtol=1e-9)
    log_dets = [np.linalg.slogdet(each.cov)[1] / 2 for each in truth]
    scores = st.norm.logpdf(z).sum(-1) - log_dets
    np.testing.assert_allclose(scores, [each.logpdf(X) for each in truth], rtol=1e-10)
    # Limits of 819 variances and 223,000 products of 2,000 draws each: 6 and 7 sd.
    draws = d.sample(jax.random.key(0), (2000,))
    assert draws.shape == (2000, 3, NUM)
    for i, each in enumerate(truth):
        white = np.linalg.solve(np.linalg.cholesky(each.cov), (draws[:, i] - 0.3).T)
        assert abs((white**2).mean(1) - 1).max() < 6 * np.sqrt(2 / 2000)
        assert abs(white @ white.T / 2000 - np.eye(NUM)).max() < 7 / np.sqrt(2000)


def test_single_precision_stays_and_leaves_are_numbers():
    d = car(np.float32(0.9), lattice(13, 21, np.float32), np.float32(1.7))
    found = d.log_prob(np.float32(X)), d.variance(), d.sample(jax.random.key(0))
    assert {x.dtype for x in found} == {np.dtype(np.float32)}
    stacked = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 3), d)
    scores = jax.vmap(lambda d: d.log_prob(np.float32(X)))(stacked)
    np.testing.assert_allclose(scores, d.log_prob(np.float32(X)), rtol=1e-6)
    same: Any = jax.jit(lambda d: d.log_prob(np.float32(X)))
    assert same(d) == same(car(np.float32(0.9), lattice(13, 21, np.float32), np.float32(1.7)))
    assert same._cache_size() == 1


def test_a_path_of_10_000_vertices_has_its_known_determinant(x64):
    num = 10_000
    waves = np.cos(np.pi * np.arange(num) / (num - 1))
    x = np.cumsum(np.random.default_rng(0).normal(size=num))
    degrees = np.full(num, 2.0)
    degrees[[0, -1]] = 1
    square = degrees @ x**2 - 2 * 0.999 * x[1:] @ x[:-1]
    log_det = np.log(degrees).sum() + np.log1p(-0.999 * waves).sum()
    expected = 0.5 * (log_det - square - num * np.log(2 * np.pi))
    d = dist.CAR(0.0, correlation=0.999, conditional_precision=1.0, adj_matrix=path(num))
    np.testing.assert_allclose(d.log_prob(x), expected, rtol=1e-10)
    assert d.sample(jax.random.key(0)).shape == (num,)


def test_an_intrinsic_field_of_10_000_vertices_has_islands(x64):
    graph = sp.block_diag([lattice(100, 99), path(100)])
    x = np.random.default_rng(0).normal(size=10_000)
    entries = sp.triu(graph, 1).tocoo()
    edges = entries.data @ (x[entries.row] - x[entries.col]) ** 2
    d = dist.ICAR(scale=1.5, adj_matrix=graph)
    expected = -edges / 2 / 1.5**2 - 9998 * (np.log(1.5) + np.log(2 * np.pi) / 2)
    np.testing.assert_allclose(d.log_prob(x), expected, rtol=1e-11)
    _, forward, _ = d.standard_form()
    level = np.repeat([x[:9900].mean(), x[9900:].mean()], [9900, 100])
    np.testing.assert_allclose(forward(jnp.asarray(x)), level + 1.5 * (x - level), rtol=1e-9)


BAD = {
    "row 0, column 1 and 0.0 in row 1, column 0 .* matrix . matrix.T": sp.triu(path(3)),
    "got 1.0 in row 0, column 0": sp.eye_array(3),
    "got -1.0 in row 0, column 1": -path(3),
    "got row 2 of zeros": sp.block_diag([path(2), np.zeros((1, 1))]),
    r"shape \(2, 3\), which is not square": sp.coo_array(np.ones((2, 3))),
    "dtype complex128": path(3).astype(complex),
}


@pytest.mark.parametrize("message", BAD)
def test_matrices_of_no_graph_are_told(message):
    with pytest.raises(ValueError, match=f"CAR: adj_matrix must be symmetric, .*{message}"):
        car(0.5, BAD[message])
    with pytest.raises(ValueError, match="the shapes of the parameters do not broadcast"):
        dist.CAR(
            np.zeros(4),
            correlation=0.5,
            conditional_precision=1.0,
            adj_matrix=sp.csr_array(path(3)),
        )


def test_integrals_over_a_field_are_dense_ones(x64):
    y = np.random.default_rng(2).normal(size=NUM)

    def model(key):
        correlation = ppl.sample(key, dist.Uniform(0.0, 1.0), name="correlation")
        x = ppl.sample(key, car(correlation, GRAPH), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")

    marginal = ppl.marginalize(ppl.condition(model, {"y": y}), {"x": ppl.Gaussian()})
    dense = GRAPH.toarray()
    for c in (0.3, 0.95):
        covariance = np.linalg.inv(1.7 * (np.diag(dense.sum(0)) - c * dense)) + 0.25 * np.eye(NUM)
        expected = st.multivariate_normal(np.full(NUM, 0.3), covariance).logpdf(y)
        found = ppl.log_density(marginal)({"correlation": c})
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_graphs_are_equal_by_their_edges():
    assert read_sparse(GRAPH) == read_sparse(GRAPH.tocsc())
    assert read_sparse(GRAPH) != read_sparse(2 * GRAPH)
    assert hash(read_sparse(GRAPH)) == hash(read_sparse(GRAPH.tocsc()))
