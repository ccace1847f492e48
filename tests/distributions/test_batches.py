"""Distributions that `vmap`, `scan` or a stack of trees returns: the same ones, one axis more.

Parameters of different numbers of batch axes stay aligned, in every family and every wrapper.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl
from tests.distributions.cases import CASES, over

LOC, SCALE = jnp.array([[0.0, 1.0], [5.0, 7.0]]), jnp.array([1.0, 3.0])
B, tfd = dist.bijectors, tfp.distributions


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
    "flat": lambda m, s: dist.Flat(dist.constraints.interval(-s, 3.0), (2,)),
    "of TFP": lambda m, s: dist.Independent(
        tfd.TransformedDistribution(tfd.Normal(m, 2.0), tfp.bijectors.Scale(s)), 0
    ),
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
    """So a loop may change the ranks of parameters, and specifications fit every batch."""
    a, b = dist.Normal(LOC, SCALE[0]), dist.Normal(LOC[0], SCALE)
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert hash(jax.tree.structure(a)) == hash(jax.tree.structure(b))
    many = jax.vmap(dist.Normal)(LOC, SCALE)
    axes = jax.tree.map(lambda _: 0, dist.Normal(LOC, SCALE))
    mapped = jax.vmap(lambda d: d.log_prob(1.0), in_axes=(axes,))(many)
    rows = [dist.Normal(m, s).log_prob(1.0) for m, s in zip(LOC, SCALE, strict=True)]
    np.testing.assert_allclose(mapped, jnp.stack(rows), rtol=1e-6)
    d = dist.Normal(LOC, SCALE)
    axes = jax.tree.unflatten(jax.tree.structure(d), (0, None))
    mapped = jax.vmap(lambda d: d.log_prob(1.0), in_axes=(axes,))(d)
    np.testing.assert_allclose(mapped, d.log_prob(1.0), rtol=1e-6)


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


def test_axes_of_size_one_go_with_the_axes_that_they_follow():
    """Elements of a mapped distribution have the leaves of each single one again."""
    many = jax.vmap(dist.Normal)(LOC, SCALE)
    ranks = []

    def look(d):
        ranks.append([x.ndim for x in jax.tree.leaves(d)])
        return d.log_prob(1.0)

    mapped = jax.vmap(look)(many)
    first = look(jax.tree.map(lambda x: x[0], many))
    assert ranks == [[1, 0]] * 2
    np.testing.assert_allclose(mapped[0], first, rtol=1e-6)
    twice = jax.vmap(lambda d: jax.vmap(lambda _: d)(jnp.arange(5)))(many)
    assert (twice.loc.shape, twice.scale.shape) == ((2, 5, 2), (2, 5, 1))
    part = jax.tree.map(lambda x: x[1:], many)
    np.testing.assert_allclose(part.log_prob(1.0), mapped[1:], rtol=1e-6)


@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_parameters_of_different_rank(derivative):
    """Those of a distribution are a container of the derivatives of its leaves."""
    make = lambda x: dist.Normal(LOC[0] * x[0], x.sum())  # noqa: E731
    found = derivative(make)(jnp.ones(3))
    expected = derivative(lambda x: tuple(jax.tree.leaves(make(x))))(jnp.ones(3))
    for x, y in zip(jax.tree.leaves(found), expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_axes_gained_at_the_end_are_aligned_or_an_error():
    """Never another distribution; parameters with event axes cannot be aligned."""
    loc, scale = jnp.array([[0.0, 1.0], [5.0, 7.0], [2.0, 3.0]]), jnp.array([1.0, 3.0, 2.0])
    many = jax.vmap(dist.Normal, out_axes=-1)(loc, scale)
    expected = jax.vmap(dist.Normal)(loc, scale).log_prob(1.0)
    np.testing.assert_allclose(many.log_prob(1.0).T, expected, rtol=1e-6)
    column = jax.tree.map(lambda x: x[..., None], dist.Normal(loc[0], scale[0]))
    np.testing.assert_allclose(column.log_prob(1.0)[:, 0], expected[0], rtol=1e-6)


def between(d):
    return jax.tree.map(lambda x: jnp.stack([x] * 5, 1), d)


def at_the_end(d):
    return jax.tree.map(lambda x: jnp.stack([x] * 5, -1), d)


def first(d):
    return jax.tree.map(lambda x: x[0], d)


CUSTOM = dist.Custom(lambda x, a, b: -(((x - a) / b) ** 2), (LOC[0], 2.0))
MISALIGNED = {
    "axes between": (dist.Normal(LOC, SCALE), between),
    "vectors": (dist.Dirichlet(SCALE), at_the_end),
    "matrices": (dist.MultivariateNormal(LOC[0], scale_tril=jnp.eye(2)), at_the_end),
    "independent": (dist.Independent(dist.Normal(LOC[0], 1.0), 1), at_the_end),
    "first axis of some": (dist.Normal(LOC, SCALE), first),
    "events taken": (dist.Dirichlet(SCALE), first),
    "inside": (dist.iid(dist.Normal(LOC, SCALE), 3), first),
    "unknown axes": (CUSTOM, stacked),
}


@pytest.mark.parametrize(("d", "change"), MISALIGNED.values(), ids=MISALIGNED)
def test_leaves_of_no_batch_are_an_error_of_every_method(d, change):
    wrong = change(d)
    uses = (lambda d: d.log_prob(0.5), lambda d: d.sample(jax.random.key(0)), lambda d: d.mean())
    for use in uses:
        with pytest.raises(ValueError, match="not the parameters of a batch"):
            use(wrong)
        with pytest.raises(ValueError, match="not the parameters of a batch"):
            jax.eval_shape(use, wrong)
    with pytest.raises(ValueError, match="not the parameters of a batch"):
        dist.Independent(wrong, 0)


def test_the_elements_of_a_custom_batch_are_whole_again():
    """Only its function knows which axes of its parameters are of the batch."""
    value = jnp.array([1.0, 2.0])
    many = jax.vmap(lambda a, b: dist.Custom(CUSTOM.log_density, (a, b)))(LOC, SCALE)
    expected = -(((value - LOC) / SCALE[:, None]) ** 2)
    found = jax.vmap(lambda d: d.log_prob(value))(many)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def mapped_model(make):
    def model(key):
        row = lambda key, m, s: ppl.sample(key, make(m, s), name="x")  # noqa: E731
        return jax.vmap(row)(jax.random.split(key, 2), LOC, SCALE)

    return model


@pytest.mark.parametrize("make", [dist.Normal, tfd.Normal], ids=["ours", "of TFP"])
def test_transformed_sites_of_a_mapped_model_keep_their_density(make):
    value = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    of_row = [dist.Normal(m, s).log_prob(v) for m, s, v in zip(LOC, SCALE, value, strict=True)]
    model = mapped_model(make)
    site = ppl.trace(ppl.condition(model, {"x": value}))(jax.random.key(0)).sites["x"]
    np.testing.assert_allclose(site.distribution.log_prob(value), jnp.stack(of_row), rtol=1e-6)

    total = sum(x.sum() for x in of_row)
    np.testing.assert_allclose(
        ppl.log_density(ppl.scale(model, 2.0))({"x": value}), 2 * total, rtol=1e-6
    )
    non_centered = ppl.unconstrain(ppl.reparam(model, {"x": ppl.NonCentered()}))
    z = (value - LOC) / SCALE[:, None]
    np.testing.assert_allclose(non_centered.constrain({"x": z})["x"], value, rtol=1e-6)
    standard = dist.Normal(0.0, 1.0).log_prob(z).sum()
    np.testing.assert_allclose(non_centered.log_density({"x": z}), standard, rtol=1e-6)

    gaps = ppl.condition(model, {"x": ppl.ignore(value.at[0, 1].set(jnp.nan))})
    known = total - of_row[0][1]
    np.testing.assert_allclose(ppl.log_density(gaps)({}), known, rtol=1e-6)


def test_sites_of_other_ranks_share_no_traced_function():
    """The structures of these distributions are equal, and their leaves are not aligned alike."""

    def model(key, loc, scale):
        ppl.sample(key, dist.Normal(loc, scale), name="x")

    for loc, scale in ((LOC[0], SCALE[0]), (LOC[0], SCALE), (LOC, SCALE), (LOC, SCALE[0])):
        value = jnp.ones(np.broadcast_shapes(loc.shape, scale.shape))
        density = jax.jit(lambda m, s, x: ppl.log_density(model)({"x": x}, m, s))
        expected = dist.Normal(np.asarray(loc), np.asarray(scale)).log_prob(value).sum()
        np.testing.assert_allclose(density(loc, scale, value), expected, rtol=1e-6)
