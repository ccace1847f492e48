"""Nested R-hat: its formula, and what it sees of starts that chains share."""

import numpy as np
import pytest
import scipy.stats as st

from inference import nested_rhat, rhat
from inference.results.nested_rhat import nested_rhat_limit, rhat_limit


def scores(values):
    ranks = st.rankdata(values).reshape(values.shape)
    return st.norm.ppf((ranks - 3 / 8) / (values.size + 1 / 4))


def by_definition(draws, num_superchains):
    """Definition 2.1 of Margossian et al., written out, of the bulk and of the folded scores."""
    found = []
    for z in (scores(draws), scores(np.abs(draws - np.median(draws)))):
        groups = z.reshape(num_superchains, -1, z.shape[1])  # superchain, chain, draw
        of_chains = groups.mean(2)
        of_superchains = of_chains.mean(1)
        between = np.sum((of_superchains - of_superchains.mean()) ** 2) / (num_superchains - 1)
        within = 0.0
        for group, means in zip(groups, of_chains, strict=True):
            if len(means) > 1:
                within += np.var(means, ddof=1)
            if group.shape[1] > 1:
                within += np.mean([np.var(chain, ddof=1) for chain in group])
        found.append(np.sqrt(1 + between / (within / num_superchains)))
    return max(found)


@pytest.mark.parametrize(("shape", "number"), [((12, 5), 4), ((12, 5), 12), ((12, 1), 3)])
def test_it_is_the_definition_on_ranks(shape, number):
    draws = np.random.default_rng(0).normal(size=(*shape, 2)) ** 3
    draws[:3] += 1.0
    expected = [by_definition(draws[..., i], number) for i in range(2)]
    np.testing.assert_allclose(nested_rhat(draws, number), expected, rtol=1e-12)


def test_short_chains_that_agree_pass_where_rhat_cannot_tell():
    """Of autocorrelated chains of four draws, no single one says where the mean is."""
    rng = np.random.default_rng(1)
    chains = [rng.normal(size=1024)]
    for _ in range(3):
        chains.append(0.95 * chains[-1] + np.sqrt(1 - 0.95**2) * rng.normal(size=1024))
    draws = np.stack(chains, 1)
    assert rhat(draws) > 1.5
    assert nested_rhat(draws, 16) < 1.015
    start = np.repeat(rng.normal(size=16), 64)[:, None]  # remembered by a whole superchain
    assert nested_rhat(draws + start, 16) > 1.1


@pytest.mark.parametrize(
    ("num_superchains", "shape"), [(8, (32, 4)), (8, (32, 10)), (16, (128, 5)), (16, (1024, 1))]
)
def test_independent_draws_hardly_exceed_the_limit(num_superchains, shape):
    draws = np.random.default_rng(2).normal(size=(*shape, 300))
    found = nested_rhat(draws, num_superchains)
    limit = nested_rhat_limit(num_superchains, *shape)
    assert np.max(found) < limit
    assert np.max(found) ** 2 - 1 > 0.3 * (limit**2 - 1)  # nor is the limit far above
    assert nested_rhat_limit(num_superchains, shape[0], 10**5) < 1.0101


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="got 8 superchains of one chain with one draw"):
        nested_rhat(np.arange(8.0)[:, None], 8)
    draws = np.zeros((8, 3))
    with pytest.raises(ValueError, match="must divide the number of chains, 8, got 3"):
        nested_rhat(draws, 3)
    with pytest.raises(ValueError, match="at least 2"):
        nested_rhat(draws, 1)
    with pytest.raises(TypeError, match="must be an integer"):
        nested_rhat(draws, 2.5)
    with pytest.raises(ValueError, match="shape"):
        nested_rhat(draws[0], 2)
    draws[0, 0] = np.nan
    assert np.isnan(nested_rhat(draws, 4))


@pytest.mark.parametrize(("num_chains", "num_draws"), [(16, 40), (31, 100), (8, 1000)])
def test_independent_draws_keep_the_limit_of_short_chains(num_chains, num_draws):
    draws = np.random.default_rng(0).normal(size=(num_chains, num_draws, 400))
    limit = rhat_limit(num_chains, num_draws)
    assert np.max(rhat(draws)) < limit < 1.12
    assert rhat(draws[..., 0] + np.arange(num_chains)[:, None]) > limit
