"""Keys: the ways to give each site, element and iteration randomness of its own."""

# ruff: noqa: E501

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

KEY = key(0)


def site(key, loc=0.0):
    return ppl.sample(key, dist.Normal(loc, 1.0), name="x")


def in_scope(scope):
    return ppl.nest(site, scope=scope)


def scanned(body):
    return lambda key: lax.scan(lambda c, k: (c, body(key, k)), 0.0, split(key, 3))[1]


INDEPENDENT = {
    "one-key-two-names": lambda key: site(key) + ppl.sample(key, dist.Normal(0.0, 1.0), name="z"),
    "vmap": lambda key: jax.vmap(site)(split(key, 3)),
    "fold_in-vmap": lambda key: jax.vmap(lambda i: site(jax.random.fold_in(key, i)))(jnp.arange(3)),
    "unmapped-in-vmap": lambda key: jax.vmap(lambda loc: site(key) * loc)(jnp.arange(3.0)),
    "scan": scanned(lambda _, k: site(k)),
    "fold_in-fori_loop": lambda key: lax.fori_loop(0, 3, lambda i, c: site(jax.random.fold_in(key, i), c), 0.0),
    "indexed-keys": lambda key: lax.fori_loop(0, 3, lambda i, c: site(split(key, 3)[i], c), 0.0),
    "carried-key-split": lambda key: lax.scan(lambda key, loc: (split(key)[0], site(split(key)[1], loc)), key, jnp.arange(3.0))[1],
    "branches": lambda key: lax.cond(True, site, lambda key: site(key, 2.0), key),
    "two-scopes": lambda key: in_scope("a")(split(key)[0]) + in_scope("b")(split(key)[1]),
}  # fmt: skip

DERIVED = {
    "log_density": lambda model, values: ppl.log_density(model)(values),
    "log_probs": lambda model, values: ppl.log_probs(model)(values),
    "unconstrain": lambda model, _: ppl.unconstrain(model),
}


@pytest.mark.parametrize("model", INDEPENDENT.values(), ids=INDEPENDENT)
def test_independent_sites_have_a_density(model):
    values = ppl.simulate(model)(KEY)
    for derive in DERIVED.values():
        derive(model, values)
