"""The leapfrog integrator and energies, against their laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix, factorize, pull, push
from inference.kernels.hamiltonian.leapfrog import Point, energy, energy_change, flat_value_and_grad
from inference.runtime.xla import PaddedFactor, pad_for_cpu
from tests.inference.targets import Dynamics, leapfrog, skewed_log_density

pytestmark = [pytest.mark.promotion(rank="raise", dtype="strict"), pytest.mark.usefixtures("x64")]

COVARIANCE = np.array([[1.5, 0.4, 0.01], [0.4, 2.0, -0.02], [0.01, -0.02, 0.003]])


def setting(step_size, inverse_mass_matrix):
    names = {name: jnp.asarray(x) for name, x in (("x0", 0.3), ("x1", -0.4), ("x2", 0.06))}
    layout = Layout.of(names)
    value_and_grad = flat_value_and_grad(skewed_log_density, layout)
    factor = factorize(jax.tree.map(jnp.asarray, inverse_mass_matrix))
    position = layout.ravel(names)
    log_density, gradient = value_and_grad(position)
    momentum = jnp.array([0.7, -1.1, 0.2])
    point = Point(position, momentum, pull(factor, gradient), log_density, gradient)
    return Dynamics(value_and_grad, factor, jnp.asarray(step_size)), point


def run(dynamics, point, num_steps):
    return jax.lax.fori_loop(0, num_steps, lambda _, p: leapfrog(dynamics, p), point)


_VALUES, _VECTORS = np.linalg.eigh(COVARIANCE)
LOW_RANK = LowRankMatrix(np.ones(3), _VECTORS.T, _VALUES)
METRICS = {"diagonal": np.diag(COVARIANCE), "dense": COVARIANCE, "low rank": LOW_RANK}


@pytest.mark.parametrize("metric", METRICS)
def test_leapfrog_is_reversible(metric):
    dynamics, start = setting(0.2, METRICS[metric])
    end = run(dynamics, start, 20)
    back = run(dynamics, end._replace(momentum=-end.momentum), 20)
    np.testing.assert_allclose(back.position, start.position, rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.momentum, -start.momentum, rtol=0, atol=1e-10)
    undone = run(dynamics._replace(step_size=-dynamics.step_size), end, 20)
    np.testing.assert_allclose(undone.position, start.position, rtol=0, atol=1e-10)
    assert np.max(np.abs(end.position - start.position)) > 0.1


@pytest.mark.slow_rows("diagonal")
@pytest.mark.parametrize("metric", METRICS)
def test_leapfrog_preserves_volume(metric):
    dynamics, start = setting(0.3, METRICS[metric])

    def flow(phase):
        log_density, gradient = dynamics.value_and_grad(phase[:3])
        force = pull(dynamics.factor, gradient)
        end = run(dynamics, Point(phase[:3], phase[3:], force, log_density, gradient), 3)
        return jnp.concatenate([end.position, end.momentum])

    jacobian = jax.jacfwd(flow)(jnp.concatenate([start.position, start.momentum]))
    np.testing.assert_allclose(np.linalg.det(jacobian), 1.0, rtol=1e-10)


@pytest.mark.parametrize("metric", METRICS)
def test_energy_error_is_of_second_order(metric):
    errors = []
    for num_steps in (64, 128, 256):
        dynamics, start = setting(1.0 / num_steps, METRICS[metric])
        errors.append(abs(energy_change(start, run(dynamics, start, num_steps))))
    ratios = np.array(errors[:-1]) / np.array(errors[1:])
    np.testing.assert_allclose(ratios, 4.0, rtol=0.05)


def test_dense_and_diagonal_agree_on_a_diagonal():
    ends = [
        run(*setting(0.2, metric), 5)
        for metric in (METRICS["diagonal"], np.diag(METRICS["diagonal"]))
    ]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), *ends)


@pytest.mark.parametrize("size", [1, 3, 16, 17, 40])
def test_products_with_a_padded_factor_are_those_with_the_factor(monkeypatch, size):
    monkeypatch.setenv("PPL_XLA_TRICKS", "1")
    factor = np.tril(np.random.default_rng(0).normal(size=(size, size)))
    x = np.random.default_rng(1).normal(size=size)
    padded = pad_for_cpu(jnp.asarray(factor))
    assert isinstance(padded, PaddedFactor)
    np.testing.assert_allclose(push(padded, jnp.asarray(x)), factor @ x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(pull(padded, jnp.asarray(x)), factor.T @ x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("metric", ["diagonal", "low rank"])
def test_factors_that_are_not_dense_stay_as_they_are(metric):
    factor = factorize(jax.tree.map(jnp.asarray, METRICS[metric]))
    assert pad_for_cpu(factor) is factor


def test_one_step_by_hand():
    # log density -q^2 / 2, mass 1 / 4: q' = q + h / 4 (p - h q / 2) and p' = p - h (q + q') / 2.
    layout = Layout.of({"q": jnp.zeros(1)})
    value_and_grad = flat_value_and_grad(lambda x: -0.5 * jnp.sum(x["q"] ** 2), layout)
    factor = factorize(jnp.array([0.25]))
    q, p, h = 1.2, 0.8, 0.3
    point = Point(
        jnp.array([q]), 0.5 * jnp.array([p]), 0.5 * -jnp.array([q]), jnp.array(0.0), -jnp.array([q])
    )
    end = leapfrog(Dynamics(value_and_grad, factor, jnp.asarray(h)), point)
    q1 = q + h * 0.25 * (p - 0.5 * h * q)
    np.testing.assert_allclose(end.position, [q1], rtol=1e-12)
    np.testing.assert_allclose(end.momentum, [0.5 * (p - 0.5 * h * (q + q1))], rtol=1e-12)
    np.testing.assert_allclose(end.log_density, -0.5 * q1**2, rtol=1e-12)


def test_energy_change_is_the_difference_of_energies():
    dynamics, start = setting(0.4, METRICS["dense"])
    end = run(dynamics, start, 4)
    np.testing.assert_allclose(energy_change(start, end), energy(end) - energy(start), rtol=1e-10)


def test_energy_change_survives_float32():
    # Of log densities around -1e5, float32 knows the difference exactly, and the sums not at all.
    def at(log_density, momentum):
        vector = jnp.array([momentum], jnp.float32)
        return Point(vector, vector, vector, jnp.float32(log_density), vector)

    change = energy_change(at(-1e5, 1.0), at(-1e5 - 0.25, 1.001))
    np.testing.assert_allclose(change, 0.25 + 0.5 * (1.001**2 - 1), rtol=1e-5)


@pytest.mark.parametrize(
    "broken",
    [
        {"log_density": jnp.nan},
        {"log_density": -jnp.inf},
        {"log_density": jnp.inf},
        {"momentum": np.full(3, np.nan)},
    ],
)
def test_energy_change_is_infinite_where_anything_is_not_finite(broken):
    _, start = setting(0.4, METRICS["dense"])
    assert energy_change(start, start._replace(**broken)) == jnp.inf
