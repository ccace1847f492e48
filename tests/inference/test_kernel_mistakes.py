"""Kernels that break the protocol, and settings that do not fit, are refused in words."""

import jax.numpy as jnp
import pytest
from jax import random

from inference import mcmc
from tests.inference.test_own_kernels import (
    FEW,
    POSTERIOR,
    Nothing,
    Place,
    Position,
    RandomWalk,
    kernel,
)


@kernel
class Growing:
    """Its states are not like each other."""

    def init(self, position):
        return Position(position)

    def step(self, key, state):
        return Place(state.position, jnp.zeros(())), Nothing()


@kernel
class Vague:
    """Its info has no names."""

    def init(self, position):
        return Position(position)

    def step(self, key, state):
        return state, ()


@kernel
class Lost:
    """Its state has no position."""

    def init(self, position):
        return (position,)

    def step(self, key, state):
        return self.init(state.position), Nothing()


@kernel
class Single:
    """Its step returns no info."""

    def init(self, position):
        return Position(position)

    def step(self, key, state):
        return state


class Plain:
    init = step = lambda *_: None


REFUSED = [
    (Growing(), {}, "Growing.step must return a state like that of Growing.init"),
    (Vague(), {}, "the info of Vague.step must be a NamedTuple of scalars"),
    (Single(), {}, "Single.step must return a plain tuple of two, the next state and an info"),
    (Lost(), {}, "the state of Lost must be a NamedTuple with a position"),
    (Plain(), {}, "kernel must be a frozen dataclass that JAX knows as a pytree"),
    (object(), {}, "one of your own has init(position) and step(key, state)"),
    (RandomWalk, {}, "did you mean RandomWalk()?"),
    (RandomWalk(jnp.sum), {}, "kernel has a log density of its own"),
    (RandomWalk(), {"mass_matrix": "dense"}, "nothing of RandomWalk is adapted"),
    (RandomWalk(), {"target_acceptance_rate": 0.3}, "nothing of RandomWalk is adapted"),
]


@pytest.mark.parametrize(("kernel", "settings", "message"), REFUSED)
def test_what_is_no_kernel_is_refused_in_words(kernel, settings, message):
    with pytest.raises((TypeError, ValueError)) as error:
        mcmc(random.key(0), POSTERIOR, kernel=kernel, **FEW, **settings)
    assert message in str(error.value)
