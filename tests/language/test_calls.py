"""Random variables in checkpoint, in functions with derivatives of their own, and over shards."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import split
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from scipy import stats

import distributions as dist
import ppl

from .checks import assert_close

VALUES = {"mu": 0.3, "x": jnp.array([0.5, -1.0, 2.0, 0.1])}
Y = jnp.array([1.0, -0.5, 0.7, 0.2])


def regression(key, y):
    """What the models below say, in plain JAX."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    x = ppl.sample(key, dist.Normal(jnp.full(4, 0.0) + mu, 2.0), name="x")
    return ppl.sample(key, dist.Normal(x, jnp.exp(mu)), name="y")


def checkpointed(key, y):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

    @jax.checkpoint
    def rest(key, mu):
        x = ppl.sample(key, dist.Normal(jnp.full(4, 0.0) + mu, 2.0), name="x")
        return ppl.sample(key, dist.Normal(x, jnp.exp(mu)), name="y")

    return rest(key, mu)


def with_jvp(key, y):
    @jax.custom_jvp
    def model(key):
        return regression(key, y)

    model.defjvp(lambda p, t: (model(*p), jnp.zeros(4)))
    return model(key)


def with_vjp(key, y):
    @jax.custom_vjp
    def model(key):
        return regression(key, y)

    model.defvjp(lambda key: (model(key), None), lambda _, ct: (None,))
    return model(key)


def over_shards(f):
    """`f` of a key and a row of data on each of four devices."""
    mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i"))


def sharded(key, y):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

    def rows(keys, mu):
        x = ppl.sample(keys[0], dist.Normal(mu, 2.0), name="x")
        return ppl.sample(keys[0], dist.Normal(x, jnp.exp(mu)), name="y")[None]

    return over_shards(rows)(split(key, 4), mu)


def densities(model, values, y):
    posterior = ppl.condition(model, {"y": y})
    target = ppl.unconstrain(posterior, y)
    return (
        jax.value_and_grad(ppl.log_density(posterior))(values, y),
        jax.value_and_grad(target.log_density)(target.unconstrain(values)),
        ppl.log_probs(model)({**values, "y": y}, y),
    )


@pytest.mark.parametrize("model", [checkpointed, with_jvp, with_vjp, sharded])
def test_density_and_gradient(model, x64):
    """They are those of the same model in plain JAX."""
    values, y = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), (VALUES, Y))
    actual, expected = (
        jax.jit(lambda values, y, m=m: densities(m, values, y))(values, y)
        for m in (model, regression)
    )
    assert_close(actual, expected)


def test_simulation_over_shards():
    draws = ppl.simulate(sharded)(jax.random.key(0), Y)
    assert {name: x.shape for name, x in draws.items()} == {"mu": (), "x": (4,), "y": (4,)}
    assert len(set(draws["x"].tolist())) == 4
    assert_close(sharded(jax.random.key(0), Y), draws["y"], "float32")


def test_one_value_for_all_shards_is_an_error():
    def model(key):
        def rows(keys, shared):
            return ppl.sample(shared, dist.Normal(0.0, 1.0), name="x") + jnp.zeros(1)

        return over_shards(rows)(split(key, 4), key)

    with pytest.raises(ValueError, match=r"'x' is one value for several shards.*Sample it outside"):
        ppl.log_density(model)({"x": jnp.zeros(4)})


@pytest.mark.parametrize("model", [checkpointed, with_jvp, with_vjp])
def test_derivatives_of_a_conditioned_model_have_each_site_once(model):
    """`condition` and `nest` put sites back where they were, also into derivatives."""
    posterior = ppl.nest(ppl.condition(model, {"mu": 0.3}), scope="a")

    def summed(data):
        return jnp.sum(posterior(jax.random.key(0), data))

    sites = ppl.reap(jax.value_and_grad(summed), tag="random")(Y)
    assert set(sites["a"]) == {"mu", "x", "y"}
    assert_close(sites["a"], ppl.reap(summed, tag="random")(Y)["a"], "float32")


def test_a_density_needs_no_first_state_that_no_step_reads():
    """Given `w`, nothing depends on `x`: it integrates to one, though the loop starts from it."""

    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        step = lambda _, key: (ppl.sample(key, dist.Normal(0.0, 1.0), name="w"), None)  # noqa: E731
        last, _ = jax.lax.scan(step, x, split(key, 3))
        ppl.sample(key, dist.Normal(last, 1.0), name="y")

    w = np.array([0.5, -1.0, 2.0])
    found = ppl.log_density(ppl.marginalize(model, {"x": ppl.Gaussian()}))({"w": w, "y": 1.5})
    assert_close(found, stats.norm.logpdf(w).sum() + stats.norm.logpdf(1.5, 2.0), "float32")
