"""Keys: where a density is derived, sites that would share all their randomness are an error."""

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


SHARED = {
    "vmap": (lambda key: jax.vmap(lambda loc: site(key, loc))(jnp.arange(3.0)), "x"),
    "vmap-in-vmap": (lambda key: jax.vmap(lambda key: jax.vmap(lambda loc: site(key, loc))(jnp.arange(2.0)))(split(key, 3)), "x"),
    "vmap-around-scan": (lambda key: jax.vmap(lambda loc: lax.scan(lambda c, key: (site(key, c), None), loc, split(key, 2))[0])(jnp.arange(3.0)), "x"),
    "scan": (scanned(lambda key, _: site(key)), "x"),
    "scan-of-carried": (lambda key: lax.scan(lambda c, _: (site(key, c), None), 0.0, None, length=3)[0], "x"),
    "fori_loop": (lambda key: lax.fori_loop(0, 3, lambda i, c: site(key, c), 0.0), "x"),
    "scan-in-scan": (scanned(lambda _, k: lax.scan(lambda c, _: (site(k, c), None), 0.0, None, length=2)[0]), "x"),
    "jit-in-scan": (scanned(lambda key, _: jax.jit(site)(key)), "x"),
    "carried-key": (lambda key: lax.scan(lambda key, loc: (key, site(key, loc)), key, jnp.arange(3.0))[1], "x"),
    "submodel-twice": (lambda key: in_scope("a")(key) + in_scope("b")(key), "[ab]/x"),
    "submodel-twice-in-vmap": (lambda key: jax.vmap(lambda key: in_scope("a")(key) + in_scope("b")(key))(split(key, 3)), "[ab]/x"),
    "submodel-around": (lambda key: site(key) + in_scope("b")(key), "x"),
}  # fmt: skip

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


@pytest.mark.parametrize(("model", "name"), SHARED.values(), ids=SHARED)
def test_shared_randomness_is_an_error(model, name):
    """It names the site, and the remedy: a key of its own."""
    values = ppl.simulate(model)(KEY)
    for derive in DERIVED.values():
        with pytest.raises(ValueError, match=f"(?s)'{name}'.*split"):
            derive(model, values)


@pytest.mark.parametrize("model", INDEPENDENT.values(), ids=INDEPENDENT)
def test_independent_sites_are_none(model):
    values = ppl.simulate(model)(KEY)
    for derive in DERIVED.values():
        derive(model, values)
