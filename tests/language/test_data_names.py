"""Names that data have: labels of sites, codes of categories, and errors where two differ."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import distributions as dist
import inference
import ppl

KEY = jax.random.key(0)
FRAME = pd.DataFrame({"field": ["north", "south", "south", "west"], "rain": [1.0, 2.0, 3.0, 4.0]})
FIELDS = ("north", "south", "west")
PLOTS = pd.Index([10, 11, 12, 13], name="plot")
Y = pd.Series([101.0, 202.0, 203.0, 304.0], index=PLOTS)
LEVELS = jnp.array([100.0, 200.0, 300.0])


def crop(key, data):
    level = ppl.sample(
        key, dist.Normal(jnp.zeros(len(data.categories["field"])), 1.0), name="level"
    )
    return ppl.sample(key, dist.Normal(level[data["field"]] + data.rain, 1e-3), name="crop")


def walk(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 1.0), name="y")


NAMED = ppl.label(crop, {"level": "field"})


def labels(model, *args):
    return {name: node.labels for name, node in ppl.graph(model)(*args).nodes.items()}


def fit_of(draws):
    fit = inference.svi(KEY, ppl.condition(NAMED, {"crop": Y}), FRAME, num_steps=2, num_draws=2)
    return dataclasses.replace(fit, draws={"level": draws})


@pytest.fixture(scope="module")
def fit():
    return fit_of(jnp.broadcast_to(LEVELS, (1, 2, 3)))


def test_an_index_labels_the_site_that_it_observes():
    numbers = tuple(PLOTS)
    assert labels(ppl.condition(crop, {"crop": Y}), FRAME)["crop"] == (("plot", numbers),)
    gaps = ppl.ignore(Y.mask(Y > 300))
    assert labels(ppl.condition(crop, {"crop": gaps}), FRAME)["crop"] == (("plot", numbers),)
    array = xr.DataArray(Y)
    assert labels(ppl.condition(crop, {"crop": array}), FRAME)["crop"] == (("plot", numbers),)
    for nameless in (
        Y.rename_axis(None),
        Y.set_axis(pd.Index([1, 1, 2, 3], name="plot")),
        Y.set_axis(pd.MultiIndex.from_product([[1, 2], [3, 4]], names=["a", "b"])),
        xr.DataArray(Y.to_numpy()),
    ):
        assert labels(ppl.condition(crop, {"crop": nameless}), FRAME)["crop"] == ()


def test_names_of_data_reach_other_sites_and_change_no_number():
    days = pd.date_range("2026-01-30", periods=3, name="day")
    y = pd.Series([1.0, 2.0, 3.0], index=days)
    names = ("2026-01-30", "2026-01-31", "2026-02-01")
    inside = ppl.condition(ppl.label(walk, {"x": "day"}), {"y": y})
    outside = ppl.label(ppl.condition(walk, {"y": y}), {"x": "day"})
    for model in (inside, outside):
        assert labels(model) == {"x": (("day", names),), "y": (("day", names),)}
    summed = ppl.condition(ppl.marginalize(walk, {"x": ppl.Gaussian()}), {"y": ppl.ignore(y)})
    assert labels(summed)["y"] == (("day", names),)
    bare = ppl.condition(walk, {"y": y.to_numpy()})
    values = {"x": jnp.arange(3.0)}
    assert ppl.log_density(inside)(values) == ppl.log_density(bare)(values)
    assert repr(inside) == repr(bare)
    assert "x: float32" in repr(ppl.condition(ppl.condition(walk, values), {"y": y}))


def test_an_index_of_two_lengths_names_nothing():
    def model(key):
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="a")
        ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="b")

    series = [pd.Series(np.ones(n), pd.Index(range(n), name="day")) for n in (2, 3)]
    found = labels(ppl.condition(model, dict(zip("ab", series, strict=True))))
    assert found == {"a": (), "b": ()}


def test_arguments_name_the_entries_of_dimensions(fit):
    assert labels(NAMED, FRAME)["level"] == (("field", FIELDS),)
    assert fit.sites[0][2] == (("field", FIELDS),)
    by_index = ppl.label(crop, {"crop": "plot"})
    assert labels(by_index, FRAME.set_index(PLOTS))["crop"] == (("plot", tuple(PLOTS)),)
    dataset = xr.Dataset.from_dataframe(FRAME.set_index(PLOTS))
    assert labels(by_index, dataset)["crop"] == (("plot", tuple(PLOTS)),)
    other = FRAME.replace({"field": {"west": "east"}})
    assert labels(NAMED, other)["level"] == (("field", ("east", "north", "south")),)


def test_names_of_the_model_code_columns():
    backwards = ppl.label(crop, {"level": "field"}, {"field": ["west", "south", "north", "east"]})
    values = {"level": jnp.array([3.0, 2.0, 1.0, 7.0]), "crop": Y.to_numpy(np.float32)}
    by_hand = dist.Normal(jnp.array([1.0, 2.0, 2.0, 3.0]) + FRAME["rain"].to_numpy(), 1e-3)
    levels = dist.Normal(0.0, 1.0).log_prob(values["level"]).sum()
    expected = by_hand.log_prob(values["crop"]).sum() + levels
    np.testing.assert_allclose(ppl.log_density(backwards)(values, FRAME), expected, rtol=1e-6)
    kinds = FRAME.assign(
        field=pd.Categorical(FRAME["field"], categories=["south", "west", "north"])
    )
    np.testing.assert_allclose(ppl.log_density(backwards)(values, kinds), expected, rtol=1e-6)


def by_county(key, data):
    effect = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="effect")
    ppl.deterministic(effect[data["county"]], name="row")


@pytest.mark.parametrize("kind", ["pandas", "xarray"])
def test_a_column_that_is_the_index_is_coded_by_it(kind):
    frame = pd.DataFrame({"county": ["b", "c", "a"], "rain": [1.0, 2.0, 3.0]})
    table = frame.set_index("county", drop=False)
    if kind == "xarray":
        table = xr.Dataset({"rain": ("county", [1.0, 2.0, 3.0])}, {"county": ["b", "c", "a"]})
    model = ppl.label(by_county, {"effect": "county"})
    assert labels(model, table)["effect"] == (("county", ("b", "c", "a")),)
    values = {"effect": jnp.array([[20.0, 30.0, 10.0]])}  # of b, c and a
    known = ppl.predict(ppl.label(model, coords={"county": ["b", "c", "a"]}), values)
    assert known(KEY, table)["row"][0].tolist() == [20.0, 30.0, 10.0]
    given = ppl.intervene(model, {"effect": values["effect"][0]})
    assert ppl.trace(given)(KEY, table).sites["row"].value.tolist() == [20.0, 30.0, 10.0]
    fit = inference.svi(KEY, model, table, num_steps=2, num_draws=2)
    fit = dataclasses.replace(fit, draws={"effect": jnp.array([[[20.0, 30.0, 10.0]]])})
    plain = frame.iloc[[2, 0]]
    assert ppl.predict(model, fit)(KEY, plain)["row"].ravel().tolist() == [10.0, 20.0]
    words = r"are \['a', 'c', 'b'\] by the index .*, and \['b', 'c', 'a'\] by column 'county'"
    with pytest.raises(ValueError, match=words):
        ppl.predict(model, fit)(KEY, frame.set_index("county", drop=False).iloc[[2, 1, 0]])
    with pytest.raises(ValueError, match="draws alone do not say"):
        ppl.predict(model, values)(KEY, table)


def test_predictions_code_columns_by_the_names_of_the_fit(fit):
    predict = ppl.predict(NAMED, fit)
    for rows in ([0, 1, 2, 3], [3, 1], [2, 1, 3]):
        part = FRAME.iloc[rows]
        expected = np.array([101.0, 202.0, 203.0, 304.0])[rows]
        kinds = part["field"].astype(pd.CategoricalDtype(["west", "north", "south"]))
        for table in (part, part.assign(field=kinds)):
            np.testing.assert_allclose(predict(KEY, table)["crop"][0, 0], expected, atol=0.01)
    pinned = ppl.predict(ppl.label(crop, coords={"field": FIELDS}), fit.draws)
    np.testing.assert_allclose(pinned(KEY, FRAME[3:])["crop"][0, 0], 304.0, atol=0.01)
    assert ppl.predict(crop, 2)(KEY, FRAME)["level"].shape == (2, 3)


def test_containers_of_a_labeled_fit_need_no_more_names():
    posterior = ppl.condition(NAMED, {"crop": Y})
    fit = inference.svi(KEY, posterior, FRAME, num_steps=2, num_draws=2)
    groups = ["posterior_predictive", "observed_data"]
    data = fit.to_arviz(posterior, FRAME, key=KEY, groups=groups)
    for group in groups:
        assert data[group]["crop"].coords["plot"].values.tolist() == list(PLOTS)


def test_codes_in_containers_are_those_of_the_model():
    fields = ["west", "south", "north"]
    posterior = ppl.condition(ppl.label(crop, {"level": "field"}, {"field": fields}), {"crop": Y})
    fit = inference.svi(KEY, posterior, FRAME, num_steps=2, num_draws=2)
    from_fit = fit.to_arviz(posterior, FRAME)
    from_prior = inference.prior_to_arviz(KEY, posterior, FRAME, num_draws=2)
    for data, group in ((from_fit, "posterior"), (from_prior, "prior")):
        codes = data["constant_data"]["data.field"].values
        names = data[group]["level"].coords["field"].values[codes]
        assert names.tolist() == ["north", "south", "south", "west"]


@pytest.mark.parametrize("engine", ["svi", "mcmc"])
def test_names_of_data_are_saved_with_a_fit(engine, tmp_path):
    days = pd.Index(["mon", "tue", "wed"], name="day")
    posterior = ppl.condition(
        ppl.label(walk, {"x": "day"}), {"y": pd.Series([1.0, 2.0, 3.0], index=days)}
    )
    if engine == "svi":
        fit = inference.svi(KEY, posterior, num_steps=2, num_draws=2, checkpoint=tmp_path / "run")
    else:
        steps: dict = {"num_chains": 1, "num_warmup": 2, "num_draws": 2}
        fit = inference.mcmc(KEY, posterior, **steps, checkpoint=tmp_path / "run")
    fit.save(tmp_path / "fit.npz")
    loaded = type(fit).load(tmp_path / "fit.npz")
    assert loaded.sites == (("x", False, (("day", ("mon", "tue", "wed")),)),)
    assert loaded.summary().names == ("x[mon]", "x[tue]", "x[wed]")


OTHER = pd.Index([13, 12, 11, 10], name="plot")
PLOT = {"crop": "plot"}
BACKWARDS = {"plot": list(OTHER)}
CONFLICTS = {
    "coords inside": (
        lambda: ppl.condition(ppl.label(crop, PLOT, BACKWARDS), {"crop": Y}),
        r"'crop' are called \[13, 12, 11, 10\] by the model, and \[10, 11, 12, 13\] in data",
    ),
    "coords outside": (
        lambda: ppl.label(ppl.condition(crop, {"crop": Y}), PLOT, BACKWARDS),
        r"'crop' are called \[13, 12, 11, 10\] by the model, and \[10, 11, 12, 13\] in data",
    ),
    "dimension": (
        lambda: ppl.condition(ppl.label(crop, {"crop": "match"}), {"crop": Y}),
        r"axis of site 'crop' is called 'match', and 'plot' in its data.*rename_axis\('match'\)",
    ),
    "rows": (
        lambda: ppl.condition(lambda key, data: crop(key, data), {"crop": Y.set_axis(OTHER)}),
        r"'plot' are \[13, 12, 11, 10\] by the data, and \[10, 11, 12, 13\] by the index of arg",
    ),
    "coords and rows": (
        lambda: ppl.label(crop, PLOT, BACKWARDS),
        r"'plot' are \[13, 12, 11, 10\] by coords, and \[10, 11, 12, 13\] by the index of argum",
    ),
    "size": (
        lambda: ppl.condition(crop, {"crop": Y[:3]}),
        r"condition: site 'crop': expected float32\[4\], got float32\[3\]",
    ),
    "site": (lambda: ppl.condition(crop, {"corp": Y}), "condition: .* no site 'corp'"),
    "two labels": (
        lambda: ppl.label(
            ppl.label(crop, coords={"field": FIELDS}), coords={"field": FIELDS[::-1]}
        ),
        r"'field' is coded by the names \['west', 'south', 'north'\], and a label inside .*\['nor",
    ),
    "unseen": (
        lambda: ppl.label(crop, coords={"field": ["north", "south"]}),
        r"'field' has the category 'west', which is none of the names .* \['north', 'south'\]",
    ),
}


@pytest.mark.parametrize("name", CONFLICTS)
def test_names_that_differ_are_told_both(name):
    make, words = CONFLICTS[name]
    with pytest.raises(ValueError, match=words):
        ppl.graph(make())(FRAME.set_index(PLOTS) if "rows" in name else FRAME)


def test_categories_of_two_tables_or_of_each_row_are_told():
    two = ppl.label(lambda key, data, other: crop(key, data), {"level": "field"})
    other = FRAME.replace({"field": {"west": "east"}})
    words = (
        r"by column 'field' of argument 0, and \['east', 'north', 'south'\] by column 'field' of a"
    )
    with pytest.raises(ValueError, match=words):
        ppl.graph(two)(FRAME, other)
    with pytest.raises(ValueError, match=r"another name in each row.*set_index\('field'\)"):
        ppl.graph(NAMED)(FRAME.iloc[[3, 0, 1]])
    assert labels(NAMED, FRAME.iloc[[0, 1, 3]])["level"] == (("field", FIELDS),)


def test_draws_alone_do_not_name_categories(fit):
    other = FRAME.replace({"field": {"west": "east"}})
    words = r"'field' holds the categories \['east', 'north', 'south'\], and draws alone do not say"
    for model in (crop, NAMED):
        with pytest.raises(ValueError, match=words + r".*ppl.predict\(model, result\)"):
            ppl.predict(model, fit.draws)(KEY, other)
    with pytest.raises(ValueError, match="category 'east', which is none of the names of 'field'"):
        ppl.predict(NAMED, fit)(KEY, other)


SHUFFLED = FRAME.iloc[[3, 0, 1, 2]]
IN_ORDER_OF_ROWS = list(SHUFFLED["field"].unique())


def level_of_home_and_away(key, data):
    level = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")
    ppl.deterministic(level[data["home"]] - 10 * level[data["away"]], name="row")


def means_by_area(key, data):
    level = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")
    ppl.sample(key, dist.Normal(level, 1.0), name="mean")
    ppl.deterministic(level[data["field"]], name="row")


def test_codes_are_not_entries_in_another_order():
    named = ppl.label(crop, {"level": "area"}, {"area": IN_ORDER_OF_ROWS})
    words = (
        r"'field' is coded .* \['north', 'south', 'west'\].*'area' .*\['west', .*{'field': names}"
    )
    with pytest.raises(ValueError, match=words):
        ppl.graph(named)(SHUFFLED)
    by_index = ppl.label(crop, {"level": "area"})
    table = FRAME.iloc[[3, 0, 1]]
    with pytest.raises(ValueError, match=r"'area' .*\['west', 'north', 'south'\]: a code"):
        ppl.graph(by_index)(table.set_index(table["field"].rename("area")))
    y = pd.Series([300.0, 100.0, 200.0], index=pd.Index(IN_ORDER_OF_ROWS, name="area"))
    for name in ("area", "field"):
        model = ppl.condition(means_by_area, {"mean": y.rename_axis(name)})
        with pytest.raises(ValueError, match=rf"'{name}' have .* \['west', "):
            ppl.graph(model)(FRAME)
        told = ppl.label(model, coords={"field": IN_ORDER_OF_ROWS})
        values = {"level": jnp.array([[3.0, 1.0, 2.0]])}
        row = ppl.predict(told, values)(KEY, FRAME)["row"][0]
        assert row.tolist() == [1.0, 2.0, 2.0, 3.0]
    assert labels(ppl.label(crop, {"level": "area"}, {"area": FIELDS}), SHUFFLED)["level"] == (
        ("area", FIELDS),
    )


def test_categories_that_are_no_entries_of_a_site_are_read():
    table = pd.DataFrame({"smoker": ["yes", "no", "no", "yes"], "month": pd.Categorical(range(4))})
    coords = {"answer": ["yes", "no"], "row": range(3, -1, -1)}

    def model(key, data):
        level = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="level")
        ppl.deterministic(level[data["smoker"]] + 10 * level[data["month"]], name="row")
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="poll")
        ppl.sample(key, dist.Normal(level, 1.0), name="y")

    names = pd.Index(["yes", "no", "c", "d"], name="person")
    polled = ppl.condition(model, {"poll": jnp.zeros(2)})
    of_rows = ppl.condition(model, {"y": pd.Series(np.zeros(4), index=names)})
    draws = {"level": jnp.array([[1.0, 2.0, 3.0, 4.0]]), "poll": jnp.zeros((1, 2))}
    for named, sites in (
        (ppl.label(model, {"level": "row"}, coords), ("level", "poll")),
        (ppl.label(polled, {"poll": "answer"}, coords), ("level",)),
        (of_rows, ("level", "poll")),
    ):
        values = {name: draws[name] for name in sites}
        drawn = dataclasses.replace(ppl.predict(named, values), needs_names=False)
        assert drawn(KEY, table)["row"][0].tolist() == [12.0, 21.0, 31.0, 42.0]
    with pytest.raises(ValueError, match=r"'smoker' is coded .* a code may mean another entry"):
        ppl.graph(ppl.label(model, {"poll": "answer"}, coords))(table)


def test_two_columns_do_not_index_one_table_by_two_codes():
    games = pd.DataFrame({"home": ["a", "b", "b"], "away": ["b", "c", "c"]})
    named = ppl.label(level_of_home_and_away, {"level": "team"}, {"team": ["a", "b", "c"]})
    with pytest.raises(ValueError, match=r"column 'away' .* \['b', 'c'\].*'team'.*\['a', 'b', 'c'"):
        ppl.graph(named)(games)
    both = ppl.label(named, coords={"home": ["a", "b", "c"], "away": ["a", "b", "c"]})
    row = ppl.predict(both, {"level": jnp.array([[1.0, 2.0, 3.0]])})(KEY, games)["row"]
    assert row[0].tolist() == [1 - 20, 2 - 30, 2 - 30]


def test_integers_for_names_of_the_fit_are_told(fit):
    numbers = pd.DataFrame({"field": [10, 20], "rain": [1.0, 2.0]})
    words = r"'field' holds the integers \[10, 20\], .*\['north', 'south', 'west'\] in the fit"
    with pytest.raises(ValueError, match=words):
        ppl.predict(NAMED, fit)(KEY, numbers)
    codes = numbers.assign(field=[2, 0])
    with pytest.raises(ValueError, match=r"integers \[0, 2\].*codes, .*coords={'field': names}"):
        ppl.predict(NAMED, fit)(KEY, codes)

    def plain(key, data):
        level = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")
        return ppl.sample(key, dist.Normal(level[data["field"]] + data.rain, 1e-3), name="crop")

    coded = ppl.label(plain, {"level": "field"}, {"field": FIELDS})
    found = ppl.predict(coded, fit)(KEY, codes)["crop"][0, 0]
    np.testing.assert_allclose(found, [301.0, 102.0], atol=0.01)
    with pytest.raises(ValueError, match=words):
        ppl.predict(coded, fit)(KEY, numbers)


def level_by_year(key, data):
    level = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="level")
    ppl.sample(key, dist.Normal(level[data["year"]], 1e-3), name="y")


def test_integers_for_numbers_that_name_entries_are_told(fit):
    def predict(names, years, model=level_by_year):
        draws = {"level": jnp.array([[[100.0, 200.0]]])}
        of_years = dataclasses.replace(
            fit, sites=(("level", False, (("year", names),)),), draws=draws
        )
        found = ppl.predict(model, of_years)(KEY, pd.DataFrame({"year": years}))["y"]
        return found[0, 0].round(1).tolist()

    years = (2001, 2002)
    assert predict(years, pd.Categorical([2002, 2002])) == [200.0, 200.0]
    assert predict(years, [1, 0]) == [200.0, 100.0]
    words = r"'year' holds the integers \[2001\], .*\[2001, 2002\] in the fit.*pandas.Categorical"
    with pytest.raises(ValueError, match=words):
        predict(years, [2001, 2001])
    with pytest.raises(ValueError, match=r"integers \[-1\]"):
        predict(years, [-1, -1])
    assert predict((0, 1), [1, 0]) == [200.0, 100.0]
    with pytest.raises(ValueError, match=r"integers \[1\], .*\[1, 2\].*coords={'year': names}"):
        predict((1, 2), [1, 1])
    coded = ppl.label(level_by_year, {"level": "year"}, {"year": (1, 2)})
    assert predict((1, 2), [1, 1], coded) == [200.0, 200.0]


def test_a_number_of_a_row_may_be_called_as_rows_are(fit):
    def trend(key, data):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        ppl.deterministic(slope * data["year"], name="mean")

    sites = (("slope", False, ()), ("mean", True, (("year", (0, 1)),)))
    of_years = dataclasses.replace(fit, sites=sites, draws={"slope": jnp.array([[2.0]])})
    found = ppl.predict(trend, of_years)(KEY, pd.DataFrame({"year": [2, 3]}))["mean"]
    assert found[0, 0].tolist() == [4.0, 6.0]


def test_new_categories_are_told_by_their_column(fit):
    unlabeled = dataclasses.replace(fit, sites=(("level", False, ()),))
    for table in (FRAME, FRAME.iloc[[3, 0, 1]]):
        with pytest.raises(ValueError, match="draws alone do not say"):
            ppl.predict(NAMED, fit.draws)(KEY, table)
        with pytest.raises(ValueError, match="the fit has names of no dimension, not of 'field'"):
            ppl.predict(NAMED, unlabeled)(KEY, table)
    gap = FRAME.assign(field=["north", None, "south", "west"])
    with pytest.raises(ValueError, match="column 'field': 1 of its 4 entries are gaps"):
        ppl.predict(NAMED, fit)(KEY, gap)
    with pytest.raises(ValueError, match="column 'rain' holds numbers, and only text"):
        ppl.simulate(lambda key, data: data.categories["rain"])(KEY, FRAME)
    with pytest.raises(ValueError, match="no column 'fild'"):
        ppl.simulate(lambda key, data: data.categories["fild"])(KEY, FRAME)


def test_new_groups_are_drawn_by_names_and_fewer_draws(fit):
    def around_mean(key, data):
        mean = ppl.sample(key, dist.Normal(0.0, 1.0), name="mean")
        num = len(data.categories["field"])
        level = ppl.sample(key, dist.Normal(jnp.full(num, mean), 1e-3), name="level")
        ppl.deterministic(level[data["field"]] + data.rain, name="row")

    model = ppl.label(around_mean, {"level": "field"})
    new = pd.DataFrame({"field": ["east"], "rain": [100.0]})
    with pytest.raises(ValueError, match=r"'east', .* draws without the sites of 'field'"):
        ppl.predict(model, fit)(KEY, new)
    named = ppl.label(model, coords={"field": [*FIELDS, "east"]})
    found = ppl.predict(named, {"mean": jnp.array([5.0, 7.0])})(KEY, new)["row"]
    np.testing.assert_allclose(found[:, 0], [105.0, 107.0], atol=0.01)


def rows_have_levels(key, data):
    level = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="level")
    likelihood = lambda key: ppl.sample(key, dist.Normal(level, 1.0), name="y")  # noqa: E731
    ppl.condition(likelihood, {"y": data["rain"]})(key)


def guide_of_rows(key, data):
    loc = ppl.param(jnp.zeros(4), name="loc")
    ppl.sample(key, dist.Normal(loc, 1.0), name="level")


@pytest.mark.parametrize("guide", [None, guide_of_rows])
def test_batches_name_entries_in_one_order(guide):
    table = FRAME.set_index(PLOTS)
    named = ppl.label(rows_have_levels, {"level": "plot"})
    settings: dict = {"num_steps": 2, "num_draws": 2} | ({} if guide is None else {"guide": guide})
    words = r"'level' along 'plot' are called \[13, 12, 11, 10\] in a batch, and \[10, 11, 12, 13"
    with pytest.raises(ValueError, match=words):
        inference.svi(KEY, named, batches=[table, table[::-1]], **settings)
    fit = inference.svi(KEY, named, batches=[table, table], **settings)
    assert fit.sites[0][2] == (("plot", tuple(PLOTS)),)


def test_chains_go_on_with_the_names_of_their_run():
    other = FRAME.replace({"field": {"west": "zest"}})
    posterior = ppl.condition(NAMED, {"crop": Y})
    steps: dict = {"num_chains": 1, "num_warmup": 2, "num_draws": 2}
    run = inference.mcmc(KEY, posterior, FRAME, **steps)
    words = r"'level' along 'field' are called \['north', .*'west'\] in the run, and .*'zest'\] in"
    with pytest.raises(ValueError, match=words):
        inference.resume(run, posterior, other, num_draws=3)
    assert inference.resume(run, posterior, FRAME, num_draws=3).draws["level"].shape == (1, 3, 3)


def line(key, x, shift=0.0):
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    return ppl.sample(key, dist.Normal(slope * x + shift, 1.0), name="y")


def guide_fit():
    return inference.svi(KEY, MODEL_OF_X, X.to_numpy(), guide=guide_of_slope, num_steps=2)


def line_of_table(key, data):
    return line(key, data["x"])


def guide_of_slope(key, x):
    loc = ppl.param(0.0, name="loc")
    ppl.sample(key, dist.Normal(loc, 1.0), name="slope")


X = pd.Series([1.0, 2.0, 3.0])
SHUFFLED_Y = pd.Series([30.0, 10.0, 20.0], index=[2, 0, 1])
MODEL_OF_X = ppl.condition(line, {"y": SHUFFLED_Y})
TWO_ORDERS = {
    "density": lambda: ppl.log_density(MODEL_OF_X)({"slope": 1.0}, X),
    "unconstrain": lambda: ppl.unconstrain(MODEL_OF_X, X),
    "label": lambda: ppl.graph(ppl.label(MODEL_OF_X, {"y": "row"}))(X),
    "guide": lambda: inference.svi(KEY, MODEL_OF_X, X, guide=guide_of_slope),
    "each": lambda: inference.mcmc_each(KEY, MODEL_OF_X, X, in_axes=None),
    "table": lambda: ppl.graph(ppl.condition(line_of_table, {"y": SHUFFLED_Y}))(X.to_frame("x")),
    "ignore": lambda: ppl.graph(ppl.condition(line, {"y": ppl.ignore(SHUFFLED_Y)}))(X),
    "counts": lambda: ppl.graph(ppl.condition(line, {"y": ppl.impute(SHUFFLED_Y.astype(int))}))(X),
    "marginal": lambda: ppl.log_density(
        ppl.condition(ppl.marginalize(line, {"slope": ppl.Gaussian()}), {"y": SHUFFLED_Y})
    )({}, X),
    "named": lambda: ppl.graph(ppl.condition(line, {"y": SHUFFLED_Y.rename_axis("day")}))(
        X.rename_axis("day")
    ),
    "arguments": lambda: ppl.simulate(line)(KEY, X, shift=SHUFFLED_Y),
    "prior": lambda: inference.importance(KEY, MODEL_OF_X, X),
    "predict": lambda: ppl.predict(line, 4)(KEY, X, shift=SHUFFLED_Y),
    "stream": lambda: next(ppl.predict(line, 4).stream(KEY, X, SHUFFLED_Y)),
    "batches": lambda: inference.svi(KEY, line, batches=[(X, X), (X, SHUFFLED_Y)]),
    "proposal": lambda: inference.importance(KEY, MODEL_OF_X, X, guide=guide_fit()),
    "data": lambda: ppl.condition(walk, {"x": X, "y": SHUFFLED_Y}),
}


@pytest.mark.parametrize("name", TWO_ORDERS)
def test_the_same_rows_in_two_orders_are_told(name):
    with pytest.raises(ValueError, match=r"same in two orders, .*loc\[y.index\].*reset_index"):
        TWO_ORDERS[name]()


def test_rows_are_taken_by_place_if_their_order_agrees():
    by_hand = ppl.condition(line, {"y": SHUFFLED_Y.to_numpy()})
    values = {"slope": 2.0}
    expected = ppl.log_density(by_hand)(values, jnp.array([3.0, 1.0, 2.0]))
    assert ppl.log_density(MODEL_OF_X)(values, X.loc[SHUFFLED_Y.index]) == expected
    assert jax.tree.structure(MODEL_OF_X) == jax.tree.structure(by_hand)
    of_others = X.loc[SHUFFLED_Y.index].set_axis([7, 8, 9])
    assert ppl.log_density(MODEL_OF_X)(values, of_others) == expected


def test_counts_without_gaps_keep_their_names():
    def counts(key):
        ppl.sample(key, dist.Poisson(jnp.ones(3)), name="y")

    y = pd.Series([1, 2, 3], index=pd.Index(["mon", "tue", "wed"], name="day"))
    for given in (y, y.astype("Int64")):
        found = labels(ppl.condition(counts, {"y": ppl.impute(given)}))
        assert found["y"] == (("day", ("mon", "tue", "wed")),)


@pytest.mark.parametrize("function", [ppl.ignore, ppl.impute])
def test_gaps_in_what_holds_no_numbers_are_told(function):
    for given in (
        np.array([1.0, None], object),
        np.array(["a", "b"]),
        pd.Series(["a", None]),
        pd.Series(["a", None], dtype="category"),
    ):
        with pytest.raises(TypeError, match=r"expected an array of numbers, got .* x.cat.codes"):
            function(given)


def test_tables_without_rows_are_told():
    dataset = FRAME.iloc[:0].to_xarray()
    for table, kind in ((FRAME[:0], "DataFrame"), (dataset, "Dataset")):
        for call in (
            lambda table=table: ppl.simulate(crop)(KEY, table),
            lambda table=table: inference.mcmc(KEY, crop, table),
        ):
            with pytest.raises(ValueError, match=f"argument 0: a {kind} without rows, .*'rain'"):
                call()


def test_data_sets_of_tables_are_one_dataset():
    def model(key, data):
        level = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")
        likelihood = lambda key: ppl.sample(  # noqa: E731
            key, dist.Normal(level[data["field"]], 0.1), name="y"
        )
        ppl.condition(likelihood, {"y": data["rain"]})(key)

    tables = [FRAME, FRAME.assign(rain=-FRAME["rain"])]
    with pytest.raises(TypeError, match=r"argument 1 .* list of tables, .* xarray.concat"):
        inference.mcmc_each(KEY, model, tables)
    both = xr.concat([x.to_xarray() for x in tables], "dataset").drop_vars("index")
    steps: dict = {"num_warmup": 200, "num_draws": 200, "num_chains": 1}
    level = inference.mcmc_each(KEY, model, both, **steps).draws["level"].mean((1, 2))
    expected = np.array([[1.0, 2.5, 4.0]]) * np.array([[1], [-1]])
    np.testing.assert_allclose(level, expected, atol=0.15)
