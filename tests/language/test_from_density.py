"""from_density: models of bare log densities, against the same models site by site."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key, split

import distributions as dist
import inference
import ppl
from inference.runtime.compiled_program import compile_program

from .checks import assert_close

BEND = 0.5


class Point(NamedTuple):
    x: Any
    y: Any


def banana(position: Any, bend: Any, *, scale: Any = 1.0) -> Any:
    """x is standard normal, and y given x normal around bend x^2."""
    x, y = position["x"], position["inner"]["y"]
    return -0.5 * x**2 - 0.5 * ((y - bend * x**2) / scale) ** 2


def zeros() -> Any:
    return {"x": jnp.zeros(()), "inner": {"y": jnp.zeros(())}}


def model() -> Any:
    return ppl.from_density(banana, zeros())


def by_hand(key: Any, bend: Any) -> Any:
    flat = dist.Flat(dist.constraints.real)
    x = ppl.sample(key, flat, name="x")
    y = ppl.nest(lambda key: ppl.sample(key, flat, name="y"), scope="inner")(key)
    ppl.factor(banana({"x": x, "inner": {"y": y}}, bend), name="log_density")


def values(x: Any = 0.7, y: Any = -0.4) -> Any:
    return {"x": jnp.asarray(x), "inner": {"y": jnp.asarray(y)}}


def test_the_density_is_the_function(float_dtype):
    density = ppl.log_density(model())
    assert_close(density(values(), BEND), banana(values(), BEND))
    assert density(values(), BEND).dtype == float_dtype
    assert_close(jax.jit(density)(values(), BEND, scale=2.0), banana(values(), BEND, scale=2.0))
    assert_close(
        jax.grad(density)(values(), BEND)["inner"]["y"],
        jax.grad(banana)(values(), BEND)["inner"]["y"],
    )
    bends = jnp.arange(3.0)
    mapped = jax.vmap(density, in_axes=(None, 0))(values(), bends)
    assert_close(mapped, jnp.stack([banana(values(), bend) for bend in bends]))


def test_a_value_that_is_not_finite_has_no_density():
    flat = ppl.from_density(lambda x: 0.0 * jnp.sum(x), jnp.zeros(2))
    for bad in (np.inf, -np.inf, np.nan):
        scores = ppl.log_probs(flat)({"position": jnp.array([1.0, bad])})
        np.testing.assert_array_equal(scores["position"], [0.0, -np.inf])


def test_positions_are_as_of_flat_sites(float_dtype):
    ours, theirs = ppl.unconstrain(model(), BEND), ppl.unconstrain(by_hand, BEND)
    assert ours.position_shapes == theirs.position_shapes
    assert jax.tree.leaves(ours.position_shapes)[0].dtype == float_dtype
    position = ours.initial(key(0))
    assert_close(position, theirs.initial(key(0)))
    assert_close(ours.log_density(position), theirs.log_density(position))
    assert_close(ours.constrain(position), position)
    assert_close(ours.unconstrain(position), position)


def test_the_graph_has_the_sites_and_the_factor():
    ours, theirs = ppl.graph(model())(BEND), ppl.graph(by_hand)(BEND)
    assert {*ours.edges} == {*theirs.edges} == {("inner.y", "log_density"), ("x", "log_density")}


def test_a_leaf_can_be_conditioned_on():
    posterior = ppl.condition(model(), {"inner": {"y": 0.3}})
    density = ppl.log_density(posterior)({"x": jnp.asarray(0.7)}, BEND)
    assert_close(density, banana(values(0.7, 0.3), BEND))
    trace = ppl.trace(ppl.condition(model(), values()))(key(0), BEND)
    assert_close(trace.log_density, banana(values(), BEND))
    assert_close(trace.output, values())


@pytest.mark.parametrize(
    ("position", "names"),
    [
        (np.zeros(2), {"position": 2}),
        (0.0, {"position": ()}),
        ((0.0, np.zeros(2)), {"0": (), "1": 2}),
        ([np.zeros(2)], {"0": 2}),
        (Point(0.0, np.zeros(2)), {"x": (), "y": 2}),
        ({"a": (0.0, {"b": np.zeros(2)})}, {"a": {"0": (), "1": {"b": 2}}}),
        ({"a": {"x": 0.0}, "b": {"x": 0.0}}, {"a": {"x": ()}, "b": {"x": ()}}),
        ({3: 0.0}, {"3": ()}),
        ({"x": jax.ShapeDtypeStruct((2,), np.float32)}, {"x": 2}),
        ({"x": np.zeros(2, np.float16)}, {"x": 2}),
        ({"log_density": 0.0}, {"log_density": ()}),
        (
            {"log_density": {"x": 0.0}, "log_density_": 0.0},
            {"log_density": {"x": ()}, "log_density_": ()},
        ),
    ],
)
def test_a_leaf_is_a_site_in_its_scope(position, names):
    structure = jax.tree.structure(position)

    def log_density(x: Any) -> Any:
        assert jax.tree.structure(x) == structure
        return -sum(jnp.sum(leaf.astype(float)) for leaf in jax.tree.leaves(x))

    made = ppl.from_density(log_density, position)
    target = ppl.unconstrain(made)
    is_shape = lambda x: isinstance(x, tuple | int)  # noqa: E731
    expected = jax.tree.map(lambda x: (x,) if isinstance(x, int) else x, names, is_leaf=is_shape)
    assert jax.tree.map(lambda x: x.shape, target.position_shapes) == expected
    ones = jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), target.position_shapes)
    assert target.log_density(ones) == -sum(x.size for x in jax.tree.leaves(ones))


def test_arrays_in_the_function_are_data():
    def log_density(scale: Any, position: Any) -> Any:
        return -0.5 * jnp.sum((position / scale) ** 2)

    made = ppl.from_density(jax.tree_util.Partial(log_density, jnp.asarray(2.0)), jnp.zeros(2))
    assert len(jax.tree.leaves(made)) == 1
    assert_close(ppl.log_density(made)({"position": jnp.ones(2)}), jnp.asarray(-0.25))


def test_a_mapped_model_adds_its_density_once_for_each_key():
    mapped = lambda key, bends: jax.vmap(model())(split(key, 3), bends)  # noqa: E731
    bends, at = jnp.arange(3.0), values(jnp.arange(3.0), jnp.ones(3))
    expected = jnp.sum(jax.vmap(banana)(at, bends))
    assert_close(ppl.log_density(mapped)(at, bends), expected)


@pytest.mark.slow_rows("uniform")
@pytest.mark.parametrize(
    "init", ["uniform", "optimum", values()], ids=["uniform", "optimum", "values"]
)
def test_chains_find_a_banana(init):
    result = inference.mcmc(key(0), model(), BEND, init=init, num_draws=2000)
    x, y = result.draws["x"], result.draws["inner"]["y"]
    rest = y - BEND * x**2  # both are standard normal, and independent
    errors = 5 / np.sqrt(min(result.summary()[name].ess_bulk for name in ("x", "inner.y")))
    for numbers in (x, rest):
        assert abs(np.mean(numbers)) < errors
        assert abs(np.var(numbers) - 1) < 2 * errors


def test_new_data_compile_nothing():
    run = lambda bend: inference.mcmc(key(0), model(), bend, num_warmup=100, num_draws=20)  # noqa: E731
    run(0.5)
    misses = compile_program.cache_info().misses
    run(0.25)
    assert compile_program.cache_info().misses == misses


def normal(position: Any, mean: Any) -> Any:
    return -0.5 * jnp.sum((position - mean) ** 2) - 3.0


@pytest.mark.slow
def test_approximations_are_those_of_a_normal():
    made, mean = ppl.from_density(normal, jnp.zeros(2)), jnp.array([1.0, -2.0])
    mode = inference.optimize(key(0), made, mean)
    np.testing.assert_allclose(mode.values["position"], mean, atol=1e-4)
    laplace = inference.laplace(key(0), made, mean)
    np.testing.assert_allclose(laplace.log_evidence, np.log(2 * np.pi) - 3, rtol=1e-4)
    paths = inference.pathfinder(key(0), made, mean)
    np.testing.assert_allclose(np.mean(paths.draws["position"], (0, 1)), mean, atol=0.2)
    fitted = inference.svi(key(0), made, mean)
    np.testing.assert_allclose(fitted.elbo, np.log(2 * np.pi) - 3, atol=0.1)
    weighted = inference.importance(key(1), made, mean, guide=fitted)
    np.testing.assert_allclose(weighted.log_evidence, np.log(2 * np.pi) - 3, atol=0.1)


def sum_of(position: Any) -> Any:
    return jnp.sum(position["x"])


@pytest.mark.parametrize(
    ("log_density", "position", "error", "message"),
    [
        (None, {"x": 0.0}, TypeError, "must be a function of a position.* got None"),
        ({"x": 0.0}, sum_of, TypeError, "must be a function"),
        (sum_of, {}, ValueError, "at least one array, got {}"),
        (sum_of, None, ValueError, "at least one array, got None"),
        (sum_of, {"x": 1}, TypeError, r"position\['x'\] must be a floating array, got int32\[\]"),
        (sum_of, {"x": np.ones(2, int)}, TypeError, r"got int32\[2\].*discrete"),
        (sum_of, {"x": True}, TypeError, r"got bool\[\]"),
        (sum_of, {"x": 1j}, TypeError, r"got complex64\[\]"),
        (sum_of, {"x": "zero"}, TypeError, "floating array, got 'zero'"),
        (sum_of, {"x": object()}, TypeError, "floating array, got <object"),
        (sum_of, {"x": np.array(["a"])}, TypeError, r"floating array, got array\(\['a'\]"),
        (sum_of, {"x": key(0)}, TypeError, r"floating array, got key<fry>\[\]"),
        (sum_of, (0.0, [1]), TypeError, r"position\[1\]\[0\] must be"),
    ],
)
def test_what_makes_no_model_is_said(log_density, position, error, message):
    with pytest.raises(error, match=message):
        ppl.from_density(log_density, position)


@pytest.mark.parametrize(
    ("log_density", "error", "message"),
    [
        (lambda p: p["x"], ValueError, r"must return a scalar, got float32\[2\].*jnp.sum"),
        (lambda p: p["x"][:1], ValueError, r"got float32\[1\]"),
        (lambda p: None, TypeError, "must return a scalar, got None"),
        (lambda p: (0.0, 1.0), TypeError, r"must return a scalar, got \(0.0, 1.0\)"),
        (lambda p: p, TypeError, "must return a scalar, got {'x'"),
        (lambda p: "0", TypeError, "must return a scalar, got '0'"),
        (lambda p: 1, TypeError, r"must return a floating scalar, got int32\[\]"),
        (lambda p: jnp.all(p["x"] > 0), TypeError, r"floating scalar, got bool\[\]"),
        (lambda p: p["y"], KeyError, "y"),
        (lambda p, data: jnp.sum(p["x"]), TypeError, "missing 1 required positional argument"),
    ],
)
def test_what_is_no_log_density_is_said(log_density, error, message):
    made = ppl.from_density(log_density, {"x": jnp.zeros(2)})
    for run in (lambda: ppl.log_density(made)({"x": jnp.zeros(2)}), lambda: ppl.unconstrain(made)):
        with pytest.raises(error, match=message):
            run()


def test_there_is_no_prior_to_draw_from():
    message = "site '.*': a model of ppl.from_density has no prior to draw from"
    for run in (
        lambda: model()(key(0), BEND),
        lambda: ppl.simulate(model())(key(0), BEND),
        lambda: ppl.predict(model(), 3)(key(0), BEND),
        lambda: inference.mcmc(key(0), model(), BEND, init="prior"),
        lambda: inference.importance(key(0), model(), BEND),
    ):
        with pytest.raises(NotImplementedError, match=message):
            run()


def test_a_model_without_a_key_is_said():
    with pytest.raises(TypeError, match="expected one random key"):
        model()(0.5)


@pytest.mark.parametrize(
    ("log_density", "args"),
    [
        (lambda position: -(position["z"] ** 2), ()),
        (lambda x, y: -(x**2) - y**2, ()),
        (lambda position: -position["x"], (jnp.ones(3),)),
        (lambda position: 0.0 if position["x"] > 0 else -1.0, ()),
    ],
    ids=["no such key", "by argument", "one argument more", "branch of Python"],
)
def test_errors_of_the_density_say_how_it_was_called(log_density, args):
    density = jax.jit(ppl.log_density(ppl.from_density(log_density, {"x": 0.0})))
    with pytest.raises((KeyError, TypeError)) as error:
        density({"x": 1.0}, *args)
    (note,) = [note for note in error.value.__notes__ if "from_density" in note]
    assert "log_density, which is called with a position" in note
    assert "position={'x': 'float32[]'}" in note
    assert ("float32[3]" in note) == bool(args)
