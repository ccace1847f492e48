"""Weights of centering that svi learns with the guide, where the best ones have a closed form."""

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
    PointMass,
    SVIResult,
    importance,
    laplace,
    mcmc,
    optimize,
    svi,
    svi_step,
)

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


@pytest.mark.parametrize(
    "settings",
    [
        {"guide": PointMass()},
        {"objective": ForwardKL(), "num_particles": 8},
    ],
    ids=["mode", "other objective"],
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


def test_weights_are_learned_from_batches_beside_parameters(x64):
    """A model with a parameter of its own, given batches that are all data."""

    def with_noise(key, y, errors):
        noise = ppl.param(floats(1.0), name="noise")

        def noisy(key):
            return groups(key, errors * noise)

        return ppl.condition(ppl.reparam(noisy, ppl.auto_reparam), {"y": y})(key)

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
