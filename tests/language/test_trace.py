"""trace: output, values, distributions, log probabilities and kinds of a model's run."""

# ruff: noqa: E501

import re

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.random import key, split

import distributions as dist
import ppl

from .checks import assert_close, assert_equal, shapes
from .loops import by_group, random_walk, scan_vmap_scan, vmap_scan_vmap
from .programs import cond_on, nested, real

KEY = key(5)
is_site = lambda x: isinstance(x, ppl.SiteTrace)  # noqa: E731


def of_sites(field, sites):
    return jax.tree.map(lambda site: getattr(site, field), sites, is_leaf=is_site)


MODELS = {
    "vmap": (by_group, (real(3, 4),)),
    "vmap-observed": (ppl.condition(by_group, {"y": real(3, 4)}), (real(3, 4),)),
    "scan": (random_walk, (0.5,)),
    "nest": (nested, (0.3,)),
    "cond": (cond_on(lambda z: z > 0), (0.1,)),
}


@pytest.mark.quick_rows("vmap-observed", "cond")
@pytest.mark.parametrize(("model", "args"), MODELS.values(), ids=MODELS)
def test_trace_is_the_run(model, args):

    @jax.jit
    def both(key, *args):
        trace, values = ppl.trace(model)(key, *args), ppl.simulate(model)(key, *args)
        latent = {
            n: x for n, x in values.items() if getattr(trace.sites[n], "kind", "") != "observed"
        }
        return trace, (model(key, *args), values, ppl.log_probs(model)(latent, *args))

    trace, expected = both(KEY, *args)
    actual = trace.output, of_sites("value", trace.sites), of_sites("log_prob", trace.sites)
    assert_close(actual, expected, "float32")


def test_kinds():
    model, args = MODELS["vmap-observed"]
    kinds = of_sites("kind", jax.eval_shape(ppl.trace(model), KEY, *args).sites)
    assert kinds == {"slope": "latent", "scale": "latent", "level": "latent", "y": "observed"}


def test_distributions_have_the_axes_of_vmap_and_loops_in_front():
    def model(key, x):
        def one(key, x):
            m = ppl.sample(key, dist.MultivariateNormal(x, scale_tril=jnp.eye(2)), name="m")
            return ppl.sample(key, dist.Normal(m.sum(), 1.5), name="y")

        return lax.scan(lambda c, key: (c, jax.vmap(one)(split(key, 3), x)), 0, split(key, 4))[1]

    x = jnp.arange(6.0).reshape(3, 2)
    sites = jax.jit(ppl.trace(model))(KEY, x).sites
    m, y = sites["m"], sites["y"]
    assert isinstance(m.distribution, dist.MultivariateNormal)
    assert shapes((m.distribution.loc, m.distribution.scale_tril)) == ((4, 3, 2), (4, 3, 2, 2))
    assert_equal(m.distribution.loc, jnp.broadcast_to(x, (4, 3, 2)))
    assert_close(y.distribution.loc, m.value.sum(-1), "float32")
    assert_equal(jnp.broadcast_to(y.distribution.scale, (4, 3)), jnp.full((4, 3), 1.5))
    assert shapes((m.value, m.log_prob, y.value, y.log_prob)) == ((4, 3, 2), (4, 3), (4, 3), (4, 3))
    assert_close(m.distribution.log_prob(m.value), m.log_prob, "float32")
    assert_close(y.distribution.log_prob(y.value), y.log_prob, "float32")


@pytest.mark.parametrize(
    ("model", "loc", "shape"),
    [(vmap_scan_vmap, jnp.zeros((2, 3)), (2, 4, 3)), (scan_vmap_scan, jnp.zeros(3), (2, 3, 4))],
    ids=["vmap-scan-vmap", "scan-vmap-scan"],
)
def test_parameters_have_the_order_of_axes_of_the_values(model, loc, shape):
    site = jax.jit(ppl.trace(model))(KEY, loc).sites["x"]
    assert shapes((site.value, site.distribution.loc, site.log_prob)) == (shape,) * 3
    assert_close(site.distribution.log_prob(site.value), site.log_prob, "float32")


def test_branches_of_several_families_are_named():
    model, args = MODELS["cond"]
    sites = jax.jit(ppl.trace(model))(KEY, *args).sites
    assert sites["x"].distribution is None
    assert_equal(sites["y"].distribution.loc, sites["x"].value)
    assert re.search(
        r"x +latent +float32\[\] +Exponential \| HalfNormal", str(ppl.trace(model)(KEY, *args))
    )


@pytest.mark.parametrize("mapped", [False, True])
def test_a_conditional_site_has_the_distribution_of_its_branch(mapped):
    def model(key, x):
        def low(key):
            return ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="y")

        def high(key):
            return ppl.sample(key, dist.Normal(x * jnp.ones(2), jnp.exp(x)), name="y")

        return lax.cond(x > 0.0, high, low, key)

    if mapped:
        x = jnp.array([0.5, -1.0])
        loc, scale = jnp.array([[0.5], [0.0]]), jnp.array([[jnp.exp(0.5)], [2.0]])
        site = ppl.trace(lambda key, x: jax.vmap(model)(split(key), x))(KEY, x).sites["y"]
    else:
        loc, scale = 0.5, jnp.exp(0.5)
        site = ppl.trace(model)(KEY, 0.5).sites["y"]
    shape = site.value.shape
    expected = jnp.broadcast_to(loc, shape), jnp.broadcast_to(scale, shape)
    found = site.distribution.loc, jnp.broadcast_to(site.distribution.scale, shape)
    assert_close(found, expected, "float32")
    assert_close(site.distribution.log_prob(site.value), site.log_prob, "float32")


def test_output_may_hold_anything():
    def model(key, label):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        return {"x": x, "label": label, "none": None, "key": key}

    trace = ppl.trace(model)(KEY, label="text")
    assert trace.output["label"] == "text"
    assert trace.output["none"] is None
    assert trace.output["key"] == KEY
    assert trace.output["x"] == trace.sites["x"].value


def test_trace_is_mapped():
    keys = split(KEY, 3)
    traces = jax.jit(jax.vmap(ppl.trace(random_walk), (0, None)))(keys, 0.5)
    assert shapes((traces.output, traces.sites["x"].value)) == ((3, 5), (3, 5))
    one = jax.jit(ppl.trace(random_walk))(keys[1], 0.5)
    assert_close(jax.tree.map(lambda x: x[1], traces), one, "float32")


TABLE = """
site    kind           value                 distribution        support                     log prob
mu      observed       float32[]             Normal              finite                        -0.919
a.s     observed       float32[3]            HalfNormal          nonnegative and finite        -2.177
a.p     observed       float32[3,2]          Beta                in the interval (0.0, 1.0)     0.000
a.both  deterministic  float32[3], int32[3]
a.tilt  factor         float32[3]                                                              -1.500
a.m     observed       float32[3,2]          MultivariateNormal  finite                        -5.514
in all                                                                                        -10.110
"""


def test_a_trace_is_a_table():
    def group(key, x):
        s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
        ppl.sample(key, dist.Beta(jnp.ones(2), 1.0), name="p")
        ppl.deterministic((s, jnp.int32(2)), name="both")
        ppl.factor(-x * s, name="tilt")
        ppl.sample(key, dist.MultivariateNormal(jnp.zeros(2), scale_tril=jnp.eye(2)), name="m")

    def model(key, x):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        jax.vmap(ppl.nest(group, scope="a"))(split(key, 3), x)

    half = jnp.full(3, 0.5)
    values = {"mu": 0.0, "a": {"s": jnp.ones(3), "m": jnp.zeros((3, 2))}}
    fixed = ppl.condition(model, values | {"a": values["a"] | {"p": jnp.full((3, 2), 0.5)}})
    trace = ppl.trace(fixed)(KEY, half)
    assert str(trace).splitlines() == TABLE.strip().splitlines()
    assert repr(trace) == str(trace)
    shapes = repr(jax.eval_shape(ppl.trace(fixed), KEY, half))
    assert shapes.startswith("Trace(a.both deterministic, a.m observed, ")
    assert trace.sites["a"]["s"].support.check(1.0)
    assert trace.sites["a"]["tilt"].support is None
    traced = []
    jax.jit(lambda x: traced.append(str(ppl.trace(fixed)(KEY, x))))(half)
    assert traced[0].splitlines()[-1].split() == ["in", "all", "traced"]
