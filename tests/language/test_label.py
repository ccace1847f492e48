"""Names of dimensions and of entries: from the model into every result, and wrong ones told."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import distributions as dist
import inference
import ppl

KEY = jax.random.key(0)
TEAMS = ["England", "France", "Italy"]
DIMS = {"attack": "team", "part.effect": ("team", None), "total": ("kind",), "points": ("team",)}
COORDS = {"team": TEAMS, "kind": [2020, 2021], "nobody's": ["x"]}


def league(key):
    attack = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="attack")

    def part(key):
        return ppl.sample(key, dist.Normal(jnp.zeros((3, 2)), 1.0), name="effect")

    effect = ppl.nest(part, scope="part")(key)
    ppl.deterministic(effect.sum(0), name="total")
    ppl.sample(key, dist.Normal(attack, 0.5), name="points")


NAMES = (
    *("attack[England]", "attack[France]", "attack[Italy]"),
    *(f"part.effect[{team},{i}]" for team in TEAMS for i in range(2)),
    *("total[2020]", "total[2021]"),
)


def posterior(dims=DIMS, coords=COORDS, treat=lambda model: model):
    data = {"points": jnp.array([1.0, 0.5, -1.0])}
    return treat(ppl.condition(ppl.label(league, dims, coords), data))


@pytest.fixture(scope="module")
def fit():
    return inference.svi(KEY, posterior(), num_steps=50, num_draws=100)


def test_summaries_frames_and_files_have_names(fit, tmp_path):
    summary = fit.summary()
    assert summary.names == NAMES
    assert summary["attack[France]"].mean == summary["attack"].mean[1]
    assert summary.select("part.effect[Italy]").names == NAMES[7:9]
    frame = summary.to_pandas()
    assert type(summary).from_pandas(frame).sites == summary.sites
    bare = pd.DataFrame(frame)
    bare.attrs = {}
    assert [site.name for site in type(summary).from_pandas(bare).sites] == [
        *("attack", "part.effect", "total"),
    ]
    fit.save(tmp_path / "fit.npz")
    assert inference.SVIResult.load(tmp_path / "fit.npz").summary().names == NAMES


def test_containers_have_dimensions_and_coordinates(fit):
    data = fit.to_arviz(posterior(), key=KEY, num_prior_draws=5)
    assert data["posterior"]["part.effect"].dims[2:] == ("team", "part.effect_dim_1")
    assert data["posterior"]["total"].coords["kind"].values.tolist() == [2020, 2021]
    for group in ("observed_data", "posterior_predictive", "log_likelihood", "prior_predictive"):
        points = data[group]["points"]
        assert points.dims[-1] == "team"
        assert points.coords["team"].values.tolist() == TEAMS
    alone = fit.to_arviz()["posterior"]["attack"]
    assert float(alone.sel(team="Italy").mean()) == pytest.approx(
        fit.draws["attack"][..., 2].mean()
    )
    mine = fit.to_arviz(dims={"attack": ["side"]}, coords={"side": ["a", "b", "c"]})
    assert mine["posterior"]["attack"].coords["side"].values.tolist() == ["a", "b", "c"]
    assert mine["posterior"]["part.effect"].coords["team"].values.tolist() == TEAMS
    renamed = fit.to_arviz(dims={"attack": "side", "part.effect": (None, "way")})["posterior"]
    assert renamed["attack"].coords["side"].values.tolist() == TEAMS
    assert renamed["part.effect"].dims[2:] == ("team", "way")
    short = fit.to_arviz(coords={"team": ["E", "F", "I"]})["posterior"]
    assert short["attack"].coords["team"].values.tolist() == ["E", "F", "I"]
    assert fit.summary("attack").names == NAMES[:3]
    assert fit.plot_forest("attack[Italy]") is not None


def test_one_dimension_has_one_set_of_names_in_containers():
    def one(key, names):
        ppl.label(league, {"attack": "team"}, {"team": names})(key)

    def both(key):
        home, away = jax.random.split(key)
        ppl.nest(one, scope="home")(home, TEAMS)
        ppl.nest(one, scope="away")(away, ["Spain", "Wales", "Malta"])

    fit = inference.svi(KEY, both, num_steps=5, num_draws=5)
    assert fit.summary(["home.attack", "away.attack"]).names[2:4] == (
        *("home.attack[Italy]", "away.attack[Spain]"),
    )
    with pytest.raises(ValueError, match=r"'home.attack' and 'away.attack' have other .* 'team', "):
        fit.to_arviz()
    apart = fit.to_arviz(dims={"away.attack": "guest"})["posterior"]
    assert apart["home.attack"].coords["team"].values.tolist() == TEAMS
    assert apart["away.attack"].coords["guest"].values.tolist() == ["Spain", "Wales", "Malta"]


def test_entries_whose_names_have_commas_are_found_in_pictures():
    names = ["London, UK", "London, CA", "Paris"]
    model = ppl.label(league, DIMS, {"team": names})
    fit = inference.svi(KEY, model, num_steps=5, num_draws=5)
    assert fit.plot_forest(["attack[London, CA]", "part.effect[London, UK,1]"]) is not None


def test_entries_that_are_not_missing_have_names():
    gaps = ppl.ignore(jnp.array([1.0, jnp.nan, -1.0]))
    model = ppl.condition(ppl.label(league, DIMS, COORDS), {"points": gaps})
    fit = inference.svi(KEY, model, num_steps=5, num_draws=5)
    points = fit.to_arviz(model, groups=["log_likelihood"])["log_likelihood"]["points"]
    assert points.coords["points_entry"].values.tolist() == ["points[England]", "points[Italy]"]
    with pytest.raises(ValueError, match="no entry is called 'Wales'; there are England, France"):
        fit.plot_forest("attack[Wales]")


def test_several_data_sets_have_names():
    def model(key, y):
        return ppl.condition(ppl.label(league, DIMS, COORDS), {"points": y})(key)

    run = {"num_warmup": 20, "num_draws": 10, "num_chains": 2}
    fits = inference.mcmc_each(KEY, model, jnp.zeros((2, 3)), **run)
    assert fits[1].summary().names == NAMES
    assert fits.to_arviz()["posterior"]["attack"].dims[2:] == ("dataset", "team")
    short = inference.mcmc(KEY, posterior(), **run, keep=["part"])
    assert short.summary().names == NAMES[3:9]


def test_graphs_show_dimensions():
    graph = ppl.graph(posterior())()
    assert "float32[team: 3, 2]" in str(graph)
    assert graph.nodes["attack"].labels == (("team", tuple(TEAMS)),)
    run = ppl.trace(lambda key: jax.vmap(posterior())(jax.random.split(key, 2)))(KEY)
    assert "float32[2, team: 3, 2]" in str(run)
    assert run.sites["points"].labels == (None, ("team", tuple(TEAMS)))


@pytest.mark.parametrize(
    "treat",
    [
        lambda model: ppl.marginalize(model, {"attack": ppl.Gaussian()}),
        lambda model: ppl.reparam(model, {"part": {"effect": ppl.NonCentered()}}),
        lambda model: ppl.scale(model, 0.5),
        lambda model: ppl.intervene(model, {"part": {"effect": jnp.ones((3, 2))}}),
    ],
    ids=["marginalize", "reparam", "scale", "intervene"],
)
def test_transformations_keep_names(treat):
    labels = {name: node.labels for name, node in ppl.graph(posterior(treat=treat))().nodes.items()}
    assert labels["part.effect"] == (("team", tuple(TEAMS)), None)
    assert labels["points"] == (("team", tuple(TEAMS)),)


GAPS = jnp.array([1.0, jnp.nan, -1.0])
OTHERS = {
    "condition": lambda model: ppl.condition(model, {"points": jnp.ones(3)}),
    "block": lambda model: ppl.block(model, ["points"]),
    "impute": lambda model: ppl.condition(model, {"points": ppl.impute(GAPS)}),
    "ignore": lambda model: ppl.condition(model, {"points": ppl.ignore(GAPS)}),
    "intervene": lambda model: ppl.intervene(model, {"points": jnp.ones(3)}),
    "reparam": lambda model: ppl.reparam(model, {"part": {"effect": ppl.NonCentered()}}),
    "scale": lambda model: ppl.scale(model, 0.5),
    "nest": lambda model: ppl.nest(model, scope="outer"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_labels_come_before_and_after_others(name):
    def marginalized(model):
        return ppl.marginalize(model, {"attack": ppl.Gaussian()})

    def labeled(model):
        return ppl.label(model, DIMS, COORDS)

    def labeled_last(model):
        scope = "outer." * (name == "nest")
        hidden = ["points"] * (name == "block")
        return ppl.label(model, {f"{scope}{k}": x for k, x in DIMS.items() if k not in hidden})

    other = OTHERS[name]
    bare = other(marginalized(league))
    values = ppl.simulate(bare)(KEY)
    dims = {
        site.split(".")[-1]: tuple(x and x[0] for x in node.labels)
        for site, node in ppl.graph(labeled_last(bare))().nodes.items()
    }
    assert dims.items() >= {"attack": ("team",), "effect": ("team", None)}.items()
    assert ("points" in dims) == (name != "block")
    for model in (other(labeled(marginalized(league))), other(marginalized(labeled(league)))):
        nodes = ppl.graph(model)().nodes
        assert {
            k.split(".")[-1]: tuple(x and x[0] for x in n.labels) for k, n in nodes.items()
        } == dims
        jax.tree.map(np.testing.assert_array_equal, values, ppl.simulate(model)(KEY))


def test_a_hidden_site_has_no_labels():
    summed = ppl.marginalize(ppl.block(league, ["points"]), {"attack": ppl.Gaussian()})
    with pytest.raises(ValueError, match=r"no site 'points': ppl.block hides it, and only"):
        ppl.simulate(ppl.label(summed, {"points": "team"}))(KEY)


def test_labels_change_no_number_and_last_ones_count(x64):
    bare = ppl.condition(league, {"points": jnp.array([1.0, 0.5, -1.0])})
    values = {"attack": jnp.ones(3), "part": {"effect": jnp.ones((3, 2))}}
    densities = (ppl.log_density(model)(values) for model in (bare, posterior()))
    assert next(densities) == next(densities)
    twice = ppl.label(posterior(), {"attack": "side"}, {"team": ["a", "b", "c"]})
    labels = {name: node.labels for name, node in ppl.graph(twice)().nodes.items()}
    assert labels["attack"] == (("side", tuple(TEAMS)),)
    assert labels["points"] == (("team", ("a", "b", "c")),)


def test_axes_outside_of_the_model_come_first():
    def seasons(key):
        named = ppl.label(league, DIMS, COORDS)
        jax.vmap(named, axis_name="season")(jax.random.split(key, 4))

    assert ppl.graph(seasons)().nodes["attack"].labels == (None, ("team", tuple(TEAMS)))


def test_axes_of_vmap_have_their_names():
    def rows(key):
        def row(key):
            ppl.sample(key, dist.Normal(0.0, 1.0), name="x")

        jax.vmap(row, axis_name="team")(jax.random.split(key, 3))

    fit = inference.svi(KEY, ppl.label(rows, coords=COORDS), num_steps=5, num_draws=5)
    assert fit.summary().names == tuple(f"x[{team}]" for team in TEAMS)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (pd.Index(TEAMS), str),
        (pd.Series(TEAMS, dtype="category"), str),
        (np.array(TEAMS), str),
        (pd.date_range("2020-01-01", periods=3), str),
        (np.arange(3) / 2, float),
    ],
    ids=["index", "categories", "array", "dates", "numbers"],
)
def test_entries_are_named_by_what_has_names(names, kind):
    graph = ppl.graph(posterior({"attack": "team"}, {"team": names}))()
    ((_, labels),) = graph.nodes["attack"].labels
    assert [type(x) for x in labels] == [kind] * 3


WRONG = {
    "no site": ({"atack": "team"}, {}, ValueError, "no site 'atack'. Use one of: 'attack'"),
    "axes": ({"attack": ("team", "x")}, {}, ValueError, r"shape \(3,\), so it takes 1 names"),
    "sizes": (
        {"attack": "team"},
        {"team": ["a"]},
        ValueError,
        r"has 3 entries along 'team', got 1 names: \['a'\]. Give a name for each",
    ),
    "none": ({"attack": "team"}, {"team": []}, ValueError, "3 entries along 'team', got 0 names"),
    "twice": ({}, {"team": ["a", "b", "a"]}, ValueError, "0 and 2 of 'team' are both called a"),
    "alike": ({}, {"team": [1, "1"]}, ValueError, "0 and 1 of 'team' are both called 1"),
    "gap": ({}, {"team": ["a", None]}, ValueError, "entry 1 of 'team' has no name, but None"),
    "empty": ({}, {"team": ["", "a"]}, ValueError, "entry 0 of 'team' has no name, but ''"),
    "NaN": (
        {},
        {"team": [1.0, np.nan, np.nan]},
        ValueError,
        "entry 1 of 'team' has no name, but nan",
    ),
    "number": ({"attack": 3}, {}, TypeError, r"'attack' takes a name of a dimension for each axis"),
    "nested": ({"part": {"effect": "team"}}, {}, TypeError, "in a scope is called 'part.site'"),
    "one name": ({"attack": ("t", "t")}, {}, ValueError, "two dimensions called 't'.*as 't_2'"),
    "no name": ({"attack": ("",)}, {}, ValueError, "a dimension without a name.*None leaves"),
    "text": ({"attack": "team"}, {"team": "England"}, TypeError, "a name for each entry, as"),
    "set": ({}, {"team": {"England"}}, TypeError, "'team' takes a list with .*got {'England'}"),
    "one": ({}, {"team": 3}, TypeError, "'team' takes a list with a name for each entry.*got 3"),
    "table": ({"attack": "team"}, {"team": [["a"]]}, ValueError, r"an array of shape \(1, 1\)"),
    "ragged": ({}, {"team": [["a"], ["b", "c"]]}, ValueError, "takes a list of names: setting an"),
    "list": (["attack"], {}, TypeError, r"dims must be a dict .*as {'attack': \('team',\)}, got"),
    "names": ({}, TEAMS, TypeError, r"coords must be a dict of names of entries by dimension, as"),
    "key": ({}, {0: TEAMS}, TypeError, "coords must be .* got the key 0"),
}


@pytest.mark.parametrize("name", WRONG)
def test_names_that_do_not_fit_are_errors(name):
    dims, coords, kind, message = WRONG[name]
    with pytest.raises(kind, match=f"label: .*{message}"):
        ppl.simulate(posterior(dims, coords))(KEY)


def test_a_site_of_several_arrays_has_no_dimensions():
    def model(key):
        pair = dist.Joint({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(jnp.zeros(2), 1.0)})
        ppl.sample(key, pair, name="pair")

    with pytest.raises(ValueError, match="site 'pair' has 2 arrays"):
        ppl.simulate(ppl.label(model, {"pair": "team"}))(KEY)
