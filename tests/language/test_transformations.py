"""deterministic, factor, intervene, block, scale: densities by hand, alone and together in any order."""

# ruff: noqa: E501

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats

import distributions as dist
import ppl

from .checks import assert_close, assert_equal, counting, shapes

KEY = key(2)
NORMAL = stats.norm.logpdf
X = jnp.array([0.5, -1.0, 2.0])


def chain(key: Any) -> Any:
    """a -> b -> c -> d, with the sum recorded and a term added."""
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    b = ppl.sample(key, dist.Normal(a, 2.0), name="b")
    c = ppl.sample(key, dist.Normal(b, 3.0), name="c")
    d = ppl.sample(key, dist.Normal(c, 4.0), name="d")
    total = ppl.deterministic(a + b + c + d, name="total")
    ppl.factor(-0.1 * total, name="tilt")
    return total


def straight(key: Any, x: Any) -> Any:
    m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
    y = ppl.sample(key, dist.Normal(m * x, 1.0), name="y")
    ppl.deterministic({"twice": 2 * y, "n": jnp.arange(3)}, name="t")
    ppl.factor(-jnp.abs(y), name="f")
    return y


def element(key: Any, m: Any, x: Any) -> Any:
    y = ppl.sample(key, dist.Normal(m * x, 1.0), name="y")
    ppl.deterministic({"twice": 2 * y, "n": jnp.float32(x).astype(int)}, name="t")
    ppl.factor(-jnp.abs(y), name="f")
    return y


def mapped(key: Any, x: Any) -> Any:
    m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
    return jax.vmap(element, in_axes=(0, None, 0))(split(key, 3), m, x)


def scanned(key: Any, x: Any) -> Any:
    m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
    return lax.scan(lambda m, kx: (m, element(kx[0], m, kx[1])), m, (split(key, 3), x))[1]


def jitted(key: Any, x: Any) -> Any:
    return jax.jit(jax.checkpoint(mapped))(key, x)


PLACES = {"straight": straight, "vmap": mapped, "scan": scanned, "jit": jitted}
EVERY_PLACE = pytest.mark.parametrize("model", PLACES.values(), ids=PLACES)
VALUES = {"m": jnp.float32(0.7), "y": jnp.array([0.1, -0.2, 0.3])}


def likelihood(values: Any, x: Any) -> Any:
    return NORMAL(values["y"], values["m"] * x, 1.0) - jnp.abs(values["y"])


@pytest.mark.slow_rows("jit")
@EVERY_PLACE
def test_recorded_values_and_terms(model):
    values = ppl.simulate(model)(KEY, X)
    assert_close(values["t"]["twice"], 2 * values["y"], "float32")
    density = ppl.log_density(model)(VALUES, X)
    assert_close(density, NORMAL(VALUES["m"]) + likelihood(VALUES, X).sum(), "float32")
    assert_close(ppl.log_probs(model)(VALUES, X)["f"], -jnp.abs(VALUES["y"]), "float32")
    trace = ppl.trace(model)(KEY, X)
    assert {n: s.kind for n, s in trace.sites.items()} == {
        "m": "latent",
        "y": "latent",
        "t": "deterministic",
        "f": "factor",
    }
    assert_close(trace.log_density, ppl.log_density(model)(values, X), "float32")


@EVERY_PLACE
def test_intervened_values_are_not_scored(model):
    fixed = ppl.intervene(model, {"m": 3.0})
    assert_close(
        ppl.log_density(fixed)({"y": VALUES["y"]}, X),
        likelihood({"m": 3.0, "y": VALUES["y"]}, X).sum(),
        "float32",
    )
    fixed = ppl.intervene(model, {"y": VALUES["y"]})
    assert_close(
        ppl.log_density(fixed)({"m": 0.7}, X), NORMAL(0.7) - jnp.abs(VALUES["y"]).sum(), "float32"
    )
    simulated = ppl.simulate(fixed)(KEY, X)
    assert_equal(simulated["y"], VALUES["y"])
    assert_close(simulated["t"]["twice"], 2 * VALUES["y"], "float32")


@pytest.mark.slow_rows("jit")
@EVERY_PLACE
def test_scores_are_multiplied(model):
    double = ppl.scale(model, 2.5)
    density, gradient = jax.value_and_grad(ppl.log_density(model))(VALUES, X)
    assert_close(ppl.log_density(double)(VALUES, X), 2.5 * density, "float32")
    assert_close(
        jax.grad(ppl.log_density(double))(VALUES, X),
        jax.tree.map(lambda g: 2.5 * g, gradient),
        "float32",
    )
    assert_equal(ppl.simulate(double)(KEY, X), ppl.simulate(model)(KEY, X))


@EVERY_PLACE
def test_hidden_sites(model):
    """A hidden term or observation is not scored, a hidden latent site leaves no density."""
    hidden = ppl.block(ppl.condition(model, {"y": VALUES["y"]}), ["y", "t"])
    assert shapes(ppl.simulate(hidden)(KEY, X)) == {"m": ()}
    assert_close(
        ppl.log_density(hidden)({"m": 0.7}, X), NORMAL(0.7) - jnp.abs(VALUES["y"]).sum(), "float32"
    )
    assert_equal(
        ppl.simulate(ppl.block(model, ["m"]))(KEY, X)["y"], ppl.simulate(model)(KEY, X)["y"]
    )
    with pytest.raises(ValueError, match=r"value of 'm', latent, which ppl.block hides"):
        ppl.log_density(ppl.block(model, ["m"]))({"y": VALUES["y"]}, X)


def test_scopes_are_hidden_whole():
    model = ppl.nest(mapped, scope="a")
    assert ppl.simulate(ppl.block(model, ["a"]))(KEY, X) == {}
    assert shapes(ppl.simulate(ppl.block(model, ["a.t", "a.m"]))(KEY, X)) == {"a": {"y": (3,)}}


OBSERVED, FIXED = {"d": 1.5}, {"b": -0.5}
TRANSFORMATIONS = {
    "condition": lambda model: ppl.condition(model, OBSERVED),
    "intervene": lambda model: ppl.intervene(model, FIXED),
    "block": lambda model: ppl.block(model, ["total"]),
    "scale": lambda model: ppl.scale(model, 3.0),
    "reparam": lambda model: ppl.reparam(model, {"c": ppl.NonCentered()}),
}


@pytest.mark.slow
@pytest.mark.parametrize("first", TRANSFORMATIONS)
def test_any_order_has_one_meaning(first):
    """do(b) cuts b off, d is data, and c is the only site in other coordinates: in all 120 orders."""
    a, z = 0.3, -1.2
    c = -0.5 + 3 * z
    total = a - 0.5 + c + 1.5
    scores = NORMAL(a) + NORMAL(c, -0.5, 3.0) + NORMAL(1.5, c, 4.0) - 0.1 * total
    rest = [name for name in TRANSFORMATIONS if name != first]
    for order in itertools.permutations(rest):
        model = functools.reduce(lambda m, name: TRANSFORMATIONS[name](m), (first, *order), chain)
        assert_close(ppl.log_density(model)({"a": a, "c": c}), 3 * scores, "float32")
        target = ppl.unconstrain(model)
        assert_close(target.log_density({"a": a, "c": z}), 3 * scores + jnp.log(3.0), "float32")
        assert ppl.simulate(model)(KEY).keys() == {"a", "b", "c", "d"}


def test_scale_multiplies_again_and_inside_of_a_model():
    assert_close(
        ppl.log_density(ppl.scale(ppl.scale(chain, 2.0), 0.25))(dict.fromkeys("abcd", 1.0)),
        0.5 * ppl.log_density(chain)(dict.fromkeys("abcd", 1.0)),
        "float32",
    )

    def half(key: Any, x: Any) -> Any:
        m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
        part = ppl.scale(jax.vmap(element, in_axes=(0, None, 0)), 0.5)
        return part(split(key, 3), m, x)

    assert_close(
        ppl.log_density(half)(VALUES, X), NORMAL(0.7) + 0.5 * likelihood(VALUES, X).sum(), "float32"
    )


def test_minibatches_are_unbiased_and_new_ones_are_not_traced():
    """The mean over all batches is the density of all data; batches are arguments."""
    data = jnp.linspace(-2.0, 2.0, 12).reshape(6, 2)

    def rows(key: Any, m: Any, batch: Any) -> Any:
        ppl.sample(key, dist.Normal(m * jnp.ones(batch.shape), 1.0), name="y")

    def model(key: Any, batch: Any, factor: Any) -> Any:
        m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
        ppl.scale(rows, factor)(key, m, batch)

    counted, calls = counting(model)

    @jax.jit
    def density(m: Any, batch: Any, factor: Any) -> Any:
        return ppl.log_density(ppl.condition(counted, {"y": batch}))({"m": m}, batch, factor)

    each = [density(0.4, batch, 6.0) for batch in data]
    assert len(calls) == 1
    full = NORMAL(0.4) + NORMAL(data, 0.4).sum()
    assert_close(sum(each) / 6, full, "float32")


def test_one_array_by_element_and_as_a_whole():
    """What wraps a distribution tells its parameters apart even where they are one array."""

    def same(key, x):
        element = lambda key, loc: ppl.sample(key, dist.Normal(loc, x), name="y")  # noqa: E731
        return jax.vmap(element)(split(key, 3), x)

    x, y = X**2, jnp.arange(9.0).reshape(3, 3)
    scores = NORMAL(y, x[:, None], x)
    assert_close(ppl.log_density(ppl.scale(same, 2.0))({"y": y}, x), 2 * scores.sum(), "float32")
    gone = jnp.eye(3, dtype=bool)
    ignored = ppl.condition(same, {"y": ppl.ignore(y, gone)})
    assert_close(ppl.log_density(ignored)({}, x), jnp.where(gone, 0, scores).sum(), "float32")
    target = ppl.unconstrain(ppl.reparam(same, {"y": ppl.NonCentered()}), x)
    assert_close(target.constrain({"y": y})["y"], x[:, None] + x * y, "float32")


def test_scale_of_zero_keeps_the_support():
    model = ppl.scale(lambda key: ppl.sample(key, dist.HalfNormal(1.0), name="x"), 0.0)
    assert ppl.log_density(model)({"x": 1.0}) == 0.0
    assert ppl.log_density(model)({"x": -1.0}) == -jnp.inf


def test_draws_may_be_given_to_densities():
    """Deterministic values among them are passed over, as they follow from the others."""
    values = ppl.simulate(ppl.nest(mapped, scope="a"))(KEY, X)
    density = ppl.log_density(ppl.nest(mapped, scope="a"))
    without = {"a": {name: values["a"][name] for name in ("m", "y")}}
    assert_equal(density(values, X), density(without, X))
    only = ppl.nest(lambda key: ppl.deterministic(1.0, name="t"), scope="b")
    assert ppl.log_density(only)({"b": {"t": 3.0}}) == 0.0


def test_deterministic_values_are_dead_code_in_a_density():
    """What only they need is not part of the program."""

    def model(key: Any) -> Any:
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.deterministic(jnp.sin(x), name="t")

    jaxpr = jax.make_jaxpr(ppl.log_density(model))({"x": 1.0})
    assert "sin" not in str(jaxpr)
    constrained = jax.make_jaxpr(ppl.unconstrain(model).constrain)({"x": 1.0})
    assert "sin" in str(constrained)


def test_interventions_cut_gradients_and_keys():
    """What is fixed depends on nothing, so its own randomness and causes are no part of the rest."""
    fixed = ppl.intervene(chain, {"b": 2.0, "total": 5.0})
    other = ppl.simulate(fixed)(key(9))
    assert (other["b"], other["total"]) == (2.0, 5.0)
    slope = jax.grad(
        lambda b: ppl.log_density(ppl.intervene(chain, {"b": b}))({"a": 0.1, "c": 0.2, "d": 0.3})
    )(2.0)
    assert_close(slope, (0.2 - 2.0) / 9 - 0.1, "float32")


def test_an_intervention_that_is_not_known_may_be_nan():
    run = jax.jit(lambda a: ppl.simulate(ppl.intervene(chain, {"a": a}))(KEY)["a"])
    assert jnp.isnan(run(jnp.nan))


def twice(key: Any) -> None:
    for _ in range(2):
        ppl.factor(0.5, name="f")


def classes(key: Any) -> None:
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.sample(key, dist.Normal(jnp.where(z, 1.0, 0.0), 1.0), name="y")


SUMMED = ppl.marginalize(classes, ["z"])
ERRORS = {
    "intervene-unknown": (lambda: ppl.intervene(chain, {"e": 1.0})(KEY), ValueError, "intervene: model 'chain' has no site 'e'.*'a', 'b', 'c', 'd', 'total'"),
    "intervene-factor": (lambda: ppl.intervene(chain, {"tilt": 1.0})(KEY), ValueError, "'tilt' of model 'chain' is a factor"),
    "intervene-observed": (lambda: ppl.intervene(ppl.condition(chain, OBSERVED), OBSERVED)(KEY), ValueError, "'d' of model 'chain' is observed already"),
    "intervene-shape": (lambda: ppl.intervene(chain, {"a": X})(KEY), ValueError, r"'a': expected float32\[\], got float32\[3\]"),
    "intervene-nan": (lambda: ppl.intervene(chain, {"a": jnp.nan}), ValueError, "intervene: 1 of the 1 values of site 'a' are NaN. Give numbers"),
    "intervene-nan-in-scope": (lambda: ppl.intervene(chain, {"s": {"a": X.at[1].set(jnp.nan)}}), ValueError, "1 of the 3 values of site 's.a' are NaN"),
    "intervene-no-dict": (lambda: ppl.intervene(chain, 1.0), TypeError, "intervene: expected a dict"),
    "condition-intervened": (lambda: ppl.condition(ppl.intervene(chain, FIXED), FIXED)(KEY), ValueError, "'b' of model 'chain' is deterministic.*intervene"),
    "condition-deterministic": (lambda: ppl.condition(chain, {"total": 1.0})(KEY), ValueError, "'total' of model 'chain' is deterministic"),
    "condition-blocked": (lambda: ppl.condition(ppl.block(chain, ["d"]), OBSERVED)(KEY), ValueError, "has no site 'd': ppl.block hides it"),
    "condition-summed": (lambda: ppl.condition(SUMMED, {"z": 1})(KEY), ValueError, "condition: model 'classes' has no site 'z': ppl.marginalize has taken it out.*'y'"),
    "block-summed-in-scope": (lambda: ppl.block(ppl.nest(SUMMED, scope="s"), ["s.z"])(KEY), ValueError, "block: .* has no site 's.z': ppl.marginalize has taken it out"),
    "block-unknown": (lambda: ppl.block(chain, ["a", "e"])(KEY), ValueError, "block: model 'chain' has no site 'e'.*'a', 'b'"),
    "block-none": (lambda: ppl.block(chain, None), TypeError, "block: expected a collection of names of sites, got None"),
    "block-model": (lambda: ppl.block(chain, chain), TypeError, "collection of names of sites, got <function chain"),
    "block-string": (lambda: ppl.block(chain, "a"), TypeError, "collection of names.*'a'"),
    "scale-negative": (lambda: ppl.scale(chain, -1.0), ValueError, "scale: factor must be finite and not negative, got -1.0"),
    "scale-nan": (lambda: ppl.scale(chain, jnp.nan), ValueError, "finite and not negative, got nan"),
    "scale-infinite": (lambda: ppl.scale(chain, jnp.inf), ValueError, "finite and not negative, got inf"),
    "scale-complex": (lambda: ppl.scale(chain, 1j), TypeError, "real number as factor"),
    "nest-no-function": (lambda: ppl.nest(None, scope="s"), TypeError, "nest: f must be a function, got None"),
    "scale-shape": (lambda: ppl.log_density(ppl.scale(chain, jnp.ones(3)))(dict.fromkeys("abcd", 0.0)), ValueError, r"scale: site 'a' has log probabilities of shape \(\), for weights of shape \(3,\)"),
    "scale-text": (lambda: ppl.scale(chain, "2"), TypeError, "number as factor, got '2'"),
    "scale-no-function": (lambda: ppl.scale(1.0, 2.0), TypeError, "got 1.0"),
    "factor-integer": (lambda: ppl.factor(jnp.arange(3), name="f"), TypeError, r"factor 'f': expected a log weight of floats, got int32\[3\]"),
    "factor-boolean": (lambda: ppl.factor(True, name="f"), TypeError, r"factor 'f'.*got bool\[\].*-jnp.inf"),
    "factor-text": (lambda: ppl.factor("1", name="f"), TypeError, "factor 'f': expected an array, got '1'"),
    "factor-name": (lambda: ppl.factor(1.0, name=1), TypeError, "factor: name must be a string, got 1"),
    "factor-twice": (lambda: ppl.log_density(twice)({}), ValueError, "'f' is added 2 times"),
    "deterministic-name": (lambda: ppl.deterministic(1.0, name=None), TypeError, "deterministic: name must be a string, got None"),
    "deterministic-object": (lambda: ppl.deterministic(object(), name="t"), TypeError, "deterministic 't': expected a pytree of arrays, got a leaf of type object"),
    "deterministic-text": (lambda: ppl.deterministic("a", name="f"), TypeError, "deterministic 'f': .*type str: 'a'.*or give the arrays"),
    "deterministic-text-in-tree": (lambda: ppl.deterministic({"x": X, "y": "a"}, name="f"), TypeError, "deterministic 'f': .*type str: 'a'"),
    "own-sow": (lambda: ppl.simulate(lambda key: ppl.sow(1.0, tag="deterministic", name="t"))(KEY), ValueError, "'t' has the tag 'deterministic' of ppl.deterministic"),
}  # fmt: skip


@pytest.mark.parametrize(("misuse", "exception", "message"), ERRORS.values(), ids=ERRORS)
def test_error(misuse, exception, message):
    with pytest.raises(exception, match=f"(?s){message}"):
        misuse()


def test_a_boolean_is_no_factor():
    with pytest.raises(TypeError, match="scale: expected a number as factor, got True, a boolean"):
        ppl.scale(lambda key: None, True)
