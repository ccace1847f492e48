"""impute and ignore: densities of data with gaps against those written by hand."""

# ruff: noqa: E501

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

from .checks import assert_close

KEY = key(4)
NAN = np.nan
NORMAL = stats.norm.logpdf
Y = np.array([[0.5, NAN, 1.0], [NAN, NAN, 2.0]])
MISSING = np.isnan(Y)
FILLED = np.where(MISSING, np.array([[9.0, 0.3, 9.0], [0.8, 0.6, 9.0]]), Y)
HOLES = FILLED[MISSING]


def plain(key: Any, make: Any) -> Any:
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
    y = ppl.sample(key, make(scale * jnp.ones((2, 3))), name="y")
    return ppl.sample(key, dist.Normal(y.sum(), 1.0), name="after")


def mapped(key: Any, make: Any) -> Any:
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
    one = lambda key, x: ppl.sample(key, make(scale * x), name="y")  # noqa: E731
    y = jax.vmap(jax.vmap(one))(split(key, (2, 3)), jnp.ones((2, 3)))
    return ppl.sample(key, dist.Normal(y.sum(), 1.0), name="after")


def scanned(key: Any, make: Any) -> Any:
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")

    def step(total: Any, key: Any) -> Any:
        y = jax.vmap(lambda key, x: ppl.sample(key, make(x), name="y"))(
            split(key, 3), scale * jnp.ones(3)
        )
        return total + y.sum(), None

    return ppl.sample(key, dist.Normal(lax.scan(step, 0.0, split(key, 2))[0], 1.0), name="after")


def nested_scaled(key: Any, make: Any) -> Any:
    return ppl.scale(mapped, 1.0)(key, make)


PLACES = {"plain": plain, "vmap": mapped, "scan": scanned, "scale": nested_scaled}
FAMILIES = {
    "normal": lambda s: dist.Normal(0.3, s),
    "positive": lambda s: dist.Gamma(2.0, s),
    "tfp": lambda s: tfp.distributions.LogNormal(0.1, s),
}


FORWARD = {"normal": lambda x: x, "positive": dist.Gamma(2.0, 1.0).bijector.forward, "tfp": jnp.exp}
ROWS = [("plain", "tfp"), *((place, "positive") for place in PLACES), ("vmap", "normal")]


@pytest.mark.quick_rows("vmap-normal", "vmap-positive")
@pytest.mark.parametrize(("place", "family"), ROWS, ids=map("-".join, ROWS))
def test_imputed_entries_are_latent(place, family, x64):
    """The density is that of the complete data, with the determinant of the missing entries alone."""
    model = lambda key: PLACES[place](key, FAMILIES[family])  # noqa: E731
    observed = ppl.condition(model, {"y": ppl.impute(Y), "after": 0.7})
    complete = ppl.log_density(ppl.condition(model, {"after": 0.7}))
    target = ppl.unconstrain(observed)
    values = {"scale": 1.3, "y": FILLED}
    position = target.unconstrain(values)
    assert position["y"].shape == (3,)
    assert_close(target.constrain(position), jax.tree.map(jnp.asarray, values))
    assert_close(ppl.log_density(observed)(values), complete(values))

    def by_hand(position):
        forward = FORWARD[family]
        y = jnp.asarray(FILLED).at[MISSING].set(forward(position["y"]))
        scale = jnp.exp(position["scale"])
        log_dets = (
            jnp.log(jnp.abs(jax.vmap(jax.grad(forward))(position["y"]))).sum() + position["scale"]
        )
        return complete({"scale": scale, "y": y}) + log_dets

    assert_close(target.log_density(position), by_hand(position))
    assert_close(jax.grad(target.log_density)(position), jax.grad(by_hand)(position))


def test_known_entries_are_those_of_the_data():
    """Whatever a value says of them, in the density and in what depends on them."""
    model = ppl.condition(
        lambda key: plain(key, FAMILIES["normal"]), {"y": ppl.impute(Y), "after": 0.7}
    )
    other = np.where(MISSING, FILLED, 55.0)
    values = [{"scale": 1.3, "y": np.float32(y)} for y in (FILLED, other)]
    assert_close(ppl.log_density(model)(values[1]), ppl.log_density(model)(values[0]), "float32")
    assert_close(ppl.simulate(model)(KEY)["y"][~MISSING], jnp.float32(Y[~MISSING]), "float32")


def under_vmap(key: Any, one: Any) -> Any:
    return jax.vmap(one)(split(key, 2))


def under_scan(key: Any, one: Any) -> Any:
    return lax.scan(lambda _, key: (None, one(key)), None, split(key, 2))[1]


def under_both(key: Any, one: Any) -> Any:
    return under_vmap(key, lambda key: under_scan(key, one))


@pytest.mark.quick_rows("under_scan")
@pytest.mark.parametrize("around", [under_vmap, under_scan, under_both])
def test_a_conditioned_model_may_be_mapped(around, x64):
    """Each of its copies has a missing value of its own."""
    one = ppl.condition(
        lambda key: plain(key, lambda loc: dist.Normal(loc, 1.0)), {"y": ppl.impute(Y)}
    )
    model = lambda key: around(key, one)  # noqa: E731
    target = ppl.unconstrain(model)
    position = target.initial(KEY)
    copies = 4 if around is under_both else 2
    assert position["y"].shape == (copies * MISSING.sum(),)
    values = target.constrain(position)
    missing = np.broadcast_to(MISSING, values["y"].shape)
    assert_close(values["y"][missing], position["y"])
    assert_close(values["y"][~missing], np.tile(Y[~MISSING], copies))
    assert_close(target.unconstrain(values)["y"], position["y"])
    jacobian = jnp.sum(position["scale"])
    assert_close(target.log_density(position), ppl.log_density(model)(values) + jacobian)
    by_hand = NORMAL(values["y"] - values["scale"][..., None, None]).sum()
    by_hand += NORMAL(position["scale"]).sum() - jacobian
    by_hand += NORMAL(values["after"], values["y"].sum((-1, -2))).sum()
    assert_close(ppl.log_density(model)(values), by_hand)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_ignored_entries_are_integrated_out(place, x64):
    """The density and the gradient are those of the entries that are there."""
    model = ppl.block(lambda key: place(key, FAMILIES["positive"]), ["after"])
    density = ppl.log_density(ppl.condition(model, {"y": ppl.ignore(Y)}))

    def by_hand(values):
        there = stats.gamma.logpdf(Y[~MISSING], 2.0, scale=1 / values["scale"]).sum()
        return NORMAL(jnp.log(values["scale"])) - jnp.log(values["scale"]) + there

    for of in (lambda f: f, jax.grad):
        assert_close(of(density)({"scale": 1.3}), of(by_hand)({"scale": 1.3}))


COVARIANCE = np.array([[2.0, 0.8, 0.3], [0.8, 1.0, -0.2], [0.3, -0.2, 1.5]])


def test_counts_and_vectors_are_ignored_whole():
    rate, rows = 1.5, np.array([[0.1, 0.2, 0.3], [NAN] * 3])

    def model(key):
        ppl.sample(key, dist.Poisson(rate * jnp.ones(3)), name="n")
        ppl.sample(key, dist.MultivariateNormal(jnp.zeros((2, 3)), covariance=COVARIANCE), name="v")

    data = {
        "n": ppl.ignore(np.array([2, -7, 0]), np.array([False, True, False])),
        "v": ppl.ignore(rows),
    }
    log_probs = ppl.log_probs(ppl.condition(model, data))({})
    pmf = stats.poisson.logpmf(np.array([2.0, 0.0]), rate)
    assert_close(log_probs["n"], jnp.array([pmf[0], 0.0, pmf[1]]), "float32")
    joint = stats.multivariate_normal.logpdf(rows[0], np.zeros(3), COVARIANCE)
    assert_close(log_probs["v"], jnp.array([joint, 0.0]), "float32")


ROWS = np.array([[0.1, NAN, 0.3], [NAN, NAN, NAN]])
LOC = np.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
PARTS = {
    "independent": (lambda: dist.Independent(dist.Normal(LOC, 2.0), 1), LOC),
    "independent, both axes": (lambda: dist.Independent(dist.Normal(LOC, 2.0), 2), LOC),
    "iid": (lambda: dist.iid(dist.Normal(LOC[:, 0], 2.0), 3), LOC[:, :1]),
    "iid of iid": (lambda: dist.iid(dist.iid(dist.Normal(1.0, 2.0), 3), 2), jnp.ones((2, 3))),
    "of TFP": (lambda: tfp.distributions.Independent(tfp.distributions.Normal(LOC, 2.0), 1), LOC),
}


@pytest.mark.parametrize("factor", [1.0, 3.0])
@pytest.mark.parametrize(("make", "loc"), PARTS.values(), ids=PARTS)
def test_independent_parts_of_a_vector_are_ignored_by_themselves(make, loc, factor, x64):
    model = lambda key: ppl.sample(key, make(), name="y")  # noqa: E731
    ignored = ppl.condition(ppl.scale(model, factor), {"y": ppl.ignore(ROWS)})
    there = NORMAL(ROWS, loc, 2.0)[~np.isnan(ROWS)].sum()
    assert_close(ppl.log_density(ignored)({}), factor * there)


def test_vectors_of_which_many_are_drawn_are_ignored_one_by_one(x64):
    normals = dist.MultivariateNormal(jnp.zeros(3), covariance=COVARIANCE)
    model = lambda key: ppl.sample(key, dist.iid(normals, 2), name="y")  # noqa: E731
    rows = np.where(np.arange(2)[:, None] == 1, NAN, [[0.1, 0.2, 0.3]] * 2)
    joint = stats.multivariate_normal.logpdf(rows[0], np.zeros(3), COVARIANCE)
    assert_close(ppl.log_density(ppl.condition(model, {"y": ppl.ignore(rows)}))({}), joint)


def test_a_part_of_a_joint_vector_is_not_ignored():
    """Where the mask is known, in words; where it is traced, by NaN and not by a wrong number."""
    # JAX 0.12 gives an array of the host the dtype that it had under x64 while that copy lives.
    covariance = COVARIANCE.astype("float32")
    vector = dist.MultivariateNormal(jnp.zeros(3), covariance=covariance)
    model = lambda key: ppl.sample(key, vector, name="v")  # noqa: E731
    density = lambda y: ppl.log_density(ppl.condition(model, {"v": ppl.ignore(y)}))({})  # noqa: E731
    expected = r"site 'v': 1 of 1 draws of MultivariateNormal are missing in part.*ppl\.impute"
    with pytest.raises(ValueError, match=expected):
        density(ROWS[0])
    assert jnp.isnan(jax.jit(density)(jnp.asarray(ROWS[0])))
    assert jax.jit(density)(jnp.asarray(ROWS[1])) == 0


def walk(key: Any) -> Any:
    def step(y: Any, key: Any) -> Any:
        y = ppl.sample(key, dist.Normal(0.9 * y, 1.0), name="y")
        return y, None

    return lax.scan(step, 0.0, split(key, 4))[0]


def test_what_depends_on_a_missing_value():
    """An imputed value is what the next step depends on; of an ignored one it sees NaN."""
    y = np.array([1.0, NAN, NAN, 2.0])
    imputed = ppl.unconstrain(ppl.condition(walk, {"y": ppl.impute(y)}))
    full = np.array([1.0, 0.4, 0.6, 2.0])
    by_hand = NORMAL(full, 0.9 * np.concatenate([[0.0], full[:-1]])).sum()
    assert_close(imputed.log_density({"y": jnp.array([0.4, 0.6])}), by_hand, "float32")
    ignored = ppl.condition(walk, {"y": ppl.ignore(np.array([1.0, NAN, 2.0, NAN]))})
    assert jnp.isnan(ignored(KEY))


def by_mean(key: Any) -> None:
    y = ppl.sample(key, dist.Poisson(jnp.ones(3)), name="n")
    mean = ppl.deterministic(y.mean(), name="mean")
    ppl.factor(-ppl.deterministic(2 * mean, name="twice"), name="cost")


def by_steps(key: Any) -> Any:
    """The sum so far, which is deterministic, is what the next step depends on."""

    def step(total: Any, key: Any) -> Any:
        y = ppl.sample(key, dist.Normal(total, 1.0), name="y")
        return ppl.deterministic(total + y, name="total"), None

    return lax.scan(step, 0.0, split(key, 4))[0]


def nothing_depends(key: Any) -> Any:
    y = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="y")
    ppl.sample(key, dist.Normal(0.0, 1.0), name="other")
    return ppl.deterministic(y.mean(), name="mean")


def by_mutable_array(key: Any) -> Any:
    ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="y")
    loc = jax.new_ref(jnp.zeros(()))
    loc[...] = jnp.ones(())
    return ppl.sample(key, dist.Normal(loc[...], 1.0), name="other")


GAPS = {"y": ppl.ignore(np.array([1.0, NAN, NAN, 2.0]))}
COUNTS = {"n": ppl.ignore(np.arange(3), np.array([False, True, False]))}
AFTER = ppl.condition(lambda key: mapped(key, FAMILIES["positive"]), {"y": ppl.ignore(Y)})
SCALE = {"scale": 1.3}
# A model, values of its latent sites, and what the error says.
DEPENDENT = {
    "random": (AFTER, SCALE | {"after": 0.5}, "'<lambda>': site 'after' depends on site 'y', entries of which are ignored.*ppl.impute"),
    "observed": (ppl.condition(AFTER, {"after": 0.5}), SCALE, "site 'after' depends on site 'y', entries"),
    "scaled": (ppl.scale(AFTER, 2.0), SCALE | {"after": 0.5}, "site 'after' depends on site 'y', entries"),
    "nested": (ppl.nest(AFTER, scope="s"), {"s": SCALE | {"after": 0.5}}, "site 's.after' depends on site 's.y', entries"),
    "scan": (ppl.condition(walk, GAPS), {}, "site 'y' depends on site 'y' of the step before.*End the loop before those"),
    "deterministic-between": (ppl.condition(by_mean, COUNTS), {}, "site 'cost' depends on site 'n', entries"),
    "deterministic-in-scan": (ppl.condition(by_steps, GAPS), {}, "site 'y' depends on site 'y' of the step before.*End the loop before those"),
}  # fmt: skip
INDEPENDENT = {
    "deterministic": (ppl.condition(nothing_depends, GAPS), {"other": 0.0}),
    "mutable-array": (ppl.condition(by_mutable_array, GAPS), {"other": 0.0}),
    "intervened": (ppl.intervene(AFTER, {"after": 0.5}), SCALE),
    "blocked": (ppl.block(ppl.condition(AFTER, {"after": 0.5}), ["after"]), SCALE),
}
DERIVED = {
    "log_density": lambda model, values: ppl.log_density(model)(values),
    "log_probs": lambda model, values: ppl.log_probs(model)(values),
    "trace": lambda model, _: ppl.trace(model)(KEY).log_density,
}
EVERY_WAY = pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)


@pytest.mark.filterwarnings("ignore:simulate. 1 of 1 draws of site .* NaN")
@EVERY_WAY
@pytest.mark.parametrize(("model", "values", "message"), DEPENDENT.values(), ids=DEPENDENT)
def test_what_depends_on_an_ignored_value_has_no_density(model, values, message, derive):
    ppl.simulate(model)(KEY)
    with pytest.raises(ValueError, match=message):
        derive(model, values)


@EVERY_WAY
@pytest.mark.parametrize(("model", "values"), INDEPENDENT.values(), ids=INDEPENDENT)
def test_what_no_site_depends_on_may_be_ignored(model, values, derive):
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(derive(model, values)))


SITE = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="y")  # noqa: E731
NUMBERS = lambda key: ppl.sample(key, dist.Poisson(jnp.ones(3)), name="n")  # noqa: E731
SIMPLEX = lambda key: ppl.sample(key, dist.Dirichlet(jnp.ones(3)), name="p")  # noqa: E731
HOLE = np.array([1.0, NAN, 2.0])
NON_CENTERED = {"y": ppl.NonCentered()}
MASKED = np.ma.masked_array([1.0, np.nan, 3.0], [False, False, True])


def test_data_without_gaps_stay_among_the_values():
    def model(key):
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
        y = ppl.sample(key, dist.iid(dist.Normal(loc, 1.0), 3), name="y")
        return ppl.sample(key, dist.Normal(y.sum(), 1.0), name="z")

    y, z = jnp.array([1.0, 2.0, 3.0]), 0.5
    imputed = ppl.unconstrain(ppl.condition(model, {"y": ppl.impute(y), "z": z}))
    observed = ppl.unconstrain(ppl.condition(model, {"y": y, "z": z}))
    position = {"loc": 0.3, "y": jnp.zeros(0)}
    assert_close(imputed.log_density(position), observed.log_density({"loc": 0.3}))
    values = imputed.constrain(position)
    np.testing.assert_array_equal(values["y"], y)
    draws = jax.tree.map(lambda x: x[None], values)
    predicted = ppl.predict(model, draws)(KEY)
    assert {*predicted} == {"z"}
    counts = jnp.arange(3)
    assert ppl.impute(counts) is counts


@pytest.mark.parametrize("of", [ppl.impute, ppl.ignore])
def test_a_masked_array_has_its_mask(of):
    given, by_hand = of(MASKED), of(np.array(MASKED.data), np.array([False, True, True]))
    jax.tree.map(np.testing.assert_array_equal, given, by_hand)
    whole = np.ma.masked_array([1.0, 2.0, 3.0])
    for data, values in ((whole, {}), (of(whole), {"y": whole.data} if of is ppl.impute else {})):
        actual = ppl.log_density(ppl.condition(SITE, {"y": data}))(values)
        assert_close(actual, ppl.log_density(SITE)({"y": jnp.array([1.0, 2.0, 3.0])}))


@pytest.mark.parametrize("of", [ppl.impute, ppl.ignore])
def test_counts_with_gaps_may_be_floats(of):
    """pandas makes floats of them. The mask says where they are missing, as for integers."""
    by_hand = -1.0 - np.log([1.0, 24.0, 2.0])  # Poisson of rate 1: -1 - log n!
    wanted = by_hand.sum() if of is ppl.impute else by_hand[[0, 2]].sum()
    values = {"n": np.array([7, 4, 7])} if of is ppl.impute else {}
    nullable = pd.Series([1, None, 2], dtype="Int64")
    for data in (HOLE, HOLE.astype(np.float32), np.ma.masked_invalid(HOLE), nullable):
        model = ppl.condition(NUMBERS, {"n": of(data)})
        assert_close(
            jax.jit(lambda m: ppl.log_density(m)(values))(model), jnp.asarray(wanted), "float32"
        )
        assert model(KEY)[np.array([0, 2])].tolist() == [1, 2]
    whole = ppl.condition(NUMBERS, {"n": of(np.array([1.0, 4.0, 2.0]))})
    assert_close(ppl.log_density(whole)({}), jnp.asarray(by_hand.sum()), "float32")
    integers = ppl.condition(NUMBERS, {"n": pd.Series([1, 4, 2], dtype="Int64")})
    assert_close(ppl.log_density(integers)({}), jnp.asarray(by_hand.sum()), "float32")


ERRORS = {
    "silent": (lambda: ppl.condition(SITE, {"y": HOLE}), ValueError, r"1 of the 3 data of site 'y' are NaN.*ppl.impute\(data\).*ppl.ignore\(data\)"),
    "silent-in-scope": (lambda: ppl.condition(SITE, {"a": {"y": jnp.asarray(HOLE)}}), ValueError, "site 'a.y' are NaN"),
    "silent-scalar": (lambda: ppl.condition(SITE, {"y": np.float32(NAN)}), ValueError, "1 of the 1 data of site 'y' are NaN"),
    "silent-nullable": (lambda: ppl.condition(NUMBERS, {"n": pd.Series([1, None], dtype="Int64")}), ValueError, "1 of the 2 data of site 'n' are NaN.*ppl.ignore"),
    "silent-masked": (lambda: ppl.condition(SITE, {"y": MASKED}), ValueError, "2 of the 3 data of site 'y' are NaN or masked.*ppl.impute"),
    "imputed-before": (lambda: ppl.condition(ppl.condition(SITE, {"y": ppl.impute(HOLE)}), {"y": np.ones(3)})(KEY), ValueError, "condition: site 'y' is observed in part already. Give all of its data at once"),
    "imputed-before-with-intervene": (lambda: ppl.intervene(ppl.condition(SITE, {"y": ppl.impute(HOLE)}), {"y": np.ones(3)})(KEY), ValueError, "intervene: site 'y' is observed in part. Intervene first"),
    "shape": (lambda: ppl.ignore(np.ones(3), np.array([True])), ValueError, r"ignore: `missing` must have the shape of the data, \(3,\), got \(1,\)\. .*jnp.broadcast_to"),
    "shape-transposed": (lambda: ppl.impute(Y, MISSING.T), ValueError, r"impute: `missing` must have the shape of the data, \(2, 3\), got \(3, 2\)"),
    "mask": (lambda: ppl.impute(np.ones(3), np.array([1, 0, 1])), TypeError, "boolean mask, got the dtype int"),
    "left": (lambda: ppl.ignore(HOLE, np.zeros(3, bool)), ValueError, "1 of the data are NaN where `missing` is False.*leave `missing` out"),
    "text": (lambda: ppl.impute("y"), TypeError, "impute: expected an array"),
    "traced": (lambda: jax.jit(lambda y: ppl.impute(y).data)(HOLE), ValueError, "the number of missing entries.*must be known.*NumPy array, or call ppl.impute outside"),
    "site-shape": (lambda: ppl.condition(SITE, {"y": ppl.impute(np.array([1.0, NAN]))})(KEY), ValueError, r"'y': expected float32\[3\], got float32\[2\]"),
    "integers-beyond": (lambda: ppl.condition(NUMBERS, {"n": ppl.ignore(3e9 * HOLE)})(KEY), TypeError, "'n': expected int32, got float32, whose known entries are out of the range of int32.*jax_enable_x64"),
    "integers": (lambda: ppl.condition(NUMBERS, {"n": ppl.ignore(HOLE / 2)})(KEY), TypeError, r"'n': expected int32, got float32, whose known entries are not whole.*ppl.ignore\(jnp.where\(missing"),
    "integers-imputed": (lambda: ppl.condition(NUMBERS, {"n": ppl.impute(HOLE / 2)})(KEY), TypeError, r"'n': expected int32.*ppl.impute\(jnp.where\(missing"),
    "integers-traced": (lambda: jax.jit(lambda n: ppl.condition(NUMBERS, {"n": ppl.ignore(n)})(KEY))(HOLE), TypeError, "'n': expected int32, got float32, whose known entries are traced"),
    "ignored-and-given": (lambda: ppl.log_density(ppl.condition(SITE, {"y": ppl.ignore(HOLE)}))({"y": np.ones(3)}), ValueError, "'y' .* is observed already.*There are no latent sites"),
    "simplex": (lambda: ppl.unconstrain(ppl.condition(SIMPLEX, {"p": ppl.impute(np.array([0.5, NAN, NAN]))})), ValueError, "'p'.*impute is for numbers"),
    "reparam-after": (lambda: ppl.reparam(ppl.condition(SITE, {"y": ppl.impute(HOLE)}), NON_CENTERED)(KEY), ValueError, "'y' is observed in part"),
    "reparam-before": (lambda: ppl.condition(ppl.reparam(SITE, NON_CENTERED), {"y": ppl.impute(HOLE)})(KEY), ValueError, "condition: site 'y' is reparameterized.*after condition"),
}  # fmt: skip


@pytest.mark.parametrize(("misuse", "exception", "message"), ERRORS.values(), ids=ERRORS)
def test_error(misuse, exception, message):
    with pytest.raises(exception, match=f"(?s){message}"):
        misuse()
