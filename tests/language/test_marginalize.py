"""marginalize: sums equal those over all joint states, with derivatives; draws given the rest."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import distributions as dist
import ppl
from ppl.marginal import elimination
from ppl.marginal.parallel_filter import log_normalizers
from tests.language.sums import SUMS

pytestmark = pytest.mark.usefixtures("x64")


def sum_by_force(case):
    """The log density with all joint states summed, and these states."""
    posterior = case.posterior()
    nodes = ppl.graph(posterior)().nodes
    shapes = {name: nodes[name].shape for name in case.summed}
    places = [n for n, shape in shapes.items() for _ in range(int(np.prod(shape)))]
    rows = np.array(list(itertools.product(*(case.summed[n] for n in places))))
    joint = {}
    for name, shape in shapes.items():
        mine = rows[:, [n == name for n in places]].reshape(-1, *shape)
        joint[name] = jnp.asarray(mine).astype(nodes[name].dtype)

    def log_densities(values):
        return jax.vmap(lambda z: ppl.log_density(posterior)({**values, **z}))(joint)

    return log_densities, joint


def values_of(case):
    values = {"mu": jnp.asarray(case.mu)}
    if case.name == "latent_between":
        values["x"] = jnp.array([0.1, 2.0, 1.0, -1.0, 0.5])
    return values


QUICK = ["mapped", "classes_of_groups", "totals", "markov_from_site", "markov_second_order"]
QUICK += ["markov_with_mixture", "switching_autoregression", "rows_and_columns"]


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_sums_equal_those_over_all_joint_states(case):
    log_densities, _ = sum_by_force(case)
    summed = ppl.marginalize(case.posterior(), list(case.summed))
    values = values_of(case)

    @jax.jit
    def both(values):
        def by_force(values):
            return jax.nn.logsumexp(log_densities(values))

        found = []
        for f in (ppl.log_density(summed), by_force):
            slope = jax.grad(f)
            along = lambda mu, slope=slope: slope({**values, "mu": mu})["mu"]  # noqa: E731
            found.append((f(values), slope(values), jax.grad(along)(values["mu"])))
        return found

    ours, exact = both(values)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), ours, exact)


NORMALIZERS = jax.jit(functools.partial(log_normalizers, reverse=False))
IN_PARALLEL = ["markov_from_site", "markov_reversed", "several_markov", "open_population"]


@pytest.mark.parametrize("name", ["rows_by_index", "columns_by_index", "row_in_vmap"])
def test_rows_that_an_index_reads_are_summed_one_by_one(name):
    model = ppl.marginalize(get_model(name).posterior(), {"z": ppl.Enumerate(max_states=4)})
    assert jax.eval_shape(ppl.log_density(model), {"mu": 0.7}).shape == ()


@pytest.mark.quick_rows("markov_from_site")
@pytest.mark.parametrize("name", IN_PARALLEL)
def test_a_chain_by_an_associative_scan_is_that_by_a_loop(name, monkeypatch):
    case = get_model(name)
    log_density = ppl.log_density(ppl.marginalize(case.posterior(), list(case.summed)))
    slopes = lambda mu: (log_density({"mu": mu}), jax.grad(lambda x: log_density({"mu": x}))(mu))  # noqa: E731
    both = lambda mu: jax.jvp(slopes, (mu,), (1.0,))  # noqa: E731
    by_loop = jax.jit(both)(case.mu)
    shapes = []
    monkeypatch.setattr(elimination, "is_parallel", lambda x: not shapes.append(x))
    in_parallel = jax.jit(lambda mu: both(mu))(case.mu)
    assert shapes
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)  # noqa: E731
    jax.tree.map(close, in_parallel, by_loop)


def test_an_associative_scan_is_accurate_in_single_precision():
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(2000, 3, 3)) - 5.0
    steps[7, 1] = -np.inf
    found = []
    for dtype in (np.float64, np.float32):
        with jax.enable_x64(dtype == np.float64):
            start, rows = jnp.zeros(3, dtype), jnp.asarray(steps, dtype)
            found.append(NORMALIZERS(start, rows))
    np.testing.assert_allclose(found[1], found[0], atol=3e-6)
    np.testing.assert_allclose(found[1].sum(), found[0].sum(), rtol=1e-6)


def test_an_impossible_step_is_scored_where_it_stands():
    steps = np.zeros((4, 2, 2))
    steps[2] = -np.inf
    found = NORMALIZERS(jnp.zeros(2), jnp.asarray(steps))
    np.testing.assert_array_equal(np.isfinite(found), [True, True, False, True])


def chi_square(codes, weights):
    """The chi-square statistic of draws, in standard deviations from its mean."""
    expected = weights * codes.size
    observed = np.bincount(codes, minlength=weights.size)
    small = expected < 5
    expected = np.append(expected[~small], expected[small].sum())
    observed = np.append(observed[~small], observed[small].sum())
    kept = expected > 0
    num = kept.sum() - 1
    return (np.sum((observed - expected)[kept] ** 2 / expected[kept]) - num) / np.sqrt(2 * num)


NUM_DRAWS = 20_000
JOINT = ["indexed", "coupled", "global_class", "markov_from_site", "open_population"]
JOINT += ["factorial", "nested_loops"]


def recover_beside_joint(case, values):
    """The statistic of recovered draws, and that of draws that are right one by one."""
    log_densities, joint = sum_by_force(case)
    weights = np.asarray(jax.nn.softmax(jax.jit(log_densities)(values)))
    draws = jax.tree.map(lambda x: jnp.broadcast_to(x, (NUM_DRAWS, *x.shape)), values)
    summed = ppl.marginalize(case.posterior(), list(case.summed))
    drawn = ppl.recover(summed, draws)(jax.random.key(3))
    assert {n: drawn[n].dtype for n in joint} == {n: x.dtype for n, x in joint.items()}

    def flat(values):
        return np.concatenate([np.asarray(values[n]).reshape(len(values[n]), -1) for n in joint], 1)

    states, found = flat(joint), flat(drawn)
    base = (states.max() + 1) ** np.arange(states.shape[1])
    order = np.argsort(states @ base)

    def statistic(found):
        codes = np.searchsorted((states @ base)[order], found @ base)
        return chi_square(codes, weights[order])

    rng = np.random.default_rng(0)
    apart = np.stack([rng.permutation(column) for column in found.T], 1)
    return statistic(found), statistic(apart)


@pytest.mark.quick_rows("markov_from_site")
@pytest.mark.parametrize("case", [c for c in SUMS if c.name in JOINT], ids=lambda case: case.name)
def test_recovered_draws_have_the_exact_joint_distribution(case):
    found, apart = recover_beside_joint(case, values_of(case))
    assert found < 4
    assert apart > 4 or case.name == "indexed"  # Its elements are independent.


def test_deterministic_values_of_summed_sites_are_recovered():
    case = next(c for c in SUMS if c.name == "factors")
    summed = ppl.marginalize(case.model, ["z"])
    found = ppl.recover(summed, {"mu": jnp.full((2, 3), 0.7)})(jax.random.key(0))
    assert found["z"].shape == (2, 3, 5)
    np.testing.assert_array_equal(found["double"], 2 * found["z"])


def test_recovered_sites_keep_their_names_in_any_order():
    def model(key):
        first = ppl.sample(key, dist.Bernoulli(probs=1.0), name="z0")

        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=1.0 - z), name="z")
            return z, ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")

        ppl.sample(key, dist.Bernoulli(probs=0.0), name="b")
        ppl.sample(key, dist.Bernoulli(probs=1.0), name="a")
        ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        jax.lax.scan(step, first, jax.random.split(key, 3))

    posterior = ppl.condition(model, {"y": np.zeros(3)})
    for names in (["z0", "z", "b", "a"], ["a", "z", "b", "z0"]):
        summed = ppl.marginalize(posterior, names)
        found = ppl.recover(summed, {"mu": np.zeros((2, 7))})(jax.random.key(0))
        exact = {"z0": 1, "z": [0, 1, 0], "a": 1, "b": 0}
        for name, value in exact.items():
            expected = np.broadcast_to(value, (2, 7, *np.shape(value)))
            np.testing.assert_array_equal(found[name], expected, err_msg=name)


def get_model(name):
    return next(c for c in SUMS if c.name == name)


def test_condition_may_come_after_and_before():
    case = get_model("markov")
    before = ppl.marginalize(case.posterior(), ["z"])
    after = ppl.condition(ppl.marginalize(case.model, ["z"]), case.data)
    values = {"mu": 0.3}
    assert ppl.log_density(before)(values) == ppl.log_density(after)(values)
    np.testing.assert_array_equal(ppl.simulate(after)(jax.random.key(0))["y"], case.data["y"])


def test_a_chain_scores_each_step_given_those_before():
    case = get_model("markov")
    summed = ppl.marginalize(case.model, ["z"])
    found = ppl.log_probs(summed)({"mu": 0.3, "y": case.data["y"]})["y"]
    head = ppl.ignore(case.data["y"], np.arange(5) > 2)
    first = ppl.log_density(ppl.marginalize(ppl.condition(case.model, {"y": head}), ["z"]))
    prior = ppl.log_probs(summed)({"mu": 0.3, "y": case.data["y"]})["mu"]
    np.testing.assert_allclose(found[:3].sum(), first({"mu": 0.3}) - prior, rtol=1e-12)


def test_a_sum_under_transformations_of_jax():
    """New data and masks compile nothing."""
    case = get_model("markov")

    def log_density(mu, y, is_missing):
        posterior = ppl.condition(case.model, {"y": ppl.ignore(y, is_missing)})
        return ppl.log_density(ppl.marginalize(posterior, ["z"]))({"mu": mu})

    traces = []

    @jax.jit
    def all_of_them(mu, y, is_missing):
        traces.append(None)
        one = jax.checkpoint(lambda mu: log_density(mu, y, is_missing))
        by_scan = jax.lax.scan(lambda _, mu: (None, jax.value_and_grad(one)(mu)), None, mu)[1]
        alone = jnp.stack([log_density(x, y, is_missing) for x in mu])
        return alone, by_scan, jax.vmap(jax.value_and_grad(one))(mu)

    mu = jnp.array([0.3, -1.0])
    for last in (1, 5):
        y, is_missing = last * case.data["y"], np.arange(5) >= last
        alone, *found = all_of_them(mu, y, is_missing)
        for values, slopes in found:
            np.testing.assert_allclose(values, alone, rtol=1e-12)
            np.testing.assert_allclose(slopes, found[0][1], rtol=1e-12)
    assert len(traces) == 1


@pytest.mark.parametrize("is_parallel", [False, True])
def test_chains_split_over_the_shards_of_a_mesh(is_parallel, monkeypatch):
    monkeypatch.setattr(elimination, "is_parallel", lambda _: is_parallel)
    mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    y = np.resize(get_model("markov").data["y"], (4, 5))

    def model(key, y):
        def chain(key, y):
            def step(z, inputs):
                key, y = inputs
                z = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.6])[z]), name="z")
                ppl.factor(-((y - z) ** 2), name="y")
                return z, None

            jax.lax.scan(step, 0, (jax.random.split(key, y.size), y))

        jax.vmap(chain)(jax.random.split(key, len(y)), y)

    log_density = lambda y: ppl.log_density(ppl.marginalize(model, ["z"]))({}, y)  # noqa: E731
    of_shard = lambda y: jax.lax.psum(log_density(y), "i")  # noqa: E731
    rows = jax.P("i")
    split = jax.jit(jax.shard_map(of_shard, mesh=mesh, in_specs=rows, out_specs=jax.P()))
    np.testing.assert_allclose(split(y), jax.jit(log_density)(y), rtol=1e-12)


def test_a_long_chain_keeps_its_accuracy_in_single_precision():
    """A forward algorithm whose weights are not rescaled is off by 1e-4 here."""
    y = np.random.default_rng(0).normal(size=10_000)

    def model(key, y):
        mu = ppl.sample(key, dist.Normal(np.zeros(3), 1.0), name="mu")

        def step(z, inputs):
            key, y = inputs
            probs = 0.1 + 0.7 * (jnp.arange(3) == z)
            z = ppl.sample(key, dist.Categorical(probs=probs), name="z")
            ppl.factor(-0.5 * (y - mu[z]) ** 2, name="y")
            return z, None

        jax.lax.scan(step, 0, (jax.random.split(key, y.size), y))

    log_density = jax.jit(jax.value_and_grad(ppl.log_density(ppl.marginalize(model, ["z"]))))
    found = []
    for dtype in (np.float64, np.float32):
        with jax.enable_x64(dtype == np.float64):
            found.append(log_density({"mu": np.array([-1.5, 0.2, 1.8], dtype)}, y.astype(dtype)))
    (exact, slope), (value, single) = found
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, exact, rtol=1e-6)
    np.testing.assert_allclose(single["mu"], slope["mu"], rtol=1e-5)


COUNTS = np.random.default_rng(0).binomial(9, 0.4, size=(12, 7, 2))
SIZES = np.arange(31)


def abundance(key):
    """Counts of animals, two a visit; how many there are, up to 30, is not known."""
    rate = ppl.sample(key, dist.Gamma(9.0, 1.0), name="rate")
    p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
    logits = dist.Poisson(rate).log_prob(SIZES)
    n = ppl.sample(key, dist.Categorical(logits=logits + np.zeros((12, 7, 1))), name="n")
    ppl.sample(key, dist.Binomial(n[..., None] * np.ones(2, int), probs=p), name="y")


def abundance_by_hand(values):
    rate = values["rate"]
    p = values["p"]
    there = jax.nn.log_softmax(dist.Poisson(rate).log_prob(SIZES))
    log_probs = dist.Binomial(SIZES, probs=p).log_prob(COUNTS[..., None]).sum(2) + there
    prior = dist.Gamma(9.0, 1.0).log_prob(rate) + dist.Beta(2.0, 2.0).log_prob(p)
    return prior + jax.nn.logsumexp(log_probs, -1).sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_of_unknown_size_cost_as_much_as_by_hand(dtype):
    density = ppl.log_density(ppl.marginalize(ppl.condition(abundance, {"y": COUNTS}), ["n"]))
    with jax.enable_x64(dtype == "float64"):
        values = {"rate": jnp.asarray(8.0, dtype), "p": jnp.asarray(0.45, dtype)}
        compiled = [
            jax.jit(jax.value_and_grad(f)).lower(values).compile()
            for f in (density, abundance_by_hand)
        ]
        ours, by_hand = (ravel_pytree(f(values))[0] for f in compiled)
        flops, flops_by_hand = (f.cost_analysis()["flops"] for f in compiled)  # pyright: ignore
        jaxpr = jax.make_jaxpr(jax.grad(density))(values)
    np.testing.assert_allclose(ours, by_hand, rtol=1e-11 if dtype == "float64" else 2e-5)
    assert flops < 1.15 * flops_by_hand
    # No loop over the axis of 2 inside of all others.
    outs = [v for e in jaxpr.eqns for v in e.outvars if e.primitive.name != "transpose"]
    orders = {v.aval.shape for v in outs if v.aval.size == 31 * COUNTS.size}
    assert orders == {(*COUNTS.shape, 31)}


def test_impossible_states_give_no_nan():
    case = get_model("zeros")
    summed = ppl.marginalize(case.posterior(), ["z"])
    value, slope = jax.value_and_grad(ppl.log_density(summed))({"mu": -1000.0})
    assert value < -1000
    assert np.isfinite(slope["mu"])


@pytest.mark.parametrize("name", ["markov_from_site", "coupled", "factors"])
def test_a_graph_shows_summed_sites_where_they_were(name):
    case = get_model(name)
    after = ppl.condition(ppl.marginalize(case.model, list(case.summed)), case.data)
    before = ppl.graph(case.posterior())()
    graph = ppl.graph(after)()
    assert graph.edges == before.edges
    kinds = {n: "summed" if n in case.summed else node.kind for n, node in before.nodes.items()}
    assert {n: node.kind for n, node in graph.nodes.items()} == kinds
    shapes = {n: (node.shape, node.dtype, node.plates) for n, node in before.nodes.items()}
    assert {n: (node.shape, node.dtype, node.plates) for n, node in graph.nodes.items()} == shapes


def model_of_two(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    a = ppl.sample(key, dist.Bernoulli(probs=0.4), name="a")
    b = ppl.sample(key, dist.Categorical(logits=jnp.stack([mu, 1.0 * a, -mu])), name="b")
    ppl.sample(key, dist.Normal(mu * a + b, 1.0), name="y")


@pytest.mark.slow
def test_sums_of_sums_and_sums_in_scopes():
    posterior = ppl.condition(model_of_two, {"y": 1.2})
    at_once = ppl.marginalize(posterior, ["a", "b"])
    one_by_one = ppl.marginalize(ppl.marginalize(posterior, ["b"]), ["a"])
    values, draws = {"mu": 0.3}, {"mu": jnp.full(4000, 0.3)}
    expected = ppl.log_density(at_once)(values)
    np.testing.assert_allclose(ppl.log_density(one_by_one)(values), expected, rtol=1e-12)

    nested = ppl.nest(at_once, scope="of")
    np.testing.assert_allclose(ppl.log_density(nested)({"of": values}), expected, rtol=1e-12)
    found = [ppl.recover(m, draws)(jax.random.key(1)) for m in (at_once, one_by_one)]
    found.append(ppl.recover(nested, {"of": draws})(jax.random.key(1))["of"])  # Its key differs.
    first, *others = [np.mean(3 * z["a"] + z["b"] == np.arange(6)[:, None], 1) for z in found]
    for other in others:
        np.testing.assert_allclose(other, first, atol=4 * np.sqrt(0.5 / 4000))
    assert ppl.graph(nested)().parents("of.y") == ("of.mu", "of.a", "of.b")


def model_of_all_earlier_states(key):
    def step(total, key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        total = total + z
        return total, ppl.sample(key, dist.Normal(total, 1.0), name="y")

    return jax.lax.scan(step, 0.0, jax.random.split(key, 40))[1]


def model_of_pairs(key):
    a = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (40,)), name="a")
    ppl.sample(key, dist.Bernoulli(probs=0.1 + 0.2 * (a[:, None] + a[None, :])), name="y")


def model_of_rows_and_columns(key):
    a = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (40,)), name="a")
    b = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (50,)), name="b")
    ppl.sample(key, dist.Normal(a[:, None] + b[None, :], 1.0), name="y")


def model_of_support(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.sample(key, dist.Uniform(0.0, 1.0 + z), name="x")


def model_of_counts(key):
    z = ppl.sample(key, dist.Poisson(3.0), name="z")
    ppl.sample(key, dist.Normal(z, 1.0), name="y")


MISTAKES = {
    "unknown": (model_of_counts, ["x"], "has no site 'x'. Use one of: 'z', 'y'"),
    "infinite": (model_of_counts, ["z"], "'z' has the family Poisson, which has infinitely many"),
    "real": (
        model_of_counts,
        ["y"],
        r"Normal, which is not discrete. If .* ppl.marginalize\(model, {'y': ppl.Gaussian\(\)}\)",
    ),
    "all steps": (model_of_all_earlier_states, ["z"], "carry of a scan .* depends on all earlier"),
    "pairs": (model_of_pairs, ["a"], "'y' depends on many elements of 'a' at once"),
    "crossed": (
        model_of_rows_and_columns,
        ["a", "b"],
        "meets many .*, over 2199023255552 states. .*, or raise max_states, which is 65536",
    ),
    "support": (model_of_support, ["z"], "the support of site 'x' depends on a summed site"),
    "max_states": (
        get_model("totals").model,
        {"z": ppl.Enumerate(max_states=4)},
        "take 8 states together",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_name_the_sites_and_the_remedy(name):
    model, sites, words = MISTAKES[name]
    summed = ppl.marginalize(model, sites)

    def simulate_and_score():
        values = ppl.simulate(summed)(jax.random.key(0))
        ppl.log_density(summed)(values)
        ppl.unconstrain(summed)

    with pytest.raises(ValueError, match="(?s)marginalize: .*" + words):
        simulate_and_score()
