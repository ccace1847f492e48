"""What a construct closes over may be traced by a transformation around it; no tracer leaks."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from ppl.harvest import harvest, nest, vjp_and_reap

from .calls import over_shards
from .case import Case
from .checks import TAG, assert_same, floats
from .constructs import put
from .table import CASES

Function = Callable[[Any], Any]
TWO = jnp.float32(2.0)


def custom(t: Any, x: Any) -> Any:
    """A function with a derivative of its own that closes over `t`."""
    f = jax.custom_jvp(lambda x: put(t * x))
    f.defjvp(lambda p, d: (f(*p), t * d[0]))
    return f(x)


def solved(t: Any, x: Any) -> Any:
    """The solution of z / t = x, whose three functions close over `t`."""
    solve = lambda _, b: put(t * b)  # noqa: E731
    return lax.custom_linear_solve(lambda z: z / t, x, solve, lambda _, b: t * b)


def scanned(t: Any, x: Any) -> Any:
    step = lambda c, v: (put(t * c, "append"), None)  # noqa: E731
    return lax.scan(step, x, None, length=1)[0][None][0]


def looped(t: Any, x: Any) -> Any:
    body = lambda s: (s[0] + 1, put(t * s[1], "clobber"))  # noqa: E731
    return lax.while_loop(lambda s: s[0] < 1, body, (0, x))[1]


# Each is `t * x`, sown inside of the construct, with `t` closed over.
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "straight": lambda t, x: put(t * x),
    "jit": lambda t, x: jax.jit(lambda x: put(t * x))(x),
    "jit-in-jit": lambda t, x: jax.jit(lambda x: jax.jit(lambda: put(t * x))())(x),
    "cond": lambda t, x: lax.cond(True, lambda x: put(t * x), lambda x: put(t * x + 1), x),
    "scan": scanned,
    "while": looped,
    "vmap": lambda t, x: jax.vmap(lambda x: put(t * x))(x[None])[0],
    "checkpoint": lambda t, x: jax.checkpoint(lambda x: put(t * x))(x),
    "custom_jvp": custom,
    "custom_linear_solve": solved,
    "nest": lambda t, x: nest(lambda x: put(t * x), scope="a")(x),
}
# JAX itself neither differentiates a custom_jvp by what it closes over nor lets go of it.
DIFFERENTIABLE = {name: f for name, f in PROGRAMS.items() if name != "custom_jvp"}


def harvested(f: Callable[[Any, Any], Any], t: Any, x: Any) -> tuple[Any, Any, Any]:
    """The result, what is reaped, and the result with it planted; `t` is closed over."""
    harvested = harvest(lambda x: f(t, x), tag=TAG)
    out, reaps = harvested({}, x)
    (reaped,) = jax.tree.leaves(reaps)
    return out, jnp.reshape(reaped, ()), harvested(jax.tree.map(lambda y: y + t, reaps), x)[0]


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)
def test_a_tracer_of_jit_and_of_vmap(f: Callable[[Any, Any], Any]) -> None:
    """The three are t x, t x, t x + t."""
    known = (6.0, 6.0, 8.0)
    x = jnp.float32(3.0)
    assert_same(harvested(f, TWO, x), known)
    assert_same(jax.jit(lambda t: harvested(f, t, x))(TWO), known)
    ts = jnp.array([2.0, 3.0])
    known = (floats(6, 9), floats(6, 9), floats(8, 12))
    assert_same(jax.vmap(lambda t: harvested(f, t, x))(ts), known)
    assert_same(jax.jit(jax.vmap(lambda t: harvested(f, t, x)))(ts), known)


@pytest.mark.slow_rows("cond", "scan")
@pytest.mark.parametrize("f", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_tracer_of_a_derivative(f: Callable[[Any, Any], Any]) -> None:
    """The derivatives by t are x, x and, as the gradient passes by the plant alone, x + 1."""
    x = jnp.float32(3.0)
    run = lambda t: harvested(f, t, x)  # noqa: E731
    assert_same(jax.jvp(run, (TWO,), (TWO,))[1], (6.0, 6.0, 8.0))
    assert_same(jax.jit(lambda t: jax.jvp(run, (t,), (t,)))(TWO)[1], (6.0, 6.0, 8.0))
    if f is not looped:
        assert_same(jax.jit(jax.jacrev(run))(TWO), (3.0, 3.0, 4.0))
        assert_same(jax.vmap(jax.grad(lambda t: run(t)[0]))(floats(2, 3)), floats(3, 3))


@pytest.mark.parametrize("f", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_a_tracer_does_not_leak(f: Callable[[Any, Any], Any]) -> None:
    with jax.checking_leaks():
        jax.jit(lambda t: harvested(f, t, jnp.float32(3.0)))(TWO)


def test_a_tracer_in_a_shard_map() -> None:
    """JAX shards what a shard_map closes over only if it is traced in a program around it."""
    x = jnp.array([3.0, 4.0])
    run = lambda t: harvest(over_shards(lambda x: put(t * x)), tag=TAG)({}, x)  # noqa: E731
    assert_same(jax.jit(run)(TWO), (2 * x, {"y": 2 * x[:, None]}))


def test_tracers_of_two_levels() -> None:
    """An outer and an inner one, one of them an argument of what is planted."""

    def outer(t: Any) -> Any:
        def inner(s: Any) -> Any:
            def step(c: Any, v: Any) -> Any:
                return put(t * c + s * v, "append"), None

            f = lambda x: lax.scan(step, x, floats(1, 2))[0]  # noqa: E731
            out, reaps = harvest(f, tag=TAG)({}, 1.0)
            return out + harvest(f, tag=TAG)({"y": s * reaps["y"]}, 1.0)[0]

        return jax.vmap(inner)(jnp.array([1.0, 2.0])).sum()

    # y1 = t + s, y2 = t y1 + 2 s = t t + t s + 2 s, and (1 + s) y2 summed over s = 1, 2.
    assert_same(jax.jit(outer)(3.0), 2 * (9.0 + 3.0 + 2.0) + 3 * (9.0 + 6.0 + 4.0))
    assert_same(jax.grad(outer)(3.0), 2 * (6.0 + 1.0) + 3 * (6.0 + 2.0))


def test_a_tracer_in_a_pullback() -> None:
    def outer(t: Any) -> Any:
        _, _, pullback = vjp_and_reap(lambda x: put(t * x) ** 2, tag=TAG)(jnp.float32(3.0))
        return pullback(jnp.float32(1.0))[1]["y"]

    assert_same((jax.jit(outer)(TWO), jax.grad(outer)(TWO)), (12.0, 6.0))


@pytest.fixture(scope="module")
def few_objects() -> Iterator[None]:
    """What was there before is not searched for tracers, which takes JAX most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.slow
@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_row_of_the_table_leaks(case: Case) -> None:
    """Reaped, planted and differentiated, jitted, while JAX looks for tracers that stay behind."""
    harvested = harvest(case.f, tag=TAG)

    def everything(x: Any) -> Any:
        looked, planted = harvested({}, x), harvested(case.plants, x)
        tangents = jax.jvp(lambda x: harvested({}, x)[0], (x,), (x,)) if case.forward else None
        gradients = jax.vjp(lambda x: harvested({}, x)[0], x)[1] if case.reverse else None
        return looked, planted, tangents, gradients and gradients(looked[0])

    with jax.checking_leaks():
        jax.eval_shape(everything, jnp.asarray(case.x))


@pytest.mark.usefixtures("few_objects")
def test_a_leak_is_seen() -> None:
    kept = []
    with jax.checking_leaks(), pytest.raises(Exception, match="Leaked"):
        jax.eval_shape(lambda x: kept.append(put(2 * x)), TWO)
