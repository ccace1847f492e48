"""Networks in fits: dropout, state of layers, starts of several fits at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key, split

import distributions as dist
import ppl
from inference import MeanField, PointMass, svi, svi_step

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
