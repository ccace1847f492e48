"""Integrals and full conditionals of each shard's data, inside of a shard_map."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl

COUNTS = np.array([0, 1, 2, 5])


def model(key, counts):
    rate = ppl.sample(key, dist.Gamma(2.0 * jnp.ones(counts.shape), 1.0), name="rate")
    ppl.sample(key, dist.Poisson(rate), name="n")
    f = ppl.sample(key, dist.Normal(jnp.zeros(counts.shape), 1.0), name="f")
    ppl.sample(key, dist.Normal(f, 1.0), name="y")


def posterior(counts):
    return ppl.condition(model, {"n": counts, "y": counts.astype(float)})


def integral(strategy):
    def of(counts):
        summed = ppl.marginalize(posterior(counts), {"f": strategy})
        return ppl.log_density(summed)({"rate": jnp.ones(counts.shape)}, counts)[None]

    return of


def conditional(counts):
    found = ppl.conditional(posterior(counts), "rate")({"f": jnp.zeros(counts.shape)}, counts)
    return jnp.stack([found.concentration, found.rate], -1)


OF_SHARD = {
    "gaussian": integral(ppl.Gaussian()),
    "laplace": integral(ppl.Laplace()),
    "conjugate": conditional,
}


@pytest.mark.slow_rows("conjugate")
@pytest.mark.parametrize("of", OF_SHARD.values(), ids=OF_SHARD)
def test_a_shard_has_the_numbers_of_its_own_data(of):
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    along = jax.sharding.PartitionSpec("i")
    found = jax.jit(jax.shard_map(of, mesh=mesh, in_specs=along, out_specs=along))(COUNTS)
    wanted = np.concatenate([of(jnp.asarray(COUNTS[:2])), of(jnp.asarray(COUNTS[2:]))])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
