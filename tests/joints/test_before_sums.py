"""Interventions, hidden sites and new data after `marginalize`, on sites that sums score together.

The oracle adds the terms of the joint density in NumPy, on a grid of the site that is taken out.
"""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key, split
from scipy import special, stats

import distributions as dist
import ppl
from ppl.transforms.unobserve import unobserve

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")

X = np.array([0.3, -0.5, 1.1])
M = np.array([1.0, 0.2, -0.4])
Y = np.array([0.6, -1.0, 0.8])
B = 0.4
NORMAL = (np.linspace(-8.0, 8.0, 4001), stats.norm.logpdf(np.linspace(-8.0, 8.0, 4001)))
BINARY = (np.array([0.0, 1.0]), np.log([0.7, 0.3]))
GRIDS = {ppl.Gaussian(): NORMAL, ppl.Laplace(): NORMAL, ppl.Enumerate(): BINARY}


def row(key, x, b, is_binary, is_shaped):
    shape = np.shape(x) if is_shaped else ()
    d = ppl.deterministic(2.0 * b + x, name="d")
    if is_binary:
        u = ppl.sample(key, dist.Bernoulli(probs=jnp.full(shape, 0.3)), name="u").astype(float)
    else:
        u = ppl.sample(key, dist.Normal(jnp.zeros(shape), 1.0), name="u")
    m = ppl.sample(key, dist.Normal(d + u, 0.5), name="m")
    e = ppl.deterministic(0.4 * m, name="e")
    ppl.sample(key, dist.Normal(e + u - b, 0.5), name="y")
    ppl.factor(-((u - x) ** 2), name="w")


def make(is_binary=False, construct="batch"):
    def model(key, x):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        if construct == "batch":
            row(key, x, b, is_binary, True)
        elif construct == "vmap":
            jax.vmap(lambda key, x: row(key, x, b, is_binary, False))(split(key, 3), x)
        else:
            step = lambda _, at: (None, row(at[0], at[1], b, is_binary, False))  # noqa: E731
            jax.lax.scan(step, None, (split(key, 3), x))

    return model


def oracle(grid, fixed, hidden=()):
    """The log density given B, and the means of u."""
    u, log_prior = grid[0][:, None], grid[1][:, None]
    m, y = fixed.get("m", M), fixed.get("y", Y)
    d = fixed.get("d", 2.0 * B + X)
    e = fixed.get("e", 0.4 * m)
    terms = {
        "m": stats.norm.logpdf(m, d + u, 0.5),
        "y": stats.norm.logpdf(y, e + u - B, 0.5),
        "w": -((u - X) ** 2),
    }
    cell = np.log(u[1, 0] - u[0, 0]) if len(u) > 2 else 0.0
    counted = [x for name, x in terms.items() if name not in (*fixed, *hidden)]
    each = log_prior + cell + np.sum(np.broadcast_arrays(*counted), axis=0)
    totals = special.logsumexp(each, axis=0)
    return stats.norm.logpdf(B) + np.sum(totals), (np.exp(each - totals) * u).sum(0)


FIXED = {"m": M + 0.5, "y": Y - 0.3, "d": X - 1.0, "e": Y + 0.2}
CASES = [*(("intervene", name) for name in "myde"), *(("block", name) for name in "myw")]


def check(strategy, construct, how, name, around=lambda model: model):
    is_binary = isinstance(strategy, ppl.Enumerate)
    changed = {name: FIXED[name]} if how == "intervene" else {}
    expected, mean = oracle(GRIDS[strategy], changed, () if changed else (name,))

    def changed_model():
        made = around(ppl.marginalize(make(is_binary, construct), {"u": strategy}))
        data = {k: jnp.asarray(x) for k, x in (("m", M), ("y", Y)) if k not in changed}
        made = ppl.condition(made, data)
        if how == "block":
            return ppl.block(made, [name])
        return ppl.intervene(made, {k: jnp.asarray(x) for k, x in changed.items()})

    for wide in (False, True) if name in "mw" else (False,):
        with jax.enable_x64(wide):
            found = jax.jit(ppl.log_density(changed_model()))({"b": B}, jnp.asarray(X))
            np.testing.assert_allclose(found, expected, rtol=1e-8 if wide else 1e-5)
    draws = ppl.recover(changed_model(), {"b": jnp.full(3000, B)})(key(1), jnp.asarray(X))["u"]
    error = np.std(draws, axis=0) / np.sqrt(3000) + 1e-3
    assert np.all(np.abs(np.mean(draws, axis=0) - mean) < 5 * error)


@pytest.mark.parametrize(
    ("strategy", "how", "name"),
    [
        *((ppl.Gaussian(), *case) for case in CASES),
        *((ppl.Enumerate(), "intervene", name) for name in "md"),
        (ppl.Enumerate(), "block", "w"),
        (ppl.Laplace(), "intervene", "m"),
    ],
)
def test_a_site_of_a_sum_is_fixed_or_hidden(strategy, how, name):
    check(strategy, "batch", how, name)


@pytest.mark.parametrize("construct", ["vmap", "scan"])
@pytest.mark.parametrize(("how", "name"), [("intervene", "m"), ("intervene", "d"), ("block", "y")])
def test_in_loops_and_vmap(construct, how, name):
    check(ppl.Gaussian(), construct, how, name)


@pytest.mark.parametrize(
    "around",
    [
        lambda f: ppl.scale(f, 1.0),
        lambda f: ppl.reparam(f, {"m": ppl.NonCentered(), "b": ppl.NonCentered()}),
        jax.jit,
    ],
    ids=["scale", "reparam", "jit"],
)
@pytest.mark.parametrize(("how", "name"), [("intervene", "m"), ("block", "y")])
def test_behind_other_transformations(around, how, name):
    check(ppl.Gaussian(), "batch", how, name, around)


def test_a_rule_plans_without_the_transformation():
    """Without m among the latent sites, this rule takes out nothing."""
    rule = lambda model: lambda x: {"u": ppl.Gaussian()} if "m" in latent(model, x) else {}  # noqa: E731

    def latent(model, x):
        return {name for name, node in ppl.graph(model)(x).nodes.items() if node.kind == "latent"}

    made = ppl.intervene(ppl.marginalize(make(), rule), {"m": FIXED["m"]})
    found = ppl.log_density(ppl.condition(made, {"y": Y}))({"b": B}, jnp.asarray(X))
    np.testing.assert_allclose(found, oracle(NORMAL, {"m": FIXED["m"]})[0], rtol=1e-5)


def test_hidden_latent_sites_are_drawn():
    """One that others depend on has no density; one at the end leaves that of the others."""
    summed = ppl.marginalize(make(), {"u": ppl.Gaussian()})
    drawn = ppl.simulate(ppl.block(summed, ["m"]))(key(0), jnp.asarray(X))
    assert drawn.keys() == {"b", "d", "e", "y"}
    np.testing.assert_array_equal(drawn["y"], ppl.simulate(summed)(key(0), jnp.asarray(X))["y"])
    with pytest.raises(ValueError, match="its density depends on"):
        ppl.log_density(ppl.block(summed, ["m"]))({"b": B, "y": Y}, jnp.asarray(X))
    found = ppl.log_density(ppl.block(summed, ["y"]))({"b": B, "m": M}, jnp.asarray(X))
    np.testing.assert_allclose(found, oracle(NORMAL, {}, hidden="y")[0], rtol=1e-5)


@pytest.mark.parametrize("strategy", GRIDS)
def test_a_latent_site_that_no_sum_reads_is_hidden(strategy):
    def model(key, x):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="v")
        make(isinstance(strategy, ppl.Enumerate))(key, x)

    hidden = ppl.block(ppl.marginalize(model, {"u": strategy}), ["v"])
    found = ppl.log_density(hidden)({"b": B, "m": M, "y": Y}, jnp.asarray(X))
    np.testing.assert_allclose(found, oracle(GRIDS[strategy], {})[0], rtol=1e-5)
    assert "v" not in ppl.simulate(hidden)(key(0), jnp.asarray(X))


def test_new_data_have_their_joint_prior():
    """Of m and y, which share u; in the first state of u alone both have less variance."""

    def model(key):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        row(key, 0.3, b, True, False)

    data = {"m": 1.0, "y": 0.5}
    before = ppl.marginalize(ppl.condition(model, data), ["u"])
    after = ppl.condition(ppl.marginalize(model, ["u"]), data)
    for made in (before, after):
        drawn = jax.vmap(ppl.simulate(unobserve(made)))(split(key(0), 20_000))
        found = np.cov([drawn["m"], drawn["y"]])
        m, y = np.array([2.0, 1.0, 0.5, 0.0]), np.array([-0.2, 1.4, 0.2, 0.5])
        variance = np.array([1.0, 0.21, 1.0, 1.0])  # of b, u and the two errors
        expected = np.array([[m @ (variance * m), m @ (variance * y)], [0, y @ (variance * y)]])
        expected[1, 0] = expected[0, 1]
        np.testing.assert_allclose(found, expected, atol=0.15)


@pytest.mark.parametrize(("how", "name"), [("intervene", "m"), ("intervene", "d"), ("block", "w")])
def test_within_nest(how, name):
    made = ppl.nest(ppl.marginalize(make(), {"u": ppl.Gaussian()}), scope="s")
    made = ppl.nest(ppl.scale(ppl.condition(made, {"s": {"y": Y}}), 1.0), scope="r")
    fixed = {name: FIXED[name]} if how == "intervene" else {}
    data = {k: x for k, x in {"b": B, "m": M}.items() if k not in fixed}
    if how == "block":
        made = ppl.block(made, [f"r.s.{name}"])
    else:
        made = ppl.intervene(made, {"r": {"s": fixed}})
    found = ppl.log_density(made)({"r": {"s": data}}, jnp.asarray(X))
    expected, _ = oracle(NORMAL, fixed, () if fixed else (name,))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_sum_within_a_function_is_out_of_reach():
    summed = ppl.marginalize(make(), {"u": ppl.Gaussian()})

    def made(key, x):
        return ppl.nest(summed, scope="s")(key, x)

    refused = re.escape("stands within a function")
    with pytest.raises(ValueError, match=f"site 's.m'.*{refused}.*Intervene first"):
        ppl.intervene(made, {"s": {"m": M}})(key(0), jnp.asarray(X))
    with pytest.raises(ValueError, match=f"site 's.w'.*{refused}.*Block first"):
        ppl.block(made, ["s.w"])(key(0), jnp.asarray(X))
    ppl.intervene(made, {"s": {"b": B}})(key(0), jnp.asarray(X))
    with pytest.raises(ValueError, match=r"no site 's.u': ppl.marginalize has taken it out"):
        ppl.intervene(made, {"s": {"u": M}})(key(0), jnp.asarray(X))
