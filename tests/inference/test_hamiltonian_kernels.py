"""Hamiltonian kernels: lengths of trajectories, divergences, settings that are refused."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from inference import HMC, NUTS

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")

SIZE = 7  # elements of a position
# Compiled once for all tests.
INIT = jax.jit(lambda kernel, position: kernel.init(position))
STEP = jax.jit(lambda kernel, key, state: kernel.step(key, state))
# Compiled once for all tests.


@pytest.mark.parametrize(("jitter", "moves"), [(0.0, False), (0.5, True)])
def test_jitter_varies_the_length_of_trajectories(jitter, moves):
    """Trajectories of a whole period end where they began, unless their length varies."""
    angle = 63 * np.arccos(1 - 0.1**2 / 2)  # of 63 leapfrog steps at a standard normal
    assert abs(angle - 2 * np.pi) < 0.02
    jitter = jnp.float32(jitter)
    kernel = HMC(lambda x: -0.5 * jnp.sum(x**2), 0.1, num_steps=63, step_size_jitter=jitter)
    keys = jax.random.split(jax.random.key(0), 500)
    start = kernel.init(jnp.full(1, 1.0))
    ends = jax.jit(jax.vmap(lambda key: kernel.step(key, start)[0].position))(keys)
    assert (np.std(ends) > 0.5) == moves
    assert (np.max(np.abs(ends - 1.0)) < 0.1) == (not moves)


# Densities that are not finite beyond a wall, or whose gradient is not.
WALLS = {
    "-inf": lambda x: jnp.where(jnp.all(jnp.abs(x) < 0.5), 0.0, -jnp.inf),
    "nan": lambda x: jnp.where(jnp.all(jnp.abs(x) < 0.5), 0.0, jnp.nan),
    "inf": lambda x: jnp.where(jnp.all(jnp.abs(x) < 0.5), 0.0, jnp.inf),
    "nan gradient": lambda x: jnp.sum(jnp.sqrt(jnp.maximum(0.5 - x, 0.0))),
    "overflow": lambda x: -jnp.exp(400.0 * jnp.sum(x**2)),
}


def walled(number, x):
    return jax.lax.switch(number, list(WALLS.values()), x)


@pytest.mark.slow_rows("NUTS--inf")
@pytest.mark.parametrize("number", range(len(WALLS)), ids=list(WALLS))
@pytest.mark.parametrize("make", [partial(HMC, step_size_jitter=0.0), NUTS], ids=["HMC", "NUTS"])
def test_states_stay_finite_and_the_trajectory_diverges(make, number):
    kernel, divergences = make(Partial(walled, number), 1.0), 0
    state = INIT(kernel, jnp.zeros(SIZE))
    for number in range(10):
        state, info = STEP(kernel, jax.random.key(number), state)
        assert all(np.all(np.isfinite(x)) for x in state)
        assert np.isfinite(info.energy)
        assert 0 <= info.acceptance_rate <= 1
        divergences += int(info.is_divergent)
    assert divergences > 0


def test_nuts_says_what_ended_its_trajectory(x64):
    def target(x):
        return -0.5 * jnp.sum(x**2)

    def info_of(**settings):
        kernel = NUTS(target, **settings)
        return STEP(kernel, jax.random.key(0), kernel.init(jnp.zeros(3)))[1]

    turned, truncated = info_of(step_size=0.5), info_of(step_size=0.01, max_depth=3)
    assert (turned.is_truncated, truncated.is_truncated) == (False, True)
    assert (truncated.depth, truncated.num_steps) == (3, 7)
    diverged = info_of(step_size=1e3)
    assert (diverged.is_divergent, diverged.depth, diverged.num_steps) == (True, 0, 1)


@pytest.mark.parametrize("make", [HMC, NUTS])
@pytest.mark.parametrize(
    ("settings", "position", "error", "message"),
    [
        ({}, jnp.zeros(2), ValueError, "has no log_density; give it one"),
        ({"log_density": jnp.sin}, jnp.zeros(2), ValueError, "shape (2,); it must return a scalar"),
        (
            {"log_density": lambda x: 0.0},
            {"n": jnp.arange(3)},
            TypeError,
            "position['n'] has dtype int32; a position is a pytree of floating-point arrays",
        ),
        ({"log_density": lambda x: 0.0}, {}, ValueError, "no element to move"),
        (
            {"log_density": jnp.sum, "inverse_mass_matrix": jnp.ones(3)},
            jnp.zeros(2),
            ValueError,
            "inverse_mass_matrix has shape (3,); the position has 2 elements",
        ),
        (
            {"log_density": jnp.sum, "step_size": jnp.ones(3)},
            jnp.zeros(2),
            ValueError,
            "step_size must be a scalar, got shape (3,)",
        ),
        *(
            (
                {"log_density": jnp.sum, "step_size": step_size},
                jnp.zeros(2),
                ValueError,
                f"step_size must be a positive, finite number, got {step_size}",
            )
            for step_size in (0.0, -0.1, np.nan, np.inf)
        ),
        *(
            (
                {"log_density": jnp.sum, "step_size": step_size},
                jnp.zeros(2),
                TypeError,
                f"step_size must be a positive, finite number, got {step_size!r}",
            )
            for step_size in ("a", None, True, 0.1j)
        ),
        *(
            (
                {"log_density": jnp.sum, "inverse_mass_matrix": matrix},
                jnp.zeros(2),
                TypeError,
                f"inverse_mass_matrix must hold real numbers, got {matrix!r}",
            )
            for matrix in ("a", 1j)
        ),
        (
            {"log_density": jnp.sum, "inverse_mass_matrix": np.array([[1.0, 0.2], [0.0, 1.0]])},
            jnp.zeros(2),
            ValueError,
            "inverse_mass_matrix must be symmetric",
        ),
        *(
            (
                {"log_density": jnp.sum, "inverse_mass_matrix": matrix},
                jnp.zeros(2),
                ValueError,
                "inverse_mass_matrix must be finite and positive definite",
            )
            for matrix in (
                np.array([1.0, 0.0]),
                np.array([1.0, -1.0]),
                np.array([np.nan, 1.0]),
                np.array([np.inf, 1.0]),
                np.array([[1.0, 2.0], [2.0, 1.0]]),
            )
        ),
        *(
            (
                {"log_density": returns},
                jnp.zeros(2),
                TypeError,
                "log_density must return a floating-point scalar, got",
            )
            for returns in (
                lambda x: x.sum() > 0,
                lambda x: x.sum().astype(complex),
                lambda x: (x.sum(),),
                lambda x: None,
                lambda x: "a",
            )
        ),
        (
            {"log_density": 3},
            jnp.zeros(2),
            TypeError,
            "log_density must be a function of a position, got 3",
        ),
        (
            {"log_density": jnp.sum},
            {"a": "x"},
            TypeError,
            "position['a'] must be an array, got 'x'",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, settings, position, error, message):
    kernel = make(**settings)
    with pytest.raises(error, match=re.escape(message)):
        kernel.step(jax.random.key(0), kernel.init(position))


@pytest.mark.parametrize(
    ("jitter", "error"),
    [(np.nan, ValueError), (-0.1, ValueError), (1.0, ValueError), ("a", TypeError)],
)
def test_a_jitter_that_cannot_be_is_refused(jitter, error):
    kernel = HMC(jnp.sum, step_size_jitter=jitter)
    with pytest.raises(error, match=re.escape("step_size_jitter must be a number in [0, 1), got")):
        kernel.step(jax.random.key(0), kernel.init(jnp.zeros(2)))


@pytest.mark.parametrize(
    ("make", "settings", "error", "message"),
    [
        (NUTS, {"max_depth": 0}, ValueError, "max_depth must be an integer of at least 1, got 0"),
        (NUTS, {"max_depth": 25}, ValueError, "max_depth must be an integer of at most 24, got 25"),
        (NUTS, {"max_depth": True}, ValueError, "max_depth must be an integer of at least 1, got"),
        (NUTS, {"max_depth": 2.0}, TypeError, "max_depth must be an integer, got 2.0"),
        (HMC, {"num_steps": 0}, ValueError, "num_steps must be an integer of at least 1, got 0"),
        (HMC, {"num_steps": 2.0}, TypeError, "num_steps must be an integer, got 2.0"),
    ],
)
def test_static_settings_are_checked_when_made(make, settings, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make(**settings)


@pytest.mark.slow
def test_a_matrix_may_be_symmetric_but_for_rounding():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(10, 10)) * np.geomspace(1, 30, 10)
    inverse = jnp.linalg.inv(jnp.asarray(factor @ factor.T, jnp.float32))
    assert not np.array_equal(inverse, inverse.T)
    kernel = NUTS(lambda x: -0.5 * jnp.sum(x**2), inverse_mass_matrix=inverse)
    kernel.step(jax.random.key(0), kernel.init(jnp.zeros(10)))


def test_static_settings_may_be_integers_of_numpy():
    assert NUTS(max_depth=np.int64(5)) == NUTS(max_depth=5)
    assert HMC(num_steps=np.int32(5)) == HMC(num_steps=5)
