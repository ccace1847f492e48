"""Diagnostics in fixed memory beside the exact ones."""

import numpy as np
import pytest
import scipy.signal

from inference import StreamedDiagnostics, ess_mean, mcse_mean
from inference.monitoring.batch_means import BatchMeans, join
from inference.monitoring.quantile_sketch import QuantileSketch

SIZES = [1, 5, 63, 1, 200, 7, 500, 223]


def chains(num_draws=1000, correlation=0.9, num_scalars=3, seed=0):
    noise = np.random.default_rng(seed).normal(size=(4, num_draws, num_scalars))
    noise += 0.05 * np.arange(4)[:, None, None]
    return scipy.signal.lfilter([1.0], [1.0, -correlation], noise, axis=1)


def in_pieces(takes, draws, sizes=SIZES):
    assert sum(sizes) == draws.shape[1]
    for piece in np.split(draws, np.cumsum(sizes)[:-1], axis=1):
        takes.add(piece)
    return takes


def split_rhat(draws):
    """Split R-hat of draws as they are, by its definition."""
    number = draws.shape[1] // 2
    halves = draws[:, : 2 * number].reshape(-1, number, draws.shape[2])
    within = halves.var(1, ddof=1).mean(0)
    between = number * halves.mean(1).var(0, ddof=1)
    return np.sqrt((between / within + number - 1) / number)


@pytest.mark.parametrize("max_batches", [16, 64, 1000])
def test_moments_and_rhat_are_exact_whatever_the_pieces(max_batches):
    draws = chains() + 1e4
    batches = in_pieces(BatchMeans(max_batches), draws)
    mean, variance = batches.mean_and_variance()
    assert batches.num_draws == 1000
    np.testing.assert_allclose(mean, draws.mean((0, 1)), rtol=1e-12)
    np.testing.assert_allclose(variance, draws.var((0, 1), ddof=1), rtol=1e-9)
    complete = batches.num_batches // 2 * 2 * batches.size
    np.testing.assert_allclose(batches.rhat(), split_rhat(draws[:, :complete]), rtol=1e-9)


def test_batches_of_one_draw_give_the_exact_ess():
    draws = chains(200)
    batches = in_pieces(BatchMeans(256), draws, [150, 50])
    np.testing.assert_allclose(batches.ess_mean(), ess_mean(draws), rtol=1e-9)
    np.testing.assert_allclose(batches.mcse_mean(), mcse_mean(draws), rtol=1e-9)


def test_chains_of_several_lengths_are_joined():
    draws = chains()
    alone = [in_pieces(BatchMeans(64), draws[i : i + 1, :n], [n]) for i, n in enumerate(
        (1000, 700, 300, 1000)
    )]  # fmt: skip
    together = join(alone)
    assert together.size == 16
    assert together.num_draws == 288
    mean, variance = together.mean_and_variance()
    np.testing.assert_allclose(mean, draws[:, :288].mean((0, 1)), rtol=1e-10)
    np.testing.assert_allclose(variance, draws[:, :288].var((0, 1), ddof=1), rtol=1e-10)
    np.testing.assert_allclose(together.rhat(), split_rhat(draws[:, :288]), rtol=1e-10)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.99])
def test_ess_has_the_error_that_is_said(correlation):
    """Relative to the exact one, a standard deviation of 0.125, over 40 streams, and no bias."""
    draws = chains(20_000, correlation, 40)
    draws -= draws.mean(1, keepdims=True)
    streamed = in_pieces(StreamedDiagnostics(), draws, [20] * 1000)
    error = np.log(streamed.ess_mean() / ess_mean(draws))
    assert np.sqrt(np.mean(error**2)) < 0.15
    assert abs(error.mean()) < 3 * 0.125 / np.sqrt(40)


def test_ranks_of_quantiles_are_within_the_bound():
    """Errors of streams share their coins, so each level has a seed of its own."""
    draws = np.random.default_rng(3).exponential(size=(2, 20_000))
    scores = []
    for seed in range(20):
        sketch = QuantileSketch(32, seed)
        for piece in np.split(draws, 200, axis=1):
            sketch.add(piece)
        assert sketch.num_kept < 130
        for prob in (0.05, 0.5, 0.95):
            found = np.mean(draws <= sketch.quantile(prob)[:, None], axis=1)
            scores.append((found - prob) / sketch.rank_error)
    assert np.sqrt(np.mean(np.square(scores))) < 1.3  # the grid of kept numbers is an error, too
    assert np.max(np.abs(scores)) < 4
    assert 0.02 < sketch.rank_error < 0.06


def test_a_sketch_of_few_draws_is_exact():
    sketch, draws = QuantileSketch(64), np.random.default_rng(0).normal(size=(3, 51))
    sketch.add(draws)
    assert sketch.rank_error == 0
    np.testing.assert_array_equal(sketch.quantile(0.5), np.median(draws, 1))


def test_merged_sketches_hold_all_draws():
    draws = np.random.default_rng(0).normal(size=(1, 40_000))
    first, second = QuantileSketch(128, 1), QuantileSketch(128, 2)
    for piece in np.split(draws[:, :30_000], 30, axis=1):
        first.add(piece)
    second.add(draws[:, 30_000:])
    first.merge(second)
    assert first.num_draws == 40_000
    rank = np.mean(draws <= first.quantile(0.3))
    assert abs(rank - 0.3) < 4 * first.rank_error + 1 / 128


def test_merged_diagnostics_are_those_of_all_chains():
    draws = chains(1024).reshape(4, 1024, 3, 1)
    first, second = StreamedDiagnostics(), StreamedDiagnostics()
    first.add(draws[:2])
    second.add(draws[2:])
    first.merge(second)
    np.testing.assert_allclose(first.mean(), draws.mean((0, 1)), rtol=1e-9)
    np.testing.assert_allclose(first.sd(), draws.std((0, 1), ddof=1), rtol=1e-9)
    np.testing.assert_allclose(first.rhat()[:, 0], split_rhat(draws[..., 0]), rtol=1e-9)


def test_moments_of_merged_chains_of_any_length_are_exact():
    """Batches of the long chains have more draws than the short ones: R-hat and ESS are unknown."""
    rng = np.random.default_rng(0)
    long, short, shortest = (
        level + rng.normal(size=(chains, number, 2))
        for level, chains, number in ((1e4, 2, 100_000), (2e4, 3, 200), (0.0, 1, 1))
    )
    merged = in_pieces(StreamedDiagnostics(), long, [1, 40_000, 59_999])
    for draws in (short, shortest):
        other = StreamedDiagnostics()
        other.add(draws)
        merged.merge(other)
    pooled = np.concatenate([x.reshape(-1, 2) for x in (long, short, shortest)])
    np.testing.assert_allclose(merged.mean(), pooled.mean(0), rtol=1e-12)
    np.testing.assert_allclose(merged.sd(), pooled.std(0, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(merged.quantile(0.4), np.quantile(pooled, 0.4, 0), rtol=1e-2)
    assert merged.num_draws == 1
    for unknown in (merged.rhat(), merged.ess_mean(), merged.mcse_mean()):
        assert np.all(np.isnan(unknown))
    with pytest.raises(ValueError, match="no draws can be added after a merge"):
        merged.add(np.zeros((6, 1, 2)))


def test_rhat_and_ess_of_merged_chains_are_of_their_common_part():
    draws = chains(1024)
    first, second = StreamedDiagnostics(), StreamedDiagnostics()
    first.add(draws[:2])
    second.add(draws[2:, :608])
    first.merge(second)
    np.testing.assert_allclose(first.rhat(), split_rhat(draws[:, :608]), rtol=1e-9)
    common = in_pieces(BatchMeans(1024), draws[:, :608], [608])
    np.testing.assert_allclose(first.ess_mean(), common.ess_mean(), rtol=0.4)


def test_mistakes_are_errors_in_words():
    streamed = StreamedDiagnostics()
    with pytest.raises(ValueError, match="no draws have been added"):
        streamed.mean()
    with pytest.raises(ValueError, match="no draws have been added"):
        streamed.quantile(0.5)
    with pytest.raises(ValueError, match="must have shape"):
        streamed.add(np.zeros(3))
    streamed.add(np.zeros((4, 10, 2)))
    with pytest.raises(ValueError, match=r"draws must be of 4 chains with shape \(2,\) each"):
        streamed.add(np.zeros((4, 10)))
    with pytest.raises(ValueError, match="merge needs draws of equal shapes"):
        streamed.merge(StreamedDiagnostics())
    empty = StreamedDiagnostics()
    empty.add(np.zeros((4, 0, 2)))
    with pytest.raises(ValueError, match="merge needs draws of equal shapes"):
        streamed.merge(empty)
    with pytest.raises(ValueError, match="max_batches must be an even number"):
        StreamedDiagnostics(max_batches=17)
