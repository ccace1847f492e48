"""scale: factors and weights of scores, in front of sums and integrals over latent sites."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split
from scipy import stats

import distributions as dist
import inference
import ppl

pytestmark = pytest.mark.usefixtures("x64")
Y = np.array([0.3, -1.2, 2.0, 4.0])
WEIGHTS = np.array([1.0, 2.0, 0.0, 0.5])
MU = 0.4


def class_and_row(mu, key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")


def level_and_row(mu, key):
    z = ppl.sample(key, dist.Normal(mu, 2.0), name="z")
    ppl.sample(key, dist.Normal(z, 1.0), name="y")


def count_and_row(mu, key):
    z = ppl.sample(key, dist.Normal(mu, 0.7), name="z")
    ppl.sample(key, dist.Poisson(jnp.exp(z)), name="y")


def log_class(y):
    p = 0.7 * stats.norm.pdf(y, MU) + 0.3 * stats.norm.pdf(y, MU + 2)
    return np.log(p)


def log_count(y):
    """Laplace's approximation by bisection for the mode."""
    low, high = -20.0, 20.0
    for _ in range(100):
        z = (low + high) / 2
        low, high = (z, high) if y - np.exp(z) - (z - MU) / 0.49 > 0 else (low, z)
    height = stats.poisson.logpmf(y, np.exp(z)) + stats.norm.logpdf(z, MU, 0.7)
    return height + np.log(2 * np.pi / (np.exp(z) + 1 / 0.49)) / 2


ROWS = {  # a row with a latent site, how that is taken out, data, and the log probability of a row
    "sum": (class_and_row, ppl.Enumerate(), Y, log_class),
    "integral": (level_and_row, ppl.Gaussian(), Y, lambda y: stats.norm.logpdf(y, MU, 5**0.5)),
    "laplace": (count_and_row, ppl.Laplace(), np.array([3, 0, 1, 5]), np.vectorize(log_count)),
}


def by_vmap(row, key, n, factor):
    ppl.scale(jax.vmap(row), factor)(split(key, n))


def by_scan(row, key, n, factor):
    ppl.scale(lambda keys: lax.scan(lambda c, k: (c, row(k)), 0, keys)[0], factor)(split(key, n))


def within_vmap(row, key, n, factor):
    jax.vmap(lambda k, w: ppl.scale(row, w)(k))(split(key, n), jnp.broadcast_to(factor, n))


def within_scan(row, key, n, factor):
    rows = split(key, n), jnp.broadcast_to(factor, n)
    lax.scan(lambda c, x: (c, ppl.scale(row, x[1])(x[0])), 0, rows)


def again(row, key, n, factor):
    ppl.scale(lambda k: by_vmap(row, k, n, factor), 3.0)(key)


LOOPS = {
    "vmap": by_vmap,
    "scan": by_scan,
    "in_vmap": within_vmap,
    "in_scan": within_scan,
    "again": again,
}
PAIRS = [("sum", x) for x in LOOPS] + [("integral", "in_scan"), ("laplace", "vmap")]


def posterior(name, loop, factor, y, *, is_given_first=True):
    row, how, _, _ = ROWS[name]

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        LOOPS[loop](lambda k: row(mu, k), key, len(y), factor)

    if is_given_first:
        return ppl.marginalize(ppl.condition(model, {"y": y}), {"z": how})
    return ppl.condition(ppl.marginalize(model, {"z": how}), {"y": y})


@pytest.mark.slow_rows("sum-in_vmap", "sum-again")
@pytest.mark.parametrize(("name", "loop"), PAIRS)
def test_factors_stand_in_front_of_sums_and_integrals(name, loop):
    """A number, and weights of rows that have latent sites of their own."""
    _, _, y, exact_row = ROWS[name]
    rows = exact_row(y) * (3.0 if loop == "again" else 1.0)
    tolerance = 1e-8 if name == "laplace" else 1e-12

    @jax.jit
    def density(factor):
        return ppl.log_density(posterior(name, loop, factor, y))({"mu": MU})

    for factor in (2.5, WEIGHTS):
        found, slope = jax.value_and_grad(density)(jnp.asarray(factor))
        exact = stats.norm.logpdf(MU) + np.sum(factor * rows)
        np.testing.assert_allclose(found, exact, rtol=tolerance)
        np.testing.assert_allclose(slope, rows if np.ndim(factor) else rows.sum(), rtol=tolerance)
        given_after = posterior(name, loop, factor, y, is_given_first=False)
        np.testing.assert_allclose(ppl.log_density(given_after)({"mu": MU}), exact, rtol=tolerance)


def test_a_scaled_sum_is_a_scaled_function_summed():
    """The sum is scored at the last site that depends on the summed one; here it is latent."""

    def rows(key):
        z = ppl.sample(key, dist.Bernoulli(probs=np.full(4, 0.3)), name="z")
        ppl.factor(0.5 * z, name="f")
        ppl.sample(key, dist.Normal(MU + 2.0 * z, 1.0), name="y")

    before = ppl.marginalize(ppl.scale(rows, WEIGHTS), ["z"])
    after = ppl.scale(ppl.marginalize(rows, ["z"]), WEIGHTS)
    p = 0.7 * stats.norm.pdf(Y, MU) + 0.3 * np.exp(0.5) * stats.norm.pdf(Y, MU + 2)
    exact = np.sum(WEIGHTS * np.log(p))
    for model in (before, after):
        np.testing.assert_allclose(ppl.log_density(model)({"y": Y}), exact, rtol=1e-12)
        np.testing.assert_allclose(ppl.unconstrain(model).log_density({"y": Y}), exact, rtol=1e-12)


def test_a_factor_of_a_chain_of_classes_with_levels():
    """Sums over integrals over a whole chain: the factor is in front of both."""

    def chain(key):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, 0.3, 0.6)), name="z")
            x = ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="x")
            ppl.sample(key, dist.Normal(x, 1.0), name="y")
            return z, None

        lax.scan(step, 0, split(key, 4))

    taken_out = {"z": ppl.Enumerate(), "x": ppl.Gaussian()}
    given = ppl.condition(chain, {"y": Y})
    plain = ppl.log_density(ppl.marginalize(given, taken_out))({})
    total = 0.0
    for states in itertools.product((0, 1), repeat=4):
        p, last = 1.0, 0
        for z, y in zip(states, Y, strict=True):
            chance = 0.3 if last == 1 else 0.6
            p *= abs(1 - z - chance) * stats.norm.pdf(y, 2.0 * z, 2**0.5)
            last = z
        total += p
    np.testing.assert_allclose(plain, np.log(total), rtol=1e-12)
    scaled = ppl.marginalize(ppl.scale(given, 2.5), taken_out)
    np.testing.assert_allclose(ppl.log_density(scaled)({}), 2.5 * plain, rtol=1e-12)
    drawn = ppl.recover(scaled, {}, log_weights=True)(jax.random.key(0))[0]
    unscaled = ppl.recover(ppl.marginalize(given, taken_out), {})(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, drawn, unscaled)  # p(z, x | y) as it is


@pytest.mark.parametrize("name", ROWS)
def test_the_mean_over_minibatches_is_the_density_of_all_rows(name):
    _, _, y, exact_row = ROWS[name]

    @jax.jit
    def estimate(batch):
        scaled = posterior(name, "vmap", len(y) / len(batch), batch)
        return ppl.log_density(scaled)({"mu": MU})

    batches = itertools.combinations(y, 2)
    mean = np.mean([estimate(np.array(batch)) for batch in batches])
    exact = stats.norm.logpdf(MU) + exact_row(y).sum()
    np.testing.assert_allclose(mean, exact, rtol=1e-8)


def shared_class(key, factor):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.scale(lambda k: ppl.sample(k, dist.Normal(z * jnp.ones(4), 1.0), name="y"), factor)(key)


def two_scales(key, factor):
    z = ppl.scale(lambda k: ppl.sample(k, dist.Bernoulli(probs=0.3), name="z"), factor)(key)
    shared = lambda k: ppl.sample(k, dist.Normal(z * jnp.ones(4), 1.0), name="y")  # noqa: E731
    ppl.scale(shared, 2.0)(key)


def depends(key, factor):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.scale(lambda k: ppl.sample(k, dist.Normal(jnp.zeros(4), 1.0), name="y"), factor + z)(key)


def reversed_rows(key, factor):
    def rows(key):
        z = ppl.sample(key, dist.Bernoulli(probs=np.full(4, 0.3)), name="z")
        ppl.sample(key, dist.Normal(z[np.array([3, 2, 1, 0])], 1.0), name="y")

    ppl.scale(rows, factor)(key)


def chain_of_rows(key, factor):
    def step(z, key):
        z = ppl.sample(key, dist.Categorical(logits=jnp.stack([0.0 * z, 1.0 * z])), name="z")
        ppl.sample(key, dist.Normal(z, 1.0), name="y")
        return z, None

    ppl.scale(lambda keys: lax.scan(step, 0, keys)[0], factor)(split(key, 4))


REFUSED = {
    "one_scaled": (shared_class, 2.0, "different factors: 'z' by 1, 'y' by 2. A factor multiplies"),
    "two_factors": (two_scales, 3.0, "different factors: 'z' by 3, 'y' by 2"),
    "shared": (shared_class, WEIGHTS, "'z' by 1, 'y' by weights of its elements"),
    "by_index": (reversed_rows, WEIGHTS, "weights of its elements"),
    "chain": (chain_of_rows, WEIGHTS, "the weights that ppl.scale gives the elements of site 'z'"),
    "of_the_sum": (depends, 1.0, "a factor of ppl.scale at site 'y' depends on 'z'"),
}


@pytest.mark.parametrize(("model", "factor", "message"), REFUSED.values(), ids=REFUSED)
def test_sums_with_several_factors_are_refused(model, factor, message):
    summed = ppl.marginalize(ppl.condition(model, {"y": Y}), ["z"])
    with pytest.raises(ValueError, match=re.escape(message)):
        ppl.log_density(summed)({}, factor)


@pytest.mark.parametrize("index", [[2, 0, 1, 3], [1, 0, 0, 3]])
def test_weights_of_groups_that_are_no_rows_are_refused(index):
    """A permutation that is known is not: each observation has a score of its own."""

    def model(key, index):
        z = ppl.sample(key, dist.Bernoulli(probs=np.array([0.2, 0.5, 0.9, 0.4])), name="z")
        ppl.sample(key, dist.Normal(2.0 * z[index], 1.0), name="y")

    def scaled(model):
        return ppl.scale(ppl.marginalize(ppl.condition(model, {"y": Y}), ["z"]), WEIGHTS)

    known = scaled(lambda key: model(key, np.array(index)))
    with pytest.raises(ValueError, match=r"scale: .* site 'y' are those of groups of entries"):
        ppl.log_density(scaled(model))({}, np.array(index))
    if len(set(index)) < 4:
        with pytest.raises(ValueError, match=r"scale: .* site 'y' are those of groups of entries"):
            ppl.log_density(known)({})
        return
    p = np.array([0.2, 0.5, 0.9, 0.4])[index]
    rows = np.log((1 - p) * stats.norm.pdf(Y) + p * stats.norm.pdf(Y, 2.0))
    np.testing.assert_allclose(ppl.log_density(known)({}), np.sum(WEIGHTS * rows), rtol=1e-12)


def test_factors_that_are_not_known_are_equal_if_they_are_one():
    summed = ppl.marginalize(ppl.condition(two_scales, {"y": Y}), ["z"])
    p = 0.7 * stats.norm.pdf(Y, 0).prod() + 0.3 * stats.norm.pdf(Y, 1).prod()
    np.testing.assert_allclose(ppl.log_density(summed)({}, 2.0), 2 * np.log(p), rtol=1e-12)
    with pytest.raises(ValueError, match="'z' by a number that is not known before it runs"):
        jax.jit(ppl.log_density(summed))({}, 2.0)


def test_weights_are_the_first_axes_of_scores():
    """In a `vmap` around a loop around a `vmap`; of terms, too; weights of weights multiply."""

    def row(key, x):
        def step(carry, key):
            ppl.factor(jnp.stack([x, carry]), name="f")
            one = lambda k: ppl.sample(k, dist.Normal(np.zeros(2), 1.0), name="y")  # noqa: E731
            return carry + 1, jax.vmap(one)(split(key, 3))

        return lax.scan(step, 0.0, split(key, 5))[1]

    model = lambda key: jax.vmap(row)(split(key, 4), np.arange(4.0))  # noqa: E731
    y = model(jax.random.key(0))
    found = ppl.log_probs(model)({"y": y})
    for shape in ((4,), (4, 5)):
        weights = np.random.default_rng(0).uniform(size=shape)
        scaled = lambda w: ppl.log_probs(ppl.scale(ppl.scale(model, w), 2.0))({"y": y})  # noqa: E731
        for name, x in jax.jit(scaled)(weights).items():
            factor = weights.reshape(shape + (1,) * (found[name].ndim - len(shape)))
            np.testing.assert_allclose(x, 2 * factor * found[name], rtol=1e-12)
    message = r"site 'f' has log probabilities of shape \(4, 5, 2\), for weights of shape \(5,\)"
    with pytest.raises(ValueError, match=message):
        ppl.log_density(ppl.scale(model, np.ones(5)))({"y": y})


def test_draws_of_a_prior_are_weighted_by_its_factor():
    """A standard normal prior to the power 3: given y = 1 with unit noise, the mean is 1 / 4."""

    def model(key):
        prior = lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x")  # noqa: E731
        ppl.sample(key, dist.Normal(ppl.scale(prior, 3.0)(key), 1.0), name="y")

    given = ppl.condition(model, {"y": 1.0})
    result = inference.importance(jax.random.key(0), given, num_draws=20_000)
    x, weights = result.draws["x"][0], np.asarray(result.weights)[0]
    mean = np.sum(weights * x)
    assert abs(mean - 0.25) < 4.5 * np.sqrt(np.sum(weights**2 * (x - mean) ** 2))


def test_weights_of_steps_of_a_chain_are_refused_in_both_orders():
    """The number of a step is a density given all data before it, not one of its data alone."""

    def chain(keys):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, 0.3, 0.6)), name="z")
            ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")
            return z, None

        lax.scan(step, 0, keys)

    def one(key):
        chain(split(key, 4))

    def several(key):
        jax.vmap(lambda key: one(key))(split(key, 2))

    for model in (
        lambda: ppl.marginalize(ppl.scale(one, WEIGHTS), ["z"]),
        lambda: ppl.scale(ppl.marginalize(one, ["z"]), WEIGHTS),
    ):
        with pytest.raises(ValueError, match="weight"):
            ppl.log_density(model())({"y": Y})
    data, weights = {"y": np.stack([Y, Y + 1])}, WEIGHTS[:2]
    found = ppl.log_density(ppl.scale(ppl.marginalize(several, ["z"]), weights))(data)
    each = [ppl.log_density(ppl.marginalize(one, ["z"]))({"y": y}) for y in data["y"]]
    np.testing.assert_allclose(found, np.dot(weights, each), rtol=1e-12)


def series_of_classes(key):
    """Series that come apart: each has a class of its own, or a chain of normal states."""

    def series(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")

        def step(x, key):
            x = ppl.sample(key, dist.Normal(0.5 * x, 1.0), name="x")
            return x, ppl.sample(key, dist.Normal(x + 2.0 * z, 1.0), name="y")

        return jax.lax.scan(step, 0.0, jax.random.split(key, 3))[1]

    return jax.vmap(series)(jax.random.split(key, 2))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("taken", ["z", "x", "both"])
def test_weights_of_series_multiply_their_whole_sums(taken):
    y, weights = np.array([[0.3, -1.0, 2.0], [1.2, 0.4, -0.2]]), np.array([0.5, 2.0])
    steps = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.25, 0.5, 1.0]])
    cov = steps @ steps.T + np.eye(3)
    x = np.array([[0.1, 0.4, 1.0], [-0.3, 0.2, 0.9]])

    def log_prob(i, z):
        both = stats.norm.logpdf(y[i], x[i] + 2.0 * z).sum()
        both += stats.norm.logpdf(x[i] - 0.5 * np.append(0.0, x[i][:2])).sum()
        of_data = stats.multivariate_normal(np.full(3, 2.0 * z), cov).logpdf(y[i])
        return np.log(0.3 if z else 0.7) + (both if taken == "z" else of_data)

    series = np.array([[log_prob(i, z) for z in (0, 1)] for i in (0, 1)])
    z = np.array([0, 1])
    each = series[[0, 1], z] if taken == "x" else np.logaddexp(*series.T)
    how = {"z": ["z"], "x": {"x": ppl.Gaussian()}}
    how["both"] = {"x": ppl.Gaussian(), "z": ppl.Enumerate()}
    given = {"z": {"x": x}, "x": {"z": z}, "both": {}}[taken]

    @jax.jit
    def weighted(weights):
        scaled = ppl.scale(ppl.condition(series_of_classes, {"y": y}), weights)
        return ppl.log_density(ppl.marginalize(scaled, how[taken]))(given)

    np.testing.assert_allclose(weighted(weights), weights @ each, rtol=1e-12)
