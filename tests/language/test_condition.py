"""condition: sites fixed to data, in every place where a site may stand."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import key, split
from jax.scipy import stats

import distributions as dist
import inference
import ppl

from .checks import assert_close, assert_equal, counting
from .loops import by_group, random_walk
from .programs import EFFECTS, SCHOOLS, SIGMA, cond_on, eight_schools, nested, real, submodel

KEY = key(3)
NESTED = {
    "a": {"x": 0.1, "y": 0.2},
    "b": {"x": 0.3, "y": 0.4},
    "c": {"d": {"x": real(3), "y": real(3)}},
}


@dataclasses.dataclass(frozen=True)
class Split:
    """A model whose values are partly observed: the density must be that of all values together."""

    id: str
    model: Any
    args: tuple[Any, ...]
    observed: dict[str, Any]
    latent: dict[str, Any]

    def joined(self) -> dict[str, Any]:
        return join(self.observed, self.latent)


def join(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Nested dicts, one into the other."""
    both = {k: join(a[k], b[k]) for k in a.keys() & b.keys()}
    return a | b | both


def pick(values: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The entries of nested dicts that `like` has."""
    return {k: pick(values[k], v) if isinstance(v, dict) else values[k] for k, v in like.items()}


SPLITS = [
    Split(id="straight", model=eight_schools, args=(SIGMA,),
          observed={"y": EFFECTS}, latent=SCHOOLS),
    Split(id="a-cause", model=eight_schools, args=(SIGMA,),
          observed={"mu": 1.0, "theta": real(8)}, latent={"tau": 2.0, "y": EFFECTS}),
    Split(id="scan", model=random_walk, args=(0.5,),
          observed={"y": real(5)}, latent={"scale": 0.7, "x": real(5, 1)[:, 0]}),
    Split(id="scan-carry", model=random_walk, args=(0.5,),
          observed={"x": real(5)}, latent={"scale": 0.7, "y": real(5)}),
    Split(id="vmap", model=by_group, args=(real(3, 4),),
          observed={"y": real(3, 4), "slope": 0.2}, latent={"scale": 0.7, "level": real(3)}),
    Split(id="cond", model=cond_on(lambda z: z > 0), args=(0.1,),
          observed={"x": 0.8}, latent={"z": -0.4, "y": 2.0}),
    Split(id="scopes", model=nested, args=(0.3,),
          observed={"a": {"y": 0.2}, "c": {"d": {"y": real(3)}}},
          latent={"a": {"x": 0.1}, "b": NESTED["b"], "c": {"d": {"x": real(3)}}}),
    Split(id="nothing", model=submodel, args=(0.3,), observed={}, latent={"x": 0.1, "y": 0.2}),
    Split(id="everything", model=submodel, args=(0.3,), observed={"x": 0.1, "y": 0.2}, latent={}),
]  # fmt: skip
EVERY_SPLIT = pytest.mark.parametrize("case", SPLITS, ids=lambda case: case.id)


@pytest.mark.optimized
@EVERY_SPLIT
def test_observed_sites_are_scored(case):
    posterior = ppl.condition(case.model, case.observed)
    actual = jax.jit(ppl.log_probs(posterior))(case.latent, *case.args)
    assert_equal(actual, jax.jit(ppl.log_probs(case.model))(case.joined(), *case.args))


@pytest.mark.slow_rows("straight", "vmap", "scopes")
@EVERY_SPLIT
def test_observed_values_are_simulated(case):
    values = jax.jit(ppl.simulate(ppl.condition(case.model, case.observed)))(KEY, *case.args)
    assert_equal(pick(values, case.observed), jax.tree.map(jnp.float32, case.observed))


def test_later_draws_see_the_data_and_earlier_ones_stay():
    draws = ppl.simulate(submodel)(KEY, 0.5)
    fixed = ppl.simulate(ppl.condition(submodel, {"x": 100.0}))(KEY, 0.5)
    assert fixed["x"] == 100.0
    assert_close(fixed["y"] - 100.0, draws["y"] - draws["x"], "float32")
    assert_equal(ppl.simulate(ppl.condition(submodel, {"y": 100.0}))(KEY, 0.5)["x"], draws["x"])
    assert ppl.condition(submodel, {"y": 100.0})(KEY, 0.5) == 100.0


def test_data_may_come_one_after_the_other():
    once = ppl.condition(nested, NESTED)
    step_by_step = functools.reduce(
        ppl.condition,
        [{"b": {"x": 0.3}}, {"c": NESTED["c"]}, {"a": NESTED["a"], "b": {"y": 0.4}}],
        nested,
    )
    assert_equal(ppl.log_probs(step_by_step)({}, 0.3), ppl.log_probs(once)({}, 0.3))


def test_conditioned_submodels():
    """condition may stand inside of a model, in a vmap, a scan or a scope."""

    def model(key, y):
        keys = split(key, 3)
        mapped = lambda key, y: ppl.condition(submodel, {"y": y})(key, 0.0)  # noqa: E731
        rows = jax.vmap(mapped)(split(keys[0], 2), y)

        def step(x, keyed):
            key, y = keyed
            return ppl.condition(ppl.nest(submodel, scope="s"), {"s": {"y": y}})(key, x), None

        last = lax.scan(step, rows.sum(), (split(keys[1], 2), y))[0]
        return ppl.nest(ppl.condition(submodel, {"x": 4.0}), scope="n")(keys[2], last)

    y = jnp.array([1.0, 5.0])
    x = {"x": jnp.zeros(2), "s": {"x": jnp.ones(2)}, "n": {"y": 0.5}}
    kinds = jax.tree.map(
        lambda t: t.kind,
        jax.eval_shape(ppl.trace(model), KEY, y).sites,
        is_leaf=lambda t: isinstance(t, ppl.SiteTrace),
    )
    submodel_kinds = {"x": "latent", "y": "observed"}
    assert kinds == {**submodel_kinds, "s": submodel_kinds, "n": {"x": "observed", "y": "latent"}}
    normal = stats.norm.logpdf
    expected = {
        "x": normal(x["x"], 0.0, 1.0),
        "y": normal(y, x["x"], 2.0),
        "s": {"x": normal(x["s"]["x"], jnp.array([6.0, 1.0])), "y": normal(y, x["s"]["x"], 2.0)},
        "n": {"x": normal(4.0, 5.0), "y": normal(0.5, 4.0, 2.0)},
    }
    assert_close(jax.jit(ppl.log_probs(model))(x, y), expected, "float32")


def one_value(key):
    return ppl.sample(key, dist.Normal(0.0, 1.0), name="y")


def test_tags_of_users_stay_whatever_is_hidden():
    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        return ppl.sample(key, dist.Normal(ppl.sow(2 * x, tag="hidden", name="h"), 1.0), name="y")

    for transformed in (ppl.condition(model, {"x": 1.0}), ppl.intervene(model, {"x": 1.0})):
        for m in (transformed, ppl.block(transformed, ["x"]), ppl.scale(transformed, 2.0)):
            assert ppl.reap(m, tag="hidden")(KEY) == {"h": 2.0}


def test_data_of_one_key_are_one_observation():
    """What nothing maps is drawn once, and so it is observed once."""
    observed = ppl.condition(one_value, {"y": 0.5})
    model = lambda key: jax.vmap(lambda x: observed(key) + x)(jnp.arange(3.0))  # noqa: E731
    assert_close(ppl.log_density(model)({}), stats.norm.logpdf(0.5), "float32")
    assert model(KEY).tolist() == [0.5, 1.5, 2.5]


def test_the_key_of_an_observed_site_costs_the_density_nothing():
    alike = lambda key: jax.vmap(ppl.condition(one_value, {"y": 0.5}))(split(key, 3))  # noqa: E731
    program = str(jax.make_jaxpr(ppl.log_density(alike))({}))
    assert "random" not in program
    assert "key<" not in program


@pytest.mark.parametrize("is_first", [True, False])
def test_a_site_is_observed_in_all_branches_or_in_none(is_first):
    """Else data would be passed over, or which variables there are would depend on a value."""
    observed = ppl.condition(one_value, {"y": 5.0})
    branches = (observed, one_value) if is_first else (one_value, observed)
    model = lambda key: lax.cond(True, *branches, key)  # noqa: E731
    trace = lambda model: lambda _: ppl.trace(model)(KEY)  # noqa: E731
    for derive in (ppl.log_density, trace, lambda m: ppl.unconstrain(m).log_density):
        with pytest.raises(ValueError, match=r"site 'y' is .* in one branch of a cond and"):
            derive(model)({"y": 0.0})
    with pytest.raises(ValueError, match=r"site 'y' is .* in one branch of a cond and"):
        ppl.predict(model, 3)(KEY)
    value = 5.0 if is_first else one_value(KEY)  # of the branch that is taken
    assert ppl.simulate(model)(KEY) == ppl.reap(model, tag="random")(KEY) == {"y": value}
    both = lambda key: lax.cond(True, observed, observed, key)  # noqa: E731
    assert_close(ppl.log_density(both)({}), stats.norm.logpdf(5.0), "float32")


def test_condition_under_transformations():
    """The data may be traced: mapped, differentiated, scanned."""
    density = lambda y: ppl.log_density(ppl.condition(submodel, {"y": y}))({"x": 0.5}, 0.0)  # noqa: E731
    ys = jnp.array([0.5, -1.0, 3.0])
    expected = stats.norm.logpdf(0.5) + stats.norm.logpdf(ys, 0.5, 2.0)
    assert_close(jax.vmap(density)(ys), expected, "float32")
    assert_close(jax.jit(jax.vmap(jax.grad(density)))(ys), (0.5 - ys) / 4, "float32")
    assert_close(lax.scan(lambda c, y: (c, density(y)), 0, ys)[1], expected, "float32")
    run = lambda y: ppl.condition(submodel, {"x": y})(KEY, 0.0)  # noqa: E731
    assert_close(jax.vmap(run)(ys), ys + (run(0.0)), "float32")


def test_new_data_of_the_same_shape_are_not_traced_again():
    """A conditioned model is a pytree of its data."""
    density, traces = counting(lambda model, values, *args: ppl.log_density(model)(values, *args))
    for shift in (0.0, 1.0):
        posterior = ppl.condition(
            ppl.condition(eight_schools, {"y": EFFECTS + shift}), {"tau": 2.0 + shift}
        )
        values = {"mu": 0.0, "theta": real(8)}
        actual = density(posterior, values, SIGMA)
        everything = {**values, "y": EFFECTS + shift, "tau": 2.0 + shift}
        assert_close(actual, ppl.log_density(eight_schools)(everything, SIGMA), "float32")
    assert len(traces) == 1
    density(ppl.condition(eight_schools, {"y": EFFECTS}), SCHOOLS, SIGMA)
    assert len(traces) == 2


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Regression:
    """A model that is an object with data of its own."""

    x: Any

    def __call__(self, key: Any, num: int = 1) -> Any:
        w = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        return ppl.sample(key, dist.Normal(w * self.x * num, 2.0), name="y")

    def method(self, key: Any) -> Any:
        return self(key)


@pytest.mark.parametrize(
    ("model", "num"),
    [
        (Regression(jnp.arange(2.0)), 1),
        (Regression(jnp.arange(2.0)).method, 1),
        (functools.partial(Regression(jnp.arange(2.0)), num=3), 3),
        (jax.tree_util.Partial(Regression(jnp.arange(2.0)), num=3), 3),
        (jax.jit(lambda key: Regression(jnp.arange(2.0))(key)), 1),
    ],
    ids=["object", "method", "functools.partial", "tree_util.Partial", "jit"],
)
def test_any_callable_is_a_model(model, num):
    y = np.array([1.0, 2.0])
    density = ppl.log_density(ppl.condition(model, {"y": y}))({"x": 0.5})
    by_hand = stats.norm.logpdf(0.5) + stats.norm.logpdf(y, 0.5 * num * jnp.arange(2.0), 2.0).sum()
    assert_close(density, by_hand, "float32")


def test_data_of_a_model_that_is_a_pytree_are_not_traced_again():
    density, traces = counting(lambda model: ppl.log_density(model)({"x": 0.5}))
    for x in (jnp.arange(2.0), jnp.ones(2)):
        density(ppl.condition(Regression(x), {"y": x}))
    assert len(traces) == 1


def test_data_are_those_of_the_time_of_the_call():
    data = {"y": jnp.float32(1.0)}
    posterior = ppl.condition(submodel, data)
    data["x"] = 3.0
    assert set(ppl.unconstrain(posterior, 0.0).initial(KEY)) == {"x"}


def test_data_take_the_dtype_of_the_site():
    """Python numbers and arrays of another width, of the same kind."""

    def model(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return n, ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")

    for n, x in [(2, np.ones(2)), (np.int64(2), jnp.ones(2, jnp.bfloat16))]:
        n, x = ppl.condition(model, {"n": n, "x": x})(KEY)
        assert (n.dtype, x.dtype) == (jnp.int32, jnp.float32)
        assert_equal((n, x), (jnp.int32(2), jnp.ones(2)))


class Column:
    """What a column of a data frame is to JAX: no array, but one can be made of it."""

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


@pytest.mark.parametrize("fix", [ppl.condition, ppl.intervene])
def test_arrays_of_other_libraries_are_data(fix):
    model = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")  # noqa: E731
    fixed = fix(model, {"x": Column([1.0, 2.0])})
    assert_equal(jax.jit(lambda model: model(KEY))(fixed), jnp.array([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"1 of the 2 .* of site 'x' are NaN"):
        fix(model, {"x": Column([1.0, np.nan])})


def test_an_array_of_another_library_is_an_argument():
    model = lambda key, x: ppl.sample(key, dist.Normal(x, 1.0), name="y")  # noqa: E731
    expected = ppl.predict(model, 2)(KEY, np.array([1.0]))["y"]
    np.testing.assert_array_equal(ppl.predict(model, 2)(KEY, Column([1.0]))["y"], expected)


def count(key):
    return ppl.sample(key, dist.Poisson(3.0), name="n")


TOO_LARGE = [np.array(2**32 + 3), np.int64(-(2**31) - 1), np.uint32(2**32 - 1), jnp.uint32(2**31)]
TOO_LARGE += [2**31]
GIVEN = {
    "condition": lambda n: ppl.simulate(ppl.condition(count, {"n": n}))(KEY),
    "intervene": lambda n: ppl.simulate(ppl.intervene(count, {"n": n}))(KEY),
    "log_density": lambda n: ppl.log_density(count)({"n": n}),
    "ignore": lambda n: ppl.condition(count, {"n": ppl.ignore(n, np.array(False))})(KEY),
}


@pytest.mark.parametrize("n", TOO_LARGE, ids=str)
@pytest.mark.parametrize("given", GIVEN)
def test_integers_that_jax_would_wrap_are_out_of_range(given, n):
    where = "condition|ignore" if given == "ignore" else given
    with pytest.raises(ValueError, match=rf"({where}):.*out of"):
        GIVEN[given](n)


def test_a_parameter_that_jax_would_wrap_is_out_of_range():
    trials = lambda n: lambda key: ppl.sample(key, dist.Binomial(n, probs=0.5), name="n")  # noqa: E731
    with pytest.raises(ValueError, match="sample 'n': a parameter of Binomial holds 3000000000, "):
        ppl.log_density(trials(3_000_000_000))({"n": 1})
    assert ppl.log_density(trials(3e9))({"n": 1}) < -1e9


@pytest.mark.parametrize("y", [np.array([1.0, 1e300]), [1.0, 1e300]], ids=["array", "list"])
def test_data_too_large_are_told_before_compilation(y):
    """They were infinite within the compiled program: "its value is inf"."""

    def model(key):
        z = jax.vmap(lambda k: ppl.sample(k, dist.Bernoulli(probs=0.5), name="z"))(split(key, 2))
        loc = ppl.sample(key, dist.Normal(0.0, 1.0), name="loc")
        return ppl.sample(key, dist.Normal(loc + z, 1.0), name="y")

    words = r"its data 'y.*' hold (numbers such as )?1e\+300, which .*float32.*jax_enable_x64"
    for summed in (
        ppl.marginalize(ppl.condition(model, {"y": y}), ["z"]),
        ppl.condition(ppl.marginalize(model, ["z"]), {"y": y}),
    ):
        with pytest.raises(ValueError, match=words):
            inference.mcmc(KEY, summed, num_warmup=1, num_draws=1, progress=False)
    with pytest.raises(ValueError, match=r"got list: .*Use jnp.asarray"):
        ppl.simulate(ppl.condition(model, {"y": [1.0, 1e300]}))(KEY)


def test_draws_that_jax_would_wrap_are_out_of_range():
    def model(key):
        n = ppl.sample(key, dist.Poisson(3.0), name="n")
        return ppl.sample(key, dist.Normal(n, 1.0), name="y")

    with pytest.raises(ValueError, match=r"predict: site 'n': .*out of the range of int32"):
        ppl.predict(model, {"n": np.array([1, 2**32 + 3])})(KEY)


def test_an_intervention_takes_no_missing_entries():
    fixed = ppl.intervene(submodel, {"y": ppl.impute(np.array([np.nan, 1.0]))})
    with pytest.raises(TypeError, match="intervene: site 'y' is given data with missing entries"):
        ppl.simulate(fixed)(KEY, 0.3)


@pytest.mark.parametrize("of", [np.asarray, jnp.asarray])
def test_booleans_are_data_of_integers(of):
    def model(key):
        ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), 3), name="y")

    flags = of([True, False, True])
    actual = ppl.log_density(ppl.condition(model, {"y": flags}))({})
    expected = ppl.log_density(ppl.condition(model, {"y": jnp.array([1, 0, 1])}))({})
    assert float(actual) == float(expected)


def test_the_leaves_that_differ_are_named():
    parts = {name: dist.Normal(0.0, 1.0) for name in "abcdefghij"}
    model = lambda key: ppl.sample(key, dist.Joint(parts), name="net")  # noqa: E731
    few, more = dict.fromkeys("ab", 0.0), dict.fromkeys("abcdefghijz", 0.0)
    with pytest.raises(ValueError, match=r"'net'.*lacks \['c'\], .*\['h'\] and 2 more\.$"):
        ppl.condition(model, {"net": few})(jax.random.key(0))
    with pytest.raises(ValueError, match=r"'net'.*it does not have \['z'\]\.$"):
        ppl.condition(model, {"net": more})(jax.random.key(0))
