"""Loops whose steps need no state of one another: scored at once, and as one after another."""

import functools
import random
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
from ppl._density import LogDensity
from ppl._unconstrain import Constrain

from .checks import assert_close

pytestmark = pytest.mark.usefixtures("x64")
NUM = 5
XS = np.linspace(-1.0, 1.0, NUM)


def draw(key: Any, loc: Any, name: str = "x") -> Any:
    return ppl.sample(key, dist.Normal(loc, 0.5 + 0.1 * jnp.cos(loc)), name=name)


def chain(
    step: Callable[..., Any], start: Any = 0.3, wrap: Any = lambda f: f, **options: Any
) -> Any:
    """A model that scans `step(key, state, x)` over keys and numbers."""

    def model(key: Any, scale: Any = 0.7) -> Any:
        body = wrap(lambda s, kx: step(kx[0], s, scale * kx[1]))
        return lax.scan(body, start, (split(key, NUM), XS), **options)

    return model


def walk(key: Any, s: Any, x: Any) -> Any:
    s = draw(key, jnp.sin(s) + x)
    return s, draw(key, s, "y")


def two_back(key: Any, s: Any, x: Any) -> Any:
    y = draw(key, s[0] * s[1] + x)
    return (s[1], y), y


def three_back_of_two(key: Any, s: Any, x: Any) -> Any:
    """What was carried comes back in other places, after more work."""
    (a, b), (c, d) = s["x"], s["z"]
    x, z = draw(key, a * c + x), draw(key, b + d, "z")
    return {"x": (jnp.sin(b), jnp.exp(-d)), "z": (x * z, jnp.cos(c))}, z


def vectors(key: Any, s: Any, x: Any) -> Any:
    s = jax.vmap(draw)(split(key, 3), s[::-1] * x)
    return s, draw(key, s.sum(), "y")


def deterministic(key: Any, s: Any, x: Any) -> Any:
    s = draw(key, s)
    return ppl.deterministic(s**2, name="d"), s


def by_jit(key: Any, s: Any, x: Any) -> Any:
    return jax.jit(walk)(key, s, x)


def scanned(key: Any, s: Any, x: Any) -> Any:
    """A walk of walks: the inner one starts where the last one came to."""
    return lax.scan(lambda s, k: walk(k, s, x), s, split(key, 3))


def levels(key: Any, s: Any, x: Any) -> Any:
    """The inner loop waits, but not for the outer one."""
    s = draw(key, s + x)
    return s, lax.scan(lambda c, k: (c * draw(k, c, "y"), None), s, split(key, 3))[0]


def remembering(key: Any, s: Any, x: Any) -> Any:
    """The state is all of the past."""
    s = 0.5 * s + draw(key, s + x)
    return s, s


def counting(key: Any, s: Any, x: Any) -> Any:
    i, s = s
    return (i + 1, draw(key, s + i)), s


def crossed(key: Any, s: Any, x: Any) -> Any:
    """Two states that need one another."""
    return (jnp.sin(s[1]), s[0] + draw(key, s[0])), x


def positive(key: Any, s: Any, x: Any) -> Any:
    s = ppl.sample(key, dist.Gamma(2.0, 1 + s), name="x")
    return s, s


def bounded(key: Any, s: Any, x: Any) -> Any:
    """Whether a value is in the support depends on the state."""
    s = ppl.sample(key, dist.Uniform(s - 1, s + 1), name="x")
    return s, s


def branching(key: Any, s: Any, x: Any) -> Any:
    """The branch that is not taken has no number and no derivative."""
    high = lambda: draw(key, jnp.sqrt(s))  # noqa: E731
    s = lax.cond(s > 0, high, lambda: draw(key, -x))
    return s, s


def unequal(key: Any, s: Any, x: Any) -> Any:
    """One of the branches is so much work that it must not be done in vain."""
    many = lambda: draw(key, jnp.sin(s * jnp.ones(100)).sum())  # noqa: E731
    s = lax.cond(s > 0, many, lambda: draw(key, -x))
    return s, s


def choosing(key: Any, s: Any, x: Any) -> Any:
    """The branches give other values than the one that is sown."""
    high = lambda: 2 * draw(key, s)  # noqa: E731
    s = lax.cond(s > 0, high, lambda: draw(key, -x))
    return s, s


def halving(key: Any, s: Any, x: Any) -> Any:
    s = lax.while_loop(lambda s: s > 1, lambda s: s / 2, s)
    return draw(key, lax.stop_gradient(s)), s


def foreign(key: Any, s: Any, x: Any) -> Any:
    """What JAX cannot look into need not work under `vmap`."""
    shape = jax.ShapeDtypeStruct((), s.dtype)
    loc = jax.pure_callback(np.sin, shape, lax.stop_gradient(s))
    return draw(key, loc + x), s


def noisy(key: Any, s: Any, x: Any) -> Any:
    """This generator draws other numbers under `vmap`."""
    noise = jax.random.normal(jax.random.key(jnp.int32(9 * x), impl="rbg"))
    return draw(key, s + noise), s


def sharing(key: Any, s: Any, x: Any) -> Any:
    """Every state needs the same long work and the next state: it would be done for each."""
    work = draw(key, s[0] + x)
    for _ in range(12):
        work = jnp.sin(work)
    return (*(a + work for a in s[1:]), work), s[0]


def namesake(key: Any, s: Any, x: Any) -> Any:
    """Another tag, another name."""

    @jax.jit
    def both(s: Any) -> Any:
        ppl.sow(s * jnp.ones(2), tag="other", name="x", mode="append")
        return draw(key, s)

    s = both(s)
    return s, s


AT_ONCE = {
    "walk": chain(walk),
    "reverse": chain(walk, reverse=True),
    "unrolled": chain(walk, unroll=2),
    "two-back": chain(two_back, (0.2, 0.4)),
    "reverse-two-back": chain(two_back, (0.2, 0.4), reverse=True),
    "three-back": chain(three_back_of_two, {"x": (0.1, 0.2), "z": (0.3, 0.4)}),
    "vectors": chain(vectors, np.arange(3.0)),
    "deterministic": chain(deterministic),
    "jit": chain(by_jit),
    "vmap": lambda key: jax.vmap(chain(walk))(split(key, 2), jnp.ones(2)),
    "no-state": chain(lambda key, s, x: (s, draw(key, x)), start=()),
    "weak-start": chain(walk, start=0.0),
    "positive": chain(positive),
    "branching": chain(branching),
    "walk-of-walks": chain(scanned),
}  # fmt: skip
WAITING = {
    "remembering": chain(remembering),
    "counting": chain(counting, (0, 0.3)),
    "crossed": chain(crossed, (0.2, 0.4)),
    "bounded": chain(bounded),
    "unequal": chain(unequal),
    "choosing": chain(choosing),
    "halving": chain(halving, 7.0),
    "checkpoint": chain(walk, wrap=jax.checkpoint),
    "inner-waits": chain(levels),
    "foreign": chain(foreign),
    "noisy": chain(noisy),
    "sharing": chain(sharing, (0.1,) * 8),
    "namesake": chain(namesake),
}
MODELS = AT_ONCE | WAITING
TWICE = [MODELS[name] for name in ("walk", "three-back", "jit")]  # are differentiated twice


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


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_density_is_that_of_one_step_after_another(model, one_by_one):
    values = values_of(model)
    found = jax.jit(functools.partial(results, model))(values)
    one_by_one()
    assert_close(found, jax.jit(functools.partial(results, model))(values))


def has_loop(model: Any) -> bool:
    density = ppl.log_density(ppl.condition(model, {}))
    return any(w in str(jax.make_jaxpr(density)(values_of(model))) for w in ("scan[", "while["))


@pytest.mark.parametrize("model", AT_ONCE.values(), ids=AT_ONCE)
def test_no_loop_is_left(model):
    assert not has_loop(model)


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
    """Positions of a non-centred walk are not its states."""
    target = ppl.unconstrain(ppl.reparam(chain(walk), {"x": ppl.NonCentred()}))
    assert "scan[" in str(jax.make_jaxpr(target.log_density)(target.initial(key(0))))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["open", "jit"])
def test_so_many_elements_that_memory_matters_are_scored_one_by_one(wrap, monkeypatch):
    monkeypatch.setattr("ppl.harvest.rules._steps._MAX_ELEMENTS", 500)

    def wide(key, s, x):
        return draw(key, wrap(lambda s: jnp.sin(s * jnp.ones(100)).sum())(s)), s

    assert has_loop(chain(wide))
    assert not has_loop(chain(walk))


def by_sign(high: Callable[..., Any], size: int = 3, num_steps: int = 7) -> Any:
    """A chain whose location is a function of a random vector where it is above zero."""

    def model(key: Any) -> Any:
        p = ppl.sample(key, dist.Normal(jnp.zeros(size), 1.0), name="p")

        def step(s: Any, keyed: Any) -> Any:
            key, i = keyed
            s = lax.cond(s > 0, lambda: draw(key, high(p, s, i)), lambda: draw(key, p[-1] * s))
            return s, s

        return lax.scan(step, -0.3, (split(key, num_steps), jnp.arange(num_steps)))[1]

    return model


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
def test_derivatives_by_what_all_steps_share_where_a_branch_is_not_taken(
    high, first, xs, one_by_one
):
    """Where none of the steps takes the branch, it has no derivative by the first element."""
    density = ppl.log_density(by_sign(high))
    values = {"p": jnp.array([first, 0.7, 0.2]), "x": jnp.array(xs)}
    assert not has_loop(by_sign(high))
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
def test_what_all_steps_share_is_not_repeated_for_all_where_a_branch_picks_from_it(high):
    density = ppl.log_density(by_sign(high, 11))
    jaxpr = jax.make_jaxpr(jax.grad(density))({"p": jnp.ones(11), "x": jnp.arange(7.0)})
    assert "[7,11]" not in str(jaxpr)


def test_what_is_repeated_for_all_steps_is_among_elements_that_they_compute(monkeypatch):
    monkeypatch.setattr("ppl.harvest.rules._steps._MAX_ELEMENTS", 7 * 500)
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
        jax.jit(ppl.log_density(chain(remembering)))({"x": jnp.arange(5.0)})


def test_a_loop_of_no_steps():
    def model(key):
        return lax.scan(lambda s, k: walk(k, s, 0.0), draw(key, 0.0, "s"), split(key, 0))

    values = {"s": 1.0, "x": jnp.zeros(0), "y": jnp.zeros(0)}
    assert_close(ppl.log_density(model)(values), dist.Normal(0.0, 0.6).log_prob(1.0))


class Random:
    """A chain of some states, each of which becomes a function of some states and of draws."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.num = rng.randint(2, 5)
        self.reads = [rng.sample(range(self.num), rng.randint(0, 2)) for _ in range(self.num)]
        self.draws = [rng.random() < 0.5 for _ in range(self.num)]
        self.reverse = rng.random() < 0.5

    def __call__(self, key: Any) -> Any:
        def step(s: Any, keyed: Any) -> Any:
            key, x = keyed
            loc = sum(jnp.sin(a + i) for i, a in enumerate(s)) + x
            drawn = [draw(key, loc * i, f"x{i}") for i in range(2)]
            new = [
                sum((jnp.cos(s[j] + i) for j in reads), drawn[i % 2] if draws else x)
                for i, (reads, draws) in enumerate(zip(self.reads, self.draws, strict=True))
            ]
            return tuple(new), new[0]

        start = tuple(0.1 * i for i in range(self.num))
        return lax.scan(step, start, (split(key, NUM), XS), reverse=self.reverse)


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
