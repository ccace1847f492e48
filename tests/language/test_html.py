"""Traces, graphs and conditioned models in notebooks."""

import pickle
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key

import distributions as dist
import ppl

X = jnp.arange(3.0)


def model(key, x):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a<b")
    ppl.factor(-a, name="f")
    return ppl.sample(key, dist.Normal(a * x, 1.0), name="y")


def cells(html):
    """The texts of the table in HTML, by row; the HTML is well formed."""
    rows = ElementTree.fromstring(f"<div>{html}</div>").iter("tr")
    return [[cell.text or "" for cell in row] for row in rows]


def test_a_trace_is_a_table():
    trace = ppl.trace(ppl.condition(model, {"y": X}))(key(0), X)
    head, *rows = cells(trace._repr_html_())
    assert head == ["site", "kind", "value", "distribution", "support", "log prob"]
    assert [row[0] for row in rows] == ["a<b", "f", "y", "in all"]
    assert rows[2][1:4] == ["observed", "float32[3]", "Normal"]
    assert float(rows[-1][-1]) == pytest.approx(float(trace.log_density), abs=1e-3)


def test_a_graph_is_a_table_without_empty_columns():
    assert cells(ppl.graph(model)(X)._repr_mimebundle_()["text/html"]) == [
        ["site", "kind", "family", "value", "parents"],
        ["a<b", "latent", "Normal", "float32[]", ""],
        ["f", "factor", "", "float32[]", "a<b"],
        ["y", "latent", "Normal", "float32[3]", "a<b"],
    ]


def test_a_conditioned_model_shows_its_data_by_type():
    gaps = ppl.impute(np.array([1.0, np.nan, 2.0]))
    inside = ppl.condition(model, {"a<b": 0.5})
    whole = ppl.condition(ppl.nest(inside, scope="s"), {"s": {"y": X}})
    assert repr(inside) == "model 'model' conditioned on {a<b: 0.5}"
    assert repr(ppl.condition(inside, {"y": gaps})) == (
        "model 'model' conditioned on {a<b: 0.5, y: float32[3], 1 imputed}"
    )
    assert cells(whole._repr_html_()) == [["site", "data"], ["s.y", "float32[3]"]]


def test_a_conditioned_model_is_a_pytree_of_its_data():
    conditioned = ppl.condition(model, {"y": X})
    doubled = jax.tree.map(lambda x: 2 * x, conditioned)
    np.testing.assert_array_equal(jax.jit(lambda m: m(key(0), X))(doubled), 2 * X)
    assert repr(jax.tree.map(lambda _: None, conditioned)).startswith("model 'model' conditioned")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(conditioned))(key(0), X), X)
