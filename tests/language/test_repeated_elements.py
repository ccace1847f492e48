"""Programs evaluated with repeated elements computed once: equal results, of fewer elements."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.custom_derivatives import SymbolicZero

from ppl.marginal import repeated_elements
from ppl.marginal.repeated_elements import evaluate_once

pytestmark = pytest.mark.usefixtures("x64")
ROWS = np.arange(12.0).reshape(3, 4) / 7 + 0.1
DATA = np.sin(np.arange(6.0))
AT = np.array([2, 0, 1, 3, 3, 0])
GRID = np.cos(np.arange(60.0)).reshape(6, 5, 2)


@jax.custom_jvp
def cube(x, y):
    return x**3 + y


@cube.defjvp
def _cube_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return cube(x, y), 3 * x * x * dx + dy


def constant_in_first(x, y):
    return jnp.exp(x) * y


constant_in_first = jax.custom_jvp(constant_in_first)


@functools.partial(constant_in_first.defjvp, symbolic_zeros=True)
def _constant_in_first_jvp(primals, tangents):
    if not isinstance(tangents[0], SymbolicZero):
        raise NotImplementedError
    return constant_in_first(*primals), jnp.exp(primals[0]) * tangents[1]


def spread(x):
    return jnp.broadcast_to(x, (6,))


def first_and_rest(k):
    """One element and five others, as the states before each step of a chain."""
    return jnp.concatenate([jnp.zeros(1, k.dtype), spread(k)[:-1]])


CASES = {
    "elements": lambda x, k: jnp.exp(spread(x) * 2.0) + DATA,
    "axes of size 1": lambda x, k: jax.vmap(lambda y: spread(x) * y)(DATA),
    "select": lambda x, k: jnp.where(spread(k) > 0, spread(x), DATA),
    "gather": lambda x, k: jnp.log(x * ROWS)[spread(k)],
    "gather of two axes": lambda x, k: jnp.log(x * ROWS)[spread(k), AT],
    "gather along a batch": lambda x, k: jnp.take_along_axis(
        jnp.log((x * ROWS)[spread(k)]), AT[:, None], 1
    ),
    "gather of a batch of equal rows": lambda x, k: jax.vmap(lambda i: (x * ROWS)[k][i])(
        jnp.asarray(AT)
    ),
    "gather of runs": lambda x, k: jax.vmap(lambda row: jnp.exp(row[k]))(
        (x * ROWS)[first_and_rest(k)]
    ),
    "gather of whole rows": lambda x, k: jnp.exp((x * ROWS)[first_and_rest(k)][:, k]),
    "runs": lambda x, k: jnp.exp(x * ROWS)[first_and_rest(k)],
    "runs, reversed": lambda x, k: jnp.exp(x * ROWS)[first_and_rest(k)[::-1]],
    "runs with others": lambda x, k: jnp.exp(x * first_and_rest(k)) * DATA,
    "runs with one": lambda x, k: jnp.exp(x * first_and_rest(k)) * spread(x),
    "two kinds of runs": lambda x, k: (
        first_and_rest(k) * jnp.concatenate([spread(x)[2:], DATA[:2]])
    ),
    "runs that differ": lambda x, k: (
        first_and_rest(k) * jnp.concatenate([spread(x)[:2], jnp.ones(4)])
    ),
    "many parts": lambda x, k: jnp.concatenate([spread(x * i)[:1] for i in range(6)]),
    "slice of runs": lambda x, k: (x * first_and_rest(k))[:3],
    "last of runs": lambda x, k: (x * first_and_rest(k))[2:] + 0.0,
    "one of runs": lambda x, k: (x * first_and_rest(k))[1:2] * DATA[:, None],
    "strides": lambda x, k: (x * first_and_rest(k))[::2],
    "nothing": lambda x, k: spread(x)[3:3],
    "sums": lambda x, k: (x * first_and_rest(k)).sum() + jnp.broadcast_to(x, (2, 3)).sum(0),
    "maxima": lambda x, k: (x * first_and_rest(k)).max() + spread(x).min(),
    "other reductions": lambda x, k: spread(x).prod() + jnp.cumsum(spread(x)),
    "transpose": lambda x, k: jnp.broadcast_to(x, (2, 6)).T + DATA[:, None],
    "axes of one": lambda x, k: jnp.expand_dims(spread(x), (0, 2))[0] * DATA[:, None],
    "reshape": lambda x, k: spread(x).reshape(2, 3) + spread(x * 3).reshape(1, 6, 1).sum(2).sum(),
    "function with a derivative": lambda x, k: jax.nn.softplus(jnp.log(x * ROWS)[spread(k)]),
    "loop": lambda x, k: lax.scan(lambda c, y: (c + y, c * y), x, spread(x * k))[1],
    "jit": lambda x, k: jax.jit(lambda y: jnp.exp(y) * DATA)(spread(x)),
    "no elements": lambda x, k: jnp.concatenate([jnp.broadcast_to(x, (0,)), spread(x)]) * DATA,
    "factor of no elements": lambda x, k: jnp.linalg.cholesky(jnp.broadcast_to(x, (0, 0))).sum(),
    "constant": lambda x, k: jnp.zeros(6),
    "axes of one beside longer ones": lambda x, k: jnp.broadcast_to(
        (x * DATA)[:, None] + jnp.zeros(2), (1, 6, 2)
    ),
    "short axis": lambda x, k: jnp.exp(x * k + GRID).sum(-1) * spread(x)[:, None],
    "short axis, moved": lambda x, k: jnp.exp(x * k + GRID).transpose(2, 1, 0)[..., AT] * k,
    "short axis of runs": lambda x, k: (
        jnp.exp(x * first_and_rest(k)[:, None, None] + GRID).max(1).sum(0)
    ),
    "short axis, all summed": lambda x, k: (jnp.exp(x * k + GRID) * GRID).sum((0, 1, 2)),
    "derivative of equal elements": lambda x, k: cube(spread(x * k), 2 * x) * DATA,
    "derivative of runs": lambda x, k: cube(x * first_and_rest(k), spread(x)),
    "derivative of a short axis": lambda x, k: cube(cube(x * k + GRID, x), x),
    "derivative in one operand": lambda x, k: constant_in_first(spread(k), x * DATA),
    "both axes of one": lambda x, k: jnp.broadcast_to(
        spread(x)[:, None] * first_and_rest(k) + DATA[:, None], (2, 6, 6)
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_and_derivatives_are_equal(name):
    def both(f, x):
        states = jnp.arange(3)
        total = lambda x: jax.vmap(f, (None, 0))(x, states).sum()  # noqa: E731
        once = lambda x: evaluate_once(jax.vmap(f, (None, 0)), x, states)  # noqa: E731
        plain = jax.vmap(f, (None, 0))(x, states), jax.grad(total)(x)
        return plain, (once(x), jax.grad(lambda x: once(x).sum())(x))

    expected, found = jax.jit(both, static_argnums=0)(CASES[name], jnp.asarray(0.7))
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("name", [name for name in CASES if "axis" in name or "runs" in name])
def test_results_are_equal_in_any_order_of_axes(name, monkeypatch):
    monkeypatch.setattr(repeated_elements, "_MIN_ELEMENTS", 0)
    test_results_and_derivatives_are_equal(name)


def test_longest_axis_comes_last(monkeypatch):
    monkeypatch.setattr(repeated_elements, "_MIN_ELEMENTS", 100)
    f = lambda x, k: jnp.exp(x * k + GRID[:5]).sum(-1)  # noqa: E731
    once = lambda x: evaluate_once(jax.vmap(f, (None, 0)), x, jnp.arange(7))  # noqa: E731
    jaxpr = jax.make_jaxpr(jax.grad(lambda x: once(x).sum()))(0.7)
    shapes = {v.aval.shape for e in jaxpr.eqns for v in e.outvars if v.aval.size == 7 * 50}
    assert shapes == {(5, 5, 2, 7)}


def test_what_is_read_along_the_longest_axis_is_not_transposed(monkeypatch):
    """The indices are, as XLA writes a transposed gather element by element."""
    monkeypatch.setattr(repeated_elements, "_MIN_ELEMENTS", 10)
    labels = np.arange(44).reshape(11, 4) % 3

    def f(k, x):
        def item(k, label):
            return jax.vmap(lambda row, i: row[i])(x[:, k], label).sum()

        return jax.vmap(item)(jnp.broadcast_to(k, (11,)), labels)

    x = jnp.cos(jnp.arange(36.0)).reshape(4, 3, 3)
    once = lambda x: evaluate_once(jax.vmap(f, (0, None)), jnp.arange(3), x)  # noqa: E731
    jaxpr = jax.make_jaxpr(once)(x)
    moved = [e.outvars[0].aval for e in jaxpr.eqns if e.primitive.name == "transpose"]
    assert not [v for v in moved if v.size == 3 * 44 and jnp.issubdtype(v.dtype, np.floating)]
    np.testing.assert_allclose(once(x), jax.vmap(f, (0, None))(jnp.arange(3), x), rtol=1e-13)


def largest(jaxpr, name):
    """The number of elements of the largest result of a primitive."""
    sizes = [
        np.prod(v.aval.shape) for e in jaxpr.eqns if e.primitive.name == name for v in e.outvars
    ]
    return max(sizes, default=0)


@pytest.mark.parametrize(
    ("name", "primitive", "size"),
    [
        ("gather", "gather", 12),
        ("runs", "gather", 24),
        ("gather of whole rows", "exp", 6),
        ("gather of runs", "exp", 6),
        ("gather of a batch of equal rows", "gather", 18),
        ("elements", "exp", 1),
        ("derivative of equal elements", "custom_jvp_call", 3),
        ("derivative of runs", "custom_jvp_call", 6),
        ("runs with others", "exp", 6),
        ("sums", "mul", 6),
    ],
)
def test_repeated_elements_are_computed_once(name, primitive, size):
    f = lambda x: evaluate_once(jax.vmap(CASES[name], (None, 0)), x, jnp.arange(3))  # noqa: E731
    jaxpr = jax.make_jaxpr(f)(0.7)
    assert largest(jaxpr.jaxpr, primitive) == size
