"""Names of entries in reports, warnings and errors of inference, for models with labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.comparison.units import Units
from inference.drivers.cross_validate import _future
from inference.results.boundary_warnings import describe_boundary, find_bounded_coordinates
from inference.results.mcmc_result import MCMCResult

KEY = jax.random.key(0)
TEAMS = ("England", "France", "Italy")
POINTS = np.array([0.3, 9.0, -0.2])


def league(key):
    attack = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="attack")
    ppl.sample(key, dist.Normal(attack[:, None] * jnp.ones((1, 2)), 1.0), name="points")
    ppl.sample(key, dist.Normal(attack, 1.0), name="goals")


def labeled(model=league):
    dims = {"attack": "team", "points": ("team", "half"), "goals": "team"}
    return ppl.label(model, dims, {"team": TEAMS, "half": ["first", "second"]})


DATA = {"points": jnp.asarray(POINTS[:, None] * np.ones(2)), "goals": jnp.asarray(POINTS)}
NAMES = tuple(f"points[{team},{half}]" for team in TEAMS for half in ("first", "second"))


@pytest.fixture(scope="module")
def fit():
    """Independent draws of the posterior: normal with precision 4 and mean 3/4 of the data."""
    noise = np.random.default_rng(1).normal(size=(2, 200, 3)) / 2
    sites = (("attack", False, (("team", TEAMS),)),)
    return MCMCResult({"attack": 0.75 * POINTS + noise}, {}, None, sites=sites)


def test_weighted_draws_of_the_prior_have_the_names_of_labels():
    """Sites stand in the order of the model."""

    def model(key):
        zeal = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="zeal")
        twice = ppl.deterministic(2 * zeal, name="twice")
        ppl.sample(key, dist.Normal(twice, 1.0), name="goals")

    named = ppl.label(model, {"zeal": "team", "twice": "team"}, {"team": TEAMS})
    posterior = ppl.condition(named, {"goals": DATA["goals"]})
    found = inference.importance(KEY, posterior, num_draws=100)
    names = [f"{site}[{team}]" for site in ("zeal", "twice") for team in TEAMS]
    assert list(found.summary().names) == names
    assert list(found.summary(deterministic=False).names) == names[:3]


def test_cross_validation_names_observations(fit):
    posterior = ppl.condition(labeled(), DATA)
    found = inference.loo(fit, posterior, site="points")
    assert found.names == NAMES
    bare = inference.loo(fit, ppl.condition(league, DATA), site="points")
    assert bare.names[:3] == ("points[0,0]", "points[0,1]", "points[1,0]")
    np.testing.assert_array_equal(found.pointwise, bare.pointwise)
    rows = inference.loo(fit, posterior, unit="row")
    assert rows.names == tuple(f"row[{team}]" for team in TEAMS)
    worst = TEAMS[int(np.argmax(rows.pareto_k))]
    assert f"for row[{worst}]: without such an observation" in rows.problems[0]
    assert inference.loo(fit, posterior, site="goals", unit="row").names[0] == "goals[England]"
    worse = dict(DATA, points=DATA["points"] + 1.0)
    other = inference.loo(fit, ppl.condition(labeled(), worse), site="points")
    compared = inference.compare({"one": found, "other": other})
    assert any("points[England,first] of" in problem for problem in compared.problems)


def test_gaps_and_folds_by_time_have_names():
    years = {"y": (("year", tuple(range(2000, 2005))), None)}
    missing = np.zeros((5, 2), bool)
    missing[[1, 3]] = missing[0, 0] = True
    units = Units.of((("y", (5, 2)),), {"y": missing}, kind="row", labels=years)
    assert units.names == ("y[2000]", "y[2002]", "y[2004]")
    assert [fold.name for fold in _future(units, 2, 2)] == ["from y[2002]", "from y[2003]"]
    each = Units.of((("y", (5, 2)),), {"y": missing}, labels=years)
    assert each.names[:2] == ("y[2000,1]", "y[2002,0]")
    two = (("y", (5, 2)), ("z", (5,)))
    gaps = {"y": missing, "z": np.zeros(5, bool)}
    assert Units.of(two, gaps, kind="row", labels=years).names[0] == "row[0]"


def test_power_scaling_and_calibration_name_scalars(fit):
    found = inference.power_scale(fit, ppl.condition(labeled(), DATA))
    assert found.names == fit.summary().names == tuple(f"attack[{team}]" for team in TEAMS)
    assert any("attack[France]" in problem for problem in found.problems)

    def exact(key, posterior, data):
        """Draws of the posterior: normal with precision 4."""
        mean = (data["points"].sum(-1) + data["goals"]) / 4
        return {"attack": mean[None] + jax.random.normal(key, (50, 3)) / 2}

    report = inference.calibrate(
        KEY, labeled(), observed=["points", "goals"], fit=exact, num_simulations=20
    )
    assert report.names == (*found.names, "log likelihood")
    assert report.is_calibrated
    assert "attack[Italy]" in str(report)


def test_stopping_rules_name_entries():
    posterior = ppl.condition(labeled(), DATA)
    settings = {"num_warmup": 100, "num_draws": 100, "num_chains": 2}
    rule = inference.Until(mcse={"attack[Italy]": 1e-9})
    (problem, *_) = inference.mcmc(KEY, posterior, **settings, until=rule).summary().problems
    assert "attack[Italy]" in problem
    with pytest.raises(ValueError, match=r"no entry is called 'attack\[0\]'; .*attack\[England\],"):
        inference.mcmc(KEY, posterior, **settings, until=inference.Until(mcse={"attack[0]": 0.1}))
    with pytest.raises(ValueError, match=r"give 'attack', not 'attack\[Italy\]'"):
        inference.mcmc(KEY, posterior, **settings, keep=["attack[Italy]"])


def test_starts_name_what_is_not_finite():
    wrong = {**DATA, "goals": jnp.array([0.0, jnp.inf, 0.0])}
    with pytest.raises(ValueError, match=r"site 'goals' has log prob.*at \[France\] its value"):
        inference.mcmc(KEY, ppl.condition(labeled(), wrong), num_warmup=10, num_draws=10)
    start = {"attack": jnp.array([0.0, 0.0, jnp.nan])}
    with pytest.raises(ValueError, match=r"not finite: nan at \[Italy\] of \[3\]"):
        inference.mcmc(KEY, ppl.condition(labeled(), DATA), init=start)


def test_modes_and_edges_have_names():
    def spreads(key):
        spread = ppl.sample(key, dist.HalfNormal(jnp.array([1.0, 1e-9, 1.0])), name="spread")
        ppl.sample(key, dist.Normal(0.0 * spread, 1.0), name="y")

    model = ppl.condition(
        ppl.label(spreads, {"spread": "team"}, {"team": TEAMS}), {"y": jnp.zeros(3)}
    )
    names = tuple(f"spread[{team}]" for team in TEAMS)
    assert inference.optimize(KEY, model).summary().names == names
    far = {"spread": np.array([0.0, -20.0, 0.0])}
    labels = {"spread": (("team", TEAMS),)}
    inside = find_bounded_coordinates({"spread": np.exp(far["spread"])}, far, labels)
    (edge,) = describe_boundary("site", far, lambda: inside, labels)
    assert edge.startswith("site spread[France] is at the edge of its support (-20")


def test_flat_directions_have_names():
    def flat(key):
        x = ppl.sample(key, dist.Flat(dist.constraints.real, (3,)), name="x")
        ppl.sample(key, dist.Normal(x[:2], 1.0), name="y")

    model = ppl.condition(ppl.label(flat, {"x": "team"}, {"team": TEAMS}), {"y": jnp.ones(2)})
    with pytest.raises(ValueError, match=r"along x\[Italy\]"):
        inference.laplace(KEY, model)


@pytest.mark.parametrize("is_nested", [False, True])
def test_guides_that_are_functions_keep_labels(is_nested):
    def guide(key):
        loc = ppl.param(jnp.zeros(3), name="loc")
        ppl.sample(key, dist.Normal(loc, 1.0), name="attack")

    model = ppl.condition(labeled(), DATA)
    scope = ""
    if is_nested:
        scope = "cup."
        model = ppl.nest(model, scope="cup")
        guide = ppl.nest(guide, scope="cup")
    fit = inference.svi(KEY, model, guide=guide, num_steps=2, num_draws=2)
    assert fit.sites == ((f"{scope}attack", False, (("team", TEAMS),)),)
    assert fit.summary().names == tuple(f"{scope}attack[{team}]" for team in TEAMS)
