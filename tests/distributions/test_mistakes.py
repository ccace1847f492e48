"""Mistakes of callers: each is an error that names the distribution, what came and what to do."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions import constraints
from tests.distributions.cases import CASES, SIGNATURES

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
nan, inf = np.nan, np.inf

MISTAKES = [
    (lambda: dist.Normal(0.0, -1.0), "Normal: scale must be positive and finite; got -1.0"),
    (lambda: dist.Normal(0.0, 0.0), "Normal: scale must be positive"),
    (lambda: dist.Normal(nan, 1.0), "Normal: loc must be finite; got nan"),
    (lambda: dist.Normal(0.0, inf), "Normal: scale must be positive and finite; got inf"),
    (
        lambda: dist.Normal(0.0, jnp.array([1.0, 2.0, -3.0])),
        r"Normal: scale .* got -3.0 at index \(2,\)",
    ),
    (lambda: dist.Normal("a", 1.0), "Normal: loc must be an array of real numbers; got 'a'"),
    (lambda: dist.Normal(1j, 1.0), "Normal: loc must be an array of real numbers; got 1j"),
    (lambda: dist.Normal(None, 1.0), "Normal: loc must be an array; got None"),
    (
        lambda: dist.Normal(np.zeros(3), np.ones(2)),
        r"Normal: .* do not broadcast: loc \(3,\), scale \(2,\)",
    ),
    (lambda: dist.StudentT(0.0, 0.0, 1.0), "StudentT: df must be positive"),
    (lambda: dist.Gamma(-1.0, 1.0), "Gamma: concentration must be positive"),
    (lambda: dist.Gamma(1.0, nan), "Gamma: rate must be positive .* got nan"),
    (lambda: dist.Beta(1.0, [1.0, 0.0]), r"Beta: concentration0 .* got 0.0 at index \(1,\)"),
    (
        lambda: dist.Triangular(0.0, 1.0, 2.0),
        "Triangular: peak must lie from low to high; got 2.0, with 0.0 and 1.0",
    ),
    (
        lambda: dist.PERT(0.0, -1.0, 1.0),
        "PERT: peak must lie from low to high; got -1.0, with 0.0 and 1.0",
    ),
    (lambda: dist.Uniform(1.0, 1.0), "Uniform: low must be less than high; got 1.0 and 1.0"),
    (lambda: dist.Uniform(0.0, [1.0, -1.0]), r"Uniform: .* got 0.0 and -1.0 at index \(1,\)"),
    (lambda: dist.Uniform(0.0, inf), "Uniform: high must be finite"),
    (
        lambda: dist.NormalInverseGaussian(0.0, 1.0, 1.0, -2.0),
        "skewness must be less than tailweight in size; got -2.0 and 1.0",
    ),
    (
        lambda: dist.TruncatedNormal(0.0, 1.0, 2.0, 1.0),
        "TruncatedNormal: low must be less than high",
    ),
    (lambda: dist.TruncatedNormal(0.0, 1.0, nan, 1.0), "TruncatedNormal: low must be a number"),
    (lambda: dist.DiscreteUniform(3, 1), "DiscreteUniform: low must be at most high; got 3 and 1"),
    (
        lambda: dist.FiniteDiscrete(np.arange(3.0), probs=np.full(2, 0.5)),
        r"outcomes \(3,\) and probs \(2,\) must have last axes of one size",
    ),
    (
        lambda: dist.Truncated(dist.Normal(0.0, 1.0), None, 1.0),
        "Truncated: low must be a number; got None. Leave it out for none, or give -inf",
    ),
    (
        lambda: dist.Censored(dist.Normal(0.0, 1.0), 0.0, "a"),
        "Censored: high must be an array of real numbers; got 'a'",
    ),
    (
        lambda: dist.Quantized(dist.Normal(0.0, 1.0), 1j, 1.0),
        "Quantized: low must be an array of real numbers; got 1j",
    ),
    (
        lambda: dist.Truncated(dist.Normal(0.0, 1.0), nan, 1.0),
        "Truncated: low must be a number .infinite or not., not NaN; got nan",
    ),
    (
        lambda: dist.DiscreteUniform(0, 2**33),
        "low and high must be in the range of int32, as the draws are; got 0 and 8589934592",
    ),
    (
        lambda: dist.Normal(0.0, 1e300),
        "scale must be positive and finite; got 1e.300, which is inf in float32",
    ),
    (
        lambda: dist.Gamma([1.0, 1e-300], 1.0),
        r"concentration .* got 1e-300 at index \(1,\), which is 0.0 in float32",
    ),
    (
        lambda: dist.Uniform(1e9, 1e9 + 1),
        "low must be less than high; got 1000000000.0 and 1000000001.0, equal in float32",
    ),
    (
        lambda: dist.Poisson(1.0).log_prob(np.int64(2**32)),
        "Poisson: a value must be held by JAX; got 4294967296, which is out of the range of int32",
    ),
    (
        lambda: dist.Cauchy(0.0, 1.0).log_prob(1e300),
        "Cauchy: a value must be held by JAX; got 1e.300, which is out of the range of float32",
    ),
    (lambda: dist.Delta(nan), "Delta: loc must be a number .* got nan"),
    (lambda: dist.Delta("a"), "Delta: loc must be an array of real numbers; got 'a'"),
    (lambda: dist.Delta(0.0, nan), "Delta: log_density must be a number .* got nan"),
    (
        lambda: dist.Delta(np.zeros(2), np.zeros(3)),
        r"log_density must broadcast .* got loc \(2,\), log_density \(3,\)",
    ),
    (lambda: dist.Delta(np.zeros(2), event_ndims=0.5), "Delta: event_ndims must be an integer"),
    (
        lambda: dist.KroneckerNormal(nan, scale_trils=(np.eye(2), np.eye(2))),
        "KroneckerNormal: loc must be finite; got nan",
    ),
    (
        lambda: dist.Flat(constraints.interval(2.0, 1.0)),
        r"Flat: support must hold a number; got Interval\(low=2.0, high=1.0",
    ),
    (
        lambda: dist.Custom(lambda x: x, support=constraints.interval(nan, 1.0)),
        "Custom: support must hold a number",
    ),
    (lambda: dist.Bernoulli(), "Bernoulli: give exactly one of logits, probs; got none of them"),
    (
        lambda: dist.Bernoulli(logits=0.0, probs=0.5),
        "Bernoulli: give exactly one of logits, probs; got logits and probs",
    ),
    (
        lambda: dist.Bernoulli(probs=1.5),
        r"Bernoulli: probs must be in the interval \[0.0, 1.0\]; got 1.5",
    ),
    (
        lambda: dist.Binomial(-1, logits=0.0),
        "Binomial: total_count must be a nonnegative integer; got -1",
    ),
    (
        lambda: dist.Binomial(1.5, logits=0.0),
        "Binomial: total_count must be a nonnegative integer; got 1.5",
    ),
    (lambda: dist.Poisson(-1.0), "Poisson: rate must be nonnegative"),
    (
        lambda: dist.Categorical(probs=[0.5, 0.6]),
        r"Categorical: probs must be a simplex .* got \[0.5, 0.6\]",
    ),
    (lambda: dist.Categorical(probs=[1.5, -0.5]), "Categorical: probs must be a simplex"),
    (
        lambda: dist.Categorical(logits=0.0),
        r"Categorical: logits must have at least 1 axes; got shape \(\)",
    ),
    (
        lambda: dist.Categorical(logits=[[0.0, 1.0], [-inf, -inf]]),
        r"Categorical: logits must .* at index \(1,\)",
    ),
    (lambda: dist.Dirichlet([1.0, -1.0]), "Dirichlet: concentration must be positive"),
    (
        lambda: dist.MultivariateNormal(0.0),
        "exactly one of .*, scale_diag, cov_factor with cov_diag; got none",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, cov_factor=np.ones((2, 1))),
        "cov_factor with cov_diag; got cov_factor",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, cov_factor=np.ones((2, 1)), cov_diag=np.ones(3)),
        r"do not broadcast: .*cov_factor \(2, 1\), cov_diag \(3,\)",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, covariance=-np.eye(2)),
        "covariance must be symmetric and positive",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, precision=[[1.0, 2.0], [0.0, 1.0]]),
        "precision must be symmetric",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, covariance=np.ones((2, 3))),
        "covariance must be symmetric",
    ),
    (
        lambda: dist.MultivariateNormal(0.0, scale_tril=np.ones((2, 2))),
        "scale_tril must be lower-triangular",
    ),
    (
        lambda: dist.MultivariateNormal(np.zeros(3), scale_tril=np.eye(2)),
        r"loc \(3,\), scale_tril \(2, 2\)",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Normal(0.0, 1.0), dist.Normal(0.0, 1.0)),
        "must be a Categorical",
    ),
    (
        lambda: dist.MixtureSameFamily(dist.Categorical(logits=[0.0, 0.0]), 1.0),
        "must be a Distribution; got 1.0",
    ),
    (
        lambda: dist.MixtureSameFamily(
            dist.Categorical(logits=[0.0, 0.0]), dist.Normal(np.zeros(3), 1.0)
        ),
        "2 categories need",
    ),
    (
        lambda: dist.MixtureSameFamily(
            dist.Categorical(logits=np.zeros((3, 2))), dist.Normal(np.zeros((4, 2)), 1.0)
        ),
        r"\(3,\).*\(4,\)",
    ),
    (lambda: dist.Flat(1.0), "Flat: support must be a constraint; got 1.0"),
    (
        lambda: dist.Flat(constraints.simplex, ()),
        r"Flat: shape must have at least 1 axes; got \(\)",
    ),
    (
        lambda: dist.Flat(constraints.interval(0.0, np.ones(3)), (2,)),
        r"Flat: the bounds .* broadcast with \(2,\)",
    ),
]


@pytest.mark.parametrize(("make", "message"), MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


MISUSES = {
    r"has no attribute 'Norml'; did you mean 'Normal'?": lambda: dist.Norml,
    "Normal: a value must be an array of numbers; got None": lambda: dist.Normal(0.0, 1.0).log_prob(
        None
    ),
    "Normal: a value must be an array of numbers; got 'a'": lambda: dist.Normal(0.0, 1.0).cdf("a"),
    "Normal: sample_shape must hold nonnegative integers; got -1": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), -1),
    "Normal: sample_shape must hold nonnegative integers; got 2.5": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), 2.5),
    "Normal: sample_shape must hold nonnegative integers; got None": lambda: dist.Normal(
        0.0, 1.0
    ).sample(jax.random.key(0), None),
    "iid: sample_shape must hold nonnegative integers; got 2.5": lambda: dist.iid(
        dist.Normal(0.0, 1.0), 2.5
    ),
    "Custom: parameters must be a tuple; got 2.0": lambda: dist.Custom(jnp.square, 2.0),
    r"Normal: sample takes one random key .*; got 3\. For several": lambda: dist.Normal(
        0.0, 1.0
    ).sample(3),
    "Normal: sample takes one random key .*; got None": lambda: dist.Normal(0.0, 1.0).sample(None),
    "Masked: sample takes one random key .*; got Array": lambda: dist.Masked(
        dist.Normal(0.0, 1.0), True
    ).sample(jax.random.split(jax.random.key(0))),
    "Gamma: sample takes one random key .* got .*float32": lambda: jax.jit(
        dist.Gamma(1.0, 1.0).sample
    )(jnp.float32(0)),
    "Normal: no parameter is called 'sd'; did you mean 'scale'? It takes loc, scale": lambda: (
        dist.Normal(loc=0.0, sd=1.0)  # pyright: ignore[reportCallIssue]
    ),
    "Normal: no parameter is called 'mean'; did you mean 'loc'?": lambda: dist.Normal(
        mean=0.0,  # pyright: ignore[reportCallIssue]
        scale=1.0,
    ),
    "Beta: no parameter is called 'alpha'; did you mean 'concentration1'?": lambda: dist.Beta(
        alpha=1.0,  # pyright: ignore[reportCallIssue]
        beta=1.0,
    ),
    "Gamma: no parameter is called 'scale'. It takes concentration, rate": lambda: dist.Gamma(
        1.0,
        scale=1.0,  # pyright: ignore[reportCallIssue]
    ),
    "Truncated: no parameter is called 'lo'; did you mean 'low'?": lambda: dist.Truncated(
        dist.Normal(0.0, 1.0),
        lo=1.0,  # pyright: ignore[reportCallIssue]
    ),
    "MultivariateNormal: takes loc by position; got 2. By keyword it takes cov": lambda: (
        dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2))  # pyright: ignore[reportCallIssue]
    ),
    "Normal: takes loc, scale by position; got 3": lambda: dist.Normal(
        0.0,
        1.0,
        2.0,  # pyright: ignore[reportCallIssue]
    ),
    r"HalfCauchy: missing scale= \(the distance from the": lambda: dist.HalfCauchy(5.0),  # pyright: ignore[reportCallIssue]
    "Custom: support must be a constraint; got 3": lambda: dist.Custom(jnp.square, support=3),
    "kl_divergence: expected a Distribution; got 3": lambda: dist.kl_divergence(
        dist.Normal(0.0, 1.0), 3
    ),
    "Custom: log_density must be a function; got 3": lambda: dist.Custom(3),
    "Custom: sampler must be a function; got 3": lambda: dist.Custom(lambda x: x, sampler=3),
    "Affine: scale must not be 0; got nan": lambda: dist.bijectors.Affine(0.0, nan),
    "Affine: scale must not be 0; got 0.0": lambda: dist.bijectors.Affine(0.0, 0.0),
    "validate: expected a Distribution; got 3": lambda: dist.validate(3),
}


@pytest.mark.parametrize("message", MISUSES)
def test_misuses_are_named(message):
    with pytest.raises((AttributeError, TypeError, ValueError), match=message.replace("?", r"\?")):
        MISUSES[message]()


CLASSES = [name for name in SIGNATURES if inspect.isclass(getattr(dist, name))]


@pytest.mark.parametrize("name", CLASSES)
def test_an_unknown_keyword_is_named(name):
    parameters = ", ".join(inspect.signature(getattr(dist, name)).parameters)
    message = f"{name}: no parameter is called 'unknown'. It takes {parameters}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        getattr(dist, name)(unknown=1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_no_shape_or_key_is_named(case):
    d = case.build()
    name = type(d).__name__
    with pytest.raises(ValueError, match=f"^{name}: sample_shape must hold nonneg.* got 2.5"):
        d.sample(jax.random.key(0), 2.5)
    with pytest.raises((TypeError, ValueError), match=f"^{name}: sample takes one random key"):
        d.sample(3)
