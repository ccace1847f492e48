"""`validate` tells at run time what cannot be told while tracing."""

import jax
import jax.numpy as jnp
from jax.experimental import checkify

import distributions as dist


def test_validate_reports_what_is_traced():
    score = lambda d: dist.validate(d).log_prob(0.5)  # noqa: E731
    check = jax.jit(checkify.checkify(score))
    make = jax.tree_util.tree_structure(dist.Normal(0.0, 1.0)).unflatten
    assert check(make([0.0, 1.0]))[0].get() is None
    assert (
        "Normal: scale must be positive and finite; got -1.0" in check(make([0.0, -1.0]))[0].get()
    )
    uniform = jax.tree_util.tree_structure(dist.Uniform(0.0, 1.0)).unflatten([2.0, 1.0])
    assert "Uniform: low must be less than high" in check(uniform)[0].get()


def test_validate_looks_into_the_parts():
    def score(scale, low):
        d = dist.iid(dist.Truncated(dist.Normal(0.0, scale), low, 2.0), 2)
        return dist.validate(d).log_prob(jnp.ones(2))

    check = jax.jit(checkify.checkify(score))
    assert check(1.0, 0.0)[0].get() is None
    assert "Normal: scale must be positive" in check(-1.0, 0.0)[0].get()
    assert "Truncated: low must be less than high" in check(1.0, 3.0)[0].get()
