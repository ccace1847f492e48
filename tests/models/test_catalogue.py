"""The catalogue of models: densities and gradients equal those written by hand, to 1e-10."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats as st
from scipy.special import logsumexp

import ppl
from examples.catalogue import MODELS, join
from tests.language.checks import assert_close, assert_equal, shapes

EVERY_MODEL = pytest.mark.parametrize("entry", MODELS.values(), ids=MODELS)
OURS = {"dist", "distributions", "inference", "ppl", "tfd", "tfp"}


def names_in(code: types.CodeType) -> set[str]:
    inner = (names_in(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)


def arrays(entry):
    return jax.tree.map(jnp.asarray, entry.data())


def test_there_are_forty_models():
    assert len(MODELS) == 40
    assert len({entry.model for entry in MODELS.values()}) == 40
    assert len({entry.inner for entry in MODELS.values()}) == 40


@EVERY_MODEL
def test_data_are_the_same_every_time(entry):
    assert_equal(entry.data(), entry.data())


@EVERY_MODEL
def test_density_by_hand_is_independent_of_the_library(entry):
    assert names_in(entry.model.__code__) & OURS
    assert not names_in(entry.inner.__code__) & OURS


@pytest.mark.quick_rows(
    "eight_schools_noncentered",
    "local_level",
    "autoregression",
    "eight_schools_centered",
    "threshold_autoregression",
    "logistic_regression",
)
@EVERY_MODEL
def test_density_and_gradient(entry, x64):
    args, observed = arrays(entry)
    posterior = ppl.condition(entry.model, observed)
    target = ppl.unconstrain(posterior, *args)

    @jax.jit
    def both(position):
        values = target.constrain(position)
        by_hand = lambda values: entry.density(join(values, observed), *args)  # noqa: E731
        ours = lambda values: ppl.log_density(posterior)(values, *args)  # noqa: E731
        return jax.value_and_grad(ours)(values), jax.value_and_grad(by_hand)(values)

    rng = np.random.default_rng(1)
    avals = jax.eval_shape(target.initial, jax.random.key(0))
    for _ in range(3):
        position = jax.tree.map(lambda x: rng.uniform(-2, 2, x.shape).astype(x.dtype), avals)
        actual, expected = both(position)
        assert np.isfinite(expected[0])
        assert_close(actual, expected)


def test_the_time_of_the_change_is_summed_over(x64):
    """The density by hand is in the model's own form: against the sum itself."""
    entry = MODELS["changepoint"]
    (count,), _ = entry.data()
    early, late = 2.5, 1.25
    each = [
        st.poisson(early).logpmf(count[:n]).sum() + st.poisson(late).logpmf(count[n:]).sum()
        for n in range(1, count.size)
    ]
    prior = st.expon(scale=2).logpdf([early, late]).sum()
    truth = prior + logsumexp(each) - np.log(len(each))
    found = ppl.log_density(entry.model)({"early": early, "late": late}, jnp.asarray(count))
    np.testing.assert_allclose(found, truth, rtol=1e-12)


@pytest.mark.slow
@EVERY_MODEL
def test_out_of_the_support_of_each_site(entry, x64):
    """Both are -inf there, with finite gradients; of the sites by hand, and of no others."""
    args, observed = arrays(entry)
    target = ppl.unconstrain(ppl.condition(entry.model, observed), *args)
    values = target.constrain(target.initial(jax.random.key(0)))

    @jax.jit
    def both(values, observed):
        by_hand = lambda values: entry.density(join(values, observed), *args)  # noqa: E731
        posterior = ppl.condition(entry.model, observed)
        ours = lambda values: ppl.log_density(posterior)(values, *args)  # noqa: E731
        return jax.value_and_grad(ours)(values), jax.value_and_grad(by_hand)(values)

    assert set(entry.supports) <= set(values) | set(observed)
    for name, value in (values | observed).items():
        outside = {name: jax.tree.map(lambda x: -1 - abs(x), value)}
        of_latent, of_observed = ({**x, **outside} if name in x else x for x in (values, observed))
        for log_density, gradient in both(of_latent, of_observed):
            assert (log_density == -np.inf) == (name in entry.supports), name
            assert all(np.isfinite(x).all() for x in jax.tree.leaves(gradient)), name


@pytest.mark.slow
@EVERY_MODEL
def test_above_the_support_of_data(entry):
    args, observed = arrays(entry)
    target = ppl.unconstrain(ppl.condition(entry.model, observed), *args)
    values = target.constrain(target.initial(jax.random.key(0)))
    above = jax.tree.map(lambda x: x + 1000, observed)
    ours = ppl.log_density(ppl.condition(entry.model, above))(values, *args)
    by_hand = entry.density(join(values, above), *args)
    assert (ours == -np.inf) == (by_hand == -np.inf)


@pytest.mark.slow_rows(
    "radon",
    "threshold_autoregression",
    "stochastic_volatility",
    "capture_recapture",
    "neural_network",
)
@EVERY_MODEL
def test_simulate_gives_every_site(entry, x64):
    args, observed = arrays(entry)
    target = ppl.unconstrain(ppl.condition(entry.model, observed), *args)
    values = jax.eval_shape(lambda key: target.constrain(target.initial(key)), jax.random.key(0))
    drawn = jax.eval_shape(ppl.simulate(entry.model), jax.random.key(0), *args)
    assert shapes(drawn) == shapes(join(values, observed))


@pytest.mark.slow
@EVERY_MODEL
def test_simulated_data_have_a_density(entry):
    args, _ = arrays(entry)
    drawn = jax.jit(ppl.simulate(entry.model))(jax.random.key(1), *args)
    assert np.isfinite(jax.jit(entry.density)(drawn, *args))
