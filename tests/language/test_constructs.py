"""Sites in each construct of JAX are those of a Python loop: for each key one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats
from jax.sharding import AxisType, PartitionSpec

import distributions as dist
import ppl

from .checks import assert_close

KEY = key(3)
NAN = np.nan
NORMAL = stats.norm.logpdf


def each_by_vmap(model, keys, *rows):
    return jax.vmap(model)(keys, *rows)


def each_by_scan(model, keys, *rows):
    return lax.scan(lambda _, row: (None, model(*row)), None, (keys, *rows))[1]


def each_by_scan_of_vmap(model, keys, *rows):
    rows = jax.tree.map(lambda x: x[:, None], (keys, *rows))
    return each_by_scan(jax.vmap(model), *rows)[:, 0]


def each_by_shard_map(model, keys, *rows):
    mesh = jax.make_mesh((3,), ("i",), axis_types=(AxisType.Auto,), devices=jax.devices()[:3])
    spec = PartitionSpec("i")
    one = lambda *row: model(*jax.tree.map(lambda x: x[0], row))[None]  # noqa: E731
    return jax.shard_map(one, mesh=mesh, in_specs=spec, out_specs=spec)(keys, *rows)


def each_in_a_branch(model, keys, *rows):
    return each_by_scan(lambda *row: lax.cond(True, model, model, *row), keys, *rows)


EACH = [each_by_vmap, each_by_scan, each_by_scan_of_vmap, each_by_shard_map, each_in_a_branch]


def one_value(key):
    return ppl.sample(key, dist.Normal(0.0, 1.0), name="y")


@pytest.mark.parametrize("each", EACH)
def test_data_for_each_key_are_those_of_each_element(each):
    """A site is observed as often as it is drawn, whether the data are the same or not."""
    observed = lambda key, y: ppl.condition(one_value, {"y": y})(key)  # noqa: E731
    y = jnp.array([0.5, -1.0, 2.0])
    apart = lambda key: each(observed, split(key, 3), y)  # noqa: E731
    assert_close(ppl.log_density(apart)({}), stats.norm.logpdf(y).sum(), "float32")
    alike = lambda key, y: each(ppl.condition(one_value, {"y": y}), split(key, 3))  # noqa: E731
    assert_close(ppl.log_density(alike)({}, 0.5), 3 * stats.norm.logpdf(0.5), "float32")
    expected = np.full(3, stats.norm.logpdf(0.5))
    assert_close(ppl.log_probs(alike)({}, 0.5)["y"].ravel(), expected, "float32")
    assert alike(KEY, 0.5).tolist() == [0.5] * 3


@pytest.mark.parametrize("each", EACH)
def test_a_value_fixed_for_each_key_is_that_of_each_element(each):
    fixed = lambda key: each(ppl.intervene(one_value, {"y": 0.5}), split(key, 3))  # noqa: E731
    assert fixed(KEY).tolist() == [0.5] * 3
    assert ppl.simulate(fixed)(KEY)["y"].ravel().tolist() == [0.5] * 3
    assert ppl.log_density(fixed)({}) == 0.0


@pytest.mark.parametrize("each", EACH)
@pytest.mark.parametrize("fixed", [ppl.condition, ppl.intervene])
def test_what_follows_a_hidden_site_is_there_for_each_element(each, fixed):
    """Hidden or not, a fixed value is that of each key."""

    def followed(key):
        y = one_value(key)
        ppl.factor(-(y**2), name="f")
        return ppl.deterministic(2 * y, name="twice")

    hidden = ppl.block(fixed(followed, {"y": 0.5}), ["y"])
    model = lambda key: each(hidden, split(key, 3))  # noqa: E731
    assert_close(ppl.log_density(model)({}), -0.75, "float32")
    assert ppl.simulate(model)(KEY)["twice"].ravel().tolist() == [1.0] * 3
    assert model(KEY).tolist() == [1.0] * 3


@pytest.mark.parametrize("each", EACH)
def test_prior_and_likelihood_in_all_constructs(each):
    """Densities of latent sites and of data, of one construct, are told from each other."""

    def one(key, y):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.factor(-x, name="f")
        return ppl.condition(lambda k: ppl.sample(k, dist.Normal(x, 2.0), name="y"), {"y": y})(key)

    y, x = np.array([1.0, 2.0, 3.0]), jnp.array([0.5, 0.1, -0.3])
    target = ppl.unconstrain(lambda key: each(one, split(key, 3), jnp.asarray(y)))
    shape = next(iter(dict(target.shapes).values())).shape
    prior, likelihood = target.prior_and_likelihood({"x": x.reshape(shape)})
    np.testing.assert_allclose(prior, stats.norm.logpdf(x).sum(), rtol=1e-5)
    np.testing.assert_allclose(likelihood, (stats.norm.logpdf(y, x, 2.0) - x).sum(), rtol=1e-5)


def vector(key):
    return ppl.sample(key, dist.Normal(jnp.array([1.0, 2.0]), 0.5), name="y")


ROWS_OF_TWO = np.array([[NAN, 1.0], [1.3, NAN], [NAN, NAN]])


@pytest.mark.slow_rows("True-each_by_shard_map")
@pytest.mark.parametrize("each", EACH)
@pytest.mark.parametrize("is_inside", [True, False])
def test_ignored_entries_in_all_constructs(each, is_inside):
    expected = NORMAL(np.array([1.0, 1.3]), np.array([2.0, 1.0]), 0.5).sum()
    if is_inside:
        one = lambda key, y: ppl.condition(vector, {"y": ppl.ignore(y)})(key)  # noqa: E731
        model = lambda key: each(one, split(key, 3), jnp.asarray(ROWS_OF_TWO))  # noqa: E731
    else:
        model = lambda key: each(vector, split(key, 3))  # noqa: E731
        shape = jax.eval_shape(ppl.simulate(model), KEY)["y"].shape
        model = ppl.condition(model, {"y": ppl.ignore(ROWS_OF_TWO.reshape(shape))})
    assert_close(ppl.log_density(model)({}), expected, "float32")


@pytest.mark.slow_rows("each_by_shard_map")
@pytest.mark.parametrize("each", EACH)
def test_imputed_entries_in_all_constructs(each):
    model = lambda key: each(vector, split(key, 3))  # noqa: E731
    shape = jax.eval_shape(ppl.simulate(model), KEY)["y"].shape
    target = ppl.unconstrain(ppl.condition(model, {"y": ppl.impute(ROWS_OF_TWO.reshape(shape))}))
    filled = np.where(np.isnan(ROWS_OF_TWO), 0.25, ROWS_OF_TWO)
    np.testing.assert_allclose(
        target.constrain({"y": jnp.full(4, 0.25)})["y"].reshape(3, 2), filled
    )
    expected = NORMAL(filled, np.array([1.0, 2.0]), 0.5).sum()
    assert_close(target.log_density({"y": jnp.full(4, 0.25)}), expected, "float32")


def test_prior_and_likelihood_of_branches_of_other_shapes():
    wide = dist.MultivariateNormal(jnp.zeros(3), scale_diag=jnp.ones(3))
    apart = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="z")  # noqa: E731
    joint = lambda key: ppl.sample(key, wide, name="z")  # noqa: E731

    def model(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="p")
        return lax.cond(True, apart, joint, key)

    target = ppl.unconstrain(ppl.condition(model, {"z": jnp.ones(3)}))
    prior, likelihood = target.prior_and_likelihood({"p": 0.5})
    np.testing.assert_allclose(prior, NORMAL(0.5), rtol=1e-6)
    np.testing.assert_allclose(likelihood, 3 * NORMAL(1.0), rtol=1e-6)


def test_known_gaps_are_known_within_a_model():
    inside = lambda key: ppl.condition(vector, {"y": ppl.impute(np.array([NAN, 1.0]))})(key)  # noqa: E731
    assert ppl.unconstrain(inside).constrain({"y": jnp.array([7.0])})["y"].tolist() == [7.0, 1.0]
    scalar = lambda key: ppl.condition(one_value, {"y": ppl.impute(NAN)})(key)  # noqa: E731
    position = {"y": jnp.ones(1)}
    assert jax.jit(lambda: ppl.unconstrain(scalar).constrain(position)["y"])() == 1.0
    joint = dist.MultivariateNormal(jnp.zeros(2), scale_diag=jnp.ones(2))
    drawn = lambda key: ppl.sample(key, joint, name="y")  # noqa: E731
    torn = lambda key: ppl.condition(drawn, {"y": ppl.ignore(np.array([NAN, 1.0]))})(key)  # noqa: E731
    with pytest.raises(
        ValueError, match="site 'y': 1 of 1 draws of MultivariateNormal are missing in part"
    ):
        ppl.log_density(torn)({})


FIRST, SECOND = (
    ppl.condition(vector, {"y": ppl.impute(np.array(y))}) for y in ([1.3, NAN], [NAN, 0.4])
)


@pytest.mark.parametrize("branches", [(FIRST, SECOND), (FIRST, vector), (vector, FIRST)])
def test_branches_miss_the_same_entries(branches):
    with pytest.raises(
        ValueError, match="site 'y': which of its entries are missing differs between the branches"
    ):
        ppl.unconstrain(lambda key: lax.cond(True, *branches, key))
    same = ppl.unconstrain(lambda key: lax.cond(True, FIRST, FIRST, key))
    np.testing.assert_allclose(same.constrain({"y": jnp.array([0.7])})["y"], [1.3, 0.7])


@pytest.mark.parametrize("is_first", [True, False])
def test_dependents_of_an_ignored_value_have_no_density(is_first):
    count = lambda key: ppl.sample(key, dist.Poisson(jnp.ones(2)), name="y")  # noqa: E731
    part = ppl.condition(count, {"y": ppl.ignore(np.array([1, 0]), np.array([False, True]))})
    whole = ppl.condition(count, {"y": np.array([1, 2])})
    branches = (part, whole) if is_first else (whole, part)

    def model(key):
        y = lax.cond(True, *branches, key)
        ppl.sample(key, dist.Normal(y.sum() * 1.0, 1.0), name="z")

    with pytest.raises(
        ValueError, match="site 'z' depends on site 'y', entries of which are ignored"
    ):
        ppl.log_density(model)({"z": 0.0})
