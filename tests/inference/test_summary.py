"""The table of a summary: its order, what it leaves out, its numbers, and other forms of it."""

import dataclasses
import re
import sys
from io import StringIO
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pytest

import distributions as dist
import inference
import ppl
from inference import MCMCResult
from inference.results.summary import describe, interval_levels

RNG = np.random.default_rng(0)
STATS = {"is_divergent": np.zeros((4, 500), bool)}


def normal(*shape, loc=0.0, scale=1.0):
    return loc + scale * RNG.normal(size=(4, 500, *shape))


def summary(draws, sites=(), **kwargs):
    return MCMCResult(draws, STATS, None, sites=sites).summary(**kwargs)


def row_names(text):
    """What the lines of a table begin with, down to the empty line."""
    return [line.split("  ")[0] for line in text.split("\n\n")[0].splitlines()[1:]]


DRAWS = {
    "alpha": normal(40),
    "beta": {"mu": normal(loc=5.0), "tau": normal(2)},
    "effect": normal(),
    "chol": normal(2, 2) * [[0, 0], [1, 1]] + [[1, 0], [0, 0]],
}
SITES = (
    *(("beta.tau", False), ("chol", False), ("effect", True)),
    *(("alpha", False), ("beta.mu", False)),
)


def test_small_sites_come_first_and_deterministic_ones_last():
    text = str(summary(DRAWS, SITES))
    assert row_names(text) == [
        *("beta.tau[0]", "beta.tau[1]", "chol[1,0]", "chol[1,1]", "beta.mu"),
        *("alpha[0]", "alpha[1]", "alpha[2]"),
        next(name for name in row_names(text) if ".." in name),
        *("alpha[39]", "deterministic:", "effect"),
    ]
    gap = next(line for line in text.splitlines() if ".." in line)
    means = DRAWS["alpha"].mean((0, 1))[3:39]
    assert gap.startswith(f"alpha[3 .. 38]: mean {means.min():.3g} to {means.max():.3g}, R-hat at")
    assert "2 entries are constant, and not shown." in text
    assert len(row_names(summary(DRAWS, SITES).table())) == 40 + 6 + 1


def test_a_model_gives_the_order_of_its_sites():
    def model(key):
        zeta = ppl.sample(key, dist.Normal(0.0, 1.0), name="zeta")
        ppl.deterministic(2 * zeta, name="double")
        return ppl.sample(key, dist.Normal(zeta, 1.0), name="alpha")

    key, short = jax.random.key(0), {"num_draws": 100}
    results = [
        inference.mcmc(key, model, num_warmup=50, **short),
        inference.svi(key, model, num_steps=10, **short),
        inference.laplace(key, model, **short),
        inference.pathfinder(key, model, **short),
        inference.svgd(key, model, num_steps=10, num_particles=50),
    ]
    results.append(inference.importance(key, model, guide=results[2], **short))
    for result in results:
        expected = ["zeta", "alpha", "deterministic:", "double"]
        assert row_names(str(result.summary())) == expected, type(result)
    joined = jax.tree.map(lambda x: x, results[0])
    assert row_names(str(joined.summary(deterministic=False))) == ["zeta", "alpha"]


def test_the_numbers_of_a_column_have_one_format():
    rng = np.random.default_rng(1)
    draws = {"n": 5 + 3 * rng.normal(size=(4, 500)), "z": -3 + rng.normal(size=(4, 500))}
    lines = str(summary(draws)).splitlines()
    decimals = lambda cell: len(cell.partition(".")[2])  # noqa: E731
    for column in range(1, 7):
        assert len({decimals(line.split()[column]) for line in lines[1:3]}) == 1
    wide = str(summary({"a": normal(scale=1e-5), "b": normal(scale=1e9)}))
    assert re.search(r"^a +\S+ +\d\.?\d*e-0[56]", wide, re.MULTILINE)
    tiny = str(summary({"a": normal(scale=1e-3)}))
    assert "-0.0000 " not in tiny


def test_a_stuck_run_shows_what_is_constant():
    text = str(summary({"x": np.ones((4, 500)), "y": np.zeros((4, 500))}))
    assert row_names(text) == ["x", "y"]
    assert "constant" not in text


def test_rounding_does_not_make_an_entry_vary():
    dust = np.float32(1 + 1.2e-7 * RNG.integers(0, 2, size=(4, 500)))
    assert np.ptp(dust) > 0
    assert row_names(str(summary({"x": dust, "y": normal()}))) == ["y"]


def test_what_varies_little_or_is_infinite_is_no_constant():
    """Numbers with a large mean, such as dates, in double precision; and a draw that overflowed."""
    infinite = normal()
    infinite[0, 0] = np.inf
    text = str(summary({"date": 2.4e6 + normal(scale=0.1), "far": infinite, "y": normal()}))
    assert row_names(text) == ["date", "far", "y"]
    with pytest.raises(ValueError, match="nothing to summarize"):
        summary({})


def test_many_sites_are_named_below():
    names = [f"site{i:03d}" for i in range(100)]
    text = str(summary({name: normal() for name in names}))
    assert row_names(text)[:60] == names[:60]
    assert "... and 40 more sites (site060 to site099)" in text


def test_some_sites():
    whole = summary(DRAWS, SITES)
    assert summary(DRAWS, SITES, names="beta").names == ("beta.tau[0]", "beta.tau[1]", "beta.mu")
    part = summary(DRAWS, SITES, names=["alpha[7]", "effect"])
    assert part.names == ("alpha[7]", "effect")
    assert part["alpha[7]"] == whole["alpha[7]"]
    assert part.problems == whole.problems
    assert "effect" not in summary(DRAWS, SITES, deterministic=False).names
    assert summary(DRAWS, SITES, names="effect", deterministic=False).names == ("effect",)
    with pytest.raises(ValueError, match="expected names of sites, got none"):
        summary(DRAWS, SITES, names=[])
    with pytest.raises(ValueError, match=r"no site is called 'bta'; there are beta\.tau, chol"):
        summary(DRAWS, SITES, names=["bta"])


def test_intervals_are_columns():
    found = summary(DRAWS, intervals=(0.5, 0.8))
    assert str(found).split()[:7] == ["mean", "sd", "10%", "25%", "50%", "75%", "90%"]
    expected = np.quantile(DRAWS["effect"], [0.1, 0.25, 0.5, 0.75, 0.9])
    np.testing.assert_allclose(found.quantiles[:, found.names.index("effect")], expected)
    assert interval_levels(0.9) == (0.05, 0.5, 0.95)
    for wrong in (0.0, 1.0, 90, "0.9", [0.5, np.nan], []):
        with pytest.raises(ValueError, match="intervals must be a probability between 0 and 1"):
            summary(DRAWS, intervals=wrong)


def test_a_name_with_a_dot_is_not_taken_for_a_scope():
    draws = {"a.b": normal(loc=25.0), "a": {"b": normal(loc=15.0)}}
    assert re.findall(r"a\.b +(\d)", str(summary(draws))) == ["1", "2"]


def test_a_data_frame_has_all_scalars(monkeypatch):
    whole = summary(DRAWS, SITES)
    frame = whole.to_pandas()
    assert list(frame.index) == list(whole.names)
    assert list(frame.columns) == [
        *("mean", "sd", "5%", "50%", "95%", "MCSE", "ESS bulk", "ESS tail", "R-hat"),
    ]
    np.testing.assert_array_equal(frame["R-hat"], whole.rhat)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas"):
        whole.to_pandas()


SUMMARIES = {
    "whole": lambda: summary(DRAWS, SITES),
    "intervals": lambda: summary(DRAWS, SITES, intervals=(0.5, 0.9, 0.975)),
    "part": lambda: summary(DRAWS, SITES, names=["alpha[0]", "alpha[1]", "beta", "chol[1]"]),
    "no diagnostics": lambda: describe({"x": RNG.normal(size=(1, 50, 3))}),
    "problems": lambda: summary({"x": normal() + 5 * np.arange(4)[:, None], "n": normal(0, 2)}),
}


@pytest.mark.parametrize("case", SUMMARIES)
def test_a_summary_comes_back_from_its_frame(case):
    before = SUMMARIES[case]()
    frame = before.to_pandas()
    after = inference.Summary.from_pandas(frame)
    for field in dataclasses.fields(before):
        a, b = getattr(before, field.name), getattr(after, field.name)
        if field.name == "sites":  # a site without entries has no row
            assert [x for x in a if x.start < x.stop] == list(b)
        elif isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        else:
            assert a == b, field.name
    assert str(after) == str(before)


def test_a_frame_from_a_file_has_names_and_shapes():
    frame = summary(DRAWS, SITES).to_pandas()
    again = inference.Summary.from_pandas(pandas.read_csv(StringIO(frame.to_csv()), index_col=0))
    np.testing.assert_allclose(again["alpha"].mean, DRAWS["alpha"].mean((0, 1)), rtol=1e-12)
    assert again["beta.tau"].sd.shape == (2,)
    assert again["chol"].q50.shape == (2, 2)
    assert "Its problems are not known." in str(again)
    with pytest.raises(ValueError, match="read a file with index_col=0"):
        inference.Summary.from_pandas(pandas.read_csv(StringIO(frame.to_csv())))
    part = inference.Summary.from_pandas(frame.loc[["alpha[0]", "alpha[1]", "beta.mu"]])
    assert [site.shape for site in part.sites] == [None, ()]


def test_without_a_column_a_frame_has_not_the_verdict_on_it():
    whole = dataclasses.replace(summary(DRAWS, SITES), problems=(), verdict="R-hat is fine.")
    frame = whole.to_pandas()
    assert "R-hat is fine." in str(inference.Summary.from_pandas(frame.drop(columns="5%")))
    part = inference.Summary.from_pandas(frame[["mean", "sd"]])
    assert "R-hat is fine." not in str(part)
    assert "Its problems are not known." in str(part)
    assert "R-hat is fine." in str(inference.Summary.from_pandas(frame))


def test_frames_that_are_no_summaries():
    with pytest.raises(TypeError, match="takes a data frame"):
        inference.Summary.from_pandas({"mean": [1.0]})
    with pytest.raises(ValueError, match=r"expected the columns 'mean' and 'sd', .* got mean, x"):
        inference.Summary.from_pandas(pandas.DataFrame({"mean": [1.0], "x": [2.0]}))


def test_html_has_the_same_cells():
    result = MCMCResult({"a<b": normal(), "c": normal(20)}, STATS, None)
    page = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>".replace("<br>", "<br/>"))
    cells = [[cell.text for cell in row] for row in page.iter("tr")]
    text = str(result.summary()).split("\n\n")[0].splitlines()
    assert cells[1][0] == "a<b"
    assert cells[1][1:] == text[1].split()[1:]
    assert cells[5] == [text[5]]
    assert len(cells) == len(text)


def test_draws_of_a_guide_have_no_diagnostics():
    result = inference.laplace(
        jax.random.key(0), lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    )
    assert str(result.summary()).split()[:5] == ["mean", "sd", "5%", "50%", "95%"]
    assert dataclasses.replace(result, draws={"x": jnp.zeros((1, 9))}).summary().is_constant.all()


def test_a_row_of_a_matrix_has_a_name():
    draws = {"u": normal(4, 3), "v": normal(2, 2, 2)}
    assert summary(draws, names="u[3]").names == ("u[3,0]", "u[3,1]", "u[3,2]")
    assert summary(draws, names=["v[1]", "u[0,2]"]).names == (
        *("u[0,2]", "v[1,0,0]", "v[1,0,1]", "v[1,1,0]", "v[1,1,1]"),
    )
    assert summary(draws, names="v[0,1]").names == ("v[0,1,0]", "v[0,1,1]")
    with pytest.raises(ValueError, match=r"no site is called 'u\[4\]'"):
        summary(draws, names="u[4]")


def test_constants_have_no_diagnostics():
    whole = summary(DRAWS)
    constant = [list(whole.names).index(name) for name in ("chol[0,0]", "chol[0,1]")]
    assert whole.is_constant.nonzero()[0].tolist() == constant
    for field in ("ess_bulk", "ess_tail", "rhat"):
        assert np.flatnonzero(np.isnan(getattr(whole, field))).tolist() == constant
    assert np.isnan(whole.to_pandas()["ESS bulk"].iloc[constant]).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 501])
def test_quantiles_are_those_of_numpy(size):
    draws = np.stack([RNG.normal(size=(3, size)), RNG.poisson(2.0, (3, size))], 2)
    for dtype in (np.float32, np.float64):
        x = draws.astype(dtype)
        found = MCMCResult({"x": x}, {}, None).summary(intervals=(0.5, 0.9))
        expected = np.quantile(x.astype(float), found.levels, (0, 1))
        np.testing.assert_array_equal(found.quantiles, expected)
