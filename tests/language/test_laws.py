"""Law: for a random model, log_density of what simulate gives is the density evaluated by plain loops over numbers.

A model is a tree of sites, scans, vmaps, conds and scopes, whose numbers depend on what stands before them.
"""

# ruff: noqa: E501

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

from .checks import assert_close

# The sampler of Gamma takes seconds to compile: it stands in one program alone.
CHEAP = ["normal", "laplace", "exponential"]
FAMILIES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float, float, float], float]]] = {
    "normal": (
        lambda loc, scale: dist.Normal(loc, scale),
        lambda x, loc, scale: -((x - loc) ** 2) / (2 * scale**2) - math.log(scale * math.sqrt(2 * math.pi)),
    ),
    "laplace": (
        lambda loc, scale: dist.Laplace(loc, scale),
        lambda x, loc, scale: -abs(x - loc) / scale - math.log(2 * scale),
    ),
    "exponential": (
        lambda loc, scale: dist.Exponential(jnp.exp(loc) / scale),
        lambda x, loc, scale: loc - math.log(scale) - x * math.exp(loc) / scale if x >= 0 else -math.inf,
    ),
    "gamma": (
        lambda loc, scale: dist.Gamma(1.5 + loc**2, 1 / scale),
        lambda x, loc, scale: (0.5 + loc**2) * math.log(x / scale) - x / scale - math.log(scale) - math.lgamma(1.5 + loc**2),
    ),
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Sample:
    """A site whose parameters are those of the last number."""

    family: str
    weight: float


@dataclasses.dataclass(frozen=True)
class Block:
    """A construct around a body: a scan or vmap of `size`, a cond with another family, or a scope."""

    kind: str
    size: int
    body: tuple[Any, ...]


def parameters(node: Sample, x: Any) -> tuple[Any, Any]:
    tanh = jnp.tanh if isinstance(x, jax.Array) else math.tanh
    return node.weight * tanh(x), 1.5 + tanh(node.weight * x)


def run(nodes: tuple[Any, ...], key: Any, x: Any, name: str = "s") -> Any:
    """The model: each node goes from one number to the next."""
    for i, node in enumerate(nodes):
        x = jnp.asarray(run_node(node, jax.random.fold_in(key, i), x, f"{name}{i}"))
    return x


def run_node(node: Any, key: Any, x: Any, name: str) -> Any:
    if isinstance(node, Sample):
        return ppl.sample(key, FAMILIES[node.family][0](*parameters(node, x)), name=name)
    body = lambda key, x: run(node.body, key, x, name)  # noqa: E731
    if node.kind == "scan":
        return lax.scan(lambda x, key: (body(key, x), None), x, split(key, node.size))[0]
    if node.kind == "vmap":
        return jax.vmap(body)(split(key, node.size), x + jnp.arange(node.size)).mean()
    if node.kind == "scope":
        return ppl.nest(body, scope=name)(key, x)
    return lax.cond(
        x > 0.3, body, lambda key, x: run(swap_families(node.body), key, x, name), key, x
    )


def swap_families(nodes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The other branch of a cond: the same names, other families."""
    other = {
        "normal": "laplace",
        "laplace": "exponential",
        "exponential": "normal",
        "gamma": "exponential",
    }
    return tuple(
        Sample(other[node.family], -node.weight)
        if isinstance(node, Sample)
        else dataclasses.replace(node, body=swap_families(node.body))
        for node in nodes
    )


def score(
    nodes: tuple[Any, ...], values: Any, x: float, index: tuple[int, ...] = (), name: str = "s"
) -> tuple[float, float]:
    """The last number and the log density, by loops over numbers; `index` is that of the axes around."""
    total = 0.0
    for i, node in enumerate(nodes):
        x, log_prob = score_node(node, values, x, index, f"{name}{i}")
        total += log_prob
    return x, total


def score_node(
    node: Any, values: Any, x: float, index: tuple[int, ...], name: str
) -> tuple[float, float]:
    if isinstance(node, Sample):
        value = float(values[name][index])
        return value, FAMILIES[node.family][1](value, *parameters(node, x))
    if node.kind == "scope":
        return score(node.body, values[name], x, index, name)
    if node.kind == "cond":
        return score(node.body if x > 0.3 else swap_families(node.body), values, x, index, name)
    total, ends = 0.0, []
    for i in range(node.size):
        start = x + i if node.kind == "vmap" else x
        end, log_prob = score(node.body, values, start, (*index, i), name)
        total += log_prob
        ends.append(end)
        x = end if node.kind == "scan" else x
    return (x if node.kind == "scan" else sum(ends) / node.size), total


def programs(depth: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """One or two nodes."""
    site = st.builds(Sample, st.sampled_from(CHEAP), st.sampled_from([-0.8, 0.5, 1.2]))
    if depth == 0:
        return st.tuples(site)
    block = st.sampled_from(["scan", "vmap", "scope", "cond"]).flatmap(
        lambda kind: st.builds(
            Block,
            st.just(kind),
            st.integers(2, 3),
            programs(depth - 1),
        )
    )
    return st.lists(st.one_of(site, block, block), min_size=1, max_size=2).map(tuple)


def check(nodes: tuple[Any, ...]) -> None:
    """The draws of a run are scored as plain loops score them, whichever half of them is observed."""
    model = lambda key, x: run(nodes, key, x)  # noqa: E731

    def simulate_and_score(key: Any, x: Any) -> Any:
        values = ppl.simulate(model)(key, x)
        latent, observed = halves(values)
        density = ppl.log_density(ppl.condition(model, observed))(latent, x)
        return values, (model(key, x), density)

    with jax.enable_x64(True):
        values, actual = jax.jit(simulate_and_score)(key(3), jnp.array(0.7))
        by_hand = score(nodes, jax.tree.map(np.asarray, values), 0.7)
        assert_close(actual, jax.tree.map(jnp.array, by_hand))


def halves(values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every other site of each scope in either of two dicts."""
    parts: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for i, (name, value) in enumerate(values.items()):
        if isinstance(value, dict):
            for part, inner in zip(parts, halves(value), strict=True):
                part[name] = inner
        else:
            parts[i % 2][name] = value
    return parts


@pytest.mark.slow
@hypothesis.settings(max_examples=8)
@hypothesis.given(programs(2))
def test_density_of_a_simulation_is_that_of_plain_loops(nodes):
    check(nodes)


DEEP = (
    Sample("normal", 0.5),
    Block("scan", 2, (Sample("normal", 1.2), Block("vmap", 3, (Sample("gamma", 0.5), Block("scan", 2, (Sample("laplace", 0.5),)))))),
    Block("vmap", 2, (Block("scope", 2, (Block("scan", 3, (Sample("normal", -0.8),)),)), Sample("laplace", 1.2))),
    Block("scan", 3, (Block("cond", 2, (Sample("normal", 0.5), Block("vmap", 2, (Sample("exponential", 0.5),)))),)),
)  # fmt: skip


@pytest.mark.slow
def test_density_of_a_deep_program():
    check(DEEP)


def test_the_oracle_sees_what_is_wrong():
    """Transposed values, the other branch or another parameter give another density."""
    of_vmap = Block("vmap", 2, (Sample("normal", 0.5),))
    of_cond = Block("cond", 2, (Sample("normal", 0.5),))
    nodes = (Block("scan", 2, (of_vmap, of_cond)),)
    simulate = jax.jit(ppl.simulate(lambda key: run(nodes, key, jnp.array(0.7))))
    values = jax.tree.map(np.asarray, simulate(key(3)))
    other_branch = (Block("scan", 2, (of_vmap, Block("cond", 2, swap_families(of_cond.body)))),)
    other_weight = (Block("scan", 2, (Block("vmap", 2, (Sample("normal", 0.6),)), of_cond)),)
    right = score(nodes, values, 0.7)[1]
    for wrong in (
        score(nodes, {name: x.T for name, x in values.items()}, 0.7),
        score(other_branch, values, 0.7),
        score(other_weight, values, 0.7),
    ):
        assert abs(wrong[1] - right) > 1e-3
