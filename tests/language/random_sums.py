"""Random programs with discrete sites, for the tests of marginalize."""

import math
import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl

SIZE = 3  # elements of a batch, steps of a loop


class RandomSum:
    """A model of random statements, each of which reads two values of those before it.

    A value is a number or a vector of `SIZE` numbers. The model has the latent site `mu`; its
    discrete sites have at most `max_states` states together. `summed` holds the states of those
    that are to be summed out, `data` the values of all others.
    """

    def __init__(self, seed: int, num_statements: int, max_states: int):
        rng = random.Random(seed)
        self.__name__ = f"model_{seed}"
        self.statements: list[Any] = []
        sites: dict[str, tuple[int, ...]] = {}
        self.data: dict[str, Any] = {}
        left = max_states
        for i in range(num_statements):
            kind = rng.choice((*SITES, *SITES, *OTHERS))
            found = SITES.get(kind, {})
            if math.prod(num**size for num, size in found.values()) > left:
                kind, found = "data", {}
            for part, (num, size) in found.items():
                sites[f"v{i}{part}"] = (num, size)
                left //= num**size
            reads = [rng.randrange(-1, i) for _ in range(2)]
            weights = [rng.uniform(0.3, 1.5) * rng.choice((-1, 1)) for _ in range(4)]
            self.statements.append((kind, reads, weights, rng.randrange(24)))
            if kind == "data" or kind in CHAINS:
                self.data[f"y{i}"] = np.array([rng.gauss(0.0, 2.0) for _ in range(SIZE)])
        names = [name for name in sites if rng.random() < 0.8] or list(sites)[:1]
        self.summed = {name: tuple(range(sites[name][0])) for name in names}
        for name in set(sites).difference(names):
            num, size = sites[name]
            drawn = [rng.randrange(num) for _ in range(size)]
            self.data[name] = np.array(drawn if size > 1 else drawn[0])

    def __call__(self, key: Any) -> Any:
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        values: list[Any] = []
        for i, (kind, reads, weights, how) in enumerate(self.statements):
            a, b = (values[j] if j >= 0 else mu for j in reads)
            found = getattr(self, f"_{kind}")(jax.random.fold_in(key, i), i, a, b, weights, how)
            values.append(found)
        return values[-1]

    def _site(self, key, i, a, b, w, how):
        logits = w[0] * number(a, how) + w[1] * number(b, how // 4)
        return ppl.sample(key, dist.Bernoulli(logits=logits), name=f"v{i}") * w[2]

    def _categorical(self, key, i, a, b, w, how):
        a, b = number(a, how), number(b, how // 4)
        d = dist.Categorical(logits=jnp.stack([w[0] * a, w[1] * b, w[2] * a * b]))
        return jnp.array(w)[ppl.sample(key, d, name=f"v{i}")]

    def _batch(self, key, i, a, b, w, how):
        logits = w[0] * vector(a, how) + w[1] * vector(b, how // 4)
        z = ppl.sample(key, dist.Bernoulli(logits=logits), name=f"v{i}")
        return w[2] * z

    def _mapped(self, key, i, a, b, w, how):
        def row(key, a, b):
            z = ppl.sample(key, dist.Bernoulli(logits=w[0] * a + w[1] * b), name=f"v{i}")
            return lax.cond(z, lambda: w[2] * a, lambda: w[3])

        return jax.vmap(row)(split(key, SIZE), vector(a, how), vector(b, how // 4))

    def _branches(self, key, i, a, b, w, how):
        def draw(x):
            return ppl.sample(key, dist.Bernoulli(logits=x), name=f"v{i}")

        a, b = number(a, how), number(b, how // 4)
        return lax.cond(a > 0.5, lambda: draw(w[0] * b), lambda: draw(w[1])) * w[2]

    def _chain(self, key, i, a, b, w, how):
        def step(z, inputs):
            key, b = inputs
            probs = jax.nn.sigmoid(jnp.stack([w[0] + 0 * b, w[1] * b]))[z]
            z = ppl.sample(key, dist.Bernoulli(probs=probs), name=f"v{i}").astype(int)
            ppl.sample(key, dist.Normal(w[2] * z * number(a, how), 1.0), name=f"y{i}")
            return z, w[3] * z

        inputs = split(key, SIZE), vector(b, how // 4)
        return lax.scan(step, how % 2, inputs, reverse=how % 3 == 0)[1]

    def _chain_from_site(self, key, i, a, b, w, how):
        start = ppl.sample(key, dist.Bernoulli(logits=w[0] * number(a, how)), name=f"v{i}start")

        def step(z, inputs):
            key, b = inputs
            z = ppl.sample(key, dist.Bernoulli(logits=w[1] * z + w[2] * b), name=f"v{i}z")
            ppl.sample(key, dist.Normal(w[3] * z, 1.0), name=f"y{i}")
            return z, z

        z, zs = lax.scan(step, start, (split(key, SIZE), vector(b, how // 4)))
        return zs * w[0] if how % 2 else z * w[0]

    def _second_order(self, key, i, a, b, w, how):
        a = number(a, how)

        def step(carry, inputs):
            key, b = inputs
            logits = w[0] * carry[0] + w[1] * carry[1] + w[2] * b
            z = ppl.sample(key, dist.Bernoulli(logits=logits), name=f"v{i}").astype(float)
            ppl.sample(key, dist.Normal(w[3] * z * a - carry[0], 1.0), name=f"y{i}")
            return (carry[1], z), z

        return lax.scan(step, (0.0, 1.0), (split(key, SIZE), vector(b, how // 4)))[1]

    def _two_chains(self, key, i, a, b, w, how):
        a = number(a, how)

        def step(carry, inputs):
            key, b = inputs
            p = ppl.sample(key, dist.Bernoulli(logits=w[0] * carry[0] + a), name=f"v{i}p")
            q = ppl.sample(key, dist.Bernoulli(logits=w[1] * carry[1] + b * p), name=f"v{i}q")
            ppl.sample(key, dist.Normal(w[2] * p + w[3] * q, 1.0), name=f"y{i}")
            return (p.astype(float), q.astype(float)), p + q * w[0]

        return lax.scan(step, (1.0, 0.0), (split(key, SIZE), vector(b, how // 4)))[1]

    def _data(self, key, i, a, b, w, how):
        mean = w[0] * vector(a, how) + w[1] * vector(b, how // 4)
        scale = jnp.exp(0.2 * w[2] * (vector(a, how) if how % 2 else 1.0))
        return ppl.sample(key, dist.Normal(mean, scale), name=f"y{i}")

    def _factor(self, key, i, a, b, w, how):
        ppl.factor(-((w[0] * number(a, how) - w[1] * number(b, how // 4)) ** 2), name=f"f{i}")
        return jnp.float64(w[2])

    def _derived(self, key, i, a, b, w, how):
        both = jnp.where(vector(a, how) > 0.5, w[0] * vector(b, how // 4), w[1])
        return ppl.deterministic(both, name=f"d{i}")


CHAINS = {
    "chain": {"": (2, SIZE)},
    "chain_from_site": {"start": (2, 1), "z": (2, SIZE)},
    "second_order": {"": (2, SIZE)},
    "two_chains": {"p": (2, SIZE), "q": (2, SIZE)},
}
SITES = CHAINS | {
    "site": {"": (2, 1)},
    "categorical": {"": (3, 1)},
    "batch": {"": (2, SIZE)},
    "mapped": {"": (2, SIZE)},
    "branches": {"": (2, 1)},
}
OTHERS = ("data", "data", "factor", "derived")


def number(x: Any, how: int) -> Any:
    """A number made of a value in one of four ways."""
    return (x[0], x[-1], x.sum(), x.max())[how % 4] if jnp.ndim(x) else x


def vector(x: Any, how: int) -> Any:
    """A vector made of a value in one of six ways."""
    if not jnp.ndim(x):
        return x + jnp.zeros(SIZE)
    return (x, x, x[::-1], x[np.array([1, 0, 1])], x.sum() + jnp.zeros(SIZE), 1.0 - x)[how % 6]
