"""Distributions with atoms: constants, and what is continuous but for single values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import ppl

T, B = dist.TransformedDistribution, dist.bijectors
KEY = jax.random.key(3)
HALVES = dist.Categorical(probs=[0.5, 0.5])


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
    assert dist.Delta(3.0).quantile(0.5) == 3
    with pytest.raises(NotImplementedError, match="a constant has no density"):
        _ = dist.Delta(3.0).bijector
    with pytest.raises(ValueError, match="TransformedDistribution: distribution must be contin"):
        T(dist.Delta(3.0), B.Exp())


@pytest.mark.parametrize("of", ["Truncated", "Censored", "Quantized", "IntervalCensored"])
@pytest.mark.parametrize("d", [dist.Delta(3.0), dist.Hurdle(dist.LogNormal(0.0, 1.0), logits=0.0)])
def test_what_rests_on_a_density_takes_none_with_atoms(of, d):
    name = type(d).__name__
    with pytest.raises(ValueError, match=f"{of}: distribution must not have atoms; got {name}"):
        getattr(dist, of)(d)


def test_functions_of_a_constant():
    x = jnp.array([1.0, 2.0, 3.0])
    assert (dist.Delta(2.0).cdf(x) == np.array([0, 1, 1])).all()
    assert (dist.Delta(2.0).survival(x) == np.array([1, 0, 0])).all()
    assert dist.Delta(2.0).quantile(0.5) == 2
    assert np.isnan(dist.Delta(2.0).quantile(1.5))


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


OF_OTHERS = {
    "hurdle of counts": dist.Hurdle(dist.Poisson(3.0), probs=0.4),
    "hurdle of numbers": dist.Hurdle(dist.LogNormal(0.5, 1.0), logits=-0.4),
    "zero-inflated": dist.ZeroInflated(dist.Poisson(3.0), probs=0.4),
    "censored": dist.Censored(dist.Normal(0.5, 2.0), low=0.0, high=4.0),
    "quantized": dist.Quantized(dist.Normal(0.5, 2.0), low=-1, high=6),
    "mixture": dist.MixtureSameFamily(HALVES, dist.Poisson(jnp.array([1.0, 6.0]))),
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_four_functions_tell_the_same_chances(name):
    """Shares of draws below a number are chances; logarithms are logarithms."""
    d, x = OF_OTHERS[name], jnp.array([0.0, 1.0, 2.0, 5.0])
    draws = np.asarray(d.sample(KEY, (40_000,)))
    share = np.mean(draws[:, None] <= np.asarray(x), 0)
    np.testing.assert_allclose(d.cdf(x), share, atol=0.015)
    np.testing.assert_allclose(d.survival(x), 1 - d.cdf(x), atol=1e-6)
    np.testing.assert_allclose(d.log_cdf(x), jnp.log(d.cdf(x)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(d.log_survival(x), jnp.log(d.survival(x)), rtol=1e-4, atol=1e-6)
