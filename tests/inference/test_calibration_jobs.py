"""calibrate under an executor and with a folder: the same bits, what is compared, named errors."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from tests.inference.test_executors import Pickling, exact, model
from tests.inference.test_pooled_fits import Failing

POOLED = {"num_warmup": 40, "num_draws": 40, "num_chains": 1}


def other(key, posterior, scale, data):
    return {"mu": exact(key, posterior, scale, data)["mu"] + 1}


def scaled(key, posterior, scale, data, size=1.0):
    return {"mu": size * exact(key, posterior, scale, data)["mu"]}


class Unknown:
    pass


def wider(key, scale):
    return model(key, 2 * scale)


def importance(key, posterior, scale):
    return inference.importance(key, posterior, scale, num_draws=200)


def calibrate(fit=exact, of=model, seed=3, scale=1.0, **given):
    given = {"observed": ["y"], "num_simulations": 12} | given
    return inference.calibrate(jax.random.key(seed), of, scale, fit=fit, **given)


def same(one, two):
    np.testing.assert_array_equal(one.ranks, two.ranks)
    assert [one.names, one.num_divergent] == [two.names, two.num_divergent]


@pytest.mark.parametrize(("fit", "given"), [(inference.mcmc, POOLED), (importance, {})])
def test_fits_have_the_same_bits_anywhere_and_go_on(tmp_path, fit, given):
    alone = calibrate(fit, **given)
    same(calibrate(fit, executor=Pickling(), **given), alone)
    with pytest.raises(RuntimeError, match=r"^calibrate: the fit to simulation 5 failed: Memory"):
        calibrate(fit, executor=Failing(5), checkpoint=tmp_path, **given)
    executor = Failing(None)
    same(calibrate(fit, executor=executor, checkpoint=tmp_path, **given), alone)
    assert executor.count + 1 == 7
    more: Any = given | {"quantities": {"square": lambda values, data: values["mu"] ** 2}}
    same(calibrate(fit, checkpoint=tmp_path, **more), calibrate(fit, **more))


OTHERS = {
    "key": ({"seed": 4}, "key: the run has"),
    "number": ({"num_simulations": 13}, "num_simulations: the run has 12, the call 13"),
    "argument": ({"scale": 2.0}, r"argument 0 \(scale\): the run has"),
    "model": ({"of": wider}, "the model's program: the run has"),
    "fit": ({"fit": other}, "fit: the run has 'scaled', the call 'other'"),
    "setting": ({"size": 2.0}, "size of fit: the run has 1.0, the call 2.0"),
}


def test_another_call_is_refused_and_said(tmp_path):
    whole = calibrate(scaled, size=1.0, checkpoint=tmp_path)
    for changed, words in OTHERS.values():
        given = {"fit": scaled, "size": 1.0} | changed
        if given["fit"] is other:
            del given["size"]
        with pytest.raises(ValueError, match=f"is the folder of another run(.|\n)*{words}"):
            calibrate(**given, checkpoint=tmp_path)
    same(calibrate(scaled, size=1.0, checkpoint=tmp_path), whole)


def fit_by(shift):
    """A fit whose code is the only difference from another."""
    if shift:
        return lambda key, posterior, scale, data: other(key, posterior, scale, data)
    return lambda key, posterior, scale, data: exact(key, posterior, scale, data)


def test_the_code_of_a_fit_is_compared(tmp_path):
    calibrate(fit_by(0), checkpoint=tmp_path)
    calibrate(fit_by(0), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differ:\n  the fit's program: the run has"):
        calibrate(fit_by(1), checkpoint=tmp_path)


class Pair(NamedTuple):
    one: Any
    two: Any


def sized(key, n):
    of_pair = dist.Joint(Pair(dist.Normal(0.0, 1.0), dist.Exponential(1.0)))
    pair = ppl.sample(key, of_pair, name="pair")
    return ppl.sample(key, dist.Normal(pair.one * jnp.ones(n), 1.0 + pair.two), name="y")


def of_pairs(key, posterior, n, data):
    draws = jax.random.normal(key, (50,))
    return {"pair": Pair(draws, jnp.exp(draws))}


def test_simulated_values_are_compared_and_structures_kept(tmp_path):
    given: dict[str, Any] = {"fit": of_pairs, "of": sized, "scale": 3, "num_simulations": 2}
    given["checkpoint"] = tmp_path
    whole = calibrate(**given)
    (tmp_path / "jobs.1.npz").unlink()
    same(calibrate(**given), whole)
    same(calibrate(**given), whole)
    with (
        jax.threefry_partitionable(False),
        pytest.raises(ValueError, match="differ:\n  simulated values: the run has"),
    ):
        calibrate(**given)


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"^calibrate: size of fit: <.*Unknown object> cannot be"):
        calibrate(scaled, size=Unknown(), checkpoint=tmp_path)


def test_what_has_no_jobs_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^calibrate: checkpoint is for fits .* vectorized=False"):
        calibrate(vectorized=True, checkpoint=tmp_path)


@pytest.mark.slow
def test_observed_data_and_the_result_are_compared(tmp_path):
    y = jnp.linspace(-1.0, 1.0, 9)
    posterior = ppl.condition(model, {"y": y})
    few = {"num_warmup": 100, "num_draws": 200, "num_chains": 2, "progress": False}
    fits = [inference.mcmc(jax.random.key(i), posterior, 1.0, **few) for i in range(2)]
    given = {"num_simulations": 3, "checkpoint": tmp_path, **POOLED}
    calibrate(inference.mcmc, observed={"y": y}, result=fits[0], **given)
    with pytest.raises(ValueError, match="differ:\n  result: the run has"):
        calibrate(inference.mcmc, observed={"y": y}, result=fits[1], **given)
    with pytest.raises(ValueError, match="differ:\n  data of observed: the run has"):
        calibrate(inference.mcmc, observed={"y": y + 1}, result=fits[0], **given)
