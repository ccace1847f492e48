"""Distributions that `vmap`, `scan` or a stack of trees returns: the same ones, one axis more.

Parameters of different numbers of batch axes stay aligned, in every family and every wrapper.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from tests.distributions.cases import CASES, over

LOC, SCALE = jnp.array([[0.0, 1.0], [5.0, 7.0]]), jnp.array([1.0, 3.0])
B = dist.bijectors


def with_one_parameter_batched(case, name):
    """The case's distribution with a parameter twice along one more axis in front."""
    return case.make(
        **case.given(np.float32) | {name: jnp.stack([case.given(np.float32)[name]] * 2)}
    )


def stacked(d, number=3):
    return jax.tree.map(lambda *x: jnp.stack(x), *[d] * number)


@over([case for case in CASES if case.family != "Custom"])  # knows nothing of its parameters
def test_a_stack_keeps_parameters_of_different_rank_aligned(case):
    shapes = lambda d, x: jax.eval_shape(lambda d, x: d.log_prob(x), d, x).shape  # noqa: E731
    value, tried = None, 0
    for name in case.parameters:
        try:
            d = with_one_parameter_batched(case, name)
            batch_shape = d.batch_shape
        except (TypeError, ValueError):  # no array of the batch, as the number of steps of a walk
            continue
        many = stacked(d)
        assert (many.batch_shape, many.event_shape) == ((3, *batch_shape), d.event_shape), name
        value = jnp.zeros((*many.batch_shape, *d.event_shape), d.dtype)
        assert shapes(many, value) == many.batch_shape, name
        inner = jax.tree.map(lambda x: x[0], many)
        assert inner.batch_shape == batch_shape, name
        tried += 1
    if not jax.tree.leaves(case.build()):
        return
    assert tried
    first = stacked(case.build())
    values = case.values(np.float32)[:1]
    expected = np.broadcast_to(case.build().log_prob(values), (3, *first.batch_shape[1:]))
    np.testing.assert_allclose(first.log_prob(values), expected, rtol=1e-5, atol=1e-5)


MADE = {
    "family": dist.Normal,
    "unbatched event": lambda m, s: dist.MultivariateNormal(
        m[:, None] * jnp.ones(3), scale_tril=s * jnp.eye(3)
    ),
    "independent": lambda m, s: dist.Independent(dist.Normal(m, s), 0),
    "transformed": lambda m, s: dist.TransformedDistribution(dist.Normal(0.0, s), B.Affine(m, 2.0)),
    "truncated": lambda m, s: dist.Truncated(dist.Normal(m, 2.0), -s, 2 * s + 4),
    "censored": lambda m, s: dist.Censored(dist.Normal(0.0, s), m - 4, m + 4),
    "mixture of one family": lambda m, s: dist.MixtureSameFamily(
        dist.Categorical(logits=jnp.stack([s, 0 * s])), dist.Normal(m[:, None] + jnp.arange(2.0), s)
    ),
    "mixture": lambda m, s: dist.Mixture(
        dist.Categorical(logits=jnp.stack([s, 0 * s])), [dist.Normal(m, 1.0), dist.Normal(0.0, s)]
    ),
    "masked": lambda m, s: dist.Masked(dist.Normal(0.0, s), m > 0.5),
    "zero-inflated": lambda m, s: dist.ZeroInflated(dist.Poisson(s), probs=m / 10),
    "delta": lambda m, s: dist.Delta(m, -s),
    "iid": lambda m, s: dist.iid(dist.Normal(m, s), (3,)),
    "random walk": lambda m, s: dist.GaussianRandomWalk(s, 3, dist.Normal(m, 1.0)),
    "Kronecker": lambda m, s: dist.KroneckerNormal(
        m[:, None] * jnp.ones(2), scale_trils=(s * jnp.eye(2), jnp.eye(1)), noise_scale=1.0
    ),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
@pytest.mark.parametrize("how", ["vmap", "scan"])
def test_what_comes_back_has_the_densities_of_its_parts(make, how):
    """Two by two, so that wrong alignment would broadcast without an error."""
    if how == "vmap":
        many = jax.vmap(make)(LOC, SCALE)
    else:
        many = jax.lax.scan(lambda carry, x: (carry, make(*x)), 0.0, (LOC, SCALE))[1]
    one = make(LOC[0], SCALE[0])
    assert (many.batch_shape, many.event_shape) == ((2, *one.batch_shape), one.event_shape)
    value = jnp.ones(one.batch_shape + one.event_shape, one.dtype)
    density = lambda m, s: make(m, s).log_prob(value)  # noqa: E731
    expected = jnp.stack([density(m, s) for m, s in zip(LOC, SCALE, strict=True)])
    np.testing.assert_allclose(many.log_prob(value), expected, rtol=1e-5)
    again = jax.vmap(lambda d: d.log_prob(value))(many)
    np.testing.assert_allclose(again, expected, rtol=1e-5)


def test_two_axes_more_and_shapes_alone():
    twice = jax.vmap(jax.vmap(dist.Normal))
    loc, scale = jnp.zeros((4, 3, 2)), jnp.ones((4, 3))
    for many in (twice(loc, scale), jax.eval_shape(twice, loc, scale)):
        assert (many.loc.shape, many.scale.shape) == ((4, 3, 2), (4, 3, 1))


def test_structures_of_other_ranks_are_equal():
    """So a loop may change the shapes of parameters, and specifications fit every batch."""
    a, b = dist.Normal(LOC, SCALE[0]), dist.Normal(LOC[0], SCALE)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert hash(jax.tree.structure(a)) == hash(jax.tree.structure(b))
    axes = jax.tree.map(lambda _: 0, dist.Normal(LOC, SCALE))
    mapped = jax.vmap(lambda d: d.log_prob(1.0), in_axes=(axes,))(dist.Normal(LOC, SCALE))
    rows = [dist.Normal(m, s).log_prob(1.0) for m, s in zip(LOC, SCALE, strict=True)]
    np.testing.assert_allclose(mapped, jnp.stack(rows), rtol=1e-6)


def test_a_site_of_a_mapped_model_has_its_own_density():
    def model(key):
        def row(key, m, s):
            return ppl.sample(key, dist.Normal(m, s), name="x")

        return jax.vmap(row)(jax.random.split(key, 2), LOC, SCALE)

    target = ppl.unconstrain(model)
    position = {"x": jnp.ones((2, 2))}
    expected = sum(
        dist.Normal(m, s).log_prob(jnp.ones(2)).sum() for m, s in zip(LOC, SCALE, strict=True)
    )
    np.testing.assert_allclose(target.log_density(position), expected, rtol=1e-6)
    site = target.sites(position)["x"].distribution
    total = functools.reduce(jnp.add, jnp.ravel(site.log_prob(position["x"])))
    np.testing.assert_allclose(total, expected, rtol=1e-6)


def test_sites_of_other_ranks_share_no_traced_function():
    """The structures of these distributions are equal, and their leaves are not aligned alike."""

    def model(key, loc, scale):
        ppl.sample(key, dist.Normal(loc, scale), name="x")

    for loc, scale in ((LOC[0], SCALE[0]), (LOC[0], SCALE), (LOC, SCALE), (LOC, SCALE[0])):
        value = jnp.ones(np.broadcast_shapes(loc.shape, scale.shape))
        density = jax.jit(lambda m, s, x: ppl.log_density(model)({"x": x}, m, s))
        expected = dist.Normal(np.asarray(loc), np.asarray(scale)).log_prob(value).sum()
        np.testing.assert_allclose(density(loc, scale, value), expected, rtol=1e-6)
