"""Counts on a lattice of thousands of sites, beside sparse Cholesky factors of SciPy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as sla
import scipy.special
import scipy.stats as st

import distributions as dist
import ppl
from inference import nested_laplace

pytestmark = pytest.mark.slow


def edges_of(side):
    """The edges of a lattice, two arrays of sites."""
    index = np.arange(side**2).reshape(side, side)
    right = index[:, 1:].ravel(), index[:, :-1].ravel()
    below = index[1:].ravel(), index[:-1].ravel()
    return tuple(np.concatenate(x) for x in zip(right, below, strict=True))


def counts_of(side):
    """Counts whose rates vary smoothly over a lattice."""
    rng = np.random.default_rng(side)
    z = np.cumsum(np.cumsum(rng.normal(size=(side, side)), 0), 1) / side
    return rng.poisson(np.exp(z - z.mean() + 0.5).clip(0, 50)).ravel()


def field(side):
    """A field with normal differences between neighbors, and counts."""
    first, second = edges_of(side)

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
        x = ppl.sample(key, dist.Normal(np.zeros(side**2), 3.0), name="x")
        squares = jnp.sum(jnp.square((x[first] - x[second]) / scale))
        ppl.factor(-0.5 * squares - side**2 * jnp.log(scale), name="differences")
        ppl.sample(key, dist.Poisson(jnp.exp(level + x)), name="y")

    return ppl.condition(model, {"y": counts_of(side)})


def laplace_by_hand(scale, side):
    """The log density of a scale by Laplace's approximation, the mode, precision and design."""
    num = side**2
    first, second = edges_of(side)
    ones = np.ones(len(first))
    rows = np.arange(len(first))
    differences = sp.csr_array((ones, (rows, first)), shape=(len(first), num + 1))
    differences = differences - sp.csr_array((ones, (rows, second)), shape=(len(first), num + 1))
    prior = differences.T @ differences / scale**2
    prior = prior + sp.diags_array(np.append(np.full(num, 1 / 9), 1 / 4))
    design = sp.hstack([sp.eye_array(num), np.ones((num, 1))]).tocsr()
    y = counts_of(side)
    x = np.append(np.zeros(num), np.log(y.mean()))
    for _ in range(30):
        rate = np.exp(design @ x)
        precision = (prior + design.T @ sp.diags_array(rate) @ design).tocsc()
        factor = sla.splu(precision, diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        step = factor.solve(design.T @ (y - rate) - prior @ x)
        x = x + step
        if np.abs(step).max() < 1e-10:
            break
    log_density = st.halfnorm.logpdf(scale, scale=2) - num * math.log(scale)
    log_density -= num * math.log(3) + math.log(2) + (num + 1) / 2 * math.log(2 * math.pi)
    log_density += np.sum(y * (design @ x) - np.exp(design @ x) - scipy.special.gammaln(y + 1))
    log_density -= x @ (prior @ x) / 2
    log_det = np.log(factor.U.diagonal()).sum()
    return log_density - log_det / 2 + (num + 1) / 2 * math.log(2 * math.pi), x, precision, design


def mean_of_level(scale, side):
    """The mean of the level given a scale: its mode, corrected for third derivatives."""
    _, x, precision, design = laplace_by_hand(scale, side)
    covariance = np.linalg.inv(precision.toarray())
    variance = np.einsum("ij,ij->i", design @ covariance, design.toarray())
    slope = -design.T @ (np.exp(design @ x) * variance) / 2
    return (x + covariance @ slope)[-1]


@pytest.mark.usefixtures("x64")
def test_density_of_900_sites_is_that_of_a_sparse_factor():
    sites = dict.fromkeys(["x", "level"], ppl.Laplace(tolerance=1e-10))
    marginal = ppl.marginalize(field(30), sites)
    density = jax.jit(jax.value_and_grad(lambda scale: ppl.log_density(marginal)({"scale": scale})))
    for scale in (0.15, 0.4):
        value, slope = density(scale)
        apart = [laplace_by_hand(scale + shift, 30)[0] for shift in (-1e-5, 0.0, 1e-5)]
        np.testing.assert_allclose(value, apart[1], rtol=1e-9)
        np.testing.assert_allclose(slope, (apart[2] - apart[0]) / 2e-5, rtol=1e-5)


def test_nested_laplace_of_2500_sites_has_the_moments_of_a_grid():
    side = 50
    scales = np.exp(np.linspace(math.log(0.05), math.log(0.6), 60))
    values = np.array([laplace_by_hand(scale, side)[0] for scale in scales])
    weights = np.exp(values - values.max()) * scales
    log_evidence = values.max() + math.log(weights.sum() * math.log(scales[1] / scales[0]))
    weights /= weights.sum()
    mean = weights @ scales
    sd = math.sqrt(weights @ (scales - mean) ** 2)
    reports = []
    result = nested_laplace(jax.random.key(0), field(side), num_draws=300, progress=reports.append)
    assert set(result.integrated) == {"x", "level"}
    average = functools.partial(np.average, weights=np.ravel(result.weights))
    draws = np.ravel(result.draws["scale"])
    assert abs(average(draws) - mean) < 0.15 * sd
    assert abs(math.sqrt(average((draws - mean) ** 2)) / sd - 1) < 0.15
    level = np.ravel(result.draws["level"])
    assert abs(average(level) - mean_of_level(mean, side)) < 0.3 * np.std(level)
    assert abs(float(result.log_evidence) - log_evidence) < 0.2
    assert "300 of 300 points" in [x.text for x in reports if x.phase == "draws"]
