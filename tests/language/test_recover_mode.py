"""recover with mode=True: the most probable values of sites that were taken out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from tests.language.sums import SUMS
from tests.language.test_marginalize import sum_by_force, values_of

pytestmark = pytest.mark.usefixtures("x64")
KEY = jax.random.key(0)
QUICK = ["markov_from_site", "coupled", "rows_and_columns", "factors"]


@pytest.mark.quick_rows(*QUICK)
@pytest.mark.parametrize("case", SUMS, ids=lambda case: case.name)
def test_no_other_states_are_more_probable(case):
    """Of all joint states, one by one; where two have one density, either will do."""
    log_densities, joint = sum_by_force(case)
    values = values_of(case)
    summed = ppl.marginalize(case.posterior(), list(case.summed))
    draws = jax.tree.map(lambda x: x[None], values)
    found = ppl.recover(summed, draws, mode=True)(KEY)
    every = np.asarray(jax.jit(log_densities)(values))
    here = np.ones(len(every), bool)
    for name, states in joint.items():
        assert found[name].dtype == states.dtype
        here &= (states == found[name]).reshape(len(every), -1).all(1)
    (place,) = np.flatnonzero(here)
    np.testing.assert_allclose(every[place], every.max(), rtol=1e-12)


@pytest.mark.parametrize("length", [1, 6])
def test_the_path_of_a_chain_is_that_of_viterbi(length):
    """Where the most probable state of each step by itself would be another."""
    to = np.array([[0.6, 0.4, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5]])

    def model(key):
        def step(z, key):
            z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(to)[z]), name="z")
            ppl.sample(key, dist.Normal(1.0 * z, scale), name="y")
            return z, None

        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        jax.lax.scan(step, 0, jax.random.split(key, length))

    rng = np.random.default_rng(1)
    y = rng.normal(1.0, 1.0, size=length)
    scales = np.array([[0.3, 1.0, 3.0]])
    summed = ppl.marginalize(ppl.condition(model, {"y": y}), ["z"])
    found = np.asarray(ppl.recover(summed, {"scale": scales}, mode=True)(KEY)["z"])
    assert found.shape == (1, 3, length)
    for i, scale in enumerate(scales[0]):
        with np.errstate(divide="ignore"):
            logs = np.log(to)
        best = np.where(np.arange(3) == 0, 0.0, -np.inf)
        back = []
        for at in y:
            scores = best[:, None] + logs - 0.5 * ((at - np.arange(3)) / scale) ** 2
            back.append(scores.argmax(0))
            best = scores.max(0)
        path = [int(best.argmax())]
        for origins in back[:0:-1]:
            path.append(int(origins[path[-1]]))
        np.testing.assert_array_equal(found[0, i], path[::-1])


def normal_pair(key):
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    x = ppl.sample(key, dist.Normal(jnp.full(3, level), scale), name="x")
    ppl.deterministic(2 * x, name="twice")
    return ppl.sample(key, dist.Normal(x, 0.7), name="y")


@pytest.mark.parametrize("strategy", [ppl.Gaussian(), ppl.Laplace()])
def test_the_mode_of_normal_sites_is_their_joint_mean(strategy):
    posterior = ppl.condition(normal_pair, {"y": jnp.array([1.0, 2.5, -0.5])})
    integrated = ppl.marginalize(posterior, {"level": strategy, "x": strategy})
    found = ppl.recover(integrated, {"scale": 0.8}, mode=True)(KEY)
    np.testing.assert_array_equal(found["twice"], 2 * found["x"])
    at = {"level": found["level"], "x": found["x"]}
    slope = jax.grad(lambda z: ppl.log_density(posterior)({"scale": 0.8, **z}))(at)
    for name in at:
        np.testing.assert_allclose(slope[name], 0.0, atol=1e-9)


def mixture(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.4), (3,)), name="z")
    return ppl.sample(key, dist.Normal(mu + 4.0 * z, 1.0), name="y")


def test_modes_within_functions_and_vmap():
    """Each element of a vmap has a mode of its own, as have two models side by side."""
    y = jnp.array([[0.0, 4.0, 9.0], [4.0, 4.0, -3.0]])

    def each(key, y):
        return ppl.condition(ppl.marginalize(mixture, ["z"]), {"y": y})(key)

    def both(key):
        keys = jax.random.split(key)
        jax.vmap(ppl.nest(each, scope="groups"))(keys, y)
        ppl.nest(each, scope="single")(key, y[0])

    draws = {"groups": {"mu": jnp.zeros((5, 2))}, "single": {"mu": jnp.zeros(5)}}
    found = ppl.recover(both, draws, mode=True)(KEY)
    expected = np.broadcast_to([[0, 1, 1], [1, 1, 0]], (5, 2, 3))
    np.testing.assert_array_equal(found["groups"]["z"], expected)
    np.testing.assert_array_equal(found["single"]["z"], expected[:, 0])


def test_equally_probable_states_give_one_of_them():
    def model(key):
        first = ppl.sample(key, dist.Bernoulli(probs=0.5), name="first")
        second = ppl.sample(key, dist.Bernoulli(probs=0.5), name="second")
        ppl.factor(jnp.where(first != second, 0.0, -9.0), name="differ")

    found = ppl.recover(ppl.marginalize(model, ["first", "second"]), {}, mode=True)(KEY)
    assert int(found["first"]) + int(found["second"]) == 1


def test_modes_of_sites_taken_out_in_turn_are_refused():
    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.4), name="z")
        x = ppl.sample(key, dist.Normal(3.0 * z, 1.0 + z), name="x")
        return ppl.sample(key, dist.Normal(x, 1.0), name="y")

    posterior = ppl.condition(model, {"y": 1.0})
    mixed = ppl.marginalize(posterior, {"z": ppl.Enumerate(), "x": ppl.Gaussian()})
    with pytest.raises(ValueError, match=r"recover: mode=True: .* has 'z' taken out after 'x'"):
        ppl.recover(mixed, {}, mode=True)(KEY)
    in_turn = ppl.marginalize(ppl.marginalize(normal_pair, {"x": ppl.Gaussian()}), {})
    with pytest.raises(ValueError, match="log_weights=True gives weights of draws"):
        ppl.recover(in_turn, {}, mode=True, log_weights=True)
    with pytest.raises(TypeError, match="mode must be True or False"):
        ppl.recover(in_turn, {}, mode=1)  # pyright: ignore[reportArgumentType]


def test_impossible_data_have_no_mode():
    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
        return ppl.sample(key, dist.Uniform(0.0, 1.0 + z), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": 5.0}), ["z"])
    with pytest.raises(ValueError, match="y"):
        ppl.recover(summed, {}, mode=True)(KEY)
