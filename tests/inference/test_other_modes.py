"""Search for other modes: found where they are, no alarm where there is one, over ten keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import distributions as dist
import ppl
from inference import nested_laplace
from inference.drivers.approximate_sites import look_at_approximate_sites
from inference.optimization.host_lbfgs import climb_in_step
from inference.optimization.other_modes import count_modes


def squares(key, size=1, weight=0.1):
    x = ppl.sample(key, dist.Normal(jnp.zeros(size), 1.5), name="x")
    ppl.sample(key, dist.Normal(x**2 + weight * x, 0.1), name="y")


def bent(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.5), name="x")
    z = ppl.sample(key, dist.Normal(0.0, 3.0), name="z")
    ppl.sample(key, dist.Normal(z - x**2, 0.1), name="y")


def counts(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(20), 1.5), name="x")
    ppl.sample(key, dist.Poisson(jnp.exp(x + jnp.mean(x))), name="y")


def steep(key):
    x = ppl.sample(key, dist.Normal(1.0, 1.0), name="x")
    ppl.sample(key, dist.Normal(0.0, jnp.sqrt(x - 0.5)), name="y")  # impossible below 0.5


ONE = np.ones(())
CASES = {
    "one square": (squares, {"y": jnp.array([1.0])}, {"x": 0.95 * np.ones(1)}, 0.05, 2),
    "a bend": (bent, {"y": 0.0}, {"x": 0 * ONE, "z": 0 * ONE}, 0.3, 1),
    "counts": (counts, {"y": jnp.arange(20) % 5}, {"x": np.zeros(20)}, 0.5, 1),
    "an edge": (steep, {"y": 1.0}, {"x": 1.3 * ONE}, 0.4, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_other_modes_are_found_for_each_of_ten_keys(name):
    model, data, mode, sd, num_modes = CASES[name]
    target = ppl.unconstrain(ppl.condition(model, data))
    rng = np.random.default_rng(0)
    draws = {p: x + sd * rng.normal(size=(300, *x.shape)) for p, x in mode.items()}
    found = [count_modes(key(i), target, draws, i) for i in range(10)]
    assert found == [num_modes] * 10


def _mixed(key, far):
    """Effects about one of two levels; their squares are observed if `far`."""
    s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
    z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
    loc = jnp.where(far > 0, 0.1, 3.0) * (1 - 2 * z)
    x = ppl.sample(key, dist.Normal(loc * jnp.ones(3), 0.3 + s), name="x")
    mean = jnp.where(far > 0, (x - 0.3) ** 2, 0.1 * x)
    ppl.sample(key, dist.Normal(mean, 0.3), name="y")


_Y = {"y": jnp.array([1.0, 2.0, 1.5])}
_BOTH = {"x": ppl.Laplace(), "z": ppl.Enumerate()}


def _within(key, far):
    return ppl.marginalize(ppl.condition(_mixed, _Y), _BOTH)(key, far)


RUNS = {
    "two modes": (ppl.marginalize(ppl.condition(_mixed, _Y), _BOTH), 1.0, 2),
    "one for each state": (ppl.marginalize(ppl.condition(_mixed, _Y), _BOTH), 0.0, 1),
    "conditioned later": (ppl.condition(ppl.marginalize(_mixed, _BOTH), _Y), 1.0, 2),
    "in a scope": (ppl.nest(ppl.marginalize(ppl.condition(_mixed, _Y), _BOTH), scope="a"), 1.0, 2),
    "within a function": (_within, 1.0, None),
    "with powers": (ppl.scale(ppl.marginalize(ppl.condition(_mixed, _Y), _BOTH), 0.5), 1.0, None),
}


@pytest.mark.parametrize("name", RUNS)
def test_chains_over_the_rest_tell_other_modes(name):
    model, far, num_modes = RUNS[name]
    target = ppl.unconstrain(model, far)
    s = {"s": np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 100)).astype(np.float32)}
    draws = {"a": s} if name == "in a scope" else s
    found = look_at_approximate_sites(key(0), target, draws, {})
    assert found["num_inner_modes"] == num_modes
    assert found["approximate"][0] == (("a.x",) if name == "in a scope" else ("x",))


def test_climbs_in_step_end_at_modes_alone():
    scales = np.array([1e-3, 1.0, 30.0])

    def evaluate(x):  # the third climb begins where the density is 0
        heights = -np.sum((x / scales) ** 2, axis=1) / 2 - np.sum(x**4, axis=1)
        return np.where(x[:, 1] < -5, np.nan, heights), -x / scales**2 - 4 * x**3

    starts = np.array([[1.0, 2.0, 3.0], [-0.1, 4.0, -9.0], [0.0, -6.0, 0.0]])
    ends = climb_in_step(evaluate, starts, tolerance=1e-6, eps=1e-16, max_steps=200)
    assert ends.have_converged.tolist() == [True, True, False]
    np.testing.assert_allclose(ends.heights[:2], 0, atol=1e-5)
    early = climb_in_step(evaluate, starts, tolerance=1e-6, eps=1e-16, max_steps=3)
    assert not early.have_converged.any()


def test_missing_data_and_chains_give_no_false_alarm():
    def series(key):
        spread = ppl.sample(key, dist.HalfNormal(1.0), name="spread")

        def step(h, key):
            h = ppl.sample(key, dist.Normal(0.9 * h, spread), name="h")
            ppl.sample(key, dist.StudentT(4.0, h, 0.5), name="y")
            return h, None

        jax.lax.scan(step, 0.0, jax.random.split(key, 60))

    y = np.sin(np.arange(60) / 5)
    y[[7, 8, 30]] = np.nan
    posterior = ppl.condition(series, {"y": ppl.ignore(y)})
    result = nested_laplace(key(0), posterior, num_draws=64)
    assert result.num_inner_modes == 1
    assert "one of h given these was found" in result.summary().verdict
