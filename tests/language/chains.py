"""Models with loops over states: some whose steps may be scored at once, some that must wait."""

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl

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
