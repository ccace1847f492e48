"""marginalize: what it takes, and scores of sites that depend on what is taken out by others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import lax
from jax.random import split

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")


def behind(key):
    """All of `y`, `series`, `rows` and the factor depend on `x` by `w` alone."""
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="x")
    w = ppl.sample(key, dist.Normal(x, 1.0), name="w")
    ppl.sample(key, dist.Poisson(jnp.exp(w)), name="y")

    def step(last, key):
        value = ppl.sample(key, dist.Normal(0.5 * last + w[0], 1.0), name="series")
        return value, value

    lax.scan(step, 0.0, split(key, 4))
    row = lambda key, w: ppl.sample(key, dist.Normal(w, 0.5), name="rows")  # noqa: E731
    jax.vmap(row)(split(key, 3), w)
    ppl.factor(jnp.sin(w), name="weight")


DATA = {"y": np.array([0, 2, 1]), "series": np.arange(4.0), "rows": np.array([0.1, 0.4, -0.2])}


def test_sites_that_depend_by_others_alone_keep_their_own_terms():
    posterior = ppl.condition(behind, DATA)
    integrated = ppl.marginalize(posterior, {"x": ppl.Gaussian()})
    w = jnp.array([0.3, -0.2, 0.9])

    @jax.jit
    def all_of(w):
        ours, theirs = ppl.log_probs(integrated), ppl.log_probs(posterior)
        total = ppl.log_density(integrated)({"w": w})
        return ours({"w": w}), theirs({"w": w, "x": jnp.zeros(3)}), total

    found, expected, total = all_of(w)
    for name in ("y", "series", "rows", "weight"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    prior = dist.Normal(0.0, np.sqrt(5.0)).log_prob(w)
    np.testing.assert_allclose(found["w"], prior, rtol=1e-12)
    np.testing.assert_allclose(total, sum(map(jnp.sum, found.values())), rtol=1e-12)


def test_with_no_latent_site_left_one_draw_is_recovered():
    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 1e-6), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": np.ones(2)}), {"x": ppl.Gaussian()})
    found = ppl.recover(summed, {})(jax.random.key(0))
    np.testing.assert_allclose(found["x"], 1.0, atol=1e-4)
    with pytest.raises(ValueError, match="every latent site; missing: 'y'"):
        ppl.recover(ppl.marginalize(model, {"x": ppl.Gaussian()}), {})(jax.random.key(0))


@pytest.mark.parametrize(
    ("sites", "match"),
    [
        ("z", r"expected a list of names of sites, .* got 'z'; write \['z'\]"),
        (ppl.Enumerate(), r"or the rule ppl.auto_marginal, got Enumerate\(max_states=65536\)"),
        (ppl.Gaussian, "a dict from names to"),
        ([("a", "z")], r"got the name \('a', 'z'\)"),
        ({"z": "sum"}, "got 'z': 'sum'"),
        ({"z": ppl.Enumerate}, r"write ppl.Enumerate\(\)"),
    ],
)
def test_what_to_take_out_is_explained(sites, match):
    with pytest.raises(TypeError, match=match):
        ppl.marginalize(behind, sites)


@pytest.mark.parametrize("strategy", [ppl.Enumerate, ppl.Gaussian])
@pytest.mark.parametrize("limit", [0, "a", True, 1e5])
def test_limits_are_counts(strategy, limit):
    with pytest.raises(ValueError, match=r"max_.* must be an integer of at least 1, got "):
        strategy(limit)


@pytest.mark.parametrize("shape", [(5, 1), (1, 3)])
def test_an_axis_of_size_one_is_shared_by_all_that_repeat_it(shape):
    """JAX multiplies such arrays without a broadcast."""
    y = np.random.default_rng(0).normal(size=(5, 3))

    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(shape, 0.3)), name="z")
        ppl.sample(key, dist.Normal(2.0 * z * jnp.ones((5, 3)), 1.0), name="y")

    density = lambda z: np.exp(-0.5 * (y - 2.0 * z) ** 2) / np.sqrt(2 * np.pi)  # noqa: E731
    axis = shape.index(1)
    exact = np.log(0.7 * density(0).prod(axis) + 0.3 * density(1).prod(axis)).sum()
    summed = ppl.marginalize(ppl.condition(model, {"y": y}), ["z"])
    np.testing.assert_allclose(ppl.log_density(summed)({}), exact, rtol=1e-12)


def normal(y, mean):
    """The density of normal data with the scale 1."""
    return np.exp(-0.5 * (y - mean) ** 2) / np.sqrt(2 * np.pi)


def mixture(take, shape):
    """A mixture whose elements are read from an array of classes by `take`."""

    def model(key):
        probs = jnp.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape)
        z = ppl.sample(key, dist.Bernoulli(probs=probs), name="z")
        ppl.sample(key, dist.Normal(2.0 * take(z), 1.0), name="y")

    return model


TAKES = {
    "permuted": (lambda z: z[np.array([2, 0, 1])], (3,)),
    "some": (lambda z: z[np.array([2, 0])], (3,)),
    "transposed": (lambda z: z.T, (2, 3)),
    "both": (lambda z: z.T[np.array([1, 2, 0])], (2, 3)),
}


@pytest.mark.parametrize("name", TAKES)
def test_a_mixture_scores_each_observation_in_its_own_place(name):
    """The oracle takes the probabilities as the model takes the classes."""
    take, shape = TAKES[name]
    probs = take(np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape))
    y = np.random.default_rng(0).normal(1.0, 2.0, size=probs.shape)
    exact = np.log((1 - probs) * normal(y, 0.0) + probs * normal(y, 2.0))
    summed = ppl.marginalize(mixture(take, shape), ["z"])
    conditioned = ppl.condition(summed, {"y": y})
    for found in (ppl.log_probs(summed)({"y": y}), jax.jit(ppl.log_probs(conditioned))({})):
        assert list(found) == ["y"]
        np.testing.assert_allclose(found["y"], exact, rtol=1e-12)
    np.testing.assert_allclose(ppl.log_density(conditioned)({}), exact.sum(), rtol=1e-12)


@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()])
@pytest.mark.parametrize("index", [[2, 0, 1], [2, 0, 2, 1, 0]])
def test_normal_effects_are_scored_by_observation_or_by_group(strategy, index):
    index = np.array(index)
    y = np.random.default_rng(0).normal(size=index.size)

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        x = ppl.sample(key, dist.Normal(jnp.arange(3.0), scale), name="x")
        ppl.sample(key, dist.Normal(2.0 * x[index], 1.0), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": y}), {"x": strategy})
    both = lambda values: (ppl.log_probs(summed)(values), ppl.log_density(summed)(values))  # noqa: E731
    found, total = jax.jit(both)({"scale": 0.7})
    groups = np.zeros(3)
    for i in range(3):
        residual = y[index == i] - 2.0 * i
        covariance = np.eye(residual.size) + 4.0 * 0.49
        log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
        groups[i] = -0.5 * (residual @ np.linalg.solve(covariance, residual) + log_det)
    name, exact = ("y", groups[index]) if index.size == 3 else ("x.y", groups)
    assert set(found) == {"scale", name}
    np.testing.assert_allclose(found[name], exact, rtol=1e-12)
    np.testing.assert_allclose(total, sum(map(jnp.sum, found.values())), rtol=1e-12)


INDEX = np.array([2, 0, 1])
GROUPED = {  # the group of each entry of y, and the name of the scores
    "indexed": (np.array([2, 0, 0, 1]), "z.y"),
    "index given": (INDEX, "z.y"),
    "rows": (np.repeat(np.arange(3), 2).reshape(3, 2), "z.y"),
    "parts": (np.repeat(np.arange(3), 2).reshape(3, 2), "y"),
    "two sites": (np.arange(3), "z.y.b"),
}


@pytest.mark.parametrize("kind", GROUPED)
def test_entries_that_share_a_class_have_one_score_together(kind):
    """Under the name of their groups, but for the parts of one event, which is one observation."""
    group, name = GROUPED[kind]
    reads = {"indexed": group, "index given": INDEX}

    def model(key, index):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.5, 0.9])), name="z")
        loc = 2.0 * z[:, None] * jnp.ones((3, 2)) if group.ndim == 2 else 2.0 * z
        if kind in reads:
            loc = 2.0 * z[index if kind == "index given" else group]
        d = dist.Normal(loc, 1.0)
        ppl.sample(key, dist.Independent(d, 1) if kind == "parts" else d, name="y")
        if kind == "two sites":
            ppl.sample(key, dist.Normal(-1.0 * z, 1.0), name="b")

    rng = np.random.default_rng(0)
    data = {"y": rng.normal(size=group.shape)}
    data |= {"b": rng.normal(size=3)} if kind == "two sites" else {}
    exact = []
    for i, prob in enumerate([0.2, 0.5, 0.9]):
        states = [normal(data["y"][group == i], 2.0 * k).prod() for k in (0, 1)]
        if "b" in data:
            states = [x * normal(data["b"][i], -1.0 * k) for k, x in enumerate(states)]
        exact.append(np.log((1 - prob) * states[0] + prob * states[1]))
    posterior = ppl.condition(ppl.nest(model, scope="in"), {"in": data})
    summed = ppl.marginalize(posterior, ["in.z"])
    for run in (lambda f: f, jax.jit):
        found = run(ppl.log_probs(summed))({}, INDEX)["in"]
        assert list(found) == [name]
        np.testing.assert_allclose(found[name], exact, rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_series_have_a_score_a_step_in_the_shape_of_the_data(reverse):
    y = np.random.default_rng(0).normal(size=(4, 3))
    stay = np.array([[0.7, 0.3], [0.2, 0.8]])

    def series(key):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.asarray(stay)[z, 1]), name="z")
            return z, ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")

        return lax.scan(step, 0, split(key, 3), reverse=reverse)[1]

    model = lambda key: jax.vmap(series)(split(key, 4))  # noqa: E731
    summed = ppl.marginalize(ppl.condition(model, {"y": y}), ["z"])
    exact = np.zeros((4, 3))
    for i in range(4):
        alpha = np.array([1.0, 0.0])
        for t in (2, 1, 0) if reverse else (0, 1, 2):
            alpha = alpha @ stay * normal(y[i, t], np.array([0.0, 2.0]))
            exact[i, t], alpha = np.log(alpha.sum()), alpha / alpha.sum()
    np.testing.assert_allclose(jax.jit(ppl.log_probs(summed))({})["y"], exact, rtol=1e-12)


def test_a_sum_over_an_integral_names_all_that_is_scored():
    """`b` shares `mu` with `y`, and `y` alone depends on `z`."""

    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.25)), name="z")
        mu = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu, 1.0), name="b")
        ppl.sample(key, dist.Normal(mu + 4.0 * z, 1.0), name="y")

    b, y = np.array([0.0, 0.3, 0.7]), np.arange(3.0)
    strategies = {"z": ppl.Enumerate(), "mu": ppl.Gaussian()}
    found = ppl.log_probs(ppl.marginalize(ppl.condition(model, {"y": y}), strategies))({"b": b})
    covariance = np.array([[2.0, 1.0], [1.0, 2.0]])
    of = scipy.stats.multivariate_normal(cov=covariance).pdf
    expected = np.log(0.75 * of(np.stack([b, y], 1)) + 0.25 * of(np.stack([b, y - 4.0], 1)))
    assert list(found) == ["mu.b.y"]
    np.testing.assert_allclose(found["mu.b.y"], expected, rtol=1e-12)


def test_a_site_of_a_sum_has_no_draws_by_itself():
    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        ppl.sample(key, dist.Normal(4.0 * z, 1.0), name="y")

    y = ppl.trace(ppl.marginalize(model, ["z"]))(jax.random.key(0)).sites["y"].distribution
    with pytest.raises(NotImplementedError, match=r"'y' has no draws by itself.*'z'.*ppl.predict"):
        y.sample(jax.random.key(1))
