"""Mistakes in data: names, shapes and dtypes of observed values, gaps, and interventions."""

import functools

import jax.numpy as jnp
import numpy as np
import pandas

import distributions as dist
import ppl

from .mistake import KEY, VALUES, Mistake, X, add_to, count, line

DATA: list[Mistake] = []
mistake = functools.partial(add_to, DATA)


@mistake("A wrong name in condition", names=["'line'", "'yy'", "'slope', 'scale', 'y'"])
def _():
    ppl.condition(line, {"yy": X})(KEY, X)


@mistake("A wrong name in a density", names=["'line'", "'slop'", "'slope'"])
def _():
    ppl.log_density(line)({**VALUES, "slop": 1.0}, X)


@mistake("A value is missing", names=["'line'", "missing: 'scale'"])
def _():
    ppl.log_density(line)({"slope": 1.0, "y": X}, X)


@mistake("(N, 1) data for N numbers", names=["'y'", "float32[3]", "float32[3,1]", "broadcast"])
def _():
    ppl.condition(line, {"y": X[:, None]})(KEY, X)


@mistake(
    "(N, 1) parameters against N data", names=["'y'", "float32[3,3]", "float32[3]", "broadcast"]
)
def _():
    ppl.condition(line, {"y": X})(KEY, X[:, None] * jnp.ones(3))


@mistake(
    "A scalar where all elements are meant",
    names=["'y'", "float32[3]", "float32[]", "broadcast_to"],
)
def _():
    ppl.condition(line, {"y": 0.0})(KEY, X)


@mistake(
    "Data that are a list", names=["'y'", "float32[3]", "list: [0.0, 1.0, 2.0]", "jnp.asarray"]
)
def _():
    ppl.condition(line, {"y": [0.0, 1.0, 2.0]})(KEY, X)


@mistake("Data that are text", names=["'y'", "numbers", "text", "'low'", "return_inverse"])
def _():
    ppl.condition(line, {"y": np.array(["low", "high", "low"])})


@mistake("Arguments that are dates", names=["argument 0", "numbers", "dates", "timedelta64"])
def _():
    ppl.trace(line)(KEY, np.array(["2026-01-01", "2026-01-02"], "datetime64[D]"))


@mistake("A column that is not there", names=["'rian'", "'field', 'rain'"])
def _():
    table = pandas.DataFrame({"field": ["north", "south"], "rain": [3.1, 2.2]})
    ppl.trace(lambda key, data: line(key, data["rian"]))(KEY, table)


@mistake("A column with gaps", names=["'rain'", "1 of its 2", "dropna", "fillna", "ppl.impute"])
def _():
    table = pandas.DataFrame({"rain": [3.1, None]})
    ppl.trace(lambda key, data: line(key, data["rain"]))(KEY, table)


@mistake("A column of dates", names=["'day'", "numbers", "dates", "Timedelta"])
def _():
    table = pandas.DataFrame({"day": pandas.date_range("2026-01-01", periods=2)})
    ppl.trace(lambda key, data: line(key, data["day"]))(KEY, table)


@mistake("A column of text by itself", names=["argument 0", "'field'", "categories", "table"])
def _():
    table = pandas.DataFrame({"field": ["north", "south"]})
    ppl.trace(line)(KEY, table["field"])


@mistake("Data in another order than the names", names=["'team'", "'y'", "['a', 'b', 'c']", "'c'"])
def _():
    named = ppl.label(line, {"y": "team"}, {"team": ["a", "b", "c"]})
    y = pandas.Series([1.0, 2.0, 3.0], index=pandas.Index(["c", "b", "a"], name="team"))
    ppl.condition(named, {"y": y})(KEY, X)


@mistake("A category that has no name", names=["'field'", "'east'", "['north', 'south']"])
def _():
    named = ppl.label(line, coords={"field": ["north", "south"]})
    ppl.trace(named)(KEY, pandas.DataFrame({"field": ["north", "east"]}))


@mistake("Draws that do not name categories", names=["'field'", "['a', 'b']", "result", "label"])
def _():
    def model(key, data):
        level = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="level")
        return ppl.sample(key, dist.Normal(level[data["field"]], 1.0), name="y")

    table = pandas.DataFrame({"field": ["a", "b", "a"]})
    ppl.predict(model, {"level": jnp.zeros((100, 2))})(KEY, table)


@mistake("Data that are None", names=["'y'", "float32[3]", "None"])
def _():
    ppl.condition(line, {"y": None})(KEY, X)


@mistake(
    "A part of a joint vector, left out",
    names=["'v'", "1 of 1", "MultivariateNormal", "ppl.impute"],
)
def _():
    def model(key):
        normal = dist.MultivariateNormal(jnp.zeros(3), covariance=jnp.eye(3))
        return ppl.sample(key, normal, name="v")

    ppl.condition(model, {"v": ppl.ignore(jnp.array([1.0, jnp.nan, 2.0]))})(KEY)


@mistake("Data with NaN", names=["'y'", "1 of the 3", "latent"])
def _():
    ppl.condition(line, {"y": X.at[1].set(jnp.nan)})


@mistake("A mask of another shape", names=["`missing`", "(3,)", "(2,)", "broadcast_to"])
def _():
    ppl.impute(X, jnp.array([False, True]))


@mistake("Data ignored that others need", names=["'walk'", "'next'", "'x'", "ppl.impute"])
def _():
    def walk(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        return ppl.sample(key, dist.Normal(x[-1], 1.0), name="next")

    gaps = ppl.ignore(X, X == 2.0)
    ppl.log_density(ppl.condition(walk, {"x": gaps}))({"next": 0.0})


@mistake("An intervention with NaN", names=["'slope'", "1 of the 1", "Give numbers"])
def _():
    ppl.intervene(line, {"slope": jnp.nan})


@mistake(
    "Integers where floats are needed",
    names=["'y'", "float32[3]", "int32[3]", ".astype('float32')"],
)
def _():
    ppl.condition(line, {"y": jnp.arange(3)})(KEY, X)


@mistake("Floats for counts", names=["'n'", "int32[]", "float32[]", ".astype('int32')"])
def _():
    ppl.condition(count, {"n": jnp.float32(3.5)})(KEY)
