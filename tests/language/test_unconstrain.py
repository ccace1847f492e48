"""unconstrain: log_density(position) = log_density(values) + log |det d values / d position|, for every support.

The determinant is that of `jax.jacfwd` of the whole map, of all sites together, whose supports may depend on each other.
"""

# ruff: noqa: E501

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.random import key, split
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl
from distributions import constraints
from ppl.transforms.prior_weights import PriorWeights

from .checks import Calls, Counted, assert_close, check_determinant, counting, shapes
from .loops import by_group, random_walk
from .programs import EFFECTS, SIGMA, eight_schools, nested, real

tfd = tfp.distributions
KEY = key(11)


def without_last(x: Any) -> Any:
    """The free coordinates of a simplex."""
    return x[..., :-1]


def lower(x: Any) -> Any:
    """The free coordinates of a triangular or symmetric matrix."""
    return x[..., *np.tril_indices(x.shape[-1])]


def one(make: Callable[[], Any]) -> Callable[..., Any]:
    """A model of one site, whose distribution is made in the precision of the test."""
    return lambda key: ppl.sample(key, make(), name="x")


def flat(support: Any, *shape: int) -> Callable[..., Any]:
    return one(lambda: dist.Flat(support, shape))


def dependent(key: Any) -> Any:
    """Supports whose bounds are random themselves."""
    low = ppl.sample(key, dist.Normal(0.0, 1.0), name="low")
    width = ppl.sample(key, dist.Gamma(2.0, 1.0), name="width")
    x = ppl.sample(key, dist.Uniform(low, low + width), name="x")
    t = ppl.sample(key, dist.TruncatedNormal(0.0, 1.0, low=x, high=jnp.inf), name="t")
    return ppl.sample(key, dist.HalfCauchy(t, 1.0), name="h")


def bounds_by_scan(key: Any) -> Any:
    """Every x lies between the one before it and the next whole number above that."""

    def step(x: Any, key: Any) -> Any:
        x = ppl.sample(key, dist.Uniform(x, x + 1), name="x")
        return x, ppl.sample(key, dist.Exponential(jnp.exp(x)), name="e")

    return lax.scan(step, 0.0, split(key, 3))[1]


def mapped(key: Any) -> Any:
    """Under vmap, with some parameters mapped only."""
    concentration = ppl.sample(key, dist.Exponential(jnp.ones(3)), name="concentration")

    def row(key: Any, low: Any) -> Any:
        p = ppl.sample(key, dist.Dirichlet(concentration), name="p")
        u = ppl.sample(key, dist.Uniform(low, 5.0), name="u")
        return ppl.sample(key, dist.Beta(1 + p, 2.0), name="b") * u

    return jax.vmap(row)(split(key, 2), jnp.array([-1.0, 2.0]))


def vmap_scan_vmap(key: Any) -> Any:
    def leaf(key: Any, x: Any) -> Any:
        return ppl.sample(key, dist.Gamma(1 + x, 2.0), name="x")

    step = lambda x, key: (jax.vmap(leaf)(split(key, 3), x), None)  # noqa: E731
    start = jnp.ones((2, 3))
    return jax.vmap(lambda key, x: lax.scan(step, x, split(key, 4))[0])(split(key, 2), start)


def in_cond(key: Any) -> Any:
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    high = lambda: ppl.sample(key, dist.Gamma(2.0, jnp.exp(z)), name="x")  # noqa: E731
    low = lambda: ppl.sample(key, dist.Uniform(z, z + 2), name="x")  # noqa: E731
    return lax.cond(z > 0, high, low)


def partly_observed(key: Any) -> Any:
    return ppl.condition(dependent, {"x": -0.1, "low": -0.2})(key)


ROWS: dict[str, tuple[Callable[..., Any], Mapping[str, Callable[[Any], Any]]]] = {
    "real": (one(lambda: dist.Normal(jnp.zeros(2), 2.0)), {}),
    "vector": (one(lambda: dist.MultivariateNormal(jnp.zeros(2), covariance=jnp.eye(2) + 0.3)), {}),
    "positive": (one(lambda: dist.InverseGamma(2.0, 3.0 * np.ones(2))), {}),
    "lower-bound": (one(lambda: dist.HalfCauchy(-3.0, 2.0)), {}),
    "unit-interval": (one(lambda: dist.Beta(2.0, 3.0)), {}),
    "interval": (one(lambda: dist.Uniform(-1.0, np.array([2.0, 5.0]))), {}),
    "truncated": (one(lambda: dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=2.5)), {}),
    "upper-bound": (one(lambda: dist.TruncatedNormal(0.0, 1.0, low=-np.inf, high=2.5)), {}),
    "simplex": (one(lambda: dist.Dirichlet(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))), {"x": without_last}),
    "ordered": (flat(constraints.ordered, 2, 3), {}),
    "lower-cholesky": (flat(constraints.lower_cholesky, 3, 3), {"x": lower}),
    "positive-definite": (flat(constraints.positive_definite, 2, 2), {"x": lower}),
    "mixture": (one(lambda: dist.MixtureSameFamily(dist.Categorical(probs=np.array([0.3, 0.7])), dist.Gamma(np.array([2.0, 3.0]), 1.0))), {}),
    "dependent": (dependent, {}),
    "scan": (bounds_by_scan, {}),
    "vmap": (mapped, {"p": without_last}),
    "vmap-scan-vmap": (vmap_scan_vmap, {}),
    "cond": (in_cond, {}),
    "partly-observed": (partly_observed, {}),
    "tfp-positive": (one(lambda: tfd.Gamma(2 * np.ones(2), 1.0)), {}),
    "tfp-interval": (one(lambda: tfd.Uniform(np.float64(-1.0), np.float64(2.0))), {}),
    "tfp-vector": (one(lambda: tfd.MultivariateNormalDiag(np.zeros(2), np.ones(2))), {}),
    "tfp-in-vmap": (lambda key: jax.vmap(lambda key, x: ppl.sample(key, tfd.Beta(x, 2 * x), name="x"))(split(key, 2), jnp.array([1.0, 2.0])), {}),
}  # fmt: skip
EVERY_ROW = pytest.mark.parametrize(("model", "free"), ROWS.values(), ids=ROWS)


@pytest.mark.quick_rows(
    "unit-interval",
    "vector",
    "positive",
    "interval",
    "real",
    "tfp-interval",
    "truncated",
    "lower-bound",
)
@EVERY_ROW
def test_log_density_has_the_determinant_of_the_map(model, free, x64):
    check_determinant(model, KEY, free)


def test_scale_of_raw_simplex(x64):
    """TFP measures the volume on the simplex itself, not of its first coordinates: a constant, by which it differs."""
    target = ppl.unconstrain(one(lambda: tfd.Dirichlet(np.array([1.0, 2.0, 3.0]))))

    @jax.jit
    def excess(x):
        position = target.unconstrain({"x": x})
        jacobian = jax.jacfwd(lambda p: target.constrain(p)["x"][:-1])(position)["x"]
        by_hand = ppl.log_density(target.model)({"x": x}) + jnp.linalg.slogdet(jacobian)[1]
        return target.log_density(position) - by_hand

    assert_close(excess(np.array([0.2, 0.3, 0.5])), excess(np.array([0.7, 0.2, 0.1])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_initial_position(dtype):
    """Uniform on (-2, 2), in unconstrained shapes: a simplex of 3 has 2 coordinates."""
    with jax.enable_x64(dtype == "float64"):
        target = ppl.unconstrain(mapped)
        initial = jax.jit(target.initial)
        position = initial(KEY)
        assert shapes(position) == {"b": (2, 3), "concentration": (3,), "p": (2, 2), "u": (2,)}
        flat = ravel_pytree(position)[0]
        assert flat.dtype == dtype
        assert jnp.all(jnp.abs(flat) < 2)
        assert len(np.unique(flat)) == flat.size
        assert not np.isin(ravel_pytree(initial(key(12)))[0], flat).any()
        many = ppl.unconstrain(one(lambda: dist.Normal(jnp.zeros(500), 1.0))).initial(KEY)["x"]
        assert -2 < many.min() < -1.9
        assert 1.9 < many.max() < 2
        assert shapes(jax.eval_shape(target.constrain, position))["p"] == (2, 3)


def test_names_nest_and_observed_sites_are_left_out():
    target = ppl.unconstrain(
        ppl.condition(nested, {"a": {"y": 0.2}, "c": {"d": {"x": real(3)}}}), 0.3
    )
    expected = {"a": {"x": ()}, "b": {"x": (), "y": ()}, "c": {"d": {"y": (3,)}}}
    position = target.initial(KEY)
    assert shapes(position) == shapes(target.constrain(position)) == expected
    assert_close(target.unconstrain(target.constrain(position)), position, "float32")
    sites = target.sites(position)["c"]["d"]
    assert {name: site.kind for name, site in sites.items()} == {"x": "observed", "y": "latent"}
    assert all(site.log_prob.shape == (3,) for site in sites.values())


def test_sites_at_a_position():
    target = ppl.unconstrain(ppl.condition(eight_schools, {"y": EFFECTS}), SIGMA)
    position = target.initial(KEY)
    sites, values = target.sites(position), target.constrain(position)
    expected = ppl.log_probs(eight_schools)({**values, "y": EFFECTS}, SIGMA)
    assert_close({name: sites[name].log_prob for name in expected}, expected, "float32")
    assert_close({name: sites[name].value for name in values}, values, "float32")
    assert sites["y"].distribution.loc.shape == EFFECTS.shape


def bounded(key):
    """The support of `b` is told by `top`; `total` follows from both."""
    top = ppl.sample(key, dist.HalfNormal(2.0), name="top")
    b = ppl.sample(key, dist.Uniform(0.0, top), name="b")
    ppl.deterministic(top + b, name="total")
    return ppl.sample(key, dist.Normal(b * jnp.ones(2), 1.0), name="y")


BOUNDED = ppl.condition(bounded, {"y": np.array([0.3, 0.2])})


@pytest.mark.slow_rows("given0")
@pytest.mark.parametrize(
    "given", [{"b": 0.05}, {"top": 3.0}, {"b": 0.05, "top": 3.0, "total": 9.0}]
)
def test_a_start_with_values_of_some_sites(given):
    target = ppl.unconstrain(BOUNDED)
    starts = jax.vmap(target.initial, (0, None))(jax.random.split(KEY, 50), given)
    values = jax.vmap(target.constrain)(starts)
    assert shapes(starts) == {"b": (50,), "top": (50,)}
    for name in ("b", "top"):
        if name in given:
            assert_close(values[name], np.full(50, given[name]), "float32")
        else:
            assert len(np.unique(values[name])) == 50
    assert np.all(values["b"] < values["top"])
    assert np.all(np.isfinite(jax.vmap(target.log_density)(starts)))


def test_values_of_other_sites_are_no_start():
    target = ppl.unconstrain(BOUNDED)
    with pytest.raises(ValueError, match="site 'y' of model 'bounded' is observed already"):
        target.initial(KEY, {"y": np.zeros(2)})
    with pytest.raises(ValueError, match="has no site 'c'"):
        target.initial(KEY, {"c": 0.0})


def test_a_start_from_the_prior():
    target = ppl.unconstrain(BOUNDED)
    values = jax.vmap(lambda key: target.constrain(target.prior(key)))(jax.random.split(KEY, 2000))
    uniforms = [st.halfnorm.cdf(values["top"] / 2), values["b"] / values["top"]]
    for u in uniforms:  # each fails by chance once in a million
        assert st.kstest(u, "uniform").pvalue > 1e-6


def test_draws_of_the_prior_have_the_weight_of_the_data():
    def model(key):
        top = ppl.sample(key, dist.HalfNormal(2.0), name="top")
        keys = split(key, 3)
        jax.vmap(lambda k: ppl.sample(k, dist.Normal(top, 1.0), name="y"))(keys)
        ppl.factor(-0.5 * top, name="f")
        ppl.deterministic(2 * top, name="double")

    y = jnp.array([0.0, 1.0, 3.0])
    sampler = PriorWeights.of(ppl.condition(model, {"y": y}), (), {})
    values, weights = jax.jit(jax.vmap(sampler.weighted))(split(KEY, 5))
    assert values.keys() == {"top", "double"}
    np.testing.assert_array_equal(values["double"], 2 * values["top"])
    expected = st.norm.logpdf(y[:, None] - values["top"]).sum(0) - 0.5 * values["top"]
    np.testing.assert_allclose(weights, expected, rtol=1e-5)


def test_the_density_of_values_has_a_prior_and_a_likelihood():
    def model(key):
        keys = split(key, 5)
        top = ppl.sample(keys[0], dist.HalfNormal(2.0), name="top")
        x = jax.vmap(lambda k: ppl.sample(k, dist.Normal(top, 1.0), name="x"))(keys[1:4])
        ppl.factor(-0.5 * top, name="f")
        ppl.sample(keys[4], dist.Normal(jnp.sum(x), 2.0), name="y")

    target = ppl.unconstrain(ppl.condition(model, {"y": 3.0}))
    position = target.initial(KEY)
    values = target.constrain(position)
    top, x = values["top"], values["x"]
    prior, likelihood = jax.jit(target.prior_and_likelihood)(position)
    expected = st.halfnorm.logpdf(top / 2) - np.log(2) + st.norm.logpdf(x - top).sum()
    np.testing.assert_allclose(prior, expected, rtol=1e-5)
    expected = st.norm.logpdf(3.0, x.sum(), 2.0) - 0.5 * top
    np.testing.assert_allclose(likelihood, expected, rtol=1e-5)
    total = prior + likelihood + np.log(top)  # with the Jacobian of the exponential map
    np.testing.assert_allclose(target.log_density(position), total, rtol=1e-5)


def test_the_log_density_splits_at_the_draws_of_the_prior():
    def model(key):
        keys = split(key, 2)
        top = ppl.sample(keys[0], dist.HalfNormal(2.0), name="top")
        ppl.factor(-0.5 * top, name="f")
        ppl.sample(keys[1], dist.Normal(top, 2.0), name="y")

    position = {"top": jnp.array(0.3)}
    top = np.exp(0.3)
    prior = st.halfnorm.logpdf(top, scale=2) + 0.3  # with the Jacobian of the exponential map
    likelihood = st.norm.logpdf(3.0, top, 2.0) - 0.5 * top
    posterior = ppl.condition(model, {"y": 3.0})
    found = jax.jit(ppl.unconstrain(posterior).split_log_density)(position)
    np.testing.assert_allclose(found, [prior, likelihood], rtol=1e-5)
    # Draws do not know of a factor of the prior.
    found = jax.jit(ppl.unconstrain(ppl.scale(posterior, 3.0)).split_log_density)(position)
    rest = 3 * likelihood + 2 * st.halfnorm.logpdf(top, scale=2)
    np.testing.assert_allclose(found, [prior, rest], rtol=1e-5)


@pytest.mark.parametrize("factor", [None, 3.0])
def test_terms_of_sites_in_one_loop_stay_apart(factor):
    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

        def step(x, key):
            keys = split(key, 3)
            x = ppl.sample(keys[0], dist.Normal(x, scale), name="x")
            rate = ppl.sample(keys[1], dist.Exponential(1.0), name="rate")
            return x, ppl.sample(keys[2], dist.Normal(x, rate), name="y")

        return jax.lax.scan(step, 0.0, split(key, 3))[1]

    posterior = ppl.condition(model, {"y": jnp.array([0.5, -1.0, 2.0])})
    scaled = posterior if factor is None else ppl.scale(posterior, factor)
    target = ppl.unconstrain(scaled)
    logs = jnp.array([0.1, -0.4, 0.6])
    position = {"scale": jnp.array(0.3), "x": jnp.array([0.2, -0.7, 1.1]), "rate": logs}
    terms = target.log_densities(position)
    assert sorted(terms) == [("rate",), ("scale",), ("x",), ("y",)]
    np.testing.assert_allclose(sum(terms.values()), target.log_density(position), rtol=1e-5)
    values = target.constrain(position)
    before = jnp.array([0.0, 0.2, -0.7])
    prior = st.halfnorm.logpdf(values["scale"]) + st.expon.logpdf(values["rate"]).sum()
    prior += st.norm.logpdf(values["x"], before, values["scale"]).sum()
    noise = st.norm.logpdf(jnp.array([0.5, -1.0, 2.0]), values["x"], values["rate"]).sum()
    rest = noise if factor is None else factor * noise + (factor - 1) * prior
    jacobian = 0.3 + logs.sum()
    found = jax.jit(target.split_log_density)(position)
    np.testing.assert_allclose(found, [prior + jacobian, rest], rtol=1e-4)


@pytest.mark.parametrize("make", [lambda: dist.HalfNormal(1.0), lambda: dist.LogNormal(0.0, 1.0)])
def test_a_scaled_density_is_not_nan_where_it_is_minus_infinite(make):
    target = ppl.unconstrain(ppl.scale(lambda key: ppl.sample(key, make(), name="x"), 2.0))
    assert target.log_density({"x": 1e30}) == -np.inf


def test_data_observed_in_part_have_no_weight():
    model = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")  # noqa: E731
    data = {"y": ppl.impute(np.array([1.0, np.nan]))}
    with pytest.raises(NotImplementedError, match="site 'y' is observed in part"):
        PriorWeights.of(ppl.condition(model, data), (), {})


def test_new_data_are_not_traced_again():
    """Data are what condition was given, arrays and floats among the arguments; integers are static."""
    calls = Calls()
    density, traces = counting(lambda target, position: target.log_density(position))
    model = lambda key, loc, num: ppl.sample(key, Counted(loc * jnp.ones(num), calls), name="x")  # noqa: E731
    scored = lambda x, loc, num: -0.5 * num * (np.log(2 * np.pi) + (x - loc) ** 2)  # noqa: E731
    for loc in (0.5, 2.0, np.float32(3.0), jnp.float32(1.0)):
        actual = density(ppl.unconstrain(model, loc, num=2), {"x": jnp.zeros(2)})
        assert_close(actual, np.float32(scored(0.0, loc, 2)), "float32")
    assert len(traces) == 2, "a Python float is weakly typed, arrays are not"
    assert calls.log_prob == 2
    actual = density(ppl.unconstrain(model, 0.5, num=3), {"x": jnp.zeros(3)})
    assert_close(actual, np.float32(scored(0.0, 0.5, 3)), "float32")
    assert len(traces) == 3
    assert calls.sample == 0


def test_new_observations_are_not_traced_again():
    density, traces = counting(lambda target, position: target.log_density(position))
    for shift in (0.0, 1.0):
        posterior = ppl.condition(random_walk, {"y": jnp.arange(5.0) + shift})
        target = ppl.unconstrain(posterior, 0.5 + shift, num_steps=5)
        position = {"scale": 0.1, "x": jnp.zeros(5)}
        assert_close(density(target, position), target.log_density(position), "float32")
    assert len(traces) == 1


def test_target_is_a_pytree():
    """It can be mapped over its data: here, a posterior for each row."""
    target_of = lambda y: ppl.unconstrain(ppl.condition(eight_schools, {"y": y}), SIGMA)  # noqa: E731
    position = {"mu": 0.1, "tau": 0.2, "theta": jnp.ones(8)}
    density = jax.jit(lambda target: target.log_density(position))
    ys = jnp.stack([EFFECTS, 2 * EFFECTS])
    actual = jax.jit(jax.vmap(density))(jax.vmap(target_of)(ys))
    assert_close(actual, jnp.stack([density(target_of(y)) for y in ys]), "float32")


SETS = {
    "simplex": (lambda: dist.Dirichlet(jnp.ones(3)), [0.2, 0.3, 0.5], [1.0, 2.0, 3.0]),
    "simplices": (
        lambda: dist.Dirichlet(jnp.ones((2, 3))),
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]],
        [[0.2, 0.3, 0.5], [0.1, 0.1, 0.9]],
    ),
    "correlation factor": (
        lambda: dist.LKJCholesky(2, 1.0),
        [[1.0, 0.0], [0.6, 0.8]],
        [[1.0, 0.0], [1.0, 1.0]],
    ),
    "covariance": (
        lambda: dist.InverseWishart(4.0, scale=jnp.eye(2)),
        [[2.0, 1.0], [1.0, 2.0]],
        [[2.0, 1.0], [-1.0, 2.0]],
    ),
    "ordered": (
        lambda: dist.TransformedDistribution(
            dist.Normal(jnp.zeros(2), 1.0), dist.bijectors.Ordered()
        ),
        [1.0, 2.0],
        [2.0, 1.0],
    ),
    "each": (lambda: dist.iid(dist.Gamma(1.0, 1.0), 2), [1.0, 2.0], [1.0, -1.0]),
}


@pytest.mark.slow_rows("correlation factor")
@pytest.mark.parametrize(("make", "value", "outside"), SETS.values(), ids=SETS)
def test_what_is_outside_of_its_support_has_no_position(make, value, outside, x64):
    target = ppl.unconstrain(one(make))
    value = {"x": jnp.array(value)}
    position = jax.jit(target.unconstrain)(value)
    assert_close(target.constrain(position), value, "float64")
    found = jax.jit(target.unconstrain)({"x": jnp.array(outside)})["x"]
    rows = found.reshape(-1, found.shape[-1])  # of the two simplices, one is none
    assert np.isfinite(rows).all(-1).tolist() == [True, False][-len(rows) :]
    assert not np.isfinite(rows[-1]).any()


def test_gradient_is_finite_far_out():
    """Where the map saturates, the density is -inf at worst and no gradient is NaN."""
    target = ppl.unconstrain(by_group, real(3, 4))
    value_and_grad = jax.jit(jax.value_and_grad(target.log_density))
    for far in (-200.0, -50.0, 50.0, 200.0):
        position = jax.tree.map(lambda x, far=far: jnp.full_like(x, far), target.initial(KEY))
        value, gradient = value_and_grad(position)
        assert not jnp.isnan(value)
        assert not jnp.isnan(ravel_pytree(gradient)[0]).any() or value == -jnp.inf


def test_a_start_at_deterministic_sites_alone_is_refused():
    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.deterministic(2.0 * x, name="y")

    target = ppl.unconstrain(model)
    start = target.initial(jax.random.key(0), {"x": 1.0, "y": 7.0})
    assert start["x"] == 1.0
    with pytest.raises(ValueError, match=r"values came for 'y' alone.*Use one of: 'x'"):
        target.initial(jax.random.key(0), {"y": 7.0})
