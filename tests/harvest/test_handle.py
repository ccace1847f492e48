"""handle: what each kind of handler does in each construct, and every misuse as an error."""

# ruff: noqa: E501

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import batching

from ppl.harvest import (
    call_and_reap,
    effect,
    handle,
    jax_core,
    nest,
    reap,
    sow,
    sow_cond,
    sown,
)
from ppl.harvest.effects import perform_p

from .checks import TAG, assert_same, equations, floats, primitives

Function = Callable[..., Any]

amb = effect("amb", lambda xs: jax.tree.map(lambda leaf: leaf[0], xs))
ask = effect("ask", lambda: jnp.float32(0))
double = effect("double", lambda x: x)
stop = effect("stop", lambda x: x)
get = effect("get", lambda: jnp.float32(0))
put = effect("put", lambda x: ())
tell = effect("tell", lambda x: ())
tick = effect("tick", lambda: jnp.int32(0))

X = jnp.float32(3.0)
XS = jnp.array([1.0, 2.0])
YS = jnp.array([10.0, 20.0, 30.0])


def every(k: Function, xs: Any) -> Any:
    """All choices in parallel."""
    return jax.vmap(k)(xs)


def every_in_turn(k: Function, xs: Any) -> Any:
    return [k(x) for x in xs]


ASK: dict[Any, Function] = {ask: lambda k: k(2.0)}
DOUBLE: dict[Any, Function] = {double: lambda k, x: k(2 * x)}
STOP: dict[Any, Function] = {stop: lambda k, x: -x}
READ = ASK | DOUBLE | STOP | {amb: every}
CELL: dict[Any, Function] = {get: lambda s: (s, s), put: lambda s, x: (x, ()), tell: lambda s, x: (s + x, ())}  # fmt: skip
TICK: dict[Any, Function] = {tick: lambda n: (n + 1, n)}


def two(x: Any) -> Any:
    u = amb(x * XS)
    return u * amb(YS) + u


def guarded(x: Any) -> Any:
    """An early exit from a branch, and work after the cond."""
    return 10 * lax.cond(x > 0, lambda x: stop(x) + 1, lambda x: x - 1, x)


def asking(x: Any) -> Any:
    return x * ask() + double(x)


def scanned(body: Function, **options: Any) -> Function:
    """`c = body(c + v)` for v = 1, 2; twice of it is scanned out."""

    def step(c: Any, v: Any) -> Any:
        c = body(c + v)
        return c, 2 * c

    return lambda x: lax.scan(step, x, XS, **options)


def below(limit: float, body: Function) -> Function:
    return lambda x: lax.while_loop(lambda c: c < limit, body, x)


TWO = jnp.array([[33.0, 63.0, 93.0], [66.0, 126.0, 186.0]])

# id: (program, argument, answer), all under the handlers READ.
PROGRAMS: dict[str, tuple[Function, Any, Any]] = {
    "no-effect": (lambda x: 2 * x, X, 6.0),
    "result-is-a-literal": (lambda x: (ask(), 1.0)[1], X, 1.0),
    "once": (asking, X, 12.0),
    "never": (lambda x: 10 * stop(x), X, -3.0),
    "never-after-work": (lambda x: 10 * stop(double(x)), X, -6.0),
    "many": (two, X, TWO),
    "many-of-a-pytree": (lambda x: (lambda c: c["a"] + c["b"] * x)(amb({"a": XS, "b": 10 * XS})), X, floats(31, 62)),
    "many-then-never": (lambda x: stop(amb(XS)) + x, X, floats(-1, -2)),
    "answer-is-a-pytree": (lambda x: {"u": amb(XS), "x": x}, X, {"u": floats(1, 2), "x": floats(3, 3)}),
    "unused-result": (lambda x: (stop(x), x)[1], X, -3.0),
    "jit": (jax.jit(two), X, TWO),
    "jit-then-rest": (lambda x: 1 + jax.jit(lambda x: 10 * stop(x))(x), X, -3.0),
    "jit-in-jit": (lambda x: jax.jit(lambda x: amb(XS) + jax.jit(two)(x))(x) + 1, X, jnp.stack([TWO + 2, TWO + 3])),
    "jit-closing-over": (lambda x: jax.jit(lambda: x * ask())(), X, 6.0),
    "nest": (nest(asking, scope="a"), X, 12.0),
    "cond-true": (guarded, X, -3.0),
    "cond-false": (guarded, -X, -40.0),
    "cond-after-many": (lambda x: guarded(amb(jnp.array([1.0, -2.0])) * x), X, floats(-3, -70)),
    "cond-in-cond": (lambda x: lax.cond(x > 0, lambda x: 2 * guarded(x - 5), guarded, x), X, -60.0),
    "cond-in-jit": (jax.jit(guarded), X, -3.0),
    "switch": (lambda x: 1 + lax.switch(jnp.int32(x), [lambda x: x, double, stop, double], x), X, 7.0),
    "platform": (lambda x: 1 + lax.platform_dependent(x, cpu=double, default=lambda x: x), X, 7.0),
    "scan": (scanned(double), X, (20.0, floats(16, 40))),
    "scan-reverse": (scanned(double, reverse=True), X, (22.0, floats(44, 20))),
    "scan-length-0": (lambda x: lax.scan(lambda c, _: (double(c), None), x, None, length=0)[0], X, 3.0),
    "scan-of-jit": (scanned(jax.jit(double)), X, (20.0, floats(16, 40))),
    "scan-of-cond": (scanned(lambda c: lax.cond(c > 5, double, lambda c: c + ask(), c)), X, (16.0, floats(12, 32))),
    "scan-in-scan": (scanned(lambda c: scanned(double)(c)[0]), X, (112.0, floats(48, 224))),
    "scan-after-many": (lambda x: scanned(double)(amb(XS) * x)[0], X, floats(20, 32)),
    "fori": (lambda x: lax.fori_loop(0, 3, lambda i, c: c + ask(), x), X, 9.0),
    "while": (below(20, double), X, 24.0),
    "while-condition": (lambda x: lax.while_loop(lambda c: c < 3 * ask(), lambda c: c + 1, x), X, 6.0),
    "map": (lambda x: lax.map(lambda v: v * ask(), x * XS), X, floats(6, 12)),
    "vmap": (lambda x: jax.vmap(lambda v: double(v) + ask())(x * XS), X, floats(8, 14)),
    "vmap-unmapped": (lambda x: jax.vmap(lambda v: v + double(x))(XS), X, floats(7, 8)),
    "vmap-of-vmap": (lambda x: jax.vmap(jax.vmap(lambda v: x * double(v)))(jnp.stack([YS, YS])), X, jnp.stack([6 * YS, 6 * YS])),
    "vmap-of-scan": (lambda x: jax.vmap(lambda v: scanned(double)(v)[0])(x * XS), X, floats(20, 32)),
    "vmap-of-while": (lambda x: jax.vmap(below(20, double))(x * XS), X, floats(24, 24)),
    "vmap-of-cond": (lambda x: jax.vmap(lambda v: lax.cond(v > 4, double, lambda v: v, v))(x * XS), X, floats(3, 12)),
    "vmap-in-scan": (scanned(lambda c: jax.vmap(lambda v: double(v) * ask())(c * XS)[0]), X, (72.0, floats(32, 144))),
    "grad-of-what-does-not-depend": (jax.grad(lambda x: x * x * ask()), X, 12.0),
    "grad-of-scan": (jax.grad(lambda x: scanned(lambda c: c * ask())(x)[0]), X, 4.0),
}  # fmt: skip

# id: (program, argument, result, state), from the state 100 under CELL.
THREADED: dict[str, tuple[Function, Any, Any, Any]] = {
    "no-effect": (lambda x: 2 * x, X, 6.0, 100.0),
    "get-put-get": (lambda x: (get(), put(x), get()), X, (100.0, (), 3.0), 3.0),
    "put-in-jit": (lambda x: (jax.jit(put)(x), get())[1], X, 3.0, 3.0),
    "unused": (lambda x: (jax.jit(lambda x: (tell(x), x)[1])(x), x)[1], X, 3.0, 103.0),
    "cond-true": (lambda x: (lax.cond(x > 0, tell, put, x), get())[1], X, 103.0, 103.0),
    "cond-false": (lambda x: (lax.cond(x > 9, tell, put, x), get())[1], X, 3.0, 3.0),
    "cond-one-branch": (lambda x: lax.cond(x > 0, lambda x: (tell(x), x)[1], lambda x: x, x), X, 3.0, 103.0),
    "scan": (scanned(lambda c: (tell(c), c + get())[1]), X, (324.0, floats(216, 648)), 214.0),
    "scan-of-cond": (scanned(lambda c: lax.cond(c > 5, lambda c: (tell(c), c)[1], lambda c: c, c)), X, (6.0, floats(8, 12)), 106.0),
    "scan-in-jit": (jax.jit(scanned(lambda c: (tell(c), c)[1])), X, (6.0, floats(8, 12)), 110.0),
    "scan-in-scan": (scanned(lambda c: scanned(lambda c: (tell(c), c)[1])(c)[0]), X, (12.0, floats(14, 24)), 134.0),
    "while": (below(9, lambda c: (tell(c), 2 * c)[1]), X, 12.0, 109.0),
    "while-condition": (lambda x: lax.while_loop(lambda c: (tell(c), get())[1] < 113, lambda c: c + 1, x), X, 6.0, 118.0),
    "while-never": (below(0, lambda c: (tell(c), c)[1]), X, 3.0, 100.0),
    "fori-dynamic": (lambda x: lax.fori_loop(0, jnp.int32(x), lambda i, c: (tell(c), c + 1)[1], x), X, 6.0, 112.0),
    "vmap-reads": (lambda x: jax.vmap(lambda v: v + get())(x * XS), X, floats(103, 106), 100.0),
}  # fmt: skip

TRANSFORMED: dict[str, Function] = {
    "as-it-is": lambda f, x: f(x),
    "jit-closing-over": lambda f, x: jax.jit(lambda x: handle(lambda _: f(x), {})(0))(x),
    "vmap": lambda f, x: jax.tree.map(lambda y: y[1], jax.vmap(f)(jnp.stack([x + 1, x]))),
    "disable_jit": lambda f, x: _unjitted(f, x),
    "scan": lambda f, x: jax.tree.map(lambda y: y[0], lax.map(f, jnp.stack([x, x + 1]))),
}


def _unjitted(f: Function, x: Any) -> Any:
    with jax.disable_jit():
        return f(x)


@pytest.mark.parametrize("through", TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize(("f", "x", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_the_answer(f: Function, x: Any, expected: Any, through: Function, request: Any) -> None:
    if "length-0-disable_jit" in request.node.callspec.id:
        pytest.skip("JAX does not run a scan of length 0 without jit")
    assert_same(through(handle(f, READ), x), expected)
    assert "perform" not in primitives(handle(f, READ), x)


@pytest.mark.parametrize("through", TRANSFORMED.values(), ids=TRANSFORMED)
@pytest.mark.parametrize(("f", "x", "expected", "state"), THREADED.values(), ids=THREADED)
def test_the_state(f: Function, x: Any, expected: Any, state: Any, through: Function) -> None:
    assert_same(through(handle(f, CELL, state=100.0), x), (expected, state))
    assert "perform" not in primitives(handle(f, CELL, state=100.0), x)


@pytest.mark.parametrize("f", [asking, jax.jit(asking), guarded, scanned(double)])
def test_handled_and_then_differentiated(f: Function) -> None:
    """Exact: the programs are linear on either side of the point."""
    total = lambda x: sum(map(jnp.sum, jax.tree.leaves(handle(f, READ)(x))))  # noqa: E731
    expected = (total(X + 1) - total(X - 1)) / 2
    assert_same(jax.grad(total)(X), np.float32(expected))
    assert_same(jax.jvp(total, (X,), (X,))[1], np.float32(3 * expected))


def test_the_derivative_of_a_state() -> None:
    f = lambda x: (put(x * get()), scanned(lambda c: (tell(c), c)[1])(x), get())[2]  # noqa: E731
    out = lambda x, s: handle(f, CELL, state=s)(x)[0]  # noqa: E731  # x s + (x + 1) + (x + 3)
    assert_same(jax.grad(out, argnums=(0, 1))(X, jnp.float32(5.0)), (7.0, 3.0))


def test_the_choices_are_a_list_comprehension() -> None:
    f = lambda x, y, z: (lambda u, v: (lambda w: u * v + w)(v + amb(z)))(amb(x), 2 * amb(y))  # noqa: E731
    x, y, z = np.arange(3), np.arange(4), np.arange(5)
    expected = np.array([u * v + w for u in x for v in 2 * y for w in v + z], np.int32)
    for handler in (every, every_in_turn):
        answer = handle(f, {amb: handler})(jnp.array(x), jnp.array(y), jnp.array(z))
        assert_same(jnp.ravel(jnp.array(answer)), expected)


def test_what_comes_before_is_evaluated_once() -> None:
    f = lambda x: jnp.cos(amb(jnp.sin(x * YS)) + amb(jnp.tan(x * XS)))  # noqa: E731
    names = primitives(handle(f, {amb: every_in_turn}), X)
    assert [names.count(n) for n in ("sin", "tan", "cos")] == [1, 3, 6]


def test_a_continuation_may_be_called_in_any_construct() -> None:
    """In a cond, in a scan, and after `handle` has returned."""
    either = {double: lambda k, x: lax.cond(x > 0, lambda: k(x), lambda: k(-x))}
    assert_same(handle(asking, ASK | either)(X), 9.0)
    total = lambda k, xs: lax.scan(lambda s, x: (s + k(x), None), jnp.float32(0), xs)[0]  # noqa: E731
    assert_same(handle(two, {amb: total})(X), float(jnp.sum(TWO)))
    kept = handle(lambda x: x + double(x), {double: lambda k, x: k})(X)
    assert_same((kept(1.0), kept(jnp.float32(2))), (4.0, 5.0))


KEPT: dict[str, Function] = {
    "jit": jax.jit(lambda x: (ask(), x)[1]),
    "grad-of-jit": jax.grad(jax.jit(lambda x: (ask(), x)[1])),
    "grad-of-scan": jax.grad(lambda x: scanned(lambda c: (ask(), c)[1])(x)[0]),
    "grad-of-cond": jax.grad(lambda x: lax.cond(x > 0, lambda x: (ask(), x)[1], lambda x: x, x)),
    "grad-of-used": jax.grad(jax.jit(lambda x: jnp.sin(x * ask()))),
    "grad-of-used-in-checkpoint": jax.grad(jax.checkpoint(lambda x: jnp.sin(jnp.sin(x * ask())))),
    "scan": lambda x: scanned(lambda c: (ask(), c)[1])(x)[0],
    "while": below(4, lambda c: (ask(), c + 1)[1]),
    "reap": reap(lambda x: (jax.jit(lambda: ask())(), sow(x, tag=TAG, name="y"))[1], tag=TAG),
    "handle": handle(lambda x: (ask(), double(x))[1], DOUBLE),
    "handle-in-scan": handle(lambda x: scanned(lambda c: (ask(), double(c))[1])(x), DOUBLE),
    "handle-with-state": handle(lambda x: scanned(lambda c: (ask(), tell(c), c)[2])(x), CELL, state=0.0),
}  # fmt: skip


@pytest.mark.parametrize("f", KEPT.values(), ids=KEPT)
def test_an_effect_is_neither_dropped_nor_doubled(f: Function) -> None:
    assert primitives(f, X).count("perform") == 1


def test_an_effect_needs_its_jax_effect_and_its_rule_for_vmap() -> None:
    pure = jax_core.make_primitive("pure", impl=list, abstract_eval=list, jvp=None, batch=None)  # pyright: ignore
    f = lambda x: (pure.bind(), x)[1]  # noqa: E731
    assert "pure" not in primitives(jax.grad(jax.jit(f)), X)
    assert "pure" in primitives(jax.vmap(f), XS)  # as if there were no vmap, or its rule had failed


def test_handlers_nest() -> None:
    """What the inner one does not handle, and what it performs itself, goes to the outer one."""
    inner = {double: lambda k, x: k(x * ask())}
    assert_same(handle(handle(asking, inner), ASK)(X), 12.0)
    assert_same(handle(handle(asking, {ask: lambda k: k(5.0)} | inner), ASK)(X), 21.0)
    assert_same(handle(handle(asking, ASK), {ask: lambda k: k(5.0)} | DOUBLE)(X), 12.0)
    assert_same(handle(handle(scanned(double), inner), ASK)(X), (20.0, floats(16, 40)))
    assert_same(handle(handle(jax.vmap(double), inner), ASK)(XS), floats(2, 4))
    assert_same(handle(handle(two, {amb: every_in_turn}), {})(X)[1], [66.0, 126.0, 186.0])


def test_the_order_of_nested_handlers_matters() -> None:
    """A state around choices is shared by them; one inside begins again with each."""
    f = lambda x: amb(XS) + jnp.float32(tick())  # noqa: E731
    outside = handle(handle(f, {amb: every_in_turn}), TICK, state=0)
    assert_same(outside(X), ([1.0, 3.0], 2))
    inside = handle(handle(f, TICK, state=0), {amb: every_in_turn})
    assert_same(inside(X), [(1.0, 1), (2.0, 1)])


def test_a_handled_program_may_still_sow() -> None:
    f = lambda x: sow(double(x) + 1, tag=TAG, name="y") * ask()  # noqa: E731
    assert_same(call_and_reap(handle(f, READ), tag=TAG)(X), (14.0, {"y": 7.0}))
    assert_same(handle(call_and_reap(f, tag=TAG), READ)(X), (14.0, {"y": 7.0}))


def test_sown_values_are_handled_by_tag() -> None:
    f = nest(lambda x: scanned(lambda c: sow(c, tag=TAG, name="y"))(x)[0], scope="a")
    g = lambda x: sow(f(x), tag="other", name="z") + 1  # noqa: E731
    paths: list[Any] = []

    def handler(k: Function, value: Any, path: Any) -> Any:
        paths.append(path)
        return k(10 * value)

    assert_same(handle(g, {sown(TAG): handler})(X), 421.0)
    assert set(paths) == {("a", "y")}
    assert_same(handle(g, {sown("other"): lambda k, value, path: -value})(X), -6.0)
    assert_same(reap(handle(g, {sown(TAG): handler}), tag="other")(X), {"z": 420.0})
    assert_same(handle(g, {sown(TAG): lambda s, v, path: (s + v, v)}, state=0.0)(X), (7.0, 10.0))
    mapped = jax.vmap(lambda v: sow({"v": v}, tag=TAG, name="y")["v"])
    negated = {sown(TAG): lambda k, value, _: k({"v": -value["v"]})}
    assert_same(handle(mapped, negated)(XS), floats(-1, -2))
    sows = lambda v: sow(v, tag=TAG, name="y")  # noqa: E731
    chosen = jax.vmap(lambda v: lax.cond(v > 1, sows, lambda v: v, v))
    assert_same(handle(chosen, {sown(TAG): lambda k, value, _: k(10 * value)})(XS), floats(1, 20))


@pytest.mark.parametrize("key", [jax.random.key(1), jax.random.PRNGKey(1)], ids=["typed", "legacy"])
def test_random_keys_are_operands_results_and_states(key: Any) -> None:
    draw = effect("draw", lambda key: jnp.float32(0))
    handlers = {draw: lambda k, key: k(jax.random.normal(key)), double: lambda k, key: k(key)}
    f = lambda key: scanned(lambda c: c + draw(double(key)))(X)[0]  # noqa: E731
    value = jax.random.normal(key)
    assert_same(handle(f, handlers)(key), ((X + 1 + value) + 2) + value)
    assert_same(handle(jax.vmap(draw), handlers)(jnp.stack([key, key])), jnp.stack([value, value]))
    fresh = effect("fresh", lambda: jax.ShapeDtypeStruct(key.shape, key.dtype))
    split = {fresh: lambda key: tuple(jax.random.split(key))}
    keys = handle(lambda: (fresh(), fresh()), split, state=key)()[0]
    first, second = jax.random.split(key)
    assert_same(keys, (second, jax.random.split(first)[1]))


def test_under_vmap_the_state_may_be_read_in_any_form() -> None:
    handlers = {get: lambda s: ({"a": s["a"], "key": s["key"]}, s["a"] * 2)}
    state = {"a": X, "key": jax.random.key(0)}
    f = jax.jit(lambda s: handle(lambda x: jax.vmap(lambda v: v + get())(x), handlers, state=s)(XS))
    assert_same(f(state), (floats(7, 8), state))


def test_the_result_of_k_takes_the_declared_type() -> None:
    half = effect("half", lambda: jax.ShapeDtypeStruct((), jnp.float16))
    for given in (1, 1.0, jnp.float16(1), np.float16(1)):
        out = handle(lambda x: half(), {half: lambda k, given=given: k(given)})(X)
        assert (out.dtype, out.weak_type, float(out)) == (jnp.float16, False, 1.0)


def test_no_tracer_leaks() -> None:
    with jax.checking_leaks():
        for f in (two, guarded, PROGRAMS["vmap-of-scan"][0], PROGRAMS["scan-of-cond"][0]):
            jax.block_until_ready(jax.jit(handle(f, READ))(X))
        jax.block_until_ready(jax.jit(handle(THREADED["while-condition"][0], CELL, state=100.0))(X))


@jax.custom_jvp
def with_jvp(x: Any) -> Any:
    return double(x)


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), tangents[0]))


def _returns(value: Any) -> dict[Any, Function]:
    return {double: lambda k, x: value(k, x)}


MISUSED: dict[str, tuple[Function, type[Exception], str]] = {
    "not-handled": (lambda: double(X), RuntimeError, "effect 'double' is performed where nothing handles it.*handle"),
    "not-handled-compiled": (lambda: jax.jit(double)(X), RuntimeError, "effect 'double' is performed where nothing handles it"),
    "not-handled-in-scan": (lambda: scanned(double)(X), RuntimeError, "effect 'double' is performed where nothing handles it"),
    "not-handled-in-handle": (lambda: handle(asking, DOUBLE)(X), RuntimeError, "effect 'ask' is performed where nothing handles it"),
    "in-its-own-handler": (lambda: handle(double, _returns(lambda k, x: k(double(x))))(X), RuntimeError, "effect 'double' is performed"),
    "grad": (lambda: handle(jax.grad(double), DOUBLE)(X), NotImplementedError, r"effect 'double'.*differentiated.*grad\(handle\("),
    "grad-in-scan": (lambda: jax.grad(lambda x: scanned(double)(x)[0])(X), NotImplementedError, "effect 'double'.*differentiated"),
    "checkpoint": (lambda: handle(jax.checkpoint(double), DOUBLE)(X), NotImplementedError, "effect 'double' is performed inside of '(remat2|checkpoint)', which handle cannot open"),
    "custom_jvp": (lambda: handle(with_jvp, DOUBLE)(X), NotImplementedError, "effect 'double' is performed inside of 'custom_jvp_call'"),
    "custom_jvp-with-state": (lambda: handle(with_jvp, {double: lambda s, x: (s, x)}, state=0)(X), NotImplementedError, "effect 'double' is performed inside of 'custom_jvp_call'"),
    "result-shape": (lambda: handle(double, _returns(lambda k, x: k(XS)))(X), ValueError, r"effect 'double': the result: expected float32\[\], got float32\[2\]"),
    "result-dtype": (lambda: handle(double, _returns(lambda k, x: k(jnp.int32(1))))(X), TypeError, r"effect 'double': the result: expected float32\[\], got int32\[\]"),
    "result-structure": (lambda: handle(double, _returns(lambda k, x: k((x, x))))(X), ValueError, r"effect 'double': the result: expected float32\[\], got tuple: \(.*Use jnp.asarray"),
    "result-in-scan": (lambda: handle(scanned(double), _returns(lambda k, x: k(XS)))(X), ValueError, r"effect 'double': the result: expected float32\[\]"),
    "answers-of-branches": (lambda: handle(guarded, {stop: lambda k, x: (x, 1)})(X), ValueError, r"effect 'stop' in a branch of a cond: the answers.*float32\[\] as .* of branch 0 and float32\[\], int32\[\] as .* of branch 1"),
    "never-in-scan": (lambda: handle(scanned(double), _returns(lambda k, x: x))(X), ValueError, "effect 'double' is performed inside of a scan loop.*does not call k.*state="),
    "never-in-while": (lambda: handle(below(9, double), _returns(lambda k, x: x))(X), ValueError, "effect 'double' is performed inside of a while loop.*does not call k"),
    "twice-in-scan": (lambda: handle(scanned(double), _returns(lambda k, x: k(k(x))))(X), ValueError, "effect 'double'.*a scan loop.*calls k again"),
    "changed-in-scan": (lambda: handle(scanned(double), _returns(lambda k, x: (k(x), 1)))(X), ValueError, "effect 'double'.*a scan loop.*returns something else"),
    "used-in-scan": (lambda: handle(scanned(double), _returns(lambda k, x: 2 * k(x)))(X), ValueError, "effect 'double'.*a scan loop.*uses what k returns"),
    "many-in-scan": (lambda: handle(scanned(lambda c: amb(c * XS)), READ)(X), ValueError, "effect 'amb'.*a scan loop.*uses what k returns"),
    "many-under-vmap": (lambda: handle(jax.vmap(lambda v: amb(v * XS)), READ)(XS), ValueError, r"effect 'amb' is performed inside of vmap.*vmap\(handle\("),
    "many-unmapped-under-vmap": (lambda: handle(jax.vmap(lambda v: v + amb(XS)), READ)(XS), ValueError, "effect 'amb' is performed inside of vmap"),
    "never-under-vmap": (lambda: handle(jax.vmap(stop), STOP)(XS), ValueError, "effect 'stop' is performed inside of vmap.*does not call k"),
    "state-under-vmap": (lambda: handle(jax.vmap(put), CELL, state=0.0)(XS), ValueError, r"effect 'put': the state is changed.*vmap\(handle\("),
    "state-unmapped-under-vmap": (lambda: handle(jax.vmap(lambda v: (tick(), v)), TICK, state=0)(XS), ValueError, "effect 'tick': the state is changed"),
    "state-unmapped-under-vmap-of-jit": (lambda: handle(jax.vmap(lambda v: (jax.jit(tick)(), v)), TICK, state=0)(XS), ValueError, "effect 'tick': the state is changed"),
    "state-under-vmap-outside": (lambda: handle(handle(lambda x: amb(XS) + jnp.float32(tick()), {amb: every}), TICK, state=0)(X), ValueError, "effect 'tick': the state is changed"),
    "state-of-unmapped-sow-in-mapped-while": (lambda: handle(jax.vmap(lambda v: lax.while_loop(lambda c: c < 9, lambda c: c + sow(1.0, tag=TAG, name="y"), v)), {sown(TAG): lambda s, v, p: (s + v, v)}, state=0.0)(XS), ValueError, "sow 'y': the state is changed"),
    "state-no-pair": (lambda: handle(tick, {tick: lambda s: s}, state=0)(), TypeError, r"effect 'tick': with a state.*\(state, result\)"),
    "state-dtype": (lambda: handle(tick, {tick: lambda s: (jnp.float32(s), 0)}, state=jnp.int32(0))(), TypeError, r"effect 'tick': the new state: expected int32\[\], got float32\[\]"),
    "state-structure": (lambda: handle(tick, {tick: lambda s: ((s, s), 0)}, state=0)(), ValueError, "effect 'tick': the new state"),
    "state-no-array": (lambda: handle(tick, TICK, state=object())(), TypeError, "handle: state must be a pytree of arrays, got <object"),
    "sow_cond": (lambda: handle(lambda x: sow_cond(x, x > 0, tag=TAG, name="y"), {sown(TAG): lambda k, v, p: k(v)})(X), NotImplementedError, "sow 'y': a sow_cond cannot be handled"),
    "sow-in-vmapped-cond-with-effect": (lambda: handle(jax.vmap(lambda v: lax.cond(v > 1, lambda v: double(sow(v, tag=TAG, name="y")), lambda v: v, v)), {sown(TAG): lambda k, v, p: k(v)})(XS), ValueError, "sow 'y': it stands in a branch of a cond"),
    "state-in-vmapped-cond": (lambda: handle(jax.vmap(lambda v: lax.cond(v > 1, lambda v: sow(v, tag=TAG, name="y"), lambda v: v, v)), {sown(TAG): lambda s, v, p: (s, v)}, state=0.0)(XS), NotImplementedError, "sow 'y' is performed inside of 'vmap_of_cond'.*Handle it inside"),
    "operand": (lambda: double(object()), TypeError, "effect 'double': expected a pytree of arrays as its operand, got a leaf of type object"),
    "declared-result": (lambda: effect("e", object)(), TypeError, "effect 'e': expected a pytree of arrays as its declared result"),
    "name": (lambda: effect(1, lambda: 0), TypeError, "effect: name must be a string, got 1"),  # pyright: ignore
    "result": (lambda: effect("e", 0), TypeError, "effect 'e': result must be a function"),  # pyright: ignore
    "tag": (lambda: sown([]), TypeError, "sown: tag must be hashable"),  # pyright: ignore
    "handlers": (lambda: handle(double, [double]), TypeError, "handle: expected a dict of handlers"),  # pyright: ignore
    "key": (lambda: handle(double, {"double": lambda k, x: k(x)}), TypeError, "handle: handlers go by.*got the key 'double'"),
    "handler": (lambda: handle(double, {double: 1}), TypeError, "handle: the handler of effect 'double' must be a function"),  # pyright: ignore
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), MISUSED.values(), ids=MISUSED)
def test_misuse_is_an_error_that_says_what_to_do(call: Function, error: Any, message: str) -> None:
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_every_vmap_reaches_the_effect() -> None:
    """JAX calls the rules in its second table also for a vmap that maps no operand."""
    assert batching.fancy_primitive_batchers[perform_p].__module__ == "ppl.harvest.jax_core"
    for f in (asking, jax.jit(asking), lambda v: scanned(lambda c: c + ask())(v)[0]):
        calls = [e.params["call"] for e in equations(jax.vmap(f), XS) if e.primitive is perform_p]
        assert {call.batch_shape for call in calls if call.effect is ask} == {(2,)}
