"""Comparison of models: differences against ArviZ, stacking weights against a grid, words."""

import importlib
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.comparison.model_comparison import stacking_weights
from inference.comparison.units import Units
from inference.results.elpd import make_estimate
from inference.results.run_facts import RunFacts

SIZE = 150
rng = np.random.default_rng(0)
TERMS = -1.0 - rng.exponential(size=(3, SIZE)) + np.array([[0.0], [-0.1], [-0.6]])


def estimate(terms, **given):
    names = tuple(f"y[{i}]" for i in range(len(terms)))
    return make_estimate(np.asarray(terms, float), names, "made up.", **given)


def comparison(terms=TERMS):
    return inference.compare(
        {name: estimate(x, p=2.0) for name, x in zip("abc", terms, strict=False)}
    )


def test_differences_are_paired_by_observation():
    found = comparison()
    order = np.argsort(-TERMS.sum(1))
    assert found.names == tuple("abc"[i] for i in order)
    differences = TERMS[order] - TERMS[order[0]]
    np.testing.assert_allclose(found.difference, differences.sum(1))
    np.testing.assert_allclose(found.difference_se, np.sqrt(SIZE * differences.var(1, ddof=1)))


def test_a_constant_difference_is_certain():
    found = comparison([TERMS[0], TERMS[0] - 0.5])
    np.testing.assert_allclose(found.difference, [0, -75])
    np.testing.assert_allclose(found.difference_se, 0, atol=1e-6)
    np.testing.assert_allclose(found.se[0], found.se[1])


@pytest.mark.parametrize("terms", [TERMS, TERMS[:2], TERMS[[2, 1]], TERMS - 2000.0])
def test_stacking_weights_are_the_best_on_a_grid(terms):
    steps, density = 50, np.exp(terms - terms.max(0))
    score = lambda w: np.mean(np.log(np.asarray(w) @ density))  # noqa: E731
    grid = itertools.product(range(steps + 1), repeat=len(terms))
    on_simplex = [np.array(w) / steps for w in grid if sum(w) == steps]
    weights = stacking_weights(terms)
    np.testing.assert_allclose(weights.sum(), 1)
    assert np.all(weights >= 0)
    best = max(on_simplex, key=score)
    assert score(weights) >= score(best) - 1e-12
    np.testing.assert_allclose(weights, best, atol=1.5 / steps)
    # The gradient is 1 for models in use and at most 1 for the others (Karush, Kuhn, Tucker).
    gradient = np.mean(density / (weights @ density), 1)
    assert np.all(gradient < 1 + 1e-4)
    np.testing.assert_allclose(gradient[weights > 1e-3], 1, atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_comparison_agrees_with_arviz():
    arviz = pytest.importorskip("arviz")
    xarray = pytest.importorskip("xarray")
    is_new = int(arviz.__version__.split(".")[0]) >= 1
    found = comparison()
    elpds = {}
    for name, terms in zip("abc", TERMS, strict=True):
        elpd, se, p = terms.sum(), np.sqrt(SIZE * terms.var(ddof=1)), 2.0
        array = xarray.DataArray(terms, dims="obs")
        index = "elpd_loo se p_loo n_samples n_data_points warning loo_i pareto_k scale good_k"
        data = [elpd, se, p, 1000, SIZE, False, array, array * 0, "log", 0.7]
        given = dict(zip(index.split(), data, strict=True))
        if is_new:
            names = {"elpd_loo": "elpd", "p_loo": "p", "loo_i": "elpd_i"}
            utils = importlib.import_module("arviz_stats.utils")
            elpds[name] = utils.ELPDDataLOO(**{names.get(k, k): x for k, x in given.items()})
        else:
            stats = importlib.import_module("arviz.stats")
            elpds[name] = stats.ELPDData(list(given.values()), index=list(given))
    table = arviz.compare(elpds, method="stacking", **({"round_to": "none"} if is_new else {}))
    difference = table["elpd_diff"].to_numpy(float)
    assert tuple(table.index) == found.names
    np.testing.assert_allclose(np.abs(difference), -found.difference, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(table["se"].to_numpy(float), found.se, rtol=1e-6)
    dse = table["dse"].to_numpy(float) / np.sqrt(1 - 1 / SIZE)  # it divides by n here
    np.testing.assert_allclose(dse, found.difference_se, rtol=1e-6)
    np.testing.assert_allclose(table["weight"].to_numpy(float), found.weight, atol=2e-3)


def test_the_error_of_one_term_is_unknown():
    one = estimate(TERMS[0, :1])
    assert np.isnan(one.se)
    assert str(one).splitlines()[1].split() == ["elpd", f"{TERMS[0, 0]:.1f}", "-"]


def test_words_on_small_differences():
    near = comparison([TERMS[0], TERMS[0] - 0.01])
    assert "predict equally well" in near.problems[0]
    noisy = comparison([TERMS[0], TERMS[0] - 0.1 + np.resize([2.0, -2.0], SIZE)])
    assert "small beside its standard error" in noisy.problems[0]
    clear = comparison([TERMS[0], TERMS[0] - 0.5])
    assert not clear.problems
    few = comparison([TERMS[0, :50], TERMS[0, :50] - 0.5])
    assert "50 observations are less than 100" in few.problems[0]


def test_words_on_a_bad_pareto_k():
    k = np.full(SIZE, 0.1)
    k[7] = 1.2
    bad = estimate(TERMS[1] - 1, pareto_k=k)
    found = inference.compare({"good": estimate(TERMS[0]), "bad": bad})
    assert "bad: 1 of 150 Pareto k above 0.7, 1.20 for y[7]" in found.problems[0]
    assert "weight" in str(found) == repr(found)
    assert repr(bad) == str(bad) != ""
    assert "<table>" in found._repr_html_()


def test_words_on_other_data():
    """Of fits to one array, to one with an entry changed, and to one in another order."""
    y = rng.normal(size=SIZE)
    changed, moved = y.copy(), np.roll(y, 1)
    changed[7] += 1e-3
    units = Units.of((("y", (SIZE,)),), {"y": np.zeros(SIZE, bool)})
    known = {"y": np.zeros(SIZE, bool)}
    digest = lambda x: units.digest({"y": x}, known)  # noqa: E731
    of = lambda x, terms=TERMS[0]: estimate(terms, digests=digest(x))  # noqa: E731
    same = {"a": of(y), "b": of(y.astype(np.float32), TERMS[0] - 0.5)}
    assert not inference.compare(same).problems
    other = inference.compare({"a": of(y), "b": of(changed, TERMS[0] - 0.5)})
    assert "a and b were fitted to other data: 1 of 150 observations differ, y[7] of b" in str(
        " ".join(str(other).split())
    )
    order = inference.compare({"a": of(y), "b": of(moved, TERMS[0] - 0.5)})
    assert "150 of 150 observations differ" in order.problems[0]
    folds = [
        make_estimate(TERMS[0][:3], ("fold 0", "fold 1", "fold 2"), "", digests=np.array(x))
        for x in ([1, 2, 3], [1, 3, 2])
    ]
    told = inference.compare(dict(zip("ab", folds, strict=True))).problems[0]
    assert "the folds of a and b hold other data: 2 of 3 differ, fold 1 of b first" in told
    counts = np.arange(SIZE)
    np.testing.assert_array_equal(digest(counts), digest(counts.astype(float)))


def test_loo_knows_its_data():
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu * jnp.ones((3, 2)), 1.0), name="a")
        rows = dist.MultivariateNormal(mu * jnp.ones((3, 2)), scale_diag=jnp.ones(2))
        ppl.sample(key, rows, name="v")

    draws = {"mu": rng.normal(size=(2, 50))}
    result = inference.MCMCResult(draws, {}, None)
    a, v = rng.normal(size=(2, 3, 2))
    a[1, 0] = np.nan

    def digests(a, v, **given):
        posterior = ppl.condition(model, {"a": ppl.ignore(a), "v": v})
        return inference.loo(result, posterior, **given).digests

    changed = v.copy()
    changed[2, 1] += 1
    before, after = digests(a, v), digests(a, changed)
    np.testing.assert_array_equal(np.flatnonzero(before != after), [7])
    rows = digests(a, v, unit="row"), digests(a, changed, unit="row")
    np.testing.assert_array_equal(rows[0] != rows[1], [False, False, True])


def test_mistakes():
    one = estimate(TERMS[0])
    with pytest.raises(TypeError, match="dict of results"):
        inference.compare([one, one])
    with pytest.raises(ValueError, match="two models at least"):
        inference.compare({"a": one})
    with pytest.raises(ValueError, match="their numbers differ: a 150, b 149"):
        inference.compare({"a": one, "b": estimate(TERMS[0, 1:])})


def test_tables_are_saved_and_compared_again(tmp_path):
    one = estimate(TERMS[0], pareto_k=np.linspace(0, 1, SIZE), digests=np.arange(SIZE))
    scaling = inference.PowerScaling(
        ("x",), np.array([0.1]), np.array([0.2]), {"x": np.array([0.1])}, ("x",), ("",), ("bad.",)
    )
    for table in (one, comparison(), scaling):
        table.save(tmp_path / "table.npz")
        loaded = type(table).load(tmp_path / "table.npz")
        assert str(loaded) == str(table)
        assert type(loaded) is type(table)
    one.save(tmp_path / "one.npz")
    loaded = inference.ElpdEstimate.load(tmp_path / "one.npz")
    two = estimate(TERMS[1], digests=np.arange(SIZE))
    assert str(inference.compare({"a": loaded, "b": two})) == str(
        inference.compare({"a": one, "b": two})
    )


def test_results_say_where_else_their_methods_are():
    """Of each public result: what is missing beside a result of draws is told."""
    fits = inference.MCMCResults({}, {}, None, RunFacts(), ())
    report = inference.CalibrationReport(("x",), np.ones((3, 1)))
    wanted = "draws", "plot_trace", "report", "save", "summary", "to_arviz"
    for result in (estimate(TERMS[0]), comparison(), fits, report):
        for name in wanted:
            if not hasattr(result, name) and name != "plot_trace":
                with pytest.raises(AttributeError, match=rf"no attribute '{name}' \(.+\)$"):
                    getattr(result, name)
    with pytest.raises(AttributeError, match=r"of one data set: fits\[i\].plot_trace\(...\)"):
        fits.plot_trace  # noqa: B018
    with pytest.raises(AttributeError, match=r"of one data set: fits\[i\].report\(...\)"):
        fits.report("report.html")
