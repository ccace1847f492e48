"""Sites in a cond whose predicate `vmap` maps: each element has the branch that it takes.

The oracles are the same programs as loops over elements in Python with `if`, and SciPy.
"""

# ruff: noqa: E731

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from scipy import stats

import distributions as dist
import ppl

from .checks import assert_close

HIGH = np.array([True, False, True, False])
X = np.array([1.0, -1.0, 2.0, -2.0])
VALUES = {"mu": 0.7, "x": np.array([0.3, 0.4, -1.0, 0.2])}
Y = np.array([0.1, 0.2, 0.3, 0.4])
NUM_SERIES, NUM_STEPS = 2, 3
FLAGS = np.array([[True, False, True], [False, False, True]])
STEPS = np.array([[0.3, -1.2, 2.0], [0.1, 0.7, -0.4]])


def element(mu, x, key):
    high = lambda: ppl.sample(key, dist.Normal(mu + x, 2.0), name="x")
    low = lambda: ppl.sample(key, dist.Laplace(mu, 3.0), name="x")
    return lax.cond(x > 0, high, low)


def mixed(key, x):
    a, b, c = split(key, 3)
    mu = ppl.sample(a, dist.Normal(0.0, 1.0), name="mu")
    v = jax.vmap(element, (None, 0, 0))(mu, x, split(b, len(x)))
    return ppl.sample(c, dist.Normal(v, 1.0), name="y")


def of_element(mu, x, v):
    return stats.norm(mu + x, 2.0).logpdf(v) if x > 0 else stats.laplace(mu, 3.0).logpdf(v)


def score(mu, values, x):
    of_x = [of_element(mu, *pair) for pair in zip(x, values, strict=True)]
    return stats.norm(0.0, 1.0).logpdf(mu), np.array(of_x), stats.norm(values, 1.0).logpdf(Y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_density_and_gradient(dtype):
    with jax.enable_x64(dtype == "float64"):
        x, values = jax.tree.map(lambda a: jnp.asarray(a, dtype), (X, VALUES))
        posterior = ppl.condition(mixed, {"y": jnp.asarray(Y, dtype)})
        both = jax.jit(jax.value_and_grad(ppl.log_density(posterior)))(values, x)
        of_mu, of_x, of_y = score(**{"mu": 0.7, "values": VALUES["x"], "x": X})
        pulls = Y - VALUES["x"]
        sides = np.sign(0.7 - VALUES["x"]) / 3.0
        slopes = np.where(HIGH, (VALUES["x"] - 0.7 - X) / 4.0, -sides)
        gradient = {"mu": -0.7 + slopes.sum(), "x": pulls - slopes}
        assert_close(both, (of_mu + of_x.sum() + of_y.sum(), gradient), dtype)
        scores = jax.jit(ppl.log_probs(posterior))(values, x)
        assert_close(scores, {"mu": of_mu, "x": of_x, "y": of_y}, dtype)
        fixed = ppl.intervene(posterior, {"x": values["x"]})
        assert_close(ppl.log_density(fixed)({"mu": values["mu"]}, x), of_mu + of_y.sum(), dtype)


def test_draws_and_graph(x64):
    values = jax.jit(ppl.simulate(mixed))(key(1), X)
    keys = split(split(key(1), 3)[1], 4)
    by_hand = [element(values["mu"], *pair) for pair in zip(X, keys, strict=True)]
    assert_close(values["x"], jnp.stack(by_hand))
    graph = ppl.graph(ppl.condition(mixed, {"y": Y}))(X)
    assert "Laplace | Normal  float64[4]  vmap 4  <- mu" in str(graph)
    predicted = ppl.predict(mixed, {"mu": jnp.zeros(5)})(key(2), X)
    assert {name: x.shape for name, x in predicted.items()} == {"x": (5, 4), "y": (5, 4)}
    half = ppl.impute(np.array([1.0, np.nan, 2.0, np.nan]))
    given = ppl.condition(mixed, {"x": half, "y": Y})
    whole = np.array([1.0, 0.5, 2.0, -0.5])
    expected = sum(np.sum(part) for part in score(0.1, whole, X))
    assert_close(ppl.log_density(given)({"mu": 0.1, "x": whole}, X), np.asarray(expected))


def test_supports_of_elements(x64):
    def model(key, high):
        def one(key, high):
            positive = lambda: ppl.sample(key, dist.Gamma(2.0, 3.0), name="x")
            real = lambda: ppl.sample(key, dist.Normal(0.0, 2.0), name="x")
            return lax.cond(high, positive, real)

        return jax.vmap(one)(split(key, 4), high)

    target, at = ppl.unconstrain(model, HIGH), np.array([-0.4, -0.3, 0.8, -1.5])
    values = np.where(HIGH, np.exp(at), at)
    densities = np.where(
        HIGH, stats.gamma(2, scale=1 / 3).logpdf(values), stats.norm(0, 2).logpdf(at)
    )
    slopes = np.where(HIGH, 2 - 3 * values, -at / 4)
    actual = jax.jit(jax.value_and_grad(target.log_density))({"x": at})
    assert_close(actual, (np.sum(densities + np.where(HIGH, at, 0.0)), {"x": slopes}))
    assert_close(target.constrain({"x": at}), {"x": values})
    assert_close(target.unconstrain({"x": values}), {"x": at})
    outside = np.array([-1.0, -1.0, 2.0, 0.5])  # The first is no value of a Gamma.
    scores = ppl.log_probs(model)({"x": outside}, HIGH)["x"]
    assert (jnp.isfinite(scores) == jnp.array([False, True, True, True])).all()
    assert jnp.isfinite(jax.grad(ppl.log_density(model))({"x": outside}, HIGH)["x"]).all()


def step(state, inputs):
    """A step of a hidden Markov chain, whose laws depend on a flag."""
    key, flag = inputs
    a, b = split(key)
    p = jnp.where(state == 1, 0.8, 0.3)
    hidden = lambda p: lambda: ppl.sample(a, dist.Bernoulli(probs=p), name="z")
    state = lax.cond(flag, hidden(p), hidden(1 - p))
    high = lambda: ppl.sample(b, dist.Normal(1.0 * state, 1.0), name="y")
    low = lambda: ppl.sample(b, dist.Laplace(2.0 * state, 2.0), name="y")
    return state, lax.cond(flag, high, low)


def chains_by_vmap(key, flags):
    each = lambda key, flags: lax.scan(step, 1, (split(key, NUM_STEPS), flags))[1]
    return jax.vmap(each)(split(key, NUM_SERIES), flags)


def chains_by_scan(key, flags):
    def steps(states, inputs):
        key, flags = inputs
        return jax.vmap(step)(states, (split(key, NUM_SERIES), flags))

    return lax.scan(steps, jnp.ones(NUM_SERIES, int), (split(key, NUM_STEPS), flags.T))[1]


def by_path(z, series):
    """Log density of a path of the hidden states and of the data of one series."""
    total, before = 0.0, 1
    for state, flag, y in zip(z, FLAGS[series], STEPS[series], strict=True):
        p = 0.8 if before == 1 else 0.3
        total += stats.bernoulli(p if flag else 1 - p).logpmf(state)
        total += (stats.norm(state, 1.0) if flag else stats.laplace(2 * state, 2.0)).logpdf(y)
        before = state
    return total


@pytest.mark.parametrize("model", [chains_by_vmap, chains_by_scan])
def test_chains_and_sums(model, x64):
    """A vmap of a scan and a scan of a vmap: the axes stand as the program has them."""
    turn = np.transpose if model is chains_by_scan else np.asarray
    data = ppl.condition(model, {"y": turn(STEPS)})
    z = np.array([[1, 0, 1], [0, 0, 1]])
    expected = sum(by_path(z[i], i) for i in range(NUM_SERIES))
    assert_close(ppl.log_density(data)({"z": turn(z)}, FLAGS), np.asarray(expected))
    paths = list(itertools.product([0, 1], repeat=NUM_STEPS))
    sums = [np.logaddexp.reduce([by_path(z, i) for z in paths]) for i in range(NUM_SERIES)]
    summed = ppl.marginalize(data, ["z"])
    assert_close(jax.jit(ppl.log_density(summed))({}, FLAGS), np.asarray(sum(sums)))
    assert ppl.log_probs(summed)({}, FLAGS)["y"].shape == turn(STEPS).shape
    assert ppl.recover(summed, {})(key(0), FLAGS)["z"].shape == turn(z).shape


def test_scan_in_vmap_of_vmap(x64):
    """The axis of the loop stands between those of two vmaps."""
    flags = np.random.default_rng(0).random((2, 3, 4)) < 0.5
    values = np.random.default_rng(1).normal(size=(2, 3, 4))

    def one(mean, key, flag):
        high = lambda: ppl.sample(key, dist.Normal(mean, 1.0), name="y")
        return lax.cond(flag, high, lambda: ppl.sample(key, dist.Laplace(mean, 2.0), name="y"))

    def group(key, flags):
        def step(mean, inputs):
            key, flags = inputs
            return mean + 1, jax.vmap(one, (None, 0, 0))(mean, split(key, 4), flags)

        return lax.scan(step, 0.0, (split(key, 3), flags))[1]

    model = lambda key: jax.vmap(group)(split(key, 2), flags)
    mean = np.arange(3.0)[:, None]
    expected = np.where(
        flags, stats.norm(mean).logpdf(values), stats.laplace(mean, 2).logpdf(values)
    )
    assert_close(ppl.log_probs(ppl.condition(model, {"y": values}))({})["y"], expected)


def test_integral_over_a_shared_site(x64):
    """Normal branches are integrated over jointly, whichever elements take them."""

    def model(key, x):
        a, b = split(key)
        mu = ppl.sample(a, dist.Normal(0.0, 1.0), name="mu")

        def one(x, key):
            high = lambda: ppl.sample(key, dist.Normal(mu + x, 2.0), name="y")
            return lax.cond(
                x > 0, high, lambda: ppl.sample(key, dist.Normal(2 * mu, 3.0), name="y")
            )

        return jax.vmap(one)(x, split(b, len(x)))

    slopes, scales = np.where(HIGH, 1.0, 2.0), np.where(HIGH, 2.0, 3.0)
    covariance = np.outer(slopes, slopes) + np.diag(scales**2)
    data = ppl.condition(model, {"y": Y})
    expected = stats.multivariate_normal(np.where(HIGH, X, 0.0), covariance).logpdf(Y)
    summed = ppl.marginalize(data, {"mu": ppl.Gaussian()})
    assert_close(ppl.log_density(summed)({}, X), np.asarray(expected))
    precision = 1 + np.sum(slopes**2 / scales**2)
    exact = ppl.conditional(data, "mu")({"mu": 0.0}, X)
    assert_close(exact.scale, np.asarray(precision**-0.5))
    draws = jax.vmap(lambda key: ppl.recover(summed, {})(key, X)["mu"])(split(key(0), 2000))
    assert abs(draws.mean() - exact.loc) < 4 * precision**-0.5 / 2000**0.5


@pytest.mark.parametrize("loop", ["vmap", "scan"])
def test_sum_over_the_index_of_a_branch(loop, x64):
    """The site that chooses the branch is summed out; derivatives know the choice."""

    def one(index, key):
        shapes = [1.0, 2.0]
        draw = lambda a: lambda: ppl.sample(key, dist.Gamma(a, 1.0), name="x")
        return lax.switch(index, [draw(a) for a in shapes])

    def model(key):
        a, b = split(key)
        z = ppl.sample(a, dist.Bernoulli(probs=jnp.array([0.3, 0.6])), name="z")
        keys = split(b, 2)
        if loop == "vmap":
            return jax.vmap(one)(z, keys)
        return lax.scan(lambda _, row: (None, one(*row)), None, (z, keys))[1]

    x, p = np.array([0.5, 1.5]), np.array([0.3, 0.6])
    terms = (1 - p) * np.exp(-x), p * x * np.exp(-x)
    summed = ppl.log_density(ppl.marginalize(model, ["z"]))
    expected = np.log(sum(terms)).sum(), {"x": -1 + terms[1] / x / sum(terms)}
    assert_close(jax.value_and_grad(summed)({"x": x}), expected)


def test_refusals():
    """One variable for several elements, one branch without the site, and branches that reduce."""
    branches = lambda key, scale: [
        lambda: ppl.sample(key, dist.Normal(0.0, scale()), name="x"),
        lambda: ppl.sample(key, dist.Normal(1.0, scale()), name="x"),
    ]
    one_key = lambda key: jax.vmap(lambda b: lax.cond(b, *branches(key, lambda: 1.0)))(HIGH)
    with pytest.raises(ValueError, match=r"'x' would have the same draw in several elements"):
        ppl.log_density(one_key)({"x": jnp.zeros(4)})
    some = lambda key: jax.vmap(lambda b, k: lax.cond(b, branches(k, lambda: 1.0)[0], lambda: 0.0))(
        HIGH, split(key, 4)
    )
    with pytest.raises(ValueError, match=r"'x' is in some branches of a cond and not in others"):
        ppl.simulate(some)(key(0))
    reduced = lambda key: jax.vmap(
        lambda b, k: lax.cond(b, *branches(k, lambda: lax.psum(b + 1.0, "i"))), axis_name="i"
    )(HIGH, split(key, 4))
    assert reduced(key(0)).shape == (4,)
    with pytest.raises(ValueError, match=r"'x'.*predicate a vmap maps.*collective"):
        ppl.simulate(reduced)(key(0))
