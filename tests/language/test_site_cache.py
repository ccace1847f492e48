"""What is traced at a site is kept, and told apart by all that it depends on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from ppl.core import site_cache


def normal(scale):
    """The scale is a number that stands in the program."""
    return lambda key: ppl.sample(key, dist.Normal(0.0, scale), name="x")


def traced(model):
    return jax.make_jaxpr(ppl.log_density(model))({"x": jnp.float32(0.5)})


def num_kept():
    return site_cache._jit_at_site.cache_info().currsize


def test_a_site_is_traced_once():
    traced(normal(1.25))
    before = num_kept()
    traced(normal(1.25))
    assert num_kept() == before
    traced(normal(1.75))
    assert num_kept() == before + 1


@pytest.mark.parametrize("scales", [(1.0, 2.0), (0.5, 0.25)])
def test_numbers_of_the_program_are_told_apart(scales):
    densities = [jax.jit(ppl.log_density(normal(s)))({"x": 0.5}) for s in scales]
    expected = [dist.Normal(0.0, s).log_prob(0.5) for s in scales]
    np.testing.assert_allclose(densities, expected, rtol=1e-6)


@jax.tree_util.register_pytree_node_class
class Tilted:
    """A distribution that reads what is no leaf of it."""

    tilt = 1.0

    batch_shape, event_shape, dtype = (), (), np.dtype("float32")

    def sample(self, key):
        return jax.random.normal(key)

    def log_prob(self, value):
        return Tilted.tilt * value

    def tree_flatten(self):
        return (), None

    @classmethod
    def tree_unflatten(cls, _, __):
        return cls()


def test_what_says_nothing_of_itself_is_traced_again(monkeypatch):
    model = lambda key: ppl.sample(key, Tilted(), name="x")  # noqa: E731
    slope = lambda: jax.grad(ppl.log_density(model))({"x": 0.5})["x"]  # noqa: E731
    assert slope() == 1
    monkeypatch.setattr(Tilted, "tilt", 2.0)
    assert slope() == 2
