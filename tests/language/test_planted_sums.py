"""plant and handle of marginalized models: values as in the model before, and no density."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl
from ppl.harvest import handle, plant, sown

from .checks import assert_equal

KEY = jax.random.key(3)


def model(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(3.0 * z, 1.0), name="x")
    ppl.factor(-0.5 * (x - z) ** 2, name="f")
    y = ppl.sample(key, dist.Normal(x, 1.0), name="y")
    return {"z": z, "x": x, "y": y}


SUMMED = ppl.marginalize(model, ["z"])
INTEGRATED = ppl.marginalize(model, {"x": ppl.Gaussian()})


def planted(model, values):
    return lambda key: plant(model, tag="random")(values, key)


def handled(model, values):
    def replace(k, value, path):
        return k(jnp.asarray(values.get(path[-1], value), value.dtype))

    return lambda key: handle(model, {sown("random"): replace})(key)


@pytest.mark.parametrize("replaced", [planted, handled])
@pytest.mark.parametrize(
    ("taken", "values"),
    [(SUMMED, {"x": 2.0}), (SUMMED, {"x": 2.0, "y": 0.5}), (INTEGRATED, {"z": 1, "y": 3.0})],
)
def test_replaced_values_are_those_of_the_model_before(replaced, taken, values):
    found = replaced(taken, values)
    assert_equal(found(KEY), replaced(model, values)(KEY))
    with pytest.raises(ValueError, match=r"is scored at .*whose values harvest's plant or handle"):
        ppl.log_density(found)({})
    assert not set(values) & set(ppl.graph(found)().nodes)


def test_observed_values_are_replaced_too():
    data = ppl.condition(SUMMED, {"y": 0.5})
    assert planted(data, {"y": 3.0})(KEY)["y"] == 3.0
    with pytest.raises(ValueError, match="scored at 'x', 'y', whose values"):
        ppl.log_density(planted(data, {"y": 3.0}))({})


def test_what_is_taken_out_has_no_value_to_replace():
    with pytest.raises(ValueError, match=r"'z': no sow has this name. Use one of: 'x', 'y'."):
        planted(SUMMED, {"z": 1})(KEY)


def test_what_is_taken_out_is_recovered_given_replaced_values():
    keys = jax.random.split(KEY, 4000)
    draws = jax.vmap(ppl.recover(planted(SUMMED, {"x": 2.0}), {}))(keys)["z"]
    weights = np.array([0.7, 0.3]) * stats.norm.pdf(2.0, [0.0, 3.0]) * np.exp([-2.0, -0.5])
    share = weights[1] / weights.sum()
    # Five standard errors: a failure rate of 6e-7.
    assert abs(np.mean(draws) - share) < 5 * np.sqrt(share * (1 - share) / 4000)
