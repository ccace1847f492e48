"""Outside of the support the density is -inf, and no gradient is NaN, by values, parameters and data."""

# ruff: noqa: E501

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.random import split
from scipy import stats
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl
from distributions import constraints

from .checks import assert_close
from .programs import EFFECTS, SCHOOLS, SIGMA, eight_schools

tfd = tfp.distributions


@dataclasses.dataclass(frozen=True)
class Outside:
    """A family, its parameters, and a value that it does not have."""

    id: str
    family: Callable[..., Any]
    parameters: tuple[Any, ...]
    value: Any


P = np.float32([0.2, 0.3, 0.5])
BOTH = [
    ("HalfNormal", (2.0,), -1.0),
    ("Gamma", (2.0, 3.0), -1.0),
    ("Beta", (2.0, 3.0), 1.5),
    ("Uniform", (-1.0, 2.0), 3.0),
    ("Dirichlet", (3 * P,), np.float32([0.5, 0.7, -0.2])),
    ("Dirichlet", (3 * P,), np.float32([0.5, 0.3, 0.4])),
    ("Poisson", (2.0,), -1),
]
OUTSIDE = [
    *[
        Outside(id=f"{n}-{np.max(v)}", family=getattr(dist, n), parameters=p, value=v)
        for n, p, v in BOTH
    ],
    Outside(
        id="Gamma-infinite", family=dist.Gamma, parameters=(2.0, 3.0), value=np.float32(np.inf)
    ),
    Outside(id="Bernoulli", family=lambda p: dist.Bernoulli(probs=p), parameters=(0.3,), value=2),
    Outside(id="Binomial", family=lambda p: dist.Binomial(3, probs=p), parameters=(0.3,), value=4),
    Outside(id="Categorical", family=lambda p: dist.Categorical(probs=p), parameters=(P,), value=3),
    Outside(
        id="Flat",
        family=lambda low: dist.Flat(constraints.greater_than(low)),
        parameters=(1.0,),
        value=0.5,
    ),
    Outside(
        id="Mixture",
        family=lambda p, rate: dist.MixtureSameFamily(
            dist.Categorical(probs=p), dist.Exponential(rate)
        ),
        parameters=(P, 1 + P),
        value=-1.0,
    ),
    *[
        Outside(
            id=f"tfp-{n}-{np.max(v)}", family=getattr(tfd, n), parameters=p, value=np.float32(v)
        )
        for n, p, v in BOTH
        if np.max(v) != 0.5
    ],
    Outside(
        id="tfp-LogNormal", family=tfd.LogNormal, parameters=(0.5, 2.0), value=np.float32(-1.0)
    ),
    Outside(
        id="tfp-TruncatedNormal",
        family=tfd.TruncatedNormal,
        parameters=(0.5, 2.0, -1.0, 1.0),
        value=np.float32(1.5),
    ),
]


def value_and_gradient(density, values, args):
    """By all that is a float."""
    leaves, tree = jax.tree.flatten((values, args))
    is_float = lambda x: jnp.issubdtype(jnp.result_type(x), jnp.floating)  # noqa: E731
    floats = [jnp.asarray(x) for x in leaves if is_float(x)]

    def of_floats(floats):
        rest = iter(floats)
        filled = [next(rest) if is_float(x) else x for x in leaves]
        values, args = jax.tree.unflatten(tree, filled)
        return density(values, *args)

    value, gradient = jax.jit(jax.value_and_grad(of_floats))(floats)
    return value, ravel_pytree(gradient)[0]


@pytest.mark.slow_rows(
    "Gamma--1.0",
    "Beta-1.5",
    "Dirichlet-0.699999988079071",
    "Gamma-infinite",
    "tfp-Gamma--1.0",
    "tfp-Beta-1.5",
    "tfp-Dirichlet-0.699999988079071",
    "tfp-TruncatedNormal",
)
@pytest.mark.parametrize("row", OUTSIDE, ids=lambda row: row.id)
def test_density_is_minus_infinity_without_nan(row):
    """The site stands behind a latent one, whose gradient passes through its parameters."""

    def model(key, *parameters):
        shift = ppl.sample(key, dist.Normal(0.0, 1.0), name="shift")
        first, *rest = parameters
        return ppl.sample(key, row.family(first * jnp.exp(shift * 0), *rest), name="x")

    density = ppl.log_density(model)
    value, gradient = value_and_gradient(density, {"x": row.value, "shift": 0.5}, row.parameters)
    assert value == -jnp.inf
    assert not jnp.isnan(gradient).any()


@pytest.mark.parametrize("family", [dist.Gamma, tfd.Gamma], ids=["ours", "tfp"])
def test_one_element_outside_under_vmap_and_scan(family):
    """The other elements keep their log probabilities and gradients."""

    def site(key, rate):
        return ppl.sample(key, family(2.0, rate), name="x")

    def mapped(key, rate):
        return jax.vmap(site)(split(key, 3), rate)

    def scanned(key, rate):
        return lax.scan(lambda c, keyed: (c, site(*keyed)), 0, (split(key, 3), rate))[1]

    x, rate = jnp.array([1.0, -1.0, 2.0]), jnp.array([1.0, 2.0, 3.0])
    inside = 2 * jnp.log(rate) + jnp.log(jnp.abs(x)) - rate * x
    for model in (mapped, scanned):
        log_probs = jax.jit(ppl.log_probs(model))({"x": x}, rate)["x"]
        assert_close(log_probs, jnp.where(x > 0, inside, -jnp.inf), "float32")
        value, gradient = value_and_gradient(ppl.log_density(model), {"x": x}, (rate,))
        assert value == -jnp.inf
        expected = jnp.where(x > 0, jnp.stack([2 / rate - x, 1 / x - rate]), 0.0)
        assert_close(jnp.sort(gradient), jnp.sort(expected.ravel()), "float32")


def test_value_outside_that_is_a_parameter_behind():
    """A scale that is not positive: the sites that it is the scale of must not turn -inf into NaN."""
    values = {**SCHOOLS, "y": EFFECTS, "tau": -1.0}
    value, gradient = value_and_gradient(ppl.log_density(eight_schools), values, (SIGMA,))
    assert value == -jnp.inf
    assert not jnp.isnan(gradient).any()


def test_observed_outside(x64):
    """Data outside of the support of their site: an impossible posterior, not a wrong one."""

    def model(key, rate):
        rate = ppl.sample(key, dist.LogNormal(rate, 1.0), name="rate")
        return ppl.sample(key, dist.Exponential(rate), name="y")

    posterior = ppl.condition(model, {"y": -1.0})
    value, gradient = value_and_gradient(ppl.log_density(posterior), {"rate": 2.0}, (0.5,))
    assert value == -jnp.inf
    assert not jnp.isnan(gradient).any()
    target = ppl.unconstrain(posterior, 0.5)
    value_and_grad = jax.jit(jax.value_and_grad(target.log_density))
    value, gradient = value_and_grad({"rate": jnp.array(0.3)})
    assert value == -jnp.inf
    assert not jnp.isnan(gradient["rate"])


def test_support_that_depends_on_a_latent_value():
    def model(key):
        high = ppl.sample(key, dist.Exponential(1.0), name="high")
        return ppl.sample(key, dist.Uniform(0.0, high), name="x")

    density = ppl.log_density(model)
    assert_close(density({"high": 2.0, "x": 1.5}), jnp.float32(-2.0 - np.log(2.0)), "float32")
    value, gradient = value_and_gradient(density, {"high": 1.0, "x": 1.5}, ())
    assert value == -jnp.inf
    assert not jnp.isnan(gradient).any()


MASK = np.array([True, False, False])


def masked(key, concentration):
    """Entries that do not count, before a site that depends on all of them."""
    x = ppl.sample(key, dist.Masked(dist.Gamma(concentration, np.ones(3)), MASK), name="x")
    return ppl.sample(key, dist.Normal(x, 2.0), name="y")


def by_hand(x, y, concentration):
    counted = dist.Gamma(concentration, 1.0).log_prob(x[0])
    return counted + dist.Normal(x, 2.0).log_prob(y).sum()


@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], [1.0, -1.0, 3.0], [1.0, -5.0, 0.0]])
def test_masked_values_outside_are_what_later_sites_depend_on(x):
    """They have no density that is 0: the sites behind are scored at the value itself."""
    x, y = jnp.array(x), jnp.array([0.5, -2.0, 1.0])
    expected, slopes = jax.value_and_grad(by_hand)(x, y, 2.0)
    value, gradient = value_and_gradient(ppl.log_density(masked), {"x": x, "y": y}, (2.0,))
    assert_close(value, expected, "float32")
    assert_close(gradient[:3], slopes, "float32")
    assert_close(
        sum(v.sum() for v in ppl.log_probs(masked)({"x": x, "y": y}, 2.0).values()),
        expected,
        "float32",
    )
    posterior = ppl.condition(masked, {"x": x})
    assert_close(ppl.log_density(posterior)({"y": y}, 2.0), expected, "float32")
    assert_close(ppl.unconstrain(posterior, 2.0).log_density({"y": y}), expected, "float32")


def test_a_masked_value_outside_that_counts():
    x, y = jnp.array([-1.0, -1.0, 3.0]), jnp.array([0.5, -2.0, 1.0])
    value, gradient = value_and_gradient(ppl.log_density(masked), {"x": x, "y": y}, (2.0,))
    assert value == -jnp.inf
    assert not jnp.isnan(gradient).any()


def test_positions_of_masked_values():
    """All entries have a position, whose map counts with its log determinant, as before a mask."""
    y = jnp.array([0.5, -2.0, 1.0])
    target = ppl.unconstrain(ppl.condition(masked, {"y": y}), 2.0)
    position = {"x": jnp.array([0.25, -1.0, 0.5])}
    x = target.constrain(position)["x"]
    assert (x > 0).all()
    log_det = constraints.positive.bijector.forward_log_det_jacobian(position["x"]).sum()
    assert_close(target.log_density(position), by_hand(x, y, 2.0) + log_det, "float32")
    assert_close(target.unconstrain({"x": x})["x"], position["x"], "float32")
    outside = target.unconstrain({"x": jnp.array([1.0, -1.0, 3.0])})["x"]
    assert list(np.isfinite(outside)) == [True, False, True]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("around", ["alone", "jit", "cond", "vmap", "scan"])
@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_bounds_may_be_arrays(around, make):
    low, high, y = make([0, 1]), make([2, 3]), np.array([[0.3, 1.0], [2.5, -1.0]])

    def pair(key):
        z = ppl.sample(key, dist.DiscreteUniform(low, high), name="z")
        return ppl.sample(key, dist.Normal(1.5 * z, 1.0), name="y")

    calls = {
        "alone": pair,
        "jit": jax.jit(pair),
        "cond": lambda key: jax.lax.cond(True, pair, pair, key),
        "vmap": lambda key: jax.vmap(pair)(jax.random.split(key, 2)),
        "scan": lambda key: jax.lax.scan(
            lambda c, key: (c, pair(key)), 0, jax.random.split(key, 2)
        ),
    }
    data = y if around in ("vmap", "scan") else y[0]
    posterior = ppl.condition(calls[around], {"y": data})
    states = np.array([[0, 1, 2], [1, 2, 3]])
    terms = np.exp(-0.5 * (data[..., None] - 1.5 * states) ** 2) / np.sqrt(2 * np.pi) / 3
    actual = ppl.log_density(ppl.marginalize(posterior, ["z"]))({})
    np.testing.assert_allclose(actual, np.log(terms.sum(-1)).sum(), rtol=1e-12)


@pytest.mark.parametrize("loops", [False, True])
def test_mapped_bounds_are_refused_with_what_to_write_instead(loops: bool) -> None:
    high = jnp.array([2, 3, 4])

    def model(key: Any, family: Callable[[Any], Any]) -> None:
        def row(key: Any, high: Any) -> None:
            x = ppl.sample(key, family(high), name="x")
            ppl.sample(key, dist.Normal(x, 1.0), name="y")

        if loops:
            lax.scan(lambda _, given: (None, row(*given)), None, (split(key, 3), high))
        else:
            jax.vmap(row)(split(key, 3), high)

    def within(high: Any) -> Any:
        return dist.Categorical(logits=jnp.where(jnp.arange(5) <= high, 0.0, -jnp.inf))

    summed = ppl.marginalize(ppl.condition(model, {"y": jnp.zeros(3)}), ["x"])
    with pytest.raises(ValueError, match=r"neither vmap nor a loop maps: .* give Categorical over"):
        ppl.log_density(summed)({}, lambda high: dist.DiscreteUniform(0, high))
    normal = lambda x: np.exp(-0.5 * x**2) / np.sqrt(2 * np.pi)  # noqa: E731
    exact = sum(np.log(normal(np.arange(n + 1)).mean()) for n in (2, 3, 4))
    assert_close(ppl.log_density(summed)({}, within), exact, "float32")


def removals(key):
    """Animals caught in three passes: the more are caught, the fewer are left."""
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    p = jnp.where(z == 1, 0.8, 0.3)

    def sweep(left, key):
        caught = ppl.sample(key, dist.Binomial(left, probs=p), name="caught")
        ppl.sample(key, dist.Normal(1.0 * caught, 1.0), name="weight")
        return left - caught, None

    jax.lax.scan(sweep, 6, jax.random.split(key, 3))


def births(key):
    """Survivors and newborns of each year, of a population that both make up."""
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    p = jnp.where(z == 1, 0.8, 0.3)

    def year(size, key):
        stay = ppl.sample(key, dist.Binomial(size, probs=p), name="stay")
        new = ppl.sample(key, dist.Poisson(1.0 + p), name="new")
        return stay + new, None

    jax.lax.scan(year, 4, jax.random.split(key, 3))


def log_mixture(score):
    return np.logaddexp(np.log(0.7) + score(0.3), np.log(0.3) + score(0.8))


@pytest.mark.parametrize("given", [False, True], ids=["conditioned", "given"])
@pytest.mark.parametrize("caught", [[3, 2, 1], [0, 6, 0], [3, 4, 0]], ids=str)
def test_a_support_that_own_earlier_values_bound(caught, given):
    """The third row is impossible: seven of six."""
    left = 6 - np.cumsum([0, *caught[:2]])
    weight = np.array([2.0, 1.0, 0.5])
    known = lambda p: np.nan_to_num(stats.binom.logpmf(caught, left, p), nan=-np.inf)  # noqa: E731
    right = log_mixture(lambda p: known(p).sum())
    right += stats.norm.logpdf(weight, caught).sum()
    data = {"caught": jnp.array(caught), "weight": weight}
    if given:
        found = ppl.log_density(ppl.marginalize(removals, ["z"]))(data)
    else:
        found = ppl.log_density(ppl.marginalize(ppl.condition(removals, data), ["z"]))({})
    np.testing.assert_allclose(found, right, rtol=1e-5)


def test_a_support_that_later_sites_of_a_step_bound():
    stay, new = np.array([2, 4, 3]), np.array([3, 0, 5])
    size = np.array([4, 5, 4])
    right = log_mixture(
        lambda p: (stats.binom.logpmf(stay, size, p) + stats.poisson.logpmf(new, 1 + p)).sum()
    )
    data = {"stay": stay, "new": new}
    model = ppl.marginalize(births, ["z"])
    np.testing.assert_allclose(ppl.log_density(model)(data), right, rtol=1e-5)
    conditioned = ppl.marginalize(ppl.condition(births, data), ["z"])
    np.testing.assert_allclose(ppl.log_density(conditioned)({}), right, rtol=1e-5)


def test_a_sum_is_told_by_its_family_and_what_is_summed():
    sites = ppl.trace(ppl.marginalize(removals, ["z"]))(jax.random.key(0)).sites
    assert str(sites["caught"].distribution) == "Binomial summed over 'z'"
