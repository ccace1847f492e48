"""XLA's tricks: what each does to a program, and that none changes a value but by rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import HMC, NUTS
from inference.chains.sampling import sample
from inference.runtime.xla import (
    SWITCH,
    PaddedFactor,
    fuse_as_loop,
    materialize,
    materialize_by_loop,
    pad_for_cpu,
    tricks_are_on,
)
from tests.inference.targets import FakeTarget

X, FACTOR = jnp.arange(1.0, 4.0), jnp.eye(3)
HELPERS = {
    "while": [
        lambda: fuse_as_loop(jnp.cos, X, jnp.int32(0)),
        lambda: materialize_by_loop(X),
    ],
    "optimization_barrier": [lambda: materialize(X), lambda: pad_for_cpu(FACTOR)],
}
CASES = [(name, helper) for name, helpers in HELPERS.items() for helper in helpers]


@pytest.mark.parametrize(("name", "helper"), CASES)
def test_the_switch_turns_each_trick_off(monkeypatch, name, helper):
    monkeypatch.setenv(SWITCH, "1")
    assert name in str(jax.make_jaxpr(lambda: helper())())
    monkeypatch.setenv(SWITCH, "0")
    assert name not in str(jax.make_jaxpr(lambda: helper())())


def test_the_tricks_are_on_where_nothing_is_said(monkeypatch):
    monkeypatch.delenv(SWITCH, raising=False)
    assert tricks_are_on()
    assert isinstance(pad_for_cpu(FACTOR), PaddedFactor)


def density(x, data):
    return -0.5 * jnp.sum((x / data) ** 2) - 0.1 * x[0] ** 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["diagonal", "low_rank", "dense"])
@pytest.mark.parametrize("kernel", [NUTS(), HMC(num_steps=5)], ids=["NUTS", "HMC"])
def test_draws_without_tricks_are_those_with_them(monkeypatch, x64, kernel, kind):
    target = FakeTarget(density, (3,), jnp.array([1.0, 0.2, 5.0]))
    settings = {"num_warmup": 5, "num_draws": 30, "num_chains": 2, "mass_matrix": kind}

    def draws():
        key = jax.random.key(0)
        return sample(key, target, kernel, target_acceptance_rate=0.8, **settings).draws["x"]

    monkeypatch.setenv(SWITCH, "1")
    expected = draws()
    monkeypatch.setenv(SWITCH, "0")
    # Another order of sums rounds otherwise, and chaos makes that grow.
    np.testing.assert_allclose(draws(), expected, rtol=1e-6, atol=1e-9)
