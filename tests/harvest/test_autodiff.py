"""Law 6: derivatives of what is sown, with harvest outside and inside of the differentiation.

One row of each construct goes through every derivative that JAX has for it, the others through two.
All that one row needs is compiled as one program, as in `test_laws`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, plant, reap, sow, vjp_and_reap

from .calls import over_shards, with_jvp, with_vjp
from .case import ONE, PAIR, THREE, Case
from .checks import OTHER, TAG, assert_same, floats, primitives
from .constructs import Function, branch, once, put, scan, twice
from .table import CASES


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """All results of `f` in one number."""
    return lambda *args: sum(map(jnp.sum, jax.tree.leaves(f(*args))))


@dataclasses.dataclass(frozen=True)
class Derivative:
    """A transformation of a function of one array to a number, and the modes that it is made of."""

    of: Callable[[Function], Function]
    forward: bool
    reverse: bool


def along_ones(f: Function) -> Function:
    return lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))


def pulled_back(f: Function) -> Function:
    def run(x: Any) -> Any:
        out, pullback = jax.vjp(f, x)
        return out, pullback(jnp.ones_like(out))

    return run


def linearized(f: Function) -> Function:
    def run(x: Any) -> Any:
        out, tangent = jax.linearize(f, x)
        return out, tangent(jnp.ones_like(x))

    return run


DERIVATIVES = {
    "grad": Derivative(of=jax.grad, forward=False, reverse=True),
    "value_and_grad": Derivative(of=jax.value_and_grad, forward=False, reverse=True),
    "jvp": Derivative(of=along_ones, forward=True, reverse=False),
    "vjp": Derivative(of=pulled_back, forward=False, reverse=True),
    "linearize": Derivative(of=linearized, forward=True, reverse=True),
    "jacfwd": Derivative(of=jax.jacfwd, forward=True, reverse=False),
    "jacrev": Derivative(of=jax.jacrev, forward=False, reverse=True),
    "hessian": Derivative(of=jax.hessian, forward=True, reverse=True),
    "jvp of grad": Derivative(of=lambda f: along_ones(jax.grad(f)), forward=True, reverse=True),
    "grad of jit": Derivative(of=lambda f: jax.grad(jax.jit(f)), forward=False, reverse=True),
    "grad of checkpoint": Derivative(
        of=lambda f: jax.grad(jax.checkpoint(f)), forward=False, reverse=True
    ),
}


def applies(case: Case, derivative: Derivative) -> bool:
    return case.forward >= derivative.forward and case.reverse >= derivative.reverse


def reaped_outside(case: Case, d: Derivative, x: Any, plants: Any) -> Any:
    """Harvest sees each primal once, and no tangent or cotangent."""
    f = d.of(total(case.f))
    return harvest(f, tag=TAG)({}, x), (f(x), reap(case.f, tag=TAG)(x))


def harvested_inside(case: Case, d: Derivative, x: Any, plants: Any) -> Any:
    """A harvested function has the derivatives of the function."""
    f = lambda x: total(lambda x: harvest(case.f, tag=TAG)({}, x)[0])(x)  # noqa: E731
    return d.of(f)(x), d.of(total(case.f))(x)


def planted_outside(case: Case, d: Derivative, x: Any, plants: Any) -> Any:
    """Planting commutes with differentiation: nothing goes on through a planted value."""
    f = d.of(total(case.f))
    inside = d.of(total(lambda x: plant(case.f, tag=TAG)(plants, x)))
    return harvest(f, tag=TAG)(plants, x), (inside(x), {})


def is_custom(case: Case) -> bool:
    """Its rule has been applied before harvest sees it, and does not go through the sow."""
    return case.id.startswith("custom") or "custom" in case.id


LAWS: dict[str, tuple[Callable[..., Any], Callable[[Case], bool]]] = {
    "reaped outside": (reaped_outside, lambda case: True),
    "harvested inside": (harvested_inside, lambda case: True),
    "planted outside": (planted_outside, lambda case: not is_custom(case)),
}
FOR_EVERY_ROW = ("grad", "jvp")  # the others take minutes together, so one row of each construct
FIRST = {case.id.split("/")[0]: case for case in reversed(CASES)}
ROWS = [
    (case, law, name)
    for case in CASES
    for law, (_, holds) in LAWS.items()
    for name, derivative in DERIVATIVES.items()
    if holds(case) and applies(case, derivative)
    if name in FOR_EVERY_ROW or case in FIRST.values()
]


def row(case: Case, *more: Any, id: str = "") -> Any:
    """A row of a table of tests: quick for one case of each construct, slow for the others."""
    marks = () if case in FIRST.values() else pytest.mark.slow
    return pytest.param(case, *more, id=id or case.id, marks=marks)


@functools.cache
def evaluate_derivatives(case: Case) -> dict[tuple[str, str], Any]:
    """By law and derivative, the two sides; or what was raised while they were traced."""
    raised: dict[tuple[str, str], Exception] = {}

    def everything(x: Any, plants: Any) -> Any:
        sides = {}
        for row, law, name in ROWS:
            if row is case:
                try:
                    sides[law, name] = LAWS[law][0](case, DERIVATIVES[name], x, plants)
                except Exception as error:
                    raised[law, name] = error
        return sides

    plants = jax.tree.map(lambda v: jnp.asarray(v, jnp.float32), case.plants)
    return jax.jit(everything)(case.x, plants) | raised


@pytest.mark.parametrize(
    ("case", "law", "name"),
    [row(*r, id=f"{r[0].id}-{r[1]}-{r[2]}".replace(" ", "-")) for r in ROWS],
)
def test_law(case: Case, law: str, name: str) -> None:
    sides = evaluate_derivatives(case)[law, name]
    if isinstance(sides, Exception):
        raise sides
    assert_same(*sides)


@pytest.mark.parametrize("case", [c for c in CASES if c.reverse], ids=lambda case: case.id)
def test_the_shapes_of_what_a_gradient_sows(case: Case) -> None:
    """They are those of the function, for every row; planting takes them, and nothing is left."""
    f = jax.grad(total(case.f))
    shapes = lambda g, *args: jax.eval_shape(harvest(g, tag=TAG), *args)[1]  # noqa: E731
    expected = shapes(case.f, {}, case.x)
    assert shapes(f, {}, case.x) == expected
    assert is_custom(case) or shapes(f, expected, case.x) == {}


def gradient_of_plant(f: Function, plants: Any, x: Any) -> Any:
    return jax.grad(lambda p: total(lambda x: plant(f, tag=TAG)(p, x))(x))(plants)


@pytest.mark.parametrize(
    ("f", "x", "plants", "by_plants"),
    [
        (once("strict"), THREE, {"y": 10.0}, {"y": 2.0}),
        (jax.jit(once("strict")), THREE, {"y": 10.0}, {"y": 2.0}),
        (jax.checkpoint(lambda x: put(jnp.sin(x)) ** 2), THREE, {"y": 3.0}, {"y": 6.0}),
        (jax.checkpoint(jax.checkpoint(lambda x: put(x) ** 2)), THREE, {"y": 3.0}, {"y": 6.0}),
        (twice("append"), THREE, {"y": floats(1, 5)}, {"y": floats(1, 1)}),
        (scan("append"), ONE, {"y": floats(1, 1, 5)}, {"y": floats(2, 2, 3)}),
        (lambda x: scan("clobber")(x)[0], ONE, {"y": 10.0}, {"y": 1.0}),
        (branch("strict", above=5.0), THREE, {"y": 10.0}, {"y": 4.0}),
        (jax.vmap(once("strict")), PAIR, {"y": floats(5, 6)}, {"y": floats(2, 2)}),
        (with_jvp(once("strict")), THREE, {"y": 10.0}, {"y": 2.0}),
        (with_vjp(once("strict")), THREE, {"y": 10.0}, {"y": 2.0}),
        (over_shards(lambda x: 2 * put(x)), PAIR, {"y": floats([5], [6])}, {"y": floats([2], [2])}),
    ],
)
def test_the_gradient_with_respect_to_a_plant(
    f: Function, x: Any, plants: Any, by_plants: Any
) -> None:
    """It is that of the code after the sow, and the one by the argument before it is zero."""
    plants = jax.tree.map(jnp.asarray, plants)
    assert_same(gradient_of_plant(f, plants, x), by_plants)
    assert_same(jax.jit(lambda p, x: gradient_of_plant(f, p, x))(plants, x), by_plants)


def test_no_tangent_is_sown_and_none_is_left() -> None:
    """A derivative of a function holds the sows of the function; harvested, nothing of them."""
    for f in (once("strict"), jax.checkpoint(once("strict")), jax.jit(once("strict"))):
        names = primitives(jax.grad(f), THREE)
        assert names.count("sow") == 1
        harvested = primitives(lambda x, f=f: harvest(jax.grad(f), tag=TAG)({"y": 1.0}, x), THREE)
        assert not {"sow", "tangent_of_sow"} & set(harvested)
        assert "tangent" not in jax.jit(jax.grad(f)).lower(THREE).as_text()


def test_a_sow_is_linear() -> None:
    f = lambda x: put(2 * x)  # noqa: E731
    assert_same(jax.linear_transpose(f, THREE)(ONE), (2.0,))
    transposed = lambda ct: jax.linear_transpose(f, THREE)(ct)  # noqa: E731
    assert_same(harvest(transposed, tag=TAG)({}, ONE), ((2.0,), {}))


@jax.custom_jvp
def square(x: Any) -> Any:
    return x**2


square.defjvp(lambda p, t: (square(*p), put(2 * p[0], name="slope") * t[0]))


@jax.custom_vjp
def cube(x: Any) -> Any:
    return x**3


cube.defvjp(
    lambda x: (cube(x), put(x, name="saved")), lambda x, ct: (put(3 * x**2, name="slope") * ct,)
)


def test_what_a_derivative_rule_sows_belongs_to_the_derivative() -> None:
    """Harvest outside of the differentiation reaps and plants it; without one nothing is sown."""
    for f in (square, cube):
        assert_same(reap(f, tag=TAG)(THREE), {})
    slope = jax.grad(square)
    assert_same(harvest(slope, tag=TAG)({}, THREE), (6.0, {"slope": 6.0}))
    assert_same(harvest(slope, tag=TAG)({"slope": 5.0}, THREE), (5.0, {}))
    assert_same(reap(lambda x: jax.jvp(square, (x,), (x,)), tag=TAG)(THREE), {"slope": 6.0})
    slope = jax.grad(cube)
    assert_same(harvest(slope, tag=TAG)({}, THREE), (27.0, {"saved": 3.0, "slope": 27.0}))
    assert_same(harvest(slope, tag=TAG)({"saved": 1.0}, THREE), (3.0, {"slope": 3.0}))
    assert_same(harvest(slope, tag=TAG)({"slope": 1.0}, THREE), (1.0, {"saved": 3.0}))


def test_sows_of_a_derivative_rule_outlive_an_earlier_harvest() -> None:
    """It is left for a harvest outside, for both kinds of rule, opened or not."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return put(x) ** 2

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (put(2 * x, name="slope") * ct,))
    harvested = jax.grad(lambda x: harvest(f, tag=TAG)({}, x)[0])
    assert_same(harvest(harvested, tag=TAG)({}, THREE), (6.0, {"slope": 6.0}))
    exclusive = jax.grad(lambda x: harvest(f, tag="other", exclusive=True)({}, x)[0])
    assert_same(harvest(exclusive, tag=TAG)({}, THREE), (6.0, {}))


def test_sows_in_a_custom_derivative_differentiate_as_the_code() -> None:
    for wrap in (with_jvp, with_vjp):
        sown = total(reap(wrap(once("strict")), tag=TAG))
        assert_same(jax.grad(sown)(THREE), 1.0)
        both = total(harvest(wrap(once("strict")), tag=TAG))
        assert_same(jax.grad(lambda x, both=both: both({}, x))(THREE), 101.0)


def test_other_sows_in_a_custom_derivative_are_sown_once() -> None:
    for wrap in (with_jvp, with_vjp):
        f = wrap(lambda x: put(x + 1) * sow(x, tag=OTHER, name="o"))
        inside = jax.grad(lambda x, f=f: total(harvest(f, tag=TAG))({}, x))
        assert_same(harvest(inside, tag=OTHER)({}, THREE), (101.0, {"o": 3.0}))
        assert_same(harvest(inside, tag=TAG)({}, THREE), (101.0, {}))


@dataclasses.dataclass(frozen=True)
class Pullback:
    """A program at `x`, and the cotangents of `x` and of what is reaped, if that of `f(x)` is 1."""

    f: Function
    x: Any
    x_bar: Any
    reaps_bar: Any


PULLBACKS = {
    "straight": Pullback(
        f=lambda x: put(x + 1) ** 2 * x, x=THREE, x_bar=40.0, reaps_bar={"y": 24.0}
    ),
    "unused": Pullback(f=lambda x: (put(x + 1), x)[1], x=THREE, x_bar=1.0, reaps_bar={"y": 0.0}),
    "append-twice": Pullback(f=twice("append"), x=THREE, x_bar=3.0, reaps_bar={"y": floats(3, 1)}),
    "clobber-twice": Pullback(f=twice("clobber"), x=THREE, x_bar=3.0, reaps_bar={"y": 4.0}),
    "jit": Pullback(f=jax.jit(once("strict")), x=THREE, x_bar=2.0, reaps_bar={"y": 2.0}),
    "checkpoint": Pullback(
        f=jax.checkpoint(once("strict")), x=THREE, x_bar=2.0, reaps_bar={"y": 2.0}
    ),
    "scan-append": Pullback(
        f=lambda x: lax.scan(lambda c, v: (put(c * v, "append"), None), x, floats(1, 2, 3))[0],
        x=ONE,
        x_bar=6.0,
        reaps_bar={"y": floats(6, 3, 1)},
    ),
    "scan-clobber": Pullback(
        f=lambda x: lax.scan(lambda c, v: (put(c * v, "clobber"), None), x, floats(1, 2, 3))[0],
        x=ONE,
        x_bar=6.0,
        reaps_bar={"y": 10.0},
    ),
    "cond": Pullback(f=branch("strict"), x=THREE, x_bar=2.0, reaps_bar={"y": 2.0}),
    "vmap": Pullback(
        f=jax.vmap(once("strict")), x=PAIR, x_bar=floats(2, 2), reaps_bar={"y": floats(2, 2)}
    ),
    "custom_jvp": Pullback(f=with_jvp(once("strict")), x=THREE, x_bar=100.0, reaps_bar={"y": 2.0}),
    "custom_vjp": Pullback(f=with_vjp(once("strict")), x=THREE, x_bar=100.0, reaps_bar={"y": 2.0}),
    "shard_map": Pullback(
        f=over_shards(lambda x: 2 * put(x)),
        x=PAIR,
        x_bar=floats(2, 2),
        reaps_bar={"y": floats([2], [2])},
    ),
}


@pytest.mark.slow_rows("eager-shard_map", "jit-shard_map")
@pytest.mark.parametrize("row", PULLBACKS.values(), ids=PULLBACKS)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_vjp_and_reap(wrap: Any, row: Pullback) -> None:
    def run(x: Any) -> Any:
        out, reaps, pullback = vjp_and_reap(row.f, tag=TAG)(x)
        return out, reaps, *pullback(jnp.ones_like(out))

    out, reaps, (x_bar,), reaps_bar = wrap(run)(row.x)
    assert_same((out, reaps), (row.f(row.x), reap(row.f, tag=TAG)(row.x)))
    assert_same(x_bar, row.x_bar)
    assert_same(reaps_bar, row.reaps_bar)


@pytest.mark.parametrize(
    "case",
    # What is sown in a while loop has no cotangent, whatever rule the function around it has.
    [row(c) for c in CASES if c.reverse and not c.shards and "of-while" not in c.id],
)
def test_the_pullback_to_the_arguments_is_that_of_jax(case: Case) -> None:
    def ours(x: Any) -> Any:
        out, reaps, pullback = vjp_and_reap(case.f, tag=TAG)(x)
        of_args, of_reaps = pullback(jax.tree.map(jnp.ones_like, out))
        assert jax.tree.structure(of_reaps) == jax.tree.structure(reaps)
        return out, reaps, of_args

    def theirs(x: Any) -> Any:
        out, pullback = jax.vjp(case.f, x)
        return pullback(jax.tree.map(jnp.ones_like, out))

    assert_same(
        jax.jit(lambda x: (ours(x), theirs(x)))(case.x),
        ((case.out, case.reaps, theirs(case.x)), theirs(case.x)),
    )


def test_vjp_and_reap_of_integers_and_of_nested_derivatives() -> None:
    def f(x: Any) -> Any:
        return put({"i": jnp.int32(3), "x": x**2})["x"] * x

    out, reaps, pullback = vjp_and_reap(f, tag=TAG)(THREE)
    (x_bar,), reaps_bar = pullback(ONE)
    assert_same((out, reaps), (27.0, {"y": {"i": 3, "x": 9.0}}))
    assert_same((x_bar, reaps_bar["y"]["x"]), (27.0, 3.0))
    assert reaps_bar["y"]["i"].dtype == jax.dtypes.float0
    of_y = lambda x: vjp_and_reap(f, tag=TAG)(x)[2](ONE)[1]["y"]["x"]  # noqa: E731
    assert_same(jax.grad(of_y)(THREE), 1.0)
    assert_same(jax.vmap(of_y)(PAIR), floats(1, 2))
    with pytest.raises(ValueError, match="already been reaped"):
        vjp_and_reap(lambda x: put(x) + put(x), tag=TAG)(ONE)
    with pytest.raises(TypeError, match=r"pytrees of arrays, got the leaf 'a'.*Close over"):
        vjp_and_reap(lambda x, name: put(x), tag=TAG)(ONE, "a")
