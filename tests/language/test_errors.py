"""Every misuse is an error that names the model or the site, what came, and what was expected."""

# ruff: noqa: E501

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import PRNGKey, key, split
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl
from distributions import constraints

from .checks import Calls, Counted

KEY = key(0)
NORMAL = dist.Normal(0.0, 1.0)


def model(key: Any, size: int = 3) -> Any:
    """The model of most rows: mu, and x of `size`."""
    mu = ppl.sample(key, NORMAL, name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(size), 1.0), name="x")


def counts(key: Any) -> Any:
    return ppl.sample(key, dist.Poisson(2.0), name="n")


def scoped(key: Any) -> Any:
    return ppl.nest(model, scope="a")(key)


def summed(key: Any) -> Any:
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(1.0 * z, 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, 1.0), name="y")


def twice(key: Any) -> Any:
    return ppl.sample(key, NORMAL, name="x") + ppl.sample(key, NORMAL, name="x")


def site_and_scope(key: Any) -> Any:
    return ppl.sample(key, NORMAL, name="a") + scoped(key)


def no_key() -> Any:
    return ppl.sample(KEY, NORMAL, name="x")


def in_while(key: Any) -> Any:
    step = lambda x: ppl.sample(key, dist.Normal(x, 1.0), name="x")  # noqa: E731
    return lax.while_loop(lambda x: x < 3.0, step, 0.0)


def peer_names(key: Any) -> Any:
    one = lambda name: lambda: ppl.sample(key, NORMAL, name=name)  # noqa: E731
    return lax.cond(jnp.array(True), one("x"), one("y"))


def other_shapes(key: Any) -> Any:
    one = lambda n: lambda: ppl.sample(key, dist.Normal(jnp.zeros(n), 1.0), name="x").sum()  # noqa: E731
    return lax.cond(jnp.array(True), one(2), one(3))


def one_branch(key: Any) -> Any:
    return lax.cond(jnp.array(True), lambda: ppl.sample(key, NORMAL, name="x"), lambda: 0.0)


def noisy(key: Any) -> Any:
    return ppl.sample(key, dist.Normal(jax.random.normal(key), 1.0), name="x")


def noisy_in_scan(key: Any) -> Any:
    def step(x: Any, key: Any) -> Any:
        return ppl.sample(key, dist.Normal(x + jax.random.normal(key), 1.0), name="x"), None

    return lax.scan(step, 0.0, split(key, 3))[0]


def sown(key: Any) -> Any:
    return ppl.sow(jax.random.normal(key), tag="random", name="x")


def without_bijector(key: Any) -> Any:
    class Bare:
        event_shape = batch_shape = ()
        dtype = jnp.float32
        log_prob = sample = lambda self, x: x

    jax.tree_util.register_pytree_node(Bare, lambda _: ((), None), lambda *_: Bare())
    return ppl.sample(key, Bare(), name="x")


def observed(key: Any) -> Any:
    return ppl.condition(model, {"mu": 1.0})(key)


LOG_DENSITY = ppl.log_density(model)
X = jnp.zeros(3)
GOOD = {"mu": 0.0, "x": X}
TARGET = ppl.unconstrain(model)

VALUES = {
    "missing": (lambda: LOG_DENSITY({"mu": 0.0}), ValueError, "'model'.*missing: 'x'"),
    "missing-all": (lambda: ppl.log_probs(model)({}), ValueError, "'model'.*missing: 'mu', 'x'"),
    "missing-in-scope": (lambda: ppl.log_density(scoped)({"a": {"mu": 0.0}}), ValueError, "missing: 'a.x'"),
    "unknown": (lambda: LOG_DENSITY({**GOOD, "tau": 1.0}), ValueError, "'model' has no site 'tau'.*'mu', 'x'"),
    "unknown-in-scope": (lambda: ppl.log_density(scoped)({"a": {**GOOD, "z": 0.0}}), ValueError, "no site 'a.z'.*'a.mu', 'a.x'"),
    "unknown-scope": (lambda: ppl.log_density(scoped)({"a": GOOD, "b": GOOD}), ValueError, "no site 'b'"),
    "no-scope": (lambda: ppl.log_density(scoped)({"a": 1.0}), TypeError, "'a' is a scope.*dict.*1.0"),
    "shape": (lambda: LOG_DENSITY({"mu": 0.0, "x": jnp.zeros(4)}), ValueError, r"site 'x': expected float32\[3\], got float32\[4\]"),
    "scalar-for-vector": (lambda: LOG_DENSITY({"mu": 0.0, "x": 0.0}), ValueError, r"'x': expected float32\[3\], got float32\[\]"),
    "column": (lambda: LOG_DENSITY({"mu": 0.0, "x": jnp.zeros((3, 1))}), ValueError, r"'x'.*float32\[3\].*float32\[3,1\]"),
    "integers": (lambda: LOG_DENSITY({"mu": 0.0, "x": jnp.zeros(3, int)}), TypeError, r"'x': expected float32\[3\], got int32\[3\].*astype"),
    "floats-for-integers": (lambda: ppl.log_density(counts)({"n": 1.5}), TypeError, r"'n': expected int32\[\], got float32\[\]"),
    "complex": (lambda: LOG_DENSITY({"mu": 1j, "x": X}), TypeError, r"'mu': expected float32\[\], got complex64\[\]"),
    "text": (lambda: LOG_DENSITY({"mu": "one", "x": X}), TypeError, r"'mu': expected float32\[\], got 'one'"),
    "list": (lambda: LOG_DENSITY({"mu": 0.0, "x": [0.0, 0.0, 0.0]}), ValueError, r"site 'x': expected float32\[3\], got list: \[0.0, 0.0, 0.0\]\. Use jnp.asarray"),
    "none": (lambda: LOG_DENSITY({"mu": None, "x": X}), ValueError, r"site 'mu': expected float32\[\], got None\."),
    "no-dict": (lambda: LOG_DENSITY(3.0), TypeError, "expected a dict.*float: 3.0"),
    "observed": (lambda: ppl.log_density(observed)(GOOD), ValueError, "'mu' of model 'observed' is observed"),
}  # fmt: skip

CONDITION = {
    "unknown": (lambda: ppl.condition(model, {"y": 1.0})(KEY), ValueError, "'model' has no site 'y'.*'mu', 'x'"),
    "unknown-to-density": (lambda: ppl.log_density(ppl.condition(model, {"y": 1.0}))(GOOD), ValueError, "'model' has no site 'y'"),
    "observed": (lambda: ppl.condition(ppl.condition(model, {"x": X}), {"x": X})(KEY), ValueError, "'x' of model 'model' is observed already"),
    "shape": (lambda: ppl.condition(model, {"x": 1.0})(KEY), ValueError, r"'x': expected float32\[3\], got float32\[\]"),
    "list-traced": (lambda: ppl.unconstrain(ppl.condition(model, {"x": [0, 1]})), ValueError, r"condition: site 'x': expected float32\[3\], got list: \[int32\[\], int32\[\]\]\. Use jnp.asarray"),
    "list": (lambda: ppl.condition(model, {"x": [0, 1]})(KEY), ValueError, r"condition: site 'x': expected float32\[3\], got list: \[0, 1\]\. Use jnp.asarray"),
    "none": (lambda: ppl.condition(model, {"x": None})(KEY), ValueError, r"condition: site 'x': expected float32\[3\], got None\.(\n|$)"),
    "text": (lambda: ppl.condition(model, {"x": "one"})(KEY), TypeError, r"condition: site 'x': expected float32\[3\], got 'one'\."),
    "partly": (lambda: ppl.condition(model, {"x": X[:2]})(KEY), ValueError, r"'x': expected float32\[3\], got float32\[2\]"),
    "integers": (lambda: ppl.condition(model, {"x": jnp.arange(3)})(KEY), TypeError, r"'x': expected float32\[3\], got int32\[3\].*astype"),
    "no-dict": (lambda: ppl.condition(model, X), TypeError, "condition: expected a dict"),
    "no-model": (lambda: ppl.condition(3.0, {}), TypeError, "model, a function of a random key, got 3.0"),
}  # fmt: skip

KEYS = {
    "integer": (lambda: ppl.sample(0, NORMAL, name="x"), TypeError, "'x': expected one random key.*got 0"),
    "floats": (lambda: ppl.sample(jnp.zeros(2), NORMAL, name="x"), TypeError, r"'x': expected one random key.*float32\[2\]"),
    "batch": (lambda: ppl.sample(split(KEY, 3), NORMAL, name="x"), TypeError, r"'x': expected one random key.*key<fry>\[3\].*vmap"),
    "legacy-batch": (lambda: ppl.sample(split(PRNGKey(0), 3), NORMAL, name="x"), TypeError, r"'x': expected one random key.*uint32\[3, ?2\]"),
    "none": (lambda: ppl.sample(None, NORMAL, name="x"), TypeError, "'x': expected one random key.*None"),
    "simulate": (lambda: ppl.simulate(model)(0), TypeError, "simulate: expected one random key.*got 0"),
    "trace": (lambda: ppl.trace(model)(split(KEY)), TypeError, r"trace: expected one random key.*key<fry>\[2\]"),
    "initial": (lambda: TARGET.initial(3), TypeError, "initial: expected one random key.*got 3"),
}  # fmt: skip

SAMPLE = {
    "number": (lambda: ppl.sample(KEY, 3.0, name="x"), TypeError, "'x': expected a distribution.*float: 3.0"),
    "function": (lambda: ppl.sample(KEY, jnp.sin, name="x"), TypeError, "'x': expected a distribution"),
    "class": (lambda: ppl.sample(KEY, dist.Normal, name="x"), TypeError, "'x': expected a distribution"),
    "integer-name": (lambda: ppl.sample(KEY, NORMAL, name=3), TypeError, "name must be a string, got 3"),
    "no-string": (lambda: ppl.sample(KEY, NORMAL, name=("a", "b")), TypeError, r"name must be a string, got \('a', 'b'\)"),
    "arguments-swapped": (lambda: ppl.sample(NORMAL, KEY, name="x"), TypeError, "'x': expected a random key first, got Normal"),
    "no-key": (lambda: ppl.sample(NORMAL, name="x"), TypeError, "sample 'x': expected a random key first, got Normal. Write ppl.sample"),
    "no-distribution": (lambda: ppl.sample(KEY, name="x"), TypeError, "sample 'x': expected a distribution.*second argument, got None"),
}  # fmt: skip

MODELS = {
    "twice": (lambda: ppl.log_density(twice)({"x": X}), ValueError, "'twice': site 'x' is sampled 2 times.*nest"),
    "twice-simulate": (lambda: ppl.simulate(twice)(KEY), ValueError, "'twice': site 'x' is sampled 2 times"),
    "twice-trace": (lambda: ppl.trace(twice)(KEY), ValueError, "'twice': site 'x' is sampled 2 times"),
    "twice-condition": (lambda: ppl.condition(twice, {"x": 0.0})(KEY), ValueError, "'twice': site 'x' is sampled 2 times"),
    "twice-unconstrain": (lambda: ppl.unconstrain(twice), ValueError, "'twice': site 'x' is sampled 2 times"),
    "site-and-scope": (lambda: ppl.simulate(site_and_scope)(KEY), ValueError, "'a'.*scope"),
    "no-key": (lambda: ppl.log_density(no_key)({}), TypeError, r"'no_key' cannot be called.*f\(key, \*args"),
    "no-key-simulate": (lambda: ppl.simulate(no_key)(KEY), TypeError, "'no_key' cannot be called"),
    "no-key-unconstrain": (lambda: ppl.unconstrain(no_key), TypeError, "'no_key' cannot be called"),
    "too-many-arguments": (lambda: ppl.log_density(model)(GOOD, 3, 4), TypeError, "'model' cannot be called.*too many positional"),
    "missing-argument": (lambda: ppl.log_density(lambda key, x: x)({}), TypeError, "cannot be called.*'x'"),
    "unknown-keyword": (lambda: ppl.simulate(model)(KEY, length=3), TypeError, "'model' cannot be called.*'length'"),
    "key-comes-last": (lambda: ppl.simulate(lambda x, key: ppl.sample(key, dist.Normal(x, 1.0), name="x"))(1.0, KEY), TypeError, "simulate: expected one random key.*got 1.0.*function of a key"),
    "arithmetic-with-the-key": (lambda: ppl.log_density(lambda x: x + 1.0)({}), TypeError, "key<fry>"),
    "no-function": (lambda: ppl.log_density(3.0)({}), TypeError, "3.0"),
    "no-function-unconstrain": (lambda: ppl.unconstrain(3.0), TypeError, "model, a function of a random key, got 3.0"),
    "while": (lambda: ppl.log_density(in_while)({"x": 0.0}), ValueError, "'x'.*while.*scan"),
    "while-simulate": (lambda: ppl.simulate(in_while)(KEY), ValueError, "'x'.*while"),
    "branch-names": (lambda: ppl.log_density(peer_names)({"x": 0.0}), ValueError, "'[xy]'.*branch"),
    "branch-shapes": (lambda: ppl.simulate(other_shapes)(KEY), ValueError, r"'x'.*branches.*float32\[[23]\].*float32\[[23]\]"),
    "branch-without": (lambda: ppl.simulate(one_branch)(KEY), ValueError, "'x'.*branch"),
    "noise": (lambda: ppl.log_density(noisy)({"x": 0.0}), ValueError, "'noisy'.*key elsewhere than in ppl.sample"),
    "noise-in-scan": (lambda: ppl.log_probs(noisy_in_scan)({"x": X}), ValueError, "'noisy_in_scan'.*key elsewhere"),
    "noise-unconstrain": (lambda: ppl.unconstrain(noisy), ValueError, "'noisy'.*key elsewhere"),
    "blocked": (lambda: ppl.log_density(ppl.condition(ppl.block(model, ["mu"]), {"x": X}))({}), ValueError, "'model': .* value of 'mu', latent, which ppl.block hides.*Do not block it"),
    "blocked-after-sum": (lambda: ppl.log_density(ppl.block(ppl.marginalize(summed, ["z"]), ["x"]))({"y": 0.0}), ValueError, "value of 'x', latent, which ppl.block hides"),
    "blocked-before-sum": (lambda: ppl.log_density(ppl.marginalize(ppl.block(summed, ["x"]), ["z"]))({"y": 0.0}), ValueError, "value of 'x', latent, which ppl.block hides"),
    "not-callable": (lambda: ppl.log_density(TARGET)(GOOD), TypeError, "^expected a model, a function of a random key, got Unconstrained.{,60}$"),
    "not-callable-trace": (lambda: ppl.trace(3)(KEY), TypeError, "^expected a model, a function of a random key, got 3.$"),
    "sown": (lambda: ppl.log_density(sown)({"x": 0.0}), ValueError, "'x' has the tag 'random' but no distribution.*ppl.sample"),
    "sown-simulate": (lambda: ppl.simulate(sown)(KEY), ValueError, "'x' has the tag 'random' but no distribution"),
    "sown-condition": (lambda: ppl.condition(sown, {"x": 0.0})(KEY), ValueError, "'x' has the tag 'random' but no distribution"),
}  # fmt: skip

UNCONSTRAIN = {
    "discrete": (lambda: ppl.unconstrain(counts), ValueError, "'n'.*discrete.*condition"),
    "discrete-tfp": (lambda: ppl.unconstrain(lambda key: ppl.sample(key, tfp.distributions.Bernoulli(0.0), name="n")), ValueError, "'n'.*discrete.*condition"),
    "discrete-tfp-floats": (lambda: ppl.unconstrain(lambda key: ppl.sample(key, tfp.distributions.Poisson(2.0), name="n")), ValueError, "'n'.*Poisson.*condition"),
    "no-latent": (lambda: ppl.unconstrain(ppl.condition(model, GOOD)), ValueError, "'model' has no latent site"),
    "no-bijector": (lambda: ppl.unconstrain(without_bijector), (TypeError, ValueError, NotImplementedError), "'x'"),
    "argument": (lambda: ppl.unconstrain(model, set()), TypeError, "argument of type set"),
    "missing": (lambda: TARGET.log_density({"mu": 0.0}), ValueError, "position: 'x' is missing"),
    "unknown": (lambda: TARGET.log_density({**GOOD, "tau": 0.0}), ValueError, "position: 'tau' is no latent site.*'mu', 'x'"),
    "complex": (lambda: TARGET.log_density({"mu": 1j, "x": jnp.zeros(3)}), TypeError, r"'mu': expected float32\[\] \(unconstrained\), got complex64\[\]"),
    "boolean": (lambda: TARGET.constrain({"mu": True, "x": jnp.zeros(3)}), TypeError, r"'mu': expected float32\[\] \(unconstrained\), got bool\[\]"),
    "shape": (lambda: TARGET.log_density({"mu": 0.0, "x": 0.0}), ValueError, r"'x': expected float32\[3\].*got float32\[\]"),
    "structure": (lambda: TARGET.log_density({"mu": [0.0], "x": X}), (TypeError, ValueError), "'mu'.*expected"),
    "text": (lambda: TARGET.log_density({"mu": "one", "x": X}), TypeError, "'mu'.*'one'"),
    "no-dict": (lambda: TARGET.constrain(X), TypeError, "expected a dict"),
    "constrain": (lambda: TARGET.constrain({"mu": 0.0}), ValueError, "'x' is missing"),
    "values": (lambda: TARGET.unconstrain({"mu": 0.0}), ValueError, "missing: 'x'"),
    "values-shape": (lambda: TARGET.unconstrain({"mu": X, "x": X}), ValueError, r"'mu': expected float32\[\], got float32\[3\]"),
}  # fmt: skip

TABLES = {"values": VALUES, "condition": CONDITION, "keys": KEYS, "sample": SAMPLE, "models": MODELS, "unconstrain": UNCONSTRAIN}  # fmt: skip
ROWS = {f"{table}/{what}": row for table, rows in TABLES.items() for what, row in rows.items()}


@pytest.mark.parametrize(("misuse", "exception", "message"), ROWS.values(), ids=ROWS)
def test_error(misuse, exception, message):
    with pytest.raises(exception, match=f"(?s){message}"):
        misuse()


def test_no_bijector_is_needed_without_unconstrain():
    """A user's distribution needs `log_prob` and `sample` alone until then."""
    assert ppl.log_density(without_bijector)({"x": 2.0}) == 2.0


def test_a_distribution_may_be_any_object():
    assert (
        ppl.log_density(lambda key: ppl.sample(key, Counted(0.0, Calls()), name="x"))({"x": 0.0})
        < 0
    )


LARGE = np.ones((20, 30))


@pytest.mark.parametrize(
    "call",
    [
        lambda: ppl.log_density(model)(LARGE),
        lambda: ppl.unconstrain(model).log_density(LARGE),
        lambda: ppl.intervene(model, LARGE),
        lambda: ppl.predict(model, LARGE),
        lambda: ppl.recover(model, LARGE),
        lambda: ppl.marginalize(model, {"x": LARGE}),
        lambda: ppl.block(model, LARGE),
        lambda: ppl.reparam(model, LARGE),
        lambda: ppl.with_params(model, LARGE),
        lambda: ppl.log_density(counts)({"n": LARGE.astype(object)}),
        lambda: ppl.factor(LARGE.astype(str), name="f"),
    ],
)
def test_no_message_has_a_whole_array(call):
    with pytest.raises(TypeError) as error:
        call()
    assert len(str(error.value)) < 400


def test_of_an_array_outside_of_a_support_an_entry_is_shown():
    start = LARGE.copy()
    start[3, 4] = -2.0
    positive = constraints.positive
    with pytest.raises(ValueError, match=r"got float32\[20, 30\] with -2.0 at \[3, 4\]\."):
        jax.make_jaxpr(lambda: ppl.param(start, name="scale", support=positive))()
