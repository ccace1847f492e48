"""Blocks of a dense mass matrix by site: what is learned, what is refused."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import distributions as dist
import ppl
from inference import MALA, NUTS, RandomWalk, laplace, mcmc, resume
from inference.drivers.mass_blocks import blocks_of
from inference.warmup.fisher_mass_matrix import fisher_blocks, fisher_matrix

KEY = random.key(0)
BLOCK = np.array([[4.0, 1.8, 0.6], [1.8, 1.0, 0.2], [0.6, 0.2, 1.0]])  # of "a", of size 2, and "c"
VARIANCES = np.array([0.25, 9.0])  # of "scope.b"
SETTINGS = {"kernel": MALA(), "num_chains": 2, "num_draws": 10, "learn_centering": False}
GROUPS = [("c", "a")]


def model(key):
    """Two sites that are correlated, and one between them in a scope, which is not."""

    def inner(key):
        return ppl.sample(key, dist.Normal(jnp.zeros(2), jnp.asarray(VARIANCES**0.5)), name="b")

    a = ppl.sample(
        key, dist.MultivariateNormal(jnp.zeros(2), covariance=jnp.asarray(BLOCK[:2, :2])), name="a"
    )
    ppl.nest(inner, scope="scope")(key)
    slope = jnp.asarray(np.linalg.solve(BLOCK[:2, :2], BLOCK[:2, 2]))
    rest = float(BLOCK[2, 2] - BLOCK[2, :2] @ np.linalg.solve(BLOCK[:2, :2], BLOCK[:2, 2]))
    ppl.sample(key, dist.Normal(a @ slope, rest**0.5), name="c")


def run(mass_matrix, **settings):
    return mcmc(KEY, model, mass_matrix=mass_matrix, **{**SETTINGS, "num_warmup": 100, **settings})


@pytest.fixture(scope="module")
def learned():
    return run(GROUPS, num_warmup=200)


def test_the_matrix_is_the_covariance_in_blocks_and_zero_beside(learned):
    expected = np.zeros((5, 5))
    expected[:3, :3] = BLOCK
    expected[3:, 3:] = np.diag(VARIANCES)  # coordinates are a, c, scope.b
    for found in learned.inverse_mass_matrix:
        assert np.all((found == 0) == (expected == 0))
        np.testing.assert_allclose(found, expected, rtol=0.02)
    assert learned.warmup.mass_matrix == "block"
    assert "2 chains, block mass matrix" in repr(learned.warmup)


def test_one_group_of_all_sites_is_a_dense_matrix_to_the_bit():
    blocks = run([("a", "scope.b", "c")])
    dense = run("dense")
    jax.tree.map(np.testing.assert_array_equal, blocks.draws, dense.draws)
    np.testing.assert_array_equal(blocks.inverse_mass_matrix, dense.inverse_mass_matrix)


def test_blocks_are_learned_each_by_itself():
    rng = np.random.default_rng(0)
    draws, gradients = rng.normal(size=(2, 50, 5)) @ np.diag([1.0, 2.0, 3.0, 4.0, 5.0])
    blocks = np.array([0, 3]), np.array([1, 2])
    found = fisher_blocks(draws, gradients, np.ones(5), blocks)
    for block in blocks:
        part = fisher_matrix(draws[:, block], gradients[:, block], np.ones(2))
        np.testing.assert_allclose(found[np.ix_(block, block)], part, rtol=1e-12)
    single = np.std(draws[:, 4]) / np.std(gradients[:, 4])
    np.testing.assert_allclose(found[4], [0, 0, 0, 0, single], rtol=1e-12)
    assert np.count_nonzero(found) == 9


def test_many_chains_pool_their_blocks():
    found = run(GROUPS, num_chains=32).inverse_mass_matrix
    assert np.all(found == found[:1])
    np.testing.assert_allclose(found[0, :3, :3], BLOCK, rtol=0.02)
    np.testing.assert_allclose(found[0, 3:], np.eye(5)[3:] * [0, 0, 0, *VARIANCES], rtol=0.02)


def test_runs_with_blocks_are_resumed(tmp_path):
    long = run(GROUPS, num_draws=20)
    short = run(GROUPS, checkpoint=tmp_path)
    again = resume(tmp_path, model, num_draws=20, kernel=MALA())
    jax.tree.map(np.testing.assert_array_equal, again.draws, long.draws)
    in_memory = resume(run(GROUPS), model, num_draws=20, kernel=MALA())
    jax.tree.map(np.testing.assert_array_equal, in_memory.draws, long.draws)
    assert short.draws["c"].shape == (2, 10)
    with pytest.raises(ValueError, match="mass_matrix: the run has"):
        run([("a", "scope.b")], checkpoint=tmp_path)


@pytest.mark.slow
def test_a_covariance_of_init_is_cut_to_blocks():
    fit = laplace(KEY, model)
    found = run(GROUPS, init=fit, num_warmup=10).inverse_mass_matrix
    np.testing.assert_allclose(found[0, :3, :3], BLOCK, rtol=1e-3)
    assert np.all(found[:, :3, 3:] == 0)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([("a", "q")], "mass_matrix: 'q' is no latent site of the model; expected some of 'a', "),
        ([("a", "c"), ("a",)], "mass_matrix: site 'a' stands 2 times in the groups, expected once"),
        ([()], "or a list of tuples of names of sites, such as"),
        ([], "or a list of tuples of names of sites, such as"),
        (["a"], "or a list of tuples of names of sites, such as"),
        (np.array(["a"]), "or a list of tuples of names of sites, such as"),
    ],
)
def test_groups_that_cannot_be_are_named(groups, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        run(groups)


def test_sites_that_are_not_latent_are_named():
    observed = ppl.condition(model, {"c": 0.3})
    with pytest.raises(ValueError, match="'c' is no latent site of the model; expected some of"):
        mcmc(KEY, observed, mass_matrix=[("a", "c")])


def test_settings_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="mass_matrix is for kernels such as NUTS"):
        run(GROUPS, kernel=RandomWalk())
    matrix = np.eye(5) + 0.1
    with pytest.raises(ValueError, match="must be diagonal outside of the groups of mass_matrix"):
        run(GROUPS, kernel=NUTS(inverse_mass_matrix=matrix))
    target = ppl.unconstrain(model)
    with pytest.raises(ValueError, match="mass_matrix by site is for the coordinates of the model"):
        blocks_of(GROUPS, target, transport=True)
