"""Tables as arguments: columns by name, as arrays made by hand, and errors that name a column."""

import pickle

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
FIELDS = ["west", "north", "west", "south"]
FRAME = pd.DataFrame(
    {
        "field": FIELDS,
        "kind": pd.Categorical(["b", "a", "b", "a"], categories=["b", "a", "c"]),
        "rain": [1.5, 2.5, -1.0, 0.25],
        "plants": pd.array([1, 2, 3, 4], dtype="Int64"),
        "irrigated": [True, False, False, True],
    }
)
BY_HAND = {
    "field": np.array([2, 0, 2, 1]),
    "kind": np.array([0, 1, 0, 1]),
    "rain": np.array([1.5, 2.5, -1.0, 0.25], np.float32),
    "plants": np.array([1, 2, 3, 4]),
    "irrigated": np.array([True, False, False, True]),
}
CROP = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


def crop(key, data, num_fields=None):
    num = len(data.categories["field"]) if num_fields is None else num_fields
    level = ppl.sample(key, dist.Normal(jnp.zeros(num), 1.0), name="level")
    slope = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="slope")
    shift = slope[data["kind"]] * data["rain"] + data["irrigated"] * data["plants"]
    return ppl.sample(key, dist.Normal(level[data["field"]] + shift, 1.0), name="crop")


POSTERIOR = ppl.condition(crop, {"crop": FRAME["rain"]})
VALUES = {"level": jnp.array([0.1, 0.2, 0.3]), "slope": jnp.array([0.5, -0.5, 7.0])}


def with_learned(model):
    def learned(key, data, *args):
        shift = ppl.param(0.0, name="shift")
        ppl.factor(-((shift - jnp.mean(data["rain"])) ** 2), name="fit")
        return model(key, data, *args)

    return learned


def with_carried(model):
    def carried(key, data, *args):
        mean = ppl.state(jnp.zeros(()), name="mean")
        ppl.update_state(0.5 * mean + jnp.mean(data["rain"]), name="mean")
        return model(key, data, *args)

    return carried


def guide_of_rain(key, data, *args):
    loc = ppl.param(jnp.zeros(3), name="loc") + data["rain"][1]
    ppl.sample(key, dist.Normal(loc, 1.0), name="level")
    ppl.sample(key, dist.Normal(loc, 0.5), name="slope")


def fit_briefly(model, *args, **settings):
    fit = inference.svi(KEY, model, *args, num_steps=3, num_draws=3, **settings)
    return fit.draws, fit.parameters, fit.model_parameters, fit.model_state


DOORS = {
    "log_density": lambda model, *args: ppl.log_density(model)(VALUES, *args),
    "simulate": lambda model, *args: ppl.simulate(model)(KEY, *args),
    "trace": lambda model, *args: str(ppl.trace(model)(KEY, *args)),
    "graph": lambda model, *args: str(ppl.graph(model)(*args)),
    "predict": lambda model, *args: ppl.predict(model, 3)(KEY, *args),
    "condition": lambda model, *args: ppl.condition(model, {"slope": jnp.ones(3)})(KEY, *args),
    "unconstrain": lambda model, *args: ppl.unconstrain(model, *args).log_density(VALUES),
    "mcmc": lambda model, *args: (
        inference.mcmc(KEY, model, *args, num_warmup=2, num_draws=2, num_chains=1).draws
    ),
    "param": lambda model, *args: fit_briefly(with_learned(model), *args),
    "state": lambda model, *args: fit_briefly(with_carried(model), *args),
    "guide": lambda model, *args: fit_briefly(model, *args, guide=guide_of_rain),
    "importance": lambda model, *args: inference.importance(KEY, model, *args, num_draws=3).draws,
    "with_params": lambda model, *args: ppl.simulate(
        ppl.with_params(with_learned(model), {"shift": 0.5})
    )(KEY, *args),
    "with_state": lambda model, *args: ppl.simulate(
        ppl.with_params(with_carried(model), None, {"mean": 0.5})
    )(KEY, *args),
    "svi": lambda model, *args: (
        inference.svi(
            KEY, model, *args, num_steps=3, num_draws=3, batch=lambda key, *args: args
        ).draws
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_table_is_its_columns_made_by_hand(door):
    call = DOORS[door]
    expected = call(ppl.condition(crop, {"crop": BY_HAND["rain"]}), BY_HAND, 3)
    jax.tree.map(np.testing.assert_array_equal, call(POSTERIOR, FRAME), expected)


def test_columns_say_what_they_hold():
    data = ppl.Columns.of(FRAME)
    assert data.columns == tuple(FRAME.columns) == tuple(data)
    assert data.categories == {"field": ("north", "south", "west"), "kind": ("b", "a", "c")}
    assert len(data) == 4
    assert "rain" in data
    assert "sun" not in data
    for name, array in BY_HAND.items():
        np.testing.assert_array_equal(data[name], array)
        np.testing.assert_array_equal(getattr(data, name), array)
    np.testing.assert_array_equal(data[["rain", "plants"]], FRAME[["rain", "plants"]])
    np.testing.assert_array_equal(data[np.str_("rain")], data["rain"])
    some = data.rows(slice(1, 3))
    assert len(some) == 2
    assert some.categories == data.categories
    by_hand = ppl.Columns.of(FRAME.astype({"field": "category"})[1:3])
    jax.tree.map(np.testing.assert_array_equal, dict(some.arrays), dict(by_hand.arrays))
    assert "'rain': float64[4]" in repr(data)
    again = pickle.loads(pickle.dumps(data))
    assert jax.tree.structure(again) == jax.tree.structure(data)


def test_a_dataset_is_its_variables():
    dataset = xr.Dataset({name: ("row", x.to_numpy()) for name, x in FRAME.items()})
    dataset["kind"] = ("row", BY_HAND["kind"])
    expected = ppl.log_density(POSTERIOR)(VALUES, FRAME)
    assert ppl.log_density(POSTERIOR)(VALUES, dataset) == expected
    data = ppl.Columns.of(xr.Dataset({"x": (("a", "b"), np.ones((2, 3))), "y": ("b", np.ones(3))}))
    assert data["x"].shape == (2, 3)
    with pytest.raises(TypeError, match=r"'x' has the shape \(2, 3\), 'y' has the shape \(3,\)"):
        len(data)


def test_new_numbers_of_a_table_compile_nothing():
    traces = []

    def counted(key, data):
        traces.append(1)
        return crop(key, data)

    density = jax.jit(lambda data: ppl.log_density(counted)(VALUES | {"crop": CROP}, data))
    table = FRAME.assign(gaps=[1.0, 2.0, 3.0, np.nan], mixed=[1, "a", 2, 3])
    other = table.assign(
        rain=FRAME["rain"] + 1.0, field=FIELDS[::-1], gaps=np.nan, mixed=[2, 3, "a", 1]
    )
    first, second = (density(ppl.Columns.of(table)) for table in (table, other))
    assert len(traces) == 1
    assert first != second
    one, two = (ppl.unconstrain(POSTERIOR, table) for table in (table, other))
    assert jax.tree.structure(one) == jax.tree.structure(two)
    read_gaps = jax.jit(lambda data: data["gaps"])
    for given, num in ((table, 1), (other, 4)):
        with pytest.raises(ValueError, match=f"{num} of its 4 entries are gaps"):
            read_gaps(ppl.Columns.of(given))
    fewer = ppl.unconstrain(POSTERIOR, table.replace({"field": {"south": "west"}}))
    assert jax.tree.structure(one) != jax.tree.structure(fewer)


def test_rows_of_a_table_are_minibatches():
    def rows(key, data):
        return data.rows(jax.random.permutation(key, 4)[:2])

    def model(key, data):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        part = lambda key: ppl.sample(key, dist.Normal(slope, 1.0), name="y")  # noqa: E731
        scaled = ppl.scale(lambda key: jax.vmap(part)(jax.random.split(key, len(data))), 2.0)
        ppl.condition(scaled, {"y": data.rain})(key)

    fit = inference.svi(KEY, model, FRAME, batch=rows, num_steps=1500, num_draws=1000)
    assert fit.draws["slope"].mean() == pytest.approx(FRAME["rain"].sum() / 5, abs=0.1)


def by_field(key, data):
    level = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")
    likelihood = lambda key: ppl.sample(key, dist.Normal(level[data.field], 1.0), name="y")  # noqa: E731
    ppl.condition(likelihood, {"y": data.y})(key)


def field_rows(fields, **dtype):
    return pd.DataFrame({"field": pd.Series(fields, **dtype), "y": np.arange(len(fields)) + 1.0})


ALL_FIELDS = pd.CategoricalDtype(["a", "b", "c"])


def fit_rows(model, *batches):
    return inference.svi(KEY, model, batches=batches, num_steps=6).parameters.loc


def step_rows(model, *batches):
    init, update = inference.svi_step(model)
    state = init(KEY, batches[0])
    for batch in batches:
        state, _ = update(state, batch)
    return state.step


@pytest.mark.parametrize("fit", [fit_rows, step_rows])
@pytest.mark.parametrize("dims", [None, {"level": "field"}])
def test_batches_with_other_categories_are_refused(fit, dims):
    model = by_field if dims is None else ppl.label(by_field, dims)
    of_numbers = field_rows([1, 2, 0])
    for other, found in (
        (field_rows(["b", "c", "d"]), r"the categories \['b', 'c', 'd'\]"),
        (of_numbers, "numbers"),
    ):
        words = rf"'field' of a batch holds {found}, but the categories \['a', 'b', 'c'\] in.*Categ"
        with pytest.raises(ValueError, match=words):
            fit(model, field_rows(["a", "b", "c"]), other)
    with pytest.raises(ValueError, match=r"holds the categories \['a', 'b', 'c'\], but numbers"):
        fit(by_field, of_numbers, field_rows(["a", "b", "c"]))


def test_batches_coded_by_all_names_are_coded_alike():
    parts = (["a", "b"], ["b", "c"])
    expected = fit_rows(by_field, *(field_rows(x, dtype=ALL_FIELDS) for x in parts))
    named = ppl.label(by_field, {"level": "field"}, {"field": ["a", "b", "c"]})
    found = fit_rows(named, *map(field_rows, parts))
    np.testing.assert_array_equal(found, expected)


def rain_of_plots(key, data):
    return ppl.sample(key, dist.Normal(data.rain, 1.0), name="y")


def test_chosen_rows_lose_the_names_of_rows():
    data = ppl.Columns.of(FRAME.set_index(pd.Index(list("abcd"), name="plot")))
    named = ppl.label(rain_of_plots, {"y": "plot"})
    whole = ppl.graph(named)(data)
    assert whole.nodes["y"].labels == (("plot", ("a", "b", "c", "d")),)
    for some in (
        data.rows([3, 1]),
        data.rows(jnp.array([3, 1])),
        data.rows(np.array([3, 2, 1, 0])),
        jax.tree.map(lambda x: x[1:], data),
    ):
        assert ppl.graph(named)(some).nodes["y"].labels == (("plot", None),)
    with pytest.raises(TypeError, match="no one number of rows"):
        ppl.Columns.of(xr.Dataset({"x": ("a", np.ones(2)), "y": ("b", np.ones(3))})).rows([0])
    table = FRAME.assign(plot=list("bdac"))
    both = ppl.Columns.of(table.set_index("plot", drop=False))
    for some in (both.rows([1, 2]), jax.tree.map(lambda x: x[1:], both)):
        with pytest.raises(ValueError, match=r"column 'plot' .* has another name in each row"):
            ppl.graph(named)(some)


UNUSABLE = pd.DataFrame(
    {
        "gaps": [1.0, np.nan, np.nan],
        "counts": pd.array([1, None, 2], dtype="Int64"),
        "text": ["a", None, "b"],
        "kinds": pd.Categorical(["a", None, "b"]),
        "nothing": [None, None, None],
        "day": pd.date_range("2026-01-01", periods=3),
        "wait": pd.to_timedelta([1, 2, 3], unit="D"),
        "mixed": [1, "a", 2.0],
        "far": [1, 2, 3_000_000_000],
        "codes": ["a", "b", "a"],
    }
)
WRONG = {
    "gaps": (ValueError, r"2 of its 3 entries are gaps .*dropna.*fillna\(0.0\).*ppl.impute\(x\)"),
    "counts": (ValueError, "1 of its 3 entries are gaps"),
    "text": (ValueError, r"1 of its 3 entries are gaps .*x.fillna\('unknown'\)"),
    "kinds": (ValueError, r"1 of its 3 entries are gaps .*astype\(object\).fillna\('unknown'\)"),
    "nothing": (ValueError, "3 of its 3 entries are gaps"),
    "day": (TypeError, r"got dates; .*\(x - x.min\(\)\) / pandas.Timedelta\('1D'\)"),
    "wait": (TypeError, r"got durations; .*x / pandas.Timedelta\('1D'\)"),
    "mixed": (TypeError, r"got objects such as 1 \(int\); .*pandas.to_numeric"),
    "far": (ValueError, "integers from 1 to 3000000000, .*out of the range of int32"),
    "codes": (TypeError, r"categories \['a', 'b'\]. Codes of a column alone would be without"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_column_that_is_no_array_is_told_where_it_is_read(name):
    kind, words = WRONG[name]

    def reads(key, data):
        ppl.sample(key, dist.Normal(0.0 * data[name], 1.0), name="y")

    def takes(key, x):
        ppl.sample(key, dist.Normal(0.0 * x, 1.0), name="y")

    ppl.simulate(lambda key, data: ppl.sample(key, dist.Normal(0.0, 1.0), name="y"))(KEY, UNUSABLE)
    if name != "codes":
        with pytest.raises(kind, match=f"column '{name}': .*{words}"):
            ppl.simulate(reads)(KEY, UNUSABLE)
    column = UNUSABLE[name]
    for given, what in ((column, "Series"), (xr.DataArray(column, name=name), "DataArray")):
        if name != "kinds" or what == "Series":
            with pytest.raises(kind, match=f"argument 0, {what} '{name}': .*{words}"):
                ppl.simulate(takes)(KEY, given)


def test_names_that_are_no_columns_are_told():
    table = FRAME.set_index("rain")
    two = pd.DataFrame(np.ones((2, 2)), columns=["x", "x"])
    for wrong, kind, words in (
        (lambda data: data[np.str_("rian")], ValueError, "no column .*'rian'"),
        (lambda data: data["rian"], ValueError, "no column 'rian'. Use one of: 'field', 'kind'"),
        (lambda data: data.rian, AttributeError, "no column 'rian'. Use one of"),
        (
            lambda data: data["rain"],
            ValueError,
            r"'rain'. .*name of the index.*reset_index",
        ),
        (lambda data: data[["field"]], TypeError, "'field' holds categories, whose codes"),
        (lambda data: data[jnp.arange(2)], TypeError, r"data.rows\(index\)"),
        (lambda _: ppl.Columns.of(two)["x"], ValueError, "column 'x': two columns have this name"),
        (lambda _: ppl.Columns.of(3), TypeError, "Columns.of takes a pandas.DataFrame or"),
    ):
        with pytest.raises(kind, match=words):
            ppl.simulate(lambda key, data, f=wrong: f(data))(KEY, table)


def test_tables_of_other_libraries_are_no_arguments():
    class Table:
        """What polars has."""

        columns = ("x", "z")

        def __array__(self, dtype=None, copy=None):
            return np.ones((2, 2))

    with pytest.raises(TypeError, match=r"argument 0: .* Table with the columns \['x', 'z'.*to_pa"):
        ppl.simulate(crop)(KEY, Table())


def test_masked_entries_are_told_at_every_door():
    masked = np.ma.array([[1.0, 1e20]] * 2, mask=[[False, True]] * 2)

    def model(key, x):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="y")

    for call in (
        lambda: inference.mcmc_each(KEY, model, masked),
        lambda: inference.svi(KEY, model, masked, num_steps=2),
        lambda: ppl.unconstrain(model, masked),
        lambda: ppl.predict(model, 2)(KEY, masked),
    ):
        with pytest.raises(TypeError, match="argument 0: 2 of its 4 entries are masked"):
            call()
