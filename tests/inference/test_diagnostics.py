"""Diagnostics against ArviZ, of whichever version is installed."""

# ruff: noqa: E501

import arviz
import numpy as np
import pytest
import scipy
import scipy.signal

from inference.results import autocovariance, diagnostics, rank_scores

RNG = np.random.default_rng(0)


def autoregression(num_chains, num_draws, coefficient):
    draws = RNG.normal(size=(num_chains, num_draws))
    for t in range(1, num_draws):
        draws[:, t] += coefficient * draws[:, t - 1]
    return draws


DRAWS = {
    "independent": RNG.normal(size=(4, 1000)),
    "odd number": RNG.normal(size=(3, 101)),
    "correlated": autoregression(4, 500, 0.9),
    "anticorrelated": autoregression(4, 501, -0.6),
    "random walks": autoregression(4, 400, 1.0),
    "chains apart": autoregression(4, 300, 0.5) + np.arange(4.0)[:, None],
    "one chain": autoregression(1, 400, 0.3),
    "heavy tails": RNG.standard_cauchy((4, 700)),
    "large numbers": 1e6 + RNG.normal(size=(4, 200)),
    "ties": RNG.poisson(3.0, size=(4, 333)).astype(float),
    "two values": RNG.choice([-1.0, 1.0], size=(4, 200)),
    "constant": np.ones((4, 100)),
    "constant chains": np.repeat(np.arange(4.0)[:, None], 100, 1),
    "one constant chain": np.vstack([np.ones(100), RNG.normal(size=(3, 100))]),
    "nan": np.where(RNG.uniform(size=(4, 100)) < 0.01, np.nan, RNG.normal(size=(4, 100))),
    "infinite": np.where(RNG.uniform(size=(4, 100)) < 0.01, np.inf, RNG.normal(size=(4, 100))),
} | {f"{n} draws": RNG.normal(size=(2, n)) for n in range(3, 11)}


def in_arviz(name, draws):
    """The statistic of one scalar by ArviZ 0.x or 1.x."""
    kind, _, method = name.partition("_")
    settings = {"method": method, "prob": {"tail": (0.05, 0.95), "quantile": 0.05}.get(method)}
    settings = {key: value for key, value in settings.items() if value} if method else {}
    if not arviz.__version__.startswith("0."):
        from arviz_stats.base import array_stats

        settings |= {"chain_axis": 0, "draw_axis": 1}
        return getattr(array_stats, kind)(draws, **settings)
    return getattr(arviz, kind)(draws, **settings)


OURS = {
    "rhat": diagnostics.rhat,
    "ess_bulk": diagnostics.ess_bulk,
    "ess_tail": diagnostics.ess_tail,
    "ess_mean": diagnostics.ess_mean,
    "mcse_mean": diagnostics.mcse_mean,
    "mcse_sd": diagnostics.mcse_sd,
    "mcse_quantile": lambda draws: diagnostics.mcse_quantile(draws, 0.05),
}


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # ArviZ's
@pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning")
@pytest.mark.parametrize("statistic", OURS)
@pytest.mark.parametrize("name", DRAWS)
def test_equal_to_arviz(name, statistic):
    expected = in_arviz(statistic, DRAWS[name])
    np.testing.assert_allclose(OURS[statistic](DRAWS[name]), expected, rtol=1e-10)


@pytest.mark.parametrize("statistic", OURS)
def test_many_scalars_are_one_by_one(statistic):
    draws = RNG.normal(size=(3, 50, 2, 3)).astype(np.float32)
    draws[0, 0, 1, 2] = np.nan
    together = OURS[statistic](draws)
    assert together.shape == (2, 3)
    assert together.dtype == np.float64
    for index in np.ndindex(2, 3):
        alone = OURS[statistic](draws[(..., *index)])
        np.testing.assert_allclose(together[index], alone, rtol=1e-12)


@pytest.mark.parametrize("statistic", OURS)
def test_no_scalar_is_no_answer(statistic):
    assert OURS[statistic](np.zeros((4, 10, 0))).shape == (0,)


@pytest.mark.parametrize("statistic", OURS)
def test_units_do_not_matter(statistic):
    draws, unit = DRAWS["correlated"], 2.0**-60
    expected = OURS[statistic](draws) * (unit if statistic.startswith("mcse") else 1.0)
    np.testing.assert_allclose(OURS[statistic](unit * draws), expected, rtol=1e-10)


def test_blocks_do_not_show(monkeypatch):
    draws = RNG.normal(size=(2, 20, 7))
    whole = diagnostics.rhat(draws)
    monkeypatch.setattr(diagnostics, "_BLOCK", 80)
    np.testing.assert_array_equal(diagnostics.rhat(draws), whole)


TEN = np.arange(20.0).reshape(2, 10)
REFUSED = {
    "no-chains": (lambda: diagnostics.rhat(np.zeros(10)), ValueError, r"shape \(chain, draw, \*shape\), got \(10,\)"),
    "complex": (lambda: diagnostics.ess_bulk(TEN * 1j), TypeError, "draws must hold real numbers, got"),
    "text": (lambda: diagnostics.mcse_sd(np.full((2, 10), "a")), TypeError, "draws must hold real"),
    "ragged": (lambda: diagnostics.ess_tail([[1, 2], [3]]), TypeError, "real numbers, got .*3"),
    "nothing": (lambda: diagnostics.ess_mean(None), TypeError, "draws must hold real numbers, got None"),
    "prob-at-the-end": (lambda: diagnostics.mcse_quantile(TEN, 1.0), ValueError, "prob must lie between 0 and 1, got 1.0"),
    "prob-nan": (lambda: diagnostics.mcse_quantile(TEN, prob=np.nan), ValueError, "prob must lie between"),
    "prob-text": (lambda: diagnostics.mcse_quantile(TEN, "0.5"), TypeError, "prob must lie between"),
    "probs": (lambda: diagnostics.mcse_quantile(TEN, [0.1, 0.9]), TypeError, "prob must lie between"),
    "energy": (lambda: diagnostics.ebfmi(np.zeros(10)), ValueError, r"energy must have shape \(chain, draw\), got \(10,\)"),
    "energy-text": (lambda: diagnostics.ebfmi("a"), TypeError, "energy must hold real numbers, got 'a'"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_diagnostic_is_refused(call, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        call()


def test_draws_may_be_booleans():
    assert diagnostics.ess_mean(TEN > 5) == diagnostics.ess_mean(1.0 * (TEN > 5))


def test_ebfmi_by_hand():
    energy = np.array([[1.0, 3.0, 2.0, 5.0], [0.0, 1.0, 0.0, 1.0]])
    expected = [(4 + 1 + 9) / 3 / np.var(energy[0], ddof=1), 1 / np.var(energy[1], ddof=1)]
    np.testing.assert_allclose(diagnostics.ebfmi(energy), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 0), (0, 10), (0, 0), (2, 0, 3)])
def test_of_no_draws_nothing_is_known(shape):
    for name in ("rhat", "ess_bulk", "ess_tail", "mcse_mean"):
        found = getattr(diagnostics, name)(np.zeros(shape))
        assert found.shape == shape[2:]
        assert np.all(np.isnan(found))


def test_arguments_that_a_diagnostic_does_not_have_are_refused():
    with pytest.raises(TypeError, match="foo"):
        diagnostics.mcse_quantile(np.zeros((4, 100)), 0.5, foo=0.5)
    with pytest.raises(TypeError, match="prob"):
        diagnostics.mcse_quantile(np.full((4, 100), np.nan))
    with pytest.raises(TypeError, match="too many"):
        diagnostics.rhat(np.zeros((2, 3)), 0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_is_that_of_numpy(dtype):
    x = np.concatenate(
        [RNG.normal(size=500), RNG.normal(size=500) * 1e30, [0.0, -0.0, np.inf, -np.inf]]
    )
    x = x.astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(x[rank_scores.argsort(x)], np.sort(x))


def test_ranks_of_ties_are_their_mean():
    x = np.array([1.0, 2.0, 2.0, 3.0, 4.0, 4.0, 4.0])
    expected = scipy.special.ndtri((scipy.stats.rankdata(x) - 3 / 8) / (len(x) + 1 / 4))
    np.testing.assert_allclose(rank_scores.scores_of_sorted(x), expected, rtol=1e-12)


def test_long_chains_lose_nothing_to_single_precision(monkeypatch):
    chains = autoregression(2, 3000, 0.8) + np.array([[0.0], [0.02]])
    draws = np.stack([chains, 1e-30 * chains, 1e30 + 1e24 * chains, chains > 0.5], 2)
    whole = diagnostics.diagnose(draws, (0.3,))
    monkeypatch.setattr(autocovariance, "MANY", 10)
    for found, expected in zip(diagnostics.diagnose(draws, (0.3,)), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("correlation", [0.0, 0.9, 0.9995])
def test_first_lags_give_the_ess_of_all_lags(correlation):
    """The slowest of these chains has no end of its sequence among the first lags."""
    noise = np.random.default_rng(3).normal(size=(1, 3, 20_003))
    chains = scipy.signal.lfilter([1.0], [1.0, -correlation], noise, axis=2)
    expected, _ = diagnostics._ess_by_lags(chains, autocovariance.mean_autocovariance(chains))
    np.testing.assert_allclose(diagnostics._ess(chains), expected, rtol=1e-4)
    few = autocovariance.first_autocovariances(chains, 100)
    every = autocovariance.mean_autocovariance(chains)
    np.testing.assert_allclose(few, every[:, :100], atol=1e-5 * every[0, 0])
