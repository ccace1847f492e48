"""Networks in fits: dropout, state of layers, starts of several fits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key, split

import distributions as dist
import ppl
from inference import (
    MeanField,
    PointMass,
    SVIResult,
    cross_validate,
    importance,
    loo,
    mcmc,
    power_scale,
    svi,
    svi_step,
)

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = np.sin(X.sum(1))


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


# A library: a network with dropout, the inputs of its init, and its call with a key, or without
# one outside of training.


def equinox():
    eqx = pytest.importorskip("equinox", reason="equinox is not installed")
    first, last = (eqx.nn.Linear(n, m, key=key(n)) for n, m in ((3, 8), (8, 1)))
    net = eqx.nn.Sequential([first, eqx.nn.Dropout(0.5), last])

    def call(net, x, noise):
        if noise is None:
            return jax.vmap(eqx.nn.inference_mode(net))(x)
        return jax.vmap(lambda x, key: net(x, key=key))(x, split(noise, len(x)))

    return net, (), call


def nnx():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    first, last = (nnx.Linear(n, m, rngs=nnx.Rngs(n)) for n, m in ((3, 8), (8, 1)))
    net = nnx.Sequential(first, nnx.Dropout(0.5), last)

    def call(net, x, noise):
        if noise is None:
            net.eval()
            return net(x)
        return net(x, rngs=nnx.Rngs(dropout=noise))

    return net, (), call


def linen():
    nn = pytest.importorskip("flax.linen", reason="flax is not installed")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, is_training):
            x = nn.Dropout(0.5, deterministic=not is_training)(nn.Dense(8)(x))
            return nn.Dense(1)(x)

    def call(net, x, noise):
        return net(x, noise is not None, rngs={} if noise is None else {"dropout": noise})

    return Net(), (X, False), call


@pytest.mark.parametrize("library", [equinox, nnx, linen])
def test_dropout_is_on_in_steps_and_off_in_predictions(library):
    """Its key is an argument of a step: ELBOs are those by hand with the same key."""
    net, inputs, call = library()

    def prior(key, x, noise=None):
        f = ppl.module(key, net, name="f", inputs=inputs)
        shift = ppl.sample(key, dist.Normal(0.0, 1.0), name="shift")
        mean = ppl.deterministic(call(f, x, noise)[:, 0] + shift, name="mean")
        ppl.sample(key, dist.Normal(mean, 1.0), name="y")

    def posterior(key, x, y, noise=None):
        ppl.condition(prior, {"y": y})(key, x, noise)

    init, update = svi_step(posterior, guide=PointMass(), init={"shift": 0.3}, num_particles=3)
    state = init(key(0), X, Y, key(5))
    for noise in (key(5), key(6), None):
        _, info = update(state, X, Y, noise)
        start = ppl.module(key(0), net, name="f", inputs=inputs)
        mean = call(start, X, noise)[:, 0] + 0.3
        normal = jax.scipy.stats.norm.logpdf
        np.testing.assert_allclose(info.elbo, normal(0.3) + normal(Y, mean).sum(), rtol=1e-5)
    result = svi(
        key(1), posterior, X, Y, None, batch=lambda key, x, y, _: (x, y, key), num_steps=20,
        num_draws=4,
    )  # fmt: skip
    assert len(set(result.elbos.tolist())) == 20
    fitted = ppl.with_params(prior, result.model_parameters)
    one, other = (ppl.predict(fitted, {"shift": jnp.zeros(2)})(key(i), X) for i in (0, 1))
    assert_same(one["mean"], other["mean"])
    assert not np.array_equal(one["y"], other["y"])


def regression(key, x, y):
    spread = ppl.param(1.0, name="spread", support=dist.constraints.positive)
    slope = ppl.sample(key, dist.Normal(jnp.zeros(3), spread), name="slope")
    y_of = lambda key: ppl.sample(key, dist.Normal(x @ slope, 1.0), name="y")  # noqa: E731
    ppl.condition(y_of, {"y": y})(key)


def test_starts_and_steps_of_several_fits_at_once():
    """Starts are those one by one, bit for bit; steps up to rounding. The best fit goes on."""
    init, update = svi_step(regression, guide=MeanField())
    keys = split(key(3), 4)
    states = jax.vmap(init, in_axes=(0, None, None))(keys, X, Y)
    each = [init(key, X, Y) for key in keys]
    assert_same(states, jax.tree.map(lambda *x: jnp.stack(x), *each))
    step = jax.jit(jax.vmap(update, in_axes=(0, None, None)))
    states, info = step(states, X, Y)
    each, infos = zip(*(update(state, X, Y) for state in each), strict=True)
    np.testing.assert_allclose(info.elbo, [x.elbo for x in infos], rtol=1e-5)
    close = lambda a, *b: np.testing.assert_allclose(a, jnp.stack(b), 1e-4, 1e-5)  # noqa: E731
    jax.tree.map(close, states.parameters, *(state.parameters for state in each))
    best = jax.tree.map(lambda x: x[jnp.argmax(info.elbo)], states)
    result = svi(key(0), regression, X, Y, guide=MeanField(), state=best, num_steps=0, num_draws=5)
    assert_same(result.state.parameters, jax.device_get(best.parameters))


def test_starts_at_once_look_for_a_finite_elbo():
    """About one start of six is finite, so that the first finite ones differ in their attempts."""

    def narrow(key, x):
        slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
        ppl.factor(jnp.where(slope > 1.3, x, jnp.nan), name="f")

    init, _ = svi_step(narrow, guide=PointMass())
    keys = split(key(0), 5)
    states = jax.vmap(init, in_axes=(0, None))(keys, 1.0)
    assert_same(states, jax.tree.map(lambda *x: jnp.stack(x), *(init(k, 1.0) for k in keys)))
    assert (np.asarray(states.parameters) > 1.3).all()


# A library: a function of a key, rows and whether to train, which normalizes the rows by batch
# normalization with parameters and state.


def normalize_equinox():
    eqx = pytest.importorskip("equinox", reason="equinox is not installed")
    made = lambda: eqx.nn.BatchNorm(3, "rows", mode="batch")  # noqa: E731
    net, state = eqx.nn.make_with_state(made)()

    def normalize(key, x, is_training):
        layer = eqx.nn.inference_mode(ppl.module(key, net, name="f"), not is_training)
        old = ppl.state(state, name="stats")
        mapped = jax.vmap(layer, axis_name="rows", in_axes=(0, None), out_axes=(0, None))
        out, new = mapped(x, old)
        ppl.update_state(new, name="stats")
        return out

    return normalize


def normalize_nnx():
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    net = nnx.BatchNorm(3, rngs=nnx.Rngs(0))

    def normalize(key, x, is_training):
        layer = ppl.module(key, net, name="f")
        nnx.update(layer, ppl.state(nnx.state(layer, nnx.BatchStat), name="stats"))
        out = layer(x, use_running_average=not is_training)
        ppl.update_state(nnx.state(layer, nnx.BatchStat), name="stats")
        return out

    return normalize


def normalize_linen():
    nn = pytest.importorskip("flax.linen", reason="flax is not installed")
    net = nn.BatchNorm()
    made = net.init(key(0), X, use_running_average=True)

    def normalize(key, x, is_training):
        variables = {
            "params": ppl.module(key, made["params"], name="f"),
            "batch_stats": ppl.state(made["batch_stats"], name="stats"),
        }
        mutable = ["batch_stats"]
        out, new = net.apply(variables, x, use_running_average=not is_training, mutable=mutable)
        ppl.update_state(new["batch_stats"], name="stats")
        return out

    return normalize


def normalize_pair():
    """Functions init and apply of the form of `haiku.transform_with_state`."""

    def init(key, x):
        return {"scale": jnp.ones(3), "bias": jnp.zeros(3)}, {"m": jnp.zeros(3), "v": jnp.ones(3)}

    def apply(params, state, rng, x, is_training):
        m, v = (x.mean(0), x.var(0)) if is_training else (state["m"], state["v"])
        new = {"m": 0.99 * state["m"] + 0.01 * m, "v": 0.99 * state["v"] + 0.01 * v}
        one = lambda x: (x - m) / jnp.sqrt(v + 1e-5) * params["scale"] + params["bias"]  # noqa: E731
        return jax.vmap(one)(x), new if is_training else state

    params, state = init(key(0), X)

    def normalize(key, x, is_training):
        layer = ppl.module(key, params, name="f")
        out, new = apply(layer, ppl.state(state, name="stats"), None, x, is_training)
        ppl.update_state(new, name="stats")
        return out

    return normalize


LAYERS = [normalize_equinox, normalize_nnx, normalize_linen, normalize_pair]
BATCHES = [(X[i : i + 4] + i, Y[i : i + 4], True) for i in (0, 4, 8)]


def normalized(normalize):
    def prior(key, x, is_training=False):
        slope = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="slope")
        mean = ppl.deterministic(normalize(key, x, is_training) @ slope, name="mean")
        ppl.sample(key, dist.Normal(mean, 1.0), name="y")

    def posterior(key, x, y, is_training=False):
        ppl.condition(prior, {"y": y})(key, x, is_training)

    return prior, posterior


def running(num_steps):
    """Running means and variances after some steps, by hand."""
    mean, var = np.zeros(3), np.ones(3)
    for step in range(num_steps):
        x = BATCHES[step % 3][0].astype(np.float64)
        mean = 0.99 * mean + 0.01 * x.mean(0)
        var = 0.99 * var + 0.01 * x.var(0)
    return mean, var


def in_order(state):
    """The mean and the variance of the state of a layer."""
    mean, var = (np.asarray(x) for x in state["stats"].values() if np.shape(x) == (3,))
    return mean, var


@pytest.mark.parametrize("library", LAYERS)
def test_running_statistics_are_those_of_a_loop_by_hand(library, tmp_path):
    """In svi, in steps, with several particles; fixed in predictions and in a saved fit."""
    prior, posterior = normalized(library())
    settings = {"batches": BATCHES, "num_steps": 7, "num_draws": 4}
    result = svi(key(0), posterior, X, Y, **settings)
    assert_close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6)  # noqa: E731
    mean, var = running(7)
    assert_close(in_order(result.model_state), (mean, var))
    several = svi(key(0), posterior, X, Y, num_particles=3, **settings)
    assert_close(in_order(several.model_state), (mean, var))
    init, update = svi_step(posterior)
    state = init(key(0), *BATCHES[0])
    for step in range(7):
        state, _ = update(state, *BATCHES[step % 3])
    assert_same(jax.tree.leaves(state), jax.tree.leaves(result.state))
    fitted = ppl.with_params(prior, result.model_parameters, result.model_state)
    drawn = ppl.predict(fitted, result.draws)(key(1), X)["mean"]
    layer = result.model_parameters["f"]
    share = 1 - 0.99**7 if library is normalize_equinox else 1.0  # Equinox starts at 0
    out = (X - mean / share) / np.sqrt(var / share + 1e-5)
    out = out * layer.get("scale", layer.get("weight")) + layer["bias"]
    np.testing.assert_allclose(drawn, result.draws["slope"] @ out.T, rtol=1e-3, atol=1e-4)
    result.save(tmp_path / "fit")
    loaded = SVIResult.load(tmp_path / "fit")
    again = ppl.with_params(prior, loaded.model_parameters, loaded.model_state)
    assert_same(ppl.predict(again, loaded.draws)(key(1), X)["mean"], drawn)
    more = svi(key(0), posterior, X, Y, **settings | {"state": loaded.state, "num_steps": 0})
    assert_same(more.model_state, result.model_state)


def counting(key, x, y):
    """Counts of steps and sums of data are the state of the model; the classes are summed out."""
    count = ppl.state(jnp.int32(0), name="count")
    shift = ppl.state(jnp.zeros(()), name="shift")
    ppl.update_state(count + 1, name="count")
    ppl.update_state(0.5 * shift + jnp.sum(x), name="shift")
    loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
    k = ppl.sample(key, dist.Bernoulli(probs=0.25), name="k")
    mean = jnp.where(k == 1, loc, -loc) + shift + ppl.param(0.5, name="offset")
    ppl.condition(lambda key: ppl.sample(key, dist.Normal(mean, 1.0), name="y"), {"y": y})(key)


def counting_guide(key, x, y):
    seen = ppl.state({"max": jnp.float32(-9.0)}, name="seen")
    ppl.update_state({"max": jnp.maximum(seen["max"], x.max())}, name="seen")
    loc = ppl.param(0.0, name="loc") + seen["max"]
    ppl.sample(key, dist.Normal(loc, 1.0), name="loc")


SUMMED = ppl.marginalize(counting, ["k"])
COUNTED = [(jnp.float32([i, i + 1]), jnp.float32(0.1 * i)) for i in range(3)]
ALL = jnp.ones(2), jnp.float32(0.3)


def fit_counting(num_steps=5, **settings):
    settings = {"guide": counting_guide, "batches": COUNTED, "num_draws": 5} | settings
    return svi(key(0), SUMMED, *ALL, num_steps=num_steps, **settings)


def test_state_of_a_summed_model_and_of_its_guide(tmp_path):
    result = fit_counting()
    shift = 0.0
    for step in range(5):
        shift = 0.5 * shift + float(COUNTED[step % 3][0].sum())
    assert_same(result.model_state, {"count": np.int32(5), "shift": np.float32(shift)})
    assert_same(result.guide_state, {"seen": {"max": np.float32(3.0)}})
    # The density of the fitted model.
    fitted = ppl.with_params(SUMMED, result.model_parameters, result.model_state)
    normal = jax.scipy.stats.norm.logpdf
    loc = 0.7
    means = np.array([loc, -loc]) + shift + result.model_parameters["offset"]
    each = np.log([0.25, 0.75]) + np.asarray(normal(0.3, means))
    expected = normal(loc) + np.logaddexp(*each)
    np.testing.assert_allclose(ppl.log_density(fitted)({"loc": loc}, *ALL), expected, rtol=1e-5)
    # The fitted guide, also of a file.
    result.save(tmp_path / "fit")
    loaded = SVIResult.load(tmp_path / "fit", guide=counting_guide)
    spread = result.guide_parameters["loc"] + 3.0
    for found in (result, loaded):
        site = ppl.trace(found.guide_function())(key(1), *ALL).sites["loc"]
        np.testing.assert_allclose(site.distribution.loc, spread, rtol=1e-6)
        weighted = importance(key(2), fitted, *ALL, guide=found, num_draws=4)
        assert np.isfinite(weighted.log_weights).all()


def test_state_goes_on_from_checkpoints_and_many_starts(tmp_path):
    whole = fit_counting(8)
    fit_counting(4, checkpoint=tmp_path)
    assert_same(fit_counting(8, checkpoint=tmp_path).state, whole.state)
    init, update = svi_step(SUMMED, guide=counting_guide)
    states = jax.vmap(init, in_axes=(0, None, None))(split(key(0), 2), *COUNTED[0])
    step = jax.jit(jax.vmap(update, in_axes=(0, None, None)))
    for i in range(8):
        states, _ = step(states, *COUNTED[i % 3])
    np.testing.assert_array_equal(states.carried.model["count"], [8, 8])
    one = jax.tree.map(lambda x: x[0], states.carried)
    jax.tree.map(np.testing.assert_array_equal, one, whole.state.carried)


def shaped(new, name="m"):
    def model(key):
        m = ppl.state(jnp.zeros(3), name="m")
        ppl.update_state(new(m), name=name)
        ppl.sample(key, dist.Normal(m.sum(), 1.0), name="z")

    return model


REFUSED = {
    "shape": (shaped(lambda m: m[:2]), r"'m' float32\[2\], expected float32\[3\]"),
    "dtype": (shaped(lambda m: jnp.zeros(3, int)), r"'m' int32\[3\], expected float32\[3\]"),
    "name": (shaped(lambda m: m, "n"), "for 'n', which no ppl.state has made; there are 'm'"),
    "axes": (shaped(lambda m: m[None]), r"'m' float32\[1,3\], expected float32\[3\]"),
    "mapped": (
        shaped(lambda m: jax.vmap(lambda x: jnp.ones((2, 3)))(m)),
        r"'m' float32\[3,2,3\], expected float32\[3\]",
    ),
}


@pytest.mark.parametrize("num_particles", [1, 3])
@pytest.mark.parametrize("name", REFUSED)
def test_updates_that_do_not_fit_are_refused(name, num_particles):
    model, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        svi(key(0), model, num_steps=2, num_particles=num_particles)


def test_updates_under_a_vmap_of_the_model_become_their_mean():
    def mapped(key, width):
        m = ppl.state(jnp.zeros(3), name="m")
        new = jnp.broadcast_to(m, (*width, 3))
        jax.vmap(lambda x: ppl.update_state(new + x, name="m"))(jnp.arange(4.0))
        ppl.sample(key, dist.Normal(m.sum(), 1.0), name="z")

    result = svi(key(0), mapped, (), num_steps=2, num_particles=2, num_draws=2)
    np.testing.assert_array_equal(result.model_state["m"], [3.0, 3.0, 3.0])  # twice 1.5
    with pytest.raises(ValueError, match=r"'m' float32\[4,3\], expected float32\[3\]"):
        svi(key(0), mapped, (4,), num_steps=2, num_particles=2)


def test_state_that_a_fit_lacks_is_named():
    model = shaped(lambda m: m)
    with pytest.raises(ValueError, match=r"has the state 'm', made by ppl\.state.*with_params"):
        mcmc(key(0), model)
    expected = r"has the state 'm', expected float32\[3\], got nothing; the given state has 'n'"
    with pytest.raises(ValueError, match=expected):
        ppl.with_params(model, None, {"n": jnp.zeros(3)})(key(0))
    with pytest.raises(ValueError, match=r"expected float32\[3\], got shape \(2,\)"):
        ppl.with_params(model, None, {"m": jnp.zeros(2)})(key(0))

    def guide(key):
        loc = ppl.param(0.0, name="loc") + ppl.state(jnp.zeros(()), name="m")
        ppl.sample(key, dist.Normal(loc, 1.0), name="z")

    with pytest.raises(ValueError, match="both have the state 'm'"):
        svi(key(0), model, guide=guide)
    with pytest.raises(TypeError, match="state 'm': expected a pytree of arrays"):
        ppl.state({"a": "b"}, name="m")
    done = mcmc(key(0), ppl.with_params(model, None, {"m": jnp.ones(3)}), num_warmup=5, num_draws=5)
    assert done.draws["z"].shape[1] == 5


def test_the_state_of_another_model_is_named(tmp_path):
    """Also of a saved fit, of which all other parts are those of the model."""
    svi(key(0), shaped(lambda m: m), num_steps=2, num_draws=2).save(tmp_path / "fit")
    state = SVIResult.load(tmp_path / "fit").state

    def two(key):
        ppl.state(jnp.zeros(()), name="n")
        shaped(lambda m: m)(key)

    def none(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="z")

    for model, wanted in {two: r"model.m .*, model.n float32\[\]", none: "nothing"}.items():
        expected = rf"ppl.state has model.m float32\[3\], where {wanted} is expected"
        with pytest.raises(ValueError, match=expected):
            svi(key(0), model, state=state, num_steps=1)


def parts_of(*given):
    def model(key):
        stats = ppl.state({"m": jnp.zeros(()), "v": jnp.zeros(())}, name="stats")
        ppl.update_state({name: stats[name] + 1 for name in given}, name="stats")
        ppl.sample(key, dist.Normal(stats["m"], 1.0), name="z")

    return model


def test_updates_of_a_part_of_a_state_are_refused():
    for model, name in ((parts_of("m"), "stats"), (ppl.nest(parts_of("m"), scope="s"), "s.stats")):
        with pytest.raises(ValueError, match=f"the state '{name}', without '{name}.v'"):
            svi(key(0), model, num_steps=2, num_draws=2)
    result = svi(key(0), parts_of("m", "v"), num_steps=2, num_draws=2)
    assert_same(result.model_state, {"stats": {"m": np.float32(2), "v": np.float32(2)}})


def scoped(state, parameter, part=None):
    def function(key):
        x = ppl.state(jnp.zeros(()) if part is None else {part: jnp.zeros(())}, name=state)
        ppl.update_state(jax.tree.map(lambda x: x + 1, x), name=state)
        loc = ppl.param(0.0, name=parameter) + sum(jax.tree.leaves(x))
        ppl.sample(key, dist.Normal(loc, 1.0), name="z")

    return ppl.nest(function, scope="rows")


def test_one_scope_holds_states_of_model_and_guide():
    model = scoped("a", "p")
    result = svi(key(0), model, guide=scoped("b", "q"), num_steps=2, num_draws=2)
    assert_same(result.model_state, {"rows": {"a": np.float32(2)}})
    assert_same(result.guide_state, {"rows": {"b": np.float32(2)}})
    assert [*result.model_parameters["rows"]] == ["p"]
    assert [*result.guide_parameters["rows"]] == ["q"]
    refused = {"state 'rows.a'": (model, scoped("a", "q"))}
    refused["parameter 'rows.p'"] = (model, scoped("b", "p"))
    refused["state 'rows.c'"] = (scoped("c", "p", "m"), scoped("c", "q", "v"))
    for what, (of_model, guide) in refused.items():
        with pytest.raises(ValueError, match=f"both have the {what}"):
            svi(key(0), of_model, guide=guide, num_steps=2)


def in_scan():
    step = lambda x, _: (x + ppl.state(jnp.zeros(()), name="s"), None)  # noqa: E731
    return jax.lax.scan(step, 0.0, None, length=3)[0]


def in_while():
    step = lambda x: x + 1.0 + ppl.state(jnp.zeros(()), name="s")  # noqa: E731
    return jax.lax.while_loop(lambda x: x < 3.0, step, 0.0)


def in_cond():
    return jax.lax.cond(X[0, 0] < 9.0, lambda: ppl.state(jnp.zeros(()), name="s"), lambda: 0.0)


def renewed_in_cond():
    old = ppl.state(jnp.zeros(()), name="s")
    jax.lax.cond(old < 9.0, lambda: ppl.update_state(old + 1.0, name="s"), lambda: None)
    return old


PLACES = {
    in_scan: "state is made outside of loops, and this one in every iteration of a `scan`",
    in_while: "state is made outside of loops, and this one in a `while_loop`",
    in_cond: "state is made outside of conds, and this one in some branches .* before the cond",
    renewed_in_cond: "new state is given in some branches .* Give it behind the cond",
}


@pytest.mark.parametrize("place", PLACES)
def test_state_is_made_outside_of_loops_and_conds(place):
    def model(key):
        ppl.sample(key, dist.Normal(place(), 1.0), name="z")

    for use in (svi, ppl.with_params(model, None, {"s": 0.0})):
        arguments = (key(0), model) if use is svi else (key(0),)
        with pytest.raises(ValueError, match=f"'s': {PLACES[place]}"):
            use(*arguments)


def test_a_number_of_python_is_a_state():
    def model(key):
        count = ppl.state(0, name="count")
        ppl.update_state(count + 1, name="count")
        ppl.sample(key, dist.Normal(count * 1.0, 1.0), name="z")

    result = svi(key(0), model, num_steps=3, num_draws=2)
    assert_same(result.model_state, {"count": np.int32(3)})


def test_equal_paths_in_a_state_are_refused():
    tree = {"a.b": jnp.zeros(()), "a": {"b": jnp.ones(())}}
    with pytest.raises(ValueError, match=r"state 's': two parts have the path 'a\.b'"):
        ppl.state(tree, name="s")


def moving(key, x):
    """The mean of data is latent, and a parameter and a state move it."""
    shift = ppl.state(jnp.zeros(()), name="shift")
    ppl.update_state(0.5 * shift + 2.0, name="shift")
    loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
    mean = loc + shift + ppl.param(1.0, name="offset") + x
    ppl.sample(key, dist.Normal(mean, 1e-3), name="y")


MOVED = ppl.condition(moving, {"y": jnp.full(3, 8.0)})


def test_predictions_of_a_fit_have_its_parameters_and_state():
    x = jnp.arange(3.0)
    result = svi(key(0), MOVED, x, num_steps=3, num_draws=4)
    shift = 2.0 + 1.0 + 0.5
    assert_same(result.model_state, {"shift": np.float32(shift)})
    offset = result.model_parameters["offset"]
    expected = result.draws["loc"][..., None] + shift + offset + np.arange(3.0)
    parts = [ppl.with_params(moving, result.model_parameters, result.model_state)]
    parts.append(ppl.with_params(moving, None, result.model_state))
    for model in (moving, *parts):
        predict = ppl.predict(model, result)
        np.testing.assert_allclose(predict(key(1), x)["y"], expected, atol=0.01)
        (streamed,) = predict.stream(key(1), x)
        np.testing.assert_allclose(streamed["y"], expected[0], atol=0.01)


def stateful(key, x):
    shift = ppl.state(jnp.zeros(()), name="shift")
    loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
    ppl.sample(key, dist.Normal(loc + shift + x, 1e-3), name="y")


GROUPS = (
    *("log_likelihood", "log_prior", "observed_data", "constant_data"),
    *("posterior_predictive", "prior", "prior_predictive", "posterior"),
)
# What runs the model of a fit: functions of the result, the model, its arguments and a folder.
DOORS = {
    **{
        group: lambda r, m, x, _, group=group: r.to_arviz(m, x, key=key(1), groups=[group])
        for group in GROUPS
    },
    "report": lambda r, m, x, path: r.report(path / "r.html", m, x, key=key(1)),
    "plot_predictive": lambda r, m, x, _: r.plot_predictive(m, x, key=key(1)),
    "plot_loo_pit": lambda r, m, x, _: r.plot_loo_pit(m, x, key=key(1)),
    "loo": lambda r, m, x, _: loo(r, m, x),
    "power_scale": lambda r, m, x, _: power_scale(r, m, x),
    "cross_validate": lambda r, m, x, _: cross_validate(key(1), m, x, folds=3),
    "predict": lambda r, m, x, _: ppl.predict(m, r.draws)(key(1), x),
    "importance": lambda r, m, x, _: importance(key(1), m, x, guide=r, num_draws=4),
    "mcmc": lambda r, m, x, _: mcmc(key(1), m, x, init=r),
}


@pytest.fixture(scope="module")
def moved():
    return svi(key(0), MOVED, jnp.arange(3.0), num_steps=3, num_draws=4)


@pytest.mark.parametrize("door", DOORS)
def test_what_runs_a_model_after_a_fit_has_its_numbers(door, moved, tmp_path):
    """A model with its own initial numbers is refused: they are not those of the fit."""
    posterior = ppl.condition(stateful, {"y": jnp.full(3, 8.0)})
    for name, model in {"parameter 'offset'": MOVED, "state 'shift'": posterior}.items():
        with pytest.raises(ValueError, match=f"has the {name}, made by .*with_params"):
            DOORS[door](moved, model, jnp.arange(3.0), tmp_path)


def test_predictive_groups_of_a_fitted_model_have_its_numbers(moved):
    fitted = ppl.with_params(MOVED, moved.model_parameters, moved.model_state)
    data = moved.to_arviz(fitted, jnp.arange(3.0), key=key(1))
    mean = 3.5 + moved.model_parameters["offset"] + np.arange(3.0)
    expected = moved.draws["loc"][..., None] + mean
    np.testing.assert_allclose(data["posterior_predictive"]["y"], expected, atol=0.01)
    shifts = np.asarray(data["prior_predictive"]["y"]) - np.asarray(data["prior"]["loc"])[..., None]
    np.testing.assert_allclose(shifts, np.broadcast_to(mean, shifts.shape), atol=0.01)


def test_recovered_draws_need_the_numbers_of_the_fit():
    result = fit_counting()
    with pytest.raises(ValueError, match=r"recover: .*the parameter 'offset'.*with_params"):
        ppl.recover(SUMMED, result.draws)(key(1), *ALL)
    with pytest.raises(ValueError, match=r"the parameter 'offset', made by .*with_params"):
        result.to_arviz(SUMMED, *ALL, key=key(1), groups=["posterior"])
    fitted = ppl.with_params(SUMMED, result.model_parameters, result.model_state)
    assert ppl.recover(fitted, result.draws)(key(1), *ALL)["k"].shape == (1, 5)


def test_a_guide_draws_codes_of_rows_with_summed_classes():
    """The result's weights and deterministic values are those by hand."""

    def row(key, y):
        k = ppl.sample(key, dist.Bernoulli(probs=0.25), name="k")
        code = ppl.sample(key, dist.Normal(jnp.where(k == 1, 2.0, 0.0), 1.0), name="code")
        ppl.deterministic(2.0 * code, name="twice")
        ppl.condition(lambda key: ppl.sample(key, dist.Normal(code, 1.0), name="y"), {"y": y})(key)

    def model(key, y):
        rows = jax.vmap(ppl.marginalize(row, ["k"]))
        ppl.nest(rows, scope="rows")(split(key, len(y)), y)

    def guide(key, y):
        slope = ppl.param(0.5, name="slope")
        one = lambda key, y: ppl.sample(key, dist.Normal(slope * y, 0.5), name="code")  # noqa: E731
        ppl.nest(jax.vmap(one), scope="rows")(split(key, len(y)), y)

    result = svi(key(0), model, Y, guide=guide, num_steps=3, num_draws=4)
    code = result.draws["rows"]["code"]
    assert_same(result.draws["rows"]["twice"], 2.0 * code)
    normal = jax.scipy.stats.norm.logpdf
    prior = np.logaddexp(np.log(0.75) + normal(code), np.log(0.25) + normal(code, 2.0))
    expected = (prior + normal(np.broadcast_to(Y, code.shape), code)).sum(-1)
    np.testing.assert_allclose(result.log_density, expected, rtol=1e-5)
