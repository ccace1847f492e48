"""State spaces read off scans: their parts against the density of the whole model."""

import jax
import jax.numpy as jnp
import pytest
from jax import lax, random

import distributions as dist
import ppl
from inference.models.state_space import ModelStateSpace

KEY = random.key(0)


def walk(key, num_steps=5, scale=0.5):
    """Random walk with a latent scale, a deterministic site, and data behind the last state."""
    start_key, key = random.split(key)
    sigma = ppl.sample(start_key, dist.HalfNormal(1.0), name="sigma")
    x = ppl.sample(start_key, dist.Normal(0.0, sigma), name="x0")

    def body(x, key):
        x = ppl.sample(key, dist.Normal(0.9 * x, sigma), name="x")
        ppl.deterministic(2 * x, name="twice")
        ppl.factor(-0.1 * x**2, name="pull")
        return x, ppl.sample(key, dist.Normal(x, scale), name="y")

    x, ys = lax.scan(body, x, random.split(key, num_steps))
    ppl.sample(start_key, dist.Normal(x, sigma), name="last")
    ppl.deterministic(ys.sum(), name="sum")
    return ys


Y = jnp.array([0.3, -1.0, jnp.nan, 2.0, 0.1])
WALK = ppl.condition(walk, {"y": ppl.ignore(Y), "last": 0.4})


def second_order(key):
    """Second-order autoregression; the carry is the last two states, one by one."""

    def body(carry, key):
        before, last = carry
        x = ppl.sample(key, dist.Normal(1.2 * last - 0.5 * before, 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")
        return (last, x), None

    lax.scan(body, (0.0, 0.0), random.split(key, 5))


def sum_of_path(key):
    """Walk whose observation sees the sum of all states so far."""

    def body(carry, key):
        x, total, unread = carry
        x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        ppl.sample(key, dist.Normal(total + x, 1.0), name="y")
        return (x, total + x, unread + x), None

    lax.scan(body, (0.0, 0.0, 0.0), random.split(key, 5))


def backwards(key):
    """Walk that begins at the last row, under jit and in a scope."""

    def body(x, row):
        key, drift = row
        x = ppl.sample(key, dist.Normal(x + drift, 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")
        return x, None

    def run(key):
        rows = random.split(key, 5), jnp.arange(5.0)
        return lax.scan(body, 0.0, rows, reverse=True)[0]

    ppl.nest(jax.jit(run), scope="a")(key)


def panel(key):
    """Three series under vmap, each with a level of its own."""

    def series(key, slope):
        level = ppl.sample(key, dist.Normal(slope, 1.0), name="level")

        def body(x, key):
            x = ppl.sample(key, dist.Normal(slope * x, 1.0), name="x")
            ppl.sample(key, dist.Normal(x + level, 1.0), name="y")
            return x, None

        lax.scan(body, 0.0, random.split(key, 5))

    jax.vmap(series)(random.split(key, 3), jnp.arange(3.0))


def switching(key):
    """Hidden Markov chain with a cond, and three draws of each step in an inner loop."""

    def body(carry, key):
        state, total = carry
        state = ppl.sample(key, dist.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])[state]),
                           name="state")  # fmt: skip
        inner_key, key = random.split(key)

        def inner(total, key):
            part = ppl.sample(key, dist.Normal(0.0, 1.0), name="part")
            return total + part, None

        total, _ = lax.scan(inner, total, random.split(inner_key, 3))
        scale = lax.cond(state == 0, lambda: 1.0, lambda: 3.0)
        ppl.sample(key, dist.Normal(total, scale), name="y")
        return (state, total), None

    lax.scan(body, (0, 0.0), random.split(key, 5))


CASES = {
    "walk": (WALK, None),
    "second_order": (ppl.condition(second_order, {"y": jnp.arange(5.0)}), 2),
    "sum_of_path": (ppl.condition(sum_of_path, {"y": jnp.arange(5.0)}), None),
    "backwards": (ppl.condition(backwards, {"a": {"y": jnp.arange(5.0)}}), 1),
    "panel": (ppl.condition(panel, {"y": jnp.arange(15.0).reshape(3, 5)}), None),
    "switching": (ppl.condition(switching, {"y": jnp.arange(5.0)}), None),
}


def run_of(space, key):
    """A particle's path, the sum of its log weights, and the sum of its log densities."""

    @jax.jit
    def run(space, key):
        state, start, weight = space.start(key)
        state_again, density, weight_again = space.score_start(start)

        def step(carry, t):
            state, weight, again, weight_again, density = carry
            state, values, w = space.move(random.fold_in(key, t), state, t)
            again, d, w_again = space.score(again, values, t)
            return (state, weight + w, again, weight_again + w_again, density + d), values

        init = (state, weight, state_again, weight_again, density)
        last, steps = lax.scan(step, init, jnp.arange(space.num_steps))
        state, weight, again, weight_again, density = last
        return (
            space.join(start, steps),
            weight + space.finish(state),
            weight_again + space.finish(again),
            density,
        )

    return run(space, key)


@pytest.mark.parametrize("name", CASES)
def test_parts_add_up_to_the_log_density(name):
    """Weights of draws and of scores agree, and sum with the densities to the log density."""
    model, memory = CASES[name]
    space = ModelStateSpace.of(model)
    values, weight, again, density = run_of(space, KEY)
    assert space.memory == memory
    assert jnp.allclose(weight, again, rtol=1e-6)
    assert jnp.allclose(weight + density, ppl.log_density(model)(values), rtol=1e-5)
    start, steps = space.take_apart(values)
    joined = space.join(start, steps)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), joined, values))


@pytest.mark.parametrize("name", ["walk", "switching"])
def test_draws_have_the_law_of_the_prior(name):
    """Means and second moments of 4,000 paths agree with those of simulate, within 5 errors."""
    model, _ = CASES[name]
    space = ModelStateSpace.of(model)
    keys = random.split(KEY, 4_000)
    draws = jax.vmap(lambda key: run_of(space, key)[0])(keys)
    simulated = jax.jit(jax.vmap(ppl.simulate(model)))(keys)
    for site, mine in draws.items():
        x = jnp.concatenate([mine, mine**2], -1) if mine.ndim > 1 else jnp.stack([mine, mine**2])
        y = simulated[site]
        y = jnp.concatenate([y, y**2], -1) if y.ndim > 1 else jnp.stack([y, y**2])
        axis = 0 if mine.ndim > 1 else 1
        error = jnp.sqrt((x.var(axis) + y.var(axis)) / 4_000) + 1e-9
        assert (abs(x.mean(axis) - y.mean(axis)) < 5 * error).all(), site


def test_draws_of_an_inner_loop_are_independent():
    """Steps of a loop within the body have draws of their own, as have steps of the series."""
    space = ModelStateSpace.of(CASES["switching"][0])
    parts = run_of(space, KEY)[0]["part"]
    assert parts.shape == (5, 3)
    assert len(jnp.unique(parts)) == 15


def test_other_data_and_gaps_do_not_recompile():
    """Spaces of other data have the structure of the first; so have spaces with fixed values."""
    run = jax.jit(lambda space: space.start(KEY)[2])
    for shift in (0.0, 1.0):
        data = {"y": ppl.ignore(Y.at[int(shift)].set(jnp.nan) + shift), "last": shift}
        run(ModelStateSpace.of(ppl.condition(walk, data)))
    assert run._cache_size() == 1
    for sigma in (0.5, 2.0):
        run(ModelStateSpace.of(WALK).fix({"sigma": sigma}))
    assert run._cache_size() == 2


def test_fixed_values_count_as_observed_ones():
    """Values fixed afterwards and values conditioned on before give the same weights."""
    fixed = ModelStateSpace.of(WALK).fix({"sigma": 0.7})
    observed = ModelStateSpace.of(ppl.condition(WALK, {"sigma": 0.7}))
    assert fixed.start_sites == observed.start_sites == (("x0",),)
    ours = run_of(fixed, KEY)
    theirs = run_of(observed, KEY)
    assert jnp.allclose(ours[1], theirs[1])
    assert jnp.allclose(ours[3], theirs[3])
    assert ours[0]["sigma"] == jnp.float32(0.7)
    assert jnp.allclose(ours[1] + ours[3], ppl.log_density(WALK)(ours[0]), rtol=1e-5)
    assert ModelStateSpace.of(WALK).memory is None  # sigma stays
    assert fixed.memory == observed.memory == 1


def test_legacy_keys_draw_as_well():
    """A legacy key serves; it draws what the typed key of the same words draws."""
    space = ModelStateSpace.of(WALK)
    assert space.start(random.PRNGKey(3))[1] == space.start(random.key(3))[1]


def no_scan(key):
    ppl.sample(key, dist.Normal(ppl.sample(key, dist.Normal(0.0, 1.0), name="x"), 1.0), name="y")


def data_behind(key):
    def body(x, key):
        x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        return x, x

    _, xs = lax.scan(body, 0.0, random.split(key, 3))
    ppl.sample(key, dist.Normal(xs, 1.0), name="y")


def forecast(key):
    def body(x, key):
        x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        return x, ppl.sample(key, dist.Normal(x, 1.0), name="y")

    x, _ = lax.scan(body, 0.0, random.split(key, 5))
    ppl.sample(key, dist.Normal(x, 1.0), name="next")


def two_scans(key):
    for scope in ("a", "b"):
        ppl.nest(second_order, scope=scope)(key)


def in_cond(key):
    lax.cond(True, second_order, second_order, key)


def in_shards(key):
    """A series on each device of a mesh."""
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("i")

    def run(keys):
        second_order(keys[0])
        return keys

    sharded = jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    sharded(random.split(key, 1))


def with_param(key):
    ppl.param(0.0, name="p")
    second_order(key)


DATA = {"y": jnp.arange(5.0)}
REFUSED = {
    "no_scan": (no_scan, {"y": 1.0}, "no lax.scan with sites"),
    "behind": (data_behind, {"y": jnp.zeros(3)}, "into the body of the scan"),
    "forecast": (forecast, DATA, "'next' depends on the scan and stands behind"),
    "two": (two_scans, {"a": DATA, "b": DATA}, "2 scans have observed sites, 'a.y', 'b.y'"),
    "shards": (in_shards, {"y": jnp.zeros((1, 5))}, "'y' stand inside of 'shard_map'.* outside"),
    "cond": (in_cond, DATA, "'y' stand inside of 'cond'"),
    "param": (with_param, DATA, "parameter 'p'"),
    "impute": (walk, {"y": ppl.impute(Y)}, "'y' is observed in part, by ppl.impute"),
    "unobserved": (second_order, {}, "no site is observed, .* a site in the body of the scan"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_are_refused_in_words(name):
    """A model without one scan with data in its body is refused, with the remedy."""
    model, data, words = REFUSED[name]
    with pytest.raises((ValueError, NotImplementedError), match=words):
        ModelStateSpace.of(ppl.condition(model, data))


def test_other_refusals():
    """Sums, scaled latent sites, and names that are none of the start."""
    with pytest.raises(NotImplementedError, match=r"before ppl\.marginalize"):
        ModelStateSpace.of(ppl.marginalize(CASES["second_order"][0], {"x": ppl.Gaussian()}))
    with pytest.raises(NotImplementedError, match="latent and scaled"):
        ModelStateSpace.of(ppl.scale(WALK, 2.0))
    space = ModelStateSpace.of(WALK)
    with pytest.raises(ValueError, match="no latent site 'x' before its scan"):
        space.fix({"x": jnp.zeros(5)})
    with pytest.raises(ValueError, match="expected values of the sites 'x'"):
        space.score(space.start(KEY)[0], {}, 0)


def test_data_behind_the_scan_weigh_the_last_carry():
    """The weight at the end is the density of data that depend on the carry and on parameters."""
    space = ModelStateSpace.of(WALK)
    state = space.start(KEY)[0]
    expected = dist.Normal(state.carry[0], state.held[0]).log_prob(0.4)
    assert jnp.allclose(space.finish(state), expected)
