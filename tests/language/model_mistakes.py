"""Mistakes in models: control flow, names and scopes, keys, distributions."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.random import split

import distributions as dist
import ppl

from .mistake import KEY, Mistake, X, add_to, count, line

MODELS: list[Mistake] = []
mistake = functools.partial(add_to, MODELS)


@mistake("A Python branch on a site", names=["'branching'", "jnp.where or lax.cond"])
def _():
    def branching(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        if x > 0:
            ppl.sample(key, dist.Normal(x, 1.0), name="y")

    ppl.log_density(branching)({"x": 1.0, "y": 2.0})


@mistake("A Python loop as long as a site says", names=["'looping'", "lax.scan"])
def _():
    def looping(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return sum(ppl.sample(key, dist.Normal(0.0, 1.0), name=f"x{i}") for i in range(n))

    ppl.simulate(looping)(KEY)


@mistake("As many elements as a site says", names=["'picking'", "bool[3]", "jnp.where"])
def _():
    def picking(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.sample(key, dist.Normal(x[x > 0].sum(), 1.0), name="y")

    ppl.simulate(picking)(KEY)


@mistake(
    "A trans-dimensional cond",
    names=["'extra'", "some branches", "how many variables", "every branch"],
)
def _():
    def sometimes(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        more = lambda: ppl.sample(key, dist.Normal(x, 1.0), name="extra")  # noqa: E731
        return lax.cond(x > 0, more, lambda: x)

    ppl.log_density(sometimes)({"x": 1.0, "extra": 2.0})


@mistake("Branches with different shapes", names=["'x'", "float32[2]", "float32[3]", "branches"])
def _():
    def either(key, b):
        draw = lambda n: lambda: ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x").sum()  # noqa: E731
        return lax.cond(b, draw(2), draw(3))

    ppl.simulate(either)(KEY, True)


@mistake("A factor in one branch", names=["'tilted'", "'tilt'", "0.0", "behind the cond"])
def _():
    def tilted(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        lax.cond(x > 0, lambda: ppl.factor(-x, name="tilt"), lambda: None)

    ppl.log_density(tilted)({"x": 1.0})


@mistake("A site in a while loop", names=["'x'", "how many variables", "while", "scan"])
def _():
    def walk(key):
        step = lambda s: ppl.sample(key, dist.Normal(s, 1.0), name="x")  # noqa: E731
        return lax.while_loop(lambda s: s < 3.0, step, 0.0)

    ppl.log_density(walk)({"x": 1.0})


@mistake("A collective in a branch of a cond", names=["'x'", "cond", "vmap", "collective"])
def _():
    def each(key, x):
        draw = lambda loc: lambda: ppl.sample(key, dist.Normal(loc, 1.0), name="x")  # noqa: E731
        mean = lambda: ppl.sample(key, dist.Normal(lax.pmean(x, "i"), 1.0), name="x")  # noqa: E731
        return lax.cond(x > 0, draw(1.0), mean)

    ppl.simulate(lambda key, x: jax.vmap(each, axis_name="i")(split(key, 3), x))(KEY, X)


@mistake("One name twice", names=["'twice'", "'x'", "2 times", "nest"])
def _():
    def twice(key):
        a, b = split(key)
        return [ppl.sample(k, dist.Normal(0.0, 1.0), name="x") for k in (a, b)]

    ppl.log_density(twice)({"x": 1.0})


@mistake("One name with two shapes", names=["'x'", "float32[]", "float32[2]", "own name"])
def _():
    def two_shapes(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")

    ppl.simulate(two_shapes)(KEY)


@mistake("The name of a site and of a scope", names=["'a'", "scope"])
def _():
    def both(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
        ppl.nest(count, scope="a")(key)

    ppl.simulate(both)(KEY)


@mistake("A scope left out", names=["'a' is a scope"])
def _():
    ppl.log_density(ppl.nest(count, scope="a"))({"a": 1.0})


@mistake("A path in place of a scope", names=["'a/n'", "{'a': {'n': ...}}"])
def _():
    ppl.condition(ppl.nest(count, scope="a"), {"a/n": 3})(KEY)


@mistake("A model without a key", names=["'no_key'", "f(key, *args, **kwargs)"])
def _():
    def no_key():
        return ppl.sample(KEY, dist.Normal(0.0, 1.0), name="x")

    ppl.simulate(no_key)(KEY)


@mistake("The key is forgotten", names=["simulate", "random key"])
def _():
    ppl.simulate(line)(X)


@mistake("Key and distribution swapped", names=["'x'", "random key first", "Normal"])
def _():
    ppl.sample(dist.Normal(0.0, 1.0), KEY, name="x")


@mistake("A site without a key", names=["'x'", "random key first", "Normal", "ppl.sample(key,"])
def _():
    ppl.sample(dist.Normal(0.0, 1.0), name="x")


@mistake("Several keys for one site", names=["'x'", "[3]", "vmap"])
def _():
    ppl.sample(split(KEY, 3), dist.Normal(0.0, 1.0), name="x")


@mistake("A number for a distribution", names=["'x'", "float: 3.0"])
def _():
    ppl.sample(KEY, 3.0, name="x")


@mistake("A class for a distribution", names=["'x'", "distribution"])
def _():
    ppl.sample(KEY, dist.Normal, name="x")


@mistake("A scale that is not positive", names=["scale", "positive", "-1.0"])
def _():
    ppl.sample(KEY, dist.Normal(0.0, -1.0), name="x")
