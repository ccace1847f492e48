"""Chains that are lost: found by their log density, and moved to where others are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from distributions import constraints
from inference import mcmc
from inference.common.far_chains import find_lost
from inference.warmup.lost_chains import choose_successors


@pytest.mark.parametrize(
    ("values", "lost"),
    [
        ([-10.0, -11.0, -9.0, -60.0], [3]),
        ([-10.0, -11.0, -9.0, -24.0], []),
        ([-10.0, -11.0, -9.0, -np.inf], [3]),
        ([-10.0, -1e30, -9.0, -1e30], []),  # two of four: no majority says who is right
        ([-10.0, np.nan, -9.0, -11.0, -1e300], [1, 4]),
        ([-10.0, 200.0, -9.0, -11.0], []),  # above the others
        ([30.0, 5.0, -20.0, -90.0], []),  # a funnel: chains differ much in general
        ([-10.0, -1e30], []),
        ([-5.0], []),
    ],
)
def test_the_chains_far_below_the_median_are_lost(values, lost):
    """In 4 coordinates, of which a log density has the standard deviation sqrt(2) if normal."""
    np.testing.assert_array_equal(np.flatnonzero(find_lost(np.array(values), 4)), lost)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 30, 300])
def test_a_chain_in_the_tail_of_a_normal_density_is_not_lost(size):
    """Three chains at the median, and one as low as one of a million is; or as one of 1e25."""
    in_tail, far, median = st.chi2(size).isf([1e-6, 1e-25, 0.5]) / -2
    assert not find_lost(np.array([median, median, median, in_tail]), size).any()
    assert find_lost(np.array([median, median, median, far]), size).tolist() == [0, 0, 0, 1]


def test_the_others_take_in_the_lost_in_turn():
    is_lost = np.array([True, False, True, False, True])
    np.testing.assert_array_equal(choose_successors(is_lost), [1, 1, 3, 3, 1])


def steep(key):
    """A normal density, and a cliff around it from where no step size leads back."""
    x = ppl.sample(key, dist.Flat(constraints.real, (2,)), name="x")
    far = jnp.maximum(jnp.max(jnp.abs(x)) - 50.0, 0.0)
    ppl.factor(-0.5 * jnp.sum(x**2) - jnp.expm1(far) ** 2, name="cliff")


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_a_lost_chain_goes_on_from_where_another_is(kind):
    start = np.zeros((4, 2))
    start[2] = [80.0, 0.0]  # the log density is -1e26 there
    settings = {"num_warmup": 300, "num_draws": 100, "mass_matrix": kind}
    with pytest.warns(RuntimeWarning, match=r"chain 2 was far from the others after 35 iterations"):
        result = mcmc(jax.random.key(0), steep, init={"x": start}, **settings)
    x = result.draws["x"]
    assert np.all(np.abs(x) < 6)
    np.testing.assert_allclose(x.std(1), 1.0, atol=0.5)
    assert not np.array_equal(x[2], x[0])  # its own random numbers
    again = mcmc(jax.random.key(0), steep, init={"x": start[[0, 1, 3, 3]]}, **settings)
    np.testing.assert_array_equal(again.draws["x"][:2], x[:2])  # the others do not notice
