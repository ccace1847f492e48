"""Functions are alike if the same code has made them from equal things."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from ppl.harvest.function_equality import ComparedByContents


def power(exponent):
    return lambda x: x**exponent


def recursive(n):
    def f(x):
        return x if n == 0 else f(x - 1)

    return f


class Thing:
    def __init__(self, x):
        self.x = x

    def method(self):
        return self.x


THING = Thing(1)
FACTOR = 1.0
SCHEDULE = lambda rate: optax.cosine_decay_schedule(rate, 100)  # noqa: E731

ALIKE = {
    "Adam": lambda: optax.adam(1e-2),
    "a schedule": lambda: optax.adam(SCHEDULE(0.1)),
    "a chain": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1, momentum=0.9)),
    "a mask": lambda: optax.masked(optax.adam(1e-3), {"a": True, "b": False}),
    "injected": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=0.1),
    "an array": lambda: power(np.arange(3)),
    "a JAX array": lambda: power(jnp.arange(3)),
    "nested": lambda: power(power((1, [2.0, {"a": None}]))),
    "partial": lambda: functools.partial(power, exponent=2),
    "recursive": lambda: recursive(3),
    "method": lambda: THING.method,
    "jitted": lambda: power(jnp.linalg.norm),
}

UNLIKE = {
    "another rate": (optax.adam(1e-2), optax.adam(1e-3)),
    "another schedule": (optax.adam(SCHEDULE(0.1)), optax.adam(SCHEDULE(0.2))),
    "another optimizer": (optax.adam(1e-2), optax.adamw(1e-2)),
    "an integer for a float": (power(1), power(1.0)),
    "a boolean for an integer": (power(1), power(True)),
    "another array": (power(np.arange(3)), power(np.arange(3) + 1)),
    "another dtype": (power(np.zeros(3, np.float32)), power(np.zeros(3, np.int32))),
    "another key": (power(jax.random.key(0)), power(jax.random.key(1))),
    "other code": (power(2), lambda x: x**2),
    "other methods' objects": (Thing(1).method, Thing(1).method),
    "other objects": (power(Thing(1)), power(Thing(1))),
    "another depth": (recursive(3), recursive(4)),
}


@pytest.mark.parametrize("name", ALIKE)
def test_what_is_made_alike_is_equal(name):
    first, second = ComparedByContents.of(ALIKE[name]()), ComparedByContents.of(ALIKE[name]())
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize("name", UNLIKE)
def test_what_differs_is_not_equal(name):
    first, second = map(ComparedByContents.of, UNLIKE[name])
    assert first != second


@pytest.mark.parametrize("made", [lambda: lambda x: x * FACTOR, lambda: lambda x: lambda: FACTOR])
def test_globals_that_code_names_are_part_of_what_it_is(made, monkeypatch):
    first = ComparedByContents.of(made())
    assert first == ComparedByContents.of(made())
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert first != ComparedByContents.of(made())


def test_what_is_traced_is_like_itself_alone():
    def f(x):
        assert ComparedByContents.of(power(x)) == ComparedByContents.of(power(x))
        assert ComparedByContents.of(power(x)) != ComparedByContents.of(power(x + 1))
        return x

    jax.jit(f)(1.0)
