"""The mistakes that modellers make, and what errors say: `python -m tests.language.mistakes`."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.random import split

import distributions as dist
import inference
import ppl

from .mistake import KEY, VALUES, X, count, line, mistake, page


@mistake("A wrong name in condition", "'line'", "'yy'", "'slope', 'scale', 'y'")
def _():
    ppl.condition(line, {"yy": X})(KEY, X)


@mistake("A wrong name in a density", "'line'", "'slop'", "'slope'")
def _():
    ppl.log_density(line)({**VALUES, "slop": 1.0}, X)


@mistake("A value is missing", "'line'", "missing: 'scale'")
def _():
    ppl.log_density(line)({"slope": 1.0, "y": X}, X)


@mistake("(N, 1) data for N numbers", "'y'", "float32[3]", "float32[3,1]", "broadcast")
def _():
    ppl.condition(line, {"y": X[:, None]})(KEY, X)


@mistake("(N, 1) parameters against N data", "'y'", "float32[3,3]", "float32[3]", "broadcast")
def _():
    ppl.condition(line, {"y": X})(KEY, X[:, None] * jnp.ones(3))


@mistake("A scalar where all elements are meant", "'y'", "float32[3]", "float32[]", "broadcast_to")
def _():
    ppl.condition(line, {"y": 0.0})(KEY, X)


@mistake("Data that are a list", "'y'", "float32[3]", "list: [0.0, 1.0, 2.0]", "jnp.asarray")
def _():
    ppl.condition(line, {"y": [0.0, 1.0, 2.0]})(KEY, X)


@mistake("Data that are None", "'y'", "float32[3]", "None")
def _():
    ppl.condition(line, {"y": None})(KEY, X)


@mistake("A part of a joint vector, left out", "'v'", "1 of 1", "MultivariateNormal", "ppl.impute")
def _():
    def model(key):
        normal = dist.MultivariateNormal(jnp.zeros(3), covariance=jnp.eye(3))
        return ppl.sample(key, normal, name="v")

    ppl.condition(model, {"v": ppl.ignore(jnp.array([1.0, jnp.nan, 2.0]))})(KEY)


@mistake("Data with NaN", "'y'", "1 of the 3", "latent")
def _():
    ppl.condition(line, {"y": X.at[1].set(jnp.nan)})


@mistake("A mask of another shape", "`missing`", "(3,)", "(2,)", "broadcast_to")
def _():
    ppl.impute(X, jnp.array([False, True]))


@mistake("Data ignored that others need", "'walk'", "'next'", "'x'", "ppl.impute")
def _():
    def walk(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.sample(key, dist.Normal(x[-1], 1.0), name="next")

    gaps = ppl.ignore(X, X == 2.0)
    ppl.log_density(ppl.condition(walk, {"x": gaps}))({"next": 0.0})


@mistake("An intervention with NaN", "'slope'", "1 of the 1", "Give numbers")
def _():
    ppl.intervene(line, {"slope": jnp.nan})


@mistake("Integers where floats are needed", "'y'", "float32[3]", "int32[3]", ".astype('float32')")
def _():
    ppl.condition(line, {"y": jnp.arange(3)})(KEY, X)


@mistake("Floats for counts", "'n'", "int32[]", "float32[]", ".astype('int32')")
def _():
    ppl.condition(count, {"n": jnp.float32(3.5)})(KEY)


@mistake("A Python branch on a site", "'branching'", "jnp.where or lax.cond")
def _():
    def branching(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        if x > 0:
            ppl.sample(key, dist.Normal(x, 1.0), name="y")

    ppl.log_density(branching)({"x": 1.0, "y": 2.0})


@mistake("A Python loop as long as a site says", "'looping'", "lax.scan")
def _():
    def looping(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return sum(ppl.sample(key, dist.Normal(0.0, 1.0), name=f"x{i}") for i in range(n))

    ppl.simulate(looping)(KEY)


@mistake("As many elements as a site says", "'picking'", "bool[3]", "jnp.where")
def _():
    def picking(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.sample(key, dist.Normal(x[x > 0].sum(), 1.0), name="y")

    ppl.simulate(picking)(KEY)


@mistake(
    "A trans-dimensional cond", "'extra'", "some branches", "how many variables", "every branch"
)
def _():
    def sometimes(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        more = lambda: ppl.sample(key, dist.Normal(x, 1.0), name="extra")  # noqa: E731
        return lax.cond(x > 0, more, lambda: x)

    ppl.log_density(sometimes)({"x": 1.0, "extra": 2.0})


@mistake("Branches with different shapes", "'x'", "float32[2]", "float32[3]", "branches")
def _():
    def either(key, b):
        draw = lambda n: lambda: ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x").sum()  # noqa: E731
        return lax.cond(b, draw(2), draw(3))

    ppl.simulate(either)(KEY, True)


@mistake("A factor in one branch", "'tilted'", "'tilt'", "0.0", "behind the cond")
def _():
    def tilted(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        lax.cond(x > 0, lambda: ppl.factor(-x, name="tilt"), lambda: None)

    ppl.log_density(tilted)({"x": 1.0})


@mistake("A site in a while loop", "'x'", "how many variables", "while", "scan")
def _():
    def walk(key):
        step = lambda s: ppl.sample(key, dist.Normal(s, 1.0), name="x")  # noqa: E731
        return lax.while_loop(lambda s: s < 3.0, step, 0.0)

    ppl.log_density(walk)({"x": 1.0})


@mistake("vmap of a cond on what it maps", "'x'", "cond", "vmap", "jnp.where")
def _():
    def each(key, b):
        draw = lambda loc: lambda: ppl.sample(key, dist.Normal(loc, 1.0), name="x")  # noqa: E731
        return lax.cond(b, draw(1.0), draw(2.0))

    ppl.simulate(lambda key, b: jax.vmap(each)(split(key, 3), b))(KEY, X > 0)


@mistake("One name twice", "'twice'", "'x'", "2 times", "nest")
def _():
    def twice(key):
        a, b = split(key)
        return [ppl.sample(k, dist.Normal(0.0, 1.0), name="x") for k in (a, b)]

    ppl.log_density(twice)({"x": 1.0})


@mistake("One name with two shapes", "'x'", "float32[]", "float32[2]", "own name")
def _():
    def two_shapes(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")

    ppl.simulate(two_shapes)(KEY)


@mistake("The name of a site and of a scope", "'a'", "scope")
def _():
    def both(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
        ppl.nest(count, scope="a")(key)

    ppl.simulate(both)(KEY)


@mistake("A scope left out", "'a' is a scope")
def _():
    ppl.log_density(ppl.nest(count, scope="a"))({"a": 1.0})


@mistake("A path in place of a scope", "'a/n'", "{'a': {'n': ...}}")
def _():
    ppl.condition(ppl.nest(count, scope="a"), {"a/n": 3})(KEY)


@mistake("A model without a key", "'no_key'", "f(key, *args, **kwargs)")
def _():
    def no_key():
        return ppl.sample(KEY, dist.Normal(0.0, 1.0), name="x")

    ppl.simulate(no_key)(KEY)


@mistake("The key is forgotten", "simulate", "random key")
def _():
    ppl.simulate(line)(X)


@mistake("Key and distribution swapped", "'x'", "random key first", "Normal")
def _():
    ppl.sample(dist.Normal(0.0, 1.0), KEY, name="x")


@mistake("A site without a key", "'x'", "random key first", "Normal", "ppl.sample(key,")
def _():
    ppl.sample(dist.Normal(0.0, 1.0), name="x")


@mistake("Several keys for one site", "'x'", "[3]", "vmap")
def _():
    ppl.sample(split(KEY, 3), dist.Normal(0.0, 1.0), name="x")


@mistake("A number for a distribution", "'x'", "float: 3.0")
def _():
    ppl.sample(KEY, 3.0, name="x")


@mistake("A class for a distribution", "'x'", "distribution")
def _():
    ppl.sample(KEY, dist.Normal, name="x")


@mistake("A scale that is not positive", "scale", "positive", "-1.0")
def _():
    ppl.sample(KEY, dist.Normal(0.0, -1.0), name="x")


@mistake(
    "A scale that becomes 0", "'y'", "at 3 of 3 elements", "Normal(loc=0.0, scale=0.0)", "init="
)
def _():
    def narrow(key, x):
        level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
        return ppl.sample(key, dist.Normal(0.0 * x, jnp.exp(level - 200)), name="y")

    inference.mcmc(KEY, ppl.condition(narrow, {"y": X}), X, progress_bar=False)


@mistake("A discrete latent site, given to HMC", "'n'", "discrete", "Sum it out")
def _():
    inference.mcmc(KEY, count, progress_bar=False)


@mistake("Nothing to infer", "'line'", "no latent site")
def _():
    inference.mcmc(KEY, ppl.condition(line, VALUES), X, progress_bar=False)


@mistake("Randomness that is no site", "'noisy'", "ppl.sample")
def _():
    def noisy(key):
        loc = jax.random.normal(key)
        return ppl.sample(key, dist.Normal(loc, 1.0), name="x")

    ppl.log_density(noisy)({"x": 1.0})


@mistake("One key for all elements of a vmap", "'x'", "the same draw", "jax.random.split(key, n)")
def _():
    def alike(key, locs):
        one = lambda loc: ppl.sample(key, dist.Normal(loc, 1.0), name="x")  # noqa: E731
        return jax.vmap(one)(locs)

    ppl.log_density(alike)({"x": X}, X)


@mistake("One key for all steps of a scan", "'x'", "the same draw", "scan over the keys")
def _():
    def steps(key):
        step = lambda x, _: (ppl.sample(key, dist.Normal(x, 1.0), name="x"),) * 2  # noqa: E731
        return lax.scan(step, 0.0, length=3)

    ppl.log_density(steps)({"x": X})


@mistake("One key for two submodels", "'a/rate'", "'b/rate'", "the same draw", "Split the key")
def _():
    def two(key):
        return ppl.nest(count, scope="a")(key) + ppl.nest(count, scope="b")(key)

    posterior = ppl.condition(two, {"a": {"n": 1}, "b": {"n": 2}})
    inference.mcmc(KEY, posterior, progress_bar=False)


@mistake("Data for a site that has some", "'y'", "'line'", "observed already")
def _():
    ppl.condition(ppl.condition(line, {"y": X}), {"y": X})(KEY, X)


@mistake("Data for a derived quantity", "'mean'", "deterministic")
def _():
    def derived(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.deterministic(x.mean(), name="mean")

    ppl.condition(derived, {"mean": 0.0})(KEY)


@mistake("A derived quantity that is no array", "deterministic 'label'", "'high'", "arrays")
def _():
    ppl.deterministic("high", name="label")


@mistake("A blocked latent site", "'line'", "blocked")
def _():
    ppl.log_density(ppl.block(line, ["scale"]))({"slope": 1.0, "y": X}, X)


@mistake("Predictions of a conditioned model", "'line'", "before condition")
def _():
    draws = {"slope": jnp.zeros(5), "scale": jnp.ones(5)}
    ppl.predict(ppl.condition(line, {"y": X}), draws)(KEY, X)


@mistake("Draws of another shape", "'slope'", "(2,)", "(3,)")
def _():
    ppl.predict(line, {"slope": jnp.zeros(2), "scale": jnp.ones(3)})(KEY, X)


@mistake("Predictions from no draws", "'slope'", "(0,)", "at least one")
def _():
    ppl.predict(line, {"slope": jnp.zeros(0), "scale": jnp.zeros(0)})(KEY, X)


@mistake("Non-centring what has no location", "'p'", "Beta", "Pushforward")
def _():
    model = lambda key: ppl.sample(key, dist.Beta(1.0, 1.0), name="p")  # noqa: E731
    ppl.unconstrain(ppl.reparam(model, {"p": ppl.NonCentered()}))


@mistake("A weight that is none", "PartiallyCentered", "[0, 1]", "2.0", "NonCentered()")
def _():
    ppl.reparam(line, {"slope": ppl.PartiallyCentered(2.0)})


@mistake("A weight for each element of a vmap", "'x'", "()", "(3,)", "one draw")
def _():
    def mapped(key):
        site = lambda key: ppl.sample(key, dist.Normal(0.0, 2.0), name="x")  # noqa: E731
        return jax.vmap(site)(split(key, 3))

    weights = jnp.array([0.0, 0.5, 1.0])
    ppl.unconstrain(ppl.reparam(mapped, {"x": ppl.PartiallyCentered(weights)}))


@mistake("Floats as draws of counts", "'n'", "int32", "float32", ".astype")
def _():
    ppl.predict(count, {"n": jnp.array([3.5, 2.0])})(KEY)


@mistake("A constraint as a truth value", "'order'", "bool[]", "jnp.where(ok, 0.0, -jnp.inf)")
def _():
    ppl.factor(jnp.array(True), name="order")


@mistake(
    "Arguments before values", "log_density", "dict of values", "[0., 1., 2.]", "(values, *args)"
)
def _():
    ppl.log_density(line)(X, VALUES)


@mistake("A size that is a site", "'sized'", "traced", "sizes as integers of Python")
def _():
    def sized(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x")

    ppl.log_density(sized)({"n": 3, "x": X})


if __name__ == "__main__":
    print(page(), end="")
