"""Mistakes in the use of models: inference, keys that repeat, predictions, reparametrizations."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.random import split

import distributions as dist
import inference
import ppl

from .mistake import KEY, VALUES, Mistake, X, add_to, count, line

USES: list[Mistake] = []
mistake = functools.partial(add_to, USES)


@mistake(
    "A scale that becomes 0",
    names=["'y'", "at 3 of 3 elements", "Normal(loc=0.0, scale=0.0)", "init="],
)
def _():
    def narrow(key, x):
        level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
        return ppl.sample(key, dist.Normal(0.0 * x, jnp.exp(level - 200)), name="y")

    inference.mcmc(KEY, ppl.condition(narrow, {"y": X}), X, progress=False)


@mistake("A name in the place of the key", names=["a keyword", 'name="x"'])
def _():
    ppl.sample("x", dist.Normal(0.0, 1.0))


@mistake("A name in the place of a derived quantity", names=["a keyword", 'name="r"'])
def _():
    ppl.deterministic("r", X)


@mistake("A family of two parts", names=["ZeroInflated(Poisson(rate), probs=...)"])
def _():
    dist.ZeroInflatedPoisson(0.1, 2.0)


@mistake("Data as an argument of a site", names=["no argument", "ppl.condition"])
def _():
    ppl.sample(KEY, dist.Normal(0.0, 1.0), name="x", obs=X)


@mistake("Data by keyword", names=['{"y": y}'])
def _():
    ppl.condition(line, y=X)


@mistake("Probabilities by position", names=["probs=", "logits=", "By keyword"])
def _():
    dist.Binomial(10, 0.3)


@mistake("An argument of another library", names=["'num_samples'", "'num_draws'"])
def _():
    inference.mcmc(KEY, ppl.condition(line, {"y": X}), X, num_samples=100)


@mistake(
    "An argument of the model that the driver has, too",
    names=["'smooth'", "'kernel'", "by position", "functools.partial"],
)
def _():
    def smooth(key, x, *, kernel):
        level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
        return ppl.sample(key, dist.Normal(kernel(level * x), 1.0), name="y")

    inference.mcmc(KEY, ppl.condition(smooth, {"y": X}), X, kernel=jnp.tanh)


@mistake(
    "Data that count from 1",
    names=["'effect'", "(3,)", "county[2] is 3", "from 0 to 2", "county goes from 1 to 3"],
)
def _():
    def counties(key, county):
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
        return ppl.sample(key, dist.Normal(effect[county], 1.0), name="y")

    inference.mcmc(KEY, ppl.condition(counties, {"y": X}), jnp.array([1, 2, 3]))


@mistake("The model before the key", names=["the key comes first", "'line'"])
def _():
    inference.mcmc(ppl.condition(line, {"y": X}), KEY, X)


@mistake("A name of another library", names=["'plate'", "jax.vmap"])
def _():
    ppl.plate("group", 8)


@mistake(
    "A discrete latent site, given to HMC",
    names=["'n'", "discrete", "ppl.marginalize(model, ['n'])"],
)
def _():
    inference.mcmc(KEY, count, progress=False)


@mistake("Nothing to infer", names=["'line'", "no latent site"])
def _():
    inference.mcmc(KEY, ppl.condition(line, VALUES), X, progress=False)


@mistake("Randomness that is no site", names=["'noisy'", "ppl.sample"])
def _():
    def noisy(key):
        loc = jax.random.normal(key)
        return ppl.sample(key, dist.Normal(loc, 1.0), name="x")

    ppl.log_density(noisy)({"x": 1.0})


@mistake(
    "One key for all elements of a vmap", names=["'x'", "the same draw", "jax.random.split(key, n)"]
)
def _():
    def alike(key, locs):
        one = lambda loc: ppl.sample(key, dist.Normal(loc, 1.0), name="x")  # noqa: E731
        return jax.vmap(one)(locs)

    ppl.log_density(alike)({"x": X}, X)


@mistake("One key for all steps of a scan", names=["'x'", "the same draw", "scan over the keys"])
def _():
    def steps(key):
        step = lambda x, _: (ppl.sample(key, dist.Normal(x, 1.0), name="x"),) * 2  # noqa: E731
        return lax.scan(step, 0.0, length=3)

    ppl.log_density(steps)({"x": X})


@mistake("Data for a site that has some", names=["'y'", "'line'", "observed already"])
def _():
    ppl.condition(ppl.condition(line, {"y": X}), {"y": X})(KEY, X)


@mistake("Data for a derived quantity", names=["'mean'", "deterministic"])
def _():
    def derived(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.deterministic(x.mean(), name="mean")

    ppl.condition(derived, {"mean": 0.0})(KEY)


@mistake("A derived quantity that is no array", names=["deterministic 'label'", "'high'", "arrays"])
def _():
    ppl.deterministic("high", name="label")


@mistake("Names for fewer entries than there are", names=["'y'", "'row'", "3 entries", "2 names"])
def _():
    named = ppl.label(line, {"y": "row"}, {"row": ["first", "second"]})
    ppl.simulate(named)(KEY, X)


@mistake("Names of rows for entries", names=["0 and 2 of 'city'", "Oslo", "numpy.unique"])
def _():
    ppl.label(line, {"y": "city"}, {"city": ["Oslo", "Rome", "Oslo"]})


@mistake("A dimension of a site that there is not", names=["'slopes'", "'slope'", "'scale'", "'y'"])
def _():
    ppl.simulate(ppl.label(line, {"slopes": "row"}))(KEY, X)


@mistake("A blocked latent site", names=["'line'", "'scale', latent, which ppl.block hides"])
def _():
    ppl.log_density(ppl.block(line, ["scale"]))({"slope": 1.0, "y": X}, X)


@mistake("Predictions of a conditioned model", names=["'line'", "before condition"])
def _():
    draws = {"slope": jnp.zeros(5), "scale": jnp.ones(5)}
    ppl.predict(ppl.condition(line, {"y": X}), draws)(KEY, X)


@mistake("Draws of another shape", names=["'slope'", "(2,)", "(3,)"])
def _():
    ppl.predict(line, {"slope": jnp.zeros(2), "scale": jnp.ones(3)})(KEY, X)


@mistake("Predictions from no draws", names=["'slope'", "(0,)", "at least one"])
def _():
    ppl.predict(line, {"slope": jnp.zeros(0), "scale": jnp.zeros(0)})(KEY, X)


@mistake("Non-centering what has no location", names=["'p'", "Beta", "Pushforward"])
def _():
    model = lambda key: ppl.sample(key, dist.Beta(1.0, 1.0), name="p")  # noqa: E731
    ppl.unconstrain(ppl.reparam(model, {"p": ppl.NonCentered()}))


@mistake("A weight that is none", names=["PartiallyCentered", "[0, 1]", "2.0", "NonCentered()"])
def _():
    ppl.reparam(line, {"slope": ppl.PartiallyCentered(2.0)})


@mistake("A weight for each element of a vmap", names=["'x'", "()", "(3,)", "one draw"])
def _():
    def mapped(key):
        site = lambda key: ppl.sample(key, dist.Normal(0.0, 2.0), name="x")  # noqa: E731
        return jax.vmap(site)(split(key, 3))

    weights = jnp.array([0.0, 0.5, 1.0])
    ppl.unconstrain(ppl.reparam(mapped, {"x": ppl.PartiallyCentered(weights)}))


@mistake("Floats as draws of counts", names=["'n'", "int32", "float32", ".astype"])
def _():
    ppl.predict(count, {"n": jnp.array([3.5, 2.0])})(KEY)


@mistake(
    "A constraint as a truth value", names=["'order'", "bool[]", "jnp.where(ok, 0.0, -jnp.inf)"]
)
def _():
    ppl.factor(jnp.array(True), name="order")


@mistake(
    "Arguments before values",
    names=["log_density", "dict of values", "[0., 1., 2.]", "(values, *args)"],
)
def _():
    ppl.log_density(line)(X, VALUES)


@mistake("A size that is a site", names=["'sized'", "traced", "sizes as integers of Python"])
def _():
    def sized(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x")

    ppl.log_density(sized)({"n": 3, "x": X})


@mistake("A site of ppl.Laplace without a mode", names=["'z'", "100 steps", "max_steps"])
def _():
    def saddle(key):
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        return ppl.sample(key, dist.Normal(z**2, 0.5), name="y")

    integrated = ppl.marginalize(ppl.condition(saddle, {"y": 1.0}), {"z": ppl.Laplace()})
    ppl.log_density(integrated)({})
