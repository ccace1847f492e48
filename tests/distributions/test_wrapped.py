"""Distributions that are made of others: what the table of families does not say of them."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats as st
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

tfd, tfb = tfp.distributions, tfp.bijectors
KEY = jax.random.key(3)


def test_a_censored_value_has_the_mass_beyond(x64):
    d = dist.Censored(dist.Normal(0.5, jnp.array([1.0, 2.0])), -1.0, 2.0)
    base = st.norm(0.5, [1.0, 2.0])
    np.testing.assert_allclose(d.log_prob(-1.0), base.logcdf(-1), rtol=1e-12)
    np.testing.assert_allclose(d.log_prob(2.0), base.logsf(2), rtol=1e-12)
    np.testing.assert_allclose(d.log_prob(0.25), base.logpdf(0.25), rtol=1e-12)
    for outside in (-1.5, 2.5, np.inf, np.nan):
        assert (d.log_prob(outside) == -np.inf).all()
    counts = dist.Censored(dist.Binomial(9, probs=0.5), high=6)
    mass = np.exp(counts.log_prob(np.arange(7)))
    np.testing.assert_allclose(mass.sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(mass[6], st.binom(9, 0.5).sf(5), rtol=1e-12)


def test_censored_draws_are_clipped_and_their_functions_jump(x64):
    d, base = dist.Censored(dist.Normal(0.0, 1.0), -1.0, 0.5), st.norm
    draws = np.asarray(d.sample(KEY, (20_000,)))
    assert draws.min() == -1
    assert draws.max() == 0.5
    share = (draws == -1).mean()  # Within five standard errors: a failure rate of 6e-7.
    assert abs(share - base.cdf(-1)) < 5 * np.sqrt(base.cdf(-1) / len(draws))
    x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(d.cdf(x), [0, base.cdf(-1), 0.5, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(d.quantile([0.01, 0.5, 0.99]), [-1, 0, 0.5], atol=1e-12)


def test_gradients_at_a_bound_are_those_of_the_mass(x64):
    score = lambda loc: dist.Censored(dist.Normal(loc, 1.0), high=2.0).log_prob(2.0)  # noqa: E731
    expected = (st.norm(1e-6, 1).logsf(2) - st.norm(-1e-6, 1).logsf(2)) / 2e-6
    np.testing.assert_allclose(jax.grad(score)(0.0), expected, rtol=1e-8)


@pytest.mark.parametrize("event_ndims", [0, 1])
def test_delta(event_ndims):
    loc = jnp.array([1.0, 2.0, 3.0])
    d = dist.Delta(loc, event_ndims=event_ndims)
    assert (d.batch_shape, d.event_shape) == (((3,), ()) if event_ndims == 0 else ((), (3,)))
    assert (d.sample(KEY, (2,)) == loc).all()
    assert (d.log_prob(loc) == 0).all()
    far = d.log_prob(loc.at[1].set(0))
    assert (far == np.array([0, -np.inf, 0])).all() if event_ndims == 0 else far == -np.inf
    assert (d.mean() == loc).all()
    assert (d.variance() == 0).all()
    assert dist.Delta(3).dtype == jnp.result_type(int)
    np.testing.assert_allclose(dist.Delta(0.0, -1.5).log_prob(0.0), -1.5)


def test_a_constant_is_discrete_where_it_is_an_integer():
    assert dist.Delta(3).support.is_discrete
    assert not dist.Delta(3.0).support.is_discrete
    assert dist.Delta(3.0).icdf(0.5) == 3
    with pytest.raises(NotImplementedError, match="a constant has no density"):
        _ = dist.Delta(3.0).bijector
    with pytest.raises(ValueError, match="TransformedDistribution: distribution must be contin"):
        T(dist.Delta(3.0), B.Exp())
    with pytest.raises(ValueError, match="Truncated: distribution must not have atoms; got Delta"):
        dist.Truncated(dist.Delta(3.0), 0.0)


def test_an_interval_has_its_mass_in_either_tail(x64):
    """Against mpmath far out, where differences of `cdf` are 0."""
    d = dist.IntervalCensored(dist.Normal(np.array([0.0, 1.0]), 1.0))
    base = st.norm(0.0, 1.0)
    value = np.array([[-0.5, 2.0], [-np.inf, 1.0], [0.5, np.inf], [0.25, 0.25], [-np.inf, np.inf]])
    probs = base.cdf(value[:, 1]) - base.cdf(value[:, 0])
    probs[3] = base.pdf(0.25)
    np.testing.assert_allclose(d.log_prob(value[:, None])[:, 0], np.log(probs), atol=1e-14)
    with mpmath.workdps(60):
        far = float(mpmath.log(mpmath.ncdf(-38) - mpmath.ncdf(mpmath.mpf("-38.5"))))
    tails = d.log_prob(np.array([[[38.0, 38.5]], [[-38.5, -38.0]]]))
    np.testing.assert_allclose(tails[:, 0], far, rtol=1e-12)
    wrong = np.array([[2.0, 1.0], [np.inf, np.inf], [-np.inf, -np.inf], [np.nan, 1.0]])
    assert (d.log_prob(wrong[:, None]) == -np.inf).all()
    score = lambda value, d: d.log_prob(value[:, None]).sum()  # noqa: E731
    for at in (value, wrong):
        gradients = jax.tree.leaves(jax.grad(score, (0, 1))(at, d))
        assert all(np.isfinite(g).all() for g in gradients)


def test_an_interval_of_counts_holds_its_ends(x64):
    d = dist.IntervalCensored(dist.Poisson(np.array([2.0, 3.0])))
    value = np.array([[[2.0, 4.0]], [[3.0, 3.0]], [[1.5, np.inf]], [[-np.inf, 3.5]]])
    base = st.poisson([2.0, 3.0])
    mass = np.log([base.cdf(4) - base.cdf(1), base.pmf(3), base.sf(1), base.cdf(3)])
    np.testing.assert_allclose(d.log_prob(value), mass, rtol=1e-12)
    draws = np.asarray(d.sample(KEY, (50,)))
    assert draws.shape == (50, 2, 2)
    assert (draws[..., 0] == draws[..., 1]).all()
    assert np.isfinite(d.log_prob(draws)).all()


def test_integers_to_which_draws_are_rounded(x64):
    d = dist.Quantized(dist.Exponential(0.5))
    assert d.support.low == 1
    np.testing.assert_allclose(d.log_prob(80), np.log(np.expm1(0.5)) - 40, rtol=1e-12)
    assert set(np.asarray(dist.Quantized(dist.Normal(0.0, 9.0), 0, 1).sample(KEY, (50,)))) == {0, 1}
    with pytest.raises(ValueError, match="Quantized: low must be an integer"):
        dist.Quantized(dist.Normal(0.0, 1.0), 0.5)


ATOMIC = {
    "a constant": dist.Delta(1.0),
    "censored": dist.Censored(dist.Normal(0.0, 1.0), high=1.0),
    "hurdle": dist.Hurdle(dist.LogNormal(0.0, 1.0), probs=0.5),
    "interval": dist.IntervalCensored(dist.Normal(0.0, 1.0)),
    "several": dist.iid(dist.Hurdle(dist.LogNormal(0.0, 1.0), probs=0.5), 3),
}


@pytest.mark.parametrize("name", ATOMIC)
def test_what_has_atoms_is_no_latent_site_but_may_be_data(name):
    d = ATOMIC[name]

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        ppl.sample(key, dist.Normal(scale, 1.0), name="y")
        return ppl.sample(key, d, name="x")

    with pytest.raises(ValueError, match=r"site 'x': .* has no map from unconstrained space"):
        ppl.unconstrain(model)
    data = {"x": jnp.ones(d.event_shape)}
    score = ppl.unconstrain(ppl.condition(model, data)).log_density
    assert np.isfinite(score({"scale": 0.0, "y": 0.0}))


def test_mixtures_of_what_has_atoms_share_them():
    censored = lambda high: dist.Censored(dist.Normal(0.0, 1.0), high=high)  # noqa: E731
    hurdle = dist.Hurdle(dist.LogNormal(0.0, 1.0), probs=0.5)
    mixture = dist.Mixture(HALVES, [censored(1.0), censored(1.0)])
    np.testing.assert_allclose(mixture.log_prob(1.0), st.norm.logsf(1), rtol=1e-6)
    normals = dist.Censored(dist.Normal(jnp.array([0.0, 1.0]), 1.0), high=jnp.ones((3, 1)))
    assert dist.MixtureSameFamily(HALVES, normals).support.check(jnp.ones(3)).all()
    for parts in ([censored(1.0), censored(2.0)], [hurdle, dist.LogNormal(0.0, 1.0)]):
        with pytest.raises(ValueError, match="nor have they the same atoms"):
            dist.Mixture(HALVES, parts)


def test_functions_of_a_constant():
    x = jnp.array([1.0, 2.0, 3.0])
    assert (dist.Delta(2.0).cdf(x) == np.array([0, 1, 1])).all()
    assert (dist.Delta(2.0).survival(x) == np.array([1, 0, 0])).all()
    assert dist.Delta(2.0).quantile(0.5) == 2
    assert np.isnan(dist.Delta(2.0).quantile(1.5))


def test_masked_values_do_not_count_whatever_they_are():
    d = dist.Masked(dist.Gamma(2.0, 1.0), jnp.array([True, False, False]))
    values = jnp.array([1.0, jnp.nan, -1.0])
    np.testing.assert_allclose(d.log_prob(values), [-1, 0, 0], rtol=1e-6)
    gradient = jax.grad(lambda v, d: d.log_prob(v).sum(), 0)(values, d)
    assert np.isfinite(gradient).all()
    assert d.sample(KEY, (4,)).shape == (4, 3)
    vectors = dist.Masked(dist.Dirichlet(jnp.ones(2)), jnp.array([True, False]))
    assert vectors.batch_shape == (2,)
    scores = vectors.log_prob(jnp.array([[0.5, 0.5], [9.0, 9.0]]))
    np.testing.assert_allclose(scores[0], 0, atol=1e-5)
    assert scores[1] == 0


MIXTURES = {
    "of one family": lambda p, m: dist.MixtureSameFamily(
        dist.Categorical(probs=jnp.stack([p, 1 - p])), dist.Normal(jnp.stack([m, 2.0]), 0.5)
    ),
    "of several": lambda p, m: dist.Mixture(
        dist.Categorical(probs=jnp.stack([p, 1 - p])), [dist.Normal(m, 0.5), dist.Gumbel(2.0, 0.5)]
    ),
}


@pytest.mark.parametrize("make", MIXTURES.values(), ids=list(MIXTURES))
def test_draws_of_a_mixture_have_derivatives(make, x64):
    """The gradient of an expectation over draws, against the one of the exact mean.

    Within five standard errors: a failure rate of 6e-7 for each.
    """
    at = jnp.array([0.25, 0.75])
    assert make(*at).is_reparameterized

    def square(at, key):
        return jnp.square(make(*at).sample(key))

    def exact(at):
        d = make(*at)
        return d.variance() + d.mean() ** 2

    keys = jax.random.split(KEY, 20_000)
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(square), (None, 0)))(at, keys))
    error = gradients.std(0) / np.sqrt(len(keys))
    difference = np.abs(gradients.mean(0) - jax.grad(exact)(at))
    assert (difference < 5 * error).all()
    assert (difference < 0.2).all()


def test_truncated_draws_have_derivatives(x64):
    def draw(loc):
        return dist.Truncated(dist.Normal(loc, 1.0), 0.5, 2.0).sample(KEY, (3,))

    slope = jax.jvp(draw, (0.0,), (1.0,))[1]
    np.testing.assert_allclose(slope, (draw(1e-5) - draw(-1e-5)) / 2e-5, rtol=1e-6)


def test_integers_between_bounds_that_are_none(x64):
    d = dist.Truncated(dist.Poisson(2.0), 0.5, 3.5)
    base = st.poisson(2.0)
    mass = base.cdf(3) - base.cdf(0)
    np.testing.assert_allclose(d.log_prob([1, 3]), np.log(base.pmf([1, 3]) / mass), rtol=1e-12)
    assert (d.log_prob([0, 4]) == -np.inf).all()
    draws = np.asarray(d.sample(KEY, (200,)))
    assert set(draws) == {1, 2, 3}


def test_truncation_far_out(x64):
    d = dist.Truncated(dist.Normal(0.0, 1.0), 40.0)
    np.testing.assert_allclose(d.log_prob(40.0), 3.68950348054912, rtol=1e-11)  # by mpmath
    draws = d.sample(KEY, (2000,))
    assert d.support.check(draws).all()
    mean = 40.02496884720726  # by mpmath; the standard deviation is about 1 / 40
    assert abs(draws.mean() - mean) < 5 * 0.025 / np.sqrt(2000)


PARTS = {
    "truncated": lambda g: dist.Truncated(g, 0.0, 3.0),
    "censored": lambda g: dist.Censored(g, 0.0, 3.0),
    "iid": lambda g: dist.iid(g, 2),
    "masked": lambda g: dist.Masked(g, True),
    "transformed": lambda g: dist.TransformedDistribution(g, dist.bijectors.Affine(1.0, 2.0)),
    "mixture": lambda g: dist.Mixture(dist.Categorical([0.0, 0.0]), [g, dist.Normal(0.0, 1.0)]),
}


@pytest.mark.parametrize("make", PARTS.values(), ids=list(PARTS))
def test_distributions_of_tfp_are_parts_too(make):
    ours, theirs = make(dist.Gumbel(0.5, 2.0)), make(tfd.Gumbel(0.5, 2.0))
    value = jnp.full(ours.event_shape, 1.5)
    np.testing.assert_allclose(theirs.log_prob(value), ours.log_prob(value), rtol=1e-4)
    assert theirs.sample(KEY, (3,)).shape == (3, *ours.event_shape)
    assert theirs.support.check(value)
    assert not theirs.support.check(value * jnp.nan)


def test_bijectors_of_tfp_transform_too():
    d = dist.TransformedDistribution(dist.Normal(0.0, 1.0), tfb.Exp())
    np.testing.assert_allclose(d.log_prob(2.0), dist.LogNormal(0.0, 1.0).log_prob(2.0), rtol=1e-6)
    assert d.log_prob(-1.0) == -np.inf
    np.testing.assert_allclose(d.bijector.forward(0.5), np.exp(0.5), rtol=1e-6)


def test_a_bijector_of_vectors_takes_axes_of_the_batch():
    d = dist.TransformedDistribution(dist.Normal(jnp.zeros(2), 1.0), dist.bijectors.StickBreaking())
    assert (d.batch_shape, d.event_shape) == ((), (3,))
    draw = d.sample(KEY)
    assert d.support.check(draw)
    assert np.isfinite(d.log_prob(draw))
    assert d.log_prob(jnp.ones(3)) == -np.inf


BAD = {
    "Truncated: distribution must be a Distribution; got 1.0": lambda: dist.Truncated(1.0),
    "Truncated: low must be less than high; got 2.0 and 1.0": lambda: dist.Truncated(
        dist.Normal(0.0, 1.0), 2.0, 1.0
    ),
    r"Truncated: distribution must be of numbers; got draws of shape \(2,\)": lambda: (
        dist.Truncated(dist.Dirichlet([1.0, 1.0]), 0.0)
    ),
    r"Censored: the bounds do not broadcast with batch_shape \(2,\): low \(3,\)": lambda: (
        dist.Censored(dist.Normal(0.0, [1.0, 2.0]), np.zeros(3))
    ),
    "Independent: reinterpreted_batch_ndims must be an integer from 0 to 0": lambda: (
        dist.Independent(dist.Normal(0.0, 1.0), 1)
    ),
    "iid: sample_shape must hold nonnegative integers": lambda: dist.iid(
        dist.Normal(0.0, 1.0), (2.5,)
    ),
    "Masked: mask must hold booleans; got 1.0": lambda: dist.Masked(dist.Normal(0.0, 1.0), 1.0),
    "Delta: event_ndims must be from 0 to 0": lambda: dist.Delta(0.0, event_ndims=1),
    "TransformedDistribution: distribution must be continuous": lambda: (
        dist.TransformedDistribution(dist.Poisson(1.0), dist.bijectors.Exp())
    ),
    "Mixture: 2 categories, but 1 components": lambda: dist.Mixture(
        dist.Categorical([0.0, 0.0]), [dist.Normal(0.0, 1.0)]
    ),
    "Mixture: some components are discrete": lambda: dist.Mixture(
        dist.Categorical([0.0, 0.0]), [dist.Normal(0.0, 1.0), dist.Poisson(1.0)]
    ),
    "Custom: log_density must give one number per event": lambda: dist.Custom(
        lambda x: jnp.sum(x), support=dist.constraints.real
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_parts_that_do_not_fit_are_named(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_custom_distribution_without_sampler_is_scored_only():
    d = dist.Custom(lambda x: -jnp.square(x))
    assert d.log_prob(2.0) == -4
    with pytest.raises(NotImplementedError, match="there is no sampler"):
        d.sample(KEY)


def test_validate_reports_what_is_traced():
    from jax.experimental import checkify

    score = lambda d: dist.validate(d).log_prob(0.5)  # noqa: E731
    check = jax.jit(checkify.checkify(score))
    make = jax.tree_util.tree_structure(dist.Normal(0.0, 1.0)).unflatten
    assert check(make([0.0, 1.0]))[0].get() is None
    assert (
        "Normal: scale must be positive and finite; got -1.0" in check(make([0.0, -1.0]))[0].get()
    )
    uniform = jax.tree_util.tree_structure(dist.Uniform(0.0, 1.0)).unflatten([2.0, 1.0])
    assert "Uniform: low must be less than high" in check(uniform)[0].get()


T, B = dist.TransformedDistribution, dist.bijectors
HALVES = dist.Categorical(probs=[0.5, 0.5])


@pytest.mark.parametrize(
    "score",
    [
        lambda s: dist.Truncated(T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)), high=2.0).log_prob(
            1.0
        ),
        lambda s: dist.Censored(T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)), high=2.0).log_prob(2.0),
        lambda s: T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)).cdf(jnp.inf),
    ],
    ids=["truncated", "censored", "at infinity"],
)
def test_gradients_where_a_bound_is_infinite(score, x64):
    expected = (score(1 + 1e-6) - score(1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(score)(1.0), expected, rtol=1e-7, atol=1e-9)


def test_transformed_values_broadcast_with_the_batch():
    d = T(dist.Normal(0.0, 1.0), B.Affine(jnp.zeros(3), 1.0))
    assert d.log_prob(1.0).shape == d.mean().shape == d.variance().shape == (3,)
    assert T(dist.Uniform(jnp.zeros(3), jnp.ones(3)), B.Exp()).log_prob(jnp.full(3, 1.5)).shape == (
        3,
    )
    vectors = dist.Independent(dist.Normal(jnp.zeros(3), 1.0), 1)
    assert T(vectors, B.Affine(jnp.zeros((2, 1)), 1.0)).log_prob(jnp.zeros(3)).shape == (2,)
    assert T(vectors, tfb.Scale(2.0)).log_prob(jnp.zeros(3)).shape == ()
    gammas = T(dist.Gamma(jnp.array([2.0, 3.0]), 1.0), B.Affine(jnp.array([0.0, 1.0]), 1.0))
    assert np.isfinite(dist.MixtureSameFamily(HALVES, gammas).log_prob(1.5))


def test_the_image_of_a_chain():
    d = T(dist.Normal(0.0, 1.0), B.Chain((B.Exp(), B.Softplus())))  # onto the numbers above 1
    assert d.log_prob(0.5) == -np.inf
    assert not d.support.check(0.5)
    shifted = T(dist.Normal(0.0, 1.0), B.Chain((B.Affine(1.0, 2.0), B.Exp())))
    np.testing.assert_allclose(shifted.cdf(jnp.array([0.5, 3.0])), [0, 0.5], atol=1e-6)
    assert T(dist.Normal(0.0, 1.0), tfb.Exp()).cdf(-1.0) == 0
    assert dist.Truncated(T(dist.Gamma(2.0, 1.0), B.Affine(1.0, 1.0)), high=5.0).support.low == 1


def test_leaves_of_a_custom_distribution_are_mapped():
    kernel = lambda x, m: -0.5 * jnp.square(x - m)  # noqa: E731
    d = dist.Custom(kernel, (jnp.arange(3.0),))
    assert d.batch_shape == (3,)
    assert jax.vmap(lambda d: d.log_prob(0.0))(d).shape == (3,)
    assert jax.vmap(lambda m: dist.Custom(kernel, (m,)))(jnp.arange(3.0)).batch_shape == (3,)


@pytest.mark.parametrize(
    ("d", "value", "expected"),
    [
        (dist.Truncated(tfd.Weibull(2.0, 1.0), high=3.0), 1.0, st.weibull_min(2).logpdf(1)),
        (dist.Truncated(tfd.LogNormal(0.0, 1.0), high=1e9), 1.0, st.lognorm(1).logpdf(1)),
        (dist.Truncated(tfd.Poisson(3.0), low=0, high=50), 2, st.poisson(3).logpmf(2)),
        (dist.Independent(tfd.Gamma(2 * jnp.ones(2), 1.0), 1), [-1.0, 1.0], -np.inf),
        (dist.Masked(tfd.Beta(2.0, 2.0), True), -1.0, -np.inf),
    ],
    ids=["Weibull", "LogNormal", "Poisson", "Gamma", "Beta"],
)
@pytest.mark.promotion(rank="allow", dtype="standard")
def test_distributions_of_tfp_off_their_support(d, value, expected):
    np.testing.assert_allclose(d.log_prob(value), expected, rtol=1e-3)


@pytest.mark.promotion(rank="allow", dtype="standard")
def test_distributions_of_tfp_draw_for_a_wider_batch():
    d = dist.Masked(tfd.Normal(jnp.zeros(1), 1.0), jnp.array([True, False]))
    draws = d.sample(KEY, (3,))
    assert draws.shape == (3, 2)
    assert (draws[:, 0] != draws[:, 1]).all()


def test_the_support_of_a_mixture_of_vectors():
    half = dist.Independent(dist.HalfNormal(jnp.ones(2)), 1)
    real = dist.Independent(dist.Normal(jnp.zeros(2), 1.0), 1)
    assert dist.Mixture(HALVES, [half, real]).support.check(-jnp.ones(2))
    boxes = dist.Uniform(jnp.array([[0.0] * 3, [1.0] * 3]), jnp.array([[1.0] * 3, [2.0] * 3]))
    mixture = dist.MixtureSameFamily(HALVES, dist.Independent(boxes, 1))
    assert mixture.support.check(jnp.full(3, 0.5)).shape == ()
    assert mixture.bijector.forward(jnp.zeros(3)).shape == (3,)
    simplex = dist.Dirichlet(jnp.ones(2))
    with pytest.raises(ValueError, match="supports of the components differ"):
        dist.Mixture(HALVES, [simplex, real])


def test_validate_looks_into_the_parts():
    from jax.experimental import checkify

    def score(scale, low):
        d = dist.iid(dist.Truncated(dist.Normal(0.0, scale), low, 2.0), 2)
        return dist.validate(d).log_prob(jnp.ones(2))

    check = jax.jit(checkify.checkify(score))
    assert check(1.0, 0.0)[0].get() is None
    assert "Normal: scale must be positive" in check(-1.0, 0.0)[0].get()
    assert "Truncated: low must be less than high" in check(1.0, 3.0)[0].get()


def test_wrapped_shapes_dtypes_and_flags(x64):
    masked = dist.Masked(dist.Normal(0.0, 1.0), jnp.array([True, False]))
    assert masked.cdf(0.0).shape == (2,)
    narrow = T(dist.Normal(jnp.float32(0), jnp.float32(1)), B.Affine(jnp.float64(1), 1.0))
    assert narrow.sample(KEY).dtype == narrow.dtype
    custom = dist.Custom(lambda x: -jnp.square(x))
    assert not dist.Mixture(HALVES, [custom, dist.Normal(0.0, 1.0)]).is_reparameterized
    with pytest.raises(ValueError, match="Censored: low must be an integer, as the draws are"):
        dist.Censored(dist.Poisson(2.0), 1.5, 4.0)
    normal = dist.Normal(0.0, 1.0)
    nested, flat = dist.iid(dist.iid(normal, 3), 2), dist.iid(normal, (2, 3))
    with pytest.raises(NotImplementedError, match="differ in sample_shape"):
        dist.kl_divergence(nested, flat)
