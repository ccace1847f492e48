"""The degree of a program in its inputs is an upper bound, and tight for what models need."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from ppl.marginal.degree import CONSTANT, Degree, find_degrees

pytestmark = pytest.mark.usefixtures("x64")

C = np.array([0.5, 1.5, 2.0])
MATRIX = np.array([[2.0, 0.3, 0.0], [0.3, 1.5, 0.1], [0.0, 0.1, 1.0]])


def degree_of(f, *, constant=C):
    x = jnp.asarray(C)
    jaxpr = jax.make_jaxpr(f)(x, jnp.asarray(constant))
    operands = [Degree(1, frozenset("x")), CONSTANT]
    return find_degrees(jaxpr, operands)[0]


@jax.custom_vjp
def with_rule(x):
    return 3.0 * x


with_rule.defvjp(lambda x: (with_rule(x), None), lambda _, g: (3.0 * g,))


def random_walk(x, c):
    return lax.scan(lambda s, r: (0.9 * s + r * c[0], s), 0.0, x)[1]


def products_in_scan(x, c):
    return lax.scan(lambda s, r: (s * r, s), 1.0, x)[0]


def sums_of_squares(x, c):
    return lax.scan(lambda s, r: (s + r * r, None), 0.0, x)[0]


def doubled_in_while(x, c):
    return lax.while_loop(lambda s: s[1] < 3, lambda s: (2.0 * s[0], s[1] + 1), (x, 0))[0]


def until_large(x, c):
    return lax.while_loop(lambda s: s[0] < 9.0, lambda s: 2.0 * s, x)


ROWS = [
    (lambda x, c: c * 3.0, 0),
    (lambda x, c: x[0] + c * x[::-1] / jnp.exp(c), 1),
    (lambda x, c: jnp.concatenate([x, c])[np.array([0, 4, 2])], 1),
    (lambda x, c: x[jnp.argmax(c)], 1),
    (lambda x, c: jnp.where(c > 1.0, x, -x) + jnp.cumsum(x), 1),
    (lambda x, c: jnp.tile(x, (2, 1)).T[:, 1], 1),
    (lambda x, c: jnp.where(jnp.isnan(x), 0.0, x), 1),
    (lambda x, c: jnp.where(x == -jnp.inf, x, 2.0 * x), 1),
    (lambda x, c: c + 0 * x, 0),
    (lambda x, c: 0 * jnp.log(x), math.inf),
    (lambda x, c: jnp.zeros(4).at[1].set(x[0]).at[np.array([0, 1])].add(x[:2]), 1),
    (lambda x, c: jnp.zeros(4).at[np.array([0, 1])].subtract(x[:2]), 1),
    (lambda x, c: checkpoint_name(x, "x"), 1),
    (lambda x, c: jnp.linalg.solve(jnp.diag(c), x), 1),
    (lambda x, c: jax.scipy.linalg.solve_triangular(MATRIX, x, lower=True), 1),
    (lambda x, c: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.exp(1j), 3), 1),
    (lambda x, c: jnp.real(jnp.fft.fft(x)) ** 2 + jnp.imag(jnp.fft.fft(x)) ** 2, 2),
    (lambda x, c: with_rule(x), 1),
    (lambda x, c: jax.checkpoint(lambda x: 2.0 * x)(x), 1),
    (lambda x, c: lax.cond(c[0] > 0.0, lambda x: x, lambda x: x * x, x), 2),
    (lambda x, c: jnp.linalg.solve(jnp.diag(c), x) @ x, 2),
    (lambda x, c: -0.5 * jnp.sum(jnp.square((x - c) / jnp.exp(c))) - jnp.sum(c), 2),
    (lambda x, c: x**2 + x**2.0 + x * x, 2),
    (lambda x, c: x @ MATRIX @ x, 2),
    (lambda x, c: x @ MATRIX @ c, 1),
    (lambda x, c: x**3, 3),
    (lambda x, c: x * x * x, 3),
    (random_walk, 1),
    (sums_of_squares, 2),
    (products_in_scan, math.inf),
    (doubled_in_while, 1),
    (until_large, math.inf),
    (lambda x, c: lax.cond(x[0] > 0.0, lambda x: x, lambda x: -x, x), math.inf),
    (lambda x, c: jnp.exp(x), math.inf),
    (lambda x, c: c / x, math.inf),
    (lambda x, c: jnp.abs(x), math.inf),
    (lambda x, c: jnp.where(x > 0.0, x, -x), math.inf),
    (lambda x, c: c[jnp.int32(x[0])], math.inf),
    (lambda x, c: x**0.5, math.inf),
    (lambda x, c: jnp.linalg.solve(jnp.diag(x), c), math.inf),
    (lambda x, c: lax.stop_gradient(x), math.inf),
    (lambda x, c: jnp.floor(x), math.inf),
]


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_degrees_are_those_of_the_polynomials(row):
    f, degree = ROWS[row]
    assert degree_of(f).degree == degree


def test_the_first_operation_above_quadratic_is_the_cause():
    found = degree_of(lambda x, c: jnp.exp(x) + jnp.log(x))
    assert found.cause == ("exp", frozenset("x"))


UNARY = [
    lambda a: -a,
    lambda a: a[::-1],
    lambda a: jnp.cumsum(a),
    lambda a: jnp.sum(a) * jnp.asarray(C),
    lambda a: a[np.array([2, 0, 0])],
    jnp.square,
    jnp.tanh,
    lambda a: jnp.where(C > 1.0, a, 0.5 * a),
    lambda a: jnp.where(a > 1.0, a, 0.5 * a),
    lambda a: MATRIX @ a,
    lambda a: lax.scan(lambda s, r: (0.5 * s + r, s * 2.0), 0.0, a)[1],
]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, lambda a, b: jnp.outer(a, b)[0]]


def random_program(rng):
    """A program of a few random operations on `x` and a constant."""
    steps = []
    for i in range(rng.integers(2, 6)):
        is_unary = rng.random() < 0.5
        op = rng.integers(len(UNARY) if is_unary else len(BINARY))
        # Old values are drawn more often than the last, so that many programs stay quadratic.
        steps.append((is_unary, op, rng.integers(i + 2, size=2)))

    def f(x, c):
        values = [x, c]
        for is_unary, op, (a, b) in steps:
            new = UNARY[op](values[a]) if is_unary else BINARY[op](values[a], values[b])
            values.append(new)
        return values[-1]

    return f


def test_differences_beyond_the_degree_vanish():
    """The third difference of a quadratic function is 0, whatever the step is."""
    rng = np.random.default_rng(3)
    counts = {0: 0, 1: 0, 2: 0, "more": 0}
    for _ in range(60):
        f = random_program(rng)
        degree = degree_of(f).degree
        counts[degree if degree <= 2 else "more"] += 1
        if degree > 2:
            continue
        start, step = rng.normal(size=3), rng.normal(size=3)
        points = jnp.asarray(start + step * np.arange(4)[:, None])
        values = np.asarray(jax.vmap(lambda x, f=f: f(x, jnp.asarray(C)))(points))
        differences = np.diff(values, n=int(degree) + 1, axis=0)
        np.testing.assert_allclose(differences, 0.0, atol=1e-11 * max(1.0, np.abs(values).max()))
    assert min(counts.values()) > 3
