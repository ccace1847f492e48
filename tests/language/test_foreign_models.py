"""Models of other libraries are told from ours, without importing those libraries."""

import functools
import types

import jax.numpy as jnp
import pytest
from jax.random import key

import distributions as dist
import inference
import ppl

X = jnp.arange(3.0)


def refuse(*_, **__):
    """A statement outside of the library's own handlers."""
    raise AssertionError


refuse.__name__, refuse.__module__ = "sample", "numpyro.primitives"
numpyro = types.ModuleType("numpyro")
numpyro.sample = refuse
numpyro.scale = 1.0


def by_module(x):
    return numpyro.sample("a", x)


def by_function(key, x):
    return refuse("a", x)


def by_closure():
    statement = refuse
    return lambda key, x: statement("a", x)


class Model:
    """A stand-in for PyMC's."""


class Handler:
    """A stand-in for NumPyro's handlers, which have no name of a function."""

    def __call__(self, x):
        return refuse("a", x)


Model.__module__ = "pymc.model.core"
Handler.__module__ = "numpyro.handlers"
MODELS = {
    "module": (by_module, "'by_module' is one of NumPyro"),
    "function": (by_function, "'by_function' is one of NumPyro"),
    "closure": (by_closure(), "is one of NumPyro"),
    "partial": (functools.partial(by_function, x=X), "is one of NumPyro"),
    "handler": (Handler(), "'Handler' is one of NumPyro"),
    "object": (Model(), "a model of PyMC"),
}
USES = {
    "mcmc": lambda model: inference.mcmc(key(0), model, X, progress=False),
    "condition": lambda model: ppl.condition(model, {"a": X})(key(0), X),
    "trace": lambda model: ppl.trace(model)(key(0), X),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("model", "words"), MODELS.values(), ids=MODELS)
def test_a_model_of_another_library_is_named(model, words, use):
    if isinstance(model, functools.partial):
        use = lambda model: ppl.trace(model)(key(0))  # noqa: E731
    with pytest.raises(TypeError, match=rf"{words}: .*write it as a function of a random key"):
        use(model)


def test_the_door_of_the_library_is_named():
    with pytest.raises(TypeError, match=r"by ppl\.from_pymc\(model\), or write"):
        ppl.trace(Model())(key(0))
    with pytest.raises(TypeError, match=r"by ppl\.from_numpyro\(model\), or write"):
        ppl.trace(by_module)(key(0), X)


def test_a_model_of_ours_keeps_its_own_errors():
    def model(key):
        return ppl.sample(key, dist.Normal(0.0, numpyro.scale), name="x") + undefined  # noqa: F821

    with pytest.raises(NameError, match="undefined"):
        ppl.trace(model)(key(0))
