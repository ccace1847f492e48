"""The model of the table of joints in NumPyro."""

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as npd

import ppl
from tests.joints.oracle import P, V, Y


def numpyro_model(*, has_sum: bool, has_data: bool) -> Any:
    """The model through the door, with data by `obs=` or without."""

    def data_of(x: Any) -> Any:
        # Of lists: JAX keeps the dtype that an array of NumPy had in the other precision.
        return jnp.array(x.tolist()) if has_data else None

    def model(x: Any) -> None:
        mu = numpyro.sample("mu", npd.Normal(0.0, 2.0))
        b = numpyro.sample("b", npd.LogNormal(0.3 * mu, 0.5))
        with numpyro.plate("row", 3):
            w = numpyro.sample("w", npd.Normal(mu, 1.0))
            numpyro.sample("v", npd.Normal(w + b * x, 0.5), obs=data_of(V))
        if has_sum:
            with numpyro.plate("case", 4):
                z = numpyro.sample("z", npd.Bernoulli(P))
                numpyro.sample("y", npd.Normal(mu + 2.0 * z, 1.0), obs=data_of(Y))

    return ppl.from_numpyro(model)
