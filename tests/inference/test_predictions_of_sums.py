"""Data drawn anew for a marginalized model: with the sites that were taken out, drawn as well."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl
from inference import MCMCResult

KEY = jax.random.key(0)
NUM_DRAWS = 2000
B = 0.5  # in all draws of the posterior
STATES = {"z": ppl.Enumerate(), "u": ppl.Gaussian()}


def groups(key):
    """Elements with a state of their own, and a shared level; two sites of data of each."""
    b = ppl.sample(key, dist.Normal(B, 1e-3), name="b")
    u = ppl.sample(key, dist.Normal(1.0, 2.0), name="u")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(2, 0.3)), name="z")
    ppl.sample(key, dist.Normal(b + 4.0 * z + u, 1.0), name="y")
    ppl.sample(key, dist.Normal(2.0 * z - u, 0.5), name="w")


def moments_of_groups():
    """Mean and covariance of y[0], y[1], w[0], w[1]."""
    by_z = np.kron([[4.0], [2.0]], np.eye(2)), 0.3 * 0.7 * np.eye(2)
    by_u = np.array([1.0, 1.0, -1.0, -1.0])
    covariance = by_z[0] @ by_z[1] @ by_z[0].T + 4 * np.outer(by_u, by_u)
    mean = np.array([B + 1.2 + 1, B + 1.2 + 1, 0.6 - 1, 0.6 - 1])
    return mean, covariance + np.diag([1, 1, 0.25, 0.25])


def chain(key, b):
    """Two steps of a chain of states, which stays where it is with the probability 0.8."""

    def step(z, key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, 0.8, 0.2)), name="z")
        return z, ppl.sample(key, dist.Normal(b + 4.0 * z, 1.0), name="y")

    z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="start")
    jax.lax.scan(step, z, jax.random.split(key))


OUT_OF_CHAIN = ["start", "z"]
Y_OF_CHAIN = np.array([0.0, 2.0])


def chains_with_data(key):
    """Chains under `vmap`, each marginalized with its data."""
    b = ppl.sample(key, dist.Normal(B, 1e-3), name="b")

    def one(key):
        ppl.marginalize(ppl.condition(chain, {"y": Y_OF_CHAIN}), OUT_OF_CHAIN)(key, b)

    jax.vmap(one)(jax.random.split(key))


def chains(key):
    b = ppl.sample(key, dist.Normal(B, 1e-3), name="b")
    part = ppl.nest(ppl.marginalize(chain, OUT_OF_CHAIN), scope="part")
    jax.vmap(lambda key: part(key, b))(jax.random.split(key))


def moments_of_chains():
    one = 16 * 0.25 * np.array([[1, 0.6], [0.6, 1]]) + np.eye(2)
    return np.full(4, B + 2), np.kron(np.eye(2), one)


DATA = {"y": np.array([0.0, 1.0]), "w": ppl.ignore(np.array([np.nan, 0.5]))}
CASES = {
    "data before": (
        ppl.marginalize(ppl.condition(groups, DATA), STATES),
        moments_of_groups,
    ),
    "data after": (
        ppl.condition(ppl.marginalize(groups, STATES), {"y": np.zeros(2), "w": np.zeros(2)}),
        moments_of_groups,
    ),
    "gaps inferred": (
        ppl.condition(
            ppl.marginalize(groups, {"z": ppl.Enumerate(), "u": ppl.Laplace()}),
            {"y": np.zeros(2), "w": ppl.impute(np.array([0.0, np.nan]))},
        ),
        moments_of_groups,
    ),
    "within vmap": (chains_with_data, moments_of_chains),
    "within a scope": (
        ppl.condition(chains, {"part": {"y": np.stack([Y_OF_CHAIN, Y_OF_CHAIN])}}),
        moments_of_chains,
    ),
}


@pytest.mark.slow_rows("gaps inferred", "data after")
@pytest.mark.parametrize("case", CASES)
def test_predictions_have_the_moments_of_the_full_model(case):
    """Means of errors and of their products, each within 5.5 of its standard errors: p < 1e-6."""
    model, moments = CASES[case]
    draws: dict[str, np.ndarray] = {"b": np.full((1, NUM_DRAWS), B)}
    if case == "gaps inferred":
        draws["w"] = np.zeros((1, NUM_DRAWS, 2))
    wanted = ("prior_predictive", "posterior_predictive")
    data = MCMCResult(draws, {}, None).to_arviz(
        model, key=KEY, groups=wanted, num_prior_draws=NUM_DRAWS
    )
    mean, covariance = moments()
    for group in wanted:
        sites = [data[group][name].values for name in ("y", "w", "part.y") if name in data[group]]
        errors = np.concatenate([x.reshape(NUM_DRAWS, -1) for x in sites], 1) - mean
        products = errors[:, :, None] * errors[:, None] - covariance
        for x in (errors, products):
            assert np.all(np.abs(x.mean(0)) < 5.5 * x.std(0) / np.sqrt(NUM_DRAWS))


def test_data_that_share_a_sum_with_draws_are_refused():
    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        w = ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="w")
        ppl.sample(key, dist.Normal(w + z, 1.0), name="y")

    posterior = ppl.marginalize(ppl.condition(model, {"y": 0.0}), ["z"])
    result = MCMCResult({"w": np.zeros((1, 2))}, {}, None)
    with pytest.raises(ValueError, match=r"'y' cannot be drawn given 'w'.*ppl\.recover") as caught:
        result.to_arviz(posterior, key=KEY)
    assert "groups=" in caught.value.__notes__[0]


def test_what_was_taken_out_stands_in_the_posterior_group():
    """The frequency of a state at each draw is the probability that Bayes' rule gives."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

        def one(key):
            z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
            ppl.deterministic(z + mu, name="center")
            ppl.sample(key, dist.Normal(2.0 * z + mu, 1.0), name="y")

        jax.vmap(one, axis_name="person")(jax.random.split(key, 3))

    y = np.array([-1.0, 0.5, 1.5], np.float32)
    posterior = ppl.marginalize(ppl.condition(model, {"y": y}), ["z"])
    mu = np.linspace(-0.5, 0.5, 2).astype("f4")[:, None] * np.ones((2, 4000), "f4")
    result = MCMCResult({"mu": mu}, {}, None)
    found = result.to_arviz(posterior, key=KEY, groups=["posterior"])["posterior"]
    assert found["z"].dims == found["center"].dims == ("chain", "draw", "person")
    weights = [p * stats.norm.pdf(y, 2.0 * z + mu[:, :1], 1.0) for z, p in enumerate((0.7, 0.3))]
    exact = weights[1] / sum(weights)
    error = np.sqrt(exact * (1 - exact) / 4000)
    assert (abs(found["z"].values.mean(1) - exact) < 4 * error).all()
    np.testing.assert_allclose(found["center"], found["z"] + mu[..., None], rtol=1e-6)
    assert {*result.to_arviz(posterior)["posterior"].data_vars} == {"mu"}
    few = result.to_arviz(posterior, key=KEY, groups=["observed_data"])
    assert {*few["posterior"].data_vars} == {"mu"}


def test_sites_of_laplace_are_not_in_the_posterior_group():
    """They would need weights."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        w = ppl.sample(key, dist.Normal(mu, 1.0), name="w")
        ppl.sample(key, dist.Poisson(jnp.exp(w)), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": 3}), {"w": ppl.Laplace()})
    result = MCMCResult({"mu": np.zeros((1, 8), "f4")}, {}, None)
    found = result.to_arviz(summed, key=KEY, groups="posterior")["posterior"]
    assert {*found.data_vars} == {"mu"}
