"""The linear Gaussian state-space model by scan, against the Kalman filter, which is exact.

Everything is Gaussian, so the density of the states is a quadratic form: its maximum and Hessian
give the evidence and the smoothed states without error.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.random import key, split
from scipy import stats

import distributions as dist
import ppl

from .checks import assert_close
from .programs import real

NUM_STEPS = 4
LOG_TWO_PI = math.log(2 * math.pi)


class System(NamedTuple):
    """x' = A x + noise of covariance Q, y = C x + noise of covariance R, from N(m, P)."""

    A: Any
    Q: Any
    C: Any
    R: Any
    m: Any
    P: Any


def covariance(*shape: int) -> np.ndarray:
    root = real(*shape)
    return root @ root.T + np.eye(len(root))


SYSTEM = System(
    A=np.array([[0.9, 0.3], [-0.4, 0.8]]),
    Q=0.2 * covariance(2, 3),
    C=np.array([[1.0, 0.5], [0.2, -1.0], [0.7, 0.1]]),
    R=0.5 * covariance(3, 4),
    m=np.array([0.5, -1.0]),
    P=covariance(2, 2),
)
DATA = real(NUM_STEPS, 3)


def by_scan(key: Any, s: System, scale: Any) -> Any:
    """The states are latent. `scale` multiplies the variance of their steps."""

    def step(x: Any, key: Any) -> Any:
        d = dist.MultivariateNormal(s.C @ x, covariance=s.R)
        ppl.sample(key, d, name="y")
        d = dist.MultivariateNormal(s.A @ x, covariance=scale * s.Q)
        return ppl.sample(key, d, name="x"), None

    first, rest = split(key)
    start = ppl.sample(first, dist.MultivariateNormal(s.m, covariance=s.P), name="start")
    return lax.scan(step, start, split(rest, NUM_STEPS))[0]


def marginalized(key: Any, y: Any, s: System, scale: Any) -> Any:
    """The Kalman filter is a part of the model: the states are integrated out."""

    def step(state: Any, y: Any) -> Any:
        mean, cov = state
        gain, innovation = cov @ s.C.T, s.C @ cov @ s.C.T + s.R
        d = dist.MultivariateNormal(s.C @ mean, covariance=innovation)
        ppl.factor(d.log_prob(y), name="evidence")
        mean = mean + gain @ jnp.linalg.solve(innovation, y - s.C @ mean)
        cov = cov - gain @ jnp.linalg.solve(innovation, gain.T)
        return (s.A @ mean, s.A @ cov @ s.A.T + scale * s.Q), None

    return lax.scan(step, (s.m, s.P), y)[0]


def gaussian(x: Any, mean: Any, cov: Any) -> Any:
    """The log density by the inverse and the determinant."""
    residual = x - mean
    quadratic = residual @ jnp.linalg.inv(cov) @ residual
    return -0.5 * (quadratic + jnp.log(jnp.linalg.det(cov)) + len(x) * LOG_TWO_PI)


def density_by_hand(v: Any, s: System, scale: Any) -> Any:
    total, x = gaussian(v["start"], s.m, s.P), v["start"]
    for t in range(NUM_STEPS):
        total += gaussian(v["y"][t], s.C @ x, s.R) + gaussian(v["x"][t], s.A @ x, scale * s.Q)
        x = v["x"][t]
    return total


def kalman(y: Any, s: System, scale: Any) -> Any:
    """The evidence, and mean and covariance of the state after the last step, by Joseph's form."""
    mean, cov, evidence = s.m, s.P, 0.0
    for t in range(NUM_STEPS):
        innovation = s.C @ cov @ s.C.T + s.R
        evidence += gaussian(y[t], s.C @ mean, innovation)
        gain = cov @ s.C.T @ jnp.linalg.inv(innovation)
        mean = mean + gain @ (y[t] - s.C @ mean)
        rest = jnp.eye(len(mean)) - gain @ s.C
        cov = rest @ cov @ rest.T + gain @ s.R @ gain.T
        mean, cov = s.A @ mean, s.A @ cov @ s.A.T + scale * s.Q
    return evidence, mean, cov


def by_curvature(y: Any, s: System, scale: Any) -> Any:
    """The same from the model by scan: its maximum, and the inverse of its Hessian."""
    posterior = ppl.condition(by_scan, {"y": y})
    zeros = {"start": jnp.zeros_like(s.m), "x": jnp.zeros((NUM_STEPS, *s.m.shape))}
    flat, unravel = ravel_pytree(zeros)
    density = lambda flat: ppl.log_density(posterior)(unravel(flat), s, scale)  # noqa: E731
    precision = -jax.hessian(density)(flat)
    mode = jnp.linalg.solve(precision, jax.grad(density)(flat))
    log_det = jnp.linalg.slogdet(precision)[1]
    evidence = density(mode) + 0.5 * (flat.size * LOG_TWO_PI - log_det)
    return evidence, mode[-2:], jnp.linalg.inv(precision)[-2:, -2:]


@pytest.fixture
def system(x64):
    return jax.tree.map(jnp.asarray, (DATA, SYSTEM, 1.3))


@pytest.mark.slow
def test_joint_density_and_its_gradient(system):
    """At data and at draws. A covariance is symmetric, and so is a derivative by it taken here."""
    y, s, scale = system

    @jax.jit
    def both(values: Any) -> Any:
        of = lambda f: jax.value_and_grad(f, (0, 1, 2))(values, s, scale)  # noqa: E731
        return [jax.tree.map(symmetric, of(f)) for f in (ppl.log_density(by_scan), density_by_hand)]

    draws = ppl.simulate(by_scan)(key(1), s, scale)
    assert_close(*both(draws))
    assert_close(*both({**draws, "y": y}))


def symmetric(x: Any) -> Any:
    return x + x.T if x.ndim == 2 and x.shape[0] == x.shape[1] else x


def evidence(y: Any, s: System, scale: Any) -> Any:
    return ppl.log_density(marginalized)({}, y, s, scale)


@pytest.mark.slow
def test_evidence_and_last_state_are_those_of_the_kalman_filter(system):
    """So is the derivative by the scale, through a Hessian and through the filter."""
    derived = lambda f: jax.jit(jax.value_and_grad(f, 2, has_aux=True))(*system)  # noqa: E731
    with_rest = lambda f: lambda *args: (f(*args)[0], f(*args)[1:])  # noqa: E731
    exact = derived(with_rest(kalman))
    assert_close(derived(with_rest(by_curvature)), exact)
    (value, _), derivative = exact
    assert_close(jax.jit(jax.value_and_grad(evidence, 2))(*system), (value, derivative))


def test_many_series_at_once(system):
    """vmap of the scan in the model, and vmap of the evidence: sums of those of each series."""
    y, s, scale = system
    series = jnp.stack([y, 2 * y, y[::-1]])
    many = lambda key, ys: jax.vmap(marginalized, (0, 0, None, None))(split(key, 3), ys, s, scale)  # noqa: E731
    terms = ppl.log_probs(many)({}, series)["evidence"]
    expected = jnp.stack([kalman(y, s, scale)[0] for y in series])
    assert_close(terms.sum(1), expected)
    assert_close(jax.vmap(evidence, (0, None, None))(series, s, scale), expected)


def seasonal(key: Any, num_lags: int) -> None:
    """A season whose effects over a year have mean 0 and that the carry has one by one."""

    def step(earlier: Any, key: Any) -> Any:
        effect = ppl.sample(key, dist.Normal(-sum(earlier), 0.3), name="effect")
        ppl.sample(key, dist.Normal(effect, 0.5), name="y")
        return (effect, *earlier[:-1]), None

    lax.scan(step, (0.0,) * num_lags, split(key, len(SEASONAL)))


SEASONAL = np.sin(np.arange(40.0))


@pytest.mark.parametrize("num_lags", [2, 11])
def test_a_carry_of_many_earlier_states_is_a_chain(num_lags):
    """With max_block=num_lags, no element may be coupled with all others."""
    with jax.enable_x64(True):
        model = ppl.condition(seasonal, {"y": jnp.asarray(SEASONAL)})
        found = ppl.log_density(
            ppl.marginalize(model, {"effect": ppl.Gaussian(max_block=num_lags)})
        )
        differences = np.eye(40) + sum(np.eye(40, k=-lag) for lag in range(1, num_lags + 1))
        root = np.linalg.inv(differences)
        d = stats.multivariate_normal(np.zeros(40), 0.09 * root @ root.T + 0.25 * np.eye(40))
        assert_close(found({}, num_lags), d.logpdf(SEASONAL))
