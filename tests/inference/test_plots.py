"""Pictures of results by ArviZ: each is one call, and shows what it should."""

import importlib.util

import jax
import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import MCMCResult
from inference.results.plots import _check_names

matplotlib.use("Agg")
pytestmark = [
    pytest.mark.promotion(rank="allow", dtype="standard"),
    pytest.mark.filterwarnings("ignore"),  # those of ArviZ and matplotlib
]
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def model(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    s = ppl.sample(key, dist.Normal(0.0, 1.0), name="s")
    ppl.sample(key, dist.Normal(x, jnp.exp(s)), name="z")
    return ppl.sample(key, dist.Normal(x * jnp.ones(20), 1.0), name="y")


POSTERIOR = ppl.condition(model, {"y": RNG.normal(size=20)})
STATS = {
    "is_divergent": RNG.uniform(size=(4, 100)) < 0.1,
    "energy": RNG.normal(size=(4, 100)),
}
DRAWS = {name: RNG.normal(size=(4, 100)) / 5 for name in ("x", "s", "z")}
RESULT = MCMCResult(DRAWS, STATS, None)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def drawn(call):
    """Numbers of lines and of collections in the figure that a call draws."""
    call()
    axes = plt.gcf().axes
    return sum(len(ax.lines) for ax in axes), sum(len(ax.collections) for ax in axes)


@pytest.mark.filterwarnings("error::matplotlib.MatplotlibDeprecationWarning")
def test_traces_show_every_chain():
    assert drawn(lambda: RESULT.plot_trace(["x", "s"]))[0] >= 8


def test_pairs_mark_divergences():
    def marks(result):
        result.plot_pairs(["x", "s"])
        axes = plt.gcf().axes
        num = sum(len(ax.collections) + len(ax.lines) for ax in axes)
        plt.close("all")
        return num

    settled = MCMCResult(DRAWS, {"is_divergent": np.zeros((4, 100), bool)}, None)
    assert marks(RESULT) > marks(settled)


def test_ranks_and_forest_show_names():
    assert drawn(lambda: RESULT.plot_ranks("x")) != (0, 0)
    RESULT.plot_forest(["x", "s"])
    figure = plt.gcf()
    texts = [t.get_text() for ax in figure.axes for t in (*ax.get_yticklabels(), *ax.texts)]
    assert any("x" in text for text in texts)
    assert not any("z" in text for text in texts)


MANY = MCMCResult({"theta": RNG.normal(size=(2, 50, 40, 2)), "a": DRAWS["x"][:2, :50]}, {}, None)


def test_the_height_of_a_forest_follows_its_lines():
    heights = []
    for names in (["a"], ["a", "theta"]):
        MANY.plot_forest(names)
        heights.append(plt.gcf().get_figheight())
        assert plt.gcf().get_layout_engine() is not None  # labels are not clipped
        plt.close("all")
    assert heights[0] < 3
    assert heights[1] > 80 * 0.2


def test_names_of_entries_select_them():
    data = MANY._data(None, None)
    names = _check_names("plot_trace", data, ["theta[3, 1]", "theta[7]", "a"], "posterior")
    assert names == ["theta[3, 1]", "theta[7]", "a"]
    theta = MANY.draws["theta"]
    np.testing.assert_array_equal(data["posterior"]["theta[3, 1]"], theta[..., 3, 1])
    np.testing.assert_array_equal(data["posterior"]["theta[7]"], theta[..., 7, :])
    assert drawn(lambda: MANY.plot_trace(["theta[3,1]", "a"]))[0] >= 4
    with pytest.raises(
        ValueError, match=r"there is no 'theta\[40\]'; theta has the shape \(40, 2\)"
    ):
        MANY.plot_trace("theta[40]")
    with pytest.raises(ValueError, match=r"there is no 'a\[0\]'; a has the shape \(\)"):
        MANY.plot_forest("a[0]")


def test_energy_needs_an_energy():
    assert drawn(RESULT.plot_energy) != (0, 0)
    with pytest.raises(ValueError, match="plot_energy: these draws have no energy"):
        MCMCResult(DRAWS, {}, None).plot_energy()


def test_predictive_and_loo_pit_take_the_model():
    assert drawn(lambda: RESULT.plot_predictive(POSTERIOR, key=KEY))[0] > 10
    plt.close("all")
    assert drawn(lambda: RESULT.plot_loo_pit(POSTERIOR, key=KEY))[0] >= 1
    plt.close("all")
    assert drawn(lambda: RESULT.plot_predictive(POSTERIOR, key=KEY, names="y[1]"))[0] > 10
    plt.close("all")
    assert drawn(lambda: RESULT.plot_loo_pit(POSTERIOR, key=KEY, names="y[1]"))[0] >= 1
    with pytest.raises(TypeError, match="plot_loo_pit draws data anew: give it a random key"):
        RESULT.plot_loo_pit(POSTERIOR)
    with pytest.raises(ValueError, match="plot_predictive: the model has no data"):
        RESULT.plot_predictive(ppl.block(model, ["y"]), key=KEY)


def test_missing_data_are_in_no_picture():
    y = np.where(np.arange(20) % 4 == 0, np.nan, RNG.normal(size=20)).astype("f4")
    gappy = ppl.condition(model, {"y": ppl.ignore(y)})
    data = RESULT._predictions("", gappy, (), {}, KEY, needs_likelihood=True)
    for group in ("observed_data", "posterior_predictive", "log_likelihood"):
        assert data[group]["y"].sizes["y_entry"] == 15, group
    np.testing.assert_array_equal(data["observed_data"]["y"], y[~np.isnan(y)])
    assert drawn(lambda: RESULT.plot_predictive(gappy, key=KEY))[0] > 10
    plt.close("all")
    assert drawn(lambda: RESULT.plot_loo_pit(gappy, key=KEY))[0] >= 1
    _check_names("", data, "y[5]", "posterior_predictive")  # the fourth that is not missing
    np.testing.assert_array_equal(data["observed_data"]["y[5]"], y[5])
    with pytest.raises(ValueError, match=r"plot: names: 'y\[4\]' is missing, or no entry of y"):
        _check_names("plot", data, "y[4]", "posterior_predictive")


def test_unknown_names_are_errors_in_words():
    with pytest.raises(ValueError, match="plot_trace: names: no site is called 'w'; there are s"):
        RESULT.plot_trace("w")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"plot_trace needs matplotlib: pip install"):
        RESULT.plot_trace()
