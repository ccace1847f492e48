"""Control flow of JAX around, between and inside of sites: densities, gradients and draws by hand.

The densities by hand are loops of Python over numbers with formulas of their own.
"""

# ruff: noqa: E501

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

from .cases import positive, real
from .checks import assert_close

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def normal(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale) - HALF_LOG_TWO_PI


def laplace(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -jnp.abs(x - loc) / scale - jnp.log(2 * scale)


def log_normal(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return normal(jnp.log(x), loc, scale) - jnp.log(x)


def cauchy(x: Any, loc: Any, scale: Any = 1.0) -> Any:
    return -jnp.log(math.pi * scale * (1 + ((x - loc) / scale) ** 2))


# A carry that is a pytree, of which the sites move one part each.


def stochastic_volatility(key: Any, phi: Any) -> Any:
    """The carry holds the log volatility, its average so far, and a count."""
    sigma = ppl.sample(key, dist.LogNormal(-1.0, 0.5), name="sigma")

    def day(carry: Any, key: Any) -> Any:
        h, (average, n) = carry
        h = ppl.sample(key, dist.Normal(phi * h + 0.1 * average, sigma), name="h")
        ppl.sample(key, dist.Normal(0.0, jnp.exp(0.5 * h)), name="y")
        return (h, ((n * average + h) / (n + 1), n + 1)), None

    return lax.scan(day, (jnp.zeros_like(phi), (jnp.zeros_like(phi), 0)), split(key, 6))[0]


def stochastic_volatility_density(v: Any, phi: Any) -> Any:
    total, h, past = log_normal(v["sigma"], -1.0, 0.5), 0.0, [0.0]
    for t in range(6):
        average = sum(past) / max(t, 1)
        total += normal(v["h"][t], phi * h + 0.1 * average, v["sigma"])
        h = v["h"][t]
        past.append(h)
        total += normal(v["y"][t], 0.0, jnp.exp(0.5 * h))
    return total


def scan_over_draws(key: Any, decay: Any) -> Any:
    """What vmap drew is scanned over, backwards, with a site at every step."""
    x = jax.vmap(lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x"))(split(key, 4))

    def step(level: Any, keyed: Any) -> Any:
        key, x = keyed
        level = decay * level + x
        return level, ppl.sample(key, dist.Laplace(level, 2.0), name="y")

    return lax.scan(step, 0.5, (split(key, 4), x), reverse=True, unroll=3)[1]


def scan_over_draws_density(v: Any, decay: Any) -> Any:
    total, level = 0.0, 0.5
    for i in reversed(range(4)):
        level = decay * level + v["x"][i]
        total += normal(v["x"][i], 0.0) + laplace(v["y"][i], level, 2.0)
    return total


# While loops without sites, between sites.


def square_root(a: Any) -> Any:
    """Newton's iteration until it stands."""
    goes_on = lambda s: (jnp.abs(s[0] ** 2 - a) > 1e-13 * a) & (s[1] < 60)  # noqa: E731
    return lax.while_loop(goes_on, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))[0]


def while_between(key: Any, scale: Any) -> Any:
    a = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="a")
    x = ppl.sample(key, dist.Normal(square_root(a), scale), name="x")
    # Bounds that are not static: a while loop again.
    total = lax.fori_loop(0, 2 + (x > 0), lambda i, s: s + jnp.sin(x + i), 0.0)
    return ppl.sample(key, dist.Normal(total, scale), name="y")


def while_between_density(v: Any, scale: Any) -> Any:
    a, x = v["a"], v["x"]
    total = sum(jnp.sin(x + i) for i in range(3)) - jnp.where(x > 0, 0.0, jnp.sin(x + 2))
    return log_normal(a, 0.0) + normal(x, jnp.sqrt(a), scale) + normal(v["y"], total, scale)


def while_in_scan(key: Any, start: Any) -> Any:
    """Each element of a vmap halves the value until it is small, another number of times."""

    def step(x: Any, key: Any) -> Any:
        x = lax.while_loop(lambda x: jnp.abs(x) > 0.5, lambda x: 0.5 * x, x)
        return ppl.sample(key, dist.Normal(x, 1.5), name="x"), None

    return jax.vmap(lambda key, x: lax.scan(step, x, split(key, 3))[0])(split(key, 2), start)


def while_in_scan_density(v: Any, start: Any) -> Any:
    total = 0.0
    for i in range(2):
        x = start[i]
        for t in range(3):
            for _ in range(6):
                x = jnp.where(jnp.abs(x) > 0.5, 0.5 * x, x)
            total += normal(v["x"][i, t], x, 1.5)
            x = v["x"][i, t]
    return total


# Conds: on a carried latent, in each other, on a discrete latent, with loops in their branches.


def threshold_walk(key: Any, push: Any) -> Any:
    """The branch of each step depends on the latent state before it."""

    def step(x: Any, key: Any) -> Any:
        up = lambda: ppl.sample(key, dist.Normal(x - push, 0.5), name="x")  # noqa: E731
        down = lambda: ppl.sample(key, dist.Laplace(0.5 * x + push, 1.0), name="x")  # noqa: E731
        x = lax.cond(x > 0, up, down)
        return x, ppl.sample(key, dist.Normal(x, 1.0), name="y")

    return lax.scan(step, 0.2, split(key, 5))[1]


def threshold_walk_density(v: Any, push: Any) -> Any:
    total, x = 0.0, 0.2
    for t in range(5):
        new = v["x"][t]
        above = normal(new, x - push, 0.5)
        total += jnp.where(x > 0, above, laplace(new, 0.5 * x + push)) + normal(v["y"][t], new)
        x = new
    return total


def cond_in_cond(key: Any, flag: Any) -> Any:
    """Outer on a latent, inner on data."""
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    draw = lambda d: ppl.sample(key, d, name="x")  # noqa: E731
    low = lambda: draw(dist.Cauchy(z, 2.0))  # noqa: E731
    high = lambda: lax.cond(  # noqa: E731
        flag > 0, lambda: draw(dist.Normal(z, 2.0)), lambda: draw(dist.Laplace(z, 3.0))
    )
    return lax.cond(z > 0.3, high, low)


def cond_in_cond_density(v: Any, flag: Any) -> Any:
    x, z = v["x"], v["z"]
    high = jnp.where(flag > 0, normal(x, z, 2.0), laplace(x, z, 3.0))
    return normal(z, 0.0) + jnp.where(z > 0.3, high, cauchy(x, z, 2.0))


def loops_in_branches(key: Any, start: Any) -> Any:
    """One branch scans, the other maps; both draw three values of one name, and all share a factor."""
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")

    def walk(x: Any) -> Any:
        step = lambda x, key: (ppl.sample(key, dist.Normal(x, 1.0), name="x"), None)  # noqa: E731
        end = lax.scan(step, x, split(key, 3))[0]
        ppl.factor(-(end**2), name="end")
        return end

    def cloud(x: Any) -> Any:
        step = lambda _, key: (None, ppl.sample(key, dist.Laplace(x + z, 1.0), name="x"))  # noqa: E731
        mean = lax.scan(step, None, split(key, 3))[1].mean()
        ppl.factor(jnp.zeros_like(mean), name="end")
        return mean

    end = lax.cond(z < 0, walk, cloud, start)
    return ppl.sample(key, dist.Normal(end, 0.7), name="y")


def loops_in_branches_density(v: Any, start: Any) -> Any:
    x, z = v["x"], v["z"]
    walk = normal(x[0], start) + normal(x[1], x[0]) + normal(x[2], x[1])
    walk += normal(v["y"], x[2], 0.7) - x[2] ** 2
    cloud = sum(laplace(x[i], start + z) for i in range(3))
    cloud += normal(v["y"], (x[0] + x[1] + x[2]) / 3, 0.7)
    return normal(z, 0.0) + jnp.where(z < 0, walk, cloud)


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


X3, Y = real(3), 0.6
MATRIX = real(2, 2) + 3 * np.eye(2)
BRANCHES = {"x": X3, "y": Y}

# A model, its density by hand, and points: an argument and values, one for each path through the program.
CASES: dict[str, tuple[Any, Any, list[tuple[Any, Any]]]] = {
    "scan-carries-a-pytree": (stochastic_volatility, stochastic_volatility_density, [(0.8, {"sigma": 0.7, "h": real(6), "y": positive(6)})]),
    "scan-over-draws": (scan_over_draws, scan_over_draws_density, [(0.9, {"x": real(4), "y": positive(4)})]),
    "while-between-sites": (while_between, while_between_density, [(0.8, {"a": 2.5, "x": 0.4, "y": Y}), (0.8, {"a": 0.3, "x": -0.4, "y": Y})]),
    "while-in-scan-in-vmap": (while_in_scan, while_in_scan_density, [(real(2), {"x": 3 * real(2, 3)})]),
    "cond-on-carried-latent": (threshold_walk, threshold_walk_density, [(0.4, {"x": real(5), "y": positive(5)})]),
    "cond-in-cond": (cond_in_cond, cond_in_cond_density, [(flag, {"z": z, "x": Y}) for z, flag in ((0.5, 1.0), (0.5, -1.0), (-0.5, 1.0))]),
    "loops-in-branches": (loops_in_branches, loops_in_branches_density, [(0.3, {"z": z, **BRANCHES}) for z in (-0.4, 0.4)]),
    "jit-with-static-arguments": (jits, jits_density, [(0.3, {"a": real(2), "b": real(3)})]),
    "checkpoint": (checkpoints, checkpoints_density, [(0.8, {"x": real(2, 3), "y": real(2)})]),
    "custom-vjp-between-sites": (clipped_gradients, clipped_gradients_density, [(1.3, {"x": 1.2, "y": y}) for y in (-3.0, 2.0)]),
    "custom-vjp-around-a-term": (term_in_custom_vjp, term_in_custom_vjp_density, [(0.3, {"y": Y})]),
    "custom-vjp-around-a-site": (site_in_custom_vjp, site_in_custom_vjp_density, [(0.3, BRANCHES)]),
    "custom-solvers": (solvers, solvers_density, [(MATRIX, {"b": real(2), "y": positive(2)})]),
    "associative-scan": (associative, associative_density, [(0.7, {"x": real(5), "y": positive(5)})]),
}  # fmt: skip


@pytest.mark.parametrize(("model", "by_hand", "points"), CASES.values(), ids=CASES)
def test_density_gradient_and_draws(model, by_hand, points, x64):
    """Also at draws of the model itself, with one of its sites given to it as data."""
    # A while loop has no reverse mode.
    derivative = jax.jacfwd if "while" in model.__name__ else jax.grad

    @jax.jit
    def both(argument, values):
        draws = ppl.simulate(model)(key(0), argument)
        *latent, last = draws
        posterior = ppl.condition(model, {last: draws[last]})
        density = ppl.log_density(model)
        return [
            (derivative(f, (0, 1))(values, argument), f(values, argument), at_draws)
            for f, at_draws in (
                (density, ppl.log_density(posterior)({n: draws[n] for n in latent}, argument)),
                (by_hand, by_hand(draws, argument)),
            )
        ]

    for argument, values in points:
        ours, expected = both(*jax.tree.map(jnp.asarray, (argument, values)))
        assert_close(ours, expected)
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(ours))


def switched(key: Any, loc: Any) -> Any:
    """The family is a discrete latent."""
    i = ppl.sample(key, dist.Categorical(probs=jnp.array([0.2, 0.3, 0.5])), name="i")
    families = [dist.Normal, dist.Laplace, dist.Cauchy]
    draws = [lambda f=f: ppl.sample(key, f(loc, 2.0), name="x") for f in families]
    return lax.switch(i, draws)


@pytest.mark.parametrize(("i", "family"), [(0, normal), (1, laplace), (2, cauchy)])
def test_switch_on_a_discrete_latent(i, family, x64):
    actual = jax.jit(jax.value_and_grad(ppl.log_density(switched), 1))({"i": i, "x": 0.3}, 0.5)
    by_hand = lambda loc: jnp.log(jnp.array([0.2, 0.3, 0.5])[i]) + family(0.3, loc, 2.0)  # noqa: E731
    assert_close(actual, jax.value_and_grad(by_hand)(jnp.array(0.5)))
