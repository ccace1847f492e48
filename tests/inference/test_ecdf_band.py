"""Simultaneous bands of distribution functions: exact against enumeration and simulation."""

import collections
import itertools

import numpy as np
import pytest

from inference.calibration.ecdf_band import band, counts_below, num_cells, p_value
from inference.calibration.report import CalibrationReport


def statistic(counts, size, points):
    """Smallest two-sided binomial tail probability, by the sum of the masses."""
    from scipy import stats

    tails = (
        min(stats.binom.cdf(k, size, z), stats.binom.sf(k - 1, size, z))
        for k, z in zip(counts, points, strict=True)
    )
    return min(1.0, *(2 * tail for tail in tails))


def test_p_values_are_those_of_all_outcomes():
    """Of 5 values in 5 cells: all 3125 assignments of values to cells are equally likely."""
    size = num_cells(5)
    points = np.arange(1, size) / size
    every = (tuple(sorted(x)) for x in itertools.product(range(size), repeat=5))
    found = [
        (statistic(np.searchsorted(cells, np.arange(1, size)), 5, points), number)
        for cells, number in collections.Counter(every).items()
    ]
    for cells in ([0, 1, 2, 3, 4], [0, 0, 0, 0, 0], [4, 4, 4, 3, 0], [2, 2, 2, 2, 2]):
        values = (np.array(cells) + 0.5) / size
        own = statistic(counts_below(values, size), 5, points)
        below = sum(n for x, n in found if x <= own * (1 + 1e-9)) / size**5
        np.testing.assert_allclose(p_value(values), min(below, 1.0), atol=1e-12)


def test_uniform_values_leave_a_band_as_often_as_said():
    """Of 5000 sets of 200 values: the share outside is within 4 standard errors of the level."""
    low, high = band(200, 0.05)
    values = np.sort(np.random.default_rng(0).uniform(size=(5000, 200)), 1)
    counts = np.stack([np.sum(values <= z, 1) for z in np.arange(1, 100) / 100], 1)
    share = 1 - np.mean(np.all((counts >= low) & (counts <= high), 1))
    assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 5000)


def report(ranks, **more):
    return CalibrationReport(tuple(f"q{i}" for i in range(ranks.shape[1])), ranks, **more)


def test_a_report_rarely_fails_for_uniform_ranks():
    """Of 500 reports of 2 quantities at 1 % each: 15 false alarms have a chance below 1e-3."""
    ranks = np.random.default_rng(1).uniform(size=(500, 50, 2))
    assert sum(not report(x).is_calibrated for x in ranks) < 15


@pytest.mark.parametrize(
    ("bend", "words"),
    [
        (lambda u: u**1.6, "draws too high"),
        (lambda u: u**0.6, "draws too low"),
        (lambda u: 0.5 + 0.35 * (2 * u - 1), "draws too wide"),
        (lambda u: np.where(u < 0.5, u**2 * 2, 1 - 2 * (1 - u) ** 2), "draws too narrow"),
    ],
)
def test_a_deviation_is_told_in_words(bend, words):
    ranks = np.random.default_rng(2).uniform(size=(500, 2))
    ranks[:, 1] = bend(ranks[:, 1])
    found = report(ranks)
    assert (found.describe("q0"), found.describe("q1")) == ("uniform", words)
    assert found.failures == ("q1",)
    assert words in str(found)


def test_p_values_are_adjusted_by_holm():
    found = report(np.random.default_rng(3).uniform(size=(60, 3)) ** [1, 1.5, 2])
    raw = sorted(found.p_values.values())
    assert sorted(found.adjusted.values())[0] == pytest.approx(min(1, 3 * raw[0]))
    assert all(found.adjusted[name] >= p for name, p in found.p_values.items())


def test_a_report_tells_of_poor_fits_and_can_be_saved(tmp_path):
    ranks = np.random.default_rng(4).uniform(size=(50, 1))
    found = report(ranks, num_divergent=1, num_unconverged=3)
    assert "! 1 fit had divergent transitions" in str(found)
    assert "! 3 fits had not converged" in str(found)
    found.save(tmp_path / "report.npz")
    assert str(CalibrationReport.load(tmp_path / "report.npz")) == str(found)


def test_a_picture_has_a_line_and_a_band_for_each_quantity():
    pytest.importorskip("matplotlib").use("agg")
    found = report(np.random.default_rng(5).uniform(size=(50, 3)))
    figure = found.plot(["q0", "q2"])
    assert [axis.get_title() for axis in figure.axes if axis.axison] == ["q0", "q2"]
    with pytest.raises(ValueError, match="'q9'"):
        found.plot("q9")
