"""from_numpyro: models of NumPyro, against NumPyro itself."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.infer.util as numpyro_util
import pytest

import ppl

from .numpyro_models import EXAMPLES


def example_of(name):
    """A model of NumPyro, its arguments, values of its sites, and the model of ours."""
    example = EXAMPLES[name]
    args = jax.tree.map(jnp.asarray, example.args)
    values = {site: jnp.asarray(x) for site, x in example.values.items()}
    return example.model, args, values, ppl.from_numpyro(example.model)


def log_densities(name, args, values):
    """The log densities of values and of positions, of ours and of NumPyro."""
    theirs, _, _, ours = example_of(name)
    found = [
        (
            ppl.log_density(ours)(values, *args),
            numpyro_util.log_density(theirs, args, {}, values)[0],
        )
    ]
    back = values
    if not EXAMPLES[name].is_discrete:
        unconstrained = ppl.unconstrain(ours, *args)
        position = unconstrained.unconstrain(values)
        energy = numpyro_util.potential_energy(theirs, args, {}, position)
        found.append((unconstrained.log_density(position), -energy))
        back = {site: unconstrained.constrain(position)[site] for site in values}
    return found, back


@pytest.mark.parametrize("name", EXAMPLES)
def test_densities_are_numpyros(x64, name):
    _, args, values, _ = example_of(name)
    found, back = jax.jit(log_densities, static_argnums=0)(name, args, values)
    for ours, theirs in found:
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-7), back, values)
