"""The model of the table of joints in PyMC."""

# pyright: reportMissingImports=false

from collections.abc import Callable
from typing import Any

import pymc as pm

import ppl
from tests.joints.oracle import P, V, X, Y


def pymc_model(*, has_sum: bool, has_data: bool) -> Callable[[Any, Any], Any]:
    """The model through the door, of a key and of x, with data by `observed=` or without."""
    with pm.Model() as model:
        x = pm.Data("x", X)
        mu = pm.Normal("mu", 0.0, 2.0)
        b = pm.LogNormal("b", 0.3 * mu, 0.5)
        w = pm.Normal("w", mu, 1.0, shape=3)
        pm.Normal("v", w + b * x, 0.5, observed=V if has_data else None)
        if has_sum:
            z = pm.Bernoulli("z", P, shape=4)
            pm.Normal("y", mu + 2.0 * z, 1.0, observed=Y if has_data else None)
    door = ppl.from_pymc(model)
    return lambda key, x: door(key, {"x": x})
