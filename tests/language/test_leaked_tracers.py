"""Functions of strategies and distributions that need a value of a transformation around them."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats

import distributions as dist
import ppl

from .checks import assert_close

KEY = key(5)
NORMAL = stats.norm.logpdf


def by_weight(weight: Any, d: Any) -> ppl.Pushforward:
    base = dist.Normal(0.0, d.scale / weight)
    return ppl.Pushforward(base, lambda z: d.loc + weight * z, lambda x: (x - d.loc) / weight)


def around(one: Any, run: str) -> Any:
    """A submodel with a strategy that takes a value of the transformation around it."""

    def model(key: Any, weights: Any) -> Any:
        element = lambda _, k_and_w: (0.0, one(*k_and_w))  # noqa: E731
        if run == "scan":
            return lax.scan(element, 0.0, (split(key, 3), weights))[1]
        if run == "checkpoint":
            return jax.checkpoint(lambda weights: one(key, weights[0]))(weights)
        return jax.vmap(one)(split(key, 3), weights)

    return model


def centered(key: Any) -> Any:
    return ppl.sample(key, dist.Normal(1.0, 2.0), name="x")


WEIGHTS = jnp.array([0.5, 1.0, 4.0])


@pytest.mark.parametrize("run", ["vmap", "scan", "checkpoint"])
def test_a_strategy_takes_a_value_along(run):
    one = lambda key, w: ppl.reparam(centered, {"x": jax.tree_util.Partial(by_weight, w)})(key)  # noqa: E731
    model = around(one, run)
    weights = WEIGHTS[0] if run == "checkpoint" else WEIGHTS
    target = ppl.unconstrain(model, WEIGHTS)
    z = jnp.full_like(weights, 0.7)
    assert_close(target.constrain({"x": z})["x"], 1.0 + weights * 0.7)
    assert_close(target.log_density({"x": z}), NORMAL(z, 0.0, 2.0 / weights).sum())


@pytest.mark.parametrize("run", ["vmap", "scan", "checkpoint"])
def test_a_strategy_that_outlives_a_value_is_explained(run):
    def one(key: Any, weight: Any) -> Any:
        return ppl.reparam(centered, {"x": lambda d: by_weight(weight, d)})(key)

    position = {"x": jnp.zeros(() if run == "checkpoint" else 3)}
    with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
        ppl.unconstrain(around(one, run), WEIGHTS).log_density(position)
    (note,) = (x for x in caught.value.__notes__ if "a function in what is sown" in x)
    assert "jax.tree_util.Partial(f, value)" in note


@pytest.mark.parametrize("use", [lambda model: model(KEY, WEIGHTS), lambda model: ppl.unconstrain(
    model, WEIGHTS).log_density({"x": jnp.zeros(3)})], ids=["drawn", "scored"])  # fmt: skip
def test_a_density_that_outlives_a_value_is_explained(use):
    def one(key: Any, weight: Any) -> Any:
        density = lambda x: -(x**2) / weight  # noqa: E731
        sampler = lambda key, shape: weight * jax.random.normal(key, shape)  # noqa: E731
        return ppl.sample(key, dist.Custom(density, sampler=sampler), name="x")

    with pytest.raises(jax.errors.UnexpectedTracerError) as caught:
        use(around(one, "vmap"))
    notes = caught.value.__notes__
    assert (
        sum(
            note.startswith("site 'x': A value of a vmap, loop or checkpoint is used outside")
            for note in notes
        )
        == 1
    )
