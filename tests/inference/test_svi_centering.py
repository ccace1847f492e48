"""Weights of centering that svi learns with the guide, where the best ones have a closed form."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import (
    ELBO,
    ForwardKL,
    FullRank,
    ImportanceWeighted,
    MeanField,
    PointMass,
    SVIResult,
    importance,
    laplace,
    mcmc,
    optimize,
    resume,
    svi,
    svi_step,
)
from inference.drivers.svi_problem import make_problem
from inference.models.model_parameters import TargetParameters
from inference.variational.svi_step import ModelAndGuide

KEY = jax.random.key(5)
ERRORS = np.array([0.5, 2.0, 8.0])
Y = np.array([3.0, -1.0, 4.0])
# Given its datum, a level moves with the mean by the factor e^2 / (1 + e^2), for the error e. With
# the rest as its weight, the coordinate level - (1 - weight) mean does not depend on the mean.
BEST = 1 / (1 + ERRORS**2)
EVIDENCE = st.multivariate_normal(
    np.zeros(3), np.full((3, 3), 3.0**2) + np.diag(1 + ERRORS**2)
).logpdf(Y)
RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 1000, 0.5))}


def groups(key, errors):
    mean = ppl.sample(key, dist.Normal(0.0, 3.0), name="mean")
    part = lambda key: ppl.sample(  # noqa: E731
        key, dist.Normal(jnp.full(3, mean), 1.0), name="level"
    )
    level = ppl.nest(part, scope="part")(key)
    return ppl.sample(key, dist.Normal(level, errors), name="y")


def model(key, y, errors):
    learned = ppl.reparam(groups, ppl.auto_reparam)
    return ppl.condition(learned, {"y": y})(key, errors)


def floats(x):
    return jnp.asarray(x, jnp.result_type(float))


def fitted(num_steps=3000, **settings):
    settings = RATE | settings
    return svi(KEY, model, floats(Y), floats(ERRORS), num_steps=num_steps, **settings)


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize(
    ("objective", "atol"), [(ELBO(), 0.03), (ImportanceWeighted(), 0.1)], ids=str
)
def test_weights_make_the_guide_exact(objective, atol, x64):
    """With these weights the posterior has independent coordinates, as the guide has.

    A bound of several draws is nearly as high at weights around them.
    """
    fit = fitted(objective=objective, num_particles=4)
    np.testing.assert_allclose(fit.centering["part"]["level"][0], BEST, atol=atol)
    np.testing.assert_allclose(fit.elbo, EVIDENCE, atol=0.01)
    assert fit.pareto_k < 0.5
    # Precision of the mean and the levels: their priors and data.
    links = np.eye(4)[1:] - np.eye(4)[0]
    exact = np.linalg.inv(np.diag([1 / 9, *(1 / ERRORS**2)]) + links.T @ links)
    draws = np.concatenate([fit.draws["mean"][0][:, None], fit.draws["part"]["level"][0]], 1)
    np.testing.assert_allclose(np.cov(draws.T), exact, atol=0.15 * np.diag(exact).max())
    weighted = importance(KEY, model, floats(Y), floats(ERRORS), guide=fit)
    np.testing.assert_allclose(weighted.log_evidence, EVIDENCE, atol=0.02)


def test_fits_with_weights_go_on_and_are_kept(x64, tmp_path):
    """A state, a checkpoint, a file and steps of one's own have them; draws are in their space."""
    whole = fitted(num_steps=40)
    half = fitted(num_steps=20)
    same(fitted(num_steps=20, state=half.state).centering, whole.centering)
    fitted(num_steps=20, checkpoint=tmp_path / "fit")
    same(fitted(num_steps=40, checkpoint=tmp_path / "fit").centering, whole.centering)
    whole.save(tmp_path / "fit.npz")
    loaded = SVIResult.load(tmp_path / "fit.npz")
    same(loaded.centering, whole.centering)
    same(
        fitted(num_steps=0, state=loaded.state).draws, fitted(num_steps=0, state=whole.state).draws
    )
    init, update = svi_step(model, **RATE)
    state = init(KEY, floats(Y), floats(ERRORS))
    for _ in range(20):
        state, _ = update(state, floats(Y), floats(ERRORS))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9),
        state.parameters,
        half.state.parameters,
    )
    target = ppl.unconstrain(model, floats(Y), floats(ERRORS))
    weights = jax.tree.map(lambda x: x[0], half.centering)
    target = target.with_centering(weights)
    first = jax.tree.map(lambda x: x[0, 0], half.draws)
    log_density = target.log_density(target.unconstrain(first))
    np.testing.assert_allclose(half.log_density[0, 0], log_density, rtol=1e-10)


def test_results_start_fits_and_chains_in_their_own_space(x64):
    """A mode, draws and a guide of other weights give a fit the same start as their values."""
    place = model, floats(Y), floats(ERRORS)
    normal = laplace(KEY, *place)
    for init in (normal, optimize(KEY, *place), fitted(num_steps=20)):
        start = svi(KEY, *place, init=init, num_steps=1, num_draws=2, guide=FullRank())
        values = getattr(init, "values", None) or jax.tree.map(lambda x: x[0].mean(0), init.draws)
        target = ppl.unconstrain(*place).with_centering({"part": {"level": 0.5}})
        wanted = target.unconstrain(values)
        wanted = np.concatenate([np.ravel(x) for x in jax.tree.leaves(wanted)])
        loc = start.state.parameters.guide.loc
        assert np.abs(np.sort(loc) - np.sort(wanted)).max() < 0.1
    fit = fitted()
    moved = mcmc(KEY, *place, init=fit, transport=True, num_warmup=200, num_draws=500)
    assert not moved.summary().problems
    # The guide is exact, so the chains move in a standard normal space.
    assert moved.stats["num_steps"].mean() < 8


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Tempered:
    """Objective of one's own with the members of the protocol; its value is not invariant."""

    name = "tempered ELBO"
    min_particles = 1
    is_linear = needs_density = needs_paths = True

    def mean(self, log_density, guide, parameters, keys):
        def one(key):
            position = guide.sample(parameters, key)
            return 0.5 * log_density(position) - guide.log_prob(parameters, position)

        return jnp.mean(jax.vmap(one)(keys))


def test_transported_chains_are_in_the_coordinates_of_their_fit(x64):
    """Their result says so, and so they go on and are compared, with or without a strategy."""

    def spread(key, y):
        sd = ppl.sample(key, dist.HalfNormal(5.0), name="sd")
        level = ppl.sample(key, dist.Normal(jnp.zeros(3), sd), name="level")
        return ppl.sample(key, dist.Normal(level, 2.0), name="y")

    def learned(key, y):
        return ppl.condition(ppl.reparam(spread, ppl.auto_reparam), {"y": y})(key, y)

    def plain(key, y):
        return ppl.condition(spread, {"y": y})(key, y)

    y = floats(Y)
    fit = svi(KEY, learned, y, num_steps=100, guide=FullRank(), **RATE)
    weight = fit.centering["level"][0]
    for model in (learned, plain):
        numbers = {"num_warmup": 50, "num_draws": 10, "num_chains": 2}
        run = mcmc(KEY, model, y, init=fit, transport=True, **numbers)
        np.testing.assert_array_equal(run.centering["level"], [weight, weight])
        level, sd = run.draws["level"][0, -1], run.draws["sd"][0, -1]
        prior = st.halfnorm(0, 5).logpdf(sd) + st.norm(0, sd).logpdf(level).sum()
        likelihood = st.norm(level, 2).logpdf(Y).sum()
        # Of log sd and of level / sd ** (1 - weight).
        log_det = np.log(sd) * (1 + np.sum(1 - weight))
        wanted = prior + likelihood + log_det
        np.testing.assert_allclose(run.stats["log_density"][0, -1], wanted, rtol=1e-9)
        longer = resume(run, model, y, init=fit, num_draws=15)
        same(longer.draws["sd"][:, :10], run.draws["sd"])


def test_plain_models_start_in_coordinates_of_their_own(x64):
    """A guide in other coordinates stands for its draws alone."""
    fit = fitted(num_steps=20, guide=FullRank())

    def plain(key, y, errors):
        return ppl.condition(groups, {"y": y})(key, errors)

    data = floats(Y), floats(ERRORS)
    start = svi(KEY, plain, *data, init=fit, num_steps=1, num_draws=2, guide=FullRank())
    level = fit.draws["part"]["level"][0]
    wanted = np.concatenate([fit.draws["mean"][0].mean()[None], level.mean(0)])
    np.testing.assert_allclose(start.state.parameters.loc, wanted, atol=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {"guide": PointMass()},
        {"objective": ForwardKL(), "num_particles": 8},
        {"objective": Tempered()},
    ],
    ids=["mode", "other objective", "objective of one's own"],
)
def test_objectives_that_say_nothing_of_weights_leave_them(settings):
    """The mode of a centered form may be infinitely high."""
    fit = fitted(num_steps=20, **settings)
    assert fit.centering == {}


def test_guides_of_ones_own_know_no_coordinates():
    """A function draws values of sites."""

    def guide(key, y, errors):
        ppl.sample(key, dist.Normal(ppl.param(0.0, name="loc"), 1.0), name="mean")
        part = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="level")  # noqa: E731
        ppl.nest(part, scope="part")(key)

    assert fitted(num_steps=20, guide=guide).centering == {}


def with_noise(key, y, errors):
    noise = ppl.param(floats(1.0), name="noise")

    def noisy(key):
        return groups(key, errors * noise)

    return ppl.condition(ppl.reparam(noisy, ppl.auto_reparam), {"y": y})(key)


def test_an_objective_of_ones_own_fits_parameters(x64):
    """Its log density counts half, so its gradient by a parameter is half that of the ELBO."""

    def simple(key, y):
        z = ppl.sample(key, dist.Normal(ppl.param(floats(0.5), name="loc"), 1.0), name="z")
        ppl.factor(dist.Normal(z, 2.0).log_prob(y), name="y")

    keys = jax.random.split(KEY, 3)
    gradients = []
    for objective in (Tempered(), ELBO()):
        problem = make_problem(KEY, simple, (floats(1.5),), {}, MeanField(), None, 3, objective)
        of_guide = problem.guide.init(jnp.zeros(1), problem.layout)
        at = ModelAndGuide(TargetParameters({"loc": floats(0.3)}, None), of_guide)
        gradient = jax.jit(jax.grad(lambda at, problem=problem: problem.elbo(at, keys)))(at)
        gradients.append(gradient.model.by_name["loc"])
    np.testing.assert_allclose(gradients[0], gradients[1] / 2, rtol=1e-10)


def test_weights_are_learned_from_batches_beside_parameters(x64):
    """A model with a parameter of its own, given batches that are all data."""
    data = floats(Y), floats(ERRORS)
    whole = svi(KEY, with_noise, *data, num_steps=50, **RATE)
    fed = svi(KEY, with_noise, batches=[data], num_steps=50, **RATE)
    drawn = svi(KEY, with_noise, *data, batch=lambda key, *data: data, num_steps=50, **RATE)
    for fit in (fed, drawn):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9),
            (fit.centering, fit.model_parameters),
            (whole.centering, whole.model_parameters),
        )
    assert set(whole.model_parameters) == {"noise"}
