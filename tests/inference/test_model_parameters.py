"""svi on models that have parameters themselves: gradients, maximum likelihood, results, files."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special

import distributions as dist
import ppl
from distributions import constraints
from inference import (
    ELBO,
    ForwardKL,
    FullRank,
    ImportanceWeighted,
    MeanField,
    Renyi,
    SVIResult,
    importance,
    mcmc,
    svi,
    svi_step,
)
from inference.common.state_leaves import kinds
from inference.drivers.svi_problem import make_problem
from inference.models.model_parameters import TargetParameters, make_parametric_target
from inference.variational.svi_step import ModelAndGuide

Y = np.random.default_rng(0).normal(1.5, 2.0, size=40)
KEY = jax.random.key(0)
RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 1000, 0.5))}


def floats(x):
    return jnp.asarray(x, jnp.result_type(float))


def prior_predictive(key, n):
    """Marginally, y has mean `level` and variance ``1 + noise**2``."""
    level = ppl.param(floats(0.0), name="level")
    part = lambda key: ppl.param(floats(1.0), name="noise", support=constraints.positive)  # noqa: E731
    noise = ppl.nest(part, scope="part")(key)
    z = ppl.sample(key, dist.Normal(level * jnp.ones(n), 1.0), name="z")
    return ppl.sample(key, dist.Normal(z, noise), name="y")


def model(key, y):
    return ppl.condition(prior_predictive, {"y": y})(key, len(y))


def guide(key, y):
    """The exact posterior is in the family."""
    slope, offset = (ppl.param(floats(0.1), name=name) for name in ("slope", "offset"))
    sd = ppl.param(floats(1.0), name="sd", support=constraints.positive)
    return ppl.sample(key, dist.Normal(slope * y + offset, sd), name="z")


def likelihood_estimates():
    """The level and the noise of maximum likelihood."""
    return {"level": Y.mean(), "part": {"noise": np.sqrt(Y.var() - 1)}}


def evidence(level, noise):
    return dist.Normal(level, np.sqrt(1 + noise**2)).log_prob(Y).sum()


def problem_of(guide):
    return make_problem(KEY, model, (floats(Y),), {}, guide, None, 2, ELBO())


def test_gradients_are_those_of_the_elbo_by_hand(x64):
    """At draws made by hand from the same noise, with respect to all parameters."""
    problem = problem_of(MeanField())
    keys = jax.random.split(KEY, 2)
    positions = jnp.linspace(-1.0, 1.0, 40)
    start = MeanField().init(positions, problem.layout)
    of_model = {"level": floats(0.3), "part": {"noise": floats(-0.2)}}
    parameters = ModelAndGuide(TargetParameters(of_model, None), start)
    unit = start._replace(loc=jnp.zeros(40), log_scale=jnp.zeros(40))
    noise = jnp.stack([MeanField().sample(unit, key) for key in keys])
    normal = jax.scipy.stats.norm.logpdf

    def by_hand(parameters):
        level, sd = (
            parameters.model.by_name["level"],
            jnp.exp(parameters.model.by_name["part"]["noise"]),
        )
        loc, log_scale = parameters.guide
        entropy = jnp.sum(log_scale + 0.5 * jnp.log(2 * jnp.pi * jnp.e))
        each = [loc + jnp.exp(log_scale) * x for x in noise]
        densities = [(normal(z, level, 1.0) + normal(floats(Y), z, sd)).sum() for z in each]
        return sum(densities) / 2 + entropy

    # The map from unconstrained space is the support's own; its Jacobian is no part of the ELBO.
    sd = constraints.positive.bijector.forward(parameters.model.by_name["part"]["noise"])
    np.testing.assert_allclose(sd, jnp.exp(-0.2), rtol=1e-12)
    both = lambda f: jax.value_and_grad(f)(parameters)  # noqa: E731
    found, expected = jax.jit(lambda: (both(lambda p: problem.elbo(p, keys)), both(by_hand)))()
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), found, expected)


@pytest.mark.parametrize(
    "objective",
    [ImportanceWeighted(), ImportanceWeighted(False), Renyi(0.5), ForwardKL()],
    ids=str,
)
def test_gradients_of_bounds_of_several_draws(objective, x64):
    """For the model the mean of its gradients by weight; for the guide that of a fixed model."""
    keys = jax.random.split(KEY, 5)
    place = KEY, model, (floats(Y[:3]),), {}, MeanField(), None, 5, objective
    problem = make_problem(*place)
    of_guide = MeanField().init(jnp.linspace(-1.0, 1.0, 3), problem.layout)
    of_model = {"level": floats(0.3), "part": {"noise": floats(-0.2)}}
    parameters = ModelAndGuide(TargetParameters(of_model, None), of_guide)
    gradient = jax.jit(jax.grad(lambda p: problem.elbo(p, keys)))
    found = gradient(parameters)

    def log_weights(of_model):
        at = problem.parametric.at(problem.target, TargetParameters(of_model, None))
        draws = [MeanField().sample(of_guide, key) for key in keys]
        return jnp.stack(
            [at.log_density({"z": z}) - MeanField().log_prob(of_guide, z) for z in draws]
        )

    power = 1.0 - getattr(objective, "alpha", 0.0)
    weights = scipy.special.softmax(power * np.asarray(log_weights(of_model)))
    slopes = jax.jacobian(log_weights)(of_model)
    expected = jax.tree.map(lambda x: weights @ np.asarray(x), slopes)
    np.testing.assert_allclose(found.model.by_name["level"], expected["level"], rtol=1e-9)
    noise = found.model.by_name["part"]["noise"], expected["part"]["noise"]
    np.testing.assert_allclose(*noise, rtol=1e-9)
    fixed = ppl.with_params(model, problem.parametric.values(problem.target, parameters.model))
    alone = make_problem(KEY, fixed, *place[2:])
    wanted = jax.jit(jax.grad(lambda p: alone.elbo(p, keys)))(of_guide)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9), found.guide, wanted
    )


@pytest.mark.slow_rows("mean field")
@pytest.mark.parametrize("family", [MeanField(), guide], ids=["mean field", "function"])
def test_parameters_of_maximum_likelihood_are_found(family, x64):
    """Both guides hold the posterior, so that the ELBO is the likelihood at its maximum."""
    result = svi(KEY, model, floats(Y), guide=family, num_steps=3000, num_draws=50, **RATE)
    expected = likelihood_estimates()
    found = result.model_parameters
    np.testing.assert_allclose(found["level"], expected["level"], atol=0.02)
    np.testing.assert_allclose(found["part"]["noise"], expected["part"]["noise"], rtol=0.02)
    best = evidence(expected["level"], expected["part"]["noise"])
    np.testing.assert_allclose(result.elbo, best, atol=0.1)
    assert set(result.draws) == {"z"}
    fitted = ppl.with_params(model, found)
    weighted = importance(KEY, fitted, floats(Y), guide=result, num_draws=100)
    of_found = evidence(found["level"], found["part"]["noise"])
    np.testing.assert_allclose(weighted.log_evidence, of_found, atol=0.1)


def quick(seed=0, **settings):
    settings = {"num_steps": 30, "num_draws": 5, "guide": guide} | settings
    return svi(jax.random.key(seed), model, floats(Y), **settings)


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.slow_rows("mean field")
@pytest.mark.parametrize("family", [MeanField(), guide], ids=["mean field", "function"])
def test_a_fit_goes_on_and_is_kept(family, tmp_path):
    whole, first = quick(guide=family, num_steps=60), quick(guide=family)
    first.save(tmp_path / "fit")
    given = {"guide": guide} if family is guide else {}
    loaded = SVIResult.load(tmp_path / "fit", **given)
    assert_same(jax.tree.leaves(loaded.state), jax.tree.leaves(first.state))
    assert_same(loaded.model_parameters, first.model_parameters)
    assert str(loaded.summary()) == str(first.summary())
    rest = quick(guide=family, state=loaded.state)
    assert_same((rest.state, rest.parameters), (whole.state, whole.parameters))
    fitted = [
        ppl.with_params(prior_predictive, x.model_parameters)(KEY, 4) for x in (first, loaded)
    ]
    assert_same(*fitted)
    if family is guide:
        assert_same(*(x.guide_function()(KEY, floats(Y)) for x in (first, loaded)))
        weighted = [
            importance(KEY, ppl.with_params(model, x.model_parameters), floats(Y), guide=x)
            for x in (first, loaded)
        ]
        assert_same(*(x.log_weights for x in weighted))
        assert repr(loaded) == repr(first)


def test_parameters_are_found_without_draws_or_densities():
    """Of all data, operation by operation, they would take long."""
    seen = []

    def counted(key, y):
        level = ppl.param(floats(0.5), name="level")
        z = ppl.sample(key, dist.Normal(level, 1.0), name="z")
        tell = lambda x: (seen.append(x), x)[1]  # noqa: E731
        value = jax.pure_callback(tell, jax.ShapeDtypeStruct((), z.dtype), z)
        ppl.factor(jnp.sum(dist.Normal(value, 1.0).log_prob(y)), name="y")

    _, found = make_parametric_target(
        counted, (floats(Y),), {}, is_function=False, learns_centering=True
    )
    assert found is not None
    assert_same(found.initial.by_name, {"level": floats(0.5)})
    assert not seen


def test_steps_and_batches_fit_parameters_too():
    """Alike, up to rounding: one step is another program than many."""
    init, update = svi_step(model, guide=guide)
    state = init(KEY, floats(Y))
    for _ in range(30):
        state, _ = update(state, floats(Y))
    assert_same(quick(batches=[floats(Y)]).state, state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), state, quick().state)
    drawn = quick(batch=lambda key, y: y[jax.random.randint(key, (7,), 0, 40)])
    assert np.isfinite(drawn.elbos).all()
    assert drawn.model_parameters["level"] != quick().model_parameters["level"]


@jax.tree_util.register_pytree_node_class
class Both:
    """A tree of JAX that files do not know."""

    def __init__(self, *parts):
        self.parts = parts

    def tree_flatten(self):
        return self.parts, None

    @classmethod
    def tree_unflatten(cls, _, parts):
        return cls(*parts)


def test_kinds_of_parameters_name_no_address():
    one, other = Both(floats(0.2), floats(1.0)), Both(floats(0.3), floats(2.0))
    assert kinds({"tree": one}) == kinds({"tree": other})
    assert kinds({"tree": one}) != kinds({"tree": Both(floats(0.2), floats([1.0]))})


@pytest.mark.slow
def test_a_guide_from_a_file_gets_its_structure_back(tmp_path):
    def tree_guide(key, y):
        slope, log_sd = ppl.param(Both(floats(0.2), floats(1.0)), name="tree").parts
        return ppl.sample(key, dist.Normal(slope * y, jnp.exp(log_sd)), name="z")

    quick(guide=tree_guide).save(tmp_path / "fit")
    loaded = SVIResult.load(tmp_path / "fit", guide=tree_guide)
    again = quick(guide=tree_guide)
    assert_same(*(x.guide_function()(KEY, floats(Y)) for x in (loaded, again)))
    fitted = ppl.with_params(model, loaded.model_parameters)
    weighted = [importance(KEY, fitted, floats(Y), guide=x, num_draws=9) for x in (loaded, again)]
    assert_same(*(x.log_weights for x in weighted))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OwnGuide(MeanField):
    """A guide of a class that files do not know."""


@pytest.mark.slow
def test_a_guide_of_ones_own_is_given_when_loading(tmp_path):
    result = quick(guide=OwnGuide())
    result.save(tmp_path / "fit")
    loaded = SVIResult.load(tmp_path / "fit", guide=OwnGuide())
    assert loaded.guide == OwnGuide()
    fitted = ppl.with_params(model, loaded.model_parameters)
    weighted = [importance(KEY, fitted, floats(Y), guide=x, num_draws=9) for x in (loaded, result)]
    assert_same(*(x.log_weights for x in weighted))
    with pytest.raises(TypeError, match=r"the guide OwnGuide.* is of a file"):
        SVIResult.load(tmp_path / "fit").guide_function()


def test_what_a_file_needs_is_named(tmp_path):
    path = tmp_path / "fit"
    quick().save(path)
    loaded = SVIResult.load(path)
    with pytest.raises(TypeError, match=r"the guide guide is of a file.*load\(path, guide=guide\)"):
        loaded.guide_function()
    with pytest.raises(TypeError, match="guide must be a guide"):
        SVIResult.load(path, guide=3)
    with pytest.raises(ValueError, match=r"is of the guide guide, got guide=model$"):
        SVIResult.load(path, guide=model)
    quick(guide=MeanField()).save(path)
    with pytest.raises(ValueError, match="keeps its guide, MeanField"):
        SVIResult.load(path, guide=guide)


def test_only_svi_finds_parameters():
    with pytest.raises(ValueError, match=r"'level', made by ppl.param: .*inference\.svi alone"):
        mcmc(KEY, model, floats(Y))
    with pytest.raises(ValueError, match=r"'level', made by ppl.param.*ppl\.with_params"):
        importance(KEY, model, floats(Y), guide=quick())


def test_one_name_in_model_and_guide_is_refused():
    def same(key, y):
        return ppl.sample(key, dist.Normal(y, jnp.exp(ppl.param(0.0, name="level"))), name="z")

    with pytest.raises(ValueError, match="model and guide same both have the parameter 'level'"):
        quick(guide=same)
    only = lambda key: ppl.sample(key, dist.Normal(ppl.param(0.0, name="a"), 1.0), name="z")  # noqa: E731
    with pytest.raises(ValueError, match="has no latent site"):
        svi(KEY, ppl.condition(only, {"z": 0.0}))


@pytest.mark.slow
def test_parameters_at_the_edge_of_their_support_are_named():
    def edge(key):
        sd = ppl.param(floats(1e-9), name="sd", support=constraints.positive)
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        ppl.factor(-1e6 * sd * (1.0 + z**2), name="f")

    problems = svi(KEY, edge, num_steps=100, num_draws=10).summary().problems
    assert any("parameter sd is at the edge of its support (-2" in x for x in problems), problems


@pytest.mark.slow
def test_a_parameter_without_a_number_is_named():
    def broken(key):
        a = ppl.param(floats([1.0, 0.0]), name="a")
        ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        ppl.factor(jnp.sum(jnp.sqrt(a)), name="f")

    with pytest.raises(ValueError, match=re.escape("respect to 'model.a' is inf at 1 of 2")):
        svi(KEY, broken, guide=FullRank())


def test_with_params_takes_what_a_function_has():
    values = {"level": 2.0, "part": {"noise": 3.0}, "more": 1.0}
    fitted = ppl.with_params(prior_predictive, values)
    site = ppl.trace(fitted)(KEY, 2).sites
    np.testing.assert_array_equal(site["z"].distribution.loc, [2.0, 2.0])
    np.testing.assert_array_equal(site["y"].distribution.scale, 3.0)
    assert not ppl.reap(fitted, tag="param_value")(KEY, 2)
    with pytest.raises(ValueError, match="has no parameter 'levl': did you mean 'level'"):
        ppl.with_params(prior_predictive, {"levl": 2.0, "part": {"noise": 3.0}})(KEY, 2)
    with pytest.raises(ValueError, match="'guide' has none of the parameters 'level', 'part', 'm"):
        ppl.with_params(guide, values)(KEY, floats(Y))
    with pytest.raises(TypeError, match="expected a dict of values by name"):
        ppl.with_params(guide, [1.0])
