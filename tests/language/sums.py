"""Models with discrete sites to sum out, for the tests of marginalize."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl
from tests.language.chains_to_sum import (
    W,
    factorial,
    held_state,
    last_state,
    level,
    markov,
    markov_from_site,
    markov_of_vectors,
    markov_pair_in_data,
    markov_reversed,
    markov_second_order,
    markov_with_mixture,
    nested_loops,
    open_population,
    several_markov,
    start_in_all_steps,
    switching_autoregression,
    two_starts,
)

Y = np.array([0.3, -1.0, 2.0, 1.2, 0.4])


@dataclasses.dataclass(frozen=True)
class Sum:
    """A model of a latent `mu`, data, and sites to be summed out."""

    model: Callable[..., Any]
    summed: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=lambda: {"z": (0, 1)})
    data: Any = dataclasses.field(default_factory=lambda: {"y": Y})
    mu: Any = 0.7

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.model.__name__

    def posterior(self) -> Any:
        """The model conditioned on its data."""
        return ppl.condition(self.model, self.data)


def batch(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Categorical(probs=W), (5,)), name="z")
    ppl.sample(key, dist.Normal(jnp.stack([mu, 1.0 + mu, mu * mu])[z], 1.0), name="y")


def mapped(key):
    mu = level(key)

    def row(key):
        z = ppl.sample(key, dist.Bernoulli(logits=mu), name="z")
        return ppl.sample(key, dist.Normal(jnp.where(z, mu, -mu), 1.0), name="y")

    return jax.vmap(row)(split(key, 5))


def shared_state(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    mu = level(key)
    return jax.vmap(lambda k: ppl.sample(k, dist.Normal(mu + 2.0 * z, 1.0), name="y"))(
        split(key, 5)
    )


def branches(key):
    mu = level(key)
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    scale = lax.cond(z, lambda: jnp.exp(mu), lambda: jnp.ones_like(mu))
    ppl.sample(key, dist.Normal(jnp.zeros(5), scale), name="y")


def indexed(key):
    item = np.array([0, 2, 1, 1, 0])
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Categorical(probs=W), (3,)), name="z")
    ppl.sample(key, dist.Normal((mu * jnp.arange(3.0))[z][item], 1.0), name="y")


def factors(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.DiscreteUniform(1, 4), (5,)), name="z")
    ppl.factor(-0.5 * (Y - mu * z) ** 2, name="fit")
    ppl.deterministic(2 * z, name="double")


def zeros(key):
    mu = level(key)

    def row(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.4), name="z")
        return ppl.sample(key, dist.Poisson(jnp.where(z, 0.0, jnp.exp(mu))), name="y")

    return jax.vmap(row)(split(key, 5))


def coupled(key):
    mu = level(key)

    def row(key):
        a = ppl.sample(key, dist.Bernoulli(probs=0.4), name="a")
        b = ppl.sample(key, dist.Categorical(logits=jnp.stack([mu, a * 1.0, -mu])), name="b")
        return ppl.sample(key, dist.Normal(mu * a + b, 1.0), name="y")

    return jax.vmap(row)(split(key, 5))


def global_class(key):
    mu = level(key)
    g = ppl.sample(key, dist.Categorical(probs=W), name="g")

    def row(key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.1, 0.5, 0.8])[g]), name="z")
        return ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")

    return jax.vmap(row)(split(key, 5))


def classes_of_groups(key):
    group = np.array([0, 1, 0, 1, 1])
    mu = level(key)
    g = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2,)), name="g")

    def row(key, of):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(of, 0.1, 0.8)), name="z")
        return ppl.sample(key, dist.Normal(mu + 2.0 * z - of, 1.0), name="y")

    return jax.vmap(row)(split(key, 5), g[group])


def totals(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3,)), name="z")
    ppl.sample(key, dist.Normal(mu + jnp.zeros(5), 1.0 + z.sum()), name="y")


def crossed(key):
    mu = level(key)
    a = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2,)), name="a")
    ppl.sample(key, dist.Normal(mu * (a[:, None] + a[None, :]), 1.0), name="y")


def latent_between(key):
    """A continuous site depends on the state, and data on both."""
    mu = level(key)

    def row(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.4), name="z")
        x = ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="x")
        return ppl.sample(key, dist.Normal(mu * x, 1.0), name="y")

    return jax.vmap(row)(split(key, 5))


def one_hot_rows(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Categorical(probs=W), (5,)), name="z")
    ppl.sample(key, dist.Normal(jax.nn.one_hot(z, 3) @ jnp.stack([mu, -mu, mu]), 1.0), name="y")


def backwards(key):
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (5,)), name="z")
    ppl.sample(key, dist.Normal(level(key) * z[::-1], 1.0 + z), name="y")


def neighbors(key):
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (6,)), name="z")
    ppl.sample(key, dist.Normal(level(key) * z[1:] + z[:-1], 1.0), name="y")


def repeated(key):
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3,)), name="z")
    ppl.sample(key, dist.Normal(level(key) * jnp.repeat(z, 2)[:5], 1.0), name="y")


def reshaped(key):
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2, 3)), name="z")
    ppl.sample(key, dist.Normal(level(key) * z.reshape(3, 2).T.ravel()[:5], 1.0), name="y")


def scanned_rows(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (5,)), name="z")

    def step(before, inputs):
        key, z = inputs
        return z, ppl.sample(key, dist.Normal(mu * z + before, 1.0), name="y")

    return lax.scan(step, jnp.zeros((), z.dtype), (split(key, 5), z))[1]


def indexed_in_a_loop(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3,)), name="z")

    def step(_, inputs):
        key, i = inputs
        return None, ppl.sample(key, dist.Normal(mu * z[i], 1.0), name="y")

    return lax.scan(step, None, (split(key, 5), jnp.array([0, 1, 2, 1, 0])))[1]


def two_axes(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2, 3)), name="z")
    rows, columns = np.array([0, 1, 1, 0, 1]), np.array([2, 0, 1, 2, 1])
    ppl.sample(key, dist.Normal(mu * z[rows, columns], 1.0), name="y")


GROUP = np.array([0, 1, 2, 1, 0])


def rows_by_index(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3, 2)), name="z")
    ppl.sample(key, dist.Normal(z[GROUP] @ jnp.stack([mu, -mu * mu]), 1.0), name="y")


def columns_by_index(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3, 2)), name="z")
    ppl.sample(key, dist.Normal(mu * z[GROUP, 0] - z[GROUP, 1], 1.0), name="y")


def row_in_vmap(key):
    mu = level(key)
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3, 2)), name="z")

    def row(key, i):
        return ppl.sample(key, dist.Normal(mu * z[i, 0] + z[i] @ jnp.ones(2), 1.0), name="y")

    return jax.vmap(row)(split(key, 5), GROUP)


def switched(key):
    mu = level(key)

    def row(key, y):
        z = ppl.sample(key, dist.Categorical(probs=W), name="z")
        mean = lax.switch(z, [lambda: mu, lambda: -mu, lambda: mu * mu])
        return ppl.sample(key, dist.Normal(mean, 1.0), name="y")

    return lax.map(lambda k: row(k, 0), split(key, 5))


def latent_in_branches(key):
    mu = level(key)
    g = ppl.sample(key, dist.Bernoulli(probs=0.4), name="g")

    def draw(p):
        return ppl.sample(key, dist.Bernoulli(probs=p), name="z")

    z = lax.cond(g, lambda: draw(0.2), lambda: draw(0.7))
    ppl.sample(key, dist.Normal(mu * z + jnp.zeros(5), 1.0), name="y")


TWO, THREE = (0, 1), (0, 1, 2)


def rows_and_columns(key):
    """Each row meets each column: the columns, of fewer states, are summed together."""
    mu = level(key)
    a = ppl.sample(key, dist.Bernoulli(logits=mu * jnp.ones(3)), name="a")
    b = ppl.sample(key, dist.iid(dist.Categorical(probs=W), (2,)), name="b")
    ppl.sample(key, dist.Normal(a[:, None] + mu * b, 1.0), name="y")


def three_crossed(key):
    """Two vectors cross a third one, and all of them stand in rows that are apart."""
    mu = level(key)
    a = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2, 2)), name="a")
    b = ppl.sample(key, dist.Bernoulli(logits=mu * jnp.ones((2, 2))), name="b")
    c = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.6), (2, 1)), name="c")
    ppl.sample(key, dist.Normal(a[:, :, None] + mu * b[:, None], 1.0), name="y")
    ppl.sample(key, dist.Normal(b[:, :, None] * mu + c[:, None], 1.0), name="x")


SUMS = [
    Sum(batch, {"z": THREE}),
    Sum(mapped),
    Sum(shared_state),
    Sum(branches),
    Sum(indexed, {"z": THREE}),
    Sum(factors, {"z": (1, 2, 3, 4)}, {}),
    Sum(zeros, data={"y": np.array([0, 0, 1, 3, 0])}),
    Sum(coupled, {"a": TWO, "b": THREE}),
    Sum(global_class, {"g": THREE, "z": TWO}),
    Sum(classes_of_groups, {"g": TWO, "z": TWO}),
    Sum(totals),
    Sum(markov),
    Sum(markov_from_site, {"start": THREE, "z": THREE}, {"y": Y, "first": 0.2}),
    Sum(markov_second_order),
    Sum(markov_pair_in_data),
    Sum(markov_reversed),
    Sum(several_markov, data={"y": np.resize(Y, (2, 4))}),
    Sum(markov_of_vectors, data={"y": np.resize(Y, (4, 2))}),
    Sum(factorial, {"a": TWO, "b": TWO}),
    Sum(markov_with_mixture, {"z": TWO, "c": TWO}),
    Sum(switching_autoregression),
    Sum(last_state, data={"y": Y, "end": 1.5}),
    Sum(nested_loops, data={"y": np.resize(Y, (2, 3))}),
    Sum(crossed, {"a": TWO}, {"y": np.resize(Y, (2, 2))}),
    Sum(latent_between),
    Sum(one_hot_rows, {"z": THREE}),
    Sum(backwards),
    Sum(neighbors),
    Sum(repeated),
    Sum(reshaped),
    Sum(scanned_rows),
    Sum(indexed_in_a_loop),
    Sum(two_axes),
    Sum(rows_by_index),
    Sum(columns_by_index),
    Sum(row_in_vmap),
    Sum(switched, {"z": THREE}),
    Sum(start_in_all_steps, {"start": TWO, "z": TWO}),
    Sum(two_starts, {"p": TWO, "q": TWO, "a": TWO, "b": TWO}, {"y": Y[:4]}),
    Sum(latent_in_branches, {"g": TWO, "z": TWO}),
    Sum(held_state),
    Sum(rows_and_columns, {"a": TWO, "b": THREE}, {"y": np.resize(Y, (3, 2))}),
    Sum(
        three_crossed,
        {"a": TWO, "b": TWO, "c": TWO},
        {"y": np.resize(Y, (2, 2, 2)), "x": np.resize(Y, (2, 2, 1))},
    ),
    Sum(open_population, {"first": THREE, "stay": THREE, "come": TWO}, {"y": Y[:3]}),
]
