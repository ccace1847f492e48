"""module: networks of several libraries in models, with priors or with parameters."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.random import key

import distributions as dist
import ppl
from ppl.common.distribution_protocol import log_prob, repeat, shape_of

from .checks import assert_close
from .programs import real

X = real(5, 2)
EXACT = {"param_dtype": np.float64, "dtype": np.float64}  # Flax has float32, under x64 as well

# A library: a network, the inputs of its init, and as functions of it its plain call and its
# layers as (kernel, bias).


def equinox() -> Any:
    eqx = pytest.importorskip("equinox", reason="equinox is not installed")
    net = eqx.nn.MLP(2, 1, 3, 1, activation=jnp.tanh, key=key(0))
    call = lambda net, x: jax.vmap(net)(x)  # noqa: E731
    names = [(f"layers.{i}.weight", f"layers.{i}.bias") for i in range(2)]
    return net, (), call, names, lambda kernel: kernel.T


def nnx() -> Any:
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    dense = lambda n, m: nnx.Linear(n, m, rngs=nnx.Rngs(0), **EXACT)  # noqa: E731
    net = nnx.Sequential(dense(2, 3), jnp.tanh, dense(3, 1))
    names = [(f"layers.{i}.kernel", f"layers.{i}.bias") for i in (0, 2)]
    return net, (), lambda net, x: net(x), names, lambda kernel: kernel


def linen() -> Any:
    flax = pytest.importorskip("flax.linen", reason="flax is not installed")
    net = flax.Sequential([flax.Dense(3, **EXACT), jnp.tanh, flax.Dense(1, **EXACT)])
    names = [(f"layers_{i}.kernel", f"layers_{i}.bias") for i in (0, 2)]
    return net, (jnp.asarray(X),), lambda net, x: net(x), names, lambda kernel: kernel


def pair() -> Any:
    def init(key: Any, x: Any) -> Any:
        weights = 0.1 * jax.random.normal(key, (2, 3))
        layers = {"w": weights, "b": weights[0]}, {"w": weights[0][:, None], "b": weights[0, :1]}
        return dict(zip(("mlp/~/linear_0", "mlp/~/linear_1"), layers, strict=True))

    def apply(params: Any, x: Any) -> Any:
        first, last = params.values()
        return jnp.tanh(x @ first["w"] + first["b"]) @ last["w"] + last["b"]

    names = [(f"mlp/~/linear_{i}.w", f"mlp/~/linear_{i}.b") for i in range(2)]
    return (init, apply), (jnp.asarray(X),), lambda net, x: net(x), names, lambda kernel: kernel


LIBRARIES = {"equinox": equinox, "flax-nnx": nnx, "flax-linen": linen, "pair": pair}
every_library = pytest.mark.parametrize("library", LIBRARIES.values(), ids=LIBRARIES)


def regression(library: Any, prior: Any) -> Any:
    net, inputs, call, names, oriented = library()

    def model(key: Any, x: Any) -> Any:
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        of_tau = prior(tau) if callable(prior) else prior
        f = ppl.module(key, net, of_tau, name="f", inputs=inputs)
        mean = ppl.deterministic(call(f, x)[:, 0], name="mean")
        return ppl.sample(key, dist.Normal(mean, 1.0), name="y")

    return model, names, oriented


def by_hand(values: Any, names: Any, oriented: Any, x: Any) -> Any:
    """The log density of all sites."""
    normal = jax.scipy.stats.norm.logpdf
    f, tau = values["f"], values["tau"]
    (first, first_bias), (last, last_bias) = names
    hidden = jnp.tanh(x @ oriented(f[first]) + f[first_bias])
    mean = (hidden @ oriented(f[last]) + f[last_bias])[:, 0]
    prior = sum(normal(f[name], 0.0, tau).sum() for layer in names for name in layer)
    return jnp.log(2) + normal(tau) + prior + normal(values["y"], mean).sum()


@pytest.mark.slow_rows("flax-linen")
@every_library
def test_a_network_with_a_prior_has_its_density(library, x64):
    """One distribution for all arrays, here with a random scale; gradients, too."""
    model, names, oriented = regression(library, lambda tau: dist.Normal(0.0, tau))
    x = jnp.asarray(X)
    values = ppl.simulate(model)(key(1), x)
    assert set(values["f"]) == {name for layer in names for name in layer}
    del values["mean"]
    both = lambda f: jax.jit(jax.value_and_grad(f))(values)  # noqa: E731
    ours = both(lambda values: ppl.log_density(model)(values, x))
    assert_close(ours, both(lambda values: by_hand(values, names, oriented, x)))


@pytest.mark.slow_rows("equinox", "flax-nnx")
@every_library
def test_parameters_start_at_the_network_and_can_be_planted(library, x64):
    model, names, oriented = regression(library, None)
    x = jnp.asarray(X)
    start = jax.jit(ppl.reap(model, tag="param"))(key(0), x)
    assert set(start["f"]) == {name for layer in names for name in layer}
    net, inputs, call, _, _ = library()
    if inputs:  # its init makes the parameters
        init, apply = net if isinstance(net, tuple) else (net.init, net.apply)
        net, call = init(key(0), x), apply
    assert_close(ppl.simulate(model)(key(1), x)["mean"], call(net, x)[:, 0])
    other = jax.tree.map(lambda x: 0.5 * x + 0.1, start)
    planted = ppl.plant(model, tag="param")
    simulated = ppl.simulate(lambda key, x: planted(other, key, x))(key(1), x)
    expected = by_hand({**simulated, "f": other["f"]}, names, oriented, x)
    flat = ravel_pytree(other)[0]
    without = jax.scipy.stats.norm.logpdf(flat, 0.0, simulated["tau"]).sum()
    values = {name: simulated[name] for name in ("tau", "y")}
    found = ppl.log_density(lambda key, x: planted(other, key, x))(values, x)
    assert_close(found, expected - without)


NET = {"in": {"w": np.zeros((3, 2), np.float32), "b": np.zeros(3, np.float32)}, "out": np.ones(3)}


def drawn(prior: Any, net: Any = NET, **more: Any) -> Any:
    def model(key: Any) -> None:
        ppl.module(key, net, prior, name="f", **more)

    return ppl.trace(model)(key(0)).sites.get("f", {}), ppl.reap(model, tag="param")(key(0))


def test_priors_by_path_and_by_rule():
    wide, narrow, whole = dist.Normal(0.0, 2.0), dist.Normal(0.0, 0.1), dist.Normal(np.ones(3), 1.0)
    sites, params = drawn({"in": wide, "in.b": narrow, "out": None})
    assert set(sites) == {"in.w", "in.b"}
    np.testing.assert_array_equal(params["f"]["out"], np.ones(3))
    np.testing.assert_allclose(sites["in.w"].log_prob, wide.log_prob(sites["in.w"].value))
    np.testing.assert_allclose(sites["in.b"].log_prob, narrow.log_prob(sites["in.b"].value))
    rule = lambda path, array: narrow if array.ndim == 2 else whole if path == "out" else None  # noqa: E731
    sites, params = drawn(rule)
    assert set(sites) == {"in.w", "out"}
    assert set(params["f"]) == {"in.b"}
    np.testing.assert_array_equal(sites["out"].distribution.loc, np.ones(3))


def test_networks_of_one_key_share_no_randomness():
    def model(key):
        return [ppl.module(key, NET, dist.Normal(0.0, 1.0), name=name) for name in "fg"]

    values = ppl.simulate(model)(key(0))
    ppl.log_density(model)(values)  # which checks the keys
    flat = ravel_pytree(values)[0]
    assert len(set(flat.tolist())) == flat.size


def test_arrays_keep_their_dtype(x64):
    half = {"w": np.zeros(3, np.float32), "half": jnp.zeros(2, jnp.bfloat16), "number": 3}
    for prior in (dist.Normal(0.0, 1.0), None):
        made = ppl.module(key(0), half, prior, name="f")
        assert (made["w"].dtype, made["half"].dtype) == (np.float32, jnp.bfloat16)
        assert made["number"] == 3


def test_a_network_is_rebuilt_from_draws():
    rebuild = lambda key: ppl.module(key, NET, dist.Normal(0.0, 1.0), name="f")  # noqa: E731
    draws = jax.jit(jax.vmap(ppl.simulate(rebuild)))(jax.random.split(key(0), 4))
    nets = jax.jit(jax.vmap(lambda draw: ppl.intervene(rebuild, draw)(key(0))))(draws)
    assert jax.tree.structure(nets) == jax.tree.structure(NET)
    np.testing.assert_array_equal(nets["in"]["w"], draws["f"]["in.w"])


def test_trees_of_modules_are_networks():
    """Two modules of Equinox are no pair of functions, and of NNX only variables `Param` count."""
    eqx = pytest.importorskip("equinox", reason="equinox is not installed")
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    linear = eqx.nn.Linear(2, 3, key=key(0))
    sites, _ = drawn(dist.Normal(), (linear, linear))
    assert set(sites) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    tree = {"a": [nnx.BatchNorm(3, rngs=nnx.Rngs(0)), nnx.Dropout(0.5, rngs=nnx.Rngs(0))]}
    sites, _ = drawn(dist.Normal(), tree)
    assert set(sites) == {"a.0.scale", "a.0.bias"}
    made = ppl.module(key(0), tree, dist.Normal(), name="f")["a"]
    assert made[1](made[0](jnp.ones((4, 3)))).shape == (4, 3)


def test_objects_with_init_and_apply_are_pairs():
    class Transformed:
        init = staticmethod(lambda key, x: {"w": jnp.ones((2, 1))})
        apply = staticmethod(lambda params, x: x @ params["w"])

    sites, _ = drawn(dist.Normal(), Transformed(), inputs=(X,))
    f = ppl.module(key(0), Transformed(), dist.Normal(), name="f", inputs=(X,))
    np.testing.assert_allclose(f(X), X.astype(np.float32) @ sites["w"].value, rtol=1e-6)


def with_rank(x: Any) -> Any:
    return jnp.asarray(x, jnp.result_type(float))


REPEATED = {
    "normal": lambda: dist.Normal(0.5, 2.0),
    "vector": lambda: dist.Normal(with_rank([0.0, 1.0, 2.0]), 2.0),
    "multivariate": lambda: dist.MultivariateNormal(
        with_rank([0.0, 1.0, 2.0]), covariance=with_rank(np.diag([1.0, 2.0, 3.0]))
    ),
    "mixture": lambda: dist.MixtureSameFamily(
        dist.Categorical(probs=with_rank([0.3, 0.7])), dist.Normal(with_rank([0.0, 3.0]), 1.0)
    ),
    "tfp": lambda: pytest.importorskip(
        "tensorflow_probability.substrates.jax"
    ).distributions.StudentT(4.0, 0.0, 1.0),
}


@pytest.mark.slow_rows("tfp", "mixture")
@pytest.mark.parametrize("name", REPEATED)
def test_repeated_distributions_are_independent_copies(name, x64):
    d = REPEATED[name]()
    many = repeat(d, (2, 4))
    assert shape_of(many) == (2, 4, *shape_of(d))
    value = jnp.asarray(real(*shape_of(many)))
    each = jax.vmap(jax.vmap(lambda x: log_prob(d, x)))(value)
    assert_close(log_prob(many, value), each)


REFUSED = {
    "no network": (lambda: drawn(None, {"a": 1}), TypeError, "with arrays of floats for param"),
    "a class": (lambda: drawn(None, dict), TypeError, "got the class dict: make one"),
    "no inputs": (
        lambda: drawn(None, (lambda *_: NET, lambda *_: 0)),
        TypeError,
        "give inputs=(x,)",
    ),
    "superfluous inputs": (lambda: drawn(None, inputs=(X,)), TypeError, "inputs are for modules"),
    "no prior": (lambda: drawn(3.0), TypeError, "prior must be a distribution, a dict of"),
    "no distribution": (
        lambda: drawn({"in": 3.0, "out": None}),
        TypeError,
        "the prior of 'in.b' must be a distribution, or None for a param, got 3.0",
    ),
    "another shape": (
        lambda: drawn(dist.Normal(np.zeros(2), 1.0)),
        ValueError,
        "the prior of 'in.b' must have draws of shape (3,), or of its last axes, got shape (2,)",
    ),
    "a tree": (
        lambda: drawn(dist.Joint({"a": dist.Normal(), "b": dist.Normal()})),
        ValueError,
        "got several arrays",
    ),
    "a path left out": (
        lambda: drawn({"in.w": dist.Normal()}),
        ValueError,
        "prior has no distribution for 'in.b', 'out'. Give one, or None",
    ),
    "an unknown path": (
        lambda: drawn({"in": None, "out": None, "on": None}),
        ValueError,
        "prior has 'on', but the arrays of the network are 'in.b', 'in.w', 'out'",
    ),
    "key": (lambda: ppl.module(NET, key(0), name="f"), TypeError, "expected one random key"),
    "name": (lambda: ppl.module(key(0), NET, name=3), TypeError, "name must be a string"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_network_is_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_a_misspelled_path_of_a_prior_is_named():
    with pytest.raises(ValueError, match=r"prior has .b., but the arrays of the network are .a."):
        ppl.module(jax.random.key(0), {"a": jnp.zeros(2)}, {"b": dist.Normal(0.0, 1.0)}, name="n")


def test_two_arrays_of_one_path_are_refused():
    net = {"a.b": jnp.zeros(1), "a": {"b": jnp.ones(1)}}
    with pytest.raises(ValueError, match=r"two parts have the path 'a\.b'"):
        ppl.module(jax.random.key(0), net, name="net")
