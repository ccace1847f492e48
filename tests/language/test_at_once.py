"""Loops whose steps need no state of one another: scored at once, and as one after another."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from jax.sharding import AxisType, PartitionSpec

import distributions as dist
import ppl
from ppl.transforms.density import LogDensity
from ppl.transforms.unconstrain import Constrain

from .chains import (
    AT_ONCE,
    MODELS,
    NUM,
    TWICE,
    WAITING,
    XS,
    Random,
    by_sign,
    chain,
    draw,
    remembering,
    walk,
)
from .checks import assert_close

pytestmark = pytest.mark.usefixtures("x64")


def values_of(model: Any) -> Any:
    values = ppl.simulate(model)(key(1))
    values.pop("d", None)
    return values


def results(model: Any, values: Any) -> Any:
    """Density, gradient, its derivative forwards, and density and gradient where samplers work."""
    density = ppl.log_density(model)
    target = ppl.unconstrain(model)
    position = target.unconstrain(values)
    grad = jax.grad(density)
    if model not in TWICE:
        return density(values), grad(values), target.log_density(position)
    moved = jax.jvp(grad, (values,), (jax.tree.map(jnp.ones_like, values),))
    return density(values), moved, jax.value_and_grad(target.log_density)(position)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets all loops wait."""

    def turn_off() -> None:
        monkeypatch.setattr(LogDensity, "at_once", False)
        monkeypatch.setattr(Constrain, "at_once", False)

    return turn_off


@pytest.mark.quick_rows("no-state", "halving", "deterministic")
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_density_is_that_of_one_step_after_another(model, one_by_one):
    values = values_of(model)
    found = jax.jit(functools.partial(results, model))(values)
    one_by_one()
    assert_close(found, jax.jit(functools.partial(results, model))(values))


def has_loop(model: Any, values: Any = None) -> bool:
    """Whether a density has a loop, at values that the model draws if none are given."""
    density = ppl.log_density(ppl.condition(model, {}))
    program = str(jax.make_jaxpr(density)(values or values_of(model)))
    return any(w in program for w in ("scan[", "while["))


@pytest.mark.quick_rows(
    "two-back", "reverse-two-back", "walk", "weak-start", "reverse", "three-back"
)
@pytest.mark.parametrize("model", AT_ONCE.values(), ids=AT_ONCE)
def test_no_loop_is_left(model):
    assert not has_loop(model)


@pytest.mark.quick_rows("bounded", "foreign", "halving", "namesake", "remembering", "counting")
@pytest.mark.parametrize("model", WAITING.values(), ids=WAITING)
def test_a_loop_is_left_where_a_step_waits_for_another(model):
    assert has_loop(model)


def test_a_loop_that_must_be_left_makes_states_alone():
    """The logarithm is of the density, the sine of the states."""

    def step(s, kx):
        s = jnp.sin(s) + kx[1]
        return s, ppl.sample(kx[0], dist.Normal(0.0, jnp.exp(s)), name="x")

    def model(key):
        return lax.scan(step, 0.3, (split(key, NUM), XS))

    jaxpr = jax.make_jaxpr(ppl.log_density(model))({"x": jnp.arange(5.0)})
    (loop,) = (eqn for eqn in jaxpr.jaxpr.eqns if eqn.primitive.name == "scan")
    assert "sin" in str(loop.params["jaxpr"])
    assert not any(f" {name} " in str(loop.params["jaxpr"]) for name in ("log", "exp"))
    states = [0.3]
    for x in XS:
        states.append(np.sin(states[-1]) + x)
    expected = dist.Normal(0.0, np.exp(np.array(states[1:]))).log_prob(jnp.arange(5.0))
    assert_close(ppl.log_density(model)({"x": jnp.arange(5.0)}), jnp.sum(expected))


def test_no_loop_is_left_where_data_are_the_states():
    model = chain(walk)
    density = ppl.log_density(ppl.condition(model, {"x": jnp.arange(5.0)}))
    assert "scan[" not in str(jax.make_jaxpr(density)({"y": jnp.arange(5.0)}))


def test_innovations_are_added_up_step_by_step():
    """Positions of a non-centered walk are not its states."""
    target = ppl.unconstrain(ppl.reparam(chain(walk), {"x": ppl.NonCentered()}))
    assert "scan[" in str(jax.make_jaxpr(target.log_density)(target.initial(key(0))))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["open", "jit"])
def test_elements_that_fill_memory_are_scored_one_by_one(wrap, monkeypatch):
    monkeypatch.setattr("ppl.harvest.rules.parallel_scan._MAX_ELEMENTS", 500)

    def wide(key, s, x):
        return draw(key, wrap(lambda s: jnp.sin(s * jnp.ones(100)).sum())(s)), s

    assert has_loop(chain(wide))
    assert not has_loop(chain(walk))


NO_NUMBERS = {
    "of-an-element": lambda p, s, i: jnp.sqrt(p[0]) * s,
    "of-a-sum": lambda p, s, i: jnp.log(p[0] + s) + jnp.sqrt(p[:2].sum() - 0.7),
    "of-a-step": lambda p, s, i: p[1] * jnp.log(s),
    "of-a-product": lambda p, s, i: p[1] * jnp.array([np.inf] * 3 + [1.0] * 4)[i],
    "of-a-matrix": lambda p, s, i: jnp.sqrt(jnp.outer(p, p[::-1]) @ jnp.log(s * jnp.ones(3))).sum(),
    "of-a-row": lambda p, s, i: 1 / p[jnp.minimum(i, 0)] + s,
    "of-a-cond": lambda p, s, i: lax.cond(i > 2, lambda: jnp.sqrt(p[0]), lambda: jnp.log(p[0] * s)),
}


@pytest.mark.slow
@pytest.mark.parametrize("high", NO_NUMBERS.values(), ids=NO_NUMBERS)
@pytest.mark.parametrize(
    ("first", "xs"),
    [(0.0, -np.arange(7.0)), (0.9, 2.2 * np.arange(7.0) - 3)],
    ids=["never", "at-times"],
)
def test_derivatives_by_shared_values_of_a_branch_not_taken(high, first, xs, one_by_one):
    """Where none of the steps takes the branch, it has no derivative by the first element."""
    density = ppl.log_density(by_sign(high))
    values = {"p": jnp.array([first, 0.7, 0.2]), "x": jnp.array(xs)}
    assert not has_loop(by_sign(high), values)  # Its draws may be infinite or NaN.
    both = jax.value_and_grad(density), jax.hessian(density)
    found = jax.jit(lambda values: [f(values) for f in both])(values)
    assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(found))
    one_by_one()
    assert_close(found, jax.jit(lambda values: [f(values) for f in both])(values))


PICKED = {
    "element": lambda p, s, i: p[0] * s,
    "row": lambda p, s, i: jnp.sqrt(p[i] + s),
    "slice": lambda p, s, i: jnp.exp(lax.dynamic_slice(p, (i,), (2,))).sum(),
    "jit": lambda p, s, i: jax.jit(lambda p: p[::-1][1])(p) * s,
}


@pytest.mark.parametrize("high", PICKED.values(), ids=PICKED)
def test_shared_tables_that_a_branch_picks_from_are_not_repeated(high):
    density = ppl.log_density(by_sign(high, 11))
    jaxpr = jax.make_jaxpr(jax.grad(density))({"p": jnp.ones(11), "x": jnp.arange(7.0)})
    assert "[7,11]" not in str(jaxpr)


def test_repeated_values_are_among_elements_of_the_steps(monkeypatch):
    monkeypatch.setattr("ppl.harvest.rules.parallel_scan._MAX_ELEMENTS", 7 * 500)
    assert has_loop(by_sign(lambda p, s, i: (p @ p) * s, 500))
    assert not has_loop(by_sign(lambda p, s, i: p[i] * s, 500))


def test_callbacks_are_called_in_order_and_once_for_each_step():
    seen = []

    def told(key, s, x):
        jax.debug.callback(lambda s: seen.append(float(s)), s, ordered=True)
        return draw(key, s), s

    ppl.log_density(chain(told))({"x": jnp.arange(5.0)})
    jax.effects_barrier()
    assert seen == [0.3, 0.0, 1.0, 2.0, 3.0]


@pytest.mark.promotion(rank="raise", dtype="strict")
def test_a_weak_type_stays_weak():
    def step(s, kx):
        s = ppl.sample(kx[0], dist.Normal(jnp.sin(s), kx[1]), name="x")
        return s, s

    start, scales = jnp.float16(0.3), lax.broadcast(2.0, (NUM,))
    density = ppl.log_density(lambda key: lax.scan(step, start, (split(key, NUM), scales)))
    assert density({"x": jnp.zeros(NUM, jnp.float16)}).dtype == jnp.float16


def test_in_a_shard_where_only_what_is_given_varies():
    def model(key):
        return lax.map(lambda k: draw(k, 0.5), split(key, 2))

    density = ppl.log_density(model)
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    local = lambda x: lax.psum(density({"x": x[0]}), "i")  # noqa: E731
    specs = {"in_specs": PartitionSpec("i"), "out_specs": PartitionSpec()}
    sharded = jax.shard_map(local, mesh=mesh, **specs)
    values = jnp.arange(8.0).reshape(4, 2)
    assert_close(jax.jit(sharded)(values), sum(density({"x": row}) for row in values))


def test_a_loop_leaks_no_tracer():
    with jax.checking_leaks():
        jax.make_jaxpr(ppl.log_density(chain(remembering)))({"x": jnp.arange(5.0)})


def test_a_loop_of_no_steps():
    def model(key):
        return lax.scan(lambda s, k: walk(k, s, 0.0), draw(key, 0.0, "s"), split(key, 0))

    values = {"s": 1.0, "x": jnp.zeros(0), "y": jnp.zeros(0)}
    assert_close(ppl.log_density(model)(values), dist.Normal(0.0, 0.6).log_prob(1.0))


@pytest.mark.quick_rows("8", "7")
@pytest.mark.parametrize("seed", range(12))
def test_random_chains(seed, one_by_one):
    model = Random(seed)
    values = values_of(model)
    found = jax.value_and_grad(ppl.log_density(model))(values)
    one_by_one()
    assert_close(found, jax.value_and_grad(ppl.log_density(model))(values))


@pytest.mark.slow
def test_random_chains_are_of_both_kinds():
    assert {has_loop(Random(seed)) for seed in range(12)} == {True, False}
