"""A site in a cond whose predicate `vmap` maps, in front of mcmc, loo and svi.

The oracles are integrals by SciPy's densities on a grid, with `if` for each element.
"""

# ruff: noqa: E731

import functools
from typing import Any

import arviz
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from scipy import special, stats

import distributions as dist
import inference
import ppl
from tests.inference.test_psis import arviz_psis

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")
FLAGS = np.array([True, False, True, False])
Y = np.array([1.4, -2.0, 3.0, 0.6])
MU, X = np.linspace(-7.0, 7.0, 281), np.linspace(-25.0, 25.0, 2001)
Z = 5.0  # standard errors


def model(key, flags):
    a, b, c = split(key, 3)
    mu = ppl.sample(a, dist.Normal(0.0, 1.0), name="mu")

    def element(flag, key):
        high = lambda: ppl.sample(key, dist.Normal(mu + 1.0, 2.0), name="x")
        low = lambda: ppl.sample(key, dist.Logistic(mu, 0.5), name="x")
        return lax.cond(flag, high, low)

    x = jax.vmap(element)(flags, split(b, len(flags)))
    ppl.sample(c, dist.Normal(x, 1.0), name="y")


def joint(mu, i):
    """The log density of x[i], at all its points, and y[i] given mu."""
    law: Any = stats.norm(mu + 1.0, 2.0) if FLAGS[i] else stats.logistic(mu, 0.5)
    return law.logpdf(X) + stats.norm.logpdf(Y[i], X, 1.0)


@functools.cache
def exact():
    """The log evidence, and the first two moments of mu and of each x."""
    log_step = np.log(X[1] - X[0])
    tables = np.array([[joint(mu, i) for mu in MU] for i in range(4)])
    each = special.logsumexp(tables, axis=2) + log_step
    total = stats.norm.logpdf(MU) + each.sum(0)
    evidence = special.logsumexp(total) + np.log(MU[1] - MU[0])
    weights = special.softmax(total)
    given = np.exp(tables - special.logsumexp(tables, axis=2, keepdims=True))
    moments = [np.stack([weights @ MU**k, *(given @ X**k @ weights)]) for k in (1, 2)]
    return evidence, moments


@functools.cache
def posterior():
    return ppl.condition(model, {"y": jnp.asarray(Y)})


def test_posterior_and_leave_one_out():
    result = inference.mcmc(
        key(0), posterior(), FLAGS, num_warmup=300, num_draws=500, progress=False
    )
    mu, x = (np.asarray(result.draws[name], float) for name in ("mu", "x"))
    chains = np.concatenate([mu[..., None], x], axis=-1)
    for power, expected in zip((1, 2), exact()[1], strict=True):
        for i in range(5):
            error = np.asarray(arviz.mcse(chains[..., i] ** power, method="mean")).item()
            assert abs((chains[..., i] ** power).mean() - expected[i]) < Z * error
    each = np.moveaxis(stats.norm.logpdf(Y, x, 1.0).reshape(-1, 4), 0, 1)
    terms = [np.logaddexp.reduce(np.ravel(arviz_psis(-e)[0]) + e) for e in each]
    found = inference.loo(result, posterior(), FLAGS)
    assert found.names == tuple(f"y[{i}]" for i in range(4))
    bound = np.where(np.asarray(found.pareto_k) < 0.5, 5e-3, 0.03)
    assert np.all(np.abs(found.pointwise - np.array(terms)) < bound)


@pytest.mark.slow
def test_evidence_bound():
    fit = inference.svi(
        key(1),
        posterior(),
        FLAGS,
        guide=inference.FullRank(),
        num_steps=3000,
        progress=False,
    )
    gap = exact()[0] - float(fit.elbo)
    assert -Z * float(fit.elbo_standard_error) < gap < 0.2
