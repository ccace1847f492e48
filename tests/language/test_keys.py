"""Keys: sites that share all their randomness have no density, all others have one."""

# ruff: noqa: E501

import hashlib
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split
from scipy import stats

import distributions as dist
import ppl

from .checks import assert_equal
from .keys import GOOD, MAP, SCAN, SHARED, ZEROS, scanned, scoped, site, walk

KEY = jax.random.key(0)
HALVES = jnp.full(3, 0.5)

DERIVED = {
    "log_density": lambda model, values: ppl.log_density(model)(values),
    "log_probs": lambda model, values: ppl.log_probs(model)(values),
    "unconstrain": lambda model, _: ppl.unconstrain(model).initial(KEY),
    "trace": lambda model, _: [site.log_prob for _, site in leaves(ppl.trace(model)(KEY))],
    "condition": lambda model, values: ppl.log_density(ppl.condition(model, values))({}),
}  # fmt: skip


def leaves(trace):
    is_site = lambda x: hasattr(x, "log_prob")  # noqa: E731
    return jax.tree_util.tree_leaves_with_path(trace.sites, is_leaf=is_site)


def values_of(model):
    """The shapes of a simulation, which always is to be had."""
    return jax.eval_shape(ppl.simulate(model), KEY)


def with_legacy_key(model):
    key = jax.random.PRNGKey(0)
    return jax.eval_shape(lambda: [site.log_prob for _, site in leaves(ppl.trace(model)(key))])


def missing_words(error, words):
    return [word for word in words if word not in str(error.value)]


@pytest.mark.quick_rows(
    "scan-checkpointed",
    "vmap-stacked",
    "scan-with-vjp",
    "scan-in-scope",
    "shard_map",
    "vmap-outer",
    "pair",
    "pair-same-split",
    "scan-backwards",
    "pair-same-grid",
    "vmap-overlap",
    "vmap",
    "vmap-in_axes",
    "vmap-broadcast",
    "scan-carried",
    "pair-two-splits",
    "pair-with_data-of-one",
    "pair-clone",
    "vmap-repeated-then-unpacked",
)
@pytest.mark.parametrize(("model", "words"), SHARED.values(), ids=SHARED)
def test_sites_that_share_their_randomness_have_no_density(model, words):
    values = values_of(model)
    for derive in DERIVED.values():
        with pytest.raises(ValueError, match="would have the same draw") as error:
            jax.eval_shape(lambda values, derive=derive: derive(model, values), values)
        assert missing_words(error, words) == []


@pytest.mark.parametrize(("model", "words"), SHARED.values(), ids=SHARED)
def test_sites_that_share_a_legacy_key_have_no_density(model, words):
    with pytest.raises(ValueError, match="would have the same draw") as error:
        with_legacy_key(model)
    assert missing_words(error, words) == []


@pytest.mark.slow_rows(
    "python-loop",
    "python-loop-fold_in",
    "split-as-you-go",
    "vmap-of-scan",
    "scan-of-scan-split-inside",
    "scan-with-cond",
    "deep",
    "fori_loop-indexed",
    "branches-with-scans",
    "switch",
    "scopes-mapped",
    "shard_map-scan",
)
@pytest.mark.parametrize("model", GOOD.values(), ids=GOOD)
def test_sites_with_randomness_of_their_own_have_a_density(model):
    values = values_of(model)
    for name in ("log_density", "condition"):
        jax.eval_shape(lambda values, name=name: DERIVED[name](model, values), values)


@pytest.mark.parametrize("model", GOOD.values(), ids=GOOD)
def test_sites_with_legacy_keys_of_their_own_have_a_density(model):
    assert with_legacy_key(model)


@pytest.mark.slow
def test_the_tables_tell_equal_draws_from_others():
    models = GOOD | {f"shared {name}": model for name, (model, _) in SHARED.items()}
    draws = jax.jit(lambda key: {n: ppl.simulate(m)(key) for n, m in models.items()})(KEY)
    have_equal = {name for name, values in draws.items() if has_equal(values)}
    assert have_equal == {f"shared {name}" for name in SHARED}


def has_equal(values):
    by_name: dict[str, list[float]] = {}
    for path, value in jax.tree_util.tree_leaves_with_path(values):
        by_name.setdefault(path[-1].key, []).extend(np.ravel(value).tolist())
    return any(len(set(draws)) < len(draws) for draws in by_name.values())


def twice(key):
    return scoped("a", key) + scoped("b", key)


def thrice(key):
    z = ppl.deterministic(site(key, name="z"), name="twice z")
    return twice(key) + z


def repeated(key):
    return jax.vmap(lambda x: site(key, x))(ZEROS)


def crossed(key, first, second):
    """Two sites with a key for each branch, of which one takes the first where the other does not."""
    keys = split(key)
    for scope, flag, order in (("a", first, (0, 1)), ("b", second, (1, 0))):
        lax.cond(flag, *(lambda s=scope, k=keys[i]: scoped(s, k) for i in order))


def own_coordinates(d):
    return ppl.Pushforward(d, lambda z: z, lambda x: x)


def weighed(key):
    """What is no draw may come again and again."""
    walked = walk(key)
    scanned(lambda _, x: ppl.deterministic(x, name="zero"), ZEROS)
    jax.vmap(lambda x: ppl.factor(x, name="weight"))(ZEROS)
    return walked


def with_nothing(key):
    """Sites of no arrays have no operands."""
    ppl.deterministic({}, name="nothing")
    ppl.sow((), tag="other", name="nothing")
    return site(key)


A, B = {"a": {"x": 0.5}}, {"b": {"x": 0.5}}
ONE, THREE = {"x": 0.5}, {"x": HALVES}
GAPS = jnp.array([0.5, jnp.nan, 0.5])

# A transformed model, values of its latent sites, and what the audit says: nothing, or these words.
TRANSFORMED = {
    "one-of-two-intervened": (ppl.intervene(twice, A), B, ()),
    "both-intervened": (ppl.intervene(twice, A | B), {}, ()),
    "vmap-intervened": (ppl.intervene(repeated, THREE), {}, ()),
    "another-intervened": (ppl.intervene(thrice, {"z": 0.5}), A | B, ()),
    "intervened-then-observed": (ppl.condition(ppl.intervene(twice, A), B), {}, ()),
    "observed-then-intervened": (ppl.intervene(ppl.condition(twice, A), B), {}, ()),
    "observed-then-another-intervened": (ppl.intervene(ppl.condition(thrice, A), {"z": 0.5}), B, ()),
    "observed-nested-intervened": (ppl.intervene(ppl.nest(ppl.condition(twice, A), scope="s"), {"s": B}), {}, ()),
    "observed-nested": (ppl.nest(ppl.condition(twice, A), scope="s"), {"s": B}, ()),
    "observed-one-after-the-other": (ppl.condition(ppl.condition(thrice, A), B), {"z": 0.5}, ()),
    "observed-scaled": (ppl.scale(ppl.condition(repeated, THREE), 2.0), {}, MAP),
    "observed-in-one-branch": (lambda key: lax.cond(True, *(lambda m=m: ppl.condition(m, THREE)(key).sum() for m in (GOOD["vmap"], repeated))), {}, MAP),
    "one-of-two-observed": (ppl.condition(twice, B), A, ()),
    "both-observed": (ppl.condition(twice, A | B), {}, ()),
    "another-observed": (ppl.condition(thrice, {"z": 0.5}), A | B, ()),
    "vmap-observed": (ppl.condition(repeated, THREE), {}, MAP),
    "observed-in-a-vmap": (lambda key: jax.vmap(lambda y: ppl.condition(site, {"x": y})(key))(HALVES), {}, MAP),
    "observed-in-a-vmap-good": (lambda key: jax.vmap(lambda k, y: ppl.condition(site, {"x": y})(k))(split(key, 3), HALVES), {}, ()),
    "observed-in-a-vmap-once": (lambda key: jax.vmap(lambda z: z + ppl.condition(site, {"x": 0.5})(key))(HALVES), {}, ()),
    "observed-in-a-scan": (lambda key: scanned(lambda _, y: ppl.condition(site, {"x": y})(key), HALVES), {}, SCAN),
    "observed-in-a-scan-good": (lambda key: scanned(lambda _, k: ppl.condition(site, {"x": 0.5})(k), split(key, 3)), {}, ()),
    "observed-apart": (lambda key: [ppl.nest(ppl.condition(site, {"x": 0.5}), scope=s)(key) for s in "ab"], {}, ()),
    "vmap-observed-good": (ppl.condition(GOOD["vmap"], THREE), {}, ()),
    "imputed": (ppl.condition(repeated, {"x": ppl.impute(GAPS)}), THREE, MAP),
    "imputed-good": (ppl.condition(GOOD["vmap"], {"x": ppl.impute(GAPS)}), THREE, ()),
    "ignored": (ppl.condition(repeated, {"x": ppl.ignore(GAPS)}), {}, MAP),
    "ignored-good": (ppl.condition(GOOD["scan-zip"], {"x": ppl.ignore(GAPS)}), {}, ()),
    "reparam": (ppl.reparam(repeated, {"x": own_coordinates}), THREE, MAP),
    "reparam-good": (ppl.reparam(GOOD["vmap"], {"x": own_coordinates}), THREE, ()),
    "scale": (ppl.scale(repeated, 2.0), THREE, MAP),
    "scale-good": (ppl.scale(GOOD["vmap"], 2.0), THREE, ()),
    "scale-in-a-scan": (lambda key: scanned(lambda _, x: ppl.scale(site, 2.0)(key, x), ZEROS), THREE, SCAN),
    "scale-in-a-scan-good": (lambda key: scanned(lambda _, k: ppl.scale(site, 2.0)(k), split(key, 3)), THREE, ()),
    "block-deterministic": (ppl.block(thrice, ["twice z"]), A | B | {"z": 0.5}, ()),
    "block-one-of-two-observed": (ppl.block(ppl.condition(twice, A | B), ["a"]), {}, ()),
    "block-observed": (ppl.block(ppl.condition(GOOD["scopes"], A), ["a"]), B, ()),
    "block-intervened": (ppl.block(ppl.intervene(twice, A), ["a"]), B, ()),
    "nothing": (with_nothing, ONE, ()),
    "nothing-observed": (ppl.condition(with_nothing, ONE), {}, ()),
    "deterministic-and-factor": (weighed, THREE, ()),
    "branches-observed": (ppl.condition(GOOD["branches"], ONE), {}, ()),
    "branches-of-one-flag": (lambda key: crossed(key, True, True), A | B, ()),
    "branches-of-two-flags": (lambda key: crossed(key, True, False), A | B, ()),
    "all-at-once": (ppl.scale(ppl.reparam(ppl.condition(GOOD["one-key-two-names"], {"z": 0.5}), {"x": own_coordinates}), 2.0), ONE, ()),
}  # fmt: skip


@pytest.mark.slow_rows("branches-of-one-flag")
@pytest.mark.parametrize(("model", "values", "words"), TRANSFORMED.values(), ids=TRANSFORMED)
def test_transformed_sites(model, values, words):
    derive = lambda: ppl.log_density(model)(values)  # noqa: E731
    if not words:
        assert jax.eval_shape(derive).shape == ()
        return
    with pytest.raises(ValueError, match="would have the same draw") as error:
        jax.eval_shape(derive)
    assert missing_words(error, words) == []


SIMULATED = {
    "run": lambda key: repeated(key),
    "simulate": lambda key: ppl.simulate(repeated)(key)["x"],
    "intervene": lambda key: ppl.intervene(thrice, {"z": 0.5})(key),
    "another-observed": lambda key: ppl.condition(thrice, {"z": 0.5})(key),
    "observed": lambda key: ppl.condition(repeated, THREE)(key),
    "observed-simulate": lambda key: ppl.simulate(ppl.condition(twice, A))(key)["b"]["x"],
    "observed-intervene": lambda key: ppl.intervene(ppl.condition(twice, A), B)(key),
    "observed-trace": lambda key: ppl.trace(ppl.intervene(ppl.condition(twice, A), B))(key).output,
    "ignored": lambda key: ppl.condition(repeated, {"x": ppl.ignore(GAPS)})(key),
    "observed-predict": lambda key: ppl.predict(ppl.condition(twice, A), 3)(key)["b"]["x"],
    "block": lambda key: ppl.block(twice, ["a"])(key),
    "reparam": lambda key: ppl.reparam(repeated, {"x": own_coordinates})(key),
    "scale": lambda key: ppl.scale(repeated, 2.0)(key),
    "predict": lambda key: ppl.predict(twice, {"a": {"x": HALVES}})(key)["b"]["x"],
}


@pytest.mark.parametrize("run", SIMULATED.values(), ids=SIMULATED)
def test_simulation_is_never_restricted(run):
    jax.eval_shape(run, KEY)


def loop(key, *more):
    return scanned(lambda _, k: sum(site(k, name=name) for name in (*more, "x")), split(key, 3))


def alone(key):
    return site(key, name="y") + scoped("s", split(key)[0], f=loop)


# The same sites and another one.
ADDED = {
    "before": lambda key: (site(key, name="new"), alone(key))[1],
    "after": lambda key: alone(key) + site(key, name="new"),
    "in-a-scope": lambda key: alone(key) + scoped("new", key, 0.0, "y"),
    "in-its-loop": lambda key: [site(key, name="y"), scoped("s", split(key)[0], "new", f=loop)],
    "in-another-loop": lambda key: [scanned(lambda _, k: site(k, name="new"), split(key, 3)), alone(key)],
    "in-another-vmap": lambda key: [jax.vmap(lambda k: site(k, name="new"))(split(key, 3)), alone(key)],
    "in-a-branch": lambda key: [alone(key), lax.cond(True, *[lambda: site(key, name="new")] * 2)],
}  # fmt: skip


def test_draws_stay_as_they_are_when_a_site_is_added():
    models = ADDED | {"alone": alone}
    draws = jax.jit(lambda key: {name: ppl.simulate(m)(key) for name, m in models.items()})(KEY)
    expected = draws.pop("alone")
    for values in draws.values():
        assert len(jax.tree.leaves(values)) == 3
        assert_equal({"s": {"x": values["s"]["x"]}, "y": values["y"]}, expected)


def test_scopes_with_one_key_draw_independently():
    """A draw is that of its key and the hash of its path; at the top level of the name alone."""

    def model(key):
        inner = lambda key: scoped("a", key) + site(key)  # noqa: E731
        keys = split(key, 2)
        stepped = scanned(lambda _, k: scoped("d", k), keys)
        return site(key), scoped("a", key, f=inner), scoped("b", key), stepped

    values = ppl.simulate(model)(KEY)
    ran = site(KEY), values["a"]["a"]["x"] + values["a"]["x"], values["b"]["x"], values["d"]["x"]
    assert_equal(model(KEY), ran)
    assert_equal(jax.jit(model)(KEY), ran)
    assert_equal(ppl.predict(model, 3)(KEY).keys(), values.keys())
    traced = ppl.trace(model)(KEY)
    assert_equal(traced.output, ran)
    for path in (("x",), ("a", "x"), ("a", "a", "x"), ("b", "x")):
        digest = hashlib.blake2b("\0".join(path).encode(), digest_size=4).digest()
        exact = dist.Uniform(0.0, 1.0).sample(jax.random.fold_in(KEY, int.from_bytes(digest)))
        found = values
        for name in path:
            found = found[name]
        assert_equal(found, exact)

    num = 4000
    draws = jax.jit(jax.vmap(ppl.simulate(model)))(split(KEY, num))
    columns = [draws["x"], draws["a"]["x"], draws["a"]["a"]["x"], draws["b"]["x"]]
    correlation = np.corrcoef(np.stack(columns)) - np.eye(4)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(num)


@jax.jit
def prepared(key, x):
    return split(key), x + 1.0


def carried(key, x):
    def step(carry, row):
        return (split(carry[0])[0], carry[1] + row), carry

    return lax.scan(step, (key, 0.0), x)[1]


BESIDE_NUMBERS = {
    "jit": (prepared, [2.0, 3.0, 5.0]),
    "scan": (carried, [0.0, 1.0, 3.0]),
    "cond": (
        lambda k, x: lax.cond(x[0] > 0, prepared, lambda k, x: (split(k), x - 1.0), k, x),
        [2.0, 3.0, 5.0],
    ),
    "while": (
        lambda k, x: lax.while_loop(
            lambda c: c[1][0] < 3.0, lambda c: (split(c[0])[0], c[1] + 1.0), (k, x)
        ),
        [3.0, 4.0, 6.0],
    ),
    "checkpoint": (jax.checkpoint(lambda k, x: (split(k), 2.0 * x)), [2.0, 4.0, 8.0]),
    "jit-unread": (lambda k, x: (None, jax.jit(lambda k, x: 2.0 * x)(k, x)), [2.0, 4.0, 8.0]),
    "scan-unread": (
        lambda k, x: (k, sum(lax.scan(lambda c, v: (c + v[1], c), 0.0, (split(k, 3), x)))),
        [7.0, 8.0, 10.0],
    ),
}


@pytest.mark.parametrize("name", BESIDE_NUMBERS)
def test_keys_that_nothing_uses_leave_a_density(name):
    """Beside them, the same equation gives numbers that sites depend on."""
    make, expected = BESIDE_NUMBERS[name]

    def model(key, x):
        ppl.sample(key, dist.Normal(make(key, x)[1], 1.0), name="y")

    x = jnp.array([1.0, 2.0, 4.0])
    density = lambda x: ppl.log_density(model)({"y": ZEROS}, x)  # noqa: E731
    value, slope = jax.jvp(density, (x,), (jnp.ones(3),))
    np.testing.assert_allclose(value, stats.norm.logpdf(expected).sum(), rtol=1e-6)
    assert np.isfinite(slope).all()


def test_a_carry_of_a_state_and_of_a_trend_is_summed():
    """A later site depends on the trend alone, whose loop draws the states."""

    def model(key):
        def step(carry, key):
            state = ppl.sample(key, dist.Bernoulli(probs=0.3 + 0.5 * carry[0]), name="state")
            ppl.sample(key, dist.Normal(1.0 * state, 1.0), name="y")
            return (state, carry[1] + 1.0), None

        trend = lax.scan(step, (0, 0.0), split(key, 3))[0][1]
        ppl.sample(key, dist.Normal(trend, 1.0), name="last")

    found = ppl.log_density(ppl.marginalize(model, ["state"]))({"y": HALVES, "last": 2.0})
    paths = list(itertools.product((0, 1), repeat=3))
    each = [
        sum(
            np.log(p if now else 1 - p) + stats.norm.logpdf(0.5, now)
            for now, p in zip(path, 0.3 + 0.5 * np.array((0, *path[:-1])), strict=True)
        )
        for path in paths
    ]
    expected = np.logaddexp.reduce(each) + stats.norm.logpdf(2.0, 3.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
