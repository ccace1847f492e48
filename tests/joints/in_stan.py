"""The model of the table of joints in Stan."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ppl
from tests.joints.oracle import V

PROGRAM = """
data {
  vector[3] x;
  vector[3] v;
}
parameters {
  real mu;
  real<lower=0> b;
  vector[3] w;
}
model {
  target += normal_lpdf(mu | 0, 2);
  target += lognormal_lpdf(b | 0.3 * mu, 0.5);
  target += normal_lpdf(w | mu, 1);
  target += normal_lpdf(v | w + b * x, 0.5);
}
"""


def stan_model(x: Any) -> Any:
    """The program with its data through the door; for each row of x, if it has two axes."""
    if np.ndim(x) == 2:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(stan_model, x))
    return ppl.from_stan(PROGRAM, {"x": np.asarray(x), "v": V})
