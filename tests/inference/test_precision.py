"""Matrices are multiplied in full precision, whatever is fast on an accelerator."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl

X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
RUNS = {
    "mcmc": lambda m: inference.mcmc(jax.random.key(0), m, X, num_warmup=20, num_draws=10),
    "pathfinder": lambda m: inference.pathfinder(jax.random.key(0), m, X),
    "laplace": lambda m: inference.laplace(jax.random.key(0), m, X),
    "optimize": lambda m: inference.optimize(jax.random.key(0), m, X),
    "importance": lambda m: inference.importance(jax.random.key(0), m, X, num_draws=100),
    "svi": lambda m: inference.svi(jax.random.key(0), m, X, num_steps=10),
    "svgd": lambda m: inference.svgd(jax.random.key(0), m, X, num_particles=4, num_steps=3),
}


def regression(seen):
    """A regression, and the precisions of its product in the programs that run it."""

    def model(key, x):
        w = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="w")
        (product,) = (
            e for e in jax.make_jaxpr(lambda: x @ w)().eqns if e.primitive.name == "dot_general"
        )
        seen.append(str(product.params["precision"]))
        ppl.sample(key, dist.Normal(x @ w, 1.0), name="y")

    return ppl.condition(model, {"y": jnp.ones(20)})


@pytest.mark.quick_rows("mcmc", "svi")
@pytest.mark.parametrize("name", RUNS)
def test_products_are_in_full_precision_unless_another_is_chosen(name):
    seen = []
    RUNS[name](regression(seen))
    assert any("HIGHEST" in precision for precision in seen)
    chosen = []
    with jax.default_matmul_precision("tensorfloat32"):
        RUNS[name](regression(chosen))
    are_full = ["HIGHEST" in precision for precision in chosen]
    assert not all(are_full)
    # The weights that judge a fitted guide are in full precision all the same.
    assert any(are_full) == (name in ("svi", "laplace", "pathfinder"))
