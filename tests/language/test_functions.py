"""Calls and solvers of JAX around, between and inside of sites, against densities by hand."""

# ruff: noqa: E501

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split

import distributions as dist
import ppl

from .by_hand import Row, check_density_gradient_and_draws, laplace, normal
from .programs import positive, real

# Calls: static arguments, checkpoint, derivatives of one's own.


@functools.partial(jax.jit, static_argnames=("num_steps", "name"))
def jitted_walk(key: Any, x: Any, num_steps: int, name: str) -> Any:
    def step(x: Any, key: Any) -> Any:
        inner = jax.jit(lambda x: ppl.sample(key, dist.Normal(jnp.sin(x), 1.0), name=name))
        return inner(x), None

    return lax.scan(step, x, split(key, num_steps))[0]


def jits(key: Any, start: Any) -> Any:
    """One jitted function with two sets of static arguments, jits in its loop."""
    first, second = split(key)
    x = jitted_walk(first, start, num_steps=2, name="a")
    return jitted_walk(second, x, num_steps=3, name="b")


def jits_density(v: Any, start: Any) -> Any:
    x = [start, *v["a"], *v["b"]]
    return sum(normal(x[i + 1], jnp.sin(x[i])) for i in range(5))


def checkpoints(key: Any, scale: Any) -> Any:
    """checkpoint around the body of a scan, around the scan, and under vmap, with a policy."""
    saved = jax.checkpoint_policies.dots_saveable

    @functools.partial(jax.checkpoint, policy=saved)
    def step(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(jnp.tanh(x * scale), scale), name="x")
        return jnp.sin(x), jnp.cos(x)

    @jax.checkpoint
    def row(key: Any, start: Any) -> Any:
        return lax.scan(step, start, split(key, 3))[1].sum()

    means = jax.vmap(row)(split(key, 2), jnp.array([0.1, -0.4]))
    return jax.checkpoint(lambda m: ppl.sample(key, dist.Normal(m, scale), name="y"))(means)


def checkpoints_density(v: Any, scale: Any) -> Any:
    total = 0.0
    for i, x in enumerate([0.1, -0.4]):
        mean = 0.0
        for t in range(3):
            total += normal(v["x"][i, t], jnp.tanh(x * scale), scale)
            x = jnp.sin(v["x"][i, t])
            mean += jnp.cos(v["x"][i, t])
        total += normal(v["y"][i], mean, scale)
    return total


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def clipped(bound: float, x: Any) -> Any:
    """The identity, whose gradient is clipped: no derivative of the function itself."""
    return x


clipped.defvjp(lambda bound, x: (x, None), lambda bound, _, ct: (jnp.clip(ct, -bound, bound),))


def clipped_gradients(key: Any, slope: Any) -> Any:
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    loc = slope * clipped(0.5, jnp.square(x))
    return ppl.sample(key, dist.Normal(loc, 1.0), name="y")


def clipped_gradients_density(v: Any, slope: Any) -> Any:
    """The derivative by x**2 is clipped to 0.5, so that the density is as if linear in it."""
    x, square = v["x"], v["x"] ** 2
    value = normal(v["y"], slope * lax.stop_gradient(square))
    by_square = lax.stop_gradient(slope * (v["y"] - slope * square))
    linear = jnp.clip(by_square, -0.5, 0.5) * (square - lax.stop_gradient(square))
    return normal(x, 0.0) + value + linear


@jax.custom_vjp
def with_term(x: Any) -> Any:
    """The sine, whose derivative is 2 by its own rule."""
    ppl.factor(-(x**2), name="term")
    return jnp.sin(x)


@jax.custom_vjp
def with_site(key: Any, x: Any) -> Any:
    return jnp.sin(x) * jnp.cos(ppl.sample(key, dist.Normal(x, 1.0), name="x"))


with_term.defvjp(lambda x: (with_term(x), None), lambda _, ct: (2.0 * ct,))
with_site.defvjp(lambda key, x: (with_site(key, x), None), lambda _, ct: (None, 2.0 * ct))


def term_in_custom_vjp(key: Any, start: Any) -> Any:
    step = jax.checkpoint(lambda x, _: (with_term(x), None))
    return ppl.sample(key, dist.Normal(lax.scan(step, start, length=3)[0], 1.0), name="y")


def site_in_custom_vjp(key: Any, start: Any) -> Any:
    step = jax.checkpoint(lambda x, key: (with_site(key, x), None))
    end = lax.scan(step, start, split(key, 3))[0]
    return ppl.sample(key, dist.Normal(end, 1.0), name="y")


def term_in_custom_vjp_density(v: Any, start: Any) -> Any:
    """The result has the derivative of the rule, the term its own."""
    total, x = 0.0, start
    for _ in range(3):
        total -= x**2
        x = lax.stop_gradient(jnp.sin(x)) + 2 * (x - lax.stop_gradient(x))
    return total + normal(v["y"], x)


def site_in_custom_vjp_density(v: Any, start: Any) -> Any:
    """A given value makes it another function, for which the rule does not hold."""
    total, x = 0.0, start
    for t in range(3):
        total += normal(v["x"][t], x)
        x = jnp.sin(x) * jnp.cos(v["x"][t])
    return total + normal(v["y"], x)


def solvers(key: Any, matrix: Any) -> Any:
    """A linear system and a root, differentiated implicitly, and a derivative in the model."""
    b = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="b")
    x = lax.custom_linear_solve(
        lambda x: matrix @ x,
        b,
        solve=lambda _, b: jnp.linalg.solve(matrix, b),
        transpose_solve=lambda _, b: jnp.linalg.solve(matrix.T, b),
    )
    cubic = lambda r: r**3 + r - x.sum()  # noqa: E731
    newton = lambda f, r: lax.fori_loop(0, 60, lambda _, r: r - f(r) / (3 * r**2 + 1), r)  # noqa: E731
    root = lax.custom_root(cubic, 0.0, newton, lambda g, y: y / g(1.0))
    slope = jax.grad(lambda r: jnp.sin(r) ** 2)(root)
    return ppl.sample(key, dist.Normal(x + slope, 1.0), name="y")


def solvers_density(v: Any, matrix: Any) -> Any:
    """Cramer's rule, Cardano's formula, and the derivative of the squared sine."""
    (p, q), (r, s) = matrix
    b = v["b"]
    det = p * s - q * r
    x = [(s * b[0] - q * b[1]) / det, (p * b[1] - r * b[0]) / det]
    half = 0.5 * (x[0] + x[1])
    inner = jnp.sqrt(half**2 + 1 / 27)
    root = jnp.cbrt(half + inner) + jnp.cbrt(half - inner)
    slope = jnp.sin(2 * root)
    return sum(normal(b[i], 0.0) + normal(v["y"][i], x[i] + slope) for i in range(2))


def associative(key: Any, decay: Any) -> Any:
    """A smoothed process by a parallel scan over draws, whose operator multiplies and adds."""
    x = jax.vmap(lambda key: ppl.sample(key, dist.Laplace(0.0, 1.0), name="x"))(split(key, 5))
    join = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])  # noqa: E731
    level = lax.associative_scan(join, (jnp.broadcast_to(decay, 5), x))[1]
    return ppl.sample(key, dist.Normal(level, 1.0), name="y")


def associative_density(v: Any, decay: Any) -> Any:
    total, level = 0.0, 0.0
    for t in range(5):
        level = decay * level + v["x"][t]
        total += laplace(v["x"][t], 0.0) + normal(v["y"][t], level)
    return total


Y = 0.6
MATRIX = real(2, 2) + 3 * np.eye(2)
CASES: dict[str, Row] = {
    "jit-with-static-arguments": (jits, jits_density, [(0.3, {"a": real(2), "b": real(3)})]),
    "checkpoint": (checkpoints, checkpoints_density, [(0.8, {"x": real(2, 3), "y": real(2)})]),
    "custom-vjp-between-sites": (clipped_gradients, clipped_gradients_density, [(1.3, {"x": 1.2, "y": y}) for y in (-3.0, 2.0)]),
    "custom-vjp-around-a-term": (term_in_custom_vjp, term_in_custom_vjp_density, [(0.3, {"y": Y})]),
    "custom-vjp-around-a-site": (site_in_custom_vjp, site_in_custom_vjp_density, [(0.3, {"x": real(3), "y": Y})]),
    "custom-solvers": (solvers, solvers_density, [(MATRIX, {"b": real(2), "y": positive(2)})]),
    "associative-scan": (associative, associative_density, [(0.7, {"x": real(5), "y": positive(5)})]),
}  # fmt: skip


@pytest.mark.quick_rows(
    "custom-vjp-between-sites", "custom-vjp-around-a-term", "custom-vjp-around-a-site"
)
@pytest.mark.parametrize(("model", "by_hand", "points"), CASES.values(), ids=CASES)
def test_density_gradient_and_draws(model, by_hand, points, x64):
    check_density_gradient_and_draws(model, by_hand, points)
