"""Descriptions of code: equal functions and settings have the same words, others have others."""

import dataclasses
import functools
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import inference
from inference.drivers.run_description import describe_function, describe_setting


@dataclasses.dataclass
class Holder:
    content: Any


class Callable:
    def __init__(self, n):
        self.n = n

    def __call__(self, key):
        return self.n


def by_keyword(n):
    def fit(key, *, size=n):
        return size

    return fit


def of_itself(n):
    def fit(i):
        return fit(i - 1) if i else n

    return fit


def of_nothing(n):
    def fit(key):
        return later + n

    if n < 0:
        later = 1
    return fit


def like_svi(n):
    return functools.wraps(inference.svi)(lambda key: n)


FUNCTIONS = {
    "defaults by keyword": by_keyword,
    "jit": lambda n: jax.jit(lambda key: n),
    "vmap of grad": lambda n: jax.vmap(jax.grad(lambda x: n * x)),
    "partial": lambda n: functools.partial(by_keyword(0), size=n),
    "object": Callable,
    "method": lambda n: Callable(n).__call__,
    "of itself": of_itself,
    "empty cell": of_nothing,
    "wraps": like_svi,
}
SETTINGS = {
    "optimizer": lambda n: optax.adam(0.1 * n),
    "schedule": lambda n: optax.sgd(optax.cosine_decay_schedule(0.1 * n, 100)),
    "dataclass": lambda n: Holder(np.where(np.arange(5000) == 2500, n, 0)),
    "pytree": lambda n: jax.tree_util.Partial(lambda x: x, jnp.full(3000, n)),
    "in a dict": lambda n: {"a": [of_itself(n)]},
}


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_are_compared_by_all_they_hold(make):
    assert describe_function(make(1)) == describe_function(make(1))
    assert describe_function(make(1)) != describe_function(make(2))


@pytest.mark.parametrize("make", SETTINGS.values(), ids=SETTINGS)
def test_settings_are_compared_by_all_they_hold(make):
    assert describe_setting(make(1)) == describe_setting(make(1))
    assert describe_setting(make(1)) != describe_setting(make(2))
    assert "0x" not in describe_setting(make(1))


def test_functions_of_the_library_have_its_version():
    assert describe_function(inference.svi) == "inference.drivers.svi.svi"


def test_objects_of_unknown_contents_are_refused():
    for value in (threading.Lock(), Holder(np.random.default_rng(0)), Callable(threading.Lock())):
        with pytest.raises(TypeError, match=r"cannot be compared .* give a function, a dataclass"):
            describe_setting(value)
