"""laplace on whole models: exact on normal posteriors, Hessians by hand, evidence, refusals."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp

import distributions as dist
import ppl
from inference import importance, laplace, mcmc
from inference.optimization import hessian_normal
from inference.runtime.compiled_program import compile_program
from tests.inference.regression import design, evidence, exact_posterior, posterior
from tests.inference.test_optimize import DESIGN as LOGISTIC_DESIGN
from tests.inference.test_optimize import exponential, labeled, nowhere, schools

KEY = jax.random.key(0)


def is_exact(result, tolerance):
    """Whether mean, covariance and evidence are those of the conjugate regression."""
    mean, precision = exact_posterior()
    sd = np.diag(np.linalg.inv(precision)) ** 0.5
    loc = np.abs(result.parameters.loc - mean) / sd
    covariance = result.guide.covariance(result.parameters) / np.outer(sd, sd)
    spread = np.abs(covariance - np.linalg.inv(precision) / np.outer(sd, sd))
    return max(loc.max(), spread.max(), abs(result.log_evidence - evidence())) < tolerance


@pytest.mark.slow
def test_a_normal_posterior_is_exact(float_dtype):
    result = laplace(KEY, posterior(), design())
    assert is_exact(result, 1e-10 if float_dtype == jnp.float64 else 1e-4)
    assert result.parameters.loc.dtype == result.draws["w"].dtype == float_dtype
    assert result.draws["w"].shape == (1, 1000, 3)
    np.testing.assert_allclose(result.log_weights, evidence(), rtol=1e-5)
    np.testing.assert_allclose(result.elbo, evidence(), rtol=1e-5)
    assert result.summary().problems == ()
    assert "log evidence -" in str(result.summary())


BROKEN = {
    "half of the curvature": lambda found: found._replace(hessian=found.hessian / 2),
    "its diagonal": lambda found: found._replace(hessian=jnp.diag(jnp.diag(found.hessian))),
    "another height": lambda found: found._replace(log_density=found.log_density - 0.01),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_rejected(x64, monkeypatch, name):
    right = hessian_normal.curvature

    def broken(position, target, layout):
        return BROKEN[name](right(position, target, layout))

    monkeypatch.setattr(hessian_normal, "curvature", broken)
    assert not is_exact(laplace(KEY, posterior(), design(), num_draws=10), 1e-3)


@pytest.mark.slow
def test_logistic_regression_has_the_hessian_by_hand(x64):
    result = laplace(KEY, labeled(), jnp.asarray(LOGISTIC_DESIGN), num_draws=2000)
    p = sp.expit(LOGISTIC_DESIGN @ result.parameters.loc)
    precision = (LOGISTIC_DESIGN.T * (p * (1 - p))) @ LOGISTIC_DESIGN + np.eye(4) / 9
    covariance = result.guide.covariance(result.parameters)
    np.testing.assert_allclose(covariance @ precision, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(result.parameters.loc, result.mode.values["w"], atol=1e-6)
    draws = np.cov(result.draws["w"][0].T) @ precision
    np.testing.assert_allclose(np.diag(draws), 1.0, atol=0.25)
    better = importance(KEY, labeled(), jnp.asarray(LOGISTIC_DESIGN), guide=result)
    assert better.pareto_k < 0.7
    assert abs(better.log_evidence - result.log_evidence) < 0.3


@pytest.mark.slow
def test_the_evidence_of_a_gamma_is_that_of_stirling(x64):
    """On the log scale, the normal integral of Gamma(a) is Stirling's approximation."""
    result = laplace(KEY, lambda key: ppl.sample(key, dist.Gamma(30.0, 2.0), name="rate"))
    stirling = 30 * np.log(30) - 30 + 0.5 * np.log(2 * np.pi / 30)
    np.testing.assert_allclose(result.log_evidence, stirling - sp.gammaln(30), atol=1e-10)
    np.testing.assert_allclose(np.exp(result.parameters.loc[0]), 15.0, rtol=1e-6)


def test_new_data_compile_nothing_and_legacy_keys_are_the_same():
    settings = {"num_draws": 100}
    laplace(KEY, posterior(), design(), **settings)
    misses = compile_program.cache_info().misses
    y = np.linspace(0, 1, 30)
    typed = laplace(jax.random.key(3), posterior(y), design() + 1, **settings)
    assert compile_program.cache_info().misses == misses
    legacy = laplace(jax.random.PRNGKey(3), posterior(y), design() + 1, **settings)
    jax.tree.map(np.testing.assert_array_equal, typed.draws, legacy.draws)


def test_chains_may_start_at_its_draws():
    result = laplace(KEY, posterior(), design(), num_draws=100)
    starts = {"w": result.draws["w"][0, :2]}
    assert mcmc(KEY, posterior(), design(), init=starts, num_chains=2, num_warmup=5, num_draws=2)
    assert repr(result) == "LaplaceResult(FullRank(init_scale=0.1), 100 draws: w (3,))"


def sum_only(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real, shape=(3,)), name="x")
    ppl.factor(-((x[0] + x[1]) ** 2) - x[2] ** 2, name="f")


def saddle(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real, shape=(2,)), name="x")
    ppl.factor(x[0] ** 2 - x[0] ** 4 - x[1] ** 2, name="f")


def wide_saddle(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real, shape=(5,)), name="x")
    ppl.factor(x[0] ** 2 - x[0] ** 4 - jnp.sum(x[1:] ** 2), name="f")


def heavy(key):
    ppl.sample(key, dist.StudentT(jnp.ones(5) * 1.5, 0.0, 1.0), name="x")


@pytest.mark.slow
def test_a_guide_with_light_tails_is_told():
    problems = laplace(KEY, heavy).summary().problems
    assert any("Pareto k is" in problem for problem in problems)


def test_draws_without_density_are_told():
    def positive(key):
        x = ppl.sample(key, dist.Normal(0.2, 1.0), name="x")
        ppl.factor(jnp.where(x > 0, 0.0, -jnp.inf), name="f")

    result = laplace(KEY, positive)
    expected = f"{np.sum(result.draws['x'] <= 0)} of 1000 draws are where the posterior has no"
    assert any(expected in problem for problem in result.summary().problems)


REFUSED = {
    "flat": (sum_only, {}, ValueError, r"is flat along x\[0\], x\[1\]\."),
    "rising": (saddle, {"init": {"x": np.zeros(2)}}, ValueError, r"rises along x\[0\]\."),
    "unbounded": (
        ppl.condition(schools, {"y": np.array([3.0, 5.0, -2.0, 4.0], np.float32)}),
        {},
        ValueError,
        "no peak.*there may be no mode",
    ),
    "flat, of low rank": (sum_only, {"rank": 2}, ValueError, r"is flat along x\[0\], x\[1\]\."),
    "rising, of low rank": (
        wide_saddle,
        {"init": {"x": np.zeros(5)}, "rank": 2},
        ValueError,
        r"rises along x\[0\]\.",
    ),
    "rank": (exponential, {"rank": 1}, ValueError, "rank must be an integer of at least 2, got 1"),
    "nowhere": (nowhere, {}, ValueError, "no starting point.*site 'f' has"),
    "draws": (exponential, {"num_draws": 0}, ValueError, "num_draws must be an integer of at"),
}


@pytest.mark.quick_rows("rank", "draws", "flat, of low rank")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    model, settings, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        laplace(KEY, model, **settings)


def test_a_key_is_asked_for():
    with pytest.raises(TypeError, match=re.escape("key must be one key")):
        laplace(0, exponential)
