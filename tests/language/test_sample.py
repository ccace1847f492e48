"""sample: what a draw depends on, where samplers are traced, and how draws are differentiated."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import fold_in, key, key_data, split
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

from .checks import Calls, Counted, assert_close, assert_equal
from .loops import by_group, random_walk
from .programs import nested

KEY = key(7)
SALTS = {"mu": 0xB2AADB84, "theta": 0xB45B129C}
NORMAL = dist.Normal(0.0, 1.0)


def one(key, loc=0.0, scale=1.0):
    return ppl.sample(key, dist.Normal(loc, scale), name="mu")


def several(key, loc=0.0, scale=1.0):
    """The site of `one` among others."""
    before = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="before")
    mu = one(key, loc, scale)
    return mu, before, ppl.sample(key, dist.Normal(mu, 1.0), name="behind")


def walk(key, loc=0.0):
    step = lambda x, key: (one(key, x), None)  # noqa: E731
    return lax.scan(step, loc, split(key, 3))[0]


@pytest.mark.parametrize("name", SALTS)
def test_draw_is_made_with_the_key_folded_with_the_name(name):
    """The number of a name is the same in every process and version: draws are reproducible."""
    expected = NORMAL.sample(fold_in(KEY, SALTS[name]))
    assert_equal(ppl.sample(KEY, NORMAL, name=name), expected)


def test_draw_depends_on_key_and_name_alone():
    mu, _, behind = several(KEY)
    assert_equal(mu, one(KEY))
    assert len({float(x) for x in (mu, behind, one(key(8)), one(fold_in(KEY, 1)))}) == 4


def test_a_draw_in_a_scope_is_one_of_its_own():
    drawn = ppl.nest(one, scope="a")(KEY)
    assert drawn != one(KEY)
    assert_equal(drawn, ppl.simulate(ppl.nest(one, scope="a"))(KEY)["a"]["mu"])


@pytest.mark.slow_rows("jit")
@pytest.mark.parametrize(
    "model",
    [one, jax.jit(several), walk, lambda key: jax.vmap(one)(split(key, 3))],
    ids=["plain", "jit", "scan", "vmap"],
)
def test_legacy_keys_draw_as_typed_ones(model):
    legacy = key_data(KEY)
    assert_equal(model(legacy), model(KEY))
    assert_equal(ppl.simulate(model)(legacy), ppl.simulate(model)(KEY))


def test_keys_of_another_generator():
    rbg = key(7, impl="rbg")
    assert_equal(one(rbg), NORMAL.sample(fold_in(rbg, SALTS["mu"])))
    assert_equal(ppl.simulate(one)(rbg), {"mu": one(rbg)})


TRANSFORMED = {
    "jit": lambda f: jax.jit(f)(KEY),
    "vmap": lambda f: jax.tree.map(lambda x: x[0], jax.vmap(f)(KEY[None])),
    "scan": lambda f: jax.tree.map(lambda x: x[0], lax.map(f, KEY[None])),
    "cond": lambda f: lax.cond(KEY is not None, f, f, KEY),
}


@pytest.mark.quick_rows("scan", "cond")
@pytest.mark.parametrize("transformed", TRANSFORMED.values(), ids=TRANSFORMED)
def test_transformed_model_draws_the_same(transformed):
    for f in (several, ppl.condition(several, {"before": 2.0}), ppl.simulate(several)):
        assert_close(jax.jit(lambda f=f: transformed(f))(), f(KEY), "float32")


@pytest.mark.slow_rows("nest")
@pytest.mark.parametrize(
    ("model", "args"),
    [(by_group, (jnp.ones((3, 4)),)), (random_walk, (0.5,)), (nested, (0.3,))],
    ids=["vmap", "scan", "nest"],
)
def test_simulate_gives_the_values_of_the_run(model, args):
    """These models return their last site."""
    both = lambda key: (ppl.simulate(model)(key, *args), model(key, *args))  # noqa: E731
    values, out = jax.jit(both)(KEY)
    for scope in ("c", "d"):
        values = values.get(scope, values)
    assert_close(values["y"], out, "float32")


def test_shapes_and_dtypes_of_draws():
    def model(key):
        for name, d in families.items():
            ppl.sample(key, d, name=name)

    families = {
        "vector": dist.MultivariateNormal(jnp.zeros((2, 3)), scale_tril=jnp.eye(3)),
        "count": dist.Poisson(jnp.ones(4)),
        "half": dist.Normal(jnp.zeros(2, jnp.float16), jnp.float16(1.0)),
    }
    abstract = jax.eval_shape(ppl.simulate(model), KEY)
    values = jax.jit(ppl.simulate(model))(KEY)
    shapes = {"vector": ((2, 3), "float32"), "count": ((4,), "int32"), "half": ((2,), "float16")}
    for of in (abstract, values):
        assert {name: (x.shape, str(x.dtype)) for name, x in of.items()} == shapes


def counted(key, loc, calls):
    x = ppl.sample(key, Counted(loc, calls), name="x")
    keys = split(key, 3)
    y = jax.vmap(lambda key: ppl.sample(key, Counted(x, calls), name="y"))(keys)
    step = lambda z, key: (ppl.sample(key, Counted(z, calls), name="z"), None)  # noqa: E731
    return lax.scan(step, y.sum(), keys)[0]


VALUES = {"x": 0.5, "y": jnp.ones(3), "z": jnp.zeros(3)}


RUNS = {
    "eval_shape": (lambda m: jax.eval_shape(m, KEY, 0.0), 0),
    "make_jaxpr": (lambda m: jax.make_jaxpr(m)(KEY, 0.0), 0),
    "log_density": (lambda m: ppl.log_density(m)(VALUES, 0.0), 0),
    "grad": (lambda m: jax.jit(jax.value_and_grad(ppl.log_density(m)))(VALUES, 0.0), 0),
    "log_probs": (lambda m: ppl.log_probs(m)(VALUES, 0.0), 0),
    "unconstrain": (lambda m: jax.jit(jax.grad(ppl.unconstrain(m, 0.0).log_density))(VALUES), 0),
    "constrain": (lambda m: ppl.unconstrain(m, 0.0).constrain(VALUES), 0),
    "initial": (lambda m: ppl.unconstrain(m, 0.0).initial(KEY), 0),
    "observed": (lambda m: jax.jit(ppl.condition(m, VALUES))(KEY, 0.0), 0),
    "observed-density": (lambda m: ppl.log_density(ppl.condition(m, VALUES))({}, 0.0), 0),
    "partly-observed": (lambda m: jax.jit(ppl.condition(m, {"y": VALUES["y"]}))(KEY, 0.0), 2),
    "run": (lambda m: jax.jit(m)(KEY, 0.0), 3),
}


@pytest.mark.parametrize(("run", "times"), RUNS.values(), ids=RUNS)
def test_sampler_is_traced_only_where_a_draw_is_needed(run, times):
    calls = Calls()
    run(lambda key, loc: counted(key, loc, calls))
    assert calls.sample == times


def test_density_is_traced_once_for_each_site():
    calls = Calls()
    density = ppl.log_density(lambda key, loc: counted(key, loc, calls))
    jax.jit(jax.value_and_grad(density))(VALUES, 0.0)
    assert calls.log_prob == 3


def test_sampler_of_raw_tfp_is_not_traced_in_vain():
    class Loud(tfp.distributions.Normal):
        def _sample_n(self, n, seed=None):
            traced.append(n)
            return super()._sample_n(n, seed)

    traced = []
    loud = lambda key: ppl.sample(key, Loud(0.0, 1.0), name="x")  # noqa: E731
    ppl.log_density(loud)({"x": 0.5})
    assert traced == []
    loud(KEY)
    assert traced == [1]


def test_gradient_through_a_draw():
    """Of loc + scale e it is (1, e), of an Exponential it is -x / rate; vmap and scan add up."""
    e = one(KEY)
    assert_close(jax.grad(one, (1, 2))(KEY, 0.3, 2.0), (jnp.array(1.0), e), "float32")
    tangent = jax.jvp(lambda loc: one(KEY, loc), (0.3,), (2.0,))[1]
    assert_close(tangent, jnp.array(2.0), "float32")

    exponential = lambda rate: ppl.sample(KEY, dist.Exponential(rate), name="x")  # noqa: E731
    x, slope = jax.value_and_grad(exponential)(4.0)
    assert_close(slope, -x / 4, "float32")

    keys = split(KEY, 3)
    mapped = lambda scale: jax.vmap(one, (0, None, None))(keys, 0.0, scale).sum()  # noqa: E731
    assert_close(jax.grad(mapped)(2.0), jax.vmap(one)(keys).sum(), "float32")
    assert_close(jax.grad(lambda loc: walk(KEY, loc))(0.5), jnp.array(1.0), "float32")
    through = lambda loc: ppl.simulate(several)(KEY, loc)["behind"]  # noqa: E731
    assert_close(jax.jit(jax.grad(through))(0.5), jnp.array(1.0), "float32")


def test_gradient_of_a_conditioned_model_stops_at_the_data():
    model = ppl.condition(lambda key, loc: several(key, loc)[2], {"mu": 3.0})
    assert jax.grad(model, 1)(KEY, 0.5) == 0.0
    of_data = lambda mu: ppl.condition(several, {"mu": mu})(KEY)[2]  # noqa: E731
    assert jax.grad(of_data)(3.0) == 1.0


class Ball:
    """A distribution, but no pytree."""

    def __init__(self, radius: Any):
        self.radius = radius

    def sample(self, key: Any) -> Any:
        return self.radius * jax.random.ball(key, 2)

    def log_prob(self, value: Any) -> Any:
        return jnp.where(jnp.sum(value**2) < self.radius**2, -jnp.log(jnp.pi), -jnp.inf)


def test_a_distribution_that_is_no_pytree_is_named():
    words = r"sample 'x': the distribution Ball has a leaf of type Ball.*register_dataclass"
    with pytest.raises(TypeError, match=f"(?s){words}"):
        ppl.sample(KEY, Ball(1.0), name="x")


def test_a_joint_distribution_with_names():
    def model(key: Any) -> Any:
        parts = {
            "a": tfp.distributions.Normal(0.0, 1.0),
            "b": lambda a: tfp.distributions.Normal(a, 2.0),
        }
        return ppl.sample(key, tfp.distributions.JointDistributionNamed(parts), name="x")

    draw = ppl.simulate(model)(KEY)["x"]
    by_hand = jax.scipy.stats.norm.logpdf(draw["a"]) + jax.scipy.stats.norm.logpdf(
        draw["b"], draw["a"], 2.0
    )
    assert_close(ppl.log_density(model)({"x": draw}), by_hand)


def test_draws_follow_their_distribution():
    """The mean of n is 1 within 5 / sqrt(n): a false alarm once in 10^6; a shared key is caught."""
    n = 4000
    exponential = lambda key: ppl.sample(key, dist.Exponential(1.0), name="x")  # noqa: E731
    independent = jax.vmap(exponential)(split(KEY, n))
    assert abs(independent.mean() - 1) < 5 / np.sqrt(n)
    assert np.unique(independent).size > n - 10
    shared = jax.vmap(lambda _: exponential(KEY))(jnp.arange(n))
    assert np.unique(shared).size == 1
